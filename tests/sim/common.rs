//! Seeds, and one way to run the standard scenario.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use podwright::sim::faults::random::Random;
use podwright::sim::faults::{parse_list, write_list};
use podwright::sim::scenarios::scenario;
use podwright::sim::story::Line;
use podwright::sim::{Options, SimPod, World, describe, run};

/// The source of the derived seeds when nobody names the tree.
const TREE_DEFAULT: &str = "no tree";

/// `fixed` seeds from 0 on, and `derived` ones that follow from the source tree (`PODWRIGHT_TREE_HASH`): the same commit
/// gives the same result, the next one looks elsewhere. `PODWRIGHT_SOAK=N` adds N that nobody has seen;
/// `PODWRIGHT_SEED=S` leaves S alone, to see again what failed.
pub fn seeds(fixed: u64, derived: usize) -> Vec<u64> {
    if let Some(seed) = std::env::var("PODWRIGHT_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return vec![seed];
    }
    let tree = std::env::var("PODWRIGHT_TREE_HASH").unwrap_or_else(|_| TREE_DEFAULT.to_owned());
    let random = Random::named(0, &tree);
    let mut seeds: Vec<u64> = (0..fixed).collect();
    seeds.extend((0..derived).map(|_| random.number() >> 32));
    let soak = std::env::var("PODWRIGHT_SOAK").ok().and_then(|count| count.parse::<u64>().ok()).unwrap_or_default();
    seeds.extend((0..soak).map(|_| fresh()));
    seeds
}

/// Has these pods wanted by the API server of a node whose agent starts, and waits until nothing happens any more.
pub async fn started(world: &World, pods: &[SimPod]) {
    for pod in pods {
        world.create(pod).expect("made");
    }
    world.start_agent();
    world.settle().await;
}

/// The times of the story's lines that contain this text.
pub fn times_of(world: &World, text: &str) -> Vec<Duration> {
    world.story().into_iter().filter(|line| line.what.contains(text)).map(|line| line.at).collect()
}

#[expect(clippy::disallowed_methods, reason = "a fresh seed comes from outside; it is printed when it fails")]
fn fresh() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos() % (1 << 40)).unwrap_or_default()
}

/// Runs `one` for each of `items`, on two threads: the runs share nothing.
pub fn side_by_side<T: Sync>(items: &[T], one: impl Fn(&T) + Sync) {
    let next = AtomicU64::new(0);
    let work = || {
        while let Some(item) = items.get(usize::try_from(next.fetch_add(1, Ordering::Relaxed)).expect("few items")) {
            one(item);
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        work();
        if let Err(panic) = other.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// The standard scenario with these faults.
pub fn standard(seed: u64, pods: usize, seconds: u64, faults: &str) {
    drop(standard_with(seed, pods, seconds, faults, Options::default(), ""));
}

/// The same by a seed whose story has these lines, in this order: from `seed` on, the first one that tells it. A fault that a
/// story once showed is so looked for in such a story, however the program's calls change.
///
/// Each line is a part of one. `{pod}` stands for one pod, `{uid}` for a UID with which it was wanted. A line that begins with
/// `!` must not come before the next one.
pub fn standard_telling(seed: u64, pods: usize, seconds: u64, faults: &str, lines: &[&str]) {
    first_telling(seed, lines, |seed| standard_with(seed, pods, seconds, faults, Options::default(), ""));
}

/// Runs seeds from this one on, until a story has these lines.
pub fn first_telling(seed: u64, lines: &[&str], run: impl Fn(u64) -> Vec<Line>) {
    const SEEDS_MAX: u64 = 200;
    let found = (seed..seed + SEEDS_MAX).find(|seed| tells(&run(*seed), lines));
    assert!(found.is_some(), "no seed from {seed} on tells of {lines:?}");
}

/// Whether a story has these lines: see [`standard_telling`].
pub fn tells(story: &[Line], lines: &[&str]) -> bool {
    let subjects = story.iter().filter_map(|line| {
        let wanted = line.what.strip_prefix("wants ").or_else(|| line.what.strip_prefix("makes the pod "))?;
        let (pod, uid) = wanted.split_once(", ")?;
        Some((pod.to_owned(), uid.to_owned()))
    });
    let subjects: BTreeSet<(String, String)> = subjects.collect();
    subjects.iter().any(|(pod, uid)| {
        let filled: Vec<String> = lines.iter().map(|line| line.replace("{pod}", pod).replace("{uid}", uid)).collect();
        begins_within(story, &filled)
    })
}

fn begins_within(story: &[Line], lines: &[String]) -> bool {
    let (unwanted, rest) = lines.split_at(lines.iter().take_while(|line| line.starts_with('!')).count());
    let Some((next, rest)) = rest.split_first() else { return true };
    for (index, line) in story.iter().enumerate() {
        if line.what.contains(next) && begins_within(&story[index + 1..], rest) {
            return true;
        }
        if unwanted.iter().any(|unwanted| line.what.contains(&unwanted[1..])) {
            return false;
        }
    }
    false
}

/// The same, with more options, which the command line gives as `more`; gives its story.
pub fn standard_with(seed: u64, pods: usize, seconds: u64, faults: &str, options: Options, more: &str) -> Vec<Line> {
    let faults = parse_list(faults).expect("a list of faults");
    let list = write_list(&faults);
    let command = format!("simulate --seed {seed} --pods {pods} --duration {seconds} --faults {list}{more}");
    let options = Options { faults, command, ..options };
    let time = Duration::from_secs(seconds);
    let run = run(seed, options, move |world| scenario::standard(world, pods, time));
    assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
    run.story
}

/// The short scenario with these options; gives what the run gave.
pub fn short(seed: u64, options: Options, more: &str) -> podwright::sim::Run<podwright::sim::World> {
    let command = format!("simulate --seed {seed} --short --faults {}{more}", write_list(&options.faults));
    let options = Options { command, ..options };
    run(seed, options, |world| async move {
        scenario::short(world.clone()).await;
        world
    })
}

#[test]
fn a_story_is_known_by_its_lines_in_order() {
    let line = |what: &str| Line { at: Duration::ZERO, who: "test", what: what.to_owned() };
    let story = ["wants a, 1", "wants b, 2", "a runs", "b ends", "a ends", "b runs"].map(line);
    assert!(tells(&story, &["{pod} runs", "{pod} ends"]));
    assert!(tells(&story, &["wants {pod}, {uid}", "{pod} ends", "{pod} runs"]), "b's");
    assert!(!tells(&story, &["a ends", "a runs"]), "the other way round");
    assert!(tells(&story, &["b ends", "!a runs", "b runs"]));
    assert!(!tells(&story, &["a runs", "!b ends", "a ends"]), "something came between");
}
