#!/usr/bin/env bash
# Makes the fixtures of tests/fixtures/old-roots anew: the root directory that a node agent leaves when it is killed.
#
#   scripts/old-roots.sh upstream FILE NAME    FILE is upstream's kubelet
#   scripts/old-roots.sh podwright FILE NAME   FILE is an executable of ours, such as that of the last release
#
# KUBEBUILDER_ASSETS names the folder with etcd, kube-apiserver and kubectl. jq, docker-registry and skopeo are needed too.
# The result is tests/fixtures/old-roots/NAME.jsonl: a first line about its making, then a line for each folder, file and
# link. Mounted volumes are empty folders in it, and no line has a key or a token: those are on mounts, or outside the root.
#
# The node is called node1, as in the live tests. It has the static policies of the CPU and the memory manager.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

NODE=node1
PATIENCE=${PATIENCE:-120}
# Upstream's kubelet listens here, whatever its root directory is.
DEVICE_PLUGINS=/var/lib/kubelet/device-plugins
kind="" file="" name="" dir="" registry="" agent=""

clean_up() {
    local status=$?
    trap '' INT TERM
    set +e
    [ -z "$agent" ] || kill -KILL "$agent" 2>/dev/null
    [ -z "$registry" ] || kill "$registry" 2>/dev/null
    [ "$kind" != upstream ] || rm -f "$DEVICE_PLUGINS/kubelet.sock" "$DEVICE_PLUGINS/kubelet_internal_checkpoint"
    [ ! -e "$dir/env" ] || stop_environment "$dir" || status=1
    if [ "$status" = 0 ]; then rm -rf "$dir"; else say "logs are in $dir"; fi
    exit "$status"
}

kubectl_() { "$KUBEBUILDER_ASSETS/kubectl" --kubeconfig "$dir/cluster/pki/admin.conf" --cache-dir /dev/null "$@"; }

until_it_holds() { # WHAT COMMAND...
    local what=$1 deadline=$((SECONDS + PATIENCE))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ "$SECONDS" -ge "$deadline" ] || [ ! -e "/proc/$agent" ]; then
            tail -n 20 "$dir/agent.log" >&2
            die "waited in vain: $what; the end of the agent's log was above"
        fi
        sleep 0.3
    done
}

# ---------------------------------------------------------------- the image that is pulled

# A blob of the layout; prints its digest.
add_blob() { # LAYOUT FILE
    local digest
    digest=$(sha256sum "$2" | cut -d' ' -f1)
    mv "$2" "$1/blobs/sha256/$digest"
    echo "$digest"
}

# A registry with one image that no live test's node has: the client's, with a label more.
start_registry() {
    local folder=$dir/registry layout=$dir/registry/layout config manifest place
    mkdir -p "$layout" "$dir/registries/$REGISTRY"
    tar -C "$layout" -xf "$IMAGES"
    manifest=$(jq -r --arg name "$IMAGE_CLIENT" \
        '.manifests[] | select(.annotations["io.containerd.image.name"] == $name) | .digest[7:]' "$layout/index.json")
    config=$(jq -r '.config.digest[7:]' "$layout/blobs/sha256/$manifest")
    jq -c '.config.Labels = {old: "root"}' "$layout/blobs/sha256/$config" >"$folder/config.json"
    place=$(stat -c %s "$folder/config.json")
    config=$(add_blob "$layout" "$folder/config.json")
    jq -c --arg digest "sha256:$config" --argjson size "$place" '.config += {digest: $digest, size: $size}' \
        "$layout/blobs/sha256/$manifest" >"$folder/manifest.json"
    place=$(stat -c %s "$folder/manifest.json")
    manifest=$(add_blob "$layout" "$folder/manifest.json")
    jq -nc --arg digest "sha256:$manifest" --argjson size "$place" '{schemaVersion: 2, manifests: [{
        mediaType: "application/vnd.oci.image.manifest.v1+json", digest: $digest, size: $size,
        annotations: {"org.opencontainers.image.ref.name": "app"}}]}' >"$layout/index.json"
    jq -nc --arg store "$folder/store" --arg address "$REGISTRY" '{version: "0.1", log: {level: "warn"},
        storage: {filesystem: {rootdirectory: $store}}, http: {addr: $address, secret: "of one registry"}}' \
        >"$folder/config.yml"
    docker-registry serve "$folder/config.yml" </dev/null >"$folder/log" 2>&1 &
    registry=$!
    printf 'server = "http://%s"\n\n[host."http://%s"]\n  capabilities = ["pull", "resolve"]\n' "$REGISTRY" "$REGISTRY" \
        >"$dir/registries/$REGISTRY/hosts.toml"
    agent=$registry until_it_holds "the registry answers" port_taken "${REGISTRY#*:}"
    skopeo copy --quiet --insecure-policy --dest-tls-verify=false "oci:$layout:app" "docker://$REGISTRY/team/app:1"
}

# ---------------------------------------------------------------- the agent

