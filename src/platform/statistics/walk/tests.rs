//! Tests of walks: real directories.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use super::*;
use crate::platform::host::clock::SystemClock;
use crate::platform::statistics::disks;

fn count(path: &Path) -> Result<Usage, Stopped> {
    walk(disks::open(path).expect("a directory"), &SystemClock::start(), Duration::from_secs(60), false)
}

/// The sums of `stat` over these, each once.
fn sums(paths: &[&Path]) -> (u64, u64) {
    let bytes = paths.iter().map(|path| fs::symlink_metadata(path).expect("there").blocks() * 512).sum();
    (bytes, u64::try_from(paths.len()).expect("few"))
}

#[test]
fn files_count_by_their_blocks_and_once_however_many_names_they_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    fs::create_dir_all(root.join("a/b")).expect("made");
    fs::write(root.join("a/large"), vec![1; 100_000]).expect("written");
    fs::hard_link(root.join("a/large"), root.join("a/b/again")).expect("linked");
    let sparse = fs::File::create(root.join("sparse")).expect("made");
    sparse.set_len(1 << 30).expect("a hole");
    symlink("/", root.join("a/elsewhere")).expect("linked");
    let usage = count(root).expect("walked");
    let expected = sums(&[
        root,
        &root.join("a"),
        &root.join("a/b"),
        &root.join("a/large"),
        &root.join("sparse"),
        &root.join("a/elsewhere"),
    ]);
    assert_eq!((usage.bytes, usage.inodes), expected);
    assert!(usage.bytes < 1 << 20, "a hole uses nothing, and links are not followed");
}

#[test]
fn depth_is_no_obstacle() {
    let folder = tempfile::tempdir().expect("a folder");
    // Deeper than a path can be long, so that it takes one step at a time.
    let mut here = disks::open(folder.path()).expect("a directory");
    for _ in 0..3000 {
        rustix::fs::mkdirat(&here, "d", Mode::from_raw_mode(0o755)).expect("made");
        rustix::fs::mkdirat(&here, "e", Mode::from_raw_mode(0o755)).expect("made");
        here = rustix::fs::openat(&here, "d", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("opened");
    }
    let usage = count(folder.path()).expect("walked");
    assert_eq!(usage.inodes, 6001);
    // The test that made it cannot remove it by its path either.
    let status = std::process::Command::new("rm").arg("-rf").arg(folder.path()).status().expect("rm");
    assert!(status.success());
}

#[test]
fn a_walk_ends_when_its_time_is_over() {
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..600 {
        fs::write(folder.path().join(number.to_string()), "").expect("written");
    }
    let here = disks::open(folder.path()).expect("a directory");
    assert_eq!(walk(here, &SystemClock::start(), Duration::ZERO, false), Err(Stopped::Unfinished));
}

/// A directory is not read into memory as a whole: a pod may make millions in one.
#[test]
fn names_are_kept_as_far_as_there_is_room_and_all_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..700 {
        fs::create_dir_all(folder.path().join(format!("{}/{number}/below", number % 7))).expect("made");
        fs::write(folder.path().join(format!("{}/{number}/file", number % 7)), "x").expect("written");
    }
    let clock = SystemClock::start();
    let narrow = || Walk {
        clock: &clock,
        until: Duration::from_secs(600),
        has_pauses: false,
        device: fs::metadata(folder.path()).expect("there").dev(),
        usage: Usage::default(),
        entries: 0,
        names_max: 5,
        names: 0,
        seen: BTreeSet::new(),
    };
    let root = || disks::open(folder.path()).expect("a directory");
    let part = narrow().read(&root(), None).expect("read");
    assert!(part.names.len() == 5 && part.rest.is_some(), "{part:?}");
    let usage = narrow().whole(root()).expect("walked");
    assert_eq!(usage.inodes, 1 + 7 + 3 * 700);
    let wide = count(folder.path()).expect("walked");
    assert_eq!((usage.bytes, usage.inodes), (wide.bytes, wide.inodes));
}

#[test]
fn another_file_system_is_not_entered() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("mounted");
    fs::create_dir(&inside).expect("made");
    let mounted = std::process::Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&inside).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        return crate::testing::skips::skip("nothing can be mounted");
    }
    fs::write(inside.join("large"), vec![1; 1_000_000]).expect("written");
    let usage = count(folder.path());
    let status = std::process::Command::new("umount").arg(&inside).status().expect("umount");
    assert!(status.success());
    assert_eq!(usage.expect("walked").inodes, 1);
}

/// PAIN-06: pauses change the time that a walk takes, and nothing of what it counts or of what it costs.
#[test]
fn pain_06_a_walk_with_pauses_counts_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..3000 {
        fs::write(folder.path().join(format!("file{number}")), "x").expect("written");
    }
    let clock = SystemClock::start();
    let walked = |has_pauses| {
        let (here, began) = (disks::open(folder.path()).expect("a directory"), clock.uptime());
        let usage = walk(here, &clock, Duration::from_secs(60), has_pauses).expect("walked");
        ((usage.bytes, usage.inodes), clock.uptime().saturating_sub(began))
    };
    let ((at_once, _), (paced, took)) = (walked(false), walked(true));
    assert_eq!((at_once, paced.1), (paced, 3001));
    assert!(took >= 11 * PAUSE, "{took:?}");
}
