//! Adapters to the kernel and the host: for each a trait, and its Linux form.
//!
//! They carry out and they report; they never decide. What they are told is computed in `logic`, what they meet comes
//! back as data or as a typed error. Blocking ones are called through [`blocking`].

pub mod beneath;
pub mod blocking;
pub mod certificates;
pub mod cgroup;
pub mod chance;
pub mod clock;
pub mod container_logs;
pub mod directories;
pub mod host;
pub mod http_exchange;
pub mod image_host;
pub mod kube_api;
pub mod lock_file;
pub mod manifests;
pub mod mount_table;
pub mod network_probe;
pub mod node_facts;
pub mod objects;
pub mod offline_store;
pub mod pod_files;
pub mod pod_keys;
pub mod process;
pub mod systemd;
pub mod tls;
pub mod volumes;
pub mod whole_file;
