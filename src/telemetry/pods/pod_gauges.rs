//! Gauges of pods and volumes (POD-39): how many there are now, asked of their actors at a scrape.

use prometheus::proto::MetricFamily;

use crate::logic::pods::pod_manager::pod_census::PodCensus;
use crate::messages::pods::pod_manager::{PodManagerMsg, PodQuestion};
use crate::messages::volume_manager::{VolumeCensus, VolumeManagerMsg};
use crate::telemetry::registry::families::Family;
use crate::telemetry::registry::scrape::{ASK_LIMIT, SCRAPE};
use crate::telemetry::sources::Sources;

/// The gauges of actors; nothing of one that does not answer.
pub(in crate::telemetry) async fn families(sources: &Sources, families: &mut Vec<MetricFamily>) {
    let to = &sources.directory;
    let (pods, volumes) = tokio::join!(
        to.pod_manager.ask(SCRAPE, ASK_LIMIT, |reply| PodManagerMsg::Question(PodQuestion::Count(reply))),
        to.volume_manager.ask(SCRAPE, ASK_LIMIT, VolumeManagerMsg::Count),
    );
    if let Ok(census) = pods {
        pod_families(&census, sources.has_api_server, families);
    }
    if let Ok(census) = volumes {
        volume_families(&census, families);
    }
    if let Some(host) = &sources.image_records {
        let (intents, records) = host.count_records().await;
        image_families(intents, records, families);
    }
}

fn gauge(name: &str, help: &str, value: usize, families: &mut Vec<MetricFamily>) {
    let mut family = Family::gauge(name, help);
    family.sample(&[], value as f64);
    family.finish(families);
}

/// `static` is `true` or empty.
fn by_origin(name: &str, help: &str, others: usize, statics: usize, families: &mut Vec<MetricFamily>) {
    let mut family = Family::gauge(name, help);
    family.sample(&[("static", "")], others as f64);
    family.sample(&[("static", "true")], statics as f64);
    family.finish(families);
}

fn pod_families(census: &PodCensus, with_api: bool, families: &mut Vec<MetricFamily>) {
    by_origin(
        "kubelet_desired_pods",
        "[ALPHA] The number of pods the kubelet is being instructed to run. static is true if the pod is not from the \
         apiserver.",
        census.desired.others,
        census.desired.statics,
        families,
    );
    by_origin(
        "kubelet_active_pods",
        "[ALPHA] The number of pods the kubelet considers active and which are being considered when admitting new pods. \
         static is true if the pod is not from the apiserver.",
        census.active.others,
        census.active.statics,
        families,
    );
    let mirrors = if with_api { census.active.statics } else { 0 };
    let help = "[ALPHA] The number of mirror pods the kubelet will try to create (one per admitted static pod)";
    gauge("kubelet_mirror_pods", help, mirrors, families);
    let help = "[ALPHA] Current number of ephemeral containers in pods managed by this kubelet.";
    gauge("kubelet_managed_ephemeral_containers", help, census.ephemeral_containers, families);
    let help = "[ALPHA] Number of pods the kubelet is actually running, broken down by lifecycle phase, whether the pod is \
                desired, orphaned, or runtime only (also orphaned), and whether the pod is static. An orphaned pod has been \
                removed from local configuration or force deleted in the API and consumes resources that are not otherwise \
                visible.";
    let mut family = Family::gauge("kubelet_working_pods", help);
    for (labels, count) in census.working() {
        let [config, lifecycle, is_static] = labels;
        family.sample(&[("config", config), ("lifecycle", lifecycle), ("static", is_static)], count as f64);
    }
    family.finish(families);
}

fn volume_families(census: &VolumeCensus, families: &mut Vec<MetricFamily>) {
    let mut family = Family::gauge("volume_manager_total_volumes", "[ALPHA] Number of volumes in Volume Manager");
    for (state, counts) in [("actual_state_of_world", &census.actual), ("desired_state_of_world", &census.desired)] {
        for (plugin, count) in counts {
            family.sample(&[("plugin_name", plugin), ("state", state)], *count as f64);
        }
    }
    family.finish(families);
}

fn image_families(intents: usize, records: usize, families: &mut Vec<MetricFamily>) {
    let help = "[ALPHA] Number of ImagePullIntents stored on disk.";
    gauge("kubelet_imagemanager_ondisk_pullintents", help, intents, families);
    let help = "[ALPHA] Number of ImagePulledRecords stored on disk.";
    gauge("kubelet_imagemanager_ondisk_pulledrecords", help, records, families);
}
