#!/usr/bin/env bash
# `make run`: a standalone node with two pods on a private containerd, in the foreground until Ctrl-C.
#
# RUNTIME=unix:///run/containerd/containerd.sock  use the machine's own containerd instead
# RUN_FOR=<seconds>                               end by itself that long after the pods are Ready (for tests)
# PODWRIGHT=<file>                                run this executable instead of building one
# JOIN=yes                                        `make join`: the node of a cluster, whose etcd, kube-apiserver and
#                                                 kubectl are in the folder that KUBEBUILDER_ASSETS names
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

RUNS=target/run
READY_SECONDS=${READY_SECONDS:-120}
dir="" agent="" ending="" joining=()

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

# Looked at before anything is started.
check_assets() {
    [ -n "${JOIN:-}" ] || return 0
    [ -n "${KUBEBUILDER_ASSETS:-}" ] || die "KUBEBUILDER_ASSETS must name a folder with etcd, kube-apiserver and kubectl, as setup-envtest makes one; kube-controller-manager and kube-scheduler are used if they are there, too"
    KUBEBUILDER_ASSETS=$(realpath "$KUBEBUILDER_ASSETS")
    export KUBEBUILDER_ASSETS
    command -v openssl >/dev/null || die "openssl is missing: apt-get install openssl"
}

build_agent() {
    if [ -n "${PODWRIGHT:-}" ]; then
        PODWRIGHT=$(realpath "$PODWRIGHT")
        return
    fi
    say "building the executable without optimisation; the first time takes some minutes"
    # TLS from ring: it is there a minute before aws-lc is.
    cargo build --profile trial --locked --bin podwright --no-default-features --features ring
    PODWRIGHT=$PWD/${CARGO_TARGET_DIR:-target}/trial/podwright
    [ -x "$PODWRIGHT" ] || PODWRIGHT=${CARGO_TARGET_DIR:-target}/trial/podwright
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

start_cluster() {
    node=podwright-$ENVIRONMENT
    [ -n "${JOIN:-}" ] || return 0
    say "starting a control plane on loopback"
    setsid -w scripts/cluster.sh start "$dir" "$node"
    # As kubeadm sets a node up: the API server knows whom it asks, and the node who asks it.
    local pki=$dir/cluster/pki
    joining=(--kubeconfig "$pki/kubelet.conf" --address 0.0.0.0 --client-ca-file "$pki/ca.crt"
        --authentication-token-webhook=true --authorization-mode Webhook
        --tls-cert-file "$pki/kubelet-serving.crt" --tls-private-key-file "$pki/kubelet-serving.key")
}

kubectl_() { "$KUBEBUILDER_ASSETS/kubectl" --kubeconfig "$dir/cluster/pki/admin.conf" "$@"; }

start_agent() {
    mkdir -p "$dir/manifests"
    write_agent_config "$dir" >"$dir/kubelet.yaml"
    local manifest
    for manifest in examples/manifests/*.yaml; do
        sed -e "s|18080|$HOST_PORT|" "$manifest" >"$dir/manifests/${manifest##*/}"
    done
    # In its own session: a Ctrl-C is for this script, which lets the pods end before the agent does.
    setsid env --default-signal=INT,QUIT "$PODWRIGHT" --config "$dir/kubelet.yaml" --root-dir "$dir/kubelet" --cert-dir "$dir/pki" \
        --socket "$dir/podwright.sock" --device-plugin-dir "$dir/device-plugins" --hostname-override "$node" --node-ip "$NODE_IP" ${joining[@]+"${joining[@]}"} </dev/null >"$dir/agent.log" 2>&1 &
    agent=$!
    echo "$agent" >"$dir/agent.pid"
}

client() { "$PODWRIGHT" "$@" --socket "$dir/podwright.sock"; }

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
    if [ -n "${JOIN:-}" ]; then
        show_cluster
        return
    fi
    cat <<TEXT
  1. Edit a manifest; the pod is replaced, and the web server says something else:
       sed -i 's/value: hello/value: good day/' $dir/manifests/web.yaml
       curl http://$NODE_IP:$HOST_PORT/
  2. Kill a container; it is started again:
       kill -KILL ${server:-<pid of httpd>}
       $PODWRIGHT ps --socket $dir/podwright.sock
  3. Ask why a pod is as it is:
       $PODWRIGHT explain default/web-$node --socket $dir/podwright.sock

The agent's log: $dir/agent.log. Ctrl-C removes the pods and ends everything.
TEXT
}

# A cluster's node is looked at with kubectl. Where no scheduler runs, a pod names its node.
show_cluster() {
    local place=""
    [ -x "$KUBEBUILDER_ASSETS/kube-scheduler" ] || place=" --overrides '{\"spec\":{\"nodeName\":\"$node\"}}'"
    cat <<TEXT
  export KUBECONFIG=$dir/cluster/pki/admin.conf PATH=\$PATH:$KUBEBUILDER_ASSETS
  1. Look at the node and its pods, two mirrors of static ones:
       kubectl get nodes,pods -o wide
  2. Run a pod, see what became of it, and delete it:
       kubectl run hello --image $IMAGE_CLIENT --image-pull-policy IfNotPresent$place -- sleep 1000
       kubectl describe pod hello
       kubectl delete pod hello
  3. Take the API server away for a while; pods go on:
       scripts/cluster.sh stop-api $dir; sleep 60; scripts/cluster.sh start-api $dir

The agent's log: $dir/agent.log. Ctrl-C removes the pods and ends everything.
TEXT
    heading "What kubectl sees"
    kubectl_ get nodes,pods -A -o wide
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
    if [ -n "${JOIN:-}" ]; then
        kubectl_ delete pods -A --all --timeout=30s >/dev/null 2>&1 || true
    fi
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
check_assets
install_packages
[ -n "$ending" ] || build_agent
[ -n "$ending" ] || start_runtime
[ -n "$ending" ] || start_cluster
[ -n "$ending" ] || start_agent
[ -n "$ending" ] || wait_until_ready
[ -n "$ending" ] || show
[ -n "$ending" ] || stay
