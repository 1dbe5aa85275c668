//! Volumes of storage networks, as pods and persistent volumes name them.

use serde_json::{Value, json};

use super::*;
use crate::logic::volumes::scsi::PATHS_MAX;
use crate::logic::volumes::scsi::iscsiadm::{self, Call, Failure};

const IQN: &str = "iqn.2001-04.com.example:storage.disk1";

fn user(read_only: bool) -> DiskUser<'static> {
    DiskUser { namespace: "ns", read_only }
}

fn iscsi(change: Value) -> Result<DiskOrder, DiskError> {
    let mut source = json!({ "targetPortal": "10.0.0.1", "iqn": IQN, "lun": 3 });
    source.as_object_mut().expect("an object").extend(change.as_object().cloned().expect("an object"));
    of_iscsi(&serde_json::from_value(source).expect("a source"), "v", user(false))
}

fn fc(source: Value) -> Result<DiskOrder, DiskError> {
    of_fc(&serde_json::from_value(source).expect("a source"), user(false))
}

fn persistent(source: Value) -> Result<DiskOrder, DiskError> {
    let volume = serde_json::from_value(json!({ "metadata": { "name": "pv-1" }, "spec": source })).expect("a volume");
    of_volume(&volume, user(true)).expect("a disk")
}

/// VOL-39.
#[test]
fn a_disk_is_named_as_upstream_names_it() {
    let order = iscsi(json!({ "portals": ["10.0.0.2:3261", "10.0.0.1:3260"], "fsType": "xfs" })).unwrap();
    assert_eq!(order.disk.unique_name(), format!("kubernetes.io/iscsi/10.0.0.1:{IQN}:3"));
    let name = format!("10.0.0.1:3260-{IQN}-lun-3");
    assert_eq!(order.disk.folders(false), ["kubernetes.io", "iscsi", "iface-default", &name]);
    assert_eq!(order.disk.folders(true), ["kubernetes.io", "iscsi", "volumeDevices", "iface-default", &name]);
    let Disk::Iscsi(disk) = &order.disk else { panic!("{order:?}") };
    assert_eq!(disk.portals, ["10.0.0.1:3260", "10.0.0.2:3261"], "each once, with a port");
    assert_eq!((order.fs_type.as_str(), order.read_only), ("xfs", false));
    let fc = |source: Value| fc(source).unwrap().disk;
    let targets = fc(json!({ "targetWWNs": ["500a", "500b"], "lun": 0, "readOnly": true }));
    assert_eq!(targets.unique_name(), "kubernetes.io/fc/[500a 500b]:0");
    assert_eq!(targets.folders(false), ["kubernetes.io", "fc", "500a-500b-lun-0"]);
    let ids = fc(json!({ "wwids": ["3600508b", "VENDOR  ID-1"] }));
    assert_eq!(ids.unique_name(), "kubernetes.io/fc/[3600508b VENDOR  ID-1]");
    assert_eq!(ids.folders(true), ["kubernetes.io", "fc", "volumeDevices", "3600508b-VENDOR__ID-1"]);
    for disk in [order.disk, targets, ids] {
        assert_eq!(Disk::parse(&disk.to_json()), Ok(disk));
    }
}

/// VOL-39: an interface that is a volume's own, and whose Secret it is.
#[test]
fn an_initiators_name_and_a_secret_are_the_volumes() {
    let named = json!({ "initiatorName": "iqn.2026-01.example:host", "iscsiInterface": "eth", "chapAuthSession": true,
        "secretRef": { "name": "chap" } });
    let order = iscsi(named.clone()).unwrap();
    let Disk::Iscsi(disk) = &order.disk else { panic!("{order:?}") };
    assert_eq!((disk.init_iface.as_str(), disk.iface.as_str()), ("eth", "10.0.0.1:3260:v"));
    assert!(disk.has_own_interface() && !folder_of(&order.disk).has_own_interface());
    assert_eq!(order.secret, Some(("ns".to_owned(), "chap".to_owned())));
    let plain = iscsi(json!({ "secretRef": { "name": "chap" } })).unwrap();
    assert_eq!(plain.secret, None, "nobody authenticates");
    let mut source = json!({ "targetPortal": "10.0.0.1:3260", "iqn": IQN, "lun": 3 });
    source.as_object_mut().unwrap().extend(named.as_object().cloned().unwrap());
    source["secretRef"]["namespace"] = "storage".into();
    let order = persistent(json!({ "iscsi": source })).unwrap();
    assert_eq!(order.secret, Some(("storage".to_owned(), "chap".to_owned())));
    assert_eq!(order.disk.folders(false)[2], "iface-10.0.0.1:3260:pv-1");
    assert!(order.read_only && order.fs_type == "ext4");
}

