//! Records, files of credentials and programs, in real directories.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::*;
use crate::logic::images::image_records::RecordedSecret;
use crate::platform::host::played_program::write_program;

const NOW: Moment = Moment(1_767_225_600_000_000_000);

fn host() -> (tempfile::TempDir, LinuxImageHost) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("bin")).unwrap();
    let host = LinuxImageHost::new(folder.path(), &folder.path().join("bin"));
    (folder, host)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// CRI-24: names and modes of files are upstream's.
#[tokio::test]
async fn pulls_are_recorded_while_they_last_and_after() {
    let (folder, host) = host();
    let (pulling, pulled) = (folder.path().join("image_manager/pulling"), folder.path().join("image_manager/pulled"));
    assert_eq!(host.evidence("a:1", "sha256:1").await, Evidence::default());
    host.begin_pull("a:1").await.unwrap();
    host.begin_pull("a:1").await.unwrap();
    assert_eq!(names(&pulling), [format!("sha256-{}", host.hash("a:1"))]);
    assert!(host.evidence("a:1", "sha256:1").await.intent);
    host.end_pull("a:1").await.unwrap();
    assert_eq!(names(&pulling).len(), 1, "another pull of it is under way");
    let secret =
        RecordedSecret { uid: "u".into(), namespace: "n".into(), name: "s".into(), credential_hash: host.hash("{}") };
    host.record_pulled("a:1", "sha256:1", Some(&RecordedAccess::of(Some(secret))), NOW).await.unwrap();
    host.end_pull("a:1").await.unwrap();
    assert!(names(&pulling).is_empty());
    let file = pulled.join(format!("sha256-{}", host.hash("sha256:1")));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&pulled).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(host.evidence("b:1", "sha256:1").await.record.is_some());
    fs::write(&file, "half").unwrap();
    assert!(host.evidence("a:1", "sha256:1").await.unreadable);
    host.record_pulled("a:1", "sha256:1", None, NOW).await.unwrap();
    assert!(host.evidence("a:1", "sha256:1").await.record.is_some(), "made anew");
    assert_eq!(host.prune_records(&BTreeSet::new(), NOW).await, 0, "written since");
    assert_eq!(host.prune_records(&BTreeSet::new(), NOW.plus(Duration::from_secs(1))).await, 1);
    assert!(names(&pulled).is_empty());
}

#[tokio::test]
async fn pulls_that_an_agent_left_are_found_by_the_next() {
    let (folder, host) = host();
    host.begin_pull("a:1").await.unwrap();
    let pulling = folder.path().join("image_manager/pulling");
    fs::write(pulling.join("sha256-x.tmp"), "half").unwrap();
    let next = LinuxImageHost::new(folder.path(), folder.path());
    let found: Vec<String> = next.interrupted_pulls().await.into_iter().map(|intent| intent.image).collect();
    assert_eq!(found, ["a:1"]);
    assert_eq!(names(&pulling).len(), 1, "the half file is gone");
    next.end_pull("a:1").await.unwrap();
    assert!(names(&pulling).is_empty());
}

/// CRI-23.
#[test]
fn a_large_file_of_credentials_is_read_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let (root, home) = (folder.path().join("root"), folder.path().join("home"));
    fs::create_dir_all(&root).unwrap();
    fs::create_dir_all(home.join(".docker")).unwrap();
    let users = || {
        let found = node_credentials(&root, &home).of("reg.example/app");
        found.into_iter().map(|one| one.username).collect::<Vec<_>>()
    };
    let auths = |user: &str| format!(r#"{{"auths": {{"reg.example": {{"username": "{user}"}}}}}}"#);
    let padded = |bytes: usize| " ".repeat(bytes - auths("root").len()) + &auths("root");
    let largest = usize::try_from(CREDENTIALS_BYTES_MAX).unwrap();
    fs::write(home.join(".docker/config.json"), auths("home")).unwrap();
    fs::write(root.join("config.json"), padded(largest)).unwrap();
    assert_eq!(users(), ["root"]);
    fs::write(root.join("config.json"), padded(largest + 1)).unwrap();
    assert_eq!(users(), ["home"], "the next one counts");
    let error = read(&root.join("config.json")).unwrap_err().to_string();
    assert_eq!(error, format!("{} is larger than 10485760 bytes", root.join("config.json").display()));
}

