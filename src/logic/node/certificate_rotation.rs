//! One certificate's life: when another is asked for, for whom, and what follows when none comes (NODE-51 … NODE-53).
//!
//! Keeps whom a certificate is wanted for, what is held, whether one was asked for, and how often that failed in a row.

use std::time::Duration;

use super::certificate_plan::{Names, retry_wait, rotation_deadline};
use crate::logic::model::time::Moment;

/// The facts of a certificate that is held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// The names that it is for.
    pub names: Names,
    /// Its first moment.
    pub not_before: Moment,
    /// Its last.
    pub not_after: Moment,
}

/// Why the certificate that was asked for did not come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missed {
    /// For people.
    pub problem: String,
    /// Whether the API server is at work, as far as this shows it.
    pub server_answers: Option<bool>,
}

/// The event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// Time passed.
    Looked,
    /// A certificate is wanted for these.
    Wanted(Names),
    /// The one that was asked for is here.
    Issued(Held),
    /// The one that was asked for did not come.
    Failed,
}

/// The next step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Ask for a certificate for these; it ends as `Issued` or `Failed`.
    Ask(Names),
    /// No longer wait for the one that was asked for: it would be for others than wanted.
    Abandon,
}

/// The moment of a step.
#[derive(Clone, Copy, Debug)]
pub struct When {
    /// The wall clock, by which certificates hold.
    pub now: Moment,
    /// The agent's uptime, by which tries are spaced.
    pub uptime: Duration,
    /// Chance, in 0..1.
    pub chance: f64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// Whether what is held is exchanged before its end; if not, only the first one is asked for.
    exchanges: bool,
    wanted: Option<Names>,
    held: Option<Held>,
    /// From when on what is held is exchanged.
    deadline: Moment,
    asked: Option<Names>,
    failures: u32,
    /// The uptime of the next try.
    retry_at: Duration,
}

impl Rotation {
    /// Begins with what is held; `at_once` has it exchanged right away.
    pub fn new(exchanges: bool, held: Option<Held>, at_once: bool, chance: f64) -> Self {
        let mut rotation = Self {
            exchanges,
            wanted: None,
            held: None,
            deadline: Moment::EPOCH,
            asked: None,
            failures: 0,
            retry_at: Duration::ZERO,
        };
        if let Some(held) = held {
            rotation.hold(held, chance);
        }
        if at_once {
            rotation.deadline = Moment::EPOCH;
        }
        rotation
    }

    /// Takes one observation; says what to do about it, in order.
    pub fn step(&mut self, input: Input, when: When) -> Vec<Action> {
        let mut actions = vec![];
        match input {
            Input::Looked => {}
            Input::Wanted(names) => actions.extend(self.want(names)),
            Input::Issued(held) => {
                let as_wanted = self.asked.take() == self.wanted;
                self.hold(held, when.chance);
                // One that is of no use, for its names or its time, is no reason to ask without a pause.
                if as_wanted && self.is_due(when.now) { self.fail(when) } else { self.forget_failures() }
            }
            Input::Failed => {
                self.asked = None;
                self.fail(when);
            }
        }
        if self.asked.is_none()
            && self.is_due(when.now)
            && when.uptime >= self.retry_at
            && let Some(names) = self.wanted.clone()
        {
            self.asked = Some(names.clone());
            actions.push(Action::Ask(names));
        }
        actions
    }

    /// How long until there is something to do, if nothing happens before: zero is never told. `None` while one is asked
    /// for, or none is wanted.
    pub fn rest(&self, when: When) -> Option<Duration> {
        if self.asked.is_some() || self.wanted.is_none() || (!self.exchanges && self.held.is_some()) {
            return None;
        }
        let wait = if self.is_due(when.now) {
            self.retry_at.saturating_sub(when.uptime)
        } else {
            self.deadline.since(when.now)
        };
        Some(wait.max(Duration::from_millis(1)))
    }

    /// Whether one was asked for and is waited for.
    pub fn is_waiting(&self) -> bool {
        self.asked.is_some()
    }

    /// From when on what is held is exchanged; `None` while nothing is held, or it never is.
    pub fn deadline(&self) -> Option<Moment> {
        self.held.as_ref().filter(|_| self.exchanges).map(|_| self.deadline)
    }