fn folder_of(disk: &Disk) -> IscsiDisk {
    let folders = disk.folders(false);
    let folders: Vec<&str> = folders.iter().map(String::as_str).collect();
    match Disk::of_folders(&folders) {
        Some(Disk::Iscsi(disk)) => disk,
        other => panic!("{other:?}"),
    }
}

/// VOL-39: another agent's folders and files tell what is mounted.
#[test]
fn a_disk_is_read_off_its_folder_and_its_record() {
    let order = iscsi(json!({ "targetPortal": "san-1.example:3260", "portals": ["10.0.0.2"] })).unwrap();
    let Disk::Iscsi(disk) = &order.disk else { panic!("{order:?}") };
    let read = folder_of(&order.disk);
    assert_eq!((&read.portals[..], read.iqn.as_str(), read.unit()), (&disk.portals[..1], IQN, 3));
    let record = json!({ "VolName": "v", "Portals": ["san-1.example:3260", "10.0.0.2:3260"], "Iqn": IQN, "Lun": "3",
        "InitIface": "default", "Iface": "default", "InitiatorName": "", "MetricsProvider": {} });
    let read = IscsiDisk::of_record(&serde_json::to_vec(&record).unwrap(), read).unwrap();
    assert_eq!(&read, disk);
    let fc = |name: &str| Disk::of_folders(&["kubernetes.io", "fc", name]).map(|disk| disk.unique_name());
    assert_eq!(fc("500a-500b-lun-7").as_deref(), Some("kubernetes.io/fc/[500a 500b]:7"));
    assert_eq!(fc("3600508b").as_deref(), Some("kubernetes.io/fc/[3600508b]"));
    for folders in [
        &["kubernetes.io", "iscsi", "iface-default"][..],
        &["kubernetes.io", "iscsi", "volumeDevices", "iface-default"],
        &["kubernetes.io", "iscsi", "iface-default", "10.0.0.1:3260-lun-3"],
        &["kubernetes.io", "fc", "volumeDevices"],
        &["kubernetes.io", "csi", "drv", "x"],
    ] {
        assert_eq!(Disk::of_folders(folders), None, "{folders:?}");
    }
}

/// VOL-39: texts of a pod's author become arguments of programs that run as root, and parts of paths.
#[test]
fn texts_that_would_be_more_than_one_argument_or_name_are_refused() {
    for hostile in [
        json!({ "targetPortal": "-x" }),
        json!({ "targetPortal": "../../etc" }),
        json!({ "targetPortal": "" }),
        json!({ "portals": ["10.0.0.2 --op delete"] }),
        json!({ "iqn": "iqn.2001-04.com.example:a/../../b" }),
        json!({ "iqn": "iqn.2001-04.com.example:a b" }),
        json!({ "iqn": "-T" }),
        json!({ "iqn": "disk" }),
        json!({ "iqn": format!("iqn.{}", "a".repeat(300)) }),
        json!({ "iscsiInterface": "../default" }),
        json!({ "iscsiInterface": "-o" }),
        json!({ "initiatorName": "iqn.x\n" }),
        json!({ "lun": 256 }),
        json!({ "lun": -1 }),
    ] {
        assert!(matches!(iscsi(hostile.clone()), Err(DiskError::Text { .. })), "{hostile}");
    }
    let many: Vec<String> = (0..40).map(|at| format!("10.0.1.{at}")).collect();
    assert_eq!(iscsi(json!({ "portals": many })), Err(DiskError::Paths(PATHS_MAX + 9)));
    for hostile in [
        json!({ "targetWWNs": ["../x"], "lun": 0 }),
        json!({ "targetWWNs": ["500a"], "lun": -1 }),
        json!({ "wwids": ["a/b"] }),
        json!({ "wwids": ["-a"] }),
        json!({ "wwids": [".."] }),
        json!({ "wwids": ["volumeDevices"] }),
        json!({ "wwids": [""] }),
    ] {
        let refused = fc(hostile.clone());
        assert!(matches!(refused, Err(DiskError::Text { .. })), "{hostile}");
    }
    for nothing in [json!({}), json!({ "targetWWNs": ["500a"] }), json!({ "lun": 1, "targetWWNs": [] })] {
        assert_eq!(fc(nothing.clone()), Err(DiskError::NoFcDisk));
    }
    let note = json!({ "iscsi": { "Portals": ["10.0.0.1:3260"], "Iqn": "iqn.a/b", "Lun": "1" } });
    assert!(Disk::parse(&serde_json::to_vec(&note).unwrap()).is_err(), "a note is no better");
}

