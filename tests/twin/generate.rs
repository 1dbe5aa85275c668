//! Generated scenarios: every value of `fields.yaml` alone, and random combinations of them by seed.
//!
//! A combination that the API server refuses leaves out its last choice, until it is taken: what is played is valid.

use std::fs;
use std::path::Path;

use podwright::sim::faults::random::Random;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::differences::is_match;
use crate::scenario::{Order, Patch, Scenario, Step};

/// The beginning of the names of scenarios with restarts of the agent.
pub const RESTARTED: &str = "r-";
/// The seconds that an agent takes to serve after its start.
const SERVER_TIME: f64 = 4.0;
/// The seconds until an agent has looked at each pod once more.
const LOOK_TIME: f64 = 18.0;
/// Choices of one combination.
const CHOICES: usize = 10;
/// An image that every node has.
const IMAGE: &str = "localhost/podwright/client:1";
/// A program that ends when it is asked to.
const LOOP: &str = "trap 'exit 0' TERM; echo started; while :; do sleep 1; done";
/// Lists that a choice replaces; others are joined.
const REPLACED: [&str; 2] = ["command", "args"];
/// The first of the ports that generated pods take from their node.
const FIRST_PORT: usize = 24_000;

/// A field of the API and the values that it is played with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// The line of tests/pod_fields.txt.
    pub field: String,
    /// The choices.
    pub values: Vec<Choice>,
}

/// One value of a field.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Merged into the pod.
    #[serde(default)]
    pod: Value,
    /// Merged into its container.
    #[serde(default)]
    container: Value,
    /// One more init container.
    #[serde(default)]
    init: Value,
    /// Objects that are made before the pod.
    #[serde(default)]
    objects: Vec<Value>,
}