/// FIPS 180-4's own example.
#[test]
fn the_hash_is_sha256() {
    let (_folder, host) = host();
    assert_eq!(host.hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn the_first_file_of_credentials_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (root, home) = (folder.path().join("root"), folder.path().join("home"));
    fs::create_dir_all(home.join(".docker")).unwrap();
    fs::create_dir_all(&root).unwrap();
    let users = || {
        let found = node_credentials(&root, &home).of("reg.example/app");
        found.into_iter().map(|one| one.username).collect::<Vec<_>>()
    };
    assert!(users().is_empty());
    fs::write(home.join(".dockercfg"), r#"{"reg.example": {"username": "old"}}"#).unwrap();
    assert_eq!(users(), ["old"]);
    fs::write(home.join(".docker/config.json"), r#"{"auths": {"reg.example": {"username": "home"}}}"#).unwrap();
    assert_eq!(users(), ["home"]);
    fs::write(root.join("config.json"), "not JSON").unwrap();
    assert_eq!(users(), ["home"], "one that cannot be read is left out");
    fs::write(root.join("config.json"), r#"{"auths": {"reg.example": {"username": "root"}}}"#).unwrap();
    assert_eq!(users(), ["root"]);
}

fn provider(folder: &Path, script: &str) -> Provider {
    let path = folder.join("bin/helper");
    write_program(&path, &format!("#!/bin/sh\n{script}\n"));
    Provider {
        name: "helper".into(),
        match_images: vec!["*".into()],
        default_cache: Duration::ZERO,
        api_version: "credentialprovider.kubelet.k8s.io/v1".into(),
        args: vec!["one".into(), "two words".into()],
        env: vec![("TOLD".into(), "x".into())],
        tokens: None,
    }
}

/// SEC-42: it is asked on standard input, with its arguments and variables; what it prints is bounded; it may fail.
#[tokio::test]
async fn sec_42_a_program_is_run_within_bounds() {
    let (folder, host) = host();
    let run = async |script: &str| {
        let provider = provider(folder.path(), script);
        let answer = host.ask_provider(&provider, "reg.example/app", None).await;
        let answer = answer.map_err(|error| error.to_string());
        answer.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let told = run("cat; echo \"$# $2 $TOLD $PATH\" | cut -d/ -f1").await.unwrap();
    assert!(told.contains("\"image\":\"reg.example/app\"") && told.ends_with("2 two words x \n"), "{told}");
    assert_eq!(run("echo fine").await.unwrap(), "fine\n", "it need not listen");
    let failed = "error execing credential provider plugin helper for image reg.example/app";
    assert_eq!(run("echo no >&2; exit 3").await.unwrap_err(), format!("{failed}: exit status 3: no"));
    let endless = run("yes").await.unwrap_err();
    assert_eq!(endless, format!("{failed}: its answer is larger than 1048576 bytes"));
    assert_eq!(run("head -c 1000000 /dev/zero >&2; echo fine").await.unwrap(), "fine\n", "it may complain at length");
    assert!(run("yes no | head -c 1000000 >&2; exit 1").await.unwrap_err().len() < 5000, "it is told in part");
    fs::remove_file(folder.path().join("bin/helper")).unwrap();
    let absent = Provider { name: "absent".into(), ..provider(folder.path(), "") };
    assert!(host.ask_provider(&absent, "a", None).await.unwrap_err().to_string().contains("No such file"));
}

#[tokio::test]
async fn the_disk_is_measured() {
    let (folder, host) = host();
    let disk = host.disk_use(folder.path().to_str().unwrap()).await.unwrap();
    assert!(disk.capacity >= disk.available && disk.capacity > 0);
    assert!(host.disk_use("/nowhere").await.unwrap_err().to_string().contains("/nowhere"));
}
