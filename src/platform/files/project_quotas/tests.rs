//! Directories that are counted by projects, and the files that say so.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::testing::PlayedQuotas;
use super::*;
use crate::logic::formats::projects::PROJECT_MIN;

struct Setup {
    folder: tempfile::TempDir,
    calls: Arc<PlayedQuotas>,
}

impl Setup {
    fn new(calls: PlayedQuotas) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("root/pods")).expect("made");
        fs::create_dir(folder.path().join("etc")).expect("made");
        Self { folder, calls: Arc::new(calls) }
    }

    fn quotas(&self) -> ProjectQuotas {
        ProjectQuotas::new(self.calls.clone(), &self.folder.path().join("etc"), &self.folder.path().join("root"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("root/pods").join(name)
    }

    /// Made when it is missing.
    fn directory(&self, name: &str) -> Directory {
        fs::create_dir_all(self.path(name)).expect("made");
        Directory::open(&self.path(name)).expect("there")
    }

    fn etc(&self, name: &str) -> PathBuf {
        self.folder.path().join("etc").join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.etc(name)).unwrap_or_default()
    }

    fn count(&self, name: &str) -> bool {
        self.quotas().count(&self.directory(name), &self.path(name)).expect("told")
    }

    fn usage(&self, name: &str) -> Option<ProjectUse> {
        let counted = self.quotas().counted().expect("read");
        self.quotas().usage(self.directory(name), &self.path(name), &counted).expect("told")
    }
}

#[test]
fn an_empty_directory_is_counted_until_it_goes() {
    let setup = Setup::new(PlayedQuotas::default());
    assert!(setup.count("one") && setup.count("two"));
    assert!(setup.count("one"), "counted already");
    setup.calls.set_use(PROJECT_MIN, 5 << 20, 7);
    assert_eq!(setup.usage("one"), Some(ProjectUse { bytes: 5 << 20, inodes: 7 }));
    assert_eq!(setup.usage("two"), Some(ProjectUse::default()));
    let one = setup.path("one").display().to_string();
    assert!(setup.text("projects").starts_with(&format!("{PROJECT_MIN}:{one}\n")), "{}", setup.text("projects"));
    assert!(setup.text("projid").starts_with(&format!("volume{PROJECT_MIN}:{PROJECT_MIN}\n")));
    setup.quotas().forget(&setup.path("one")).expect("forgotten");
    setup.quotas().forget(&setup.path("one")).expect("forgotten before");
    assert_eq!(setup.usage("one"), None);
    assert_eq!((setup.text("projects").lines().count(), setup.text("projid").lines().count()), (1, 1));
    assert_eq!(fs::metadata(setup.etc("projects")).expect("there").permissions().mode() & 0o777, 0o644);
}

#[test]
fn a_file_system_that_counts_nothing_is_left_alone() {
    let setup = Setup::new(PlayedQuotas::off(true));
    assert!(!setup.count("one"));
    assert!(!setup.etc("projects").exists());
    setup.quotas().forget(&setup.path("one")).expect("nothing to forget");
    assert!(!setup.etc("projects").exists());
}

/// Files that are there already are of no project, and would not be counted.
#[test]
fn a_directory_with_files_is_walked() {
    let setup = Setup::new(PlayedQuotas::default());
    setup.directory("one");
    fs::write(setup.path("one").join("file"), "x").expect("written");
    assert!(!setup.count("one"));
    assert_eq!((setup.usage("one"), setup.text("projects")), (None, String::new()));
}

/// The root directory may have a quota of its administrator, which new directories inherit.
#[test]
fn a_directory_of_somebody_elses_project_stays_there() {
    let setup = Setup::new(PlayedQuotas::default());
    setup.calls.set_project(setup.directory("one").as_fd(), 7);
    assert!(!setup.count("one"));
    assert_eq!(setup.calls.project_of(setup.directory("one").as_fd()).expect("told"), 7);
    assert_eq!(setup.text("projects"), "");
}

/// A file may say what it likes: the directory has to be of that project, too.
#[test]
fn a_project_counts_where_file_and_kernel_agree() {
    let setup = Setup::new(PlayedQuotas::default());
    let one = setup.path("one").display().to_string();
    fs::write(setup.etc("projects"), format!("7:{one}\n8:/srv/data\n")).expect("written");
    setup.calls.set_use(7, 1, 1);
    assert_eq!(setup.usage("one"), None);
    setup.calls.set_project(setup.directory("one").as_fd(), 7);
    assert_eq!(setup.usage("one"), Some(ProjectUse { bytes: 1, inodes: 1 }));
    assert_eq!(setup.quotas().counted().expect("read").into_keys().collect::<Vec<_>>(), [one], "others are not ours");
}

#[test]
fn a_refusal_of_the_kernel_leaves_no_line() {
    let setup = Setup::new(PlayedQuotas::refusing());
    let counted = setup.quotas().count(&setup.directory("one"), &setup.path("one"));
    assert_eq!(counted.expect_err("refused").raw_os_error(), Some(libc::EPERM));
    assert_eq!((setup.text("projects"), setup.text("projid")), (String::new(), String::new()));
}

#[test]
fn what_went_while_nobody_looked_gives_its_project_back() {
    let setup = Setup::new(PlayedQuotas::default());
    fs::write(setup.etc("projects"), "8:/srv/data\n").expect("written");
    assert!(setup.count("one"));
    setup.directory("two"); // Made before the other one goes, whose inode it could have otherwise.
    fs::remove_dir(setup.path("one")).expect("removed");
    assert!(setup.count("two"));
    let two = setup.path("two").display().to_string();
    assert_eq!(setup.text("projects"), format!("8:/srv/data\n{PROJECT_MIN}:{two}\n"));
}

