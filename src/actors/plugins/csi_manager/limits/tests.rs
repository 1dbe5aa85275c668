//! The limit of a driver's volumes, which is asked for while it changes, under paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use crate::actors::agent::PluginAdapters;
use crate::actors::kit::actor::{Actor, spawn};
use crate::actors::kit::context::Context;
use crate::actors::kit::trace::Cause;
use crate::actors::node::tests::{played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::logic::plugins::call_error::CallError;
use crate::logic::plugins::csi_registration::CsiNodeInfo;
use crate::logic::plugins::plugin::{Plugin, PluginKind};
use crate::logic::volumes::csi::capabilities::NodeCapabilities;
use crate::logic::volumes::csi::requests::{ExpandRequest, PublishRequest, StageRequest, VolumeUse};
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::plugins::PluginNews;
use crate::messages::plugins::csi_manager::CsiManagerMsg;
use crate::messages::root::Child;
use crate::platform::plugins::{CsiCalls, OpenCall};

/// Says how many volumes there is room for, as it was a second before.
struct PlayedDriver(AtomicI64);

#[async_trait]
impl CsiCalls for PlayedDriver {
    async fn node_info(&self, _: &str) -> Result<CsiNodeInfo, CallError> {
        let volumes_max = self.0.load(Ordering::SeqCst);
        seconds(1.0).await;
        Ok(CsiNodeInfo { node_id: "node-id".to_owned(), volumes_max, ..CsiNodeInfo::default() })
    }
    async fn capabilities(&self, _: &str) -> Result<NodeCapabilities, CallError> {
        unreachable!("no volume is used")
    }
    async fn stage(&self, _: &str, _: StageRequest) -> Result<(), CallError> {
        unreachable!("no volume is used")
    }
    async fn unstage(&self, _: &str, _: &str, _: &str) -> Result<(), CallError> {
        unreachable!("no volume is used")
    }
    async fn publish(&self, _: &str, _: PublishRequest) -> Result<(), CallError> {
        unreachable!("no volume is used")
    }
    async fn unpublish(&self, _: &str, _: &str, _: &str) -> Result<(), CallError> {
        unreachable!("no volume is used")
    }
    async fn usage(&self, _: &str, _: &str, _: &str, _: &str) -> Result<VolumeUse, CallError> {
        unreachable!("no volume is used")
    }
    async fn expand(&self, _: &str, _: ExpandRequest) -> Result<i64, CallError> {
        unreachable!("no volume is used")
    }
    fn open_calls(&self) -> Vec<(String, OpenCall)> {
        vec![]
    }
}

/// Says that the API server has the Node.
struct Registered(Arc<Node>);

impl Actor for Registered {
    const KIND: &'static str = "NodeStatus";
    type Msg = NodeStatusMsg;
    type Args = Arc<Node>;

    fn begin(node: Arc<Node>, _: &mut Context<NodeStatusMsg>) -> Self {
        Self(node)
    }

    fn receive(&mut self, message: NodeStatusMsg, _: &mut Context<NodeStatusMsg>) {
        if let NodeStatusMsg::Node(reply) = message {
            let _ = reply.send(Some(Arc::clone(&self.0))); // The asker may have left.
        }
    }
}

/// VOL-12: the driver's answer on its way may be from before a volume found no room: it is asked once more.
#[tokio::test(start_paused = true)]
async fn a_volume_without_room_during_a_question_leads_to_another_one() {
    let (server, driver) = (ObjectServer::default(), Arc::new(PlayedDriver(AtomicI64::new(9))));
    let calls = Arc::clone(&driver);
    let agent = played_agent(server.api(), |_, adapters| {
        adapters.plugins = PluginAdapters { csi: calls, ..PluginAdapters::none() };
    })
    .agent;
    let (to, name) = (&agent.directory, &*agent.settings.node_name);
    let node = json!({ "metadata": { "name": name, "uid": "node-uid" } });
    server.put(&format!("/api/v1/nodes/{name}"), node.clone());
    spawn::<Registered>(&to.node_status, Arc::new(serde_json::from_value(node).expect("a Node")), None);
    start_alone(Child::CsiManager, &agent);
    let (socket, endpoint) = ("/r/d.sock".to_owned(), "/r/d.sock".to_owned());
    let (kind, versions) = (PluginKind::Csi, vec!["1.0.0".to_owned()]);
    let plugin = Plugin { socket, attempt: 1, kind, name: "drv.test".to_owned(), endpoint, versions };
    let tell = |message| to.csi_manager.tell(Cause::outside("test"), message).expect("has room");
    tell(CsiManagerMsg::Plugin(PluginNews::Came(Arc::new(plugin))));
    seconds(10.0).await;
    let csi_node = || server.object(&format!("/apis/storage.k8s.io/v1/csinodes/{name}"));
    let count = || csi_node()["spec"]["drivers"][0]["allocatable"]["count"].clone();
    assert_eq!(count(), json!(9), "{}", csi_node());
    tell(CsiManagerMsg::LimitReached("drv.test".to_owned()));
    seconds(0.5).await;
    driver.0.store(3, Ordering::SeqCst);
    tell(CsiManagerMsg::LimitReached("drv.test".to_owned()));
    seconds(20.0).await;
    assert_eq!(count(), json!(3), "{}", csi_node());
}
