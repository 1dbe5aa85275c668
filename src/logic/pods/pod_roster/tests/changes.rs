//! Changes of a pod that its worker hears of, and changes that it does not.

use serde_json::{Value, json};

use super::*;

/// A pod with something in each field that counts, and in some that do not.
fn whole() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "default", "generation": 1, "resourceVersion": "1",
            "labels": {"app": "web"}, "finalizers": ["example.com/guard"],
            "annotations": {"kubernetes.io/config.source": "api", "kubernetes.io/config.mirror": "hash",
                "kubernetes.io/config.seen": "2026-01-01T00:00:00Z", "example.com/team": "red"},
            "deletionTimestamp": null, "deletionGracePeriodSeconds": null},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}], "terminationGracePeriodSeconds": 30,
            "readinessGates": [{"conditionType": "example.com/lb"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1",
            "conditions": [{"type": "example.com/lb", "status": "False", "reason": "Waits"},
                {"type": "Ready", "status": "False"}],
            "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "web-gpu-1"}],
            "extendedResourceClaimStatus": {"resourceClaimName": "web-extended-1", "requestMappings": []},
            "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "resources": {"requests": {"cpu": "1"}}}]},
    })
}

fn of(json: Value) -> Pod {
    serde_json::from_value(json).expect("a pod")
}

/// The pod with this field changed.
fn with(field: &str, value: &Value) -> Pod {
    let mut json = whole();
    *json.pointer_mut(field).expect("the field is there") = value.clone();
    of(json)
}

/// POD-04.
#[test]
fn a_worker_hears_of_changes_that_somebody_made_to_its_pod() {
    for (field, value) in [
        ("/metadata/generation", json!(2)),
        ("/metadata/labels/app", json!("db")),
        ("/metadata/labels", json!(null)),
        ("/metadata/annotations/example.com~1team", json!("blue")),
        ("/metadata/annotations", json!(null)),
        ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:30Z")),
        ("/metadata/deletionGracePeriodSeconds", json!(30)),
        ("/spec/containers/0/image", json!("nginx:2")),
        ("/spec/terminationGracePeriodSeconds", json!(5)),
        ("/spec/readinessGates", json!([])),
        ("/status/conditions/0/status", json!("True")),
        ("/status/conditions/0/type", json!("example.com/other")),
        ("/status/conditions", json!(null)),
        ("/status/resourceClaimStatuses/0/resourceClaimName", json!("web-gpu-2")),
        ("/status/resourceClaimStatuses", json!([])),
        ("/status/extendedResourceClaimStatus/resourceClaimName", json!("web-extended-2")),
        ("/status/extendedResourceClaimStatus", json!(null)),
        ("/status", json!(null)),
    ] {
        let (before, now) = (of(whole()), with(field, &value));
        assert!(differs(&before, &now), "{field} became {value}");
        assert!(differs(&now, &before), "{field} was {value}");
        assert!(is_news(&before, &now), "{field} became {value}: its source tells of it");
    }
}

/// POD-04: annotations and status are the agent's own, and the rest is for the API server.
#[test]
fn a_worker_hears_of_no_change_that_concerns_others() {
    for (field, value) in [
        ("/metadata/resourceVersion", json!("2")),
        ("/metadata/finalizers", json!([])),
        ("/metadata/annotations/kubernetes.io~1config.source", json!("file")),
        ("/metadata/annotations/kubernetes.io~1config.mirror", json!("other")),
        ("/metadata/annotations/kubernetes.io~1config.seen", json!("2026-01-02T00:00:00Z")),
        ("/status/phase", json!("Pending")),
        ("/status/podIP", json!("10.0.0.2")),
        ("/status/conditions/0/reason", json!("Knows")),
        ("/status/conditions/1/status", json!("True")),
    ] {
        let (before, now) = (of(whole()), with(field, &value));
        assert!(!differs(&before, &now), "{field} became {value}");
        assert!(!is_news(&before, &now), "{field} became {value}: its source keeps the version before");
    }
    let (no_list, empty_list) =
        (with("/status/resourceClaimStatuses", &json!(null)), with("/status/resourceClaimStatuses", &json!([])));
    assert!(!differs(&no_list, &empty_list), "a list without claims is no list");
}

/// POD-31: a pod that has ended, or that takes less than before, leaves room for others, but its worker does nothing for it.
#[test]
fn a_source_tells_of_a_status_when_the_node_may_have_room_again() {
    for (field, before, now, news) in [
        ("/status/phase", json!("Running"), json!("Succeeded"), true),
        ("/status/phase", json!("Pending"), json!("Failed"), true),
        ("/status/phase", json!("Failed"), json!("Succeeded"), false),
        ("/status/phase", json!("Pending"), json!("Running"), false),
        ("/status/containerStatuses/0/resources/requests/cpu", json!("1"), json!("500m"), true),
        ("/status/containerStatuses/0/resources", json!(null), json!({"requests": {"cpu": "1"}}), true),
        ("/status/containerStatuses/0/resources", json!(null), json!({}), false),
        ("/status/containerStatuses/0/restartCount", json!(0), json!(1), false),
    ] {
        let (before, now) = (with(field, &before), with(field, &now));
        assert_eq!(is_news(&before, &now), news, "{field}: {:?}, then {:?}", before.status, now.status);
        assert!(!differs(&before, &now), "{field}: its worker hears nothing");
    }
}

/// POD-04: another version of the same pod is no order, and the worker keeps the version that it has.
#[test]
fn a_worker_keeps_its_version_until_something_counts() {
    let told = Arc::new(of(whole()));
    let mut roster = PodRoster::new([API_SOURCE]);
    roster.set(API_SOURCE, set(&[("u1", &told)]));
    assert_eq!(roster.orders(Some(NOTHING)), [start("u1", "web"), tell("u1", &told)]);
    let same = Arc::new(with("/metadata/resourceVersion", &json!("2")));
    roster.set(API_SOURCE, set(&[("u1", &same)]));
    assert_eq!(roster.orders(Some(NOTHING)), [], "another version of the same");
    assert_eq!(roster.told(&"u1".into()), Some(&*told));
    let other = Arc::new(with("/status/conditions/0/status", &json!("True")));
    roster.set(API_SOURCE, set(&[("u1", &other)]));
    assert_eq!(roster.orders(Some(NOTHING)), [tell("u1", &other)], "a readiness gate is open");
    assert_eq!(roster.told(&"u1".into()), Some(&*other));
}

#[test]
fn a_pod_is_static_unless_it_is_of_the_api_server() {
    for (annotations, is_static_one, hash) in [
        (json!(null), false, None),
        (json!({}), false, None),
        (json!({"kubernetes.io/config.source": "api"}), false, None),
        (json!({"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "f00"}), true, Some("f00")),
        (json!({"kubernetes.io/config.source": "http"}), true, None),
        (json!({"kubernetes.io/config.mirror": "f00"}), false, None),
    ] {
        let pod = of(json!({"metadata": {"annotations": annotations}}));
        assert_eq!(is_static(&pod), is_static_one, "{annotations}");
        assert_eq!(config_hash(&pod).as_deref(), hash, "{annotations}");
    }
}

#[test]
fn a_pods_full_name_is_read_off_its_object() {
    for (metadata, name, namespace) in [
        (json!({"name": "web", "namespace": "shop"}), "web", "shop"),
        (json!({"name": "web"}), "web", ""),
        (json!({"namespace": "shop"}), "", "shop"),
        (json!({}), "", ""),
    ] {
        assert_eq!(full_name(&of(json!({"metadata": metadata}))), FullName::new(name, namespace), "{metadata}");
    }
}
