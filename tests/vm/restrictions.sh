#!/bin/bash
# Runs in a virtual machine, as root: the restrictions of the unit as shipped. They bite for the agent and its programs,
# no container has them, and nothing that a node does fails by them.
# shellcheck source=tests/vm/common.sh
. "$NODE_VM_FILES/common.sh"

OBJECTS=/etc/podwright/objects
PLUGINS=/srv/plugins

# NAME, then volumes, volumeMounts and the line of the container's shell; more fields of the pod as JSON, after a comma.
pod() { # NAME VOLUMES MOUNTS COMMAND [FIELDS]
    cat >"$MANIFESTS/.$1" <<YAML
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"$1","namespace":"default"},"spec":{"terminationGracePeriodSeconds":1,
"volumes":[{"name":"seen","hostPath":{"path":"$SEEN"}}${2:+,$2}]${5:-},
"containers":[{"name":"$1","image":"localhost/podwright/client:1","imagePullPolicy":"IfNotPresent",
"command":["sh","-c","$4"],"securityContext":{"privileged":true},
"volumeMounts":[{"name":"seen","mountPath":"/seen"}${3:+,$3}]}]}}
YAML
    mv "$MANIFESTS/.$1" "$MANIFESTS/$1.yaml"
}
end() { # NAME
    rm -f "$MANIFESTS/$1.yaml"
    check "the pod $1 ends" within 120 eval '[ -z "$(container_id '"$1"')" ]'
}

start_agent() {
    mkdir -p $OBJECTS $SEEN $PLUGINS
    chmod 0700 $OBJECTS
    (umask 077 && cat >$OBJECTS/objects.yaml) <<'YAML'
apiVersion: v1
kind: Secret
metadata: {name: word, namespace: default}
stringData: {word: secret}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: word, namespace: default}
data: {word: config}
YAML
    # Without a cluster, port 10250 answers this machine's callers.
    sed -i '/anonymous:/{n;s/false/true/}' "$CONFIG"
    mkdir -p /etc/systemd/system/podwright.service.d
    cat >/etc/systemd/system/podwright.service.d/restrictions.conf <<UNIT
[Service]
ExecStart=
ExecStart=/usr/bin/podwright --config=$CONFIG --local-objects=$OBJECTS --image-credential-provider-config=$PLUGINS/config.json --image-credential-provider-bin-dir=$PLUGINS
UNIT
    provider
    systemctl daemon-reload
    # Where users may not read the kernel's log, a capability decides.
    sysctl -q -w kernel.dmesg_restrict=1
    check "the unit starts" systemctl start podwright
    check "health answers" within 120 healthy
}

# A credential provider that tries the restrictions, which takes an emulated machine longer than a provider may.
provider() {
    cat >$PLUGINS/played <<SCRIPT
#!/bin/bash
cat >$SEEN/asked
# It is asked again before an emulated machine has tried all: each has a file of its own.
($NODE_VM_FILES/attempts.sh >$SEEN/.provider.\$\$; mv $SEEN/.provider.\$\$ $SEEN/provider) >/dev/null 2>&1 &
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","auth":{"192.0.2.10:5000":{"username":"u","password":"p"}}}'
SCRIPT
    chmod 0755 $PLUGINS/played "$NODE_VM_FILES/attempts.sh"
    cat >$PLUGINS/config.json <<'JSON'
{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1","providers":[{"name":"played",
"apiVersion":"credentialprovider.kubelet.k8s.io/v1","matchImages":["192.0.2.10:5000"],"defaultCacheDuration":"0s"}]}
JSON
}

test_agent() {
    echo "--- the agent"
    check "systemd's figure for the exposure is below 7" systemd-analyze security --no-pager --threshold=70 podwright
    check "the agent has a filter of system calls" is "$(of_status "$(agent_pid)" Seccomp)" 2
    check "the agent can never have other capabilities" is "$(of_status "$(agent_pid)" CapBnd)" $CAPABILITIES
    check "the agent has those" is "$(of_status "$(agent_pid)" CapEff)" $CAPABILITIES
    check "its tasks have a bound" is "$(property TasksMax)" 16384
    check "and are far from it" [ "$(property TasksCurrent)" -lt 200 ]
    check "the agent delays a shutdown of the machine" within 120 eval 'systemd-inhibit --list --no-legend | grep kubelet | grep shutdown | grep -q delay'
    check "the agent reads the kernel's log" within 60 eval 'find "/proc/$(agent_pid)/fd" -lname /dev/kmsg | grep -q .'
}

test_provider() {
    echo "--- a credential provider"
    "$NODE_VM_FILES/attempts.sh" >$SEEN/outside
    check "outside of the unit all of it works" all $SEEN/outside refused works
    cat >"$MANIFESTS/pulled.yaml" <<'YAML'
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pulled","namespace":"default"},"spec":{
"containers":[{"name":"c","image":"192.0.2.10:5000/app:1","imagePullPolicy":"Always"}]}}
YAML
    check "a credential provider runs" within 300 test -s $SEEN/provider
    check "it has the question" grep -q '"image":"192.0.2.10:5000/app"' $SEEN/asked
    judged "a credential provider" provider
    rm -f "$MANIFESTS/pulled.yaml"
}

