#!/bin/bash
# Shared by the machines whose node is in a cluster that kubeadm made: upstream's kubelet as its packages install it, pods of
# the API, and the exchange of the two agents by the lines of docs/operations.md.
# shellcheck source=tests/vm/common.sh
. "$NODE_VM_FILES/common.sh"
# Where a control plane is that is no pods of the node: processes of this machine under an address of their own.
PLANE=/srv/control-plane
PLANE_IP=192.0.2.20

k() { kubectl --request-timeout=60s "$@"; }
node_ready() { [ "$(k get node node-vm -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]; }
node_uid() { k get node node-vm -o 'jsonpath={.metadata.uid}'; }
# The agents of this test have different versions, and the Node says which of them writes it.
node_version_is() { [ "$(k get node node-vm -o 'jsonpath={.status.nodeInfo.kubeletVersion}')" = "$("$1" --version 2>/dev/null | grep -o 'v[0-9.]*')" ]; }
replicas_ready() { [ "$(k get deployment shop -o 'jsonpath={.status.readyReplicas}')" = "$1" ]; }
pods_of_shop() { [ "$(k get pods -l app=shop --no-headers | wc -l)" = "$1" ]; }
api_answers() { k get --raw /readyz | grep -qx ok; }
first_pod() { k get pods -l app=shop -o 'jsonpath={.items[0].metadata.name}'; }
logs_work() { k logs "$(first_pod)" | grep -q hello; }
exec_works() { is "$(k exec "$(first_pod)" -- cat /etc/shop/greeting)" good-day; }

# The containers with a label, sandboxes among them, each with its process and its state.
containers_with() { # LABEL VALUE
    local ids
    ids=$(ctr_ containers ls -q "labels.\"$1\"==$2")
    containers | grep -F "${ids:-none}"
}
# One pod of the Deployment has two: its sandbox and its container.
shop_containers() {
    local pod
    for pod in $(k get pods -l app=shop -o 'jsonpath={.items[*].metadata.name}'); do
        containers_with io.kubernetes.pod.name "$pod"
    done | sort
}

process() { # NAME ARGUMENTS...
    systemd-run --quiet --unit="plane-$1" --property=Restart=always --property=RestartSec=5 --property=StartLimitIntervalSec=0 \
        --working-directory=$PLANE "$NODE_VM_FILES/$1" "${@:2}"
}
# By the phases of `kubeadm init`, but for those that make pods of it. The kubeconfig of that node is there, too.
start_api_server() { # NODE
    local kubeconfig
    ip addr add $PLANE_IP/24 dev node0
    cat >/root/init.yaml <<YAML
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: $PLANE_IP}
nodeRegistration: {name: $1, criSocket: "unix:///run/containerd/containerd.sock"}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.2
controlPlaneEndpoint: $PLANE_IP:6443
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
YAML
    mkdir -p $PLANE
    kubeadm init phase certs all --config /root/init.yaml >/dev/null
    for kubeconfig in super-admin controller-manager scheduler kubelet; do
        kubeadm init phase kubeconfig $kubeconfig --config /root/init.yaml --kubeconfig-dir $PLANE >/dev/null
    done
    mv /etc/kubernetes/pki $PLANE/pki
    process etcd --data-dir=$PLANE/etcd --listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379
    process kube-apiserver --advertise-address=$PLANE_IP --etcd-servers=http://127.0.0.1:2379 --client-ca-file=pki/ca.crt \
        --tls-cert-file=pki/apiserver.crt --tls-private-key-file=pki/apiserver.key \
        --kubelet-client-certificate=pki/apiserver-kubelet-client.crt --kubelet-client-key=pki/apiserver-kubelet-client.key \
        --kubelet-preferred-address-types=InternalIP --service-account-key-file=pki/sa.pub \
        --service-account-signing-key-file=pki/sa.key --service-account-issuer=https://kubernetes.default.svc.cluster.local \
        --service-cluster-ip-range=10.96.0.0/12 --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
        --enable-bootstrap-token-auth --allow-privileged
    check "the API server answers" within 1200 api_answers
}

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
}

make_shop() {
    cat >/root/shop.yaml <<'YAML'
apiVersion: v1
kind: ConfigMap
metadata: {name: shop}
data: {greeting: good-day}
---
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
        readinessProbe: {httpGet: {path: /healthz, port: 80}, timeoutSeconds: 10}
        volumeMounts: [{name: shop, mountPath: /etc/shop}]
YAML
    check "the cluster takes a Deployment" within 600 k apply -f /root/shop.yaml
    check "two pods of a Deployment are Ready" within 900 replicas_ready 2
    before=$(shop_containers)
    check "four tasks are those of the Deployment" is "$(wc -l <<<"$before")" 4
}

# The lines of the block of docs/operations.md that has one beginning so, from there on.
documented() { sed -n "/^# $1/,/^\`\`\`/s/^# //p" operations.md; }
replace_kubelet() { bash -ex <(documented "install -D -t"); }
give_back() { bash -ex <(documented "systemctl disable --now podwright"); }

# The checks after each exchange; `before` has the containers of the Deployment.
in_place() { # WHEN AGENT
    check "$1: the agent is healthy" within 600 healthy
    check "$1: the API server answers" within 1800 api_answers
    check "$1: the Node says which agent it is" within 900 node_version_is "$2"
    check "$1: the node is Ready" within 900 node_ready
    check "$1: the Deployment's pods are Ready" within 600 replicas_ready 2
    check "$1: not one of their containers was touched" is "$(shop_containers)" "$before"
    check "$1: kubectl logs" within 300 logs_work
    check "$1: kubectl exec" within 300 exec_works
}

# A further pod comes, and one goes.
scale_shop() { # WHEN
    k scale deployment shop --replicas 3
    check "$1: a further pod runs" within 900 replicas_ready 3
    k scale deployment shop --replicas 2
    check "$1: and one goes" within 600 pods_of_shop 2
    before=$(shop_containers)
}
