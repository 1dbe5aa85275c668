//! Answers of containers to probes and hooks, chance, and the service manager.
//!
//! A path says what the container does: `/ok`, `/fails`, `/ok-after/5` (fails before that many seconds of its life), and
//! `/ok-until/5` (fails from then on). `/flips/5` is well and unwell by turns, so many seconds each, and `/slow/5` is well,
//! but only after so many seconds. It is an HTTP probe's path, a gRPC probe's service, a command's first word. A port that
//! is connected to is open while a container runs. Slow and lost answers come with the fault `slow`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::actors::kit::trace::lock;
use crate::cri::ContainerState;
use crate::platform::host::chance::Chance;
use crate::platform::host::systemd::ServiceManager;
use crate::platform::network::http_exchange::{ExchangeError, WireError};
use crate::platform::network::network_probe::{
    GrpcProbe, HookAnswer, HookError, HttpProbe, NetworkProbe, NetworkProber, ProbeOutcome, TcpProbe,
};
use crate::sim::faults::Fault;
use crate::sim::node::outlet::Outlet;

/// Whether a container of this age is well.
pub(in crate::sim) fn answer(path: &str, age: Duration) -> bool {
    if let Some(turn) = seconds_after(path, "/flips/") {
        return (age.as_secs() / turn.as_secs().max(1)).is_multiple_of(2);
    }
    match (seconds_after(path, "/ok-after/"), seconds_after(path, "/ok-until/")) {
        (Some(limit), _) => age >= limit,
        (_, Some(limit)) => age < limit,
        _ => path != "/fails",
    }
}

/// How long the container takes to answer.
pub(super) fn slowness(path: &str) -> Duration {
    seconds_after(path, "/slow/").unwrap_or_default()
}

fn seconds_after(path: &str, prefix: &str) -> Option<Duration> {
    path.strip_prefix(prefix).and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs)
}

impl Outlet {
    /// Asks whoever runs at an address; `Err` with the reason when nobody does, or not in time.
    async fn ask_pod(&self, host: &str, port: u16, path: &str, timeout: Duration) -> Result<bool, WireError> {
        let Some(node) = self.touch() else { return std::future::pending().await };
        let takes = node.faults.latency() + slowness(path);
        if node.faults.strikes(Fault::Slow, 0.05) || takes > timeout {
            tokio::time::sleep(timeout).await;
            return Err(WireError::Late);
        }
        tokio::time::sleep(takes).await;
        let now = node.time.truly();
        let containers = lock(&node.containers);
        let home = containers.sandboxes.values().find(|sandbox| sandbox.ip.as_deref() == Some(host));
        let lives = home.and_then(|home| {
            let mut inside = containers.containers.values().filter(|one| one.sandbox == home.id);
            inside.find(|one| one.state == ContainerState::Running)
        });
        let refused =
            || WireError::Dial { address: format!("{host}:{port}"), problem: "connection refused".to_owned() };
        let one = lives.ok_or_else(refused)?;
        Ok(answer(path, now.since(one.began)))
    }
}

/// A probe over the simulated network.
struct Probe {
    outlet: Outlet,
    host: String,
    port: u16,
    path: String,
    timeout: Duration,
    /// The answer of a container that is not well; a port alone cannot tell that.
    unwell: Option<&'static str>,
}

#[async_trait]
impl NetworkProbe for Probe {
    async fn make(self: Arc<Self>) -> ProbeOutcome {
        match (self.outlet.ask_pod(&self.host, self.port, &self.path, self.timeout).await, self.unwell) {
            (Err(problem), _) => ProbeOutcome::Failure(problem.to_string()),
            (Ok(false), Some(said)) => ProbeOutcome::Failure(said.to_owned()),
            (Ok(_), _) => ProbeOutcome::Success,
        }
    }
}

#[async_trait]
impl NetworkProber for Outlet {
    fn http(&self, probe: HttpProbe) -> Arc<dyn NetworkProbe> {
        let HttpProbe { host, port, path, timeout, .. } = probe;
        let unwell = Some("HTTP probe failed with statuscode: 503");
        Arc::new(Probe { outlet: self.clone(), host, port, path, timeout, unwell })
    }

    fn tcp(&self, probe: TcpProbe) -> Arc<dyn NetworkProbe> {
        let TcpProbe { host, port, timeout } = probe;
        Arc::new(Probe { outlet: self.clone(), host, port, path: "/ok".to_owned(), timeout, unwell: None })
    }

    fn grpc(&self, probe: GrpcProbe) -> Arc<dyn NetworkProbe> {
        let GrpcProbe { host, port, service: path, timeout } = probe;
        let unwell = Some("service unhealthy (responded with \"NOT_SERVING\")");
        Arc::new(Probe { outlet: self.clone(), host, port, path, timeout, unwell })
    }

    async fn hook(&self, request: HttpProbe) -> Result<HookAnswer, HookError> {
        let answered = self.ask_pod(&request.host, request.port, &request.path, request.timeout).await;
        let url = format!("http://{}:{}{}", request.host, request.port, request.path);
        answered.map(|_| HookAnswer::AsAsked).map_err(|problem| ExchangeError::Get { url, problem }.into())
    }
}

impl Chance for Outlet {
    fn next(&self) -> f64 {
        self.random.unit()
    }
}

impl ServiceManager for Outlet {
    fn feed_watchdog(&self) {}
}
