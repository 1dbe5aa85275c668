//! From pods to what leaves the agent: the requests for sandboxes and containers as they come through the socket, beside
//! those written by hand from the published rules (CRI-06 to CRI-14, CRI-37).
//!
//! `cases/*.yaml` hold pods and what is expected of each, told as differences from the plainest pod's, which
//! `cases/base.yaml` holds whole. A `null` takes something away. `$NAME` is the pod's name, `$ROOT` the agent's directory.

mod agent;
mod as_json;
mod runtime;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use podwright::cri::wire;
use podwright::logic::formats::yaml::{Duplicates, to_json};
use podwright::logic::model::ids::PodUid;
use serde_json::{Value, json};

use crate::fake::{Fake, Host};

/// One pod, and what is expected.
struct Case {
    name: String,
    pod: Arc<Pod>,
    settings: Value,
    /// `null` when none is to be made.
    sandbox: Value,
    containers: BTreeMap<String, Value>,
    /// Beginnings of Events that must come.
    events: Vec<String>,
}

/// Lays `patch` over `value`: objects are merged, `null` removes, all else replaces.
fn merge(value: &mut Value, patch: &Value) {
    match (value, patch) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, part) in new {
                if part.is_null() {
                    old.remove(key);
                } else {
                    merge(old.entry(key.clone()).or_insert(Value::Null), part);
                }
            }
        }
        (value, patch) => *value = patch.clone(),
    }
}

fn with(value: &Value, patch: &Value) -> Value {
    let mut value = value.clone();
    merge(&mut value, patch);
    value
}

/// `value` with every text passed through `change`.
fn texts(value: &Value, change: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => items.iter().map(|item| texts(item, change)).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, part)| (change(key), texts(part, change))).collect())
        }
        other => other.clone(),
    }
}

fn read(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap();
    to_json(&text, Duplicates::Refuse).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/conversion/cases");
    let base = read(&folder.join("base.yaml"));
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| !file.ends_with("base.yaml"));
    files.sort();
    let all = files.iter().flat_map(|file| read(file).as_array().expect("a list of cases").clone());
    all.map(|case| Case::new(&base, &case)).collect()
}

impl Case {
    fn new(base: &Value, case: &Value) -> Self {
        let known = ["name", "pod", "settings", "sandbox", "containers", "events"];
        for key in case.as_object().expect("a case").keys() {
            assert!(known.contains(&key.as_str()), "{key} says nothing");
        }
        let name = case["name"].as_str().expect("a case has a name").to_owned();
        let named = |value: &Value| texts(value, &|text| text.replace("$NAME", &name));
        let mut pod = named(&with(&base["pod"], case.get("pod").unwrap_or(&json!({}))));
        for list in ["containers", "initContainers"] {
            for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                *container = with(&base["container"], container);
            }
        }
        let sandbox = match case.get("sandbox") {
            Some(Value::Null) => Value::Null,
            Some(patch) => named(&with(&base["sandbox"], patch)),
            None => named(&base["sandbox"]),
        };
        let plain = json!({ "main": {} });
        let wanted = case.get("containers").unwrap_or(&plain).as_object().expect("containers by name");
        let of = |(container, patch): (&String, &Value)| {
            let expected = with(&base["expected"], patch);
            let expected = texts(&named(&expected), &|text| text.replace("$CONTAINER", container));
            (container.clone(), expected)
        };
        let events = case["events"].as_array().into_iter().flatten();
        let settings = case.get("settings").cloned().unwrap_or_else(|| json!({}));
        Self {
            pod: Arc::new(serde_json::from_value(pod).unwrap_or_else(|error| panic!("{name}: {error}"))),
            settings,
            sandbox,
            containers: wanted.iter().map(of).collect(),
            events: events.map(|event| event.as_str().expect("a text").replace("$NAME", &name)).collect(),
            name,
        }
    }

    fn uid(&self) -> PodUid {
        PodUid::from(self.pod.metadata.uid.as_deref().unwrap())
    }
}

