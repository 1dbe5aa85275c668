//! From the configuration to the settings of actors.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::host::{HostFacts, is_kernel};
use crate::actors::settings::{
    LogSettings, NetworkSettings, PodSettings, ResourceSettings, RuntimeSettings, SecuritySettings, ServingSettings,
    Settings, SourceSettings, StatisticsSettings,
};
use crate::config::flags::exempt_images;
use crate::config::validate::eviction::{ThresholdError, thresholds};
use crate::config::{Config, GoDuration, Invocation};
use crate::logic::eviction::EvictionSettings;
use crate::logic::eviction::signal::MemoryBasis;
use crate::logic::images::ImageSettings;
use crate::logic::images::image_garbage::ImageGcPolicy;
use crate::logic::images::image_records::VerificationPolicy;
use crate::logic::images::pull_queue::PullLimits;
use crate::logic::logs::log_rotation::RotationPolicy;
use crate::logic::manifest::references::References;
use crate::logic::manifest::restart_gates::RestartGates;
use crate::logic::model::backoff::BackoffPolicy;
use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::model::time::Moment;
use crate::logic::network::dns::DnsSettings;
use crate::logic::node::node_status::{self, CapacitySettings, Machine};
use crate::logic::objects::object_cache::ChangeDetection;
use crate::logic::plugins::claims::ClaimGates;
use crate::logic::pods::container_garbage::GarbagePolicy;
use crate::logic::pods::pod_admission::SysctlAllowList;
use crate::logic::pods::pod_resize::ResizeGates;
use crate::logic::resources::allocations::ResourceManagers;
use crate::logic::resources::cgroup_name::CgroupTree;
use crate::logic::resources::node_cgroups::process_placement::PlacementSettings;
use crate::logic::resources::node_cgroups::{NodeCgroups, ReservedCgroup, TooMuchReserved};
use crate::logic::resources::user_namespaces::space::IdSpace;
use crate::logic::resources::{
    CgroupVersion, CpuBurst, EPHEMERAL_STORAGE, MEMORY, MemoryQos, NodeMemory, PIDS, ResourceList, ResourceOptions,
};
use crate::logic::serving::{ServedLogs, StreamSettings};
use crate::logic::status::status_gates::StatusGates;
use crate::logic::volumes::mounting::mount_label::Labelling;
use crate::messages::root::LiveSettings;
use crate::platform::host::Host as HostFiles;
use crate::platform::host::node_facts::LinuxNodeFacts;

/// The first kernel that has `cpu.max.burst`.
const CPU_BURST_KERNEL_MIN: [u32; 2] = [5, 14];

/// All that actors are given, a part for each domain.
///
/// # Errors
/// When a value cannot be used; the text names the field.
pub fn settings(
    invocation: &Invocation,
    host: &HostFacts,
    runtime_name: String,
    now: Moment,
    watchdog_period: Option<Duration>,
    managers: Arc<ResourceManagers>,
) -> Result<Settings, String> {
    let config = &invocation.config;
    let node = super::node::settings(invocation, host, &host.node_name, &runtime_name)?;
    Ok(Settings {
        node_name: host.node_name.clone(),
        agent_started: now,
        watchdog_period,
        pods: pods(invocation)?,
        security: security(invocation, host)?,
        sources: sources(invocation)?,
        change_detection: ChangeDetection::from_config(&config.config_map_and_secret_change_detection_strategy),
        runtime: runtime(invocation, runtime_name),
        images: images(invocation)?,
        resources: resources(invocation, host, &node.status.capacity, managers)?,
        network: NetworkSettings { dns: dns(invocation, host), rules: config.make_iptables_util_chains },
        logs: LogSettings { folder: config.pod_logs_dir.clone(), rotation: log_rotation(config)? },
        statistics: statistics(invocation),
        serving: serving(invocation),
        node,
    })
}

