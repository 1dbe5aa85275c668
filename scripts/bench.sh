#!/usr/bin/env bash
# `make bench`: what the agent costs and how soon it reacts, on a private containerd. One line a figure.
#
#   scripts/bench.sh [PODS]     (default 30)
#
# PROBED=<pods>     how many pods with an http probe of 1 s are watched at the end (default 100; 0 leaves that out)
# PROBES=<probes>   how many http probes of 1 s are watched after that, ten in each pod (default 500; 0 leaves that out)
# PODWRIGHT=<file>  measures this executable: another version, or the upstream kubelet, whose flags are the same
# STEADY=<seconds>  how long the steady state is watched (default 60)
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=scripts/bench-lib.sh
. scripts/bench-lib.sh

PODS=${1:-30}
STEADY=${STEADY:-60}
PROBED=${PROBED:-100}
PROBES=${PROBES:-500}
TICKS=$(getconf CLK_TCK)
dir=$PWD/target/bench/$$ agent="" node=bench socket_flag=()

now_ms() { date +%s%3N; }
cpu_ticks() { sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'; }

clean_up() {
    local status=$?
    trap '' INT TERM
    set +e
    rm -f "$dir"/manifests/*
    [ -e "$dir/env" ] && stop_environment "$dir"
    exit "$status"
}

# Waits, in milliseconds since a moment, until a command says yes; prints them.
until_ms() { # SINCE COMMAND...
    local since=$1
    shift
    until "$@"; do
        [ $(($(now_ms) - since)) -lt 300000 ] || die "gave up after 300 s waiting for: $*"
        sleep 0.01
    done
    echo $(($(now_ms) - since))
}

healthy() { { exec 8<>"/dev/tcp/127.0.0.1/$HEALTHZ_PORT"; } 2>/dev/null && exec 8>&-; }

# How long after a moment the last of so many containers was started, by the runtime's own word.
started_ms() { # COUNT SINCE
    "$client" running "$RUNTIME_ENDPOINT" "$1" "$2" | sed -n 's/^running_ms=//p'
}

cpu_of() { awk -v ticks="$1" -v hz="$TICKS" -v per="$2" 'BEGIN { printf "%.1f", ticks / hz * 1000 / per }'; }
wakes() { cat "/proc/$1"/task/*/status | awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum + 0 }'; }

# Whole pods only: each is a sandbox and one container.
write_pods() { # COUNT
    local number
    for number in $(seq "$1"); do
        cat >"$dir/.pod" <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"bench-$number","namespace":"default"},"spec":{"terminationGracePeriodSeconds":1,
"containers":[{"name":"c","image":"localhost/podwright/client:1","imagePullPolicy":"IfNotPresent","command":["sleep","100000"]}]}}
YAML
        mv "$dir/.pod" "$dir/manifests/bench-$number.json"
    done
}

# Pods that are probed every second, over HTTP.
write_probed_pods() { # COUNT
    local number
    for number in $(seq "$1"); do
        cat >"$dir/.pod" <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"probed-$number","namespace":"default"},"spec":{"terminationGracePeriodSeconds":1,
"containers":[{"name":"c","image":"localhost/podwright/web:1","imagePullPolicy":"IfNotPresent",
"command":["httpd","-f","-p","80","-h","/www"],
"readinessProbe":{"httpGet":{"port":80,"path":"/healthz"},"periodSeconds":1}}]}}
YAML
        mv "$dir/.pod" "$dir/manifests/probed-$number.json"
    done
}

# Pods of five containers, each with two probes of 1 s; all ask the pod's one web server.
write_crowded_pods() { # COUNT
    local number name containers command ask='{"httpGet":{"port":80,"path":"/healthz"},"periodSeconds":1}'
    for name in web a b c d; do
        command='["sleep","100000"]'
        [ "$name" != web ] || command='["httpd","-f","-p","80","-h","/www"]'
        containers+=${containers:+,}'{"name":"'$name'","image":"localhost/podwright/web:1","imagePullPolicy":"IfNotPresent",'
        containers+='"command":'$command',"readinessProbe":'$ask',"livenessProbe":'$ask'}'
    done
    for number in $(seq "$1"); do
        cat >"$dir/.pod" <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"crowded-$number","namespace":"default"},
