//! The record of streams: a line when a stream is answered, and one when it ended. The command itself is not written, for
//! its arguments may be secrets; its hash tells whether two were the same.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;

use super::Place;
use super::relay::Traffic;
use crate::platform::host::clock::Clock;
use crate::platform::network::tls::sha256_hex;
use crate::server::backend::Backend;
use crate::server::backend::open_streams::Kind;
use crate::server::caller::Caller;

/// See the module.
#[derive(Clone)]
pub(in crate::server) struct Audit {
    kind: &'static str,
    user: Arc<str>,
    namespace: String,
    pod: String,
    container: String,
    command: String,
    clock: Arc<dyn Clock>,
    began: Duration,
}

impl Audit {
    /// Begins with the request.
    pub(in crate::server) fn begin(kind: Kind, backend: &Backend, place: &Place, request: &Request) -> Self {
        let user =
            request.extensions().get::<Caller>().map_or_else(|| Arc::from("unknown"), |caller| caller.name.clone());
        let Place { namespace, pod, container, .. } = place.clone();
        let clock = Arc::clone(backend.trace.clock());
        let began = clock.uptime();
        Self { kind: kind.into(), user, namespace, pod, container, command: String::new(), clock, began }
    }

    /// The command to run.
    pub(in crate::server) fn command(&mut self, arguments: &[String]) {
        self.command = sha256_hex(arguments.join("\0").as_bytes());
    }

    /// The kind of the stream, as metrics name it.
    pub(super) fn kind(&self) -> &'static str {
        self.kind
    }

    /// The client is answered.
    pub(in crate::server) fn answered(&self, status: StatusCode) {
        tracing::info!(
            user = &*self.user,
            namespace = self.namespace,
            pod = self.pod,
            container = self.container,
            command_sha256 = self.command,
            status = status.as_u16(),
            "{} requested",
            self.kind
        );
    }

    /// The stream is over.
    pub(super) fn ended(&self, traffic: &Traffic) {
        let (to_runtime, to_client) = traffic.bytes();
        tracing::info!(
            user = &*self.user,
            namespace = self.namespace,
            pod = self.pod,
            container = self.container,
            command_sha256 = self.command,
            seconds = self.clock.uptime().saturating_sub(self.began).as_secs_f64(),
            to_runtime,
            to_client,
            "{} ended",
            self.kind
        );
    }
}
