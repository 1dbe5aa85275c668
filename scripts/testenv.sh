#!/usr/bin/env bash
# One private runtime in one directory, for the live tests and the benchmarks.
#
#   scripts/testenv.sh start DIR               starts it, writes DIR/env (KEY=VALUE lines)
#   scripts/testenv.sh borrow DIR SOCKET       the same around the machine's own containerd
#   scripts/testenv.sh stop DIR                takes everything down; fails, naming it, if anything is left
#   scripts/testenv.sh leftovers DIR           lists what is left outside DIR
#   scripts/testenv.sh stop-containerd DIR     ends the runtime alone: containers go on
#   scripts/testenv.sh start-containerd DIR    starts it again
#   scripts/testenv.sh boot DIR                takes away what a loss of power takes, and starts the runtime
#   scripts/testenv.sh ctr DIR ARGUMENT...     calls the runtime's ctr
#   scripts/testenv.sh reap FOLDER             stops the environments below FOLDER whose owner has ended
#   scripts/testenv.sh packages                installs what is missing by apt-get
#
# CONTAINERD=<dir> takes containerd, ctr and the shim from another folder than the PATH's.
# OWNER=<pid> names the process without which the environment is stale; by default the caller.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

# Stops what runs of this tree left behind when they were killed.
reap() { # FOLDER
    local env dir owner started
    for env in "$1"/*/env; do
        [ -e "$env" ] || continue
        dir=$(dirname "$env")
        read -r owner started <"$dir/owner" 2>/dev/null || continue
        [ "$(start_time "$owner")" = "$started" ] && continue
        say "stopping what a run that was killed left in $dir"
        stop_environment "$dir" || true
    done
}

main() {
    local command=${1:-} dir=${2:-}
    case $command in
    packages)
        install_packages
        return
        ;;
    start | borrow | stop | leftovers | stop-containerd | start-containerd | boot | ctr | reap)
        [ -n "$dir" ] || die "usage: scripts/testenv.sh $command DIR"
        is_root || die "only root can start containers"
        ;;
    *) die "usage: scripts/testenv.sh start|borrow|stop|leftovers|stop-containerd|start-containerd|boot|ctr|reap DIR" ;;
    esac
    case $dir in /*) ;; *) dir=$here/$dir ;; esac
    case $command in
    start) start_environment "$dir" ;;
    borrow) borrow_environment "$dir" "${3:?usage: scripts/testenv.sh borrow DIR SOCKET}" ;;
    stop) stop_environment "$dir" ;;
    leftovers) leftovers "$(cd "$dir" && pwd -P)" ;;
    stop-containerd) stop_containerd "$(cd "$dir" && pwd -P)" ;;
    start-containerd) start_containerd "$(cd "$dir" && pwd -P)" ;;
    boot) boot_environment "$(cd "$dir" && pwd -P)" ;;
    reap) reap "$dir" ;;
    ctr)
        load_env "$dir" || die "no environment in $dir"
        shift 2
        ctr_ "$@"
        ;;
    esac
}

main "$@"
