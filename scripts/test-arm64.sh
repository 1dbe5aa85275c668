#!/usr/bin/env bash
# `make test-arm64`: the unit tests of arm64 on this machine's processor, emulated by qemu-user. Half an hour on two cores.
#
#   scripts/test-arm64.sh [NAME...]     (those whose name holds one of these; by default all that an emulator can run)
#
# QEMU=<file>   the emulator (default qemu-aarch64-static or qemu-aarch64); 9.2 or newer, which knows openat2
#
# The standard library comes from `rustup target add aarch64-unknown-linux-gnu`, compiler and C library from Debian:
# gcc-aarch64-linux-gnu, libc6-dev-arm64-cross.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

TARGET=aarch64-unknown-linux-gnu
LIBRARIES=/usr/aarch64-linux-gnu/lib
OLDEST=9.2
# The emulator tells nobody that a program cannot be started, and starts none of its own kind without help of the kernel.
PROGRAMS=(
    cli::html::tests::a_browser
    cli::manual::tests::shells
    platform::cluster::kube_api::tests::credentials::a_program_that_fails_says_so_in_the_usual_words
    platform::host::process::tests::
    platform::images::linux::tests::sec_42_a_program_is_run_within_bounds
    platform::network::network_rules::tests::a_program_answers_with_its_status_and_a_complaint_of_bounded_size
    platform::volumes::kinds::local::tests::a_second_pods_group_is_a_warning_and_options_reach_the_mount
    platform::volumes::kinds::local::tests::a_set_up_that_was_cut_off_is_brought_to_its_end_and_a_whole_one_is_left_alone
)
# Nor does it know the socket option that tells whom a socket leads to.
SOCKETS=(platform::network::socket_peer::tests::)

find_emulator() {
    local name found
    for name in ${QEMU:-qemu-aarch64-static qemu-aarch64}; do
        found=$(command -v "$name") && break
    done
    [ -n "$found" ] || die "no emulator of arm64 here: apt-get install qemu-user-static, or QEMU=<file>"
    QEMU=$found
    found=$("$QEMU" --version | sed -n '1s/.* version \([0-9.]*\).*/\1/p')
    printf '%s\n' "$OLDEST" "$found" | sort -CV ||
        die "$QEMU is version ${found:-unknown}, which lacks openat2: $OLDEST or newer is needed (QEMU=<file>)"
}

main() {
    local name skipped=()
    check_rust .
    find_emulator
    if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! [ -d "$LIBRARIES" ]; then
        die "a compiler for arm64 is missing: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
    fi
    [ -d "$(rustc --print target-libdir --target "$TARGET")" ] ||
        die "the standard library of $TARGET is missing: rustup target add $TARGET"
    for name in "${PROGRAMS[@]}" "${SOCKETS[@]}"; do skipped+=(--skip "$name"); done
    say "left out, since the emulator cannot run them: ${PROGRAMS[*]} ${SOCKETS[*]}"
    # Its loader by name: with a root directory of its own (-L) a program would be shown other files under paths of the host.
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$QEMU $LIBRARIES/ld-linux-aarch64.so.1 --library-path $LIBRARIES"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_PROFILE_DEV_DEBUG=none
    cargo test --locked --target "$TARGET" --features sim --lib -- "${skipped[@]}" "$@"
}

main "$@"
