//! The whole run: every scenario on both nodes at the same time, the differences, and those that are not known. A
//! scenario that differs is played once more at the end; differences that are there both times fail the run.
//!
//! `SCENARIOS=a,b*` plays some alone. `SEED=1` and `COUNT=40` say which random combinations are played beside the others. They
//! also say in which of the others the agent starts anew after every step, and which settings have other values. `JOBS=4` is
//! how many are played at a time. `OUT=<folder>` keeps the facts of both sides, and `FACTS=<folder>` compares such facts once
//! more, without any node. `RECORD=1` keeps what upstream's kubelet did in `recorded/`, with which our node alone is compared
//! at every `make test`: it plays the scenarios of which there is a record, or those that `SCENARIOS` names.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

use crate::compare::{Difference, differences};
use crate::differences::{Entry, Known, is_match};
use crate::generate::{self, fields};
use crate::nodes::{Machine, Meeting, Side, top};
use crate::normalise::portable;
use crate::observe::facts;
use crate::scenario::{Scenario, read_all};
use crate::settings;
use crate::steps::Play;

/// The pause between two looks at what the nodes did.
const LOOK_PERIOD: Duration = Duration::from_secs(2);
/// Random combinations for each story with restarts of the agent, and for each setting with other values.
const COMBINATIONS_PER_LONG: usize = 10;
/// Looks at what the nodes did: late Events come within so many.
const LOOKS_MAX: u32 = 8;

/// Where the other side's facts come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// From a node beside ours.
    Upstream,
    /// From `recorded/`.
    Recorded,
}

/// The wishes of the caller, by the environment.
struct Wishes {
    patterns: Vec<String>,
    jobs: usize,
    seed: u64,
    count: usize,
    out: Option<PathBuf>,
    facts: Option<PathBuf>,
    record: bool,
    against: Against,
}

impl Wishes {
    fn read(against: Against) -> Self {
        let text = |name: &str| std::env::var(name).unwrap_or_default();
        let is_recorded = against == Against::Recorded;
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
        Self {
            patterns: text("SCENARIOS").split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect(),
            jobs: text("JOBS").parse().unwrap_or(if is_recorded { 8 } else { 4 }),
            seed: text("SEED").parse().unwrap_or(1),
            // No record is made of what a seed yields: each run may take another one.
            count: text("COUNT").parse().unwrap_or(if is_recorded { 0 } else { 40 }),
            out: folder("OUT"),
            facts: folder("FACTS"),
            record: text("RECORD") == "1",
            against,
        }
    }

    /// How many scenarios of a kind there are that takes long: as many as the seed chooses, or all, of which `SCENARIOS`
    /// names some.
    fn of_kind(&self, beginning: &str) -> usize {
        let are_named = self.patterns.iter().any(|pattern| pattern.starts_with(beginning));
        if are_named { usize::MAX } else { self.count.div_ceil(COMBINATIONS_PER_LONG) }
    }

    fn names(&self, scenario: &str) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| is_match(pattern, scenario))
    }

    fn wants(&self, scenario: &str) -> bool {
        let needs_record = self.against == Against::Recorded || self.record && self.patterns.is_empty();
        self.names(scenario) && (!needs_record || recorded(scenario).exists())
    }
}

