//! A second look at the Node: a pod that only the Node's labels keep from here may know newer labels than the agent. The
//! agent refuses it for good only by what the API server says then (POD-31).

use std::collections::BTreeSet;

use crate::logic::model::ids::PodUid;

/// The pods for which the Node is read once more. Owned by `PodManager`.
#[derive(Clone, Debug, Default)]
pub struct NodeReread {
    /// They wait until it can be read.
    asked: BTreeSet<PodUid>,
    /// It is being read for these.
    under_way: BTreeSet<PodUid>,
    /// It was read for these, or could not be.
    done: BTreeSet<PodUid>,
}

impl NodeReread {
    /// Whether the Node was read for this pod, or could not be.
    pub fn is_done(&self, uid: &PodUid) -> bool {
        self.done.contains(uid)
    }

    /// The Node is to be read for these pods, too. Says whether to read it now: one call at a time.
    pub fn ask(&mut self, pods: Vec<PodUid>) -> bool {
        let new = pods.into_iter().filter(|uid| !self.under_way.contains(uid));
        self.asked.extend(new);
        !self.asked.is_empty() && self.under_way.is_empty()
    }

    /// The Node is being read.
    pub fn begin(&mut self) {
        debug_assert!(self.under_way.is_empty(), "the Node is read by one call at a time");
        self.under_way = std::mem::take(&mut self.asked);
    }

    /// The Node was read, or could not be. Of pods that are not `known` any more nothing is kept.
    pub fn end(&mut self, known: impl Fn(&PodUid) -> bool) {
        self.done.append(&mut self.under_way);
        self.done.retain(known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_that_come_during_a_call_wait_for_the_next() {
        let [a, b] = ["a", "b"].map(PodUid::from);
        let mut reread = NodeReread::default();
        assert!(!reread.ask(vec![]) && reread.ask(vec![a.clone()]));
        reread.begin();
        assert!(!reread.ask(vec![a.clone(), b.clone()]), "a call is under way");
        reread.end(|_| true);
        assert!(reread.is_done(&a) && !reread.is_done(&b));
        assert!(reread.ask(vec![]), "b still waits");
        reread.begin();
        reread.end(|uid| *uid == b);
        assert!(!reread.is_done(&a), "nobody wants it any more");
    }
}
