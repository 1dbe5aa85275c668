//! Faults, their rates, and the chance that decides them.

pub mod crashes;
pub mod random;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use super::faults::random::Random;
use crate::actors::kit::trace::lock;

/// A kind of trouble. Names are what `--faults` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::EnumIter, strum::EnumString, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Fault {
    /// A call to the runtime is refused and has no effect.
    Refusals,
    /// A call to the runtime takes effect, but its answer is an error.
    LostAnswers,
    /// A call to the runtime does not answer before its deadline, with or without effect.
    Hangs,
    /// A call whose caller left takes effect all the same, later.
    LateEffects,
    /// Calls take up to seconds instead of milliseconds.
    Slow,
    /// Events of the runtime are lost, late, or told twice; its stream ends.
    Events,
    /// Image pulls fail.
    Pulls,
    /// Files cannot be written or removed.
    Disk,
    /// Cgroups cannot be made or removed.
    Cgroups,
    /// The remains of pods cannot be removed, for minutes: calls fail, or hang.
    Removals,
    /// Volumes cannot be unmounted, for minutes: calls fail, or hang.
    Unmounts,
    /// Nobody hears of changes of the manifest folder; it cannot be read.
    Watches,
    /// Sandboxes die by themselves.
    Sandboxes,
    /// The runtime is restarted.
    RuntimeRestarts,
    /// The node's wall clock is set back or ahead by a second to a day.
    ClockSteps,
    /// The agent is killed and started again.
    Kills,
    /// Actors panic.
    Crashes,
    /// Lists of the runtime lack some of what there is.
    PartialLists,
    /// Lists of the runtime show how it was seconds ago.
    StaleLists,
    /// The runtime loses track of a container that runs: its state is unknown.
    UnknownContainers,
    /// The kernel kills a container that takes too much memory.
    OomKills,
    /// The disk of the images is full.
    FullImages,
    /// State files of the agent are written in part, or hold something else afterwards.
    TornWrites,
    /// Work on a volume fails half way: its effect, or a part of it, is there.
    HalfVolumes,
    /// Steps at files take up to seconds.
    SlowFiles,
    /// The machine loses its power, and boots again.
    Resets,
    /// Networks of sandboxes cannot be made or taken away; for a time the runtime says that it has none.
    Networks,
    /// The runtime comes back without its state: all sandboxes and containers are gone.
    RuntimeLosses,
    /// Calls to drivers fail, some of them although they took effect.
    PluginErrors,
    /// A call to a driver takes effect, but its answer does not come.
    PluginLostAnswers,
    /// A call to a driver does not answer before its deadline, with or without effect.
    PluginHangs,
    /// Calls to drivers take seconds.
    PluginSlow,
    /// Drivers die and come back, and register twice.
    PluginRestarts,
    /// Devices come and go, and turn ill.
    PluginDevices,
    /// Answers of the API server take up to seconds, or never come.
    ApiSlow,
    /// The API server cannot be reached, for seconds or minutes.
    ApiAway,
    /// The API server asks to come back later (429).
    ApiBusy,
    /// The API server fails (500, 503).
    ApiErrors,
    /// Changes meet those of others (409).
    ApiConflicts,
    /// Watches end, break, fall silent, or begin too late (410).
    ApiWatches,
    /// Lists show how it was before; there are no streaming ones.
    ApiStale,
    /// The API server's clock is minutes wrong.
    ApiClocks,
    /// A call to the API server takes effect, but the answer does not come.
    ApiLostAnswers,
    /// An API server that was away, or is new, answers 404 to deletions of pods that are there while its caches fill.
    ApiFalseGone,
    /// Webhooks of the API server change what the agent writes.
    ApiWebhooks,
}

impl Fault {
    /// Whether it came after seeds had been given names: `all` is without these, so that such a seed tells its story still.
    pub fn is_later(self) -> bool {
        (Self::StaleLists..=Self::RuntimeLosses).contains(&self) || self == Self::ApiWebhooks
    }

    /// Whether it is one of drivers: nothing happens by it without any. `all` is without these as well.
    pub fn is_of_plugins(self) -> bool {
        (Self::PluginErrors..=Self::PluginDevices).contains(&self)
    }

    /// Whether it is one of the API server: nothing happens by it without one.
    pub fn is_of_api(self) -> bool {
        self >= Self::ApiSlow
    }
}

/// The fate of one call to the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It works.
    Well,
    /// No effect, and an error.
    Refused,
    /// An effect, and an error.
    AnswerLost,
    /// Silence until the deadline; an effect or none.
    Hangs {
        /// Whether it takes effect.
        effect: bool,
    },
}

/// The longest half of a step at a file where [`Fault::SlowFiles`] strikes.
const BUSY_DISK: Duration = Duration::from_secs(3);

/// See the module.
#[derive(Debug)]
pub struct Faults {
    ever: BTreeSet<Fault>,
    active: Mutex<BTreeSet<Fault>>,
    calls: Random,
    others: Random,
    /// A stream of its own, as the next: the same seed meets the same faults of other kinds without this one.
    clock: Random,
    files: Random,
    /// The longest half of a step at a file else.
    disk: Duration,
}

impl Faults {
    /// These, from now on. A step at a file takes up to twice `disk` where nothing goes wrong.
    pub fn new(seed: u64, active: BTreeSet<Fault>, disk: Duration) -> Self {
        let ever = active.clone();
        Self {
            ever,
            active: Mutex::new(active),
            calls: Random::named(seed, "calls"),
            others: Random::named(seed, "faults"),
            clock: Random::named(seed, "clock steps"),
            files: Random::named(seed, "files"),
            disk,
        }
    }

