//! `Pleg` over a played runtime, under paused time.

use super::*;
use crate::actors::kit::tests::{fill, listen, make_room};
use crate::actors::node::tests::{played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::cri::pod_mapping::labels;
use crate::cri::{PodSandbox, PodSandboxMetadata};
use crate::logic::model::ids::FullName;
use crate::logic::model::runtime_pod::{SandboxState, testing};
use crate::logic::model::time::{Moment, Stamp};
use crate::messages::root::Child;

/// CRI-29: an event stream that opens while the mailbox is full counts once there is room: relists are rare from then on.
#[tokio::test(start_paused = true)]
async fn a_stream_that_opens_while_the_mailbox_is_full_is_taken_up() {
    let played = played_agent(ObjectServer::default().api(), |settings, _| settings.runtime.evented = true);
    played.runtime().set_events();
    let relists = || played.runtime().calls("ListPodSandbox").len();
    start_alone(Child::Pleg, &played.agent);
    fill(&played.agent.directory.pleg);
    seconds(10.0).await;
    assert!(relists() >= 8, "{}: nobody knows of the stream yet", relists());
    make_room(&played.agent.directory.pleg);
    seconds(2.0).await;
    let before = relists();
    seconds(30.0).await;
    assert_eq!(relists(), before, "the stream tells what happens");
}

/// The sandbox `s` of the pod `u`.
fn sandbox() -> PodSandbox {
    let labels = [(labels::POD_UID, "u"), (labels::POD_NAME, "web"), (labels::POD_NAMESPACE, "ns")];
    PodSandbox {
        id: "s".into(),
        metadata: PodSandboxMetadata { uid: "u".into(), name: "web".into(), namespace: "ns".into(), attempt: 0 },
        state: crate::cri::SandboxState::Ready,
        created_at: Moment::default(),
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        annotations: Default::default(),
        runtime_handler: String::new(),
    }
}

/// CRI-28: with the gate `PLEGOnDemandRelist` off a question waits as long as for a relist, which finds nothing new here.
#[tokio::test(start_paused = true)]
async fn a_look_that_somebody_asks_for_waits_where_its_gate_is_off() {
    for on_demand in [true, false] {
        let played = played_agent(ObjectServer::default().api(), |settings, _| settings.runtime.on_demand = on_demand);
        played.runtime().set_sandbox(sandbox());
        let heard = listen(&played.agent.directory.pod_manager);
        start_alone(Child::Pleg, &played.agent);
        seconds(5.0).await;
        assert_eq!(heard.take_of("Observed").len(), 1, "what the relist showed");
        let pleg = &played.agent.directory.pleg;
        pleg.tell(Cause::outside("test"), PlegMsg::Inspect("u".into())).expect("has room");
        seconds(0.8).await;
        assert_eq!(heard.take_of("Observed").len(), usize::from(on_demand));
        seconds(0.8).await;
        assert_eq!(heard.take_of("Observed").len(), usize::from(!on_demand));
    }
}

/// CRI-29: a worker asks for a look while a relist is on its way, which is from before. The look that the relist leads to
/// shows that earlier time, and the worker gets its own as well.
#[tokio::test(start_paused = true)]
async fn a_look_at_a_relists_parts_takes_the_place_of_no_later_one() {
    let played = played_agent(ObjectServer::default().api(), |_, _| {});
    played.runtime().set_sandbox(sandbox());
    let heard = listen(&played.agent.directory.pod_manager);
    start_alone(Child::Pleg, &played.agent);
    seconds(0.05).await;
    let known = RuntimePod {
        sandboxes: vec![testing::sandbox("s", SandboxState::Ready)],
        ..RuntimePod::empty("u".into(), FullName::new("web", "ns"), Stamp(1))
    };
    let pleg = &played.agent.directory.pleg;
    pleg.tell(Cause::outside("test"), PlegMsg::InspectSoon(Arc::new(known))).expect("has room");
    seconds(0.2).await;
    assert_eq!(heard.take_of("Observed").len(), 1, "what the relist showed");
    seconds(0.2).await;
    assert_eq!(heard.take_of("Observed").len(), 1, "what there is by now");
}
