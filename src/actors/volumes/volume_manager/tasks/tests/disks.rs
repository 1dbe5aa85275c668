//! Disks of storage networks, before the host is asked for them.

use super::*;
use crate::logic::volumes::mounting::mount_label::{FileLabel, Labelling};
use crate::logic::volumes::scsi::ChapTexts;
use crate::logic::volumes::scsi::orders::DiskOrder;

fn iscsi() -> Value {
    json!({ "iscsi": { "targetPortal": "10.0.0.1", "iqn": "iqn.x", "lun": 1, "chapAuthSession": true,
        "secretRef": { "name": "chap" } } })
}

fn order(outcome: &Outcome) -> &DiskOrder {
    match &outcome.told[..] {
        [(Some(place), SetUp::Disk(order, _))] if place.plugin == plugin::ISCSI => order,
        other => panic!("{other:?}"),
    }
}

/// VOL-09, VOL-39.
#[test]
fn a_disk_waits_for_the_node_and_gets_the_texts_of_its_secret() {
    let secret = || ("secret/chap", json!({ "data": { "node.session.auth.password": "aHVzaA==" } }));
    let waits = mount(api(&[secret()]), iscsi());
    let text = "VerifyControllerAttachedVolume failed for volume \"v\" : Volume has not been added to the list of \
                VolumesInUse in the node's volume status for volume.";
    assert_eq!(waits.problem(), (text, false));
    assert_eq!((waits.result.expect_err("it waits").reason, waits.told.len()), (None, 0));
    let alone = |objects: &[(&'static str, Value)]| mount(Api { standalone: true, ..api(objects) }, iscsi());
    let outcome = alone(&[secret()]);
    let texts = ChapTexts([("node.session.auth.password".to_owned(), "hush".to_owned())].into());
    assert_eq!(order(&outcome).chap, texts);
    assert!(outcome.result.expect("mounted").relabel);
    let in_folder = mount(Api { is_folder: true, ..api(&[secret()]) }, iscsi());
    assert_eq!(order(&in_folder).chap, texts, "nobody attaches volumes here, though there are objects");
    let missing = alone(&[]);
    let text = "MountVolume.NewMounter initialization failed for volume \"v\" : couldn't get secret ns/chap error: secret \
                \"chap\" not found";
    assert_eq!(missing.problem(), (text, false));
    assert_eq!(missing.told, []);
}

/// VOL-31: a disk of a persistent volume for one pod is mounted with the pod's label, and then nobody labels its files.
#[test]
fn vol_31_a_disk_for_one_pod_is_mounted_with_its_label() {
    let policy = "process = \"u:r:p:s0\"\nfile = \"system_u:object_r:container_file_t:s0\"\n";
    let files = FileLabel::of_policy(policy).expect("it names files");
    let label = "system_u:object_r:container_file_t:s0:c1";
    for (modes, every_mode, levels, expected) in [
        (json!(["ReadWriteOncePod"]), false, ["s0:c1", "s0:c1"], Ok((Some(label), false))),
        (json!(["ReadWriteOnce"]), false, ["s0:c1", "s0:c1"], Ok((None, true))),
        (json!(["ReadWriteOnce"]), true, ["s0:c1", "s0:c1"], Ok((Some(label), false))),
        (json!(["ReadWriteOncePod"]), false, ["s0:c1", "s0:c2"], Err("multiple SELinux labels found: ")),
        (json!(["ReadWriteOncePod"]), false, ["s0\"", "s0\""], Err("failed to construct SELinux label from context: ")),
        (json!(["ReadWriteOnce"]), false, ["s0:c1", "s0:c2"], Ok((None, true))),
    ] {
        let volume = json!({
            "metadata": { "name": "pv-1" },
            "spec": {
                "accessModes": modes, "claimRef": { "uid": "c-1" },
                "iscsi": { "targetPortal": "10.0.0.1", "iqn": "iqn.x", "lun": 1 },
            },
        });
        let objects = [("persistentvolumeclaim/data", claim("Bound")), ("persistentvolume/pv-1", volume)];
        let container = |level: &str| {
            json!({ "name": "c", "volumeMounts": [{ "name": "v", "mountPath": "/v" }],
                "securityContext": { "seLinuxOptions": { "level": level } } })
        };
        let pod = json!({
            "metadata": { "name": "p", "namespace": "ns", "uid": "u-1" },
            "spec": {
                "containers": levels.map(container),
                "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }],
            },
        });
        let pod = serde_json::from_value(pod).expect("a pod");
        let host = Arc::new(Host::default());
        let labelling = Some(Arc::new(Labelling { files: files.clone(), every_mode }));
        let api = Api { standalone: true, ..api(&objects) };
        let task = MountTask { labelling, ..task(Arc::new(api), host.clone(), pod) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let outcome = runtime.expect("a runtime").block_on(task.run()).outcome;
        match expected {
            Ok((label, relabel)) => {
                let mounted = outcome.expect("mounted").mounted.expect("a volume");
                let told = lock(&host.told);
                let [(_, SetUp::Disk(order, _))] = &told[..] else { panic!("{told:?}") };
                assert_eq!((order.label.as_deref(), mounted.relabel), (label, relabel), "{modes} {every_mode}");
            }
            Err(text) => {
                let failure = outcome.expect_err("it waits");
                assert!(failure.message.starts_with(text), "{}", failure.message);
                assert_eq!((failure.in_processing, failure.reason), (true, None));
            }
        }
    }
}

/// VOL-39: the steps of upstream's Events.
#[test]
fn an_error_of_a_disk_names_its_step() {
    let attach = VolumeError::Attach("no".to_owned());
    let device = VolumeError::Device("no".to_owned());
    for (error, is_device, step) in [
        (&attach, false, VolumeStep::WaitForAttach),
        (&attach, true, VolumeStep::MapWaitForAttach),
        (&device, false, VolumeStep::MountDevice),
        (&VolumeError::InUse, true, VolumeStep::SetUpDevice),
    ] {
        assert_eq!(step_of(error, is_device), step, "{error:?}");
    }
}
