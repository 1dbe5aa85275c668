//! The steps of a scenario on one node. A step that fails is a fact like others: the next step follows.

mod machine;
mod settle;
mod streams;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use podwright::testing::device_plugin::Serving;
use serde_json::{Value, json};

use self::settle::settle_time;
use crate::api::{Api, Watch};
use crate::nodes::{Meeting, Node};
use crate::observe::{files, node};
use crate::scenario::{Patch, Scenario, Step, with_node};

/// How long a step waits for what it waits for.
const PATIENCE: Duration = Duration::from_secs(120);
/// Looks at the files of a pod until two of them are the same.
const LOOKS_MAX: usize = 5;
/// The time in which the controllers bind the claims that have a volume.
const BINDING_TIME: Duration = Duration::from_secs(4);
/// How long a pod may take to settle.
const SETTLE_PATIENCE: Duration = Duration::from_secs(75);
/// How long the end of the pods that are left may take.
const END_PATIENCE: Duration = Duration::from_secs(150);

/// One scenario on one node.
pub struct Play<'a> {
    /// The node.
    pub node: &'a Node,
    /// The API server.
    pub api: &'a Api,
    /// The place where this scenario's plays wait for each other.
    pub meeting: &'a Meeting,
    /// The agent has another configuration than at first.
    is_configured: bool,
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Its namespace here.
    pub namespace: String,
    /// All changes of its pods.
    pub watch: Watch,
    /// The outcome of each step that has one, by its number and kind.
    pub outcomes: serde_json::Map<String, Value>,
    /// The files of each pod before its deletion.
    pub files: serde_json::Map<String, Value>,
    /// The pods that were deleted, and when: the watch may not have heard of it yet.
    deleted: BTreeMap<String, Instant>,
    /// How much was seen when a manifest went: later statuses depend on when the mirror goes.
    pub seen_until: BTreeMap<String, usize>,
    /// The device plugins that serve until the end.
    plugins: Vec<Serving>,
}

