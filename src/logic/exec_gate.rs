//! How many commands of probes are under way at once on the node: a bound, and a queue in the order of asking (PAIN-29,
//! SEC-47).
//!
//! Owned by `Prober`. Commands are the dear probes: each is a process of the runtime's. Whoever waits here has not begun,
//! so its own time limit has not, either.

use std::collections::{BTreeSet, VecDeque};

/// See the module. `K` says whose command it is; each has one at most.
#[derive(Clone, Debug)]
pub struct ExecGate<K> {
    at_once_max: usize,
    under_way: BTreeSet<K>,
    waiting: VecDeque<K>,
}

impl<K: Ord + Clone> ExecGate<K> {
    /// A gate that lets `at_once_max` through, one at least.
    pub fn new(at_once_max: usize) -> Self {
        Self { at_once_max: at_once_max.max(1), under_way: BTreeSet::new(), waiting: VecDeque::new() }
    }

    /// Asks for a command; `true` when it may begin now, else it waits for its turn. Asking again changes nothing.
    pub fn ask(&mut self, key: K) -> bool {
        if self.under_way.contains(&key) {
            return true;
        }
        if self.under_way.len() < self.at_once_max {
            self.under_way.insert(key);
            return true;
        }
        if !self.waits(&key) {
            self.waiting.push_back(key);
        }
        false
    }

    /// The command has ended, or is not wanted any more; gives whose turn it is, which counts as under way.
    pub fn leave(&mut self, key: &K) -> Option<K> {
        if self.under_way.is_empty() {
            return None; // And nobody waits.
        }
        self.waiting.retain(|waiting| waiting != key);
        self.under_way.remove(key);
        if self.under_way.len() >= self.at_once_max {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.under_way.insert(next.clone());
        Some(next)
    }

    /// Whether it waits for its turn.
    pub fn waits(&self, key: &K) -> bool {
        self.waiting.contains(key)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn turns_come_in_the_order_of_asking() {
        let mut gate = ExecGate::new(2);
        assert!(gate.ask(1) && gate.ask(2));
        assert!(!gate.ask(3) && !gate.ask(4) && !gate.ask(3));
        assert!(gate.ask(1), "it is through already");
        assert!(gate.waits(&3) && !gate.waits(&1));
        assert_eq!(gate.leave(&4), None, "the place of one that waited is nobody's");
        assert_eq!(gate.leave(&2), Some(3));
        assert_eq!(gate.leave(&1), None);
        assert!(gate.ask(5));
        assert!(ExecGate::new(0).ask(1), "there is always a way through");
    }

    proptest! {
        #[test]
        fn never_more_than_the_bound_and_nobody_is_forgotten(
            bound in 1_usize..5,
            steps in prop::collection::vec((any::<bool>(), 0_u8..12), 1..200),
        ) {
            let mut gate = ExecGate::new(bound);
            let mut wants: BTreeSet<u8> = BTreeSet::new();
            for (asks, key) in steps {
                if asks {
                    gate.ask(key);
                    wants.insert(key);
                } else {
                    gate.leave(&key);
                    wants.remove(&key);
                }
                prop_assert!(gate.under_way.len() <= bound);
                prop_assert!(gate.waiting.is_empty() || gate.under_way.len() == bound);
                let known: BTreeSet<u8> = gate.under_way.iter().chain(&gate.waiting).copied().collect();
                prop_assert_eq!(&known, &wants);
            }
        }
    }
}
