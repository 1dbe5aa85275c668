#!/bin/bash
# Runs in a virtual machine, as root: a node of a cluster with the unit as shipped, and two kinds of plugins around it. A
# plugin of the kubeconfig is a child of the agent: it has the unit's restrictions, and the node is Ready by its credentials.
# CSI drivers are a pod: they have no restriction, and the agent does its part of their volumes with its own.
# shellcheck source=tests/vm/common.sh
. "$NODE_VM_FILES/common.sh"

PLANE=/srv/plane
PROGRAMS=/srv/programs
PKI=$PLANE/cluster/pki
PROXY=http://127.0.0.1:21017
PLUGINS=/srv/plugins
KUBELET=/var/lib/kubelet
export KUBECONFIG=$PKI/admin.conf

k() { "$NODE_VM_FILES/kube/kubectl" --request-timeout=60s "$@"; }
# A busy machine misses the time for a handshake now and then.
again() { "$@" || "$@" || "$@"; }
make() {
    local objects
    objects=$(mktemp)
    cat >"$objects"
    again k apply --validate=false -f "$objects"
}
remove() { check "the cluster takes the end of the pod $1" again k delete pod "$1" --wait=false --ignore-not-found; } # POD
# Looks are many, and kubectl is slow to start. The API server sets lines for programs that people use, as wget is one.
api() { busybox wget -U looks -qO- "$PROXY$1"; } # PATH
ready() { grep -q '"type":"Ready",[^}]*"status":"True"'; }
node_ready() { api /api/v1/nodes/node-vm | ready; }
pod_ready() { api "/api/v1/namespaces/default/pods/$1" | ready; }
gone() { # POD
    local pods
    pods=$(api /api/v1/namespaces/default/pods) && ! grep -q "\"name\":\"$1\",\"namespace\"" <<<"$pods"
}

# The API server gives up where its first steps last longer than 30 s, which they do in an emulated machine. The next start
# has less to do. The controllers give up without it.
persistent() { # PROGRAM FLAG
    printf '#!/bin/bash\nuntil %s "$@" %s; do sleep 2; done\n' "$NODE_VM_FILES/kube/$1" "$2" >"$PROGRAMS/$1"
    chmod 0755 "$PROGRAMS/$1"
}
# The control plane of the live tests, beside a node that has no environment of theirs.
make_control_plane() {
    echo "--- a cluster"
    mkdir -p $PLANE $PROGRAMS
    printf 'HEALTHZ_PORT=21000\nNODE_IP=192.0.2.10\n' >$PLANE/env
    ln -s "$NODE_VM_FILES"/kube/{etcd,kubectl} $PROGRAMS/
    persistent kube-apiserver --enable-priority-and-fairness=false
    persistent kube-controller-manager \
        --controllers=persistentvolume-attach-detach-controller,persistentvolume-binder-controller,serviceaccount-controller
    check "a control plane starts" env KUBEBUILDER_ASSETS=$PROGRAMS READY_SECONDS=1500 scripts/cluster.sh start $PLANE node-vm
    [ "$failed" = 0 ] || exit
    check "the cluster takes drivers and volumes" make <<'YAML'
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: folders.test}
spec: {attachRequired: false, podInfoOnMount: true, fsGroupPolicy: File, volumeLifecycleModes: [Persistent, Ephemeral]}
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: disks.test}
spec: {attachRequired: false, fsGroupPolicy: File}
YAML
    volume data folders.test 1Gi Filesystem
    volume sized disks.test 8Mi Filesystem
    volume raw disks.test 8Mi Block
}

# A persistent volume of a driver, and its claim.
volume() { # NAME DRIVER SIZE MODE
    check "the cluster takes the volume $1" make <<YAML
apiVersion: v1
kind: PersistentVolume
metadata: {name: $1}
spec:
  capacity: {storage: $3}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  volumeMode: $4
  claimRef: {namespace: default, name: $1}
  csi: {driver: $2, volumeHandle: $1, fsType: ext4}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec:
  storageClassName: ""
  volumeName: $1
  volumeMode: $4
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: $3}}
YAML
}

