#!/bin/bash
# Runs in a virtual machine of two NUMA nodes with two processors each, as root: containers with CPUs and memory of their
# own, processors and memory that go and come, and memory that runs short, all on cgroup version 2 with systemd's driver.
# shellcheck source=tests/vm/common.sh
. "$NODE_VM_FILES/common.sh"

# A pod that sleeps; NAME, then requests and limits as JSON.
sleeper() { # NAME RESOURCES
    cat >"$MANIFESTS/$1.yaml" <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"$1","namespace":"default"},"spec":{"terminationGracePeriodSeconds":1,
"containers":[{"name":"$1","image":"localhost/podwright/client:1","imagePullPolicy":"IfNotPresent",
"command":["sleep","100000"],"resources":$2}]}}
YAML
}
both() { echo "{\"requests\":$1,\"limits\":$1}"; }
has() { file_has "$(container_cgroup "$1")/$2" "$3"; } # CONTAINER FILE VALUE
explained() { podwright explain "default/$1" | grep -q "$2"; }

# Starts the unit anew with the shipped configuration and these lines.
restart_with() { # LINES [FLAGS]
    configure systemd
    printf '%s\n' "$1" >>"$CONFIG"
    mkdir -p /etc/systemd/system/podwright.service.d
    printf '[Service]\nExecStart=\nExecStart=/usr/bin/podwright --config=%s %s\n' "$CONFIG" "${2:-}" \
        >/etc/systemd/system/podwright.service.d/hardware.conf
    systemctl daemon-reload
    systemctl restart podwright && within 60 healthy
}

# CPUs and memory of their own, on one NUMA node (RES-23 to RES-38), as the kernel has them.
test_own_hardware() {
    local before
    echo "--- hardware of their own"
    check "the machine has two NUMA nodes" is "$(cat /sys/devices/system/node/online)" 0-1
    sed -i '/^systemReserved:/,/^  memory/d' deploy/config.yaml
    check "the agent starts with all managers" restart_with 'systemReserved: {cpu: "1", memory: 200Mi}
cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
reservedMemory:
- {numaNode: 0, limits: {memory: 150Mi}}
- {numaNode: 1, limits: {memory: 150Mi}}'
    sleeper loose '{"requests":{"cpu":"100m"}}'
    check "a pod without CPUs of its own runs" within 180 container_runs loose
    check "on all of them" has loose cpuset.cpus.effective 0-3
    sleeper own "$(both '{"cpu":"2","memory":"64Mi"}')"
    check "a pod that asks for two CPUs runs" within 180 container_runs own
    check "it has the two of one NUMA node" has own cpuset.cpus.effective 2-3
    check "and that node's memory" has own cpuset.mems.effective 1
    check "nothing slows it down" has own cpu.max 'max 100000'
    check "the other pod has the rest at once" within 30 has loose cpuset.cpus.effective 0-1
    sleeper late "$(both '{"cpu":"2","memory":"64Mi"}')"
    check "a pod that fits on no NUMA node is refused" within 60 explained late 'TopologyAffinityError\|Topology locality'
    rm -f "$MANIFESTS/late.yaml"
    before=$(containers)
    kill -KILL "$(agent_pid)"
    check "a killed agent is back" within 120 healthy
    check "no container was touched" is "$(containers)" "$before"
    check "each has its CPUs still" eval 'has own cpuset.cpus.effective 2-3 && has loose cpuset.cpus.effective 0-1'
    check "the state file says so" eval "grep -q '\"2-3\"' /var/lib/kubelet/cpu_manager_state"
    rm -f "$MANIFESTS/own.yaml"
    check "the CPUs are everybody's after the pod" within 120 has loose cpuset.cpus.effective 0-3
}

