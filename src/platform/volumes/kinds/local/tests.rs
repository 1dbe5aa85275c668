//! Local volumes on real file systems: directories, and disks that are files behind loop devices.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::logic::model::ids::PodUid;
use crate::logic::volumes::order::{Ownership, plugin};
use crate::platform::volumes::kinds::device;
use crate::platform::volumes::tear_down;
use crate::platform::volumes::testing::{Disk, Root, may_mount};

fn place(uid: &str, is_device: bool) -> VolumePlace {
    VolumePlace { uid: PodUid::from(uid), plugin: plugin::LOCAL.into(), name: "pv-1".into(), is_device }
}

fn order(source: &str) -> LocalOrder {
    LocalOrder {
        source: source.to_owned(),
        fs_type: "ext4".to_owned(),
        read_only: false,
        options: vec![],
        ownership: Ownership::default(),
        exclusive: false,
    }
}

fn have(root: &Root, locks: &Locks, place: &VolumePlace, order: &LocalOrder) -> Result<Option<String>, VolumeError> {
    set_up_or_undo(&root.layout(), locks, place, order, &Progress::default())
}

/// As the adapter calls it.
fn set_up_or_undo(
    layout: &Layout,
    locks: &Locks,
    place: &VolumePlace,
    order: &LocalOrder,
    progress: &Progress,
) -> Result<Option<String>, VolumeError> {
    set_up(layout, locks, place, order, progress, || drop(tear_down::volume(layout, locks, place)))
}

/// VOL-10.
#[test]
fn a_volume_for_one_pod_is_given_to_one_pod() {
    if !may_mount() {
        return;
    }
    let (root, locks) = (Root::new(), Locks::default());
    let source = root.folder.path().join("data");
    fs::create_dir(&source).expect("made");
    let exclusive = LocalOrder { exclusive: true, ..order(&source.display().to_string()) };
    let (first, second) = (place("uid-1", false), place("uid-2", false));
    assert_eq!(have(&root, &locks, &first, &exclusive), Ok(None));
    assert_eq!(have(&root, &locks, &first, &exclusive), Ok(None), "its own pod may ask again");
    let refused = have(&root, &locks, &second, &exclusive);
    assert_eq!(refused, Err(VolumeError::InUse));
    assert!(!root.layout().path(&second).exists(), "a refusal leaves nothing");
    gone(&root, &locks, &first);
    assert_eq!(have(&root, &locks, &second, &exclusive), Ok(None));
    gone(&root, &locks, &second);
    assert_eq!(root.mounts(), Vec::<PathBuf>::new());
}

/// VOL-37.
#[test]
fn a_second_pods_group_is_a_warning_and_options_reach_the_mount() {
    if !may_mount() {
        return;
    }
    let (root, locks) = (Root::new(), Locks::default());
    let source = root.folder.path().join("data");
    fs::create_dir(&source).expect("made");
    let of_group = |group| LocalOrder {
        ownership: Ownership { fs_group: Some(group), ..Ownership::default() },
        options: vec!["noexec".to_owned()],
        ..order(&source.display().to_string())
    };
    let (first, second) = (place("uid-1", false), place("uid-2", false));
    assert_eq!(have(&root, &locks, &first, &of_group(1001)), Ok(None));
    assert_eq!(fs::metadata(&source).expect("there").gid(), 1001);
    let warning = have(&root, &locks, &second, &of_group(2002)).expect("mounted");
    let expected = "The requested fsGroup is 2002, but the volume pv-1 has GID 1001. The volume may not be shareable.";
    assert_eq!(warning.as_deref(), Some(expected));
    assert_eq!(fs::metadata(&source).expect("there").gid(), 1001, "files that others use keep their group");
    let program = root.layout().path(&first).join("program");
    fs::copy("/bin/true", &program).expect("copied");
    assert!(std::process::Command::new(&program).status().is_err(), "noexec");
    for place in [first, second] {
        gone(&root, &locks, &place);
    }
    assert!(source.join("program").exists() && root.mounts().is_empty());
}

fn of_group(source: &str, group: u32) -> LocalOrder {
    LocalOrder { ownership: Ownership { fs_group: Some(group), ..Ownership::default() }, ..order(source) }
}