# The credentials end soon, so that the agent asks for others. An emulated machine needs longer for the attempts than a
# plugin may take.
make_plugin() {
    mkdir -p $SEEN $PLUGINS
    cat >$PLUGINS/credentials <<'SCRIPT'
#!/bin/bash
echo "$1 $KUBERNETES_EXEC_INFO" >>"$SEEN/asked"
if mkdir "$SEEN/tried"; then
    ("$ATTEMPTS" >"$SEEN/.plugin"; mv "$SEEN/.plugin" "$SEEN/plugin") >/dev/null 2>&1 &
fi 2>/dev/null
pem() { awk '{ printf "%s\\n", $0 }' "$PKI/kubelet.$1"; }
printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"expirationTimestamp":"%s","clientCertificateData":"%s","clientKeyData":"%s"}}\n' \
    "$(date -u -d '+2 minutes' +%Y-%m-%dT%H:%M:%SZ)" "$(pem crt)" "$(pem key)"
SCRIPT
    chmod 0755 $PLUGINS/credentials "$NODE_VM_FILES/attempts.sh"
    cat >$PLUGINS/kubeconfig <<YAML
apiVersion: v1
kind: Config
current-context: cluster
clusters: [{name: cluster, cluster: {server: "https://127.0.0.1:21012", certificate-authority: "$PKI/ca.crt"}}]
contexts: [{name: cluster, context: {cluster: cluster, user: node}}]
users:
- name: node
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: $PLUGINS/credentials
      args: [node-vm]
      env: [{name: SEEN, value: $SEEN}, {name: PKI, value: $PKI}, {name: ATTEMPTS, value: "$NODE_VM_FILES/attempts.sh"}]
      interactiveMode: Never
      provideClusterInfo: true
YAML
}
asked() { grep -c '^node-vm .*"kind":"ExecCredential"' $SEEN/asked; }
asked_more_than() { [ "$(asked)" -gt "$1" ]; }

test_plugin() {
    echo "--- a plugin of the kubeconfig"
    make_plugin
    mkdir -p /etc/systemd/system/podwright.service.d
    printf '[Service]\nExecStart=\nExecStart=/usr/bin/podwright --config=%s --kubeconfig=%s\n' "$CONFIG" $PLUGINS/kubeconfig \
        >/etc/systemd/system/podwright.service.d/plugins.conf
    systemctl daemon-reload
    check "the unit starts" systemctl start podwright
    check "the node is Ready" within 600 node_ready
    check "a plugin of the kubeconfig runs" within 300 test -s $SEEN/plugin
    check "it has the question" grep -q '"server":"https://127.0.0.1:21012"' $SEEN/asked
    check "the API server knows the node by the credentials" grep -q '"username":"system:node:node-vm"' $PLANE/cluster/audit.log
    judged "a plugin of the kubeconfig" plugin
    check "it is asked again when the credentials end" within 300 asked_more_than 1
    check "the agent has a filter of system calls" is "$(of_status "$(agent_pid)" Seccomp)" 2
    check "the agent has the capabilities of the unit" is "$(of_status "$(agent_pid)" CapEff)" $CAPABILITIES
    check "its tasks have a bound" is "$(property TasksMax)" 16384
    check "and are far from it" [ "$(property TasksCurrent)" -lt 200 ]
}

