//! Logs in a real directory, rotated and compressed as the rotator does it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use super::super::files::LogFolder;
use super::*;
use crate::logic::logs::container_log::printer::PrintOptions;
use crate::logic::model::time::Moment;
use crate::platform::logs::container_logs::{ContainerLogs, LinuxContainerLogs};

const NOON: Moment = Moment(1_800_000_000_000_000_000);
/// More than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

struct Logs {
    folder: tempfile::TempDir,
    reader: LinuxLogReader,
    rotator: LinuxContainerLogs,
}

impl Logs {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("pod/web")).unwrap();
        let reader = LinuxLogReader::new(folder.path().to_owned());
        let rotator = LinuxContainerLogs::new(folder.path().to_owned());
        Self { folder, reader, rotator }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join("pod/web").join(name).to_string_lossy().into_owned()
    }

    fn file(&self, name: &str) -> fs::File {
        fs::OpenOptions::new().create(true).append(true).open(self.path(name)).unwrap()
    }

    /// Writes lines, one a second, each with its second as its words.
    fn write(&self, seconds: std::ops::Range<u32>) {
        let mut file = self.file("0.log");
        for second in seconds {
            file.write_all(line(second).as_bytes()).unwrap();
        }
    }

    async fn rotate(&self) {
        self.rotator.begin_rotation(&self.path("0.log"), 100, NOON).await.unwrap();
    }

    async fn compress(&self) {
        self.rotator.compress(&self.path("0.log")).await.unwrap();
    }

    fn wanted(&self) -> LogWanted {
        let (path, container) = (self.path("0.log"), "id".to_owned());
        LogWanted { path, container, print: PrintOptions::default(), tail_lines: None, follow: false }
    }

    fn tail(&self, lines: u64) -> LogWanted {
        let print = PrintOptions { lines_max: Some(lines), ..PrintOptions::default() };
        LogWanted { tail_lines: Some(lines), print, ..self.wanted() }
    }

    async fn read(&self, wanted: LogWanted) -> Result<String, LogReadError> {
        let mut log = self.reader.open(wanted).await?;
        rest(&mut *log).await
    }
}

fn line(second: u32) -> String {
    format!("2026-01-02T03:{:02}:{:02}Z stdout F {second}\n", second / 60, second % 60)
}

fn words(seconds: std::ops::Range<u32>) -> String {
    seconds.map(|second| format!("{second}\n")).collect()
}

/// The rest up to the end.
async fn rest(log: &mut dyn OpenLog) -> Result<String, LogReadError> {
    let mut text = vec![];
    while let Part::Shown(bytes) = log.read().await? {
        assert!(!bytes.is_empty());
        text.extend_from_slice(&bytes);
    }
    Ok(String::from_utf8(text).unwrap())
}

/// Reads a log that is followed until it has shown so much, and maybe more that was written since.
async fn begins(log: &mut dyn OpenLog, expected: &str) -> String {
    let mut text = String::new();
    let follow = async {
        log.listen();
        while text.len() < expected.len() {
            text += &rest(log).await.unwrap();
            if text.len() < expected.len() {
                log.changed().await;
            }
        }
    };
    let done = tokio::time::timeout(PATIENCE, follow).await;
    assert!(done.is_ok() && text.starts_with(expected), "{text:?} is not {expected:?}");
    text
}

/// Reads a log that is followed until it has shown so much, and no more.
async fn until(log: &mut dyn OpenLog, expected: &str) {
    assert_eq!(begins(log, expected).await, expected);
}

/// PAIN-25: three files, the oldest compressed.
async fn rotated_twice() -> Logs {
    let logs = Logs::new();
    logs.write(0..10);
    logs.rotate().await;
    logs.write(10..20);
    logs.rotate().await;
    logs.write(20..30);
    logs.compress().await;
    let names: Vec<_> = fs::read_dir(logs.folder.path().join("pod/web")).unwrap().flatten().collect();
    assert_eq!(names.iter().filter(|name| name.file_name().to_string_lossy().ends_with(".gz")).count(), 1);
    logs
}

/// PAIN-25, SRV-36: all of a log is all of its files, and the last lines are the last of all.
#[tokio::test(flavor = "multi_thread")]
async fn rotated_files_are_read_in_order() {
    let logs = rotated_twice().await;
    assert_eq!(logs.read(logs.wanted()).await.unwrap(), words(0..30));
    for lines in [0, 1, 9, 10, 11, 19, 20, 21, 25, 30, 31, 1000] {
        assert_eq!(logs.read(logs.tail(lines)).await.unwrap(), words(30 - (lines as u32).min(30)..30), "{lines} lines");
    }
}