    /// Whether nothing goes wrong now.
    pub fn is_quiet(&self) -> bool {
        lock(&self.active).is_empty()
    }

    /// Whether nothing ever goes wrong.
    pub fn was_quiet(&self) -> bool {
        self.ever.is_empty()
    }

    /// Whether this kind goes on now.
    pub fn has(&self, fault: Fault) -> bool {
        lock(&self.active).contains(&fault)
    }

    /// Whether this kind went on from the beginning: what it began may come later than its end.
    pub fn had(&self, fault: Fault) -> bool {
        self.ever.contains(&fault)
    }

    /// Whether every call to the runtime ever did what its answer said, so that the agent never has to stop what it began.
    pub fn runtime_was_well(&self) -> bool {
        let harmless = [
            Fault::Slow,
            Fault::Events,
            Fault::Pulls,
            Fault::Disk,
            Fault::Cgroups,
            Fault::Removals,
            Fault::Unmounts,
            Fault::FullImages,
            Fault::TornWrites,
            Fault::HalfVolumes,
            Fault::SlowFiles,
            Fault::Watches,
            Fault::Sandboxes,
            Fault::Resets,
            Fault::ClockSteps,
            Fault::Kills,
            Fault::Crashes,
        ];
        let is_harmless = |fault: &Fault| harmless.contains(fault) || fault.is_of_api() || fault.is_of_plugins();
        self.ever.iter().all(is_harmless)
    }

    /// Only these from now on.
    pub fn set(&self, active: BTreeSet<Fault>) {
        *lock(&self.active) = active;
    }

    /// Whether a kind strikes now; `share` is how often, while it goes on.
    pub fn strikes(&self, fault: Fault, share: f64) -> bool {
        self.has(fault) && self.others.chance(share)
    }

    /// How far somebody sets the node's clock now, in nanoseconds; `share` is how often, while that goes on. Short steps are
    /// as frequent as long ones.
    pub fn clock_step(&self, share: f64) -> Option<i64> {
        if !self.has(Fault::ClockSteps) || !self.clock.chance(share) {
            return None;
        }
        const DAY: f64 = 86_400.0;
        let step = Duration::from_secs_f64(DAY.powf(self.clock.unit()));
        let nanoseconds = i64::try_from(step.as_nanos()).unwrap_or(i64::MAX);
        Some(if self.clock.chance(0.5) { -nanoseconds } else { nanoseconds })
    }

    /// How long one half of a call takes: before its effect, or after it.
    pub fn latency(&self) -> Duration {
        let longest = if self.has(Fault::Slow) && self.calls.chance(0.2) { 3_000 } else { 30 };
        self.calls.between(Duration::from_millis(1), Duration::from_millis(longest))
    }

    /// How long one half of a step at a file takes: before its effect, or after it.
    pub fn file_latency(&self) -> Duration {
        let is_busy = self.has(Fault::SlowFiles) && self.files.chance(0.05);
        self.files.between(Duration::ZERO, if is_busy { BUSY_DISK } else { self.disk })
    }

    /// The fate of the next call.
    pub fn fate(&self) -> Fate {
        if self.strikes(Fault::Refusals, 0.06) {
            Fate::Refused
        } else if self.strikes(Fault::LostAnswers, 0.06) {
            Fate::AnswerLost
        } else if self.strikes(Fault::Hangs, 0.01) {
            Fate::Hangs { effect: self.others.chance(0.5) }
        } else {
            Fate::Well
        }
    }

    /// Chance that is not about calls.
    pub fn dice(&self) -> &Random {
        &self.others
    }
}

/// Reads a list such as `refusals,events`; `all` (but those that came later), `later` (those), `plugins` (all of drivers), `api`
/// (all of the API server) and `none` are lists, too.
///
/// # Errors
/// The word that names no fault.
pub fn parse_list(text: &str) -> Result<BTreeSet<Fault>, String> {
    use strum::IntoEnumIterator;
    let mut faults = BTreeSet::new();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        match word {
            "all" => faults.extend(Fault::iter().filter(|fault| !fault.is_later() && !fault.is_of_plugins())),
            "later" => faults.extend(Fault::iter().filter(|fault| fault.is_later())),
            "plugins" => faults.extend(Fault::iter().filter(|fault| fault.is_of_plugins())),
            "api" => faults.extend(Fault::iter().filter(|fault| fault.is_of_api())),
            "none" => faults.clear(),
            word => match word.strip_prefix('-') {
                Some(word) => {
                    faults.remove(&one(word)?);
                }
                None => {
                    faults.insert(one(word)?);
                }
            },
        }
    }
    Ok(faults)
}

fn one(word: &str) -> Result<Fault, String> {
    use strum::IntoEnumIterator;
    word.parse().map_err(|_| {
        let known: Vec<String> = Fault::iter().map(|fault| fault.to_string()).collect();
        format!("no fault is called {word:?}; known are all, later, plugins, api, none, {}", known.join(", "))
    })
}

/// The list as [`parse_list`] reads it.
pub fn write_list(faults: &BTreeSet<Fault>) -> String {
    if faults.is_empty() {
        return "none".to_owned();
    }
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_is_written() {
        let all = parse_list("all").expect("a list");
        assert_eq!(parse_list(&write_list(&all)), Ok(all.clone()));
        assert_eq!(parse_list("none"), Ok(BTreeSet::new()));
        assert_eq!(parse_list("events,lost-answers"), Ok([Fault::Events, Fault::LostAnswers].into()));
        assert_eq!(parse_list("all,-kills").expect("a list").len(), all.len() - 1);
        assert!(parse_list("all,later").expect("a list").len() > all.len());
        assert!(parse_list("gremlins").is_err());
    }
}