fn statistics(invocation: &Invocation) -> StatisticsSettings {
    let (config, gates) = (&invocation.config, &invocation.gates);
    StatisticsSettings {
        pressure: gates.enabled("KubeletPSI"),
        volume_period: Some(config.volume_stats_agg_period.to_std()).filter(|period| !period.is_zero()),
        volume_health: gates.enabled("CSIVolumeHealth"),
        from_runtime: gates.enabled("PodAndContainerStatsFromCRI"),
    }
}

/// The part of the settings that a reload may change.
///
/// # Errors
/// As [`settings`].
pub fn live(invocation: &Invocation, node_name: &str) -> Result<LiveSettings, String> {
    let config = &invocation.config;
    let [update_period, report_period] = super::node::periods(config)?;
    Ok(LiveSettings {
        image_gc: image_gc(config),
        pulls: pulls(config),
        eviction: eviction(invocation, node_name)?,
        log_rotation: log_rotation(config)?,
        update_period,
        report_period,
    })
}

/// Validation has refused wrong thresholds; the log here has the values of a caller that went around it.
fn eviction(invocation: &Invocation, node_name: &str) -> Result<EvictionSettings, String> {
    let config = &invocation.config;
    let all = |errors: Vec<ThresholdError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let grace_max = u64::try_from(config.eviction_max_pod_grace_period).unwrap_or(0);
    Ok(EvictionSettings {
        node_name: node_name.to_owned(),
        thresholds: thresholds(config).map_err(all)?,
        transition: config.eviction_pressure_transition_period.to_std(),
        soft_grace_max: Duration::from_secs(grace_max),
        local_storage: config.local_storage_capacity_isolation,
        pod_level_resources: invocation.gates.enabled("PodLevelResources"),
        refuses_split: !invocation.gates.enabled("KubeletSeparateDiskGC"),
        memory: match invocation.flags.eviction_by_available_memory {
            true => MemoryBasis::Available,
            false => MemoryBasis::WorkingSet,
        },
    })
}

/// A duration that may not be zero.
fn period(field: &str, value: GoDuration) -> Result<Duration, String> {
    let period = value.to_std();
    if period.is_zero() { Err(format!("invalid {field} {value}: must be more than 0")) } else { Ok(period) }
}

fn pods(invocation: &Invocation) -> Result<PodSettings, String> {
    let (config, gates) = (&invocation.config, &invocation.gates);
    Ok(PodSettings {
        sync_period: period("sync frequency", config.sync_frequency)?,
        crash_loop: crash_loop(invocation),
        restart_gates: restart_gates(invocation),
        status_gates: status_gates(invocation),
        stop_signals: gates.enabled("ContainerStopSignals"),
        env_files: gates.enabled("EnvFiles"),
        user_ids: IdSpace::default(),
    })
}

fn security(invocation: &Invocation, host: &HostFacts) -> Result<SecuritySettings, String> {
    let (config, flags) = (&invocation.config, &invocation.flags);
    Ok(SecuritySettings {
        seccomp_root: Path::new(&flags.root_dir).join("seccomp").to_string_lossy().into_owned(),
        seccomp_default: config.seccomp_default || flags.seccomp_default,
        sysctls: SysctlAllowList::new(&host.kernel_release, &config.allowed_unsafe_sysctls)?,
        app_armor: host.app_armor,
        selinux: host.selinux,
        labelling: host.file_label.clone().map(|files| {
            let every_mode = invocation.gates.enabled("SELinuxMount");
            Arc::new(Labelling { files, every_mode })
        }),
        thermal_throttle_paths: host.thermal_throttle_paths.clone(),
    })
}

fn sources(invocation: &Invocation) -> Result<SourceSettings, String> {
    let config = &invocation.config;
    let is_local = !invocation.flags.local_objects.is_empty();
    Ok(SourceSettings {
        url: config.static_pod_url.clone(),
        file_check_period: period("file check frequency", config.file_check_frequency)?,
        http_check_period: period("http check frequency", config.http_check_frequency)?,
        references: if is_local { References::Local } else { References::Refused },
        host_network_users: invocation.gates.enabled("UserNamespacesHostNetworkSupport"),
    })
}