/// PAIN-25, SRV-36: a line that was being written when its log was rotated is one line, in whichever files its pieces are;
/// a line that the runtime cut for its length is as many as upstream counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_was_rotated_within_is_one() {
    let logs = Logs::new();
    let piece = |second: u32, tag: &str, text: &str| {
        let line = line(second).replace(&format!("F {second}\n"), &format!("{tag} {text}\n"));
        logs.file("0.log").write_all(line.as_bytes()).unwrap();
    };
    logs.write(0..9);
    piece(9, "P", "9 be");
    logs.rotate().await;
    piece(9, "F", "gins");
    logs.write(10..14);
    piece(14, "P:x", "14");
    logs.rotate().await;
    logs.compress().await;
    piece(14, "F", " as well");
    logs.write(15..17);
    piece(17, "P", "long ");
    piece(17, "F", "line");
    let numbers = |from: u32, to: u32| (from..to).map(|number| format!("{number}\n")).collect::<String>();
    let (first, second, third) =
        (numbers(0, 9), "9 begins\n".to_owned() + &numbers(10, 14), "14 as well\n15\n16\nlong line\n");
    for (lines, expected) in [
        (1, "line\n".to_owned()),
        (2, "long line\n".to_owned()),
        (4, "15\n16\nlong line\n".to_owned()),
        (5, third.to_owned()),
        (6, format!("13\n{third}")),
        (9, numbers(10, 14) + third),
        (10, format!("{second}{third}")),
        (11, format!("8\n{second}{third}")),
        (19, format!("{first}{second}{third}")),
        (500, format!("{first}{second}{third}")),
    ] {
        assert_eq!(logs.read(logs.tail(lines)).await.unwrap(), expected, "{lines} lines");
    }
}

/// PAIN-25, SRV-36: no more files are read than a time reaches back to.
#[tokio::test(flavor = "multi_thread")]
async fn a_time_reaches_back_over_rotated_files() {
    let logs = rotated_twice().await;
    for second in [0, 5, 10, 11, 20, 25] {
        let since =
            crate::logic::logs::container_log::entry::WrittenTime::parse(&line(second).as_bytes()[..20]).unwrap();
        let print = PrintOptions { since: Some(since.time()), ..PrintOptions::default() };
        let wanted = LogWanted { print, ..logs.wanted() };
        assert_eq!(logs.read(wanted).await.unwrap(), words(second..30), "since {second}");
    }
}

/// SRV-36: a last line without an end comes out, but is none of the last lines; with follow it is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_line_is_shown_last() {
    let logs = Logs::new();
    logs.write(0..3);
    logs.file("0.log").write_all(line(3).trim_end().as_bytes()).unwrap();
    assert_eq!(logs.read(logs.wanted()).await.unwrap(), "0\n1\n2\n3");
    assert_eq!(logs.read(logs.tail(2)).await.unwrap(), "1\n2\n");
    let mut log = logs.reader.open(LogWanted { follow: true, ..logs.wanted() }).await.unwrap();
    assert_eq!(rest(&mut *log).await.unwrap(), "0\n1\n2\n");
    logs.file("0.log").write_all(b"\n").unwrap();
    until(&mut *log, "3\n").await;
}

/// SRV-37, PAIN-26: the reader gets all that is written, over rotations, in order, none of it lost or twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_followed_over_rotations() {
    let logs = Logs::new();
    logs.write(0..5);
    let mut log = logs.reader.open(LogWanted { follow: true, tail_lines: Some(2), ..logs.wanted() }).await.unwrap();
    until(&mut *log, &words(3..5)).await;
    logs.write(5..7);
    until(&mut *log, &words(5..7)).await;
    // A file that is renamed is still written to, until the next one is there, and a little longer.
    let mut old = logs.file("0.log");
    logs.rotate().await;
    old.write_all(line(7).as_bytes()).unwrap();
    until(&mut *log, &words(7..8)).await;
    logs.write(9..10);
    old.write_all(line(8).as_bytes()).unwrap();
    until(&mut *log, &words(8..10)).await;
    // Several rotations between two looks, and what was being read is compressed meanwhile.
    for begin in [10, 20, 30] {
        logs.write(begin..begin + 10);
        logs.rotate().await;
    }
    logs.compress().await;
    logs.write(40..45);
    until(&mut *log, &words(10..45)).await;
}

/// SRV-37: a log that is cut short by whoever rotates by copying goes on from its beginning.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_cut_short_goes_on() {
    let logs = Logs::new();
    logs.write(0..5);
    let mut log = logs.reader.open(LogWanted { follow: true, ..logs.wanted() }).await.unwrap();
    until(&mut *log, &words(0..5)).await;
    fs::File::create(logs.path("0.log")).unwrap();
    logs.write(5..6);
    until(&mut *log, &words(5..6)).await;
}

