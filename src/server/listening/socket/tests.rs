//! Places at the socket, and the file that the socket replaces.

use super::*;
use crate::platform::host::clock::SystemClock;

async fn bind(path: &Path) -> io::Result<PrivateListener> {
    PrivateListener::bind(path, Arc::new(SystemClock::start())).await
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).expect("made").mode() & 0o777
}

#[tokio::test]
async fn the_socket_and_its_directory_are_for_their_owner_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run/agent.sock");
    let _listener = bind(&path).await.expect("free");
    assert_eq!((mode(&path), mode(&folder.path().join("run"))), (0o600, 0o700));
}

#[test]
fn a_directory_that_is_there_is_made_private_and_a_link_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (open, link) = (folder.path().join("open"), folder.path().join("link"));
    std::fs::create_dir(&open).expect("made");
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("set");
    std::os::unix::fs::symlink(&open, &link).expect("linked");
    make_private(&link).expect_err("a link");
    assert_eq!(mode(&open), 0o755);
    make_private(&open).expect("ours");
    assert_eq!(mode(&open), 0o700);
}

#[tokio::test]
async fn a_socket_left_behind_is_replaced_and_a_live_one_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("agent.sock");
    let first = bind(&path).await.expect("free");
    let error = bind(&path).await.err().expect("in use");
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    drop(first);
    bind(&path).await.expect("left behind");
}

#[tokio::test]
async fn what_is_not_a_socket_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("agent.sock");
    std::fs::write(&path, "precious").expect("written");
    bind(&path).await.err().expect("not a socket");
    remove_old(&path).await;
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).expect("linked");
    bind(&link).await.err().expect("not a socket");
    assert_eq!(std::fs::read_to_string(&path).expect("there"), "precious");
}

#[tokio::test]
async fn the_socket_of_an_older_version_goes_unless_somebody_answers_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("podwright.sock");
    remove_old(&path).await;
    let older = bind(&path).await.expect("free");
    remove_old(&path).await;
    assert!(path.exists(), "an agent answers there");
    drop(older);
    remove_old(&path).await;
    assert!(!path.exists());
}

#[test]
fn what_a_refused_process_reads_is_a_whole_answer() {
    let text = std::str::from_utf8(REFUSAL).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}, {}", body.len());
}
