//! One look at everything that was wanted: the node, its groups, pods and containers, and their space on disks.

use std::collections::BTreeMap;

use super::figures::{DiskFigures, FileSystem, GroupFigures, Interface, MountedDevice, Usage};
use super::groupless::GrouplessContainer;
use super::told::ToldPods;
use crate::logic::model::ids::{ContainerId, PodUid, SandboxId};
use crate::logic::model::time::Moment;

/// How much is read of each group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Memory of the node and of the group of all pods, and no other group: eviction, which looks often.
    Memory,
    /// Processor time and memory: `/metrics/resource`.
    Resources,
    /// Also pressure, processes, networks: `/stats/summary`.
    Summary,
    /// All: `/metrics/cadvisor`.
    Everything,
}

/// The wanted parts of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Of groups.
    pub depth: Depth,
    /// Whether space on disks is looked at, too.
    pub disks: bool,
}

impl Wanted {
    /// The amounts that are left on the node: eviction.
    pub const NODE: Self = Self { depth: Depth::Memory, disks: true };
    /// `/metrics/resource`.
    pub const RESOURCES: Self = Self { depth: Depth::Resources, disks: false };
    /// `/stats/summary` with `only_cpu_and_memory`.
    pub const CPU_AND_MEMORY: Self = Self { depth: Depth::Summary, disks: false };
    /// `/stats/summary`.
    pub const SUMMARY: Self = Self { depth: Depth::Summary, disks: true };
    /// `/metrics/cadvisor` where the runtime tells of pods: the machine.
    pub const MACHINE: Self = Self { depth: Depth::Memory, disks: false };
    /// `/metrics/cadvisor`.
    pub const EVERYTHING: Self = Self { depth: Depth::Everything, disks: false };

    /// Whether who wanted `other` is served by this.
    pub fn covers(self, other: Self) -> bool {
        self.depth >= other.depth && (self.disks || !other.disks)
    }

    /// The parts that serve both.
    pub fn and(self, other: Self) -> Self {
        Self { depth: self.depth.max(other.depth), disks: self.disks || other.disks }
    }
}

/// A control group by its path from the hierarchy's root, such as `/kubepods/burstable`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The path; `/` for the root.
    pub path: String,
    /// The figures as read.
    pub figures: GroupFigures,
}

/// Groups that are neither the node nor a pod's, by what they hold: upstream's names of system containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum System {
    /// This agent.
    Kubelet,
    /// The container runtime.
    Runtime,
    /// Other daemons.
    Misc,
    /// All pods.
    Pods,
    /// A tier of pods: shown in metrics alone.
    Tier,
}

/// The node as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSample {
    /// The root of the control groups. Its memory limit is what the machine has.
    pub group: Group,
    /// The node's interfaces.
    pub interfaces: Vec<Interface>,
    /// The kernel's own estimate of what can be had without swapping (`MemAvailable`), in bytes, where known.
    pub memory_available: Option<u64>,
    /// The most process IDs, where known.
    pub pids_max: Option<u64>,
    /// Threads there are, where known.
    pub threads: Option<u64>,
    /// The machine's facts.
    pub machine: Machine,
    /// Block devices that are mounted; with [`Depth::Everything`].
    pub devices: Vec<MountedDevice>,
    /// All disks by number; with [`Depth::Everything`].
    pub disks: Vec<DiskFigures>,
}

/// A container that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSample {
    /// ID.
    pub id: ContainerId,
    /// Name in the pod.
    pub name: String,
    /// Image, as the runtime names it.
    pub image: String,
    /// When it was made.
    pub created: Moment,
    /// Its group; `None` when there is none, because it ended or its runtime keeps it elsewhere.
    pub group: Option<Group>,
    /// Its log files; `None` where they were not looked at.
    pub logs: Option<Usage>,
}

