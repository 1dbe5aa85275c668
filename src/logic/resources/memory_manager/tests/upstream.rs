//! Upstream's memory manager played again: after each step the same hints, errors, nodes and state file.
//!
//! The files were written by upstream's code of 1.36.2 from situations made by chance.

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scenario {
    pod_level: bool,
    nodes: Vec<Node>,
    reserved: Vec<Kept>,
    pods: Vec<PodSpec>,
    ops: Vec<Step>,
    allocatable: String,
}

#[derive(Deserialize)]
struct Node {
    memory: u64,
    #[serde(default)]
    huge: Option<BTreeMap<u64, u64>>,
}

#[derive(Deserialize)]
struct Kept {
    node: i32,
    limits: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct PodSpec {
    uid: String,
    containers: Vec<ContainerSpec>,
    pod: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct ContainerSpec {
    name: String,
    kind: String,
    res: BTreeMap<String, String>,
    req: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct Step {
    op: String,
    pod: String,
    container: String,
    affinity: Option<Written>,
    pods: Vec<String>,
    hints: BTreeMap<String, Option<Vec<Written>>>,
    error: String,
    state: String,
    mems: Vec<u8>,
}

#[derive(Deserialize)]
struct Written {
    n: Option<u64>,
    p: bool,
}

impl Written {
    fn hint(&self) -> Hint {
        Hint { nodes: self.n.map(NumaMask::from_bits), preferred: self.p }
    }
}

fn text(list: &BTreeMap<String, String>) -> String {
    list.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
}

impl PodSpec {
    fn pod(&self) -> Pod {
        let of_kind = |wanted: &[&str]| {
            let chosen = self.containers.iter().filter(|one| wanted.contains(&one.kind.as_str()));
            let make = |one: &ContainerSpec| {
                let limits = text(&one.res);
                let requests = one.req.as_ref().map_or_else(|| limits.clone(), text);
                match one.kind.as_str() {
                    "sidecar" => sidecar(&one.name, &requests, &limits),
                    _ => container(&one.name, &requests, &limits),
                }
            };
            chosen.map(make).collect::<Vec<_>>()
        };
        let pod = named(pod(of_kind(&["app"]), of_kind(&["init", "sidecar"])), &self.uid);
        match &self.pod {
            Some(own) => with_pod_level(pod, &text(own), &text(own)),
            None => pod,
        }
    }
}

/// One scenario under way.
struct Played {
    manager: MemoryManager,
    pods: BTreeMap<String, Pod>,
    active: Vec<String>,
}

impl Scenario {
    fn begin(&self) -> MemoryManager {
        let node = |node: &Node| NodeMemory { total: node.memory, huge_pages: node.huge.clone().unwrap_or_default() };
        let machine = Machine { nodes: (0_u8..).zip(self.nodes.iter().map(node)).collect() };
        let limits = |limits: &BTreeMap<String, String>| {
            crate::logic::resources::resource_list(crate::logic::resources::testing::list(&text(limits)).as_ref())
        };
        let reservations: Vec<Reservation> =
            self.reserved.iter().map(|kept| Reservation { node: kept.node, limits: limits(&kept.limits) }).collect();
        let mut sums = crate::logic::resources::ResourceList::new();
        for (name, amount) in reservations.iter().flat_map(|reservation| &reservation.limits) {
            let sum = sums.entry(name.clone()).or_default();
            *sum = sum.plus(*amount);
        }
        let reserved = reserved(&machine, &sums, &reservations).expect("sound reservations");
        let gates = if self.pod_level { ALL_GATES } else { NO_GATES };
        MemoryManager::new(MemoryPolicy::Static, gates, &machine, &reserved)
    }

    fn play(&self, number: usize) {
        let pods = self.pods.iter().map(|pod| (pod.uid.clone(), pod.pod())).collect();
        let mut played = Played { manager: self.begin(), pods, active: vec![] };
        let mut state = played.manager.to_file();
        for (place, step) in self.ops.iter().enumerate() {
            let outcome = played.step(self, step, &state);
            assert_eq!(outcome.err().unwrap_or_default(), step.error, "scenario {number}, step {place}: {}", step.op);
            if !step.state.is_empty() {
                state.clone_from(&step.state);
            }
            assert_eq!(played.manager.to_file(), state, "scenario {number}, step {place}: {}", step.op);
        }
        let allocatable = serde_json::to_string(&played.manager.allocatable()).expect("plain data");
        assert_eq!(allocatable, self.allocatable, "scenario {number}");
    }
}

impl Played {
    fn step(&mut self, scenario: &Scenario, step: &Step, state: &str) -> Result<(), String> {
        // Upstream removes what is stale before it hints or gives.
        if ["hints", "podHints", "allocate", "allocatePod"].contains(&step.op.as_str()) {
            let active: Vec<Pod> = self.active.iter().map(|uid| self.pods[uid].clone()).collect();
            self.manager.remove_stale(&active);
        }
        let pod = self.pods.get(&step.pod).cloned().unwrap_or_default();
        let container = manager::containers(&pod).find(|container| container.name == step.container).cloned();
        let affinity = step.affinity.as_ref().map_or_else(|| any(false), Written::hint);
        let expected: Hints = step
            .hints
            .iter()
            .map(|(name, list)| (name.clone(), list.as_ref().map(|list| list.iter().map(Written::hint).collect())))
            .collect();
        match (step.op.as_str(), container) {
            ("active", _) => self.active.clone_from(&step.pods),
            ("hints", Some(container)) => assert_eq!(self.manager.hints(&pod, &container), expected),
            ("podHints", _) => assert_eq!(self.manager.pod_hints(&pod), expected),
            ("allocate", Some(container)) => {
                let result = self.manager.allocate(&pod, &container, &affinity).map_err(message);
                let nodes = self.manager.nodes_of(&step.pod, &container.name);
                assert_eq!(nodes.map_or_else(Vec::new, |nodes| nodes.iter().collect()), step.mems);
                return result;
            }
            ("allocatePod", _) => return self.manager.allocate_pod(&pod, &affinity).map_err(message),
            ("add", Some(container)) => self.manager.container_starts(&pod, &container.name),
            ("remove", _) => self.manager.remove_container(&step.pod, &step.container),
            ("restart", _) => {
                self.manager = scenario.begin();
                return self.manager.restore(state.as_bytes(), "").map_err(|error| error.to_string());
            }
            _ => panic!("no step: {}", step.op),
        }
        Ok(())
    }
}

fn play(text: &str) {
    let scenarios: Vec<Scenario> = serde_json::from_str(text).expect("a list of scenarios");
    assert!(scenarios.len() >= 20);
    for (number, scenario) in scenarios.iter().enumerate() {
        scenario.play(number);
    }
}

/// RES-32, RES-34.
#[test]
fn containers_are_given_what_upstream_gives_them() {
    play(include_str!("../../../../../tests/upstream/memory.json"));
}

/// RES-32, RES-34: with the gate `PodLevelResourceManagers`, which is off by default.
#[test]
fn pods_are_given_as_a_whole_what_upstream_gives_them() {
    play(include_str!("../../../../../tests/upstream/memory_pod_level.json"));
}
