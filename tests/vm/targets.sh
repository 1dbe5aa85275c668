#!/bin/bash
# Shared by the machines with disks of storage networks: the kernel's own targets. iSCSI goes over TCP.
TARGETS=/sys/kernel/config/target
IQN=iqn.2026-01.example.podwright

load_targets() {
    modprobe -a target_core_mod target_core_file iscsi_target_mod tcm_loop iscsi_tcp dm_multipath
    mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
    mkdir -p $TARGETS/iscsi
}
# A file as a disk. Its names are made of the first digits of its serial.
disk() { # NAME NUMBER
    local core=$TARGETS/core/fileio_0/$1
    truncate -s 128M "/srv/$1.img"
    mkdir -p "$core"
    echo "fd_dev_name=/srv/$1.img,fd_dev_size=$((128 << 20)),fd_buffered_io=1" >"$core/control"
    echo "${2}0000000-0000-0000-0000-000000000000" >"$core/wwn/vpd_unit_serial"
    echo 1 >"$core/enable"
}
unit() { # GROUP UNIT DISK
    mkdir -p "$1/lun/lun_$2"
    ln -s "$TARGETS/core/fileio_0/$3" "$1/lun/lun_$2/$3"
}
# An iSCSI target at some addresses, whose logical units are disks.
target() { # NAME ADDRESSES DISKS
    local group=$TARGETS/iscsi/$IQN:$1/tpgt_1 name number=0
    mkdir -p "$group"
    for name in $3; do
        unit "$group" "$number" "$name"
        number=$((number + 1))
    done
    for name in $2; do mkdir "$group/np/$name:3260"; done
    echo 1 >"$group/attrib/generate_node_acls"
    echo 1 >"$group/attrib/cache_dynamic_acls"
    echo 0 >"$group/attrib/demo_mode_write_protect"
    echo 0 >"$group/attrib/authentication"
    echo 1 >"$group/enable"
}
# The device that a volume is mounted from.
device() { findmnt -no SOURCE "$(ls -d /var/lib/kubelet/pods/*/volumes/kubernetes.io~*/"$1")"; } # NAME