fn runtime(invocation: &Invocation, name: String) -> RuntimeSettings {
    let flags = &invocation.flags;
    RuntimeSettings {
        name,
        // On unless it was turned off by name; upstream's default is off. See docs/differences.md.
        evented: invocation.config.feature_gates.get("EventedPLEG") != Some(&false),
        on_demand: invocation.gates.enabled("PLEGOnDemandRelist"),
        garbage: GarbagePolicy {
            per_container: flags.maximum_dead_containers_per_container,
            total: flags.maximum_dead_containers,
            age_min: flags.minimum_container_ttl.to_std(),
        },
    }
}

fn images(invocation: &Invocation) -> Result<ImageSettings, String> {
    let (config, flags) = (&invocation.config, &invocation.flags);
    let credential_providers = super::credential_providers::load(
        &flags.image_credential_provider_config,
        &flags.image_credential_provider_bin_dir,
        invocation.gates.enabled("KubeletServiceAccountTokenForCredentialProviders"),
    )?;
    Ok(ImageSettings {
        pulls: pulls(config),
        credential_providers: credential_providers.into(),
        verification: image_verification(invocation),
        gc: image_gc(config),
        gc_exempt: exempt_images(flags)?,
        by_handler: invocation.gates.enabled("RuntimeClassInImageCriApi"),
    })
}

fn resources(
    invocation: &Invocation,
    host: &HostFacts,
    capacity: &CapacitySettings,
    managers: Arc<ResourceManagers>,
) -> Result<ResourceSettings, String> {
    let (config, root_dir) = (&invocation.config, Path::new(&invocation.flags.root_dir));
    let storage_bytes = LinuxNodeFacts::new(HostFiles::default(), root_dir.to_owned()).storage_bytes();
    let placement =
        PlacementSettings::from_config(&config.kubelet_cgroups, &config.system_cgroups, config.oom_score_adj);
    Ok(ResourceSettings {
        cgroup_tree: CgroupTree::new(&config.cgroup_root, config.cgroups_per_qos)
            .map_err(|error| format!("cgroupRoot: {error}"))?,
        node_cgroups: NodeCgroups {
            qos_reserved: qos_reserved(invocation),
            ..node_cgroups(config, host, capacity, storage_bytes)?
        },
        allocatable: allocatable(capacity, host, storage_bytes),
        options: resource_options(invocation, host, capacity),
        resize: resize(invocation),
        node_memory: NodeMemory { capacity_bytes: host.size.memory_bytes },
        hugepage_sizes: host.size.hugepages.keys().copied().collect(),
        placement: placement.map_err(|error| error.to_string())?,
        eviction: eviction(invocation, &host.node_name)?,
        managers,
        cpu_reconcile_period: config.cpu_manager_reconcile_period.to_std(),
        device_plugin_wait: invocation.flags.device_plugin_wait.to_std(),
        shows_device_health: invocation.gates.enabled("ResourceHealthStatus"),
        claim_gates: ClaimGates {
            extended_resources: invocation.gates.enabled("DRAExtendedResource"),
            pod_groups: invocation.gates.enabled("DRAWorkloadResourceClaims"),
            health: invocation.gates.enabled("ResourceHealthStatus"),
            health_messages: invocation.gates.enabled("ResourceHealthStatusMessage"),
        },
    })
}

fn serving(invocation: &Invocation) -> ServingSettings {
    let config = &invocation.config;
    ServingSettings {
        logs: ServedLogs {
            split_streams: invocation.gates.enabled("PodLogsQuerySplitStreams"),
            system: config.enable_system_log_handler,
            system_query: config.enable_system_log_query,
        },
        streams: streams(invocation, Path::new(&invocation.flags.root_dir)),
    }
}

fn restart_gates(invocation: &Invocation) -> RestartGates {
    RestartGates {
        rules: invocation.gates.enabled("ContainerRestartRules"),
        all: invocation.gates.enabled("RestartAllContainersOnContainerExits"),
    }
}

fn status_gates(invocation: &Invocation) -> StatusGates {
    StatusGates {
        ready_to_start: invocation.gates.enabled("PodReadyToStartContainersCondition"),
        restart_shows: invocation.gates.enabled("ChangeContainerStatusOnKubeletRestart"),
        image_references: invocation.gates.enabled("ImageVolumeWithDigest"),
    }
}

