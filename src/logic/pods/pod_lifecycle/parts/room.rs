//! A pod at rest holds on to nothing that is empty.

use std::collections::{BTreeMap, BTreeSet};

/// A tree that has lost its last entry keeps the node that held it, with room for ten more. Without this each pod would keep
/// a kilobyte and more for work that was done when it started.
pub fn shrink<K, V>(map: &mut BTreeMap<K, V>) {
    if map.is_empty() {
        map.clear();
    }
}

/// The same of a set.
pub fn shrink_set<T>(set: &mut BTreeSet<T>) {
    if set.is_empty() {
        set.clear();
    }
}
