//! Each kind against upstream's observable names, handles and attributes.

use serde_json::{Value, json};

use super::*;
use crate::logic::plugins::csi_registration::MIGRATED_KINDS;

/// A persistent volume `pv-1` of this source, for a claim in `ns`.
fn volume(source: &Value, metadata: Value) -> PersistentVolume {
    let mut spec = json!({ "claimRef": { "namespace": "ns" }, "accessModes": ["ReadWriteMany"] });
    let mut metadata = metadata;
    metadata["name"] = "pv-1".into();
    for (key, value) in source.as_object().expect("an object") {
        spec[key] = value.clone();
    }
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).expect("a volume")
}

/// The driver's source of it, and its access modes.
fn of(source: &Value, metadata: Value) -> Result<(Value, Vec<String>), String> {
    let found = of_volume(&volume(source, metadata)).expect("of such a kind").map_err(|why| why.to_string())?;
    let spec = found.spec.expect("it has one");
    assert_eq!((found.metadata.name.as_deref(), inline_kinds(&spec)), (Some("pv-1"), 0));
    Ok((serde_json::to_value(spec.csi).expect("JSON"), spec.access_modes.unwrap_or_default()))
}

/// How many in-tree sources are left.
fn inline_kinds(spec: &PersistentVolumeSpec) -> usize {
    let tree = serde_json::to_value(spec).expect("JSON");
    let known = ["csi", "claimRef", "accessModes", "nodeAffinity"];
    tree.as_object().expect("an object").keys().filter(|key| !known.contains(&key.as_str())).count()
}

/// The name, the source and the access mode of a pod's own volume `v` in `ns`.
fn own(source: &Value) -> (String, Value, String) {
    let mut tree = source.clone();
    tree["name"] = "v".into();
    let volume: Volume = serde_json::from_value(tree).expect("a volume");
    assert!(is_migrated(&volume));
    let found = inline(&volume, "ns").expect("of such a kind").expect("translated");
    let spec = found.spec.expect("it has one");
    let source = spec.csi.expect("a driver's");
    assert_eq!(driver_of(&volume), Some(source.driver.as_str()));
    let [mode] = &spec.access_modes.expect("modes")[..] else { panic!("one mode") };
    (found.metadata.name.expect("a name"), serde_json::to_value(source).expect("JSON"), mode.clone())
}

/// VOL-07.
#[test]
fn disks_of_ebs_have_their_own_names() {
    let with = |id: &str| of(&json!({ "awsElasticBlockStore": { "volumeID": id, "fsType": "ext4" } }), json!({}));
    let expected = json!({
        "driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "ext4", "volumeAttributes": { "partition": "0" },
    });
    for id in ["vol-1", "aws://us-east-1a/vol-1", "aws:///vol-1"] {
        let (found, modes) = with(id).expect("translated");
        assert_eq!((found, modes), (expected.clone(), vec!["ReadWriteMany".to_owned()]), "{id}");
    }
    for id in ["aws://us-east-1a/disk-1", "aws://vol-1", "aws://a/b/vol-1"] {
        let text = "failed to translate in-tree pv to CSI: failed to translate Kubernetes ID to EBS Volume ID Invalid format \
                    for AWS volume";
        assert_eq!(with(id).unwrap_err(), format!("{text} ({id})"));
    }
    let source = json!({ "awsElasticBlockStore": { "volumeID": "aws://z/vol-1", "partition": 2, "readOnly": true } });
    let (name, found, mode) = own(&source);
    let expected = json!({
        "driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "readOnly": true, "volumeAttributes": { "partition": "2" },
    });
    assert_eq!((name.as_str(), found, mode.as_str()), ("ebs.csi.aws.com-vol-1", expected, "ReadWriteOnce"));
}

/// VOL-07.
#[test]
fn disks_of_azure_are_managed_ones() {
    let uri = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d";
    let disk = |more: &[(&str, &str)]| {
        let mut source = json!({ "diskName": "d", "diskURI": uri });
        more.iter().for_each(|(key, value)| source[*key] = (*value).into());
        json!({ "azureDisk": source })
    };
    let bare =
        json!({ "driver": "disk.csi.azure.com", "volumeHandle": uri, "volumeAttributes": { "kind": "Managed" } });
    assert_eq!(of(&disk(&[]), json!({})).expect("translated").0, bare);
    let full = json!({
        "driver": "disk.csi.azure.com", "volumeHandle": uri, "fsType": "xfs",
        "volumeAttributes": { "kind": "Managed", "cachingmode": "ReadOnly", "fstype": "xfs" },
    });
    let all = [("kind", "managed"), ("cachingMode", "ReadOnly"), ("fsType", "xfs")];
    assert_eq!(of(&disk(&all), json!({})).expect("translated").0, full);
    let (name, found, mode) = own(&disk(&all));
    assert_eq!((name.as_str(), found, mode.as_str()), (uri, full, "ReadWriteOnce"));
    assert_eq!(own(&disk(&[("cachingMode", "")])).1, bare, "a pod's own leaves it open");
    let refused = of(&disk(&[("kind", "Shared")]), json!({})).unwrap_err();
    assert_eq!(refused, "failed to translate in-tree pv to CSI: kind(Shared) is not supported in csi migration");
}