fn image_verification(invocation: &Invocation) -> VerificationPolicy {
    VerificationPolicy::from_config(
        invocation.gates.enabled("KubeletEnsureSecretPulledImages"),
        &invocation.config.image_pull_credentials_verification_policy,
        &invocation.config.preloaded_images_verification_allowlist,
    )
}

fn image_gc(config: &Config) -> ImageGcPolicy {
    let percent = |value: i32| u64::try_from(value).unwrap_or(0);
    ImageGcPolicy {
        high_percent: percent(config.image_gc_high_threshold_percent),
        low_percent: percent(config.image_gc_low_threshold_percent),
        age_min: config.image_minimum_gc_age.to_std(),
        age_max: Some(config.image_maximum_gc_age.to_std()).filter(|age| !age.is_zero()),
    }
}

/// `None` for a negative size, which turns rotation off.
fn log_rotation(config: &Config) -> Result<Option<RotationPolicy>, String> {
    let size = &config.container_log_max_size;
    let wrong = |problem: String| format!("failed to parse container log max size {size:?}: {problem}");
    let bytes = Quantity::parse(size).map_err(|error| wrong(error.to_string()))?.value();
    let files = config.container_log_max_files;
    let files_max = usize::try_from(files).ok().filter(|files| *files > 1);
    Ok(u64::try_from(bytes).ok().map(|bytes_max| RotationPolicy {
        bytes_max,
        files_max: files_max.unwrap_or(2),
        workers: usize::try_from(config.container_log_max_workers).unwrap_or(1).max(1),
        interval: config.container_log_monitor_interval.to_std(),
    }))
}

/// The back-off of containers that end again and again (POD-19). A period that is set comes before the gate's.
fn crash_loop(invocation: &Invocation) -> BackoffPolicy {
    let reduced = invocation.gates.enabled("ReduceDefaultCrashLoopBackOffDecay");
    let set = invocation.config.crash_loop_back_off.max_container_restart_period.map(GoDuration::to_std);
    match reduced {
        true => BackoffPolicy::reduced_crash_loop(set.unwrap_or(Duration::from_secs(60))),
        false => BackoffPolicy::crash_loop(set.unwrap_or(Duration::from_secs(300))),
    }
}

fn pulls(config: &Config) -> PullLimits {
    PullLimits {
        parallel_max: pulls_max(config),
        rate: u32::try_from(config.registry_pull_qps).ok().filter(|rate| *rate > 0),
        burst: u32::try_from(config.registry_burst).unwrap_or(0),
    }
}

fn pulls_max(config: &Config) -> Option<usize> {
    if config.serialize_image_pulls {
        return Some(1);
    }
    config.max_parallel_image_pulls.and_then(|max| usize::try_from(max).ok())
}

fn dns(invocation: &Invocation, host: &HostFacts) -> DnsSettings {
    let config = &invocation.config;
    let mut cluster_dns = vec![];
    for address in &config.cluster_dns {
        match address.parse::<IpAddr>() {
            Ok(address) => cluster_dns.push(address),
            Err(_) => tracing::error!(address, "invalid clusterDNS address, it is left out"),
        }
    }
    DnsSettings {
        resolv_conf: Some(config.resolv_conf.clone()).filter(|path| !path.is_empty()),
        cluster_dns,
        cluster_domain: config.cluster_domain.clone(),
        node_ips: host.node_ips.clone(),
        ignores_hostname_override: !invocation.gates.enabled("HostnameOverride"),
    }
}