/// SRV-37: many wait for one directory; each one hears of it, also when the one that reads for all has left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_followers_are_all_told() {
    let logs = Arc::new(Logs::new());
    logs.write(0..1);
    let mut followers = tokio::task::JoinSet::new();
    let threads_before = threads();
    for number in 0..100 {
        let logs = Arc::clone(&logs);
        followers.spawn(async move {
            let mut log = logs.reader.open(LogWanted { follow: true, ..logs.wanted() }).await.unwrap();
            let last = if number % 2 == 0 { 2 } else { 4 };
            // More may be written before it looks.
            begins(&mut *log, &words(0..last)).await;
        });
    }
    for second in 1..4 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        logs.write(second..second + 1);
    }
    // Other tests have threads, too; a hundred more there would be one for each.
    assert!(threads() < threads_before + 50, "{threads_before} threads, then {}", threads());
    while let Some(ended) = followers.join_next().await {
        ended.unwrap();
    }
    assert!(logs.reader.shared.watch.is_idle(), "nothing is watched for nobody");
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// SEC-14: as many readers as there is room for.
#[tokio::test]
async fn readers_are_counted() {
    let reader = LinuxLogReader::with_room("/nowhere".into(), 2);
    let (one, two) = (reader.admit(), reader.admit());
    assert!(one.is_some() && two.is_some() && reader.admit().is_none());
    drop(one);
    assert!(reader.admit().is_some());
}

/// SEC-13: whatever a pod plants among the logs, nothing outside of them is read.
#[tokio::test(flavor = "multi_thread")]
async fn sec_13_links_and_other_places_are_refused() {
    let logs = Logs::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("0.log"), line(1)).unwrap();
    symlink(outside.path().join("0.log"), logs.path("0.log")).unwrap();
    symlink(outside.path(), logs.path("link")).unwrap();
    symlink("/var/lib/docker/containers/other/other-json.log", logs.path("2.log")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, logs.path("3.log"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    let below = |name: &str| logs.path(name);
    let climbing = logs.folder.path().join("pod/../../0.log").to_string_lossy().into_owned();
    for path in [below("0.log"), below("link/0.log"), below("2.log"), below("3.log"), climbing, "/etc/passwd".into()] {
        let error = logs.read(LogWanted { path: path.clone(), ..logs.wanted() }).await.expect_err(&path);
        assert!(error.to_string().starts_with(&format!("failed to open log file {path:?}: ")), "{error}");
    }
    // Nor as a rotated one.
    fs::remove_file(logs.path("0.log")).unwrap();
    logs.write(0..1);
    symlink(outside.path().join("0.log"), logs.path("0.log.20260101-000000")).unwrap();
    symlink(outside.path().join("0.log"), logs.path("0.log.20260101-000001.gz")).unwrap();
    assert_eq!(logs.read(logs.wanted()).await.unwrap(), "0\n");
}

/// SRV-35: Docker's data-root may be anywhere; its links lead to the asked container's own log there, and over no other link.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_that_docker_keeps_in_a_moved_data_root_is_read() {
    let logs = Logs::new();
    let data_root = tempfile::tempdir().unwrap();
    let data_root = data_root.path().canonicalize().unwrap();
    let keep = |id: &str| {
        let folder = data_root.join("containers").join(id);
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{id}-json.log"));
        fs::write(&file, "{\"log\":\"said\\n\",\"stream\":\"stdout\",\"time\":\"2026-01-02T03:04:05Z\"}\n").unwrap();
        file
    };
    let container = logs.wanted().container;
    symlink(keep(&container), logs.path("0.log")).unwrap();
    assert_eq!(logs.read(logs.wanted()).await.unwrap(), "said\n");
    // Another container's; one that is not in a data-root; one over a link.
    let other = keep("other");
    let stray = data_root.join(&container);
    fs::create_dir(&stray).unwrap();
    fs::copy(&other, stray.join(format!("{container}-json.log"))).unwrap();
    symlink(&data_root, data_root.join("linked")).unwrap();
    let log = format!("{container}/{container}-json.log");
    for target in [other, data_root.join(&log), data_root.join("linked/containers").join(&log)] {
        fs::remove_file(logs.path("0.log")).unwrap();
        symlink(&target, logs.path("0.log")).unwrap();
        assert!(logs.read(logs.wanted()).await.is_err(), "{}", target.display());
    }
}