/// Where two values differ.
fn differences(path: &str, expected: &Value, found: &Value, into: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(one), Value::Object(other)) => {
            for key in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
                let part = |of: &serde_json::Map<String, Value>| of.get(key).cloned().unwrap_or(json!("(nothing)"));
                differences(&format!("{path}.{key}"), &part(one), &part(other), into);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                differences(&format!("{path}[{index}]"), one, other, into);
            }
        }
        (one, other) if one == other => {}
        (one, other) => into.push(format!("{path}: expected {one}, found {other}")),
    }
}

/// The requests to the runtime, by the pod's name.
struct Asked<'a> {
    fake: &'a Fake,
    root: String,
}

impl Asked<'_> {
    /// Paths of this run's own folder, and the random names of termination logs, under names that stay.
    fn settled(&self, value: &Value) -> Value {
        let random = |text: &str| {
            let is_log = text.contains("/containers/") && text.starts_with("$ROOT/pods/");
            match text.rsplit_once('/').filter(|(_, name)| is_log && name.len() == 8) {
                Some((folder, _)) => format!("{folder}/$RANDOM"),
                None => text.to_owned(),
            }
        };
        texts(value, &|text| random(&text.replace(&self.root, "$ROOT")))
    }

    fn sandboxes(&self, pod: &str) -> Vec<Value> {
        let all = self.fake.asked::<wire::RunPodSandboxRequest>().into_iter();
        let name = |request: &wire::RunPodSandboxRequest| request.config.clone().unwrap().metadata.unwrap().name;
        all.filter(|one| name(one) == pod).map(|one| self.settled(&as_json::run_sandbox(&one))).collect()
    }

    /// By the container's name. Each also tells the sandbox' configuration anew, which must be the one it was run with.
    fn containers(&self, pod: &str) -> Vec<(String, Value)> {
        let all = self.fake.asked::<wire::CreateContainerRequest>().into_iter();
        let of = |request: &wire::CreateContainerRequest| request.sandbox_config.clone().unwrap();
        all.filter(|one| of(one).metadata.unwrap().name == pod)
            .map(|one| {
                let sandbox = self.settled(&as_json::sandbox(&of(&one)));
                assert_eq!(sandbox, self.sandboxes(pod)[0]["config"], "of {pod}");
                let name = one.config.clone().unwrap().metadata.unwrap().name;
                (name, self.settled(&as_json::create_container(&one)))
            })
            .collect()
    }
}

async fn check_events(agent: &Arc<podwright::actors::agent::Agent>, case: &Case) -> Result<(), String> {
    let told = agent::events(agent, &case.uid()).await;
    let missing: Vec<&String> =
        case.events.iter().filter(|event| !told.iter().any(|one| one.starts_with(*event))).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("{}: not told: {missing:?}, but {told:?}", case.name)) }
}

