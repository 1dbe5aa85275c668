#!/usr/bin/env bash
# Seed after seed on the simulated node, each another story, until one fails or the time is over. A seed that fails is
# named, and `make simulate SEED=<it>` tells its story again.
#
#   scripts/soak.sh HOURS [FIRST_SEED]
#   scripts/soak.sh --churn [PODS]      20,000 pods, or so many, a hundred at a time: fails when memory grows
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

hours=${1:?usage: scripts/soak.sh HOURS [FIRST_SEED] | --churn [PODS]}
if [ "$hours" = --churn ]; then
    check_rust
    check_compiler
    cargo build --profile quick --locked --features sim --bin simulate
    exec "${CARGO_TARGET_DIR:-target}/quick/simulate" --churn "${2:-20000}"
fi
seed=${2:-1}
[[ $hours =~ ^[0-9]*\.?[0-9]+$ ]] || die "$hours is no number of hours, such as 8 or 0.5"
check_rust
check_compiler
cargo build --profile quick --locked --features sim --bin simulate
simulate=${CARGO_TARGET_DIR:-target}/quick/simulate
deadline=$((SECONDS + $(awk -v hours="$hours" 'BEGIN { print int(hours * 3600) }')))
log=$(mktemp)
trap 'rm -f "$log"' EXIT
first=$seed
while [ "$SECONDS" -lt "$deadline" ]; do
    pods=$((seed % 40 + 1))
    if ! "$simulate" --seed "$seed" --pods "$pods" >"$log" 2>&1; then
        tail -n 40 "$log"
        die "seed $seed failed; again with: make simulate SEED=$seed PODS=$pods"
    fi
    seed=$((seed + 1))
    [ $((seed % 100)) = 0 ] && say "$((seed - first)) seeds, none failed"
done
say "$((seed - first)) seeds, none failed"