impl<'a> Play<'a> {
    /// A namespace for the scenario, with the account that pods need.
    pub fn new(node: &'a Node, api: &'a Api, meeting: &'a Meeting, scenario: &'a Scenario) -> Result<Self, String> {
        let namespace = node.side.namespace(&scenario.place());
        api.post("/api/v1/namespaces", &json!({ "metadata": { "name": namespace } }))?;
        let deadline = Instant::now() + PATIENCE;
        for path in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
            while api.get(&format!("/api/v1/namespaces/{namespace}/{path}")).is_err() {
                if Instant::now() > deadline {
                    return Err(format!("no controller makes {path} of {namespace}"));
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        let watch = api.watch_pods(&namespace);
        Ok(Self {
            node,
            api,
            meeting,
            is_configured: false,
            scenario,
            namespace,
            watch,
            outcomes: serde_json::Map::new(),
            files: serde_json::Map::new(),
            deleted: BTreeMap::new(),
            seen_until: BTreeMap::new(),
            plugins: vec![],
        })
    }

    /// Goes through everything; then no pod is left.
    pub fn run(&mut self) {
        for object in &self.scenario.objects {
            let object = with_node(object, &self.node.side.node_name());
            let path = collection(&self.namespace, object["apiVersion"].as_str(), object["kind"].as_str());
            self.note("objects", self.api.post(&path, &object).map(|_| Value::Null));
        }
        if self.scenario.objects.iter().any(|object| object["kind"] == "PersistentVolumeClaim") {
            std::thread::sleep(BINDING_TIME);
        }
        // Another configuration, and devices, count for the pods from their beginning.
        let steps = self.scenario.all_steps();
        let is_before = |step: &&Step| matches!(step, Step::Configure(_) | Step::Plugin { .. } | Step::Rules {});
        let first = steps.iter().take_while(is_before).count();
        self.go_through(&steps[..first], 0);
        for pod in &self.scenario.manifests {
            self.note("manifests", self.apply_manifest(&with_node(pod, &self.node.side.node_name())));
        }
        for pod in self.scenario.pod_names().iter().filter(|pod| !self.scenario.is_made_later(pod)) {
            self.note("pods", self.make(pod));
        }
        self.go_through(&steps[first..], first);
        let outcome = self.end();
        self.note("end", outcome);
    }

    fn go_through(&mut self, steps: &[Step], first: usize) {
        for (number, step) in steps.iter().enumerate() {
            let outcome = self.step(step);
            self.note(&format!("{}-{}", first + number, word(step)), outcome);
        }
    }

    /// Nothing is noted of a success that says nothing.
    fn note(&mut self, name: &str, outcome: Result<Value, String>) {
        let value = match outcome {
            Ok(Value::Null) => return,
            Ok(value) => value,
            Err(problem) => json!({ "failed": problem }),
        };
        self.outcomes.insert(name.to_owned(), value);
    }

    fn step(&mut self, step: &Step) -> Result<Value, String> {
        match step {
            Step::Ready(pods) => self.all(pods, "ready", |pod| condition(pod, "Ready") == Some("True")),
            Step::Settled(pods) => {
                let deadline = Instant::now() + SETTLE_PATIENCE;
                pods.iter().for_each(|pod| self.wait_settled(pod, deadline));
                Ok(Value::Null)
            }
            Step::Phase { pod, is } => {
                self.wait(pod, is, |pod| is.split('|').any(|phase| pod["status"]["phase"] == phase))
            }
            Step::Restarts { pod, container, least } => self.wait(pod, "restarted", |pod| {
                container_status(pod, container)["restartCount"].as_u64().is_some_and(|count| count >= *least)
            }),
            Step::Waiting { pod, container, reason } => self.wait(pod, reason, |pod| {
                container_status(pod, container)["state"]["waiting"]["reason"] == reason.as_str()
            }),
            Step::Sleep(seconds) => {
                std::thread::sleep(Duration::from_secs_f64(*seconds));
                Ok(Value::Null)
            }
            Step::Patch(patch) => self.patch(patch),
            Step::Debug { pod, container } => self.debug(pod, container),
            Step::Exec { pod, container, command, input, spdy } => {
                let words = ["exec", "-i", pod, "-c", container, "--"];
                let command = command.iter().map(String::as_str);
                streams::kubectl(self, words.into_iter().chain(command), input, *spdy)
            }
            Step::Attach { pod, container, input, spdy } => {
                streams::kubectl(self, ["attach", "-i", "--quiet", pod, "-c", container], input, *spdy)
            }
            Step::Forward { pod, port, spdy } => streams::forward(self, pod, *port, *spdy),
            Step::Node {} => Ok(node::facts(self.api, &self.node.side.node_name(), &self.namespace)),
            Step::Logs { pod, container, options } => {
                let path = format!("{}/log?container={container}&{options}", self.pod_path(pod));
                let (status, text) = self.api.text(&path);
                Ok(json!({ "status": status, "text": text }))
            }
            Step::Manifest { pod, merge } => self.change_manifest(pod, merge),
            Step::Plugin { resource, devices } => self.plugin(resource, devices),
            Step::Rules {} => self.node.packet_rules(),
            Step::Boot {} => self.boot(),
            Step::Agent(order) => self.agent(*order),
            Step::Runtime(order) => self.runtime(*order),
            Step::Api(seconds) => self.meeting.api_away(Duration::from_secs_f64(*seconds)).map(|()| Value::Null),
            Step::Configure(change) => self.configure(change),
            Step::Make(pods) => pods.iter().try_fold(Value::Null, |_, pod| self.make(pod)),
            Step::Delete { pod, grace } => self.delete(pod.as_deref(), *grace),
            Step::Gone(pods) => {
                let deadline = Instant::now() + PATIENCE;
                pods.iter().try_fold(Value::Null, |_, pod| self.wait_gone(pod, deadline))
            }
        }
    }

    fn make(&self, pod: &str) -> Result<Value, String> {
        let wanted = self.scenario.pods.iter().find(|one| one["metadata"]["name"] == pod);
        let mut pod = with_node(wanted.ok_or("no such pod")?, &self.node.side.node_name());
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["spec"]["nodeName"] = json!(self.node.side.node_name());
        self.api.post(&format!("/api/v1/namespaces/{}/pods", self.namespace), &pod).map(|_| Value::Null)
    }

    fn pod_path(&self, pod: &str) -> String {
        format!("/api/v1/namespaces/{}/pods/{}", self.namespace, self.api_name(pod))
    }

    /// The name by which the API server has a pod: that of a static pod has its node's name in it.
    pub fn api_name(&self, pod: &str) -> String {
        if self.scenario.is_static(pod) { format!("{pod}-{}", self.node.side.node_name()) } else { pod.to_owned() }
    }

    fn newest(&self, pod: &str) -> Option<Value> {
        self.watch.newest(&self.api_name(pod))
    }

    fn all(&self, pods: &[String], what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value, String> {
        pods.iter().try_fold(Value::Null, |_, pod| self.wait(pod, what, &wanted))
    }

    fn wait(&self, pod: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value, String> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.newest(pod).is_some_and(|pod| wanted(&pod)) {
                return Ok(Value::Null);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("{pod} did not become {what}"))
    }

    /// A pod that never settles is compared as it is.
    fn wait_settled(&self, pod: &str, deadline: Instant) {
        let mut last = (Value::Null, Instant::now());
        while Instant::now() < deadline {
            let pod = self.newest(pod).unwrap_or_default();
            if pod["status"] != last.0 {
                last = (pod["status"].clone(), Instant::now());
            } else if settle_time(&pod).is_some_and(|time| last.1.elapsed() > time) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn wait_gone(&self, pod: &str, deadline: Instant) -> Result<Value, String> {
        while self.newest(pod).is_some() {
            if Instant::now() > deadline {
                return Err(format!("{pod} is not gone"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Value::Null)
    }

    fn patch(&self, patch: &Patch) -> Result<Value, String> {
        let merge = with_node(&patch.merge, &self.node.side.node_name());
        let pod = patch.pod.as_deref().and_then(|pod| self.newest(pod)).unwrap_or_default();
        if patch.unless_over && (pod["status"]["phase"] == "Failed" || pod["status"]["phase"] == "Succeeded") {
            return Ok(Value::Null);
        }
        let mut path = match (&patch.pod, &patch.name) {
            (Some(pod), _) => self.pod_path(pod),
            (None, Some(name)) => {
                format!("{}/{name}", collection(&self.namespace, None, patch.kind.as_deref()))
            }
            (None, None) => return Err("the patch names no object".to_owned()),
        };
        if let Some(subresource) = &patch.subresource {
            path = format!("{path}/{subresource}");
        }
        Ok(refusal(self.api.patch(&path, &merge)))
    }

    fn debug(&self, pod: &str, container: &Value) -> Result<Value, String> {
        let container = with_node(container, &self.node.side.node_name());
        let patch = json!({ "spec": { "ephemeralContainers": [container] } });
        Ok(refusal(self.api.patch(&format!("{}/ephemeralcontainers", self.pod_path(pod)), &patch)))
    }

    /// The files of pods are looked at just before their deletion.
    fn delete(&mut self, pod: Option<&str>, grace: Option<u64>) -> Result<Value, String> {
        let mut pods = pod.map_or_else(|| self.scenario.pod_names(), |pod| vec![pod.to_owned()]);
        // Those of other `make` steps are not there yet, or not any more.
        pods.retain(|pod| !self.scenario.is_made_later(pod) || self.newest(pod).is_some());
        for pod in &pods {
            self.look_at_files(pod);
        }
        for pod in &pods {
            self.deleted.entry(pod.clone()).or_insert_with(Instant::now);
            self.api.delete(&self.pod_path(pod), grace)?;
        }
        Ok(Value::Null)
    }

    fn look_at_files(&mut self, pod: &str) {
        let Some(object) = self.newest(pod) else { return };
        if !object["metadata"]["deletionTimestamp"].is_null() || self.deleted.contains_key(pod) {
            return;
        }
        let mut last = Value::Null;
        // A pod that has just changed still changes its files: those of a moment are no fact.
        for _ in 0..LOOKS_MAX {
            let now = files::of_pod(self.node, &object);
            let is_settled = now == last;
            last = now;
            if is_settled {
                break;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        self.files.insert(pod.to_owned(), last);
    }

    /// How long a pod took from its deletion until it was gone, in seconds.
    pub fn end_time(&self, pod: &str) -> Option<f64> {
        let time = self.watch.gone_at(&self.api_name(pod))?.checked_duration_since(*self.deleted.get(pod)?)?;
        Some((time.as_secs_f64() * 10.0).round() / 10.0)
    }

    /// Deletes the pods that are left, and waits until all are gone.
    fn end(&mut self) -> Result<Value, String> {
        let deadline = Instant::now() + END_PATIENCE;
        // The programs that the steps ended may be needed for that.
        if self.node.is_swapped() {
            self.meeting.swap_agents()?;
        }
        if !self.node.agent_lives() {
            self.node.start_agent()?;
        }
        if self.is_configured {
            self.configure(&json!({}))?;
        }
        let pods = self.scenario.pod_names();
        for pod in &pods {
            let left = self.newest(pod).filter(|_| !self.deleted.contains_key(pod));
            if left.is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
                self.look_at_files(pod);
                self.deleted.insert(pod.clone(), Instant::now());
                // A pod may go by itself meanwhile.
                self.api
                    .delete(&self.pod_path(pod), None)
                    .or_else(|problem| if problem.contains(": 404 ") { Ok(Value::Null) } else { Err(problem) })?;
            }
        }
        for pod in self.scenario.manifest_names() {
            self.remove_manifest(&pod)?;
        }
        let pods = self.scenario.all_names();
        pods.iter().try_fold(Value::Null, |_, pod| self.wait_gone(pod, deadline))
    }
}

/// The API server's word about a change that it does not take, which a scenario may be about.
fn refusal(answer: Result<Value, String>) -> Value {
    answer.map_or_else(|problem| json!({ "refused": problem }), |_| Value::Null)
}

fn word(step: &Step) -> &'static str {
    match step {
        Step::Ready(_) => "ready",
        Step::Settled(_) => "settled",
        Step::Phase { .. } => "phase",
        Step::Restarts { .. } => "restarts",
        Step::Waiting { .. } => "waiting",
        Step::Sleep(_) => "sleep",
        Step::Patch(_) => "patch",
        Step::Debug { .. } => "debug",
        Step::Exec { .. } => "exec",
        Step::Attach { .. } => "attach",
        Step::Forward { .. } => "forward",
        Step::Node {} => "node",
        Step::Logs { .. } => "logs",
        Step::Manifest { .. } => "manifest",
        Step::Plugin { .. } => "plugin",
        Step::Rules {} => "rules",
        Step::Boot {} => "boot",
        Step::Agent(_) => "agent",
        Step::Runtime(_) => "runtime",
        Step::Api(_) => "api",
        Step::Configure(_) => "configure",
        Step::Make(_) => "make",
        Step::Delete { .. } => "delete",
        Step::Gone(_) => "gone",
    }
}

/// The path of a kind's collection.
fn collection(namespace: &str, version: Option<&str>, kind: Option<&str>) -> String {
    let kind = kind.unwrap_or_default();
    let group = match (version, kind) {
        (Some(version), _) if version != "v1" => format!("/apis/{version}"),
        (None, "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => "/apis/apps/v1".to_owned(),
        (None, "Job" | "CronJob") => "/apis/batch/v1".to_owned(),
        _ => "/api/v1".to_owned(),
    };
    let plural = match kind.to_lowercase() {
        kind if kind.ends_with('s') => format!("{kind}es"),
        kind if kind.ends_with("cy") => format!("{}ies", &kind[..kind.len() - 1]),
        kind => format!("{kind}s"),
    };
    match kind {
        "Namespace" | "Node" | "PersistentVolume" | "PriorityClass" | "RuntimeClass" | "StorageClass" | "CSIDriver" => {
            format!("{group}/{plural}")
        }
        _ => format!("{group}/namespaces/{namespace}/{plural}"),
    }
}

/// The status of a condition.
fn condition<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    let conditions = pod["status"]["conditions"].as_array()?;
    conditions.iter().find(|one| one["type"] == name)?["status"].as_str()
}

/// The status of a container of any kind; JSON null without one.
fn container_status(pod: &Value, container: &str) -> Value {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let all = lists.iter().filter_map(|list| pod["status"][list].as_array()).flatten();
    all.clone().find(|status| status["name"] == container).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_have_their_paths() {
        assert_eq!(collection("n", Some("v1"), Some("ConfigMap")), "/api/v1/namespaces/n/configmaps");
        assert_eq!(collection("n", None, Some("PersistentVolume")), "/api/v1/persistentvolumes");
        assert_eq!(collection("n", None, Some("Ingress")), "/api/v1/namespaces/n/ingresses");
        assert_eq!(collection("n", Some("apps/v1"), Some("Deployment")), "/apis/apps/v1/namespaces/n/deployments");
    }
}