"spec":{"terminationGracePeriodSeconds":1,"containers":[$containers]}}
YAML
        mv "$dir/.pod" "$dir/manifests/crowded-$number.json"
    done
}

all_ready() { # COUNT
    [ "$("$PODWRIGHT" ps --socket "$dir/kubelet/podwright.sock" -o json | grep -c '"ready": true')" = "$1" ]
}

# The same probes by a loop that does nothing else, while the agent stands still.
probed_alone() {
    local addresses seconds good
    mapfile -t addresses < <("$PODWRIGHT" ps --socket "$dir/kubelet/podwright.sock" -o json | sed -n 's/^ *"ip": "\(.*\)",\{0,1\}$/\1/p')
    kill -STOP "$agent"
    read -r seconds good < <("$prober" 30 80 /healthz "${addresses[@]}")
    kill -CONT "$agent"
    figure "the same by a bare loop (${good#good=} answers in 30 s)" "${seconds#seconds=}" s
}

probed() {
    local since
    since=$(now_ms)
    write_probed_pods "$PROBED"
    figure "$PROBED probed pods: all Ready" "$(until_ms "$since" all_ready "$PROBED")" ms
    steady "$PROBED pods, each with an http probe of 1 s"
    probed_alone
    restart_with "$PROBED probed pods"
    all_ready "$PROBED" || figure "$PROBED probed pods: not Ready after the restart" "!" ""
    rm -f "$dir"/manifests/*
    until_ms "$(now_ms)" runs_exactly 0 >/dev/null
}

crowded() {
    local since pods=$((PROBES / 10))
    since=$(now_ms)
    write_crowded_pods "$pods"
    figure "$PROBES probes in $pods pods: all Ready" "$(until_ms "$since" all_ready "$pods")" ms
    steady "$PROBES http probes of 1 s"
    rm -f "$dir"/manifests/*
    until_ms "$(now_ms)" runs_exactly 0 >/dev/null
}

# The cost of the authenticated port: scrapes, each on its own and all within 15 s, and a command's output.
served() { # WHAT
    local address=127.0.0.1:$PORT name value
    while read -r name value _; do
        figure "$name, $1: processor time an answer" "${value#ms=}" ms
    done < <("$server_cost" scrapes "$agent" "$address" 20)
    while read -r name value _; do
        figure "all of these every 15 s, $1: processor time" "${value#ms=}" ms
    done < <("$server_cost" round "$agent" "$address" 4)
    while read -r name value ratio; do
        figure "1 GiB through exec, $name: processor time" "${value#seconds=}" s
        [ "$name" = proxy ] || figure "1 GiB through exec, $name beside a bare proxy" "${ratio#ratio=}" ""
    done < <("$server_cost" exec "$agent" "$address" "$RUNTIME_ENDPOINT" default "bench-1-bench" c 1024)
}

# An agent that starts again, and what that costs and touches.
restart_with() { # WHAT
    local before after since answered
    before=$(ctr_ tasks ls | sort)
    end_pids 10 "$agent"
    start_agent "$PODWRIGHT"
    since=$(now_ms)
    answered=$(until_ms "$since" healthy)
    sleep 20
    figure "restart with $1: start to healthz" "$answered" ms
    figure "restart with $1: processor time in 20 s" \
        "$(awk -v ticks="$(cpu_ticks "$agent")" -v hz="$TICKS" 'BEGIN { printf "%.2f", ticks / hz }')" s
    after=$(ctr_ tasks ls | sort)
    figure "restart with $1: tasks that changed" \
        "$(diff <(echo "$before") <(echo "$after") | grep -c '^[<>]' || true)" ""
}

# The same calls from a bare client: what no agent can be quicker than.
floor() {
    local figures
    figures=$("$client" floor "$RUNTIME_ENDPOINT" "$IMAGE_CLIENT" "$PODS" "$dir/bare-logs" "$CGROUP_ROOT/bare")
    figure "runtime alone: one pod" "$(sed -n 's/^single_ms=//p' <<<"$figures")" ms
    figure "runtime alone: $PODS pods at once" "$(sed -n 's/^burst_ms=//p' <<<"$figures")" ms
    figure "runtime alone: $PODS pods deleted" "$(sed -n 's/^delete_ms=//p' <<<"$figures")" ms
    figure "runtime alone: next instance of a killed container" "$(sed -n 's/^reaction_ms=//p' <<<"$figures")" ms
    # Where memory of what sleeps is taken away by whoever hosts the machine, every wake costs; an idle agent is its wakes.
    figure "machine alone: a process wakes and does nothing" "$("$client" idle 15 | sed -n 's/^wake_us=//p')" us
}

steady() { # WHAT
    local before woken
    sleep 5
    before=$(cpu_ticks "$agent") woken=$(wakes "$agent")
    sleep "$STEADY"
    figure "processor time a minute, $1" \
        "$(awk -v ticks=$(($(cpu_ticks "$agent") - before)) -v hz="$TICKS" -v seconds="$STEADY" \
            'BEGIN { printf "%.2f", ticks / hz * 60 / seconds }')" s
    figure "wakes a minute, $1" $((($(wakes "$agent") - woken) * 60 / STEADY)) ""
    figure "private memory, $1" "$(private_kib "$agent")" KiB
    figure "resident memory, $1" "$(memory_kib "$agent" Rss)" KiB
}

main() {
    local since before number client server_cost prober example
    is_root || die "only root can start containers"
    check_rust
    install_packages
    if [ -z "${PODWRIGHT:-}" ]; then
        cargo build --release --locked --bin podwright --example bare_client --example bare_prober --example server_cost
        PODWRIGHT=$PWD/target/release/podwright
    fi
    choose_socket "$PODWRIGHT" "$dir/kubelet/podwright.sock"
    client=${PODWRIGHT%/*}/examples/bare_client prober=${PODWRIGHT%/*}/examples/bare_prober
    server_cost=${PODWRIGHT%/*}/examples/server_cost
    for example in "$client" "$prober" "$server_cost"; do
        [ -x "$example" ] || die "no $example, which measures: cargo build --release --example ${example##*/}"
    done
    trap clean_up EXIT
    trap 'exit 130' INT TERM
    mkdir -p "$dir/manifests"
    OWNER=$$ setsid -w scripts/testenv.sh start "$dir"
    load_env "$dir"
    # Every caller is let in: there is nobody here who could say who may.
    write_agent_config "$dir" | sed '/anonymous:/{n;s/false/true/}' >"$dir/kubelet.yaml"
    figure "executable" "$(($(stat -c %s "$PODWRIGHT") / 1024))" KiB

    floor
    since=$(now_ms)
    start_agent "$PODWRIGHT"
    figure "start to healthz" "$(until_ms "$since" healthy)" ms
    steady "no pods"

    for number in 1 2 3 4 5; do
        sleep 6 # as the bare client rests
        since=$(now_ms)
        write_pods 1
        figure "one pod: manifest to running, $number" "$(started_ms 1 "$since")" ms
        rm -f "$dir"/manifests/*
        until_ms "$since" runs_exactly 0 >/dev/null
    done
    sleep 6
    before=$(cpu_ticks "$agent")
    since=$(now_ms)
    write_pods "$PODS"
    figure "$PODS pods at once: all running" "$(started_ms "$PODS" "$since")" ms
    figure "$PODS pods at once: agent's processor time a pod" "$(cpu_of $(($(cpu_ticks "$agent") - before)) "$PODS")" ms
    steady "$PODS pods"
    served "$PODS pods"
    figure "killed container: its next instance runs" \
        "$("$client" kill "$RUNTIME_ENDPOINT" 5 | sed -n 's/^reaction_ms=//p')" ms

    restart_with "$PODS pods"

    since=$(now_ms)
    rm -f "$dir"/manifests/*
    figure "$PODS pods deleted: nothing runs" "$(until_ms "$since" runs_exactly 0)" ms
    [ "$PROBED" = 0 ] || probed
    [ "$PROBES" = 0 ] || crowded
}

main "$@"
