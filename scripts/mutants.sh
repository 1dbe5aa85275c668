#!/usr/bin/env bash
# Mutants: one change at a time to the code that decides, each of which some test has to see. Needs cargo-mutants
# (`cargo install cargo-mutants --locked`).
#
#   scripts/mutants.sh                        all of src/logic
#   scripts/mutants.sh pod_lifecycle ...      folders or files of src/logic by their names
#   SHARD=3/24 scripts/mutants.sh ...         the fourth of 24 parts: each fits into a night on two cores
#   ACTORS=yes scripts/mutants.sh [FILE ...]  parts of src/actors that decide, or these files, with the whole library's tests
#
# Decisions import nothing of the rest, so they are built and tested as a package of their own: a mutant costs seconds
# instead of minutes. What survived is in target/mutants/<part>/mutants.out/missed.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

check_rust
check_compiler
command -v cargo-mutants >/dev/null || die "there is no cargo-mutants: cargo install cargo-mutants --locked"

# What of the actors decides rather than moves messages.
DECIDING=(src/actors/pod_manager/admission.rs src/actors/pod_manager/housekeeping.rs src/actors/pod_manager/resizes.rs
    src/actors/pod_worker/passes.rs src/actors/pod_worker/stopping.rs src/actors/status_manager.rs
    src/actors/mirror_manager.rs src/actors/container_gc.rs src/actors/image_gc.rs)
options=(--no-shuffle --timeout-multiplier 4 --minimum-test-timeout 60)
[ -z "${SHARD:-}" ] || options+=(--shard "$SHARD")

# The package of the decisions, with the agent's own versions of its dependencies.
logic_package() {
    local package=target/mutants/logic
    mkdir -p "$package/src"
    rm -rf "$package/src/logic"
    cp -r src/logic "$package/src/logic"
    printf '//! The decisions by themselves.\npub mod logic;\n' >"$package/src/lib.rs"
    cp Cargo.lock "$package/Cargo.lock"
    {
        printf '[package]\nname = "decisions"\nversion = "0.0.0"\nedition = "2024"\npublish = false\n\n[dependencies]\n'
        sed -n '/^\[dependencies\]/,/^$/p' fuzz/Cargo.toml | grep -vE '^(\[|libfuzzer)'
        printf '\n[dev-dependencies]\n'
        grep -E '^(proptest|tempfile|url) =' Cargo.toml
        printf '\n[profile.dev]\ndebug = false\n\n[workspace]\n'
    } >"$package/Cargo.toml"
    printf '%s' "$package"
}

if [ -n "${ACTORS:-}" ]; then
    [ $# -gt 0 ] || set -- "${DECIDING[@]}"
    for file; do options+=(--file "$file"); done
    exec cargo mutants "${options[@]}" --output target/mutants/actors --features sim,profiling -- --locked --lib
fi
package=$(logic_package)
for name; do options+=(--file "src/logic/$name.rs" --file "src/logic/$name/**"); done
# In place: the package is a copy, and what was built stays for the next run.
exec cargo mutants --dir "$package" --in-place "${options[@]}" --output "$package" -- --lib
