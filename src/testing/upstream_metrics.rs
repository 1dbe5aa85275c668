//! Upstream's metrics, from a scrape of its kubelet (`tests/upstream/metrics.txt`), to compare the agent's with.

use std::collections::{BTreeMap, BTreeSet};

const SCRAPE: &str = include_str!("../../tests/upstream/metrics.txt");
/// The page that names each metric that the agent leaves out.
const PAGE: &str = include_str!("../../docs/differences.md");

/// Metrics that the agent leaves out; a star stands for all other names with that beginning.
const LEFT_OUT: &[&str] = &[
    "apiserver_*",
    "cardinality_enforcement_unexpected_categorizations_total",
    "container_cpu_load_average_10s",
    "container_cpu_load_d_average_10s",
    "container_tasks_state",
    "go_*",
    "kubelet_imagemanager_inmemory_*",
    "machine_cpu_books",
    "machine_cpu_drawers",
    "rest_client_exec_plugin_*",
    "rest_client_transport_*",
    "workqueue_*",
];

/// The type of a metric, and its labels beside `le`.
type Form = (String, BTreeSet<String>);

fn labels<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    names.filter(|name| !name.is_empty() && *name != "le").map(str::to_owned).collect()
}

/// Upstream's metrics at an endpoint.
fn upstream(endpoint: &str) -> BTreeMap<String, Form> {
    let lines = SCRAPE.lines().filter(|line| line.split_whitespace().next() == Some(endpoint));
    let form = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, name) = (words.next().expect("a type"), words.next().expect("a name"));
        (name.to_owned(), (kind.to_owned(), labels(words.next().into_iter().flat_map(|names| names.split(',')))))
    };
    lines.map(form).collect()
}

/// The metrics of a text; those without a series have no labels.
fn told(text: &str) -> BTreeMap<String, Form> {
    let (mut found, mut current): (BTreeMap<String, Form>, String) = (BTreeMap::new(), String::new());
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            current = name.to_owned();
            found.insert(current.clone(), (kind.to_owned(), BTreeSet::new()));
        } else if let Some((_, rest)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            let names = rest.rsplit_once('}').map_or("", |(names, _)| names).split("\",");
            let names = labels(names.filter_map(|pair| Some(pair.split_once("=\"")?.0)));
            found.get_mut(&current).expect("a type comes first").1.extend(names);
        }
    }
    found
}

fn is_left_out(name: &str) -> bool {
    LEFT_OUT.iter().any(|known| known.strip_suffix('*').map_or(*known == name, |begin| name.starts_with(begin)))
}

/// Everything in which the text of an endpoint differs from upstream's and should not. Metrics of `elsewhere` need
/// conditions that the caller's node does not have, and tests of their own.
pub fn differences(endpoint: &str, text: &str, elsewhere: &[&str]) -> Vec<String> {
    let (upstream, told) = (upstream(endpoint), told(text));
    assert!(!upstream.is_empty(), "{endpoint} was scraped");
    let mut found = vec![];
    for (name, (kind, labels)) in &upstream {
        match told.get(name) {
            Some(own) if own.0 != *kind => found.push(format!("{name} is a {}, upstream a {kind}", own.0)),
            Some(own) if !own.1.is_empty() && !labels.is_empty() && own.1 != *labels => {
                found.push(format!("{name} has the labels {:?}, upstream {labels:?}", own.1));
            }
            Some(_) if LEFT_OUT.contains(&name.as_str()) => {
                found.push(format!("{name} is told, so it is not left out"))
            }
            None if !is_left_out(name) && !elsewhere.contains(&name.as_str()) => {
                found.push(format!("{name} is missing"))
            }
            _ => {}
        }
    }
    let silent = LEFT_OUT.iter().filter(|name| !PAGE.contains(&format!("`{name}`")));
    found.extend(silent.map(|name| format!("docs/differences.md does not name `{name}`")));
    found
}
