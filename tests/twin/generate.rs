//! Generated scenarios: every value of `fields.yaml` alone, and random combinations of them by seed.
//!
//! A combination that the API server refuses leaves out its last choice, until it is taken: what is played is valid.

use std::fs;
use std::path::Path;

use podwright::sim::faults::random::Random;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::scenario::{Patch, Scenario, Step};

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
            steps: vec![Step::Settled(names), Step::Delete { pod: None, grace: None }],
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
        steps: story(below(8)),
    }
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
fn merge(into: &mut Value, from: &Value) {
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
    const ALWAYS: [&str; 8] = [
        "metadata.creationTimestamp",
        "metadata.deletionGracePeriodSeconds",
        "metadata.deletionTimestamp",
        "metadata.generation",
        "metadata.namespace",
        "metadata.resourceVersion",
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

    #[test]
    fn a_field_that_is_acted_on_is_generated_or_in_a_scenario() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let listed = fs::read_to_string(top.join("tests/pod_fields.txt")).unwrap();
        let written: String = fs::read_dir(top.join("tests/twin/scenarios"))
            .unwrap()
            .flatten()
            .map(|file| fs::read_to_string(file.path()).unwrap())
            .collect();
        let generated: BTreeSet<String> = all_fields().into_iter().map(|field| field.field).collect();
        let mut missing = vec![];
        for line in listed.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let (Some(field), Some("acted")) = (words.next(), words.next()) else { continue };
            let last = field.rsplit('.').next().unwrap_or(field).trim_end_matches("[]");
            if !generated.contains(field) && !written.contains(&format!("{last}:")) && !ALWAYS.contains(&field) {
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
