//! Hostile paths and links against real directories.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use super::*;

fn here() -> (tempfile::TempDir, Directory) {
    let folder = tempfile::tempdir().expect("a directory");
    let directory = Directory::open(folder.path()).expect("open");
    (folder, directory)
}

/// Mounts an empty file system there.
#[track_caller]
fn mount_tmpfs(at: &Path) -> Option<Unmount> {
    mount(&["-t", "tmpfs", "none"], at)
}

/// `None`, and the test skips itself, where nothing may be mounted.
#[track_caller]
fn mount(what: &[&str], at: &Path) -> Option<Unmount> {
    let mounted = Command::new("mount").args(what).arg(at).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        crate::testing::skips::skip("nothing can be mounted");
        return None;
    }
    Some(Unmount(at.to_path_buf()))
}

struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn only_names_are_segments() {
    for (text, fine) in [("a", true), ("..a", true), ("a b", true), ("", false), (".", false), ("..", false)] {
        assert_eq!(segment(text).is_ok(), fine, "{text:?}");
    }
    for text in ["/", "a/", "/a", "a\0"] {
        assert!(segment(text).is_err(), "{text:?}");
    }
    assert!(segment(&"x".repeat(255)).is_ok() && segment(&"x".repeat(256)).is_err());
}

#[test]
fn a_link_is_refused_wherever_it_stands() {
    let (folder, directory) = here();
    fs::create_dir_all(folder.path().join("real/below")).expect("made");
    fs::write(folder.path().join("real/below/file"), "x").expect("written");
    symlink("real", folder.path().join("link")).expect("linked");
    symlink("file", folder.path().join("real/below/link")).expect("linked");
    let read = |segments: &[&str]| directory.read_regular(segments, Mounts::Refuse);
    assert!(read(&["real", "below", "file"]).expect("opened").is_some());
    read(&["link", "below", "file"]).expect_err("a link on the way");
    assert!(!matches!(read(&["real", "below", "link"]), Ok(Some(_))), "a link at the end");
    directory.directory(&["link"], Mounts::Refuse).expect_err("a link at the end");
    directory.make_directory("link", 0o755).expect_err("a link is there");
}

#[test]
fn walking_by_segments_refuses_what_openat2_refuses() {
    let (folder, directory) = here();
    fs::create_dir_all(folder.path().join("real/below")).expect("made");
    fs::write(folder.path().join("real/below/file"), "x").expect("written");
    symlink("real", folder.path().join("link")).expect("linked");
    symlink("file", folder.path().join("real/below/link")).expect("linked");
    let walk =
        |segments: &[&str]| directory.walk(segments, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty(), Mounts::Refuse);
    walk(&["real", "below", "file"]).expect("opened");
    for segments in [&["link", "below", "file"][..], &["real", "below", "link"], &["real", "missing"]] {
        walk(segments).expect_err("refused");
    }
}

#[test]
fn modes_hold_whatever_the_umask() {
    let (folder, directory) = here();
    directory.make_directory("directory", 0o777).expect("made");
    directory.make_file("file", 0o666).expect("made");
    for (name, mode) in [("directory", 0o777), ("file", 0o666)] {
        assert_eq!(fs::metadata(folder.path().join(name)).expect("there").permissions().mode() & 0o7777, mode);
    }
    directory.make_file("file", 0o666).expect_err("there already");
}

#[test]
fn a_directory_is_read_no_further_than_is_wanted() {
    let (folder, directory) = here();
    for number in 0..10 {
        fs::write(folder.path().join(number.to_string()), "").expect("written");
    }
    let names = |max| directory.first_names(max).expect("read").len();
    assert_eq!((names(3), names(10), names(11)), (3, 10, 10));
    assert_eq!(directory.names().expect("read").len(), 10);
}

#[test]
fn a_tree_deeper_than_any_path_is_removed() {
    let (folder, directory) = here();
    let mut below = directory.make_directory("top", 0o755).expect("made");
    // The maker of the tree knows the code, and takes names away from it.
    for number in 1..3000 {
        below.make_file(&format!(".removing-{number}"), 0o644).expect("made");
    }
    for _ in 0..3000 {
        below.make_file("file", 0o644).expect("made");
        below = below.make_directory("a", 0o755).expect("made");
    }
    let small = std::thread::Builder::new().stack_size(256 * 1024);
    let removal = small.spawn(move || directory.remove_tree("top")).expect("started");
    removal.join().expect("ended").expect("removed");
    assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 0);
}

