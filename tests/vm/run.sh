#!/usr/bin/env bash
# `make test-vm`: the agent under systemd on cgroup version 2, with the unit and the configuration as shipped, in a
# virtual machine. The machine's tools are installed by apt-get; its image is made once and kept under target/vm.
#
# PODWRIGHT=<file>  takes this executable instead of building one
# CSI_DRIVER=<file> takes this one for examples/csi_driver.rs
# MACHINES=<names>  these machines alone: guest (the unit, cgroup drivers, volumes), hardware (NUMA nodes, hotplug, memory),
#                   shutdown (a reboot with pods of three priorities), package (the Debian package), disks (iSCSI and Fibre
#                   Channel), namespaces (user namespaces and project quotas, on a newer Debian), power (losses of power),
#                   restrictions (what the unit refuses and allows),
#                   and by their names alone plugins (CSI drivers and a plugin of the kubeconfig, in a cluster), selinux
#                   (volumes with a label, in a cluster), kubeadm and join (in place of the kubelet of a node that
#                   `kubeadm init` or `kubeadm join` made); for these KUBEBUILDER_ASSETS has kubectl, etcd, kube-apiserver,
#                   kube-controller-manager, and but for plugins kubeadm, kubelet and kube-scheduler 1.36.2
# LOSSES=<number>   how often the machine power loses its power (default 50)
# OUT=<folder>      where the journals and the consoles go (default target/vm/out)
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

check_rust
is_root || die "the machine's image has to be made as root"
has_apt || die "the machine is made of Debian packages, and there is no apt-get here"
command -v python3 >/dev/null || {
    say "installing with apt-get: python3"
    apt-get -qq -y install --no-install-recommends python3 >&2
}
install_packages
if [ -z "${PODWRIGHT:-}" ]; then
    # The emulated processor is an old one: no target-cpu=native.
    cargo build --release --locked --bin podwright
    PODWRIGHT=${CARGO_TARGET_DIR:-target}/release/podwright
fi
scripts/images.sh "$PWD/target/images/images.tar"
stage=$(mktemp -d target/vm-files.XXXXXX)
trap 'rm -rf "$stage"' EXIT
cp "$PODWRIGHT" "$stage/podwright"
cp target/images/images.tar "$stage/"
cp -r deploy "$stage/deploy"
cp -r examples "$stage/examples"
# The package, and one that is newer and otherwise the same.
stage_packages() {
    [ -e "$packages" ] && return
    packages=$(mktemp -d target/vm-packages.XXXXXX)
    scripts/dist.sh package "$PODWRIGHT" "$packages"
    scripts/dist.sh package "$PODWRIGHT" "$packages" "$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)-1+next"
}
# The control plane of scripts/cluster.sh. Some builds of its programs are one file with several names.
stage_cluster() {
    local program file
    cluster=$(mktemp -d target/vm-cluster.XXXXXX)
    mkdir "$cluster/kube" "$cluster/scripts"
    cp scripts/cluster.sh scripts/lib.sh "$cluster/scripts/"
    for program in etcd kube-apiserver kube-controller-manager kubectl; do
        file=$(realpath -e "${KUBEBUILDER_ASSETS:?names no folder with $program}/$program")
        cp -n "$file" "$cluster/kube/"
        [ -e "$cluster/kube/$program" ] || ln -s "${file##*/}" "$cluster/kube/$program"
    done
}
# No optimisation: the driver is small, and waits for the agent.
stage_driver() {
    if [ -z "${CSI_DRIVER:-}" ]; then
        cargo build --profile trial --locked --features sim --example csi_driver
        CSI_DRIVER=${CARGO_TARGET_DIR:-target}/trial/examples/csi_driver
    fi
    cp "$CSI_DRIVER" "$cluster/csi_driver"
    strip "$cluster/csi_driver"
}
packages="" cluster=""
trap 'rm -rf "$stage" ${packages:+"$packages"} ${cluster:+"$cluster"}' EXIT
out=${OUT:-target/vm/out}
rm -rf "$out"
status=0
# The machines do what the page tells an administrator to do.
cp tests/vm/common.sh tests/vm/cluster.sh tests/vm/targets.sh tests/vm/attempts.sh docs/operations.md "$stage/"
echo "${LOSSES:-50}" >"$stage/losses"
for machine in ${MACHINES:-guest restrictions hardware shutdown package disks namespaces power}; do
    files=() limit=3000 image=()
    case $machine in
    guest | shutdown | disks) size=(--memory 1024) ;;
    # It boots often, and one processor is up sooner.
    power) size=(--memory 1024 --smp 1) limit=$((1200 + ${LOSSES:-50} * 120)) ;;
    # The slot's memory is the kernel's for what it can move, and can so be taken away again.
    hardware) size=(--memory 1536 --smp 4 --numa 2 --slot 256 --append memhp_default_state=online_movable) ;;
    namespaces)
        size=(--memory 1024)
        image=(NODE_VM_SUITE=forky NODE_VM_PACKAGES="mount xfsprogs jq" NODE_VM_DIR="$(realpath -m "${NODE_VM_DIR:-target/vm}")/forky")
        ;;
    restrictions)
        size=(--memory 1024)
        image=(NODE_VM_PACKAGES=openssl NODE_VM_DIR="$(realpath -m "${NODE_VM_DIR:-target/vm}")/restrictions")
        ;;
    plugins)
        size=(--memory 2560) limit=6000
        image=(NODE_VM_PACKAGES=openssl NODE_VM_DIR="$(realpath -m "${NODE_VM_DIR:-target/vm}")/restrictions")
        stage_cluster
        stage_driver
        files=("$cluster"/*)
        ;;
    package)
        size=(--memory 1024)
        stage_packages
        files=("$packages"/*.deb)
        ;;
    selinux)
        size=(--memory 2560 --smp 2 --append "security=selinux selinux=1") limit=6000
        image=(NODE_VM_PACKAGES="selinux-policy-default selinux-utils"
            NODE_VM_DIR="$(realpath -m "${NODE_VM_DIR:-target/vm}")/selinux")
        files=("$KUBEBUILDER_ASSETS"/{kubeadm,kubectl,etcd,kube-apiserver,kube-controller-manager})
        ;;
    kubeadm)
        size=(--memory 3072 --smp 2) limit=9000
        stage_packages
        tests/vm/control-plane.sh "$packages/control-plane.tar" v1.36.2 3.6.8-0
        files=("$packages"/*-1_*.deb "$packages/control-plane.tar" "$KUBEBUILDER_ASSETS"/{kubeadm,kubelet,kubectl})
        ;;
    join)
        size=(--memory 3072 --smp 2) limit=9000
        stage_packages
        files=("$packages"/*-1_*.deb
            "$KUBEBUILDER_ASSETS"/{kubeadm,kubelet,kubectl,etcd,kube-apiserver,kube-controller-manager,kube-scheduler})
        ;;
    *) die "there is no machine $machine: guest, restrictions, hardware, shutdown, package, disks, namespaces, power, plugins, selinux, kubeadm, join" ;;
    esac
    ended=0
    env ${image[@]+"${image[@]}"} tests/vm/machine run "${size[@]}" --timeout "${TIMEOUT:-$limit}" --out "$out/$machine" \
        "tests/vm/$machine.sh" "$stage"/* ${files[@]+"${files[@]}"} || ended=$?
    [ "$ended" = 0 ] && continue
    say "the tests of the machine $machine ended with status $ended; journal and console are in $out/$machine"
    status=$ended
done
exit "$status"