# A driver's container, which has the root directory of the machine for its own.
driver() { # NAME COMMAND
    printf '{"name":"%s","image":"localhost/podwright/client:1","imagePullPolicy":"IfNotPresent","securityContext":{"privileged":true},"env":[{"name":"PATH","value":"/bin:/usr/sbin:/usr/bin:/sbin"}],"command":["busybox","chroot","/host","bash","-c","%s"],"volumeMounts":[{"name":"host","mountPath":"/host","mountPropagation":"Bidirectional"}]}' "$@"
}
driver_line() { echo "exec csi_driver $1.test $KUBELET/plugins/$1.test $KUBELET/plugins_registry ${2:-}"; } # NAME [BYTES]
calls() { cat /var/log/pods/default_drivers_*/"$1"/*.log; }                                               # DRIVER
called() { calls "$1" | grep -q " $2\$"; }                                                                  # DRIVER CALL
greeted() { [ "$(calls "$1" | grep -c ' GetInfo$')" -gt "$2" ]; }                                           # DRIVER TIMES
csi_node_has() { api /apis/storage.k8s.io/v1/csinodes/node-vm | grep -q "\"name\":\"$1\""; }

start_drivers() {
    # The kernel refuses user namespaces to a process with another root directory.
    local name tries="nsenter -t 1 -m $NODE_VM_FILES/attempts.sh"
    echo "--- CSI drivers"
    install -m 0755 csi_driver /usr/bin/csi_driver
    check "the cluster takes a pod of drivers" make <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"drivers"},"spec":{"nodeName":"node-vm","hostNetwork":true,
"terminationGracePeriodSeconds":5,"automountServiceAccountToken":false,"volumes":[{"name":"host","hostPath":{"path":"/"}}],
"containers":[$(driver folders "($tries >$SEEN/.driver; mv $SEEN/.driver $SEEN/driver) & $(driver_line folders)"),
$(driver disks "$(driver_line disks $((8 << 20)))")]}}
YAML
    check "the pod of drivers is Ready" within 600 pod_ready drivers
    for name in folders.test disks.test; do
        check "the node has the driver $name" within 300 csi_node_has $name
    done
    check "a driver has no filter" within 300 seen driver "Seccomp 0"
    check "a driver does what the unit refuses" all $SEEN/driver refused works
    check "a driver does what the unit allows" all $SEEN/driver allowed works
}

pod() { # NAME VOLUMES CONTAINER-FIELDS COMMAND
    check "the cluster takes the pod $1" make <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"$1"},"spec":{"nodeName":"node-vm","terminationGracePeriodSeconds":1,
"automountServiceAccountToken":false,"securityContext":{"fsGroup":2000},
"volumes":[{"name":"seen","hostPath":{"path":"$SEEN"}},$2],
"containers":[{"name":"$1","image":"localhost/podwright/client:1","imagePullPolicy":"IfNotPresent","command":["sh","-c","$4"],
"volumeMounts":[{"name":"seen","mountPath":"/seen"}$3]}]}}
YAML
}
claim() { printf '{"name":"%s","persistentVolumeClaim":{"claimName":"%s"}}' "$1" "$1"; } # NAME
mount_at() { printf ',{"name":"%s","mountPath":"/%s"}' "$1" "$1"; }                      # NAME
# Mount points of drivers' volumes, and of what the agent makes of their devices.
csi_mounts() { cut -d' ' -f5 /proc/self/mountinfo | grep -c "^$KUBELET/$1"; } # PATTERN
no_csi_mounts() { is "$(csi_mounts ".*kubernetes.io[~/]csi")" 0; }
no_loop_devices() { is "$(losetup -n -O NAME -l)" ""; }

test_volumes() {
    local before greetings plugged
    pod user "$(claim data),$(claim sized),{\"name\":\"own\",\"csi\":{\"driver\":\"folders.test\"}}" \
        "$(mount_at data)$(mount_at sized)$(mount_at own)" \
        'echo kept > /data/file && cat /data/file > /seen/read && df -k /sized | grep -q tmpfs.*8192 && echo in > /sized/file && echo in > /own/file && stat -c %g /data /sized /own > /seen/groups && test -g /data && exec sleep 100000'
    pod raw "$(claim raw)" '],"volumeDevices":[{"name":"raw","devicePath":"/dev/xvda"}' \
        'echo written > /dev/xvda && sync && head -n 1 /dev/xvda > /seen/raw && exec sleep 100000'
    check "a pod has volumes of two drivers" within 600 pod_ready user
    check "it reads what it wrote" seen read kept
    check "the driver has it" file_has $KUBELET/plugins/folders.test/volumes/data/file kept
    check "the volumes have the pod's group" is "$(sort -u $SEEN/groups)" 2000
    check "a volume was staged" called folders "NodeStageVolume data"
    check "and published" called folders "NodePublishVolume data"
    check "the pod's own volume was published" called folders "NodePublishVolume csi-[0-9a-f]*"
    check "a file system of a size was staged" called disks "NodeStageVolume sized"
    check "three volumes are mounted for the pod" is "$(csi_mounts "pods/.*/volumes/kubernetes.io~csi/")" 3
    check "two of them are mounted for the node" is "$(csi_mounts "plugins/kubernetes.io/csi/.*/globalmount")" 2
    check "a pod has a device of a driver" within 600 pod_ready raw
    check "it reads from the device what it wrote" seen raw written
    check "a loop device is behind it" isnt "$(losetup -n -O NAME -l)" ""

    before=$(running) greetings=$(calls folders | grep -c ' GetInfo$') plugged=$(asked)
    check "the unit restarts" systemctl restart podwright
    check "the node is healthy" within 120 healthy
    check "the plugin of the kubeconfig is asked by the new agent" within 120 asked_more_than "$plugged"
    check "the driver is registered again" within 300 greeted folders "$greetings"
    check "the pods are Ready after the restart" within 300 eval 'pods_ready 3 && pod_ready user && pod_ready raw'
    check "not one container was touched" is "$(running)" "$before"
    check "the volumes are still mounted" is "$(csi_mounts "pods/.*/volumes/kubernetes.io~csi/")" 3

    remove raw
    check "the pod with the device goes" within 300 gone raw
    check "the device is unstaged" within 120 called disks "NodeUnstageVolume raw"
    check "no loop device stays" within 60 no_loop_devices
    check "the unit stops" systemctl stop podwright
    remove user
    check "the pod goes on without its agent" container_runs user
    check "the unit starts again" systemctl start podwright
    check "the pod that was deleted meanwhile goes" within 600 gone user
    check "its volumes are unpublished" within 60 called folders "NodeUnpublishVolume data"
    check "its own volume, too" called folders "NodeUnpublishVolume csi-[0-9a-f]*"
    check "a volume is unstaged" within 120 called folders "NodeUnstageVolume data"
    check "the file system is unstaged" within 120 called disks "NodeUnstageVolume sized"
    check "nothing of the drivers stays mounted" within 60 no_csi_mounts
    check "the driver keeps what was written" file_has $KUBELET/plugins/folders.test/volumes/data/file kept
}

end() {
    cp -r $SEEN $PLANE/cluster/*.log /var/log/pods "$NODE_VM_OUT/"
    finish
}

cd "$NODE_VM_FILES" || exit 1
trap end EXIT
mkdir -p "$NODE_VM_OUT"
install_as_shipped
configure systemd
# Where users may not read the kernel's log, a capability decides.
sysctl -q -w kernel.dmesg_restrict=1
make_control_plane
test_plugin
start_drivers
test_volumes
echo "--- the end"
remove drivers
check "the drivers go" within 300 gone drivers
check "nothing runs" within 120 nothing_runs
check "no volume stays mounted" within 60 eval '! grep -q " /var/lib/kubelet/pods/" /proc/self/mountinfo'
check "nothing was refused to the agent" eval '! journalctl -u podwright | grep -i "operation not permitted"'
check "the agent did not fail" eval '! journalctl -u podwright | grep -E "\"panic\"|actor failed|turn does not end"'
check "the unit stops" systemctl stop podwright
