#!/usr/bin/env bash
# `make bench-cluster`: what the node of a cluster costs the API server, and how soon the API server sees what it did. One
# line a figure, from the API server's own audit log.
#
#   scripts/bench-cluster.sh [PODS]     (default 30; memory and requests are measured with so many)
#
# KUBEBUILDER_ASSETS=<folder>  etcd, kube-apiserver and kubectl; see scripts/cluster.sh
# PODWRIGHT=<file>             measures this executable
# OTHER=<file>                 measures what a pod's life costs this executable, too, side by side
# ONLY=lives                   measures that alone
# STEADY=<seconds>             how long the steady state is watched (default 120)
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=scripts/bench-lib.sh
. scripts/bench-lib.sh

PODS=${1:-30}
STEADY=${STEADY:-120}
SINGLE=9
LIVES_ROUNDS=${LIVES_ROUNDS:-3} # of each executable, by turns
WAVES=6 WAVE=10 # pods of one round, so many at a time
ROUNDS=3 # deletions, with and without the agent; their medians are told
dir=$PWD/target/bench/c$$ agent="" proxy="" node=bench socket_flag=()

audit() { "$figures" "$dir/cluster/audit.log" "$@"; }
value() { grep -o "$1=[0-9]*" | cut -d= -f2; }
# The highest of a memory, looked at each second.
highest_kib() { # PID KEY SECONDS
    local highest=0 now end=$((SECONDS + $3))
    while [ "$SECONDS" -lt "$end" ]; do
        now=$(memory_kib "$1" "$2")
        highest=$((now > highest ? now : highest))
        sleep 1
    done
    echo "$highest"
}
# The agent's own measurement of the runtime's calls so far.
calls() { # FILE
    exec 8<>"/dev/tcp/127.0.0.1/$READ_ONLY_PORT"
    printf 'GET /metrics HTTP/1.0\r\n\r\n' >&8
    grep '^kubelet_runtime_operations_duration_seconds_\(sum\|count\)' <&8 >"$1"
    exec 8>&-
}
# The runtime's part of a pod's start: the mean of each call that a start waits for, together, in milliseconds.
runtime_part() { # BEFORE AFTER
    awk '
        { match($1, /operation_type="[a-z_]*"/); call = substr($1, RSTART + 16, RLENGTH - 17); sum = $1 ~ /_sum/ }
        FNR == NR { if (sum) sums[call] = $2; else counts[call] = $2; next }
        { if (sum) sums[call] = $2 - sums[call]; else counts[call] = $2 - counts[call] }
        END {
            count = split("run_podsandbox podsandbox_status create_container start_container container_status", path, " ")
            for (n = 1; n <= count; n++) if (counts[path[n]] > 0) total += sums[path[n]] / counts[path[n]]
            printf "%.0f\n", total * 1000
        }' "$1" "$2"
}
now() { date -u +%Y-%m-%dT%H:%M:%S.%NZ; }

clean_up() {
    local status=$?
    trap '' INT TERM
    set +e
    [ -n "$proxy" ] && end_pids 3 "$proxy"
    [ -e "$dir/env" ] && stop_environment "$dir"
    exit "$status"
}

join_agent() { # [EXECUTABLE]
    local executable=${1:-$PODWRIGHT}
    choose_socket "$executable" "$dir/kubelet/podwright.sock"
    start_agent "$executable" --kubeconfig "$dir/cluster/pki/kubelet.conf"
}

pods() { # PREFIX COUNT
    local number
    for number in $(seq "$2"); do
        cat <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"$1-$number","namespace":"default"},"spec":{"nodeName":"$node",
"terminationGracePeriodSeconds":1,"automountServiceAccountToken":false,
"containers":[{"name":"c","image":"$IMAGE_CLIENT","imagePullPolicy":"IfNotPresent","command":["sleep","100000"]}]}}
---
YAML
    done
}

start_proxy() {
    "$KUBEBUILDER_ASSETS/kubectl" --kubeconfig "$dir/cluster/pki/admin.conf" proxy --port=0 >"$dir/proxy.log" 2>&1 &
    proxy=$!
    for _ in $(seq 100); do
        proxy_port=$(sed -n 's/^Starting to serve on .*:\([0-9]*\)$/\1/p' "$dir/proxy.log")
        [ -z "$proxy_port" ] || return 0
        sleep 0.1
    done
    die "no proxy to the API server: $(cat "$dir/proxy.log")"
}

