#!/usr/bin/env bash
# `make chaos`: pods come, change and go on a private containerd while the agent is killed with SIGKILL at random
# moments, and containerd too, and while the agent's wall clock is set back and ahead. Afterwards each wanted container must run exactly once, nothing else may be left, and the
# restart counts must be right. A line an action, and at the end a line a check; the status is not 0 if one failed.
#
#   scripts/chaos.sh [KILLS] [PODS]     (default 50 and 20)
#
# SEED=<n>          the same choices again; the moments still depend on the machine. By default one is chosen and printed
# PODWRIGHT=<file>  this executable instead of a release one
# CLOCK=0           leave the agent's wall clock alone. It is libfaketime (Debian's package of that name) that sets it, for
#                   the agent's process; without the library the steps are left out. The machine's own clock is never set
# SETTLE=<seconds>  how long the pods may take to be what the manifests say after the last kill (default 300)
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

KILLS=${1:-${KILLS:-50}}
PODS=${2:-${PODS:-20}}
SEED=${SEED:-$((RANDOM * 32768 + RANDOM))}
SETTLE=${SETTLE:-300}
NODE=chaos
# How long a job runs.
JOB_SECONDS=2
KINDS=(plain init sidecar prestop crash job web)
# The spans (s) that a step of the clock may have: short ones are as frequent as long ones.
STEPS=(10 100 1000 10000 86400)
dir=$PWD/target/chaos/$$ agent="" faketime="" steps=0 agents=0 number=0 picked=0 failures=0
# Of each wanted pod: its kind, how often its manifest was written, and since when the present one is there (s).
declare -A kind_of=() revision_of=() written_at=()
# When (s of the epoch) something was killed: the agent or containerd; and containerd alone.
killed_at=() runtime_killed_at=()
began=$(date +%s%3N)

tell() {
    local now
    now=$(($(date +%s%3N) - began))
    printf '%4d.%03d  %s\n' $((now / 1000)) $((now % 1000)) "$*"
}