test_volumes() {
    local disk
    echo "--- volumes"
    mkdir -p /srv/folder
    truncate -s 4M /srv/disk
    disk=$(losetup -f --show /srv/disk)
    printf 'on-the-disk\n' >"$disk"
    pod kinds '{"name":"scratch","emptyDir":{}},{"name":"memory","emptyDir":{"medium":"Memory","sizeLimit":"1Mi"}},
{"name":"config","configMap":{"name":"word"}},{"name":"secret","secret":{"secretName":"word"}},
{"name":"down","downwardAPI":{"items":[{"path":"name","fieldRef":{"fieldPath":"metadata.namespace"}}]}},
{"name":"all","projected":{"sources":[{"configMap":{"name":"word"}}]}},
{"name":"folder","hostPath":{"path":"/srv/folder","type":"Directory"}},
{"name":"made","hostPath":{"path":"/srv/made","type":"DirectoryOrCreate"}},
{"name":"socket","hostPath":{"path":"/run/containerd/containerd.sock","type":"Socket"}},
{"name":"disk","hostPath":{"path":"'"$disk"'","type":"BlockDevice"}}' \
        '{"name":"scratch","mountPath":"/scratch"},{"name":"scratch","mountPath":"/part","subPath":"part"},
{"name":"memory","mountPath":"/memory"},{"name":"config","mountPath":"/config"},{"name":"secret","mountPath":"/secret"},
{"name":"down","mountPath":"/down"},{"name":"all","mountPath":"/all"},{"name":"folder","mountPath":"/folder"},
{"name":"made","mountPath":"/made"},{"name":"socket","mountPath":"/socket"},{"name":"disk","mountPath":"/disk"}' \
        'cat /config/word /secret/word /down/name /all/word > /scratch/words && stat -c %a:%g /scratch /memory > /seen/modes && echo x > /part/x && echo x > /made/x && head -n 1 /disk > /seen/disk && df /memory | grep -q tmpfs && test -S /socket && echo $(cat /scratch/words) > /seen/words && exec sleep 100000' \
        ',"securityContext":{"fsGroup":2000}'
    check "a pod has volumes of all the kinds" within 300 seen words configsecretdefaultconfig
    check "its directories have its group and the set-group-ID bit" is "$(sort $SEEN/modes | tr '\n' ' ')" "2777:2000 3777:2000 "
    check "a block device is what the host has" seen disk on-the-disk
    check "the pod with all the kinds is Ready" within 60 container_runs kinds
    check "a container has another filter than the agent" isnt "$(of_status "$(container_pid kinds)" Seccomp)" 2
    check "a privileged container has all capabilities" isnt "$(of_status "$(container_pid kinds)" CapBnd)" $CAPABILITIES
    end kinds
    losetup -d "$disk"
}

# As a driver of volumes does it: a pod mounts, and another one sees it.
test_propagation() {
    echo "--- mounts of a pod"
    pod driver '{"name":"spread","hostPath":{"path":"/srv/spread","type":"DirectoryOrCreate"}}' \
        '{"name":"spread","mountPath":"/spread","mountPropagation":"Bidirectional"}' \
        'mkdir -p /spread/in && mount -t tmpfs none /spread/in && echo from-the-driver > /spread/in/word && exec sleep 100000'
    check "what a driver's pod mounts is there on the node" within 180 grep -qx from-the-driver /srv/spread/in/word
    pod user '{"name":"spread","hostPath":{"path":"/srv/spread"}}' \
        '{"name":"spread","mountPath":"/spread","mountPropagation":"HostToContainer"}' \
        'cat /spread/in/word > /seen/spread && exec sleep 100000'
    check "another pod has it" within 180 seen spread from-the-driver
    end user
    end driver
    umount /srv/spread/in
}

