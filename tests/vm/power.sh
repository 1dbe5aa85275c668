#!/bin/bash
# Runs in a virtual machine, as root: the machine loses its power again and again, each time a little later after the start
# of its agent, while pods come, change and go. Each time all is lost that the kernel had not written.
# shellcheck source=tests/vm/common.sh
. "$NODE_VM_FILES/common.sh"

LOSSES=$(cat "$NODE_VM_FILES/losses" 2>/dev/null || echo 50)
# From one loss to the next the moment moves by so much.
STEP_MS=400
COUNTS=/srv/counts

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

# The word of the pod that runs.
runs_with() { # NAME WORD
    local id
    id=$(ctr_ containers ls -q "labels.\"io.kubernetes.pod.name\"==$1-node-vm,labels.\"io.kubernetes.container.name\"==c")
    [ "$(wc -w <<<"$id")" = 1 ] && ctr_ containers info "$id" | grep -q "WORD=$2\""
}

first_boot() {
    install_as_shipped
    configure systemd
    systemctl enable --quiet podwright
    pod steady always
    systemctl start podwright
    check "a pod is Ready before the first loss" within 300 pods_ready 1
    echo 0 0 >$COUNTS
    lose
}

# Everything that is written once must be so for good; what changes meanwhile may be lost.
lose() {
    echo "$passed $failed" >$COUNTS
    sync
    trap - EXIT
    pod "changing" "boot-$NODE_VM_BOOT"
    if [ $((NODE_VM_BOOT % 2)) = 0 ]; then pod coming "boot-$NODE_VM_BOOT"; else rm -f "$MANIFESTS/coming.yaml"; fi
    sleep "$(awk "BEGIN { print $NODE_VM_BOOT * $STEP_MS / 1000 }")"
    echo b >/proc/sysrq-trigger
    sleep 1000
}

last_boot() {
    echo "--- after $LOSSES losses"
    pod changing at-last
    rm -f "$MANIFESTS/coming.yaml"
    check "health answers" within 120 healthy
    check "the pod that was always wanted is Ready" within 300 runs_with steady always
    check "the one that changed is as it was written last" within 300 runs_with changing at-last
    check "both are Ready" within 300 pods_ready 2
    check "each runs once: two sandboxes, two containers" within 300 eval 'is "$(count_running)" 4'
    check "nothing of other pods is left" within 300 eval 'is "$(ctr_ containers ls -q | wc -l)" 4'
    check "nor of their directories" within 300 eval 'is "$(ls /var/lib/kubelet/pods | wc -l)" 2'
    check "the agent did not fail in any boot" eval '! journalctl -u podwright | grep -E "panicked|actor failed"'
    rm -f "$MANIFESTS"/*
    check "pods without a manifest are removed" within 300 nothing_runs
}

cd "$NODE_VM_FILES" || exit 1
trap finish EXIT
if [ "$NODE_VM_BOOT" = 1 ]; then
    first_boot
fi
read -r passed failed <$COUNTS
if [ "$NODE_VM_BOOT" -le "$LOSSES" ]; then
    lose
fi
last_boot
