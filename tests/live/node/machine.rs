//! The machine below the tests: whether it can run containers, and the script that makes nodes on it.
//!
//! Keeps how many nodes live at a time in this process.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};

/// Nodes that live at a time.
const NODES_MAX: u32 = 4;

/// Why this machine cannot run live tests; looked for once.
pub fn unsupported() -> Option<&'static str> {
    static UNSUPPORTED: OnceLock<Option<String>> = OnceLock::new();
    UNSUPPORTED
        .get_or_init(|| {
            if !nix::unistd::geteuid().is_root() {
                return Some("only root can start containers".to_owned());
            }
            // A compiler makes a smaller sandbox image; it can be done without.
            let look = ". scripts/lib.sh; missing_packages | grep -vxE 'gcc|libc6-dev' | sort -u | tr '\\n' ' '";
            let output = Command::new("bash").args(["-c", look]).current_dir(source()).output().unwrap();
            let missing = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if !missing.is_empty() {
                return Some(format!("missing here: {missing} (scripts/testenv.sh packages installs them)"));
            }
            let images = Command::new("scripts/images.sh").arg(images()).current_dir(source()).output().unwrap();
            assert!(images.status.success(), "no images: {}", String::from_utf8_lossy(&images.stderr));
            let _ = script("reap", &base(), &[]);
            None
        })
        .as_deref()
}

/// The project's folder.
fn source() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The archive of images, made once.
fn images() -> PathBuf {
    source().join("target/images/images.tar")
}

/// Where the nodes' directories are: short, since sockets lie below.
fn base() -> PathBuf {
    std::env::temp_dir().join("podwright-live")
}

/// A directory of a node's own.
pub fn fresh_directory() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let dir = base().join(format!("{}-{number}", std::process::id()));
    // A killed run's process ID came round again: what it left was stopped, its files were not removed.
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Calls `scripts/testenv.sh`; what it printed, or what went wrong.
pub fn script(command: &str, dir: &Path, arguments: &[&str]) -> Result<String, String> {
    call("testenv.sh", command, &[&[dir.to_str().expect("a short, plain path")], arguments].concat(), "")
}

/// Calls `scripts/cluster.sh`, with further flags of an API server that it starts.
pub fn cluster_script(command: &str, arguments: &[&str], api_flags: &str) -> Result<String, String> {
    call("cluster.sh", command, arguments, api_flags)
}

fn call(name: &str, command: &str, arguments: &[&str], api_flags: &str) -> Result<String, String> {
    // Through a file: a program that was started inherits the pipe, and reading would not end.
    let said_path = base().join(format!(".{}-{}", std::process::id(), command_number()));
    fs::create_dir_all(base()).unwrap();
    let said = File::create(&said_path).unwrap();
    let output = Command::new(Path::new("scripts").join(name))
        .arg(command)
        .args(arguments)
        .current_dir(source())
        .env("OWNER", std::process::id().to_string())
        .env("IMAGES", images())
        .env("API_FLAGS", api_flags)
        .stdin(Stdio::null())
        .stdout(said.try_clone().unwrap())
        .stderr(said)
        .status()
        .unwrap();
    let text = fs::read_to_string(&said_path).unwrap_or_default();
    let _ = fs::remove_file(said_path);
    if output.success() { Ok(text) } else { Err(format!("{name} {command}: {text}")) }
}

fn command_number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// The environment's names.
pub fn read_env(dir: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(dir.join("env")).unwrap();
    text.lines()
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// A path below a directory, as text.
pub fn path_text(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().expect("a short, plain path").to_owned()
}

/// The right to have a node: few at a time, so that a small machine is not swamped.
pub struct Slot;

static SLOTS: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());

impl Slot {
    /// Waits for the right.
    pub fn take() -> Self {
        let mut taken = SLOTS.0.lock().unwrap();
        while *taken >= NODES_MAX {
            taken = SLOTS.1.wait(taken).unwrap();
        }
        *taken += 1;
        Self
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *SLOTS.0.lock().unwrap() -= 1;
        SLOTS.1.notify_one();
    }
}
