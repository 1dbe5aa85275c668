//! Decisions, and nothing else: every function here is a plain computation over plain data.
//!
//! No async, clock, I/O, randomness, actors or gRPC. A decision that needs the time takes a [`time::Moment`].

pub mod backoff;
pub mod cgroup_name;
pub mod container_actions;
pub mod container_garbage;
pub mod container_hash;
pub mod dns;
pub mod dns_label;
pub mod environment;
pub mod expansion;
pub mod field_path;
pub mod go_text;
pub mod hostname;
pub mod hosts_file;
pub mod ids;
pub mod image_credentials;
pub mod image_name;
pub mod image_policy;
pub mod log_path;
pub mod manifest;
pub mod node_lease;
pub mod node_object;
pub mod node_registration;
pub mod node_status;
pub mod object_cache;
pub mod object_references;
pub mod path_segment;
pub mod pleg_diff;
pub mod pod_lifecycle;
pub mod pod_roster;
pub mod pod_status;
pub mod probe_schedule;
pub mod probe_target;
pub mod pull_queue;
pub mod quantity;
pub mod resources;
pub mod restart_budget;
pub mod restart_policy;
pub mod runtime_health;
pub mod runtime_pod;
pub mod service_environment;
pub mod time;
pub mod volume_states;
pub mod volumes;
pub mod yaml;
