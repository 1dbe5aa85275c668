//! Cases for `plan`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::*;
use crate::logic::volumes::content::projected::Looked;

fn pod(spec: serde_json::Value) -> Pod {
    let tree = json!({ "metadata": { "name": "web", "namespace": "ns", "uid": "u-1" }, "spec": spec });
    serde_json::from_value(tree).unwrap()
}

/// A pod with one container that mounts `v`, which has this source.
fn with_volume(source: serde_json::Value) -> Pod {
    let mut volume = source;
    volume["name"] = json!("v");
    pod(json!({
        "containers": [{ "name": "c", "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }],
        "volumes": [volume],
    }))
}

fn node() -> NodeFacts {
    let allocatable = BTreeMap::from([(MEMORY.to_owned(), Quantity::parse("1Gi").unwrap())]);
    NodeFacts { allocatable, resources: ResourceOptions::default() }
}

fn set_up(pod: &Pod, found: &Sources) -> Result<SetUp, String> {
    volume_plans(pod)[0].set_up(pod, found, &node(), Moment(7))
}

fn medium(empty_dir: serde_json::Value) -> Result<Medium, String> {
    match set_up(&with_volume(json!({ "emptyDir": empty_dir })), &Sources::default())? {
        SetUp::EmptyDir { medium, .. } => Ok(medium),
        other => panic!("{other:?}"),
    }
}

/// VOL-02.
#[test]
fn only_volumes_that_a_container_uses_are_planned() {
    let pod = pod(json!({
        "initContainers": [{ "name": "i", "volumeMounts": [{ "name": "b", "mountPath": "/b" }] }],
        "containers": [{ "name": "c", "volumeDevices": [{ "name": "d", "devicePath": "/dev/x" }] }],
        "ephemeralContainers": [{ "name": "e", "volumeMounts": [{ "name": "a", "mountPath": "/a" }] }],
        "volumes": [
            { "name": "a", "emptyDir": {} },
            { "name": "b", "configMap": { "name": "x" } },
            { "name": "unused", "secret": { "secretName": "nobody" } },
            { "name": "d", "persistentVolumeClaim": { "claimName": "p", "readOnly": true } },
        ],
    }));
    let names: Vec<String> = volume_plans(&pod).into_iter().map(|plan| plan.name).collect();
    assert_eq!(names, ["a", "b", "d"]);
}

#[test]
fn each_kind_has_its_place_and_attributes() {
    let cases = [
        (json!({ "emptyDir": {} }), Some("kubernetes.io~empty-dir"), false, false),
        (json!({ "hostPath": { "path": "/x" } }), None, false, false),
        (json!({ "configMap": { "name": "x" } }), Some("kubernetes.io~configmap"), true, true),
        (json!({ "secret": { "secretName": "x" } }), Some("kubernetes.io~secret"), true, true),
        (json!({ "downwardAPI": {} }), Some("kubernetes.io~downward-api"), true, true),
        (json!({ "projected": {} }), Some("kubernetes.io~projected"), true, true),
        (json!({ "persistentVolumeClaim": { "claimName": "c", "readOnly": true } }), None, true, false),
        (json!({ "image": { "reference": "x" } }), None, true, false),
        (json!({ "nfs": { "server": "s", "path": "/", "readOnly": true } }), Some("kubernetes.io~nfs"), true, false),
        (json!({ "nfs": { "server": "s", "path": "/" } }), Some("kubernetes.io~nfs"), false, false),
    ];
    for (source, plugin, read_only, again) in cases {
        let plan = volume_plans(&with_volume(source.clone())).remove(0);
        let place = plan.place(&PodUid::from("u-1"));
        assert_eq!(place.as_ref().map(|place| place.plugin.as_str()), plugin, "{source}");
        assert_eq!((plan.is_read_only(), plan.is_set_up_again()), (read_only, again), "{source}");
    }
}

/// VOL-51, SEC-08.
#[test]
fn kinds_that_are_not_mounted_are_refused_by_name() {
    for (source, name) in [
        (json!({ "flexVolume": { "driver": "d/d" } }), "flexVolume"),
        (json!({ "gitRepo": { "repository": "r" } }), "gitRepo"),
    ] {
        let error = set_up(&with_volume(source), &Sources::default()).unwrap_err();
        assert_eq!(error, format!("no volume plugin matched: {name} is not mounted by this version"));
    }
}

/// VOL-38.
#[test]
fn a_file_server_is_named_as_the_mount_program_wants_it() {
    let nfs = |server: &str, read_only: bool| {
        let source = json!({ "nfs": { "server": server, "path": "/data", "readOnly": read_only } });
        match set_up(&with_volume(source), &Sources::default())? {
            SetUp::Nfs { source, options } => Ok((source, options.join(","))),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(nfs("files.example", false), Ok(("files.example:/data".into(), String::new())));
    assert_eq!(nfs("10.0.0.9", true), Ok(("10.0.0.9:/data".into(), "ro".into())));
    assert_eq!(nfs("fd00::9", false), Ok(("[fd00::9]:/data".into(), String::new())));
    for hostile in ["", "-osuid", "--bind", "/etc", "a\0b", "a\nb"] {
        assert_eq!(nfs(hostile, false), Err(format!("invalid server of an NFS volume: {hostile:?}")));
    }
}

/// VOL-36.
#[test]
fn images_are_those_of_the_containers_own_mounts() {
    let pod = pod(json!({
        "containers": [{ "name": "c", "volumeMounts": [
            { "name": "b", "mountPath": "/b" }, { "name": "a", "mountPath": "/a" },
            { "name": "b", "mountPath": "/again" }, { "name": "e", "mountPath": "/e" },
        ] }],
        "volumes": [
            { "name": "a", "image": { "reference": "one" } }, { "name": "b", "image": { "reference": "two" } },
            { "name": "other", "image": { "reference": "three" } }, { "name": "e", "emptyDir": {} },
        ],
    }));
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let images: Vec<(&str, Option<&str>)> =
        mounted_images(&pod, container).into_iter().map(|(name, source)| (name, source.reference.as_deref())).collect();
    assert_eq!(images, [("a", Some("one")), ("b", Some("two"))]);
}

/// VOL-08.
#[test]
fn an_ephemeral_volume_is_a_claim_of_the_pods_own() {
    let plan = volume_plans(&with_volume(json!({ "ephemeral": {} }))).remove(0);
    assert_eq!(plan.kind, VolumeKind::Claim { claim: "web-v".into(), read_only: false, owned: true });
}

/// VOL-19, VOL-21, SEC-07.
#[test]
fn a_volume_in_memory_is_no_larger_than_what_the_pod_may_use() {
    let gibibyte = 1 << 30;
    assert_eq!(medium(json!({})), Ok(Medium::Disk));
    assert_eq!(medium(json!({ "medium": "Memory" })), Ok(Medium::Memory { size_max: Some(gibibyte) }));
    let size = |limit: &str| medium(json!({ "medium": "Memory", "sizeLimit": limit }));
    assert_eq!(size("64Mi"), Ok(Medium::Memory { size_max: Some(64 << 20) }));
    assert_eq!(size("8Gi"), Ok(Medium::Memory { size_max: Some(gibibyte) }));
    assert_eq!(size("0"), Ok(Medium::Memory { size_max: Some(gibibyte) }));
    let mut limited = with_volume(json!({ "emptyDir": { "medium": "Memory" } }));
    limited.spec.as_mut().unwrap().containers[0].resources =
        serde_json::from_value(json!({ "limits": { "memory": "100Mi" }, "requests": { "memory": "100Mi" } })).unwrap();
    let SetUp::EmptyDir { medium, .. } = set_up(&limited, &Sources::default()).unwrap() else { panic!("another kind") };
    assert_eq!(medium, Medium::Memory { size_max: Some(100 << 20) });
}

/// EVI-26: in a user namespace nobody can take files out of a project.
#[test]
fn evi_26_disks_of_pods_in_user_namespaces_are_counted() {
    for (host_users, medium, expected) in
        [(Some(false), "", true), (Some(true), "", false), (None, "", false), (Some(false), "Memory", false)]
    {
        let mut pod = with_volume(json!({ "emptyDir": { "medium": medium } }));
        pod.spec.as_mut().unwrap().host_users = host_users;
        let SetUp::EmptyDir { counted, .. } = set_up(&pod, &Sources::default()).unwrap() else {
            panic!("another kind")
        };
        assert_eq!(counted, expected, "{host_users:?} {medium}");
    }
}

/// VOL-20.
#[test]
fn huge_pages_must_be_requested_by_the_pod() {
    for none in ["HugePages", "HugePages-2Mi"] {
        let refused = medium(json!({ "medium": none })).expect_err("none is requested");
        let text = "hugePages storage requested, but there is no resource request for huge pages";
        assert_eq!(refused, format!("medium {none}: {text}"));
    }
    assert!(medium(json!({ "medium": "HugePages-2Mi" })).is_err());
    assert_eq!(medium(json!({ "medium": "Tape" })), Err("unknown storage medium \"Tape\"".into()));
    let mut asking = with_volume(json!({ "emptyDir": { "medium": "HugePages-2Mi" } }));
    asking.spec.as_mut().unwrap().containers[0].resources =
        serde_json::from_value(json!({ "limits": { "hugepages-2Mi": "4Mi" }, "requests": { "hugepages-2Mi": "4Mi" } }))
            .unwrap();
    let SetUp::EmptyDir { medium, .. } = set_up(&asking, &Sources::default()).unwrap() else { panic!("another kind") };
    assert_eq!(medium, Medium::HugePages { page_size: 2 << 20 });
}

#[test]
fn a_missing_config_map_is_named_and_may_be_optional() {
    let found = Sources {
        config_maps: BTreeMap::from([("x".into(), Looked::Missing("configmap \"x\" not found".into()))]),
        ..Sources::default()
    };
    let required = with_volume(json!({ "configMap": { "name": "x", "defaultMode": 420 } }));
    assert_eq!(set_up(&required, &found), Err("configmap \"x\" not found".into()));
    let optional = with_volume(json!({ "configMap": { "name": "x", "defaultMode": 420, "optional": true } }));
    let Ok(SetUp::Files(order)) = set_up(&optional, &found) else { panic!("no files") };
    assert_eq!((order.payload, order.medium), (Payload::default(), Medium::Disk));
}

#[test]
fn files_come_with_mount_points_and_ownership() {
    let object = ConfigMap { data: Some(BTreeMap::from([("k".into(), "v".into())])), ..ConfigMap::default() };
    let found =
        Sources { config_maps: BTreeMap::from([("x".into(), Looked::There(Arc::new(object)))]), ..Sources::default() };
    let pod = pod(json!({
        "securityContext": { "fsGroup": 123 },
        "containers": [{ "name": "c", "volumeMounts": [
            { "name": "v", "mountPath": "/etc/app" }, { "name": "w", "mountPath": "/etc/app/cache" },
        ] }],
        "volumes": [{ "name": "v", "configMap": { "name": "x", "defaultMode": 292 } }, { "name": "w", "emptyDir": {} }],
    }));
    let Ok(SetUp::Files(order)) = set_up(&pod, &found) else { panic!("no files") };
    assert_eq!(order.mount_points, ["cache"]);
    assert_eq!(order.ownership, Ownership { fs_group: Some(123), policy: ChangePolicy::Always, read_only: true });
    assert_eq!(order.payload.files["k"].mode, 0o444);
    assert_eq!(order.now, Moment(7));
}

#[test]
fn a_host_path_never_goes_up() {
    let error = set_up(&with_volume(json!({ "hostPath": { "path": "/a/../etc" } })), &Sources::default()).unwrap_err();
    assert_eq!(error, "invalid HostPath `/a/../etc`: path must not contain '..'");
}

/// VOL-30.
#[test]
fn the_user_of_a_token_is_the_one_that_all_containers_share() {
    let user = |uids: &[Option<i64>], pod_uid: Option<i64>| {
        let containers: Vec<_> =
            uids.iter().map(|uid| json!({ "name": "c", "securityContext": { "runAsUser": uid } })).collect();
        readers(&pod(json!({ "containers": containers, "securityContext": { "runAsUser": pod_uid } }))).fs_user
    };
    assert_eq!(user(&[Some(7), Some(7)], None), Some(7));
    assert_eq!(user(&[Some(7), None], Some(7)), Some(7));
    assert_eq!(user(&[Some(7), Some(8)], None), None);
    assert_eq!(user(&[None, None], None), None);
    assert_eq!(user(&[Some(7), None], None), None);
}

/// VOL-19, VOL-25: what `kubectl describe node` says is what a memory volume and a container's files go by.
#[test]
fn what_a_node_has_for_pods_is_what_its_object_says() {
    let otherwise: ResourceList = [(MEMORY.to_owned(), Quantity::parse("2Gi").unwrap())].into();
    let node = |allocatable: serde_json::Value| -> Node {
        serde_json::from_value(json!({ "status": { "allocatable": allocatable } })).unwrap()
    };
    let told = node(json!({ "memory": "1Gi", "ephemeral-storage": "90Gi", "hugepages-2Mi": "0" }));
    let found = node_allocatable(Some(&told), &otherwise);
    assert_eq!(found["ephemeral-storage"].value(), 90 << 30);
    assert_eq!(found[MEMORY].value(), 1 << 30);
    for unknown in [None, Some(Node::default()), Some(node(json!({ "pods": "110" })))] {
        assert_eq!(node_allocatable(unknown.as_ref(), &otherwise), otherwise);
    }
}