clean_up() {
    local status=$?
    trap '' INT TERM
    set +e
    rm -f "$dir"/manifests/*
    [ ! -e "$dir/env" ] || stop_environment "$dir" || status=1
    [ "$status" = 0 ] || say "logs and what the containers noted are in $dir; again with: make chaos SEED=$SEED KILLS=$KILLS PODS=$PODS"
    exit "$status"
}

# A random number below LIMIT in `picked`: in a subshell RANDOM would not go on.
pick() { picked=$(((RANDOM * 32768 + RANDOM) % $1)); } # LIMIT

# ---------------------------------------------------------------- pods

# A container that notes each of its starts in marks/POD.REVISION.CONTAINER, and then does what it is for. Its shell
# bears the mark as its name, so that it is found among the machine's processes.
container() { # POD REVISION NAME SCRIPT [MORE_FIELDS]
    printf '{"name":"%s","image":"%s","imagePullPolicy":"IfNotPresent",%s"volumeMounts":[{"name":"marks","mountPath":"/marks"}],"command":["/bin/sh","-c","date +%%s >>/marks/%s; %s","chaos:%s:%s:%s"]}' \
        "$3" "$IMAGE_CLIENT" "${5:-}" "$1.$2.$3" "$4" "$1" "$2" "$3"
}

# The containers of a kind.
all_of() { # KIND
    case $1 in
    sidecar) echo side main ;;
    init) echo first main ;;
    *) echo main ;;
    esac
}

manifest() { # POD KIND REVISION
    local stay="trap 'exit 0' TERM; while :; do sleep 1000 & wait \$!; done" inits="" main policy=Always
    case $2 in
    plain) main=$(container "$1" "$3" main "$stay") ;;
    init)
        inits=$(container "$1" "$3" first "sleep 1")
        main=$(container "$1" "$3" main "$stay")
        ;;
    sidecar)
        inits=$(container "$1" "$3" side "$stay" '"restartPolicy":"Always",')
        main=$(container "$1" "$3" main "$stay")
        ;;
    prestop) main=$(container "$1" "$3" main "$stay" '"lifecycle":{"preStop":{"exec":{"command":["/bin/sleep","1"]}}},') ;;
    crash) main=$(container "$1" "$3" main "sleep 3; exit 1") ;;
    job)
        policy=Never
        main=$(container "$1" "$3" main "sleep $JOB_SECONDS")
        ;;
    web) main=$(container "$1" "$3" main "mkdir -p /www; echo ok >/www/healthz; httpd -p 80 -h /www; $stay" \
        '"readinessProbe":{"httpGet":{"path":"/healthz","port":80},"periodSeconds":1},') ;;
    esac
    printf '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%s","namespace":"default"},"spec":{"restartPolicy":"%s","terminationGracePeriodSeconds":5,"volumes":[{"name":"marks","hostPath":{"path":"%s"}}],"initContainers":[%s],"containers":[%s]}}\n' \
        "$1" "$policy" "$dir/marks" "$inits" "$main"
}

write_pod() { # POD
    revision_of[$1]=$((${revision_of[$1]:-0} + 1)) written_at[$1]=$(date +%s)
    manifest "$1" "${kind_of[$1]}" "${revision_of[$1]}" >"$dir/.pod"
    mv "$dir/.pod" "$dir/manifests/$1.json"
}

add_pod() {
    local pod=${KINDS[number % ${#KINDS[@]}]}-$number
    kind_of[$pod]=${KINDS[number % ${#KINDS[@]}]}
    number=$((number + 1))
    write_pod "$pod"
    did+=" +$pod"
}

# Names in the order in which they were made: that of an associative array is nobody's promise.
wanted_pods() { printf '%s\n' "${!kind_of[@]}" | sort -t- -k2n; }

pick_pod() {
    local pods
    mapfile -t pods < <(wanted_pods)
    pick ${#pods[@]}
    pod=${pods[picked]}
}

# One random change of the manifests; what it was is added to `did`.
act() {
    local pod
    # There are always about PODS of them.
    pick 3
    if [ "$picked" -lt 2 ] && [ ${#kind_of[@]} -lt "$PODS" ]; then
        add_pod
        return
    fi
    local choice=$picked
    pick_pod
    if [ "$choice" = 0 ]; then
        rm -f "$dir/manifests/$pod.json"
        unset "kind_of[$pod]" "written_at[$pod]"
        did+=" -$pod"
    else
        write_pod "$pod"
        did+=" ~$pod (${revision_of[$pod]})"
    fi
}

# ---------------------------------------------------------------- what is killed

# Its uptime and the times of files stay what they are.
start_agent() {
    local clock=()
    [ -z "$faketime" ] || clock=(LD_PRELOAD="$faketime" FAKETIME_TIMESTAMP_FILE="$dir/clock" FAKETIME_NO_CACHE=1
        FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1)
    setsid env --default-signal=INT,QUIT "${clock[@]}" "$PODWRIGHT" --config "$dir/kubelet.yaml" --root-dir "$dir/kubelet" \
        --cert-dir "$dir/pki" --socket "$dir/podwright.sock" --device-plugin-dir "$dir/device-plugins" --hostname-override "$NODE" </dev/null >>"$dir/agent.log" 2>&1 &
    agent=$!
    agents=$((agents + 1))
}

# Sets the agent's wall clock off, now and then; by how much is added to `did`. The choices are the same without the library.
may_step_clock() {
    local span way=+
    pick 3
    [ "$picked" = 0 ] || return 0
    pick ${#STEPS[@]}
    pick "${STEPS[picked]}"
    span=$((picked + 1))
    pick 2
    [ "$picked" = 0 ] || way=-
    [ -n "$faketime" ] || return 0
    echo "$way$span" >"$dir/.clock"
    mv "$dir/.clock" "$dir/clock"
    steps=$((steps + 1))
    did+=" clock$way${span}s"
}

agent_lives() { [ -e "/proc/$agent" ] && ! grep -q '^State:.Z' "/proc/$agent/status" 2>/dev/null; }

kill_agent() {
    agent_lives || fail_now "the agent had ended by itself"
    kill -KILL "$agent"
    wait "$agent" 2>/dev/null || true
    killed_at+=("$(date +%s)")
    start_agent
}

# Unlike stop_containerd, without a word of warning.
kill_containerd() {
    local pid
    pid=$(cat "$dir/containerd.pid")
    arguments_of "$pid" | has -xF "$dir/containerd.toml" || fail_now "containerd had ended by itself"
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null || true
    while [ -e "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null; do sleep 0.05; done
    killed_at+=("$(date +%s)") runtime_killed_at+=("$(date +%s)")
    networks | sort >"$dir/networks-before.txt"
    start_containerd "$dir" || fail_now "containerd did not come up again"
    # It was away until now: what was going on when it came back failed as well.
    runtime_killed_at+=("$(date +%s)")
    comm -12 "$dir/networks-before.txt" <(networks unused | sort) >>"$dir/cut-off-networks.txt"
}

# The mounts that keep sandboxes' network namespaces; with `unused` those of namespaces that no process is in.
networks() {
    local id mount in_use
    in_use=$(find /proc/[0-9]*/ns/net -printf '%l\n' 2>/dev/null | sort -u || true)
    while read -r id mount; do
        [ "${1:-}" = unused ] && has -xF "$id" <<<"$in_use" || echo "$mount"
    done < <(awk -v dir="$dir/state/" 'index($5, dir) == 1 && $4 ~ /^net:/ { print $4, $5 }' /proc/self/mountinfo)
}