/// The file with what upstream's kubelet did.
fn recorded(scenario: &str) -> PathBuf {
    top().join("tests/twin/recorded").join(format!("{scenario}.json"))
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
pub fn run(against: Against) -> Result<Vec<String>, String> {
    let wishes = Wishes::read(against);
    let known = Known::load(top())?;
    let outcome = Mutex::new(Outcome::default());
    match &wishes.facts {
        Some(folder) => compare_again(folder, &wishes, &known, &outcome)?,
        None => play_all(&wishes, &known, &outcome)?,
    }
    let mut outcome = outcome.into_inner().expect("no holder panics");
    if wishes.patterns.is_empty() && against == Against::Upstream {
        let unmet = known
            .difference
            .iter()
            .enumerate()
            .filter(|(place, entry)| !entry.sometimes && !outcome.met.contains(place));
        let complaint = |(_, entry): (usize, &Entry)| {
            format!("tests/twin/differences.toml: {} {} was met nowhere", entry.scenario, entry.path)
        };
        let complaints: Vec<String> = unmet.map(complaint).collect();
        complaints.iter().for_each(|complaint| println!("{complaint}"));
        outcome.complaints.extend(complaints);
    }
    Ok(outcome.complaints)
}

/// Compares the facts of an earlier run.
fn compare_again(folder: &Path, wishes: &Wishes, known: &Known, outcome: &Mutex<Outcome>) -> Result<(), String> {
    let listed = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let names = listed.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names: BTreeSet<String> = names.filter_map(|name| Some(name.strip_suffix(".ours.json")?.to_owned())).collect();
    for name in names.iter().filter(|name| wishes.names(name)) {
        let [ours, theirs] = Side::BOTH.map(|side| read_facts(&facts_file(folder, name, side)));
        let found = ours.and_then(|ours| Ok(all_differences(name, &ours, &theirs?)));
        let unknown = tell(name, "once more", found, known, outcome);
        complain(name, unknown.iter(), outcome);
    }
    Ok(())
}

/// Several at a time, then those that cannot be played beside others.
fn play_all(wishes: &Wishes, known: &Known, outcome: &Mutex<Outcome>) -> Result<(), String> {
    let fields = fields(top())?;
    let mut wanted = read_all(&top().join("tests/twin/scenarios"))?;
    let restarted = generate::restarted(&wanted, wishes.seed, wishes.of_kind(generate::RESTARTED));
    wanted.extend(generate::alone(&fields));
    wanted.extend(settings::scenarios(top(), wishes.seed, wishes.of_kind(settings::SETTING))?);
    let sides = if wishes.against == Against::Upstream { &Side::BOTH[..] } else { &[Side::Ours] };
    let machine = Machine::new(sides)?;
    machine.start_agents()?;
    let node = machine.nodes[0].side.node_name();
    let is_valid = |pod: &Value| machine.api.is_valid_pod(pod, &node);
    wanted.extend(generate::combined(&fields, wishes.seed, wishes.count, is_valid));
    wanted.extend(restarted);
    wanted.retain(|scenario| wishes.wants(&scenario.scenario));
    if wanted.is_empty() {
        return Err("no scenario has such a name".to_owned());
    }
    let wanted = wanted.iter();
    let (alone, together): (Vec<&Scenario>, Vec<&Scenario>) = wanted.partition(|scenario| scenario.is_alone());
    let doubtful = Mutex::new(vec![]);
    for (scenarios, jobs) in [(together, wishes.jobs), (alone, 1)] {
        let queue = Mutex::new(VecDeque::from(scenarios));
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some(scenario) = next(&queue) {
                        let played = play(&machine, scenario, wishes, known);
                        let unknown = tell(&scenario.scenario, &scenario.about, played, known, outcome);
                        if !unknown.is_empty() {
                            doubtful.lock().expect("no holder panics").push((scenario, unknown));
                        }
                    }
                });
            }
        });
    }
    for (scenario, first) in doubtful.into_inner().expect("no holder panics") {
        let played = play(&machine, &scenario.again(), wishes, known);
        let second = tell(&scenario.scenario, "for the second time", played, known, outcome);
        complain(&scenario.scenario, first.intersection(&second), outcome);
    }
    Ok(())
}

/// Both times there was this difference: it is none of the moment, as when one node of a busy machine is looked at a little
/// later than the other.
fn complain<'a>(scenario: &str, paths: impl Iterator<Item = &'a String>, outcome: &Mutex<Outcome>) {
    let complaints = paths.map(|path| format!("{scenario} {path}"));
    outcome.lock().expect("no holder panics").complaints.extend(complaints);
}

fn next<'a>(queue: &Mutex<VecDeque<&'a Scenario>>) -> Option<&'a Scenario> {
    queue.lock().expect("no holder panics").pop_front()
}

