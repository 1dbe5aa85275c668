//! The messages and clients of CRI v1 as `build.rs` makes them from `proto/runtime/v1/api.proto`.
//!
//! Only `convert` and `grpc` use them; the tests of the wire play a runtime with the server half.

#![allow(
    missing_docs,
    clippy::all,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "generated; the protocol's own comments are in the proto file"
)]

use std::fmt;

tonic::include_proto!("runtime.v1");

impl fmt::Debug for AuthConfig {
    /// The server's name alone: all else is a credential.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthConfig").field("server_address", &self.server_address).finish_non_exhaustive()
    }
}

impl fmt::Debug for KeyValue {
    /// The variable's name alone: its value may come from a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyValue").field("key", &self.key).finish_non_exhaustive()
    }
}
