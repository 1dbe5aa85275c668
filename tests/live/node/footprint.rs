//! The agent's cost for the node: at rest, and when it is asked. Ratios and bounds, never speed; figures come from
//! `make bench`.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Node, http_get};
use crate::pods::{forever, pod, with};

const PODS: usize = 12;
/// Private memory that the agent is to keep below, at rest.
const PRIVATE_KIB_MAX: u64 = 14 * 1024;

/// The kernel's figures of the agent's process.
struct Footprint<'a>(&'a Node);

impl Footprint<'_> {
    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.0.agent_pid())).expect("the agent lives")
    }

    /// KiB that are its own: what a library maps is everybody's, and a build for tests is larger than what ships.
    fn own_kib(&self) -> u64 {
        let status = self.file("status");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("told");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// A field of `stat`, counted as the manual does.
    fn stat(&self, field: usize) -> u64 {
        let stat = self.file("stat");
        let after_name = stat.rsplit_once(')').expect("a name").1;
        after_name.split_whitespace().nth(field - 3).expect("told").parse().expect("a number")
    }

    /// Processor time, of its threads alone.
    fn processor(&self) -> Duration {
        // The kernel tells hundredths of a second, on every machine that there is.
        Duration::from_millis(10 * (self.stat(14) + self.stat(15)))
    }

    /// Pages that processes which it started have touched, as far as they have ended: none without such a process.
    fn pages_of_children(&self) -> u64 {
        self.stat(11) + self.stat(13)
    }

    fn children(&self) -> String {
        let pid = self.0.agent_pid();
        self.file(&format!("task/{pid}/children"))
    }
}

/// A node with pods that do nothing, each with a volume and something written.
fn node_at_rest() -> Option<Node> {
    let mut node = Node::new()?;
    node.configure(json!({ "volumeStatsAggPeriod": "1s" }));
    node.start_agent();
    let mount = json!({ "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }] });
    let volumes = json!([{ "name": "scratch", "emptyDir": {} }]);
    for number in 0..PODS {
        let main = with(forever("main"), mount.clone());
        node.apply(&with(pod(&format!("p{number}"), &[main]), json!({ "spec": { "volumes": volumes } })));
    }
    for number in 0..PODS {
        node.wait_running(&format!("p{number}"), "main");
    }
    Some(node)
}

/// PAIN-05, PAIN-40: pods that do nothing cost next to nothing.
#[test]
fn a_node_at_rest_costs_next_to_nothing() {
    let Some(node) = node_at_rest() else { return };
    let footprint = Footprint(&node);
    // The work that the starts began is over when nothing is said any more.
    std::thread::sleep(Duration::from_secs(15));
    let (before, began) = (footprint.processor(), Instant::now());
    std::thread::sleep(Duration::from_secs(20));
    let share = (footprint.processor() - before).as_secs_f64() / began.elapsed().as_secs_f64();
    let own = footprint.own_kib();
    // In the units of PAIN-05, too: processor seconds of a pod in a minute.
    eprintln!("at rest: {share:.4} of a processor, {:.4} s a pod and minute, {own} KiB", share * 60.0 / PODS as f64);
    assert!(share < 0.025, "{share} of a processor for {PODS} pods at rest");
    assert!(own < PRIVATE_KIB_MAX, "{own} KiB");
}

/// PAIN-06: what is on the disk is counted without a process, however often it is asked for.
#[test]
fn use_of_the_disk_is_counted_without_a_process() {
    let Some(node) = node_at_rest() else { return };
    let footprint = Footprint(&node);
    let address = format!("127.0.0.1:{}", node.named("READ_ONLY_PORT"));
    let told = || {
        node.eventually("the summary is told", || {
            let (_, body) = http_get(&address, "/stats/summary").filter(|(status, _)| *status == 200)?;
            Some(serde_json::from_str::<serde_json::Value>(&body).expect("JSON"))
        })
    };
    let is_told = |summary: &serde_json::Value| {
        let pods = summary["pods"].as_array().expect("a list");
        let of = |pod: &serde_json::Value| {
            pod["volume"].as_array().is_some_and(|all| all.iter().any(|volume| volume["usedBytes"].is_u64()))
                && pod["containers"][0]["rootfs"]["usedBytes"].is_u64()
        };
        pods.len() == PODS && pods.iter().all(of)
    };
    node.eventually("layers and volumes were walked", || is_told(&told()).then_some(()));
    let before = footprint.pages_of_children();
    for _ in 0..15 {
        assert!(is_told(&told()));
        let children = footprint.children();
        assert!(children.trim().is_empty(), "it runs {children}");
        std::thread::sleep(Duration::from_secs(1));
    }
    assert_eq!(footprint.pages_of_children(), before, "a process was started");
}
