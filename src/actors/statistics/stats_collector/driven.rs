//! Figures of drivers' volumes (VOL-49): each volume's driver is asked by an operation of its own, beside all else.
//!
//! A look never waits for drivers: it shows their last answers. A driver that hangs costs the figures of its own volumes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{StatsCollector, steps};
use crate::actors::kit::context::Context;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::PodUid;
use crate::logic::statistics::volumes::{Answer, Figures, VolumeFigures};
use crate::logic::statistics::walks::{WalkEnd, WalkKey, WalkTerms, Walks};
use crate::messages::Ended;
use crate::messages::event_recorder::EventSubject;
use crate::messages::stats_collector::{DrivenThere, DriverAnswer, StatsCollectorMsg};

/// Questions to one driver that may be open: the other calls that a driver may have open are for pods that wait.
const OPEN_MAX: usize = 8;

/// Drivers' volumes and their answers.
#[derive(Default)]
pub(super) struct Driven {
    there: BTreeMap<WalkKey, DrivenThere>,
    answers: BTreeMap<WalkKey, Answer>,
    schedule: Walks,
    /// Volumes that a driver is being asked about, with the driver.
    open: BTreeMap<WalkKey, String>,
}

impl Driven {
    /// Takes the volumes that are there; answers about others are forgotten.
    pub(super) fn set(&mut self, there: Vec<DrivenThere>) {
        self.there = there.into_iter().map(|volume| (volume.key.clone(), volume)).collect();
        self.answers.retain(|key, _| self.there.contains_key(key));
    }

    /// The volumes that their drivers gave figures of.
    pub(super) fn figures(&self) -> impl Iterator<Item = (&PodUid, VolumeFigures)> {
        self.there.iter().filter_map(|(key, there)| {
            let (WalkKey::Volume(uid, _), Some(answer)) = (key, self.answers.get(key)) else { return None };
            Some((uid, VolumeFigures { figures: Figures::Answered(*answer), ..there.volume.clone() }))
        })
    }

    /// The volumes whose drivers are to be asked now. A volume is asked about once at a time.
    fn due(&mut self, period: Duration, uptime: Duration) -> Vec<DrivenThere> {
        let terms = WalkTerms { period, writers_ns: None };
        let there = self.there.keys().map(|key| (key.clone(), terms)).collect();
        let mut due = vec![];
        for key in self.schedule.due(&there, uptime) {
            let volume = &self.there[&key];
            let driver = &volume.at.driver;
            let is_busy = self.open.values().filter(|open| *open == driver).count() >= OPEN_MAX;
            if !is_busy && !self.open.contains_key(&key) {
                self.open.insert(key, driver.clone());
                due.push(volume.clone());
            }
        }
        due
    }

    /// Takes an answer; gives the volume that it is about, if that is still there.
    fn take(&mut self, key: &WalkKey, answer: Option<Answer>, uptime: Duration, chance: f64) -> Option<&DrivenThere> {
        self.open.remove(key);
        let end = WalkEnd { at: uptime, cost: Duration::ZERO, chance, is_whole: true };
        let there = self.there.get(key)?;
        self.schedule.ended(key.clone(), end);
        match answer {
            Some(answer) => drop(self.answers.insert(key.clone(), answer)),
            None => drop(self.answers.remove(key)),
        }
        Some(there)
    }
}

impl StatsCollector {
    /// Asks the drivers of volumes whose time has come.
    pub(super) fn ask_drivers(&mut self, context: &mut Context<StatsCollectorMsg>) {
        let Some(period) = self.args.volume_period else { return };
        for volume in self.driven.due(period, context.clock().uptime()) {
            let (args, key, about) = (Arc::clone(&self.args), volume.key, volume.at.handle.clone());
            let work = async move { steps::ask_driver(&args, &volume.at).await };
            let ended = move |outcome: Result<_, _>| StatsCollectorMsg::Answered(key, outcome.into());
            context.start("ask driver for figures", about, work, ended);
        }
    }

