//! Events, as the API server sees them.

use std::time::Duration;

use ractor::ActorCell;
use serde_json::{Value, json};

use super::server::PlayedServer;
use super::{NODE, Played, seconds};
use crate::actors::kit::trace::Cause;
use crate::actors::wiring::start_alone;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::{FullName, PodUid};
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::event_recorder::EventSubject;
use crate::messages::root::Child;

const EVENTS: &str = "/api/v1/namespaces/shop/events";
const POST: &str = "POST /api/v1/namespaces/shop/events";
const PATCH: &str = "PATCH /api/v1/namespaces/shop/events";

/// A recorder alone, before a server.
fn played() -> Played {
    Played::new(PlayedServer::default(), |_| {})
}

impl Played {
    pub(super) fn start_recorder(&self) -> ActorCell {
        start_alone(Child::EventRecorder, &self.agent)
    }

    pub(super) fn tell(&self, message: EventRecorderMsg) {
        self.agent.directory.event_recorder.tell(Cause::outside("test"), message).expect("has room");
    }

    /// Something happened to the container of a pod.
    pub(super) fn happens(&self, pod: &str, reason: EventReason, text: &str) {
        let (uid, full_name) = (PodUid::from(format!("uid-{pod}")), FullName::new(pod, "shop"));
        let subject =
            EventSubject { field_path: "spec.containers{web}".to_owned(), ..EventSubject::pod(&uid, &full_name) };
        self.tell(subject.normal(reason, text));
    }

