//! The same inputs as upstream's code was given, with the answers that it gave (1.36).
//!
//! `takes.txt`: machine, free CPUs, how many, in which manner, the CPUs. `policy.txt`: a machine with its settings and the
//! reserved CPUs, then one call a line with its answer. `states.jsonl`: files of state, written and read.

use std::collections::BTreeMap;

use super::*;
use crate::logic::model::ids::{ContainerId, PodUid};
use crate::logic::resources::cpu_manager::take::{Manner, take};
use crate::logic::resources::cpu_manager::{checkpoint, options};
use crate::logic::resources::topology::hints::Hints;

const TAKES: &str = include_str!("takes.txt");
const POLICY: &str = include_str!("policy.txt");
const STATES: &str = include_str!("states.jsonl");

/// RES-24.
#[test]
fn res_24_cpus_are_taken_as_upstream_takes_them() {
    for line in TAKES.lines() {
        let [spec, available, count, manner, expected] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("five fields: {line}")
        };
        let topology = machine(spec);
        let manner = match manner {
            "packed" => Manner::default(),
            "uncore" => Manner { by_uncore: true, ..Manner::default() },
            "spread" => Manner { spread: true, ..Manner::default() },
            "numa1" => Manner { group: Some(1), ..Manner::default() },
            "numa2" => Manner { group: Some(topology.cpus_per_core()), ..Manner::default() },
            other => panic!("no manner: {other}"),
        };
        let taken = match take(&topology, &set(available), count.parse().expect("a number"), manner) {
            Ok(taken) => taken.cpus.to_string(),
            Err(error) => format!("!{error}"),
        };
        assert_eq!(taken, expected, "{line}");
    }
}

/// A manager and its pods, as `policy.txt` goes on.
struct Story {
    manager: Result<CpuManager, String>,
    pods: BTreeMap<String, Pod>,
}

impl Story {
    fn begin(fields: &[&str]) -> Self {
        let [spec, options, reserved, cpus, whole_pods, _] = fields else { panic!("six fields: {fields:?}") };
        let options = options.split(',').filter_map(|option| option.split_once('='));
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let gates = options::OptionGates { alpha: true, beta: true };
        let options = options::parse(&options, gates).expect("options that exist");
        let gates = PodLevelGates { managers: *whole_pods == "whole-pods", ..GATES };
        let settings = StaticSettings { gates, ..settings(options, reserved.parse().expect("a number"), cpus) };
        let manager = StaticPolicy::new(machine(spec), &settings)
            .map_err(|error| error.to_string())
            .map(|policy| CpuManager::new(CpuPolicy::Static(policy), CpuState::default()).expect("a new state"));
        Self { manager, pods: BTreeMap::new() }
    }

    fn reserved(&self) -> String {
        match &self.manager {
            Ok(manager) => match manager.policy() {
                CpuPolicy::Static(policy) => policy.reserved().to_string(),
                CpuPolicy::None { .. } => unreachable!("made static above"),
            },
            Err(error) => format!("!{}", error.trim_start_matches("new static policy error: ")),
        }
    }

    fn answer(&mut self, call: &str) -> String {
        let manager = self.manager.as_mut().expect("a story ends with an error");
        let words: Vec<_> = call.split(' ').collect();
        let nodes = |text: &str| {
            (text != "-").then(|| text.split(',').map(|node| node.parse().expect("a node")).collect::<NumaMask>())
        };
        let told = match words[..] {
            ["podhints", uid] => return shown(&manager.pod_hints(&self.pods[uid])),
            ["hints", uid, name] => {
                return shown(&manager.hints(&self.pods[uid], container(&self.pods[uid], name)));
            }
            ["alloc", uid, name, affinity] => {
                manager.allocate(&self.pods[uid], container(&self.pods[uid], name), nodes(affinity)).map(drop)
            }
            ["allocpod", uid, affinity] => manager.allocate_pod(&self.pods[uid], nodes(affinity)).map(drop),
            ["remove", uid, name] => {
                manager.remove_container(&uid.into(), name);
                Ok(())
            }
            _ => panic!("no call: {call}"),
        };
        if let Err(refusal) = told {
            return format!("!{}: {refusal}", refusal.reason());
        }
        let state = manager.state();
        let uid = PodUid::from(words[1]);
        let of_containers = state.containers.get(&uid).into_iter().flatten();
        let mut words: Vec<_> = of_containers.map(|(name, cpus)| format!("{name}={cpus}")).collect();
        words.extend(state.pods.get(&uid).map(|cpus| format!("all={cpus}")));
        format!("{} | {}", words.join(" "), state.shared)
    }
}

