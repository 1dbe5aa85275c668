//! Deeds that meet both nodes at the same moment: the plays of one scenario wait for each other before them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use nix::mount::{MsFlags, mount};

use super::{Machine, Node, path_text, script};

/// The file of the devices that pods were given.
const DEVICES_FILE: &str = "kubelet_internal_checkpoint";
/// The kernel's word about which boot this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The place where the plays of one scenario wait for each other before they touch what they share.
pub struct Meeting {
    dir: PathBuf,
    nodes: Vec<Arc<Node>>,
    barrier: Barrier,
    outcome: Mutex<Result<(), String>>,
}

impl Meeting {
    /// For all nodes of a machine.
    pub fn new(machine: &Machine) -> Self {
        Self {
            dir: machine.dir.clone(),
            nodes: machine.nodes.clone(),
            barrier: Barrier::new(machine.nodes.len()),
            outcome: Mutex::new(Ok(())),
        }
    }

    /// Where the API server notes the requests of nodes.
    pub fn audit_log(&self) -> PathBuf {
        self.dir.join("p/cluster/audit.log")
    }

    /// Has one play do it once all are here, and lets all go on after it.
    fn once(&self, work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        if self.barrier.wait().is_leader() {
            *self.outcome.lock().expect("no holder panics") = work();
        }
        self.barrier.wait();
        self.outcome.lock().expect("no holder panics").clone()
    }

    /// Ends the API server, and starts it after a time.
    pub fn api_away(&self, time: Duration) -> Result<(), String> {
        let plane = self.dir.join("p");
        let order = |name: &str| script("cluster.sh", &[name, &path_text(&plane)], &plane.join("order.log"));
        self.once(|| {
            let stopped = order("stop-api");
            std::thread::sleep(time);
            stopped.and_then(|()| order("start-api"))
        })
    }

    /// Each agent takes the other one's node over, with all that is there.
    pub fn swap_agents(&self) -> Result<(), String> {
        self.once(|| {
            self.nodes.iter().for_each(|node| node.stop_agent());
            let kept: Vec<_> =
                self.nodes.iter().map(|node| fs::read(node.device_plugins().join(DEVICES_FILE))).collect();
            self.nodes.iter().for_each(|node| node.swap());
            for (node, kept) in self.nodes.iter().zip(kept) {
                put_devices(&node.device_plugins(), kept.ok().as_deref())?;
            }
            self.nodes.iter().try_for_each(|node| node.start_agent())
        })
    }

    /// The machine loses its power and boots: every process of both nodes is gone, and every mount.
    pub fn boot(&self) -> Result<(), String> {
        self.once(|| {
            self.nodes.iter().for_each(|node| node.kill_agent());
            self.nodes.iter().try_for_each(|node| node.runtime("boot"))?;
            another_boot_id(&self.dir.join("boot_id"))?;
            self.nodes.iter().try_for_each(|node| node.start_agent())
        })
    }
}

/// Puts what a node knows of its devices where its next agent looks for it.
fn put_devices(folder: &Path, kept: Option<&[u8]>) -> Result<(), String> {
    let path = folder.join(DEVICES_FILE);
    let put = fs::create_dir_all(folder).and_then(|()| match kept {
        Some(content) => fs::write(&path, content),
        None if path.exists() => fs::remove_file(&path),
        None => Ok(()),
    });
    put.map_err(|error| format!("{}: {error}", path.display()))
}

/// Lets the kernel tell of another boot, to this process and those that it starts.
fn another_boot_id(file: &Path) -> Result<(), String> {
    let [own, first] = ["self", "1"].map(|process| fs::read_link(format!("/proc/{process}/ns/mnt")).ok());
    if own == first {
        return Err("a boot needs mounts of its own: see scripts/twin.sh".to_owned());
    }
    let id = fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(|error| error.to_string())?;
    fs::write(file, id).map_err(|error| format!("{}: {error}", file.display()))?;
    mount(Some(file), BOOT_ID, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .map_err(|error| format!("{BOOT_ID}: {error}"))
}
