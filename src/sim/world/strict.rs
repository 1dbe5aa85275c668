//! The strict mode: nothing comes by a period that mends what news have missed, and the node has little time.
//!
//! An agent that drops news is set right by a periodic look sooner or later, so that a patient simulator does not see it. Here
//! such looks come once in ten hours. The node is right within its limit only if somebody told the agent.

use std::collections::BTreeSet;
use std::time::Duration;

use super::World;
use super::truth::Problem;
use crate::actors::kit::trace::Trace;
use crate::actors::settings::Settings;
use crate::sim::faults::Fault;
use crate::sim::faults::random::Random;
use crate::sim::invariants::VOLUMES_GROWN;

/// For a look that mends what was missed: longer than any story.
const PUT_OFF: Duration = Duration::from_hours(10);
/// The longest that pods may take to become what they should be: their graces, the pauses of those that crash, and two of the
/// passes that remove old logs from the disk, which come every minute.
const LIMIT: Duration = Duration::from_secs(130);
/// The same after faults: what failed over and over is tried again after its longest pause, and calls that hang come to
/// their deadlines.
const LIMIT_AFTER_FAULTS: Duration = Duration::from_secs(300);
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

    /// The longest half of a step at a file, by the seed: a fast disk, one of an edge node, a busy one, a dying one.
    pub fn disk(self, seed: u64) -> Duration {
        self.one_of(&DISKS, &Random::named(seed, "disk"))
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

impl World {
    /// Waits until the user does the next thing. In the strict mode things come in bursts, and where nothing goes wrong the
    /// node becomes right after each.
    pub async fn until_next_deed(&self, shortest: Duration, longest: Duration) {
        if self.shared.strict.0 {
            if self.random().chance(IN_A_BURST) {
                return self.sleep(self.random().between(Duration::ZERO, BURST_STEP)).await;
            }
            if self.node().faults.was_quiet() {
                self.settle().await;
            }
        }
        self.sleep(self.random().between(shortest, longest)).await;
    }
}
