#!/usr/bin/env bash
# Mutants: one change at a time to the code that decides, each of which some test has to see. Needs cargo-mutants
# (`cargo install cargo-mutants --locked`).
#
#   scripts/mutants.sh                        all modules of src/logic
#   scripts/mutants.sh pods/pod_lifecycle ... modules of src/logic, or files of them (status/pod_status/waiting)
#   SHARD=3/24 scripts/mutants.sh ...         the fourth of 24 even samples: each module gives its share
#   ACTORS=yes scripts/mutants.sh [FILE ...]  parts of src/actors that decide, or these files, with the whole library's tests
#
# A mutant costs a build, so the first pass builds each module as a package of its own: the module, its tests, and what
# the module imports. Random cases are few there. The second pass gives the survivors all tests of src/logic, with all
# cases. target/mutants/first/<module> and target/mutants/second hold the results; the second's missed.txt and
# timeout.txt name the mutants that no test saw.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

check_rust
check_compiler
command -v cargo-mutants >/dev/null || die "there is no cargo-mutants: cargo install cargo-mutants --locked"

# The actors' files that decide rather than move messages.
DECIDING=(src/actors/pods/pod_manager/admission.rs src/actors/pods/pod_manager/housekeeping.rs
    src/actors/pods/pod_manager/resizing.rs src/actors/pods/pod_worker/jobs/stopping.rs
    src/actors/status/status_manager.rs src/actors/status/mirror_manager.rs src/actors/runtime/container_gc.rs
    src/actors/images/image_gc.rs)
RESULTS=$PWD/target/mutants
FEW_CASES=32
shard=()
[ -z "${SHARD:-}" ] || shard=(--shard "$SHARD" --sharding round-robin)

# The modules of a domain, each as domain/module; the domain itself where its mod.rs holds more than their names.
modules() {
    local domain
    for domain in $(sed -n 's/^pub mod \(.*\);$/\1/p' src/logic/mod.rs); do
        if grep -qvE '^(//!.*|pub mod .*;|)$' "src/logic/$domain/mod.rs"; then
            echo "$domain"
        else
            sed -n "s,^pub mod \(.*\);$,$domain/\1,p" "src/logic/$domain/mod.rs"
        fi
    done
}
files_of() { find "src/logic/$1.rs" "src/logic/$1" -name '*.rs' 2>/dev/null || true; }

# The modules of src/logic that files import, and other names: by `logic::domain::module`, or as a neighbour by `super::`.
imports() {
    local what='(\{[^;]*;|\w+)' words='{ gsub(/[^a-z0-9_]+/, " "); print $1; for (i = 2; i <= NF; i++) print $1 "/" $i }' file
    {
        grep -zohP "(?<=logic::)\w+(::$what)?" -- "$@" | tr '\n\0' ' \n' || true
        for file; do
            file=${file#src/logic/}
            grep -zohP "(?<=super::)$what" "src/logic/$file" | tr '\n\0' ' \n' | sed "s/^/${file%%/*} /" || true
        done
    } | awk "$words" | sort -u
}

# A module and whatever it needs. Of the others' files, those of tests count for nothing.
needed() { # MODULE
    local found fresh file
    found=$({ imports $(files_of "$1") | grep -Fx -f <(modules) || true; echo "$1"; } | sort -u)
    while :; do
        fresh=$(for name in $found; do files_of "$name" | grep -v tests; done | while read -r file; do imports "$file" || true; done)
        fresh=$(printf '%s\n' $fresh $found | sort -u | grep -Fx -f <(modules))
        [ "$(wc -w <<<"$fresh")" != "$(wc -w <<<"$found")" ] || break
        found=$fresh
    done
    printf '%s\n' $found
}

# Decisions import nothing of the rest, so they make a package, with the agent's own versions of its dependencies.
make_package() { # FOLDER
    rm -rf "$1/src"
    mkdir -p "$1/src" "$1/tests"
    cp -r src/logic "$1/src/logic"
    # The files outside of src/logic that its tests read.
    cp -r tests/pod_fields.txt tests/upstream "$1/tests/"
    printf '//! The decisions by themselves.\npub mod logic;\n' >"$1/src/lib.rs"
    cp Cargo.lock "$1/Cargo.lock"
    {
        printf '[package]\nname = "decisions_%s"\nversion = "0.0.0"\nedition = "2024"\npublish = false\n\n[dependencies]\n' "${1##*/}"
        sed -n '/^\[dependencies\]/,/^$/p' fuzz/Cargo.toml | grep -vE '^(\[|libfuzzer)'
        printf '\n[dev-dependencies]\n'
        grep -E '^(proptest|tempfile|url) =' Cargo.toml
        printf '\n[lib]\ndoctest = false\n\n[profile.dev]\ndebug = false\n\n[workspace]\n'
    } >"$1/Cargo.toml"
}

# Leaves of a package one module with its tests, and what that needs without tests.
reduce_package() { # FOLDER MODULE
    # Modules of tests alone: samples for the tests of others stay.
    local no_tests='/^ *#\[cfg\(test\)\]$/ { N; s/cfg\(test\)(.*\n *mod tests\b)/cfg(any())\1/ }'
    local keep name file
    keep=$(needed "$2")
    for name in $(modules); do
        case $name in
            */*) file=$1/src/logic/${name%/*}/mod.rs ;;
            *) file=$1/src/logic/mod.rs ;;
        esac
        grep -qFx "$name" <<<"$keep" || sed -i "/^pub mod ${name##*/};$/d" "$file"
    done
    for name in $keep; do
        [ "$name" = "$2" ] || (files_of "$name" | while read -r file; do sed -Ei "$no_tests" "$1/$file"; done)
    done
}

