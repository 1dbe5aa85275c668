//! Hardware for pods, with files that can be held up.

use std::collections::BTreeSet;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use ractor::RpcReplyPort;
use tokio::sync::Semaphore;

use super::*;
use crate::actors::kit::trace::Cause;
use crate::actors::node::node_tests::{PlayedAgent, played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_admission::placing::Placing;
use crate::logic::resources::allocations::tests::{managers, owner};
use crate::logic::resources::topology::policy::PolicyKind;
use crate::messages::resources::allocation_manager::PlaceRequest;
use crate::messages::root::Child;
use crate::platform::files::FileError;

/// Files in memory. Each write takes one of the permits.
struct HeldFiles {
    writes: Semaphore,
}

#[async_trait]
impl Checkpoints for HeldFiles {
    async fn read(&self, _: &'static str) -> Result<Option<Vec<u8>>, FileError> {
        Ok(None)
    }
    async fn write(&self, _: &'static str, _: Vec<u8>) -> Result<(), FileError> {
        self.writes.acquire().await.expect("open").forget();
        Ok(())
    }
    async fn set_aside(&self, _: &'static str) -> Result<(), FileError> {
        Ok(())
    }
}

type Answer = tokio::sync::oneshot::Receiver<BTreeMap<PodUid, Placing>>;

fn tell(played: &PlayedAgent, message: HardwareMsg) {
    let address = &played.agent.directory.allocation_manager;
    address.tell(Cause::outside("test"), AllocationManagerMsg::Hardware(message)).expect("has room");
}

fn holders(pods: &[&str]) -> Arc<BTreeSet<PodUid>> {
    Arc::new(pods.iter().map(|uid| PodUid::from(*uid)).collect())
}

fn place(played: &PlayedAgent, pod: Pod, holding: &[&str]) -> Answer {
    let (reply, answer) = ractor::concurrency::oneshot();
    let reply = RpcReplyPort::from(reply);
    tell(
        played,
        HardwareMsg::Place(PlaceRequest { pods: vec![Arc::new(pod)], holders: Some(holders(holding)), reply }),
    );
    answer
}

/// A question that waited for the disk must not bring back a pod that has ended meanwhile.
#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_while_its_question_waited_is_given_nothing() {
    let files = Arc::new(HeldFiles { writes: Semaphore::new(2) });
    let kept = Arc::clone(&files);
    let played = played_agent(ObjectServer::default().api(), |settings, adapters| {
        settings.resources.managers = Arc::new(managers(PolicyKind::None));
        adapters.checkpoints = kept;
    });
    start_alone(Child::AllocationManager, &played.agent);
    seconds(1.0).await;
    let first = place(&played, owner("a", "2", "1Gi"), &["a"]);
    seconds(1.0).await;
    let second = place(&played, owner("b", "2", "1Gi"), &["a", "b"]);
    tell(&played, HardwareMsg::Holders(holders(&["a"])));
    seconds(1.0).await;
    files.writes.add_permits(100);
    assert_eq!(first.await.expect("answered"), [(PodUid::from("a"), Placing::Given)].into());
    let not_yet = Placing::NotYet("nobody wants the pod any more".to_owned());
    assert_eq!(second.await.expect("answered"), [(PodUid::from("b"), not_yet)].into());
    let ask = AllocationManagerMsg::Allocations;
    let address = &played.agent.directory.allocation_manager;
    let owned = address.ask(Cause::outside("test"), Duration::from_secs(1), ask).await.expect("answers");
    assert_eq!(owned.containers.keys().collect::<Vec<_>>(), [&PodUid::from("a")]);
}
