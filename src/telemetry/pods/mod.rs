//! Pods: how many there are, how long they take to start, what is tried for them, their hardware, probes, resizes and
//! volumes.

pub(super) mod attempt_metrics;
pub(super) mod claim_metrics;
mod device_metrics;
pub(super) mod hardware_metrics;
mod label_metrics;
pub(super) mod pod_gauges;
pub(super) mod pod_metrics;
pub(super) mod probe_metrics;
pub(super) mod resize_metrics;
mod sacrifice_metrics;
pub(super) mod start_metrics;
pub(super) mod volume_metrics;
