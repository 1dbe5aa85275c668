#!/usr/bin/env bash
# Makes the images that runs and live tests use, without any registry: one OCI archive with three images.
#
#   scripts/images.sh ARCHIVE
#
# localhost/podwright/pause:1   the sandbox's program, a static C program of ours
# localhost/podwright/web:1     busybox httpd on port 80 with one page and a /healthz
# localhost/podwright/client:1  busybox with a shell, and a gRPC health server of ours; user 1500 is in the group 1501
#
# The archive is the same bytes for the same inputs, so that it is made once and kept.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

BUSYBOX=${BUSYBOX:-}
APPLETS="sh ash cat ls sleep echo env true false head tail grep sed id ip ps mount umount mkdir rm touch date df free
hostname nc wget httpd nslookup kill test [ printf stat seq dd md5sum sync tr wc ln cp mv chmod chown find awk sort cut
readlink mountpoint yes uname expr usleep timeout vi tar stty"

# Writes one blob into the layout and prints its digest.
blob() { # FILE
    local digest
    digest=$(sha256sum "$1" | cut -d' ' -f1)
    cp "$1" "$layout/blobs/sha256/$digest"
    printf '%s' "$digest"
}

# Adds an image made of a folder; its descriptor goes to the index.
image() { # NAME FOLDER CMD_JSON EXTRA_CONFIG_JSON
    local name=$1 folder=$2 entrypoint=$3 extra=$4 layer config manifest layer_size config_size manifest_size
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=posix \
        --pax-option=delete=atime,delete=ctime -C "$folder" -cf "$work/layer.tar" .
    layer=$(blob "$work/layer.tar")
    layer_size=$(stat -c %s "$work/layer.tar")
    printf '{"created":"1970-01-01T00:00:00Z","architecture":"%s","os":"linux","config":{"Env":["PATH=/bin"],%s%s"WorkingDir":"/"},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"1970-01-01T00:00:00Z","created_by":"scripts/images.sh"}]}' \
        "$architecture" "$entrypoint" "$extra" "$layer" >"$work/config.json"
    config=$(blob "$work/config.json")
    config_size=$(stat -c %s "$work/config.json")
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:%s","size":%s}]}' \
        "$config" "$config_size" "$layer" "$layer_size" >"$work/manifest.json"
    manifest=$(blob "$work/manifest.json")
    manifest_size=$(stat -c %s "$work/manifest.json")
    index+="${index:+,}"
    index+=$(printf '{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s,"annotations":{"io.containerd.image.name":"%s","org.opencontainers.image.ref.name":"%s"},"platform":{"architecture":"%s","os":"linux"}}' \
        "$manifest" "$manifest_size" "$name" "${name##*:}" "$architecture")
}

# A root folder with busybox and its applets.
busybox_root() { # FOLDER
    local applet
    mkdir -p "$1"/{bin,dev,proc,sys,etc,root,var,www}
    install -d -m 1777 "$1/tmp"
    install -m 0755 "$BUSYBOX" "$1/bin/busybox"
    for applet in $APPLETS; do
        ln -s busybox "$1/bin/$applet"
    done
    printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nworker:x:1500:1500:worker:/:/bin/sh\n' >"$1/etc/passwd"
    # Without this file a static libc looks for resolver libraries that the image does not have.
    printf 'hosts: files dns\nservices: files\n' >"$1/etc/nsswitch.conf"
    printf 'root:x:0:\nnogroup:x:65534:\nworker:x:1500:\nteam:x:1501:worker\n' >"$1/etc/group"
}

# The sandbox's program: compiled where a C compiler with a static libc is, busybox's shell otherwise.
pause_root() { # FOLDER; sets pause_entrypoint
    mkdir -p "$1"
    if command -v "${CC:-cc}" >/dev/null && "${CC:-cc}" -static -Os -s -Wall -o "$1/pause" scripts/pause.c 2>"$work/cc.log"; then
        pause_entrypoint='"Entrypoint":["/pause"],'
    else
        say "no C compiler that links statically; the sandbox image is a busybox shell"
        busybox_root "$1"
        pause_entrypoint='"Entrypoint":["/bin/sh","-c","trap \"exit 0\" TERM INT; while :; do sleep 3600 & wait; done"],'
    fi
}

# A program for tests that the client's image has where it can be made.
add_health_server() { # FOLDER
    "${CC:-cc}" -static -Os -s -Wall -o "$1/bin/grpc-health" scripts/grpc-health.c 2>"$work/cc.log" ||
        say "no C compiler that links statically; the client image has no gRPC health server"
}

find_busybox() {
    local candidate
    for candidate in "$BUSYBOX" /bin/busybox /usr/bin/busybox; do
        if [ -n "$candidate" ] && is_static "$candidate"; then
            BUSYBOX=$candidate
            return
        fi
    done
    die "no static busybox; apt-get install busybox-static"
}

main() {
    [ $# = 1 ] || die "usage: scripts/images.sh ARCHIVE"
    local archive=$1 stamp
    find_busybox
    stamp=$(sha256sum "$BUSYBOX" scripts/images.sh scripts/pause.c scripts/grpc-health.c | sha256sum | cut -d' ' -f1)
    if [ -s "$archive" ] && [ "$(cat "$archive.stamp" 2>/dev/null)" = "$stamp" ]; then
        return
    fi
    case $(uname -m) in
    x86_64) architecture=amd64 ;;
    aarch64) architecture=arm64 ;;
    *) architecture=$(uname -m) ;;
    esac
    mkdir -p "$(dirname "$archive")"
    work=$(mktemp -d "$(dirname "$archive")/images.XXXXXX")
    # shellcheck disable=SC2064  # the folder's name of now
    trap "rm -rf '$work'" EXIT
    layout=$work/layout index="" pause_entrypoint=""
    mkdir -p "$layout/blobs/sha256"
    printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"

    pause_root "$work/pause"
    image localhost/podwright/pause:1 "$work/pause" "$pause_entrypoint" ""
    busybox_root "$work/client"
    add_health_server "$work/client"
    image localhost/podwright/client:1 "$work/client" '"Cmd":["/bin/sh"],' ""
    busybox_root "$work/web"
    printf 'hello from podwright\n' >"$work/web/www/index.html"
    printf 'ok\n' >"$work/web/www/healthz"
    image localhost/podwright/web:1 "$work/web" '"Cmd":["/bin/httpd","-f","-p","80","-h","/www"],' \
        '"ExposedPorts":{"80/tcp":{}},'

    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}' "$index" \
        >"$layout/index.json"
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$layout" -cf "$work/archive.tar" .
    mv "$work/archive.tar" "$archive"
    printf '%s\n' "$stamp" >"$archive.stamp"
}

main "$@"