fail_now() {
    tail -n 20 "$dir/agent.log" >&2
    die "$*; the agent's log was above"
}

# Sleeps so many milliseconds.
rest() { sleep "$(($1 / 1000)).$(printf '%03d' $(($1 % 1000)))"; }

# ---------------------------------------------------------------- what is looked at

# The marks of the containers' shells that live, each with its process and its cgroup: "POD:CONTAINER CGROUP PID".
shells() {
    local pid mark group
    while read -r pid; do
        pid=${pid#/proc/} pid=${pid%/cmdline}
        mark=$(arguments_of "$pid" | sed -n 's/^chaos:\(.*\):[0-9]*:\(.*\)$/\1:\2/p' | head -n 1) || continue
        [ -n "$mark" ] || continue
        # Another run's has no cgroup of this one; neither has one that is just being born or dead.
        group=$(grep -m 1 -o "${CGROUP_ROOT}[-./].*" "/proc/$pid/cgroup" 2>/dev/null) || continue
        echo "$mark $group $pid"
    done < <(grep -la 'chaos:' /proc/[0-9]*/cmdline 2>/dev/null || true)
}

# Containers of which two instances live at this moment. The processes are looked at one after the other, so that those
# of a container that gives way to the next may both be seen: only what still lives after the look counts.
running_twice() {
    local mark group pid
    shells | while read -r mark group pid; do
        [ -n "$pid" ] && [ -e "/proc/$pid" ] || continue
        grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null || echo "$mark $group"
    done | sort -u | cut -d' ' -f1 | uniq -d
}

look_for_twice() {
    local twice
    twice=$(running_twice | paste -sd ' ')
    [ -n "$twice" ] || return 0
    tell "RUNS TWICE: $twice"
    seen_twice+=" $twice"
}

# The agent's word on its pods: "NAME UID PHASE READY RESTARTS" a line, without the node's name.
agent_pods() {
    "$PODWRIGHT" ps -o json --socket "$dir/podwright.sock" 2>/dev/null | awk -v node="-$NODE" '
        function value(line) { sub(/^[^:]*: */, "", line); gsub(/[",]/, "", line); return line }
        /^    "name":/ { name = value($0); sub(node "$", "", name) }
        /^    "uid":/ { uid = value($0) }
        /^    "phase":/ { phase = value($0) }
        /^    "ready":/ { ready = value($0) }
        /^    "restarts":/ { restarts = value($0) }
        /^  }/ { print name, uid, phase, ready, restarts }' | sort
}

# The runtime's word: "UID POD CONTAINER STATE ID" a line; the container of a sandbox is "-", what has no task is "none".
runtime_containers() {
    local id info tasks state
    tasks=$(ctr_ tasks ls | awk 'NR > 1 { print $1, $3 }')
    for id in $(ctr_ containers ls -q); do
        info=$(ctr_ containers info "$id" 2>/dev/null) || continue
        state=$(awk -v id="$id" '$1 == id { print $2 }' <<<"$tasks")
        awk -v node="-$NODE" -v state="${state:-none}" -v id="$id" '
            function value(line) { sub(/^[^:]*: */, "", line); gsub(/[",]/, "", line); return line }
            /"io.kubernetes.pod.uid":/ && uid == "" { uid = value($0) }
            /"io.kubernetes.pod.name":/ && pod == "" { pod = value($0); sub(node "$", "", pod) }
            /"io.kubernetes.container.name":/ && name == "" { name = value($0) }
            END { print uid, pod, name == "" ? "-" : name, state, substr(id, 1, 12) }' <<<"$info"
    done | sort
}

# How many starts a container noted.
starts_of() { # POD CONTAINER
    local file=$dir/marks/$1.${revision_of[$1]}.$2
    if [ -e "$file" ]; then wc -l <"$file"; else echo 0; fi
}

# How a job ends: well. One that ended while containerd was killed has lost its exit code: the runtime then calls it
# Unknown, with a code that is none, and the pod has failed, to upstream as well; one whose start was cut off was ended by
# containerd. Either will do for such a one.
job_phase() { # POD
    local at phase=Succeeded told uid
    if failed_unrun "$1"; then
        echo Failed
        return
    fi
    at=$(tail -n 1 "$dir/marks/$1.${revision_of[$1]}.main" 2>/dev/null || echo 0)
    read -r uid told < <(agent_pods | awk -v pod="$1" '$1 == pod { print $2, $3 }') || true
    if [ "$(between "$at" $((at + JOB_SECONDS + 1)) "${runtime_killed_at[@]}")" != 0 ] ||
        [ "$(cut_off_starts | grep -cxF "${uid:-none} main")" != 0 ]; then
        [ "${told:-}" != Failed ] || phase=Failed
    fi
    echo "$phase"
}

# Whether it is a job whose one start containerd cut off before its process ran. It has failed, to upstream as well, and
# is not run again.
failed_unrun() { # POD
    local told uid
    [ "${kind_of[$1]}" = job ] || return 1
    read -r uid told < <(agent_pods | awk -v pod="$1" '$1 == pod { print $2, $3 }') || true
    [ "${told:-}" = Failed ] && cut_off_starts create | has -xF "$uid main"
}

# The agent's pods against the wanted ones, as differences, one a line; nothing when all is as it should be.
unsettled() {
    local pod wanted name
    # The agent may not have seen the last manifest yet, and speak of the revision before it.
    while read -r pod; do
        for name in $(all_of "${kind_of[$pod]}"); do
            [ "$(starts_of "$pod" "$name")" != 0 ] || failed_unrun "$pod" ||
                echo "$pod $name of revision ${revision_of[$pod]} has not started"
        done
    done < <(wanted_pods)
    wanted=$(while read -r pod; do
        case ${kind_of[$pod]} in
        job) echo "$pod $(job_phase "$pod") false" ;;
        crash) echo "$pod Running any" ;;
        *) echo "$pod Running true" ;;
        esac
    done < <(wanted_pods) | sort)
    diff <(echo "$wanted") <(agent_pods | awk '{ print $1, $3, $1 ~ /^crash-/ ? "any" : $4 }' | sort) | grep '^[<>]' || true
}

# The same by the runtime's word: containers of pods that are not wanted, and how often the wanted ones run.
runtime_differences() {
    local pods found pod uid name count kind
    pods=$(agent_pods) found=$(runtime_containers)
    awk 'NR == FNR { known[$2]; next } !($1 in known) { print "left over: " $0 }' <(echo "$pods") <(echo "$found")
    while read -r pod; do
        kind=${kind_of[$pod]}
        uid=$(awk -v pod="$pod" '$1 == pod { print $2 }' <<<"$pods")
        for name in - $(all_of "$kind"); do
            count=$(awk -v uid="$uid" -v name="$name" '$1 == uid && $3 == name && $4 == "RUNNING"' <<<"$found" | wc -l)
            case $kind/$name in
            crash/main) [ "$count" -le 1 ] || echo "$pod $name runs $count times" ;;
            job/* | init/first) [ "$count" = 0 ] || echo "$pod $name runs $count times, and had ended" ;;
            *) [ "$count" = 1 ] || echo "$pod $name runs $count times" ;;
            esac
        done
    done < <(wanted_pods)
}

# Whether something in a list of moments lies between two others, and how often.
between() { # FROM TO MOMENT...
    local from=$1 to=$2 moment count=0
    shift 2
    for moment; do
        [ "$moment" -ge "$from" ] && [ "$moment" -le "$to" ] && count=$((count + 1))
    done
    echo "$count"
}

# The starts that containerd cut off after the process had begun to run, "UID CONTAINER" a line: when the caller is gone
# before it has its answer, containerd ends what it has just started. With `create` those that it cut off before that.
cut_off_starts() { # [create]
    awk -v begun="failed to ${1:-start} containerd task.*context canceled" '
        # The text after the words, up to the end of a quotation or of a field.
        function after(words, at) {
            at = index($0, words)
            if (at == 0) return ""
            at = substr($0, at + length(words))
            sub(/[\\,}].*/, "", at)
            return at
        }
        / returns sandbox id / { uid_of[after("returns sandbox id \\\"")] = after(",Uid:") }
        / returns container id / {
            id = after("returns container id \\\"")
            sandbox_of[id] = after("within sandbox \\\"")
            name_of[id] = after("ContainerMetadata{Name:")
        }
        $0 ~ begun {
            id = after("StartContainer for \\\"")
            if (id in name_of) print uid_of[sandbox_of[id]], name_of[id]
        }' "$dir/containerd.log"
}

