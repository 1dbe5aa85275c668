//! Images from Debian's `docker-registry` on loopback, filled by `skopeo`: open to all, with a password, behind a slow line,
//! and with a layer that the disk has changed. Where one of the two programs is missing, one line says so.
//!
//! `registry` plays one for all that a real one cannot be brought to do.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use podwright::testing::skips::skip;
use serde_json::json;

use crate::harness::{Node, http_get};
use crate::images::registry::{image, without_encryption};
use crate::images::{BASIC, of_image, wait_reason, waiting};
use crate::pods::pod;

/// `user` with the password `secret`, as `htpasswd -B` writes it.
const HTPASSWD: &str = "user:$2b$04$HIlPSO.gqVaNqDj5UuDleu74KVb5uYG58y5t3N9md/78n0zvOorBK\n";
/// The bytes that a slow line lets through before it is held up: the manifest and a part of the layer.
const HELD_AFTER: usize = 256 << 10;

/// A registry of a test's own; ended by `Drop`.
struct DebianRegistry {
    address: SocketAddr,
    store: PathBuf,
    /// The layout that was pushed, for the next push.
    layout: PathBuf,
    process: Child,
}

impl DebianRegistry {
    /// One with the image `team/app:1`. `None`, after one line on standard error, where this machine has no such registry.
    fn start(node: &Node, password: bool) -> Option<Self> {
        let folder = node.dir.join("registry");
        let is_there = |program: &str| Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
        for program in ["docker-registry", "skopeo"] {
            if !is_there(program) {
                skip(&format!("missing here: {program}"));
                return None;
            }
        }
        fs::create_dir_all(&folder).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], node.free_port(0)));
        let store = folder.join("store");
        let mut config = json!({
            "version": "0.1",
            "log": { "level": "warn" },
            "storage": { "filesystem": { "rootdirectory": store } },
            "http": { "addr": address.to_string(), "secret": "of one registry" },
        });
        if password {
            let file = folder.join("htpasswd");
            fs::write(&file, HTPASSWD).unwrap();
            config["auth"] = json!({ "htpasswd": { "realm": "test", "path": file } });
        }
        // JSON is YAML, too.
        fs::write(folder.join("config.yml"), config.to_string()).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(folder.join("config.yml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let registry = Self { address, store, layout: layout(&node.dir, &folder), process };
        node.eventually("the registry answers", || http_get(&address.to_string(), "/v2/"));
        registry.push("team/app:1", password);
        without_encryption(&node.dir, address);
        Some(registry)
    }

    /// Puts the image there under one more name.
    fn push(&self, name: &str, password: bool) {
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["copy", "--quiet", "--insecure-policy", "--dest-tls-verify=false"]);
        if password {
            skopeo.args(["--dest-creds", "user:secret"]);
        }
        let to = format!("docker://{}", self.image(name));
        let output = skopeo.arg(format!("oci:{}:app", self.layout.display())).arg(to).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// The file of the image's layer, the largest blob there is.
    fn layer(&self) -> PathBuf {
        let blobs = self.store.join("docker/registry/v2/blobs/sha256");
        let below = |folder: &Path| -> Vec<PathBuf> {
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
        };
        let files = below(&blobs).into_iter().flat_map(|folder| below(&folder)).map(|blob| blob.join("data"));
        files.max_by_key(|file| fs::metadata(file).unwrap().len()).expect("there are blobs")
    }
}

impl Drop for DebianRegistry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An OCI layout of an image whose layer no node has, for `skopeo`.
fn layout(node: &Path, folder: &Path) -> PathBuf {
    let place = folder.join("layout");
    fs::create_dir_all(place.join("blobs/sha256")).unwrap();
    let parts = image(node, "");
    let manifest = parts["manifest"].clone();
    let mut of_manifest = String::new();
    for (name, bytes) in parts {
        if let Some(hex) = name.strip_prefix("sha256:") {
            fs::write(place.join("blobs/sha256").join(hex), &bytes).unwrap();
            if bytes == manifest {
                of_manifest.clone_from(&name);
            }
        }
    }
    let descriptor = json!({
        "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": of_manifest, "size": manifest.len(),
        "annotations": { "org.opencontainers.image.ref.name": "app" },
    });
    fs::write(place.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    fs::write(place.join("index.json"), json!({ "schemaVersion": 2, "manifests": [descriptor] }).to_string()).unwrap();
    place
}

/// A slow line to a registry: each connection is held up after its first part, until the line is let go.
struct SlowLine {
    address: SocketAddr,
    held: Arc<AtomicBool>,
}

impl SlowLine {
    fn to(registry: SocketAddr, node: &Node) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        without_encryption(&node.dir, address);
        let held = Arc::new(AtomicBool::new(true));
        let shared = Arc::clone(&held);
        std::thread::spawn(move || {
            // The thread lives as long as the test's process.
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(registry) else { continue };
                let (mut up, mut onward) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut up, &mut onward);
                    let _ = onward.shutdown(std::net::Shutdown::Write);
                });
                let held = Arc::clone(&shared);
                std::thread::spawn(move || drop(carry(far, near, &held)));
            }
        });
        Self { address, held }
    }

    fn let_go(&self) {
        self.held.store(false, Ordering::Relaxed);
    }
}

