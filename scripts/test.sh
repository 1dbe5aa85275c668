#!/usr/bin/env bash
# `make test`: every check and test that this machine can do. Each part has one headline and its time; a part that the
# machine cannot do is skipped with one line that says why.
#
#   scripts/test.sh           all parts but the virtual machine's, which is `make test-vm`
#   scripts/test.sh live ...  the named parts alone: fmt clippy deny alerts test live run
#
# CONTAINERD=<dir> tests with the containerd of another folder too (see scripts/unpack-runtime.sh).
# Root promises a machine that can run containers, mount and make cgroups: PODWRIGHT_LIVE=1, under which a test that
# skips itself fails. Without it, and in a plain `cargo test`, each such test prints one line and passes. The summary
# counts these lines, and those of tests that need what is no part of the promise (KUBEBUILDER_ASSETS, another containerd).
# PODWRIGHT_CI=1 promises that every part can be done: one that is skipped fails.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

# All that can be switched on beside the defaults is tested.
FEATURES=sim,profiling
# Holds the dependencies to deny.toml.
DENY_VERSION=0.20.2
# Live tests wait more than they work: more of them than processors at a time, and not so many that a small machine is late.
LIVE_THREADS=${LIVE_THREADS:-3}
# CI has 90 minutes. After so many seconds it does not begin with the second containerd, which is nothing to fail for.
LATE=4600
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
summary=()
failed=0 passed=0 skipped=0
# The words of tests that cannot be done here (src/testing/skips.rs).
PODWRIGHT_SKIPS=$(mktemp)
export PODWRIGHT_SKIPS
trap 'rm -f "$PODWRIGHT_SKIPS"' EXIT

# Runs one part; its output is shown as it comes.
part() { # NAME COMMAND...
    local name=$1 status=0 began=$SECONDS
    shift
    printf '\n==> %s: %s\n' "$name" "$*"
    "$@" || status=$?
    if [ "$status" = 0 ]; then
        passed=$((passed + 1))
        summary+=("$(printf 'ok      %-8s %4d s' "$name" $((SECONDS - began)))")
    else
        failed=$((failed + 1))
        summary+=("$(printf 'FAILED  %-8s %4d s  status %s: %s' "$name" $((SECONDS - began)) "$status" "$*")")
    fi
}

skip() { # NAME WHY
    local word=skipped
    if [ "${PODWRIGHT_CI:-0}" = 1 ]; then
        word=FAILED failed=$((failed + 1))
    else
        skipped=$((skipped + 1))
    fi
    printf '\n==> %s: skipped, %s\n' "$1" "$2"
    summary+=("$(printf '%-7s %-8s         skipped: %s' "$word" "$1" "$2")")
}

# Lines of the tests that were not done, by reason.
skipped_tests() {
    sort -u "$PODWRIGHT_SKIPS" | awk -F '\t' '
        { reason = $1 ($3 == "" ? "" : ": " $3); count[reason]++ }
        END { for (reason in count) printf "    %4d %s\n", count[reason], reason }' | sort -k2
}

