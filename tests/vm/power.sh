#!/bin/bash
# Runs in a virtual machine, as root: the machine loses its power again and again, each time a little later after the start
# of its agent, while pods come, change and go. Each time all is lost that the kernel had not written.
# shellcheck source=tests/vm/common.sh
. "$NODE_VM_FILES/common.sh"

LOSSES=$(cat "$NODE_VM_FILES/losses" 2>/dev/null || echo 50)
# From one loss to the next the moment moves by so much.
STEP_MS=400
COUNTS=/srv/counts
# How often the power was lost, and who takes it: a unit that starts with the agent.
LOST=/srv/lost
TAKER=/srv/power

pod() { # NAME WORD
    cat >"$MANIFESTS/.$1" <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"$1","namespace":"default"},"spec":{"terminationGracePeriodSeconds":1,
"volumes":[{"name":"scratch","emptyDir":{}}],
"containers":[{"name":"c","image":"localhost/podwright/client:1","imagePullPolicy":"IfNotPresent",
"env":[{"name":"WORD","value":"$2"}],
"command":["sh","-c","echo \$WORD > /scratch/word; exec sleep 100000"],
"volumeMounts":[{"name":"scratch","mountPath":"/scratch"}]}]}}
YAML
    mv "$MANIFESTS/.$1" "$MANIFESTS/$1.yaml"
}

running_ids() { ctr_ tasks ls | awk '$3 == "RUNNING" { print $1 }'; }
# Of the containers of a pod one runs, and it has the word.
runs_with() { # NAME WORD
    local ids
    ids=$(ctr_ containers ls -q "labels.\"io.kubernetes.pod.name\"==$1-node-vm,labels.\"io.kubernetes.container.name\"==c" |
        grep -xF -f <(running_ids))
    [ "$(wc -w <<<"$ids")" = 1 ] && ctr_ containers info "$ids" | grep -q "WORD=$2\""
}
# The pods of which the runtime has something, by their UIDs: of one that was started anew also the container before.
pods_in_the_runtime() {
    local id
    for id in $(ctr_ containers ls -q); do ctr_ containers info "$id"; done | grep -o '"io.kubernetes.pod.uid": "[^"]*"' | sort -u | wc -l
}

first_boot() {
    install_as_shipped
    configure systemd
    # Each loss leaves a broken journal, and none of them may give way to a newer one.
    printf '[Journal]\nSystemMaxUse=1G\n' >/etc/systemd/journald.conf.d/power.conf
    mkdir -p $TAKER
    cp "$NODE_VM_FILES"/{common.sh,losses} $TAKER/
    cp "$0" $TAKER/power.sh
    cat >/etc/systemd/system/power-loss.service <<UNIT
[Unit]
After=containerd.service network-online.target
Before=podwright.service
[Service]
Type=exec
Environment=NODE_VM_FILES=$TAKER
ExecStart=/bin/bash $TAKER/power.sh lose
[Install]
WantedBy=multi-user.target
UNIT
    systemctl daemon-reload
    systemctl enable --quiet podwright power-loss
    pod steady always
    systemctl start podwright
    check "a pod is Ready before the first loss" within 300 pods_ready 1
    echo 0 >$LOST
    echo "$passed $failed" >$COUNTS
    sync
    trap - EXIT
    echo b >/proc/sysrq-trigger
    sleep 1000
}

# Manifests that are written once must run for good; those that change meanwhile may be lost.
lose() {
    local lost moment
    lost=$(cat $LOST)
    [ "$lost" -lt "$LOSSES" ] || exit 0
    moment=$(awk "BEGIN { print $lost * $STEP_MS / 2000 }")
    echo $((lost + 1)) >$LOST
    sync
    sleep "$moment"
    pod changing "boot-$lost"
    if [ $((lost % 2)) = 0 ]; then pod coming "boot-$lost"; else rm -f "$MANIFESTS/coming.yaml"; fi
    sleep "$moment"
    if [ $((lost + 1)) = "$LOSSES" ]; then
        # The last one leaves the cache of CNI as some losses do.
        truncate -s 0 /var/lib/cni/results/*
        sync
    fi
    echo b >/proc/sysrq-trigger
}

last_boot() {
    read -r passed failed <$COUNTS
    echo "--- after $LOSSES losses"
    echo "boots in the journal: $(journalctl --list-boots | wc -l)"
    pod changing at-last
    rm -f "$MANIFESTS/coming.yaml"
    check "health answers" within 120 healthy
    check "the pod that was always wanted is Ready" within 300 runs_with steady always
    check "the one that changed is as it was written last" within 300 runs_with changing at-last
    check "both are Ready" within 300 pods_ready 2
    check "each runs once: two sandboxes, two containers" within 300 eval 'is "$(count_running)" 4'
    check "the agent names what the runtime cannot take down" journal_says "A sandbox from before the machine's boot stays"
    # As docs/operations.md says of what this Debian's runtime cannot read.
    check "there are empty files in the cache of CNI" eval 'find /var/lib/cni/results -type f -empty -print -delete | grep .'
    check "nothing of other pods is left" within 300 eval 'is "$(pods_in_the_runtime)" 2'
    check "nor of their directories" within 300 eval 'is "$(ls /var/lib/kubelet/pods | wc -l)" 2'
    check "nor of their logs" within 300 eval 'is "$(ls /var/log/pods | wc -l)" 2'
    check "no state file was damaged" eval '! find /var/lib/kubelet -name "*.corrupt" | grep .'
    check "the agent did not fail in any boot" eval '! journalctl -u podwright | grep -E "\"panic\"|actor failed|operation failed|turn does not end"'
    rm -f "$MANIFESTS"/*
    check "pods without a manifest are removed" within 300 nothing_runs
}

[ "${1:-}" != lose ] || { lose && exit; }
cd "$NODE_VM_FILES" || exit 1
trap finish EXIT
[ "$NODE_VM_BOOT" != 1 ] || first_boot
if [ "$(cat $LOST)" -lt "$LOSSES" ] || [ "$(systemctl is-active power-loss)" = active ]; then
    # The power goes soon.
    trap - EXIT
    sleep 1000
fi
last_boot
