//! Containers that run and have no control group where their runtime should have made one: nobody knows what they use.
//!
//! Owned by `StatsCollector`. A container may have ended since the runtime was asked, so it counts only from the second
//! look on that misses its group. Times are uptime.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::logic::model::ids::ContainerId;

/// A container counts when its group was missed for so long.
const SETTLED: Duration = Duration::from_secs(10);
/// The log says so again after this.
const SAY_AGAIN: Duration = Duration::from_secs(3600);

/// A running container whose group is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrouplessContainer {
    /// ID.
    pub id: ContainerId,
    /// Namespace, pod and container, for people.
    pub name: String,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Groupless {
    since: BTreeMap<ContainerId, Duration>,
    count: usize,
    said: Option<Duration>,
}

impl Groupless {
    /// Takes what a look missed. The name of one such container when the log is to say so.
    pub fn take(&mut self, missed: &[GrouplessContainer], uptime: Duration) -> Option<String> {
        let ids: BTreeSet<&ContainerId> = missed.iter().map(|one| &one.id).collect();
        self.since.retain(|id, _| ids.contains(id));
        let mut settled = vec![];
        for one in missed {
            let since = *self.since.entry(one.id.clone()).or_insert(uptime);
            if uptime.saturating_sub(since) >= SETTLED {
                settled.push(one);
            }
        }
        self.count = settled.len();
        let first = settled.first()?;
        let is_due = self.said.is_none_or(|said| uptime.saturating_sub(said) >= SAY_AGAIN);
        is_due.then(|| {
            self.said = Some(uptime);
            first.name.clone()
        })
    }

    /// How many there were at the last look.
    pub fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(ids: &[&str]) -> Vec<GrouplessContainer> {
        let one = |id: &&str| GrouplessContainer { id: ContainerId::from(*id), name: format!("ns/p/{id}") };
        ids.iter().map(one).collect()
    }

    #[test]
    fn a_container_without_a_group_counts_at_the_second_look_and_is_told_once_an_hour() {
        let mut groupless = Groupless::default();
        let mut look = |secs, ids: &[&str]| {
            let told = groupless.take(&missed(ids), Duration::from_secs(secs));
            (told, groupless.count())
        };
        assert_eq!(look(0, &["ended", "odd"]), (None, 0));
        assert_eq!(look(9, &["odd"]), (None, 0));
        assert_eq!(look(10, &["odd", "new"]), (Some("ns/p/odd".to_owned()), 1));
        assert_eq!(look(30, &["odd", "new"]), (None, 2));
        assert_eq!(look(40, &[]), (None, 0));
        assert_eq!(look(50, &["ended"]), (None, 0), "it is counted from the beginning");
        assert_eq!(look(3700, &["ended"]), (Some("ns/p/ended".to_owned()), 1));
    }
}