#[test]
fn a_directory_wider_than_a_batch_is_removed() {
    let (folder, directory) = here();
    let below = directory.make_directory("top", 0o755).expect("made");
    for number in 0..BATCH * 2 + 7 {
        below.make_file(&number.to_string(), 0o644).expect("made");
    }
    directory.remove_tree("top").expect("removed");
    directory.remove_tree("top").expect("gone already");
    assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 0);
}

#[test]
fn a_link_or_a_file_in_place_of_the_tree_is_not_followed() {
    let (folder, directory) = here();
    fs::create_dir(folder.path().join("real")).expect("made");
    fs::write(folder.path().join("real/file"), "kept").expect("written");
    symlink("real", folder.path().join("link")).expect("linked");
    directory.remove_tree("link").expect_err("a link");
    directory.remove_tree("real/file").expect_err("two segments");
    directory.remove_tree("..").expect_err("above");
    assert!(folder.path().join("real/file").exists());
}

/// PAIN-15.
#[test]
fn a_mount_inside_is_named_and_nothing_is_removed() {
    let (folder, directory) = here();
    for inside in ["top", "top/a/mount point"] {
        let point = folder.path().join(inside);
        fs::create_dir_all(&point).expect("made");
        fs::write(folder.path().join("top/first"), "kept").expect("written");
        let Some(_mount) = mount_tmpfs(&point) else { return };
        fs::write(point.join("data"), "kept").expect("written");
        let error = directory.remove_tree("top").expect_err("mounted").to_string();
        assert!(error.ends_with(&format!("{inside} is a mount point")), "{error}");
        assert_eq!(fs::read_to_string(point.join("data")).expect("read"), "kept");
        directory.directory(&inside.split('/').collect::<Vec<_>>(), Mounts::Refuse).expect_err("a mount on the way");
        directory.directory(&inside.split('/').collect::<Vec<_>>(), Mounts::Cross).expect("followed");
    }
    directory.remove_tree("top").expect("removed once unmounted");
}

/// PAIN-15: also a mount over a file, and in trees that are too wide or too deep to be asked entry by entry.
#[test]
fn a_mount_is_found_in_every_kind_of_tree() {
    let deep: String = (0..12).map(|_| "deep/").collect();
    for (inside, files, is_file) in [("file", 0, true), ("wide", survey::ENTRIES_MAX, false), (&*deep, 0, false)] {
        let (folder, directory) = here();
        let (top, point) = (folder.path().join("top"), folder.path().join("top").join(inside));
        fs::create_dir_all(point.parent().expect("one")).expect("made");
        (0..files).for_each(|number| fs::write(top.join(number.to_string()), "kept").expect("written"));
        let mount = if is_file {
            fs::write(&point, "below").expect("written");
            mount(&["--bind", "/dev/null"], &point)
        } else {
            fs::create_dir_all(&point).expect("made");
            mount_tmpfs(&point)
        };
        let Some(mount) = mount else { return };
        let count = || fs::read_dir(&top).expect("listed").count();
        let before = count();
        let error = directory.remove_tree("top").expect_err("mounted").to_string();
        assert!(error.ends_with(" is a mount point"), "{error}");
        assert!(error.contains(inside.trim_end_matches('/')), "{error}");
        assert_eq!(count(), before, "{inside}");
        drop(mount);
        directory.remove_tree("top").expect("removed once unmounted");
        assert!(!top.exists());
    }
}

#[test]
fn a_mount_that_the_table_does_not_tell_stops_the_walk() {
    let (folder, directory) = here();
    let point = folder.path().join("top/a/point");
    fs::create_dir_all(&point).expect("made");
    let Some(_mount) = mount_tmpfs(&point) else { return };
    fs::write(point.join("data"), "kept").expect("written");
    let top = directory.directory(&["top"], Mounts::Refuse).expect("open");
    let error = top.remove_batch(&top, 0, &mut 0).expect_err("mounted").to_string();
    assert!(error.ends_with("top/a/point is a mount point"), "{error}");
    assert!(point.join("data").exists());
}
