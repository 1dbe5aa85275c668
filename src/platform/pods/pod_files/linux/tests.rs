//! Pods' directories and logs, against real directories.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::*;
use crate::logic::model::ids::FullName;

struct Node {
    root: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        Self { root: tempfile::tempdir().expect("a directory") }
    }
    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }
    fn files(&self) -> LinuxPodFiles {
        LinuxPodFiles::new(self.root.path(), self.path("logs"), Some(self.path("links")))
            .with_node_hosts(self.path("hosts"))
    }
    fn write(&self, below: &str, content: &str) -> String {
        let path = self.path(below);
        fs::create_dir_all(path.parent().expect("has one")).expect("made");
        fs::write(&path, content).expect("written");
        path.to_str().expect("text").to_owned()
    }
}

fn place(uid: &str) -> PodPlace {
    PodPlace { uid: PodUid::from(uid), full_name: FullName::new("web", "shop") }
}

fn container_files(container: &str) -> ContainerFiles {
    ContainerFiles { container: container.to_owned(), restart_count: 0, termination_log: false, etc_hosts: None }
}

async fn write_etc_hosts(files: &LinuxPodFiles, pod: &PodPlace, content: &[u8]) -> Result<String, FileError> {
    let wanted = ContainerFiles { etc_hosts: Some(content.to_owned()), ..container_files("c") };
    files.make_container_files(pod, wanted).await.map(|made| made.etc_hosts.expect("wanted"))
}

async fn make_termination_log(
    files: &LinuxPodFiles,
    pod: &PodPlace,
    container: &str,
    restart_count: u32,
) -> Result<String, FileError> {
    let wanted = ContainerFiles { restart_count, termination_log: true, ..container_files(container) };
    files.make_container_files(pod, wanted).await?.termination_log.expect("wanted")
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("there").mode() & 0o7777
}

fn mkfifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0).expect("made");
}

#[tokio::test]
async fn a_pods_directories_have_their_modes_and_may_be_there_already() {
    let node = Node::new();
    for _ in 0..2 {
        node.files().make_pod_directories(&place("u1")).await.expect("made");
    }
    for below in ["pods", "pods/u1", "pods/u1/volumes", "pods/u1/plugins", "pods/u1/containers"] {
        assert_eq!(mode(&node.path(below)), 0o750, "{below}");
    }
    let logs = node.path("logs/shop_web_u1");
    assert_eq!(mode(&logs), 0o755);
    // CRI-O makes it, too, for itself alone, and may be the first.
    fs::set_permissions(&logs, fs::Permissions::from_mode(0o700)).expect("set");
    node.files().make_pod_directories(&place("u1")).await.expect("made");
    assert_eq!(mode(&logs), 0o755);
    assert_eq!(node.files().known_pods().await.expect("listed"), [PodUid::from("u1")]);
    let logs = node.files().known_log_directories().await.expect("listed");
    assert_eq!(logs, [("shop_web_u1".to_owned(), PodUid::from("u1"))]);
}

#[tokio::test]
async fn an_identity_that_is_no_segment_makes_nothing() {
    let node = Node::new();
    for uid in ["", ".", "..", "../x", "a/b", "a\0b", &"x".repeat(256)] {
        let files = node.files();
        files.make_pod_directories(&place(uid)).await.expect_err(uid);
        write_etc_hosts(&files, &place(uid), b"x").await.expect_err(uid);
        make_termination_log(&files, &place(uid), "c", 0).await.expect_err(uid);
        files.remove_pod(&PodUid::from(uid)).await.expect_err(uid);
        files.read_termination_log(&PodUid::from(uid), "/etc/passwd", 10).await.expect_err(uid);
    }
    for container in ["..", "a/b", ""] {
        make_termination_log(&node.files(), &place("u1"), container, 0).await.expect_err(container);
        node.files().make_container_files(&place("u1"), container_files(container)).await.expect_err(container);
    }
    assert!(!node.path("x").exists());
}

