//! The registry and the calls, against plugins on real sockets.

mod devices;
mod dra;

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::timeout;
use tonic::Code as WireCode;

use super::*;
use crate::logic::plugins::call_error::{CallProblem, Code};
use crate::logic::volumes::csi::requests::{Access, AccessMode, Capability, Texts};
use crate::platform::host::clock::SystemClock;
use crate::platform::observer::Unobserved;
use crate::testing::csi_driver::Driver;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

struct Setup {
    folder: tempfile::TempDir,
}

impl Setup {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("plugins_registry")).expect("made");
        Self { folder }
    }

    fn registry(&self) -> PathBuf {
        self.folder.path().join("plugins_registry")
    }

    async fn sockets(&self) -> Vec<String> {
        let found = LinuxPluginRegistry::new(self.folder.path()).scan().await.expect("read");
        let registry = format!("{}/", self.registry().display());
        found.keys().map(|path| path.strip_prefix(&registry).expect("below").to_owned()).collect()
    }
}

/// RES-47.
#[tokio::test]
async fn only_sockets_are_plugins() {
    let setup = Setup::new();
    let registry = setup.registry();
    let _plain = UnixListener::bind(registry.join("a.sock")).expect("bound");
    let _hidden = UnixListener::bind(registry.join(".b.sock")).expect("bound");
    std::fs::create_dir(registry.join("below")).expect("made");
    let _below = UnixListener::bind(registry.join("below/c.sock")).expect("bound");
    std::fs::write(registry.join("file.sock"), "").expect("written");
    symlink(registry.join("a.sock"), registry.join("link.sock")).expect("linked");
    symlink("/", registry.join("root")).expect("linked");
    nix::unistd::mkfifo(&registry.join("fifo.sock"), nix::sys::stat::Mode::S_IRWXU).expect("made");
    assert_eq!(setup.sockets().await, ["a.sock", "below/c.sock"]);
}

/// RES-47.
#[tokio::test]
async fn a_socket_is_hinted_at_when_it_comes_in_a_new_folder_too() {
    let setup = Setup::new();
    let watched = LinuxPluginRegistry::new(setup.folder.path());
    let mut hints = watched.watch().await.expect("watched");
    let first = UnixListener::bind(setup.registry().join("a.sock")).expect("bound");
    timeout(LONG, hints.next()).await.expect("hinted").expect("goes on");
    let before = watched.scan().await.expect("read");
    std::fs::create_dir(setup.registry().join("below")).expect("made");
    timeout(LONG, hints.next()).await.expect("hinted").expect("goes on");
    let _second = UnixListener::bind(setup.registry().join("below/b.sock")).expect("bound");
    timeout(LONG, hints.next()).await.expect("hinted").expect("goes on");
    assert_eq!(setup.sockets().await, ["a.sock", "below/b.sock"]);
    // Made anew at once it is another one, whatever number the file system gives it.
    drop(first);
    std::fs::remove_file(setup.registry().join("a.sock")).expect("removed");
    let _again = UnixListener::bind(setup.registry().join("a.sock")).expect("bound");
    timeout(LONG, hints.next()).await.expect("hinted").expect("goes on");
    let after = watched.scan().await.expect("read");
    let path = setup.registry().join("a.sock").display().to_string();
    assert_ne!(before[&path], after[&path]);
}

/// RES-47.
#[tokio::test]
async fn a_plugin_says_who_it_is_and_hears_the_verdict() {
    let setup = Setup::new();
    let driver = Driver::new("drv", setup.folder.path());
    let _serving = driver.serve(&setup.registry());
    let socket = setup.registry().join("drv-reg.sock").display().to_string();
    let info = GrpcRegistration.info(&socket).await.expect("answered");
    assert_eq!((info.kind.as_str(), info.name.as_str()), ("CSIPlugin", "drv"));
    GrpcRegistration.notify(&socket, None).await.expect("told");
    GrpcRegistration.notify(&socket, Some("not today")).await.expect("told");
    assert_eq!(driver.seen().verdicts, [(true, String::new()), (false, "not today".to_owned())]);
    driver.switches().hangs.insert("GetInfo");
    let hung = GrpcRegistration.info(&socket).await.expect_err("hangs").to_string();
    assert!(hung.contains("no answer to GetInfo within 1 s"), "{hung}");
}

