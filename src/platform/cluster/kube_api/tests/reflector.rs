//! Following a selection through everything that a server may do to a watch, under paused time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use k8s_openapi::api::core::v1::Node;
use kube::client::Body;
use serde_json::{Value, json};

use super::super::reflector::{Followed, follow};
use super::super::{ApiServer, Place, Selector};

/// The server's answer to one call.
#[derive(Clone, Debug)]
enum Does {
    /// Answers with this code and body.
    Answers(u16, Value),
    /// Tells these lines, then ends the watch.
    Tells(Vec<Value>),
    /// Tells these lines, then nothing more for as long as it is listened to.
    Holds(Vec<Value>),
    /// Tells these lines, then the connection breaks.
    Breaks(Vec<Value>),
    /// Cannot be reached.
    Refuses,
}

/// Follows nodes on a server with this script for ten minutes; says what was asked (at which second) and what came.
async fn run(script: Vec<Does>) -> (Vec<String>, Vec<String>) {
    let asked = Arc::new(Mutex::new(vec![]));
    let (log, began) = (Arc::clone(&asked), super::super::runtime_clock::now());
    let service = tower::service_fn(move |request: Request<Body>| {
        let count = {
            let mut log = log.lock().expect("log");
            let seconds = (super::super::runtime_clock::now() - began).as_secs_f64();
            log.push(format!("{seconds:.1} {}", describe(request.uri().query().unwrap_or_default())));
            log.len() - 1
        };
        let does = script.get(count).cloned().unwrap_or(Does::Holds(vec![]));
        async move { answer(does) }
    });
    let client = kube::Client::new(service, "default");
    let api = ApiServer::new(client.clone(), client.clone(), client);
    let mut told = vec![];
    let name = |node: &Node| {
        let meta = &node.metadata;
        format!("{}@{}", meta.name.as_deref().unwrap_or_default(), meta.resource_version.as_deref().unwrap_or_default())
    };
    let tell = |followed: Followed<Node>| {
        told.push(match followed {
            Followed::Reset(nodes) => format!("reset [{}]", nodes.iter().map(name).collect::<Vec<_>>().join(" ")),
            Followed::Applied(node) => format!("applied {}", name(&node)),
            Followed::Deleted(node) => format!("deleted {}", name(&node)),
            Followed::Trouble(error) => format!("trouble {error}"),
        });
    };
    let (at, selector) = (Place::Cluster, Selector::all());
    let _ = tokio::time::timeout(Duration::from_secs(600), follow(&api, &at, &selector, || 0.5, tell)).await;
    let asked = asked.lock().expect("log").clone();
    (asked, told)
}

fn describe(query: &str) -> String {
    let pairs: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).collect();
    let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value);
    match (value("watch"), value("sendInitialEvents")) {
        ("true", "true") => "streaming list".to_owned(),
        ("true", _) => format!("watch from {} for {}", value("resourceVersion"), value("timeoutSeconds")),
        _ => format!("list at {}", value("resourceVersion")),
    }
}

fn answer(does: Does) -> Result<Response<StreamBody<futures_util::stream::BoxStream<'static, Piece>>>, std::io::Error> {
    let (code, lines, after): (_, _, futures_util::stream::BoxStream<'static, Piece>) = match does {
        Does::Refuses => return Err(std::io::Error::other("connection refused")),
        Does::Answers(code, body) => (code, vec![body], futures_util::stream::empty().boxed()),
        Does::Tells(lines) => (200, lines, futures_util::stream::empty().boxed()),
        Does::Holds(lines) => (200, lines, futures_util::stream::pending().boxed()),
        Does::Breaks(lines) => {
            let broken = futures_util::stream::iter([Err(std::io::Error::other("connection reset by peer"))]);
            (200, lines, broken.boxed())
        }
    };
    let lines: Vec<Piece> = lines.iter().map(|line| Ok(Frame::data(Bytes::from(format!("{line}\n"))))).collect();
    let body = StreamBody::new(futures_util::stream::iter(lines).chain(after).boxed());
    Ok(Response::builder().status(code).body(body).expect("an answer"))
}