/// Runs the cases on one agent; gives where what was asked for differs from what was expected.
fn run(cases: &[Case]) -> Vec<String> {
    let fake = Fake::new();
    runtime::play(&fake);
    let host = Host::of(&fake);
    let folder = tempfile::tempdir().unwrap();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let asked = Asked { fake: &fake, root: folder.path().to_str().unwrap().to_owned() };
    let mut wrong = Vec::new();
    tokio.block_on(async {
        let agent = agent::agent(folder.path(), host.connect(), &cases[0].settings);
        agent::want(&agent, cases.iter().map(|case| (case.uid(), Arc::clone(&case.pod))).collect()).await;
        for case in cases {
            let mut last = Err("nothing was asked for".to_owned());
            for _ in 0..1200 {
                last = check_events(&agent, case).await;
                let enough = asked.containers(&case.name).len() >= case.containers.len()
                    && (case.sandbox.is_null() || !asked.sandboxes(&case.name).is_empty());
                if last.is_ok() && enough {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            wrong.extend(last.err());
            compare(case, &asked, &mut wrong);
        }
    });
    tokio.shutdown_background();
    wrong
}

fn compare(case: &Case, asked: &Asked<'_>, wrong: &mut Vec<String>) {
    let sandboxes = asked.sandboxes(&case.name);
    match (sandboxes.as_slice(), &case.sandbox) {
        ([], Value::Null) => {}
        ([one], expected) if !expected.is_null() => {
            differences(&format!("{}: sandbox", case.name), expected, one, wrong);
        }
        (others, _) => wrong.push(format!("{}: {} sandboxes", case.name, others.len())),
    }
    let found = asked.containers(&case.name);
    let names: BTreeSet<&String> = found.iter().map(|(name, _)| name).collect();
    let expected: BTreeSet<&String> = case.containers.keys().collect();
    if names != expected || found.len() != expected.len() {
        wrong.push(format!("{}: containers {names:?}, expected {expected:?}", case.name));
    }
    for (name, one) in &found {
        if let Some(expected) = case.containers.get(name) {
            differences(&format!("{}: {name}", case.name), expected, one, wrong);
        }
    }
}

/// Every field of these types, those apart that this version refuses, or that have tests of their own beside claims.
const FIELDS: [(&str, &[&str]); 4] = [
    (
        "/spec",
        &[
            "affinity",
            "automountServiceAccountToken",
            "containers",
            "dnsConfig",
            "dnsPolicy",
            "enableServiceLinks",
            "hostAliases",
            "hostIPC",
            "hostNetwork",
            "hostPID",
            "hostUsers",
            "hostname",
            "hostnameOverride",
            "imagePullSecrets",
            "initContainers",
            "nodeName",
            "nodeSelector",
            "os",
            "overhead",
            "preemptionPolicy",
            "priority",
            "priorityClassName",
            "readinessGates",
            "resources",
            "restartPolicy",
            "runtimeClassName",
            "schedulerName",
            "securityContext",
            "serviceAccount",
            "serviceAccountName",
            "setHostnameAsFQDN",
            "shareProcessNamespace",
            "subdomain",
            "terminationGracePeriodSeconds",
            "tolerations",
            "topologySpreadConstraints",
            "volumes",
        ],
    ),
    (
        "/spec/securityContext",
        &[
            "appArmorProfile",
            "fsGroup",
            "fsGroupChangePolicy",
            "runAsGroup",
            "runAsNonRoot",
            "runAsUser",
            "seLinuxChangePolicy",
            "seLinuxOptions",
            "seccompProfile",
            "supplementalGroups",
            "supplementalGroupsPolicy",
            "sysctls",
        ],
    ),
    (
        "/spec/containers/0",
        &[
            "args",
            "command",
            "env",
            "envFrom",
            "image",
            "imagePullPolicy",
            "name",
            "ports",
            "readinessProbe",
            "resizePolicy",
            "resources",
            "securityContext",
            "stdin",
            "stdinOnce",
            "terminationMessagePath",
            "terminationMessagePolicy",
            "tty",
            "volumeMounts",
            "workingDir",
        ],
    ),
    (
        "/spec/containers/0/securityContext",
        &[
            "allowPrivilegeEscalation",
            "appArmorProfile",
            "capabilities",
            "privileged",
            "procMount",
            "readOnlyRootFilesystem",
            "runAsGroup",
            "runAsNonRoot",
            "runAsUser",
            "seLinuxOptions",
            "seccompProfile",
        ],
    ),
];

#[test]
fn the_cases_together_use_every_field() {
    let pods: Vec<Value> = cases().iter().map(|case| serde_json::to_value(&*case.pod).unwrap()).collect();
    for (place, fields) in FIELDS {
        let used: BTreeSet<&String> =
            pods.iter().filter_map(|pod| pod.pointer(place)?.as_object()).flat_map(serde_json::Map::keys).collect();
        let unused: Vec<&&str> = fields.iter().filter(|field| !used.iter().any(|used| used == *field)).collect();
        assert!(unused.is_empty(), "{place}: no case sets {unused:?}");
    }
}

/// CRI-07, CRI-08, CRI-09, CRI-10, CRI-37, VOL-34.
#[test]
fn every_pod_leaves_the_agent_as_the_rules_say() {
    let cases = cases();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len(), "a name twice");
    let mut groups: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for case in cases {
        groups.entry(case.settings.to_string()).or_default().push(case);
    }
    let wrong: Vec<String> = groups.values().flat_map(|cases| run(cases)).collect();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}
