//! Adapters to the kernel and the host: for each a trait, and its Linux form.
//!
//! They carry out and they report; they never decide. What they are told is computed in `logic`, what they meet comes
//! back as data or as a typed error. Blocking ones are called through [`blocking`].

pub mod access_review;
pub mod beneath;
pub mod blocking;
pub mod certificates;
pub mod cgroup;
pub mod chance;
pub mod checkpoint_archives;
pub mod checkpoints;
pub mod clock;
pub mod container_logs;
pub mod directories;
pub mod host;
pub mod http_exchange;
pub mod image_host;
pub mod kernel_tunables;
pub mod kube_api;
pub mod listening;
pub mod lock_file;
pub mod log_reader;
pub mod manifests;
pub mod mount_table;
pub mod network_interfaces;
pub mod network_probe;
pub mod network_rules;
pub mod node_facts;
pub mod node_logs;
pub mod objects;
pub mod observer;
pub mod offline_store;
#[cfg(test)]
pub(crate) mod played_program;
pub mod pod_files;
pub mod pod_keys;
pub mod probe_store;
pub mod process;
pub mod process_placement;
pub mod program;
pub mod runtime_stream;
pub mod socket_peer;
pub mod statistics;
pub mod systemd;
pub mod tls;
pub mod tls_server;
pub mod volumes;
pub mod whole_file;