fn resource_options(invocation: &Invocation, host: &HostFacts, capacity: &CapacitySettings) -> ResourceOptions {
    let config = &invocation.config;
    let memory_qos = invocation.gates.enabled("MemoryQoS") && host.cgroup_version == CgroupVersion::V2;
    ResourceOptions {
        memory_qos: memory_qos.then(|| MemoryQos {
            throttling_factor: config.memory_throttling_factor.unwrap_or(0.9),
            reserves: config.memory_reservation_policy == "TieredReservation",
            allocatable_bytes: allocatable_memory(capacity, host),
        }),
        cpu_burst: cpu_burst(invocation, host),
        cpu_cfs_quota: config.cpu_cfs_quota,
        cpu_cfs_quota_period_us: u64::try_from(config.cpu_cfs_quota_period.to_std().as_micros()).unwrap_or(100_000),
        pod_level_resources: invocation.gates.enabled("PodLevelResources"),
        single_process_oom_kill: config.single_process_oom_kill.unwrap_or(host.cgroup_version == CgroupVersion::V1),
        pod_pids_limit: config.pod_pids_limit,
        cgroup_version: host.cgroup_version,
        swap_controller: host.swap_controller,
        limited_swap: (config.memory_swap.swap_behavior == "LimitedSwap" && host.cgroup_version == CgroupVersion::V2)
            .then_some(host.size.swap_bytes),
    }
}

/// How much CPU time pods may save up here.
fn cpu_burst(invocation: &Invocation, host: &HostFacts) -> CpuBurst {
    match u8::try_from(invocation.flags.cpu_burst_max_percent) {
        Err(_) | Ok(0) => CpuBurst::Off,
        Ok(_) if host.cgroup_version == CgroupVersion::V1 => CpuBurst::CgroupV1,
        Ok(_) if !is_kernel(&host.kernel_release, CPU_BURST_KERNEL_MIN) => CpuBurst::OldKernel,
        Ok(percent) => CpuBurst::Percent(percent),
    }
}

/// The amounts that pods may use, as the Node says it.
fn allocatable(capacity: &CapacitySettings, host: &HostFacts, storage_bytes: Option<i64>) -> ResourceList {
    let hugepages = host.size.hugepages.clone();
    let machine =
        Machine { cpus: host.size.cpus, memory_bytes: host.size.memory_bytes, hugepages, ..Machine::default() };
    node_status::allocatable(capacity, &machine, storage_bytes)
}

/// The bytes of the memory that pods may ask for.
fn allocatable_memory(capacity: &CapacitySettings, host: &HostFacts) -> i64 {
    let whole = Quantity::from_units(host.size.memory_bytes, Format::BinarySi);
    let threshold = capacity.eviction_memory.map(|threshold| threshold.of(whole));
    let taken = capacity.reserved.get(MEMORY).copied().into_iter().chain(threshold);
    taken.fold(whole, |left, taken| left.minus(taken)).value()
}

fn resize(invocation: &Invocation) -> ResizeGates {
    let (config, gates) = (&invocation.config, &invocation.gates);
    ResizeGates {
        by_pod: gates.enabled("InPlacePodLevelResourcesVerticalScaling"),
        init_containers: gates.enabled("InPlacePodVerticalScalingInitContainers"),
        cpus_pinned: config.cpu_manager_policy == "static" && !gates.enabled("InPlacePodVerticalScalingExclusiveCPUs"),
        memory_pinned: config.memory_manager_policy == "Static"
            && !gates.enabled("InPlacePodVerticalScalingExclusiveMemory"),
    }
}

/// The limits of the cgroups above the pods' own.
fn node_cgroups(
    config: &Config,
    host: &HostFacts,
    settings: &CapacitySettings,
    storage_bytes: Option<i64>,
) -> Result<NodeCgroups, String> {
    let mut capacity = host.size.capacity();
    check_reservations(&capacity, settings, storage_bytes).map_err(|error| error.to_string())?;
    capacity.insert(PIDS.to_owned(), Quantity::from_units(host.pids_max, Format::DecimalSi));
    let [kube, system] = super::node::reservations(config)?;
    let reserved = ReservedCgroup::from_config(
        &config.enforce_node_allocatable,
        [&config.system_reserved_cgroup, &config.kube_reserved_cgroup],
        [&system, &kube],
    );
    Ok(NodeCgroups {
        capacity,
        cpus: (config.cpu_manager_policy != "static").then(|| host.size.cpu_list.clone()),
        reservations: [kube, system],
        enforce_pods: config.enforce_node_allocatable.iter().any(|one| one == "pods"),
        qos_reserved: None,
        reserved,
    })
}

