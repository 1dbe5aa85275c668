//! Volumes on real file systems, with real mounts.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use super::*;
use crate::logic::model::time::Moment;
use crate::logic::volumes::content::payload::Payload;
use crate::logic::volumes::order::{LocalOrder, Medium, Ownership, plugin};
use crate::platform::files::project_quotas::testing::PlayedQuotas;
use crate::platform::volumes::testing::{Root, may_mount, uid};

/// Runs a call to its end on a runtime of one thread, where the adapter works in place.
fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(work)
}

fn empty(medium: Medium) -> SetUp {
    SetUp::EmptyDir { medium, ownership: Ownership::default(), counted: false }
}

fn files(medium: Medium, entries: &[(&str, &str)]) -> SetUp {
    let mut payload = Payload::default();
    for (path, content) in entries {
        payload.insert(path, content.as_bytes(), 0o644, None);
    }
    let ownership = Ownership { fs_group: Some(99), read_only: true, ..Ownership::default() };
    SetUp::Files(FilesOrder { medium, payload, mount_points: vec!["nested".into()], ownership, now: Moment(1) })
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").mode() & 0o7777
}

const SMALL: Medium = Medium::Memory { size_max: Some(1 << 20) };

/// VOL-14, VOL-18.
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

/// EVI-26: a counted directory has a project until it goes, and nobody is kept from starting where there is none.
#[test]
fn evi_26_an_empty_directory_is_counted_where_it_may_be() {
    for (counted, is_off, expected) in [(true, false, 1), (false, false, 0), (true, true, 0)] {
        let root = Root::new();
        let calls = Arc::new(PlayedQuotas::off(is_off));
        let quotas = ProjectQuotas::new(calls, root.folder.path(), root.folder.path());
        let host = root.host().with_quotas(Some(quotas.clone()));
        let place = root.place(plugin::EMPTY_DIR, "cache");
        let order = || SetUp::EmptyDir { medium: Medium::Disk, ownership: Ownership::default(), counted };
        for _ in 0..2 {
            wait(host.set_up(&uid(), Some(&place), order())).expect("made");
            assert_eq!(quotas.counted().expect("read").len(), expected, "{counted} {is_off}");
        }
        wait(host.tear_down(&place)).expect("removed");
        assert_eq!(quotas.counted().expect("read").len(), 0);
    }
    let root = Root::new();
    let refusing = Arc::new(PlayedQuotas::refusing());
    let host = root.host().with_quotas(Some(ProjectQuotas::new(refusing, root.folder.path(), root.folder.path())));
    let order = SetUp::EmptyDir { medium: Medium::Disk, ownership: Ownership::default(), counted: true };
    wait(host.set_up(&uid(), Some(&root.place(plugin::EMPTY_DIR, "cache")), order)).expect("made all the same");
}

/// SEC-07, VOL-29: what is made in it is the group's, too, wherever the directory lies.
#[test]
fn sec_07_an_empty_directory_belongs_to_the_pods_group() {
    if !may_mount() {
        return;
    }
    let root = Root::new();
    // Memory keeps the mode that the kernel gives to the root of a file system of its kind.
    for (name, medium, expected) in [("disk", Medium::Disk, 0o2777), ("fast", SMALL, 0o3777)] {
        let (host, place) = (root.host(), root.place(plugin::EMPTY_DIR, name));
        let ownership = Ownership { fs_group: Some(4711), ..Ownership::default() };
        wait(host.set_up(&uid(), Some(&place), SetUp::EmptyDir { medium, ownership, counted: false })).expect("made");
        let path = PathBuf::from(host.path_of(&place));
        let group = |path: &Path| fs::metadata(path).expect("there").gid();
        assert_eq!((group(&path), mode(&path)), (4711, expected), "{name}");
        fs::write(path.join("file"), "").expect("written");
        assert_eq!(group(&path.join("file")), 4711, "{name}");
        wait(host.tear_down(&place)).expect("gone");
    }
}

/// SEC-07, VOL-29: the files of a ConfigMap lie on the disk, and are looked at with each sync of the pod.
#[test]
fn sec_07_files_that_stay_as_they_are_leave_the_volume_to_the_pods_group() {
    if !may_mount() {
        return;
    }
    let root = Root::new();
    let (host, place) = (root.host(), root.place(plugin::CONFIG_MAP, "scripts"));
    for _ in 0..2 {
        wait(host.set_up(&uid(), Some(&place), files(Medium::Disk, &[("a", "1")]))).expect("written");
        assert_eq!(mode(&PathBuf::from(host.path_of(&place))), 0o2777);
    }
    wait(host.tear_down(&place)).expect("gone");
}

