# Functions shared by the benchmarks: to be sourced after lib.sh, not run. They go by $dir, the run's folder; $node, the
# node's name; $socket_flag (choose_socket).

figure() { printf '%-60s %10s %s\n' "$1" "$2" "$3"; }
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

kubectl_() { "$KUBEBUILDER_ASSETS/kubectl" --kubeconfig "$dir/cluster/pki/admin.conf" "$@"; }

# How many processes of containers there are, sandboxes' too.
running() { ctr_ tasks ls 2>/dev/null | awk '$3 == "RUNNING"' | wc -l; }
runs_exactly() { [ "$(running)" = "$1" ]; }

memory_kib() { awk -v key="$2:" '$1 == key { sum += $2 } END { print sum + 0 }' "/proc/$1/smaps_rollup"; } # PID KEY
# Without clean pages, which are the executable's own, and which the kernel takes back at will.
private_kib() { memory_kib "$1" Private_Dirty; }

# Sets agent to its process.
start_agent() { # EXECUTABLE FLAGS...
    setsid env --default-signal=INT,QUIT "$1" --config "$dir/kubelet.yaml" --root-dir "$dir/kubelet" \
        --cert-dir "$dir/pki" --hostname-override "$node" ${socket_flag[@]+"${socket_flag[@]}"} "${@:2}" \
        </dev/null >>"$dir/agent.log" 2>&1 &
    agent=$!
}
end_agent() {
    kill -TERM "$agent"
    wait "$agent" || true
}
