//! A node of a real cluster: etcd and kube-apiserver on loopback, asked and told by the real kubectl.
//!
//! `KUBEBUILDER_ASSETS=<folder>` names where they are; where it is not set, one line says so and nothing is tested. The
//! control plane belongs to the node's directory and is taken down with it (`scripts/cluster.sh`).

mod absence;
mod certificates;
mod credentials;
mod identity;
mod joining;
mod kubectl;
mod objects;
mod offline;
mod pods;
mod resize;
mod server;
mod volumes;

use std::fs;
use std::io::Write;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use podwright::cri::ContainerState;
use podwright::cri::ContainerStatus;
use serde_json::Value;

use crate::harness::{NODE_NAME, Node, condition};
use crate::machine::skip;
use crate::pods::with;

/// A node and its control plane.
pub struct Cluster {
    node: Node,
    kubectl: PathBuf,
    /// Further flags of the API server.
    api_flags: String,
}

impl Deref for Cluster {
    type Target = Node;
    fn deref(&self) -> &Node {
        &self.node
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut Node {
        &mut self.node
    }
}

impl Cluster {
    /// A control plane, and a runtime with no agent yet. `None`, after one line on standard error, where this machine
    /// cannot have one.
    pub fn new() -> Option<Self> {
        Self::with_api_flags("")
    }

    /// The same with further flags of the API server, parted by spaces.
    pub fn with_api_flags(flags: &str) -> Option<Self> {
        let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from) else {
            skip("of a cluster", "KUBEBUILDER_ASSETS names no folder with etcd, kube-apiserver and kubectl");
            return None;
        };
        let mut node = Node::new()?;
        let mut cluster_flags =
            ["--kubeconfig", node.dir.join("cluster/pki/kubelet.conf").to_str().unwrap()].map(str::to_owned).to_vec();
        node.flags.append(&mut cluster_flags);
        node.flags.extend(["--node-ip".to_owned(), node.env["NODE_IP"].clone()]);
        let pki = |name: &str| node.dir.join("cluster/pki").join(name).to_str().unwrap().to_owned();
        // As kubeadm sets a node up: the API server knows whom it asks, and the node who asks it.
        node.configure(serde_json::json!({
            "address": "0.0.0.0",
            "authentication": {
                "x509": { "clientCAFile": pki("ca.crt") },
                "webhook": { "enabled": true },
                "anonymous": { "enabled": false },
            },
            "authorization": { "mode": "Webhook" },
            "tlsCertFile": pki("kubelet-serving.crt"),
            "tlsPrivateKeyFile": pki("kubelet-serving.key"),
        }));
        let cluster = Self { node, kubectl: assets.join("kubectl"), api_flags: flags.to_owned() };
        cluster.script(&["start"], &[NODE_NAME]);
        Some(cluster)
    }

    /// A cluster whose node is Ready.
    pub fn joined() -> Option<Self> {
        let mut cluster = Self::new()?;
        cluster.start_agent();
        cluster.wait_ready();
        Some(cluster)
    }

    /// Waits until the API server shows the node Ready, and pods may come.
    pub fn wait_ready(&self) {
        self.wait("node", NODE_NAME, "Ready", |node| condition(node, "Ready") == "True");
        // The controllers take it off in time; where there are none, nobody does.
        let _ = self.try_kubectl(&["taint", "node", NODE_NAME, "node.kubernetes.io/not-ready-"]);
    }

    fn script(&self, command: &[&str], arguments: &[&str]) {
        // Through a file: the programs that were started would keep a pipe open.
        let said = self.dir.join("cluster.said");
        let file = fs::File::create(&said).unwrap();
        let status = Command::new("scripts/cluster.sh")
            .args(command)
            .arg(&self.dir)
            .args(arguments)
            .env("API_FLAGS", &self.api_flags)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .status()
            .unwrap();
        assert!(status.success(), "cluster.sh {command:?}: {}", fs::read_to_string(said).unwrap_or_default());
    }

    /// Ends the API server; the node is on its own.
    pub fn stop_api(&self) {
        self.script(&["stop-api"], &[]);
    }