/// VOL-29, VOL-37: whoever has the same files goes first until it has ended, by whichever volume.
#[test]
fn a_set_up_waits_for_another_one_of_the_same_path() {
    if !may_mount() {
        return;
    }
    let (root, locks, progress) = (Root::new(), Locks::default(), Progress::default());
    let data = root.folder.path().join("data");
    fs::create_dir(&data).expect("made");
    let source = data.display().to_string();
    let (first, second) = (place("uid-1", false), VolumePlace { name: "pv-2".into(), ..place("uid-2", false) });
    assert_eq!(have(&root, &locks, &first, &of_group(&source, 1001)), Ok(None));
    let warning = std::thread::scope(|scope| {
        let key = Source::open(&source).expect("there").key;
        let late = locks.with(&key, || {
            let order = of_group(&format!("{source}/."), 2002);
            let (layout, locks, second, progress) = (root.layout(), &locks, &second, &progress);
            let late = scope.spawn(move || set_up_or_undo(&layout, locks, second, &order, progress));
            while progress.look().0 != crate::platform::volumes::Doing::Waits && !late.is_finished() {
                std::thread::yield_now();
            }
            assert!(!late.is_finished() && root.mounts().len() == 1, "it waits");
            late
        });
        late.join().expect("ended").expect("mounted")
    });
    let expected = "The requested fsGroup is 2002, but the volume pv-2 has GID 1001. The volume may not be shareable.";
    assert_eq!(warning.as_deref(), Some(expected));
    assert_eq!(fs::metadata(&data).expect("there").gid(), 1001);
    for place in [first, second] {
        gone(&root, &locks, &place);
    }
}

/// VOL-06, VOL-29.
#[test]
fn a_set_up_that_was_cut_off_is_brought_to_its_end_and_a_whole_one_is_left_alone() {
    if !may_mount() {
        return;
    }
    let (root, locks) = (Root::new(), Locks::default());
    let data = root.folder.path().join("data");
    fs::create_dir(&data).expect("made");
    let source = data.display().to_string();
    let (first, second) = (place("uid-1", false), place("uid-2", false));
    let wanted = LocalOrder { options: vec!["noexec".to_owned()], ..of_group(&source, 1001) };
    // All that a set-up has done when it is cut off after the mount.
    assert_eq!(have(&root, &locks, &first, &order(&source)), Ok(None));
    root.layout().set_unfinished(&first).expect("noted");
    // Another pod does not take its files for given away.
    assert_eq!(have(&root, &locks, &second, &of_group(&source, 2002)), Ok(None));
    assert_eq!(fs::metadata(&data).expect("there").gid(), 2002);
    gone(&root, &locks, &second);
    assert_eq!(have(&root, &locks, &first, &wanted), Ok(None));
    assert_eq!(fs::metadata(&data).expect("there").gid(), 1001);
    let program = root.layout().path(&first).join("program");
    fs::copy("/bin/true", &program).expect("copied");
    assert!(std::process::Command::new(&program).status().is_err(), "noexec");
    // A pod that another agent has started runs with what it has.
    assert_eq!(have(&root, &locks, &first, &of_group(&source, 3003)), Ok(None));
    assert_eq!(fs::metadata(&data).expect("there").gid(), 1001);
    root.layout().set_unfinished(&first).expect("noted");
    let read_only = LocalOrder { read_only: true, ..order(&source) };
    assert_eq!(have(&root, &locks, &first, &read_only), Ok(None));
    assert!(fs::write(root.layout().path(&first).join("file"), "").is_err(), "read-only");
    gone(&root, &locks, &first);
    assert!(!root.layout().is_unfinished(&first).expect("looked at") && root.mounts().is_empty());
}

#[test]
fn what_is_no_pods_directory_is_passed_over() {
    if !may_mount() {
        return;
    }
    let (root, locks) = (Root::new(), Locks::default());
    fs::write(root.folder.path().join("pods/stray"), "").expect("written");
    let source = root.folder.path().join("data");
    fs::create_dir(&source).expect("made");
    let exclusive = LocalOrder { exclusive: true, ..order(&source.display().to_string()) };
    let place = place("uid-1", false);
    assert_eq!(have(&root, &locks, &place, &exclusive), Ok(None));
    gone(&root, &locks, &place);
}

