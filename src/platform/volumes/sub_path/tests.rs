//! Parts of volumes, and attacks on them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::platform::volumes::testing::{Root, may_mount, uid};

fn order(volume: &Path, sub_path: &str) -> SubPathOrder {
    SubPathOrder {
        uid: uid(),
        volume: "v".into(),
        mount: "data".into(),
        volume_path: volume.display().to_string(),
        container: "c".into(),
        index: 3,
        sub_path: sub_path.into(),
    }
}

fn text(step: Step) -> String {
    match step {
        Step::Make(error) => format!("make: {error}"),
        Step::Prepare(error) => format!("prepare: {error}"),
    }
}

fn prepared(root: &Root, volume: &Path, sub_path: &str) -> Result<PathBuf, String> {
    prepare(&root.layout(), &order(volume, sub_path)).map(PathBuf::from).map_err(text)
}

/// VOL-32.
#[test]
fn a_part_is_mounted_where_the_container_finds_it_and_cleaned_up() {
    if !may_mount() {
        return;
    }
    let (root, volume) = (Root::new(), tempfile::tempdir().expect("made"));
    fs::create_dir(volume.path().join("dir")).expect("made");
    fs::write(volume.path().join("dir/file"), "1").expect("written");
    let expected = root.pod().join("volume-subpaths/v/c/3");
    for (sub_path, is_directory) in [("dir", true), ("dir/file", false), ("./dir//file", false), ("dir", true)] {
        for _ in 0..2 {
            assert_eq!(prepared(&root, volume.path(), sub_path), Ok(expected.clone()));
            assert_eq!(root.mounts(), std::slice::from_ref(&expected), "mounted once");
        }
        assert_eq!(expected.is_dir(), is_directory);
        assert_eq!(
            expected.metadata().expect("there").ino(),
            volume.path().join(sub_path).metadata().expect("there").ino()
        );
    }
    clean(&root.layout(), &uid(), "v").expect("cleaned");
    assert!(root.mounts().is_empty() && !root.pod().join("volume-subpaths/v").exists());
    clean_all(&root.layout(), &uid()).expect("cleaned");
    assert!(!root.pod().join("volume-subpaths").exists());
    assert_eq!(fs::read_to_string(volume.path().join("dir/file")).expect("kept"), "1");
}

/// SEC-03.
#[test]
fn what_is_missing_is_made_with_the_mode_of_the_volume() {
    if !may_mount() {
        return;
    }
    let (root, volume) = (Root::new(), tempfile::tempdir().expect("made"));
    fs::set_permissions(volume.path(), fs::Permissions::from_mode(0o3777)).expect("set");
    prepared(&root, volume.path(), "a/b/c").expect("made");
    for made in ["a", "a/b", "a/b/c"] {
        assert_eq!(fs::metadata(volume.path().join(made)).expect("made").mode() & 0o7777, 0o3777, "{made}");
    }
}

/// CVE-2017-1002101, SEC-01.
#[test]
fn cve_2017_1002101_links_inside_the_volume_are_followed_and_those_out_of_it_refused() {
    if !may_mount() {
        return;
    }
    let (root, volume) = (Root::new(), tempfile::tempdir().expect("made"));
    let outside = tempfile::tempdir().expect("made");
    fs::create_dir(outside.path().join("secret")).expect("made");
    fs::create_dir(volume.path().join("real")).expect("made");
    for (name, target) in [
        ("inside", PathBuf::from("real")),
        ("out", outside.path().to_owned()),
        ("up", PathBuf::from("../../../../../../etc")),
        ("root", PathBuf::from("/")),
        ("proc", PathBuf::from("/proc/self/root")),
        ("loop", PathBuf::from("loop")),
        ("dangling", PathBuf::from("/nowhere")),
    ] {
        symlink(target, volume.path().join(name)).expect("linked");
    }
    prepared(&root, volume.path(), "inside").expect("stays inside");
    for attack in [
        "out",
        "out/secret",
        "up",
        "up/passwd",
        "root",
        "root/etc",
        "proc/etc",
        "loop",
        "dangling",
        "out/new",
        "up/new/x",
    ] {
        prepared(&root, volume.path(), attack).expect_err(attack);
    }
    assert!(!outside.path().join("new").exists() && !Path::new("/etc/new").exists(), "made something outside");
}

