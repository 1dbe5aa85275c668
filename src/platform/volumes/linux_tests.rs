//! Volumes on real file systems, with real mounts.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use super::*;
use crate::logic::time::Moment;
use crate::logic::volumes::order::{Medium, plugin};
use crate::logic::volumes::payload::Payload;
use crate::platform::volumes::testing::{Root, may_mount, uid};

/// Runs a call to its end on a runtime of one thread, where the adapter works in place.
fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(work)
}

fn empty(medium: Medium) -> SetUp {
    SetUp::EmptyDir { medium, ownership: Ownership::default() }
}

fn files(medium: Medium, entries: &[(&str, &str)]) -> SetUp {
    let mut payload = Payload::default();
    for (path, content) in entries {
        payload.insert(path, content.as_bytes(), 0o644, None);
    }
    let ownership = Ownership { fs_group: Some(99), read_only: true, ..Ownership::default() };
    SetUp::Files(FilesOrder { medium, payload, mount_points: vec!["nested".into()], ownership, now: Moment(1) })
}

fn mode(path: &PathBuf) -> u32 {
    fs::metadata(path).expect("there").mode() & 0o7777
}

const SMALL: Medium = Medium::Memory { size_max: Some(1 << 20) };

#[test]
fn an_empty_directory_is_open_to_all_and_keeps_what_is_in_it() {
    let root = Root::new();
    let (host, place) = (root.host(), root.place(plugin::EMPTY_DIR, "cache"));
    wait(host.set_up(&uid(), Some(&place), empty(Medium::Disk))).expect("made");
    let path = PathBuf::from(host.path_of(&place));
    assert_eq!(path, root.pod().join("volumes/kubernetes.io~empty-dir/cache"));
    assert_eq!(mode(&path), 0o777);
    assert!(root.pod().join("plugins/kubernetes.io~empty-dir/cache/ready").is_file());
    fs::write(path.join("kept"), "1").expect("written");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("set");
    wait(host.set_up(&uid(), Some(&place), empty(Medium::Disk))).expect("there");
    assert_eq!((fs::read_to_string(path.join("kept")).expect("kept").as_str(), mode(&path)), ("1", 0o700));
    fs::remove_dir_all(&path).expect("removed by hand");
    wait(host.set_up(&uid(), Some(&place), empty(Medium::Disk))).expect("made anew");
    assert_eq!(mode(&path), 0o777);
    wait(host.tear_down(&place)).expect("removed");
    assert!(!path.exists());
    wait(host.tear_down(&place)).expect("nothing to do");
    wait(host.release(&uid())).expect("released");
    assert_eq!(
        fs::read_dir(root.pod())
            .expect("listed")
            .filter_map(Result::ok)
            .map(|left| left.file_name())
            .collect::<Vec<_>>(),
        ["volumes"]
    );
}

#[test]
fn memory_is_mounted_once_bounded_and_gone_after() {
    if !may_mount() {
        return;
    }
    let root = Root::new();
    let (host, place) = (root.host(), root.place(plugin::EMPTY_DIR, "fast"));
    for _ in 0..2 {
        wait(host.set_up(&uid(), Some(&place), empty(SMALL))).expect("mounted");
    }
    let path = PathBuf::from(host.path_of(&place));
    assert_eq!(root.mounts(), [path.clone()]);
    let too_much = vec![0; 2 << 20];
    let error = fs::write(path.join("big"), too_much).expect_err("larger than the volume");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    wait(host.tear_down(&place)).expect("unmounted");
    assert!(root.mounts().is_empty() && !path.exists());
}

#[test]
fn files_are_written_over_memory_and_updated_in_place() {
    if !may_mount() {
        return;
    }
    let root = Root::new();
    let (host, place) = (root.host(), root.place(plugin::SECRET, "token"));
    wait(host.set_up(&uid(), Some(&place), files(SMALL, &[("a", "1"), ("b", "2")]))).expect("written");
    let path = PathBuf::from(host.path_of(&place));
    assert_eq!(root.mounts(), [path.clone()]);
    assert!(root.pod().join("plugins/kubernetes.io~empty-dir/wrapped_token/ready").is_file());
    assert!(path.join("nested").is_dir());
    let found = fs::metadata(path.join("a")).expect("there");
    assert_eq!((found.gid(), found.mode() & 0o7777), (99, 0o644));
    wait(host.set_up(&uid(), Some(&place), files(SMALL, &[("a", "3")]))).expect("updated");
    assert_eq!(fs::read_to_string(path.join("a")).expect("read"), "3");
    assert!(!path.join("b").exists());
    assert_eq!(root.mounts().len(), 1);
    wait(host.tear_down(&place)).expect("unmounted");
    assert!(root.mounts().is_empty() && !path.exists());
}

