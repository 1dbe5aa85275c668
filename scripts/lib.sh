# Functions shared by `make run`, the live tests and the benchmarks: to be sourced, not run.
#
# An ENVIRONMENT is one directory: a private containerd with its own root, state, socket, network and cgroup, and the
# file DIR/env that names them. Everything is found again from that directory alone, so that it can be taken down
# after any crash. Environments run side by side: each holds a number that picks its bridge, subnet, cgroup and ports.
#
# The things outside the directory while an environment lives, all removed with the last one:
#   /run/podwright-env/   one entry a live environment, and what the machine was like before the first
#   bridge pwbrN, netfilter chains of the CNI plugins, cgroup /podwrightN, /run/containerd/s (shims' sockets)

SHARED=/run/podwright-env
NAMESPACE=k8s.io
PORT_FIRST=21000 # each environment has 20 ports from here on
CNI_BIN_DIR=${CNI_BIN_DIR:-}
# Folders that an agent or a runtime makes at fixed places; those that were not there before are removed when empty.
FIXED_PLACES="/run/containerd/s /run/containerd/io.containerd.runtime.v2.task /run/containerd/runc /run/containerd/fifo
/run/containerd /opt/containerd/bin /opt/containerd/lib /opt/containerd /opt/cni/bin /opt/cni /etc/cni/net.d /etc/cni
/var/lib/cni/results /var/lib/cni/networks /var/lib/cni/cache /var/lib/cni /var/lib/containerd /run/netns
/run/nri /etc/cdi /run/cdi
/var/log/pods /var/log/containers /var/lib/kubelet/device-plugins /var/lib/kubelet/plugins_registry
/var/lib/kubelet/plugins /var/lib/kubelet/pods /var/lib/kubelet/pod-resources /var/lib/kubelet/pki /var/lib/kubelet
/usr/libexec/kubernetes/kubelet-plugins/volume/exec /usr/libexec/kubernetes/kubelet-plugins/volume
/usr/libexec/kubernetes/kubelet-plugins /usr/libexec/kubernetes"

