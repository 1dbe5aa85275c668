//! Listening sockets and what they answer: parse, ask an actor or the trace, print. No decisions.
//!
//! * [`HealthzListener`]: `/healthz` on localhost, without authentication.
//! * [`ReadOnlyListener`]: `/healthz`, `/pods`, `/metrics` on `readOnlyPort`, without authentication.
//! * [`secure::SecureListener`]: everything, on 10250, with TLS, authentication and authorization.
//! * [`LocalSocket`]: all of these, and what changes a pod (`/restart/`, `/reset-back-off/`), on a Unix socket for root
//!   alone. The command line reads it.
//! * [`rpc::RpcListener`]: PodResources and the Pods API, gRPC on Unix sockets below the root directory.
//!
//! All are bounded in connections, time and size, and end with the actor `Server` that started them.
//!
//! ```no_run
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use podwright::actors::server::Listener;
//! use podwright::server::{Backend, HealthzListener, LocalSocket, ReadOnlyListener};
//!
//! # fn wire(backend: &Arc<Backend>) -> std::io::Result<Vec<Arc<dyn Listener>>> {
//! let socket = Path::new("/var/lib/kubelet").join(LocalSocket::NAME);
//! let listeners: Vec<Arc<dyn Listener>> = vec![
//!     Arc::new(HealthzListener::new(([127, 0, 0, 1], 10248).into(), backend)), // unless healthzPort is 0
//!     Arc::new(ReadOnlyListener::bind(([0, 0, 0, 0], 10255).into(), backend)?), // unless readOnlyPort is 0
//!     Arc::new(LocalSocket::new(socket, backend)),
//! ];
//! # Ok(listeners)
//! # }
//! ```

mod backend;
mod caller;
mod listeners;
mod listening;
mod logs;
mod node;
mod pods;
mod reply;
mod routes;
pub mod rpc;
pub mod secure;
mod sources;
mod statistics;
mod streams;
pub mod views;

#[cfg(test)]
pub(crate) mod tests;

pub use backend::Backend;
pub use backend::Pages;
pub use backend::ShownConfig;
pub use backend::open_streams::Streams;
pub use listeners::{HealthzListener, LocalSocket, ReadOnlyListener};
