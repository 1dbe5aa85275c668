//! The calls to device plugins, against a plugin on real sockets.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tonic::Code as WireCode;

use super::super::wire::deviceplugin_v1beta1 as wire;
use super::*;
use crate::logic::plugins::call_error::{CallProblem, Code};
use crate::logic::resources::device_manager::devices::{DeviceMount, DeviceNode, Health};
use crate::platform::host::clock::{Clock, SystemClock};
use crate::testing::device_plugin::{Plugin, device};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);
const GPU: &str = "vendor.com/gpu";

struct Setup {
    folder: tempfile::TempDir,
    calls: GrpcDevices,
}

impl Setup {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let calls = GrpcDevices::new(folder.path().to_path_buf(), &clock);
        Self { folder, calls }
    }

    fn plugin(&self, devices: &[&str]) -> (Plugin, String) {
        let plugin = Plugin::new(GPU, self.folder.path(), devices);
        let at = plugin.socket().display().to_string();
        (plugin, at)
    }
}

/// The next answer: `a!` of one that is not healthy, `a@1` of one near that node.
async fn next(list: &Arc<dyn DeviceList>) -> String {
    let devices = timeout(LONG, list.next()).await.expect("told").expect("readable").expect("goes on");
    let word = |(name, device): (&String, &crate::logic::resources::device_manager::devices::Device)| {
        let health = if device.health == Health::Healthy { "" } else { "!" };
        let nodes: String = device.nodes.iter().map(|node| format!("@{node}")).collect();
        format!("{name}{nodes}{health}")
    };
    devices.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// RES-39, RES-41.
#[tokio::test]
async fn calls_reach_the_plugin_whole_and_its_answers_come_back() {
    let setup = Setup::new();
    let (plugin, at) = setup.plugin(&["a", "b!", "c@1", "d@-1"]);
    let _serving = plugin.serve();
    plugin.switches().options =
        wire::DevicePluginOptions { pre_start_required: true, get_preferred_allocation_available: true };
    let options = setup.calls.connect(&at).await.expect("answered");
    assert!(options.pre_start && options.preferred);
    let list = setup.calls.list(&at);
    assert_eq!(next(&list).await, "a b! c@1 d", "a node below zero is none");
    plugin.tell(&["a!", "e"]);
    assert_eq!(next(&list).await, "a! e", "each answer is all devices");
    plugin.switches().grant = wire::ContainerAllocateResponse {
        envs: [("GPU".to_owned(), "a".to_owned())].into(),
        mounts: vec![wire::Mount { container_path: "/lib/gpu".into(), host_path: "/opt/gpu".into(), read_only: true }],
        devices: vec![wire::DeviceSpec {
            container_path: "/dev/gpu".into(),
            host_path: "/dev/gpu0".into(),
            permissions: "rw".into(),
        }],
        annotations: [("gpu".to_owned(), "yes".to_owned())].into(),
        cdi_devices: vec![wire::CdiDevice { name: "vendor.com/gpu=a".into() }],
    };
    let grant = setup.calls.allocate(&at, texts(&["a", "b"])).await.expect("answered");
    let mount = DeviceMount { container_path: "/lib/gpu".into(), host_path: "/opt/gpu".into(), read_only: true };
    let node =
        DeviceNode { container_path: "/dev/gpu".into(), host_path: "/dev/gpu0".into(), permissions: "rw".into() };
    assert_eq!((grant.mounts, grant.devices), (vec![mount], vec![node]));
    assert_eq!((grant.envs["GPU"].as_str(), grant.annotations["gpu"].as_str()), ("a", "yes"));
    assert_eq!(grant.cdi_devices, ["vendor.com/gpu=a"]);
    let chosen = setup.calls.prefer(&at, texts(&["a", "b", "c"]), texts(&["a"]), 2).await.expect("answered");
    assert_eq!(chosen, ["a", "c"]);
    setup.calls.pre_start(&at, texts(&["a"])).await.expect("answered");
    let calls = plugin.seen().calls;
    let expected = ["GetDevicePluginOptions", "ListAndWatch", "Allocate a,b", "GetPreferredAllocation a,b,c"];
    assert_eq!(calls, [&expected[..], &["PreStartContainer a"]].concat());
}

/// RES-41: some plugins answer for each device.
#[tokio::test]
async fn res_41_the_first_of_several_answers_counts() {
    let setup = Setup::new();
    let (plugin, at) = setup.plugin(&["a"]);
    let _serving = plugin.serve();
    plugin.switches().grants = 2;
    plugin.switches().grant.envs = [("GPU".to_owned(), "a".to_owned())].into();
    let grant = setup.calls.allocate(&at, texts(&["a"])).await.expect("answered");
    assert_eq!(grant.envs["GPU"], "a");
}

/// RES-39, SEC-56: a plugin may have a folder of its own below the directory; no link on the way is followed.
#[tokio::test]
async fn res_39_a_socket_in_a_folder_below_the_directory_is_reached() {
    let setup = Setup::new();
    let below = setup.folder.path().join("vendor");
    std::fs::create_dir(&below).expect("made");
    let plugin = Plugin::new(GPU, &below, &["a"]);
    let _serving = plugin.serve();
    setup.calls.connect(&plugin.socket().display().to_string()).await.expect("answered");
    symlink(&below, setup.folder.path().join("link")).expect("linked");
    let linked = setup.folder.path().join("link").join(plugin.endpoint()).display().to_string();
    let refused = setup.calls.connect(&linked).await.expect_err("a link");
    assert!(matches!(refused.problem, CallProblem::Unreachable(_)), "{refused}");
}

/// RES-39, SEC-56: the directory may hold anything.
#[tokio::test]
async fn sec_56_an_endpoint_that_is_no_socket_of_the_directory_is_not_followed() {
    let setup = Setup::new();
    let elsewhere = tempfile::tempdir().expect("a folder");
    let plugin = Plugin::new(GPU, elsewhere.path(), &["a"]);
    let _serving = plugin.serve();
    symlink(plugin.socket(), setup.folder.path().join("link.sock")).expect("linked");
    std::fs::write(setup.folder.path().join("file.sock"), "").expect("written");
    for name in ["link.sock", "file.sock", "none.sock"] {
        let at = setup.folder.path().join(name).display().to_string();
        let refused = setup.calls.connect(&at).await.expect_err("no socket");
        assert!(matches!(refused.problem, CallProblem::Unreachable(_)), "{refused}");
    }
    assert!(plugin.seen().calls.is_empty());
    // The plugins' registry names sockets elsewhere.
    setup.calls.connect(&plugin.socket().display().to_string()).await.expect("answered");
}

/// RES-39: garbage of one plugin.
#[tokio::test]
async fn answers_that_are_none_are_refused() {
    let setup = Setup::new();
    let (plugin, at) = setup.plugin(&["a"]);
    let _serving = plugin.serve();
    plugin.switches().grants = 0;
    let refused = setup.calls.allocate(&at, texts(&["a"])).await.expect_err("no answer").to_string();
    assert!(refused.contains("no containers return in allocation response"), "{refused}");
    plugin.switches().fails.entry("Allocate").or_default().push_back(WireCode::ResourceExhausted);
    let refused = setup.calls.allocate(&at, texts(&["a"])).await.expect_err("refused");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let list = setup.calls.list(&at);
    assert_eq!(next(&list).await, "a");
    plugin.tell(&[&"x".repeat(2000)]);
    let refused = list.next().await.expect_err("a long name").to_string();
    assert!(refused.contains("the name of a device is too long"), "{refused}");
}

/// RES-40: the largest sets.
#[tokio::test]
async fn ten_thousand_devices_are_taken_and_too_many_are_not() {
    let setup = Setup::new();
    let (plugin, at) = setup.plugin(&[]);
    let _serving = plugin.serve();
    let list = setup.calls.list(&at);
    assert_eq!(next(&list).await, "", "none is a set, too");
    let names = |count: usize| (0..count).map(|number| format!("d{number}")).collect::<Vec<_>>();
    let told = |names: &[String]| plugin.tell(&names.iter().map(String::as_str).collect::<Vec<_>>());
    told(&names(10_000));
    let found = timeout(LONG, list.next()).await.expect("told").expect("readable").expect("goes on");
    assert_eq!(found.len(), 10_000);
    told(&names(100_001));
    let refused = timeout(LONG, list.next()).await.expect("told").expect_err("too many").to_string();
    assert!(refused.contains("it has too many devices"), "{refused}");
    assert_eq!(device("a@2").topology.expect("there").nodes.len(), 1);
}

/// RES-39: a plugin that dies ends its list, and the one that takes its place is reached by a connection of its own.
#[tokio::test]
async fn a_plugin_that_dies_ends_its_list_and_a_new_one_is_reached() {
    let setup = Setup::new();
    let (plugin, at) = setup.plugin(&["a"]);
    let serving = plugin.serve();
    setup.calls.connect(&at).await.expect("answered");
    let list = setup.calls.list(&at);
    assert_eq!(next(&list).await, "a");
    drop(serving);
    let ended = timeout(LONG, list.next()).await.expect("told");
    assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
    setup.calls.connect(&at).await.expect_err("it is gone");
    let (plugin, _) = setup.plugin(&["b"]);
    let _serving = plugin.serve();
    setup.calls.connect(&at).await.expect("answered");
    assert_eq!(next(&setup.calls.list(&at)).await, "b");
}

/// RES-40: a plugin that tells its devices without an end gets a bounded part of the agent's time.
#[tokio::test]
async fn a_flood_of_answers_is_read_at_a_bounded_pace() {
    let setup = Setup::new();
    let (plugin, at) = setup.plugin(&["a"; 100]);
    plugin.switches().floods = true;
    let _serving = plugin.serve();
    let list = setup.calls.list(&at);
    let mut count = 0;
    let read = async {
        loop {
            next(&list).await;
            count += 1;
        }
    };
    timeout(Duration::from_secs(1), read).await.expect_err("it has no end");
    // 1 ms after each, and 20 us for each device.
    assert!((5..=334).contains(&count), "{count}");
}
