#!/usr/bin/env bash
# A control plane on loopback, around a node of scripts/testenv.sh: etcd and kube-apiserver of the folder that
# KUBEBUILDER_ASSETS names, and kube-controller-manager and kube-scheduler if they are there too.
#
#   scripts/cluster.sh start DIR NODE   DIR is the node's (see testenv.sh), NODE its name, in lower case
#   scripts/cluster.sh stop DIR         ends it, and leaves its files; `testenv.sh stop` does so too
#   scripts/cluster.sh stop-api DIR     ends the API server alone, as when a node loses sight of it
#   scripts/cluster.sh start-api DIR    starts it again
#   scripts/cluster.sh plane DIR        one without a node, in an environment of its own (`testenv.sh stop` ends it); it ends
#                                       with its owner (OWNER, see testenv.sh), too
#   scripts/cluster.sh lend PLANE DIR NODE  has that one serve the node of DIR, for a time: one node after the other
#
# Certificates, keys and kubeconfigs are in DIR/cluster/pki: admin.conf for people, kubelet.conf for the node,
# bootstrap.conf for a node that has no certificate yet. DIR/cluster/admin names the address of a `kubectl proxy`, at which
# tests look at objects without a process for each look. The API server checks requests as a cluster's does: Node and RBAC
# authorizers, NodeRestriction; DIR/cluster/audit.log has a line for each request of the node, and for each pod that people
# make or delete. API_FLAGS holds further flags of the API server, for what it has only when it is asked.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

READY_SECONDS=${READY_SECONDS:-120}
API_FLAGS=${API_FLAGS:-}
ISSUER=https://kubernetes.default.svc.cluster.local
REQUESTS_ROLE=system:certificates.k8s.io:certificatesigningrequests
BOOTSTRAP_TOKEN=abcdef.0123456789abcdef

# openssl tells much of what nobody asked for; its words count only when it fails.
ssl() {
    local said
    said=$(openssl "$@" 2>&1) || die "openssl $1: $said"
}

# A key and a certificate of the cluster's own authority.
certificate() { # NAME SUBJECT USAGE [NAMES]
    ssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
    ssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
    {
        printf 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=%s\n' "$3"
        [ -z "${4:-}" ] || echo "subjectAltName=$4"
    } >"$1.ext"
    ssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -sha256 -extfile "$1.ext" -out "$1.crt"
    rm -f "$1.csr" "$1.ext"
}

kubeconfig() { # NAME USER-FIELDS
    cat >"$1.conf" <<YAML
apiVersion: v1
kind: Config
current-context: cluster
clusters: [{name: cluster, cluster: {server: "https://127.0.0.1:$API_PORT", certificate-authority: "$pki/ca.crt"}}]
contexts: [{name: cluster, context: {cluster: cluster, user: $1}}]
users: [{name: $1, user: {$2}}]
YAML
}

with_certificate() { echo "client-certificate: \"$pki/$1.crt\", client-key: \"$pki/$1.key\""; }

# The certificates and kubeconfigs of a node, by the authority that is there.
make_node_certificates() ( # NODE
    umask 077
    cd "$pki"
    certificate kubelet "/O=system:nodes/CN=system:node:$1" clientAuth
    certificate kubelet-serving "/O=system:nodes/CN=system:node:$1" serverAuth "IP:$NODE_IP,DNS:$1"
    local name
    for name in admin kubelet; do
        kubeconfig "$name" "$(with_certificate "$name")"
    done
    kubeconfig bootstrap "token: $BOOTSTRAP_TOKEN"
)

