//! Where pods are wanted from. Each source tells `PodManager` complete sets, never differences.

pub mod api;
pub mod file;
pub mod http;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::model::time::Moment;

/// When a pod was first seen here (POD-05).
const SEEN: &str = "kubernetes.io/config.seen";

/// Adds when the pod was first seen: now, or as `before` says, if that is the same pod. Done where the pod is made, so
/// that it is held once.
fn mark_seen(pod: &mut Pod, before: Option<&Pod>, now: Moment) {
    let known = before.filter(|before| before.metadata.uid == pod.metadata.uid);
    let seen = known.and_then(|before| before.metadata.annotations.as_ref()?.get(SEEN).cloned());
    let now = || jiff::Timestamp::from_nanosecond(i128::from(now.0)).unwrap_or_default().to_string();
    pod.metadata.annotations.get_or_insert_default().insert(SEEN.to_owned(), seen.unwrap_or_else(now));
}

/// When the agent first saw the pod, as it is noted on the pod.
pub(super) fn first_seen(pod: &Pod) -> Option<Moment> {
    let seen = pod.metadata.annotations.as_ref()?.get(SEEN)?;
    Some(Moment::from_timestamp(seen.parse().ok()?))
}