/// SEC-14: a line of hundreds of blocks goes through in parts that fit one.
#[tokio::test(flavor = "multi_thread")]
async fn a_very_long_line_is_read_in_parts() {
    let logs = Logs::new();
    let mut file = logs.file("0.log");
    file.write_all(b"2026-01-02T03:04:05Z stdout F ").unwrap();
    let block = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        file.write_all(&block).unwrap();
    }
    file.write_all(b"\n").unwrap();
    logs.write(7..8);
    let mut log = logs.reader.open(logs.wanted()).await.unwrap();
    let (mut total, mut largest, mut last) = (0, 0, vec![]);
    while let Part::Shown(bytes) = log.read().await.unwrap() {
        (total, largest) = (total + bytes.len(), largest.max(bytes.len()));
        last = bytes.to_vec();
    }
    assert_eq!(total, (64 << 20) + 1 + "7\n".len());
    assert!(largest <= 512 << 10, "{largest} bytes at once");
    assert!(last.ends_with(b"x\n7\n"));
}

/// The most memory of this process since it was asked to forget, in KiB.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// SEC-14: a line of 1 GiB, in either format, passed over or shown, whole or in part, needs room for a few blocks.
#[tokio::test(flavor = "multi_thread")]
async fn sec_14_a_line_of_a_gibibyte_needs_room_for_a_few_blocks() {
    const LINE: u64 = 1 << 30;
    let logs = Logs::new();
    // A hole in the file is as good as so many letters.
    let begin = |head: &str| {
        let mut file = fs::File::create(logs.path("0.log")).unwrap();
        file.write_all(head.as_bytes()).unwrap();
        file.set_len(head.len() as u64 + LINE).unwrap();
        logs.file("0.log").write_all(b"\n").unwrap();
    };
    let cri = "2026-01-02T03:00:05Z stdout F ";
    let docker =
        |words: &str| format!("{{\"log\":\"{words}\",\"stream\":\"stdout\",\"time\":\"2026-01-02T03:04:05Z\"}}\n");
    let after = |second: u32| {
        let since =
            crate::logic::logs::container_log::entry::WrittenTime::parse(&line(second).as_bytes()[..20]).unwrap();
        PrintOptions { since: Some(since.time()), ..PrintOptions::default() }
    };
    let part = PrintOptions { bytes_max: Some(10), lines_max: Some(2), ..PrintOptions::default() };
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = peak_kib();
    begin(cri);
    logs.write(7..8);
    for (wanted, expected) in [
        (logs.wanted(), LINE + 1 + 2),
        (LogWanted { print: after(6), ..logs.wanted() }, 2),
        (LogWanted { tail_lines: Some(2), print: part, ..logs.wanted() }, 10),
    ] {
        let mut log = logs.reader.open(wanted.clone()).await.unwrap();
        let (mut total, mut largest) = (0, 0);
        while let Part::Shown(bytes) = log.read().await.unwrap() {
            (total, largest) = (total + bytes.len() as u64, largest.max(bytes.len()));
        }
        assert_eq!(total, expected, "{wanted:?}");
        assert!(largest <= 512 << 10, "{largest} bytes at once");
    }
    begin(&(docker("first\\n") + "{\"log\":\""));
    logs.file("0.log").write_all(docker("last\\n").as_bytes()).unwrap();
    assert_eq!(logs.read(logs.wanted()).await.unwrap(), "first\nlast\n", "what is no line of it is passed over");
    // Other tests run beside this one, and take hundreds of MiB at times; a line that was kept would take all of a GiB.
    let grown = peak_kib().saturating_sub(before);
    assert!(grown < 768 << 10, "{grown} KiB more");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_log_is_said_so() {
    let logs = Logs::new();
    fs::write(logs.path("0.log"), "root:x:0:0\n").unwrap();
    let error = logs.read(logs.wanted()).await.expect_err("no log");
    assert_eq!(error.to_string(), "failed to get parse function: unsupported log format: \"root:x:0:0\\n\"");
    fs::write(logs.path("0.log"), "").unwrap();
    assert_eq!(logs.read(logs.wanted()).await.unwrap(), "");
}

/// PAIN-25: a log that is rotated while it is opened, and once more, keeps its place in the order.
#[tokio::test(flavor = "multi_thread")]
async fn what_came_after_the_open_log_is_not_before_it() {
    let logs = rotated_twice().await;
    let folder = LogFolder::open(logs.folder.path(), &logs.path("0.log"), "id").unwrap();
    let (known, live) = (folder.newest_rotated().unwrap(), folder.live().unwrap());
    for number in 3..5 {
        logs.rotate().await;
        logs.write(number * 10..number * 10 + 10);
    }
    logs.compress().await;
    let live_is_rotated = folder.is_replaced(&live).unwrap();
    let of = |known: Option<&str>| folder.before(&live, known).unwrap().map(Result::unwrap).count();
    assert_eq!((live_is_rotated, of(known.as_deref()), of(None)), (true, 2, 2));
}
