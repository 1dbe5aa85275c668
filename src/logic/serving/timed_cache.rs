//! Answers that are kept for a while, and not too many of them: what was used longest ago goes first. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

/// A value by its key, until its time is over.
#[derive(Debug)]
pub struct TimedCache<K, V> {
    capacity: usize,
    entries: BTreeMap<K, Entry<V>>,
    /// Keys by when they were used last.
    order: BTreeMap<u64, K>,
    uses: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    until: Duration,
    used: u64,
}

impl<K: Ord + Clone, V: Clone> TimedCache<K, V> {
    /// Keeps `capacity` answers at most; 1 at least.
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), entries: BTreeMap::new(), order: BTreeMap::new(), uses: 0 }
    }

    /// The answer, if it still holds at this uptime.
    pub fn get(&mut self, key: &K, uptime: Duration) -> Option<V> {
        let holds = self.entries.get(key)?.until > uptime;
        if !holds {
            self.remove(key);
            return None;
        }
        self.uses += 1;
        let uses = self.uses;
        let entry = self.entries.get_mut(key)?;
        self.order.remove(&entry.used);
        self.order.insert(uses, key.clone());
        entry.used = uses;
        Some(entry.value.clone())
    }

    /// Keeps an answer until this uptime.
    pub fn insert(&mut self, key: K, value: V, until: Duration) {
        self.remove(&key);
        if self.entries.len() >= self.capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.uses += 1;
        self.order.insert(self.uses, key.clone());
        self.entries.insert(key, Entry { value, until, used: self.uses });
    }

    /// How many answers are kept, those that are over but not yet looked at included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_answer_holds_until_its_time() {
        let mut cache = TimedCache::new(2);
        cache.insert("a", 1, at(10));
        assert_eq!((cache.get(&"a", at(9)), cache.get(&"a", at(10)), cache.len()), (Some(1), None, 0));
    }

    #[test]
    fn what_was_used_longest_ago_gives_way() {
        let mut cache = TimedCache::new(2);
        cache.insert("a", 1, at(10));
        cache.insert("b", 2, at(10));
        assert_eq!(cache.get(&"a", at(1)), Some(1));
        cache.insert("c", 3, at(10));
        assert_eq!(["a", "b", "c"].map(|key| cache.get(&key, at(1))), [Some(1), None, Some(3)]);
    }

    proptest! {
        #[test]
        fn it_never_holds_more_than_it_may_nor_an_answer_that_is_over(
            steps in prop::collection::vec((0_u8..20, 0_u64..50, any::<bool>()), 0..200)
        ) {
            let mut cache = TimedCache::new(5);
            let mut newest = BTreeMap::new();
            for (now, (key, until, insert)) in steps.into_iter().enumerate() {
                let now = at(now as u64 / 4);
                if insert {
                    cache.insert(key, until, at(until));
                    newest.insert(key, until);
                } else if let Some(found) = cache.get(&key, now) {
                    prop_assert_eq!(Some(&found), newest.get(&key));
                    prop_assert!(at(found) > now);
                }
                prop_assert!(cache.len() <= 5);
                prop_assert_eq!(cache.entries.len(), cache.order.len());
            }
        }
    }
}
