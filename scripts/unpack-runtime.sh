#!/usr/bin/env bash
# Unpacks Debian packages of another containerd into a folder for `CONTAINERD=<folder> make test`, without installing
# them: the machine's own containerd stays what it is.
#
#   scripts/unpack-runtime.sh FOLDER PACKAGE.deb...
#
# Packages are got with `apt-get download containerd=VERSION` where apt knows a newer suite. Debian's containerd 2.1
# runs on Debian 12 as it is, with Debian 12's runc.
set -euo pipefail

folder=${1:?usage: scripts/unpack-runtime.sh FOLDER PACKAGE.deb...}
shift
[ $# -gt 0 ] || {
    echo "usage: scripts/unpack-runtime.sh FOLDER PACKAGE.deb..." >&2
    exit 2
}
mkdir -p "$folder"
for package; do
    dpkg -x "$package" "$folder"
done
for program in containerd ctr containerd-shim-runc-v2; do
    [ -x "$folder/usr/bin/$program" ] || {
        echo "none of the packages holds $program" >&2
        exit 1
    }
done
"$folder/usr/bin/containerd" --version
