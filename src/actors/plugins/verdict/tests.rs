//! News of plugins that a full mailbox refused: nobody else repeats them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use crate::actors::agent::PluginAdapters;
use crate::actors::kit::tests::{fill, listen, make_room};
use crate::actors::kit::trace::Cause;
use crate::actors::node::tests::{played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::logic::plugins::plugin::{Plugin, PluginInfo, PluginKind};
use crate::logic::plugins::plugin_states::SocketIdentity;
use crate::messages::plugins::PluginNews;
use crate::messages::plugins::claim_manager::ClaimManagerMsg;
use crate::messages::plugins::csi_manager::CsiManagerMsg;
use crate::messages::plugins::device_plugins::DevicePluginsMsg;
use crate::messages::plugins::plugin_watcher::PluginWatcherMsg;
use crate::messages::root::Child;
use crate::platform::plugins::{Hints, PluginError, PluginRegistration, PluginRegistry};

const SOCKET: &str = "/r/d.sock";

/// RES-47: each actor that uses plugins refuses this one, and says so until it was heard.
#[tokio::test(start_paused = true)]
async fn a_verdict_that_a_full_mailbox_refused_is_told_again() {
    for child in [Child::CsiManager, Child::DevicePlugins, Child::ClaimManager] {
        let agent = played_agent(ObjectServer::default().api(), |_, _| {}).agent;
        let to = &agent.directory;
        let heard = listen(&to.plugin_watcher);
        start_alone(child, &agent);
        seconds(1.0).await;
        fill(&to.plugin_watcher);
        let (socket, name) = (SOCKET.to_owned(), "no name".to_owned());
        let (kind, endpoint) = (PluginKind::Csi, SOCKET.to_owned());
        let came = PluginNews::Came(Arc::new(Plugin { socket, attempt: 7, kind, name, endpoint, versions: vec![] }));
        let cause = Cause::outside("test");
        let told = match child {
            Child::CsiManager => to.csi_manager.tell(cause, CsiManagerMsg::Plugin(came)),
            Child::DevicePlugins => to.device_plugins.tell(cause, DevicePluginsMsg::Plugin(came)),
            _ => to.claim_manager.tell(cause, ClaimManagerMsg::Plugin(came)),
        };
        told.expect("has room");
        seconds(5.0).await;
        assert_eq!(heard.take(), [""; 0], "{child:?}: there is no room");
        make_room(&to.plugin_watcher);
        seconds(1.0).await;
        let verdicts = heard.take();
        assert!(
            matches!(verdicts.as_slice(), [one] if one.contains("attempt: 7, outcome: Err")),
            "{child:?}: {verdicts:?}"
        );
    }
}

/// NODE-17: the Node says why volumes cannot be used, and that they can: a node that missed the latter is never ready.
#[tokio::test(start_paused = true)]
async fn the_state_of_the_csi_node_is_told_again() {
    let agent = played_agent(ObjectServer::default().api(), |_, _| {}).agent;
    let node_status = &agent.directory.node_status;
    let heard = listen(node_status);
    fill(node_status);
    start_alone(Child::CsiManager, &agent);
    seconds(5.0).await;
    make_room(node_status);
    seconds(1.0).await;
    assert_eq!(heard.take_of("StorageProblem").len(), 1);
}

/// A registry with one socket, behind which is a storage driver that takes some time to answer.
#[derive(Default)]
struct PlayedRegistry(Mutex<u64>);

impl PlayedRegistry {
    /// Another process serves there.
    fn replace(&self) {
        *self.0.lock().expect("not poisoned") += 1;
    }
}

#[async_trait]
impl PluginRegistry for PlayedRegistry {
    async fn scan(&self) -> Result<BTreeMap<String, SocketIdentity>, PluginError> {
        let inode = *self.0.lock().expect("not poisoned");
        Ok([(SOCKET.to_owned(), SocketIdentity { device: 1, inode, made: 0 })].into())
    }

    async fn watch(&self) -> Result<Hints, PluginError> {
        Ok(Box::pin(futures_util::stream::pending()))
    }
}

#[async_trait]
impl PluginRegistration for PlayedRegistry {
    async fn info(&self, _: &str) -> Result<PluginInfo, PluginError> {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let (kind, versions) = (PluginKind::Csi.to_string(), vec!["1.0.0".to_owned()]);
        Ok(PluginInfo { kind, name: "drv.test".to_owned(), endpoint: String::new(), versions })
    }

    async fn notify(&self, _: &str, _: Option<&str>) -> Result<(), PluginError> {
        Ok(())
    }
}

/// RES-47: a driver that is gone is taken back, however full the mailbox was; then the one comes that took its place.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_plugin_is_told_again_and_before_the_next_one_comes() {
    let registry = Arc::new(PlayedRegistry::default());
    let played = Arc::clone(&registry);
    let agent = played_agent(ObjectServer::default().api(), move |_, adapters| {
        adapters.plugins = PluginAdapters { registry: played.clone(), registration: played, ..PluginAdapters::none() };
    })
    .agent;
    let to = &agent.directory;
    let heard = listen(&to.csi_manager);
    start_alone(Child::PluginWatcher, &agent);
    seconds(1.0).await;
    assert_eq!(heard.take_of("Came").len(), 1);
    let used = PluginWatcherMsg::Judged { socket: SOCKET.to_owned(), attempt: 1, outcome: Ok(()) };
    to.plugin_watcher.tell(Cause::outside("test"), used).expect("has room");
    seconds(1.0).await;
    fill(&to.csi_manager);
    registry.replace();
    while agent.trace.kinds().get("CsiManager").is_none_or(|sums| sums.refused == 0) {
        seconds(0.001).await;
    }
    make_room(&to.csi_manager);
    seconds(30.0).await;
    let news: Vec<String> =
        heard.take().iter().map(|news| news.chars().take_while(|one| *one != '{').collect()).collect();
    assert_eq!(news, ["Plugin(Gone(Plugin ", "Plugin(Came(Plugin "]);
}
