//! Logs: klog's text or JSON, which lines are written, and how.

pub(super) mod log_filter;
pub(super) mod log_layer;
pub(super) mod log_writer;
