#!/bin/bash
# Runs in a virtual machine of a newer Debian, whose containerd and runc have user namespaces, as root: pods with IDs of their
# own, whose empty directories the file system counts by project quotas, on ext4 and on XFS.
# shellcheck source=tests/vm/common.sh
. "$NODE_VM_FILES/common.sh"

MIB=$((1 << 20))
DISK=/srv/disk

# A file system with quotas for all that the agent keeps.
mount_root() { # KIND
    mountpoint -q /var/lib/kubelet && umount /var/lib/kubelet
    rm -f $DISK
    truncate -s 512M $DISK
    case $1 in
    ext4) mkfs.ext4 -q -O quota,project -E quotatype=prjquota $DISK ;;
    xfs) mkfs.xfs -q $DISK ;;
    esac
    mount -o loop,prjquota $DISK /var/lib/kubelet
}

# A pod that keeps a file open which has no name any more: quotas see it, a walk does not.
pod() { # NAME HOST_USERS
    cat >"$MANIFESTS/$1.yaml" <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"$1","namespace":"default"},"spec":{"hostUsers":$2,
"terminationGracePeriodSeconds":1,"volumes":[{"name":"scratch","emptyDir":{}}],
"containers":[{"name":"$1","image":"localhost/podwright/client:1","imagePullPolicy":"IfNotPresent",
"command":["sh","-c","echo mine > /scratch/kept; exec 3>/scratch/held; dd if=/dev/zero bs=1048576 count=8 >&3; rm /scratch/held; exec sleep 100000"],
"volumeMounts":[{"name":"scratch","mountPath":"/scratch"}]}]}}
YAML
}

scratch() { echo /var/lib/kubelet/pods/*/volumes/kubernetes.io~empty-dir/scratch; }
# The use of a pod's volume in bytes, by the summary.
used() { # NAME
    busybox wget -qO- http://127.0.0.1:10255/stats/summary |
        jq --arg pod "$1-node-vm" '.pods[] | select(.podRef.name == $pod) | .volume[] | select(.name == "scratch").usedBytes'
}
uses_more() { [ "$(used "$1")" -ge "$2" ]; }
uses_less() { [ "$(used "$1")" -lt "$2" ]; }
# The first ID of the host that a container's users have, and how many they are.
ids() { awk '{ print $2, $3 }' "/proc/$(container_pid "$1")/uid_map"; }
has_own_ids() { read -r first count < <(ids "$1") && [ "$first" -ge 65536 ] && [ "$count" = 65536 ]; }
holds_nameless() { [[ "$(readlink "/proc/$(container_pid "$1")/fd/3")" == *"(deleted)" ]]; }
projects() { grep -c ":/var/lib/kubelet/pods/.*/scratch$" /etc/projects; }

test_quotas() { # KIND
    local before
    echo "--- $1"
    mount_root "$1"
    configure systemd
    printf 'readOnlyPort: 10255\nvolumeStatsAggPeriod: 5s\nfeatureGates: {LocalStorageCapacityIsolationFSQuotaMonitoring: true}\n' >>"$CONFIG"
    check "$1: the unit starts" systemctl start podwright
    pod counted false
    check "$1: a pod with users of its own is Ready" within 180 pods_ready 1
    check "$1: they are nobody else's" has_own_ids counted
    check "$1: what it wrote is root's on the disk" is "$(stat -c %u:%g "$(scratch)/kept")" 0:0
    check "$1: its directory has a project" is "$(projects)" 1
    check "$1: which the file system knows" eval 'lsattr -dp "$(scratch)" | grep -q "$(sed -n "s|:/var/lib/kubelet/pods/.*||p" /etc/projects)"'
    check "$1: what has no name counts" within 120 uses_more counted $((8 * MIB))
    pod walked true
    check "$1: a pod with the users of the node is Ready" within 180 pods_ready 2
    check "$1: its users are the node's" is "$(ids walked)" "0 4294967295"
    check "$1: its directory has no project" is "$(projects)" 1
    check "$1: it has written what has no name" within 120 holds_nameless walked
    check "$1: what has no name is not seen there" within 120 uses_less walked $MIB
    before=$(containers)
    kill -KILL "$(agent_pid)"
    check "$1: a killed agent is back" within 120 healthy
    check "$1: no container was touched" is "$(containers)" "$before"
    check "$1: it goes on counting" within 120 uses_more counted $((8 * MIB))
    rm -f "$MANIFESTS"/*
    check "$1: the pods go" within 180 nothing_runs
    check "$1: the project goes with them" within 60 eval '[ "$(projects)" = 0 ]'
    check "$1: and its name" eval '! grep -q . /etc/projid'
    check "$1: the unit stops" systemctl stop podwright
}

cd "$NODE_VM_FILES" || exit 1
trap finish EXIT
install_as_shipped
check "the runtime has user namespaces" eval 'runc features | jq -e ".linux.mountExtensions.idmap.enabled"'
test_quotas ext4
test_quotas xfs
