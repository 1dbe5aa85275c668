#!/usr/bin/env bash
# Checks the alerts under deploy/prometheus with promtool, and plays tests/alerts.yaml against them.
# promtool is the one on the PATH, or that of Debian's package `prometheus`, of which nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

TOOLS=${CARGO_TARGET_DIR:-target}/tools
promtool=$(command -v promtool || true)
[ -n "$promtool" ] || promtool=$TOOLS/usr/bin/promtool
if [ ! -x "$promtool" ]; then
    has_apt || die "promtool is missing, and there is no apt-get here: it is a part of Prometheus"
    say "fetching promtool with apt-get into $TOOLS"
    mkdir -p "$TOOLS"
    (
        cd "$TOOLS"
        # As an unprivileged user apt-get could not write here.
        apt-get -qq -o APT::Sandbox::User=root download prometheus ||
            { apt-get -qq update && apt-get -qq -o APT::Sandbox::User=root download prometheus; }
        dpkg-deb -x prometheus_*.deb .
        rm -f prometheus_*.deb
    ) >&2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The operator's object holds a file of rules below `spec`, two columns to the right.
sed '1,/^spec:$/d; s/^  //' deploy/prometheus/rules.yaml >"$work/rules.yaml"
cp tests/alerts.yaml "$work/"
"$promtool" check rules --lint=all --lint-fatal "$work/rules.yaml"
"$promtool" test rules "$work/alerts.yaml"
