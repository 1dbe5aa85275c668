//! `kubelet_node_startup_*`: how long the node took to become ready, read from `NodeStatus` at a scrape (NODE-62).

use std::time::Duration;

use prometheus::proto::MetricFamily;

use crate::actors::kit::trace::Cause;
use crate::logic::node::node_startup::StartupDurations;
use crate::messages::node::node_status::NodeStatusMsg;
use crate::telemetry::registry::families::Family;
use crate::telemetry::sources::Sources;

/// How long `NodeStatus` may be waited for; a scrape without its figures is better than none.
const ASK_LIMIT: Duration = Duration::from_secs(2);

/// The durations of the start; zeros before there are any, as upstream's gauges have it.
pub(in crate::telemetry) async fn families(sources: &Sources, families: &mut Vec<MetricFamily>) {
    let asked = sources.directory.node_status.ask(Cause::outside("request"), ASK_LIMIT, NodeStatusMsg::Startup).await;
    let told: StartupDurations = asked.unwrap_or_default();
    for (name, help, duration) in [
        ("pre_kubelet_duration", "Duration in seconds of node startup before kubelet starts.", told.pre_kubelet),
        (
            "pre_registration_duration",
            "Duration in seconds of node startup before registration.",
            told.pre_registration,
        ),
        ("registration_duration", "Duration in seconds of node startup during registration.", told.registration),
        (
            "post_registration_duration",
            "Duration in seconds of node startup after registration.",
            told.post_registration,
        ),
        ("duration", "Duration in seconds of node startup in total.", told.total),
    ] {
        let mut family = Family::gauge(&format!("kubelet_node_startup_{name}_seconds"), &format!("[ALPHA] {help}"));
        family.sample(&[], duration.unwrap_or_default().as_secs_f64());
        family.finish(families);
    }
}
