#!/usr/bin/env bash
# `make bench-pressure`: what a quiet node pays for eviction and the managers, and how soon a pod ends once memory or a disk
# has come below its threshold. One line a figure.
#
#   scripts/bench-pressure.sh
#
# PODWRIGHT=<file>             measures this executable
# KUBEBUILDER_ASSETS=<folder>  etcd, kube-apiserver and kubectl: only pods of an API server are evicted; without it, the
#                              quiet node alone is measured
# STEADY=<seconds>             the length of a window in which two quiet nodes are watched (default 30)
# WINDOWS=<number>             how many of them (default 20)
# ROUNDS=<number>              evictions of each kind (default 20)
# ONLY=idle|memory|disk        measures that alone
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=scripts/bench-lib.sh
. scripts/bench-lib.sh

STEADY=${STEADY:-30}
WINDOWS=${WINDOWS:-20}
ROUNDS=${ROUNDS:-20}
PODS=30        # on the quiet node
AWAY_MIB=1024  # from the threshold to what is there before a pod begins to write
WRITE_MIB=1536 # what it would write
DISK_MIB=4096  # the node's file system
# As systemd has it on a node. Where there are few process IDs, eviction looks every few seconds.
PIDS_MAX=4194304
dir=$PWD/target/bench/p$$ agent="" node=bench socket_flag=() pids_before=""

measures() { [ "${ONLY:-$1}" = "$1" ]; }
# Time on a processor so far, of all threads; finer than the clock's steps.
processor_ns() { awk '{ sum += $1 } END { printf "%d\n", sum }' "/proc/$1"/task/*/schedstat; }
micros() { echo "${EPOCHREALTIME/[.,]/}"; }

clean_up() {
    local status=$?
    trap '' INT TERM
    set +e
    rm -f "$dir"/manifests/*
    [ -e "$dir/env" ] && stop_environment "$dir"
    [ -z "$pids_before" ] || echo "$pids_before" >/proc/sys/kernel/pid_max
    exit "$status"
}

# The run's configuration with other values for some of its settings.
configure() { # LINES
    local key drop=()
    while read -r key; do
        # A setting goes with the lines that are indented under it.
        drop+=(-e "/^$key:/,/^[^ ]/{/^$key:/d;/^ /d}")
    done < <(sed -n 's/^\([a-zA-Z]*\):.*/\1/p' <<<"$1")
    { write_agent_config "$dir" | sed "${drop[@]}" && echo "$1"; } >"$dir/kubelet.yaml"
}

# shellcheck disable=SC2034  # both are named below
ON='cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: best-effort
systemReserved: {cpu: 500m, memory: 200Mi}
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, nodefs.inodesFree: 1%, imagefs.available: 1%, pid.available: 1%}
evictionSoft: {memory.available: 60Mi}
evictionSoftGracePeriod: {memory.available: 30s}
reservedMemory: [{numaNode: 0, limits: {memory: 250Mi}}]'
# shellcheck disable=SC2034
OFF='enforceNodeAllocatable: ["none"]
localStorageCapacityIsolation: false
evictionHard: {memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}'

write_pods() {
    local number
    for number in $(seq "$PODS"); do
        cat >"$dir/manifests/quiet-$number.json" <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"quiet-$number","namespace":"default"},"spec":{"terminationGracePeriodSeconds":1,
"volumes":[{"name":"scratch","emptyDir":{"sizeLimit":"1Gi"}}],
"containers":[{"name":"c","image":"$IMAGE_CLIENT","imagePullPolicy":"IfNotPresent","command":["sleep","100000"],
"volumeMounts":[{"name":"scratch","mountPath":"/scratch"}]}]}}
YAML
    done
}
wait_for() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || die "gave up waiting for: $*"
        sleep 0.2
    done
}