/// Checked at the start: memory alone, and a whole percentage.
fn qos_reserved(invocation: &Invocation) -> Option<i64> {
    let share = invocation.config.qos_reserved.get(MEMORY).filter(|_| invocation.gates.enabled("QOSReserved"))?;
    share.strip_suffix('%')?.parse().ok()
}

/// As upstream, the hard thresholds of eviction count as reservations, and process numbers do not (RES-17).
fn check_reservations(
    capacity: &ResourceList,
    settings: &CapacitySettings,
    storage_bytes: Option<i64>,
) -> Result<(), TooMuchReserved> {
    let mut capacity = capacity.clone();
    if let Some(bytes) = storage_bytes.filter(|_| settings.local_storage) {
        capacity.insert(EPHEMERAL_STORAGE.to_owned(), Quantity::from_units(bytes, Format::BinarySi));
    }
    let mut reservation = settings.reserved.clone();
    for (name, threshold) in [(MEMORY, settings.eviction_memory), (EPHEMERAL_STORAGE, settings.eviction_storage)] {
        if let (Some(all), Some(threshold)) = (capacity.get(name), threshold) {
            let sum = reservation.entry(name.to_owned()).or_default();
            *sum = threshold.of(*all).plus(*sum);
        }
    }
    TooMuchReserved::check(&capacity, &reservation)
}

