//! Scenarios: pods, the objects that they need, and the steps that both nodes go through.
//!
//! A file of `scenarios/` holds YAML documents, each one scenario. Nothing here knows a node.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// One story that both nodes go through.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The name, unique over all files: a DNS label of at most 30 characters.
    pub scenario: String,
    /// The sentence that says what of life it is taken from.
    pub about: String,
    /// It asks more of the machine than others beside it can bear.
    #[serde(default)]
    pub alone: bool,
    /// Objects that are made before the pods, in this order.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// The pods, without kind, namespace and node.
    #[serde(default)]
    pub pods: Vec<Value>,
    /// Static pods: the agent finds their manifests in its folder.
    #[serde(default)]
    pub manifests: Vec<Value>,
    /// The steps; without any, all pods become ready and are deleted.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// It was played before on the same nodes.
    #[serde(skip)]
    pub is_again: bool,
}

/// One step.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Step {
    /// Waits until pods have the condition `Ready`.
    Ready(Vec<String>),
    /// Waits until the statuses of pods stay as they are, whatever they are.
    Settled(Vec<String>),
    /// Waits for a phase.
    Phase {
        /// The pod.
        pod: String,
        /// The phase, or some of which one is enough: `Failed|Succeeded`.
        is: String,
    },
    /// Waits for restarts of a container.
    Restarts {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
        /// The least count.
        least: u64,
    },
    /// Waits until a container waits for a reason.
    Waiting {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
        /// The reason of its waiting state.
        reason: String,
    },
    /// Waits so many seconds.
    Sleep(f64),
    /// Changes an object.
    Patch(Patch),
    /// Adds an ephemeral container.
    Debug {
        /// The pod.
        pod: String,
        /// The ephemeral container.
        container: Value,
    },
    /// Runs a command in a container.
    Exec {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
        /// The command.
        command: Vec<String>,
        /// Text for its standard input.
        #[serde(default)]
        input: String,
        /// Over SPDY, as older clients do, and not over WebSocket.
        #[serde(default)]
        spdy: bool,
    },
    /// Attaches to a container until its output ends.
    Attach {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
        /// Text for its standard input.
        #[serde(default)]
        input: String,
        /// Over SPDY.
        #[serde(default)]
        spdy: bool,
    },
    /// Asks a web server in the pod through a forwarded port.
    Forward {
        /// The pod.
        pod: String,
        /// The port in the pod.
        port: u16,
        /// Over SPDY.
        #[serde(default)]
        spdy: bool,
    },
    /// Looks at the node's objects and endpoints.
    Node {},
    /// Reads a container's log.
    Logs {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
        /// The query of the request.
        #[serde(default)]
        options: String,
    },
    /// Changes the manifest of a static pod; removes it without a change.
    Manifest {
        /// The static pod.
        pod: String,
        /// Maps are merged, lists are joined.
        #[serde(default)]
        merge: Value,
    },
    /// Starts a device plugin, and waits until the node has its devices. It serves until the end of the scenario.
    Plugin {
        /// The resource.
        resource: String,
        /// The devices' IDs.
        devices: Vec<String>,
    },
    /// The rules of packet filters that the agent makes on a host of its own.
    Rules {},
    /// The machine loses its power and boots.
    Boot {},
    /// Ends or starts the node agent: `restart`, `stop`, `start`; `swap`: each agent takes the other one's node over.
    Agent(Order),
    /// Ends or starts the runtime.
    Runtime(Order),
    /// Ends the API server, and starts it after so many seconds.
    Api(f64),
    /// Starts the node agent with changed fields of its configuration, until the end of the scenario.
    Configure(Value),
    /// Makes pods; all that no such step names are made at the beginning.
    Make(Vec<String>),
    /// Deletes pods.
    Delete {
        /// The pod; all without one.
        #[serde(default)]
        pod: Option<String>,
        /// The grace period in seconds; without it the pod's own.
        #[serde(default)]
        grace: Option<u64>,
    },
    /// Waits until the API has no such pods.
    Gone(Vec<String>),
}

/// The order to a program of the node.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// It ends and starts.
    Restart,
    /// It ends.
    Stop,
    /// It starts.
    Start,
    /// Another one takes its place.
    Swap,
}

/// A change of an object: of a pod, or of what `kind` and `name` say.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// The pod.
    #[serde(default)]
    pub pod: Option<String>,
    /// The kind of another object.
    #[serde(default)]
    pub kind: Option<String>,
    /// The name of another object.
    #[serde(default)]
    pub name: Option<String>,
    /// The subresource that is patched.
    #[serde(default)]
    pub subresource: Option<String>,
    /// Nothing is done to a pod that has ended.
    #[serde(default)]
    pub unless_over: bool,
    /// The strategic merge patch.
    pub merge: Value,
}

impl Scenario {
    /// The same for one more time on the same nodes.
    pub fn again(&self) -> Self {
        Self { is_again: true, ..self.renamed("a") }
    }