/// A deleted file that is still open uses space, and its project is not given to others meanwhile.
#[test]
fn a_project_in_use_is_not_given() {
    let setup = Setup::new(PlayedQuotas::default());
    setup.calls.set_use(PROJECT_MIN, 0, 1);
    assert!(setup.count("one"));
    assert_eq!(setup.calls.project_of(setup.directory("one").as_fd()).expect("told"), PROJECT_MIN + 1);
}

#[test]
fn a_link_in_the_place_of_a_file_is_refused() {
    let setup = Setup::new(PlayedQuotas::default());
    fs::write(setup.etc("elsewhere"), "precious").expect("written");
    std::os::unix::fs::symlink(setup.etc("elsewhere"), setup.etc("projid")).expect("made");
    assert!(setup.quotas().count(&setup.directory("one"), &setup.path("one")).is_err());
    assert_eq!(setup.text("elsewhere"), "precious");
    fs::remove_file(setup.etc("projid")).expect("removed");
    fs::create_dir(setup.etc("projid")).expect("made");
    assert!(setup.quotas().count(&setup.directory("one"), &setup.path("one")).is_err());
}

#[test]
fn a_change_waits_for_others_and_not_for_ever() {
    let setup = Setup::new(PlayedQuotas::default());
    let other = locked(&setup.etc("projects")).expect("free");
    let error = setup.quotas().count(&setup.directory("one"), &setup.path("one")).expect_err("locked");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    drop(other);
    assert!(setup.count("one"));
}

/// A file system that counts projects, behind a loop device, gone when dropped.
struct Counting {
    folder: tempfile::TempDir,
}

impl Counting {
    /// `None` where the kernel has none of this kind.
    fn mount(kind: &str, options: &[&str]) -> Option<Self> {
        let disk = Self { folder: tempfile::tempdir().expect("a folder") };
        let image = disk.folder.path().join("image");
        fs::File::create(&image).expect("made").set_len(512 << 20).expect("made");
        fs::create_dir(disk.root()).expect("made");
        let ran = |command: &mut std::process::Command| command.output().is_ok_and(|output| output.status.success());
        let made = ran(std::process::Command::new(format!("mkfs.{kind}")).args(options).arg("-q").arg(&image));
        let mount = ["-t", kind, "-o", "loop,prjquota"];
        (made && ran(std::process::Command::new("mount").args(mount).arg(&image).arg(disk.root()))).then_some(disk)
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.root(), nix::mount::MntFlags::MNT_DETACH);
    }
}

/// Waits a little; says that nothing has come of it yet.
fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(50));
    false
}

/// EVI-26: the kernel's own calls, on each kind of file system that has project quotas.
#[test]
fn live_evi_26_file_systems_count_what_is_written() {
    let disks = [("ext4", &["-O", "quota,project", "-E", "quotatype=prjquota"][..]), ("xfs", &[])];
    let disks: Vec<_> = disks.iter().filter_map(|(kind, options)| Counting::mount(kind, options)).collect();
    if disks.is_empty() {
        return crate::testing::skips::needs("a kernel with project quotas (ext4 or XFS)");
    }
    for disk in &disks {
        let (etc, pods) = (disk.folder.path().join("etc"), disk.root().join("pods"));
        fs::create_dir(&etc).expect("made");
        fs::create_dir_all(pods.join("one")).expect("made");
        fs::create_dir(pods.join("two")).expect("made");
        let quotas = ProjectQuotas::new(Arc::new(KernelQuotas), &etc, &disk.root());
        for name in ["one", "two"] {
            let directory = Directory::open(&pods.join(name)).expect("there");
            assert!(quotas.count(&directory, &pods.join(name)).expect("counted"), "{name}");
        }
        let usage = |name: &str| {
            let counted = quotas.counted().expect("read");
            let directory = Directory::open(&pods.join(name)).expect("there");
            // Space counts once its place on the disk is chosen.
            rustix::fs::syncfs(&directory).expect("written");
            quotas.usage(&directory, &pods.join(name), &counted).expect("told").expect("counted")
        };
        let before = usage("one");
        assert_eq!(before.inodes, 1, "the directory itself");
        fs::create_dir(pods.join("one/below")).expect("made");
        fs::write(pods.join("one/below/file"), vec![1; 1 << 20]).expect("written");
        let after = usage("one");
        assert_eq!(after.inodes, 3);
        assert!(after.bytes >= before.bytes + (1 << 20), "{before:?} {after:?}");
        assert_eq!(usage("two").inodes, 1);
        fs::remove_file(pods.join("one/below/file")).expect("removed");
        // XFS frees deleted files a little later.
        let is_freed = || usage("one").inodes == 2;
        assert!((0..200).any(|_| is_freed() || pause()), "{:?}", usage("one"));
        quotas.forget(&pods.join("one")).expect("forgotten");
        assert_eq!(quotas.counted().expect("read").len(), 1);
    }
}

/// A file system without them says so, and so does a kernel without the call.
#[test]
fn live_a_file_system_without_quotas_counts_nothing() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    fs::create_dir_all(folder.path().join("pods/one")).expect("made");
    let quotas = ProjectQuotas::new(Arc::new(KernelQuotas), folder.path(), folder.path());
    let path = folder.path().join("pods/one");
    assert!(!quotas.count(&Directory::open(&path).expect("there"), &path).expect("told"));
    assert_eq!(quotas.counted().expect("none"), Counted::new());
}
