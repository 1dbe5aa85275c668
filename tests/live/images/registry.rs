//! A registry of a test's own, on loopback: one image under any name, with a password, slow or broken as the test likes.
//!
//! Owned by the test; its thread ends with it. The image is made from the machine's static busybox, anew for each test. So
//! no layer of it is on the node before the pull.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use podwright::platform::network::tls::sha256_hex;
use serde_json::json;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// How the registry behaves.
#[derive(Default)]
pub struct Manner {
    /// The users that may pull, as `user:password`, each in base64; all if there is none.
    pub users: Vec<String>,
    /// How long each answer about a manifest takes.
    pub delay: Duration,
    /// Layers end after their first bytes.
    pub broken: bool,
    /// The requests: method and path.
    pub asked: Vec<String>,
}

/// See the module.
pub struct Registry {
    address: SocketAddr,
    manner: Arc<Mutex<Manner>>,
}

impl Registry {
    /// Starts one with an image that has a shell, made in `folder`.
    pub fn start(folder: &Path) -> Self {
        Self::of_user(folder, "")
    }

    /// The same with an image that is to run as this user; it knows root alone.
    pub fn of_user(folder: &Path, user: &str) -> Self {
        let blobs = Arc::new(image(folder, user));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        without_encryption(folder, address);
        let manner: Arc<Mutex<Manner>> = Arc::default();
        let shared = Arc::clone(&manner);
        std::thread::spawn(move || {
            // The thread lives as long as the test's process; a connection is one question.
            for stream in listener.incoming().flatten() {
                let (blobs, manner) = (Arc::clone(&blobs), Arc::clone(&shared));
                std::thread::spawn(move || drop(answer(stream, &blobs, &manner)));
            }
        });
        Self { address, manner }
    }

    /// The full name of an image of this name.
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// Host and port.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// How it behaves, to be changed.
    pub fn manner(&self) -> MutexGuard<'_, Manner> {
        self.manner.lock().unwrap()
    }

    /// Lets in only this user, by `user:password` in base64.
    pub fn only(&self, basic: &str) {
        self.manner().users = vec![basic.to_owned()];
    }

    /// How often an image's manifest was asked for.
    pub fn asked_for(&self, name: &str) -> usize {
        let wanted = format!("/v2/{name}/manifests/");
        self.manner().asked.iter().filter(|asked| asked.contains(&wanted)).count()
    }
}

/// containerd 2 asks for encryption even on this machine, unless its configuration says that a registry has none. `folder`
/// is the node's.
pub fn without_encryption(folder: &Path, address: SocketAddr) {
    let (place, server) = (folder.join("registries").join(address.to_string()), format!("http://{address}"));
    fs::create_dir_all(&place).unwrap();
    let hosts = format!("server = \"{server}\"\n\n[host.\"{server}\"]\n  capabilities = [\"pull\", \"resolve\"]\n");
    fs::write(place.join("hosts.toml"), hosts).unwrap();
}

/// The parts of an image with a shell by digest, made in `folder`, to run as `user`; the manifest also as `manifest`.
pub fn image(folder: &Path, user: &str) -> BTreeMap<String, Vec<u8>> {
    let root = folder.join("image");
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    for applet in ["sh", "sleep", "echo"] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(applet)).unwrap();
    }
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\n").unwrap();
    fs::write(root.join("unique"), folder.to_string_lossy().as_bytes()).unwrap();
    let tar = Command::new("tar").arg("-C").arg(&root).args(["-cf", "-", "."]).output().unwrap();
    assert!(tar.status.success());
    let digest = |bytes: &[u8]| format!("sha256:{}", sha256_hex(bytes));
    let layer = tar.stdout;
    let architecture = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
    let config = json!({
        "architecture": architecture, "os": "linux", "config": { "Env": ["PATH=/bin"], "User": user },
        "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
    });
    let config = config.to_string().into_bytes();
    let part = |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "digest": digest(bytes), "size": bytes.len() });
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": part("application/vnd.oci.image.config.v1+json", &config),
        "layers": [part("application/vnd.oci.image.layer.v1.tar", &layer)],
    });
    let manifest = manifest.to_string().into_bytes();
    let mut blobs = BTreeMap::from([("manifest".to_owned(), manifest.clone())]);
    blobs.extend([layer, config, manifest].map(|bytes| (digest(&bytes), bytes)));
    blobs
}

fn answer(mut stream: TcpStream, blobs: &BTreeMap<String, Vec<u8>>, manner: &Mutex<Manner>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let mut words = first.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut user = None;
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some(("authorization", value)) = line.to_lowercase().split_once(": ").map(|(name, _)| (name, &line)) {
            user = value.rsplit(' ').next().map(str::to_owned);
        }
    }
    let (users, delay, broken) = {
        let mut manner = manner.lock().unwrap();
        manner.asked.push(format!("{method} {path}"));
        (manner.users.clone(), manner.delay, manner.broken)
    };
    if !users.is_empty() && !user.is_some_and(|user| users.contains(&user)) {
        return write!(
            stream,
            "HTTP/1.1 401 Unauthorized\r\nWww-Authenticate: Basic realm=\"test\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }
    let reference = path.rsplit('/').next().unwrap_or_default();
    let is_manifest = path.contains("/manifests/");
    if is_manifest {
        std::thread::sleep(delay);
    }
    let found = match reference {
        "" => Some(b"{}".to_vec()),
        tag if is_manifest && !tag.contains(':') && !path.contains("/missing/") => blobs.get("manifest").cloned(),
        digest => blobs.get(digest).cloned(),
    };
    let Some(body) = found else {
        return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let kind = if is_manifest { MANIFEST } else { "application/octet-stream" };
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nDocker-Content-Digest: sha256:{}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        sha256_hex(&body),
        body.len()
    )?;
    let sent = if broken && path.contains("/blobs/") { &body[..body.len() / 2] } else { &body[..] };
    if method == "HEAD" { Ok(()) } else { stream.write_all(sent) }
}