    /// Messages and counts of the Events that the server has.
    fn posted(&self) -> Vec<(String, i64)> {
        let told = |event: Value| (text(&event["message"]), event["count"].as_i64().expect("a count"));
        self.server.events().into_iter().map(told).collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn once(messages: &[&str]) -> Vec<(String, i64)> {
    messages.iter().map(|message| ((*message).to_owned(), 1)).collect()
}

#[tokio::test(start_paused = true)]
async fn an_event_is_posted_and_its_repetition_patched() {
    let played = played();
    played.start_recorder();
    played.happens("web", EventReason::Pulled, "there");
    seconds(5.0).await;
    played.happens("web", EventReason::Pulled, "there");
    seconds(5.0).await;
    let events = played.server.events();
    let [event] = &events[..] else { panic!("one object: {events:?}") };
    let name = text(&event["metadata"]["name"]);
    assert_eq!(played.server.calls("events"), [POST.to_owned(), format!("PATCH {EVENTS}/{name}")]);
    assert!(name.starts_with("web.18867251"), "{name}");
    assert_eq!(
        played.server.sent(PATCH),
        json!({ "count": 2, "lastTimestamp": "2026-01-01T00:00:05Z", "message": "there" })
    );
    assert_eq!((&event["count"], &event["firstTimestamp"]), (&json!(2), &json!("2026-01-01T00:00:00Z")));
    assert_eq!((&event["source"]["host"], &event["reportingInstance"]), (&json!(NODE), &json!(NODE)));
    assert_eq!(event["involvedObject"]["uid"], "uid-web");
}

/// NODE-19, NODE-41.
#[tokio::test(start_paused = true)]
async fn events_of_the_node_are_told_in_the_default_namespace() {
    let played = played();
    played.start();
    seconds(5.0).await;
    let events = played.server.events();
    let reasons: Vec<&str> = events.iter().map(|event| event["reason"].as_str().expect("a reason")).collect();
    assert_eq!(reasons, played.events().await, "all of them, in their order");
    assert!(reasons.contains(&"Starting") && reasons.contains(&"NodeHasSufficientMemory"), "{reasons:?}");
    assert!(played.server.calls("events").iter().all(|call| call == "POST /api/v1/namespaces/default/events"));
    assert_eq!(events[0]["involvedObject"], json!({ "apiVersion": "v1", "kind": "Node", "name": NODE, "uid": NODE }));
}

#[tokio::test(start_paused = true)]
async fn a_burst_goes_out_one_at_a_time_and_in_order() {
    let played = played();
    played.start_recorder();
    let texts: Vec<String> = (0..8).map(|number| format!("no {number}")).collect();
    for text in &texts {
        played.happens("web", EventReason::Pulled, text);
    }
    seconds(0.2).await;
    assert_eq!(played.posted(), once(&[]), "what they tell of goes first");
    seconds(0.5).await;
    assert_eq!(played.posted(), once(&["no 0", "no 1", "no 2", "no 3"]), "a tenth of a second each");
    seconds(1.0).await;
    assert_eq!(played.posted(), once(&texts.iter().map(|text| &**text).collect::<Vec<_>>()));
    assert_eq!(played.server.events_open_max(), 1);
}

/// An agent that is stopped has told all that happened.
#[tokio::test(start_paused = true)]
async fn events_that_wait_are_sent_before_the_tree_stops() {
    let played = played();
    played.start_recorder();
    let recorder = played.agent.directory.event_recorder.clone();
    let flush =
        async || recorder.ask(Cause::outside("test"), Duration::from_secs(1), EventRecorderMsg::Flush).await.is_ok();
    assert!(flush().await, "nothing waits");
    for text in ["one", "two", "three"] {
        played.happens("web", EventReason::Pulled, text);
    }
    assert!(flush().await);
    assert_eq!(played.posted(), once(&["one", "two", "three"]));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_server_has_no_more_is_posted_anew_with_its_count() {
    let played = played();
    played.start_recorder();
    for _ in 0..3 {
        played.happens("web", EventReason::Pulled, "there");
        seconds(1.0).await;
    }
    played.server.forget_events();
    played.happens("web", EventReason::Pulled, "there");
    seconds(1.0).await;
    assert_eq!(played.posted(), [("there".to_owned(), 4)]);
    let calls = played.server.calls("events");
    assert_eq!(calls.len(), 5);
    assert_eq!(calls[4], POST, "at once after the PATCH that found none");
    assert_eq!(played.server.sent(POST)["firstTimestamp"], "2026-01-01T00:00:00Z");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_final_and_a_server_that_cannot_is_asked_again() {
    for (code, reason, tries) in [
        (400, "BadRequest", 1),
        (403, "Forbidden", 1),
        (404, "NotFound", 1),
        (409, "AlreadyExists", 1),
        (422, "Invalid", 1),
        (500, "InternalError", 1),
        (429, "TooManyRequests", 2),
        (503, "ServiceUnavailable", 2),
        (504, "Timeout", 2),
    ] {
        let played = played();
        played.start_recorder();
        played.server.refuse(POST, code, reason);
        played.happens("web", EventReason::Pulled, "first");
        played.happens("web", EventReason::Pulled, "second");
        seconds(20.0).await;
        assert_eq!(played.server.calls("events").len(), tries + 1, "{code}");
        let expected: &[&str] = if tries == 1 { &["second"] } else { &["first", "second"] };
        assert_eq!(played.posted(), once(expected), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_holds_up_events_but_not_the_recorder() {
    let played = played();
    played.start_recorder();
    played.server.fall_silent(Some("POST"));
    played.happens("web", EventReason::Pulled, "first");
    played.happens("web", EventReason::Created, "second");
    played.happens("web", EventReason::Created, "second");
    seconds(1.0).await;
    let question = |reply| EventRecorderMsg::OfPod(PodUid::from("uid-web"), reply);
    let recorder = &played.agent.directory.event_recorder;
    let asked = recorder.ask(Cause::outside("test"), Duration::from_millis(1), question).await;
    assert_eq!(asked.expect("at once").len(), 2);
    // The call is given up after 30 s; then half of 10 s, as chance has it.
    seconds(33.0).await;
    assert_eq!(played.server.calls("events").len(), 1);
    played.server.fall_silent(None);
    seconds(2.0).await;
    assert_eq!(played.posted(), [("first".to_owned(), 1), ("second".to_owned(), 2)]);
    assert_eq!(played.server.calls("events"), vec![POST; 3], "what waited was told once, with its count");
}

#[tokio::test(start_paused = true)]
async fn one_event_is_tried_twelve_times_and_the_next_one_follows() {
    let played = played();
    played.start_recorder();
    for _ in 0..12 {
        played.server.refuse(POST, 503, "ServiceUnavailable");
    }
    played.happens("web", EventReason::Pulled, "first");
    played.happens("web", EventReason::Pulled, "second");
    seconds(104.0).await;
    assert_eq!(played.server.calls("events").len(), 11, "5 s and ten times 10 s, and what the calls take");
    seconds(10.0).await;
    assert_eq!(played.server.calls("events").len(), 13);
    assert_eq!(played.posted(), once(&["second"]));
}

/// Whenever the recorder dies: what the server said it had is not sent again, and what follows gets through.
#[tokio::test(start_paused = true)]
async fn a_crash_repeats_nothing_that_the_server_has() {
    for hundredth in (0..120).step_by(7) {
        let played = played();
        let recorder = played.start_recorder();
        for text in ["a", "b", "b", "c"] {
            played.happens("web", EventReason::Pulled, text);
            played.happens("web", EventReason::Pulled, "again");
        }
        seconds(f64::from(hundredth) / 100.0).await;
        let before = played.server.events();
        let asked = played.server.calls("events").len();
        recorder.kill();
        seconds(0.2).await;
        assert!(played.server.calls("events").len() <= asked + 1, "at most the call that was open");
        played.start_recorder();
        played.happens("web", EventReason::Started, "after the crash");
        played.happens("web", EventReason::Pulled, "again");
        seconds(2.0).await;
        let after = played.server.events();
        assert!(before.iter().all(|event| after.contains(event)), "{hundredth}: {before:?} {after:?}");
        let news: Vec<_> = played.posted().split_off(after.len() - 2);
        assert_eq!(news, once(&["after the crash", "again"]), "{hundredth}");
    }
}
