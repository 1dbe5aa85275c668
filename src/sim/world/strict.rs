//! The strict mode: nothing comes by a period that mends what news have missed, and the node has little time.
//!
//! An agent that drops news is set right by a periodic look sooner or later, so that a patient simulator does not see it. Here
//! such looks come once in ten hours. The node is right within its limit only if somebody told the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::World;
use super::drivers::{DISK, DRA, GPU, NIC, SHARE};
use super::truth::Problem;
use crate::actors::kit::trace::Trace;
use crate::actors::settings::Settings;
use crate::platform::host::blocking;
use crate::sim::faults::Fault;
use crate::sim::faults::random::Random;
use crate::sim::invariants::{
    API_TRUTH, DRIVERS_IDLE, MIRRORS, NODE_READY, NOTHING_LEFT, TIER_SHARES, TRUE_STATUS, UNWANTED_STOPS,
    VOLUMES_GROWN, WANTED_RUNS,
};

/// For a look that mends what was missed: longer than any story.
const PUT_OFF: Duration = Duration::from_hours(10);
/// The longest that pods may take to become what they should be: their graces, the pauses of those that crash, and two passes
/// over old logs. Those come every minute, and may take ten seconds.
const LIMIT: Duration = Duration::from_secs(150);
/// The same after faults: what failed over and over is tried again after its longest pause, and calls that hang come to
/// their deadlines.
const LIMIT_AFTER_FAULTS: Duration = Duration::from_secs(300);
/// How long a problem may last while nothing goes wrong: the name of its invariant, words of it, and why it may take so long.
/// The first that fits counts; others have all the time.
const LIMITS: [(&str, &str, Duration, &str); 17] = [
    (NOTHING_LEFT, "log directory", LIMIT, "old logs are removed by two passes, one a minute"),
    (NOTHING_LEFT, "", Duration::from_secs(30), "the next try of an end that met a driver away"),
    (UNWANTED_STOPS, "", Duration::from_secs(25), "the longest grace period"),
    (WANTED_RUNS, "has not come to attempt", Duration::from_secs(30), "the pause of the second restart"),
    (
        WANTED_RUNS,
        "",
        Duration::from_secs(30),
        "a start by way of a dying disk, or the next try of what met a driver away",
    ),
    (TRUE_STATUS, "has ended, told", Duration::from_secs(4), "a look at the pod"),
    (TRUE_STATUS, "runs, told", Duration::from_secs(4), "a look at the pod"),
    (TRUE_STATUS, "", Duration::from_secs(15), "the last steps of a pod that is gone, at a dying disk"),
    (API_TRUTH, "has ended, told", Duration::from_secs(5), "a look at the pod, and a call"),
    (API_TRUTH, "runs, told", Duration::from_secs(5), "a look at the pod, and a call"),
    (API_TRUTH, "not told of", Duration::from_secs(5), "a call"),
    (API_TRUTH, "not told as ready", Duration::from_secs(25), "the whole start of a pod"),
    (API_TRUTH, "", Duration::from_secs(30), "the next try of an end that met a driver away"),
    (MIRRORS, "", Duration::from_secs(15), "a former pod of the name ends first, at a dying disk"),
    (NODE_READY, "there is no", Duration::from_secs(4), "some calls"),
    (TIER_SHARES, "", Duration::from_secs(10), "a writing of cgroups that began before, and the next"),
    (DRIVERS_IDLE, "", Duration::from_secs(30), "the next try after one that met a driver away"),
];
/// The longest half of a step at a file: the first is usual.
const DISKS: [Duration; 4] =
    [Duration::from_millis(1), Duration::from_millis(10), Duration::from_millis(100), Duration::from_millis(800)];
/// The longest half of a call to the API server: the first is usual.
const WAYS: [Duration; 3] = [Duration::from_millis(8), Duration::from_millis(60), Duration::from_millis(250)];
/// The invariants that a period sees to on purpose, with the reason.
const BY_PERIOD: [(&str, &str); 1] =
    [(VOLUMES_GROWN, "claims are not watched: they are read at each sync of their pod, as by upstream")];

/// The share of deeds that follow the one before at once, and the longest time between them: news come while the work that
/// earlier ones began is under way.
const IN_A_BURST: f64 = 0.7;
const BURST_STEP: Duration = Duration::from_millis(400);
/// How often drivers begin anew between two deeds, as when their DaemonSets are rolled out.
const DRIVERS_RESTART: f64 = 0.15;

/// Whether the mode is on.
#[derive(Clone, Copy)]
pub struct Strict(pub bool);

