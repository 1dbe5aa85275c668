#!/bin/bash
# Runs in a virtual machine with SELinux, as root: volumes of a cluster that are mounted with the label of their pod (VOL-31).
# The policy only says which labels there are; nothing is forbidden. The control plane is processes of this machine.
# shellcheck source=tests/vm/cluster.sh
. "$NODE_VM_FILES/cluster.sh"
# shellcheck source=tests/vm/targets.sh
. "$NODE_VM_FILES/targets.sh"
export KUBECONFIG=$PLANE/super-admin.conf
# Debian's policy has no types of containers: those of virtual machines stand for them.
LABEL=system_u:object_r:svirt_image_t

# Labels of containers by the policy, and a runtime that gives them.
turn_on() {
    printf 'process = "system_u:system_r:svirt_t:s0"\nfile = "%s:s0"\nro_file = "%s:s0"\n' $LABEL $LABEL \
        >/etc/selinux/default/contexts/lxc_contexts
    sed -i 's/^\[plugins."io.containerd.grpc.v1.cri"\]$/&\n  enable_selinux = true/' /etc/containerd/config.toml
}

# The controllers that attach volumes, bind claims to them, and make accounts.
make_control_plane() {
    start_api_server node-vm
    process kube-controller-manager --kubeconfig=controller-manager.conf --leader-elect=false \
        --service-account-private-key-file=pki/sa.key --use-service-account-credentials \
        "--controllers=persistentvolume-attach-detach-controller,persistentvolume-binder-controller,serviceaccount-controller"
    check "the cluster has an account for pods" within 900 k get serviceaccount default
}

# A persistent volume on a disk, and its claim.
volume() { # NAME UNIT MODE
    k apply -f - <<YAML
apiVersion: v1
kind: PersistentVolume
metadata: {name: $1}
spec:
  capacity: {storage: 100Mi}
  accessModes: [$3]
  persistentVolumeReclaimPolicy: Retain
  iscsi: {targetPortal: "192.0.2.10:3260", iqn: "$IQN:pair", lun: $2}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec:
  storageClassName: ""
  volumeName: $1
  accessModes: [$3]
  resources: {requests: {storage: 100Mi}}
YAML
}
pod() { # NAME CLAIM LEVEL
    k apply -f - <<YAML
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  nodeName: node-vm
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  securityContext: {seLinuxOptions: {level: "$3"}}
  volumes: [{name: data, persistentVolumeClaim: {claimName: $2}}]
  containers:
  - name: $1
    image: localhost/podwright/client:1
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "echo start >> /data/starts; sync; exec sleep 100000"]
    volumeMounts: [{name: data, mountPath: /data}]
YAML
}
pod_ready() { [ "$(k get pod "$1" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]; }
gone() { [ -z "$(k get pod "$1" --ignore-not-found -o name)" ]; }
folder() { ls -d /var/lib/kubelet/pods/*/volumes/kubernetes.io~iscsi/"$1"; }
# The label that the whole volume is mounted with; nothing where it has none.
mounted_with() { findmnt -no FS-OPTIONS "$(folder "$1")" | sed -nE 's/^(.*,)?context="([^"]*)".*/\2/p; t; s/^(.*,)?context=([^,]*).*/\2/p'; } # VOLUME
label_of() { stat -c %C "$1"; }
process_label() { tr -d '\0' <"/proc/$(container_pid "$1")/attr/current"; } # CONTAINER
admitted() { busybox wget -qO- http://127.0.0.1:10255/metrics | grep ^volume_manager_selinux_volumes_admitted_total; }

cd "$NODE_VM_FILES" || exit 1
trap finish EXIT
mkdir -p "$NODE_VM_OUT"
turn_on
install -m 0755 kubeadm kubectl /usr/bin/
install_as_shipped
configure systemd
echo 'readOnlyPort: 10255' >>"$CONFIG"
check "SELinux is on, and forbids nothing" is "$(cat /sys/fs/selinux/enforce)" 0
load_targets
disk first 1 && disk second 2
target pair 192.0.2.10 "first second"
systemctl start iscsid
make_control_plane
mkdir -p /etc/systemd/system/podwright.service.d
printf '[Service]\nExecStart=\nExecStart=/usr/bin/podwright --config=%s --kubeconfig=%s\n' "$CONFIG" $PLANE/kubelet.conf \
    >/etc/systemd/system/podwright.service.d/cluster.conf
systemctl daemon-reload
check "the unit starts" systemctl start podwright
check "the node is Ready" within 600 node_ready
volume alone 0 ReadWriteOncePod
volume shared 1 ReadWriteOnce

echo "--- a volume for one pod"
pod one alone s0:c1,c2
check "a pod has it" within 600 pod_ready one
check "its process has the pod's level" eval '[[ "$(process_label one)" == *:s0:c1,c2 ]]'
check "the volume is mounted with the label of the pod's files" is "$(mounted_with alone)" $LABEL:s0:c1,c2
check "every file has it" is "$(label_of "$(folder alone)/starts")" $LABEL:s0:c1,c2
check "it is counted" eval '[ "$(admitted)" = "volume_manager_selinux_volumes_admitted_total{access_mode=\"RWOP\",volume_plugin=\"kubernetes.io/iscsi\"} 1" ]'
before=$(containers)
check "the unit restarts" systemctl restart podwright
check "the node is healthy" within 120 healthy
check "not one container was touched" is "$(containers)" "$before"
k delete pod one --wait=false
check "the pod goes" within 300 gone one
pod two alone s0:c3
check "one with another label has it next" within 600 pod_ready two
check "it is mounted with that" is "$(mounted_with alone)" $LABEL:s0:c3
check "what was written by the first has the new label" is "$(label_of "$(folder alone)/starts")" $LABEL:s0:c3
check "and is there" is "$(wc -l <"$(folder alone)/starts")" 2

echo "--- a volume of another access mode"
pod three shared s0:c4
check "a pod has it" within 600 pod_ready three
check "the volume is mounted without a label" is "$(mounted_with shared)" ""
check "the runtime labelled its files" is "$(label_of "$(folder shared)/starts")" $LABEL:s0:c4

k delete pod two three --wait=false
check "the pods go" within 300 eval 'gone two && gone three'
check "the disks are given back" within 120 eval '! iscsiadm -m session'