/// All fields of this tree.
pub fn fields(top: &Path) -> Result<Vec<Field>, String> {
    let path = top.join("tests/twin/fields.yaml");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// One scenario a field: a pod for each of its values.
pub fn alone(fields: &[Field]) -> Vec<Scenario> {
    let one = |(number, field): (usize, &Field)| {
        let port = FIRST_PORT + number;
        let pod = |(at, choice): (usize, &Choice)| pod(&format!("v{at}"), &[choice], port);
        let pods: Vec<Value> = field.values.iter().enumerate().map(pod).collect();
        let names: Vec<String> = (0..pods.len()).map(|at| format!("v{at}")).collect();
        Scenario {
            scenario: scenario_name(&field.field),
            about: format!("{} at each of its values.", field.field),
            alone: false,
            objects: objects(&field.values.iter().collect::<Vec<_>>()),
            pods,
            manifests: vec![],
            steps: vec![Step::Settled(names), Step::Delete { pod: None, grace: None }],
            is_again: false,
        }
    };
    fields.iter().enumerate().map(one).collect()
}

/// Random combinations of a seed. `is_valid` asks the API server about a pod.
pub fn combined(fields: &[Field], seed: u64, count: usize, is_valid: impl Fn(&Value) -> bool) -> Vec<Scenario> {
    (0..count).map(|number| combination(fields, seed, number, &is_valid)).collect()
}

fn combination(fields: &[Field], seed: u64, number: usize, is_valid: &impl Fn(&Value) -> bool) -> Scenario {
    let random = Random::named(seed, &format!("combination {number}"));
    let below = |bound: usize| usize::try_from(random.below(bound as u64)).expect("a place in a list");
    let port = FIRST_PORT + fields.len() + number;
    let mut left: Vec<&Field> = fields.iter().collect();
    let mut chosen: Vec<(&str, &Choice)> = vec![];
    while chosen.len() < CHOICES && !left.is_empty() {
        let field = left.swap_remove(below(left.len()));
        chosen.push((&field.field, &field.values[below(field.values.len())]));
        if !is_valid(&pod("pod", &choices(&chosen), port)) {
            chosen.pop();
        }
    }
    let names: Vec<&str> = chosen.iter().map(|(field, _)| *field).collect();
    Scenario {
        scenario: format!("g{seed}-{number}"),
        about: format!("Seed {seed}: {}.", names.join(", ")),
        alone: false,
        objects: objects(&choices(&chosen)),
        pods: vec![pod("pod", &choices(&chosen), port)],
        manifests: vec![],
        steps: story(below(8)),
        is_again: false,
    }
}

/// Stories by hand in which the agent starts anew after every step: so many of them, by the seed.
pub fn restarted(stories: &[Scenario], seed: u64, count: usize) -> Vec<Scenario> {
    let random = Random::named(seed, "restarts");
    let mut left: Vec<&Scenario> = stories.iter().filter(|story| !story.is_alone()).collect();
    let mut found = vec![];
    while found.len() < count && !left.is_empty() {
        let at = usize::try_from(random.below(left.len() as u64)).expect("a place in a list");
        found.push(with_restarts(left.swap_remove(at)));
    }
    found
}

/// Whether a difference of a scenario with restarts says nothing: which call or Event the end of an agent cuts off, and which
/// Event it tells twice, depends on the moment.
pub fn is_cut_off(scenario: &str, path: &str) -> bool {
    const PATHS: [&str; 4] =
        ["pods/*/cri/*/order", "pods/*/cri/*/calls/Stop*", "pods/*/events/*/count", "pods/*/events/Killing*"];
    scenario.starts_with(RESTARTED) && PATHS.iter().any(|pattern| is_match(pattern, path))
}

fn with_restarts(story: &Scenario) -> Scenario {
    let mut steps = vec![];
    for step in story.all_steps() {
        match step {
            // The server is not there at once.
            Step::Exec { .. } | Step::Attach { .. } | Step::Forward { .. } | Step::Logs { .. } => {
                steps.push(Step::Sleep(SERVER_TIME));
            }
            // The agent has come to the state that is compared by its next looks at all pods.
            Step::Delete { .. } => steps.push(Step::Sleep(LOOK_TIME)),
            _ => {}
        }
        // After its pods nothing is left to be taken up.
        let is_end = matches!(step, Step::Gone(_));
        steps.push(step);
        if !is_end {
            steps.push(Step::Agent(Order::Restart));
        }
    }
    Scenario { scenario: format!("{RESTARTED}{}", story.scenario), steps, ..story.renamed("r") }
}

fn choices<'a>(chosen: &[(&str, &'a Choice)]) -> Vec<&'a Choice> {
    chosen.iter().map(|(_, choice)| *choice).collect()
}

/// The ends of a generated pod, and the changes before it.
fn story(kind: usize) -> Vec<Step> {
    let settled = || Step::Settled(vec!["pod".to_owned()]);
    let patch = |subresource: Option<&str>, merge| {
        Step::Patch(Patch {
            pod: Some("pod".to_owned()),
            kind: None,
            name: None,
            unless_over: true,
            subresource: subresource.map(str::to_owned),
            merge,
        })
    };
    let with_image = |image: &str| json!({ "spec": { "containers": [{ "name": "main", "image": image }] } });
    let changes = match kind {
        0 => vec![patch(None, json!({ "metadata": { "labels": { "changed": "yes" }, "annotations": { "a": "2" } } }))],
        1 => vec![patch(None, with_image("localhost/podwright/web:1"))],
        2 => vec![patch(None, json!({ "spec": { "activeDeadlineSeconds": 100_000 } }))],
        3 => {
            let resources = json!({ "requests": { "cpu": "20m" }, "limits": { "cpu": "300m" } });
            vec![patch(
                Some("resize"),
                json!({ "spec": { "containers": [{ "name": "main", "resources": resources }] } }),
            )]
        }
        _ => vec![],
    };
    let grace = match kind {
        5 => Some(0),
        6 => Some(1),
        _ => None,
    };
    let changed = if changes.is_empty() { vec![] } else { vec![Step::Sleep(2.0), settled()] };
    let ends = [Step::Delete { pod: None, grace }, Step::Gone(vec!["pod".to_owned()])];
    std::iter::once(settled()).chain(changes).chain(changed).chain(ends).collect()
}