#[test]
fn nothing_half_made_stays_of_files_that_could_not_be_written() {
    if !may_mount() {
        return;
    }
    let root = Root::new();
    let (host, place) = (root.host(), root.place(plugin::SECRET, "big"));
    let content = "x".repeat(2 << 20);
    let error = wait(host.set_up(&uid(), Some(&place), files(SMALL, &[("a", &content)]))).expect_err("too large");
    assert!(error.to_string().contains("write files of"), "{error}");
    assert!(root.mounts().is_empty());
    assert_eq!(wait(host.volumes_of(&uid())).expect("listed"), []);
}

#[test]
fn a_bound_directory_keeps_its_data_when_the_pod_goes() {
    if !may_mount() {
        return;
    }
    let root = Root::new();
    let disk = tempfile::tempdir().expect("a directory");
    fs::write(disk.path().join("data"), "precious").expect("written");
    let source = disk.path().display().to_string();
    let (host, place) = (root.host(), root.place(plugin::LOCAL, "pv-1"));
    for read_only in [false, true] {
        let ownership = Ownership { fs_group: Some(77), ..Ownership::default() };
        let order = SetUp::Bind { source: source.clone(), read_only, ownership };
        for _ in 0..2 {
            wait(host.set_up(&uid(), Some(&place), order.clone())).expect("mounted");
        }
        let path = PathBuf::from(host.path_of(&place));
        assert_eq!(root.mounts(), [path.clone()]);
        assert_eq!(fs::read_to_string(path.join("data")).expect("read"), "precious");
        assert_eq!(fs::write(path.join("more"), "").is_err(), read_only);
        wait(host.tear_down(&place)).expect("unmounted");
        assert!(!path.exists());
    }
    assert_eq!(fs::read_to_string(disk.path().join("data")).expect("kept"), "precious");
    assert_eq!(fs::metadata(disk.path().join("data")).expect("there").gid(), 77);
}

/// Upstream issue 60987: a removal that went through a mount destroyed what users had there.
#[test]
fn a_mount_inside_a_volume_is_named_and_nothing_is_removed() {
    if !may_mount() {
        return;
    }
    let root = Root::new();
    let disk = tempfile::tempdir().expect("a directory");
    fs::write(disk.path().join("data"), "precious").expect("written");
    let (host, place) = (root.host(), root.place(plugin::EMPTY_DIR, "v"));
    wait(host.set_up(&uid(), Some(&place), empty(Medium::Disk))).expect("made");
    let inside = PathBuf::from(host.path_of(&place)).join("mnt");
    fs::create_dir(&inside).expect("made");
    rustix::mount::mount_bind(disk.path(), &inside).expect("mounted");
    let error = wait(host.tear_down(&place)).expect_err("a mount is inside").to_string();
    assert!(error.contains(&inside.display().to_string()), "{error}");
    wait(host.release(&uid())).expect_err("a volume is still there");
    assert_eq!(fs::read_to_string(disk.path().join("data")).expect("kept"), "precious");
}

#[test]
fn data_of_kinds_that_are_not_ours_is_never_deleted() {
    let root = Root::new();
    let place = root.place(plugin::CSI, "pv-9");
    let path = root.pod().join("volumes/kubernetes.io~csi/pv-9");
    fs::create_dir_all(&path).expect("made");
    fs::write(path.join("vol_data.json"), "{}").expect("written");
    let host = root.host();
    assert_eq!(wait(host.volumes_of(&uid())).expect("listed"), [place.clone()]);
    wait(host.tear_down(&place)).expect_err("not empty");
    wait(host.release(&uid())).expect_err("still there");
    assert!(path.join("vol_data.json").exists());
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    let root = Root::new();
    for name in ["..", "a/b", "", "."] {
        let place = root.place(plugin::EMPTY_DIR, name);
        wait(root.host().set_up(&uid(), Some(&place), empty(Medium::Disk))).expect_err(name);
        wait(root.host().tear_down(&place)).expect_err(name);
    }
}

#[test]
fn a_link_in_the_place_of_a_volume_is_not_followed() {
    let root = Root::new();
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("data"), "precious").expect("written");
    let (host, place) = (root.host(), root.place(plugin::EMPTY_DIR, "v"));
    fs::create_dir_all(root.pod().join("volumes/kubernetes.io~empty-dir")).expect("made");
    symlink(outside.path(), host.path_of(&place)).expect("linked");
    wait(host.set_up(&uid(), Some(&place), empty(Medium::Disk))).expect_err("a link");
    let _ = wait(host.tear_down(&place));
    assert_eq!(fs::read_to_string(outside.path().join("data")).expect("kept"), "precious");
}