/// Carries what the registry sends, bit by bit.
fn carry(mut from: TcpStream, mut to: TcpStream, held: &AtomicBool) -> std::io::Result<()> {
    let mut piece = vec![0; 16 << 10];
    let mut carried = 0;
    loop {
        let count = from.read(&mut piece)?;
        if count == 0 {
            return to.shutdown(std::net::Shutdown::Write);
        }
        while carried + count > HELD_AFTER && held.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        to.write_all(&piece[..count])?;
        carried += count;
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// CRI-21, CRI-24: what is there is pulled and told with its size; what is not gives upstream's reasons.
#[test]
fn images_come_from_an_open_registry() {
    let Some(node) = Node::running() else { return };
    let Some(registry) = DebianRegistry::start(&node, false) else { return };
    let image = registry.image("team/app:1");
    node.apply(&pod("there", &[of_image(&image, "Always")]));
    let running = node.wait_running("there", "main");
    node.wait_for_words(&[&format!("Successfully pulled image \\\"{image}\\\" in "), "Image size: ", " bytes."]);
    // It is named by the digest of something that the registry has.
    let digest = running.image_ref.rsplit(':').next().unwrap();
    let blob = registry.store.join("docker/registry/v2/blobs/sha256").join(&digest[..2]).join(digest);
    assert!(blob.is_dir(), "{}", running.image_ref);
    node.apply(&pod("missing", &[of_image(&registry.image("team/app:2"), "IfNotPresent")]));
    let message = wait_reason(&node, "missing", "ErrImagePull");
    assert!(message.contains("not found"), "{message}");
    wait_reason(&node, "missing", "ImagePullBackOff");
    registry.push("team/app:2", false);
    node.wait_running("missing", "main");
}

/// CRI-23: no password, a wrong one, and the right one, without a restart of the agent; none of them is logged.
#[test]
fn a_registry_with_a_password_gives_nothing_without_it() {
    let Some(node) = Node::running() else { return };
    let Some(registry) = DebianRegistry::start(&node, true) else { return };
    let write = |basic: &str| {
        let config = json!({ "auths": { registry.address.to_string(): { "auth": basic } } });
        fs::write(node.dir.join("kubelet/config.json"), config.to_string()).unwrap();
    };
    let is_refused = |message: &str| message.contains("401") || message.contains("authorization");
    let image = registry.image("team/app:1");
    node.apply(&pod("stranger", &[of_image(&image, "IfNotPresent")]));
    let message = wait_reason(&node, "stranger", "ErrImagePull");
    assert!(is_refused(&message), "{message}");
    write("dXNlcjp3cm9uZw=="); // `user:wrong`
    node.apply(&pod("guesser", &[of_image(&image, "IfNotPresent")]));
    let message = wait_reason(&node, "guesser", "ErrImagePull");
    assert!(is_refused(&message), "{message}");
    write(BASIC);
    node.wait_running("guesser", "main");
    node.wait_running("stranger", "main");
    assert!(!node.log().contains(BASIC) && !node.log().contains("dXNlcjp3cm9uZw"));
}

/// CRI-22, PAIN-22: a pull that crawls is told as such and holds nobody up where pulls go side by side; it ends well.
#[test]
fn a_slow_registry_holds_nobody_else_up() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({ "serializeImagePulls": false, "maxParallelImagePulls": 2 }));
    node.start_agent();
    let Some(registry) = DebianRegistry::start(&node, false) else { return };
    let line = SlowLine::to(registry.address, &node);
    node.apply(&pod("slow", &[of_image(&format!("{}/team/app:1", line.address), "IfNotPresent")]));
    node.eventually("ps tells of the pull", || {
        let rows = node.ask(&["ps"])?;
        let waits = rows.as_array()?.iter().flat_map(|row| row["waiting"].as_array().cloned().unwrap_or_default());
        waits.filter_map(|wait| wait.as_str().map(str::to_owned)).find(|wait| wait.contains("has been pulled for"))
    });
    // Another image, of which the line holds nothing back.
    let other = crate::images::registry::Registry::start(&other_folder(&node));
    without_encryption(&node.dir, other.host().parse().unwrap());
    node.apply(&pod("fast", &[of_image(&other.image("team/other:1"), "IfNotPresent")]));
    node.wait_running("fast", "main");
    assert!(node.running_now("slow", "main").is_none(), "its layer is held up");
    let shown = node.wait_listed("slow", "at all", |_| true);
    assert_eq!(waiting(&shown).0, "ContainerCreating");
    line.let_go();
    node.wait_running("slow", "main");
}

/// A place for an image whose layer is another one.
fn other_folder(node: &Node) -> PathBuf {
    let folder = node.dir.join("other");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// CRI-22, CRI-24: a layer that is not what its digest says is never used; once the disk is mended the pod runs.
#[test]
fn a_layer_that_was_changed_is_never_used() {
    let Some(node) = Node::running() else { return };
    let Some(registry) = DebianRegistry::start(&node, false) else { return };
    let file = registry.layer();
    let whole = fs::read(&file).unwrap();
    let mut changed = whole.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    fs::write(&file, changed).unwrap();
    let image = registry.image("team/app:1");
    node.apply(&pod("broken", &[of_image(&image, "IfNotPresent")]));
    let message = wait_reason(&node, "broken", "ErrImagePull");
    assert!(message.contains("digest"), "{message}");
    node.wait_for_words(&["Failed to pull image", "broken-node1"]);
    wait_reason(&node, "broken", "ImagePullBackOff");
    assert_eq!(node.all_containers("broken").len(), 0);
    fs::write(&file, whole).unwrap();
    node.wait_running("broken", "main");
}
