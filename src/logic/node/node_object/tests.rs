//! Cases of the Node object: what it begins with, and what of an earlier one is put right.

use proptest::prelude::*;

use super::*;

fn identity() -> NodeIdentity {
    NodeIdentity { name: "node-1".to_owned(), architecture: "amd64".to_owned(), ..NodeIdentity::default() }
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn amounts(pairs: &[(&str, &str)]) -> Option<BTreeMap<String, ApiQuantity>> {
    Some(pairs.iter().map(|(name, text)| ((*name).to_owned(), ApiQuantity((*text).to_owned()))).collect())
}

fn node_with(capacity: &[(&str, &str)], allocatable: &[(&str, &str)]) -> Node {
    let status = NodeStatus { capacity: amounts(capacity), allocatable: amounts(allocatable), ..NodeStatus::default() };
    Node { status: Some(status), ..initial(&identity()) }
}

/// CVE-2025-5187, NODE-01, SEC-50.
#[test]
fn cve_2025_5187_sec_50_a_new_node_has_the_default_labels_and_nothing_more() {
    let node = initial(&identity());
    let expected = labels(&[
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/hostname", "node-1"),
        ("kubernetes.io/os", "linux"),
    ]);
    assert_eq!(node.metadata.labels, Some(expected));
    assert_eq!(node.metadata.name.as_deref(), Some("node-1"));
    assert_eq!(node.metadata.annotations, None);
    // The owner of a Node can have it deleted (CVE-2025-5187).
    assert_eq!(node.metadata.owner_references, None);
    let spec = node.spec.expect("a spec");
    assert_eq!((spec.taints, spec.provider_id), (None, None));
}

/// NODE-02, NODE-11.
#[test]
fn what_the_configuration_says_goes_into_a_new_node() {
    let identity = NodeIdentity {
        labels: labels(&[("kubernetes.io/arch", "other"), ("zone", "a")]),
        taints: vec![("dedicated".to_owned(), String::new(), "NoExecute".to_owned())],
        provider_id: "cloud://1".to_owned(),
        controller_attach_detach: true,
        external_cloud_provider: true,
        ..identity()
    };
    let node = initial(&identity);
    let found = node.metadata.labels.expect("labels");
    assert_eq!((&*found["kubernetes.io/arch"], &*found["zone"]), ("other", "a"));
    assert_eq!(overridden_labels(&identity), [("kubernetes.io/arch", "amd64".to_owned())]);
    assert_eq!(node.metadata.annotations, Some(labels(&[(CONTROLLER_ATTACH_ANNOTATION, "true")])));
    let spec = node.spec.expect("a spec");
    assert_eq!(spec.provider_id.as_deref(), Some("cloud://1"));
    let taints: Vec<_> =
        spec.taints.into_iter().flatten().map(|taint| (taint.key, taint.value, taint.effect)).collect();
    assert_eq!(
        taints,
        [
            ("dedicated".to_owned(), None, "NoExecute".to_owned()),
            (CLOUD_TAINT.to_owned(), Some("true".to_owned()), "NoSchedule".to_owned()),
        ]
    );
}

#[test]
fn a_node_that_is_as_it_should_be_is_left_alone() {
    let initial = node_with(&[("cpu", "4"), ("hugepages-2Mi", "0")], &[("cpu", "4"), ("hugepages-2Mi", "0")]);
    let mut existing = node_with(&[("cpu", "8"), ("hugepages-2Mi", "0k")], &[("hugepages-2Mi", "0")]);
    existing.metadata.labels.get_or_insert_default().insert("custom".to_owned(), "kept".to_owned());
    let before = existing.clone();
    assert!(!reconcile(&initial, &mut existing, false));
    assert_eq!(existing, before);
}

/// NODE-08.
#[test]
fn the_attach_annotation_is_added_corrected_and_removed() {
    for (wanted, found, after) in [
        (true, None, Some("true")),
        (true, Some("false"), Some("true")),
        (false, Some("true"), None),
        (true, Some("true"), Some("true")),
        (false, None, None),
    ] {
        let identity = NodeIdentity { controller_attach_detach: wanted, ..identity() };
        let mut existing = initial(&NodeIdentity { controller_attach_detach: false, ..identity.clone() });
        if let Some(found) = found {
            existing.metadata.annotations = Some(labels(&[(CONTROLLER_ATTACH_ANNOTATION, found), ("other", "x")]));
        }
        let changed = reconcile(&initial(&identity), &mut existing, false);
        assert_eq!(changed, found != after, "{wanted} {found:?}");
        let annotations = existing.metadata.annotations.unwrap_or_default();
        assert_eq!(annotations.get(CONTROLLER_ATTACH_ANNOTATION).map(String::as_str), after, "{wanted} {found:?}");
        assert_eq!(annotations.contains_key("other"), found.is_some());
    }
}

/// NODE-09.
#[test]
fn only_default_labels_are_given_anew() {
    let identity = NodeIdentity {
        labels: labels(&[
            ("custom", "wanted"),
            ("topology.kubernetes.io/zone", "a"),
            ("topology.kubernetes.io/region", ""),
        ]),
        ..identity()
    };
    let mut existing = Node::default();
    existing.metadata.labels =
        Some(labels(&[("kubernetes.io/hostname", "old"), ("topology.kubernetes.io/region", "gone"), ("mine", "1")]));
    assert!(reconcile(&initial(&identity), &mut existing, false));
    let found = existing.metadata.labels.expect("labels");
    assert_eq!(&*found["kubernetes.io/hostname"], "node-1");
    assert_eq!(&*found["topology.kubernetes.io/zone"], "a");
    assert_eq!(&*found["mine"], "1");
    assert!(!found.contains_key("custom"), "{found:?}");
    assert!(!found.contains_key("topology.kubernetes.io/region"), "an empty label is none: {found:?}");
}

/// NODE-07.
#[test]
fn taints_and_provider_are_not_given_anew() {
    let identity = NodeIdentity {
        taints: vec![("a".to_owned(), "b".to_owned(), "NoSchedule".to_owned())],
        provider_id: "p".to_owned(),
        ..identity()
    };
    let mut existing = initial(&self::identity());
    assert!(!reconcile(&initial(&identity), &mut existing, false));
    assert_eq!(existing.spec, initial(&self::identity()).spec);
}

#[test]
fn extended_resources_become_zero_only_when_the_devices_are_lost() {
    let resources = [("cpu", "4"), ("example.com/gpu", "2"), ("hugepages-2Mi", "0"), ("x.kubernetes.io/own", "3")];
    for (lost, left) in [(false, "2"), (true, "0")] {
        let mut existing = node_with(&resources, &resources);
        let initial = node_with(&[("hugepages-2Mi", "0")], &[("hugepages-2Mi", "0")]);
        assert_eq!(reconcile(&initial, &mut existing, lost), lost);
        let status = existing.status.expect("a status");
        for list in [status.capacity, status.allocatable] {
            let list = list.expect("resources");
            assert_eq!((&*list["example.com/gpu"].0, &*list["cpu"].0), (left, "4"));
            assert_eq!(list["x.kubernetes.io/own"].0, "3");
        }
    }
}

/// NODE-14.
#[test]
fn huge_page_sizes_follow_the_machine() {
    let initial = node_with(
        &[("hugepages-2Mi", "4Mi"), ("hugepages-1Gi", "0")],
        &[("hugepages-2Mi", "2Mi"), ("hugepages-1Gi", "0")],
    );
    let mut existing = node_with(
        &[("cpu", "1"), ("hugepages-2Mi", "0"), ("hugepages-64Ki", "64Ki")],
        &[("cpu", "1"), ("hugepages-2Mi", "0"), ("hugepages-64Ki", "64Ki")],
    );
    assert!(reconcile(&initial, &mut existing, false));
    let status = existing.status.clone().expect("a status");
    assert_eq!(status.capacity, amounts(&[("cpu", "1"), ("hugepages-2Mi", "4Mi"), ("hugepages-1Gi", "0")]));
    assert_eq!(status.allocatable, amounts(&[("cpu", "1"), ("hugepages-2Mi", "2Mi"), ("hugepages-1Gi", "0")]));
    assert!(!reconcile(&initial, &mut existing, false), "once is enough");
}

#[test]
fn a_node_without_a_status_gets_the_resources() {
    let initial = node_with(&[("cpu", "4")], &[("cpu", "3")]);
    let mut existing = Node { status: None, ..super::initial(&identity()) };
    assert!(reconcile(&initial, &mut existing, false));
    let status = existing.status.expect("a status");
    assert_eq!((status.capacity, status.allocatable), (amounts(&[("cpu", "4")]), amounts(&[("cpu", "3")])));
}

/// NODE-10.
#[test]
fn labels_of_system_and_architecture_are_repaired() {
    for (found, changed) in [
        (vec![], true),
        (vec![("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64"), ("a", "b")], false),
        (vec![("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "arm64")], true),
    ] {
        let mut node = Node::default();
        node.metadata.labels = Some(labels(&found));
        assert_eq!(repair_labels(&mut node, "amd64"), changed, "{found:?}");
        assert!(!repair_labels(&mut node, "amd64"));
    }
}

#[test]
fn architectures_have_gos_names() {
    for (rust, go) in [("x86_64", "amd64"), ("aarch64", "arm64"), ("riscv64", "riscv64"), ("s390x", "s390x")] {
        assert_eq!(go_architecture(rust), go);
    }
}

proptest! {
    #[test]
    fn what_was_reconciled_needs_no_reconciling(
        wanted in proptest::collection::btree_map("hugepages-[1-4]Mi|cpu|example.com/[a-c]", "[0-9]", 0..6),
        found in proptest::collection::btree_map("hugepages-[1-4]Mi|cpu|example.com/[a-c]", "[0-9]", 0..6),
        attach in any::<bool>(),
    ) {
        let list = |map: &BTreeMap<String, String>| {
            Some(map.iter().map(|(name, text)| (name.clone(), ApiQuantity(text.clone()))).collect())
        };
        let status = |map| Some(NodeStatus { capacity: list(map), allocatable: list(map), ..NodeStatus::default() });
        let identity = NodeIdentity { controller_attach_detach: attach, ..identity() };
        let initial = Node { status: status(&wanted), ..super::initial(&identity) };
        let mut existing = Node { status: status(&found), ..Node::default() };
        reconcile(&initial, &mut existing, false);
        prop_assert!(!reconcile(&initial, &mut existing, false));
        let capacity = existing.status.unwrap_or_default().capacity.unwrap_or_default();
        for name in capacity.keys().filter(|name| name.starts_with(HUGEPAGES_PREFIX)) {
            prop_assert!(wanted.contains_key(name));
        }
    }
}

/// VOL-09, VOL-39.
#[test]
fn the_node_says_whether_the_cluster_attaches_volumes_to_it() {
    let annotated = |value: &str| {
        let mut node = Node::default();
        node.metadata.annotations = Some([(CONTROLLER_ATTACH_ANNOTATION.to_owned(), value.to_owned())].into());
        node
    };
    assert!(is_attached_by_cluster(None), "it is not known yet");
    assert!(is_attached_by_cluster(Some(&annotated("true"))));
    assert!(!is_attached_by_cluster(Some(&annotated("false"))) && !is_attached_by_cluster(Some(&Node::default())));
}
