//! Pods: manifests, and the files that the agent keeps of a pod. Volumes, logs and cgroups have folders of their own.

pub mod checkpoint_archives;
pub mod local_objects;
pub mod manifests;
pub mod pod_end_store;
pub mod pod_files;
pub mod pod_keys;
pub mod probe_store;
pub mod subordinate_ids;
pub mod user_namespace_files;
