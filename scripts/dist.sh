#!/usr/bin/env bash
# `make dist`: what a release hands out, in target/dist: Debian packages, static executables, a list of what is in each
# (CycloneDX), and checksums. No time but the commit's and no path of this machine goes into it: the same commit built by
# the same compilers should give the same SHA256SUMS.
#
#   scripts/dist.sh                                        all of it
#   scripts/dist.sh package EXECUTABLE FOLDER [VERSION]    a package of an executable of this machine, for tests
#
# TARGETS=<names>   these alone of x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu (packages),
#                   x86_64-unknown-linux-musl (a static executable)
# PROFILE=<name>    another profile than release, to try the packaging itself
# BUILD_FLAGS=<..>  further flags of `cargo build`
#
# A target's standard library comes from `rustup target add`, its linker and C compiler from Debian: gcc-aarch64-linux-gnu,
# libc6-dev-arm64-cross, musl-tools. With qemu-user-static the executable of another machine is started too.
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
# Cargo.toml names the files under it.
STAGE=target/package
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR

# All that is made carries the time of the commit, and no path of this machine.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
export CARGO_INCREMENTAL=0
export LC_ALL=C

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
    local library compiler=cc package=gcc
    case $1 in
    x86_64-unknown-linux-gnu) ;;
    aarch64-unknown-linux-gnu) compiler=aarch64-linux-gnu-gcc package="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" ;;
    x86_64-unknown-linux-musl) compiler=musl-gcc package=musl-tools ;;
    *) die "there is no target $1: see the head of scripts/dist.sh" ;;
    esac
    command -v "$compiler" >/dev/null || die "$compiler is missing: apt-get install $package"
    case " $BUILD_FLAGS " in *" -Zbuild-std"*) return ;; esac
    library=$(rustc --print target-libdir --target "$1" 2>/dev/null) || die "rustc knows no target $1"
    [ -d "$library" ] || die "the standard library of $1 is missing: rustup target add $1"
}

# Where the executable of a target is.
executable() { echo "$CARGO_TARGET_DIR/$1/$PROFILE/podwright"; }

# The words that run the executable of a target on this machine; none where nothing here runs it.
runner() { # TARGET
    local program emulator="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
    program=$(executable "$1")
    if "$program" --version >/dev/null 2>&1; then
        echo "$program"
    elif [[ $1 == aarch64-* ]] && $emulator "$program" --version >/dev/null 2>&1; then
        echo "$emulator $program"
    fi
}

# Paths of this machine, each with the name that takes its place. A standard library whose sources are here would name them.
mapped_paths() {
    local commit
    commit=$(rustc -vV | sed -n 's/^commit-hash: //p')
    printf '%s=%s\n' "$PWD" /podwright "$CARGO_TARGET_DIR" /podwright/target "${CARGO_HOME:-$HOME/.cargo}" /cargo \
        "$(rustc --print sysroot)/lib/rustlib/src/rust" "/rustc/$commit"
}

# Fails when an executable names a path of this machine.
check_paths() { # TARGET
    local pair
    for pair in $(mapped_paths); do
        ! has -aF -e "${pair%%=*}/" "$(executable "$1")" || die "the executable of $1 has ${pair%%=*} in it"
    done
}

# The flags of cargo that choose what goes into the executable of a target: TLS of a static one comes from ring, whose C
# code needs no headers of the kernel.
features() { # TARGET
    case $1 in *-musl) echo "--no-default-features --features ring" ;; esac
}

build() { # TARGET
    local target=$1 flags="" prefix="" pair upper
    for pair in $(mapped_paths); do flags+=" --remap-path-prefix=$pair" prefix+=" -ffile-prefix-map=$pair"; done
    upper=$(tr 'a-z-' 'A-Z_' <<<"$target")
    local -x "CFLAGS_${target//-/_}=$prefix"
    case $target in
    aarch64-*) local -x "CARGO_TARGET_${upper}_LINKER=aarch64-linux-gnu-gcc" ;;
    esac
    say "building for $target"
    # shellcheck disable=SC2046,SC2086  # words
    RUSTFLAGS="${RUSTFLAGS:-}$flags" cargo build --locked --profile "$PROFILE" --target "$target" --bin podwright \
        $(features "$target") $BUILD_FLAGS
    check_paths "$target"
}

# The parts of a package that are made: by the program itself, of which any machine's executable writes the same, and
# Debian's own form of a changelog, which names the package's version. The changes are in the other one.
stage_files() { # PACKAGE-VERSION COMMAND...
    local version=$1
    shift
    rm -rf "$STAGE"
    mkdir -p "$STAGE/man" "$STAGE/completions"
    "$@" man "$STAGE/man" >/dev/null
    gzip -9n "$STAGE"/man/*
    "$@" completions bash >"$STAGE/completions/podwright"
    "$@" completions zsh >"$STAGE/completions/_podwright"
    "$@" completions fish >"$STAGE/completions/podwright.fish"
    gzip -9n <CHANGELOG.md >"$STAGE/changelog.gz"
    printf 'podwright (%s) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' "$version" \
        "$(sed -n 's/^maintainer = "\(.*\)"/\1/p' Cargo.toml)" "$(git log -1 --format=%cD)" >"$STAGE/changelog"
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
    stage_files "${3:-$VERSION-1}" "$1"
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

# Every crate that is linked into the executable of a target, with its version, licence and checksum.
bill_of_materials() { # TARGET
    local program name=podwright-$VERSION-${1/-unknown-/-}.cdx
    program=$(tool cargo-cyclonedx "$CYCLONEDX_VERSION")
    say "listing what is in the executable of $1"
    # shellcheck disable=SC2046  # words
    "$program" cyclonedx --quiet --format json --spec-version 1.5 --all --no-build-deps --target "$1" $(features "$1") \
        --override-filename "$name"
    sed "s|path+file://$PWD#|path+file:///podwright#|g" "$name.json" >"$DIST/$name.json"
    rm "$name.json"
}

check_rust
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
if [ "${1:-}" = package ]; then
    package_of "${@:2}"
    exit
fi
[ -z "$(git status --porcelain)" ] || say "the sources are not those of the commit: only they give its checksums again"
for target in $TARGETS; do check_target "$target"; done
rm -rf "$DIST"
mkdir -p "$DIST"
for target in $TARGETS; do build "$target"; done
own=""
for target in $TARGETS; do
    command=$(runner "$target")
    [ -n "$command" ] || say "nothing here runs the executable of $target: nobody has seen it start"
    own=${own:-$command}
done
[ -n "$own" ] || die "none of the executables runs here, and the man pages are written by one"
# shellcheck disable=SC2086  # words
stage_files "$VERSION-1" $own
for target in $TARGETS; do
    case $target in
    *-gnu) package "$target" ;;
    *) archive "$target" ;;
    esac
    bill_of_materials "$target"
done
(cd "$DIST" && sha256sum -- * >SHA256SUMS)
say "in $DIST:"
(cd "$DIST" && ls -l -- *) >&2
