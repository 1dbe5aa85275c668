//! The host: its facts, whether the agent may run on it, and what is made ready on it before the tree starts.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::config::Invocation;
use crate::logic::formats::cpu_list::CpuList;
use crate::logic::model::time::Moment;
use crate::logic::network::node_addresses::parse_node_ips;
use crate::logic::node::kernel_tunables::{self, Rule, Surroundings, TUNABLES, Unset};
use crate::logic::resources::CgroupVersion;
use crate::logic::resources::cpu_manager::MachineTopology;
use crate::logic::resources::node_cgroups::MachineSize;
use crate::logic::volumes::mounting::mount_label::FileLabel;
use crate::platform::cgroup;
use crate::platform::files::directories;
use crate::platform::host::kernel_tunables::{KernelTunables, TunableError};
use crate::platform::host::process;
use crate::platform::host::{CGROUP_V1_REFUSED, Host, HostError, LIMITED_SWAP_REFUSED, SWAP_REFUSED};
use crate::platform::volumes::knows_noswap;

/// Kernels before it may hang where `memory.high` is set; upstream's number.
const MEMORY_QOS_KERNEL_MIN: [u32; 2] = [5, 9];

/// The facts of the host on which settings depend.
#[derive(Clone, Debug)]
pub struct HostFacts {
    /// The node's name: lower case, never empty.
    pub node_name: String,
    /// Its size.
    pub size: MachineSize,
    /// The most process IDs.
    pub pids_max: i64,
    /// Which cgroups the host has.
    pub cgroup_version: CgroupVersion,
    /// Whether swap is accounted by cgroups.
    pub swap_controller: bool,
    /// See `NodeSettings::memory_may_be_swapped`.
    pub memory_may_be_swapped: bool,
    /// See `SecuritySettings::thermal_throttle_paths`.
    pub thermal_throttle_paths: Vec<String>,
    /// The kernel's release, such as `6.1.0-13-amd64`.
    pub kernel_release: String,
    /// Whether the host enforces AppArmor profiles.
    pub app_armor: bool,
    /// Whether SELinux is on.
    pub selinux: bool,
    /// The label of containers' files by its policy.
    pub file_label: Option<FileLabel>,
    /// `--node-ip`.
    pub node_ips: Vec<IpAddr>,
    /// When the machine booted, where that is known.
    pub booted: Option<Moment>,
    /// See `NodeSettings::devices_lost`.
    pub devices_lost: bool,
}

/// Reads what settings depend on.
///
/// # Errors
/// When the host does not tell; the text says what.
pub(super) fn facts(invocation: &Invocation) -> Result<HostFacts, String> {
    let host = Host::at(PathBuf::from("/"));
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let told = |error: HostError| error.to_string();
    // As libselinux finds it: its file system is there only when it is on.
    let selinux = Path::new("/sys/fs/selinux/enforce").exists();
    Ok(HostFacts {
        node_name: host.hostname(&invocation.flags.hostname_override).map_err(told)?,
        node_ips: named_addresses(invocation)?,
        booted: host.booted(),
        devices_lost: !Path::new(&invocation.flags.device_plugin_dir).exists(),
        size: size(&host).map_err(told)?,
        pids_max: number(host.processes_max().map_err(told)?),
        cgroup_version: cgroup::detect(),
        swap_controller: swap_controller(),
        memory_may_be_swapped: host.swap_is_on().map_err(told)? && !knows_noswap(),
        thermal_throttle_paths: thermal_throttle_paths(),
        kernel_release: host.kernel_version().map_err(told)?,
        app_armor: app_armor_is_on(),
        selinux,
        file_label: if selinux { host.file_label() } else { None },
    })
}

/// How large the machine is now.
fn size(host: &Host) -> Result<MachineSize, HostError> {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    Ok(MachineSize {
        cpus: i64::from(host.processors()?),
        cpu_list: host.online_processors()?,
        memory_bytes: number(host.memory_bytes()?),
        swap_bytes: number(host.swap_bytes()?),
        hugepages: host.hugepages()?,
    })
}

/// The CPUs and NUMA nodes; none where they cannot be read, which the policies `none` do not need.
pub(super) fn topology() -> MachineTopology {
    Host::at(PathBuf::from("/")).topology().unwrap_or_else(|error| {
        tracing::warn!(%error, "CPUs and NUMA nodes cannot be read");
        MachineTopology::default()
    })
}

