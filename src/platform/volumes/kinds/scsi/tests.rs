//! Disks of storage networks on a machine that the tests make: `/sys` and `/dev` are folders, `iscsiadm` is a script that
//! keeps its calls and makes sessions there, and disks are files behind loop devices.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::Duration;

use nix::mount::{MntFlags, umount2};
use serde_json::{Value, json};

use super::*;
use crate::logic::model::ids::PodUid;
use crate::logic::volumes::order::Ownership;
use crate::logic::volumes::scsi::fc::FcDisk;
use crate::logic::volumes::scsi::iscsi::IscsiDisk;
use crate::logic::volumes::scsi::orders::DiskOrder;
use crate::logic::volumes::scsi::{ChapTexts, iscsiadm};
use crate::platform::host::played_program::write_program;
use crate::platform::volumes::programs::machine::Machine;
use crate::platform::volumes::tear_down;
use crate::platform::volumes::testing::{Disk as LoopDisk, Root, may_mount};

const IQN: &str = "iqn.2003-01.io.k8s:e2e.volume-1";

/// A machine in a folder, and the root directory on it.
struct World {
    root: Root,
    folder: tempfile::TempDir,
    locks: Locks,
}

impl World {
    /// `disk` is the kernel's name of the disk that a login brings.
    fn new(disk: &str) -> Self {
        let world = Self { root: Root::new(), folder: tempfile::tempdir().expect("a folder"), locks: Locks::default() };
        for folder in ["sys/class/iscsi_host", "sys/class/scsi_host/host3", "dev/disk/by-path", "dev/disk/by-id", "bin"]
        {
            fs::create_dir_all(world.path(folder)).expect("made");
        }
        fs::create_dir_all(world.path(&format!("sys/block/{disk}/device"))).expect("made");
        world.write("sys/class/scsi_host/host3/scan", "");
        world.write(&format!("sys/block/{disk}/device/delete"), "");
        world.program("iscsiadm", &world.script(disk));
        for name in ["multipath", "blockdev"] {
            world.program(name, &format!("echo {name} \"$*\" >> {}", world.path("calls").display()));
        }
        world
    }

