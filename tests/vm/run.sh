#!/usr/bin/env bash
# `make test-vm`: the agent under systemd on cgroup version 2, with the unit and the configuration as shipped, in a
# virtual machine. The machine's tools are installed by apt-get; its image is made once and kept under target/vm.
#
# PODWRIGHT=<file>  takes this executable instead of building one
# MACHINES=<names>  these machines alone: guest (the unit, cgroup drivers, volumes), hardware (NUMA nodes, hotplug, memory),
#                   shutdown (a reboot with pods of three priorities)
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
out=${OUT:-target/vm/out}
rm -rf "$out"
status=0
cp tests/vm/common.sh "$stage/"
for machine in ${MACHINES:-guest hardware shutdown}; do
    case $machine in
    guest | shutdown) size=(--memory 1024) ;;
    hardware) size=(--memory 1536 --smp 4 --numa 2) ;;
    *) die "there is no machine $machine: guest, hardware, shutdown" ;;
    esac
    ended=0
    tests/vm/machine run "${size[@]}" --timeout "${TIMEOUT:-3000}" --out "$out/$machine" \
        "tests/vm/$machine.sh" "$stage"/* || ended=$?
    [ "$ended" = 0 ] && continue
    say "the tests of the machine $machine ended with status $ended; journal and console are in $out/$machine"
    status=$ended
done
exit "$status"
