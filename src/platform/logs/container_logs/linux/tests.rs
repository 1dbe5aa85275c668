//! Logs in a real directory.

use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use super::*;

struct Logs {
    folder: tempfile::TempDir,
    adapter: LinuxContainerLogs,
}

impl Logs {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("pod/web")).unwrap();
        let adapter = LinuxContainerLogs::new(folder.path().to_owned());
        Self { folder, adapter }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join("pod/web").join(name).to_string_lossy().into_owned()
    }

    fn write(&self, name: &str, content: &str) {
        fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path(name))
            .unwrap()
            .write_all(content.as_bytes())
            .unwrap();
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path().join("pod/web")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    async fn written(&self) -> Option<Vec<String>> {
        tokio::time::timeout(Duration::from_secs(60), self.adapter.written()).await.ok()
    }
}

const NOON: Moment = Moment(1_800_000_000_000_000_000);

/// PAIN-24: the watch reports each write after a look, the first of many alone.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_write_after_a_look_is_told() {
    let logs = Logs::new();
    let path = logs.path("0.log");
    assert_eq!(logs.adapter.look(std::slice::from_ref(&path)).await, [LogLook::Missing]);
    for round in 0..2 {
        logs.write("0.log", "x");
        assert_eq!(logs.adapter.look(std::slice::from_ref(&path)).await, [LogLook::There(2 * round + 1, true)]);
        assert!(logs.adapter.written().now_or_never().is_none(), "nothing was written since");
        logs.write("0.log", "y");
        assert_eq!(logs.written().await, Some(vec![path.clone()]));
    }
    logs.adapter.look(std::slice::from_ref(&path)).await;
    fs::remove_file(&path).unwrap();
    assert_eq!(logs.written().await, Some(vec![path]), "that it is gone is told as well");
}

/// SRV-38: the names, the number of files, and which of them are compressed.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_renamed_and_what_was_before_is_compressed() {
    let logs = Logs::new();
    let path = logs.path("0.log");
    for content in ["first", "second", "third"] {
        logs.write("0.log", content);
        let rotated = logs.adapter.begin_rotation(&path, 3, NOON).await.unwrap();
        assert_eq!(fs::read_to_string(&rotated).unwrap(), content);
        logs.write(&format!("{}.tmp", rotated.rsplit('/').next().unwrap()), "half");
        logs.adapter.compress(&path).await.unwrap();
    }
    let names = logs.names();
    assert_eq!(names.len(), 2, "{names:?}: with a new log there are three");
    assert!(names[0].ends_with(".gz") && !names[1].ends_with(".gz"), "{names:?}");
    let mut text = String::new();
    let file = File::open(logs.path(&names[0])).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    assert_eq!(text, "second");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_is_taken_back_unless_there_is_a_new_log() {
    let logs = Logs::new();
    let path = logs.path("0.log");
    logs.write("0.log", "old");
    let rotated = logs.adapter.begin_rotation(&path, 5, NOON).await.unwrap();
    logs.adapter.undo_rotation(&path, &rotated).await.unwrap();
    assert_eq!(logs.names(), ["0.log"]);
    let rotated = logs.adapter.begin_rotation(&path, 5, NOON).await.unwrap();
    logs.write("0.log", "new");
    assert!(logs.adapter.undo_rotation(&path, &rotated).await.is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(fs::read_to_string(&rotated).unwrap(), "old");
}

/// SEC: neither a link nor a path to elsewhere is followed.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_outside_is_touched() {
    let logs = Logs::new();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("web")).unwrap();
    fs::write(outside.path().join("web/0.log"), "precious").unwrap();
    std::os::unix::fs::symlink(outside.path(), logs.folder.path().join("evil")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("web/0.log"), logs.path("1.log")).unwrap();
    let through = logs.folder.path().join("evil/web/0.log").to_string_lossy().into_owned();
    let climbing = logs.folder.path().join("pod/../../x/0.log").to_string_lossy().into_owned();
    for path in [through.as_str(), &climbing, "/etc/passwd", &logs.path("1.log")] {
        let look = logs.adapter.look(&[path.to_owned()]).await;
        assert!(matches!(look[..], [LogLook::Failed(_)]), "{path}: {look:?}");
    }
    for path in [through.as_str(), &climbing, "/etc/passwd"] {
        assert!(logs.adapter.begin_rotation(path, 5, NOON).await.is_err(), "{path}");
        assert!(logs.adapter.compress(path).await.is_err(), "{path}");
    }
    assert_eq!(fs::read_to_string(outside.path().join("web/0.log")).unwrap(), "precious");
}

/// Where the file system does not know `RENAME_NOREPLACE`, what is there already stays there all the same.
#[tokio::test]
async fn a_rename_in_two_steps_takes_nobodys_place() {
    let logs = Logs::new();
    let place = Place::open(logs.folder.path(), &logs.path("0.log")).expect("there");
    logs.write("0.log", "newest");
    place.rename_in_two_steps("0.log", "0.log.1").expect("nobody is in the way");
    assert_eq!(
        (logs.names(), fs::read_to_string(logs.path("0.log.1")).unwrap()),
        (vec!["0.log.1".into()], "newest".into())
    );
    logs.write("0.log", "next");
    std::os::unix::fs::symlink("nowhere", logs.path("0.log.2")).unwrap();
    for taken in ["0.log.1", "0.log.2"] {
        let refused = place.rename_in_two_steps("0.log", taken).expect_err("somebody is there");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    }
    assert_eq!(logs.names(), ["0.log", "0.log.1", "0.log.2"]);
    assert_eq!(fs::read_to_string(logs.path("0.log.1")).unwrap(), "newest");
    assert!(fs::symlink_metadata(logs.path("0.log.2")).unwrap().is_symlink());
}