/// VOL-07.
#[test]
fn shares_of_azure_are_named_by_account_and_secret() {
    let share = |secret: &str, namespace: Option<&str>| {
        let mut source = json!({ "secretName": secret, "shareName": "sh", "readOnly": true });
        namespace.into_iter().for_each(|namespace| source["secretNamespace"] = namespace.into());
        json!({ "azureFile": source })
    };
    let usual = "azure-storage-account-acc-secret";
    let expected = |handle: &str, secret: &str, namespace: &str| {
        json!({
            "driver": "file.csi.azure.com", "volumeHandle": handle, "readOnly": true,
            "nodeStageSecretRef": { "name": secret, "namespace": namespace }, "volumeAttributes": { "sharename": "sh" },
        })
    };
    for (secret, namespace, metadata, handle, of_secret) in [
        (usual, None, json!({}), "#acc#sh#pv-1#ns", "ns"),
        (usual, Some("other"), json!({}), "#acc#sh#pv-1#other", "other"),
        ("mine", None, json!({}), "#mine#sh#pv-1#ns", "ns"),
        ("azure-storage-account--secret", None, json!({}), "#azure-storage-account--secret#sh#pv-1#ns", "ns"),
        (usual, None, json!({ "annotations": { RESOURCE_GROUP: "rg" } }), "rg#acc#sh#pv-1#ns", "ns"),
    ] {
        let (found, _) = of(&share(secret, namespace), metadata).expect("translated");
        assert_eq!(found, expected(handle, secret, of_secret), "{handle}");
    }
    let (name, found, mode) = own(&share(usual, None));
    let handle = "#acc#sh#v#ns";
    assert_eq!((name.as_str(), mode.as_str()), (handle, "ReadWriteMany"));
    assert_eq!(found, expected(handle, usual, "ns"));
    let mut bare = volume(&share(usual, None), json!({}));
    bare.spec.as_mut().expect("it has one").claim_ref = None;
    assert_eq!(of_volume(&bare).expect("of such a kind"), Err(NotMigrated::AzureNamespace));
}

const RESOURCE_GROUP: &str = "kubernetes.io/azure-file-resource-group";

/// VOL-07.
#[test]
fn volumes_of_cinder_portworx_and_vsphere_keep_their_names() {
    let cinder = json!({ "cinder": { "volumeID": "c-1", "fsType": "ext4", "readOnly": true } });
    let expected = json!({
        "driver": "cinder.csi.openstack.org", "volumeHandle": "c-1", "fsType": "ext4", "readOnly": true, "volumeAttributes": {},
    });
    assert_eq!(of(&cinder, json!({})).expect("translated").0, expected);
    let named = ("cinder.csi.openstack.org-c-1".to_owned(), expected, "ReadWriteOnce".to_owned());
    assert_eq!(own(&cinder), named);

    let portworx = json!({ "portworxVolume": { "volumeID": "p-1", "readOnly": true } });
    let bare = json!({ "driver": "pxd.portworx.com", "volumeHandle": "p-1", "volumeAttributes": {} });
    assert_eq!(of(&portworx, json!({})).expect("translated").0, bare);
    assert_eq!(own(&portworx), ("pxd.portworx.com-p-1".to_owned(), bare, "ReadOnlyMany".to_owned()));
    let annotations = json!({ "openstorage.io/auth-secret-name": "s", "openstorage.io/auth-secret-namespace": "n" });
    let (found, _) = of(&portworx, json!({ "annotations": annotations })).expect("translated");
    for secret in ["nodeStageSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef", "controllerPublishSecretRef"] {
        assert_eq!(found[secret], json!({ "name": "s", "namespace": "n" }), "{secret}");
    }

    let path = "[store] kubevols/disk.vmdk";
    let vsphere = json!({ "vsphereVolume": { "volumePath": path, "storagePolicyName": "gold" } });
    let expected = json!({
        "driver": "csi.vsphere.vmware.com", "volumeHandle": path, "volumeAttributes": { "storagepolicyname": "gold" },
    });
    assert_eq!(of(&vsphere, json!({})).expect("translated").0, expected);
    let named = (format!("csi.vsphere.vmware.com-{path}"), expected, "ReadWriteOnce".to_owned());
    assert_eq!(own(&vsphere), named);
}

