//! The simulated API server beside the real one: random patches of pods' statuses, and what each makes of them.
//!
//! Each patch is what the agent would send to turn the status that the server has into another one. Some of those the server
//! refuses, such as one that starts a container again which has ended for good. `PATCHES=10000` sets how many are tried.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;
use podwright::logic::model::time::Moment;
use podwright::logic::status::status_sync::patch::patch;
use podwright::sim::api_server::answers::Answer;
use podwright::sim::api_server::{ApiServer, Request, Who};
use podwright::sim::faults::random::Random;
use podwright::testing::skips::{needs, skip};
use serde_json::{Map, Value, json};

use crate::api::{Api, STRATEGIC};
use crate::compare::differences;
use crate::nodes::Machine;

/// Patches that are tried at every `make test`.
const PATCHES: usize = 1000;
/// Threads that patch, each a pod of its own.
const THREADS: usize = 4;
/// A pod is patched so often before the next one takes its place.
const PATCHES_OF_A_POD: usize = 50;
const CONTAINERS: [&str; 3] = ["main", "aside", "more"];
const INIT_CONTAINERS: [&str; 2] = ["first", "sidecar"];

#[test]
fn the_simulated_api_server_patches_as_the_real_one() {
    if !nix::unistd::geteuid().is_root() {
        skip("only root can start a control plane");
        return;
    }
    if std::env::var_os("KUBEBUILDER_ASSETS").is_none() {
        needs("KUBEBUILDER_ASSETS");
        return;
    }
    let machine = Machine::new(&[]).unwrap_or_else(|problem| panic!("{problem}"));
    let count = std::env::var("PATCHES").ok().and_then(|text| text.parse().ok()).unwrap_or(PATCHES);
    let complaints: Vec<String> = std::thread::scope(|scope| {
        let api = &machine.api;
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || compare(api, thread, count / THREADS))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no thread panics")).collect()
    });
    assert!(complaints.is_empty(), "{} of {count}:\n{}", complaints.len(), complaints.join("\n"));
}

/// Applies so many patches on both servers.
fn compare(api: &Api, thread: usize, count: usize) -> Vec<String> {
    let simulated = ApiServer::new(|| Moment(0));
    let random = Random::named(1, &format!("patches {thread}"));
    let mut complaints = vec![];
    for number in 0..count.div_ceil(PATCHES_OF_A_POD) {
        let pod = pod(&random, &format!("patched-{thread}-{number}"));
        let path = format!("/api/v1/namespaces/default/pods/{}", pod["metadata"]["name"].as_str().unwrap_or_default());
        let collection = "/api/v1/namespaces/default/pods";
        let mut real = api.post(collection, &pod).unwrap_or_else(|problem| panic!("{problem}"));
        simulated.admin("POST", collection, pod).expect("a new pod");
        // Both begin with what the real one made of it.
        let put = |status: &Value| {
            let mut object =
                (*simulated.get("pods", "default", path.rsplit('/').next().unwrap_or_default()).expect("it is there"))
                    .clone();
            object["status"] = status.clone();
            simulated.admin("PUT", &format!("{path}/status"), object).map(|_| ())
        };
        put(&real["status"]).expect("a status");
        for _ in 0..PATCHES_OF_A_POD {
            let from = typed(&real["status"]);
            let to = typed(&next_status(&random, &real["status"]));
            let Some(body) = patch(&from, &to, "") else { continue };
            let of = |uid: &Value| {
                let mut body = body.clone();
                body["metadata"]["uid"] = uid.clone();
                body
            };
            let theirs = api.patch(&format!("{path}/status"), &of(&real["metadata"]["uid"]));
            let ours = patched(&simulated, &path, of);
            let same = match (&ours, &theirs) {
                (Ok(ours), Ok(theirs)) => typed(ours) == typed(&theirs["status"]),
                (Err(_), Err(_)) => true,
                _ => false,
            };
            if !same {
                complaints.push(complaint(&real, &body, &ours, &theirs));
            }
            if let Ok(object) = theirs {
                real = object;
            }
            if !same {
                // The next patch begins from the same status again.
                let _ = put(&real["status"]);
            }
        }
        let _ = api.delete(&path, Some(0));
    }
    complaints
}