#[tokio::test]
async fn a_link_at_any_place_of_a_pods_directory_is_refused() {
    for link in ["pods/u1", "pods/u1/containers", "pods/u1/containers/c", "pods/u1/etc-hosts"] {
        let node = Node::new();
        let outside = node.write("outside/keep", "kept");
        let to = if link.ends_with("hosts") { PathBuf::from(&outside) } else { node.path("outside") };
        fs::create_dir_all(node.path(link).parent().expect("has one")).expect("made");
        symlink(to, node.path(link)).expect("linked");
        let files = node.files();
        if link.ends_with("hosts") || link == "pods/u1" {
            write_etc_hosts(&files, &place("u1"), b"hostile").await.expect_err(link);
        }
        if !link.ends_with("hosts") {
            make_termination_log(&files, &place("u1"), "c", 0).await.expect_err(link);
        }
        assert_eq!(fs::read_to_string(&outside).expect("read"), "kept", "{link}");
        assert_eq!(fs::read_dir(node.path("outside")).expect("listed").count(), 1, "{link}");
    }
}

/// SEC-10.
#[tokio::test]
async fn etc_hosts_is_rewritten_in_place() {
    let node = Node::new();
    let path = write_etc_hosts(&node.files(), &place("u1"), b"a longer text\n").await.expect("written");
    let inode = fs::metadata(&path).expect("there").ino();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
    assert_eq!(write_etc_hosts(&node.files(), &place("u1"), b"short\n").await.expect("written"), path);
    assert_eq!(fs::read_to_string(&path).expect("read"), "short\n");
    assert_eq!((fs::metadata(&path).expect("there").ino(), mode(Path::new(&path))), (inode, 0o644));
    assert_eq!(path, node.path("pods/u1/etc-hosts").to_str().expect("text"));
}

#[tokio::test]
async fn the_nodes_hosts_are_read_up_to_a_bound() {
    let node = Node::new();
    node.write("hosts", &"x".repeat(1024 * 1024 + 5));
    assert_eq!(node.files().node_hosts().await.expect("read").len(), 1024 * 1024);
}

/// CRI-06.
#[tokio::test]
async fn the_nodes_resolv_conf_is_read_whole_or_not_at_all() {
    let node = Node::new();
    let path = node.write("resolv.conf", "nameserver 1.1.1.1\n");
    assert_eq!(node.files().node_resolv_conf(&path).await.expect("read"), "nameserver 1.1.1.1\n");
    node.write("resolv.conf", &"#".repeat(1024 * 1024));
    assert_eq!(node.files().node_resolv_conf(&path).await.expect("read").len(), 1024 * 1024);
    node.write("resolv.conf", &"#".repeat(1024 * 1024 + 1));
    let told = |error: FileError| error.to_string();
    assert_eq!(
        node.files().node_resolv_conf(&path).await.map_err(told),
        Err(format!("open {path}: the read limit is reached"))
    );
    fs::remove_file(&path).expect("removed");
    let missing = node.files().node_resolv_conf(&path).await.map_err(told).expect_err("it is gone");
    assert_eq!(missing, format!("open {path}: No such file or directory (os error 2)"));
}

