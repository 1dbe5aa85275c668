#!/bin/bash
# Runs in a virtual machine, as root: the Debian package on a standalone node: installed, upgraded with pods running, rolled
# back, reloaded, removed.
# shellcheck source=tests/vm/common.sh
. "$NODE_VM_FILES/common.sh"

unit_is() { is "$(systemctl is-enabled podwright)/$(systemctl is-active podwright)" "$1"; }
installed_version() { dpkg-query -W -f '${Version}' podwright; }
# dpkg tells of each file that differs in a line, and ends well all the same.
unchanged() { is "$(dpkg --verify "$1" 2>&1)" ""; }
page_has() { zcat "/usr/share/man/man8/$1.8.gz" | grep -q "$2"; }
test_installation() {
    echo "--- installation"
    check "the package is installed" dpkg -i "$OLD"
    check "it neither enables nor starts the unit" eval '! unit_is enabled/active && unit_is disabled/inactive'
    check "its files are those of the package" unchanged podwright
    check "the program says its version" podwright --version
    check "there is a page on the program" page_has podwright "config"
    check "there is a page on each command" eval 'for command in ps explain trace actors; do page_has "podwright-$command" "$command" || exit 1; done'
    check "the shell completes its commands" grep -q explain /usr/share/bash-completion/completions/podwright
    check "kubectl would find its plugin" test -x /usr/bin/kubectl-podwright
    mkdir -p "$MANIFESTS" /var/lib/kubelet
    cp /usr/share/podwright/config.yaml "$CONFIG"
    check "the sample configuration is good" podwright check-config --config "$CONFIG"
    cp examples/manifests/*.yaml "$MANIFESTS/"
    check "one line starts it, now and at each boot" systemctl enable --quiet --now podwright
    check "its commands find it at once" podwright ps
    check "both pods are Ready" within 300 pods_ready 2
}

# An upgrade restarts the agent, and the pods go on.
test_exchange() { # FILE NAME
    local before pid
    echo "--- $2"
    before=$(containers) pid=$(agent_pid)
    check "$2: the package is installed" dpkg -i "$1"
    check "$2: its commands find it at once" podwright ps
    check "$2: the agent was restarted" within 120 pid_changed "$pid"
    check "$2: health answers again" within 120 healthy
    check "$2: both pods are Ready" within 120 pods_ready 2
    check "$2: no container was touched" is "$(containers)" "$before"
    check "$2: the unit is as it was" unit_is enabled/active
}

test_reload() {
    local pid
    echo "--- reload"
    pid=$(agent_pid)
    sed -i 's/^systemReserved:/containerLogMaxSize: 3Mi\nsystemReserved:/' "$CONFIG"
    check "the unit reloads" systemctl reload podwright
    check "in the same process" is "$(agent_pid)" "$pid"
    check "the journal says what changed" within 60 journal_says containerLogMaxSize
    echo "nonsense: [" >>"$CONFIG"
    systemctl reload podwright
    check "a broken file keeps what runs" within 60 healthy
    check "and the agent lives" is "$(agent_pid)" "$pid"
    sed -i '$d' "$CONFIG"
}

test_removal() {
    local before
    echo "--- removal"
    before=$(containers)
    check "the package is removed" dpkg -r podwright
    check "the agent is gone with it" eval '! pgrep -x podwright'
    check "pods go on without it" is "$(containers)" "$before"
    check "what it kept for the node is left" test -s "$CONFIG"
    check "it is installed again" dpkg -i "$OLD"
    check "and takes its pods over" eval 'systemctl enable --quiet --now podwright && within 120 pods_ready 2'
    check "of which no container was touched" is "$(containers)" "$before"
}

cd "$NODE_VM_FILES" || exit 1
trap finish EXIT
OLD=$(ls podwright_*_*.deb | grep -v '+next') NEW=$(ls podwright_*+next*.deb)
within 120 ctr_ version
sed -i "s/SystemdCgroup = .*/SystemdCgroup = true/" /etc/containerd/config.toml
systemctl restart containerd
within 120 ctr_ version
ctr_ images import images.tar >/dev/null
# The machine was made without manual pages, and its dpkg still leaves them out.
rm -f /etc/dpkg/dpkg.cfg.d/99mmdebstrap
# dpkg alone fetches nothing; the machine has all that the package depends on.
test_installation
test_exchange "$NEW" upgrade
test_exchange "$OLD" rollback
test_reload
test_removal
rm -f "$MANIFESTS"/*
check "pods without a manifest are removed" within 300 nothing_runs
