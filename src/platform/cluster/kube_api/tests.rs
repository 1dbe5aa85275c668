//! Calls against a service that answers by hand, under paused time.

mod credentials;
mod reflector;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Node, Pod, Secret, ServiceAccount};
use kube::client::Body;
use serde_json::json;

use super::{ApiError, ApiServer, Lane, Observed, PatchKind, Place, Selector, WatchEvent, WatchFrom};
use crate::platform::observer::{Observation, Observer};

/// The requests: verb, path with query, content type and body.
type Asked = Arc<Mutex<Vec<(String, String, String, String)>>>;

/// A server that answers each call by a function of how many came before it.
fn server(answer: impl Fn(usize) -> Response<Full<Bytes>> + Clone + Send + 'static) -> (ApiServer, Asked) {
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (answer, log) = (answer.clone(), Arc::clone(&log));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            let kind = head.headers.get("content-type").map_or("", |value| value.to_str().expect("text"));
            let entry =
                (head.method.to_string(), head.uri.to_string(), kind.to_owned(), String::from_utf8_lossy(&body).into());
            let before = {
                let mut log = log.lock().expect("not poisoned");
                log.push(entry);
                log.len() - 1
            };
            Ok::<_, Infallible>(answer(before))
        }
    });
    (on_every_lane(kube::Client::new(service, "default")), asked)
}

fn on_every_lane(client: kube::Client) -> ApiServer {
    ApiServer::new(client.clone(), client.clone(), client).named("https://10.0.0.1:6443")
}

fn answer(code: u16, body: &serde_json::Value) -> Response<Full<Bytes>> {
    Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .body(Full::new(body.to_string().into()))
        .expect("an answer")
}

fn node(name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "managedFields": [{"manager": "x"}]}})
}

#[tokio::test(start_paused = true)]
async fn an_object_comes_without_its_managed_fields() {
    let (api, asked) = server(|_| answer(200, &node("n")));
    let read: Node = api.get(&Place::Cluster, "n").await.expect("read");
    assert_eq!(read.metadata.name.as_deref(), Some("n"));
    assert_eq!(read.metadata.managed_fields, None);
    let _: Node = api.on(Lane::Heartbeat).get_cached(&Place::Cluster, "n").await.expect("read");
    let paths: Vec<_> = asked.lock().expect("log").iter().map(|(verb, path, ..)| format!("{verb} {path}")).collect();
    assert_eq!(paths, ["GET /api/v1/nodes/n", "GET /api/v1/nodes/n?resourceVersion=0"]);
}

/// The news, in one line each.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Observer for Told {
    fn observe(&self, what: Observation<'_>) {
        let line = match what {
            Observation::ApiAnswered { method, host, code, request_bytes, .. } => {
                format!("{method} {host} {code:?} {request_bytes}")
            }
            Observation::ApiRead { method, bytes, .. } => format!("{method} read {bytes}"),
            Observation::ApiRetried { method, code, .. } => format!("{method} again after {code}"),
            other => format!("{other:?}"),
        };
        self.0.lock().expect("whole").push(line);
    }

    fn context(&self) -> Vec<(&'static str, String)> {
        vec![("traceparent", "00-aa-bb-01".to_owned())]
    }
}

/// OBS-13.
#[tokio::test(start_paused = true)]
async fn each_try_of_a_call_is_told_with_its_status_and_sizes() {
    let (api, _) = server(|before| match before {
        0 => Response::builder().status(429).header("retry-after", "1").body(Full::default()).expect("an answer"),
        _ => answer(200, &node("n")),
    });
    let told = Arc::new(Told::default());
    let clock = Arc::new(crate::platform::host::clock::SystemClock::start());
    let api = api.observed(Some(Observed::new(told.clone(), clock, "10.0.0.1:6443")));
    let body = json!({"status": {}});
    api.patch::<Node>(&Place::Cluster, "n", None, PatchKind::Merge, &body).await.expect("patched");
    let size = body.to_string().len();
    let expected = [
        format!("PATCH 10.0.0.1:6443 Some(429) {size}"),
        "PATCH again after 429".to_owned(),
        format!("PATCH 10.0.0.1:6443 Some(200) {size}"),
        format!("PATCH read {}", node("n").to_string().len()),
    ];
    assert_eq!(*told.0.lock().expect("whole"), expected);
}

