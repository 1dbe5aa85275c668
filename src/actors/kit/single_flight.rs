//! One job at a time, and nothing that is wanted meanwhile is lost.
//!
//! Owned by the actor. A job reads at its beginning the things that it works with. A want that comes later may have come too
//! late for it: such wants are merged, and the next job serves them. An asker waits with its want, so that a job's outcome,
//! success or failure, is for those alone who had asked before it began.

use std::collections::{BTreeMap, BTreeSet};

use ractor::RpcReplyPort;

/// The most askers of one job.
const ASKERS_MAX: usize = 1024;

/// A want that another one of its kind can be added to.
pub trait Merge {
    /// Takes in a want that came later.
    fn merge(&mut self, later: Self);
}

impl Merge for () {
    fn merge(&mut self, (): ()) {}
}

impl<T> Merge for Vec<T> {
    fn merge(&mut self, mut later: Self) {
        self.append(&mut later);
    }
}

/// A want of which the newest counts alone.
#[derive(Clone, Copy, Debug)]
pub struct Newest<T>(pub T);

impl<T> Merge for Newest<T> {
    fn merge(&mut self, later: Self) {
        *self = later;
    }
}

impl<T: Ord> Merge for BTreeSet<T> {
    fn merge(&mut self, mut later: Self) {
        self.append(&mut later);
    }
}

/// Those who wait for a job's outcome, up to 1,024 of them. One more hears that there is no answer, and asks again.
#[derive(Debug)]
pub struct Askers<T>(Vec<RpcReplyPort<T>>);

impl<T> Default for Askers<T> {
    fn default() -> Self {
        Self(vec![])
    }
}

impl<T> From<RpcReplyPort<T>> for Askers<T> {
    fn from(asker: RpcReplyPort<T>) -> Self {
        Self(vec![asker])
    }
}

impl<T> Merge for Askers<T> {
    fn merge(&mut self, mut later: Self) {
        self.0.retain(|asker| !asker.is_closed());
        self.0.append(&mut later.0);
        self.0.truncate(ASKERS_MAX);
    }
}

impl<T: Clone> Askers<T> {
    /// Whether somebody waits.
    pub fn is_waiting(&self) -> bool {
        self.0.iter().any(|asker| !asker.is_closed())
    }

    /// Tells all of them, and has none left.
    pub fn answer(&mut self, outcome: &T) {
        for asker in self.0.drain(..) {
            let _ = asker.send(outcome.clone()); // The asker may have left.
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct SingleFlight<W> {
    /// The want of the job under way.
    current: Option<W>,
    /// The want of the next.
    next: Option<W>,
}

impl<W> Default for SingleFlight<W> {
    fn default() -> Self {
        Self { current: None, next: None }
    }
}

impl<W: Merge> SingleFlight<W> {
    /// Wants a job. Returns the want of the job that the actor is to begin now, with what was wanted of it before; nothing
    /// while one is under way, whose end tells of it.
    #[must_use = "the job has to be begun"]
    pub fn want(&mut self, want: W) -> Option<&mut W> {
        self.later(want);
        if self.current.is_some() {
            return None;
        }
        self.current = self.next.take();
        self.current.as_mut()
    }

    /// Wants something of the next job, which somebody else begins.
    pub fn later(&mut self, want: W) {
        match &mut self.next {
            Some(next) => next.merge(want),
            none => *none = Some(want),
        }
    }

    /// The job under way is over. Returns its want, and what was wanted since it began: the actor wants that now, or later.
    pub fn end(&mut self) -> (Option<W>, Option<W>) {
        (self.current.take(), self.next.take())
    }

    /// Whether a job is under way.
    pub fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    /// The want of the job under way.
    pub fn current(&mut self) -> Option<&mut W> {
        self.current.as_mut()
    }

    /// The want of the job under way, and that of the next.
    pub fn wants(&self) -> impl Iterator<Item = &W> {
        self.current.iter().chain(&self.next)
    }
}

/// One job at a time for each of many keys. The jobs of different keys go on side by side: one that fails or hangs holds up
/// no other key.
#[derive(Debug)]
pub struct Flights<K, W>(BTreeMap<K, SingleFlight<W>>);

impl<K, W> Default for Flights<K, W> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone, W: Merge> Flights<K, W> {
    /// As [`SingleFlight::want`].
    #[must_use = "the job has to be begun"]
    pub fn want(&mut self, key: &K, want: W) -> Option<&mut W> {
        self.0.entry(key.clone()).or_default().want(want)
    }

    /// As [`SingleFlight::end`]. Of a key without a job nothing is kept.
    pub fn end(&mut self, key: &K) -> (Option<W>, Option<W>) {
        self.0.remove(key).map_or((None, None), |mut flight| flight.end())
    }

    /// The want of the key's job under way.
    pub fn current(&mut self, key: &K) -> Option<&mut W> {
        self.0.get_mut(key)?.current()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_wanted_meanwhile_is_for_the_next_job() {
        let mut flight = SingleFlight::default();
        assert_eq!(flight.want(vec!["a"]), Some(&mut vec!["a"]));
        assert_eq!(flight.want(vec!["b"]), None);
        assert_eq!(flight.want(vec!["c"]), None);
        assert!(flight.is_under_way());
        assert_eq!(flight.end(), (Some(vec!["a"]), Some(vec!["b", "c"])));
        assert!(!flight.is_under_way());
        assert_eq!(flight.want(vec!["b", "c"]), Some(&mut vec!["b", "c"]));
        assert_eq!(flight.end(), (Some(vec!["b", "c"]), None));
    }

    #[test]
    fn keys_do_not_wait_for_each_other() {
        let mut flights = Flights::default();
        assert!(flights.want(&"a", vec![1]).is_some() && flights.want(&"b", vec![2]).is_some());
        assert!(flights.want(&"a", vec![3]).is_none());
        assert_eq!(flights.current(&"a"), Some(&mut vec![1]));
        assert_eq!(flights.end(&"b"), (Some(vec![2]), None));
        assert_eq!(flights.end(&"a"), (Some(vec![1]), Some(vec![3])));
        assert_eq!(flights.end(&"a"), (None, None));
        assert!(flights.0.is_empty(), "nothing is kept of keys that are at rest");
    }

    proptest! {
        /// Each want is served once, by a job that began after it, and in their order.
        #[test]
        fn no_want_is_lost_or_served_by_an_older_job(ends in proptest::collection::vec(any::<bool>(), 1..200)) {
            let mut flight = SingleFlight::default();
            let (mut wanted, mut served) = (0, vec![]);
            // The last want that had come when the job under way began.
            let mut began_at = 0;
            for ends in ends.into_iter().chain([true, true, true]) {
                if !ends {
                    wanted += 1;
                    if flight.want(vec![wanted]).is_some() {
                        began_at = wanted;
                    }
                } else if flight.is_under_way() {
                    let (done, next) = flight.end();
                    let done = done.expect("one was under way");
                    prop_assert!(done.iter().all(|want| *want <= began_at));
                    served.extend(done);
                    if let Some(next) = next {
                        prop_assert!(flight.want(next).is_some());
                        began_at = wanted;
                    }
                }
            }
            prop_assert!(!flight.is_under_way());
            prop_assert_eq!(served, (1..=wanted).collect::<Vec<_>>());
        }
    }
}