impl Strict {
    /// The longest that the node may take to be right in a story with these faults, where it is usually `patience`.
    pub fn settle_limit(self, faults: &BTreeSet<Fault>, patience: Duration) -> Duration {
        match (self.0, faults.is_empty()) {
            (false, _) => patience,
            (true, true) => LIMIT,
            (true, false) => LIMIT_AFTER_FAULTS,
        }
    }

    /// The longest time between two looks at a node that is to become right.
    pub fn look_period(self) -> Duration {
        Duration::from_secs(if self.0 { 1 } else { 4 })
    }

    /// The longest half of a step at a file, by the seed: a fast disk, one of an edge node, a busy one, a dying one. Calls that
    /// block, as those about cgroups do, take so long from now on.
    pub fn disk(self, seed: u64) -> Duration {
        let half = self.one_of(&DISKS, &Random::named(seed, "disk"));
        blocking::pace(if self.0 { half } else { Duration::ZERO });
        half
    }

    /// The longest half of a call to the API server, by the seed.
    pub fn way(self, seed: u64) -> Duration {
        self.one_of(&WAYS, &Random::named(seed, "way"))
    }

    fn one_of(self, all: &[Duration], random: &Random) -> Duration {
        let place = if self.0 { random.below(all.len() as u64) } else { 0 };
        all[usize::try_from(place).unwrap_or_default()]
    }

    /// Puts off the periods that are settings.
    pub fn adjust(self, settings: &mut Settings) {
        if self.0 {
            settings.pods.sync_period = PUT_OFF;
            settings.sources.file_check_period = PUT_OFF;
            settings.sources.http_check_period = PUT_OFF;
            settings.resources.cpu_reconcile_period = PUT_OFF;
        }
    }

    /// Puts off the looks of an agent that begins.
    pub fn begin(self, trace: &Trace) {
        if self.0 {
            trace.put_off_repairs(PUT_OFF);
        }
    }

    /// Leaves out the parts that wait for a period on purpose.
    pub fn forgive(self, problems: &mut Vec<Problem>) {
        problems.retain(|(name, _)| !self.0 || BY_PERIOD.iter().all(|(invariant, _)| name != invariant));
    }
}

/// How long each problem of a node that is to become right has lasted.
pub struct Lateness {
    strict: Strict,
    all: Duration,
    since: BTreeMap<String, Duration>,
}

impl Lateness {
    /// Of a node that has so much time in all.
    pub fn new(strict: Strict, all: Duration) -> Self {
        Self { strict, all, since: BTreeMap::new() }
    }

    /// The problems that last too long, after so much time.
    pub fn of(&mut self, problems: &[Problem], took: Duration) -> Vec<Problem> {
        if took > self.all {
            return problems.to_vec();
        }
        let key = |(name, how): &Problem| {
            let how = how.split("; the agent says").next().unwrap_or_default();
            format!("{name} {how}")
        };
        let before = std::mem::take(&mut self.since);
        let mut late = vec![];
        for problem in problems {
            let key = key(problem);
            let since = before.get(&key).copied().unwrap_or(took);
            self.since.insert(key, since);
            if took - since > self.limit(problem) {
                late.push(problem.clone());
            }
        }
        late
    }

    fn limit(&self, (name, how): &Problem) -> Duration {
        let is_calm = self.strict.0 && self.all == LIMIT;
        let own = LIMITS.iter().find(|(invariant, words, ..)| is_calm && invariant == name && how.contains(words));
        own.map_or(self.all, |(_, _, limit, _)| *limit)
    }
}

impl World {
    /// Waits until the user does the next thing. In the strict mode things come in bursts, and where nothing goes wrong the
    /// node becomes right after each.
    pub async fn until_next_deed(&self, shortest: Duration, longest: Duration) {
        if self.shared.strict.0 {
            if self.shared.plugins && self.random().chance(DRIVERS_RESTART) {
                self.restart_drivers().await;
            }
            if self.random().chance(IN_A_BURST) {
                return self.sleep(self.random().between(Duration::ZERO, BURST_STEP)).await;
            }
            if self.node().faults.was_quiet() {
                self.settle().await;
            }
        }
        self.sleep(self.random().between(shortest, longest)).await;
    }

    /// All drivers register within a moment.
    async fn restart_drivers(&self) {
        const ALL: [&str; 5] = [GPU, NIC, DISK, SHARE, DRA];
        self.node().story.tell("user", "restarts all drivers");
        ALL.iter().for_each(|name| self.kill_driver(name));
        for name in ALL {
            self.sleep(self.random().between(Duration::ZERO, BURST_STEP)).await;
            self.start_driver(name);
        }
    }
}
