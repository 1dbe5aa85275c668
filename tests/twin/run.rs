//! The whole run: every scenario on both nodes at the same time, the differences, and those that are not known.
//!
//! `SCENARIOS=a,b*` plays some alone. `JOBS=4` is how many are played at a time. `OUT=<folder>` keeps the facts of both sides.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

use crate::compare::{Difference, differences};
use crate::differences::{Known, is_match};
use crate::nodes::{Machine, Node, Side, top};
use crate::observe::facts;
use crate::scenario::{Scenario, read_all};
use crate::steps::Play;

/// The pause between two looks at what both nodes did.
const LOOK_PERIOD: Duration = Duration::from_secs(2);
/// Looks at what both nodes did: late Events come within so many.
const LOOKS_MAX: u32 = 8;

/// The wishes of the caller, by the environment.
struct Wishes {
    patterns: Vec<String>,
    jobs: usize,
    out: Option<PathBuf>,
}

impl Wishes {
    fn read() -> Self {
        let text = |name: &str| std::env::var(name).unwrap_or_default();
        let patterns = text("SCENARIOS").split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let jobs = text("JOBS").parse().unwrap_or(4);
        Self { patterns, jobs, out: std::env::var_os("OUT").map(PathBuf::from) }
    }

    fn wants(&self, scenario: &Scenario) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| is_match(pattern, &scenario.scenario))
    }
}

/// The outcomes so far.
#[derive(Default)]
struct Outcome {
    /// Lines about differences that are not known, and about scenarios that could not be played.
    complaints: Vec<String>,
    /// The places of known differences that were met.
    met: BTreeSet<usize>,
}

/// Plays everything; the complaints.
pub fn run() -> Result<Vec<String>, String> {
    let wishes = Wishes::read();
    let known = Known::load(top())?;
    let all = read_all(&top().join("tests/twin/scenarios"))?;
    let wanted: Vec<&Scenario> = all.iter().filter(|scenario| wishes.wants(scenario)).collect();
    if wanted.is_empty() {
        return Err("no scenario has such a name".to_owned());
    }
    let machine = Machine::new()?;
    machine.start_agents()?;
    let outcome = Mutex::new(Outcome::default());
    let (alone, together): (Vec<&Scenario>, Vec<&Scenario>) =
        wanted.iter().copied().partition(|scenario| scenario.disturbs_others());
    for (scenarios, jobs) in [(together, wishes.jobs), (alone, 1)] {
        let queue = Mutex::new(VecDeque::from(scenarios));
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some(scenario) = next(&queue) {
                        let played = play(&machine, scenario, &wishes, &known);
                        tell(scenario, played, &known, &outcome);
                    }
                });
            }
        });
    }
    let mut outcome = outcome.into_inner().expect("no holder panics");
    if wishes.patterns.is_empty() {
        let unmet = known.difference.iter().enumerate().filter(|(place, _)| !outcome.met.contains(place));
        let complaint = |(_, entry): (usize, &crate::differences::Entry)| {
            format!("tests/twin/differences.toml: {} {} was met nowhere", entry.scenario, entry.path)
        };
        outcome.complaints.extend(unmet.map(complaint));
    }
    Ok(outcome.complaints)
}

fn next<'a>(queue: &Mutex<VecDeque<&'a Scenario>>) -> Option<&'a Scenario> {
    queue.lock().expect("no holder panics").pop_front()
}

/// One scenario on both nodes at the same time.
fn play(machine: &Machine, scenario: &Scenario, wishes: &Wishes, known: &Known) -> Result<Vec<Difference>, String> {
    let plays = std::thread::scope(|scope| {
        let threads = [0, 1].map(|side| {
            let node: &Node = &machine.nodes[side];
            scope.spawn(move || {
                let mut play = Play::new(node, &machine.api, scenario)?;
                play.run();
                Ok(play)
            })
        });
        threads.map(|thread| thread.join().unwrap_or_else(|_| Err("the thread panicked".to_owned())))
    });
    let [ours, theirs] = plays;
    let plays = [ours?, theirs?];
    let found = settled(scenario, &plays, known, wishes);
    for play in &plays {
        play.watch.end();
        let _ = machine.api.delete(&format!("/api/v1/namespaces/{}", play.namespace), None);
    }
    found
}

/// The differences once late Events and removals are there: looked for until there are none, or for long enough.
fn settled(scenario: &Scenario, plays: &[Play; 2], known: &Known, wishes: &Wishes) -> Result<Vec<Difference>, String> {
    let mut looks = 0;
    let mut last = vec![];
    loop {
        std::thread::sleep(LOOK_PERIOD);
        looks += 1;
        let [ours, theirs] = [&plays[0], &plays[1]].map(facts);
        let mut found = differences(&ours, &theirs);
        found.extend(failures(&ours, &theirs));
        let is_known = |difference: &Difference| known.place(&scenario.scenario, difference).is_some();
        let is_settled = found.iter().all(is_known) || looks > 2 && found == last;
        if looks < LOOKS_MAX && !is_settled {
            last = found;
            continue;
        }
        if let Some(folder) = &wishes.out {
            fs::create_dir_all(folder).map_err(|error| error.to_string())?;
            for (side, facts) in Side::BOTH.into_iter().zip([&ours, &theirs]) {
                let file = folder.join(format!("{}.{}.json", scenario.scenario, side.word()));
                fs::write(file, format!("{facts:#}\n")).map_err(|error| error.to_string())?;
            }
        }
        return Ok(found);
    }
}

/// The steps that failed on both sides in the same way: nothing that was compared after them says anything.
fn failures(ours: &Value, theirs: &Value) -> Vec<Difference> {
    let steps = ours["steps"].as_object().into_iter().flatten();
    let is_equal =
        |(name, outcome): &(&String, &Value)| outcome["failed"].is_string() && theirs["steps"][*name] == **outcome;
    let difference = |(name, outcome): (&String, &Value)| {
        let text = outcome["failed"].as_str().unwrap_or_default().to_owned();
        Difference { path: format!("steps/{name}/failed on both"), ours: text.clone(), theirs: text }
    };
    steps.filter(is_equal).map(difference).collect()
}

/// One line for the scenario, then the differences that are not known.
fn tell(scenario: &Scenario, played: Result<Vec<Difference>, String>, known: &Known, outcome: &Mutex<Outcome>) {
    let name = &scenario.scenario;
    let mut outcome = outcome.lock().expect("no holder panics");
    let found = match played {
        Ok(found) => found,
        Err(problem) => {
            println!("{name}: not played: {problem}");
            outcome.complaints.push(format!("{name}: not played"));
            return;
        }
    };
    let mut unknown = vec![];
    for difference in found {
        match known.place(name, &difference) {
            Some(place) => drop(outcome.met.insert(place)),
            None => unknown.push(difference),
        }
    }
    match unknown.len() {
        0 => println!("{name}: same"),
        count => println!("{name}: differs: {count} ({})", scenario.about),
    }
    for Difference { path, ours, theirs } in unknown {
        println!("  {name} {path}\n    ours:   {}\n    theirs: {}", cut(&ours), cut(&theirs));
        outcome.complaints.push(format!("{name} {path}"));
    }
}

/// The beginning of a long value.
fn cut(text: &str) -> String {
    const LETTERS: usize = 400;
    let line = text.replace('\n', "\\n");
    if line.chars().count() <= LETTERS { line } else { line.chars().take(LETTERS).chain("…".chars()).collect() }
}