make_certificates() (
    umask 077
    mkdir -p "$pki"
    cd "$pki"
    ssl ecparam -name prime256v1 -genkey -noout -out ca.key
    ssl req -x509 -new -key ca.key -days 30 -subj /CN=cluster -out ca.crt \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
    certificate apiserver /CN=kube-apiserver serverAuth \
        IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc
    certificate admin /O=system:masters/CN=admin clientAuth
    certificate controller-manager /CN=system:kube-controller-manager clientAuth
    certificate scheduler /CN=system:kube-scheduler clientAuth
    certificate apiserver-kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth
    ssl genrsa -out sa.key 2048
    ssl rsa -in sa.key -pubout -out sa.pub
    local name
    for name in admin controller-manager scheduler; do
        kubeconfig "$name" "$(with_certificate "$name")"
    done
    # The requests of the node, with the statuses and the Node that it writes; and when people make and delete pods.
    cat >audit.yaml <<YAML
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: Request, userGroups: ["system:nodes"], verbs: [patch], resources: [{group: "", resources: [pods/status]}]}
- {level: Request, userGroups: ["system:nodes"], verbs: [create, update, patch], resources: [{group: "", resources: [nodes, nodes/status]}]}
- {level: Metadata, userGroups: ["system:nodes"]}
- {level: Metadata, userGroups: ["system:masters"], verbs: [create, delete, deletecollection], resources: [{group: "", resources: [pods]}]}
- {level: None}
YAML
)

# Starts a program in the background, apart from whatever holds the terminal.
run() { # PROGRAM ARGUMENT...
    local program=$1
    shift
    setsid env --default-signal=INT,QUIT "$KUBEBUILDER_ASSETS/$program" "$@" </dev/null >>"$cluster/$program.log" 2>&1 9>&- &
    echo $! >"$cluster/$program.pid"
}

kubectl_() { "$KUBEBUILDER_ASSETS/kubectl" --kubeconfig "$pki/admin.conf" "$@"; }

until_it_holds() { # PROGRAM COMMAND...
    local program=$1 deadline=$((SECONDS + READY_SECONDS))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ ! -e "/proc/$(cat "$cluster/$program.pid")" ] || [ "$SECONDS" -ge "$deadline" ]; then
            tail -n 20 "$cluster/$program.log" >&2
            die "$program did not become ready; its log was above"
        fi
        sleep 0.2
    done
}