#[tokio::test(start_paused = true)]
async fn a_list_has_its_version_and_may_be_null() {
    let (api, asked) = server(|before| match before {
        0 => answer(
            200,
            &json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
            "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}),
        ),
        _ => answer(200, &json!({"kind": "NodeList", "metadata": {"resourceVersion": "8"}, "items": null})),
    });
    let listed = api.list::<Node>(&Place::Cluster, &Selector::name("a"), Some("0")).await.expect("listed");
    let names: Vec<_> = listed.items.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
    assert_eq!((names, listed.resource_version.as_str()), (vec!["a", "b"], "7"));
    let empty = api.list::<Node>(&Place::Cluster, &Selector::all(), None).await.expect("listed");
    assert_eq!((empty.items.len(), empty.resource_version.as_str()), (0, "8"));
    assert_eq!(asked.lock().expect("log")[0].1, "/api/v1/nodes?fieldSelector=metadata.name%3Da&resourceVersion=0");
}

#[tokio::test(start_paused = true)]
async fn changes_are_sent_as_the_api_wants_them() {
    let (api, asked) = server(|_| answer(200, &node("n")));
    let made =
        Node { metadata: kube::core::ObjectMeta { name: Some("n".into()), ..Default::default() }, ..Node::default() };
    api.create(&Place::Cluster, &made).await.expect("created");
    api.replace(&Place::Cluster, &made, Some("status")).await.expect("replaced");
    let patch = json!({"status": {}});
    api.patch::<Node>(&Place::Cluster, "n", Some("status"), PatchKind::Strategic, &patch).await.expect("patched");
    api.delete::<Pod>(&Place::namespace("web"), "p", Some(0), Some("uid-1")).await.expect("deleted");
    let asked = asked.lock().expect("log");
    let heads: Vec<_> = asked.iter().map(|(verb, path, kind, _)| format!("{verb} {path} {kind}")).collect();
    assert_eq!(
        heads,
        [
            "POST /api/v1/nodes application/json",
            "PUT /api/v1/nodes/n/status application/json",
            "PATCH /api/v1/nodes/n/status application/strategic-merge-patch+json",
            "DELETE /api/v1/namespaces/web/pods/p application/json",
        ]
    );
    let options: serde_json::Value = serde_json::from_str(&asked[3].3).expect("JSON");
    assert_eq!(
        options,
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
        "preconditions": {"uid": "uid-1"}})
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_is_asked_for_below_its_service_account() {
    let (api, asked) = server(|_| {
        answer(
            201,
            &json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {}, "spec": {"audiences": []}, "status": {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"}}),
        )
    });
    let answer: TokenRequest = api
        .post_subresource::<ServiceAccount, _, _>(
            &Place::namespace("web"),
            "default",
            "token",
            &TokenRequest::default(),
        )
        .await
        .expect("answered");
    assert_eq!(answer.status.expect("a status").token.as_deref(), Some("t"));
    assert_eq!(asked.lock().expect("log")[0].1, "/api/v1/namespaces/web/serviceaccounts/default/token");
}

#[tokio::test(start_paused = true)]
async fn a_status_keeps_code_reason_and_message() {
    let (api, _) = server(|_| {
        answer(
            404,
            &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "nodes \"n\" not found", "reason": "NotFound", "details": {"name": "n", "kind": "nodes"}, "code": 404}),
        )
    });
    let error = api.get::<Node>(&Place::Cluster, "n").await.expect_err("refused");
    assert!(error.is_not_found() && !error.is_transient());
    assert_eq!(error.to_string(), "nodes \"n\" not found");
    assert_eq!(error.code(), Some(404));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_plain_text_has_the_words_of_the_usual_client() {
    let (api, _) = server(|_| {
        Response::builder()
            .status(503)
            .header("content-type", "text/plain")
            .body(Full::new("etcd is away".into()))
            .unwrap()
    });
    let error = api.get::<Node>(&Place::Cluster, "n").await.expect_err("refused");
    assert_eq!(error.to_string(), "the server is currently unable to handle the request (get nodes n)");
    assert!(error.is_transient() && !error.is_unreachable());
}

