//! Orders over a real message bus to a stand-in for logind and systemd.

#![expect(clippy::disallowed_types, reason = "the interface macro names a map in what it expands to")]

use std::os::fd::AsFd;
use std::sync::Arc;

use tempfile::TempDir;
use zbus::object_server::SignalEmitter;

use super::*;
use crate::platform::host::played_bus::Bus;

/// The state of the stand-in.
#[derive(Clone, Default)]
struct State(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    orders: Vec<String>,
    delay_max: u64,
    ends: bool,
    /// The other end of the lock: it is at its end once the lock is let go.
    lock: Option<OwnedFd>,
}

impl State {
    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.0.lock().expect("no panic")
    }
}

struct Login(State);

#[zbus::interface(name = "org.freedesktop.login1.Manager")]
impl Login {
    fn inhibit(&self, what: &str, who: &str, why: &str, mode: &str) -> zbus::fdo::Result<zbus::zvariant::OwnedFd> {
        let mut told = self.0.told();
        if told.ends {
            return Err(zbus::fdo::Error::Failed("already running".to_owned()));
        }
        told.orders.push(format!("inhibit {what}, {who}, {why}, {mode}"));
        let (theirs, ours) = rustix::pipe::pipe().expect("a pipe");
        told.lock = Some(theirs);
        Ok(ours.into())
    }

    #[zbus(property, name = "InhibitDelayMaxUSec")]
    fn inhibit_delay_max_usec(&self) -> u64 {
        self.0.told().delay_max
    }

    #[zbus(property)]
    fn preparing_for_shutdown(&self) -> bool {
        self.0.told().ends
    }

    #[zbus(signal)]
    async fn prepare_for_shutdown(emitter: &SignalEmitter<'_>, start: bool) -> zbus::Result<()>;
}

struct Units(State);

#[zbus::interface(name = "org.freedesktop.systemd1.Manager")]
impl Units {
    fn kill_unit(&self, name: &str, whom: &str, signal: i32) {
        self.0.told().orders.push(format!("kill {name}, {whom}, {signal}"));
    }
}

struct Setup {
    logind: SystemLogind,
    state: State,
    stand_in: zbus::Connection,
    root: TempDir,
    _bus: Bus,
}

impl Setup {
    async fn open() -> Option<Self> {
        let Some(mut bus) = Bus::start() else {
            crate::testing::skips::skip("there is no dbus-daemon");
            return None;
        };
        let (address, stand_in, state) = (bus.address(), bus.connect().await, State::default());
        state.told().delay_max = 5_000_000;
        let server = stand_in.object_server();
        server.at("/org/freedesktop/login1", Login(state.clone())).await.expect("served");
        server.at("/org/freedesktop/systemd1", Units(state.clone())).await.expect("served");
        stand_in.request_name("org.freedesktop.login1").await.expect("named");
        stand_in.request_name("org.freedesktop.systemd1").await.expect("named");
        let connect: Connect = Box::new(move || {
            let address = address.clone();
            Box::pin(async move { zbus::connection::Builder::address(address.as_str())?.build().await })
        });
        let root = tempfile::tempdir().expect("a folder");
        Some(Self { logind: SystemLogind::by(root.path(), connect), state, stand_in, root, _bus: bus })
    }

    async fn prepare(&self, start: bool) {
        self.state.told().ends = start;
        let emitter = SignalEmitter::new(&self.stand_in, "/org/freedesktop/login1").expect("a path");
        Login::prepare_for_shutdown(&emitter, start).await.expect("sent");
    }

    fn is_locked(&self) -> bool {
        let told = self.state.told();
        let Some(lock) = &told.lock else { return false };
        let mut look = [rustix::event::PollFd::from_borrowed_fd(lock.as_fd(), rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut look, Some(&rustix::event::Timespec::default())).expect("polled");
        !look[0].revents().contains(rustix::event::PollFlags::HUP)
    }
}

/// NODE-42.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn node_42_a_lock_is_taken_as_upstream_takes_it_and_let_go() {
    let Some(setup) = Setup::open().await else { return };
    assert_eq!(setup.logind.delay_max().await.expect("told"), Duration::from_secs(5));
    setup.logind.delay().await.expect("delayed");
    let order = "inhibit shutdown, kubelet, Kubelet needs time to handle node shutdown, delay";
    assert_eq!(setup.state.told().orders, [order]);
    assert!(setup.is_locked());
    setup.logind.delay().await.expect("delayed again");
    assert!(setup.is_locked());
    setup.logind.release();
    setup.logind.release();
    // The bus and the stand-in may still be done with their copies.
    for _ in 0..1000 {
        if !setup.is_locked() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!setup.is_locked());
    setup.state.told().ends = true;
    let refused = setup.logind.delay().await.expect_err("it is under way").to_string();
    assert!(
        refused.starts_with("failed creating systemd inhibitor: ") && refused.contains("already running"),
        "{refused}"
    );
}

/// NODE-43.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn node_43_the_delay_is_a_file_of_loginds_which_reads_it_then() {
    let Some(setup) = Setup::open().await else { return };
    setup.logind.set_delay_max(Duration::from_secs(45)).await.expect("set");
    let file = setup.root.path().join("etc/systemd/logind.conf.d/99-kubelet.conf");
    let text = || fs::read_to_string(&file).expect("written");
    assert_eq!(text(), "# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=45\n");
    assert_eq!(setup.state.told().orders, ["kill systemd-logind.service, all, 1"]);
    setup.logind.set_delay_max(Duration::from_millis(30_600)).await.expect("set");
    assert!(text().ends_with("=31\n"), "never less than pods may take: {}", text());
    fs::remove_dir_all(setup.root.path().join("etc")).expect("removed");
    fs::write(setup.root.path().join("etc"), "").expect("in the way");
    let failed = setup.logind.set_delay_max(Duration::from_secs(45)).await.expect_err("no folder").to_string();
    assert!(failed.contains("99-kubelet.conf: "), "{failed}");
}

/// NODE-44, NODE-47.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn node_47_shutdowns_are_heard_as_they_are_and_as_they_change() {
    let Some(setup) = Setup::open().await else { return };
    let mut states = setup.logind.watch().await.expect("watched");
    assert_eq!(states.next().await, Some(false));
    setup.prepare(true).await;
    assert_eq!(states.next().await, Some(true));
    let mut late = setup.logind.watch().await.expect("watched");
    assert_eq!(late.next().await, Some(true), "one that is under way");
    setup.prepare(false).await;
    assert_eq!((states.next().await, late.next().await), (Some(false), Some(false)));
    drop(setup);
    assert_eq!((states.next().await, late.next().await), (None, None), "the bus has ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_machine_without_a_bus_says_so() {
    let connect: Connect =
        Box::new(|| Box::pin(async { zbus::connection::Builder::address("unix:path=/nowhere/at/all")?.build().await }));
    let logind = SystemLogind::by(Path::new("/nowhere"), connect);
    let why = logind.delay_max().await.expect_err("no bus").to_string();
    assert!(why.starts_with("failed reading InhibitDelayMaxUSec property from logind: "), "{why}");
    assert!(logind.watch().await.is_err());
}