#[tokio::test]
async fn a_termination_log_is_new_empty_and_open_to_all() {
    let node = Node::new();
    let first = make_termination_log(&node.files(), &place("u1"), "c", 0).await.expect("made");
    fs::write(&first, "old").expect("written");
    let again = make_termination_log(&node.files(), &place("u1"), "c", 0).await.expect("made");
    let other = make_termination_log(&node.files(), &place("u1"), "c", 1).await.expect("made");
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert_eq!((fs::read_to_string(&again).expect("read").as_str(), mode(Path::new(&again))), ("", 0o666));
    let name = Path::new(&again).file_name().expect("has one").to_str().expect("text");
    assert!(name.len() == 8 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
}

#[tokio::test]
async fn the_end_of_a_termination_log_is_read() {
    let node = Node::new();
    let uid = PodUid::from("u1");
    let path = make_termination_log(&node.files(), &place("u1"), "c", 0).await.expect("made");
    fs::write(&path, "0123456789").expect("written");
    for (bytes_max, expected) in [(4, "6789"), (10, "0123456789"), (4096, "0123456789"), (0, "")] {
        assert_eq!(node.files().read_termination_log(&uid, &path, bytes_max).await.expect("read"), expected);
    }
}

/// SEC-11.
#[tokio::test]
async fn sec_11_a_termination_log_that_is_no_regular_file_of_the_pod_reads_as_empty() {
    let node = Node::new();
    let uid = PodUid::from("u1");
    node.files().make_pod_directories(&place("u1")).await.expect("made");
    let secret = node.write("secret", "secret");
    node.write("pods/u2/containers/c/other", "secret");
    let at = |below: &str| node.path(&format!("pods/u1/containers/{below}"));
    symlink(&secret, at("link")).expect("linked");
    symlink(node.path("pods/u2/containers"), at("linked-directory")).expect("linked");
    mkfifo(&at("fifo"));
    fs::create_dir(at("directory")).expect("made");
    let socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("bound");
    let below = ["link", "linked-directory/c/other", "fifo", "directory", "socket", "missing", "../../../secret"];
    let paths = below.map(|below| at(below).to_str().expect("text").to_owned());
    let elsewhere = [secret, node.path("pods/u2/containers/c/other").to_str().expect("text").to_owned()];
    for path in paths.iter().chain(&elsewhere) {
        assert_eq!(node.files().read_termination_log(&uid, path, 4096).await.expect("read"), "", "{path}");
    }
    drop(socket);
}

#[tokio::test]
async fn a_container_that_counts_from_nought_goes_on_after_its_highest_log() {
    let node = Node::new();
    let count_from = async |restart_count| {
        let wanted = ContainerFiles { restart_count, ..container_files("c") };
        node.files().make_container_files(&place("u1"), wanted).await.expect("made").restart_count
    };
    assert_eq!(count_from(0).await, 0);
    for name in ["1.log", "10.log.20260101-000000.gz", "2.log", "99.logs", "x.log", ".log", "99999999999.log"] {
        node.write(&format!("logs/shop_web_u1/c/{name}"), "");
    }
    fs::create_dir(node.path("logs/shop_web_u1/c/50.log")).expect("made");
    assert_eq!((count_from(0).await, count_from(3).await), (100, 3), "`99.logs` counts, as upstream");
    assert_eq!(mode(&node.path("logs/shop_web_u1/c")), 0o755);
}

#[tokio::test]
async fn a_log_is_read_only_below_the_pod_logs_directory() {
    let node = Node::new();
    let log = node.write("logs/shop_web_u1/c/0.log", "2026-01-02T03:04:05Z stdout F hello\n");
    let secret = node.write("secret", "2026-01-02T03:04:05Z stdout F secret\n");
    assert_eq!(node.files().log_tail(&log, 80, 2048).await.expect("read"), "hello\n");
    symlink(&secret, node.path("logs/shop_web_u1/c/1.log")).expect("linked");
    mkfifo(&node.path("logs/shop_web_u1/c/2.log"));
    for below in ["logs/shop_web_u1/c/1.log", "logs/shop_web_u1/c/2.log", "logs/shop_web_u1/../../secret", "secret"] {
        let path = node.path(below);
        node.files().log_tail(path.to_str().expect("text"), 80, 2048).await.expect_err(below);
    }
}

#[tokio::test]
async fn a_link_to_a_log_comes_and_goes_with_it() {
    let node = Node::new();
    let link = node.path("links/web_shop_c-id.log");
    let log = node.path("logs/shop_web_u1/c/0.log");
    let log_text = log.to_str().expect("text");
    node.files().link_log("web_shop_c-id.log", log_text).await.expect_err("there is no logs directory");
    for name in ["0.log", "0.log.20260101-000000", "0.log.20260101-000000.gz", "1.log", "0.logs"] {
        node.write(&format!("logs/shop_web_u1/c/{name}"), "");
    }
    for _ in 0..2 {
        node.files().link_log("web_shop_c-id.log", log_text).await.expect("linked");
        assert_eq!(fs::read_link(&link).expect("a link"), log);
    }
    node.files()
        .link_log("none", node.path("logs/shop_web_u1/c/9.log").to_str().expect("text"))
        .await
        .expect("skipped");
    assert!(node.path("links/none").symlink_metadata().is_err());
    for _ in 0..2 {
        node.files().remove_container_log("web_shop_c-id.log", log_text).await.expect("removed");
    }
    assert!(link.symlink_metadata().is_err());
    let mut left: Vec<_> = fs::read_dir(node.path("logs/shop_web_u1/c"))
        .expect("listed")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    left.sort();
    assert_eq!(left, ["0.logs", "1.log"]);
}

/// CRI-20: a log that a runtime put elsewhere is nothing of ours, and keeps no container from being removed.
#[tokio::test]
async fn a_log_that_is_elsewhere_is_left_alone_and_its_link_goes() {
    let node = Node::new();
    let elsewhere = node.write("elsewhere/0.log", "kept");
    fs::create_dir_all(node.path("links")).expect("made");
    symlink(&elsewhere, node.path("links/name.log")).expect("linked");
    let above = node.path("logs/../elsewhere/0.log");
    for log in [elsewhere.as_str(), above.to_str().expect("text")] {
        node.files().remove_container_log("name.log", log).await.expect("the container may go");
    }
    assert!(node.path("links/name.log").symlink_metadata().is_err());
    assert_eq!(fs::read_to_string(&elsewhere).expect("read"), "kept");
}

/// CRI-16: the links say which containers of the pod there were, and nothing of pods that had its name before.
#[tokio::test]
async fn links_name_the_containers_of_their_own_pod() {
    let node = Node::new();
    let linked = async |container: &str| {
        let found = node.files().linked_containers(&place("u1"), container).await.expect("looked at");
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(linked("c").await, [""; 0], "there is no folder");
    for (link, log) in [
        ("web_shop_c-aaaaaa.log", "shop_web_u1/c/0.log"),
        ("web_shop_c-bbbbbb.log", "shop_web_u1/c/1.log"),
        ("web_shop_c-cccccc.log", "shop_web_u0/c/0.log"),
        ("web_shop_d-dddddd.log", "shop_web_u1/d/0.log"),
        ("stranger", "shop_web_u1/c/0.log"),
    ] {
        let log = node.write(&format!("logs/{log}"), "");
        node.files().link_log(link, &log).await.expect("linked");
    }
    node.write("links/web_shop_c-eeeeee.log", "no link");
    assert_eq!((linked("c").await, linked("d").await), (vec!["aaaaaa".into(), "bbbbbb".into()], vec!["dddddd".into()]));
}

#[tokio::test]
async fn a_link_never_replaces_a_file() {
    let node = Node::new();
    let log = node.write("logs/shop_web_u1/c/0.log", "");
    node.write("links/name", "a file");
    node.files().link_log("name", &log).await.expect_err("a file is there");
    node.files().remove_container_log("name", &log).await.expect("removed");
    assert_eq!(fs::read_to_string(node.path("links/name")).expect("read"), "a file");
    for name in ["../x", "a/b", ".."] {
        node.files().link_log(name, &node.write("logs/shop_web_u1/c/0.log", "")).await.expect_err(name);
    }
}

#[tokio::test]
async fn removing_a_pod_removes_its_files_and_follows_no_link() {
    let node = Node::new();
    let outside = node.write("outside/keep", "kept");
    node.files().make_pod_directories(&place("u1")).await.expect("made");
    node.write("pods/u1/volumes/a/b/file", "x");
    node.write("logs/shop_web_u1/c/0.log", "x");
    symlink(node.path("outside"), node.path("pods/u1/volumes/link")).expect("linked");
    mkfifo(&node.path("pods/u1/volumes/fifo"));
    for _ in 0..2 {
        node.files().remove_pod(&PodUid::from("u1")).await.expect("removed");
    }
    assert!(!node.path("pods/u1").exists() && node.path("logs/shop_web_u1").exists());
    assert_eq!(fs::read_to_string(outside).expect("read"), "kept");
}

/// POD-33: how old logs are of a pod that ended before the agent began.
#[tokio::test]
async fn a_log_directory_is_as_old_as_the_youngest_log_in_it() {
    let node = Node::new();
    let log = node.write("logs/shop_web_u1/c/0.log", "x");
    let outside = node.write("outside/young", "x");
    symlink(&outside, node.path("logs/shop_web_u1/c/link")).expect("linked");
    let at = |path: &Path, seconds: u64| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let opened = fs::File::open(path).expect("opened");
        opened.set_times(fs::FileTimes::new().set_modified(time).set_accessed(time)).expect("set");
    };
    at(Path::new(&log), 4_000_000_000);
    for (path, seconds) in [("logs/shop_web_u1/c", 1000), ("logs/shop_web_u1", 2000)] {
        at(&node.path(path), seconds);
    }
    let written = node.files().log_directory_written("shop_web_u1").await.expect("looked at");
    assert_eq!(written, Some(Moment(4_000_000_000_000_000_000)));
    assert_eq!(node.files().log_directory_written("shop_web_u2").await, Ok(None));
    node.files().log_directory_written("../outside").await.expect_err("outside");
}

#[tokio::test]
async fn a_log_directory_is_removed_by_its_name_alone() {
    let node = Node::new();
    let log = node.write("logs/shop_web_u1/c/0.log", "x");
    let other = node.write("logs/shop_web_u11/c/0.log", "x");
    node.write("other/file", "x");
    node.files().link_log("web", &log).await.expect("linked");
    node.files().link_log("other", &other).await.expect("linked");
    for name in ["../other", "..", "."] {
        node.files().remove_log_directory(name).await.expect_err(name);
    }
    node.files().remove_log_directory("shop_web_u1").await.expect("removed");
    node.files().remove_log_directory("shop_web_u1").await.expect("gone already");
    assert!(node.path("other/file").exists() && !node.path("logs/shop_web_u1").exists());
    let links = [("web", false), ("other", true)];
    for (link, stays) in links {
        let there = fs::symlink_metadata(node.path("links").join(link)).is_ok();
        assert_eq!(there, stays, "{link}: links go with the logs that they lead to");
    }
}

/// CRI-20: a link whose log is gone goes too, unless its container is alive or it is somebody else's.
#[tokio::test]
async fn dead_links_to_logs_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (logs, links) = (folder.path().join("logs"), folder.path().join("links"));
    fs::create_dir_all(logs.join("pod/web")).unwrap();
    fs::create_dir(&links).unwrap();
    fs::write(logs.join("pod/web/1.log"), "").unwrap();
    let link = |name: &str, target: &Path| std::os::unix::fs::symlink(target, links.join(name)).unwrap();
    link("p_n_web-dead.log", &logs.join("pod/web/0.log"));
    link("p_n_web-gone.log", &logs.join("other/web/0.log"));
    link("p_n_web-live.log", &logs.join("pod/web/2.log"));
    link("p_n_web-there.log", &logs.join("pod/web/1.log"));
    link("p_n_web-foreign.log", &folder.path().join("elsewhere/0.log"));
    fs::write(links.join("file.log"), "").unwrap();
    let files = LinuxPodFiles::new(folder.path(), logs, Some(links.clone()));
    let live = std::collections::BTreeSet::from([crate::logic::model::ids::ContainerId::from("live")]);
    assert_eq!(files.remove_dead_links(&live).await, Ok(2));
    let mut left: Vec<_> = fs::read_dir(&links).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["file.log", "p_n_web-foreign.log", "p_n_web-live.log", "p_n_web-there.log"]);
}
