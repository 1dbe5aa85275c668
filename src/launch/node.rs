//! From the configuration to what is said of the Node object and its Lease.

use std::collections::BTreeMap;
use std::time::Duration;

use super::host::HostFacts;
use crate::actors::settings::NodeSettings;
use crate::config::version::KUBERNETES_VERSION;
use crate::config::{Config, GoDuration, Invocation};
use crate::logic::formats::cpu_list::CpuList;
use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::network::node_addresses::AddressSettings;
use crate::logic::node::node_object::{NodeIdentity, go_architecture};
use crate::logic::node::node_status::{CapacitySettings, DECLARED_FEATURES, StatusSettings};
use crate::logic::node::shutdown::{ShutdownPeriod, ShutdownSettings, two_periods};
use crate::logic::resources::portion::Portion;
use crate::logic::resources::{CPU, ResourceList};

/// The parts of the Node object that come from the configuration.
///
/// # Errors
/// When a value cannot be used; the text names the field.
pub(super) fn settings(
    invocation: &Invocation,
    host: &HostFacts,
    node_name: &str,
    runtime_name: &str,
) -> Result<NodeSettings, String> {
    let (config, flags) = (&invocation.config, &invocation.flags);
    let external_cloud_provider = flags.cloud_provider == "external";
    let architecture = go_architecture(std::env::consts::ARCH).to_owned();
    let taints = config.register_with_taints.iter();
    let [update_period, report_period] = periods(config)?;
    let version = if flags.version.starts_with('v') { &*flags.version } else { KUBERNETES_VERSION };
    Ok(NodeSettings {
        identity: NodeIdentity {
            name: node_name.to_owned(),
            labels: flags.node_labels.clone(),
            taints: taints.map(|taint| (taint.key.clone(), taint.value.clone(), taint.effect.clone())).collect(),
            provider_id: config.provider_id.clone(),
            controller_attach_detach: config.enable_controller_attach_detach,
            external_cloud_provider,
            architecture: architecture.clone(),
        },
        status: StatusSettings {
            addresses: AddressSettings {
                hostname: node_name.to_owned(),
                node_ips: host.node_ips.clone(),
                external_cloud_provider,
                standalone: flags.kubeconfig.is_empty(),
            },
            capacity: capacity(invocation)?,
            runtime_name: runtime_name.to_owned(),
            kubelet_version: version.to_owned(),
            architecture,
            port: config.port,
            images_max: config.node_status_max_images,
            declared_features: declared_features(invocation),
        },
        register: config.register_node,
        read_on_exists_only: invocation.gates.enabled("KubeletRegistrationGetOnExistsOnly"),
        update_period,
        report_period,
        lease_seconds: config.node_lease_duration_seconds,
        names_alone_serve: invocation.gates.enabled("AllowDNSOnlyNodeCSR"),
        booted: host.booted,
        size: Some(host.size.clone()),
        follows_size: invocation.flags.follow_machine_size,
        devices_lost: host.devices_lost,
        memory_may_be_swapped: host.memory_may_be_swapped,
        pod_cidr: config.pod_cidr.clone(),
        shutdown: shutdown(invocation, node_name),
    })
}

/// How often the status is made, and how often it is sent although nothing changed.
pub(super) fn periods(config: &Config) -> Result<[Duration; 2], String> {
    Ok([
        positive("nodeStatusUpdateFrequency", config.node_status_update_frequency)?,
        positive("nodeStatusReportFrequency", config.node_status_report_frequency)?,
    ])
}

/// Periods by priority take the place of the total and its part (NODE-42); without a gate there are none.
fn shutdown(invocation: &Invocation, node_name: &str) -> ShutdownSettings {
    let (config, gates) = (&invocation.config, &invocation.gates);
    let keeps_times = gates.enabled("GracefulNodeShutdownBasedOnPodPriority");
    let by_priority = config.shutdown_grace_period_by_pod_priority.iter().filter(|_| keeps_times);
    let mut periods: Vec<ShutdownPeriod> = by_priority
        .map(|one| ShutdownPeriod {
            priority: one.priority,
            period: Duration::from_secs(u64::try_from(one.shutdown_grace_period_seconds).unwrap_or(0)),
        })
        .collect();
    periods.sort_by_key(|one| one.priority);
    if periods.is_empty() {
        let (total, critical) = (config.shutdown_grace_period, config.shutdown_grace_period_critical_pods);
        periods = two_periods(total.to_std(), critical.to_std());
    }
    if !gates.enabled("GracefulNodeShutdown") {
        periods.clear();
    }
    ShutdownSettings { node_name: node_name.to_owned(), periods, keeps_times }
}