write_configuration() {
    local pki=$dir/cluster/pki
    cat >"$dir/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: $dir/manifests
containerRuntimeEndpoint: $RUNTIME_ENDPOINT
podLogsDir: $dir/logs
volumePluginDir: $dir/volume-plugins
cgroupDriver: $CGROUP_DRIVER
cgroupRoot: $CGROUP_ROOT
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: [pods]
makeIPTablesUtilChains: false
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
cpuManagerPolicy: static
memoryManagerPolicy: Static
kubeReserved: {cpu: "$(($(nproc) * 1000 - 1500))m", memory: 50Mi}
reservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]
address: 127.0.0.1
port: $PORT
readOnlyPort: $READ_ONLY_PORT
healthzPort: $HEALTHZ_PORT
authentication: {x509: {clientCAFile: $pki/ca.crt}, webhook: {enabled: true}, anonymous: {enabled: false}}
authorization: {mode: Webhook}
tlsCertFile: $pki/kubelet-serving.crt
tlsPrivateKeyFile: $pki/kubelet-serving.key
YAML
}

start_agent() {
    local flags=(--config "$dir/kubelet.yaml" --root-dir "$dir/kubelet" --cert-dir "$dir/pki" --hostname-override "$NODE"
        --node-ip "$NODE_IP" --kubeconfig "$dir/cluster/pki/kubelet.conf")
    if [ "$kind" = podwright ]; then
        flags+=(--socket "$dir/podwright.sock" --device-plugin-dir "$dir/device-plugins")
    fi
    setsid env --default-signal=INT,QUIT "$file" "${flags[@]}" </dev/null >>"$dir/agent.log" 2>&1 &
    agent=$!
    until_it_holds "the agent is healthy" agent_is_healthy
    until_it_holds "the node is Ready" node_is_ready
    kubectl_ taint node "$NODE" node.kubernetes.io/not-ready- >/dev/null 2>&1 || true
}

agent_is_healthy() { [ "$(curl -sf "http://127.0.0.1:$HEALTHZ_PORT/healthz")" = ok ]; }
node_is_ready() {
    kubectl_ get node "$NODE" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' | has -x True
}

# ---------------------------------------------------------------- its pods

# `static` is a pod of a manifest. `own` has a CPU and memory of its own. `volumes` has a volume of each kind that needs no
# driver, its probe has a result, and it is resized later. `pulled` has an image of the registry, with a Secret.
write_pods() {
    cat >"$dir/manifests/static.yaml" <<YAML
apiVersion: v1
kind: Pod
metadata: {name: static, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: $IMAGE_CLIENT
    command: [/bin/sh, -c, "echo of a static pod > /kept/file; sleep 86400"]
    volumeMounts: [{name: kept, mountPath: /kept}]
  volumes: [{name: kept, emptyDir: {}}]
YAML
    cat >"$dir/pods.yaml" <<YAML
apiVersion: v1
kind: ConfigMap
metadata: {name: words, namespace: default}
data: {greeting: hello}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden, namespace: default}
stringData: {word: of-no-worth}
---
apiVersion: v1
kind: Secret
metadata: {name: registry, namespace: default}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{"auths":{"$REGISTRY":{"username":"nobody","password":"of-no-worth"}}}'}
---
apiVersion: v1
kind: Pod
metadata: {name: own, namespace: default}
spec:
  nodeName: $NODE
  containers:
  - name: main
    image: $IMAGE_CLIENT
    command: [/bin/sleep, "86400"]
    resources: {limits: {cpu: "1", memory: 64Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: volumes, namespace: default}
spec:
  nodeName: $NODE
  containers:
  - name: main
    image: $IMAGE_CLIENT
    command: [/bin/sh, -c, "echo of an API pod > /kept/file; sleep 86400"]
    resources: {requests: {cpu: 100m, memory: 32Mi}, limits: {cpu: 200m, memory: 64Mi}}
    readinessProbe: {exec: {command: [/bin/true]}, periodSeconds: 1}
    volumeMounts:
    - {name: kept, mountPath: /kept}
    - {name: memory, mountPath: /memory}
    - {name: words, mountPath: /words}
    - {name: words, mountPath: /one-word, subPath: greeting}
    - {name: hidden, mountPath: /hidden}
    - {name: all, mountPath: /all}
    - {name: about, mountPath: /about}
  volumes:
  - {name: kept, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: words, configMap: {name: words}}
  - {name: hidden, secret: {secretName: hidden}}
  - {name: about, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}
  - name: all
    projected:
      sources:
      - configMap: {name: words}
      - secret: {name: hidden}
      - serviceAccountToken: {path: token}
---
apiVersion: v1
kind: Pod
metadata: {name: pulled, namespace: default}
spec:
  nodeName: $NODE
  imagePullSecrets: [{name: registry}]
  containers:
  - name: main
    image: $REGISTRY/team/app:1
    imagePullPolicy: Always
    command: [/bin/sleep, "86400"]
YAML
}

run_pods() {
    kubectl_ apply -f "$dir/pods.yaml" >/dev/null
    kubectl_ wait --for=condition=Ready pod/own pod/volumes pod/pulled "pod/static-$NODE" --timeout="${PATIENCE}s" >/dev/null ||
        { kubectl_ get pods,events -A && die "not all pods are Ready"; }
    kubectl_ patch pod volumes --subresource resize -p '{"spec": {"containers": [{"name": "main",
        "resources": {"requests": {"cpu": "150m"}, "limits": {"cpu": "300m"}}}]}}' >/dev/null
    until_it_holds "the pod is resized" is_resized
    # Results of probes reach the disk within a second; upstream keeps none.
    [ "$kind" = upstream ] || until_it_holds "the probe's result is kept" grep -q '"result":true' "$dir/kubelet/probe_results.json"
}

