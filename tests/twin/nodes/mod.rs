//! The two nodes: a private runtime each behind a recording proxy, one control plane, and the two agents.
//!
//! Everything is made and taken down by `scripts/testenv.sh` and `scripts/cluster.sh`, and lies below one directory.

mod meeting;
mod node;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

pub use self::meeting::Meeting;
pub use self::node::Node;
use crate::api::Api;
use crate::decode::Protocol;

/// Upstream's kubelet listens here, whatever its root directory is.
const DEVICE_PLUGINS: &str = "/var/lib/kubelet/device-plugins";
/// Machines that this process has made.
static MACHINES: AtomicUsize = AtomicUsize::new(0);
/// How long a node may take to become ready, or an agent to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// The agent that a node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Podwright.
    Ours,
    /// The upstream kubelet.
    Theirs,
}

impl Side {
    /// Both, in the order of every pair.
    pub const BOTH: [Self; 2] = [Self::Ours, Self::Theirs];

    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Theirs => "theirs",
        }
    }

    /// The Node object's name: a word that is no part of others.
    pub fn node_name(self) -> String {
        format!("twin-{}", self.word())
    }

    /// The namespace of a scenario on this side. Both sides' names are equally long, so that no bound meets one alone.
    pub fn namespace(self, scenario: &str) -> String {
        format!("twin-{}-{scenario}", &self.word()[..1])
    }
}

/// The project's folder.
pub fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with the control plane's programs and upstream's kubelet.
pub fn assets() -> PathBuf {
    PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS").expect("KUBEBUILDER_ASSETS names a folder"))
}

/// Calls a script; fails with its words.
fn script(name: &str, arguments: &[&str], said_path: &Path) -> Result<(), String> {
    script_with(name, arguments, said_path, &[])
}

/// Calls a script with these variables beside its environment.
fn script_with(name: &str, arguments: &[&str], said_path: &Path, variables: &[(&str, &str)]) -> Result<(), String> {
    // Through a file: a program that was started inherits the pipe, and reading would not end.
    let said = File::create(said_path).map_err(|error| error.to_string())?;
    let again = said.try_clone().map_err(|error| error.to_string())?;
    let status = Command::new(Path::new("scripts").join(name))
        .args(arguments)
        .current_dir(top())
        .env("OWNER", std::process::id().to_string())
        .env("IMAGES", top().join("target/images/images.tar"))
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(said)
        .stderr(again)
        .status();
    if status.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(format!("{name} {arguments:?}: {}", fs::read_to_string(said_path).unwrap_or_default()))
}

/// The environment's names.
fn read_env(dir: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(dir.join("env")).expect("an environment has this file");
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// A directory with the control plane and both nodes; taken down when dropped.
pub struct Machine {
    dir: PathBuf,
    /// The nodes, ours first.
    pub nodes: Vec<Arc<Node>>,
    /// The API server.
    pub api: Api,
    // Last: the proxies live as long as their runtime of tokio.
    _tokio: tokio::runtime::Runtime,
}

/// Stops the environments when the making of a machine fails half-way, and at its end.
struct Environments(PathBuf);

impl Environments {
    fn stop(&self) {
        for part in ["t", "o", "p"] {
            let dir = self.0.join(part);
            if !dir.exists() {
                continue;
            }
            let stopped = script("testenv.sh", &["stop", &path_text(&dir)], &self.0.join("stop.log"));
            if let Err(problem) = stopped {
                eprintln!("twin: {problem}");
            }
        }
    }
}

fn path_text(path: &Path) -> String {
    path.to_str().expect("a short, plain path").to_owned()
}

impl Machine {
    /// Starts everything but the agents, with nodes of these sides.
    pub fn new(sides: &[Side]) -> Result<Self, String> {
        let others = fs::read_dir(DEVICE_PLUGINS).map_or(0, |listed| listed.count());
        if others > 0 && sides.contains(&Side::Theirs) {
            return Err(format!("{DEVICE_PLUGINS} is in use: a kubelet runs on this machine, or ran"));
        }
        let base = top().join("target/twin");
        // Tests of one process run side by side.
        let number = MACHINES.fetch_add(1, Ordering::Relaxed);
        let dir = base.join(format!("{}.{number}", std::process::id()));
        fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
        match Self::within(&dir, sides) {
            Ok(machine) => Ok(machine),
            Err(problem) => {
                Environments(dir).stop();
                Err(problem)
            }
        }
    }

    fn within(dir: &Path, sides: &[Side]) -> Result<Self, String> {
        let said = |name: &str| dir.join(format!("{name}.log"));
        let plane = path_text(&dir.join("p"));
        script("cluster.sh", &["plane", &plane], &said("plane"))?;
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let tokio = tokio.map_err(|error| error.to_string())?;
        let protocol = Arc::new(Protocol::load());
        // The records tell what the PATH's runtime was asked and answered, whichever one CONTAINERD names.
        let runtime: &[_] = if sides.contains(&Side::Theirs) { &[] } else { &[("CONTAINERD", "")] };
        let mut nodes = vec![];
        for side in sides {
            let node = path_text(&dir.join(&side.word()[..1]));
            script_with("testenv.sh", &["start", &node], &said(side.word()), runtime)?;
            script("cluster.sh", &["lend", &plane, &node, &side.node_name()], &said("lend"))?;
            nodes.push(Arc::new(Node::new(Path::new(&node), *side, tokio.handle(), &protocol)));
        }
        let address = fs::read_to_string(dir.join("p/cluster/admin")).map_err(|error| error.to_string())?;
        Ok(Self { dir: dir.to_owned(), nodes, api: Api::new(address.trim()), _tokio: tokio })
    }

    /// Starts the agents and waits until all nodes are ready.
    pub fn start_agents(&self) -> Result<(), String> {
        for node in &self.nodes {
            node.start_agent()?;
        }
        for node in &self.nodes {
            self.wait_ready(node)?;
        }
        Ok(())
    }

    fn wait_ready(&self, node: &Node) -> Result<(), String> {
        let name = node.side.node_name();
        let deadline = Instant::now() + PATIENCE;
        let is_ready = |node: &Value| {
            let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
            ready && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
        };
        while Instant::now() < deadline {
            if self.api.get(&format!("/api/v1/nodes/{name}")).is_ok_and(|node| is_ready(&node)) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let log = fs::read_to_string(node.dir.join("agent.log")).unwrap_or_default();
        let end: Vec<&str> = log.lines().rev().take(20).collect();
        Err(format!("{name} is not ready; the end of its log, newest first:\n{}", end.join("\n")))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for node in &self.nodes {
            node.stop_agent();
        }
        if self.nodes.iter().any(|node| node.side == Side::Theirs) {
            for name in ["kubelet.sock", "kubelet_internal_checkpoint"] {
                let _ = fs::remove_file(Path::new(DEVICE_PLUGINS).join(name));
            }
            // The last environment removes the folders that were not there before, once they are empty.
            let _ = fs::remove_dir(DEVICE_PLUGINS);
        }
        Environments(self.dir.clone()).stop();
        if std::env::var_os("KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}
