//! Steps that change the node: its programs, its configuration, its static pods, its devices.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use podwright::platform::plugins::wire::deviceplugin_v1beta1::{ContainerAllocateResponse, DeviceSpec, Mount};
use podwright::testing::device_plugin::Plugin;
use serde_json::{Value, json};

use super::{PATIENCE, Play, condition};
use crate::generate::merge as merged;
use crate::scenario::Order;

impl Play<'_> {
    pub(super) fn agent(&self, order: Order) -> Result<Value, String> {
        if order == Order::Swap {
            self.meeting.swap_agents()?;
            return self.wait_node_ready().map(|()| Value::Null);
        }
        if order != Order::Start {
            self.node.stop_agent();
        }
        if order != Order::Stop {
            self.node.start_agent()?;
        }
        Ok(Value::Null)
    }

    pub(super) fn runtime(&self, order: Order) -> Result<Value, String> {
        if order != Order::Start {
            self.node.runtime("stop-containerd")?;
        }
        if order != Order::Stop {
            self.node.runtime("start-containerd")?;
        }
        Ok(Value::Null)
    }

    pub(super) fn configure(&mut self, change: &Value) -> Result<Value, String> {
        self.is_configured = true;
        self.node.stop_agent();
        self.node.configure(change);
        // As the documentation asks of an operator who changes a policy: both agents refuse the other policy's state.
        for name in ["cpu_manager_state", "memory_manager_state"] {
            let _ = fs::remove_file(self.node.dir.join("kubelet").join(name));
        }
        self.node.start_agent()?;
        self.wait_node_ready().map(|()| Value::Null)
    }

    /// Whether the agent that runs now has said that the node is ready: its new time of a heartbeat does.
    pub(super) fn wait_node_ready(&self) -> Result<(), String> {
        let path = format!("/api/v1/nodes/{}", self.node.side.node_name());
        let began = Instant::now();
        // An agent says so with its first heartbeat, and what an earlier one said counts for nothing.
        while began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_secs(1));
            let node = self.api.get(&path).unwrap_or_default();
            if began.elapsed() > Duration::from_secs(8) && condition(&node, "Ready") == Some("True") {
                return Ok(());
            }
        }
        Err("the node did not become ready".to_owned())
    }

    /// The node's pods may go on only once it has heard of the boot.
    pub(super) fn boot(&self) -> Result<Value, String> {
        self.meeting.boot()?;
        self.wait_node_ready().map(|()| Value::Null)
    }

    fn manifest(&self, pod: &str) -> PathBuf {
        self.node.dir.join("manifests").join(format!("{}-{pod}.json", self.namespace))
    }

    /// Writes the manifest of a static pod, as an operator does.
    pub(super) fn apply_manifest(&self, pod: &Value) -> Result<Value, String> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut pod = pod.clone();
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["namespace"] = json!(self.namespace);
        let path = self.manifest(&name);
        // A half of a manifest is none: it comes into the folder as a whole.
        let aside = self.node.dir.join(format!("{}-{name}.json", self.namespace));
        let written = fs::write(&aside, format!("{pod:#}\n")).and_then(|()| fs::rename(&aside, &path));
        written.map(|()| Value::Null).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Changes a manifest, or removes it without a change.
    pub(super) fn change_manifest(&mut self, pod: &str, merge: &Value) -> Result<Value, String> {
        if merge.is_null() {
            return self.remove_manifest(pod).map(|()| Value::Null);
        }
        let text = fs::read_to_string(self.manifest(pod)).map_err(|error| error.to_string())?;
        let mut object = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        merged(&mut object, merge);
        self.apply_manifest(&object)
    }

    /// Removes a manifest that is still there; the files of its pod are looked at before.
    pub(super) fn remove_manifest(&mut self, pod: &str) -> Result<(), String> {
        let path = self.manifest(pod);
        if !path.exists() {
            return Ok(());
        }
        self.look_at_files(pod);
        self.deleted.insert(pod.to_owned(), Instant::now());
        self.seen_until.insert(pod.to_owned(), self.watch.seen().len());
        fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Starts a device plugin that gives each container a variable, a file and a device node; the node has its devices then.
    pub(super) fn plugin(&mut self, resource: &str, devices: &[String]) -> Result<Value, String> {
        let folder = self.node.device_plugins();
        let ids: Vec<&str> = devices.iter().map(String::as_str).collect();
        let plugin = Plugin::new(resource, &folder, &ids);
        let file = self.node.dir.join("device.txt");
        fs::write(&file, "from the plugin\n").map_err(|error| error.to_string())?;
        plugin.switches().options.pre_start_required = true;
        plugin.switches().grant = ContainerAllocateResponse {
            envs: [("DEVICE".to_owned(), "given".to_owned())].into(),
            annotations: [("example.com/device".to_owned(), "given".to_owned())].into(),
            mounts: vec![Mount {
                container_path: "/device.txt".to_owned(),
                host_path: file.display().to_string(),
                read_only: true,
            }],
            devices: vec![DeviceSpec {
                container_path: "/dev/given".to_owned(),
                host_path: "/dev/null".to_owned(),
                permissions: "rw".to_owned(),
            }],
            ..Default::default()
        };
        let agent = folder.join("kubelet.sock");
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(&agent).is_err() {
            if Instant::now() > deadline {
                return Err(format!("nobody listens at {}", agent.display()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        // An agent that starts removes what it finds there.
        self.plugins.push(plugin.serve());
        let tokio =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        tokio.block_on(plugin.register(&agent)).map_err(|error| error.to_string())?;
        self.wait_devices(resource, devices.len())
    }

    /// Waits until the node has so many devices that can be given.
    pub(super) fn wait_devices(&self, resource: &str, count: usize) -> Result<Value, String> {
        let path = format!("/api/v1/nodes/{}", self.node.side.node_name());
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let node = self.api.get(&path).unwrap_or_default();
            if node["status"]["allocatable"][resource].as_str() == Some(&count.to_string()) {
                return Ok(Value::Null);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Err(format!("the node has not {count} of {resource}"))
    }
}
