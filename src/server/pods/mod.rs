//! Pods: what is said of them, and what may be asked of them.

pub(super) mod demands;
pub(super) mod explain;
pub(super) mod pod_list;
pub(super) mod ps_watch;
