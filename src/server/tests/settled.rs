//! Tests of requests that come before a just started agent knows its pods.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use serde_json::json;

use super::super::routes;
use super::{Node, ask_routes};
use crate::actors::kit::trace::Cause;
use crate::messages::status::status_manager::{Patience, StatusManagerMsg};

/// Far more than any answer takes.
const LONG: Duration = Duration::from_secs(60);

fn local(node: &Node) -> axum::Router {
    routes::local(Arc::clone(&node.backend))
}

/// PAIN-16: kubectl, scripts and monitors that ask at once after a restart.
#[tokio::test]
async fn a_request_waits_until_all_pods_are_known() {
    let node = Node::plain();
    node.begin().await;
    let router = local(&node);
    let asked = join_all(
        [
            ("GET", "/pods"),
            ("GET", "/ps"),
            ("GET", "/explain/shop/web"),
            ("GET", "/containerLogs/shop/web/a"),
            ("POST", "/run/shop/web/a?cmd=x"),
        ]
        .map(|(method, path)| {
            let router = &router;
            async move { (path, ask_routes(router, method, path).await) }
        }),
    );
    let told = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        node.hear_all(&["web"]);
        tokio::time::sleep(Duration::from_millis(200)).await;
        node.tell_pod("web", json!({ "phase": "Running" }), &[]).await;
    };
    let (answers, ()) = tokio::join!(asked, told);
    for (path, (status, body)) in answers {
        // Neither a pod that nobody has, nor an agent that does not know yet.
        assert!(![404, 503].contains(&status.as_u16()), "{path}: {status} {body}");
        assert!(status.as_u16() != 200 || body.contains("web"), "{path}: {status} {body}");
    }
    let (status, _) = ask_routes(&router, "GET", "/containerLogs/shop/nobody/a").await;
    assert_eq!(status.as_u16(), 404, "a pod that nobody has is told so");
}

/// A crowd that waits takes no more than its room.
#[tokio::test]
async fn of_too_many_that_wait_one_more_is_answered_at_once() {
    let node = Node::plain();
    node.begin().await;
    let to = &node.agent.directory.status_manager;
    let question = |reply| StatusManagerMsg::Settled(Patience::UntilKnown, reply);
    let mut waiting: FuturesUnordered<_> = (0..1025).map(|_| to.ask(Cause::outside("test"), LONG, question)).collect();
    assert_eq!(waiting.next().await.map(|answer| answer.is_ok()), Some(true));
    assert_eq!(waiting.len(), 1024);
    node.hear_all(&[]);
    assert!(waiting.all(|answer| std::future::ready(answer.is_ok())).await, "and the others when all is known");
}