# Asks about pods through a proxy that stays: a kubectl that starts or ends takes a processor for a while, just when the
# node has work to do, and in a cluster it would do so elsewhere. The answer is left on descriptor 8, its first line in
# `answer`.
ask_pods() { # METHOD REST_OF_PATH BODY
    exec 8<>"/dev/tcp/127.0.0.1/$proxy_port"
    printf '%s\r\n' "$1 /api/v1/namespaces/default/pods$2 HTTP/1.0" 'Host: localhost' 'Content-Type: application/json' \
        "Content-Length: ${#3}" '' >&8
    printf '%s' "$3" >&8
    read -r answer <&8
    [[ $answer == *" 20"[01]" "* ]] || die "the API server did not do it: $1 of pods$2: $answer"
}

post_pod() { # PREFIX
    ask_pods POST "" "$(pods "$1" 1 | sed '/^---$/d')"
    exec 8>&-
}

# All at once, as the runtime alone is asked to: a client that asks for one after the other takes a quarter of a second for
# thirty, and a processor with it.
delete_pods() {
    ask_pods DELETE "" ""
    exec 8>&-
}

all_gone() {
    local left
    for _ in $(seq 150); do
        sleep 2
        ask_pods GET '?limit=1' ""
        left=$(grep -c '"uid"' <&8 || true)
        exec 8>&-
        [ "$left" != 0 ] || return 0
    done
    die "pods are left after five minutes"
}

# The pod's file, by the volume's part of its directory.
word() { cat "$dir"/kubelet/pods/*/volumes/kubernetes.io~configmap/words/word 2>/dev/null || true; }

# From an edit of a ConfigMap, as the API server has taken it, to the pod's file.
watch_edits() {
    local number since
    kubectl_ create configmap words --from-literal=word=0 >/dev/null
    kubectl_ create -f - >/dev/null <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"reader","namespace":"default"},"spec":{"nodeName":"$node",
"terminationGracePeriodSeconds":1,"automountServiceAccountToken":false,
"volumes":[{"name":"words","configMap":{"name":"words"}}],
"containers":[{"name":"c","image":"$IMAGE_CLIENT","imagePullPolicy":"IfNotPresent","command":["sleep","100000"],
"volumeMounts":[{"name":"words","mountPath":"/words"}]}]}}
YAML
    all_ready
    for number in $(seq "$SINGLE"); do
        kubectl_ patch configmap words --type merge --patch "{\"data\":{\"word\":\"$number\"}}" >/dev/null
        since=$(date +%s%3N)
        until [ "$(word)" = "$number" ]; do
            [ $(($(date +%s%3N) - since)) -lt 120000 ] || die "an edit of a ConfigMap was not seen within two minutes"
            sleep 0.01
        done
        echo $(($(date +%s%3N) - since)) >>"$dir/edits"
        sleep 1
    done
    kubectl_ delete pod reader --timeout=60s >/dev/null
    kubectl_ delete configmap words >/dev/null
}

# Processor time of a process so far, in milliseconds.
processor_ms() { # PID
    awk -v hertz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print int(($12 + $13) * 1000 / hertz) }' "/proc/$1/stat"
}

# The cost of pods' lives for an executable: made, run and deleted, with the volume of their account's token.
lives() { # EXECUTABLE
    local wave before
    join_agent "$1"
    sleep 10
    before=$(processor_ms "$agent")
    for wave in $(seq "$WAVES"); do
        pods "life-$wave" "$WAVE" | sed 's/"automountServiceAccountToken":false,//' | kubectl_ create -f - >/dev/null
        all_ready
        delete_pods
        all_gone
    done
    echo "$(($(processor_ms "$agent") - before)) $(memory_kib "$agent" Private_Dirty)"
    end_agent
}

measure_lives() {
    local round file name
    for round in $(seq "$LIVES_ROUNDS"); do
        for name in PODWRIGHT OTHER; do
            [ -z "${!name:-}" ] || lives "${!name}" >>"$dir/lives.$name"
        done
    done
    for name in PODWRIGHT OTHER; do
        file=$dir/lives.$name
        [ -e "$file" ] || continue
        figure "processor time a pod's life, $((WAVES * WAVE)) pods (${!name##*/}, best of $LIVES_ROUNDS)" \
            "$(cut -d' ' -f1 <"$file" | sort -n | awk -v pods=$((WAVES * WAVE)) 'NR == 1 { printf "%.1f\n", $1 / pods }')" ms
        figure "private memory after them (${!name##*/})" "$(cut -d' ' -f2 <"$file" | median)" KiB
    done
}

all_ready() { kubectl_ wait pod --all --for=condition=Ready --timeout=300s >/dev/null; }