is_resized() {
    kubectl_ get pod volumes -o 'jsonpath={.status.containerStatuses[0].resources.limits.cpu}' | has -x 300m
}

# ---------------------------------------------------------------- what is kept

# One line of the fixture.
line() { # PATH BELOW
    local mode from=$1
    mode=$(stat -c %a "$1")
    if [ -L "$1" ]; then
        jq -nc --arg path "$2" --arg target "$(readlink "$1")" '{path: $path, link: $target}'
    elif [ -d "$1" ]; then
        jq -nc --arg path "$2" --arg mode "$mode" '{path: $path, mode: $mode}'
    elif [ -f "$1" ]; then
        [ "$(stat -c %s "$1")" -le 65536 ] || die "too large for a fixture: $2"
        # A file that is mounted (`subPath`) is an empty one below the mount.
        if mounts_below "$dir" | has -xF "$1"; then from=/dev/null; fi
        jq -nc --arg path "$2" --arg mode "$mode" --rawfile text "$from" '{path: $path, mode: $mode, text: $text}'
    fi # A socket is made anew by each agent.
}

write_fixture() { # FOLDER PREFIX
    local path
    [ -d "$1" ] || return 0
    # Mounts stay out: they hold Secrets, tokens and files that a reboot takes away.
    while IFS= read -r path; do
        line "$1/$path" "$2/$path"
    done < <(cd "$1" && find . -xdev -mindepth 1 | sed 's|^\./||' | LC_ALL=C sort)
}

main() {
    kind=${1:-} file=${2:-} name=${3:-}
    case $kind in upstream | podwright) ;; *) kind="" ;; esac
    [ -n "$kind" ] && [ -n "$name" ] || die "usage: scripts/old-roots.sh upstream|podwright FILE NAME"
    case $file in /*) ;; *) file=$here/$file ;; esac
    is_root || die "only root can start containers"
    local program fixture version devices
    for program in jq curl docker-registry skopeo; do
        command -v "$program" >/dev/null || die "$program is missing"
    done
    # Ours prints its own version on standard error.
    version=$("$file" --version 2>&1 | paste -sd ' ') || die "$file does not run"
    if [ "$kind" = upstream ] && [ -n "$(ls -A "$DEVICE_PLUGINS" 2>/dev/null)" ]; then
        die "$DEVICE_PLUGINS is in use: a kubelet runs on this machine, or ran"
    fi
    dir=$(mktemp -d /tmp/podwright-old-XXXXXX)
    trap clean_up EXIT
    trap 'exit 1' INT TERM
    scripts/testenv.sh start "$dir"
    scripts/cluster.sh start "$dir" "$NODE"
    load_env "$dir"
    REGISTRY=127.0.0.1:$((HEALTHZ_PORT + 5))
    mkdir -p "$dir"/{manifests,logs,kubelet}
    start_registry
    write_configuration
    write_pods
    start_agent
    run_pods
    # It may clean nothing up.
    kill -KILL "$agent"
    wait "$agent" 2>/dev/null || true
    agent=""
    fixture=tests/fixtures/old-roots/$name.jsonl devices=$dir/device-plugins
    [ "$kind" != upstream ] || devices=$DEVICE_PLUGINS
    mkdir -p "$(dirname "$fixture")"
    {
        jq -nc --arg kind "$kind" --arg version "$version" --argjson cpus "$(nproc)" \
            '{made_by: $kind, version: $version, cpus: $cpus}'
        write_fixture "$dir/kubelet" kubelet
        write_fixture "$devices" device-plugins
    } >"$dir/fixture"
    if has -E 'PRIVATE KEY|eyJ[A-Za-z0-9_-]{10}|of-no-worth' "$dir/fixture"; then
        die "the fixture would hold a secret; it is in $dir/fixture"
    fi
    if has -F "$dir" "$dir/fixture"; then
        say "the fixture names $dir:"
        grep -F "$dir" "$dir/fixture" | cut -c1-200 >&2
    fi
    cp "$dir/fixture" "$fixture"
    say "$fixture: $(wc -l <"$fixture") lines, $(stat -c %s "$fixture") bytes"
}

main "$@"
