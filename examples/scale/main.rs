//! `make bench-scale`: what one change of one pod costs on a node with few and with many pods. Also how long a turn may be,
//! and how late probes are while a thousand pods start. The node and the API server are simulated, processor time is real.
//!
//! Exits with a failure when a figure is beyond what docs/figures.md promises.

mod crowd;

use std::process::ExitCode;
use std::time::Duration;

use podwright::sim::meter::Measured;
use podwright::sim::{Options, SimPod, World, run};

/// Nodes of so many pods are measured.
const SIZES: [usize; 4] = [10, 100, 500, 1000];
/// Labels that are changed on each node, and the seconds for each.
const LABELS: (usize, u32) = (20, 3);
/// Containers that end on each node, and the seconds for each. Both take as long as what is done each minute comes once.
const RESTARTS: (usize, u32) = (12, 5);
/// How many minutes each node is measured at rest.
const REST: u32 = 3;
/// How often each node is measured: the least counts, for others use the same machine.
const ROUNDS: usize = 3;
/// A change on the largest node costs so many times one on the smallest.
const GROWTH_MAX: f64 = 1.5;
/// A status patch costs so many times as much when all pods wait for the API server.
const DRAIN_MAX: f64 = 2.0;
/// The longest turn.
const TURN_MAX: Duration = Duration::from_millis(5);
/// The latest probe.
const LATE_MAX: Duration = Duration::from_millis(50);
/// Pods that are there, and probed, before all others start.
const PROBED: usize = 20;

/// The figures of a node of one size.
#[derive(Clone, Debug)]
struct Node {
    /// The work of a minute at rest.
    rest: Duration,
    burst: Measured,
    labels: Measured,
    restarts: Measured,
}

impl Node {
    /// A label of a pod is changed by somebody.
    fn label(&self) -> Duration {
        self.each(&self.labels, LABELS.0)
    }

    /// A pod's container ends and starts again.
    fn restart(&self) -> Duration {
        self.each(&self.restarts, RESTARTS.0)
    }

    /// One of so many changes. At rest something is done, too: that is no change's cost.
    fn each(&self, measured: &Measured, count: usize) -> Duration {
        measured.all().took.saturating_sub(self.rest) / u32::try_from(count).expect("few")
    }

    /// Each figure of the round in which it was least: the difference of two rounds' noise is no figure.
    fn best(rounds: &[Self]) -> Self {
        let least = |of: fn(&Self) -> &Measured| {
            let measured = rounds.iter().map(of).min_by_key(|measured| measured.all().took).expect("a round");
            let longest = rounds.iter().map(|round| of(round).longest).min().expect("a round");
            let probes_late = rounds.iter().map(|round| of(round).probes_late).min().expect("a round");
            Measured { longest, probes_late, ..measured.clone() }
        };
        Self {
            rest: rounds.iter().map(|round| round.rest).min().expect("a round"),
            burst: least(|round| &round.burst),
            labels: least(|round| &round.labels),
            restarts: least(|round| &round.restarts),
        }
    }

    fn longest(&self) -> (Duration, &'static str) {
        [&self.burst, &self.labels, &self.restarts]
            .map(|measured| measured.longest)
            .into_iter()
            .max()
            .unwrap_or_default()
    }
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock").into()
}

fn pod(number: usize) -> SimPod {
    let pod = SimPod::of(&format!("web-{number}"), "run").grace(2);
    if number < PROBED { pod.probe("readinessProbe", "/ready") } else { pod }
}

async fn all_run(world: &World, pods: usize) {
    for _ in 0..600 {
        world.sleep(Duration::from_secs(1)).await;
        if world.running().len() >= pods {
            break;
        }
    }
    assert_eq!(world.running().len(), pods, "not all run");
    world.sleep(Duration::from_secs(90)).await; // The work after a start: Events, looks, the next sync.
}

async fn measure(world: World, pods: usize) -> Node {
    let meter = world.meter().expect("asked for");
    world.start_agent();
    for number in 0..pods.min(PROBED) {
        world.create(&pod(number)).expect("the first of its name");
    }
    all_run(&world, pods.min(PROBED)).await;
    meter.take();
    for number in PROBED..pods {
        world.create(&pod(number)).expect("the first of its name");
    }
    all_run(&world, pods).await;
    let burst = meter.take();
    world.sleep(Duration::from_secs(60) * REST).await;
    let rest = meter.take().all().took / REST;
    for number in 0..LABELS.0 {
        world.mark_pod(&format!("web-{}", number % pods), "labels", &format!("change-{number}"));
        world.sleep(Duration::from_secs(1) * LABELS.1).await;
    }
    let labels = meter.take();
    for number in 0..RESTARTS.0 {
        world.kill_sandboxes(&format!("web-{}", number % pods));
        world.sleep(Duration::from_secs(1) * RESTARTS.1).await;
    }
    let restarts = meter.take();
    Node { rest, burst, labels, restarts }
}

