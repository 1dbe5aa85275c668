//! Answers that need no log. The reading of one is tested with its parts, and live.

use std::pin::pin;
use std::sync::Arc;

use axum::http::StatusCode;
use futures_util::{StreamExt, poll};
use serde_json::json;

use super::stream::{Wanted, read};
use crate::logic::logs::container_log::query::LogQuery;
use crate::server::tests::Node;

/// SRV-33: status and body for what cannot be answered, in upstream's words.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_answered_is_told_in_upstreams_words() {
    let node = Node::with_socket();
    node.start().await;
    let waiting = json!({ "containerStatuses": [{
        "name": "a", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "waiting": { "reason": "ContainerCreating" } },
    }] });
    node.tell_pod("waits", waiting, &[]).await;
    let (bad, odd, none) = (StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY, StatusCode::NOT_FOUND);
    for (path, status, body) in [
        ("/containerLogs/shop/waits/a?tailLines=x", bad, r#"{"message": "Unable to decode query."}"#),
        ("/containerLogs/shop/waits/a?limitBytes=0", odd, r#"{"message": "Invalid request."}"#),
        ("/containerLogs/shop/none/a", none, r#"pod "none" does not exist"#),
        ("/containerLogs/other/waits/a", none, r#"pod "waits" does not exist"#),
        ("/containerLogs/shop/waits/b", none, r#"container "b" not found in pod "waits""#),
        ("/containerLogs/shop/waits/a", bad, r#"container "a" in pod "waits" is waiting to start: ContainerCreating"#),
        (
            "/containerLogs/shop/waits/a?previous=1",
            bad,
            r#"previous terminated container "a" in pod "waits" not found"#,
        ),
        (
            "/containerLogs/shop/waits/a?stream=Stdout",
            bad,
            r#"unable to return the given log stream: "Stdout". Please enable PodLogsQuerySplitStreams feature gate in kubelet"#,
        ),
    ] {
        let answer = node.ask_socket(path).await;
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{path}");
    }
}

/// SRV-33: an error after the headers goes into the body, and no type is named.
#[tokio::test(flavor = "multi_thread")]
async fn trouble_with_the_log_is_told_in_the_body() {
    let node = Node::with_socket();
    node.start().await;
    let running = json!({ "containerStatuses": [{
        "name": "a", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "containerID": "containerd://c1",
        "state": { "running": {} },
    }] });
    node.tell_pod("runs", running, &[]).await;
    let answer = node.ask_socket("/containerLogs/shop/runs/a").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.body, "unable to retrieve container logs for containerd://c1");
    assert!(!answer.headers.contains_key("content-type"), "{:?}", answer.headers);
    assert_eq!(answer.headers.get("transfer-encoding").and_then(|value| value.to_str().ok()), Some("chunked"));
}

/// SRV-33: the API server passes a log on over WebSocket without what it read together with the end of the answer.
#[tokio::test]
async fn the_end_of_an_answer_comes_after_its_last_bytes() {
    let node = Node::plain();
    let admission = node.backend.log_reader.admit().expect("room");
    let wanted = Wanted { id: "containerd://c1".to_owned(), query: LogQuery::default(), _admission: admission };
    let mut parts = pin!(read(Arc::clone(&node.backend), wanted));
    assert!(parts.next().await.is_some());
    assert!(poll!(parts.next()).is_pending(), "the last bytes are sent now");
    assert!(parts.next().await.is_none());
}