/// VOL-10.
#[test]
fn a_path_that_cannot_be_mounted_is_told_of_in_upstreams_words() {
    let (root, locks) = (Root::new(), Locks::default());
    let file = root.folder.path().join("file");
    fs::write(&file, "").expect("written");
    let missing = root.folder.path().join("missing").display().to_string();
    for (source, expected) in [
        (file.display().to_string(), "only directory and block device are supported".to_owned()),
        (missing.clone(), format!("path \"{missing}\" does not exist")),
    ] {
        let refused = have(&root, &locks, &place("uid-1", false), &order(&source));
        assert_eq!(refused, Err(VolumeError::Source(expected)));
    }
}

/// Takes a volume down. It may be busy for a moment: a child that another test begins holds this one's open files until it
/// runs its own program.
fn gone(root: &Root, locks: &Locks, place: &VolumePlace) {
    for _ in 0..500 {
        match tear_down::volume(&root.layout(), locks, place) {
            Err(error) if error.to_string().contains("os error 16") => std::thread::sleep(Duration::from_millis(10)),
            outcome => return outcome.expect("gone"),
        }
    }
    panic!("{place} stays busy");
}

/// VOL-37: `ro` among the options is as good as a volume that is read-only.
#[test]
fn a_disk_is_formatted_once_mounted_once_and_unmounted_after_its_last_pod() {
    if !may_mount() {
        return;
    }
    let (root, locks) = (Root::new(), Locks::default());
    let Some(disk) = Disk::new(root.folder.path()) else { return };
    let order = order(&disk.device);
    let (first, second) = (place("uid-1", false), place("uid-2", false));
    let read_only = LocalOrder { read_only: true, ..order.clone() };
    let by_option = LocalOrder { options: vec!["noatime".to_owned(), "ro".to_owned()], ..order.clone() };
    for order in [read_only, by_option] {
        let error = have(&root, &locks, &first, &order).expect_err("nothing to read").to_string();
        assert!(error.contains("cannot mount unformatted disk"), "{error}");
        assert!(error.starts_with("local: failed to mount device"), "{error}");
    }
    assert_eq!(have(&root, &locks, &first, &order), Ok(None));
    fs::write(root.layout().path(&first).join("data"), "kept").expect("written");
    assert_eq!(have(&root, &locks, &second, &order), Ok(None));
    let read = |place: &VolumePlace| fs::read_to_string(root.layout().path(place).join("data"));
    assert_eq!(read(&second).expect("the same disk"), "kept");
    let shared = root.folder.path().join("plugins/kubernetes.io/local-volume/mounts/pv-1");
    assert_eq!(root.mounts().iter().filter(|point| **point == shared).count(), 1);
    gone(&root, &locks, &first);
    assert_eq!(read(&second).expect("still there"), "kept");
    gone(&root, &locks, &second);
    assert!(!shared.exists() && root.mounts().is_empty());
    assert_eq!(have(&root, &locks, &first, &order), Ok(None));
    assert_eq!(read(&first).expect("not formatted again"), "kept");
    gone(&root, &locks, &first);
}

/// VOL-46.
#[test]
fn vol_46_the_file_system_on_a_device_grows_with_it() {
    if !may_mount() {
        return;
    }
    let (root, locks) = (Root::new(), Locks::default());
    let Some(disk) = Disk::new(root.folder.path()) else { return };
    let (first, order) = (place("uid-1", false), order(&disk.device));
    let grow = |source: &str| super::grow(&root.layout(), &locks, &first, source);
    assert_eq!(grow(&disk.device), Ok(()), "one that holds nothing gets a file system of its size");
    assert_eq!(have(&root, &locks, &first, &order), Ok(None));
    let bytes = || {
        let told = rustix::fs::statvfs(root.layout().path(&first)).expect("told");
        told.f_blocks * told.f_frsize
    };
    let before = bytes();
    gone(&root, &locks, &first);
    disk.grow_to(32 << 20);
    // Unmounted, for a mounted ext4 grows only by a capability that the test's machine may lack; then it has to be looked over.
    assert_eq!(programs::run("e2fsck", &["-f", "-y", &disk.device], None).end, programs::End::Code(0));
    for attempt in ["first", "second"] {
        assert_eq!(grow(&disk.device), Ok(()), "{attempt}");
    }
    assert_eq!(have(&root, &locks, &first, &order), Ok(None));
    assert!(bytes() > before + (8 << 20), "{before} bytes, now {}", bytes());
    gone(&root, &locks, &first);
}

