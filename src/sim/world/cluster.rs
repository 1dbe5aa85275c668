//! The cluster around the simulated node: what its people and controllers do by way of the API server, and what is checked
//! of each thing that the agent does there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Wanted, World};
use crate::actors::kit::trace::lock;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::node_stop::StopCause;
use crate::logic::status::status_sync::MIRROR_ANNOTATION;
use crate::sim::api_server::link::{Link, asked_since};
use crate::sim::api_server::refusal::Refused;
use crate::sim::api_server::{ApiServer, Deed, Who};
use crate::sim::faults::Fault;
use crate::sim::invariants::{API_BOUNDED, GONE_FIRST, OWN_DELETES, STATUS_FORWARD};
use crate::sim::node::NODE_NAME;
use crate::sim::node::cgroups::cgroup_tree;
use crate::sim::node::{Node, spawn};
use crate::sim::pods::SimPod;

/// The namespace of all pods.
pub const NAMESPACE: &str = "default";
/// How long a calm cluster is looked at.
const CALM: Duration = Duration::from_secs(300);
/// By then what waited for the API server is sent: a call that hangs has its deadline, and is tried again.
const BACKLOG_MAX: Duration = Duration::from_secs(120);
/// Requests that an agent with nothing to do may make a minute: its Lease, its watches, its node's status.
const REQUESTS_A_MINUTE: u64 = 12;
/// The same for each pod: those that end again and again have Events and statuses.
const REQUESTS_A_MINUTE_AND_POD: u64 = 2;

fn collection(plural: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/{plural}")
}

/// The API server of a node, with those who watch over what its agent does there.
pub(in crate::sim) fn begin(seed: u64, node: &Arc<Node>, longest_way: Duration) -> Arc<Link> {
    let time = node.time.clone();
    let server = ApiServer::new(move || time.truly());
    let witness = Arc::downgrade(node);
    server.set_witness(move |deed| {
        if let Some(node) = witness.upgrade() {
            if deed.key.plural == "pods"
                || (deed.key.plural == "nodes" && deed.before.is_none() != deed.after.is_none())
            {
                node.changed();
            }
            check(&node, deed);
        }
    });
    for (plural, object) in [
        ("serviceaccounts", json!({ "metadata": { "name": "default" } })),
        (
            "services",
            json!({ "metadata": { "name": "kubernetes" }, "spec": { "clusterIP": "10.96.0.1", "ports": [{ "port": 443 }] } }),
        ),
    ] {
        server.admin("POST", &collection(plural), object).expect("the first of its name");
    }
    let link = Link::new(seed, server, longest_way);
    spawn(Arc::clone(&link).trouble(Arc::clone(node)));
    link
}

fn uid_of(pod: &Value) -> PodUid {
    PodUid::from(pod["metadata"]["uid"].as_str().unwrap_or_default())
}

/// Whether the pod is a mirror.
pub(super) fn is_mirror(pod: &Value) -> bool {
    !pod["metadata"]["annotations"][MIRROR_ANNOTATION].is_null()
}

/// Checks each change that the agent makes.
fn check(node: &Node, deed: &Deed<'_>) {
    if deed.key.plural != "pods" {
        return;
    }
    let by_agent = matches!(deed.who, Who::Node(_));
    if let (Some(before), None) = (deed.before, deed.after) {
        let uid = uid_of(before);
        node.story.tell("api", format!("pod {} is gone, {uid}", deed.key.name));
        if by_agent {
            check_delete(node, deed, before);
            node.invariants.api_pod_gone(&uid);
        }
    }
    let (true, Some(before), Some(after)) = (by_agent, deed.before, deed.after) else { return };
    if is_mirror(after) {
        return; // A static pod may come back under its name and UID.
    }
    tell_status(node, deed, before, after);
    let evicted = <&str>::from(StopCause::Evicted);
    if after["status"]["reason"] == evicted && before["status"]["reason"] != evicted {
        node.invariants.told_evicted(&uid_of(after), &deed.key.name);
    }
    let phase = |pod: &Value| pod["status"]["phase"].as_str().unwrap_or_default().to_owned();
    let (was, is) = (phase(before), phase(after));
    if matches!(was.as_str(), "Succeeded" | "Failed") && was != is {
        node.invariants.broken(STATUS_FORWARD, format!("{} was {was} and is {is} in the API", deed.key.name));
    }
    // A patch on its way when its sender failed may come after the next one's: counts are put right by the next look at what
    // the API server shows, which the end of each run proves.
    let late = node.late_call.load(Ordering::Relaxed);
    for status in after["status"]["containerStatuses"].as_array().into_iter().flatten().filter(|_| !late) {
        let known = before["status"]["containerStatuses"].as_array().into_iter().flatten();
        let known =
            known.filter(|known| known["name"] == status["name"]).find_map(|known| known["restartCount"].as_i64());
        let count = status["restartCount"].as_i64().unwrap_or_default();
        if known.is_some_and(|known| known > count) {
            let how = format!("{} of {}: {count} restarts after {known:?} in the API", status["name"], deed.key.name);
            node.invariants.broken(STATUS_FORWARD, how);
        }
    }
}

