//! What containers answer to HTTP probes, chance, and the service manager.
//!
//! A probe's path says what the container does: `/ok`, `/fails`, `/ok-after/5` (fails before that many seconds of its
//! life), `/ok-until/5` (fails from then on). Slow and lost answers come with the fault `slow`.

use std::time::Duration;

use async_trait::async_trait;

use super::faults::Fault;
use super::outlet::Outlet;
use crate::actors::ledger::lock;
use crate::actors::settings::{Chance, ServiceManager};
use crate::cri::ContainerState;
use crate::platform::http_probe::{HttpProbe, HttpProber, ProbeOutcome};

fn answer(path: &str, age: Duration) -> bool {
    let after =
        |prefix: &str| path.strip_prefix(prefix).and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    match (after("/ok-after/"), after("/ok-until/")) {
        (Some(limit), _) => age >= limit,
        (_, Some(limit)) => age < limit,
        _ => path != "/fails",
    }
}

#[async_trait]
impl HttpProber for Outlet {
    async fn probe(&self, probe: HttpProbe) -> ProbeOutcome {
        let Some(node) = self.touch() else { return std::future::pending().await };
        if node.faults.strikes(Fault::Slow, 0.05) {
            tokio::time::sleep(probe.timeout).await;
            return ProbeOutcome::Failure(
                "context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned(),
            );
        }
        tokio::time::sleep(node.faults.latency()).await;
        let now = node.time.now();
        let containers = lock(&node.containers);
        let home = containers.sandboxes.values().find(|sandbox| sandbox.ip.as_deref() == Some(&probe.host));
        let lives = home.and_then(|home| {
            let mut inside = containers.containers.values().filter(|one| one.sandbox == home.id);
            inside.find(|one| one.state == ContainerState::Running)
        });
        match lives {
            None => {
                ProbeOutcome::Failure(format!("dial tcp {}:{}: connect: connection refused", probe.host, probe.port))
            }
            Some(one) if answer(&probe.path, now.since(one.started_at)) => ProbeOutcome::Success,
            Some(_) => ProbeOutcome::Failure("HTTP probe failed with statuscode: 503".to_owned()),
        }
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