/// VOL-46.
#[test]
fn vol_46_only_file_systems_are_grown() {
    if !may_mount() {
        return;
    }
    let (root, locks) = (Root::new(), Locks::default());
    let Some(disk) = Disk::new(root.folder.path()) else { return };
    let grow = |source: &str| super::grow(&root.layout(), &locks, &place("uid-1", false), source);
    assert_eq!(grow(&root.folder.path().display().to_string()), Ok(()), "a directory has the room of what it is in");
    let missing = root.folder.path().join("missing").display().to_string();
    assert_eq!(grow(&missing), Err(VolumeError::Source(format!("path {missing:?} does not exist"))));
    assert!(programs::run("mkswap", &[&disk.device], None).is_ok());
    let refused = grow(&disk.device).expect_err("no file system").to_string();
    let expected = format!("ResizeFS.Resize - resize of format swap is not supported for device {} ", disk.device);
    assert!(refused.starts_with(&expected), "{refused}");
}

#[test]
fn a_disk_with_foreign_data_is_not_formatted() {
    if !may_mount() {
        return;
    }
    let (root, locks) = (Root::new(), Locks::default());
    let Some(disk) = Disk::new(root.folder.path()) else { return };
    // The end of a master boot record, and one partition in it.
    let mut sector = vec![0u8; 512];
    sector[446..462].copy_from_slice(&[0, 0, 2, 0, 0x83, 0, 0, 0, 1, 0, 0, 0, 0, 0x10, 0, 0]);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    let mut file = fs::OpenOptions::new().write(true).open(&disk.device).expect("opened");
    std::io::Write::write_all(&mut file, &sector).expect("written");
    file.sync_all().expect("written");
    let error = have(&root, &locks, &place("uid-1", false), &order(&disk.device)).expect_err("foreign");
    assert!(
        matches!(&error, VolumeError::OtherFileSystem(text) if text.contains("mount failed: exit status")),
        "{error}"
    );
    assert!(root.mounts().is_empty());
    let mut now = vec![0u8; 512];
    std::io::Read::read_exact(&mut fs::File::open(&disk.device).expect("opened"), &mut now).expect("read");
    assert_eq!(now, sector, "nothing was written");
}

/// VOL-06, VOL-47.
#[test]
fn a_device_is_mapped_held_and_let_go() {
    if !may_mount() {
        return;
    }
    let (root, locks) = (Root::new(), Locks::default());
    let Some(disk) = Disk::new(root.folder.path()) else { return };
    let (first, second) = (place("uid-1", true), place("uid-2", true));
    let map = |place: &VolumePlace, exclusive| device::map(&root.layout(), &locks, place, &disk.device, exclusive);
    let no_device = device::map(&root.layout(), &locks, &first, "/etc/passwd", false);
    assert_eq!(no_device, Err(VolumeError::Refused("/etc/passwd is not a block device".to_owned())));
    map(&first, true).expect("mapped");
    map(&first, true).expect("mapped already");
    let link = root.folder.path().join("pods/uid-1/volumeDevices/kubernetes.io~local-volume/pv-1");
    assert_eq!(fs::read_link(&link).expect("a link").display().to_string(), disk.device);
    let shared = root.folder.path().join("plugins/kubernetes.io~local-volume/volumeDevices/pv-1/uid-1");
    assert_eq!(root.mounts(), std::slice::from_ref(&shared));
    assert_eq!(fs::metadata(&shared).expect("there").rdev(), fs::metadata(&disk.device).expect("there").rdev());
    assert_eq!(map(&second, true), Err(VolumeError::InUse));
    map(&second, false).expect("shared");
    // The disk's own record is all that is needed after a restart.
    let found = tear_down::volumes_of(&root.layout(), &first.uid).expect("listed");
    assert_eq!(found, std::slice::from_ref(&first));
    for place in [&first, &second] {
        tear_down::volume(&root.layout(), &locks, place).expect("unmapped");
        tear_down::volume(&root.layout(), &locks, place).expect("nothing to do");
        tear_down::release(&root.layout(), &place.uid).expect("released");
    }
    assert!(!shared.exists() && fs::symlink_metadata(&link).is_err() && root.mounts().is_empty());
    assert!(!root.folder.path().join("pods/uid-1/volumeDevices").exists());
    assert_eq!(disk.users(), 0, "no loop device holds it");
}