/// The addresses in `--node-ip`.
fn named_addresses(invocation: &Invocation) -> Result<Vec<std::net::IpAddr>, String> {
    let text = &invocation.flags.node_ip;
    let (named, invalid) = parse_node_ips(text).map_err(|error| format!("bad --node-ip {text:?}: {error}"))?;
    if !invalid.is_empty() {
        tracing::info!(?invalid, "Could not parse some node IP(s), ignoring them");
    }
    Ok(named)
}

fn swap_controller() -> bool {
    match cgroup::detect() {
        CgroupVersion::V1 => Path::new("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes").exists(),
        CgroupVersion::V2 => own_cgroup_v2().is_some_and(|own| own.join("memory.swap.max").exists()),
    }
}

fn own_cgroup_v2() -> Option<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(cgroup::CGROUP_MOUNT).join(own))
}

/// As upstream's container library finds it: the kernel has it, and it is not turned off.
fn app_armor_is_on() -> bool {
    let parameter = std::fs::read_to_string("/sys/module/apparmor/parameters/enabled").unwrap_or_default();
    Path::new("/sys/kernel/security/apparmor").exists() && parameter.starts_with('Y')
}

/// Those of the host's processors that exist, in order of their numbers.
fn thermal_throttle_paths() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok()).collect();
    numbers.sort_unstable();
    let path = |number| format!("/sys/devices/system/cpu/cpu{number}/thermal_throttle");
    numbers.into_iter().map(path).filter(|path| Path::new(path).exists()).collect()
}

/// Refuses hosts that upstream refuses (CFG-29, CFG-30, RES-68).
///
/// # Errors
/// Upstream's texts.
pub(super) fn check(invocation: &Invocation, facts: &HostFacts) -> Result<(), String> {
    let config = &invocation.config;
    if config.fail_cgroup_v1 && facts.cgroup_version == CgroupVersion::V1 {
        return Err(CGROUP_V1_REFUSED.to_owned());
    }
    if config.memory_swap.swap_behavior == "LimitedSwap" && facts.cgroup_version == CgroupVersion::V1 {
        return Err(LIMITED_SWAP_REFUSED.to_owned());
    }
    if invocation.gates.enabled("MemoryQoS") {
        warn_of_memory_qos(facts);
    }
    check_reserved_cpus(&config.reserved_system_cpus, &Host::at(PathBuf::from("/")))?;
    let swap = Host::at(PathBuf::from("/")).swap_is_on().map_err(|error| error.to_string())?;
    if swap && config.fail_swap_on {
        return Err(SWAP_REFUSED.to_owned());
    }
    if !nix::unistd::geteuid().is_root() {
        let uid = nix::unistd::geteuid().as_raw();
        let problem = format!("kubelet needs to run as uid `0`. It is being run as {uid}");
        tracing::error!(problem, "Kubelet running with insufficient permissions");
    }
    Ok(())
}

/// Upstream's words: the gate needs cgroup v2, and a kernel that does not hang in `memory.high` (RES-21).
fn warn_of_memory_qos(facts: &HostFacts) {
    if facts.cgroup_version == CgroupVersion::V1 {
        tracing::warn!("MemoryQoS feature only works with cgroups v2 on Linux, but enabled with cgroups v1");
    } else if !is_kernel(&facts.kernel_release, MEMORY_QOS_KERNEL_MIN) {
        let (kernel, [major, minor]) = (&facts.kernel_release, MEMORY_QOS_KERNEL_MIN);
        let words = "MemoryQoS memory.high throttling may cause process livelock on older kernels";
        tracing::warn!(currentKernel = kernel, minimumKernel = format!("{major}.{minor}"), "{words}");
    }
}

/// Whether a kernel of this release is of that version, or newer. A release that cannot be read counts as new.
pub(super) fn is_kernel(release: &str, version: [u32; 2]) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => [major, minor] >= version,
        _ => true,
    }
}

/// CPUs that are kept must be there.
fn check_reserved_cpus(text: &str, host: &Host) -> Result<(), String> {
    let Some(kept) = CpuList::parse(text) else { return Ok(()) };
    let online = host.online_processors().map_err(|error| error.to_string())?;
    match CpuList::parse(&online) {
        Some(all) if !kept.is_within(&all) => {
            Err(format!("reserved-cpus: {text} is not a subset of online-cpus: {online}"))
        }
        _ => Ok(()),
    }
}