# The agent, its Node ready for pods, and the way on which pods are asked for.
start_node() {
    join_agent
    kubectl_ wait node/"$node" --for=create --timeout=60s >/dev/null
    kubectl_ wait node/"$node" --for=condition=Ready --timeout=60s >/dev/null
    kubectl_ taint node "$node" node.kubernetes.io/not-ready- >/dev/null 2>&1 || true
    start_proxy
}

main() {
    local number round since floor client figures within ready resident
    is_root || die "only root can start containers"
    [ -n "${KUBEBUILDER_ASSETS:-}" ] || die "KUBEBUILDER_ASSETS names no folder with etcd, kube-apiserver and kubectl"
    export KUBEBUILDER_ASSETS
    check_rust
    install_packages
    if [ -z "${PODWRIGHT:-}" ]; then
        cargo build --release --locked --bin podwright --example bare_client --example audit_figures
        PODWRIGHT=$PWD/target/release/podwright
    fi
    client=${PODWRIGHT%/*}/examples/bare_client figures=${PODWRIGHT%/*}/examples/audit_figures
    trap clean_up EXIT
    trap 'exit 130' INT TERM
    # A cluster has its data on other machines: in memory here, for what the runtime writes through takes along what others
    # have written to the same disk.
    mkdir -p "$dir/manifests" "$dir/cluster"
    mount -t tmpfs -o mode=0700 cluster "$dir/cluster"
    OWNER=$$ setsid -w scripts/testenv.sh start "$dir"
    setsid -w scripts/cluster.sh start "$dir" "$node"
    load_env "$dir"
    write_agent_config "$dir" >"$dir/kubelet.yaml"

    if [ "${ONLY:-}" = lives ]; then
        start_node
        end_agent
        measure_lives
        return
    fi
    floor=$(for round in $(seq "$ROUNDS"); do
        "$client" floor "$RUNTIME_ENDPOINT" "$IMAGE_CLIENT" "$PODS" "$dir/bare-logs" "$CGROUP_ROOT/bare"
    done)
    figure "runtime alone: one pod" "$(value single_ms <<<"$floor" | median)" ms
    figure "runtime alone: $PODS pods deleted (median of $ROUNDS)" "$(value delete_ms <<<"$floor" | median)" ms

    start_node
    calls "$dir/calls.before"
    for number in $(seq "$SINGLE"); do
        post_pod "one-$number"
        sleep 2 # who asks whether it is ready would take its processor
        all_ready
    done
    ready=$(audit ready)
    figure "one pod: created to Ready in the API (median of $SINGLE)" "$(value median_ms <<<"$ready")" ms
    calls "$dir/calls.after"
    within=$(runtime_part "$dir/calls.before" "$dir/calls.after")
    figure "one pod: the runtime's part of it (mean)" "$within" ms
    figure "one pod: what it takes beyond the runtime (mean)" $(($(value mean_ms <<<"$ready") - within)) ms
    figure "one pod: of that, the API server's own time for the status (mean)" "$(value server_ms <<<"$ready")" ms
    kubectl_ delete pod --all --timeout=60s >/dev/null

    watch_edits
    figure "an edit of a ConfigMap: seen in a pod's file (slowest of $SINGLE)" "$(sort -n "$dir/edits" | tail -1)" ms

    pods many "$PODS" | kubectl_ create -f - >/dev/null
    all_ready
    sleep 30
    since=$(now)
    resident=$(highest_kib "$agent" Rss "$STEADY")
    figure "resident memory, $PODS pods of the API (highest in $STEADY s)" "$resident" KiB
    figure "of that, private memory (at the end)" "$(memory_kib "$agent" Private_Dirty)" KiB
    say "requests of the node in $STEADY s with $PODS pods, nothing happening:"
    audit since "$since"

    since=$(now)
    kill -TERM "$agent"
    wait "$agent" || true
    join_agent
    sleep 20
    say "requests of a node agent that starts again, with $PODS pods, in 20 s:"
    audit since "$since"

    for round in $(seq "$ROUNDS"); do
        if [ "$round" != 1 ]; then
            pods many "$PODS" | kubectl_ create -f - >/dev/null
            all_ready
            sleep 15
        fi
        since=$(now)
        delete_pods
        all_gone
        audit gone "$since" | value gone_ms >>"$dir/gone"
    done
    figure "$PODS pods deleted: gone from the API (median of $ROUNDS)" "$(median <"$dir/gone")" ms

    end_agent
    measure_lives
}

main "$@"