fn tell_status(node: &Node, deed: &Deed<'_>, before: &Value, after: &Value) {
    let short = |pod: &Value| {
        let ready = pod["status"]["conditions"].as_array().into_iter().flatten();
        let ready = ready.filter(|one| one["type"] == "Ready").find_map(|one| one["status"].as_str()).unwrap_or("-");
        format!("{}, Ready {ready}", pod["status"]["phase"].as_str().unwrap_or("-"))
    };
    if short(before) != short(after) {
        node.story.tell("api", format!("pod {} is told: {}", deed.key.name, short(after)));
    }
}

/// The agent takes pods away for good: only those that it means, and only when nothing of them is left.
fn check_delete(node: &Node, deed: &Deed<'_>, before: &Value) {
    let (uid, name) = (uid_of(before), &deed.key.name);
    let options = &deed.request.body;
    if options["preconditions"]["uid"] != *uid.as_str() || options["gracePeriodSeconds"] != 0 {
        node.invariants.broken(OWN_DELETES, format!("{name} is deleted with {options}"));
    }
    if is_mirror(before) {
        return; // Its static pod lives on, or not: that is another matter.
    }
    if before["metadata"]["deletionTimestamp"].is_null() {
        node.invariants.broken(OWN_DELETES, format!("{name} is deleted although nobody asked for it"));
    }
    if let Some(running) = lock(&node.containers).running_of(&uid) {
        node.invariants.broken(GONE_FIRST, format!("{name} is taken from the API while {running} runs"));
    }
    if lock(&node.disk).volumes.iter().any(|place| place.uid == uid) {
        node.invariants.broken(GONE_FIRST, format!("{name} is taken from the API while a volume of it is there"));
    }
    // A sandbox that comes late, after its caller left, has a cgroup again.
    let late = node.faults.had(Fault::LateEffects);
    if !late && lock(&node.cgroups).pods(&cgroup_tree()).iter().any(|(owner, _)| *owner == uid) {
        node.invariants.broken(GONE_FIRST, format!("{name} is taken from the API while its cgroup is there"));
    }
}

impl World {
    /// The way to the API server.
    ///
    /// # Panics
    /// In a world without one.
    pub fn link(&self) -> &Arc<Link> {
        self.shared.link.as_ref().expect("this world has an API server")
    }

    /// The API server.
    ///
    /// # Panics
    /// In a world without one.
    pub fn api(&self) -> &Arc<ApiServer> {
        &self.link().server
    }

    /// Somebody makes a pod that is placed on this node.
    ///
    /// # Errors
    /// When one of its name is there still, or when nobody would place it here: the Node does not tell of its resources.
    pub fn create(&self, pod: &SimPod) -> Result<PodUid, Refused> {
        let mut object: Value = serde_json::from_slice(&pod.manifest()).expect("a manifest is JSON");
        object["spec"]["nodeName"] = NODE_NAME.into();
        self.check_placed(pod)?;
        // The first part of the agent that hears of the pod finds that it is wanted.
        let mut wanted = lock(&self.shared.api_pods);
        let made = self.api().admin("POST", &collection("pods"), object)?;
        let uid = uid_of(&made);
        self.node().story.tell("user", format!("makes the pod {}, {uid}", pod.name));
        wanted.insert(pod.name.clone(), Wanted { uid: uid.clone(), pod: pod.clone() });
        self.node().invariants.pod_wanted(&uid, pod);
        self.node().invariants.api_pod_wanted(&uid);
        Ok(uid)
    }

    /// Somebody deletes a pod; it has its own time, or so many seconds. One that is not there is no matter.
    pub fn delete_pod(&self, name: &str, grace: Option<u32>) {
        let options = grace.map_or(Value::Null, |grace| json!({ "gracePeriodSeconds": grace }));
        if let Some(wanted) = lock(&self.shared.api_pods).remove(name) {
            let how = grace.map_or_else(String::new, |grace| format!(" within {grace}s"));
            self.node().story.tell("user", format!("deletes the pod {name}{how}"));
            self.node().invariants.pod_unwanted(&wanted.uid);
        }
        drop(self.api().admin("DELETE", &format!("{}/{name}", collection("pods")), options)); // It may be gone already.
    }

