//! Requests as the API's objects say them.

use k8s_openapi::api::storage::v1::CSIDriver;

use super::*;

fn digest(bytes: &[u8]) -> String {
    format!("<{}>", String::from_utf8_lossy(bytes))
}

fn pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "uid-1" },
        "spec": { "serviceAccountName": "robot", "containers": [] },
    }))
    .unwrap()
}

fn volume(change: Value) -> PersistentVolume {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"], "mountOptions": ["noatime", "discard"],
        "csi": {
            "driver": "drv", "volumeHandle": "h-1", "fsType": "ext4", "volumeAttributes": { "pool": "fast" },
            "nodeStageSecretRef": { "name": "s", "namespace": "sys" },
        },
    });
    for (key, value) in change.as_object().unwrap() {
        spec[key] = value.clone();
    }
    serde_json::from_value(json!({ "metadata": { "name": "pv-1" }, "spec": spec })).unwrap()
}

fn source(change: Value) -> CsiSource {
    CsiSource::of_volume(&volume(change), false).unwrap().unwrap()
}

fn rules(spec: Value) -> DriverRules {
    let driver: CSIDriver = serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
    DriverRules::of(Some(&driver))
}

fn found(capabilities: NodeCapabilities) -> Found {
    Found {
        capabilities,
        publish_context: Texts::from([("lun".to_owned(), "3".to_owned())]),
        secrets: Texts::from([("key".to_owned(), "secret".to_owned())]),
        tokens: BTreeMap::from([("vault".to_owned(), ("t".to_owned(), "2026-01-01T00:00:00Z".to_owned()))]),
    }
}

/// VOL-47.
#[test]
fn a_device_is_asked_for_without_mount_options_group_or_tokens() {
    let source = source(json!({ "volumeMode": "Block" }));
    let can = NodeCapabilities { stages: true, gives_group: true, ..NodeCapabilities::default() };
    let rules =
        rules(json!({ "podInfoOnMount": true, "fsGroupPolicy": "File", "tokenRequests": [{ "audience": "a" }] }));
    let staged = source.stage("/staging".into(), &found(can), Some(7)).unwrap();
    let paths = ["/staging", "/target"].map(str::to_owned);
    let published = source.publish(paths, &found(can), &rules, &pod(), Some(7)).unwrap();
    let capability = Capability { access: Access::Block, mode: AccessMode::SingleNodeWriter };
    assert_eq!([staged.capability, published.capability], [capability.clone(), capability]);
    assert_eq!(published.context["csi.storage.k8s.io/pod.name"], "web");
    assert!(!published.context.contains_key(TOKENS) && source.token_keys(&rules, &pod()).is_empty());
    assert!(!source.gives_group(&rules, NodeCapabilities::default()));
    assert_eq!(source.device(digest), DevicePlace::block("pv-1"));
    assert!(source.place(&PodUid::from("uid-1")).is_device);
    let data = String::from_utf8(source.pod_data("n", digest).to_json()).unwrap();
    let text =
        r#"{"attachmentID":"csi-<h-1drvn>","driverName":"drv","nodeName":"n","specVolID":"pv-1","volumeHandle":"h-1"}"#;
    assert_eq!(data, text, "the keys of upstream's file");
}

/// VOL-46.
#[test]
fn a_volume_is_grown_with_a_secret_of_its_own() {
    let csi = json!({ "driver": "drv", "volumeHandle": "h-1", "fsType": "ext4",
        "nodeExpandSecretRef": { "name": "e", "namespace": "sys" } });
    let source = source(json!({ "csi": csi }));
    assert_eq!(source.expand_secret.as_ref().unwrap().name.as_deref(), Some("e"));
    let can = NodeCapabilities { stages: true, gives_group: true, ..NodeCapabilities::default() };
    let request = source.expand(["/staging", "/target"].map(str::to_owned), 7, &found(can)).unwrap();
    assert_eq!(
        (request.volume.as_str(), request.path.as_str(), request.staging.as_str()),
        ("h-1", "/target", "/staging")
    );
    assert_eq!((request.required_bytes, &*request.secrets["key"]), (7, "secret"));
    let flags = vec!["noatime".to_owned(), "discard".to_owned()];
    assert_eq!(request.capability.access, Access::Mount { fs_type: "ext4".into(), flags, group: None });
}

/// VOL-41.
#[test]
fn a_volume_is_staged_as_its_object_says() {
    let source = source(json!({}));
    let can = NodeCapabilities { stages: true, gives_group: true, ..NodeCapabilities::default() };
    let request = source.stage("/staging".into(), &found(can), Some(7)).unwrap();
    assert_eq!((request.volume.as_str(), request.staging.as_str()), ("h-1", "/staging"));
    assert_eq!(request.publish_context["lun"], "3");
    assert_eq!(request.secrets["key"], "secret");
    assert_eq!(request.context["pool"], "fast");
    let flags = vec!["noatime".to_owned(), "discard".to_owned()];
    let access = Access::Mount { fs_type: "ext4".into(), flags, group: Some(7) };
    assert_eq!(request.capability, Capability { access, mode: AccessMode::SingleNodeWriter });
    let block = self::source(json!({ "volumeMode": "Block" }));
    assert_eq!(block.stage(String::new(), &found(can), Some(7)).unwrap().capability.access, Access::Block);
}

