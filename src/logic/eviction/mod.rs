//! Eviction: which pods end so that the node stays alive, and when (EVI-01 to EVI-50; upstream's `pkg/kubelet/eviction`).
//!
//! [`threshold`] is what the configuration asks for, and [`layout`] says which file systems there are. [`monitor`] compares
//! observations with the thresholds, and [`watch`] holds both together. [`ranking`] orders the candidates, [`message`] words
//! an eviction. [`leaving`] has the next one wait for the end of the last pod, [`aftermath`] for space that is on its way
//! back. [`oom_kill`] reads of kills that came before any eviction. [`storage_limits`] finds pods beyond their own limits
//! of local storage. New pods are judged in
//! `pods::pod_admission`.
//!
//! May import `formats`, `model`, `resources`, `node` and `statistics`.

pub mod aftermath;
pub mod alarm;
pub mod layout;
pub mod leaving;
pub mod message;
pub mod monitor;
pub mod oom_kill;
pub mod pace;
pub mod ranking;
pub mod record;
pub mod signal;
pub mod storage_limits;
#[cfg(test)]
mod testing;
pub mod threshold;
pub mod usage;
pub mod watch;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

/// The grace period of a pod that a hard threshold or a limit of its own ends.
pub const GRACE_IMMEDIATE: Duration = Duration::from_secs(1);

/// An eviction: which pod ends, how soon, and what its status and its Event say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// How long its containers have to end.
    pub grace: Duration,
    /// Whether a hard threshold or a limit of the pod's own is the cause: the pod cannot be given less time.
    pub is_hard: bool,
    /// The status's and the Event's sentence.
    pub message: String,
    /// The Event's annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whether the status gets the condition `DisruptionTarget`: for pressure of the node, not for a limit of the pod's own.
    pub is_disruption: bool,
    /// The metric's `eviction_signal`.
    pub signal: &'static str,
}

/// The grace period of a pod that a soft threshold ends: `evictionMaxPodGracePeriod`, or the pod's own where that is less.
pub fn soft_grace(pod: &Pod, grace_max: Duration) -> Duration {
    let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    own.map_or(grace_max, |seconds| grace_max.min(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))))
}

/// The configuration of eviction. Units are in the types.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvictionSettings {
    /// The node's name, for its Events.
    pub node_name: String,
    /// The thresholds, before those of `containerfs` are derived.
    pub thresholds: Vec<threshold::Threshold>,
    /// `evictionPressureTransitionPeriod`.
    pub transition: Duration,
    /// `evictionMaxPodGracePeriod`.
    pub soft_grace_max: Duration,
    /// `localStorageCapacityIsolation`: whether pods are held to their limits of local storage.
    pub local_storage: bool,
    /// Gate `PodLevelResources`.
    pub pod_level_resources: bool,
    /// Gate `KubeletSeparateDiskGC` is off: images and writable layers may not lie apart.
    pub refuses_split: bool,
    /// The figure that counts as available memory.
    pub memory: signal::MemoryBasis,
}