    /// A driver answered, or did not: then the volume has no figures, as upstream has it. A question that waited for its turn
    /// has it now.
    pub(super) fn answered(
        &mut self,
        key: &WalkKey,
        outcome: Ended<DriverAnswer>,
        context: &mut Context<StatsCollectorMsg>,
    ) {
        let told = outcome.into_result().unwrap_or_else(|problem| {
            tracing::debug!(?key, problem, "a driver gives no figures of its volume");
            None
        });
        let (answer, trouble) = told.map_or((None, None), |(answer, words)| (Some(answer), words));
        let chance = self.args.chance.next();
        let there = self.driven.take(key, answer, context.clock().uptime(), chance);
        if let (Some(there), Some(words), WalkKey::Volume(uid, name)) = (there, trouble, key) {
            let subject = EventSubject::pod(uid, &there.pod);
            let event = subject.warning(EventReason::VolumeConditionAbnormal, format!("Volume {name}: {words}"));
            context.tell(&self.args.event_recorder, event);
        }
        self.ask_drivers(context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::ids::FullName;
    use crate::logic::model::time::Moment;
    use crate::logic::volumes::volume_states::DrivenVolume;

    const PERIOD: Duration = Duration::from_secs(60);

    fn volume(driver: &str, number: usize) -> DrivenThere {
        let name = format!("v{number}");
        let at = DrivenVolume { driver: driver.to_owned(), handle: name.clone(), ..DrivenVolume::default() };
        let key = WalkKey::Volume(PodUid::from(driver), name.clone());
        let figures = Figures::Answered(Answer::default());
        let volume = VolumeFigures { name, claim: None, is_ephemeral: false, figures };
        DrivenThere { key, pod: FullName::new("p", "ns"), at, volume }
    }

    fn answer(at: i64) -> Option<Answer> {
        Some(Answer { at: Moment(at), ..Answer::default() })
    }

    /// VOL-49: a driver that hangs keeps no other driver's volumes from their figures, and has a bound of open questions.
    #[test]
    fn a_driver_that_hangs_costs_its_own_figures() {
        let mut driven = Driven::default();
        let hung = (0..20).map(|number| volume("hung", number));
        driven.set(hung.chain([volume("good", 0), volume("good", 1)]).collect());
        let now = Duration::from_secs(1);
        let asked = driven.due(PERIOD, now);
        assert_eq!(asked.iter().filter(|volume| volume.at.driver == "hung").count(), OPEN_MAX);
        assert_eq!(asked.len(), OPEN_MAX + 2);
        assert!(driven.due(PERIOD, now).is_empty(), "each is asked about once at a time");
        for number in [0, 1] {
            driven.take(&volume("good", number).key, answer(1), now, 0.0);
        }
        let shown: Vec<String> = driven.figures().map(|(uid, figures)| format!("{uid} {}", figures.name)).collect();
        assert_eq!(shown, ["good v0", "good v1"]);
        let later = now + PERIOD;
        let asked: Vec<String> = driven.due(PERIOD, later).into_iter().map(|volume| volume.at.driver).collect();
        assert_eq!(asked, ["good", "good"], "the other one has no room");
        driven.take(&asked_key("hung", 0), None, later, 0.0);
        let asked = driven.due(PERIOD, later);
        assert_eq!(asked.len(), 1, "the next one has its turn");
        assert_ne!(asked[0].key, asked_key("hung", 0), "which is not the one that had it");
    }

    fn asked_key(driver: &str, number: usize) -> WalkKey {
        volume(driver, number).key
    }

    /// VOL-49: a driver without an answer leaves no old figures, nor does a volume that is gone.
    #[test]
    fn figures_are_as_old_as_the_last_answer() {
        let mut driven = Driven::default();
        let there = vec![volume("d", 0), volume("d", 1)];
        driven.set(there.clone());
        let mut now = Duration::ZERO;
        for volume in driven.due(PERIOD, now) {
            assert!(driven.take(&volume.key, answer(1), now, 0.5).is_some());
        }
        assert_eq!(driven.figures().count(), 2);
        now += PERIOD;
        assert!(driven.due(PERIOD, now).is_empty(), "chance stretched the wait");
        now += PERIOD / 2;
        assert_eq!(driven.due(PERIOD, now).len(), 2);
        driven.take(&there[0].key, None, now, 0.0);
        assert_eq!(driven.figures().count(), 1);
        driven.set(vec![there[0].clone()]);
        assert_eq!(driven.figures().count(), 0);
        assert!(driven.take(&there[1].key, answer(2), now, 0.0).is_none(), "it is gone");
        assert_eq!(driven.figures().count(), 0);
    }
}
