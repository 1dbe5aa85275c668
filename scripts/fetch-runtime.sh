#!/usr/bin/env bash
# Fetches the containerd of a newer Debian suite into a folder for `CONTAINERD=<folder> make test`. Nothing is installed,
# and apt's own lists stay as they are.
#
#   scripts/fetch-runtime.sh FOLDER [SUITE]     by default the suite that has containerd 2.1, with its event stream
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

folder=${1:?usage: scripts/fetch-runtime.sh FOLDER [SUITE]}
suite=${2:-forky}
[ ! -x "$folder/usr/bin/containerd" ] || exit 0
has_apt || die "there is no apt-get to fetch containerd with"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 -E '/debian/?$') ||
    die "apt names no Debian mirror"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial"
echo "deb [signed-by=$keys] $mirror $suite main" >"$work/sources.list"
# As an unprivileged user apt-get could not write into the folder of root.
apt() {
    apt-get -qq -o Acquire::Retries=5 -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- \
        -o "Dir::State::lists=$work/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root \
        "$@" >&2
}
apt update
(cd "$work" && apt download containerd)
scripts/unpack-runtime.sh "$folder" "$work"/containerd_*.deb