/// VOL-39.
#[test]
fn a_login_is_upstreams_calls_in_upstreams_order() {
    let texts = [
        ("discovery.sendtargets.auth.username", "finder"),
        ("discovery.sendtargets.auth.password", "hush"),
        ("node.session.auth.password_in", "silence"),
        ("node.session.auth.username", ""),
        ("other", "x"),
    ];
    let chap = ChapTexts(texts.map(|(key, text)| (key.to_owned(), text.to_owned())).into());
    let calls = |change: Value| -> Vec<Call> {
        match iscsi(change).unwrap().disk {
            Disk::Iscsi(disk) => iscsiadm::login(&disk, "10.0.0.1:3260", &chap),
            Disk::Fc(_) => vec![],
        }
    };
    let lines = |calls: &[Call]| calls.iter().map(|call| call.arguments.join(" ")).collect::<Vec<_>>();
    let (found, node) = (
        "-m discoverydb -t sendtargets -p 10.0.0.1:3260 -I default",
        format!("-m node -p 10.0.0.1:3260 -T {IQN} -I default"),
    );
    let plain = [
        format!("{found} -o new"),
        format!("{found} --discover"),
        format!("{node} -o update -n node.session.scan -v manual"),
        format!("{node} --login"),
        format!("-m node -p 10.0.0.1:3260 -T {IQN} -o update -n node.startup -v manual"),
    ];
    assert_eq!(lines(&calls(json!({}))), plain);
    let both = calls(json!({ "chapAuthDiscovery": true, "chapAuthSession": true }));
    let with_secrets = [
        plain[0].clone(),
        format!("{found} -o update -n discovery.sendtargets.auth.authmethod -v CHAP"),
        format!("{found} -o update -n discovery.sendtargets.auth.username -v finder"),
        format!("{found} -o update -n discovery.sendtargets.auth.password -v hush"),
        plain[1].clone(),
        plain[2].clone(),
        format!("{node} -o update -n node.session.auth.authmethod -v CHAP"),
        format!("{node} -o update -n node.session.auth.password_in -v silence"),
        plain[3].clone(),
        plain[4].clone(),
    ];
    assert_eq!(lines(&both), with_secrets);
    let shown = format!("{both:?} {chap:?}");
    assert!(!shown.contains("hush") && !shown.contains("silence"), "{shown}");
    assert!(
        matches!(&both[4].failure, Failure::Ends { undo: Some(undo), .. } if undo.join(" ") == format!("{found} -o delete"))
    );
}

/// VOL-39.
#[test]
fn a_logout_forgets_the_portals_and_the_interface_that_was_the_volumes_own() {
    let order = iscsi(json!({ "portals": ["10.0.0.2"], "initiatorName": "iqn.2026-01.example:host" })).unwrap();
    let Disk::Iscsi(disk) = &order.disk else { panic!("{order:?}") };
    let lines: Vec<String> = iscsiadm::log_out(disk).iter().map(|words| words.join(" ")).collect();
    let own = "10.0.0.1:3260:v";
    let node = |portal: &str, rest: &str| format!("-m node -p {portal}:3260 -T {IQN} {rest} -I {own}");
    assert_eq!(
        lines,
        [
            node("10.0.0.1", "--logout"),
            node("10.0.0.1", "-o delete"),
            node("10.0.0.2", "--logout"),
            node("10.0.0.2", "-o delete"),
            format!("-m iface -I {own} -o delete"),
        ]
    );
    let shown = "# BEGIN RECORD 2.1\niface.iscsi_ifacename = default\niface.net_ifacename = eth0\niface.ipaddress = <empty>\n\
                 iface.transport_name = tcp\niface.initiatorname = iqn.old\n";
    let copied = iscsiadm::copied_settings(shown, "iqn.new").into_iter();
    let copied: Vec<String> = copied.map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(copied, ["iface.initiatorname=iqn.new", "iface.net_ifacename=eth0", "iface.transport_name=tcp"]);
}

/// VOL-39.
#[test]
fn links_to_disks_are_told_from_others() {
    let targets = FcDisk { wwns: vec!["500a".into(), "500b".into()], lun: 1, wwids: vec![] };
    let ids = FcDisk { wwids: vec!["VENDOR ID".into()], ..FcDisk::default() };
    for (disk, name, is_link) in [
        (&targets, "pci-0000:41:00.0-fc-0x500a-lun-1", true),
        (&targets, "fc-0x500b-lun-1", true),
        (&targets, "fc-0x500b-lun-1-part1", false),
        (&targets, "fc-0x500b-lun-10", false),
        (&targets, "ccw-fc-0x500b-lun-1", false),
        (&targets, "pci-0000:41:00.0-fc-0x500c-lun-1", false),
        (&ids, "scsi-VENDOR_ID", true),
        (&ids, "scsi-VENDOR_ID-part1", false),
        (&ids, "wwn-VENDOR_ID", false),
    ] {
        assert_eq!(disk.is_link(name), is_link, "{name}");
    }
    assert_eq!((targets.links(), ids.links()), ("by-path", "by-id"));
}
