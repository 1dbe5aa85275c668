#!/usr/bin/env bash
# `make dist`: what a release hands out, in target/dist: Debian packages, static executables, a list of what is in them
# (CycloneDX), and checksums. No time but the commit's and no path of this machine goes into it.
#
#   scripts/dist.sh                                        all of it
#   scripts/dist.sh package EXECUTABLE FOLDER [VERSION]    a package of an executable of this machine, for tests
#
# TARGETS=<names>   these alone of x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu (packages),
#                   x86_64-unknown-linux-musl, aarch64-unknown-linux-musl (static executables)
# PROFILE=<name>    another profile than release, to try the packaging itself
# BUILD_FLAGS=<..>  further flags of `cargo build`
#
# A target's standard library comes from `rustup target add`, its linker and C compiler from Debian: gcc-aarch64-linux-gnu,
# libc6-dev-arm64-cross, musl-tools.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

TARGETS=${TARGETS:-x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-unknown-linux-musl}
PROFILE=${PROFILE:-release}
BUILD_FLAGS=${BUILD_FLAGS:-}
DEB_VERSION=3.8.0
CYCLONEDX_VERSION=0.5.9
DIST=target/dist
STAGE=target/package

# All that is made carries the time of the commit, and no path of this machine.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
export CARGO_INCREMENTAL=0
unmapped="$PWD=/podwright ${CARGO_HOME:-$HOME/.cargo}=/cargo"

# Prints the program of this version; installs it where there is none.
tool() { # NAME VERSION
    local name=$1 version=$2 root=$PWD/target/tools/$1-$2 found
    for found in "$(command -v "$name")" "$root/bin/$name"; do
        if [ -x "$found" ] && [[ "$("$found" "${name#cargo-}" --version 2>/dev/null || "$found" --version)" == *"$version"* ]]; then
            echo "$found"
            return
        fi
    done
    say "installing $name $version into $root"
    CARGO_TARGET_DIR=$root/build CARGO_PROFILE_DEV_DEBUG=0 \
        cargo install --quiet --locked --debug --root "$root" "$name@$version" >&2
    rm -rf "$root/build"
    echo "$root/bin/$name"
}

check_target() { # TARGET
    local library
    case " $BUILD_FLAGS " in *" -Zbuild-std"*) return ;; esac
    library=$(rustc --print target-libdir --target "$1" 2>/dev/null) || die "rustc knows no target $1"
    [ -d "$library" ] || die "the standard library of $1 is missing: rustup target add $1"
}

# Where the executable of a target is.
executable() { echo "target/$1/$PROFILE/podwright"; }

build() { # TARGET
    local target=$1 flags="" features=() prefix pair upper
    for pair in $unmapped; do flags+=" --remap-path-prefix=$pair" prefix+=" -ffile-prefix-map=$pair"; done
    upper=$(tr 'a-z-' 'A-Z_' <<<"$target")
    local -x "CFLAGS_${target//-/_}=$prefix"
    case $target in
    aarch64-unknown-linux-gnu) local -x "CARGO_TARGET_${upper}_LINKER=aarch64-linux-gnu-gcc" ;;
    *-musl)
        # A static executable takes TLS from ring, whose C code needs no headers of the kernel.
        features=(--no-default-features --features ring)
        [[ $target != x86_64* ]] || local -x "CARGO_TARGET_${upper}_LINKER=musl-gcc" "CC_${target//-/_}=musl-gcc"
        ;;
    esac
    say "building for $target"
    # shellcheck disable=SC2086  # words
    RUSTFLAGS="${RUSTFLAGS:-}$flags" cargo build --locked --profile "$PROFILE" --target "$target" --bin podwright \
        ${features[@]+"${features[@]}"} $BUILD_FLAGS
}

# The parts of a package that the program itself writes; any machine's executable writes the same.
stage_files() { # EXECUTABLE
    rm -rf "$STAGE"
    mkdir -p "$STAGE/man" "$STAGE/completions"
    "$1" man "$STAGE/man"
    gzip -9n "$STAGE"/man/*
    "$1" completions bash >"$STAGE/completions/podwright"
    "$1" completions zsh >"$STAGE/completions/_podwright"
    "$1" completions fish >"$STAGE/completions/podwright.fish"
    # kubectl finds its plugins by name.
    ln -s podwright "$STAGE/kubectl-podwright"
}

package() { # TARGET
    local program
    program=$(tool cargo-deb "$DEB_VERSION")
    say "packaging for $1"
    "$program" deb --quiet --no-build --no-strip --locked --profile "$PROFILE" --target "$1" --output "$DIST/"
}

# cargo-deb takes the executable from where cargo would have put it.
package_of() { # EXECUTABLE FOLDER [VERSION]
    local program place
    program=$(tool cargo-deb "$DEB_VERSION")
    stage_files "$1"
    place=$(mktemp -d target/package-of.XXXXXX)
    install -D -m 0755 "$1" "$place/release/podwright"
    CARGO_TARGET_DIR=$PWD/$place "$program" deb --quiet --no-build --no-strip --locked --output "$2/" \
        ${3:+--deb-version "$3"}
    rm -rf "$place"
}

# One folder in one archive: the program, what deploy/ has, and the pages.
archive() { # TARGET
    local name=podwright-$VERSION-${1/-unknown-/-} folder=$STAGE/archive
    rm -rf "$folder"
    mkdir -p "$folder/$name"
    cp "$(executable "$1")" "$folder/$name/podwright"
    cp -r deploy "$STAGE/man" "$STAGE/completions" LICENSE README.md CHANGELOG.md "$folder/$name/"
    chmod -R u=rwX,go=rX "$folder/$name"
    tar -C "$folder" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$name" |
        gzip -9n >"$DIST/$name.tar.gz"
}

bill_of_materials() {
    local program
    program=$(tool cargo-cyclonedx "$CYCLONEDX_VERSION")
    say "listing what is in it"
    "$program" cyclonedx --quiet --format json --describe crate --all --target all \
        --override-filename "podwright-$VERSION.cdx"
    mv "podwright-$VERSION.cdx.json" "$DIST/"
}

check_rust
if [ "${1:-}" = package ]; then
    package_of "${@:2}"
    exit
fi
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
for target in $TARGETS; do check_target "$target"; done
rm -rf "$DIST"
mkdir -p "$DIST"
for target in $TARGETS; do build "$target"; done
own=""
for target in $TARGETS; do
    if "$(executable "$target")" --version >/dev/null 2>&1; then own=$(executable "$target"); fi
done
[ -n "$own" ] || die "none of the executables runs here, and the man pages are written by one"
stage_files "$own"
for target in $TARGETS; do
    case $target in
    *-gnu) package "$target" ;;
    *) archive "$target" ;;
    esac
done
bill_of_materials
(cd "$DIST" && sha256sum -- * >SHA256SUMS)
say "in $DIST:"
(cd "$DIST" && ls -l -- *) >&2