    /// Starts it again.
    pub fn start_api(&self) {
        self.script(&["start-api"], &[]);
    }

    // ------------------------------------------------------------ kubectl

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        let kubeconfig = self.dir.join("cluster/pki/admin.conf");
        command.arg("--kubeconfig").arg(kubeconfig).args(["--cache-dir", "/dev/null"]).args(arguments);
        command
    }

    /// What kubectl prints, or why it fails.
    pub fn try_kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.command(arguments).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// What kubectl prints.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.try_kubectl(arguments).unwrap_or_else(|error| panic!("kubectl {}: {error}", arguments.join(" ")))
    }

    /// Makes an object, or changes it.
    pub fn apply_object(&self, object: &Value) {
        // An API server that has just started does not tell its schemas yet.
        let not_yet = "the server is currently unable to handle the request";
        self.eventually("the API server takes it", || match self.try_apply(object) {
            Ok(()) => Some(()),
            Err(why) if why.contains(not_yet) => None,
            Err(why) => panic!("{object}: {why}"),
        });
    }

    fn try_apply(&self, object: &Value) -> Result<(), String> {
        let mut child = self
            .command(&["apply", "--server-side", "--force-conflicts", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().expect("piped").write_all(object.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let why = || String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(why()) }
    }

    /// Plays the controller that binds a claim to the volume which it names, where there is no controller manager.
    pub fn bind(&self, claim: &str) {
        if self.kubectl.with_file_name("kube-controller-manager").exists() {
            return;
        }
        let uid = self.find("pvc", claim).expect("the claim is there")["metadata"]["uid"].clone();
        let reference = serde_json::json!({ "namespace": "default", "name": claim, "uid": uid });
        let spec = serde_json::json!({ "spec": { "claimRef": reference } }).to_string();
        self.kubectl(&["patch", "pv", claim, "--type=merge", "-p", &spec]);
        for kind in ["pv", "pvc"] {
            let bound = r#"{"status":{"phase":"Bound"}}"#;
            self.kubectl(&["patch", kind, claim, "--subresource=status", "--type=merge", "-p", bound]);
        }
    }

    /// Plays the controller that makes the claim of a pod's ephemeral volume, where there is no controller manager; waits
    /// for the claim where there is one.
    pub fn make_own_claim(&self, pod: &str, volume: &str, claim: &Value) {
        let name = format!("{pod}-{volume}");
        if self.kubectl.with_file_name("kube-controller-manager").exists() {
            self.wait("pvc", &name, "made", |_| true);
            return;
        }
        let uid = self.find("pod", pod).expect("the pod is there")["metadata"]["uid"].clone();
        let owner =
            serde_json::json!([{ "apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": true }]);
        let owned = serde_json::json!({ "metadata": { "name": name, "ownerReferences": owner } });
        self.apply_object(&with(claim.clone(), owned));
    }

    /// Makes a pod on this node.
    pub fn create_pod(&self, pod: Value) {
        self.apply_object(&with(pod, serde_json::json!({ "spec": { "nodeName": NODE_NAME } })));
    }

    /// An object of the default namespace, or of none; `None` when there is no such one.
    pub fn find(&self, kind: &str, name: &str) -> Option<Value> {
        let text = self.kubectl(&["get", kind, name, "--ignore-not-found", "-o", "json"]);
        (!text.is_empty()).then(|| serde_json::from_str(&text).expect("kubectl prints JSON"))
    }

    /// All objects of a kind in the default namespace.
    pub fn list(&self, kind: &str) -> Vec<Value> {
        let list: Value =
            serde_json::from_str(&self.kubectl(&["get", kind, "-o", "json"])).expect("kubectl prints JSON");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until the API server shows an object of which `wanted` holds.
    pub fn wait(&self, kind: &str, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = None;
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.eventually(&format!("{kind} {name} is {what}"), || {
                last = self.find(kind, name);
                last.clone().filter(|object| wanted(object))
            })
        }));
        found.unwrap_or_else(|_| panic!("{kind} {name} is not {what}: {:#}", last.unwrap_or_default()["status"]))
    }

    /// Waits until a pod is Ready.
    pub fn wait_pod_ready(&self, name: &str) -> Value {
        self.wait("pod", name, "Ready", |pod| condition(pod, "Ready") == "True")
    }

    /// Waits until the API server has no such object.
    pub fn wait_no(&self, kind: &str, name: &str) {
        self.eventually_none(&format!("no {kind} {name}"), || self.find(kind, name).into_iter().collect());
    }

    /// Waits for an Event of this reason about an object; its message.
    pub fn wait_event(&self, name: &str, reason: &str) -> String {
        let of = format!("involvedObject.name={name},reason={reason}");
        self.eventually(&format!("an Event {reason} of {name}"), || {
            let text = self.kubectl(&["get", "events", "-A", "--field-selector", &of, "-o", "json"]);
            let list: Value = serde_json::from_str(&text).expect("kubectl prints JSON");
            list["items"].as_array()?.first().map(|event| event["message"].as_str().unwrap_or_default().to_owned())
        })
    }

    /// Waits for an Event of this text: there may be others before, as when the API server's own caches lag behind.
    pub fn wait_event_saying(&self, name: &str, reason: &str, message: &str) {
        let of = format!("involvedObject.name={name},reason={reason}");
        self.eventually(&format!("an Event {reason} of {name}: {message}"), || {
            let text = self.kubectl(&["get", "events", "-A", "--field-selector", &of, "-o", "json"]);
            let list: Value = serde_json::from_str(&text).expect("kubectl prints JSON");
            list["items"].as_array()?.iter().any(|event| event["message"] == message).then_some(())
        });
    }

    /// The container of this name that runs, once it does.
    pub fn wait_container(&self, pod: &str, container: &str) -> ContainerStatus {
        self.eventually(&format!("container {container} of {pod} runs"), || {
            let mut all = self.containers_of(pod).into_iter();
            all.find(|one| one.metadata.name == container && one.state == ContainerState::Running)
        })
    }

    // ------------------------------------------------------------ what the node asked of the API server

    /// What the API server wrote down of the node's requests so far.
    fn audit(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.dir.join("cluster/audit.log")).unwrap_or_default();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let of_node =
            |line: &Value| line["user"]["username"].as_str().is_some_and(|user| user.starts_with("system:node:"));
        lines.filter(of_node).collect()
    }

    /// The requests of the node so far: verb, resource with its subresource, and status code.
    pub fn requests(&self) -> Vec<(String, String, u64)> {
        let request = |line: &Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (resource, part) = (text(&line["objectRef"]["resource"]), text(&line["objectRef"]["subresource"]));
            let what = if part.is_empty() { resource } else { format!("{resource}/{part}") };
            (text(&line["verb"]), what, line["responseStatus"]["code"].as_u64().unwrap_or(0))
        };
        self.audit().iter().map(request).collect()
    }

    /// How many such requests were answered well so far.
    pub fn count(&self, verb: &str, what: &str) -> usize {
        let requests = self.requests();
        let is_meant = |(of, about, code): &&(String, String, u64)| of == verb && about == what && code / 100 == 2;
        requests.iter().filter(is_meant).count()
    }

    /// Fails when the node asked for something that it has no right to. The authorizer may hear of a pod later than the
    /// node: what it refused, and granted after that, the node had a right to.
    pub fn assert_nothing_was_forbidden(&self) {
        let audit = self.audit();
        // By what they are about: two watches of one object differ in how long they are to last.
        let same = |one: &Value, other: &Value| one["verb"] == other["verb"] && one["objectRef"] == other["objectRef"];
        let is_forbidden = |line: &Value| line["responseStatus"]["code"] == 403;
        // All are of one form and zone, so texts are in order as times are.
        let time = |line: &Value| line["requestReceivedTimestamp"].as_str().unwrap_or_default().to_owned();
        let granted_later =
            |one: &Value| audit.iter().any(|other| same(one, other) && !is_forbidden(other) && time(other) > time(one));
        let forbidden: Vec<_> = audit.iter().filter(|line| is_forbidden(line) && !granted_later(line)).collect();
        assert!(forbidden.is_empty(), "asked without a right to: {forbidden:?}");
    }
}
