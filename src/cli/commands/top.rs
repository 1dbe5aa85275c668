//! `podwright top`: processor time and memory of the node, its pods and their containers, from `/stats/summary`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cli::client::Client;
use crate::cli::output::Output;
use crate::cli::{Answered, WELL};
use crate::server::views::table::{Cell, table};

const PATH: &str = "/stats/summary?only_cpu_and_memory=true";
/// Processor time a second needs two looks. An agent that nobody scrapes has made one, and shares a look for so long.
const NEXT_LOOK: Duration = Duration::from_millis(2100);

/// The rows that are wanted, and their order.
#[derive(Debug, Args)]
pub(in crate::cli) struct TopOptions {
    /// The rows below the node's.
    #[arg(value_enum, default_value_t = Rows::Pods)]
    rows: Rows,
    /// The largest of these first.
    #[arg(long, value_enum, default_value_t = Sort::Cpu)]
    sort_by: Sort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rows {
    Pods,
    Containers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    Cpu,
    Memory,
    Name,
}

/// The parts of the summary that the command shows.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Summary {
    node: Figures,
    pods: Vec<Figures>,
}

/// Of the node, of a pod or of a container.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Figures {
    node_name: String,
    name: String,
    pod_ref: Reference,
    cpu: Cpu,
    memory: Memory,
    containers: Vec<Figures>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reference {
    name: String,
    namespace: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Cpu {
    usage_nano_cores: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Memory {
    working_set_bytes: Option<u64>,
}

/// One row; of the node, `namespace` and `pod` are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Row {
    node: String,
    namespace: String,
    pod: String,
    container: String,
    cpu_nano_cores: Option<u64>,
    memory_working_set_bytes: Option<u64>,
}

/// Runs the command.
pub(in crate::cli) fn run(client: &Client, wanted: &TopOptions, output: &Output, colours: bool) -> Answered {
    let ask = || -> Result<Summary, _> { client.decode(PATH, &client.get(PATH)?) };
    let mut summary = ask()?;
    if is_first_look(&summary) {
        std::thread::sleep(NEXT_LOOK);
        summary = ask()?;
    }
    let rows = rows(&summary, wanted);
    if output.is_document() {
        return Ok((output.value(&json!(rows))?, WELL));
    }
    Ok((text(&rows, wanted.rows, colours), WELL))
}

/// Whether some processor time a second is not known yet.
fn is_first_look(summary: &Summary) -> bool {
    let all = summary.pods.iter().chain([&summary.node]);
    all.into_iter().any(|one| one.cpu.usage_nano_cores.is_none())
}

/// The node's row, and the others in their order.
fn rows(summary: &Summary, wanted: &TopOptions) -> Vec<Row> {
    let node = &summary.node.node_name;
    let row = |of: &Figures, pod: &Reference, container: &str| Row {
        node: node.clone(),
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        container: container.to_owned(),
        cpu_nano_cores: of.cpu.usage_nano_cores,
        memory_working_set_bytes: of.memory.working_set_bytes,
    };
    let mut rows: Vec<Row> = match wanted.rows {
        Rows::Pods => summary.pods.iter().map(|pod| row(pod, &pod.pod_ref, "")).collect(),
        Rows::Containers => {
            let of_pod =
                |pod: &Figures| pod.containers.iter().map(|one| row(one, &pod.pod_ref, &one.name)).collect::<Vec<_>>();
            summary.pods.iter().flat_map(of_pod).collect()
        }
    };
    rows.sort_by_cached_key(|row| {
        let figure = match wanted.sort_by {
            Sort::Cpu => row.cpu_nano_cores,
            Sort::Memory => row.memory_working_set_bytes,
            Sort::Name => None,
        };
        (std::cmp::Reverse(figure), row.namespace.clone(), row.pod.clone(), row.container.clone())
    });
    rows.insert(0, row(&summary.node, &Reference::default(), ""));
    rows
}

fn text(rows: &[Row], kind: Rows, colours: bool) -> String {
    let mut head = vec!["NAMESPACE", "POD"];
    if kind == Rows::Containers {
        head.push("CONTAINER");
    }
    head.extend(["CPU", "MEMORY"]);
    let cells = |row: &Row| {
        let is_node = row.pod.is_empty();
        let mut cells: Vec<Cell> = match is_node {
            true => vec!["-".into(), format!("node {}", row.node).into()],
            false => vec![row.namespace.as_str().into(), row.pod.as_str().into()],
        };
        if kind == Rows::Containers {
            cells.push(if is_node { "-" } else { row.container.as_str() }.into());
        }
        cells.push(row.cpu_nano_cores.map_or("-".to_owned(), milli_cores).into());
        cells.push(row.memory_working_set_bytes.map_or("-".to_owned(), |bytes| format!("{}Mi", bytes >> 20)).into());
        cells
    };
    table(&head, &rows.iter().map(cells).collect::<Vec<_>>(), colours)
}

/// As `kubectl top` shows it, rounded up, so that work is never nothing.
fn milli_cores(nano_cores: u64) -> String {
    format!("{}m", nano_cores.div_ceil(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        let container = |name: &str, cpu: u64, memory: u64| json!({"name": name, "cpu": {"time": "t", "usageNanoCores": cpu}, "memory": {"workingSetBytes": memory << 20}});
        let pod = |name: &str, cpu: u64, memory: u64, containers: serde_json::Value| {
            json!({
                "podRef": {"name": name, "namespace": "shop", "uid": "u"},
                "cpu": {"usageNanoCores": cpu}, "memory": {"workingSetBytes": memory << 20}, "containers": containers,
            })
        };
        let web = pod("web", 2_500_001, 30, json!([container("a", 2_000_000, 10), container("b", 500_000, 20)]));
        let db = pod("db", 90_000_000, 20, json!([container("a", 90_000_000, 20)]));
        let node =
            json!({"nodeName": "n1", "cpu": {"usageNanoCores": 150_000_000}, "memory": {"workingSetBytes": 1 << 30}});
        serde_json::from_value(json!({"node": node, "pods": [web, db]})).expect("a summary")
    }

    fn shown(rows: Rows, sort_by: Sort) -> String {
        text(&super::rows(&summary(), &TopOptions { rows, sort_by }), rows, false)
    }

    /// PAIN-37.
    #[test]
    fn the_node_comes_first_and_then_the_largest() {
        let expected = "\
NAMESPACE   POD       CPU    MEMORY
-           node n1   150m   1024Mi
shop        db        90m    20Mi
shop        web       3m     30Mi
";
        assert_eq!(shown(Rows::Pods, Sort::Cpu), expected);
        assert!(shown(Rows::Pods, Sort::Memory).lines().nth(2).is_some_and(|line| line.contains("web")));
        let expected = "\
NAMESPACE   POD       CONTAINER   CPU    MEMORY
-           node n1   -           150m   1024Mi
shop        db        a           90m    20Mi
shop        web       a           2m     10Mi
shop        web       b           1m     20Mi
";
        assert_eq!(shown(Rows::Containers, Sort::Name), expected);
    }

    #[test]
    fn a_figure_that_is_not_known_is_none() {
        let mut summary = summary();
        assert!(!is_first_look(&summary));
        summary.pods[0].cpu.usage_nano_cores = None;
        assert!(is_first_look(&summary));
        let rows = super::rows(&summary, &TopOptions { rows: Rows::Pods, sort_by: Sort::Cpu });
        assert!(text(&rows, Rows::Pods, false).ends_with("shop        web       -      30Mi\n"), "it comes last");
    }
}
