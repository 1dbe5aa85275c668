//! How many commands of probes are under way at once on the node, and whose turn is next: fair by pod (PAIN-29, SEC-47,
//! SEC-48).
//!
//! Owned by `Prober`. Commands are the dear probes: each is a process of the runtime's. A probe that waits here has not
//! begun, so its own time limit has not, either. Three rules keep a pod whose commands hang from holding up others:
//!
//! - pods take turns, however many commands each has waiting;
//! - a pod has a share of the places, and no more;
//! - a command has its place for a while only: then the place is somebody else's, whatever the command's own time limit
//!   is, and whether the runtime keeps to it. It still counts for its pod's share, so what hangs holds up its own pod alone.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How much is let through.
#[derive(Clone, Copy, Debug)]
pub struct GateLimits {
    /// Places on the node.
    pub places: usize,
    /// Commands of one pod under way.
    pub of_pod: usize,
    /// How long a command has its place.
    pub hold: Duration,
}

/// See the module. `P` says which pod, `K` whose command it is; each has one at most.
#[derive(Clone, Debug)]
pub struct ExecGate<P, K> {
    limits: GateLimits,
    /// The pod of each, and the end of its place.
    under_way: BTreeMap<K, (P, Duration)>,
    /// How many of each pod are under way.
    shares: BTreeMap<P, usize>,
    /// Pods in the order of their turns, and what waits of each in the order of asking.
    waiting: VecDeque<(P, VecDeque<K>)>,
}

impl<P: Ord + Clone, K: Ord + Clone> ExecGate<P, K> {
    /// An empty gate.
    pub fn new(limits: GateLimits) -> Self {
        Self { limits, under_way: BTreeMap::new(), shares: BTreeMap::new(), waiting: VecDeque::new() }
    }

    /// Asks for a command; [`Self::admit`] tells when it may begin. Asking again changes nothing.
    pub fn ask(&mut self, pod: &P, key: K) {
        if self.under_way.contains_key(&key) || self.waits(&key) {
            return;
        }
        match self.waiting.iter_mut().find(|(other, _)| other == pod) {
            Some((_, keys)) => keys.push_back(key),
            None => self.waiting.push_back((pod.clone(), [key].into())),
        }
    }

    /// The command has ended, or is not wanted any more.
    pub fn leave(&mut self, key: &K) {
        if let Some((pod, _)) = self.under_way.remove(key) {
            self.shares.entry(pod).and_modify(|share| *share -= 1);
            self.shares.retain(|_, share| *share > 0);
        }
        for (_, keys) in &mut self.waiting {
            keys.retain(|waiting| waiting != key);
        }
        self.waiting.retain(|(_, keys)| !keys.is_empty());
    }

    /// The next probe, if there is one: from then on it is under way.
    pub fn admit(&mut self, uptime: Duration) -> Option<K> {
        if self.waiting.is_empty() || self.places_taken(uptime) >= self.limits.places {
            return None;
        }
        let place = self.waiting.iter().position(|(pod, _)| self.has_share(pod))?;
        let (pod, mut keys) = self.waiting.remove(place)?;
        let key = keys.pop_front()?;
        self.under_way.insert(key.clone(), (pod.clone(), uptime.saturating_add(self.limits.hold)));
        *self.shares.entry(pod.clone()).or_default() += 1;
        if !keys.is_empty() {
            self.waiting.push_back((pod, keys));
        }
        Some(key)
    }

    /// When a place becomes free by itself that somebody waits for.
    pub fn due(&self, uptime: Duration) -> Option<Duration> {
        if !self.waiting.iter().any(|(pod, _)| self.has_share(pod)) {
            return None;
        }
        self.under_way.values().map(|(_, until)| *until).filter(|until| *until > uptime).min()
    }

    /// Whether it waits for its turn.
    pub fn waits(&self, key: &K) -> bool {
        self.waiting.iter().any(|(_, keys)| keys.contains(key))
    }

    fn places_taken(&self, uptime: Duration) -> usize {
        self.under_way.values().filter(|(_, until)| *until > uptime).count()
    }