# A container that does not end by itself starts once. Another start is right only where containerd was away while the one
# before was made, or cut that one off: the agent's own end stops nothing that its call has started.
needless_starts() {
    local pods uid pod name file before at cut_off
    pods=$(agent_pods)
    while read -r pod; do
        [ "${kind_of[$pod]}" != crash ] || continue
        uid=$(awk -v pod="$pod" '$1 == pod { print $2 }' <<<"$pods")
        for name in $(all_of "${kind_of[$pod]}"); do
            cut_off=$(cut_off_starts | grep -cxF "$uid $name" || true)
            file=$dir/marks/$pod.${revision_of[$pod]}.$name before=""
            [ -e "$file" ] || {
                failed_unrun "$pod" || echo "$pod $name never started"
                continue
            }
            while read -r at; do
                if [ -n "$before" ] && [ "$(between $((before - 1)) $((before + 3)) "${runtime_killed_at[@]}")" = 0 ]; then
                    [ "$cut_off" != 0 ] || echo "$pod $name started again at $at, without a reason"
                    [ "$cut_off" = 0 ] || cut_off=$((cut_off - 1))
                fi
                before=$at
            done <"$file"
        done
    done < <(wanted_pods)
}

# The count of a pod's restarts is that of the starts that its containers noted, less the first ones. An agent or a
# containerd that was killed between a container's creation and its start leaves one that counts and never ran (upstream's,
# too): so many more there may be as there were kills by then.
wrong_counts() {
    local pods pod restarts name starts noted last at kills
    pods=$(agent_pods)
    while read -r pod; do
        restarts=$(awk -v pod="$pod" '$1 == pod { print $5 }' <<<"$pods") noted=0 last=${written_at[$pod]}
        for name in $(all_of "${kind_of[$pod]}"); do
            starts=$(starts_of "$pod" "$name")
            noted=$((noted + starts - 1))
            at=$(tail -n 1 "$dir/marks/$pod.${revision_of[$pod]}.$name" 2>/dev/null || echo 0)
            [ "${at:-0}" -le "$last" ] || last=$at
        done
        kills=$(between "${written_at[$pod]}" "$last" "${killed_at[@]}")
        if [ "${restarts:-0}" -lt "$noted" ]; then
            echo "$pod: $restarts restarts, but $noted were noted"
        elif [ "$restarts" -gt $((noted + kills)) ]; then
            echo "$pod: $restarts restarts, but $noted were noted, and $kills kills before the last"
        fi
    done < <(wanted_pods)
}