/// VOL-19.
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
    assert_eq!(root.mounts(), std::slice::from_ref(&path));
    let too_much = vec![0; 2 << 20];
    let error = fs::write(path.join("big"), too_much).expect_err("larger than the volume");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    wait(host.tear_down(&place)).expect("unmounted");
    assert!(root.mounts().is_empty() && !path.exists());
}

/// The line of the mount table about a point.
fn table_line(point: &Path) -> String {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("told");
    let point = format!(" {} ", point.display());
    table.lines().find(|line| line.contains(&point)).unwrap_or_default().to_owned()
}

/// SEC-06, VOL-19: a Secret must not be written to a swap device, where the kernel (6.4 and later) can promise that.
#[test]
fn sec_06_memory_is_never_swapped_where_the_kernel_can_promise_that() {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("told");
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let is_new = (numbers.next(), numbers.next()) >= (Some(6), Some(4));
    if !may_mount() {
        return;
    }
    if !is_new {
        return crate::testing::skips::needs("Linux 6.4");
    }
    let root = Root::new();
    let (host, place) = (root.host(), root.place(plugin::SECRET, "s"));
    wait(host.set_up(&uid(), Some(&place), files(SMALL, &[("a", "1")]))).expect("mounted");
    let line = table_line(&PathBuf::from(host.path_of(&place)));
    assert!(line.contains("size=1024k") && line.contains("noswap"), "{line}");
    wait(host.tear_down(&place)).expect("unmounted");
}

/// VOL-20: each size that this machine has. One of them is the kernel's default, which a mount has that names none.
#[test]
fn huge_pages_are_mounted_by_their_size() {
    if !may_mount() {
        return;
    }
    let folders = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let names = folders.map(|folder| folder.file_name().into_string().expect("plain"));
    let size = |name: String| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok();
    let sizes: Vec<u64> = names.filter_map(size).collect();
    if sizes.len() < 2 {
        crate::testing::skips::needs("huge pages of two sizes");
    }
    for kibibytes in sizes {
        let root = Root::new();
        let (host, place) = (root.host(), root.place(plugin::EMPTY_DIR, "huge"));
        let order = empty(Medium::HugePages { page_size: kibibytes << 10 });
        wait(host.set_up(&uid(), Some(&place), order)).expect("mounted");
        let line = table_line(&PathBuf::from(host.path_of(&place)));
        let told = if kibibytes < 1024 { format!("{kibibytes}K") } else { format!("{}M", kibibytes >> 10) };
        assert!(line.contains(" hugetlbfs ") && line.contains(&format!("pagesize={told}")), "{told}: {line}");
        wait(host.tear_down(&place)).expect("unmounted");
        assert!(root.mounts().is_empty());
    }
}

/// VOL-14, VOL-24.
#[test]
fn files_are_written_over_memory_and_updated_in_place() {
    if !may_mount() {
        return;
    }
    let root = Root::new();
    let (host, place) = (root.host(), root.place(plugin::SECRET, "token"));
    wait(host.set_up(&uid(), Some(&place), files(SMALL, &[("a", "1"), ("b", "2")]))).expect("written");
    let path = PathBuf::from(host.path_of(&place));
    assert_eq!(root.mounts(), std::slice::from_ref(&path));
    assert!(!root.pod().join("plugins/kubernetes.io~empty-dir").exists(), "no marker is needed");
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
        let order = SetUp::Local(LocalOrder {
            source: source.clone(),
            fs_type: "ext4".into(),
            read_only,
            options: vec![],
            ownership,
            exclusive: false,
        });
        for _ in 0..2 {
            wait(host.set_up(&uid(), Some(&place), order.clone())).expect("mounted");
        }
        let path = PathBuf::from(host.path_of(&place));
        assert_eq!(root.mounts(), std::slice::from_ref(&path));
        assert_eq!(fs::read_to_string(path.join("data")).expect("read"), "precious");
        assert_eq!(fs::write(path.join("more"), "").is_err(), read_only);
        wait(host.tear_down(&place)).expect("unmounted");
        assert!(!path.exists());
    }
    assert_eq!(fs::read_to_string(disk.path().join("data")).expect("kept"), "precious");
    assert_eq!(fs::metadata(disk.path().join("data")).expect("there").gid(), 77);
}

/// VOL-15, PAIN-15: upstream issue 60987: a removal that went through a mount destroyed what users had there.
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
    let (none, flags) = (None::<&str>, nix::mount::MsFlags::MS_BIND);
    nix::mount::mount(Some(disk.path()), &inside, none, flags, none).expect("mounted");
    let error = wait(host.tear_down(&place)).expect_err("a mount is inside").to_string();
    assert!(error.contains(&inside.display().to_string()), "{error}");
    wait(host.release(&uid())).expect_err("a volume is still there");
    assert_eq!(fs::read_to_string(disk.path().join("data")).expect("kept"), "precious");
}

