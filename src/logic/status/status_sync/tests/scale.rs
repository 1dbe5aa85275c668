//! That one event costs one pod, counted in looks at differences.

use serde_json::{Value, json};

use super::*;

fn pod(value: Value) -> Arc<Pod> {
    Arc::new(serde_json::from_value(value).expect("a pod"))
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// POD-34: a change of one pod has one difference looked at, however many pods there are; so has the end of one call.
#[test]
fn one_event_costs_one_look() {
    for pods in [10_usize, 1000] {
        let mut sync = StatusSync::default();
        let of = |number: usize, version: u64, phase: &str| {
            let metadata = json!({"name": format!("web-{number}"), "namespace": "shop", "uid": format!("u{number}"),
                "resourceVersion": version.to_string()});
            pod(json!({"metadata": metadata, "status": {"phase": phase}}))
        };
        let told = |number: usize, phase: &str| Own {
            full_name: FullName::new(&format!("web-{number}"), "shop"),
            is_static: false,
            config_hash: None,
            status: Arc::new(serde_json::from_value(json!({"phase": phase})).expect("a status")),
            may_run: true,
        };
        for number in 0..pods {
            sync.own(&format!("u{number}").into(), told(number, "Running"));
            sync.seen(of(number, 1, "Running"));
        }
        assert!(sync.orders(at(1)).0.is_empty(), "the API server has all of it");
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