#[tokio::test(start_paused = true)]
async fn who_is_asked_to_come_back_does() {
    let (api, asked) = server(|before| match before {
        0..2 => Response::builder().status(429).header("retry-after", "2").body(Full::default()).unwrap(),
        _ => answer(200, &node("n")),
    });
    let asked_at = tokio::time::sleep(Duration::ZERO).deadline();
    api.get::<Node>(&Place::Cluster, "n").await.expect("read in the end");
    let waited = tokio::time::sleep(Duration::ZERO).deadline() - asked_at;
    assert_eq!((asked.lock().expect("log").len(), waited.as_secs()), (3, 4));
}

/// Some wait for as long as they are asked to, and must not wait for ever.
#[tokio::test(start_paused = true)]
async fn who_is_asked_to_come_back_in_years_does_in_a_minute() {
    let (api, _) = server(|_| {
        Response::builder().status(403).header("retry-after", "4000000000").body(Full::default()).expect("an answer")
    });
    let error = api.get::<Node>(&Place::Cluster, "n").await.expect_err("refused");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(60)));
}

#[tokio::test(start_paused = true)]
async fn who_is_sent_away_for_ever_gives_up() {
    let (api, asked) =
        server(|_| Response::builder().status(429).header("retry-after", "1").body(Full::default()).unwrap());
    let error = api.get::<Node>(&Place::Cluster, "n").await.expect_err("refused");
    assert!(error.is_too_many());
    assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(asked.lock().expect("log").len(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_costs_no_more_than_the_time_limit() {
    let service =
        tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>());
    let api = on_every_lane(kube::Client::new(service, "default")).within(Duration::from_secs(5));
    let error = api.get::<Node>(&Place::Cluster, "n").await.expect_err("no answer");
    assert!(error.is_unreachable() && error.is_transient());
    assert_eq!(error.to_string(), "Get \"https://10.0.0.1:6443/api/v1/nodes/n\": context deadline exceeded");
}

#[tokio::test(start_paused = true)]
async fn a_broken_transport_is_unreachable() {
    let service = tower::service_fn(|_: Request<Body>| async {
        Err::<Response<Full<Bytes>>, _>(std::io::Error::other("dial tcp 10.0.0.1:6443: connect: connection refused"))
    });
    let api = on_every_lane(kube::Client::new(service, "default"));
    let error = api.get::<Node>(&Place::Cluster, "n").await.expect_err("no answer");
    assert!(error.is_unreachable());
    assert_eq!(
        error.to_string(),
        "Get \"https://10.0.0.1:6443/api/v1/nodes/n\": dial tcp 10.0.0.1:6443: connect: connection refused"
    );
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_not_repeated_in_the_error() {
    let (api, _) =
        server(|_| answer(200, &json!({"kind": "Secret", "metadata": {"name": "s"}, "data": "hunter2-secret"})));
    let error = api.get::<Secret>(&Place::namespace("web"), "s").await.expect_err("not a secret's data");
    let text = format!("{error} {error:?}");
    assert!(!text.contains("hunter2") && text.contains("decode Secret"), "{text}");
    assert!(!error.is_transient());
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_end_is_cut_off() {
    let service = tower::service_fn(|_: Request<Body>| async {
        let blank = Bytes::from(vec![b' '; 1 << 20]);
        let endless = futures_util::stream::repeat_with(move || Ok::<_, Infallible>(Frame::data(blank.clone())));
        Ok::<_, Infallible>(Response::new(StreamBody::new(endless)))
    });
    let api = on_every_lane(kube::Client::new(service, "default"));
    let error = api.get::<Node>(&Place::Cluster, "n").await.expect_err("too large");
    assert!(matches!(&error, ApiError::Answer(text) if text.contains("larger than 64 MiB")), "{error:?}");
}

/// A server whose one watch tells these pieces, then ends.
fn watched(pieces: Vec<String>) -> ApiServer {
    let service = tower::service_fn(move |_: Request<Body>| {
        let frames: Vec<_> =
            pieces.iter().map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::from(piece.clone())))).collect();
        async move { Ok::<_, Infallible>(Response::new(StreamBody::new(futures_util::stream::iter(frames)))) }
    });
    on_every_lane(kube::Client::new(service, "default"))
}

async fn events_of(pieces: Vec<String>) -> Vec<Result<WatchEvent<Node>, ApiError>> {
    events_from(WatchFrom::Version("1"), pieces).await
}

async fn events_from(from: WatchFrom<'_>, pieces: Vec<String>) -> Vec<Result<WatchEvent<Node>, ApiError>> {
    let api = watched(pieces);
    let timeout = Duration::from_secs(300);
    api.watch::<Node>(&Place::Cluster, &Selector::all(), from, timeout).await.expect("opened").collect().await
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_its_events_however_they_are_cut() {
    let line = |kind: &str, object: serde_json::Value| format!("{}\n", json!({"type": kind, "object": object}));
    let mark = json!({"kind": "Node", "metadata": {"resourceVersion": "9",
        "annotations": {"k8s.io/initial-events-end": "true"}}});
    let whole =
        [line("ADDED", node("a")), line("MODIFIED", node("a")), line("DELETED", node("a")), line("BOOKMARK", mark)]
            .concat();
    for size in [1, 7, 64, whole.len()] {
        let pieces = whole.as_bytes().chunks(size).map(|piece| String::from_utf8_lossy(piece).into_owned()).collect();
        let told = events_of(pieces).await;
        let kinds: Vec<_> = told
            .into_iter()
            .map(|event| match event.expect("an event") {
                WatchEvent::Added(node) => format!("added {}", node.metadata.name.unwrap_or_default()),
                WatchEvent::Modified(node) => format!("modified {}", node.metadata.name.unwrap_or_default()),
                WatchEvent::Deleted(node) => format!("deleted {}", node.metadata.name.unwrap_or_default()),
                WatchEvent::Bookmark { resource_version, initial_events_end } => {
                    format!("bookmark {resource_version} {initial_events_end}")
                }
            })
            .collect();
        assert_eq!(kinds, ["added a", "modified a", "deleted a", "bookmark 9 true"], "pieces of {size}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_event_is_the_last() {
    let gone = json!({"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "message": "too old resource version: 1 (5)", "reason": "Expired", "code": 410}});
    let told = events_of(vec![format!("{gone}\n"), format!("{gone}\n")]).await;
    let [Err(error)] = &told[..] else { panic!("{told:?}") };
    assert!(error.is_gone());
    assert_eq!(error.to_string(), "too old resource version: 1 (5)");
}

/// They are gathered until they are whole, so all of them together have a bound, too.
#[tokio::test(start_paused = true)]
async fn initial_events_have_no_more_room_than_a_list() {
    let large = || {
        let event = json!({"type": "ADDED", "object": node("n")}).to_string();
        format!("{event}{}\n", " ".repeat(13 * 1024 * 1024))
    };
    let whole = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "5",
        "annotations": {"k8s.io/initial-events-end": "true"}}}});
    let five = || (0..5).map(|_| large()).collect::<Vec<_>>();
    let events = events_from(WatchFrom::InitialEvents, five()).await;
    let error = ApiError::Answer("watch: initial events larger than 64 MiB".to_owned());
    assert_eq!((events.len(), events.last()), (5, Some(&Err(error))));
    let mut listed = five();
    listed.insert(1, format!("{whole}\n"));
    for (from, pieces) in [(WatchFrom::InitialEvents, listed), (WatchFrom::Version("1"), five())] {
        let events = events_from(from, pieces).await;
        assert!(events.len() >= 5 && events.iter().all(Result::is_ok), "{from:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn garbage_ends_a_watch_and_half_a_line_tells_nothing() {
    assert!(matches!(&events_of(vec!["{]\n".into()]).await[..], [Err(ApiError::Answer(_))]));
    assert!(matches!(
        &events_of(vec!["{\"type\":\"WHAT\",\"object\":{}}\n".into()]).await[..],
        [Err(ApiError::Answer(_))]
    ));
    assert!(events_of(vec!["{\"type\":\"ADDED\",\"obj".into()]).await.is_empty());
    assert!(matches!(&events_of(vec!["x".repeat(17 << 20)]).await[..], [Err(ApiError::Answer(_))]));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_the_server_forgets_to_end_ends() {
    let service = tower::service_fn(|_: Request<Body>| async {
        let never = futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        Ok::<_, Infallible>(Response::new(StreamBody::new(never)))
    });
    let api = on_every_lane(kube::Client::new(service, "default"));
    let from = WatchFrom::InitialEvents;
    let watch = api.watch::<Node>(&Place::Cluster, &Selector::all(), from, Duration::from_secs(300)).await;
    assert!(watch.expect("opened").next().await.is_none());
}
