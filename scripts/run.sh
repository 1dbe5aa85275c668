#!/usr/bin/env bash
# `make run`: a standalone node with two pods on a private containerd, in the foreground until Ctrl-C.
#
# RUNTIME=unix:///run/containerd/containerd.sock  use the machine's own containerd instead
# RUN_FOR=<seconds>                               end by itself that long after the pods are Ready (for tests)
# PODWRIGHT=<file>                                run this executable instead of building one
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

RUNS=target/run
READY_SECONDS=${READY_SECONDS:-120}
dir="" agent="" ending=""

heading() { printf '\n\033[1m%s\033[0m\n' "$*"; }

# A signal only asks: the wait loops look at it, and the way out is always `clean_up`.
ask_to_end() { ending=yes; }

check_machine() {
    local offer="'make simulate' runs the same agent on a simulated node, and needs nothing but cargo and a C compiler"
    is_root || die "only root can start containers (try: sudo make run). $offer"
    local missing
    missing=$(missing_list)
    if [ -n "$missing" ] && ! has_apt; then
        die "missing here: $missing; and there is no apt-get to install that with. $offer"
    fi
}

build_agent() {
    if [ -n "${PODWRIGHT:-}" ]; then
        PODWRIGHT=$(realpath "$PODWRIGHT")
        return
    fi
    say "building the release executable; the first time takes some minutes"
    cargo build --release --locked --bin podwright
    PODWRIGHT=$PWD/${CARGO_TARGET_DIR:-target}/release/podwright
    [ -x "$PODWRIGHT" ] || PODWRIGHT=${CARGO_TARGET_DIR:-target}/release/podwright
}

# Everything this run has for itself.
start_runtime() {
    local number=1
    mkdir -p "$RUNS"
    OWNER=$$ scripts/testenv.sh reap "$RUNS"
    while ! mkdir "$RUNS/$number" 2>/dev/null; do
        # A directory without an environment is an ended run's.
        [ -e "$RUNS/$number/env" ] || rm -rf "${RUNS:?}/$number"
        [ -d "$RUNS/$number" ] && number=$((number + 1))
    done
    dir=$PWD/$RUNS/$number
    # In a session of its own, out of a Ctrl-C's reach: the step is short, and half an environment is hard to take down.
    if [ -n "${RUNTIME:-}" ]; then
        say "using containerd on $RUNTIME"
        OWNER=$$ setsid -w scripts/testenv.sh borrow "$dir" "${RUNTIME#unix://}"
    else
        say "starting a private containerd in $RUNS/$number"
        OWNER=$$ setsid -w scripts/testenv.sh start "$dir"
    fi
    load_env "$dir"
}

start_agent() {
    mkdir -p "$dir/manifests"
    write_agent_config "$dir" >"$dir/kubelet.yaml"
    local manifest
    for manifest in examples/manifests/*.yaml; do
        sed -e "s|18080|$HOST_PORT|" "$manifest" >"$dir/manifests/${manifest##*/}"
    done
    node=podwright-$ENVIRONMENT
    # In its own session: a Ctrl-C is for this script, which lets the pods end before the agent does.
    setsid env --default-signal=INT,QUIT "$PODWRIGHT" --config "$dir/kubelet.yaml" --root-dir "$dir/kubelet" --cert-dir "$dir/pki" \
        --hostname-override "$node" --node-ip "$NODE_IP" </dev/null >"$dir/agent.log" 2>&1 &
    agent=$!
    echo "$agent" >"$dir/agent.pid"
}

client() { "$PODWRIGHT" "$@" --root-dir "$dir/kubelet"; }

# The agent's own word on its pods, as one line of JSON without blanks.
pods_json() { client ps -o json 2>/dev/null | tr -d ' \n\t'; }

count_in() { grep -o -- "$1" <<<"$2" | wc -l; }

agent_lives() { [ -e "/proc/$agent" ] && ! grep -q '^State:.Z' "/proc/$agent/status" 2>/dev/null; }