/// Gives the kernel's parameters the values that a node needs, or compares them under `protectKernelDefaults` (RES-18).
///
/// # Errors
/// A parameter that differs and is protected, or that cannot be read: upstream's texts.
pub(super) fn tune_kernel(invocation: &Invocation, tunables: &KernelTunables) -> Result<(), String> {
    let told = |error: TunableError| error.to_string();
    let present = TUNABLES.map(|one| (one, tunables.read(one.name).map_err(told)));
    let plan = kernel_tunables::plan(Rule::from_config(invocation.config.protect_kernel_defaults), present.into());
    let mut unset = vec![];
    for (tunable, actual) in plan.to_set {
        tracing::info!(flag = tunable.name, expected = tunable.wanted, actual, "Updating kernel flag");
        if let Err(error) = tunables.write(tunable.name, tunable.wanted) {
            unset.push(Unset { forbidden: error.is_forbidden(), problem: error.to_string() });
        }
    }
    let surroundings = Surroundings {
        user_namespace: kernel_tunables::is_user_namespace(&tunables.uid_map()),
        excused: invocation.gates.enabled("KubeletInUserNamespace"),
    };
    let verdict = kernel_tunables::verdict(plan.faults, unset, surroundings);
    if let Some(problem) = verdict.warning {
        tracing::warn!(problem, "this machine forbids changes of kernel parameters, they stay as they are");
    }
    match verdict.fatal {
        None => Ok(()),
        Some(problem) => {
            tracing::error!(problem, "Failed to start ContainerManager");
            Err(problem)
        }
    }
}

/// The process's own limits, and the directories of the agent (CFG-41, CFG-42). A limit that is not permitted is a warning.
///
/// # Errors
/// When a directory cannot be made.
pub(super) fn prepare(invocation: &Invocation) -> Result<(), String> {
    let config = &invocation.config;
    let files_max = u64::try_from(config.max_open_files).unwrap_or(0);
    if let Err(error) = process::set_open_files_limit(files_max) {
        tracing::warn!(%error, "the agent's own limits stay as they are");
    }
    // Early, for the start itself; `ProcessPlacement` keeps it, and is who warns.
    if let Err(error) = process::set_oom_score_adj(config.oom_score_adj) {
        tracing::info!(%error, "Failed to ApplyOOMScoreAdj");
    }
    let root_dir = Path::new(&invocation.flags.root_dir);
    let devices = Path::new(&invocation.flags.device_plugin_dir);
    let wanted = directories::wanted(root_dir, Path::new(&config.pod_logs_dir), devices);
    directories::make(&wanted).map_err(|error| error.to_string())?;
    if let Err(error) = directories::share_mounts(root_dir) {
        tracing::warn!(%error, "mounts below the root directory are not shared");
    }
    Ok(())
}

/// The same with the root directory, which is there by now, by its path without links: so the mount table names it.
///
/// # Errors
/// When it cannot be found out.
pub(super) fn at_real_root(mut invocation: Invocation) -> Result<Invocation, String> {
    let given = &invocation.flags.root_dir;
    let real = std::fs::canonicalize(given).map_err(|error| format!("find root directory {given:?}: {error}"))?;
    let real = real.into_os_string().into_string().map_err(|real| format!("root directory {real:?} is not UTF-8"))?;
    invocation.flags.root_dir = real;
    Ok(invocation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Host as ConfiguredHost, Startup, load};

    /// Whether a local volume is another pod's is read off the mount table, which knows paths without links.
    #[test]
    fn a_root_directory_that_is_a_link_is_known_by_where_it_leads() {
        let folder = tempfile::tempdir().expect("a folder");
        let (real, link) = (folder.path().join("disk"), folder.path().join("kubelet"));
        std::fs::create_dir(&real).expect("made");
        std::os::unix::fs::symlink(&real, &link).expect("linked");
        let arguments = [format!("--root-dir={}", link.display())];
        let loaded = load(&arguments, ConfiguredHost { cgroup_v1: false });
        let Ok(Startup::Run(invocation)) = loaded else { panic!("{loaded:?}") };
        let found = at_real_root(*invocation).expect("it is there").flags.root_dir;
        assert_eq!(Path::new(&found), real.canonicalize().expect("there"));
    }

    /// RES-21.
    #[test]
    fn res_21_kernels_are_told_apart_by_their_releases() {
        for (release, is_new) in [
            ("5.8.18-generic", false),
            ("4.19", false),
            ("5.9.0", true),
            ("5.10.0-28-amd64", true),
            ("6.1", true),
            ("?", true),
        ] {
            assert_eq!(is_kernel(release, MEMORY_QOS_KERNEL_MIN), is_new, "{release}");
        }
    }
}
