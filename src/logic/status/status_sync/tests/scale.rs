//! That one event costs one pod, counted in looks at differences.

use serde_json::{Value, json};

use super::*;

fn pod(value: Value) -> Arc<Pod> {
    Arc::new(serde_json::from_value(value).expect("a pod"))
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The pod as the API server has it.
fn of(number: usize, version: u64, phase: &str) -> Arc<Pod> {
    let metadata = json!({"name": format!("web-{number}"), "namespace": "shop", "uid": format!("u{number}"),
        "resourceVersion": version.to_string()});
    pod(json!({"metadata": metadata, "status": {"phase": phase}}))
}

/// The word of the pod's worker.
fn told(number: usize, phase: &str) -> Own {
    Own {
        full_name: FullName::new(&format!("web-{number}"), "shop"),
        is_static: false,
        config_hash: None,
        status: Arc::new(serde_json::from_value(json!({"phase": phase})).expect("a status")),
        may_run: true,
    }
}

/// So many pods, of which the API server has the status that they have.
fn in_order(pods: usize) -> StatusSync {
    let mut sync = StatusSync::default();
    for number in 0..pods {
        sync.own(&format!("u{number}").into(), told(number, "Running"));
        sync.seen(of(number, 1, "Running"));
    }
    assert!(sync.orders(at(1)).0.is_empty(), "the API server has all of it");
    sync
}

/// POD-34: a change of one pod has one difference looked at, however many pods there are; so has the end of one call.
#[test]
fn one_event_costs_one_look() {
    for pods in [10_usize, 1000] {
        let mut sync = in_order(pods);
        let before = sync.looks();
        sync.seen(of(3, 2, "Running"));
        assert!(sync.orders(at(2)).0.is_empty());
        assert_eq!(sync.looks() - before, 1, "an echo, beside {pods} pods");
        sync.own(&"u3".into(), told(3, "Pending"));
        assert_eq!(sync.orders(at(3)).0.len(), 1);
        sync.answered(&"u3".into(), Answer::Done(Some(of(3, 3, "Pending"))), at(3), 0.0);
        assert!(sync.orders(at(3)).0.is_empty());
        assert_eq!(sync.looks() - before, 3, "a change and its answer, beside {pods} pods");
    }
}

/// POD-34: after an outage a pod's difference is looked at when it changes, when it is sent, and when that is answered. How
/// many pods wait beside it does not matter.
#[test]
fn an_outage_costs_three_looks_a_pod() {
    const PODS: usize = 1000;
    let mut sync = in_order(PODS);
    let before = sync.looks();
    for number in 0..PODS {
        sync.own(&format!("u{number}").into(), told(number, "Pending"));
    }
    let mut sent = 0;
    let mut orders = sync.orders(at(2)).0;
    while let Some(order) = orders.pop() {
        sent += 1;
        let number = order.uid.as_str()[1..].parse().expect("a number");
        sync.answered(&order.uid, Answer::Done(Some(of(number, 2, "Pending"))), at(2), 0.0);
        orders.extend(sync.orders(at(2)).0);
        assert!(orders.len() <= CALLS_MAX);
    }
    assert_eq!(sent, PODS);
    let looks = sync.looks() - before;
    assert!(looks <= 3 * PODS as u64, "{looks} looks");
}

/// While nobody answers, what would be sent is not worth a look; the first answer has all looked at.
#[test]
fn changes_cost_no_look_while_the_api_server_is_away() {
    let mut sync = in_order(10);
    sync.own(&"u3".into(), told(3, "Pending"));
    assert_eq!(sync.orders(at(2)).0.len(), 1);
    sync.answered(&"u3".into(), Answer::Away, at(2), 0.0);
    let before = sync.looks();
    for phase in ["Running", "Pending"] {
        sync.own(&"u3".into(), told(3, phase));
        assert!(sync.orders(at(2)).0.is_empty());
    }
    assert_eq!(sync.looks(), before);
    assert!(sync.take_settled().iter().all(|uid| *uid != "u3".into()), "its status is still to be sent");
    sync.own(&"u4".into(), told(4, "Pending"));
    assert_eq!(sync.orders(at(2)).0.len(), 1);
    sync.answered(&"u4".into(), Answer::Done(Some(of(4, 2, "Pending"))), at(2), 0.0);
    let sent: Vec<PodUid> = sync.orders(at(2)).0.into_iter().map(|order| order.uid).collect();
    assert_eq!(sent, ["u3".into()]);
    assert_eq!(sync.take_settled(), ["u4".into()]);
}