# One node of the two: its windows begin when those of the other do. Each prints processor time a minute in microseconds, the
# last line private memory in KiB.
watch_quiet() { # ON|OFF
    local before
    configure "${!1}"
    start_agent "$PODWRIGHT"
    write_pods
    wait_for 300 runs_exactly $((PODS * 2))
    sleep 30
    for _ in $(seq "$WINDOWS"); do
        until [ $((EPOCHSECONDS % (STEADY + 2))) = 0 ]; do sleep 0.1; done
        before=$(processor_ns "$agent")
        sleep "$STEADY"
        echo $((($(processor_ns "$agent") - before) * 60 / STEADY / 1000))
    done
    private_kib "$agent"
    rm -f "$dir"/manifests/*
    wait_for 300 runs_exactly 0
    end_agent
}

# Two nodes side by side, for what else happens on a machine moves either by more than what is looked for.
measure_idle() {
    local name nodes=()
    read -r pids_before </proc/sys/kernel/pid_max
    [ "$pids_before" -ge "$PIDS_MAX" ] || echo "$PIDS_MAX" >/proc/sys/kernel/pid_max
    for name in ON OFF; do
        ONLY=$name PODWRIGHT=$PODWRIGHT "$0" >"$dir/quiet.$name" &
        nodes+=($!)
    done
    wait "${nodes[0]}" && wait "${nodes[1]}" || die "a quiet node could not be watched"
    for name in ON OFF; do
        figure "quiet node, $PODS pods, all $name: processor time a minute" "$(head -n -1 "$dir/quiet.$name" | median)" us
        figure "quiet node, $PODS pods, all $name: private memory" "$(tail -n 1 "$dir/quiet.$name")" KiB
    done
    figure "all on against all off in the same window (median of $WINDOWS)" "$(paste "$dir"/quiet.{ON,OFF} | head -n -1 |
        awk '{ printf "%.3f\n", $1 / $2 }' | median)" ""
}

# Memory, or space on the node's disk, that is left in MiB, as the agent counts it.
memory_mib() {
    local used=0 key value cgroup=/sys/fs/cgroup
    if [ -e $cgroup/memory/memory.usage_in_bytes ]; then
        cgroup=$cgroup/memory
        read -r used <$cgroup/memory.usage_in_bytes
    fi
    while read -r key value; do
        case $key in
        anon | file) used=$((used + value)) ;; # the root of version 2 has no use of its own
        inactive_file | total_inactive_file) inactive=$value ;;
        esac
    done <$cgroup/memory.stat
    there=$((TOTAL_KIB / 1024 - (used - inactive) / 1048576))
}
disk_mib() { there=$(stat -f -c '%a * %S / 1048576' "$dir/kubelet") && there=$((there)); }

# A pod that waits for a word, and then writes into its volume; its first signal ends it.
writer() { # MEDIUM NAME
    cat <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"$2","namespace":"default"},"spec":{"nodeName":"$node",
"terminationGracePeriodSeconds":30,"automountServiceAccountToken":false,"volumes":[{"name":"v","emptyDir":{$1}},
{"name":"word","hostPath":{"path":"$dir/word"}}],
"containers":[{"name":"c","image":"$IMAGE_CLIENT","imagePullPolicy":"IfNotPresent",
"resources":{"requests":{"memory":"1Mi"}},
"command":["sh","-c","trap exit TERM; until [ -e /word/$2 ]; do sleep 0.05; done; dd if=/dev/zero of=/v/file bs=1048576 count=$WRITE_MIB & wait; sleep 100000 & wait"],
"volumeMounts":[{"name":"v","mountPath":"/v"},{"name":"word","mountPath":"/word"}]}]}}
YAML
}

# From the moment at which less is there than the threshold says to the end of the container's process, in milliseconds.
reaction() { # LOOK THRESHOLD PID
    local look=$1 threshold=$2 pid=$3 crossed inactive end=$((SECONDS + 60)) there=0
    while $look && [ "$there" -ge "$threshold" ]; do
        [ "$SECONDS" -lt "$end" ] || die "what the pod wrote did not reach the threshold: $there of $threshold MiB"
    done
    crossed=$(micros)
    while [ -e "/proc/$pid/exe" ]; do
        [ "$SECONDS" -lt "$end" ] || die "the pod was not evicted within a minute"
        sleep 0.002
    done
    echo $((($(micros) - crossed) / 1000))
}

measure_evictions() { # SIGNAL LOOK MEDIUM
    local signal=$1 look=$2 medium=$3 round threshold name pid inactive there=0
    for round in $(seq "$ROUNDS"); do
        name=writer-$round
        $look
        threshold=$((there - AWAY_MIB))
        configure "evictionHard: {$signal: ${threshold}Mi}
evictionPressureTransitionPeriod: 1s
enforceNodeAllocatable: [\"none\"]"
        start_agent "$PODWRIGHT" --kubeconfig "$dir/cluster/pki/kubelet.conf"
        kubectl_ wait node/"$node" --for=create --timeout=60s >/dev/null
        kubectl_ wait node/"$node" --for=condition=Ready --timeout=60s >/dev/null
        kubectl_ taint node "$node" node.kubernetes.io/not-ready- >/dev/null 2>&1 || true
        writer "$medium" "$name" | kubectl_ create -f - >/dev/null
        kubectl_ wait pod "$name" --for=condition=Ready --timeout=60s >/dev/null
        pid=$(ctr_ tasks ls | awk -v id="$(ctr_ containers ls -q 'labels."io.kubernetes.container.name"==c')" '$1 == id { print $2 }')
        # At another moment between two looks each time.
        sleep "$((3 + round % 5)).$((round * 7 % 10))"
        touch "$dir/word/$name"
        reaction "$look" "$threshold" "$pid" >>"$dir/reaction.$signal"
        kubectl_ wait pod "$name" --for=jsonpath='{.status.reason}'=Evicted --timeout=60s >/dev/null
        kubectl_ delete pod "$name" --timeout=60s >/dev/null
        wait_for 60 runs_exactly 0
        end_agent
    done
    figure "$signal: from the threshold to the pod's end (median of $ROUNDS)" "$(median <"$dir/reaction.$signal")" ms
    figure "the slowest" "$(sort -n "$dir/reaction.$signal" | tail -n 1)" ms
}

main() {
    is_root || die "only root can start containers"
    check_rust
    install_packages
    if [ -z "${PODWRIGHT:-}" ]; then
        cargo build --release --locked --bin podwright
        PODWRIGHT=$PWD/target/release/podwright
    fi
    TOTAL_KIB=$(awk '$1 == "MemTotal:" { print $2 }' /proc/meminfo)
    choose_socket "$PODWRIGHT" "$dir/kubelet/podwright.sock"
    trap clean_up EXIT
    trap 'exit 130' INT TERM
    mkdir -p "$dir"/{manifests,kubelet,cluster,word}
    ! measures idle || measure_idle
    case ${ONLY:-} in
    idle) return ;;
    ON | OFF) ;;
    *) [ -n "${KUBEBUILDER_ASSETS:-}" ] || return 0 ;;
    esac
    OWNER=$$ setsid -w scripts/testenv.sh start "$dir"
    load_env "$dir"
    case ${ONLY:-} in ON | OFF)
        watch_quiet "$ONLY"
        return
        ;;
    esac
    export KUBEBUILDER_ASSETS
    mount -t tmpfs -o mode=0700 cluster "$dir/cluster"
    setsid -w scripts/cluster.sh start "$dir" "$node"
    ! measures memory || measure_evictions memory.available memory_mib '"medium":"Memory"'
    if measures disk; then
        truncate -s "${DISK_MIB}M" "$dir/disk"
        mkfs.ext4 -q -m 0 "$dir/disk"
        mount -o loop "$dir/disk" "$dir/kubelet"
        measure_evictions nodefs.available disk_mib ''
    fi
}

main "$@"