    /// Somebody changes a label or an annotation of a pod, if it is there.
    pub fn mark_pod(&self, name: &str, field: &str, value: &str) {
        let patch = json!({ "metadata": { field: { "changed": value } } });
        drop(self.api().admin("PATCH", &format!("{}/{name}", collection("pods")), patch));
    }

    /// Somebody adds an ephemeral container to a pod, as `kubectl debug` does; `does` says what it does.
    pub fn debug_pod(&self, name: &str, container: &str, does: &str) {
        self.node().story.tell("user", format!("debugs the pod {name} with {container}"));
        let one = json!({
            "name": container, "image": "debugger", "args": [does], "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        });
        let patch = json!({ "spec": { "ephemeralContainers": [one] } });
        drop(self.api().admin("PATCH", &format!("{}/{name}", collection("pods")), patch));
    }

    /// Somebody writes a ConfigMap or a Secret (its texts are not encoded: nobody looks).
    pub fn write_data(&self, plural: &'static str, name: &str, key: &str, value: &str) {
        let object = json!({ "metadata": { "name": name }, "data": { key: value } });
        let place = format!("{}/{name}", collection(plural));
        if self.api().admin("PUT", &place, object.clone()).is_err() {
            drop(self.api().admin("POST", &collection(plural), object));
        }
    }

    /// Somebody deletes the Node object; the garbage collector sees to what it owned, and the agent is started again, as
    /// one has to.
    pub async fn delete_node(&self) {
        let Some(node) = self.api().get("nodes", "", NODE_NAME) else { return };
        self.node().story.tell("user", "deletes the Node");
        drop(self.api().admin("DELETE", &format!("/api/v1/nodes/{NODE_NAME}"), Value::Null));
        self.sleep(self.random().between(Duration::from_millis(100), Duration::from_secs(5))).await;
        self.collect_garbage(&node["metadata"]["uid"]);
        self.sleep(self.random().between(Duration::ZERO, Duration::from_secs(9))).await;
        self.kill_agent();
    }

    fn collect_garbage(&self, owner: &Value) {
        let is_owned = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            owners.is_some_and(|owners| owners.iter().any(|one| one["uid"] == *owner))
        };
        for (plural, group) in [("pods", "/api/v1"), ("leases", "/apis/coordination.k8s.io/v1")] {
            for object in self.api().all(plural).into_iter().filter(|object| is_owned(object)) {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
                let place = format!("{group}/namespaces/{}/{plural}/{}", text("namespace"), text("name"));
                drop(self.api().admin("DELETE", &place, Value::Null));
            }
        }
    }

    /// The pods of the API that are wanted, by name.
    pub fn api_wanted(&self) -> BTreeMap<String, Wanted> {
        lock(&self.shared.api_pods).clone()
    }

    /// A pod as the API server has it.
    pub fn api_pod(&self, name: &str) -> Option<Arc<Value>> {
        self.api().get("pods", NAMESPACE, name)
    }

    /// Nothing goes wrong any more and all is as it should be; then nothing is wanted and nothing is left.
    pub async fn finish_cluster(&self) {
        self.calm_down().await;
        for name in self.api_wanted().keys() {
            self.delete_pod(name, None);
        }
        self.delete_all();
        self.settle().await;
        self.logs_go().await;
    }

    /// Nothing goes wrong any more, and all is as it should be.
    pub async fn calm_down(&self) {
        self.stop_faults();
        if self.agent().is_none() {
            self.start_agent();
        }
        if self.api().get("nodes", "", NODE_NAME).is_none() {
            // It was deleted while the agent knew it, or never made; only a new start makes it.
            self.sleep(Duration::from_secs(30)).await;
            if self.api().get("nodes", "", NODE_NAME).is_none() {
                self.kill_agent();
            }
        }
        self.settle().await;
    }

    /// A cluster in which nothing happens costs next to nothing, once Events that waited for the API server are sent.
    pub async fn check_calm(&self) {
        self.sleep(BACKLOG_MAX).await;
        let before = self.api().asked();
        self.sleep(CALM).await;
        let asked = asked_since(self.api(), &before);
        let pods = u64::try_from(self.api_wanted().len() + self.wanted().len()).unwrap_or_default();
        let most = CALM.as_secs() / 60 * (REQUESTS_A_MINUTE + REQUESTS_A_MINUTE_AND_POD * pods);
        let all: u64 = asked.values().sum();
        self.node().story.tell("world", format!("{all} requests in {}s: {asked:?}", CALM.as_secs()));
        if all > most {
            let how = format!("{all} requests in {}s for {pods} pods: {asked:?}", CALM.as_secs());
            self.node().invariants.broken(API_BOUNDED, how);
        }
    }
}