    /// The same with other names for the objects that belong to no namespace: those of the first time may be there still.
    pub fn renamed(&self, letter: &str) -> Self {
        let name = format!("twin-{letter}-$NODE");
        let renamed = |values: &[Value]| values.iter().map(|value| replaced(value, "twin-$NODE", &name)).collect();
        Self { objects: renamed(&self.objects), pods: renamed(&self.pods), ..self.clone() }
    }

    /// The name by which the nodes tell where it is played.
    pub fn place(&self) -> String {
        if self.is_again { format!("a-{}", self.scenario) } else { self.scenario.clone() }
    }

    /// The names of its pods but for static ones.
    pub fn pod_names(&self) -> Vec<String> {
        names(&self.pods)
    }

    /// The names of its static pods, as in their manifests.
    pub fn manifest_names(&self) -> Vec<String> {
        names(&self.manifests)
    }

    /// The names of all its pods.
    pub fn all_names(&self) -> Vec<String> {
        [self.pod_names(), self.manifest_names()].concat()
    }

    /// Whether a pod is one of its static pods.
    pub fn is_static(&self, pod: &str) -> bool {
        self.manifests.iter().any(|manifest| manifest["metadata"]["name"] == pod)
    }

    /// Whether a step makes the pod, and not the beginning.
    pub fn is_made_later(&self, pod: &str) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Make(pods) if pods.iter().any(|name| name == pod)))
    }

    /// Its steps, or the usual ones.
    pub fn all_steps(&self) -> Vec<Step> {
        if self.steps.is_empty() {
            return vec![Step::Ready(self.all_names()), Step::Delete { pod: None, grace: None }];
        }
        self.steps.clone()
    }

    /// Whether it ends a program that other scenarios of the node need, or sees what they do.
    pub fn is_alone(&self) -> bool {
        self.alone || self.steps.iter().any(is_for_one)
    }
}

fn is_for_one(step: &Step) -> bool {
    let is_of_programs = matches!(step, Step::Agent(_) | Step::Runtime(_) | Step::Api(_) | Step::Configure(_));
    is_of_programs || matches!(step, Step::Node {} | Step::Plugin { .. } | Step::Rules {} | Step::Boot {})
}

fn names(pods: &[Value]) -> Vec<String> {
    pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The scenarios in the text of a file.
pub fn parse(text: &str) -> Result<Vec<Scenario>, String> {
    documents(text).iter().map(|document| parse_one(document)).collect()
}

fn parse_one(document: &str) -> Result<Scenario, String> {
    let value: Value = serde_saphyr::from_str(document).map_err(|error| error.to_string())?;
    let name = value["scenario"].as_str().unwrap_or("a scenario without name").to_owned();
    let scenario: Scenario = serde_json::from_value(value).map_err(|error| format!("{name}: {error}"))?;
    let is_label =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if scenario.scenario.len() > 30 || !is_label(&scenario.scenario) {
        return Err(format!("{name}: the name is no DNS label of at most 30 characters"));
    }
    Ok(scenario)
}

/// The documents of a YAML stream that hold more than comments.
fn documents(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            found.push(String::new());
        } else if let Some(last) = found.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    let says_something = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    found.retain(|document| document.lines().any(says_something));
    found
}

/// All scenarios of a folder, in the order of files.
pub fn read_all(folder: &Path) -> Result<Vec<Scenario>, String> {
    let listed = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = listed.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    paths.sort();
    let mut found: Vec<Scenario> = vec![];
    for path in paths {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for scenario in parse(&text).map_err(|error| format!("{}: {error}", path.display()))? {
            if found.iter().any(|other| other.scenario == scenario.scenario) {
                return Err(format!("{}: two scenarios are named {}", path.display(), scenario.scenario));
            }
            found.push(scenario);
        }
    }
    Ok(found)
}

/// Puts the node's name where a text says `$NODE`.
pub fn with_node(value: &Value, node: &str) -> Value {
    replaced(value, "$NODE", node)
}

/// The value with other words in its texts.
fn replaced(value: &Value, words: &str, by: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace(words, by)),
        Value::Array(items) => items.iter().map(|item| replaced(item, words, by)).collect(),
        Value::Object(fields) => fields.iter().map(|(key, item)| (key.clone(), replaced(item, words, by))).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_scenarios_with_steps() {
        let text = "# words\n---\nscenario: one\nabout: A.\npods: [{metadata: {name: a}}]\n---\nscenario: two\nabout: B.\npods: []\nsteps:\n- ready: [a]\n- delete: {}\n- agent: restart\n";
        let found = parse(text).expect("two scenarios");
        assert_eq!(found.len(), 2);
        assert!(matches!(found[0].all_steps()[..], [Step::Ready(_), Step::Delete { .. }]));
        assert!(found[1].is_alone() && !found[0].is_alone());
    }

    #[test]
    fn an_unknown_step_is_an_error() {
        let text = "scenario: one\nabout: A.\npods: []\nsteps: [{ dance: 1 }]\n";
        assert!(parse(text).expect_err("no such step").contains("dance"));
    }

    #[test]
    fn the_scenarios_of_this_tree_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/twin/scenarios");
        let found = read_all(&folder).unwrap_or_else(|problem| panic!("{problem}"));
        assert!(!found.is_empty());
    }
}