/// VOL-42, SEC-53.
#[test]
fn a_driver_is_told_of_the_pod_and_given_tokens_where_it_wants_them() {
    let source = source(json!({}));
    let publish = |spec: Value| {
        let paths = ["/staging".to_owned(), "/target".to_owned()];
        source.publish(paths, &found(NodeCapabilities::default()), &rules(spec), &pod(), Some(7)).unwrap()
    };
    let plain = publish(json!({}));
    assert_eq!(plain.context, Texts::from([("pool".to_owned(), "fast".to_owned())]));
    assert_eq!(plain.secrets.len(), 1);
    let Access::Mount { group, .. } = plain.capability.access else { panic!("a mount") };
    assert_eq!(group, None, "the driver did not say that it gives groups");
    let told = publish(json!({ "podInfoOnMount": true, "tokenRequests": [{ "audience": "vault" }] })).context;
    for (name, value) in [
        ("csi.storage.k8s.io/pod.name", "web"),
        ("csi.storage.k8s.io/pod.namespace", "shop"),
        ("csi.storage.k8s.io/pod.uid", "uid-1"),
        ("csi.storage.k8s.io/serviceAccount.name", "robot"),
        ("csi.storage.k8s.io/ephemeral", "false"),
        (TOKENS, r#"{"vault":{"expirationTimestamp":"2026-01-01T00:00:00Z","token":"t"}}"#),
    ] {
        assert_eq!(told[name], value);
    }
    let secret = publish(json!({ "tokenRequests": [{ "audience": "vault" }], "serviceAccountTokenInSecrets": true }));
    assert!(secret.secrets.contains_key(TOKENS) && !secret.context.contains_key(TOKENS));
}

/// VOL-43.
#[test]
fn a_volume_that_a_pod_brings_along_has_a_handle_of_its_own() {
    let inline: CSIVolumeSource = serde_json::from_value(json!({
        "driver": "drv", "fsType": "xfs", "readOnly": true, "nodePublishSecretRef": { "name": "s" },
    }))
    .unwrap();
    let source = CsiSource::inline(&inline, &pod(), "scratch", digest).unwrap();
    assert_eq!((source.handle.as_str(), source.name.as_str()), ("csi-<uid-1scratch>", "scratch"));
    let secret = source.publish_secret.clone().unwrap();
    assert_eq!((secret.name.as_deref(), secret.namespace.as_deref()), (Some("s"), Some("shop")));
    assert!(source.read_only && !source.is_attached(&DriverRules::of(None)));
    assert_eq!(source.pod_data("n", digest).mode, "Ephemeral");
    for (knows, expected) in [(false, AccessMode::SingleNodeWriter), (true, AccessMode::SingleNodeMultiWriter)] {
        let capabilities = NodeCapabilities { knows_single_node_modes: knows, ..NodeCapabilities::default() };
        let found = Found { capabilities, ..Found::default() };
        let paths = [String::new(), "/t".to_owned()];
        let request = source.publish(paths, &found, &DriverRules::of(None), &pod(), None).unwrap();
        assert_eq!(request.capability.mode, expected);
    }
}

/// VOL-44.
#[test]
fn the_agent_gives_files_to_the_group_as_the_driver_chose() {
    let can = NodeCapabilities::default();
    let gives =
        |policy: &str, change: Value| source(change).gives_group(&rules(json!({ "fsGroupPolicy": policy })), can);
    let no_type = || json!({ "csi": { "driver": "drv", "volumeHandle": "h" } });
    let many = || json!({ "accessModes": ["ReadWriteMany"] });
    for (policy, plain, without_type, with_many) in
        [("None", false, false, false), ("File", true, true, true), ("ReadWriteOnceWithFSType", true, false, false)]
    {
        let found = (gives(policy, json!({})), gives(policy, no_type()), gives(policy, many()));
        assert_eq!(found, (plain, without_type, with_many), "{policy}");
    }
    let by_driver = NodeCapabilities { gives_group: true, ..can };
    assert!(!source(json!({})).gives_group(&rules(json!({ "fsGroupPolicy": "File" })), by_driver));
    let read_only = CsiSource { read_only: true, ..source(json!({})) };
    assert!(!read_only.gives_group(&rules(json!({ "fsGroupPolicy": "File" })), can));
}

#[test]
fn names_that_are_paths_are_refused() {
    for driver in ["../x", "a/b", "", ".."] {
        let change = json!({ "csi": { "driver": driver, "volumeHandle": "h" } });
        CsiSource::of_volume(&volume(change), false).unwrap().unwrap_err();
    }
    let no_handle = json!({ "csi": { "driver": "d", "volumeHandle": "" } });
    assert_eq!(CsiSource::of_volume(&volume(no_handle), false), Some(Err("missing volume id".to_owned())));
}

/// VOL-42.
#[test]
fn tokens_are_of_the_pods_account_for_each_audience() {
    let rules = rules(json!({ "tokenRequests": [{ "audience": "" }, { "audience": "v", "expirationSeconds": 900 }] }));
    let keys = source(json!({})).token_keys(&rules, &pod());
    let told: Vec<_> =
        keys.iter().map(|(audience, key)| (&**audience, &*key.service_account, key.expiration_seconds)).collect();
    assert_eq!(told, [("", "robot", 3600), ("v", "robot", 900)]);
}