/// RES-47: what is in the registry may be hostile.
#[tokio::test]
async fn a_link_is_not_followed_and_a_dead_socket_is_told() {
    let setup = Setup::new();
    let driver = Driver::new("drv", setup.folder.path());
    let _serving = driver.serve(&setup.registry());
    let link = setup.registry().join("link.sock");
    symlink(setup.registry().join("drv-reg.sock"), &link).expect("linked");
    let refused = GrpcRegistration.info(&link.display().to_string()).await.expect_err("a link").to_string();
    assert!(refused.contains("it is not a socket"), "{refused}");
    let dead = setup.registry().join("dead.sock");
    drop(UnixListener::bind(&dead).expect("bound"));
    let refused = GrpcRegistration.info(&dead.display().to_string()).await.expect_err("nobody listens").to_string();
    assert!(refused.starts_with("RegisterPlugin error -- dial failed at socket"), "{refused}");
}

fn stage_request(volume: &str) -> StageRequest {
    let access = Access::Mount { fs_type: "ext4".into(), flags: vec!["noatime".into()], group: Some(7) };
    StageRequest {
        volume: volume.into(),
        publish_context: Texts::from([("lun".to_owned(), "3".to_owned())]),
        staging: "/staging".into(),
        capability: Capability { access, mode: AccessMode::SingleNodeWriter },
        secrets: Texts::from([("password".to_owned(), "hunter2".to_owned())]),
        context: Texts::new(),
    }
}

fn calls() -> (GrpcCsi, PluginCalls) {
    let calls = PluginCalls::new(Arc::new(SystemClock::start()));
    (GrpcCsi::new(calls.clone(), Arc::new(Unobserved)), calls)
}

/// Keeps the calls that it hears of.
#[derive(Default)]
struct Counted(std::sync::Mutex<Vec<String>>);

impl crate::platform::observer::Observer for Counted {
    fn observe(&self, what: crate::platform::observer::Observation<'_>) {
        if let crate::platform::observer::Observation::DriverCalled { driver, method, code, migrated, .. } = what {
            self.0.lock().unwrap().push(format!("{driver} {method} {code} {migrated}"));
        }
    }
}

/// VOL-52: a driver that has no name yet is not counted.
#[tokio::test]
async fn calls_are_counted_under_their_drivers_name() {
    let folder = tempfile::tempdir().unwrap();
    let driver = Driver::new("drv.test", folder.path());
    let _serving = driver.serve(folder.path());
    driver.switches().fails.insert("NodeGetInfo", [WireCode::Internal].into());
    let counted = Arc::new(Counted::default());
    let calls = GrpcCsi::new(PluginCalls::new(Arc::new(SystemClock::start())), counted.clone());
    let at = folder.path().join("csi.sock").display().to_string();
    calls.capabilities(&at).await.unwrap();
    calls.name(&at, "drv.test");
    calls.node_info(&at).await.unwrap_err();
    as_migrated(true, calls.capabilities(&at)).await.unwrap();
    let expected =
        ["drv.test /csi.v1.Node/NodeGetInfo Internal false", "drv.test /csi.v1.Node/NodeGetCapabilities OK true"];
    assert_eq!(*counted.0.lock().unwrap(), expected);
}