/// The pod with all choices, in their order.
fn pod(name: &str, choices: &[&Choice], port: usize) -> Value {
    let mut container = json!({ "name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent" });
    let mut pod = json!({ "metadata": { "name": name }, "spec": { "terminationGracePeriodSeconds": 2 } });
    let mut init: Vec<Value> = vec![];
    for choice in choices {
        merge(&mut pod, &choice.pod);
        merge(&mut container, &choice.container);
        if choice.init.is_object() {
            let mut one = json!({ "image": IMAGE, "imagePullPolicy": "IfNotPresent" });
            merge(&mut one, &choice.init);
            init.push(one);
        }
    }
    if container["command"].is_null() && container["args"].is_null() {
        container["command"] = json!(["sh", "-c", LOOP]);
    } else if container["command"].is_null() {
        container["command"] = json!(["sh", "-c", "for word; do echo \"[$word]\"; done", "sh"]);
    }
    pod["spec"]["containers"] = json!([container]);
    if !init.is_empty() {
        pod["spec"]["initContainers"] = init.into();
    }
    with_port(&mut pod, port);
    pod
}

/// The objects of all choices, each once.
fn objects(choices: &[&Choice]) -> Vec<Value> {
    let mut found: Vec<Value> = vec![];
    for object in choices.iter().flat_map(|choice| &choice.objects) {
        if !found.contains(object) {
            found.push(object.clone());
        }
    }
    found
}

/// Maps are merged, lists are joined, and what else there is is replaced; null changes nothing.
pub fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (_, Value::Null) => {}
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                let is_replaced = REPLACED.contains(&key.as_str());
                match into.get_mut(key).filter(|_| !is_replaced) {
                    Some(old) => merge(old, value),
                    None => drop(into.insert(key.clone(), value.clone())),
                }
            }
        }
        (Value::Array(into), Value::Array(from)) => into.extend(from.iter().cloned()),
        (into, from) => *into = from.clone(),
    }
}

/// Puts a port of the node where a text says `$PORT`.
fn with_port(value: &mut Value, port: usize) {
    match value {
        Value::String(text) if text == "$PORT" => *value = port.into(),
        Value::Array(items) => items.iter_mut().for_each(|item| with_port(item, port)),
        Value::Object(fields) => fields.values_mut().for_each(|item| with_port(item, port)),
        _ => {}
    }
}

