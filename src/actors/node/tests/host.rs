//! The host's addresses and resolver configuration, on an agent of its own.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::json;

use super::{PlayedAgent, node_settings, played_agent, seconds};
use crate::actors::kit::trace::{Cause, lock};
use crate::actors::played_api::ObjectServer;
use crate::actors::settings::Settings;
use crate::actors::wiring::start_alone;
use crate::logic::model::ids::PodUid;
use crate::logic::network::node_addresses::{AddressFacts, AddressSettings};
use crate::logic::node::node_status::HostFacts;
use crate::logic::resources::cpu_manager::MachineTopology;
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::pods::pod_source::SourceKind;
use crate::messages::root::Child;
use crate::messages::status::status_manager::StatusManagerMsg;
use crate::platform::host::HostError;
use crate::platform::host::node_facts::{FixedNodeFacts, NodeFacts};

/// A host whose addresses change.
#[derive(Default)]
struct ChangingHost {
    address: Mutex<Option<IpAddr>>,
    reads: Mutex<usize>,
}

#[async_trait]
impl NodeFacts for ChangingHost {
    async fn read(&self, settings: &AddressSettings) -> HostFacts {
        let FixedNodeFacts { facts, .. } = FixedNodeFacts::of_a_small_node();
        HostFacts { addresses: self.addresses(settings).await, ..facts }
    }

    async fn addresses(&self, _: &AddressSettings) -> AddressFacts {
        *lock(&self.reads) += 1;
        AddressFacts { default_routes: lock(&self.address).into_iter().collect(), ..AddressFacts::default() }
    }

    async fn topology(&self) -> Result<MachineTopology, HostError> {
        FixedNodeFacts::of_a_small_node().topology().await
    }
}

/// An agent without an API server.
fn standalone(host: &Arc<ChangingHost>, adjust: impl FnOnce(&mut Settings)) -> PlayedAgent {
    let host: Arc<dyn NodeFacts> = host.clone();
    let played = played_agent(ObjectServer::default().api(), |settings, adapters| {
        settings.node = node_settings();
        settings.node.status.addresses.standalone = true;
        (adapters.cluster.api, adapters.node.facts) = (None, host);
        adjust(settings);
    });
    let agent = &played.agent;
    start_alone(Child::EventRecorder, agent);
    start_alone(Child::StatusManager, agent);
    start_alone(Child::NodeStatus, agent);
    start_alone(Child::PodManager, agent);
    played
}

/// A pod on the host's network, of which the runtime holds nothing.
fn want_pod(played: &PlayedAgent) {
    let uid = PodUid::from("uid-1");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": "web", "namespace": "default", "uid": uid.as_str(),
            "annotations": { "kubernetes.io/config.source": "file" },
        },
        "spec": { "hostNetwork": true, "containers": [{ "name": "main", "image": "a:1" }] },
    }))
    .expect("a pod");
    let manager = &played.agent.directory.pod_manager;
    let taken = played.agent.trace.clock().stamp();
    let pods = [(uid, Arc::new(pod))].into();
    for message in [
        PodManagerMsg::Allocated(Arc::default()),
        PodManagerMsg::Relisted { taken, pods: Default::default(), running: Default::default() },
        PodManagerMsg::SourceSet { source: SourceKind::File, pods, lives: std::collections::BTreeMap::new() },
    ] {
        manager.tell(Cause::outside("test"), message).expect("room");
    }
}

async fn status(played: &PlayedAgent) -> Arc<PodStatus> {
    let manager = &played.agent.directory.status_manager;
    let asked = manager.ask(Cause::outside("test"), Duration::from_secs(1), StatusManagerMsg::List).await;
    Arc::clone(&asked.expect("answered")[0].status)
}

/// NODE-20, POD-29: an agent that started before the network was there; and one whose host moves.
#[tokio::test(start_paused = true)]
async fn a_host_that_gets_its_address_later_is_found_to_have_it() {
    let host = Arc::<ChangingHost>::default();
    let played = standalone(&host, |_| {});
    seconds(0.1).await; // Looks from before the actors began do not count.
    want_pod(&played);
    seconds(1.0).await;
    assert_eq!((status(&played).await.host_ip.clone(), status(&played).await.pod_ip.clone()), (None, None));
    for (address, wait) in [([10, 0, 0, 7], 6.0), ([10, 0, 0, 8], 61.0)] {
        *lock(&host.address) = Some(address.into());
        seconds(wait).await;
        let (status, expected) = (status(&played).await, IpAddr::from(address).to_string());
        assert_eq!((status.host_ip.as_ref(), status.pod_ip.as_ref()), (Some(&expected), Some(&expected)));
    }
}

/// A host at rest is not asked more often than there is housekeeping.
#[tokio::test(start_paused = true)]
async fn a_host_at_rest_is_asked_once_a_minute() {
    let host = Arc::<ChangingHost>::default();
    *lock(&host.address) = Some([10, 0, 0, 7].into());
    let _played = standalone(&host, |_| {});
    seconds(1.0).await;
    let before = *lock(&host.reads);
    seconds(600.0).await;
    assert_eq!(*lock(&host.reads) - before, 10);
}

/// CRI-06: upstream looks at the file as it starts, too, and only tells.
#[tokio::test(start_paused = true)]
async fn a_resolver_configuration_with_a_problem_is_told_of_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let bad = folder.path().join("resolv.conf").display().to_string();
    std::fs::write(&bad, "nameserver\n").expect("written");
    let missing = folder.path().join("missing").display().to_string();
    for (path, expected) in [(missing, "No such file or directory"), (bad, "nameserver list is empty ")] {
        let played = standalone(&Arc::default(), |settings| settings.network.dns.resolv_conf = Some(path));
        seconds(1.0).await;
        let question = |reply| EventRecorderMsg::OfPod(PodUid::from("n1"), reply);
        let recorder = &played.agent.directory.event_recorder;
        let events = recorder.ask(Cause::outside("test"), Duration::from_secs(1), question).await.expect("answered");
        let told: Vec<(&str, &str)> =
            events.iter().map(|one| (one.event.reason.as_str(), &*one.event.message)).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].0 == "CheckLimitsForResolvConf" && told[0].1.contains(expected), "{told:?}");
    }
}