fn shown(hints: &Hints) -> String {
    let hints = match hints.get("cpu") {
        None | Some(None) => return "any".to_owned(),
        Some(Some(hints)) if hints.is_empty() => return "none".to_owned(),
        Some(Some(hints)) => hints,
    };
    let nodes = |nodes: Option<NumaMask>| nodes.expect("nodes of a hint").bits();
    let sign = |preferred| if preferred { '+' } else { '-' };
    let all: Vec<_> = hints.iter().map(|hint| format!("{:x}{}", nodes(hint.nodes), sign(hint.preferred))).collect();
    all.join(" ")
}

/// RES-24, RES-26, RES-28.
#[test]
fn res_24_res_26_res_28_the_static_policy_answers_as_upstreams() {
    let mut story: Option<Story> = None;
    let mut heading = "";
    for line in POLICY.lines() {
        if let Some(fields) = line.strip_prefix("machine ") {
            let fields: Vec<_> = fields.split(" | ").map(str::trim).collect();
            let begun = Story::begin(&fields);
            assert_eq!(begun.reserved(), fields[5], "{line}");
            (story, heading) = (Some(begun), line);
            continue;
        }
        let story = story.as_mut().expect("a machine first");
        if let Some(text) = line.strip_prefix("pod ") {
            let uid = text.split(' ').next().expect("a UID").to_owned();
            story.pods.insert(uid, pod(text));
            continue;
        }
        let (call, expected) = line.split_once(" | ").expect("call | answer");
        assert_eq!(story.answer(call).trim(), expected.trim(), "{call}\n{heading}");
    }
}

/// RES-29, RES-30.
#[test]
fn res_29_res_30_files_of_state_are_upstreams_byte_for_byte() {
    let known =
        [("id1", "c1"), ("id2", "c2")].map(|(id, name)| (ContainerId::from(id), ("p1".into(), name.to_owned())));
    let known = checkpoint::KnownContainers::from(known);
    for line in STATES.lines() {
        let case: serde_json::Value = serde_json::from_str(line).expect("a case");
        let text = |field: &str| case[field].as_str().expect("a text");
        let whole_pods = case["whole_pods"] == true;
        let sets = |value: &serde_json::Value| -> BTreeMap<String, CpuSet> {
            let entries = value.as_object().into_iter().flatten();
            entries.map(|(name, cpus)| (name.clone(), set(cpus.as_str().expect("a list")))).collect()
        };
        let state = || {
            let entries = case["entries"].as_object().into_iter().flatten();
            CpuState {
                shared: set(text("shared")),
                containers: entries.map(|(pod, cpus)| (PodUid::from(pod.as_str()), sets(cpus))).collect(),
                pods: sets(&case["pods"]).into_iter().map(|(pod, cpus)| (PodUid::from(pod), cpus)).collect(),
            }
        };
        if case["kind"] == "store" {
            let printed = checkpoint::print(text("policy"), &state(), whole_pods);
            assert_eq!(String::from_utf8(printed).expect("text"), text("content"));
        }
        let parsed = checkpoint::parse(text("content").as_bytes(), text("policy"), whole_pods, &known);
        match case["error"].as_str() {
            Some(error) => assert_eq!(parsed.map_err(|error| error.to_string()), Err(error.to_owned()), "{line}"),
            None => assert_eq!(parsed, Ok(state()), "{line}"),
        }
    }
}