fn positive(field: &str, value: GoDuration) -> Result<std::time::Duration, String> {
    let period = value.to_std();
    if period.is_zero() { Err(format!("invalid {field} {value}: must be more than 0")) } else { Ok(period) }
}

fn capacity(invocation: &Invocation) -> Result<CapacitySettings, String> {
    let config = &invocation.config;
    let threshold = |signal: &str| {
        let text = config.eviction_hard.get(signal).filter(|_| !invocation.flags.allocatable_ignores_eviction);
        text.and_then(|text| Portion::parse(text))
    };
    Ok(CapacitySettings {
        max_pods: i64::from(config.max_pods),
        pods_per_core: i64::from(config.pods_per_core),
        local_storage: config.local_storage_capacity_isolation,
        reserved: reserved(config)?,
        eviction_memory: threshold("memory.available"),
        eviction_storage: threshold("nodefs.available"),
    })
}

fn reserved(config: &Config) -> Result<ResourceList, String> {
    let mut sum = ResourceList::new();
    for (name, amount) in reservations(config)?.into_iter().flatten() {
        let total = sum.entry(name).or_default();
        *total = total.plus(amount);
    }
    Ok(sum)
}

/// The reservations for the agent, and for the system. CPUs that are kept by their numbers take the place of any amount of
/// CPU, and count as the system's (NODE-16).
///
/// # Errors
/// When an amount cannot be read; the text names the field.
pub(super) fn reservations(config: &Config) -> Result<[ResourceList; 2], String> {
    let read = |field: &str, amounts: &BTreeMap<String, String>| {
        let parse = |(name, text): (&String, &String)| {
            let amount = Quantity::parse(text).map_err(|error| format!("{field}.{name} {text:?}: {error}"))?;
            Ok((name.clone(), amount))
        };
        amounts.iter().map(parse).collect::<Result<ResourceList, String>>()
    };
    let mut kube = read("kubeReserved", &config.kube_reserved)?;
    let mut system = read("systemReserved", &config.system_reserved)?;
    if let Some(cpus) = CpuList::parse(&config.reserved_system_cpus) {
        kube.remove(CPU);
        let count = i64::try_from(cpus.count()).unwrap_or(i64::MAX);
        system.insert(CPU.to_owned(), Quantity::from_units(count, Format::DecimalSi));
    }
    Ok([kube, system])
}