fn print(pods: usize, node: &Node) {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "{pods:>5} pods: a label {:>7.0} µs, a restart {:>7.0} µs; longest turn {:.0} µs ({}); burst: probes late by {:.1} ms",
        micros(node.label()),
        micros(node.restart()),
        micros(node.longest().0),
        node.longest().1,
        node.burst.probes_late.as_secs_f64() * 1e3,
    );
    for (name, measured) in [("burst", &node.burst), ("labels", &node.labels), ("restarts", &node.restarts)] {
        tell(name, measured);
    }
}

/// With `VERBOSE` in the environment, the cost of each kind of actor.
fn tell(what: &str, measured: &Measured) {
    if std::env::var_os("VERBOSE").is_some() {
        for (kind, cost) in &measured.kinds {
            println!("      {what} {kind:>18}: {:>6} turns, {:>9.0} µs", cost.turns, cost.took.as_secs_f64() * 1e6);
        }
    }
}

/// A figure, and the most that it may be.
type Check = (&'static str, f64, f64);
/// The name of a part, and the measuring.
type Part = (&'static str, fn() -> Vec<Check>);

/// The cost of one change on nodes of many sizes.
fn check_changes() -> Vec<Check> {
    let mut nodes = Vec::new();
    for pods in SIZES {
        let one = |seed: u64| {
            let options = Options {
                cluster: true,
                turn_clock: Some(processor_time),
                // Each pod's own look at itself, in the course of minutes, is no change's cost.
                settings: |settings| settings.pods.sync_period = Duration::from_secs(3600),
                ..Options::default()
            };
            run(seed, options, move |world| measure(world, pods)).value
        };
        let rounds: Vec<Node> = (1..=ROUNDS as u64).map(one).collect();
        let best = Node::best(&rounds);
        print(pods, &best);
        nodes.push(best);
    }
    let (first, last) = (&nodes[0], &nodes[nodes.len() - 1]);
    let growth = |of: fn(&Node) -> Duration| of(last).as_secs_f64() / of(first).as_secs_f64();
    let longest = nodes.iter().map(|node| node.longest().0).max().unwrap_or_default();
    let late = nodes.iter().map(|node| node.burst.probes_late).max().unwrap_or_default();
    vec![
        ("a change of a label: 1,000 pods to 10", growth(Node::label), GROWTH_MAX),
        ("a restart: 1,000 pods to 10", growth(Node::restart), GROWTH_MAX),
        ("longest turn, ms", longest.as_secs_f64() * 1e3, TURN_MAX.as_secs_f64() * 1e3),
        ("latest probe, ms", late.as_secs_f64() * 1e3, LATE_MAX.as_secs_f64() * 1e3),
    ]
}

/// The cost of what concerns all pods at once.
fn check_crowds() -> Vec<Check> {
    let [few, many] = crowd::SIZES.map(|pods| {
        let crowd = crowd::of(pods);
        crowd::print(pods, &crowd);
        crowd
    });
    let times = |most: Duration, least: Duration| most.as_secs_f64() / least.as_secs_f64();
    vec![
        ("a status patch when 1,000 pods wait, to one alone", times(many.drained, many.sent), DRAIN_MAX),
        ("a relist for each pod: 1,000 pods to 100", times(many.relist, few.relist), GROWTH_MAX),
        ("an outage for each pod: 1,000 pods to 100", times(many.outage, few.outage), GROWTH_MAX),
        ("the end of all for each pod: 1,000 pods to 100", times(many.end, few.end), GROWTH_MAX),
    ]
}

/// Both, or the one that `ONLY` names: `changes`, `crowds`.
fn main() -> ExitCode {
    let only = std::env::var("ONLY").unwrap_or_default();
    let parts: [Part; 2] = [("changes", check_changes), ("crowds", check_crowds)];
    let asked = parts.into_iter().filter(|(name, _)| only.is_empty() || only == *name);
    let checks: Vec<Check> = asked.flat_map(|(_, part)| part()).collect();
    for (what, is, most) in &checks {
        let word = if is <= most { "as promised" } else { "TOO MUCH" };
        println!("{what}: {is:.2} of {most:.2} at most, {word}");
    }
    if checks.iter().all(|(_, is, most)| is <= most) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
