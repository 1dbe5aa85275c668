//! The actors of the Node object fail at each of their messages; the node and its Lease come through.

use std::sync::Arc;

use serde_json::Value;

use super::server::PlayedServer;
use super::{Played, seconds};
use crate::actors::kit::trace::Faults;
use crate::actors::wiring;

/// Messages of each actor that are made to fail, one a run. Until the node rests, they handle fewer.
const MESSAGES: u64 = 14;

/// One actor fails once, before or after its message of this number.
struct Once {
    kind: &'static str,
    index: u64,
    after: bool,
}

impl Once {
    fn strikes(&self, kind: &'static str, index: u64, after: bool) -> bool {
        self.kind == kind && self.index == index && self.after == after
    }
}

impl Faults for Once {
    fn strikes_before(&self, kind: &'static str, _: &str, index: u64) -> bool {
        self.strikes(kind, index, false)
    }
    fn strikes_after(&self, kind: &'static str, _: &str, index: u64) -> bool {
        self.strikes(kind, index, true)
    }
}

async fn one_run(once: Once) {
    let what = format!("{} at {} (after: {})", once.kind, once.index, once.after);
    let played = Played::with(PlayedServer::default(), Some(Arc::new(once)), |_| {});
    let (_root, cell) = wiring::start(Arc::clone(&played.agent));
    seconds(45.0).await;
    let posts = played.server.calls("/api/v1/nodes").into_iter().filter(|call| call.starts_with("POST")).count();
    assert!((1..=2).contains(&posts), "{what}: {posts}");
    let node = played.server.node().unwrap_or_else(|| panic!("{what}: there is no node"));
    let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    assert_eq!(conditions.iter().filter(|one| is_ready(one)).count(), 1, "{what}: {conditions:?}");
    let before = played.server.lease().unwrap_or_else(|| panic!("{what}: there is no lease"));
    seconds(12.0).await;
    let after = played.server.lease().expect("it is still there");
    assert_ne!(before["spec"]["renewTime"], after["spec"]["renewTime"], "{what}");
    // A network that fails is still seen.
    played.runtime.set_no_network(true);
    seconds(18.0).await;
    let node = played.server.node().expect("it is still there");
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    assert!(!conditions.iter().any(is_ready), "{what}: {conditions:?}");
    cell.stop(None);
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_message_costs_time_alone() {
    for kind in ["NodeStatus", "NodeLease", "RuntimeMonitor"] {
        for index in 0..MESSAGES {
            for after in [false, true] {
                one_run(Once { kind, index, after }).await;
            }
        }
    }
}
