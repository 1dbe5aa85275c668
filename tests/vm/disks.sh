#!/bin/bash
# Runs in a virtual machine, as root: disks of storage networks (VOL-39) behind the kernel's own targets. iSCSI goes over TCP,
# with two disks of one target, with CHAP, and with two portals to one disk. A SCSI loop stands for Fibre Channel, of which
# the agent sees no more than a disk's name. The node loses its power while it has them all.
# shellcheck source=tests/vm/common.sh
. "$NODE_VM_FILES/common.sh"
# shellcheck source=tests/vm/targets.sh
. "$NODE_VM_FILES/targets.sh"
OBJECTS=/etc/podwright/objects
PASSWORD=a-long-password-1
# The checks of the first boot.
COUNTS=/srv/counts

make_targets() {
    local group
    rm -f /etc/udev/rules.d/60-multipath.rules
    udevadm control --reload
    load_targets
    ip addr add 192.0.2.11/24 dev node0
    disk first 1 && disk second 2 && disk guarded 3 && disk ways 4 && disk fibre 5
    target pair 192.0.2.10 "first second"
    target ways "192.0.2.10 192.0.2.11" ways
    target guarded 192.0.2.10 guarded
    group=$TARGETS/iscsi/$IQN:guarded/tpgt_1
    echo 1 >"$group/attrib/authentication"
    # The kernel takes what it is given, the end of a line too.
    printf guard >"$group/auth/userid"
    printf '%s' $PASSWORD >"$group/auth/password"
    group=$TARGETS/loopback/naa.5001405000000001/tpgt_1
    mkdir -p "$group"
    echo naa.5001405000000002 >"$group/nexus"
    unit "$group" 0 fibre
    within 60 loop_disk && forget_loop_disk
    printf 'defaults {\n find_multipaths yes\n}\nblacklist {\n devnode "^vd"\n}\n' >/etc/multipath.conf
    systemctl start iscsid multipathd
}
# The first of the names that udev gives to the disk on the loop, without its prefix.
loop_disk() { find /dev/disk/by-id -name 'scsi-3600140550*' -printf '%f\n' -quit | grep .; }
# The kernel forgets it, as after its last pod: who wants it has to look for it.
forget_loop_disk() {
    WWID=$(loop_disk) && WWID=${WWID#scsi-}
    echo 1 >"/sys/block/$(basename "$(readlink -f "/dev/disk/by-id/scsi-$WWID")")/device/delete"
}

# A pod that counts its starts on a volume of its own name.
pod() { # NAME VOLUME
    cat >"$MANIFESTS/.$1" <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"$1","namespace":"default"},"spec":{"terminationGracePeriodSeconds":1,
"securityContext":{"fsGroup":2000},"volumes":[{"name":"$1",$2}],
"containers":[{"name":"$1","image":"localhost/podwright/client:1","imagePullPolicy":"IfNotPresent",
"command":["sh","-c","echo start >> /data/starts; sync; exec sleep 100000"],
"volumeMounts":[{"name":"$1","mountPath":"/data"}]}]}}
YAML
    mv "$MANIFESTS/.$1" "$MANIFESTS/$1.yaml"
}
iscsi() { # TARGET UNIT MORE
    echo "\"iscsi\":{\"targetPortal\":\"192.0.2.10:3260\",\"iqn\":\"$IQN:$1\",\"lun\":$2${3:+,$3}}"
}
make_pods() {
    pod first "$(iscsi pair 0)"
    pod second "$(iscsi pair 1 '"fsType":"ext4"')"
    pod guarded "$(iscsi guarded 0 '"chapAuthSession":true,"secretRef":{"name":"chap"}')"
    pod ways "$(iscsi ways 0 '"portals":["192.0.2.11"]')"
    pod fibre "\"fc\":{\"wwids\":[\"$WWID\"]}"
}
# The password that the Secret has.
secret() { # PASSWORD
    mkdir -p $OBJECTS
    chmod 0700 $OBJECTS
    (umask 077 && cat >$OBJECTS/chap.yaml) <<YAML
apiVersion: v1
kind: Secret
metadata: {name: chap, namespace: default}
type: kubernetes.io/iscsi-chap
stringData: {node.session.auth.username: guard, node.session.auth.password: $1}
YAML
}

