#!/usr/bin/env bash
# The agent on a simulated node: needs nothing but cargo and a C compiler.
#
#   scripts/simulate.sh --seed N --pods P [more arguments of the simulate program]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

check_rust
check_compiler
exec cargo run --quiet --locked --features sim --bin simulate -- "$@"
