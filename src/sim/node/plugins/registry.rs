//! The plugins' registry and the handshake.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;

use super::calls::{Call, PluginOutlet};
use crate::actors::kit::trace::lock;
use crate::logic::plugins::plugin::PluginInfo;
use crate::logic::plugins::plugin_states::SocketIdentity;
use crate::platform::plugins::{Hints, PluginError, PluginRegistration, PluginRegistry};
use crate::sim::faults::Fault;

/// The deadlines of the handshake.
const INFO_LIMIT: Duration = Duration::from_secs(1);
const NOTIFY_LIMIT: Duration = Duration::from_secs(5);

impl PluginOutlet {
    /// Where a registration socket leads to: the process there, if one runs.
    fn behind(&self, socket: &str) -> Result<String, PluginError> {
        let endpoint = self.plugins().sockets().get(socket).map(|(_, endpoint)| endpoint.clone());
        let alive = endpoint.filter(|endpoint| self.plugins().life(endpoint).is_some());
        let problem = || "connect: connection refused".to_owned();
        alive.ok_or_else(|| PluginError::Dial { socket: socket.to_owned(), problem: problem() })
    }
}

impl super::Plugins {
    /// Sockets in the registry, with the endpoint that each leads to.
    fn sockets(&self) -> BTreeMap<String, (SocketIdentity, String)> {
        lock(&self.state).sockets.clone()
    }
}

#[async_trait]
impl PluginRegistry for PluginOutlet {
    async fn scan(&self) -> Result<BTreeMap<String, SocketIdentity>, PluginError> {
        let number = self.outlet.begin_call().await;
        let faults = &self.outlet.node().faults;
        self.outlet.pass(faults.file_latency()).await;
        let found = self.plugins().sockets().into_iter().map(|(path, (identity, _))| (path, identity)).collect();
        self.outlet.pass(faults.file_latency()).await;
        self.outlet.end_call(number).await;
        Ok(found)
    }

    async fn watch(&self) -> Result<Hints, PluginError> {
        let (seen, outlet) = (self.plugins().seen.listen(), self.clone());
        let hints = stream::unfold((seen, outlet), |(mut seen, outlet)| async move {
            loop {
                seen.changed().await;
                let plugins = outlet.plugins();
                let is_lost = outlet.outlet.node().faults.has(Fault::Watches) && plugins.random().chance(0.3);
                if outlet.outlet.is_alive() && !is_lost {
                    return Some(((), (seen, outlet)));
                }
            }
        });
        Ok(Box::pin(hints))
    }
}

#[async_trait]
impl PluginRegistration for PluginOutlet {
    async fn info(&self, socket: &str) -> Result<PluginInfo, PluginError> {
        let endpoint = self.behind(socket)?;
        let of = endpoint.clone();
        let answer = self.call(Call::asking(&endpoint, "GetInfo", INFO_LIMIT), move |node| {
            let driver = node.plugins.driver(&of).expect("its process runs");
            Ok(PluginInfo { kind: driver.kind.to_string(), name: driver.name, endpoint: of, versions: driver.versions })
        });
        answer.await.map_err(|error| PluginError::Info { socket: socket.to_owned(), error })
    }

    async fn notify(&self, socket: &str, refusal: Option<&str>) -> Result<(), PluginError> {
        let endpoint = self.behind(socket)?;
        let (of, refusal) = (endpoint.clone(), refusal.map(str::to_owned));
        let told = self.call(Call::asking(&endpoint, "NotifyRegistrationStatus", NOTIFY_LIMIT), move |node| {
            node.story.tell(
                "driver",
                match refusal {
                    None => format!("{of} is registered"),
                    Some(refusal) => format!("{of} is refused: {refusal}"),
                },
            );
            Ok(())
        });
        told.await.map_err(PluginError::Notify)
    }
}