/// Exec, attach, port forward, checkpoints.
fn streams(invocation: &Invocation, root_dir: &Path) -> StreamSettings {
    let (config, gates, flags) = (&invocation.config, &invocation.gates, &invocation.flags);
    StreamSettings {
        websockets_end_here: gates.enabled("ExtendWebSocketsToKubelet"),
        idle_max: config.streaming_connection_idle_timeout.to_std(),
        origins: (!flags.stream_origins.is_empty()).then(|| flags.stream_origins.clone()),
        get_needs_create: flags.stream_get_needs_create,
        checkpoints_max: usize::try_from(flags.checkpoints_max).ok().filter(|most| *most > 0),
        checkpoints: gates.enabled("ContainerCheckpoint"),
        checkpoints_dir: root_dir.join("checkpoints").to_string_lossy().into_owned(),
        ..StreamSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Host, Startup, load};
    use crate::logic::resources::node_cgroups::MachineSize;
    use crate::logic::resources::portion::Portion;

    fn invocation(arguments: &[&str]) -> Box<Invocation> {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let loaded = load(&arguments, Host { cgroup_v1: false });
        let Ok(Startup::Run(invocation)) = loaded else { panic!("{loaded:?}") };
        invocation
    }

    /// CFG-23: a gate counts by its own name, by its group and by its default.
    #[test]
    fn gates_reach_the_settings_that_they_are_about() {
        let longest = Duration::from_secs(300);
        for (gates, expected) in [
            ("AllAlpha=true", BackoffPolicy::reduced_crash_loop(longest)),
            ("ReduceDefaultCrashLoopBackOffDecay=true", BackoffPolicy::reduced_crash_loop(longest)),
            ("AllAlpha=true,ReduceDefaultCrashLoopBackOffDecay=false", BackoffPolicy::crash_loop(longest)),
            ("MemoryQoS=true", BackoffPolicy::crash_loop(longest)),
        ] {
            assert_eq!(crash_loop(&invocation(&["--feature-gates", gates])), expected, "{gates}");
        }
        for (gates, from_runtime) in [("PodAndContainerStatsFromCRI=true", true), ("KubeletPSI=true", false)] {
            let settings = statistics(&invocation(&["--feature-gates", gates]));
            assert_eq!(settings.from_runtime, from_runtime, "{gates}");
        }
        for (gates, ignores) in [("HostnameOverride=false", true), ("HostnameOverride=true", false)] {
            let invocation = invocation(&["--feature-gates", gates]);
            let host = crate::launch::host::facts(&invocation).expect("told");
            assert_eq!(dns(&invocation, &host).naming().ignores_override, ignores, "{gates}");
        }
        for (gates, expected) in [("MemoryQoS=true", true), ("PLEGOnDemandRelist=false", false)] {
            let runtime = runtime(&invocation(&["--feature-gates", gates]), String::new());
            assert_eq!(runtime.on_demand, expected, "{gates}");
        }
        for (gates, expected) in [("MemoryQoS=true", false), ("RuntimeClassInImageCriApi=true", true)] {
            let images = images(&invocation(&["--feature-gates", gates])).expect("good");
            assert_eq!(images.by_handler, expected, "{gates}");
        }
        for (gates, expected) in
            [("MemoryQoS=true", false), ("AllAlpha=true", true), ("UserNamespacesHostNetworkSupport=true", true)]
        {
            let sources = sources(&invocation(&["--feature-gates", gates])).expect("good");
            assert_eq!(sources.host_network_users, expected, "{gates}");
        }
        for (gates, expected) in [
            ("MemoryQoS=true", StatusGates::default()),
            (
                "ChangeContainerStatusOnKubeletRestart=true",
                StatusGates { restart_shows: true, ..StatusGates::default() },
            ),
            ("ImageVolumeWithDigest=true", StatusGates { image_references: true, ..StatusGates::default() }),
            (
                "PodReadyToStartContainersCondition=false",
                StatusGates { ready_to_start: false, ..StatusGates::default() },
            ),
        ] {
            assert_eq!(status_gates(&invocation(&["--feature-gates", gates])), expected, "{gates}");
        }
    }

    /// VOL-20: what is not named has a limit of none.
    #[test]
    fn all_pods_may_use_the_hosts_huge_pages() {
        let invocation = invocation(&[]);
        let host = crate::launch::host::facts(&invocation).expect("told");
        let hugepages = [(2 << 20, 8), (1 << 30, 0)].into();
        let size = MachineSize { cpu_list: "0-7".to_owned(), hugepages, ..host.size };
        let host = HostFacts { size, ..host };
        let node = node_cgroups(&invocation.config, &host, &CapacitySettings::default(), None).expect("good");
        let told = ["hugepages-2Mi", "hugepages-1Gi"].map(|name| node.capacity.get(name).map(ToString::to_string));
        assert_eq!(told, [Some("16Mi".to_owned()), Some("0".to_owned())]);
        assert_eq!(node.cpus, Some(host.size.cpu_list), "the policy `none` leaves every CPU to all");
        assert!(node.enforce_pods && node.reserved.is_empty());
    }

    /// RES-17.
    #[test]
    fn res_17_thresholds_count_as_reservations() {
        let gibibytes = |number: i64| Quantity::from_units(number << 30, Format::BinarySi);
        let capacity = ResourceList::from([(MEMORY.to_owned(), gibibytes(8))]);
        let settings = |memory: &str, storage: &str| CapacitySettings {
            local_storage: true,
            reserved: [(MEMORY.to_owned(), gibibytes(7)), (EPHEMERAL_STORAGE.to_owned(), gibibytes(9))].into(),
            eviction_memory: Portion::parse(memory),
            eviction_storage: Portion::parse(storage),
            ..CapacitySettings::default()
        };
        let check = |settings: &CapacitySettings, storage: i64| {
            check_reservations(&capacity, settings, Some(storage << 30)).map_err(|error| error.to_string())
        };
        assert_eq!(check(&settings("1Gi", "25%"), 12), Ok(()));
        let said = check(&settings("1048577Ki", "1Gi"), 9).expect_err("too much");
        let expected = "invalid Node Allocatable configuration. Resource \"ephemeral-storage\" has a reservation of 10Gi \
                        but capacity of 9Gi. Expected capacity >= reservation. Resource \"memory\" has a reservation of \
                        8388609Ki but capacity of 8Gi. Expected capacity >= reservation.";
        assert_eq!(said, expected);
        assert_eq!(check(&CapacitySettings { local_storage: false, ..settings("1Gi", "1Gi") }, 9), Ok(()));
    }
}