answers() { { exec 8<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null && exec 8>&-; } # PORT

# Whether an administrator's GET of a path is answered with 200.
admin_gets() { # PATH
    local line
    { exec 8<>"/dev/tcp/127.0.0.1/$ADMIN_PORT"; } 2>/dev/null || return 1
    printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' "$1" >&8
    read -r -t 5 line <&8 || true
    exec 8>&-
    [[ ${line:-} == *" 200 "* ]]
}

start_api() {
    # shellcheck disable=SC2086
    run kube-apiserver "--etcd-servers=http://127.0.0.1:$ETCD_PORT" --bind-address=127.0.0.1 "--secure-port=$API_PORT" \
        --advertise-address=192.0.2.1 --endpoint-reconciler-type=none "--cert-dir=$cluster/apiserver" \
        "--tls-cert-file=$pki/apiserver.crt" "--tls-private-key-file=$pki/apiserver.key" "--client-ca-file=$pki/ca.crt" \
        --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \
        --enable-bootstrap-token-auth=true "--service-account-issuer=$ISSUER" \
        "--service-account-key-file=$pki/sa.pub" "--service-account-signing-key-file=$pki/sa.key" \
        --service-cluster-ip-range=10.96.0.0/16 "--kubelet-certificate-authority=$pki/ca.crt" \
        "--kubelet-client-certificate=$pki/apiserver-kubelet-client.crt" \
        "--kubelet-client-key=$pki/apiserver-kubelet-client.key" --kubelet-preferred-address-types=InternalIP \
        "--audit-policy-file=$pki/audit.yaml" "--audit-log-path=$cluster/audit.log" \
        $API_FLAGS # Words, on purpose.
    until_it_holds kube-apiserver admin_gets /readyz
}

# Without its rights, which the API server makes while it becomes ready, the manager would give up.
start_controllers() {
    local conf=$pki/controller-manager.conf
    run kube-controller-manager "--kubeconfig=$conf" "--authentication-kubeconfig=$conf" \
        "--authorization-kubeconfig=$conf" --bind-address=127.0.0.1 "--secure-port=$((API_PORT + 3))" \
        "--cert-dir=$cluster/controller-manager" --leader-elect=false --use-service-account-credentials=true \
        "--client-ca-file=$pki/ca.crt" "--root-ca-file=$pki/ca.crt" "--service-account-private-key-file=$pki/sa.key" \
        "--cluster-signing-cert-file=$pki/ca.crt" "--cluster-signing-key-file=$pki/ca.key" \
        --service-cluster-ip-range=10.96.0.0/16
}

start_scheduler() {
    local conf=$pki/scheduler.conf
    run kube-scheduler "--kubeconfig=$conf" "--authentication-kubeconfig=$conf" "--authorization-kubeconfig=$conf" \
        --bind-address=127.0.0.1 "--secure-port=$((API_PORT + 4))" "--cert-dir=$cluster/scheduler" --leader-elect=false
}

# The account that the service account controllers would make: without it no pod is let in.
play_controllers() {
    local namespace
    say "no kube-controller-manager in $KUBEBUILDER_ASSETS: this script makes what pods of two namespaces cannot do without"
    for namespace in default kube-system; do
        until_it_holds kube-apiserver admin_gets "/api/v1/namespaces/$namespace"
        kubectl_ -n "$namespace" create serviceaccount default >/dev/null
        kubectl_ -n "$namespace" create configmap kube-root-ca.crt "--from-file=ca.crt=$pki/ca.crt" >/dev/null
    done
}

# The token that kubeadm makes: a node with it may ask for a certificate, and gets one.
allow_bootstrap() {
    # The API server makes it after it has become ready.
    until_it_holds kube-apiserver admin_gets /api/v1/namespaces/kube-system
    {
        cat <<YAML
apiVersion: v1
kind: Secret
metadata: {name: bootstrap-token-${BOOTSTRAP_TOKEN%.*}, namespace: kube-system}
type: bootstrap.kubernetes.io/token
stringData:
  token-id: "${BOOTSTRAP_TOKEN%.*}"
  token-secret: "${BOOTSTRAP_TOKEN#*.}"
  usage-bootstrap-authentication: "true"
YAML
        cluster_role_binding bootstrappers system:node-bootstrapper system:bootstrappers
        cluster_role_binding bootstrap-approval "$REQUESTS_ROLE:nodeclient" system:bootstrappers
        cluster_role_binding renewal-approval "$REQUESTS_ROLE:selfnodeclient" system:nodes
    } | kubectl_ create --validate=false -f - >/dev/null
}

cluster_role_binding() { # NAME ROLE GROUP
    cat <<YAML
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $1}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "$2"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "$3"}]
YAML
}

start() {
    local program
    for program in etcd kube-apiserver kubectl; do
        [ -x "${KUBEBUILDER_ASSETS:-}/$program" ] || die "KUBEBUILDER_ASSETS must name a folder with etcd, kube-apiserver and kubectl: no $program in '${KUBEBUILDER_ASSETS:-}'"
    done
    command -v openssl >/dev/null || die "openssl is missing: apt-get install openssl"
    mkdir -p "$cluster"
    make_certificates
    # Written at its end even after it was emptied: the API server does so with one that it finds.
    : >"$cluster/audit.log"
    run etcd --name one "--data-dir=$cluster/etcd" --unsafe-no-fsync --log-level warn \
        "--listen-client-urls=http://127.0.0.1:$ETCD_PORT" "--advertise-client-urls=http://127.0.0.1:$ETCD_PORT" \
        "--listen-peer-urls=http://127.0.0.1:$((ETCD_PORT + 1))" \
        "--initial-advertise-peer-urls=http://127.0.0.1:$((ETCD_PORT + 1))" \
        "--initial-cluster=one=http://127.0.0.1:$((ETCD_PORT + 1))"
    # Ready long before the API server, which it asks anew for each request.
    run kubectl --kubeconfig "$pki/admin.conf" proxy "--port=$ADMIN_PORT"
    echo "127.0.0.1:$ADMIN_PORT" >"$cluster/admin"
    until_it_holds etcd answers "$ETCD_PORT"
    start_api
    allow_bootstrap
    if [ -x "$KUBEBUILDER_ASSETS/kube-controller-manager" ]; then start_controllers; else play_controllers; fi
    if [ -x "$KUBEBUILDER_ASSETS/kube-scheduler" ]; then start_scheduler; fi
    # The account of the first pods; the controllers may take a moment.
    until_it_holds kube-apiserver admin_gets /api/v1/namespaces/default/serviceaccounts/default
}

