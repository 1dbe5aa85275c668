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

    /// POD-31: the API server cannot be reached yet, so pods wait for the first call.
    #[test]
    fn one_call_is_for_all_pods_that_wait() {
        let [a, b] = ["a", "b"].map(PodUid::from);
        let mut reread = NodeReread::default();
        assert!(reread.ask(vec![a.clone()]) && reread.ask(vec![b.clone(), a.clone()]), "no call is under way");
        assert!(!reread.is_done(&a), "nobody has read yet");
        reread.begin();
        assert!(!reread.ask(vec![]) && !reread.is_done(&a), "it is being read");
        reread.end(|_| true);
        assert!(reread.is_done(&a) && reread.is_done(&b), "one call did for both");
        assert!(!reread.ask(vec![]), "nobody waits");
    }

    #[test]
    fn a_pod_of_the_call_under_way_does_not_lead_to_another_call() {
        let [a, b] = ["a", "b"].map(PodUid::from);
        for (asked, again) in [(vec![a.clone()], false), (vec![a.clone(), b.clone()], true), (vec![b.clone()], true)] {
            let mut reread = NodeReread::default();
            assert!(reread.ask(vec![a.clone()]));
            reread.begin();
            assert!(!reread.ask(asked.clone()), "one call at a time");
            reread.end(|_| true);
            assert_eq!(reread.ask(vec![]), again, "{asked:?} came meanwhile");
        }
    }

    /// A pod that comes back under its UID gets a look of its own.
    #[test]
    fn a_pod_that_was_gone_in_between_has_the_node_read_again() {
        let [a, b] = ["a", "b"].map(PodUid::from);
        let mut reread = NodeReread::default();
        let mut read_for = |uid: &PodUid, known: &[&PodUid]| {
            assert!(reread.ask(vec![uid.clone()]), "{uid}");
            reread.begin();
            reread.end(|uid| known.contains(&uid));
            (reread.is_done(&a), reread.is_done(&b))
        };
        assert_eq!(read_for(&a, &[&a]), (true, false));
        assert_eq!(read_for(&b, &[&a, &b]), (true, true), "earlier pods stay done while they are known");
        assert_eq!(read_for(&b, &[&b]), (false, true), "a is gone");
        assert_eq!(read_for(&a, &[&b]), (false, true), "a went during the call");
        assert_eq!(read_for(&a, &[&a, &b]), (true, true), "a is there again");
    }

    #[test]
    #[should_panic(expected = "one call at a time")]
    fn two_calls_at_once_are_a_fault() {
        let mut reread = NodeReread::default();
        reread.ask(vec!["a".into()]);
        reread.begin();
        reread.begin();
    }
}