/// SEC-04. A claim's volume is named as the pod names it, not as its persistent volume.
#[test]
fn sec_04_the_texts_tell_nothing_of_the_host() {
    let volume = tempfile::tempdir().expect("made");
    symlink("/etc", volume.path().join("out")).expect("linked");
    let root = Root::new();
    let order = order(volume.path(), "out/nope");
    let Err(step) = prepare(&root.layout(), &order) else { panic!("left the volume") };
    let told = step.into_error(&order).to_string();
    assert!(told.ends_with("for volumeMount \"data\" of container \"c\"") && !told.contains("etc"), "{told}");
}

/// CVE-2021-25741, VOL-32, SEC-01, SEC-03: a container swaps a directory for a link to the host while the part is being
/// prepared. In a thousand rounds what is mounted is never anything but the volume's own.
#[test]
fn cve_2021_25741_sec_01_sec_03_a_container_that_swaps_links_never_gets_out() {
    if !may_mount() {
        return;
    }
    let (root, volume) = (Root::new(), tempfile::tempdir().expect("made"));
    let outside = tempfile::tempdir().expect("made");
    fs::create_dir(outside.path().join("sub")).expect("made");
    fs::write(outside.path().join("sub/victim"), "host").expect("written");
    let (path, over) = (volume.path(), AtomicBool::new(false));
    fs::create_dir_all(path.join("dir/sub")).expect("made");
    symlink(outside.path(), path.join("link")).expect("linked");
    let layout = root.layout();
    std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let folder = Directory::open(path).expect("opened");
            let exchange = rustix::fs::RenameFlags::EXCHANGE;
            let mut swaps = 0_u32;
            while !over.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(&folder, "dir", &folder, "link", exchange).expect("swapped");
                // At changing distances: else each look waits for one swap, and always meets the same side.
                swaps = swaps.wrapping_add(1);
                (0..swaps.wrapping_mul(31) % 5000).for_each(|_| std::hint::spin_loop());
            }
        });
        let (mut round, mut mounted, mut refused) = (0, 0, 0);
        // On a busy machine the swapper may stand still for long: both sides are met, however long it takes.
        while round < 1000 || mounted < 50 || refused < 50 {
            round += 1;
            // Every other one asks for what is not there, so that making it is attacked, too.
            let order = order(path, &if round % 2 == 0 { "dir/sub".to_owned() } else { format!("dir/new-{round}") });
            match prepare(&layout, &order) {
                Ok(target) => {
                    mounted += 1;
                    assert!(!Path::new(&target).join("victim").exists(), "round {round} left the volume");
                }
                Err(_) => refused += 1,
            }
            clean(&layout, &uid(), "v").expect("cleaned");
            std::thread::yield_now();
        }
        over.store(true, Ordering::Relaxed);
        swapper.join().expect("ended");
    });
    let made = fs::read_dir(outside.path()).expect("listed").count();
    assert_eq!(made, 1, "something was made outside");
}

#[test]
fn a_volume_of_a_path_that_is_gone_is_an_error() {
    let root = Root::new();
    prepared(&root, Path::new("/no/such/volume"), "x").expect_err("gone");
}

#[test]
fn a_target_with_something_in_it_is_not_removed() {
    let root = Root::new();
    let target = root.pod().join("volume-subpaths/v/c");
    fs::create_dir_all(&target).expect("made");
    fs::write(target.join("0"), "something").expect("written");
    clean(&root.layout(), &uid(), "v").expect_err("not empty");
    assert_eq!(fs::read_to_string(target.join("0")).expect("kept"), "something");
}