# Each revision of a job ran no more than once, also those that were removed since; the present ones exactly once.
job_faults() {
    local file pod
    for file in "$dir"/marks/job-*; do
        [ -e "$file" ] || continue
        [ "$(wc -l <"$file")" = 1 ] || echo "${file##*/} ran $(wc -l <"$file") times"
    done
    while read -r pod; do
        [ "${kind_of[$pod]}" != job ] || [ "$(starts_of "$pod" main)" = 1 ] || failed_unrun "$pod" ||
            echo "$pod ran $(starts_of "$pod" main) times"
    done < <(wanted_pods)
}

# The shims that live, but those that containerd lost: where it is killed, or the call that starts a sandbox ends with its
# caller, it may forget a shim that it has begun to start or to end. They hold no process and containerd knows no container
# of theirs, so that no agent can name them to it. With `lost` those, for the note alone.
shims() {
    local pid id
    while read -r pid; do
        [ -n "$pid" ] || continue
        id=$(arguments_of "$pid" | grep -A 1 -xF -e -id | tail -n 1) || continue
        if lost_shim "$pid" "$id"; then
            [ "${1:-}" != lost ] || echo "$pid ${id:0:12}"
        elif [ "${1:-}" != lost ]; then
            echo "shim $pid of $id"
        fi
    done < <(shim_pids)
}

