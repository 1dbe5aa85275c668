#!/usr/bin/env bash
# `make twin`: the same pods on a node with Podwright and on a node with the upstream kubelet, and what differs.
#
# KUBEBUILDER_ASSETS=<folder>  etcd, kube-apiserver, kube-controller-manager, kubectl and kubelet 1.36; see scripts/cluster.sh
# PODWRIGHT=<file>             compares this executable
# SCENARIOS=a,b*               plays these scenarios of tests/twin/scenarios alone
# SEED=1 COUNT=40              so many random combinations of fields, by this seed, beside the others
# JOBS=<count>                 plays so many at a time (default 4)
# OUT=<folder>                 keeps the facts of both nodes as JSON, two files a scenario
# KEEP=1                       keeps the nodes' files and logs, in target/twin
# RECORD=1                     keeps upstream's side in tests/twin/recorded: of the scenarios that are there, or of SCENARIOS;
#                              always with the containerd of the PATH
#
# Installs with apt-get the packages that `make run` needs, where they are missing; says which before it does.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

DEVICE_PLUGINS=/var/lib/kubelet/device-plugins

# Stops what a run left whose test was killed.
clean_up() {
    local status=$? folder
    trap '' INT TERM
    for folder in target/twin/*/; do
        [ -d "$folder" ] || continue
        scripts/testenv.sh reap "$folder" || status=1
    done
    exit "$status"
}

main() {
    local program
    is_root || die "only root can start containers"
    for program in etcd kube-apiserver kube-controller-manager kubectl kubelet; do
        [ -x "${KUBEBUILDER_ASSETS:-}/$program" ] ||
            die "KUBEBUILDER_ASSETS must name a folder with kubelet and a control plane: no $program in '${KUBEBUILDER_ASSETS:-}'"
    done
    [ -z "${PODWRIGHT:-}" ] || [ -x "$PODWRIGHT" ] || die "PODWRIGHT=$PODWRIGHT is no program"
    check_rust
    if [ "${RECORD:-0}" = 1 ]; then export CONTAINERD=""; fi
    install_packages
    check_compiler
    scripts/images.sh "$PWD/target/images/images.tar"
    trap clean_up EXIT
    trap 'exit 130' INT TERM
    export KUBEBUILDER_ASSETS
    # Mounts of this run's own, which containers share with the host as they do on a machine with systemd. Upstream's kubelet
    # listens for device plugins at one place, whatever its root directory is: this run has a place of its own there.
    mkdir -p "$DEVICE_PLUGINS"
    # shellcheck disable=SC2016  # the inner shell's variable
    TWIN=1 DEVICE_PLUGINS=$DEVICE_PLUGINS unshare --mount --propagation slave bash -c '
        mount --make-rshared / && mount -t tmpfs tmpfs "$DEVICE_PLUGINS" && exec "$@"' bash \
        cargo test --locked --profile trial --features sim --test twin -- --nocapture --exact twins
}

main "$@"
