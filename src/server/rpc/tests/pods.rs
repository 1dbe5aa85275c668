//! The Pods API: lists, watches, and the bytes of a pod.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tonic::{Code, Streaming};

use super::super::pod_bytes::{gone_pod_bytes, pod_bytes};
use super::super::wire::pods_v1alpha1::{EventType, GetPodRequest, ListPodsRequest, WatchPodsEvent, WatchPodsRequest};
use super::{PATIENCE, pods, socket, status, tell, tell_view, view};
use crate::actors::kit::trace::{Cause, Faults};
use crate::messages::status::pod_watch::CHANGES_MAX;
use crate::messages::status::status_manager::{PodNews, PodView, StatusManagerMsg};
use crate::server::tests::Node;

async fn next(events: &mut Streaming<WatchPodsEvent>) -> (EventType, Vec<u8>) {
    let next = tokio::time::timeout(PATIENCE, events.message()).await.expect("in time");
    let event = next.expect("goes on").expect("does not end");
    (event.r#type(), event.pod)
}

/// SRV-52.
#[tokio::test]
async fn pods_are_listed_and_found_by_their_uids() {
    let node = Node::with_rpc(None, vec![]);
    node.start().await;
    let (web, db, mut over) = (view("web"), view("db"), view("over"));
    over.is_over = true;
    [&web, &db, &over].into_iter().for_each(|view| tell_view(&node, view));
    let mut client = pods(&node).await;
    let listed = client.list_pods(ListPodsRequest {}).await.expect("answered").into_inner().pods;
    let expected = [&db, &web].map(|view| pod_bytes(&view.pod, &view.status).expect("has a form"));
    assert_eq!(listed, expected);
    let get = |uid: &str| GetPodRequest { pod_uid: uid.to_owned() };
    assert_eq!(client.get_pod(get("uid-web")).await.expect("answered").into_inner().pod, expected[1]);
    for uid in ["uid-over", "nobody", ""] {
        let refused = client.get_pod(get(uid)).await.expect_err("not there");
        assert_eq!((refused.code(), refused.message()), (Code::NotFound, &*format!("pod with UID {uid} not found")));
    }
    for _ in 0..5 {
        client.list_pods(ListPodsRequest {}).await.expect("answered");
    }
    let refused = client.list_pods(ListPodsRequest {}).await.expect_err("the eleventh");
    assert_eq!((refused.code(), refused.message()), (Code::ResourceExhausted, "rejected by rate limit"));
}

/// SRV-52: all pods, that these were all, and then each change once.
#[tokio::test]
async fn a_watch_begins_with_all_pods_and_goes_on_with_changes() {
    let node = Node::with_rpc(None, vec![]);
    node.start().await;
    let (mut web, db) = (view("web"), view("db"));
    [&web, &db].into_iter().for_each(|view| tell_view(&node, view));
    let mut events = pods(&node).await.watch_pods(WatchPodsRequest {}).await.expect("answered").into_inner();
    let bytes = |view: &PodView| pod_bytes(&view.pod, &view.status).expect("has a form");
    assert_eq!(next(&mut events).await, (EventType::Added, bytes(&db)));
    assert_eq!(next(&mut events).await, (EventType::Added, bytes(&web)));
    assert_eq!(next(&mut events).await, (EventType::InitialSyncComplete, vec![]));

    let new = view("new");
    tell_view(&node, &new);
    assert_eq!(next(&mut events).await, (EventType::Added, bytes(&new)));
    tell_view(&node, &web); // It is as it was: nobody hears of that.
    web.status = status(json!({ "phase": "Failed" }));
    tell_view(&node, &web);
    assert_eq!(next(&mut events).await, (EventType::Modified, bytes(&web)));
    web.is_over = true;
    tell_view(&node, &web);
    assert_eq!(next(&mut events).await, (EventType::Deleted, gone_pod_bytes(&web.pod).expect("has a form")));
    tell(&node, StatusManagerMsg::Pods(PodNews::PodForgotten(web.uid.clone()))); // It was gone already.
    tell(&node, StatusManagerMsg::Pods(PodNews::PodForgotten(db.uid.clone())));
    assert_eq!(next(&mut events).await, (EventType::Deleted, gone_pod_bytes(&db.pod).expect("has a form")));
    let known = PodNews::Known { pods: Default::default(), ended: Default::default() };
    tell(&node, StatusManagerMsg::Pods(known));
    assert_eq!(next(&mut events).await, (EventType::Deleted, gone_pod_bytes(&new.pod).expect("has a form")));
}

/// SRV-52: who does not read holds up nobody, loses the watch, and may begin again.
#[tokio::test]
async fn a_watcher_that_is_too_slow_loses_its_watch() {
    let node = Node::with_rpc(None, vec![]);
    node.start().await;
    let mut client = pods(&node).await;
    let mut events = client.watch_pods(WatchPodsRequest {}).await.expect("answered").into_inner();
    assert_eq!(next(&mut events).await.0, EventType::InitialSyncComplete);
    // Each change is more than connection and queue hold together after a few hundred.
    let mut large = view("large");
    let count = CHANGES_MAX * 5;
    for number in 0..count {
        large.status = status(json!({ "phase": "Running", "message": format!("{number}{}", "x".repeat(20_000)) }));
        tell_view(&node, &large);
        tokio::task::yield_now().await;
    }
    let (heard, ended) = to_the_end(&mut events).await;
    assert!(heard < count, "all {heard} were heard");
    assert_eq!((ended.code(), ended.message()), (Code::ResourceExhausted, "watch client channel closed"));
    let text = node.metrics.all(&node.backend.sources).await.text();
    assert!(text.contains("\nkubelet_pod_watch_events_dropped_total 1\n"), "{text}");
    let mut events = client.watch_pods(WatchPodsRequest {}).await.expect("answered").into_inner();
    assert_eq!(next(&mut events).await, (EventType::Added, pod_bytes(&large.pod, &large.status).expect("has a form")));
}

async fn to_the_end(events: &mut Streaming<WatchPodsEvent>) -> (usize, tonic::Status) {
    let mut heard = 0;
    loop {
        match tokio::time::timeout(PATIENCE, events.message()).await.expect("in time") {
            Ok(Some(_)) => heard += 1,
            Ok(None) => panic!("ended without a reason"),
            Err(status) => return (heard, status),
        }
    }
}

/// SRV-52.
#[tokio::test]
async fn there_is_a_bound_to_watches_and_one_that_ends_makes_room() {
    let node = Node::with_rpc(None, vec![]);
    node.start().await;
    let mut client = pods(&node).await;
    let mut open = vec![];
    let refused = loop {
        match client.watch_pods(WatchPodsRequest {}).await {
            Ok(events) => open.push(events.into_inner()),
            Err(refused) => break refused,
        }
    };
    assert_eq!((refused.code(), open.len()), (Code::ResourceExhausted, 32));
    open.pop();
    let again = async {
        while client.watch_pods(WatchPodsRequest {}).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("there is room again");
}

/// Strikes `StatusManager` at its next message, once the test says so.
#[derive(Default)]
struct OnDemand(AtomicBool);

impl Faults for OnDemand {
    fn strikes_before(&self, kind: &'static str, _: &str, _: u64) -> bool {
        kind == "StatusManager" && self.0.swap(false, Ordering::SeqCst)
    }
    fn strikes_after(&self, _: &'static str, _: &str, _: u64) -> bool {
        false
    }
}

/// SRV-52: who watches hears that changes may have been missed, and begins again.
#[tokio::test]
async fn a_watch_ends_with_the_actor_that_tells_it() {
    let struck = Arc::new(OnDemand::default());
    let node = Node::with_rpc(Some(struck.clone()), vec![]);
    node.start().await;
    let mut client = pods(&node).await;
    let mut events = client.watch_pods(WatchPodsRequest {}).await.expect("answered").into_inner();
    assert_eq!(next(&mut events).await.0, EventType::InitialSyncComplete);
    struck.0.store(true, Ordering::SeqCst);
    tell_view(&node, &view("lost"));
    let (heard, ended) = to_the_end(&mut events).await;
    assert_eq!((heard, ended.code()), (0, Code::Unavailable));
    // Until the next incarnation is there, nobody answers.
    let mut events = loop {
        let heard_all = StatusManagerMsg::Pods(PodNews::HeardAll(Default::default()));
        let _ = node.agent.directory.status_manager.tell(Cause::outside("test"), heard_all);
        match client.watch_pods(WatchPodsRequest {}).await {
            Ok(events) => break events.into_inner(),
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    };
    tell_view(&node, &view("web"));
    assert_eq!(next(&mut events).await.0, EventType::InitialSyncComplete);
    assert_eq!(next(&mut events).await.0, EventType::Added);
}

/// Idle connections shut nobody out, and cost no watch.
#[tokio::test]
async fn the_oldest_connection_without_a_watch_makes_room() {
    let node = Node::with_rpc(None, vec![]);
    node.start().await;
    let mut events = pods(&node).await.watch_pods(WatchPodsRequest {}).await.expect("answered").into_inner();
    assert_eq!(next(&mut events).await.0, EventType::InitialSyncComplete);
    let path = socket(&node, "pods-api/pods-api.sock").await;
    let mut idle = vec![];
    for _ in 0..70 {
        idle.push(UnixStream::connect(&path).await.expect("somebody listens"));
        tokio::task::yield_now().await;
    }
    let mut rest = vec![];
    let ended = tokio::time::timeout(PATIENCE, idle[0].read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the oldest goes on");
    tell_view(&node, &view("web"));
    assert_eq!(next(&mut events).await.0, EventType::Added, "the watch goes on");
    pods(&node).await.list_pods(ListPodsRequest {}).await.expect("answered");
}

/// SRV-52: the bytes were read with upstream's own `generated.proto`, and had all of this in them.
#[test]
fn a_pod_has_the_bytes_that_kubernetes_reads() {
    let pod = json!({
        "metadata": {
            "name": "p", "namespace": "n", "uid": "u", "generation": 3, "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": { "a": "1", "b": "" }, "ownerReferences": [
                { "apiVersion": "v1", "kind": "Node", "name": "o", "uid": "x", "controller": false },
            ],
        },
        "spec": {
            "containers": [{
                "name": "c", "args": ["x", ""], "ports": [{ "containerPort": 80 }],
                "env": [{ "name": "S", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k", "optional": true } } }],
                "resources": { "limits": { "cpu": "500m" }, "requests": {} },
                "livenessProbe": { "httpGet": { "port": "web", "path": "/" }, "periodSeconds": 7 },
                "readinessProbe": { "tcpSocket": { "port": 80 } },
            }],
            "ephemeralContainers": [{ "name": "e", "targetContainerName": "c" }],
            "volumes": [{ "name": "v", "configMap": { "name": "m", "defaultMode": 420 } }],
            "securityContext": { "runAsUser": -1, "runAsNonRoot": false },
        },
    });
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    let status = status(json!({
        "phase": "Running", "podIPs": [{ "ip": "::1" }],
        "containerStatuses": [{
            "name": "c", "ready": true, "restartCount": 2, "image": "i", "imageID": "j",
            "state": { "running": { "startedAt": "1969-12-31T23:59:59.5Z" } },
        }],
    }));
    let bytes = pod_bytes(&pod, &status).expect("has a form");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, include_str!("pod.hex").split_whitespace().collect::<String>());
    let gone = gone_pod_bytes(&pod).expect("has a form");
    assert_eq!(gone, b"\x0a\x09\x0a\x01p\x1a\x01n\x2a\x01u\x1a\x00");
}
