#!/usr/bin/env bash
# Makes images of a control plane, under the names that kubeadm asks for, of the programs in KUBEBUILDER_ASSETS: etcd,
# kube-apiserver, kube-controller-manager, kube-scheduler.
#
#   tests/vm/control-plane.sh ARCHIVE VERSION ETCD_TAG
set -euo pipefail
[ $# = 3 ] || { echo "usage: tests/vm/control-plane.sh ARCHIVE VERSION ETCD_TAG" >&2 && exit 2; }
archive=$(realpath -m "$1") version=$2 etcd=$3
assets=$(realpath "$KUBEBUILDER_ASSETS")
work=$(mktemp -d "$(dirname "$archive")/control-plane.XXXXXX")
trap 'rm -rf "$work"' EXIT
entries=""
for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do
    root=$work/root tag=$version
    [ "$name" = etcd ] && tag=$etcd
    rm -rf "$root"
    mkdir -p "$root/usr/local/bin" "$root/etc" "$root/tmp"
    install -m 0755 "$assets/$name" "$root/usr/local/bin/$name"
    # A program that is not static brings its libraries along.
    for library in $(ldd "$assets/$name" 2>/dev/null | grep -o '/[^ ]*'); do install -D "$library" "$root$library"; done
    printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
    tar -C "$root" --owner=0 --group=0 -cf "$work/$name.tar" .
    printf '{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/usr/local/bin"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
        "$(sha256sum "$work/$name.tar" | cut -d' ' -f1)" >"$work/$name.json"
    entries+=${entries:+,}$(printf '{"Config":"%s.json","RepoTags":["registry.k8s.io/%s:%s"],"Layers":["%s.tar"]}' "$name" "$name" "$tag" "$name")
done
rm -rf "$work/root"
printf '[%s]' "$entries" >"$work/manifest.json"
tar -C "$work" -cf "$archive" .