# All but the live tests: the library's and the programs' own, those of every other program under tests/, and the
# examples in the documentation; each of the two calls is made even when the other failed.
cargo_tests() {
    local file name targets=() status=0
    for file in tests/*.rs tests/*/main.rs; do
        [ -e "$file" ] || continue
        name=${file#tests/} name=${name%/main.rs} name=${name%.rs}
        [ "$name" = live ] || targets+=(--test "$name")
    done
    # The simulator's seeds follow from the source tree: the same commit, the same runs.
    PODWRIGHT_TREE_HASH=$(git rev-parse 'HEAD^{tree}' 2>/dev/null || echo none)
    export PODWRIGHT_TREE_HASH
    cargo test --locked --features "$FEATURES" --no-fail-fast --lib --bins "${targets[@]}" || status=1
    cargo test --locked --features "$FEATURES" --doc || status=1
    return "$status"
}

# Why there can be no live tests here; nothing if there can.
no_containers() {
    local missing
    if ! is_root; then
        echo "only root can start containers"
        return
    fi
    missing=$(missing_list)
    [ -z "$missing" ] || echo "missing and not to be had here: $missing"
}

live_tests() { # [FILTER]
    cargo test --locked --features "$FEATURES" --test live -- --test-threads="$LIVE_THREADS" "$@"
}

# The promises of `make run`: both pods Ready, three views of them, and nothing left.
whole_run() {
    cargo build --locked --features "$FEATURES" --bin podwright || return
    RUN_FOR=3 PODWRIGHT=$PWD/${CARGO_TARGET_DIR:-target}/debug/podwright scripts/run.sh
}

wanted() { [ ${#PARTS[@]} = 0 ] || [[ " ${PARTS[*]} " == *" $1 "* ]]; }

fmt_part() { part fmt cargo fmt --check; }
clippy_part() {
    part clippy cargo clippy --locked --all-targets --features "$FEATURES" -- -D warnings
    # The shipped program has none of the features that tests want. The other kind of TLS is looked at with it: each look at
    # the library takes minutes, and no line of it depends on both.
    part shipped cargo clippy --locked --lib --bins --no-default-features --features ring -- -D warnings
}
# promtool comes from the PATH or from a Debian package.
alerts_part() {
    if command -v promtool >/dev/null || has_apt; then
        part alerts scripts/alerts.sh
    else
        skip alerts "there is no promtool, and no apt-get to fetch it with"
    fi
}

test_part() { part test cargo_tests; }

live_part() {
    local why
    why=$(no_containers)
    if [ -n "$why" ]; then
        skip live "$why"
        return
    fi
    if [ ! -e tests/live/main.rs ]; then
        skip live "there are no live tests yet"
        return
    fi
    scripts/testenv.sh reap target/env
    scripts/testenv.sh reap target/run
    CONTAINERD="" part live live_tests
    # The other containerd differs in what the agent is told by it, and when: a cluster sees that.
    if [ "${PODWRIGHT_CI:-0}" = 1 ] && [ "$SECONDS" -gt "$LATE" ]; then
        summary+=("left out live-2            this machine is slow: $SECONDS s have gone, and the rest has to end in time")
    elif [ -n "${CONTAINERD:-}" ]; then
        part "live-$(find_runtime && "$CONTAINERD_BIN" --version | awk '{ print $3 }')" live_tests ${KUBEBUILDER_ASSETS:+cluster::}
    else
        skip live-2 "no other containerd is named: CONTAINERD=<dir> make test (scripts/fetch-runtime.sh)"
    fi
}

run_part() {
    local why
    why=$(no_containers)
    if [ -n "$why" ]; then
        skip run "$why"
    else
        CONTAINERD="" part run whole_run
    fi
}

# Prints the cargo-deny of this version; installs it where there is none. It is built without optimisation, which takes a
# quarter of the time, and the check takes three seconds even so.
cargo_deny() {
    local root=${CARGO_TARGET_DIR:-target}/tools/cargo-deny-$DENY_VERSION found
    for found in "$(command -v cargo-deny)" "$root/bin/cargo-deny"; do
        if [ "$("$found" --version 2>/dev/null)" = "cargo-deny $DENY_VERSION" ]; then
            echo "$found"
            return
        fi
    done
    say "installing cargo-deny $DENY_VERSION into $root"
    CARGO_TARGET_DIR=$root/build CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 \
        cargo install --quiet --locked --debug --root "$root" "cargo-deny@$DENY_VERSION" >&2 || return
    rm -rf "$root/build"
    echo "$root/bin/cargo-deny"
}

# Advisories are left out: their database is no part of a clean clone.
deny_licenses_bans_sources() {
    local program
    program=$(cargo_deny) || return
    "$program" --locked check licenses bans sources
}

deny_part() { part deny deny_licenses_bans_sources; }

main() {
    PARTS=("$@")
    check_rust
    if is_root && has_apt; then
        CONTAINERD="" install_packages
        if wanted live || wanted test; then install_test_packages; fi
    fi
    if is_root; then export PODWRIGHT_LIVE=1; fi
    check_compiler
    # The promtool that `alerts` fetches is for the tests of metrics, too.
    PATH=$PATH:$(realpath -m "${CARGO_TARGET_DIR:-target}")/tools/usr/bin
    for name in fmt clippy deny alerts test live run; do
        if wanted "$name"; then "${name}_part"; fi
    done
    if wanted vm; then summary+=("left out vm                a part of its own: make test-vm"); fi
    # The summary is last, in the one plain form that any reader of logs knows.
    printf '\n==> summary, %d s\n' "$SECONDS"
    printf '    %s\n' "${summary[@]}"
    printf '\nparts: %d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
    printf 'tests that were not done: %d\n' "$(sort -u "$PODWRIGHT_SKIPS" | wc -l)"
    skipped_tests
    [ "$failed" = 0 ]
}

main "$@"
