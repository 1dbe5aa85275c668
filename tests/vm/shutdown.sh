#!/bin/bash
# Runs in a virtual machine, as root: the machine is powered off and comes back. Pods of three priorities end in their turn,
# each within its time, while logind waits for the agent (NODE-42 to NODE-48). Before that the bus restarts, and a shutdown
# does not come about.
# shellcheck source=tests/vm/common.sh
. "$NODE_VM_FILES/common.sh"

RECORD=/srv/record
# The checks of the first boot.
COUNTS=/srv/counts

# A pod that writes when it runs and when it was told to end; NAME PRIORITY, and the seconds that its end takes.
recorder() { # NAME PRIORITY SECONDS
    cat >"$MANIFESTS/$1.yaml" <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"$1","namespace":"default"},"spec":{"priority":$2,
"terminationGracePeriodSeconds":60,"volumes":[{"name":"record","hostPath":{"path":"$RECORD"}}],
"containers":[{"name":"$1","image":"localhost/podwright/client:1","imagePullPolicy":"IfNotPresent",
"command":["sh","-c","trap 'echo $1 asked >> /record/ends; sleep $3; echo $1 ended >> /record/ends; sync; exit 0' TERM; echo $1 >> /record/runs; while true; do sleep 0.2; done"],
"volumeMounts":[{"name":"record","mountPath":"/record"}]}]}}
YAML
}

line_of() { grep -nx "$1" $RECORD/ends | cut -d: -f1; }
comes_before() { [ -n "$(line_of "$1")" ] && [ -n "$(line_of "$2")" ] && [ "$(line_of "$1")" -lt "$(line_of "$2")" ]; }
inhibits() { systemd-inhibit --list --no-legend | grep kubelet | grep shutdown | grep -q delay; }
# The two metrics of the last shutdown that have a time of this century.
times_in_metrics() { podwright debug-bundle - | tar -xzO --wildcards '*metrics.txt' | grep -cE '^kubelet_graceful_shutdown_(start|end)_time_seconds [1-9]'; }
delay_max() { busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager InhibitDelayMaxUSec; }

bus_restarts() {
    local before
    echo "--- the bus restarts"
    before=$(containers)
    check "the bus and logind restart" systemctl restart dbus systemd-logind
    check "the agent takes its lock again" within 120 inhibits
    check "no container was touched" is "$(containers)" "$before"
}

# logind looks at the target before it waits for locks, and cannot start it once it is masked.
shutdown_is_cancelled() {
    echo "--- a shutdown that is cancelled"
    systemctl reboot
    check "the first pod is asked to end" within 60 grep -qx "low asked" $RECORD/ends
    systemctl mask --quiet --runtime reboot.target
    check "all pods end" within 200 grep -qx "high ended" $RECORD/ends
    check "the agent hears that the machine stays up" within 60 journal_says "Shutdown manager detected shutdown cancellation"
    check "the pods run again" within 300 eval '[ "$(wc -l < $RECORD/runs)" = 6 ]'
    check "they are Ready again" within 120 pods_ready 3
    check "the agent takes its lock again" within 60 inhibits
    systemctl unmask --quiet --runtime reboot.target
    rm $RECORD/ends
    sort -u -o $RECORD/runs $RECORD/runs
}

first_boot() {
    install_as_shipped
    configure systemd
    sed -i '/^shutdownGracePeriod/d' "$CONFIG"
    cat >>"$CONFIG" <<'YAML'
shutdownGracePeriodByPodPriority:
- {priority: 0, shutdownGracePeriodSeconds: 60}
- {priority: 1000, shutdownGracePeriodSeconds: 40}
- {priority: 100000, shutdownGracePeriodSeconds: 20}
YAML
    mkdir -p $RECORD
    systemctl enable --quiet podwright
    recorder low 0 4
    recorder middle 1000 3
    recorder high 100000 1
    check "the unit starts" systemctl start podwright
    check "logind waits as long as all pods may take" within 60 eval 'is "$(delay_max)" "t 120000000"'
    check "the agent holds a lock that delays a shutdown" within 60 inhibits
    check "three pods run" within 300 eval '[ "$(sort -u $RECORD/runs | wc -l)" = 3 ]'
    check "they are Ready" within 120 pods_ready 3
    bus_restarts
    shutdown_is_cancelled
    echo "--- the machine goes down"
    echo "$passed $failed" >$COUNTS
    sync
    trap - EXIT
    systemctl reboot
    sleep 1000
}

second_boot() {
    read -r passed failed <$COUNTS
    echo "--- the machine is back"
    cat $RECORD/ends
    for name in low middle high; do
        check "the pod $name was asked to end, and had its time" comes_before "$name asked" "$name ended"
    done
    check "those of low priority end first" comes_before "low ended" "middle asked"
    check "those of high priority end last" comes_before "middle ended" "high asked"
    check "a file says when the shutdown began and ended" eval \
        '! grep -q 0001-01-01 /var/lib/kubelet/graceful_node_shutdown_state && grep -q endTime /var/lib/kubelet/graceful_node_shutdown_state'
    check "the agent said that it was done" eval 'is "$(journalctl -b -1 -u podwright | grep -c "completed processing shutdown event")" 2'
    check "the agent starts with the machine" within 120 healthy
    check "its metrics say when that shutdown was" within 60 eval 'is "$(times_in_metrics)" 2'
    check "the pods run again" within 300 eval '[ "$(wc -l < $RECORD/runs)" = 6 ]'
    check "they are Ready again" within 120 pods_ready 3
    check "the next shutdown is delayed, too" within 60 inhibits
}

cd "$NODE_VM_FILES" || exit 1
trap finish EXIT
if [ "$NODE_VM_BOOT" = 1 ]; then
    first_boot
else
    second_boot
    rm -f "$MANIFESTS"/*
    check "pods without a manifest are removed" within 300 nothing_runs
    check "the unit stops" systemctl stop podwright
fi