# Waits until all pods are Ready; fails with what is known when they are not in time.
wait_until_ready() {
    local wanted deadline=$((SECONDS + READY_SECONDS)) pods=""
    wanted=$(find "$dir/manifests" -name '*.yaml' | wc -l)
    say "waiting until $wanted pods are Ready"
    while [ -z "$ending" ]; do
        agent_lives || {
            tail -n 20 "$dir/agent.log" >&2
            die "the agent ended; its log was above"
        }
        pods=$(pods_json) || true
        [ "$(count_in '"ready":true' "$pods")" -ge "$wanted" ] && return 0
        if [ "$SECONDS" -ge "$deadline" ]; then
            client ps >&2 || true
            tail -n 20 "$dir/agent.log" >&2
            die "the pods were not Ready within $READY_SECONDS seconds; the agent's log was above"
        fi
        sleep 0.2
    done
}

show() {
    local server
    heading "Pods"
    client ps
    heading "Actors"
    client actors
    heading "How default/web-$node came to be: its trace"
    client trace --pod "default/web-$node" | awk 'NR <= 40 { print } END { if (NR > 40) print "... and " NR - 40 " more" }'
    server=$(grep -lE ":${CGROUP_ROOT}[-./]" /proc/[0-9]*/cgroup 2>/dev/null | cut -d/ -f3 | while read -r pid; do
        case $(arguments_of "$pid") in httpd* | /bin/httpd*) echo "$pid" ;; esac
    done | head -n 1) || true
    heading "Try next, in another terminal"
    cat <<TEXT
  1. Edit a manifest; the pod is replaced, and the web server says something else:
       sed -i 's/value: hello/value: good day/' $dir/manifests/web.yaml
       curl http://$NODE_IP:$HOST_PORT/
  2. Kill a container; it is started again:
       kill -KILL ${server:-<pid of httpd>}
       $PODWRIGHT ps --root-dir $dir/kubelet
  3. Ask why a pod is as it is:
       $PODWRIGHT explain default/web-$node --root-dir $dir/kubelet

The agent's log: $dir/agent.log. Ctrl-C removes the pods and ends everything.
TEXT
}

stay() {
    local until=""
    [ -z "${RUN_FOR:-}" ] || until=$((SECONDS + RUN_FOR))
    while [ -z "$ending" ]; do
        agent_lives || {
            tail -n 20 "$dir/agent.log" >&2
            die "the agent ended; its log was above"
        }
        [ -n "$until" ] && [ "$SECONDS" -ge "$until" ] && return
        sleep 0.2
    done
}

# Lets the agent remove its pods in order: no manifests, no pods.
remove_pods() {
    local deadline=$((SECONDS + 45)) sandboxes
    [ -n "$agent" ] && agent_lives || return 0
    say "removing the pods"
    rm -f "$dir"/manifests/*
    while [ "$SECONDS" -lt "$deadline" ] && agent_lives; do
        sandboxes=$(if [ "$PRIVATE" = yes ]; then ctr_ containers ls -q; else our_containers; fi 2>/dev/null)
        [ -n "$sandboxes" ] || break
        sleep 0.2
    done
}

# The way out, whatever happened: the pods, the agent, the runtime, and a look at what is left.
clean_up() {
    local status=$?
    # A Ctrl-C may have cut a command short, which ends this script as a failure would; it is what was asked for.
    [ "$status" = 130 ] && status=0
    trap '' INT TERM HUP
    trap - EXIT
    set +e
    if [ -n "$dir" ] && [ -e "$dir/env" ]; then
        load_env "$dir"
        remove_pods
        say "ending the agent and what it ran on"
        if stop_environment "$dir"; then
            say "nothing is left but installed packages, and logs in $dir"
        else
            status=1
        fi
    fi
    exit "$status"
}

trap ask_to_end INT TERM HUP
trap clean_up EXIT
check_rust
check_machine
install_packages
[ -n "$ending" ] || build_agent
[ -n "$ending" ] || start_runtime
[ -n "$ending" ] || start_agent
[ -n "$ending" ] || wait_until_ready
[ -n "$ending" ] || show
[ -n "$ending" ] || stay