starts() { cat /var/lib/kubelet/pods/*/volumes/kubernetes.io~*/"$1"/starts | wc -l; } # NAME
started() { [ "$(starts "$1")" = "$2" ] && container_runs "$1"; }                     # NAME TIMES
sessions() { iscsiadm -m session 2>/dev/null | grep -c "$IQN:$1 "; }                   # TARGET
is_multipath() { [[ $1 == /dev/dm-* || $1 == /dev/mapper/* ]] || { echo "(it is $1)" && false; }; }
end() {                                                                                   # NAME
    rm "$MANIFESTS/$1.yaml"
    check "the pod $1 goes" within 120 eval '[ -z "$(container_id '"$1"')" ] && ! ls -d /var/lib/kubelet/pods/*/volumes/kubernetes.io~*/'"$1"
}

pods_come() {
    local name before
    install_as_shipped
    configure systemd
    mkdir -p /etc/systemd/system/podwright.service.d
    printf '[Service]\nExecStart=\nExecStart=/usr/bin/podwright --config=%s --local-objects=%s\n' "$CONFIG" $OBJECTS \
        >/etc/systemd/system/podwright.service.d/objects.conf
    systemctl daemon-reload
    secret not-the-password
    make_pods
    check "the unit starts" systemctl start podwright
    echo "--- a wrong password"
    check "the pod that has a wrong password says why it waits" within 300 waits_for_login
    secret $PASSWORD
    echo "--- five disks"
    for name in first second guarded ways fibre; do
        check "the pod $name has its disk" within 300 started $name 1
    done
    for name in first guarded fibre; do
        check "the volume of $name belongs to the pod's group" is \
            "$(stat -c %g "$(ls -d /var/lib/kubelet/pods/*/volumes/kubernetes.io~*/$name)")" 2000
    done
    check "two disks of a target share a session" is "$(sessions pair)" 1
    check "two portals are two sessions" is "$(sessions ways)" 2
    check "and one device" is_multipath "$(device ways)"
    check "a disk with one way is its own device" eval '[[ "$(device first)" == /dev/sd* ]]'
    check "nothing that was logged has a password" eval '! journalctl | grep -e not-the-password -e '$PASSWORD
    before=$(containers)
    check "the unit restarts" systemctl restart podwright
    check "health answers" within 60 healthy
    check "all are Ready" within 120 pods_ready 5
    check "not one container was touched" is "$(containers)" "$before"
    check "nor a session" is "$(sessions pair) $(sessions ways) $(sessions guarded)" "1 2 1"
}
waits_for_login() { podwright explain default/guarded | grep -q "failed to attach disk"; }

# The node alone loses it: what the disks were given is on them.
power_is_lost() {
    echo "$passed $failed" >$COUNTS
    sync
    trap - EXIT
    echo b >/proc/sysrq-trigger
    sleep 1000
}
power_is_back() {
    read -r passed failed <$COUNTS
    echo "--- after a loss of power"
    check "nothing is attached before the unit starts" eval '! iscsiadm -m session'
    check "the unit starts" systemctl start podwright
    for name in first second guarded ways fibre; do
        check "the pod $name has its disk again, and what was on it" within 300 started $name 2
        check "the disk of $name is mounted for one pod, once" is "$(mounts_of $name)" 1
    done
    check "each target has its sessions, and no more" is "$(sessions pair) $(sessions ways) $(sessions guarded)" "1 2 1"
    check "all are Ready" within 120 pods_ready 5
}
mounts_of() { grep -c "/volumes/kubernetes.io~[a-z]*/$1 " /proc/self/mountinfo; } # VOLUME

pods_go() {
    echo "--- one pod after the other goes"
    end first
    check "the session stays for the other disk" is "$(sessions pair)" 1
    check "which is there" started second 2
    end second
    check "with the last one the session goes" within 60 eval '[ "$(sessions pair)" = 0 ]'
    end ways
    check "both sessions go" within 60 eval '[ "$(sessions ways)" = 0 ]'
    check "and the device that was made of them" eval '! multipath -ll | grep .'
    end guarded
    end fibre
    check "the kernel forgot the disk on the loop" within 60 eval '! loop_disk'
    check "no session is left" within 60 eval '! iscsiadm -m session'
    check "nor a record of a target" eval '! iscsiadm -m node'
    check "nor a disk" eval '! ls /sys/block | grep "^sd"'
    check "nor a folder of one" is "$(find /var/lib/kubelet/plugins/kubernetes.io -name '*-lun-*' -o -name '36001405*' | wc -l)" 0
    pod first "$(iscsi pair 0)"
    check "a pod that comes later finds what was written" within 300 started first 3
    end first
    check "the unit stops" systemctl stop podwright
}

cd "$NODE_VM_FILES" || exit 1
trap finish EXIT
make_targets
if [ "$NODE_VM_BOOT" = 1 ]; then
    pods_come
    power_is_lost
fi
power_is_back
pods_go
