//! Settings of a node about which nothing is special.

use std::sync::Arc;
use std::time::Duration;

use crate::actors::settings::{
    LogSettings, ResourceSettings, RuntimeSettings, SecuritySettings, ServingSettings, Settings, StatisticsSettings,
};
use crate::logic::images::ImageSettings;
use crate::logic::images::image_garbage::ImageGcPolicy;
use crate::logic::images::image_records::VerificationPolicy;
use crate::logic::images::pull_queue::PullLimits;
use crate::logic::model::time::Moment;
use crate::logic::resources::cgroup_name::CgroupTree;
use crate::logic::resources::{NodeMemory, ResourceOptions};
use crate::logic::serving::StreamSettings;

/// All files are below `root_dir`.
pub(crate) fn settings(root_dir: &str) -> Settings {
    Settings {
        node_name: "n1".into(),
        agent_started: Moment::EPOCH,
        watchdog_period: None,
        node: Default::default(),
        pods: Default::default(),
        security: SecuritySettings { seccomp_root: format!("{root_dir}/seccomp"), ..SecuritySettings::default() },
        sources: Default::default(),
        change_detection: Default::default(),
        runtime: RuntimeSettings { evented: false, ..RuntimeSettings::default() },
        images: ImageSettings {
            pulls: PullLimits { parallel_max: Some(1), rate: None, burst: 0 },
            credential_providers: Arc::new([]),
            verification: VerificationPolicy::default(),
            gc: ImageGcPolicy { high_percent: 100, low_percent: 80, age_min: Duration::ZERO, age_max: None },
            gc_exempt: Default::default(),
            by_handler: false,
        },
        resources: ResourceSettings {
            cgroup_tree: CgroupTree::new("/", true).expect("a root"),
            node_cgroups: Default::default(),
            allocatable: Default::default(),
            options: ResourceOptions::default(),
            resize: Default::default(),
            node_memory: NodeMemory { capacity_bytes: 1 << 30 },
            hugepage_sizes: vec![],
            placement: Default::default(),
            eviction: Default::default(),
            managers: Default::default(),
            cpu_reconcile_period: Duration::from_secs(10),
            device_plugin_wait: Duration::ZERO,
            shows_device_health: true,
            claim_gates: Default::default(),
        },
        network: Default::default(),
        logs: LogSettings { folder: format!("{root_dir}/logs"), rotation: None },
        statistics: StatisticsSettings { pressure: true, ..StatisticsSettings::default() },
        serving: ServingSettings {
            logs: Default::default(),
            streams: StreamSettings { checkpoints_dir: format!("{root_dir}/checkpoints"), ..StreamSettings::default() },
        },
    }
}