/// The places where the two differ, or the refusal of one, and how it came to that.
fn complaint(before: &Value, body: &Value, ours: &Result<Value, String>, theirs: &Result<Value, String>) -> String {
    let policy = &before["spec"]["restartPolicy"];
    let place = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => {
            let tree = |status: &Value| serde_json::to_value(typed(status)).expect("a status is an object");
            let found = differences(&tree(ours), &tree(&theirs["status"]));
            let lines = found.iter().map(|one| format!("{}: simulated {}, real {}", one.path, one.ours, one.theirs));
            lines.collect::<Vec<_>>().join("\n")
        }
        (Err(ours), _) => format!("the simulated one refused: {ours}"),
        (_, Err(theirs)) => format!("the real one refused: {theirs}"),
    };
    format!("{place}\n  policy {policy}, before {}\n  patch {body}\n", before["status"])
}

fn typed(status: &Value) -> PodStatus {
    serde_json::from_value(status.clone()).unwrap_or_else(|error| panic!("{error}: {status}"))
}

fn patched(simulated: &Arc<ApiServer>, path: &str, body: impl Fn(&Value) -> Value) -> Result<Value, String> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let pod = simulated.get("pods", "default", name).expect("it is there");
    let request = Request::new("PATCH", &format!("{path}/status"), STRATEGIC, body(&pod["metadata"]["uid"]));
    match simulated.handle(&Who::Admin, &request) {
        Answer::Whole { code: 200, body, .. } => Ok(body["status"].clone()),
        Answer::Whole { code, body, .. } => Err(format!("{code} {body}")),
        Answer::Stream(_) => Err("a stream".to_owned()),
    }
}

/// A pod that no scheduler looks at.
fn pod(random: &Random, name: &str) -> Value {
    let policy = pick(random, &["Always", "OnFailure", "Never"]);
    let container = |name: &&str| {
        let mut container = json!({ "name": name, "image": "i" });
        if random.chance(0.2) {
            container["restartPolicy"] = pick(random, &["Always", "OnFailure", "Never"]).into();
        }
        container
    };
    let containers: Vec<Value> = CONTAINERS.iter().map(container).collect();
    let init = [
        json!({ "name": "first", "image": "i" }),
        json!({ "name": "sidecar", "image": "i", "restartPolicy": "Always" }),
    ];
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" },
        "spec": { "schedulerName": "nobody", "restartPolicy": policy, "containers": containers, "initContainers": init } })
}

fn pick<'a>(random: &Random, words: &[&'a str]) -> &'a str {
    words[usize::try_from(random.below(words.len() as u64)).expect("a place")]
}

fn time(random: &Random) -> String {
    format!("2026-01-01T00:00:{:02}Z", random.below(60))
}

/// Another status: each field stays, goes or gets another value.
fn next_status(random: &Random, status: &Value) -> Value {
    let mut fields: Map<String, Value> = status.as_object().cloned().unwrap_or_default();
    for field in FIELDS {
        if random.chance(0.5) {
            continue;
        }
        match value(random, field, status) {
            Some(value) if !random.chance(0.2) => drop(fields.insert((*field).to_owned(), value)),
            _ => drop(fields.remove(*field)),
        }
    }
    fields.insert("phase".to_owned(), pick(random, &["Pending", "Running", "Succeeded", "Failed"]).into());
    // The API server wants the first of the list to be the single one.
    for (one, all) in [("podIP", "podIPs"), ("hostIP", "hostIPs")] {
        match fields.get(all).and_then(|list| list[0]["ip"].as_str()).map(str::to_owned) {
            Some(first) => drop(fields.insert(one.to_owned(), first.into())),
            None => drop(fields.remove(one)),
        }
    }
    fields.into()
}

const FIELDS: &[&str] = &[
    "conditions",
    "message",
    "reason",
    "nominatedNodeName",
    "hostIPs",
    "podIPs",
    "startTime",
    "containerStatuses",
    "initContainerStatuses",
    "resize",
    "resourceClaimStatuses",
    "observedGeneration",
    "resources",
    "allocatedResources",
];

