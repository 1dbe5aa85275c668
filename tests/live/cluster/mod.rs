//! A node of a real cluster: etcd and kube-apiserver on loopback, asked and told by the real kubectl.
//!
//! `KUBEBUILDER_ASSETS=<folder>` names where they are; where it is not set, one line says so, and [`crate::served`] is what
//! is left: the simulated API server. Most tests have their control plane one after the other ([`crate::control_plane`]); one of a test's own
//! belongs to the node's directory, and is taken down with it (`scripts/cluster.sh`).

mod absence;
pub(super) mod certificates;
mod credentials;
pub(super) mod csi;
mod eviction;
mod identity;
mod joining;
mod kubectl;
mod objects;
mod offline;
mod pods;
mod pressure;
mod resize;
mod server;
mod volumes;

use std::cell::Cell;
use std::fs;
use std::io::{ErrorKind, Write};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use podwright::cri::ContainerState;
use podwright::cri::ContainerStatus;
use podwright::testing::skips::needs;
use serde_json::Value;

use crate::control_plane::Lent;
use crate::harness::{NODE_NAME, Node, PATIENCE, condition, http_get};
use crate::node::machine::cluster_script;
use crate::pods::with;

/// A node and its control plane.
pub struct Cluster {
    // Before the control plane: it is the first to go.
    node: Node,
    lent: Option<Lent>,
    kubectl: PathBuf,
    /// The address at which an administrator's requests are taken, without TLS.
    admin: String,
    /// Further flags of the API server.
    api_flags: String,
    /// Whether the node is to ask for nothing that it has no right to, which is looked at in the end.
    rights_count: Cell<bool>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.rights_count.get() && !std::thread::panicking() {
            self.assert_nothing_was_forbidden();
        }
    }
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
        Self::with(|node| Some(Lent::to(&node.dir)), "")
    }

    /// The same with a control plane that nobody had before, for tests of what it remembers or which end a part of it.
    pub fn alone() -> Option<Self> {
        Self::with_api_flags("")
    }

    /// The same with further flags of the API server, parted by spaces.
    pub fn with_api_flags(flags: &str) -> Option<Self> {
        Self::with(|_| None, flags)
    }

    fn with(lend: impl FnOnce(&Node) -> Option<Lent>, flags: &str) -> Option<Self> {
        let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from) else {
            // A folder with etcd, kube-apiserver and kubectl; without it only the simulated API server is asked.
            needs("KUBEBUILDER_ASSETS");
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
        let lent = lend(&node);
        let (kubectl, api_flags, rights_count) = (assets.join("kubectl"), flags.to_owned(), Cell::new(true));
        let is_own = lent.is_none();
        let mut cluster = Self { node, lent, kubectl, admin: String::new(), api_flags, rights_count };
        if is_own {
            cluster.script("start", &[NODE_NAME]);
        }
        fs::read_to_string(cluster.dir.join("cluster/admin")).unwrap().trim().clone_into(&mut cluster.admin);
        Some(cluster)
    }

    /// A cluster whose node is Ready.
    pub fn joined() -> Option<Self> {
        Self::new().map(Self::ready)
    }

    /// The same with a control plane that nobody had before.
    pub fn joined_alone() -> Option<Self> {
        Self::alone().map(Self::ready)
    }

    fn ready(mut self) -> Self {
        self.start_agent();
        self.wait_ready();
        self
    }

    /// Waits until the API server shows the node Ready, and pods may come.
    pub fn wait_ready(&self) {
        self.wait("node", NODE_NAME, "Ready", |node| condition(node, "Ready") == "True");
        // The controllers take it off in time; where there are none, nobody does.
        let _ = self.try_kubectl(&["taint", "node", NODE_NAME, "node.kubernetes.io/not-ready-"]);
    }

    fn script(&self, command: &str, arguments: &[&str]) {
        let arguments = [&[self.dir.to_str().unwrap()], arguments].concat();
        cluster_script(command, &arguments, &self.api_flags).unwrap_or_else(|problem| panic!("{problem}"));
    }

    /// Ends the API server, which must be this test's own; the node is without one. The next one does not know at first
    /// whose objects are whose, and refuses what the node has a right to: what was asked for counts until now.
    pub fn stop_api(&self) {
        assert!(self.lent.is_none(), "others will have this control plane: Cluster::alone has its own");
        self.assert_nothing_was_forbidden();
        self.rights_count.set(false);
        self.script("stop-api", &[]);
    }

    /// Starts it again.
    pub fn start_api(&self) {
        self.script("start-api", &[]);
    }

    // ------------------------------------------------------------ kubectl

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        let kubeconfig = self.dir.join("cluster/pki/admin.conf");
        command.arg("--kubeconfig").arg(kubeconfig).args(["--cache-dir", "/dev/null"]).args(arguments);
        command
    }

    /// The output of kubectl, or why it fails.
    pub fn try_kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.command(arguments).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// The output of kubectl.
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
        // One that cannot go on reads nothing; why, it says.
        let written = child.stdin.take().expect("piped").write_all(object.to_string().as_bytes());
        assert!(
            written.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) || written.is_ok(),
            "{written:?}"
        );
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
        let size = self.find("pv", claim).expect("the volume is there")["spec"]["capacity"].clone();
        for (kind, status) in [
            ("pv", serde_json::json!({ "phase": "Bound" })),
            ("pvc", serde_json::json!({ "phase": "Bound", "capacity": size })),
        ] {
            let bound = serde_json::json!({ "status": status }).to_string();
            self.kubectl(&["patch", kind, claim, "--subresource=status", "--type=merge", "-p", &bound]);
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
        self.try_find(kind, name).unwrap_or_else(|error| panic!("{kind} {name}: {error}"))
    }

    /// The same, or why there is no answer: an API server that is busy may not answer in time.
    fn try_find(&self, kind: &str, name: &str) -> Result<Option<Value>, String> {
        self.look(&format!("{}/{name}", collection(kind)))
    }

    /// All objects of a kind in the default namespace.
    pub fn list(&self, kind: &str) -> Vec<Value> {
        let list = self.look(collection(kind)).unwrap_or_else(|error| panic!("list of {kind}: {error}"));
        list.expect("every kind has a list")["items"].as_array().cloned().unwrap_or_default()
    }

    /// An administrator's view of a path of the API, through the proxy that the control plane came with: waiting by kubectl
    /// would cost a process ten times a second. `None` where there is no such object.
    fn look(&self, path: &str) -> Result<Option<Value>, String> {
        let (status, body) = http_get(&self.admin, path).ok_or("the proxy does not answer")?;
        match status {
            200 => serde_json::from_str(&body).map(Some).map_err(|error| format!("{path}: {error}")),
            404 => Ok(None),
            _ => Err(format!("{path}: {status} {body}")),
        }
    }

    /// Waits until the API server shows an object of which `wanted` holds.
    pub fn wait(&self, kind: &str, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Ok(None);
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.eventually(&format!("{kind} {name} is {what}"), || {
                last = self.try_find(kind, name);
                last.clone().ok().flatten().filter(|object| wanted(object))
            })
        }));
        let seen = |last: Result<Option<Value>, String>| {
            last.map_or_else(|error| error, |object| format!("{:#}", object.unwrap_or_default()["status"]))
        };
        found.unwrap_or_else(|_| panic!("{kind} {name} is not {what}: {}", seen(last)))
    }

    /// Waits until a pod is Ready.
    pub fn wait_pod_ready(&self, name: &str) -> Value {
        self.wait("pod", name, "Ready", |pod| condition(pod, "Ready") == "True")
    }

    /// Waits until the API server has no such object.
    pub fn wait_no(&self, kind: &str, name: &str) {
        self.eventually_none(&format!("no {kind} {name}"), || {
            let found = self.try_find(kind, name);
            found.unwrap_or_else(|error| Some(Value::String(error))).into_iter().collect()
        });
    }

    /// Waits for an Event of this reason about an object; its message.
    pub fn wait_event(&self, name: &str, reason: &str) -> String {
        self.eventually(&format!("an Event {reason} of {name}"), || {
            self.messages(name, reason).ok()?.into_iter().next()
        })
    }

    /// Waits for an Event of this text: there may be others before, as when the API server's own caches lag behind.
    pub fn wait_event_saying(&self, name: &str, reason: &str, message: &str) {
        self.wait_event_like(name, reason, |told| told == message);
    }

    /// The same of one that `wanted` is content with.
    pub fn wait_event_like(&self, name: &str, reason: &str, wanted: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let told = self.messages(name, reason);
            if told.as_ref().is_ok_and(|told| told.iter().any(|message| wanted(message))) {
                return;
            }
            assert!(Instant::now() < deadline, "waited in vain for an Event {reason} of {name}: {told:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The messages of the Events of this reason about an object.
    fn messages(&self, name: &str, reason: &str) -> Result<Vec<String>, String> {
        let of = format!("involvedObject.name={name},reason={reason}");
        let list = self.look(&format!("/api/v1/events?fieldSelector={of}"))?.ok_or("no list of Events")?;
        let message = |event: &Value| event["message"].as_str().unwrap_or_default().to_owned();
        Ok(list["items"].as_array().into_iter().flatten().map(message).collect())
    }

    /// The container of this name that runs, once it does.
    pub fn wait_container(&self, pod: &str, container: &str) -> ContainerStatus {
        self.eventually(&format!("container {container} of {pod} runs"), || {
            let mut all = self.containers_of(pod).into_iter();
            all.find(|one| one.metadata.name == container && one.state == ContainerState::Running)
        })
    }

    // ------------------------------------------------------------ what the node asked of the API server

    /// The API server's record of the node's requests so far.
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

    /// The bodies of the node's requests to make or change its Node, the oldest first.
    pub fn node_writes(&self) -> Vec<Value> {
        let is_write = |line: &&Value| {
            let verb = line["verb"].as_str().unwrap_or_default();
            line["objectRef"]["resource"] == "nodes" && ["create", "update", "patch"].contains(&verb)
        };
        self.audit().iter().filter(is_write).map(|line| line["requestObject"].clone()).collect()
    }

    /// Fails when the node asked for something that it has no right to. The authorizer may hear of a pod later than the
    /// node: what it refused, and granted after that, the node had a right to. It is waited for, since the node asks again.
    fn assert_nothing_was_forbidden(&self) {
        self.eventually_none("what was asked without a right to", || self.forbidden());
    }

    /// The requests that were refused, and not granted later.
    fn forbidden(&self) -> Vec<Value> {
        let audit = self.audit();
        // By what they are about: two watches of one object differ in how long they are to last.
        // A watch is in the log once it has ended: the list that was granted before it counts.
        let verb =
            |line: &Value| line["verb"].as_str().map(|verb| if verb == "watch" { "list" } else { verb }.to_owned());
        let same = |one: &Value, other: &Value| verb(one) == verb(other) && one["objectRef"] == other["objectRef"];
        let is_forbidden = |line: &Value| line["responseStatus"]["code"] == 403;
        // All are of one form and zone, so texts are in order as times are.
        let time = |line: &Value| line["requestReceivedTimestamp"].as_str().unwrap_or_default().to_owned();
        let granted_later =
            |one: &Value| audit.iter().any(|other| same(one, other) && !is_forbidden(other) && time(other) > time(one));
        audit.iter().filter(|line| is_forbidden(line) && !granted_later(line)).cloned().collect()
    }
}

/// Where the objects of a kind are, those of the default namespace where there are namespaces.
fn collection(kind: &str) -> &'static str {
    match kind {
        "pod" => "/api/v1/namespaces/default/pods",
        "pvc" => "/api/v1/namespaces/default/persistentvolumeclaims",
        "event" => "/api/v1/namespaces/default/events",
        "serviceaccount" => "/api/v1/namespaces/default/serviceaccounts",
        "pv" => "/api/v1/persistentvolumes",
        "node" => "/api/v1/nodes",
        "csinode" => "/apis/storage.k8s.io/v1/csinodes",
        "volumeattachment" => "/apis/storage.k8s.io/v1/volumeattachments",
        "certificatesigningrequest" => "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        "podcertificaterequest" => "/apis/certificates.k8s.io/v1beta1/podcertificaterequests",
        _ => panic!("{kind}: where are they?"),
    }
}
