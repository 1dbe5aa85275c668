//! Calls to the API server as the metrics see them: verb, host, status, sizes, times, waits.

use std::sync::Arc;
use std::time::Duration;

use http::Method;

use crate::platform::host::clock::Clock;
use crate::platform::observer::{Observation, Observer, Review};

/// The observer of calls, its clock, and the server.
#[derive(Clone)]
pub struct Observed {
    observer: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
    host: Arc<str>,
}

impl Observed {
    /// `host` is the server's name or address and its port.
    pub fn new(observer: Arc<dyn Observer>, clock: Arc<dyn Clock>, host: &str) -> Self {
        Self { observer, clock, host: host.into() }
    }

    /// Time since the start.
    pub fn uptime(&self) -> Duration {
        self.clock.uptime()
    }

    /// An answer's head is there, or there will be none.
    pub(super) fn answered(&self, method: &Method, code: Option<u16>, began: Duration, request_bytes: usize) {
        let took = self.uptime().saturating_sub(began);
        let (method, host, request_bytes) = (method.as_str(), &*self.host, request_bytes as u64);
        self.observer.observe(Observation::ApiAnswered { method, host, code, took, request_bytes });
    }

    /// An answer's body was read.
    pub(super) fn read(&self, method: &Method, bytes: usize) {
        let (method, host, bytes) = (method.as_str(), &*self.host, bytes as u64);
        self.observer.observe(Observation::ApiRead { method, host, bytes });
    }

    /// A call is made again.
    pub(super) fn retried(&self, method: &Method, code: u16) {
        let (method, host) = (method.as_str(), &*self.host);
        self.observer.observe(Observation::ApiRetried { method, host, code });
    }

    /// A call waited for its turn.
    pub(super) fn held_back(&self, method: &Method, began: Duration) {
        let took = self.uptime().saturating_sub(began);
        let (method, host) = (method.as_str(), &*self.host);
        self.observer.observe(Observation::ApiHeldBack { method, host, took });
    }

    /// The server was asked about a caller of the agent's, with all retries.
    pub fn reviewed(&self, kind: Review, code: Option<u16>, began: Duration) {
        let took = self.uptime().saturating_sub(began);
        self.observer.observe(Observation::CallerReviewed { kind, code, took });
    }

    /// The headers by which the server's spans find their parent.
    pub(super) fn context(&self) -> Vec<(&'static str, String)> {
        self.observer.context()
    }
}
