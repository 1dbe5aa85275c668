#!/bin/bash
# Runs in a virtual machine, as root: a node that `kubeadm init` made, whose control plane runs in static pods under upstream's
# kubelet, gets the Debian package. Podwright takes the kubelet's place, gives it back, and takes it again. Pods of the API
# go on untouched; static pods are replaced, and with them the API server itself.
# shellcheck source=tests/vm/cluster.sh
. "$NODE_VM_FILES/cluster.sh"
export KUBECONFIG=/etc/kubernetes/admin.conf
COMPONENTS="etcd kube-apiserver kube-controller-manager kube-scheduler"

make_cluster() {
    ctr_ images import control-plane.tar >/dev/null
    cat >/root/kubeadm.yaml <<'YAML'
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: 192.0.2.10}
nodeRegistration: {name: node-vm, criSocket: "unix:///run/containerd/containerd.sock", taints: [], imagePullPolicy: IfNotPresent}
timeouts: {controlPlaneComponentHealthCheck: 40m, kubeletHealthCheck: 20m, kubernetesAPICall: 10m}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.2
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
YAML
    check "kubeadm makes a cluster of this node" eval \
        'kubeadm init --config /root/kubeadm.yaml --ignore-preflight-errors=all --skip-phases=addon >$NODE_VM_OUT/kubeadm.txt 2>&1'
    check "the node is Ready under upstream's kubelet" within 900 node_ready
    check "the control plane's pods are Ready" within 900 control_plane_ready
}

control_plane_ready() { [ "$(k -n kube-system get pods -l tier=control-plane -o 'jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}' | grep -c True)" = 4 ]; }
# The containers of the control plane, without sandboxes, each as its name and process.
control_plane() {
    local name
    for name in $COMPONENTS; do containers_with io.kubernetes.container.name "$name"; done | grep RUNNING | sort
}
# Each component runs once, and none of the processes of before runs.
replaced_once() { # CONTAINERS BEFORE
    local now
    now=$(control_plane)
    [ "$(wc -l <<<"$now")" = 4 ] && ! grep -qF "$1" <<<"$now"
}

# An exchange of the agents, by a command, and what becomes of all pods.
exchange() { # WHEN AGENT COMMAND...
    local when=$1 agent=$2 plane
    plane=$(control_plane)
    check "$when: the control plane has four containers before" is "$(wc -l <<<"$plane")" 4
    check "$when: the agents change" "${@:3}"
    check "$when: the other is gone" eval "! pgrep -x $([ "$agent" = kubelet ] && echo podwright || echo kubelet)"
    check "$when: the control plane is replaced once" within 1800 replaced_once "$plane"
    in_place "$when" "$agent"
    check "$when: the control plane's pods are Ready" within 1800 control_plane_ready
    check "$when: it is the same Node" is "$(node_uid)" "$uid"
}

cd "$NODE_VM_FILES" || exit 1
trap finish EXIT
mkdir -p "$NODE_VM_OUT"
echo "--- a cluster by kubeadm"
install_upstream
make_cluster
make_shop
uid=$(node_uid)

echo "--- Podwright in place of the kubelet"
check "kubeadm wrote the kubelet's variables" grep -q '^KUBELET_KUBEADM_ARGS=' /var/lib/kubelet/kubeadm-flags.env
check "the package is installed while the kubelet runs" dpkg -i podwright_*.deb
check "and leaves it alone" systemctl is-active kubelet
exchange "with Podwright" podwright replace_kubelet
scale_shop "with Podwright"
all=$(containers)
check "the unit restarts" systemctl restart podwright
in_place "after a restart" podwright
check "not one container was touched, the control plane's neither" is "$(containers)" "$all"

echo "--- the kubelet again"
exchange "with the kubelet" kubelet give_back

echo "--- and Podwright again"
exchange "with Podwright again" podwright systemctl start podwright