    fn fail(&mut self, when: When) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = when.uptime.saturating_add(retry_wait(self.failures, when.chance));
    }

    fn forget_failures(&mut self) {
        self.failures = 0;
        self.retry_at = Duration::ZERO;
    }

    fn hold(&mut self, held: Held, chance: f64) {
        self.deadline = rotation_deadline(held.not_before, held.not_after, chance);
        self.held = Some(held);
    }

    /// Other names are asked for at once: failures with the old ones say nothing about them. A certificate that is held
    /// and serves them as well is kept.
    fn want(&mut self, names: Names) -> Option<Action> {
        if self.wanted.as_ref() == Some(&names) {
            return None;
        }
        let served = self.held.as_ref().is_some_and(|held| held.names.satisfy(&names));
        let abandoned = self.asked.as_ref().is_some_and(|asked| *asked != names) && !served;
        self.wanted = Some(names);
        self.forget_failures();
        abandoned.then(|| {
            self.asked = None;
            Action::Abandon
        })
    }

    fn is_due(&self, now: Moment) -> bool {
        match &self.held {
            None => true,
            Some(_) if !self.exchanges => false,
            Some(held) => now >= self.deadline || !self.serves(held),
        }
    }

    fn serves(&self, held: &Held) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| held.names.satisfy(wanted))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{Action, Held, Input, Moment, Names, Rotation, When};

    const HOUR: u64 = 3600;

    fn at(seconds: u64) -> When {
        let passed = Duration::from_secs(seconds);
        When { now: Moment::EPOCH.plus(passed), uptime: passed, chance: 0.5 }
    }

    fn held(names: &Names, from: u64, to: u64) -> Held {
        Held { names: names.clone(), not_before: at(from).now, not_after: at(to).now }
    }

    fn client() -> Names {
        Names::of_client("n")
    }

    fn server(address: &str) -> Names {
        Names::of_server("n", [("InternalIP", address)], false).expect("an address")
    }

    #[test]
    fn nothing_is_asked_before_it_is_known_for_whom() {
        let mut rotation = Rotation::new(true, None, false, 0.5);
        assert_eq!(rotation.step(Input::Looked, at(0)), []);
        assert_eq!(rotation.rest(at(0)), None);
        assert_eq!(rotation.step(Input::Wanted(server("10.0.0.1")), at(1)), [Action::Ask(server("10.0.0.1"))]);
        assert_eq!(rotation.step(Input::Looked, at(100)), [], "one at a time");
    }

    /// NODE-51.
    #[test]
    fn a_certificate_is_exchanged_at_its_deadline() {
        let mut rotation = Rotation::new(true, Some(held(&client(), 0, 10 * HOUR)), false, 0.5);
        assert_eq!(rotation.step(Input::Wanted(client()), at(HOUR)), []);
        assert_eq!(rotation.rest(at(HOUR)), Some(Duration::from_secs(7 * HOUR)));
        assert_eq!(rotation.step(Input::Looked, at(8 * HOUR - 1)), []);
        assert_eq!(rotation.step(Input::Looked, at(8 * HOUR)), [Action::Ask(client())]);
        assert_eq!(rotation.step(Input::Issued(held(&client(), 8 * HOUR, 18 * HOUR)), at(8 * HOUR)), []);
        assert_eq!(rotation.deadline(), Some(at(16 * HOUR).now));
    }

    #[test]
    fn failures_are_spaced_and_forgotten() {
        let mut rotation = Rotation::new(true, None, false, 0.5);
        assert_eq!(rotation.step(Input::Wanted(client()), at(0)).len(), 1);
        for wait in [2100, 4200, 8400, 16800, 32000, 32000] {
            assert_eq!(rotation.step(Input::Failed, at(HOUR)), []);
            assert_eq!(rotation.rest(at(HOUR)), Some(Duration::from_millis(wait)));
            assert_eq!(rotation.step(Input::Looked, at(HOUR + 1)), []);
            rotation.retry_at = Duration::ZERO;
            assert_eq!(rotation.step(Input::Looked, at(HOUR + 2)), [Action::Ask(client())]);
        }
        rotation.step(Input::Issued(held(&client(), 0, 10 * HOUR)), at(HOUR));
        assert_eq!(rotation.failures, 0);
    }

    #[test]
    fn a_certificate_that_is_of_no_use_is_not_asked_for_again_without_a_pause() {
        let wanted = server("10.0.0.1");
        for useless in [held(&client(), 0, 10 * HOUR), held(&wanted, 0, HOUR)] {
            let mut rotation = Rotation::new(true, None, false, 0.5);
            assert_eq!(rotation.step(Input::Wanted(wanted.clone()), at(2 * HOUR)).len(), 1);
            assert_eq!(rotation.step(Input::Issued(useless), at(2 * HOUR)), []);
            assert_eq!(rotation.rest(at(2 * HOUR)), Some(Duration::from_millis(2100)));
            assert_eq!(rotation.step(Input::Looked, at(2 * HOUR + 3)), [Action::Ask(wanted.clone())]);
        }
    }

    #[test]
    fn one_that_is_not_exchanged_is_asked_for_once() {
        let mut rotation = Rotation::new(false, None, false, 0.5);
        assert_eq!(rotation.step(Input::Wanted(client()), at(0)), [Action::Ask(client())]);
        assert_eq!(rotation.step(Input::Issued(held(&client(), 0, HOUR)), at(1)), []);
        assert_eq!(rotation.step(Input::Looked, at(2 * HOUR)), []);
        assert_eq!(rotation.rest(at(2 * HOUR)), None);
        assert_eq!(rotation.deadline(), None);
    }

    #[test]
    fn one_that_is_to_be_replaced_at_once_is() {
        let mut rotation = Rotation::new(true, Some(held(&client(), 0, 10 * HOUR)), true, 0.5);
        assert_eq!(rotation.step(Input::Wanted(client()), at(1)), [Action::Ask(client())]);
    }

    /// NODE-52, NODE-53: other addresses, another certificate; fewer are no reason.
    #[test]
    fn names_that_change_are_asked_for_at_once() {
        let both = Names::of_server("n", [("InternalIP", "10.0.0.1"), ("InternalIP", "10.0.0.2")], false);
        let both = both.expect("addresses");
        let mut rotation = Rotation::new(true, Some(held(&both, 0, 10 * HOUR)), false, 0.5);
        assert_eq!(rotation.step(Input::Wanted(both), at(1)), []);
        assert_eq!(rotation.step(Input::Wanted(server("10.0.0.2")), at(2)), []);
        assert_eq!(rotation.step(Input::Wanted(server("10.0.0.3")), at(3)), [Action::Ask(server("10.0.0.3"))]);
        assert_eq!(
            rotation.step(Input::Wanted(server("10.0.0.4")), at(4)),
            [Action::Abandon, Action::Ask(server("10.0.0.4"))]
        );
        assert_eq!(rotation.step(Input::Wanted(server("10.0.0.1")), at(5)), [], "the one held serves that again");
    }

    fn inputs() -> impl Strategy<Value = (u8, u64)> {
        (0u8..5, 1u64..40_000)
    }

    proptest! {
        /// After any events, at most one is asked for at a time, and there is always something that goes on.
        #[test]
        fn one_is_asked_for_at_a_time_and_something_always_goes_on(steps in prop::collection::vec(inputs(), 1..60)) {
            let mut rotation = Rotation::new(true, None, false, 0.5);
            let (mut open, mut now) = (false, 0);
            for (kind, pause) in steps {
                now += pause;
                let input = match kind {
                    0 => Input::Looked,
                    1 => Input::Wanted(server("10.0.0.1")),
                    2 => Input::Wanted(server("10.0.0.2")),
                    3 if open => Input::Issued(held(&rotation.asked.clone().expect("it is open"), now, now + HOUR)),
                    4 if open => Input::Failed,
                    _ => continue,
                };
                if matches!(input, Input::Issued(_) | Input::Failed) {
                    open = false;
                }
                for action in rotation.step(input, at(now)) {
                    match action {
                        Action::Ask(names) => {
                            prop_assert!(!open);
                            prop_assert_eq!(Some(names), rotation.wanted.clone());
                            open = true;
                        }
                        Action::Abandon => {
                            prop_assert!(open);
                            open = false;
                        }
                    }
                }
                prop_assert_eq!(open, rotation.is_waiting());
                prop_assert!(open || rotation.wanted.is_none() || rotation.rest(at(now)).is_some());
            }
        }
    }
}
