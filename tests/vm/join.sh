#!/bin/bash
# Runs in a virtual machine, as root: a node that `kubeadm join` brought into a cluster, with upstream's kubelet and its TLS
# bootstrap, gets the Debian package, and Podwright takes the kubelet's place, gives it back, and takes it again. The control
# plane is elsewhere: processes of this machine under an address of their own, which no node's agent knows of.
# shellcheck source=tests/vm/cluster.sh
. "$NODE_VM_FILES/cluster.sh"
export KUBECONFIG=$PLANE/super-admin.conf

make_control_plane() {
    start_api_server elsewhere
    process kube-controller-manager --kubeconfig=controller-manager.conf --leader-elect=false --root-ca-file=pki/ca.crt \
        --cluster-signing-cert-file=pki/ca.crt --cluster-signing-key-file=pki/ca.key \
        --service-account-private-key-file=pki/sa.key --use-service-account-credentials \
        "--controllers=*,bootstrap-signer-controller,token-cleaner-controller"
    process kube-scheduler --kubeconfig=scheduler.conf --leader-elect=false
    check "the cluster has kubeadm's configuration" kubeadm init phase upload-config all --config /root/init.yaml --kubeconfig $KUBECONFIG
    check "nodes may join it" kubeadm init phase bootstrap-token --config /root/init.yaml --kubeconfig $KUBECONFIG
}

join() {
    local -a words
    read -ra words < <(kubeadm token create --print-join-command --kubeconfig $KUBECONFIG)
    check "the cluster says how to join it" is "${words[0]} ${words[1]} ${words[2]} ${words[3]} ${words[5]}" \
        "kubeadm join $PLANE_IP:6443 --token --discovery-token-ca-cert-hash"
    # The same as a file, which has the time that a slow machine takes.
    cat >/root/join.yaml <<YAML
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery: {bootstrapToken: {apiServerEndpoint: "$PLANE_IP:6443", token: "${words[4]}", caCertHashes: ["${words[6]}"]}}
nodeRegistration: {name: node-vm, criSocket: "unix:///run/containerd/containerd.sock"}
timeouts: {discovery: 20m, kubeletHealthCheck: 20m, tlsBootstrap: 20m, kubernetesAPICall: 10m}
YAML
    check "the node has nothing of a cluster before" eval '[ -z "$(ls /etc/kubernetes/*.conf /var/lib/kubelet/config.yaml 2>/dev/null)" ]'
    check "kubeadm joins it" eval \
        'kubeadm join --config /root/join.yaml --ignore-preflight-errors=all >$NODE_VM_OUT/kubeadm.txt 2>&1'
    check "the kubelet got its certificate" test -s /var/lib/kubelet/pki/kubelet-client-current.pem
    check "and needs the token no more" test ! -e /etc/kubernetes/bootstrap-kubelet.conf
    check "the node is Ready under upstream's kubelet" within 900 node_ready
}

# Two static pods: one as most are, and one that names its UID.
make_static_pods() {
    local name uid
    mkdir -p "$MANIFESTS"
    for name in plain named; do
        uid=""
        [ $name = plain ] || uid='"uid":"5f0c3f5e-6d5b-4a51-9d0c-0a4a6f1d2b3c",'
        cat >"$MANIFESTS/.$name" <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{$uid"name":"$name","namespace":"default"},"spec":{"terminationGracePeriodSeconds":1,
"containers":[{"name":"c","image":"localhost/podwright/client:1","imagePullPolicy":"IfNotPresent","command":["sleep","100000"]}]}}
YAML
        mv "$MANIFESTS/.$name" "$MANIFESTS/$name.yaml"
    done
    check "two static pods are Ready in the cluster" within 600 mirrors_ready
}
mirrors_ready() { [ "$(k get pods plain-node-vm named-node-vm -o 'jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}' | grep -c True)" = 2 ]; }
static_containers() { containers_with io.kubernetes.pod.name "$1-node-vm"; } # NAME
replaced_once() { # CONTAINERS BEFORE
    local now
    now=$(static_containers plain)
    [ "$(wc -l <<<"$now")" = 2 ] && [ "$(grep -c RUNNING <<<"$now")" = 2 ] && ! grep -qF "$1" <<<"$now"
}

# An exchange of the agents, by a command, and what becomes of all pods and of what the node has of its cluster.
exchange() { # WHEN AGENT COMMAND...
    local when=$1 agent=$2 plain named
    plain=$(static_containers plain) named=$(static_containers named)
    check "$when: the agents change" "${@:3}"
    check "$when: the other is gone" eval "! pgrep -x $([ "$agent" = kubelet ] && echo podwright || echo kubelet)"
    in_place "$when" "$agent"
    check "$when: the static pod without a UID is replaced once" within 600 replaced_once "$plain"
    check "$when: the one that names its UID is untouched" is "$(static_containers named)" "$named"
    check "$when: both are Ready in the cluster" within 600 mirrors_ready
    check "$when: it is the same Node" is "$(node_uid)" "$uid"
    check "$when: with the same certificate" is "$(readlink /var/lib/kubelet/pki/kubelet-client-current.pem)" "$certificate"
}

cd "$NODE_VM_FILES" || exit 1
trap finish EXIT
mkdir -p "$NODE_VM_OUT"
echo "--- a cluster, and a node that joins it"
install_upstream
make_control_plane
join
make_shop
make_static_pods
uid=$(node_uid) certificate=$(readlink /var/lib/kubelet/pki/kubelet-client-current.pem)

echo "--- Podwright in place of the kubelet"
check "the package is installed while the kubelet runs" dpkg -i podwright_*.deb
check "and leaves it alone" systemctl is-active kubelet
exchange "with Podwright" podwright replace_kubelet
scale_shop "with Podwright"
all=$(containers)
check "the unit restarts" systemctl restart podwright
in_place "after a restart" podwright
check "not one container was touched, those of static pods neither" is "$(containers)" "$all"

echo "--- the kubelet again"
exchange "with the kubelet" kubelet give_back

echo "--- and Podwright again"
exchange "with Podwright again" podwright systemctl start podwright
rm -f "$MANIFESTS"/*.yaml
check "static pods without a manifest are removed" within 300 eval '[ -z "$(static_containers plain)$(static_containers named)" ]'
check "and from the cluster" within 300 eval '[ -z "$(k get pods -o name | grep node-vm)" ]'