/// The sandbox of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxSample {
    /// ID.
    pub id: SandboxId,
    /// Whether the pod uses the node's network.
    pub host_network: bool,
    /// Its group.
    pub group: Option<Group>,
    /// The pod's interfaces; `None` on the node's network, and where they cannot be read.
    pub interfaces: Option<Vec<Interface>>,
}

/// A pod with a container that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSample {
    /// UID.
    pub uid: PodUid,
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// When its sandbox was made.
    pub created: Moment,
    /// Its group.
    pub group: Option<Group>,
    /// Its sandbox.
    pub sandbox: SandboxSample,
    /// Its containers, by name.
    pub containers: Vec<ContainerSample>,
    /// Files in its log directory itself; `None` where they were not looked at.
    pub logs: Option<Usage>,
    /// The hosts file that the agent made for it.
    pub hosts_file: Option<Usage>,
}

/// File systems.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskSample {
    /// The one of the agent's directory: upstream's nodefs.
    pub node: FileSystem,
    /// The one of containers' logs; `None` when it is the node's.
    pub logs: Option<FileSystem>,
    /// The one of images, and what they use of it.
    pub images: Option<RuntimeDisk>,
    /// The one of containers' writable layers; `None` when it is that of images.
    pub containers: Option<RuntimeDisk>,
}

/// A file system of the runtime's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RuntimeDisk {
    /// The file system as a whole; `None` where it cannot be looked at.
    pub file_system: Option<FileSystem>,
    /// When the runtime looked.
    pub at: Moment,
    /// The runtime's use of it, in bytes.
    pub used: Option<u64>,
    /// Files of the runtime on it.
    pub inodes_used: Option<u64>,
}

/// One look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawSample {
    /// When it began.
    pub at: Moment,
    /// The node.
    pub node: NodeSample,
    /// Other groups.
    pub systems: Vec<(System, Group)>,
    /// Pods, by namespace and name.
    pub pods: Vec<PodSample>,
    /// Containers that run as far as the runtime said, and whose group is not there.
    pub groupless: Vec<GrouplessContainer>,
    /// File systems, where they were looked at.
    pub disks: Option<DiskSample>,
    /// Paths whose file systems did not answer in time: nobody knows what is on them.
    pub silent: Vec<String>,
    /// Processor time that the look took, in ns.
    pub cpu_ns: u64,
}

impl RawSample {
    /// Every group of the sample.
    pub fn groups(&self) -> Vec<&Group> {
        let mut groups = vec![&self.node.group];
        groups.extend(self.systems.iter().map(|(_, group)| group));
        for pod in &self.pods {
            groups.extend(&pod.group);
            groups.extend(&pod.sandbox.group);
            groups.extend(pod.containers.iter().filter_map(|container| container.group.as_ref()));
        }
        groups
    }
}

/// Facts of the machine that do not change while the agent runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Logical processors.
    pub cpus: u64,
    /// Cores.
    pub cores: u64,
    /// Sockets.
    pub sockets: u64,
    /// Bytes.
    pub memory: u64,
    /// Bytes.
    pub swap: u64,
    /// Of this boot.
    pub boot_id: String,
    /// Of the machine.
    pub machine_id: String,
    /// Of the hardware.
    pub system_uuid: String,
    /// Of the kernel.
    pub kernel_version: String,
    /// The operating system's version, in its own words.
    pub os_version: String,
}

/// A look, with what earlier looks add to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The look.
    pub sample: RawSample,
    /// Processor time used a second, in ns, by the group's path; of containers that the runtime tells of, by their IDs.
    pub nano_cores: BTreeMap<String, u64>,
    /// Pods as the runtime tells of them; `None` where their figures are those of control groups.
    pub told: Option<ToldPods>,
    /// Writable layers, by container.
    pub layers: BTreeMap<ContainerId, Usage>,
    /// Volumes, by pod.
    pub volumes: BTreeMap<PodUid, Vec<super::volumes::VolumeFigures>>,
    /// The image that sandboxes are made of; empty where not known.
    pub sandbox_image: String,
}
