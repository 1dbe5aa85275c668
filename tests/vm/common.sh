#!/bin/bash
# Shared by the scripts in the virtual machine: the agent installed as shipped, checks, and looks at pods.
# Each check prints one line; the closing line counts them. Emulation is slow: orders are checked, not durations.
export SYSTEMD_PAGER='' LC_ALL=C
MANIFESTS=/etc/kubernetes/manifests
CONFIG=/var/lib/kubelet/config.yaml
passed=0 failed=0

check() { # NAME COMMAND...
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        echo "ok    $name"
        passed=$((passed + 1))
    else
        echo "FAIL  $name: $* $output"
        failed=$((failed + 1))
    fi
}

# Asks again until the answer is yes or the seconds are over.
within() { # SECONDS COMMAND...
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.5
    done
}

is() { [ "$1" = "$2" ] || { echo "(it is $1)" && false; }; }
isnt() { [ "$1" != "$2" ]; }
property() { systemctl show -P "$1" podwright; }
agent_pid() { property MainPID; }
ctr_() { ctr -n k8s.io "$@"; }
# Every container with the process that is its first: the same list means that nothing was touched.
containers() { ctr_ tasks ls | awk 'NR > 1 { print $1, $2, $3 }' | sort; }
# The same without containers that ended and are not removed yet.
running() { containers | grep ' RUNNING$'; }
count_running() { running | wc -l; }
running_at_least() { [ "$(count_running)" -ge "$1" ]; }
pods_ready() { [ "$(podwright ps -o json | tr -d ' \n\t' | grep -o '"ready":true' | wc -l)" -ge "$1" ]; }
healthy() { busybox wget -qO- http://127.0.0.1:10248/healthz | grep -qx ok; }
pid_changed() { local now; now=$(agent_pid) && [ "$now" != 0 ] && [ "$now" != "$1" ]; }
nothing_runs() { [ -z "$(ctr_ containers ls -q)" ]; }

finish() {
    mkdir -p "$NODE_VM_OUT"
    journalctl -o short-precise >"$NODE_VM_OUT/journal.txt"
    systemctl status podwright >"$NODE_VM_OUT/status.txt" 2>&1
    echo "vm: $passed passed, $failed failed"
    # In a trap, a bare `exit` would tell how things stood before it.
    exit "$((failed > 0))"
}

# Puts everything where the files under deploy/ say it goes.
install_as_shipped() {
    install -m 0755 podwright /usr/bin/podwright
    install -D -m 0644 deploy/podwright.service /etc/systemd/system/podwright.service
    mkdir -p "$MANIFESTS" /var/lib/kubelet
    systemctl daemon-reload
    within 120 ctr_ version
    ctr_ images import images.tar >/dev/null
}

# The configuration as shipped, but for the driver: both are tested.
configure() { # DRIVER
    sed -e "s/^cgroupDriver: .*/cgroupDriver: $1/" deploy/config.yaml >"$CONFIG"
    local systemd=false
    [ "$1" = systemd ] && systemd=true
    sed -i "s/SystemdCgroup = .*/SystemdCgroup = $systemd/" /etc/containerd/config.toml
    systemctl restart containerd
    within 120 ctr_ version
}

# Where the pods' cgroups have to be with a driver.
kubepods() { # DRIVER
    if [ "$1" = systemd ]; then
        echo /sys/fs/cgroup/kubepods.slice
    else
        echo /sys/fs/cgroup/kubepods
    fi
}

running_at_most() { [ "$(count_running)" -le "$1" ]; }
journal_says() { journalctl -u podwright | grep "$1" >/dev/null; }
file_has() { is "$(cat "$1")" "$2"; }
container_id() { ctr_ containers ls -q "labels.\"io.kubernetes.container.name\"==$1"; }
container_pid() { ctr_ tasks ls | awk -v id="$(container_id "$1")" '$1 == id { print $2 }'; }
container_runs() { [ -n "$(container_id "$1")" ] && ctr_ tasks ls | grep "^$(container_id "$1") " | grep -q RUNNING; }
container_cgroup() { find "$(kubepods systemd)" -type d -name "*$(container_id "$1")*" | head -n 1; }
of_status() { sed -n "s/^$2:\s*//p" "/proc/$1/status"; } # PID FIELD

# Where pods and programs leave word.
SEEN=/srv/seen
# The 18 capabilities of the unit, as the kernel prints them.
CAPABILITIES=0000000421a935fb
seen() { grep -qx "$2" "$SEEN/$1"; } # FILE LINE

# Each line of the attempts of a program (attempts.sh) below a headline ends so.
attempts() { sed -n "/^--- $2/,/^--- /{/^--- /d;p}" "$1"; } # FILE HEADLINE
all() {                                                   # FILE HEADLINE RESULT
    [ "$(attempts "$1" "$2" | wc -l)" -ge 12 ] && ! attempts "$1" "$2" | grep -v " $3\$"
}
judged() { # WHO FILE
    check "$1 has the filter of the unit" seen "$2" "Seccomp 2"
    check "$1 has the capabilities of the unit" seen "$2" "CapBnd $CAPABILITIES"
    check "$1 does nothing of what the unit refuses" all $SEEN/"$2" refused fails
    check "$1 does all that the unit allows" all $SEEN/"$2" allowed works
}
