//! A bounded memory that forgets what was not asked for the longest. Owned by the correlator; keeps nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

/// At most so many values by their keys; the one that was used the longest ago gives way.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    values: BTreeMap<Arc<K>, (u64, V)>,
    /// Keys by when they were used last.
    uses: BTreeMap<u64, Arc<K>>,
    uses_ever: u64,
    max: usize,
}

impl<K: Ord, V> Recent<K, V> {
    pub(super) fn new(max: usize) -> Self {
        Self { values: BTreeMap::new(), uses: BTreeMap::new(), uses_ever: 0, max }
    }

    /// Takes a value out, to be put back changed.
    pub(super) fn take(&mut self, key: &K) -> Option<V> {
        let (used, value) = self.values.remove(key)?;
        self.uses.remove(&used);
        Some(value)
    }

    /// Puts a value in as the one used last.
    pub(super) fn put(&mut self, key: K, value: V) {
        self.take(&key);
        let key = Arc::new(key);
        if self.values.len() >= self.max
            && let Some((_, oldest)) = self.uses.pop_first()
        {
            self.values.remove(&oldest);
        }
        self.uses_ever += 1;
        self.uses.insert(self.uses_ever, Arc::clone(&key));
        self.values.insert(key, (self.uses_ever, value));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Recent;

    #[test]
    fn the_one_not_used_for_the_longest_gives_way() {
        let mut recent = Recent::new(2);
        recent.put("a", 1);
        recent.put("b", 2);
        let a = recent.take(&"a").expect("there");
        recent.put("a", a);
        recent.put("c", 3);
        assert_eq!((recent.take(&"a"), recent.take(&"b"), recent.take(&"c")), (Some(1), None, Some(3)));
    }

    proptest! {
        #[test]
        fn it_never_holds_more_than_its_bound_nor_forgets_the_newest(
            keys in prop::collection::vec(0..12_u8, 1..80), max in 1..6_usize,
        ) {
            let mut recent = Recent::new(max);
            for (number, key) in keys.iter().enumerate() {
                recent.put(*key, number);
                prop_assert!(recent.values.len() <= max);
                prop_assert_eq!(recent.values.len(), recent.uses.len());
                let mut newest: Vec<u8> = Vec::new();
                for key in keys[..=number].iter().rev() {
                    if !newest.contains(key) && newest.len() < max {
                        newest.push(*key);
                    }
                }
                prop_assert!(newest.iter().all(|key| recent.values.contains_key(key)));
            }
        }
    }
}