/// VOL-41, VOL-45.
#[tokio::test]
async fn a_call_reaches_the_driver_whole_and_its_refusal_comes_back() {
    let setup = Setup::new();
    let driver = Driver::new("drv", setup.folder.path());
    let _serving = driver.serve(&setup.registry());
    let at = setup.folder.path().join("csi.sock").display().to_string();
    let (csi, _) = calls();
    driver.switches().capabilities.extend(["VOLUME_MOUNT_GROUP", "EXPAND_VOLUME"]);
    driver.switches().idle.insert("NodeStageVolume");
    let can = csi.capabilities(&at).await.expect("answered");
    assert!(can.stages && can.gives_group && can.expands && !can.measures);
    csi.stage(&at, stage_request("h-1")).await.expect("staged");
    let asked = driver.seen().staged.expect("asked");
    assert_eq!((asked.staging_target_path.as_str(), asked.publish_context["lun"].as_str()), ("/staging", "3"));
    assert_eq!(asked.secrets["password"], "hunter2");
    assert!(!format!("{asked:?}").contains("hunter2"));
    let capability = asked.volume_capability.expect("there");
    let Some(wire::csi_v1::volume_capability::AccessType::Mount(mount)) = capability.access_type else {
        panic!("a mount")
    };
    assert_eq!((mount.fs_type.as_str(), mount.volume_mount_group.as_str()), ("ext4", "7"));
    driver.switches().fails.entry("NodeStageVolume").or_default().extend([WireCode::Internal, WireCode::Aborted]);
    let refused = csi.stage(&at, stage_request("h-1")).await.expect_err("refused");
    assert_eq!(refused.to_string(), "rpc error: code = Internal desc = NodeStageVolume is to fail");
    assert!(refused.is_final());
    let pending = csi.stage(&at, stage_request("h-1")).await.expect_err("refused");
    assert!(!pending.is_final() && pending.code() == Code::Aborted);
}

/// VOL-45: a driver that is not there, or comes back, is no other volume's business.
#[tokio::test]
async fn a_driver_that_dies_is_reached_again_when_it_is_back() {
    let setup = Setup::new();
    let driver = Driver::new("drv", setup.folder.path());
    let at = setup.folder.path().join("csi.sock").display().to_string();
    let (csi, _) = calls();
    let gone = csi.node_info(&at).await.expect_err("not there");
    assert!(matches!(gone.problem, CallProblem::Unreachable(_)) && !gone.is_final(), "{gone}");
    let serving = driver.serve(&setup.registry());
    driver.switches().topology.insert("zone".into(), "a".into());
    assert_eq!(csi.node_info(&at).await.expect("answered").topology["zone"], "a");
    drop(serving);
    while csi.node_info(&at).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let _serving = driver.serve(&setup.registry());
    let back = async {
        while csi.node_info(&at).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, back).await.expect("it is reached again");
}

/// A driver that hangs has so many calls open at most, and each is seen.
#[tokio::test]
async fn open_calls_are_bounded_seen_and_given_up() {
    let setup = Setup::new();
    let driver = Driver::new("drv", setup.folder.path());
    let _serving = driver.serve(&setup.registry());
    let at = setup.folder.path().join("csi.sock").display().to_string();
    let (csi, calls) = calls();
    driver.switches().hangs.insert("NodeStageVolume");
    let hung: Vec<_> =
        (0..super::calls::OPEN_MAX).map(|number| csi.stage(&at, stage_request(&number.to_string()))).collect();
    let hung = futures_util::future::join_all(hung);
    let mut hung = std::pin::pin!(hung);
    timeout(Duration::from_millis(500), &mut hung).await.expect_err("they hang");
    let open = calls.open();
    assert_eq!(open.len(), super::calls::OPEN_MAX);
    assert_eq!((open[0].0.as_str(), open[0].1.method, open[0].1.about.as_str()), (&*at, "NodeStageVolume", "0"));
    let waits = timeout(Duration::from_millis(200), csi.capabilities(&at)).await;
    waits.expect_err("there is no place");
    assert_eq!(calls.open().len(), super::calls::OPEN_MAX, "one that nobody waits for is not open");
}