    /// Logs in to any portal by making a session with the disk, and out by removing it.
    fn script(&self, disk: &str) -> String {
        let (calls, session) = (self.path("calls"), self.path("sys/class/iscsi_host/host3/device/session1"));
        let (link, calls, session) = (self.path("dev/disk/by-path"), calls.display(), session.display().to_string());
        format!(
            r#"echo iscsiadm "$*" >> {calls}
case "$*" in
*"-o show") printf 'iface.iscsi_ifacename = default\niface.transport_name = tcp\niface.hwaddress = <empty>\n' ;;
*--login)
  at={session}/connection1:0/iscsi_connection/connection1:0
  mkdir -p $at {session}/iscsi_session/session1 {session}/target3:0:0/3:0:0:1/block/{disk}
  echo {IQN} > {session}/iscsi_session/session1/targetname
  for name in address persistent_address; do echo 10.0.0.1 > $at/$name; done
  for name in port persistent_port; do echo 3260 > $at/$name; done
  ln -sfn /dev/{disk} {}/ip-10.0.0.1:3260-iscsi-{IQN}-lun-1 ;;
*--logout*) rm -rf {session} ;;
esac
"#,
            link.display()
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    fn program(&self, name: &str, lines: &str) {
        write_program(&self.path("bin").join(name), &format!("#!/bin/sh\n{lines}\n"));
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn machine(&self) -> Machine {
        let (sys, dev, programs) = (self.path("sys"), self.path("dev"), Some(self.path("bin")));
        Machine { sys, dev, programs, waits: [Duration::ZERO; 2] }
    }

    /// As an agent has it that began just now.
    fn layout(&self) -> Layout {
        Layout::on(self.root.folder.path(), self.machine())
    }

    fn have(&self, place: &VolumePlace, order: &DiskOrder) -> Result<Option<String>, VolumeError> {
        let (layout, locks) = (self.layout(), &self.locks);
        let undo = || drop(tear_down::volume(&layout, locks, place));
        set_up(&layout, locks, place, order, of_group(), &Progress::default(), undo)
    }

    /// A child that another test's thread begins holds what is open on the mount, for a moment: tried again, as by the agent.
    fn gone(&self, place: &VolumePlace) {
        let mut ended = Ok(());
        for _ in 0..50 {
            ended = tear_down::volume(&self.layout(), &self.locks, place);
            if !matches!(&ended, Err(error) if error.to_string().contains("busy")) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        ended.expect("taken down");
    }

    /// The folder of all disks of a kind, as long as there is one.
    fn disks(&self, kind: &str) -> Vec<String> {
        let found = self.layout().find_shared(&["kubernetes.io", kind]).expect("looked");
        found
            .map(|folder| folder.names().expect("read"))
            .unwrap_or_default()
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    }

    fn calls(&self, of: &str) -> usize {
        self.read("calls").lines().filter(|call| call.contains(of)).count()
    }
}

fn place(uid: &str, plugin: &str, is_device: bool) -> VolumePlace {
    VolumePlace { uid: PodUid::from(uid), plugin: plugin.into(), name: "pv-1".into(), is_device }
}

fn iscsi_of(source: Value) -> Disk {
    let mut fields = json!({ "targetPortal": "10.0.0.1", "iqn": IQN, "lun": 1 });
    fields.as_object_mut().expect("an object").extend(source.as_object().cloned().expect("an object"));
    let source = serde_json::from_value(fields).expect("a source");
    Disk::Iscsi(IscsiDisk::of_pod(&source, "pv-1")).checked().expect("good texts")
}

fn of_group() -> Ownership {
    Ownership { fs_group: Some(1001), ..Ownership::default() }
}

fn order(disk: Disk) -> DiskOrder {
    DiskOrder {
        disk,
        fs_type: "ext4".into(),
        read_only: false,
        options: vec![],
        exclusive: false,
        label: None,
        secret: None,
        chap: ChapTexts::default(),
    }
}

fn run(attaching: &iscsi::Attaching<'_>, world: &World) -> Result<PathBuf, String> {
    attaching.run(&world.locks).map_err(|error| error.to_string())
}

fn find(machine: &Machine, disk: &FcDisk) -> Result<PathBuf, String> {
    fc::find(machine, disk).map_err(|error| error.to_string())
}

/// A disk of the machine that runs the tests, by the kernel's name.
fn loop_disk(folder: &Path) -> Option<(LoopDisk, String)> {
    let disk = LoopDisk::new(folder)?;
    let name = disk.device.trim_start_matches("/dev/").to_owned();
    Some((disk, name))
}

/// VOL-39.
#[test]
fn a_disk_is_attached_formatted_and_mounted_once_and_goes_with_its_last_pod() {
    let files = tempfile::tempdir().expect("a folder");
    let Some((_disk, name)) = may_mount().then(|| loop_disk(files.path())).flatten() else { return };
    let world = World::new(&name);
    let (first, second) = (place("uid-1", plugin::ISCSI, false), place("uid-2", plugin::ISCSI, false));
    let wanted = order(iscsi_of(json!({})));
    assert_eq!(world.have(&first, &wanted), Ok(None));
    let path = world.layout().path(&first);
    fs::write(path.join("data"), "kept").expect("written");
    assert_eq!(fs::metadata(&path).expect("there").gid(), 1001, "the pod's group");
    assert_eq!(world.read("sys/class/scsi_host/host3/scan"), "0 0 1", "one unit alone is looked for");
    let of_node =
        world.layout().shared_path(&["kubernetes.io", "iscsi", "iface-default", &format!("10.0.0.1:3260-{IQN}-lun-1")]);
    assert!(world.root.mounts().contains(&of_node), "{:?}", world.root.mounts());
    assert_eq!(world.have(&second, &wanted), Ok(None));
    assert_eq!(fs::read_to_string(world.layout().path(&second).join("data")).expect("read"), "kept");
    assert_eq!((world.calls("--login"), world.root.mounts().len()), (1, 3));
    let names: Vec<String> = attached(&world.layout()).expect("read").into_iter().collect();
    assert_eq!(names, [format!("kubernetes.io/iscsi/10.0.0.1:{IQN}:1")], "as the volume names its portal");
    world.gone(&first);
    assert_eq!((world.calls("--logout"), world.root.mounts().len()), (0, 2), "the other pod keeps it");
    world.gone(&second);
    assert_eq!(world.root.mounts(), Vec::<PathBuf>::new());
    assert_eq!(world.read(&format!("sys/block/{name}/device/delete")), "1");
    assert_eq!((world.calls("--logout"), world.calls("-o delete")), (1, 1));
    assert_eq!(world.disks("iscsi"), Vec::<String>::new());
    assert_eq!(attached(&world.layout()).expect("read"), BTreeSet::new());
    world.gone(&second);
}

/// VOL-39: whatever an agent had done when it ended, the disk tells the next one what to undo.
#[test]
fn an_agent_that_ended_on_the_way_leaves_what_the_next_one_takes_down() {
    let files = tempfile::tempdir().expect("a folder");
    let Some((_disk, name)) = may_mount().then(|| loop_disk(files.path())).flatten() else { return };
    let world = World::new(&name);
    let first = place("uid-1", plugin::ISCSI, false);
    // It ends after the login, for such a file system cannot be made.
    let wanted = DiskOrder { fs_type: "nosuchfs".into(), ..order(iscsi_of(json!({}))) };
    let layout = world.layout();
    let cut_off = set_up(&layout, &world.locks, &first, &wanted, of_group(), &Progress::default(), || {});
    assert!(matches!(cut_off, Err(VolumeError::Device(_))), "{cut_off:?}");
    assert_eq!(tear_down::volumes_of(&layout, &first.uid).expect("listed"), std::slice::from_ref(&first));
    let record = wanted.disk.folders(false).iter().fold(layout.shared_path(&[]), |path, name| path.join(name));
    let record: Value = serde_json::from_slice(&fs::read(record.join("iscsi.json")).expect("there")).expect("JSON");
    assert_eq!((record["Iqn"].as_str(), record["Lun"].as_str()), (Some(IQN), Some("1")), "as upstream reads it");
    world.gone(&first);
    assert_eq!((world.calls("--logout"), world.disks("iscsi")), (1, vec![]));
    // The same at once, when nobody ended.
    assert!(matches!(world.have(&first, &wanted), Err(VolumeError::Device(_))));
    assert_eq!((world.calls("--logout"), world.disks("iscsi")), (2, vec![]));
    assert_eq!(tear_down::volumes_of(&layout, &first.uid).expect("listed"), []);
}

/// VOL-39: another agent left no notes; its mounts tell.
#[test]
fn a_disk_that_another_agent_mounted_is_detached_as_well() {
    let files = tempfile::tempdir().expect("a folder");
    let Some((_disk, name)) = may_mount().then(|| loop_disk(files.path())).flatten() else { return };
    let world = World::new(&name);
    let (first, second) = (place("uid-1", plugin::ISCSI, false), place("uid-2", plugin::ISCSI, false));
    let wanted = order(iscsi_of(json!({})));
    for place in [&first, &second] {
        assert_eq!(world.have(place, &wanted), Ok(None));
        fs::remove_dir_all(world.root.folder.path().join("pods").join(place.uid.as_str()).join("plugins"))
            .expect("gone");
    }
    let names: Vec<String> = attached(&world.layout()).expect("read").into_iter().collect();
    assert_eq!(names, [format!("kubernetes.io/iscsi/10.0.0.1:3260:{IQN}:1")], "as upstream takes it from the path");
    world.gone(&first);
    assert_eq!(world.calls("--logout"), 0, "the other pod keeps it");
    assert_eq!(world.have(&second, &wanted), Ok(None), "adopted");
    world.gone(&second);
    assert_eq!((world.calls("--logout"), world.root.mounts().len()), (1, 0));
}

/// VOL-39.
#[test]
fn a_disk_is_mapped_as_a_device_and_given_to_one_pod_where_it_is_for_one() {
    let files = tempfile::tempdir().expect("a folder");
    let Some((disk, name)) = may_mount().then(|| loop_disk(files.path())).flatten() else { return };
    let world = World::new(&name);
    let (first, second) = (place("uid-1", plugin::ISCSI, true), place("uid-2", plugin::ISCSI, true));
    let wanted = DiskOrder { exclusive: true, ..order(iscsi_of(json!({}))) };
    assert_eq!(world.have(&first, &wanted), Ok(None));
    assert_eq!(fs::read_link(world.layout().path(&first)).expect("a link"), Path::new(&disk.device));
    let of_node = map_path(&world.layout(), &first).expect("noted");
    assert!(of_node.ends_with(format!("volumeDevices/iface-default/10.0.0.1:3260-{IQN}-lun-1")), "{of_node:?}");
    assert!(of_node.join("uid-1").exists() && of_node.join("iscsi.json").exists());
    assert_eq!(world.have(&second, &wanted), Err(VolumeError::InUse));
    assert_eq!(world.have(&first, &wanted), Ok(None), "its own pod may ask again");
    assert_eq!(world.calls("--login"), 1);
    world.gone(&first);
    assert_eq!((world.calls("--logout"), world.root.mounts().len()), (1, 0));
    assert!(!of_node.exists() && tear_down::volumes_of(&world.layout(), &first.uid).expect("listed").is_empty());
    // Of a pod whose agent left no note, the mount tells the disk.
    assert_eq!(world.have(&second, &wanted), Ok(None));
    fs::remove_dir_all(world.root.folder.path().join("pods/uid-2/plugins")).expect("gone");
    world.gone(&second);
    assert_eq!((world.calls("--logout"), world.root.mounts().len()), (2, 0));
}

/// VOL-39: a device that somebody else has mounted is left to them.
#[test]
fn a_mapped_disk_that_is_mounted_elsewhere_stays_attached() {
    let files = tempfile::tempdir().expect("a folder");
    let Some((disk, name)) = may_mount().then(|| loop_disk(files.path())).flatten() else { return };
    let world = World::new(&name);
    let pod = place("uid-1", plugin::ISCSI, true);
    assert_eq!(world.have(&pod, &order(iscsi_of(json!({})))), Ok(None));
    let formatted = Formatted { device: &disk.device, fs_type: "ext4", read_only: false, options: &[] };
    let point = files.path().join("elsewhere");
    fs::create_dir(&point).expect("made");
    formatted.mount(&point).unwrap_or_else(|error| panic!("not mounted: {}", error.why));
    world.gone(&pod);
    let deleted = world.read(&format!("sys/block/{name}/device/delete"));
    umount2(&point, MntFlags::MNT_DETACH).expect("unmounted");
    assert_eq!((deleted.as_str(), world.calls("--logout")), ("", 0));
}

/// VOL-39: a session that another disk needs stays.
#[test]
fn a_target_is_left_when_its_last_disk_goes() {
    let world = World::new("sdz");
    let (disk, own) = (IscsiDisk { iqn: IQN.into(), ..folder_disk() }, vec!["kubernetes.io".to_owned()]);
    let other = format!("10.0.0.1:3260-{IQN}-lun-2");
    world.layout().make_shared(&["kubernetes.io", "iscsi", "iface-other", &other]).expect("made");
    iscsi::detach(&world.layout(), &world.locks, &disk, &own).expect("detached");
    assert_eq!(world.calls("--logout"), 0);
    fs::remove_dir(world.layout().shared_path(&["kubernetes.io", "iscsi", "iface-other", &other])).expect("gone");
    iscsi::detach(&world.layout(), &world.locks, &disk, &own).expect("detached");
    assert_eq!(world.calls("--logout"), 1);
    // A target without a session holds nobody up, and one with a session does.
    world.program("iscsiadm", "exit 8");
    iscsi::detach(&world.layout(), &world.locks, &disk, &own).expect("passed over");
    let session = "sys/class/iscsi_host/host3/device/session1";
    fs::create_dir_all(world.path(&format!("{session}/iscsi_session/session1"))).expect("made");
    world.write(&format!("{session}/iscsi_session/session1/targetname"), &format!("{IQN}\n"));
    let error = iscsi::detach(&world.layout(), &world.locks, &disk, &own).expect_err("logged in").to_string();
    assert!(error.starts_with("iscsiadm -m node ") && error.ends_with("(exit status 8)"), "{error}");
}

fn folder_disk() -> IscsiDisk {
    let portals = vec!["10.0.0.1:3260".to_owned()];
    IscsiDisk {
        portals,
        lun: "1".into(),
        iface: "default".into(),
        init_iface: "default".into(),
        ..IscsiDisk::default()
    }
}

/// VOL-39: what a failed login says has no secret in it.
#[test]
fn a_login_that_fails_says_why_without_its_secrets() {
    let world = World::new("sdz");
    let source = json!({ "chapAuthSession": true, "initiatorName": "iqn.2026-01.example:pod" });
    let texts = [("node.session.auth.username", "alice"), ("node.session.auth.password", "hush")];
    let chap = ChapTexts(texts.map(|(key, text)| (key.to_owned(), text.to_owned())).into());
    let wanted = DiskOrder { chap, ..order(iscsi_of(source)) };
    assert!(!format!("{wanted:?}").contains("hush"), "{wanted:?}");
    let pod = place("uid-1", plugin::ISCSI, false);
    let show = "*\"-o show\") echo 'iface.transport_name = tcp' ;;";
    let calls = world.path("calls");
    for (fails, text) in [
        ("node.session.auth.password", "error: \"node.session.auth.password\"  (exit status 7)"),
        ("--login", "iscsi: failed to attach disk: Error: refused (exit status 7)"),
        ("--discover", "iscsi: failed to sendtargets to portal 10.0.0.1:3260 output: refused (exit status 7)"),
        ("iface.initiatorname", "iscsi: failed to update iface records: refused (exit status 7)"),
    ] {
        fs::remove_file(&calls).ok();
        let said = if fails.ends_with("password") { "\"$*\"" } else { "refused" };
        let lines = format!(
            "echo \"$*\" >> {}\ncase \"$*\" in\n{show}\n*{fails}*) echo {said}; exit 7 ;;\nesac",
            calls.display()
        );
        world.program("iscsiadm", &lines);
        let error = world.have(&pod, &wanted).expect_err("no login");
        assert!(matches!(&error, VolumeError::Attach(why) if why.ends_with(text)), "{error:?}");
        assert!(!format!("{error:?} {error}").contains("hush"), "{error}");
        let own = "10.0.0.1:3260:pv-1";
        assert!(world.calls(&format!("-m iface -I {own} -o delete")) >= 1, "its own interface goes");
        assert_eq!(tear_down::volumes_of(&world.layout(), &pod.uid).expect("listed"), [], "nothing stays");
        assert_eq!(world.disks("iscsi"), Vec::<String>::new());
    }
    world.program("iscsiadm", "echo no such interface; exit 21");
    let error = world.have(&pod, &wanted).expect_err("no interface");
    assert_eq!(error, VolumeError::Attach("exit status 21: no such interface".to_owned()));
}

/// VOL-39: the portals that answer are enough, and a device that joins several ways goes before each of them.
#[test]
fn several_portals_lead_to_one_device() {
    let world = World::new("null");
    let disk =
        IscsiDisk { portals: vec!["10.0.0.1:3260".into(), "10.0.0.2:3260".into()], iqn: IQN.into(), ..folder_disk() };
    let (chap, progress) = (ChapTexts::default(), Progress::default());
    let machine = world.machine();
    let attaching = iscsi::Attaching { machine: &machine, disk: &disk, chap: &chap, progress: &progress };
    let link = world.path(&format!("dev/disk/by-path/ip-10.0.0.1:3260-iscsi-{IQN}-lun-1"));
    assert_eq!(run(&attaching, &world), Ok(link), "the second portal never answers");
    assert_eq!(world.calls("-p 10.0.0.2:3260 -I default --discover"), 5, "it is tried in each round");
    assert_eq!(world.calls("-p 10.0.0.1:3260 -I default --discover"), 1);
    fs::create_dir_all(world.path("sys/block/dm-4/slaves/null")).expect("made");
    assert_eq!(run(&attaching, &world), Ok(world.path("dev/dm-4")));
    assert_eq!(machine.ways_of("dm-4").expect("read"), ["null"]);
}

/// VOL-39.
#[test]
fn a_card_that_speaks_iscsi_has_links_with_its_place_on_the_bus() {
    let world = World::new("null");
    let disk = IscsiDisk { iqn: IQN.into(), ..folder_disk() };
    let session = "sys/class/iscsi_host/host3/device/session1";
    let connection = format!("{session}/connection1:0/iscsi_connection/connection1:0");
    fs::create_dir_all(world.path(&connection)).expect("made");
    fs::create_dir_all(world.path(&format!("{session}/iscsi_session/session1"))).expect("made");
    world.write(&format!("{session}/iscsi_session/session1/targetname"), IQN);
    world.write(&format!("{connection}/persistent_address"), "fd00::1\n");
    world.write(&format!("{connection}/persistent_port"), "3260\n");
    world.program("iscsiadm", "echo 'iface.transport_name = bnx2i'");
    let disk = IscsiDisk { portals: vec!["[fd00::1]:3260".into()], ..disk };
    let (chap, progress, machine) = (ChapTexts::default(), Progress::default(), world.machine());
    let attaching = iscsi::Attaching { machine: &machine, disk: &disk, chap: &chap, progress: &progress };
    let late = run(&attaching, &world).expect_err("no device yet");
    assert!(
        late.contains("Timed out waiting for device at path ") && late.contains("/pci-*-ip-fd00::1:3260-"),
        "{late}"
    );
    let link = world.path(&format!("dev/disk/by-path/pci-0000:03:00.0-ip-fd00::1:3260-iscsi-{IQN}-lun-1"));
    symlink("/dev/null", &link).expect("linked");
    assert_eq!(run(&attaching, &world), Ok(link));
    world.program("iscsiadm", "echo nothing of the kind");
    assert_eq!(run(&attaching, &world), Err("could not parse iface file for default".to_owned()));
    assert_eq!(iscsiadm::transport("iface.transport_name = <empty>\n"), Some("tcp"));
}

/// VOL-39.
#[test]
fn a_disk_of_fibre_channel_is_found_by_its_links_and_forgotten_with_all_ways_to_it() {
    let world = World::new("null");
    let (disk, machine) = (FcDisk { wwns: vec!["500a0982991b8dc5".into()], lun: 2, wwids: vec![] }, world.machine());
    assert_eq!(find(&machine, &disk), Err("no fc disk found".to_owned()));
    assert_eq!(world.read("sys/class/scsi_host/host3/scan"), "- - -", "it was looked for");
    let link = world.path("dev/disk/by-path/pci-0000:41:00.0-fc-0x500a0982991b8dc5-lun-2");
    symlink("/dev/null", &link).expect("linked");
    assert_eq!(find(&machine, &disk), Ok(link));
    fs::create_dir_all(world.path("sys/block/dm-7/slaves/null")).expect("made");
    assert_eq!(find(&machine, &disk), Ok(world.path("dev/dm-7")));
    world.program("multipath", "echo in use; exit 1");
    let error = fc::detach(&machine, &disk).expect_err("in use").to_string();
    assert!(error.starts_with("failed to flush multipath device ") && error.ends_with("in use"), "{error}");
    world.program("multipath", "exit 0");
    fc::detach(&machine, &disk).expect("forgotten");
    assert_eq!(world.read("sys/block/null/device/delete"), "1");
    assert_eq!(world.calls("blockdev --flushbufs"), 1);
    fs::remove_dir_all(world.path("dev/disk")).expect("gone");
    fc::detach(&machine, &disk).expect("passed over");
}

/// VOL-39.
#[test]
fn a_disk_of_fibre_channel_is_mounted_and_goes_with_its_pod() {
    let files = tempfile::tempdir().expect("a folder");
    let Some((disk, name)) = may_mount().then(|| loop_disk(files.path())).flatten() else { return };
    let world = World::new(&name);
    symlink(&disk.device, world.path("dev/disk/by-id/scsi-3600_a")).expect("linked");
    let wwids = vec!["3600 a".to_owned()];
    let wanted = order(Disk::Fc(FcDisk { wwns: vec![], lun: 0, wwids }).checked().expect("good texts"));
    let pod = place("uid-1", plugin::FC, false);
    let read_only = DiskOrder { read_only: true, ..wanted.clone() };
    let error = world.have(&pod, &read_only).expect_err("nothing is on it").to_string();
    assert!(error.contains("cannot mount unformatted disk"), "{error}");
    assert_eq!(world.have(&pod, &wanted), Ok(None));
    assert_eq!(world.disks("fc"), ["3600_a"]);
    assert_eq!(attached(&world.layout()).expect("read").pop_first().as_deref(), Some("kubernetes.io/fc/[3600 a]"));
    world.gone(&pod);
    assert_eq!((world.root.mounts().len(), world.disks("fc").len()), (0, 0));
    assert_eq!(world.read(&format!("sys/block/{name}/device/delete")), "1");
}
