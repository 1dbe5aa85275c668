//! Peers that are ours, that are somewhere else, and that are gone.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;

use super::*;

const CHILD: &str = "PODWRIGHT_TEST_PEER_SOCKET";

/// Both ways to find a peer: the kernel's own, and that for kernels before 6.5.
fn checks() -> [PeerCheck; 2] {
    let check = |by_pidfd| PeerCheck { by_pidfd, ..PeerCheck::of_this_process().expect("namespaces") };
    [check(true), check(false)]
}

fn own_user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// The kernel's process ID of a connection's peer.
fn peer_pid(stream: &UnixStream) -> i32 {
    nix::sys::socket::getsockopt(stream, nix::sys::socket::sockopt::PeerCredentials).expect("told").pid()
}

/// The test's program once more, which connects and ends.
fn connect_and_end(path: &Path) {
    let test = "platform::network::socket_peer::tests::a_peer_that_has_ended_gets_nothing";
    let agent = std::env::current_exe().expect("the test's own path");
    let output = Command::new(agent).args(["--exact", test]).env(CHILD, path).output().expect("ran");
    // A name that no test has would pass without a test.
    let ran = String::from_utf8_lossy(&output.stdout).contains("1 passed");
    assert!(output.status.success() && ran, "{output:?}");
}

#[test]
fn a_process_of_the_agents_own_namespaces_is_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = UnixListener::bind(folder.path().join("s")).expect("bound");
    let _client = UnixStream::connect(folder.path().join("s")).expect("connected");
    let (stream, _) = listener.accept().expect("a client");
    for check in checks() {
        let found = check.judge(stream.as_fd(), own_user(), peer_pid(&stream));
        assert!(found.is_ok(), "by pidfd {}: {found:?}", check.by_pidfd);
    }
}

/// A socket that a container can see answers nobody from there.
#[test]
fn a_process_of_another_namespace_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = UnixListener::bind(folder.path().join("s")).expect("bound");
    let _client = UnixStream::connect(folder.path().join("s")).expect("connected");
    let (stream, _) = listener.accept().expect("a client");
    for (index, wanted) in NAMESPACES.into_iter().enumerate() {
        for mut check in checks() {
            check.own[index].1 += 1;
            let found = check.judge(stream.as_fd(), own_user(), peer_pid(&stream));
            assert!(matches!(found, Err(Stranger::Elsewhere { namespace, .. }) if namespace == wanted), "{found:?}");
        }
    }
    let [check, _] = checks();
    let hidden = check.judge(stream.as_fd(), own_user(), 0);
    assert!(matches!(hidden, Err(Stranger::Elsewhere { pid: 0, namespace: "pid" })), "{hidden:?}");
}

#[test]
fn a_number_that_another_process_has_by_now_gets_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = UnixListener::bind(folder.path().join("s")).expect("bound");
    let _client = UnixStream::connect(folder.path().join("s")).expect("connected");
    let (stream, _) = listener.accept().expect("a client");
    // A process of this machine with the same namespaces, which did not connect.
    let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
    let other = i32::try_from(child.id()).expect("a number of a process");
    for check in checks() {
        let found = check.judge(stream.as_fd(), own_user(), other);
        assert!(matches!(found, Err(Stranger::Gone(_))), "by pidfd {}: {found:?}", check.by_pidfd);
    }
    child.kill().expect("it still runs");
    child.wait().expect("it has ended");
}

#[test]
fn a_peer_that_has_ended_gets_nothing() {
    if let Some(path) = std::env::var_os(CHILD) {
        drop(UnixStream::connect(path).expect("somebody listens"));
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).expect("bound");
    connect_and_end(&path);
    let (stream, _) = listener.accept().expect("a client");
    for check in checks() {
        let found = check.judge(stream.as_fd(), own_user(), peer_pid(&stream));
        assert!(matches!(found, Err(Stranger::Gone(_))), "by pidfd {}: {found:?}", check.by_pidfd);
    }
}

#[test]
fn only_root_and_the_own_user_may_ask() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = UnixListener::bind(folder.path().join("s")).expect("bound");
    let _client = UnixStream::connect(folder.path().join("s")).expect("connected");
    let (stream, _) = listener.accept().expect("a client");
    let [check, _] = checks();
    for (own_user, user, may) in
        [(1000, 0, true), (1000, 1000, true), (0, 0, true), (1000, 1001, false), (0, 1000, false)]
    {
        let check = PeerCheck { own_user, own: check.own, by_pidfd: true };
        let found = check.judge(stream.as_fd(), user, peer_pid(&stream));
        assert_eq!(found.is_ok(), may, "{user} asks {own_user}: {found:?}");
    }
}
