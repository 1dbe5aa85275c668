//! Device plugins: one of our own, registered as plugins are, and a pod that has one of its devices.

use std::fs;
use std::os::unix::net::UnixStream;

use podwright::platform::plugins::wire::deviceplugin_v1beta1::{
    CdiDevice, ContainerAllocateResponse, DevicePluginOptions, DeviceSpec, Mount,
};
use podwright::testing::device_plugin::{Plugin, Serving};
use serde_json::{Value, json};

use crate::harness::{Node, container_status};
use crate::pods::{forever, pod, with};

const THING: &str = "example.com/thing";

/// Serves the plugin once the agent listens, which removes all sockets before, and registers it.
fn used(node: &Node, plugin: &Plugin) -> Serving {
    let agent = node.dir.join("device-plugins/kubelet.sock");
    node.eventually("the agent listens", || UnixStream::connect(&agent).ok());
    let serving = plugin.serve();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    node.eventually("the plugin registers", || tokio.block_on(plugin.register(&agent)).ok());
    serving
}

fn with_thing(name: &str) -> Value {
    let amounts = json!({ THING: "1" });
    pod(name, &[with(forever("main"), json!({ "resources": { "requests": amounts, "limits": amounts } }))])
}

/// RES-39, RES-41, RES-42, RES-44, RES-46: a static pod has a file, a variable and a device node of its plugin, which is called
/// before the container starts. A restart of the agent keeps them, and so does the end of the plugin, which the status tells.
#[test]
fn a_pod_has_a_device_of_its_plugin() {
    let Some(mut node) = Node::running() else { return };
    let folder = node.dir.join("device-plugins");
    let plugin = Plugin::new(THING, &folder, &["t1"]);
    fs::write(node.dir.join("thing.txt"), "from the plugin").unwrap();
    plugin.switches().options = DevicePluginOptions { pre_start_required: true, ..Default::default() };
    plugin.switches().grant = ContainerAllocateResponse {
        envs: [("THING".to_owned(), "t1".to_owned())].into(),
        mounts: vec![Mount {
            container_path: "/thing.txt".to_owned(),
            host_path: node.dir.join("thing.txt").display().to_string(),
            read_only: true,
        }],
        devices: vec![DeviceSpec {
            container_path: "/dev/thing".to_owned(),
            host_path: "/dev/null".to_owned(),
            permissions: "rw".to_owned(),
        }],
        cdi_devices: Vec::<CdiDevice>::new(),
        ..Default::default()
    };
    let serving = used(&node, &plugin);
    node.eventually("its device is known", || plugin_row(&node).filter(|row| row["devices"]["healthy"] == 1));
    node.apply(&with_thing("has"));
    let has = node.wait_running("has", "main");
    let seen = node.run_in(&has, "cat /thing.txt; echo; echo $THING; test -c /dev/thing && echo node");
    assert_eq!(seen.split_whitespace().collect::<Vec<_>>(), ["from", "the", "plugin", "t1", "node"]);
    let calls = plugin.seen().calls;
    let place = |call: &str| calls.iter().position(|made| made == call);
    assert!(place("Allocate t1") < place("PreStartContainer t1") && place("Allocate t1").is_some(), "{calls:?}");

    node.kill_agent();
    node.start_agent();
    node.see_a_round();
    assert_eq!(node.wait_running("has", "main").id, has.id);
    drop(serving);
    // By the other way of registering.
    let serving = plugin.serve_in_registry(&node.dir.join("kubelet/plugins_registry"));
    node.eventually("it is used", || plugin.seen().verdicts.last().filter(|(used, _)| *used).cloned());
    node.eventually("it is back", || plugin_row(&node).filter(|row| row["devices"]["healthy"] == 1));
    let health =
        |pod: &Value| container_status(pod, "main")["allocatedResourcesStatus"][0]["resources"][0]["health"].clone();
    node.wait_listed("has", "its device is healthy", |pod| health(pod) == "Healthy");
    plugin.tell(&["t1!"]);
    node.wait_listed("has", "its device is ill", |pod| health(pod) == "Unhealthy");
    plugin.tell(&["t1"]);
    node.wait_listed("has", "its device is well again", |pod| health(pod) == "Healthy");
    drop(serving);
    node.eventually("it is gone", || plugin_row(&node).filter(|row| row["state"] == "stopped"));
    node.wait_listed("has", "its device is not healthy", |pod| health(pod) == "Unhealthy");
    assert_eq!(node.wait_running("has", "main").id, has.id, "the pod goes on");
}

/// The plugin as the agent shows it.
fn plugin_row(node: &Node) -> Option<Value> {
    let rows = node.ask(&["plugins"])?;
    rows.as_array()?.iter().find(|row| row["name"] == THING).cloned()
}
