//! A node that can run short: its thresholds, and how tests read what it says of that.

use std::time::Duration;

use podwright::actors::settings::Settings;
use podwright::logic::eviction::EvictionSettings;
use podwright::logic::eviction::signal::Signal;
use podwright::logic::eviction::threshold::Threshold;
use podwright::logic::resources::portion::Portion;
use podwright::sim::node::NODE_NAME;
use podwright::sim::{Options, World};
use serde_json::Value;

pub(super) const GIB: u64 = 1 << 30;
/// More than the longest wait between two looks, and the end of a pod.
pub(super) const A_ROUND: Duration = Duration::from_secs(20);

pub(super) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A hard threshold.
pub(super) fn hard(signal: Signal, value: &str) -> Threshold {
    let value = Portion::parse(value).expect("a value");
    Threshold { signal, value, grace: Duration::ZERO, reclaim_min: None }
}

/// The node has 8 GiB of memory, and evicts when less than 1 GiB of it is left. Of its disk and of its processes it is a
/// tenth, of its files a twentieth.
pub(super) fn watched(settings: &mut Settings) {
    settings.resources.eviction = EvictionSettings {
        node_name: NODE_NAME.to_owned(),
        thresholds: vec![
            hard(Signal::MemoryAvailable, "1Gi"),
            hard(Signal::NodeFsAvailable, "10%"),
            hard(Signal::NodeFsInodesFree, "5%"),
            hard(Signal::ImageFsAvailable, "10%"),
            hard(Signal::ImageFsInodesFree, "5%"),
            hard(Signal::PidAvailable, "10%"),
        ],
        transition: seconds(30),
        local_storage: true,
        ..EvictionSettings::default()
    };
}

pub(super) fn in_a_cluster(settings: fn(&mut Settings)) -> Options {
    Options { cluster: true, settings, ..Options::default() }
}

pub(super) fn status(world: &World, pod: &str) -> Value {
    world.api_pod(pod).map_or(Value::Null, |pod| pod["status"].clone())
}

pub(super) fn is_evicted(world: &World, pod: &str) -> bool {
    let status = status(world, pod);
    status["phase"] == "Failed" && status["reason"] == "Evicted"
}

/// The condition of the Node.
pub(super) fn condition(world: &World, kind: &str) -> String {
    let nodes = world.api().all("nodes");
    let conditions = nodes.iter().flat_map(|node| node["status"]["conditions"].as_array().into_iter().flatten());
    let found = conditions.into_iter().find(|condition| condition["type"] == kind);
    found.map_or_else(String::new, |condition| condition["status"].as_str().unwrap_or_default().to_owned())
}

pub(super) fn evictions(world: &World, pod: &str) -> usize {
    world.event_reasons(pod).iter().filter(|reason| *reason == "Evicted").count()
}