# One run of cargo-mutants, in place: the package is a copy, and its build stays for the next run. The codes 2 and 3 say
# that mutants were missed or timed out, which is a result.
run_mutants() { # PACKAGE OUTPUT OPTION... -- ARGUMENT...
    local package=$1 output=$2 code=0
    shift 2
    mkdir -p "$output"
    CARGO_TARGET_DIR=$RESULTS/build cargo mutants --dir "$package" --in-place --no-shuffle --output "$output" "$@" || code=$?
    [ "$code" = 0 ] || [ "$code" = 2 ] || [ "$code" = 3 ] || exit "$code"
}

first_pass() { # NAME
    local module package
    module=$(modules | while read -r name; do [[ $1/ != "$name"/* ]] || echo "$name"; done)
    [ -n "$module" ] || die "src/logic has no $1"
    package=$RESULTS/packages/${module//\//_}
    say "$1"
    make_package "$package"
    reduce_package "$package" "$module"
    rm -rf "${RESULTS:?}/first/$1"
    PROPTEST_CASES=$FEW_CASES run_mutants "$package" "$RESULTS/first/$1" --file "src/logic/$1.rs" --file "src/logic/$1/**" \
        ${shard[@]+"${shard[@]}"} --timeout-multiplier 10 --minimum-test-timeout 20 -- --lib -- "logic::${module//\//::}::"
    survivors+=("$RESULTS/first/$1/mutants.out/missed.txt" "$RESULTS/first/$1/mutants.out/timeout.txt")
}

# cargo-mutants skips what an earlier run in the same place caught: it is given all mutants but the survivors.
second_pass() {
    local package=$RESULTS/packages/all out=$RESULTS/second/mutants.out
    rm -rf "$out"
    mkdir -p "$out"
    sort "${survivors[@]}" >"$out/survivors"
    [ -s "$out/survivors" ] || return 0
    say "the survivors"
    make_package "$package"
    cargo mutants --dir "$package" --list | sort | comm -23 - "$out/survivors" >"$out/caught.txt"
    run_mutants "$package" "$RESULTS/second" --iterate --timeout-multiplier 4 --minimum-test-timeout 60 -- --lib
    [ ! -s "$out/missed.txt" ] && [ ! -s "$out/timeout.txt" ]
}

if [ -n "${ACTORS:-}" ]; then
    [ $# -gt 0 ] || set -- "${DECIDING[@]}"
    options=()
    for file; do options+=(--file "$file"); done
    exec cargo mutants --no-shuffle --timeout-multiplier 4 --minimum-test-timeout 60 "${options[@]}" \
        ${shard[@]+"${shard[@]}"} --output "$RESULTS/actors" --features sim,profiling -- --locked --lib
fi
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(modules)
# shellcheck disable=SC2046
set -- $(for name; do modules | grep "^$name/" || echo "$name"; done)
survivors=()
for name; do first_pass "$name"; done
second_pass
