//! A driver is played: it binds a loop device where it publishes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::*;
use crate::platform::volumes::testing::{Disk, Root, may_mount};
use crate::platform::volumes::{in_use, tear_down};

fn data() -> VolumeData {
    let (driver_name, volume_handle) = ("drv".to_owned(), "h-1".to_owned());
    VolumeData { driver_name, volume_handle, name: "pv-1".into(), node_name: "n".into(), ..VolumeData::default() }
}

/// The driver publishes a device.
fn publish(device: &str, target: &Path) {
    fs::write(target, "").expect("made");
    mount(Some(device), target, None::<&str>, MsFlags::MS_BIND, None::<&str>).expect("bound");
}

/// VOL-47: all that is there of a device is found by its traces on the disk, also by halves.
#[test]
fn a_published_device_is_mapped_held_and_let_go() {
    if !may_mount() {
        return;
    }
    let root = Root::new();
    let Some(disk) = Disk::new(root.folder.path()) else { return };
    let (layout, place) = (root.layout(), place_of("uid-1", "pv-1"));
    fs::create_dir(root.pod()).expect("made");
    note_pod(&layout, &place, &data()).expect("noted");
    note(&layout, "pv-1", Some(&data())).expect("noted");
    assert!(map(&layout, &place).is_err() && published(&layout, &place).expect("looked").is_none());
    let target = publish_path(root.folder.path(), "pv-1", &place.uid);
    publish(&disk.device, &target);
    for _ in 0..2 {
        assert_eq!(map(&layout, &place).expect("mapped"), target, "done again, it finds what is done");
    }
    let link = root.pod().join("volumeDevices/kubernetes.io~csi/pv-1");
    assert_eq!(fs::metadata(&link).expect("there").rdev(), fs::metadata(&disk.device).expect("there").rdev());
    assert_eq!(disk.users(), 1, "a loop device holds it");
    let mapped = block_map_path(root.folder.path(), "pv-1").join("uid-1");
    assert_eq!(root.mounts(), [target.clone(), mapped.clone()]);
    let user = VolumeUser { place: place.clone(), data: Some(data()) };
    assert_eq!(users(&layout).expect("listed"), [user]);
    let in_use = in_use::attached(root.folder.path()).expect("told");
    assert_eq!(in_use.into_iter().collect::<Vec<_>>(), ["kubernetes.io/csi/drv^h-1"]);
    forget(&layout, "pv-1").expect_err("a pod has it");
    forget_pod(&layout, &place).expect_err("it is published");

    unmap(&layout, &place).expect("unmapped");
    unmap(&layout, &place).expect("nothing to do");
    assert!(!mapped.exists() && link.exists() && disk.users() == 0);
    // The driver leaves the file, as some do.
    umount2(&target, MntFlags::empty()).expect("unmounted");
    forget_pod(&layout, &place).expect("forgotten");
    assert!(!target.exists() && fs::symlink_metadata(&link).is_err());
    assert_eq!(devices(&layout).expect("listed"), [(DevicePlace::block("pv-1"), data())]);
    forget(&layout, "pv-1").expect("forgotten");
    forget(&layout, "pv-1").expect("nothing to do");
    assert!(root.mounts().is_empty() && devices(&layout).expect("listed").is_empty());
    assert!(!root.folder.path().join("plugins/kubernetes.io/csi/volumeDevices/pv-1").exists());
    tear_down::release(&layout, &place.uid).expect("released");
}

/// VOL-47: upstream removes the pod's link before the driver is asked; what it left is found all the same.
#[test]
fn a_device_that_an_agent_left_half_taken_down_is_found() {
    let root = Root::new();
    let (layout, place) = (root.layout(), place_of("uid-1", "pv-1"));
    fs::create_dir(root.pod()).expect("made");
    note_pod(&layout, &place, &data()).expect("noted");
    fs::write(publish_path(root.folder.path(), "pv-1", &place.uid), "").expect("made");
    fs::remove_dir_all(root.pod().join("volumeDevices")).expect("removed");
    assert_eq!(tear_down::volumes_of(&layout, &place.uid).expect("listed"), std::slice::from_ref(&place));
    assert_eq!(users(&layout).expect("listed").len(), 1);
    assert!(strays(&layout, "pv-1").expect("listed").is_empty(), "the pod is there");
    fs::remove_dir(root.pod()).expect("removed");
    assert!(users(&layout).expect("listed").is_empty());
    assert_eq!(strays(&layout, "pv-1").expect("listed"), std::slice::from_ref(&place));
    forget(&layout, "pv-1").expect_err("it may be published");
    forget_pod(&layout, &place).expect("forgotten");
    assert!(strays(&layout, "pv-1").expect("listed").is_empty());
    forget(&layout, "pv-1").expect("forgotten");
    let all = root.folder.path().join("plugins/kubernetes.io/csi/volumeDevices");
    assert_eq!(fs::read_dir(all.join("publish")).expect("read").count(), 0);
}

/// VOL-47: a volume may have the name of one of the drivers' own folders.
#[test]
fn volumes_named_as_the_drivers_folders_are_kept_apart() {
    let root = Root::new();
    let layout = root.layout();
    for name in ["staging", "publish"] {
        note(&layout, name, Some(&data())).expect("noted");
    }
    note(&layout, "pv-1", Some(&data())).expect("noted");
    forget(&layout, "staging").expect("forgotten");
    let left: Vec<_> = devices(&layout).expect("listed").into_iter().map(|(device, _)| device).collect();
    assert_eq!(left, [DevicePlace::block("publish"), DevicePlace::block("pv-1")]);
    assert!(!is_open(&layout, "pv-1").expect("looked"));
}
