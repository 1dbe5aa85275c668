//! Cases for the atomic writer, on a real file system.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use super::*;

fn payload(files: &[(&str, &str)]) -> Payload {
    let mut payload = Payload::default();
    for (path, content) in files {
        payload.insert(path, content.as_bytes(), 0o640, None);
    }
    payload.checked().expect("good paths")
}

fn at(second: i64) -> Moment {
    Moment((1_767_225_600 + second) * 1_000_000_000 + 7)
}

fn put(folder: &Path, files: &[(&str, &str)], second: i64) -> io::Result<bool> {
    write(
        &Directory::open(folder).expect("opened"),
        &payload(files),
        Ownership::default(),
        at(second),
        &Progress::default(),
    )
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).expect("listed").map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn read(folder: &Path, path: &str) -> String {
    fs::read_to_string(folder.join(path)).expect("read")
}

/// VOL-17.
#[test]
fn files_are_seen_through_links_into_the_newest_version() {
    let folder = tempfile::tempdir().expect("made");
    let path = folder.path();
    assert!(put(path, &[("a", "1"), ("deep/er/b", "2"), ("deep/c", "3")], 0).expect("written"));
    assert_eq!(names(path), ["..2026_01_01_00_00_00.7", "..data", "a", "deep"]);
    assert_eq!(fs::read_link(path.join("..data")).unwrap(), Path::new("..2026_01_01_00_00_00.7"));
    assert_eq!(fs::read_link(path.join("deep")).unwrap(), Path::new("..data/deep"));
    assert_eq!((read(path, "a"), read(path, "deep/er/b"), read(path, "deep/c")), ("1".into(), "2".into(), "3".into()));
    let mode = |name: &str| fs::metadata(path.join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("a"), mode("deep"), mode("..data")), (0o640, 0o755, 0o755));
}

#[test]
fn the_same_files_are_not_written_again_but_a_lost_link_comes_back() {
    let folder = tempfile::tempdir().expect("made");
    let path = folder.path();
    let files = [("a", "1"), ("b/c", "2")];
    put(path, &files, 0).expect("written");
    let before = fs::symlink_metadata(path.join("..data")).unwrap().ino();
    fs::remove_file(path.join("b")).expect("removed");
    assert!(!put(path, &files, 5).expect("written"));
    assert_eq!(fs::symlink_metadata(path.join("..data")).unwrap().ino(), before);
    assert_eq!(read(path, "b/c"), "2");
}

/// VOL-17.
#[test]
fn an_update_replaces_all_and_leaves_nothing_of_the_old() {
    let folder = tempfile::tempdir().expect("made");
    let path = folder.path();
    put(path, &[("a", "1"), ("gone", "x"), ("deep/gone", "x"), ("deep/kept", "y")], 0).expect("written");
    let held = fs::File::open(path.join("a")).expect("opened");
    assert!(put(path, &[("a", "2"), ("deep/kept", "y")], 1).expect("written"));
    assert_eq!(names(path), ["..2026_01_01_00_00_01.7", "..data", "a", "deep"]);
    assert_eq!((read(path, "a"), names(&path.join("deep"))), ("2".into(), vec!["kept".to_owned()]));
    assert_eq!(io::read_to_string(held).expect("a reader keeps what it opened"), "1");
    assert!(put(path, &[], 2).expect("written"));
    assert_eq!(names(path), ["..2026_01_01_00_00_02.7", "..data"]);
}

#[test]
fn a_file_that_grew_or_lost_a_path_is_an_update() {
    let folder = tempfile::tempdir().expect("made");
    for (second, files, changed) in [
        (0, vec![("a", "1")], true),
        (1, vec![("a", "12")], true),
        (2, vec![("a", "1")], true),
        (3, vec![("a/b", "1")], true),
        (4, vec![("a", "1")], true),
        (5, vec![("a", "1")], false),
    ] {
        assert_eq!(put(folder.path(), &files, second).expect("written"), changed, "{files:?}");
    }
    assert_eq!(read(folder.path(), "a"), "1");
}

