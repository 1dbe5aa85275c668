//! `kubelet_*resize*`: in-place resizes of pods, read at a scrape (OBS-08): counts from `AllocationManager`, what waits and
//! what is under way from the statuses.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::proto::MetricFamily;

use crate::actors::kit::trace::Cause;
use crate::logic::pods::pod_resize::{PENDING, PROGRESS};
use crate::messages::resources::allocation_manager::{AllocationManagerMsg, ResizeCounts};
use crate::messages::status::status_manager::{PodView, StatusManagerMsg};
use crate::telemetry::registry::families::{Family, MILLISECOND};
use crate::telemetry::sources::Sources;

/// How long either may be waited for; a scrape without its figures is better than none.
pub(super) const ASK_LIMIT: Duration = Duration::from_secs(2);

pub(in crate::telemetry) async fn families(sources: &Sources, families: &mut Vec<MetricFamily>) {
    let (cause, to) = (Cause::outside("request"), &sources.directory);
    let counts = to.allocation_manager.ask(cause.clone(), ASK_LIMIT, AllocationManagerMsg::Counts).await;
    let pods = to.status_manager.ask(cause, ASK_LIMIT, StatusManagerMsg::List).await;
    counted(&counts.unwrap_or_default(), families);
    under_way(&pods.unwrap_or_default(), families);
}

fn counted(counts: &ResizeCounts, families: &mut Vec<MetricFamily>) {
    let help = "[ALPHA] Number of requested resizes, counted at the container level. Different resources on the same \
                container are counted separately. The 'requirement' label refers to 'memory' or 'limits'; the \
                'operation' label can be one of 'add', 'remove', 'increase' or 'decrease'.";
    let mut family = Family::counter("kubelet_container_requested_resizes_total", help);
    for (operation, count) in &counts.requested {
        let labels = [
            ("operation", operation.operation),
            ("requirement", operation.requirement),
            ("resource", operation.resource),
        ];
        family.sample(&labels, *count as f64);
    }
    family.finish(families);
    let help = "[ALPHA] Number of infeasible resizes for pods.";
    let mut family = Family::counter("kubelet_pod_infeasible_resizes_total", help);
    for (detail, count) in &counts.infeasible {
        family.sample(&[("reason_detail", detail)], *count as f64);
    }
    family.finish(families);
    let help = "[ALPHA] Cumulative number of resizes that were accepted after being deferred.";
    let mut family = Family::counter("kubelet_pod_deferred_accepted_resizes_total", help);
    for (trigger, count) in &counts.deferred_accepted {
        family.sample(&[("retry_trigger", trigger.into())], *count as f64);
    }
    family.finish(families);
    let help = "[ALPHA] Duration in milliseconds to actuate a pod resize";
    let mut family = Family::histogram("kubelet_pod_resize_duration_milliseconds", help);
    for (success, lengths) in &counts.lengths {
        let label = if *success { "true" } else { "false" };
        family.distribution(&[("success", label)], lengths, MILLISECOND);
    }
    family.finish(families);
}

fn under_way(pods: &[PodView], families: &mut Vec<MetricFamily>) {
    let conditions = |kind: &'static str| {
        let all = pods.iter().flat_map(|view| view.status.conditions.iter().flatten());
        all.filter(move |condition| condition.type_ == kind)
    };
    let mut waiting: BTreeMap<String, usize> = BTreeMap::new();
    for condition in conditions(PENDING) {
        let reason = condition.reason.as_deref().unwrap_or_default().to_lowercase();
        *waiting.entry(reason).or_default() += 1;
    }
    let mut family = Family::gauge("kubelet_pod_pending_resizes", "[ALPHA] Number of pending resizes for pods.");
    for (reason, count) in &waiting {
        family.sample(&[("reason", reason)], *count as f64);
    }
    family.finish(families);
    let help = "[ALPHA] Number of in-progress resizes for pods.";
    let mut family = Family::gauge("kubelet_pod_in_progress_resizes", help);
    family.sample(&[], conditions(PROGRESS).count() as f64);
    family.finish(families);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::logic::model::ids::PodUid;
    use crate::logic::pods::pod_resize::{Operation, Trigger};
    use crate::messages::resources::allocation_manager::ResizeCount;

    /// OBS-08.
    #[test]
    fn resizes_are_counted_under_upstreams_names() {
        let mut counts = ResizeCounts::default();
        let operation = Operation { resource: "cpu", requirement: "limits", operation: "increase" };
        for count in [
            ResizeCount::Requested(operation),
            ResizeCount::Requested(operation),
            ResizeCount::Infeasible("swap_limitation"),
            ResizeCount::DeferredAccepted(Trigger::PodsRemoved),
            ResizeCount::Actuated { success: true, took: Duration::from_millis(60) },
            ResizeCount::Actuated { success: false, took: Duration::from_secs(3600) },
        ] {
            counts.add(count);
        }
        let condition = |kind: &str, reason: &str| json!({ "type": kind, "status": "True", "reason": reason });
        let view = PodView {
            uid: PodUid::from("u"),
            pod: Arc::default(),
            status: Arc::new(
                serde_json::from_value(json!({ "conditions": [
                    condition(PENDING, "Deferred"), condition(PROGRESS, ""),
                ] }))
                .expect("a status"),
            ),
            may_run: true,
            is_over: false,
            waiting: Arc::default(),
        };
        let mut families = vec![];
        counted(&counts, &mut families);
        under_way(&[view], &mut families);
        let text = crate::telemetry::registry::exposition::Exposition::new(families).text();
        for line in [
            "kubelet_container_requested_resizes_total{operation=\"increase\",requirement=\"limits\",resource=\"cpu\"} 2",
            "kubelet_pod_infeasible_resizes_total{reason_detail=\"swap_limitation\"} 1",
            "kubelet_pod_deferred_accepted_resizes_total{retry_trigger=\"pods_removed\"} 1",
            "kubelet_pod_resize_duration_milliseconds_bucket{success=\"true\",le=\"50\"} 0",
            "kubelet_pod_resize_duration_milliseconds_bucket{success=\"true\",le=\"100\"} 1",
            "kubelet_pod_resize_duration_milliseconds_bucket{success=\"false\",le=\"600000\"} 0",
            "kubelet_pod_resize_duration_milliseconds_count{success=\"false\"} 1",
            "kubelet_pod_resize_duration_milliseconds_sum{success=\"true\"} 60",
            "kubelet_pod_pending_resizes{reason=\"deferred\"} 1",
            "kubelet_pod_in_progress_resizes 1",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} in\n{text}");
        }
    }
}