/// VOL-15.
#[test]
fn data_of_kinds_that_are_not_ours_is_never_deleted() {
    let root = Root::new();
    let place = root.place(plugin::CSI, "pv-9");
    let path = root.pod().join("volumes/kubernetes.io~csi/pv-9");
    fs::create_dir_all(&path).expect("made");
    fs::write(path.join("vol_data.json"), "{}").expect("written");
    let host = root.host();
    assert_eq!(wait(host.volumes_of(&uid())).expect("listed"), std::slice::from_ref(&place));
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

/// SEC-05.
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

/// Names of pods, volumes and containers become parts of paths: none may lead anywhere else, whatever is asked for.
#[test]
fn names_that_lead_elsewhere_make_nothing() {
    let root = Root::new();
    let (host, before) = (root.host(), listing(root.folder.path()));
    let long = "x".repeat(256);
    for name in ["", ".", "..", "../../etc", "a/b", "/etc", "nul\0", &long] {
        for (uid, plugin_name, volume) in
            [(name, plugin::EMPTY_DIR, "v"), ("u", name, "v"), ("u", plugin::LOCAL, name), ("u", plugin::NFS, name)]
        {
            for is_device in [false, true] {
                let uid = PodUid::from(uid);
                let place =
                    VolumePlace { uid: uid.clone(), plugin: plugin_name.into(), name: volume.into(), is_device };
                let nfs = SetUp::Nfs { source: "s:/".into(), options: vec![] };
                for order in [empty(Medium::Disk), files(Medium::Disk, &[("a", "b")]), nfs] {
                    wait(host.set_up(&uid, Some(&place), order)).expect_err(name);
                }
                wait(host.tear_down(&place)).expect_err(name);
            }
        }
        for (volume, container) in [(name, "c"), ("v", name)] {
            let order = SubPathOrder {
                uid: uid(),
                volume: volume.into(),
                mount: "data".into(),
                volume_path: root.folder.path().display().to_string(),
                container: container.into(),
                index: 0,
                sub_path: "pods".into(),
            };
            wait(host.prepare_sub_path(order)).expect_err(name);
        }
    }
    let _ = fs::remove_dir_all(root.pod()); // Folders of the pod itself may have been made on the way.
    assert_eq!(listing(root.folder.path()), before);
}

fn listing(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).expect("listed").flatten() {
        found.push(entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(listing(&entry.path()));
        }
    }
    found.sort();
    found
}

/// As many keys as fit into an object of the API: written, changed in one step, and taken down.
#[test]
fn thousands_of_files_are_written_and_changed_at_once() {
    let root = Root::new();
    let (host, place) = (root.host(), root.place(plugin::CONFIG_MAP, "big"));
    let path = PathBuf::from(host.path_of(&place));
    for text in ["a", "b"] {
        let content = text.repeat(200);
        let names: Vec<String> = (0..5000).map(|number| format!("key-{number:04}")).collect();
        let entries: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), content.as_str())).collect();
        wait(host.set_up(&uid(), Some(&place), files(Medium::Disk, &entries))).expect("written");
        for name in [&names[0], &names[4999]] {
            assert_eq!(fs::read_to_string(path.join(name)).expect("there"), content);
        }
    }
    wait(host.tear_down(&place)).expect("gone");
    assert!(!path.exists());
}

/// CRI-13: what a container may have put in the place of a file of variables.
#[test]
fn a_file_of_a_volume_is_read_and_nothing_else() {
    let root = Root::new();
    let (host, place) = (root.host(), root.place(plugin::EMPTY_DIR, "shared"));
    wait(host.set_up(&uid(), Some(&place), empty(Medium::Disk))).expect("made");
    let volume = host.path_of(&place);
    let path = PathBuf::from(&volume);
    fs::create_dir(path.join("dir")).expect("made");
    fs::write(path.join("dir/env"), "A='1'\n").expect("written");
    symlink("/etc/passwd", path.join("link")).expect("linked");
    symlink("dir", path.join("way")).expect("linked");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    )
    .expect("made");
    let read = |file: &str, bytes_max: usize| wait(host.read_file(&volume, file, bytes_max));
    assert_eq!(read("dir/env", 6), Ok(Some(b"A='1'\n".to_vec())));
    assert_eq!(read("./dir//env", 6), Ok(Some(b"A='1'\n".to_vec())));
    assert_eq!(read("dir/none", 6), Ok(None));
    for (file, bytes_max) in
        [("dir/env", 5), ("link", 1 << 20), ("way/env", 6), ("pipe", 6), ("dir", 6), ("../x", 6), ("", 6)]
    {
        assert!(read(file, bytes_max).is_err(), "{file}");
    }
}
