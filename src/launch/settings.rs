//! From the configuration to what actors are told.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use crate::actors::settings::Settings;
use crate::config::{Config, GoDuration, Invocation};
use crate::logic::cgroup_name::CgroupTree;
use crate::logic::dns::{NodeDns, Resolver};
use crate::logic::object_cache::ChangeDetection;
use crate::logic::quantity::{Format, Quantity};
use crate::logic::resources::{
    CPU, CgroupVersion, MEMORY, NodeMemory, PIDS, ResourceList, ResourceOptions, kubepods_resources,
};
use crate::logic::time::Moment;

/// What the host is, as far as settings depend on it.
#[derive(Clone, Debug)]
pub struct HostFacts {
    /// The node's name: lower case, never empty.
    pub node_name: String,
    /// The node's addresses, the primary one first.
    pub ips: Vec<IpAddr>,
    /// Processors that are online.
    pub cpus: i64,
    /// All memory, in bytes.
    pub memory_bytes: i64,
    /// The most process IDs.
    pub pids_max: i64,
    /// Which cgroups the host has.
    pub cgroup_version: CgroupVersion,
    /// Whether swap is accounted by cgroups.
    pub swap_controller: bool,
    /// See `Settings::thermal_throttle_paths`.
    pub thermal_throttle_paths: Vec<String>,
    /// The text of the file that `resolvConf` names; `None` when it names none.
    pub resolv_conf: Option<String>,
    /// `--node-ip`.
    pub node_ips: Vec<IpAddr>,
    /// When the machine booted, where that is known.
    pub booted: Option<Moment>,
}

/// All that actors are told.
///
/// # Errors
/// When a value cannot be used; the text names the field.
pub fn settings(
    invocation: &Invocation,
    host: &HostFacts,
    node_name: String,
    runtime_name: String,
    now: Moment,
) -> Result<Settings, String> {
    let (config, flags) = (&invocation.config, &invocation.flags);
    let period = |field: &str, value: GoDuration| {
        let period = value.to_std();
        if period.is_zero() { Err(format!("invalid {field} {value}: must be more than 0")) } else { Ok(period) }
    };
    let root_dir = Path::new(&flags.root_dir);
    Ok(Settings {
        node: super::node::settings(invocation, &host.node_ips, host.booted, &node_name, &runtime_name)?,
        node_name,
        host_ips: host.ips.clone(),
        runtime_name,
        static_pod_url: config.static_pod_url.clone(),
        sync_period: period("sync frequency", config.sync_frequency)?,
        file_check_period: period("file check frequency", config.file_check_frequency)?,
        http_check_period: period("http check frequency", config.http_check_frequency)?,
        pod_logs_dir: config.pod_logs_dir.clone(),
        dns: dns(config, host)?,
        cgroup_tree: CgroupTree::new(&config.cgroup_root, config.cgroups_per_qos)
            .map_err(|error| format!("cgroupRoot: {error}"))?,
        kubepods: kubepods(config, host)?,
        resources: resources(invocation, host),
        node_memory: NodeMemory { capacity_bytes: host.memory_bytes },
        seccomp_root: root_dir.join("seccomp").to_string_lossy().into_owned(),
        thermal_throttle_paths: host.thermal_throttle_paths.clone(),
        seccomp_default: config.seccomp_default || flags.seccomp_default,
        stop_signals: invocation.gates.enabled("ContainerStopSignals"),
        crash_loop_max: config
            .crash_loop_back_off
            .max_container_restart_period
            .map_or(Duration::from_secs(300), GoDuration::to_std),
        pulls_max: pulls_max(config),
        pull_rate: u32::try_from(config.registry_pull_qps).ok().filter(|rate| *rate > 0),
        pull_burst: u32::try_from(config.registry_burst).unwrap_or(0),
        // On unless it was turned off by name; upstream's default is off. See ARCHITECTURE.md.
        evented: config.feature_gates.get("EventedPLEG") != Some(&false),
        agent_started: now,
        change_detection: ChangeDetection::from_config(&config.config_map_and_secret_change_detection_strategy),
        dead_per_container: flags.maximum_dead_containers_per_container,
        dead_total: flags.maximum_dead_containers,
        dead_age_min: flags.minimum_container_ttl.to_std(),
        watchdog_period: None,
    })
}

fn pulls_max(config: &Config) -> Option<usize> {
    if config.serialize_image_pulls {
        return Some(1);
    }
    config.max_parallel_image_pulls.and_then(|max| usize::try_from(max).ok())
}

fn dns(config: &Config, host: &HostFacts) -> Result<NodeDns, String> {
    let parsed = host.resolv_conf.as_deref().map(Resolver::parse).transpose();
    let mut cluster_dns = vec![];
    for address in &config.cluster_dns {
        match address.parse::<IpAddr>() {
            Ok(address) => cluster_dns.push(address),
            Err(_) => tracing::error!(address, "invalid clusterDNS address, it is left out"),
        }
    }
    Ok(NodeDns {
        host: parsed.map_err(|error| format!("resolvConf {}: {error}", config.resolv_conf))?,
        cluster_dns,
        cluster_domain: config.cluster_domain.clone(),
        node_ips: host.ips.clone(),
    })
}

fn resources(invocation: &Invocation, host: &HostFacts) -> ResourceOptions {
    let config = &invocation.config;
    ResourceOptions {
        cpu_cfs_quota: config.cpu_cfs_quota,
        cpu_cfs_quota_period_us: u64::try_from(config.cpu_cfs_quota_period.to_std().as_micros()).unwrap_or(100_000),
        pod_level_resources: invocation.gates.enabled("PodLevelResources"),
        single_process_oom_kill: config.single_process_oom_kill.unwrap_or(host.cgroup_version == CgroupVersion::V1),
        pod_pids_limit: config.pod_pids_limit,
        cgroup_version: host.cgroup_version,
        swap_controller: host.swap_controller,
    }
}

fn kubepods(config: &Config, host: &HostFacts) -> Result<ResourceList, String> {
    let capacity: ResourceList = [
        (CPU.to_owned(), Quantity::from_units(host.cpus, Format::DecimalSi)),
        (MEMORY.to_owned(), Quantity::from_units(host.memory_bytes, Format::BinarySi)),
        (PIDS.to_owned(), Quantity::from_units(host.pids_max, Format::DecimalSi)),
    ]
    .into();
    let kube = reserved("kubeReserved", &config.kube_reserved)?;
    let system = reserved("systemReserved", &config.system_reserved)?;
    for (name, total) in &capacity {
        let zero = Quantity::from_units(0, Format::DecimalSi);
        let wanted = [&kube, &system].into_iter().map(|list| list.get(name).copied().unwrap_or(zero));
        let sum = wanted.fold(zero, |sum, more| sum.plus(more));
        if sum > *total {
            return Err(format!(
                "invalid Node Allocatable configuration. Resource \"{name}\" has a reservation of {sum} but capacity of {total}. Expected capacity >= reservation."
            ));
        }
    }
    let enforced = config.enforce_node_allocatable.iter().any(|one| one == "pods");
    Ok(kubepods_resources(&capacity, &[&kube, &system], enforced))
}

fn reserved(field: &str, amounts: &BTreeMap<String, String>) -> Result<ResourceList, String> {
    let parse = |(name, text): (&String, &String)| {
        let amount = Quantity::parse(text).map_err(|error| format!("{field}.{name} {text:?}: {error}"))?;
        Ok((name.clone(), amount))
    };
    amounts.iter().map(parse).collect()
}