fn value(random: &Random, field: &str, status: &Value) -> Option<Value> {
    let some = |values: Vec<Value>| -> Value { values.into_iter().filter(|_| random.chance(0.6)).collect() };
    Some(match field {
        "conditions" => some(CONDITIONS.iter().map(|kind| condition(random, kind)).collect()),
        "message" | "reason" => pick(random, &["Words", "OtherWords"]).into(),
        "nominatedNodeName" => pick(random, &["a-node", "b-node"]).into(),
        "hostIPs" => addresses(random, &["192.0.2.1", "2001:db8::1"]),
        "podIPs" => addresses(random, &["10.0.0.7", "2001:db8::7"]),
        "startTime" => time(random).into(),
        "containerStatuses" => CONTAINERS.iter().map(|name| container(random, name)).collect(),
        "initContainerStatuses" => INIT_CONTAINERS.iter().map(|name| container(random, name)).collect(),
        "resourceClaimStatuses" if !status["resourceClaimStatuses"].is_null() => return None,
        "observedGeneration" => (1 + random.below(3)).into(),
        "resources" => resources(random),
        "allocatedResources" => quantities(random),
        _ => return None,
    })
}

const CONDITIONS: [&str; 5] =
    ["Ready", "Initialized", "ContainersReady", "PodReadyToStartContainers", "example.com/own"];

fn condition(random: &Random, kind: &str) -> Value {
    let mut condition = json!({ "type": kind, "status": pick(random, &["True", "False", "Unknown"]) });
    if random.chance(0.5) {
        condition["reason"] = pick(random, &["ThisReason", "ThatReason"]).into();
        condition["message"] = pick(random, &["these words", "those words"]).into();
    }
    if random.chance(0.7) {
        condition["lastTransitionTime"] = time(random).into();
    }
    if random.chance(0.5) {
        condition["observedGeneration"] = (1 + random.below(3)).into();
    }
    condition
}

fn addresses(random: &Random, all: &[&str]) -> Value {
    let mut list: Vec<Value> = all.iter().map(|ip| json!({ "ip": ip })).collect();
    if random.chance(0.5) {
        list.reverse();
    }
    list.truncate(1 + usize::from(random.chance(0.5)));
    list.into()
}

fn state(random: &Random) -> Value {
    match random.below(4) {
        0 => {
            json!({ "waiting": { "reason": pick(random, &["ContainerCreating", "CrashLoopBackOff"]), "message": "words" } })
        }
        1 => json!({ "running": { "startedAt": time(random) } }),
        2 => json!({ "terminated": { "exitCode": random.below(3), "reason": "Error", "startedAt": time(random),
            "finishedAt": time(random), "containerID": "containerd://a" } }),
        _ => json!({ "terminated": { "exitCode": 0, "reason": "Completed", "containerID": "containerd://b" } }),
    }
}

fn container(random: &Random, name: &str) -> Value {
    let mut status = json!({ "name": name, "image": "i", "imageID": "sha256:i", "ready": random.chance(0.5),
        "restartCount": random.below(4), "state": state(random) });
    if random.chance(0.5) {
        status["lastState"] = state(random);
    }
    if random.chance(0.5) {
        status["started"] = random.chance(0.5).into();
    }
    if random.chance(0.5) {
        status["containerID"] = pick(random, &["containerd://a", "containerd://b"]).into();
    }
    if random.chance(0.5) {
        status["resources"] = resources(random);
        status["allocatedResources"] = quantities(random);
    }
    if random.chance(0.3) {
        status["user"] = json!({ "linux": { "uid": random.below(3), "gid": 0, "supplementalGroups": [1, 2] } });
    }
    if random.chance(0.3) {
        status["volumeMounts"] = json!([{ "name": "v", "mountPath": pick(random, &["/a", "/b"]), "readOnly": true, "recursiveReadOnly": "Disabled" }]);
    }
    status
}

fn quantities(random: &Random) -> Value {
    let mut map = json!({ "cpu": pick(random, &["100m", "2"]) });
    if random.chance(0.5) {
        map["memory"] = pick(random, &["64Mi", "1Gi"]).into();
    }
    if random.chance(0.3) {
        map["ephemeral-storage"] = pick(random, &["1Gi", "2Gi"]).into();
    }
    map
}

fn resources(random: &Random) -> Value {
    match random.below(3) {
        0 => json!({ "requests": quantities(random) }),
        1 => json!({ "limits": quantities(random), "requests": quantities(random) }),
        _ => json!({}),
    }
}