/// A label of the field's last words, which is no other field's.
fn scenario_name(field: &str) -> String {
    const LETTERS: usize = 30;
    let (kind, rest) = field.split_once('.').unwrap_or(("", field));
    let steps: Vec<String> = rest.split('.').map(|step| step.trim_end_matches("[]").to_lowercase()).collect();
    let first = kind.chars().next().unwrap_or('x');
    let short = steps[steps.len().saturating_sub(2)..].join("-");
    let name = format!("{first}-{short}");
    let last = steps.last().map_or("", String::as_str);
    let name = if name.len() <= LETTERS { name } else { format!("{first}-{last}") };
    name.chars().take(LETTERS).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Set for each pod, by the play or by the API server.
    const ALWAYS: [&str; 12] = [
        "apiVersion",
        "kind",
        "metadata.creationTimestamp",
        "metadata.deletionGracePeriodSeconds",
        "metadata.deletionTimestamp",
        "metadata.generation",
        "metadata.namespace",
        "metadata.resourceVersion",
        "metadata.uid",
        "status",
        "spec.ephemeralContainers",
        "spec.nodeName",
    ];

    fn all_fields() -> Vec<Field> {
        fields(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap_or_else(|problem| panic!("{problem}"))
    }

    #[test]
    fn each_field_is_one_of_the_api_and_has_a_scenario_of_its_own() {
        let listed = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pod_fields.txt")).unwrap();
        let known: BTreeSet<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let all = all_fields();
        for field in &all {
            assert!(known.contains(field.field.as_str()), "tests/pod_fields.txt has no {}", field.field);
        }
        let names: BTreeSet<String> = alone(&all).into_iter().map(|scenario| scenario.scenario).collect();
        assert_eq!(names.len(), all.len());
    }

    /// Whether an object has a field: its steps, of which one with `[]` stands for the items of a list.
    fn has(object: &Value, steps: &[&str]) -> bool {
        let Some((first, rest)) = steps.split_first() else { return !object.is_null() };
        match first.strip_suffix("[]") {
            Some(list) => object[list].as_array().is_some_and(|items| items.iter().any(|item| has(item, rest))),
            None => !object[*first].is_null() && has(&object[*first], rest),
        }
    }

    /// The field of a line of tests/pod_fields.txt, in each place that the line stands for.
    fn places(field: &str) -> Vec<String> {
        match field.strip_prefix("container[]") {
            Some(rest) => ["containers", "initContainers", "ephemeralContainers"]
                .map(|list| format!("spec.{list}[]{rest}"))
                .to_vec(),
            None => vec![field.to_owned()],
        }
    }

    /// All that the scenarios by hand make pods of: pods, changes of them, and their ephemeral containers.
    fn pods_by_hand(top: &Path) -> Vec<Value> {
        let mut found = vec![];
        for scenario in crate::scenario::read_all(&top.join("tests/twin/scenarios")).unwrap() {
            for step in &scenario.steps {
                match step {
                    Step::Patch(patch) => found.push(patch.merge.clone()),
                    Step::Debug { container, .. } => {
                        found.push(json!({ "spec": { "ephemeralContainers": [container] } }));
                    }
                    _ => {}
                }
            }
            found.extend(scenario.pods);
            found.extend(scenario.manifests);
        }
        found
    }

    #[test]
    fn a_field_that_is_acted_on_is_generated_or_in_a_scenario() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let listed = fs::read_to_string(top.join("tests/pod_fields.txt")).unwrap();
        let by_hand = pods_by_hand(top);
        let generated: BTreeSet<String> = all_fields().into_iter().map(|field| field.field).collect();
        let is_by_hand = |place: &str| {
            let steps: Vec<&str> = place.split('.').collect();
            by_hand.iter().any(|pod| has(pod, &steps))
        };
        let mut missing = vec![];
        for line in listed.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let (Some(field), Some("acted")) = (words.next(), words.next()) else { continue };
            let is_met = generated.contains(field) || places(field).iter().any(|place| is_by_hand(place));
            if !is_met && !ALWAYS.contains(&field) {
                missing.push(field);
            }
        }
        assert_eq!(missing, [""; 0], "nothing shows that these are as upstream's");
    }

    #[test]
    fn combinations_follow_from_the_seed_and_are_valid() {
        let all = all_fields();
        let is_without_host = |pod: &Value| pod["spec"]["hostNetwork"].is_null();
        let names =
            |seed| combined(&all, seed, 20, is_without_host).into_iter().map(|one| one.about).collect::<Vec<_>>();
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
        for scenario in combined(&all, 3, 50, is_without_host) {
            assert!(is_without_host(&scenario.pods[0]), "{scenario:?}");
            assert_eq!(scenario.about.matches(", ").count(), CHOICES - 1);
        }
    }

    #[test]
    fn choices_are_merged() {
        let mut pod = json!({ "a": { "b": [1] }, "command": ["x"], "c": 1 });
        merge(&mut pod, &json!({ "a": { "b": [2], "d": 3 }, "command": ["y"], "c": 2, "e": null }));
        assert_eq!(pod, json!({ "a": { "b": [1, 2], "d": 3 }, "command": ["y"], "c": 2, "e": null }));
    }
}