# Processors and memory go and come while the agent runs (KEP-3953): what all pods may have follows.
test_hotplug() {
    local all limit total
    echo "--- hotplug"
    systemctl stop podwright
    rm -f /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state
    check "the agent starts without managers" restart_with 'nodeStatusUpdateFrequency: 5s' --follow-machine-size
    all=$(cat /sys/fs/cgroup/kubepods.slice/cpu.weight)
    echo 0 >/sys/devices/system/cpu/cpu3/online
    check "a processor less, and pods have a smaller share" within 60 weight_is_below "$all"
    check "systemd has it, too" isnt "$(systemctl show -P CPUWeight kubepods.slice)" "$all"
    echo 1 >/sys/devices/system/cpu/cpu3/online
    check "it is back, and so is their share" within 60 file_has /sys/fs/cgroup/kubepods.slice/cpu.weight "$all"
    limit=$(cat /sys/fs/cgroup/kubepods.slice/memory.max) total=$(memory_kib)
    check "memory is taken away" set_slot offline
    check "and the machine has less" [ "$(memory_kib)" -lt "$total" ]
    total=$((total - $(memory_kib)))
    check "pods may have less by as much" within 60 file_has /sys/fs/cgroup/kubepods.slice/memory.max $((limit - total * 1024))
    check "it is given again" set_slot online_movable
    check "and so are the pods' limits" within 60 file_has /sys/fs/cgroup/kubepods.slice/memory.max "$limit"
    check "the pod runs on" container_runs loose
}
memory_kib() { awk '$1 == "MemTotal:" { print $2 }' /proc/meminfo; }
# The blocks of the slot: those that the kernel may give back.
set_slot() { # STATE
    local block done=1
    for block in /sys/devices/system/memory/memory*; do
        grep -qE 'Movable' "$block/valid_zones" || [ "$(cat "$block/state")" = offline ] || continue
        echo "$1" >"$block/state" && done=0
    done
    return $done
}
weight_is_below() { [ "$(cat /sys/fs/cgroup/kubepods.slice/cpu.weight)" -lt "$1" ]; }

# Memory runs short (EVI-34): the kernel wakes the agent. Pods from files are critical, so none of them goes.
test_memory() {
    echo "--- memory"
    systemctl stop podwright
    sed -i 's/memory.available: .*/memory.available: 400Mi/' deploy/config.yaml
    check "the agent starts" restart_with 'evictionPressureTransitionPeriod: 10s'
    check "it waits for the kernel to say that memory is short" agent_has_open /proc/pressure/memory
    check "and for the limits of its pods" agent_has_open /sys/fs/cgroup/kubepods.slice/memory.events
    # As much as leaves less than the threshold, and more than nothing.
    cat >"$MANIFESTS/greedy.yaml" <<'YAML'
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"greedy","namespace":"default"},"spec":{"terminationGracePeriodSeconds":1,
"containers":[{"name":"greedy","image":"localhost/podwright/client:1","imagePullPolicy":"IfNotPresent",
"command":["busybox","awk","BEGIN { for (i = 0; i < 155; i++) kept[i] = sprintf(\"%8000000s\", \"\"); while (1) system(\"sleep 100\") }"]}]}}
YAML
    check "the agent sees that little is left" within 300 journal_says 'reason="EvictionThresholdMet"'
    check "it names no pod from a file" within 60 journal_says 'no pods are active to evict'
    check "they all run on" eval 'container_runs greedy && container_runs loose'
    rm -f "$MANIFESTS/greedy.yaml"
    check "the pod ends with its manifest" within 120 eval '! container_runs greedy'
    sleeper after '{}'
    check "a new pod comes once the pressure is over" within 180 container_runs after
}
# By the files' own names: a cgroup's file has no path among the open files of a process in another mount namespace.
agent_has_open() { find "/proc/$(agent_pid)/fd" -lname "$1" | grep -q .; }

cd "$NODE_VM_FILES" || exit 1
trap finish EXIT
install_as_shipped
test_own_hardware
test_hotplug
test_memory
rm -f "$MANIFESTS"/*
check "pods without a manifest are removed" within 300 nothing_runs
check "the unit stops" systemctl stop podwright
