//! Network: sockets, names, TLS, HTTP requests, probes, streams of the runtime; interfaces and packet filter rules of the host.

pub mod grpc_authority;
pub mod grpc_socket;
pub mod http_exchange;
pub mod listening;
pub mod names;
pub mod network_probe;
pub mod network_rules;
pub mod runtime_stream;
pub mod socket_peer;
pub mod tls;
pub mod tls_server;