/// One scenario on all nodes at the same time.
fn play(machine: &Machine, scenario: &Scenario, wishes: &Wishes, known: &Known) -> Result<Vec<Difference>, String> {
    let meeting = Meeting::new(machine);
    let meeting = &meeting;
    let plays: Vec<Result<Play, String>> = std::thread::scope(|scope| {
        let one = |node| {
            scope.spawn(move || {
                let mut play = Play::new(node, &machine.api, meeting, scenario)?;
                play.run();
                Ok(play)
            })
        };
        let threads: Vec<_> = machine.nodes.iter().map(|node| one(&**node)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|played| played.unwrap_or_else(|_| Err("the thread panicked".to_owned()))).collect()
    });
    let plays: Vec<Play> = plays.into_iter().collect::<Result<_, _>>()?;
    let found = settled(scenario, &plays, known, wishes);
    for play in &plays {
        play.watch.end();
        let _ = machine.api.delete(&format!("/api/v1/namespaces/{}", play.namespace), None);
    }
    found
}

/// The differences once late Events and removals are there: looked for until there are none, or for long enough.
fn settled(scenario: &Scenario, plays: &[Play], known: &Known, wishes: &Wishes) -> Result<Vec<Difference>, String> {
    let mut looks = 0;
    let mut last = vec![];
    loop {
        std::thread::sleep(LOOK_PERIOD);
        looks += 1;
        let ours = facts(&plays[0]);
        let (ours, theirs) = match plays.get(1) {
            Some(play) => (ours, facts(play)),
            None => (portable(&ours), read_facts(&recorded(&scenario.scenario))?),
        };
        let found = all_differences(&scenario.scenario, &ours, &theirs);
        let is_known = |difference: &Difference| !known.places(&scenario.scenario, difference).is_empty();
        let is_settled = found.iter().all(is_known) || looks > 2 && found == last;
        if looks < LOOKS_MAX && !is_settled {
            last = found;
            continue;
        }
        if let Some(folder) = &wishes.out {
            fs::create_dir_all(folder).map_err(|error| error.to_string())?;
            for (side, facts) in Side::BOTH.into_iter().zip([&ours, &theirs]) {
                write(&facts_file(folder, &scenario.scenario, side), &format!("{facts:#}\n"))?;
            }
        }
        if wishes.record {
            write(&recorded(&scenario.scenario), &format!("{}\n", portable(&theirs)))?;
        }
        return Ok(found);
    }
}

fn facts_file(folder: &Path, scenario: &str, side: Side) -> PathBuf {
    folder.join(format!("{scenario}.{}.json", side.word()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn read_facts(path: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn all_differences(scenario: &str, ours: &Value, theirs: &Value) -> Vec<Difference> {
    let mut found = differences(ours, theirs);
    found.extend(failures(ours, theirs));
    found.retain(|difference| !generate::is_cut_off(scenario, &difference.path));
    found
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

/// One line for the scenario, then the differences that are not known, whose paths it gives.
fn tell(
    name: &str,
    about: &str,
    played: Result<Vec<Difference>, String>,
    known: &Known,
    outcome: &Mutex<Outcome>,
) -> BTreeSet<String> {
    let mut outcome = outcome.lock().expect("no holder panics");
    let found = match played {
        Ok(found) => found,
        Err(problem) => {
            println!("{name}: not played: {problem}");
            outcome.complaints.push(format!("{name}: not played"));
            return BTreeSet::new();
        }
    };
    let mut unknown = vec![];
    for difference in found {
        let places = known.places(name, &difference);
        if places.is_empty() {
            unknown.push(difference);
        }
        outcome.met.extend(places);
    }
    match unknown.len() {
        0 => println!("{name}: same"),
        count => println!("{name}: differs: {count} ({about})"),
    }
    for Difference { path, ours, theirs } in &unknown {
        println!("  {name} {path}\n    ours:   {}\n    theirs: {}", cut(ours), cut(theirs));
    }
    unknown.into_iter().map(|difference| difference.path).collect()
}

/// The beginning of a long value.
fn cut(text: &str) -> String {
    const LETTERS: usize = 400;
    let line = text.replace('\n', "\\n");
    if line.chars().count() <= LETTERS { line } else { line.chars().take(LETTERS).chain("…".chars()).collect() }
}
