#!/usr/bin/env bash
# Any bytes against what reads hostile input: fuzz targets of fuzz/, with libFuzzer and the stable compiler.
#
#   scripts/fuzz.sh            every target for SECONDS_EACH seconds (60 by default), one after the other
#   scripts/fuzz.sh spdy ...   the named ones alone
#
# Findings are written to fuzz/artifacts/TARGET and shown again by `scripts/fuzz.sh TARGET FILE`. New inputs go to
# fuzz/target/corpus; fuzz/corpus holds those that runs begin with, and MERGE=1 adds to it the few that reach more.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

check_rust
check_compiler
# The flags that `cargo fuzz build --sanitizer none` gives the compiler: counters and comparisons, with the checks of a
# debug build.
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0 -Ccodegen-units=1"
export CARGO_TARGET_DIR=fuzz/target
host=$(rustc -vV | sed -n 's/^host: //p')
${FUZZ_BUILD:-} cargo build --locked --release --manifest-path fuzz/Cargo.toml --target "$host"

file=
[ $# = 2 ] && [ -f "$2" ] && file=$2 && set -- "$1"
[ $# -gt 0 ] || set -- $(cd fuzz/fuzz_targets && printf '%s\n' *.rs | sed 's/\.rs$//')
for target; do
    program=fuzz/target/$host/release/$target
    mkdir -p "fuzz/target/corpus/$target" "fuzz/corpus/$target" "fuzz/artifacts/$target"
    options=(-artifact_prefix="fuzz/artifacts/$target/" -rss_limit_mb=1024 -timeout=10 -print_final_stats=1)
    if [ -n "$file" ]; then
        "$program" "${options[@]}" "$file"
        continue
    fi
    say "$target for ${SECONDS_EACH:=60} s"
    "$program" "${options[@]}" -max_total_time="$SECONDS_EACH" -max_len="${MAX_LEN:-4096}" -verbosity=0 \
        "fuzz/target/corpus/$target" "fuzz/corpus/$target"
    [ -z "${MERGE:-}" ] || "$program" -merge=1 -rss_limit_mb=1024 "fuzz/corpus/$target" "fuzz/target/corpus/$target"
done