say() { printf 'podwright: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# ---------------------------------------------------------------- the machine

# grep that reads all it is given: with -q it would leave early, and what writes into the pipe would fail.
has() { grep "$@" >/dev/null; }

# Waits for its turn: one at a time may change the tables.
iptables_() { iptables -w 60 "$@"; }

is_root() { [ "$(id -u)" = 0 ]; }
has_apt() { command -v apt-get >/dev/null; }
on_cgroup_v2() { [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; }

# Whether a program brings all its libraries along, as it must in an image that has none.
is_static() { [ -x "$1" ] && ! ldd "$1" >/dev/null 2>&1; }

# Where the CNI plugins are: Debian's place, then the one most other packages use.
find_cni() {
    local folder
    [ -n "$CNI_BIN_DIR" ] && return 0
    for folder in /usr/lib/cni /opt/cni/bin; do
        if [ -x "$folder/bridge" ] && [ -x "$folder/portmap" ] && [ -x "$folder/host-local" ]; then
            CNI_BIN_DIR=$folder
            return 0
        fi
    done
    return 1
}

# Finds the programs of the runtime: in the folder that CONTAINERD names (a bin folder, or an unpacked package), else
# on the PATH. Sets CONTAINERD_BIN, CTR and RUNC.
find_runtime() {
    local folder=${CONTAINERD:-} place
    PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
    CONTAINERD_BIN="" CTR="" RUNC=""
    if [ -n "$folder" ]; then
        [ -d "$folder" ] || die "CONTAINERD=$folder is not a folder"
        folder=$(cd "$folder" && pwd)
        for place in usr/sbin sbin usr/bin bin .; do
            [ -d "$folder/$place" ] && PATH=$folder/$place:$PATH
        done
        hash -r
        case $(command -v containerd) in
        "$folder"/*) ;;
        *) die "no containerd under CONTAINERD=$folder" ;;
        esac
    fi
    CONTAINERD_BIN=$(command -v containerd) || return 1
    CTR=$(command -v ctr) || return 1
    RUNC=$(command -v runc) || return 1
    command -v containerd-shim-runc-v2 >/dev/null || return 1
}

# The Debian packages that are missing here, one a line.
missing_packages() {
    find_runtime || true
    [ -n "$CONTAINERD_BIN" ] && [ -n "$CTR" ] || echo containerd
    [ -n "$RUNC" ] || echo runc
    find_cni || echo containernetworking-plugins
    is_static /bin/busybox || echo busybox-static
    command -v iptables >/dev/null || echo iptables
    command -v ip >/dev/null || echo iproute2
    command -v flock >/dev/null || echo util-linux
    command -v "${CC:-cc}" >/dev/null || echo gcc
    [ -e /usr/include/stdlib.h ] || echo libc6-dev
}

# The same in one line; nothing if nothing is missing.
missing_list() { missing_packages | sort -u | paste -sd ' '; }

# The further programs that some tests need: they are skipped where these cannot be had.
missing_test_packages() {
    command -v docker-registry >/dev/null || echo docker-registry
    command -v skopeo >/dev/null || echo skopeo
    command -v dbus-daemon >/dev/null || echo dbus-daemon
    command -v losetup >/dev/null || echo mount
}

# Installs what is missing for some tests; it is no matter where that cannot be done.
install_test_packages() {
    local missing
    missing=$(missing_test_packages | paste -sd ' ')
    [ -n "$missing" ] || return 0
    say "installing with apt-get, for some tests: $missing"
    # shellcheck disable=SC2086  # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends $missing >&2 ||
        say "apt-get could not install: $missing"
    # Tests start a registry of their own; the package's service would offer one to the network.
    if [[ " $missing " == *" docker-registry "* ]] && [ -d /run/systemd/system ]; then
        systemctl disable --now docker-registry >/dev/null 2>&1 || true
    fi
}

# Installs what is missing; says what before it does.
install_packages() {
    local missing
    missing=$(missing_list)
    [ -n "$missing" ] || return 0
    is_root || die "these packages are missing, and only root can install them: $missing"
    has_apt || die "these packages are missing, and there is no apt-get to install them with: $missing"
    say "installing with apt-get: $missing"
    export DEBIAN_FRONTEND=noninteractive
    # Debian's containerd starts its service at once where there is systemd; ours is private, so that one is not needed.
    # shellcheck disable=SC2086  # a list of words
    apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends $missing >&2 ||
        { apt-get -qq update >&2 && apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends $missing >&2; } ||
        die "apt-get could not install: $missing"
    hash -r
    missing=$(missing_list)
    [ -z "$missing" ] || die "still missing after the installation: $missing"
}

# Puts cargo on the PATH if rustup has one that is not: the caller's, or that of the user whom sudo took root from.
find_cargo() {
    local home
    command -v cargo >/dev/null && return
    for home in "$HOME" "$([ -z "${SUDO_USER:-}" ] || getent passwd "$SUDO_USER" | cut -d: -f6)"; do
        if [ -n "$home" ] && [ -x "$home/.cargo/bin/cargo" ]; then
            PATH=$home/.cargo/bin:$PATH
            # The file that rustup put there is a name for it; the toolchains are beside it.
            [ "$home" = "$HOME" ] || export RUSTUP_HOME=${RUSTUP_HOME:-$home/.rustup}
            return
        fi
    done
}

# Fails, and says how to get one, unless the Rust here can build the project.
check_rust() {
    local wanted have
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "${1:-.}/Cargo.toml")
    find_cargo || true
    if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
        die "no Rust here: version $wanted or newer is needed. Get it with rustup (see https://rustup.rs), then open a new shell"
    fi
    have=$(rustc --version | cut -d' ' -f2)
    if [ "$(printf '%s\n%s\n' "$wanted" "${have%%-*}" | sort -V | head -n1)" != "$wanted" ]; then
        die "Rust $have is too old: $wanted or newer is needed. With rustup: rustup update stable (see https://rustup.rs)"
    fi
}

# Fails, and says how to get one, without a C compiler. Where packages are installed it is one of them.
check_compiler() {
    command -v "${CC:-cc}" >/dev/null || die "no C compiler, which some crates need: apt-get install gcc libc6-dev"
}

# Whether something listens on a TCP port of this machine.
port_taken() { # PORT
    local hex
    hex=$(printf '%04X' "$1")
    awk -v port=":$hex" '$4 == "0A" && substr($2, length($2) - 4) == port { found = 1 } END { exit !found }' \
        /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# The address under which pods reach this machine.
node_ip() {
    local address
    address=$(ip -4 route get 192.0.2.1 2>/dev/null | sed -n 's/.* src \([0-9.]*\).*/\1/p')
    [ -n "$address" ] || address=$(ip -4 -o addr show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
    printf '%s' "${address:-127.0.0.1}"
}

# When a process was started, in ticks since the boot; nothing when it has ended.
start_time() { # PID
    { sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f20; } 2>/dev/null || true
}

# The command line of a process, one argument a line; nothing when it has ended.
arguments_of() { # PID
    { tr '\0' '\n' <"/proc/$1/cmdline"; } 2>/dev/null || true
}

# Fills `arguments` with the command line of a process; with nothing when it has ended. Without another process: these
# looks are many, and over every process of the machine.
read_arguments() { # PID
    arguments=()
    { mapfile -d '' -t arguments <"/proc/$1/cmdline"; } 2>/dev/null || true
}

is_argument() { # WORD
    local argument
    for argument in "${arguments[@]}"; do
        [ "$argument" != "$1" ] || return 0
    done
    return 1
}

# The processes whose command line has all of these as whole arguments.
pids_with_arguments() { # ARGUMENT...
    local process argument arguments
    for process in /proc/[0-9]*; do
        read_arguments "${process#/proc/}"
        for argument; do
            is_argument "$argument" || continue 2
        done
        echo "${process#/proc/}"
    done
}

# The processes of some programs that were started with a folder, or something in it, as an argument.
pids_of_programs() { # DIR PROGRAM...
    local process dir=$1 name argument arguments
    shift
    for process in /proc/[0-9]*; do
        read_arguments "${process#/proc/}"
        [ ${#arguments[@]} -gt 0 ] || continue
        name=${arguments[0]##*/}
        [[ " $* " == *" $name "* ]] || continue
        for argument in "${arguments[@]}"; do
            if [[ $argument =~ (^|=)(unix://)?"$dir"(/|$) ]]; then
                echo "${process#/proc/}"
                break
            fi
        done
    done
}

# The processes in a cgroup or below it.
pids_of_cgroup() { # /NAME
    grep -lE ":$1([-./]|\$)" /proc/[0-9]*/cgroup 2>/dev/null | cut -d/ -f3
}

# Ends processes: asks, waits, insists.
end_pids() { # SECONDS PID...
    local patience=$(($1 * 10)) pid alive
    shift
    [ $# -gt 0 ] || return 0
    kill -TERM "$@" 2>/dev/null || true
    while [ "$patience" -gt 0 ]; do
        alive=""
        for pid; do
            # A zombie has ended; its parent has merely not looked yet.
            [ -e "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null && alive+=" $pid"
        done
        [ -n "$alive" ] || return 0
        sleep 0.1
        patience=$((patience - 1))
    done
    # shellcheck disable=SC2086  # a list of numbers
    kill -KILL $alive 2>/dev/null || true
    sleep 0.2
}

# ---------------------------------------------------------------- cgroups

# Every mount of a cgroup hierarchy: one on version 2, one a controller on version 1.
cgroup_mounts() {
    awk '$(NF-2) == "cgroup" || $(NF-2) == "cgroup2" { print $5 }' /proc/self/mountinfo | sort -u
}

# Makes a cgroup in every hierarchy. The kubelet's rule is that its cgroupRoot is there before it starts.
make_cgroup() { # /NAME
    local mount controller file
    while read -r mount; do
        mkdir -p "$mount$1"
        if [ -e "$mount$1/cgroup.controllers" ]; then
            # One by one: a controller that cannot be had must not keep the others away.
            while read -r controller; do
                echo "+$controller" >"$mount/cgroup.subtree_control" 2>/dev/null || true
            done < <(tr ' ' '\n' <"$mount/cgroup.controllers")
        fi
        # On version 1 a cpuset takes no process until it has processors and memory.
        for file in cpuset.cpus cpuset.mems; do
            if [ -e "$mount$1/$file" ] && [ ! -e "$mount$1/cgroup.controllers" ]; then
                cat "$mount/$file" >"$mount$1/$file"
            fi
        done
    done < <(cgroup_mounts)
}

# Removes a cgroup with all below it, wherever it is left.
remove_cgroup() { # /NAME
    local mount try pid
    while read -r mount; do
        for try in 1 2 3 4 5 6 7 8 9 10; do
            [ -d "$mount$1" ] || break
            if [ "$try" -gt 3 ]; then
                while read -r pid; do
                    kill -KILL "$pid" 2>/dev/null || true
                done < <(find "$mount$1" -name cgroup.procs -exec cat {} + 2>/dev/null)
            fi
            find "$mount$1" -depth -type d -exec rmdir {} \; 2>/dev/null || true
            [ -d "$mount$1" ] && sleep 0.2
        done
    done < <(cgroup_mounts)
}

# ---------------------------------------------------------------- what the machine was like before

with_shared_lock() { # FUNCTION ARGUMENT...
    local status=0
    mkdir -p "$SHARED"
    exec 9>"$SHARED/lock"
    flock 9
    # A lock file that was removed while this waited guards nothing.
    while [ ! "$SHARED/lock" -ef /proc/self/fd/9 ]; do
        mkdir -p "$SHARED"
        exec 9>"$SHARED/lock"
        flock 9
    done
    "$@" || status=$?
    exec 9>&-
    return "$status"
}

remember_machine() {
    local place
    {
        echo "ip_forward $(cat /proc/sys/net/ipv4/ip_forward)"
        iptables_ -t nat -S CNI-HOSTPORT-DNAT >/dev/null 2>&1 && echo "portmap"
        for place in $FIXED_PLACES; do
            [ -e "$place" ] || echo "absent $place"
        done
    } >"$SHARED/before"
}

restore_machine() {
    local chain hook word value
    while read -r word value; do
        case $word in
        ip_forward) echo "$value" >/proc/sys/net/ipv4/ip_forward ;;
        absent) [ -d "$value" ] && find "$value" -depth -type d -empty -delete 2>/dev/null ;;
        esac
    done <"$SHARED/before"
    if ! grep -qx portmap "$SHARED/before"; then
        # The portmap plugin never removes its own four chains; they are empty now.
        for hook in "PREROUTING CNI-HOSTPORT-DNAT" "OUTPUT CNI-HOSTPORT-DNAT" "POSTROUTING CNI-HOSTPORT-MASQ"; do
            remove_jumps nat "${hook#* }"
        done
        for chain in CNI-HOSTPORT-DNAT CNI-HOSTPORT-MASQ CNI-HOSTPORT-SETMARK; do
            iptables_ -t nat -F "$chain" 2>/dev/null && iptables_ -t nat -X "$chain" 2>/dev/null
        done
        remove_jumps filter CNI-ADMIN
        for chain in CNI-FORWARD CNI-ADMIN; do
            iptables_ -S "$chain" 2>/dev/null | has '^-A' && continue
            remove_jumps filter "$chain"
            iptables_ -X "$chain" 2>/dev/null
        done
    fi
    return 0
}

# Removes every rule of a table that jumps to a chain.
remove_jumps() { # TABLE CHAIN
    local rule
    while read -r rule; do
        # The rule is printed in the form that makes it: -A becomes -D. It quotes its comments as a shell would.
        eval "iptables_ -t $1 -D ${rule#-A }" 2>/dev/null || true
    done < <(iptables_ -t "$1" -S 2>/dev/null | grep -E -- "-j $2( |\$)")
}

# Takes the lowest free number for an environment. Prints it.
claim_number() { # DIR
    local number port
    for number in $(seq 0 99); do
        [ -e "$SHARED/$number" ] && continue
        [ -e "/sys/class/net/pwbr$number" ] && continue
        [ -n "$(ip -4 route show "10.213.$number.0/24")" ] && continue
        for port in 0 1 2 3 4; do
            port_taken $((PORT_FIRST + number * 20 + port)) && continue 2
        done
        [ -e "$SHARED/before" ] || remember_machine
        mkdir "$SHARED/$number"
        printf '%s\n' "$1" >"$SHARED/$number/dir"
        ip link add "pwbr$number" type bridge
        echo "$number"
        return
    done
    die "all 100 environments are taken; see $SHARED"
}

release_number() { # NUMBER
    rm -rf "${SHARED:?}/$1"
    if ! ls -d "$SHARED"/[0-9]* >/dev/null 2>&1; then
        [ -e "$SHARED/before" ] && restore_machine
        rm -rf "$SHARED"
    fi
}

# ---------------------------------------------------------------- an environment

# Reads DIR/env into the shell.
load_env() { # DIR
    local key value
    [ -r "$1/env" ] || return 1
    while IFS='=' read -r key value; do
        [[ $key =~ ^[A-Z_]+$ ]] && printf -v "$key" '%s' "$value"
    done <"$1/env"
}

ctr_() { "$CTR" -a "$CONTAINERD_SOCK" -n "$NAMESPACE" "$@"; }

# The configuration of the private containerd, in the layout its version wants.
write_containerd_config() { # DIR VERSION
    local dir=$1 cri images snapshotter=overlayfs restrict=false version=2
    # An overlay cannot lie on an overlay: in a container the layers are copied.
    case $(stat -fc %T "$dir") in overlayfs | tmpfs) snapshotter=native ;; esac
    # Without CAP_SYS_RESOURCE (bit 24) nobody here may lower an OOM score.
    (((0x$(sed -n 's/^CapEff:\t//p' /proc/self/status) >> 24) & 1)) || restrict=true
    case $2 in
    v2.* | 2.*)
        version=3
        cri="io.containerd.cri.v1.runtime" images="io.containerd.cri.v1.images"
        ;;
    *) cri="io.containerd.grpc.v1.cri" images="" ;;
    esac
    cat <<TOML
version = $version
root = "$dir/root"
state = "$dir/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = "$CONTAINERD_SOCK"

[ttrpc]
  address = "$CONTAINERD_SOCK.ttrpc"

# Far more than a busy machine needs: a container whose shim is given up is told as one that has ended.
[timeouts]
  "io.containerd.timeout.shim.load" = "60s"
  "io.containerd.timeout.task.state" = "60s"

[plugins."io.containerd.internal.v1.opt"]
  path = "$dir/opt"

[plugins."io.containerd.nri.v1.nri"]
  disable = true

[plugins."$cri"]
  restrict_oom_score_adj = $restrict
  tolerate_missing_hugetlb_controller = true
  netns_mounts_under_state_dir = true
TOML
    if [ -z "$images" ]; then
        cat <<TOML
  sandbox_image = "localhost/podwright/pause:1"
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"

[plugins."$cri".containerd]
  snapshotter = "$snapshotter"

[plugins."$cri".registry]
  config_path = "$dir/registries"
TOML
    else
        cat <<TOML
  cdi_spec_dirs = ["$dir/cdi"]

[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"

[plugins."$images"]
  snapshotter = "$snapshotter"

[plugins."$images".registry]
  config_path = "$dir/registries"

[plugins."$images".pinned_images]
  sandbox = "localhost/podwright/pause:1"

[plugins."$cri".containerd]
TOML
    fi
    cat <<TOML
  default_runtime_name = "runc"

[plugins."$cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."$cri".containerd.runtimes.runc.options]
  Root = "$dir/state/runc"
  BinaryName = "$RUNC"
  SystemdCgroup = false

[plugins."$cri".containerd.runtimes.other]
  runtime_type = "io.containerd.runc.v2"

[plugins."$cri".containerd.runtimes.other.options]
  Root = "$dir/state/runc-other"
  BinaryName = "$RUNC"
  SystemdCgroup = false

[plugins."$cri".cni]
TOML
    case ${2#v} in # since 2.1 a list, and the single folder is called outdated
    1.* | 2.0.*) echo "  bin_dir = \"$CNI_BIN_DIR\"" ;;
    *) echo "  bin_dirs = [\"$CNI_BIN_DIR\"]" ;;
    esac
    echo "  conf_dir = \"$dir/cni\""
}

# The pods' network: a bridge of this environment's own, with host ports. The bridge plugin could masquerade, but does it
# with a rule a pod in the one chain that every new connection of the machine passes, the probes' first: 100 pods make 100
# rules to walk for each. `masquerade_pods` does it with one for all, as the networks of real clusters do.
write_cni_config() { # DIR
    mkdir -p "$1/cni" "$1/ipam"
    cat >"$1/cni/10-podwright.conflist" <<JSON
{
  "cniVersion": "1.0.0",
  "name": "$CNI_NETWORK",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "$CNI_BRIDGE",
      "isGateway": true,
      "ipMasq": false,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "dataDir": "$1/ipam",
        "ranges": [[{ "subnet": "$POD_SUBNET" }]],
        "routes": [{ "dst": "0.0.0.0/0" }]
      }
    },
    { "type": "portmap", "capabilities": { "portMappings": true } }
  ]
}
JSON
}

# The pods reach what lies outside the machine. `remove_network` knows the rule by its comment, the plugins' own form.
masquerade_pods() {
    iptables_ -t nat -A POSTROUTING -s "$POD_SUBNET" ! -d "$POD_SUBNET" -m comment --comment "name: \"$CNI_NETWORK\"" \
        -j MASQUERADE
}

# Starts an environment in DIR and writes DIR/env. DIR is made; it must not hold one already.
start_environment() { # DIR
    local dir
    prepare_directory "$1"
    find_runtime || die "containerd or runc is missing: make test and make run install them"
    find_cni || die "the CNI plugins are missing: make test and make run install them"
    scripts/images.sh "$IMAGES"
    take_number
    CONTAINERD_SOCK=$dir/c.sock SOCKET_FOLDER=""
    # A socket's path holds 107 bytes, and a suffix of ours follows.
    if [ ${#CONTAINERD_SOCK} -gt 90 ]; then
        SOCKET_FOLDER=$(mktemp -d /tmp/podwright-XXXXXX)
        CONTAINERD_SOCK=$SOCKET_FOLDER/c.sock
    fi
    RUNTIME_VERSION=$("$CONTAINERD_BIN" --version | awk '{ print $3 }') CGROUP_DRIVER=cgroupfs PRIVATE=yes
    write_env >"$dir/env"
    # From here on `stop` finds everything.
    write_cni_config "$dir"
    masquerade_pods || die "the pods' traffic cannot be masqueraded"
    make_cgroup "$CGROUP_ROOT"
    start_containerd "$dir" || {
        tail -n 20 "$dir/containerd.log" >&2
        stop_environment "$dir" || true
        die "containerd did not start; its log was above"
    }
    import_images "$dir" || die "the images could not be imported"
}

# The same around the machine's own containerd, which is neither started nor stopped; its network is used as it is.
borrow_environment() { # DIR SOCKET
    local dir known image sandbox_image
    prepare_directory "$1"
    find_runtime || die "ctr or runc is missing: apt-get install containerd runc"
    scripts/images.sh "$IMAGES"
    CONTAINERD_SOCK=$2 SOCKET_FOLDER=""
    refuse_foreign_node
    take_number
    RUNTIME_VERSION=$(ctr_ version | sed -n '/Server/,$ s/ *Version: *//p') CGROUP_DRIVER=cgroupfs PRIVATE=no
    if "$CONTAINERD_BIN" config dump 2>/dev/null | has 'SystemdCgroup = true'; then
        CGROUP_DRIVER=systemd
    fi
    find_cni || true
    known=$(ctr_ images ls -q)
    sandbox_image=$("$CONTAINERD_BIN" config dump | sed -n "s/^ *sandbox\(_image\)\? = [\"']\(.*\)[\"']/\2/p" | head -n 1)
    write_env >"$dir/env"
    for image in $IMAGE_PAUSE $IMAGE_WEB $IMAGE_CLIENT $sandbox_image; do
        grep -qxF "$image" <<<"$known" || echo "$image"
    done >"$dir/images.ours"
    if [ "$CGROUP_DRIVER" = systemd ]; then
        systemctl start "${CGROUP_ROOT#/}.slice"
    else
        make_cgroup "$CGROUP_ROOT"
    fi
    import_images "$dir" || die "the images could not be imported"
    # A machine that ran no pod yet has no sandbox image; ours does for it, as long as this lasts.
    if [ -n "$sandbox_image" ] && grep -qxF "$sandbox_image" "$dir/images.ours"; then
        ctr_ images tag "$IMAGE_PAUSE" "$sandbox_image" >/dev/null
    fi
}

# A node that works for somebody else is left alone.
refuse_foreign_node() {
    local sandbox info port foreign=""
    ctr_ version >/dev/null 2>&1 || die "no containerd answers on $CONTAINERD_SOCK"
    for port in 10248 10250; do
        port_taken "$port" && die "a kubelet answers on port $port: this machine is somebody's node, and stays it"
    done
    for sandbox in $(ctr_ containers ls -q 'labels."io.cri-containerd.kind"==sandbox'); do
        info=$(ctr_ containers info "$sandbox")
        grep -qE '"cgroupsPath": "/?podwright[0-9]+[-./]' <<<"$info" && continue
        foreign+=" $(sed -n 's/.*"io.kubernetes.pod.namespace": "\(.*\)".*/\1/p' <<<"$info" | head -n 1)"
        foreign+="/$(sed -n 's/.*"io.kubernetes.pod.name": "\(.*\)".*/\1/p' <<<"$info" | head -n 1) (sandbox ${sandbox:0:12})"
    done
    [ -z "$foreign" ] || die "containerd on $CONTAINERD_SOCK holds pods that are not ours, and stays as it is:$foreign"
}

# Makes the directory of an environment; sets dir and IMAGES.
prepare_directory() { # DIR
    mkdir -p "$1"
    dir=$(cd "$1" && pwd -P)
    # The name goes into configurations of several grammars, none of which it should need quoting for.
    [[ $dir =~ ^[A-Za-z0-9/._+@:~-]+$ ]] || die "$dir: the folder's path may hold letters, digits and ._+@:~- only"
    [ ! -e "$dir/env" ] || die "$dir holds an environment already: scripts/testenv.sh stop $dir"
    chmod 0755 "$dir"
    rm -f "$dir/containerd.log" "$dir/env.stopped"
    # The process whose end makes the environment stale: a number and a start time, since numbers come round again.
    echo "${OWNER:-$PPID} $(start_time "${OWNER:-$PPID}")" >"$dir/owner"
    IMAGES=${IMAGES:-$PWD/target/images/images.tar}
    IMAGE_PAUSE=localhost/podwright/pause:1 IMAGE_WEB=localhost/podwright/web:1
    IMAGE_CLIENT=localhost/podwright/client:1
}

# Takes a number, and names what follows from it.
take_number() {
    local base
    ENVIRONMENT=$(with_shared_lock claim_number "$dir") || exit 1
    base=$((PORT_FIRST + ENVIRONMENT * 20))
    HEALTHZ_PORT=$base READ_ONLY_PORT=$((base + 1)) PORT=$((base + 2)) HOST_PORT=$((base + 3))
    CNI_BRIDGE=pwbr$ENVIRONMENT CNI_NETWORK=podwright-$ENVIRONMENT CGROUP_ROOT=/podwright$ENVIRONMENT
    POD_SUBNET=10.213.$ENVIRONMENT.0/24 POD_GATEWAY=10.213.$ENVIRONMENT.1
}

# The content of DIR/env: one KEY=VALUE a line, read by load_env and by the tests.
write_env() {
    local key
    DIR=$dir RUNTIME_ENDPOINT=unix://$CONTAINERD_SOCK RUNC_ROOT=$dir/state/runc CNI_CONF_DIR=$dir/cni
    NODE_IP=$(node_ip) CGROUP_VERSION=$(on_cgroup_v2 && echo 2 || echo 1)
    for key in ENVIRONMENT DIR PRIVATE CONTAINERD_SOCK SOCKET_FOLDER RUNTIME_ENDPOINT CONTAINERD_BIN RUNTIME_VERSION \
        CTR RUNC RUNC_ROOT NAMESPACE CNI_BIN_DIR CNI_CONF_DIR CNI_NETWORK CNI_BRIDGE POD_SUBNET POD_GATEWAY NODE_IP \
        CGROUP_ROOT CGROUP_VERSION CGROUP_DRIVER HEALTHZ_PORT READ_ONLY_PORT PORT HOST_PORT \
        IMAGES IMAGE_PAUSE IMAGE_WEB IMAGE_CLIENT; do
        printf '%s=%s\n' "$key" "${!key}"
    done
}

# Fills `socket_flag` with the flags that put an executable's sockets at a place: with nothing for one that has no such flags,
# such as the upstream kubelet.
choose_socket() { # EXECUTABLE FILE
    socket_flag=()
    # shellcheck disable=SC2034 # used by the scripts that ask
    if "$1" --help 2>&1 | has -e '--socket '; then socket_flag=(--socket "$2"); fi
    # shellcheck disable=SC2034
    if "$1" --help 2>&1 | has -e '--device-plugin-dir '; then socket_flag+=(--device-plugin-dir "${2%/*}/device-plugins"); fi
}

# The agent's configuration for an environment: examples/kubelet.yaml with the names filled in. After load_env.
write_agent_config() { # DIR
    sed -e "s|@DIR@|$1|" -e "s|@RUNTIME_ENDPOINT@|$RUNTIME_ENDPOINT|" -e "s|@CGROUP_DRIVER@|$CGROUP_DRIVER|" \
        -e "s|@CGROUP_ROOT@|$CGROUP_ROOT|" -e "s|@PORT@|$PORT|" -e "s|@READ_ONLY_PORT@|$READ_ONLY_PORT|" \
        -e "s|@HEALTHZ_PORT@|$HEALTHZ_PORT|" examples/kubelet.yaml
}

# Starts the environment's containerd and waits until it answers; also after it was ended by a test.
start_containerd() { # DIR
    local dir=$1 try pid
    load_env "$dir" || return 1
    find_cni
    write_containerd_config "$dir" "$RUNTIME_VERSION" >"$dir/containerd.toml"
    # In its own session, so that a Ctrl-C at the terminal does not reach it, and with the signals that a shell makes
    # its background ignore, since containers would inherit that. The shim is looked for on the PATH.
    PATH=$(dirname "$CONTAINERD_BIN"):$(dirname "$CTR"):$PATH \
        setsid env --default-signal=INT,QUIT "$CONTAINERD_BIN" --config "$dir/containerd.toml" </dev/null >>"$dir/containerd.log" 2>&1 9>&- &
    pid=$!
    echo "$pid" >"$dir/containerd.pid"
    for try in $(seq 200); do
        if ctr_ version >/dev/null 2>&1 && ctr_ plugins ls 2>/dev/null | grep -E '\bcri\b' | has ' ok'; then
            return 0
        fi
        [ -e "/proc/$pid" ] || return 1
        sleep 0.1
    done
    return 1
}

# Ends the environment's containerd; its containers go on.
stop_containerd() { # DIR
    local pid
    pid=$(cat "$1/containerd.pid" 2>/dev/null) || return 0
    # The number may be someone else's by now.
    if arguments_of "$pid" | has -xF "$1/containerd.toml"; then
        end_pids 10 "$pid"
    fi
    rm -f "$1/containerd.pid"
}

# Does to a node as a loss of power does: its processes, mounts and cgroups are gone, and all that the runtime kept in memory.
# The runtime starts again; starting the agent is the caller's.
boot_environment() { # DIR
    local dir=$1 pid
    load_env "$dir" || return 1
    pid=$(cat "$dir/containerd.pid" 2>/dev/null) && kill -KILL "$pid" 2>/dev/null
    rm -f "$dir/containerd.pid"
    # shellcheck disable=SC2046  # lists of numbers
    kill -KILL $(shim_pids) $(pids_of_cgroup "$CGROUP_ROOT") 2>/dev/null
    unmount_below "$dir"
    remove_cgroup "$CGROUP_ROOT"
    make_cgroup "$CGROUP_ROOT"
    rm -rf "$dir/state"
    start_containerd "$dir"
}

import_images() { # DIR
    local image known
    load_env "$1"
    ctr_ images import "$IMAGES" >"$1/import.log" 2>&1 || {
        cat "$1/import.log" >&2
        return 1
    }
    known=$(ctr_ images ls -q)
    for image in "$IMAGE_PAUSE" "$IMAGE_WEB" "$IMAGE_CLIENT"; do
        grep -qxF "$image" <<<"$known" || {
            say "image $image is not there after the import"
            return 1
        }
    done
}

# Takes everything of an environment down, whatever state it is in, and says what is left. The directory stays, with
# its logs; what a runtime keeps in it goes. A subshell: no step may keep the next from being tried.
stop_environment() ( # DIR
    set +e +o pipefail
    [ -d "$1" ] || exit 0
    dir=$(cd "$1" && pwd -P)
    load_env "$dir" || exit 0
    # shellcheck disable=SC2046  # lists of numbers
    end_pids 10 $(agent_pids "$dir") $(pids_of_programs "$dir" kubelet)
    stop_cluster "$dir"
    if [ "$PRIVATE" = yes ]; then
        remove_containers "$(ctr_ containers ls -q 2>/dev/null)"
        # shellcheck disable=SC2046
        end_pids 10 $(pids_of_programs "$dir" containerd)
        # shellcheck disable=SC2046
        end_pids 3 $(shim_pids)
        rm -rf "$CONTAINERD_SOCK" "$CONTAINERD_SOCK.ttrpc" ${SOCKET_FOLDER:+"$SOCKET_FOLDER"}
    elif [ "$PRIVATE" = no ]; then # One that is neither has no runtime: a control plane alone.
        remove_containers "$(our_containers)"
        remove_images
        [ "$CGROUP_DRIVER" = systemd ] && systemctl stop "${CGROUP_ROOT#/}.slice"
    fi
    remove_network
    unmount_below "$dir"
    remove_cgroup "$CGROUP_ROOT"
    remove_log_links "$dir"
    rm -rf "$dir/root" "$dir/state" "$dir/opt" "$dir/cni" "$dir/ipam" "$dir/containerd.pid"
    # Looked at while the number is still ours: as soon as it is free, another environment makes its own things there.
    left=$(leftovers "$dir" | grep -v '^entry ')
    # A process that was ended may take a moment to be gone on a busy machine, and its cgroup with it; what stays is left over.
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ -z "$left" ] && break
        sleep 0.5
        remove_cgroup "$CGROUP_ROOT"
        left=$(leftovers "$dir" | grep -v '^entry ')
    done
    with_shared_lock release_number "$ENVIRONMENT"
    left+=$(own_entry "$dir" | sed 's/^/entry /')
    if [ -n "$left" ]; then
        say "left over from $dir:"
        printf '%s\n' "$left" >&2
        exit 1
    fi
    mv "$dir/env" "$dir/env.stopped"
)

# The control plane that scripts/cluster.sh started around a node, last what the others talk to.
stop_cluster() { # DIR
    local program
    for program in kubectl kube-controller-manager kube-scheduler kube-apiserver etcd; do
        # shellcheck disable=SC2046  # a list of numbers
        end_pids 10 $(pids_of_programs "$1" "$program")
    done
}

# Kills and removes containers with containerd's own means.
remove_containers() { # LIST
    local container try
    for try in 1 2 3; do
        for container in $1; do
            ctr_ tasks kill -s KILL -a "$container" >/dev/null 2>&1 || true
        done
        for container in $1; do
            # containerd gives every sandbox a loopback by CNI; that network's name is the same for all environments.
            rm -f "/var/lib/cni/results/cni-loopback-$container-lo"
            ctr_ tasks delete -f "$container" >/dev/null 2>&1 || true
            ctr_ containers delete "$container" >/dev/null 2>&1 || true
        done
        ctr_ containers ls -q 2>/dev/null | has -xF -e "$1" || return 0
        sleep 0.5
    done
}

# Removes the images that were not there before, with every name that containerd gave to the same content.
remove_images() {
    local listing digests
    listing=$(ctr_ images ls 2>/dev/null)
    digests=$(awk 'NR == FNR { ours[$1]; next } $1 in ours { print $3 }' "$dir/images.ours" - <<<"$listing")
    # shellcheck disable=SC2046  # a list of names
    ctr_ images rm $(awk 'NR == FNR { ours[$1]; next } $3 in ours { print $1 }' <(echo "$digests") - <<<"$listing") \
        >/dev/null 2>&1 || true
}

# The containers in this environment's cgroup: how ours are told apart in a containerd that is not ours.
our_containers() {
    local container
    for container in $(ctr_ containers ls -q 2>/dev/null); do
        if ctr_ containers info "$container" | has -E "\"cgroupsPath\": \"/?${CGROUP_ROOT#/}[-./]"; then
            echo "$container"
        fi
    done
}

# A shim ends with its last container; these are the ones that live.
# The agent of an environment and its clients. PODWRIGHT may name an executable of any name; all take the configuration.
agent_pids() { # DIR
    { pids_of_programs "$1" podwright && pids_with_arguments --config "$1/kubelet.yaml"; } | sort -u
}

shim_pids() { [ "$PRIVATE" != yes ] || pids_with_arguments -address "$CONTAINERD_SOCK"; }

# The bridge, what the CNI plugins remember, and the netfilter rules whose comment names this network.
remove_network() {
    local rule chain chains
    chains=$(iptables_ -t nat -S 2>/dev/null | grep -F "$(printf '%s\\"' "$CNI_NETWORK")" |
        sed -n 's/.* -j \(CNI-[A-Za-z0-9-]*\)$/\1/p' | sort -u)
    while read -r rule; do
        eval "iptables_ -t nat -D ${rule#-A }" 2>/dev/null || true
    done < <(iptables_ -t nat -S 2>/dev/null | grep -F "$(printf '%s\\"' "$CNI_NETWORK")")
    for chain in $chains; do
        case $chain in CNI-HOSTPORT-*) continue ;; esac
        iptables_ -t nat -F "$chain" 2>/dev/null || true
        iptables_ -t nat -X "$chain" 2>/dev/null || true
    done
    ip link del "$CNI_BRIDGE" 2>/dev/null || true
    rm -f "/var/lib/cni/results/$CNI_NETWORK-"* "/var/lib/cni/cache/results/$CNI_NETWORK-"* 2>/dev/null
    rm -rf "/var/lib/cni/networks/$CNI_NETWORK"
}

mounts_below() { # DIR
    awk -v dir="$1/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | sort -r
}

unmount_below() { # DIR
    local mount try
    for try in 1 2 3; do
        while read -r mount; do
            # The kernel prints a space as \040.
            umount -nl "$(printf '%b' "$mount")" 2>/dev/null || true
        done < <(mounts_below "$1")
        [ -n "$(mounts_below "$1")" ] || return 0
    done
}

log_links() { # DIR
    find /var/log/containers /var/log/pods -maxdepth 1 -type l -lname "$1/*" 2>/dev/null || true
}

remove_log_links() { # DIR
    local link
    while read -r link; do
        rm -f "$link"
    done < <(log_links "$1")
}

# The entry of an environment's number, as long as it is this environment's.
own_entry() { # DIR
    local holder
    read -r holder 2>/dev/null <"$SHARED/$ENVIRONMENT/dir" || return 0
    [ "$holder" != "$1" ] || echo "$SHARED/$ENVIRONMENT"
}

# Everything of an environment that is still there outside its directory, one a line; nothing when all is well.
leftovers() { # DIR
    local mount pid left
    load_env "$1" || true
    for pid in $(agent_pids "$1") $(shim_pids) $(pids_of_cgroup "$CGROUP_ROOT") $(pids_of_programs "$1" containerd \
        kubelet kubectl etcd kube-apiserver kube-controller-manager kube-scheduler); do
        echo "process $pid $(arguments_of "$pid" | tr '\n' ' ')"
    done
    mounts_below "$1" | sed 's/^/mount /'
    [ ! -e "/sys/class/net/$CNI_BRIDGE" ] || echo "bridge $CNI_BRIDGE"
    iptables_ -t nat -S 2>/dev/null | grep -F "$(printf '%s\\"' "$CNI_NETWORK")" | sed 's/^/netfilter rule /'
    find /var/lib/cni -name "$CNI_NETWORK*" 2>/dev/null | sed 's/^/file /'
    while read -r mount; do
        for left in "$mount$CGROUP_ROOT" "$mount$CGROUP_ROOT.slice"; do
            [ ! -d "$left" ] || echo "cgroup $left"
        done
    done < <(cgroup_mounts)
    log_links "$1" | sed 's/^/link /'
    if [ "$PRIVATE" = yes ]; then
        [ ! -e "$CONTAINERD_SOCK" ] || echo "socket $CONTAINERD_SOCK"
    elif [ "$PRIVATE" = no ]; then
        our_containers | sed 's/^/container /'
    fi
    own_entry "$1" | sed 's/^/entry /'
    if [ ! -e "$SHARED" ]; then
        # Nobody else's environment is alive: nothing of the kind may be anywhere.
        ip -o link show 2>/dev/null | grep -o 'pwbr[0-9]*' | sort -u | sed 's/^/bridge /'
    fi
    return 0
}