/// To declare a feature has the cluster rely on it. The runtime's part in one of them is looked at later.
fn declared_features(invocation: &Invocation) -> Option<Vec<String>> {
    let on = |name: &&&str| invocation.gates.enabled(name);
    let names = DECLARED_FEATURES.iter().filter(on).map(|name| (*name).to_owned()).collect();
    invocation.gates.enabled("NodeDeclaredFeatures").then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Host, Startup, load};

    fn settings_of(arguments: &[&str]) -> NodeSettings {
        let arguments: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
        let loaded = load(&arguments, Host { cgroup_v1: false });
        let Ok(Startup::Run(invocation)) = loaded else { panic!("{loaded:?}") };
        let host = crate::launch::host::facts(&invocation).expect("told");
        settings(&invocation, &host, "node-1", "containerd").expect("good")
    }

    /// NODE-27.
    #[test]
    fn defaults_are_upstreams() {
        let settings = settings_of(&[]);
        let status = &settings.status;
        assert!(settings.register && settings.identity.controller_attach_detach);
        assert_eq!((settings.update_period, settings.lease_seconds), (Duration::from_secs(10), 40));
        assert_eq!(settings.report_period, Duration::from_secs(300));
        assert_eq!(settings.heartbeat_limit(), Duration::from_secs(10));
        assert_eq!((status.port, status.images_max, status.capacity.max_pods), (10250, 50, 110));
        assert_eq!(status.kubelet_version, KUBERNETES_VERSION);
        assert_eq!(status.capacity.eviction_memory, None, "thresholds have defaults in a configuration file alone");
        let declared = [
            "ExtendWebSocketsToKubelet",
            "InPlacePodLevelResourcesVerticalScaling",
            "InPlacePodVerticalScalingInitContainers",
            "RestartAllContainersOnContainerExits",
        ];
        assert_eq!(status.declared_features, Some(declared.map(str::to_owned).to_vec()));
        let all = settings_of(&["--feature-gates=UserNamespacesHostNetworkSupport=true"]).status.declared_features;
        assert_eq!(all, Some(DECLARED_FEATURES.iter().map(|name| (*name).to_owned()).collect()));
    }

    /// CFG-43.
    #[test]
    fn flags_are_told() {
        let settings = settings_of(&[
            "--node-labels=zone=a",
            "--cloud-provider=external",
            "--provider-id=cloud://1",
            "--register-with-taints=a=b:NoSchedule",
            "--register-node=false",
            "--kube-reserved=cpu=100m",
            "--system-reserved=cpu=200m,memory=1Gi",
            "--enable-controller-attach-detach=false",
            "--feature-gates=NodeDeclaredFeatures=false,ExtendWebSocketsToKubelet=false,\
             InPlacePodLevelResourcesVerticalScaling=false,InPlacePodVerticalScalingInitContainers=false,\
             RestartAllContainersOnContainerExits=false",
        ]);
        let identity = &settings.identity;
        assert!(identity.external_cloud_provider && settings.status.addresses.external_cloud_provider);
        assert_eq!((identity.labels["zone"].as_str(), identity.provider_id.as_str()), ("a", "cloud://1"));
        assert_eq!(identity.taints, [("a".to_owned(), "b".to_owned(), "NoSchedule".to_owned())]);
        assert!(!settings.register && !identity.controller_attach_detach);
        let capacity = &settings.status.capacity;
        assert_eq!(capacity.reserved["cpu"], Quantity::from_milli(300));
        assert_eq!(settings.status.declared_features, None);
    }

    /// NODE-42.
    #[test]
    fn node_42_the_periods_of_a_shutdown_follow_settings_and_gates() {
        let of = |lines: &str| {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("config.yaml");
            let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
            std::fs::write(&file, format!("{head}{lines}")).expect("written");
            let shutdown = settings_of(&[&format!("--config={}", file.display())]).shutdown;
            let periods: Vec<_> = shutdown.periods.iter().map(|one| (one.priority, one.period.as_secs())).collect();
            (periods, shutdown.keeps_times)
        };
        let pair = "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n";
        assert_eq!(of(""), (vec![], true));
        assert_eq!(of(pair), (vec![(0, 20), (2_000_000_000, 10)], true));
        let listed = "shutdownGracePeriodByPodPriority:\n- {priority: 1000, shutdownGracePeriodSeconds: 5}\n\
                      - {priority: -1, shutdownGracePeriodSeconds: 7}\n";
        assert_eq!(of(listed), (vec![(-1, 7), (1000, 5)], true), "in their order");
        let without = "featureGates: {GracefulNodeShutdownBasedOnPodPriority: false}\n";
        assert_eq!(of(&format!("{pair}{without}")), (vec![(0, 20), (2_000_000_000, 10)], false));
    }

    /// NODE-16, CFG-45.
    #[test]
    fn cpus_kept_by_their_numbers_take_the_place_of_reserved_amounts() {
        let settings = settings_of(&[
            "--kube-reserved=cpu=100m,memory=1Gi",
            "--system-reserved=cpu=200m",
            "--reserved-cpus=0-1,1,3",
        ]);
        let reserved = &settings.status.capacity.reserved;
        assert_eq!(reserved["cpu"], Quantity::from_units(3, Format::DecimalSi));
        assert_eq!(reserved["memory"], Quantity::parse("1Gi").expect("good"));
    }

    #[test]
    fn hard_thresholds_count_unless_they_are_to_be_left_out() {
        let hard = "--eviction-hard=memory.available<100Mi,nodefs.available<10%";
        let capacity = settings_of(&[hard]).status.capacity;
        assert_eq!(capacity.eviction_memory, Portion::parse("100Mi"));
        assert_eq!(capacity.eviction_storage, Portion::parse("10%"));
        let without = settings_of(&[hard, "--experimental-allocatable-ignore-eviction"]).status.capacity;
        assert_eq!((without.eviction_memory, without.eviction_storage), (None, None));
    }
}
