//! What a pod at rest holds on to: nothing that is empty.

use super::*;

impl PodLifecycle {
    /// A tree that has lost its last entry keeps the node that held it, with room for ten more: a kilobyte and more, of each
    /// pod, for work that was done when it started.
    pub(super) fn let_go_of_emptied(&mut self) {
        fn let_go<K, V>(map: &mut BTreeMap<K, V>) {
            if map.is_empty() {
                map.clear();
            }
        }
        let_go(&mut self.problems);
        let_go(&mut self.images);
        let_go(&mut self.starting);
        let_go(&mut self.start_errors);
        let_go(&mut self.retries);
        let_go(&mut self.half_made);
        if self.jobs.is_empty() {
            self.jobs.clear();
        }
        self.resizing.let_go_of_emptied();
    }
}
