//! A pod of which nothing runs any more: its volumes and cgroup are released, then it is over, and what is left of it is
//! removed.

use std::time::Duration;

use crate::logic::model::runtime_pod::{RuntimeContainer, RuntimePod, RuntimeSandbox};
use crate::logic::model::time::Moment;
use crate::logic::pods::pod_lifecycle::job::{ERROR_RETRY, Remains, Retry};

/// The longest wait between tries to remove what is left, before jitter. The first is [`ERROR_RETRY`].
const REMOVAL_RETRY_MAX: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// For how long after their creation dead containers of removed pods are kept (`--minimum-container-ttl-duration`).
    container_ttl: Duration,
    /// Its volumes are unmounted and its cgroup is gone.
    released: bool,
    /// It was released while nobody wanted it; that stays true.
    over: bool,
    /// The worker has said that it is over.
    said: bool,
    /// Since when it is to be removed, in uptime.
    since: Option<Duration>,
    directory_gone: bool,
    /// Tries to remove what is left that failed, one after the other.
    failures: u32,
}

impl Ending {
    /// Takes how long dead containers of removed pods are kept.
    pub fn set_container_ttl(&mut self, container_ttl: Duration) {
        self.container_ttl = container_ttl;
    }

    /// Whether the volumes are unmounted and the cgroup is gone.
    pub fn is_released(&self) -> bool {
        self.released
    }

    /// The volumes are unmounted and the cgroup is gone.
    pub fn note_released(&mut self) {
        self.released = true;
    }

    /// A container that was made late may have made the cgroup anew.
    pub fn doubt_release(&mut self) {
        self.released = false;
    }

    /// Whether the pod may go from the API, and another take its name, whatever is left of it.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Nobody wants the pod: it is over once it was released, and is to be removed.
    pub fn begin_removal(&mut self, uptime: Duration) {
        self.over |= self.released;
        self.since.get_or_insert(uptime);
    }

    /// Whether it is to be said now that the pod is over.
    pub fn is_to_say_over(&mut self) -> bool {
        self.over && !std::mem::replace(&mut self.said, true)
    }

    /// A word that is lost is said again.
    pub fn say_again(&mut self) {
        self.said = false;
    }

    /// The remains to be removed now, and the time until the next dead container is old enough to go. Only the
    /// directory waits for the volumes that are in it.
    pub fn remains(&self, seen: &RuntimePod, moment: Moment, uptime: Duration) -> (Remains, Option<Duration>) {
        let keeps = |container: &RuntimeContainer| self.keeps(container, moment, uptime);
        let (kept, due): (Vec<_>, Vec<_>) = seen.containers.iter().partition(|container| keeps(container).is_some());
        let holds = |sandbox: &&RuntimeSandbox| kept.iter().any(|container| container.sandbox_id == sandbox.id);
        let remains = Remains {
            sandboxes: seen.sandboxes.iter().filter(|one| !holds(one)).map(|one| one.id.clone()).collect(),
            containers: due.into_iter().map(|container| container.id.clone()).collect(),
            directory: self.over && !self.directory_gone,
        };
        let left = kept.iter().filter_map(|container| keeps(container)).min();
        (remains, left)
    }

    /// How long a dead container is kept on; `None` when it may go. A clock that was set back makes that no longer.
    fn keeps(&self, container: &RuntimeContainer, moment: Moment, uptime: Duration) -> Option<Duration> {
        let by_age = self.container_ttl.saturating_sub(moment.since(container.created_at));
        let since = self.since.unwrap_or(uptime);
        let by_end = self.container_ttl.saturating_sub(uptime.saturating_sub(since));
        Some(by_age.min(by_end)).filter(|left| !left.is_zero())
    }

    /// A removal has ended; says when to try again if something stays.
    pub fn note_removed(&mut self, remains: &Remains, well: bool, jitter: f64) -> Retry {
        if !well {
            let wait = ERROR_RETRY.saturating_mul(1 << self.failures.min(6)).min(REMOVAL_RETRY_MAX);
            self.failures = self.failures.saturating_add(1);
            return Retry::After(wait.mul_f64(1.0 + jitter / 2.0));
        }
        self.failures = 0;
        self.directory_gone |= remains.directory;
        Retry::AtOnce
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::ids::FullName;
    use crate::logic::model::runtime_pod::testing::sandbox;
    use crate::logic::model::runtime_pod::{ContainerState, SandboxState};
    use crate::logic::model::time::Stamp;

    const MADE: Moment = Moment(1_700_000_000_000_000_000);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A pod with one dead container in its sandbox.
    fn dead() -> RuntimePod {
        let mut seen = RuntimePod::empty("u".into(), FullName::new("web", "default"), Stamp(1));
        seen.sandboxes = vec![sandbox("s0", SandboxState::NotReady)];
        seen.containers = vec![RuntimeContainer {
            sandbox_id: "s0".into(),
            created_at: MADE,
            ..RuntimeContainer::sample("c0", "web", ContainerState::Exited)
        }];
        seen
    }

    #[test]
    fn a_pod_is_over_once_it_was_released_while_nobody_wants_it() {
        let mut ending = Ending::default();
        ending.begin_removal(at(0));
        assert!(!ending.is_over() && !ending.is_to_say_over());
        ending.note_released();
        assert!(!ending.is_over(), "nobody asked yet");
        ending.begin_removal(at(1));
        assert!(ending.is_over() && ending.is_to_say_over() && !ending.is_to_say_over(), "said once");
        ending.say_again();
        assert!(ending.is_to_say_over());
        ending.doubt_release();
        assert!(ending.is_over(), "the API may have let it go by now");
    }

    #[test]
    fn dead_containers_are_kept_by_their_age_and_hold_their_sandbox() {
        let seen = dead();
        // A clock that is set back does not make the wait longer: then the time since the removal began counts.
        for (age, since_removal, left) in [(10, 0, Some(50)), (60, 0, None), (10, 20, Some(40)), (10, 60, None)] {
            let mut ending = Ending::default();
            ending.set_container_ttl(at(60));
            ending.begin_removal(at(100));
            let (remains, until) = ending.remains(&seen, MADE.plus(at(age)), at(100 + since_removal));
            assert_eq!(until, left.map(at), "{age} s old, {since_removal} s after");
            assert_eq!(remains.containers.is_empty(), left.is_some());
            assert_eq!(remains.sandboxes.is_empty(), left.is_some());
            assert!(!remains.directory, "its volumes may be in there");
        }
    }

    #[test]
    fn tries_to_remove_come_later_each_time_up_to_a_minute() {
        let mut ending = Ending::default();
        let remains = Remains { directory: true, ..Remains::default() };
        for wait in [10, 20, 40, 60, 60] {
            assert_eq!(ending.note_removed(&remains, false, 0.0), Retry::After(at(wait)));
        }
        assert_eq!(ending.note_removed(&remains, true, 0.0), Retry::AtOnce);
        assert_eq!(ending.note_removed(&remains, false, 1.0), Retry::After(at(15)));
    }
}