# The mounts of network namespaces that containerd lost: it makes one before it writes down whose it is, and was killed in
# between. Nobody was in them when it was back, and it knows no sandbox any more.
lost_networks() {
    mounts_below "$dir/state" | grep -xF -f "$dir/cut-off-networks.txt" || true
}

lost_shim() { # PID ID
    [ -z "$(cat "/proc/$1/task/"*/children 2>/dev/null)" ] && ! ctr_ containers ls -q | has -xF "$2"
}

# The remains of pods after the last manifest went.
remains() {
    agent_pods | sed 's/^/pod /'
    runtime_containers | sed 's/^/container /'
    shims
    shells | sed 's/^/process /'
    local mount
    while read -r mount; do
        find "$mount$CGROUP_ROOT" -depth -type d -name '*pod*-*' 2>/dev/null | sed 's/^/cgroup /'
        find "$mount$CGROUP_ROOT" -depth -type d -regex '.*/pod[0-9a-f]*' 2>/dev/null | sed 's/^/cgroup /'
    done < <(cgroup_mounts)
    mounts_below "$dir/kubelet/pods" | sed 's/^/mount /'
    mounts_below "$dir/state" | grep -vxF -f "$dir/cut-off-networks.txt" | sed 's/^/mount /'
    find "$dir/kubelet/pods" "$dir/logs" -mindepth 1 -maxdepth 1 2>/dev/null | sed 's/^/folder /'
    find "$dir/ipam" -type f -name '10.*' 2>/dev/null | sed 's/^/address /'
    ls "/sys/class/net/$CNI_BRIDGE/brif" 2>/dev/null | sed 's/^/link /'
    log_links "$dir" | sed 's/^/log link /'
}

# Runs a command until it prints nothing, or the time is over; then prints what it says last.
until_quiet() { # SECONDS COMMAND...
    local deadline=$((SECONDS + $1)) said
    shift
    while said=$("$@") && [ -n "$said" ] && [ "$SECONDS" -lt "$deadline" ]; do sleep 1; done
    printf '%s' "$said"
}

# A line of the table; what is wrong below it.
check() { # NAME FAULTS
    if [ -z "$2" ]; then
        report+=$(printf '%-76s %s' "$1" ok)$'\n'
    else
        failures=$((failures + 1))
        report+=$(printf '%-76s %s\n' "$1" FAILED && sed 's/^/    /' <<<"$2")$'\n'
    fi
}

# ---------------------------------------------------------------- the story

# A round: something changes, a moment passes, the agent or containerd is killed.
round() { # NUMBER
    local did="" changes=1 delay
    # Containerd is killed while many pods start and stop.
    [ $(($1 % 10)) != 4 ] || changes=$PODS
    while [ "$changes" -gt 0 ]; do
        act
        changes=$((changes - 1))
    done
    pick 2001
    delay=$picked
    may_step_clock
    rest "$delay"
    look_for_twice
    if [ $(($1 % 10)) = 4 ]; then
        kill_containerd
        tell "$1:$did; after $delay ms containerd killed and started"
        did=""
        act
        pick 2001
        delay=$picked
        rest "$delay"
    fi
    kill_agent
    tell "$1:$did; after $delay ms the agent killed and started"
}