share() { pod "$1" "{\"name\":\"share\",\"nfs\":{\"server\":\"$2\",\"path\":\"/srv/share\"}}" '{"name":"share","mountPath":"/share"}' "$3"; }
test_helpers() {
    echo "--- mount helpers"
    mkdir -p /srv/share /srv/played
    chmod 0777 /srv/share
    echo from-the-server >/srv/share/greeting
    echo '/srv/share 127.0.0.1(rw,no_root_squash,no_subtree_check,fsid=1)' >/etc/exports
    # The older protocol has the helper open low ports and start a daemon for locks.
    printf '[ NFSMount_Global_Options ]\nNfsvers=3\n' >/etc/nfsmount.conf
    check "the NFS server starts" systemctl restart nfs-server
    share old 127.0.0.1 'cat /share/greeting > /seen/old && exec sleep 100000'
    check "a pod has a share by the protocol's version 3" within 300 seen old from-the-server
    check "it is of that version" eval 'grep " nfs " /proc/mounts | grep -q vers=3'
    check "the daemon for locks runs" eval 'pgrep -x rpc.statd'
    end old
    check "the share is unmounted" within 120 eval '! grep -q "volumes/kubernetes.io~nfs" /proc/mounts'
    printf '[ NFSMount_Global_Options ]\nNfsvers=4\n' >/etc/nfsmount.conf
    share new 127.0.0.1 'cat /share/greeting > /seen/new && exec sleep 100000'
    check "a pod has a share by version 4" within 300 seen new from-the-server
    end new

    mv /sbin/mount.nfs /sbin/mount.nfs.away
    cat >/sbin/mount.nfs <<SCRIPT
#!/bin/bash
$NODE_VM_FILES/attempts.sh >$SEEN/.helper.\$\$
mv $SEEN/.helper.\$\$ $SEEN/helper
exec mount --bind /srv/played "\$2"
SCRIPT
    chmod 0755 /sbin/mount.nfs
    echo from-the-helper >/srv/played/greeting
    share played played.example 'cat /share/greeting > /seen/played && exec sleep 100000'
    check "a mount helper of this test mounts" within 300 seen played from-the-helper
    judged "a mount helper" helper
    end played
    mv /sbin/mount.nfs.away /sbin/mount.nfs
}

# Probes of three kinds, a command, and a port that is passed on. A command is much work for an emulated machine.
test_streams() {
    echo "--- probes and streams"
    cat >"$MANIFESTS/probed.yaml" <<'YAML'
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"probed","namespace":"default"},"spec":{"terminationGracePeriodSeconds":1,
"containers":[{"name":"probed","image":"localhost/podwright/web:1","imagePullPolicy":"IfNotPresent",
"startupProbe":{"httpGet":{"path":"/healthz","port":80},"timeoutSeconds":20,"failureThreshold":30},
"livenessProbe":{"tcpSocket":{"port":80},"timeoutSeconds":20,"failureThreshold":10},
"readinessProbe":{"exec":{"command":["true"]},"timeoutSeconds":60,"periodSeconds":30}}]}}
YAML
    check "a pod passes three kinds of probes" within 300 pods_ready 1
    check "a command runs in it" within 120 eval 'podwright exec default/probed -- cat /www/healthz | grep -qx ok'
    check "a port of it is passed on" within 180 eval 'forward | grep -aq "hello from podwright"'
    check "its log is there" podwright logs default/probed
    check "the unit restarts" systemctl restart podwright
    check "the pod is Ready again" within 180 pods_ready 1
    check "the unit reloads" systemctl reload podwright
}
# As a client over a WebSocket does it: a masked frame for channel 0 with a request for a page.
forward() {
    local pod
    pod=$(podwright ps -o json | grep -o '"probed-[a-z-]*"' | head -n 1 | tr -d '"')
    {
        printf 'GET /portForward/default/%s?port=80 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' "$pod"
        printf 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n'
        sleep 5
        printf '\x82\x93\0\0\0\0\0GET / HTTP/1.0\r\n\r\n'
        sleep 10
    } | timeout 40 openssl s_client -quiet -connect 127.0.0.1:10250 2>/dev/null
}

loaded() { grep -q "^$1 " /proc/modules; } # MODULE
test_iptables() {
    local family
    echo "--- iptables"
    for family in iptables ip6tables; do
        check "$family has the agent's chain" within 120 eval "$family -t mangle -S | grep -q KUBE-KUBELET-CANARY"
        update-alternatives --quiet --set $family /usr/sbin/$family-legacy
    done
    # systemd loads it as the machine starts; its tables are modules that use it.
    modprobe -r iptable_filter iptable_nat iptable_mangle iptable_raw ip_tables
    check "the module of the older iptables is not loaded" eval '! loaded ip_tables'
    check "the unit restarts with the older iptables" systemctl restart podwright
    check "it has its module loaded" within 120 loaded ip_tables
    check "the older iptables has the agent's chain" within 120 eval 'iptables -t mangle -S | grep -q KUBE-KUBELET-CANARY'
}

cd "$NODE_VM_FILES" || exit 1
trap finish EXIT
install_as_shipped
configure systemd
check "systemd finds no fault with the unit" systemd-analyze verify /etc/systemd/system/podwright.service
start_agent
test_agent
test_provider
test_volumes
test_propagation
test_helpers
test_streams
test_iptables
rm -f "$MANIFESTS"/*
check "pods without a manifest are removed" within 300 nothing_runs
check "no volume stays mounted" within 60 eval '! grep -q " /var/lib/kubelet/pods/" /proc/self/mountinfo'
check "the agent did not fail" eval '! journalctl -u podwright | grep -E "\"panic\"|actor failed|turn does not end"'
cp -r $SEEN "$NODE_VM_OUT/"
check "the unit stops" systemctl stop podwright
