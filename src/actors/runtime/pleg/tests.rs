//! `Pleg` over a played runtime, under paused time.

use crate::actors::kit::tests::{fill, make_room};
use crate::actors::node::tests::{played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
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
