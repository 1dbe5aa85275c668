//! Generated scenarios: every value of `settings.yaml` alone. The agent starts with it, and pods are made under it.

use std::fs;
use std::path::Path;

use podwright::sim::faults::random::Random;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::scenario::{Scenario, Step};

/// The beginning of the names of scenarios with other settings.
pub const SETTING: &str = "set-";
/// The seconds in which an agent's looks at its pods and at its node come to rest.
const LOOK_TIME: f64 = 10.0;
/// A program that ends when it is asked to.
const LOOP: &str = "trap 'exit 0' TERM; echo started; while :; do sleep 1; done";

/// A setting and the values that it is played with, beside the usual one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    /// The field, or the feature gate, of tests/settings.txt.
    field: String,
    values: Vec<Value>,
    /// Other fields that the values need.
    #[serde(default)]
    with: Value,
}

/// The scenarios of all settings, or of so many by the seed.
pub fn scenarios(top: &Path, seed: u64, count: usize) -> Result<Vec<Scenario>, String> {
    let mut left: Vec<Scenario> = read(top)?.iter().map(scenario).collect();
    let random = Random::named(seed, "settings");
    let mut found = vec![];
    while found.len() < count && !left.is_empty() {
        let at = usize::try_from(random.below(left.len() as u64)).expect("a place in a list");
        found.push(left.swap_remove(at));
    }
    Ok(found)
}

fn read(top: &Path) -> Result<Vec<Setting>, String> {
    let path = top.join("tests/twin/settings.yaml");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn scenario(setting: &Setting) -> Scenario {
    let (mut pods, mut steps) = (vec![], vec![]);
    for (number, value) in setting.values.iter().enumerate() {
        let made = pods_of(number);
        let names: Vec<String> =
            made.iter().map(|pod| pod["metadata"]["name"].as_str().expect("a name").to_owned()).collect();
        // The pod with a CPU of its own has it before others see which are left.
        let (first, others) = names.split_at(1);
        steps.push(Step::Configure(configuration(setting, value)));
        steps.extend(
            [first, others].into_iter().flat_map(|names| [Step::Make(names.to_vec()), Step::Settled(names.to_vec())]),
        );
        steps.extend([Step::Sleep(LOOK_TIME), Step::Node {}]);
        steps.push(Step::Delete { pod: None, grace: None });
        steps.push(Step::Gone(names));
        pods.extend(made);
    }
    Scenario {
        scenario: scenario_name(&setting.field),
        about: format!("{} at each of its values.", setting.field),
        alone: true,
        objects: vec![],
        pods,
        manifests: vec![],
        steps,
        is_again: false,
    }
}

/// The fields of the configuration that are changed.
fn configuration(setting: &Setting, value: &Value) -> Value {
    let mut changed = if setting.with.is_null() { json!({}) } else { setting.with.clone() };
    let mut place = &mut changed;
    for step in setting.field.split('.') {
        place = &mut place[step];
    }
    *place = value.clone();
    changed
}

/// A pod of each QoS class.
fn pods_of(number: usize) -> Vec<Value> {
    let pod = |name: &str, resources: Value| {
        let container = json!({
            "name": "main",
            "image": "localhost/podwright/client:1",
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", LOOP],
            "resources": resources,
        });
        let spec = json!({ "terminationGracePeriodSeconds": 1, "containers": [container] });
        json!({ "metadata": { "name": format!("{name}-{number}") }, "spec": spec })
    };
    let [least, most] = [
        json!({ "cpu": "100m", "memory": "16Mi", "ephemeral-storage": "1Mi" }),
        json!({ "cpu": "200m", "memory": "32Mi", "ephemeral-storage": "1Gi" }),
    ];
    vec![
        pod("exact", json!({ "limits": { "cpu": "1", "memory": "64Mi" } })),
        pod("small", json!({})),
        pod("larger", json!({ "requests": least, "limits": most })),
    ]
}

/// A label of the field's last word; of a long one its beginning and its end.
fn scenario_name(field: &str) -> String {
    const LETTERS: usize = 26;
    let word = field.rsplit('.').next().unwrap_or(field).to_lowercase();
    if word.len() <= LETTERS {
        return format!("{SETTING}{word}");
    }
    format!("{SETTING}{}{}", &word[..LETTERS / 2], &word[word.len() - LETTERS / 2..])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_setting_is_one_of_the_agent_and_has_a_scenario_of_its_own() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let listed = fs::read_to_string(top.join("tests/settings.txt")).expect("it is of this tree");
        let known: BTreeSet<&str> = listed.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
        let all = read(top).unwrap_or_else(|problem| panic!("{problem}"));
        for setting in &all {
            let name = setting.field.strip_prefix("featureGates.").unwrap_or(&setting.field);
            assert!(known.contains(name), "tests/settings.txt has no {name}");
        }
        let names: BTreeSet<String> = all.iter().map(|setting| scenario(setting).scenario).collect();
        assert_eq!(names.len(), all.len());
        assert!(names.iter().all(|name| name.len() <= 30));
        assert_eq!(scenarios(top, 1, 5).expect("it can be read").len(), 5);
    }

    #[test]
    fn a_value_stands_beside_what_it_needs() {
        let setting = Setting {
            field: "featureGates.A".to_owned(),
            values: vec![],
            with: json!({ "featureGates": { "B": false }, "x": 1 }),
        };
        let expected = json!({ "featureGates": { "A": true, "B": false }, "x": 1 });
        assert_eq!(configuration(&setting, &json!(true)), expected);
    }
}