#[test]
fn versions_that_a_killed_writer_left_are_removed() {
    let folder = tempfile::tempdir().expect("made");
    let path = folder.path();
    fs::create_dir(path.join("..2020_01_01_00_00_00.1")).expect("made");
    fs::write(path.join("..2020_01_01_00_00_00.1/half"), "x").expect("written");
    symlink("..2020_01_01_00_00_00.1", path.join("..data_tmp")).expect("linked");
    put(path, &[("a", "1")], 0).expect("written");
    assert_eq!(names(path), ["..2026_01_01_00_00_00.7", "..data", "a"]);
}

/// CVE-2017-1002102, SEC-05: what a container put in the place of the agent's own links must not lead anywhere.
#[test]
fn cve_2017_1002102_sec_05_nothing_outside_is_touched_through_links_that_a_container_made() {
    let (folder, outside) = (tempfile::tempdir().expect("made"), tempfile::tempdir().expect("made"));
    let path = folder.path();
    let victim = outside.path().join("file");
    fs::write(&victim, "kept").expect("written");
    put(path, &[("a", "1"), ("old", "x")], 0).expect("written");
    for target in [outside.path().to_owned(), Path::new("../../../../etc").to_owned()] {
        fs::remove_file(path.join("..data")).expect("removed");
        symlink(&target, path.join("..data")).expect("linked");
        for second in 1..3 {
            put(path, &[("a", "2")], second).expect("written");
        }
        assert_eq!(read(path, "a"), "2");
        assert_eq!(fs::read_to_string(&victim).expect("still there"), "kept");
    }
    let version = fs::read_link(path.join("..data")).expect("a link");
    fs::remove_dir_all(path.join(&version)).expect("removed");
    symlink(outside.path(), path.join(&version)).expect("linked");
    put(path, &[("a", "3")], 9).expect("written");
    assert_eq!((read(path, "a"), names(outside.path())), ("3".into(), vec!["file".to_owned()]));
}

/// VOL-35.
#[test]
fn a_directory_of_a_nested_mount_stays_in_the_way() {
    let folder = tempfile::tempdir().expect("made");
    let volume = Directory::open(folder.path()).expect("opened");
    make_mount_points(&volume, &["nested/deeper".into(), "other".into()]).expect("made");
    put(folder.path(), &[("other/file", "1"), ("a", "1")], 0).expect("written");
    assert!(folder.path().join("nested/deeper").is_dir());
    assert!(!folder.path().join("other/file").exists());
    make_mount_points(&volume, &["a/b".into()]).expect("a link of the volume is left alone");
}

/// VOL-30.
#[test]
fn group_and_owner_are_given() {
    let folder = tempfile::tempdir().expect("made");
    let mut files = Payload::default();
    files.insert("token", b"x".as_slice(), 0o600, Some(1234));
    let ownership = Ownership { fs_group: Some(77), read_only: true, ..Ownership::default() };
    write(&Directory::open(folder.path()).expect("opened"), &files, ownership, at(0), &Progress::default())
        .expect("written");
    let found = fs::metadata(folder.path().join("token")).expect("there");
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (1234, 77, 0o640));
}

/// VOL-17: a reader that opens through the links sees whole versions only.
#[test]
fn a_reader_never_sees_a_mix() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = tempfile::tempdir().expect("made");
    let path = folder.path();
    put(path, &[("a", "0"), ("b", "0")], 0).expect("written");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut read = 0;
            while !over.load(Ordering::Relaxed) || read == 0 {
                // One resolution of `..data` for both files, as a careful reader does.
                let Ok(version) = Directory::open(&path.join("..data")) else { continue };
                let content = |name: &str| {
                    let file = version.read_regular(&[name], Mounts::Refuse).ok().flatten();
                    file.and_then(|file| io::read_to_string(file).ok())
                };
                if let (Some(a), Some(b)) = (content("a"), content("b")) {
                    assert_eq!(a, b);
                    read += 1;
                }
            }
        });
        for second in 1..200 {
            let text = second.to_string();
            put(path, &[("a", &text), ("b", &text)], second).expect("written");
        }
        over.store(true, Ordering::Relaxed);
        reader.join().expect("saw whole versions only");
    });
}
