//! The messages of Events about resizes.

use k8s_openapi::api::core::v1::ResourceClaim;

use super::*;

#[test]
fn events_say_what_upstreams_say() {
    let pod = pod("cpu=0.5", "memory=1024Mi");
    let resources = r#""containers":[{"name":"a","resources":{"limits":{"memory":"1Gi"},"requests":{"cpu":"500m"}}}]"#;
    assert_eq!(started(&pod, 3), format!(r#"Pod resize started: {{{resources},"generation":3}}"#));
    assert_eq!(completed(&pod, 3), format!(r#"Pod resize completed: {{{resources},"generation":3}}"#));
    assert_eq!(failed(&pod, 3, "no"), format!(r#"Pod resize error: {{{resources},"generation":3,"error":"no"}}"#));
    for reason in ["OutOfcpu", "OutOfmemory", "Infeasible"] {
        let text = pending(&pod, 3, reason, "full");
        assert_eq!(text, format!(r#"Pod resize {reason}: {{{resources},"generation":3,"error":"full"}}"#));
    }
}

/// Init containers first, each with limits, requests and claims in this order; the generation is there even when it is 0.
#[test]
fn the_summary_lists_every_container() {
    let mut whole = pod_of(vec![container("a", "cpu=1", "cpu=2"), container("b", "", "")]);
    spec(&mut whole).containers[1].resources = None;
    spec(&mut whole).containers[0].resources.as_mut().expect("resources").claims =
        Some(vec![ResourceClaim { name: "gpu".to_owned(), request: None }]);
    let whole = with_inits(whole, vec![container("i", "memory=1Mi", ""), sidecar("s", "", "cpu=1500m")]);
    let expected = concat!(
        r#"Pod resize started: {"initContainers":[{"name":"i","resources":{"requests":{"memory":"1Mi"}}},"#,
        r#"{"name":"s","resources":{"limits":{"cpu":"1500m"}}}],"#,
        r#""containers":[{"name":"a","resources":{"limits":{"cpu":"2"},"requests":{"cpu":"1"},"claims":[{"name":"gpu"}]}},"#,
        r#"{"name":"b","resources":{}}],"generation":0}"#
    );
    assert_eq!(started(&whole, 0), expected);
    assert_eq!(completed(&Pod::default(), 1), r#"Pod resize completed: {"generation":1}"#);
}

/// A runtime's words may hold anything; the text stays JSON.
#[test]
fn an_error_is_quoted() {
    let text = failed(&pod("", ""), 1, "said \"no\"\nand left");
    let json = text.strip_prefix("Pod resize error: ").expect("its beginning");
    let read: serde_json::Value = serde_json::from_str(json).expect("JSON");
    assert_eq!(read["error"], "said \"no\"\nand left");
}