# A control plane that no node has yet.
start_plane() { # DIR
    prepare_directory "$1"
    CONTAINERD_BIN="" CONTAINERD_SOCK="" SOCKET_FOLDER="" CTR="" RUNC="" NAMESPACE="" CNI_BIN_DIR="" RUNTIME_VERSION=""
    CGROUP_DRIVER=cgroupfs PRIVATE=none
    take_number
    write_env >"$dir/env"
    name_parts
    stop_with_owner </dev/null >"$dir/stop.log" 2>&1 9>&- &
    start
}

# The tests that it serves have no last one that would stop it.
stop_with_owner() {
    local owner started
    trap '' INT QUIT HUP TERM
    read -r owner started <"$dir/owner"
    while [ -e "$dir/env" ]; do
        if [ "$(start_time "$owner")" != "$started" ]; then
            scripts/testenv.sh stop "$dir" && rm -rf "$dir"
            return
        fi
        sleep 2
    done
}

# The node has files of its own where it looks for its control plane; the programs know nothing of it.
lend() { # PLANE NODE
    mkdir -p "$dir/cluster"
    cp -a "$1/cluster/pki" "$1/cluster/admin" "$dir/cluster/"
    ln -s "$1/cluster/audit.log" "$dir/cluster/audit.log"
    echo "$1" >"$dir/cluster/plane"
    name_parts
    make_node_certificates "$2"
}

# The control plane of DIR, which may be another environment's.
name_parts() {
    local HEALTHZ_PORT=$HEALTHZ_PORT
    cluster=$dir/cluster pki=$dir/cluster/pki
    if [ -e "$cluster/plane" ]; then
        HEALTHZ_PORT=$(sed -n 's/^HEALTHZ_PORT=//p' "$(cat "$cluster/plane")/env")
    fi
    API_PORT=$((HEALTHZ_PORT + 12)) ETCD_PORT=$((HEALTHZ_PORT + 13)) ADMIN_PORT=$((HEALTHZ_PORT + 17))
}

main() {
    local command=${1:-} dir=${2:-} plane=${2:-} cluster pki
    local usage="usage: scripts/cluster.sh start DIR NODE | stop DIR | stop-api DIR | start-api DIR | plane DIR | lend PLANE DIR NODE"
    [ "$command" != lend ] || { dir=${3:-} && shift; }
    [ -n "$dir" ] || die "$usage"
    case $dir in /*) ;; *) dir=$here/$dir ;; esac
    if [ "$command" = plane ]; then
        start_plane "$dir"
        return
    fi
    load_env "$dir" || die "no environment in $dir: scripts/testenv.sh start makes one"
    case $command in
    start)
        name_parts
        start
        make_node_certificates "${3:?$usage}"
        ;;
    lend) lend "$plane" "${3:?$usage}" ;;
    stop) stop_cluster "$dir" ;;
    stop-api)
        name_parts
        # shellcheck disable=SC2046  # a list of numbers
        end_pids 20 $(pids_of_programs "$dir" kube-apiserver)
        ;;
    start-api)
        name_parts
        start_api
        ;;
    *) die "unknown command '$command'; $usage" ;;
    esac
}

main "$@"