    fn has_share(&self, pod: &P) -> bool {
        self.shares.get(pod).is_none_or(|share| *share < self.limits.of_pod)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const HOLD: Duration = Duration::from_secs(10);

    fn gate(places: usize, of_pod: usize) -> ExecGate<char, u32> {
        ExecGate::new(GateLimits { places, of_pod, hold: HOLD })
    }

    fn turns(gate: &mut ExecGate<char, u32>, seconds: u64) -> Vec<u32> {
        std::iter::from_fn(|| gate.admit(Duration::from_secs(seconds))).collect()
    }

    #[test]
    fn a_pods_turns_come_in_the_order_of_asking() {
        let mut gate = gate(2, 2);
        for key in [1, 2, 3, 4, 3] {
            gate.ask(&'a', key);
        }
        assert_eq!(turns(&mut gate, 0), [1, 2]);
        gate.ask(&'a', 1);
        assert!(gate.waits(&3) && !gate.waits(&1), "it is through already");
        gate.leave(&4);
        assert!(turns(&mut gate, 0).is_empty(), "the place of one that waited is nobody's");
        gate.leave(&2);
        assert_eq!(turns(&mut gate, 0), [3]);
    }

    #[test]
    fn pods_take_turns_and_have_a_share() {
        let mut gate = gate(5, 3);
        (10..20).for_each(|key| gate.ask(&'a', key));
        assert_eq!(turns(&mut gate, 0), [10, 11, 12], "its share, although nobody else waits");
        [('b', 20), ('b', 21), ('c', 30), ('c', 31)].iter().for_each(|(pod, key)| gate.ask(pod, *key));
        assert_eq!(turns(&mut gate, 0), [20, 30], "all places are taken");
        gate.leave(&20);
        assert_eq!(turns(&mut gate, 0), [21], "of whose pod had its turn the longest ago");
        gate.leave(&10);
        gate.leave(&11);
        assert_eq!(turns(&mut gate, 0), [13, 31]);
    }

    #[test]
    fn a_place_is_given_on_and_what_hangs_counts_for_its_pod() {
        let mut gate = gate(2, 2);
        [1, 2, 3].iter().for_each(|key| gate.ask(&'a', *key));
        assert_eq!(turns(&mut gate, 0), [1, 2]);
        assert_eq!(gate.due(Duration::ZERO), None, "only its own pod waits");
        gate.ask(&'b', 4);
        assert!(turns(&mut gate, 9).is_empty());
        assert_eq!(gate.due(Duration::from_secs(9)), Some(HOLD));
        assert_eq!(turns(&mut gate, 10), [4]);
        assert_eq!(gate.due(Duration::from_secs(10)), None);
        gate.leave(&1);
        assert_eq!(turns(&mut gate, 11), [3]);
    }

    proptest! {
        /// SEC-48: whoever asks, ends and hangs: the bounds hold, and nobody is forgotten. No place stays empty that
        /// somebody may have, and no pod has two turns while another one that may have one has none.
        #[test]
        fn sec_48_the_bounds_hold_and_pods_take_turns(
            (places, of_pod) in (1_usize..5, 1_usize..4),
            steps in prop::collection::vec((0_u8..4, 0_u32..12, 0_u64..6), 1..200),
        ) {
            let mut gate = gate(places, of_pod);
            let pod = |key: u32| char::from(b'a' + u8::try_from(key % 4).expect("small"));
            let mut wants: BTreeSet<u32> = BTreeSet::new();
            // By the pod that waits, who has had a turn since it could have had one.
            let mut passed_over: BTreeMap<char, BTreeSet<char>> = BTreeMap::new();
            let mut uptime = Duration::ZERO;
            for (kind, key, seconds) in steps {
                match kind {
                    0 | 1 => {
                        gate.ask(&pod(key), key);
                        wants.insert(key);
                    }
                    2 => {
                        gate.leave(&key);
                        wants.remove(&key);
                    }
                    _ => uptime += Duration::from_secs(seconds),
                }
                loop {
                    let able: BTreeSet<char> =
                        gate.waiting.iter().map(|(pod, _)| *pod).filter(|pod| gate.has_share(pod)).collect();
                    passed_over.retain(|pod, _| able.contains(pod));
                    let Some(admitted) = gate.admit(uptime) else { break };
                    passed_over.remove(&pod(admitted));
                    for other in able.into_iter().filter(|other| *other != pod(admitted)) {
                        let is_first = passed_over.entry(other).or_default().insert(pod(admitted));
                        prop_assert!(is_first, "{other} waits, and {} has a second turn", pod(admitted));
                    }
                }
                let taken = gate.places_taken(uptime);
                prop_assert!(taken <= places);
                let blocked = gate.waiting.iter().all(|(pod, _)| !gate.has_share(pod));
                prop_assert!(taken == places || blocked);
                prop_assert_eq!(gate.due(uptime).is_some(), !blocked);
                for pod in ['a', 'b', 'c', 'd'] {
                    prop_assert!(gate.under_way.values().filter(|(other, _)| *other == pod).count() <= of_pod);
                }
                let waiting = gate.waiting.iter().flat_map(|(_, keys)| keys);
                let known: Vec<u32> = gate.under_way.keys().chain(waiting).copied().collect();
                prop_assert_eq!(known.len(), wants.len(), "each once");
                prop_assert_eq!(&known.into_iter().collect::<BTreeSet<_>>(), &wants);
            }
        }
    }
}
