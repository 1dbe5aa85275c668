//! Adapters to the kernel and the host: a trait each, and its Linux form. They carry out; they never decide.

pub mod beneath;
pub mod blocking;
pub mod clock;
pub mod directories;
pub mod host;
pub mod http_exchange;
pub mod http_probe;
pub mod lock_file;
pub mod manifests;
pub mod pod_files;
pub mod process;
pub mod systemd;
pub mod tls;