/// VOL-07.
#[test]
fn disks_of_gce_are_in_a_zone_or_a_region() {
    let disk = json!({ "gcePersistentDisk": { "pdName": "d", "fsType": "ext4", "partition": 3 } });
    let handle = |label: &str, zones: &str| {
        let metadata = json!({ "labels": { label: zones } });
        of(&disk, metadata).map(|(found, _)| found["volumeHandle"].as_str().expect("a handle").to_owned())
    };
    for zone in ZONES {
        assert_eq!(handle(zone, "us-c1-b").unwrap(), "projects/UNSPECIFIED/zones/us-c1-b/disks/d");
        assert_eq!(handle(zone, "us-c1-b__us-c1-c").unwrap(), "projects/UNSPECIFIED/regions/us-c1/disks/d");
    }
    let (found, modes) = of(&disk, json!({})).expect("translated");
    let expected = json!({
        "driver": "pd.csi.storage.gke.io", "volumeHandle": "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
        "fsType": "ext4", "volumeAttributes": { "partition": "3" },
    });
    assert_eq!((found, modes), (expected, vec!["ReadWriteOnce".to_owned()]));
    assert!(handle(ZONES[0], "a__b").unwrap_err().ends_with("expected: {locale}-{region}-{zone}, got: a"));
    assert!(handle(ZONES[0], "a-b-c__d-e-f").unwrap_err().ends_with("got: a-b d-e"));
    for (modes, expected) in [
        (vec![READERS], READERS),
        (vec![READERS, ONE_NODE], ONE_NODE),
        (vec![READERS, MANY_NODES], ONE_NODE),
        (vec![], ONE_NODE),
    ] {
        let modes: Vec<String> = modes.into_iter().map(str::to_owned).collect();
        assert_eq!(gce::access_modes(&modes), [expected], "{modes:?}");
    }
    let own_disk = |read_only: bool| own(&json!({ "gcePersistentDisk": { "pdName": "d", "readOnly": read_only } }));
    let (name, found, mode) = own_disk(true);
    assert_eq!((name.as_str(), mode.as_str()), ("pd.csi.storage.gke.io-d", "ReadOnlyMany"));
    assert_eq!(found["volumeAttributes"], json!({ "partition": "" }));
    assert_eq!(own_disk(false).2, "ReadWriteOnce");
}

/// VOL-07: a volume's terms name labels that nodes have by its driver alone.
#[test]
fn terms_name_the_drivers_labels() {
    let keys = |source: Value| {
        let terms: Vec<Value> = [ZONES[0], ZONES[1], REGIONS[0], "disk"]
            .iter()
            .map(|key| json!({ "key": key, "operator": "Exists" }))
            .collect();
        let mut found = volume(&source, json!({}));
        let affinity = json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": terms }] } });
        found.spec.as_mut().expect("it has one").node_affinity = serde_json::from_value(affinity).expect("terms");
        let found = of_volume(&found).expect("of such a kind").expect("translated");
        let terms = found.spec.and_then(|spec| spec.node_affinity?.required).expect("terms").node_selector_terms;
        terms.into_iter().flat_map(|term| term.match_expressions).flatten().map(|one| one.key).collect::<Vec<_>>()
    };
    let zone = "topology.ebs.csi.aws.com/zone";
    assert_eq!(keys(json!({ "awsElasticBlockStore": { "volumeID": "vol-1" } })), [zone, zone, REGIONS[0], "disk"]);
    let (zone, region) = ("topology.csi.vmware.com/zone", "topology.csi.vmware.com/region");
    assert_eq!(keys(json!({ "vsphereVolume": { "volumePath": "p" } })), [zone, zone, region, "disk"]);
    let share = json!({ "azureFile": { "secretName": "s", "shareName": "sh" } });
    assert_eq!(keys(share), [ZONES[0], ZONES[1], REGIONS[0], "disk"]);
}

/// NODE-59: the CSINode lists the kinds that are translated here, and no other.
#[test]
fn the_kinds_are_those_that_the_csi_node_lists() {
    let sources = [
        ("kubernetes.io/aws-ebs", json!({ "awsElasticBlockStore": { "volumeID": "vol-1" } })),
        ("kubernetes.io/azure-disk", json!({ "azureDisk": { "diskName": "d", "diskURI": "u" } })),
        ("kubernetes.io/azure-file", json!({ "azureFile": { "secretName": "s", "shareName": "sh" } })),
        ("kubernetes.io/cinder", json!({ "cinder": { "volumeID": "c" } })),
        ("kubernetes.io/gce-pd", json!({ "gcePersistentDisk": { "pdName": "d" } })),
        ("kubernetes.io/portworx-volume", json!({ "portworxVolume": { "volumeID": "p" } })),
        ("kubernetes.io/vsphere-volume", json!({ "vsphereVolume": { "volumePath": "p" } })),
    ];
    assert_eq!(sources.each_ref().map(|(kind, _)| *kind), MIGRATED_KINDS);
    for (kind, source) in sources {
        own(&source);
        of(&source, json!({})).unwrap_or_else(|why| panic!("{kind}: {why}"));
    }
    let other = volume(&json!({ "nfs": { "server": "s", "path": "/" } }), json!({}));
    assert!(of_volume(&other).is_none());
    let other: Volume = serde_json::from_value(json!({ "name": "v", "emptyDir": {} })).expect("a volume");
    assert!(inline(&other, "ns").is_none() && driver_of(&other).is_none() && !is_migrated(&other));
}
