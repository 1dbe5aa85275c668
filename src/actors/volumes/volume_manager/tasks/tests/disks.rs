//! Disks of storage networks, before the host is asked for them.

use super::*;
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
