#!/bin/bash
# Runs in a virtual machine, as root: a node that `kubeadm init` made with upstream's kubelet gets the Debian package, and
# Podwright takes its place, gives it back, and takes it again. Pods of the API go on untouched throughout.
# shellcheck source=tests/vm/common.sh
. "$NODE_VM_FILES/common.sh"
export KUBECONFIG=/etc/kubernetes/admin.conf

k() { kubectl --request-timeout=60s "$@"; }
node_ready() { [ "$(k get node node-vm -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]; }
# The name that the node's agent gives itself.
agent_is() { k get node node-vm -o 'jsonpath={.metadata.annotations}{.status.nodeInfo}' | grep -q "$1"; }
replicas_ready() { [ "$(k get deployment shop -o 'jsonpath={.status.readyReplicas}')" = "$1" ]; }
# The containers of the pods that the API has, with their processes.
shop_containers() {
    local id
    for id in $(ctr_ containers ls -q 'labels."io.kubernetes.pod.namespace"==default'); do
        ctr_ tasks ls | awk -v id="$id" '$1 == id { print $1, $2, $3 }'
    done | sort
}
api_answers() { k get --raw /readyz | grep -qx ok; }
static_pods_ready() { [ "$(k -n kube-system get pods -l tier=control-plane -o 'jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}' | grep -c True)" = 4 ]; }
first_pod() { k get pods -l app=shop -o 'jsonpath={.items[0].metadata.name}'; }
logs_work() { k logs "$(first_pod)" | grep -q hello; }
exec_works() { is "$(k exec "$(first_pod)" -- cat /etc/shop/greeting)" good-day; }

install_upstream() {
    install -m 0755 kubeadm kubelet kubectl /usr/bin/
    cat >/etc/systemd/system/kubelet.service <<'UNIT'
[Unit]
Wants=network-online.target
After=network-online.target
[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10
[Install]
WantedBy=multi-user.target
UNIT
    mkdir -p /etc/systemd/system/kubelet.service.d
    cat >/etc/systemd/system/kubelet.service.d/10-kubeadm.conf <<'UNIT'
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
UNIT
    systemctl daemon-reload
    systemctl enable --quiet kubelet
    sed -i "s/SystemdCgroup = .*/SystemdCgroup = true/" /etc/containerd/config.toml
    systemctl restart containerd
    within 120 ctr_ version
    ctr_ images import images.tar >/dev/null
    ctr_ images import control-plane.tar >/dev/null
}

make_cluster() {
    cat >/root/kubeadm.yaml <<'YAML'
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: 192.0.2.10}
nodeRegistration:
  name: node-vm
  criSocket: unix:///run/containerd/containerd.sock
  taints: []
  imagePullPolicy: IfNotPresent
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
        'kubeadm init --config /root/kubeadm.yaml --ignore-preflight-errors=all --skip-phases=addon >/node-vm/out/kubeadm.txt 2>&1'
    check "the node is Ready under upstream's kubelet" within 600 node_ready
    k create configmap shop --from-literal=greeting=good-day
    k apply -f - <<'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 1
      volumes: [{name: shop, configMap: {name: shop}}]
      containers:
      - name: web
        image: localhost/podwright/web:1
        imagePullPolicy: IfNotPresent
        command: [sh, -c, "echo hello; exec httpd -f -p 80 -h /www"]
        readinessProbe: {httpGet: {path: /healthz, port: 80}}
        volumeMounts: [{name: shop, mountPath: /etc/shop}]
YAML
    check "two pods of a Deployment are Ready" within 600 replicas_ready 2
}

# The lines of docs/operations.md.
replace_kubelet() {
    install -D -t /etc/systemd/system/podwright.service.d /usr/share/podwright/podwright.service.d/10-kubeadm.conf &&
        systemctl disable --now kubelet && systemctl enable --now podwright
}
give_back() { systemctl disable --now podwright && systemctl enable --now kubelet; }

in_place() { # WHEN
    check "$1: the agent is healthy" within 300 healthy
    check "$1: the API server answers" within 1200 api_answers
    check "$1: the node is Ready" within 600 node_ready
    check "$1: the control plane's pods are Ready" within 1200 static_pods_ready
    check "$1: the Deployment's pods are Ready" within 300 replicas_ready 2
    check "$1: not one of their containers was touched" is "$(shop_containers)" "$before"
    check "$1: kubectl logs" within 120 logs_work
    check "$1: kubectl exec" within 120 exec_works
}

cd "$NODE_VM_FILES" || exit 1
trap finish EXIT
echo "--- a cluster by kubeadm"
install_upstream
make_cluster
before=$(shop_containers)
check "four tasks are those of the Deployment" is "$(wc -l <<<"$before")" 4

echo "--- Podwright in place of the kubelet"
check "the package is installed while the kubelet runs" dpkg -i podwright_*.deb
check "and leaves it alone" systemctl is-active kubelet
check "the node changes its agent" replace_kubelet
check "the kubelet is gone" eval '! pgrep -x kubelet'
in_place "with Podwright"
k scale deployment shop --replicas 3
check "with Podwright: a further pod runs" within 600 replicas_ready 3
k scale deployment shop --replicas 2
check "with Podwright: and goes" within 300 eval '[ "$(k get pods -l app=shop --no-headers | wc -l)" = 2 ]'
before=$(shop_containers)

echo "--- the kubelet again"
check "the node changes its agent back" give_back
check "Podwright is gone" eval '! pgrep -x podwright'
in_place "with the kubelet"

echo "--- and Podwright again"
check "starting one agent stops the other" systemctl start podwright
check "the kubelet is gone again" eval '! pgrep -x kubelet'
in_place "with Podwright again"
