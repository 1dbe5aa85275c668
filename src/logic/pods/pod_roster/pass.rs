//! A pass over the pods: what it looks at, and the orders that come of it.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::Order;
use crate::logic::model::ids::{FullName, PodUid};

/// The runtime's objects, as a pass looks at them.
pub(super) struct Pass<'a> {
    /// The owners of the runtime's objects; `None` before it was listed.
    pub(super) runtime: Option<&'a BTreeMap<PodUid, FullName>>,
    /// The same by name: made for the first static pod that may start.
    by_name: OnceCell<BTreeMap<&'a FullName, Vec<&'a PodUid>>>,
    pub(super) orders: Vec<Order>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(runtime: Option<&'a BTreeMap<PodUid, FullName>>, orders: Vec<Order>) -> Self {
        Self { runtime, by_name: OnceCell::new(), orders }
    }

    /// Pods of this name that the runtime holds.
    pub(super) fn of_name(&self, full_name: &FullName) -> &[&'a PodUid] {
        let by_name = self.by_name.get_or_init(|| {
            let mut by_name: BTreeMap<&FullName, Vec<&PodUid>> = BTreeMap::new();
            for (uid, name) in self.runtime.into_iter().flatten() {
                by_name.entry(name).or_default().push(uid);
            }
            by_name
        });
        by_name.get(full_name).map(Vec::as_slice).unwrap_or_default()
    }
}
