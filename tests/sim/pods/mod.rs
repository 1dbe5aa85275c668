//! Pods: their lives, from what starts them to what is left of them.

pub(super) mod containers;
pub(super) mod ends;
pub(super) mod hooks;
pub(super) mod leftovers;
pub(super) mod lifecycle;
pub(super) mod many_pods;
pub(super) mod resize;
pub(super) mod resize_parts;
pub(super) mod starting;
pub(super) mod user_namespaces;
pub(super) mod volumes;