type Piece = Result<Frame<Bytes>, std::io::Error>;

fn event(kind: &str, name: &str, version: &str) -> Value {
    json!({"type": kind, "object": {"kind": "Node", "apiVersion": "v1",
        "metadata": {"name": name, "resourceVersion": version}}})
}

fn bookmark(version: &str, end: bool) -> Value {
    let annotations = if end { json!({"k8s.io/initial-events-end": "true"}) } else { json!({}) };
    json!({"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": version,
        "annotations": annotations}}})
}

fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": format!("{reason} it is")})
}

fn error(code: u16, reason: &str) -> Value {
    json!({"type": "ERROR", "object": status(code, reason)})
}

fn list(version: &str, names: &[&str]) -> Value {
    let items: Vec<_> = names.iter().map(|name| json!({"metadata": {"name": name, "resourceVersion": "1"}})).collect();
    json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items})
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_goes_on_as_a_watch() {
    let (asked, told) = run(vec![Does::Holds(vec![
        event("ADDED", "b", "3"),
        event("ADDED", "a", "2"),
        bookmark("5", true),
        event("MODIFIED", "a", "6"),
        event("DELETED", "b", "7"),
        bookmark("9", false),
    ])])
    .await;
    assert_eq!(told, ["reset [a@2 b@3]", "applied a@6", "deleted b@7"]);
    // The server forgot to end it after 450 s; it is taken up after the bookmark.
    assert_eq!(asked, ["0.0 streaming list", "480.0 watch from 9 for 450"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_listed() {
    let (asked, told) = run(vec![
        Does::Answers(422, status(422, "Invalid")),
        Does::Answers(200, list("4", &["a"])),
        Does::Tells(vec![event("ADDED", "b", "5")]),
    ])
    .await;
    assert_eq!(
        asked[..4],
        ["0.0 streaming list", "0.0 list at ", "0.0 watch from 4 for 450", "1.2 watch from 5 for 450"]
    );
    assert_eq!(told[..2], ["reset [a@1]", "applied b@5"]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_tell_progress_is_listed() {
    let (asked, told) = run(vec![
        Does::Tells(vec![event("ADDED", "a", "1"), error(500, "RequestWatchProgress is disabled")]),
        Does::Answers(200, list("4", &["a"])),
    ])
    .await;
    assert_eq!((asked[1].as_str(), told.as_slice()), ("0.0 list at ", &["reset [a@1]".to_owned()][..]));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_says_that_this_is_all_is_listed() {
    let (asked, told) =
        run(vec![Does::Holds(vec![event("ADDED", "a", "1")]), Does::Answers(200, list("4", &["a", "b"]))]).await;
    assert_eq!((asked[1].as_str(), told.as_slice()), ("30.0 list at ", &["reset [a@1 b@1]".to_owned()][..]));
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_is_taken_up_where_it_ended() {
    let (asked, told) = run(vec![
        Does::Breaks(vec![bookmark("5", true), event("ADDED", "a", "6")]),
        Does::Refuses,
        Does::Tells(vec![event("MODIFIED", "a", "7")]),
    ])
    .await;
    // Waits of 0.8 s and 1.6 s, each with half of itself added by chance.
    assert_eq!(
        asked[..4],
        ["0.0 streaming list", "1.2 watch from 6 for 450", "3.6 watch from 6 for 450", "8.4 watch from 7 for 450",]
    );
    assert_eq!((told[0].as_str(), told[1].as_str(), told[4].as_str()), ("reset []", "applied a@6", "applied a@7"));
    assert!(told[2].starts_with("trouble") && told[3].ends_with("connection refused"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_begins_anew_at_once() {
    for gone in [Does::Tells(vec![error(410, "Expired")]), Does::Answers(410, status(410, "Gone"))] {
        let (asked, told) = run(vec![
            Does::Tells(vec![bookmark("5", true), event("ADDED", "a", "6")]),
            gone,
            Does::Holds(vec![event("ADDED", "b", "9"), bookmark("9", true)]),
        ])
        .await;
        assert_eq!(asked[..3], ["0.0 streaming list", "1.2 watch from 6 for 450", "1.2 streaming list"]);
        assert_eq!([&told[..2], &told[3..]].concat(), ["reset []", "applied a@6", "reset [b@9]"]);
    }
}

/// PAIN-03: a store that was restored from a copy goes on with lower versions. The old versions count no more.
#[tokio::test(start_paused = true)]
async fn versions_that_go_back_have_everything_listed_anew() {
    let too_new = || {
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 504, "reason": "Timeout",
        "message": "Too large resource version: 60, current: 9"})
    };
    let refused = Does::Answers(504, too_new());
    let told_so = Does::Tells(vec![json!({"type": "ERROR", "object": too_new()})]);
    let goes_back = Does::Holds(vec![event("MODIFIED", "a", "8")]);
    let goes_back_unseen = Does::Holds(vec![bookmark("8", false)]);
    for then in [refused, told_so, goes_back, goes_back_unseen] {
        let (asked, told) = run(vec![
            Does::Tells(vec![bookmark("50", true), event("ADDED", "a", "60")]),
            then.clone(),
            Does::Holds(vec![event("ADDED", "b", "9"), bookmark("9", true)]),
        ])
        .await;
        assert_eq!(asked[1..3], ["1.2 watch from 60 for 450", "1.2 streaming list"], "{then:?}");
        assert_eq!([&told[..2], &told[3..]].concat(), ["reset []", "applied a@60", "reset [b@9]"], "{then:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_version_that_is_gone_is_asked_without() {
    let (asked, _) = run(vec![
        Does::Answers(422, status(422, "Invalid")),
        Does::Answers(200, list("4", &[])),
        Does::Tells(vec![error(410, "Expired")]),
        Does::Answers(410, status(410, "Expired")),
        Does::Answers(200, list("9", &[])),
    ])
    .await;
    assert_eq!(asked[3..6], ["1.2 list at 4", "1.2 list at ", "1.2 watch from 9 for 450"]);
}

#[tokio::test(start_paused = true)]
async fn waits_grow_to_half_a_minute_and_more_by_chance_alone() {
    let (asked, told) = run(vec![Does::Refuses; 100]).await;
    let times: Vec<f64> = asked.iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    let waits: Vec<f64> = times.windows(2).map(|pair| ((pair[1] - pair[0]) * 10.0).round() / 10.0).collect();
    assert_eq!(waits[..8], [1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 45.0, 45.0]);
    assert!(asked.iter().all(|line| line.ends_with("streaming list")), "a dead server is not listed too");
    assert_eq!(told.len(), asked.len());
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_do_not_spin() {
    let mut script = vec![Does::Tells(vec![bookmark("5", true)])];
    script.extend(vec![Does::Tells(vec![]); 200]);
    let (asked, _) = run(script).await;
    assert!(asked.len() < 25, "{} calls in ten minutes", asked.len());
    assert!(asked[1..].iter().all(|line| line.contains("watch from 5")), "nothing was lost, so nothing is listed");
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_versions_are_always_gone_is_not_asked_without_end() {
    let script = [Does::Answers(200, list("4", &[])), Does::Tells(vec![error(410, "Expired")])];
    let mut whole = vec![Does::Answers(422, status(422, "Invalid"))];
    whole.extend(script.iter().cycle().take(400).cloned());
    let (asked, _) = run(whole).await;
    assert!(asked.len() < 60, "{} calls in ten minutes", asked.len());
}

#[tokio::test(start_paused = true)]
async fn who_may_not_list_asks_again_later() {
    let forbidden = Does::Answers(403, status(403, "Forbidden"));
    let (asked, told) = run(vec![forbidden.clone(), forbidden, Does::Holds(vec![bookmark("5", true)])]).await;
    assert_eq!(asked[..3], ["0.0 streaming list", "0.0 list at ", "1.2 streaming list"]);
    assert_eq!(told, ["trouble Forbidden it is", "reset []"]);
}