main() {
    local kill report="" seen_twice="" did=""
    [[ $KILLS =~ ^[0-9]+$ && $PODS =~ ^[1-9][0-9]*$ && $SEED =~ ^[0-9]+$ ]] || die "KILLS, PODS and SEED are numbers"
    is_root || die "only root can start containers"
    if [ -z "${PODWRIGHT:-}" ]; then
        check_rust
        check_compiler
        cargo build --release --locked --bin podwright
        PODWRIGHT=${CARGO_TARGET_DIR:-$PWD/target}/release/podwright
    fi
    PODWRIGHT=$(realpath "$PODWRIGHT")
    install_packages
    trap clean_up EXIT
    trap 'exit 130' INT TERM
    mkdir -p "$dir/manifests" "$dir/marks"
    : >"$dir/cut-off-networks.txt"
    OWNER=$$ setsid -w scripts/testenv.sh start "$dir"
    load_env "$dir"
    write_agent_config "$dir" >"$dir/kubelet.yaml"
    [ "${CLOCK:-1}" = 0 ] || faketime=$(find /usr/lib -name libfaketimeMT.so.1 -print -quit 2>/dev/null)
    echo +0 >"$dir/clock"
    [ -n "$faketime" ] || tell "note: the agent's clock is left alone: $([ "${CLOCK:-1}" = 0 ] && echo CLOCK=0 || echo "there is no libfaketime")"
    tell "seed $SEED: $PODS pods, $KILLS kills; $("$PODWRIGHT" --version | head -n 1), containerd $RUNTIME_VERSION"
    RANDOM=$((SEED % 32768))

    start_agent
    while [ "$number" -lt "$PODS" ]; do add_pod; done
    pick 3001
    rest "$picked"
    kill_containerd
    tell "0:$did; after $picked ms containerd killed and started"
    for ((kill = 1; kill <= KILLS; kill++)); do round "$kill"; done
    tell "no more kills; waiting until the pods are what ${#kind_of[@]} manifests say"
    check "the agent says: the wanted pods are Ready, and there are no others" "$(until_quiet "$SETTLE" unsettled)"
    tell "settled, or given up"
    look_for_twice
    check "no container ran twice at any look" "${seen_twice# }"
    check "the runtime says: each wanted container runs once, and nothing else" "$(until_quiet 90 runtime_differences)"
    check "nothing was started again without a reason" "$(needless_starts)"
    check "restart counts are those of the instances" "$(until_quiet 60 wrong_counts)"
    check "each job ran once" "$(job_faults)"
    "$PODWRIGHT" ps --socket "$dir/podwright.sock" >"$dir/ps.txt" 2>&1 || true
    runtime_containers >"$dir/runtime.txt"
    agent_lives || fail_now "the agent had ended by itself"

    rm -f "$dir"/manifests/*
    kind_of=()
    tell "all manifests removed"
    check "nothing of any pod is left: containers, cgroups, mounts, networks, logs" "$(until_quiet 240 remains)"
    shims lost >"$dir/lost-shims.txt"
    [ ! -s "$dir/lost-shims.txt" ] ||
        tell "note: containerd lost shims (process, sandbox): $(paste -sd ' ' "$dir/lost-shims.txt")"
    lost_networks >"$dir/lost-networks.txt"
    [ ! -s "$dir/lost-networks.txt" ] ||
        tell "note: containerd lost network namespaces: $(sed 's|.*/||' "$dir/lost-networks.txt" | paste -sd ' ')"
    end_pids 10 "$agent"
    check "the environment goes without a rest" "$(stop_environment "$dir" 2>&1)"
    tell "$agents starts of the agent, $steps steps of its clock, $((${#runtime_killed_at[@]} / 2)) kills of containerd, $number pods, $(cat "$dir"/marks/* | wc -l) starts of containers"
    printf '\n%s' "$report"
    if [ "$failures" != 0 ]; then
        [ ! -s "$dir/ps.txt" ] || cat "$dir/ps.txt" >&2
        die "$failures checks failed; again with: make chaos SEED=$SEED KILLS=$KILLS PODS=$PODS"
    fi
    rm -rf "$dir"
}

main "$@"
