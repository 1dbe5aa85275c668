//! A shutdown, step by step: everybody hears of it, then pods end group by group, then the machine may go down (NODE-44 to
//! NODE-47).
//!
//! Pure. After a restart the pods are listed anew: those that have ended are not among them, so the groups that are over are
//! empty.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::ShutdownPeriod;
use super::groups::{ShutdownGroup, grace, groups};
use crate::logic::model::ids::PodUid;

/// News for a shutdown.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The machine is about to go down, or is not any more.
    Prepare(bool),
    /// The pods of the node that have not ended.
    Pods(Vec<Arc<Pod>>),
    /// A pod has ended, and its volumes are unmounted.
    PodOver(PodUid),
    /// The time of the group of this number is over.
    PeriodOver(u64),
    /// Somebody has forgotten all of it.
    Repeat,
}

/// An order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Everybody is to know whether the machine goes down. `true` for news, `false` for a repetition.
    Announce {
        /// It goes down.
        ends: bool,
        /// They have not heard it before.
        is_new: bool,
    },
    /// The pods of the node are to be listed.
    ListPods,
    /// This pod is to end.
    EndPod {
        /// Which.
        uid: PodUid,
        /// How long its containers have.
        grace: Duration,
    },
    /// [`Input::PeriodOver`] is due after the group's time.
    Await {
        /// The group's number.
        group: u64,
        /// Its time.
        period: Duration,
    },
    /// The machine may go down.
    Release,
    /// A later shutdown is to be delayed again.
    Delay,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq)]
enum Stage {
    /// The machine runs.
    #[default]
    Quiet,
    /// The pods are being listed.
    Listing,
    /// A group ends: these pods of it have not ended yet, with their grace periods; others follow.
    Ending { open: BTreeMap<PodUid, Duration>, next: VecDeque<ShutdownGroup> },
    /// The machine may go down.
    Released,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Shutdown {
    periods: Vec<ShutdownPeriod>,
    stage: Stage,
    /// The number of the group that ends, and of the last one before.
    group: u64,
}

impl Shutdown {
    /// Of a machine that runs.
    pub fn new(periods: Vec<ShutdownPeriod>) -> Self {
        Self { periods, stage: Stage::Quiet, group: 0 }
    }

    /// Whether the machine is about to go down.
    pub fn is_under_way(&self) -> bool {
        self.stage != Stage::Quiet
    }

    /// Takes news; says what to do about them, in order.
    pub fn step(&mut self, input: Input) -> Vec<Action> {
        match (&mut self.stage, input) {
            (Stage::Quiet, Input::Prepare(true)) => self.begin(true),
            (Stage::Quiet, _) | (_, Input::Prepare(true)) => vec![],
            (_, Input::Prepare(false)) => {
                self.stage = Stage::Quiet;
                vec![Action::Announce { ends: false, is_new: true }, Action::Delay]
            }
            (Stage::Released, Input::Repeat) => vec![Action::Announce { ends: true, is_new: false }],
            (_, Input::Repeat) => self.begin(false),
            (Stage::Listing, Input::Pods(pods)) => {
                self.stage = Stage::Ending { open: BTreeMap::new(), next: groups(&self.periods, pods).into() };
                self.next_group()
            }
            (Stage::Ending { open, .. }, Input::PodOver(uid)) => {
                let was_last = open.remove(&uid).is_some() && open.is_empty();
                if was_last { self.next_group() } else { vec![] }
            }
            (Stage::Ending { .. }, Input::PeriodOver(group)) if group == self.group => self.next_group(),
            (_, Input::Pods(_) | Input::PodOver(_) | Input::PeriodOver(_)) => vec![],
        }
    }

    fn begin(&mut self, is_new: bool) -> Vec<Action> {
        self.stage = Stage::Listing;
        vec![Action::Announce { ends: true, is_new }, Action::ListPods]
    }

    /// The next group ends; after the last one the machine may go down.
    fn next_group(&mut self) -> Vec<Action> {
        let Stage::Ending { open, next } = &mut self.stage else { return vec![] };
        let Some(group) = next.pop_front() else {
            self.stage = Stage::Released;
            return vec![Action::Release];
        };
        let uid = |pod: &Pod| PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default());
        *open = group.pods.iter().map(|pod| (uid(pod), grace(pod, group.period))).collect();
        self.group += 1;
        let ends = open.iter().map(|(uid, grace)| Action::EndPod { uid: uid.clone(), grace: *grace });
        ends.chain([Action::Await { group: self.group, period: group.period }]).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn pod(uid: &str, priority: i32) -> Arc<Pod> {
        let spec = json!({ "containers": [], "priority": priority, "terminationGracePeriodSeconds": 4 });
        Arc::new(serde_json::from_value(json!({ "metadata": { "uid": uid }, "spec": spec })).expect("a pod"))
    }

    fn periods() -> Vec<ShutdownPeriod> {
        [(0, 10), (1000, 3)].map(|(priority, secs)| ShutdownPeriod { priority, period: seconds(secs) }).to_vec()
    }

    fn end(uid: &str, secs: u64) -> Action {
        Action::EndPod { uid: uid.into(), grace: seconds(secs) }
    }

    const NEWS: Action = Action::Announce { ends: true, is_new: true };

    /// NODE-44, NODE-47.
    #[test]
    fn node_44_groups_end_one_after_the_other_and_then_the_machine_may_go_down() {
        let mut shutdown = Shutdown::new(periods());
        assert_eq!(shutdown.step(Input::Prepare(false)), [], "nothing was under way");
        assert_eq!(shutdown.step(Input::Prepare(true)), [NEWS, Action::ListPods]);
        assert_eq!(shutdown.step(Input::Prepare(true)), [], "said twice");
        let pods = vec![pod("a", 5), pod("vital", 5000), pod("b", 0)];
        let await_first = Action::Await { group: 1, period: seconds(10) };
        assert_eq!(shutdown.step(Input::Pods(pods)), [end("a", 4), end("b", 4), await_first]);
        assert_eq!(shutdown.step(Input::PodOver("a".into())), []);
        assert_eq!(shutdown.step(Input::PodOver("stranger".into())), []);
        let await_second = Action::Await { group: 2, period: seconds(3) };
        assert_eq!(shutdown.step(Input::PodOver("b".into())), [end("vital", 3), await_second], "nobody waits in vain");
        assert_eq!(shutdown.step(Input::PeriodOver(1)), [], "that group is over");
        assert_eq!(shutdown.step(Input::PeriodOver(2)), [Action::Release], "its time is over");
        assert_eq!(shutdown.step(Input::PodOver("vital".into())), []);
        assert!(shutdown.is_under_way());
        let cancelled = [Action::Announce { ends: false, is_new: true }, Action::Delay];
        assert_eq!(shutdown.step(Input::Prepare(false)), cancelled);
        assert!(!shutdown.is_under_way());
    }

    /// NODE-47.
    #[test]
    fn node_47_a_cancelled_shutdown_ends_no_more_pods() {
        let mut shutdown = Shutdown::new(periods());
        shutdown.step(Input::Prepare(true));
        shutdown.step(Input::Pods(vec![pod("a", 0), pod("vital", 5000)]));
        shutdown.step(Input::Prepare(false));
        for late in [Input::PodOver("a".into()), Input::PeriodOver(1), Input::Pods(vec![pod("b", 0)]), Input::Repeat] {
            assert_eq!(shutdown.step(late), []);
        }
        assert_eq!(shutdown.step(Input::Prepare(true)), [NEWS, Action::ListPods], "a later one begins anew");
    }

    #[test]
    fn someone_who_forgot_hears_it_again_and_the_pods_are_listed_anew() {
        let again = Action::Announce { ends: true, is_new: false };
        let mut shutdown = Shutdown::new(periods());
        assert_eq!(shutdown.step(Input::Repeat), []);
        shutdown.step(Input::Prepare(true));
        shutdown.step(Input::Pods(vec![pod("a", 0)]));
        assert_eq!(shutdown.step(Input::Repeat), [again.clone(), Action::ListPods]);
        assert_eq!(shutdown.step(Input::PeriodOver(1)), [], "the list is on its way");
        assert_eq!(shutdown.step(Input::Pods(vec![])), [Action::Release]);
        assert_eq!(shutdown.step(Input::Repeat), [again]);
    }

    proptest! {
        /// However pods end and times run out: each pod is ended once, lower priorities before higher ones, and the machine
        /// is let go exactly once.
        #[test]
        fn each_pod_ends_once_and_in_its_turn(priorities in prop::collection::vec(-5_i32..2000, 0..12), picks in prop::collection::vec(any::<prop::sample::Index>(), 40)) {
            let pods: Vec<_> = priorities.iter().enumerate().map(|(n, priority)| pod(&n.to_string(), *priority)).collect();
            let mut shutdown = Shutdown::new(periods());
            shutdown.step(Input::Prepare(true));
            let mut orders = shutdown.step(Input::Pods(pods));
            let (mut ended, mut open, mut group, mut released) = (vec![], vec![], 0, 0);
            for pick in picks {
                for action in std::mem::take(&mut orders) {
                    match action {
                        Action::EndPod { uid, .. } => { ended.push(uid.clone()); open.push(uid); }
                        Action::Await { group: number, .. } => group = number,
                        Action::Release => released += 1,
                        other => prop_assert!(false, "{other:?}"),
                    }
                }
                let over = pick.index(open.len() + 1);
                orders = match over == open.len() {
                    true => shutdown.step(Input::PeriodOver(group)),
                    false => shutdown.step(Input::PodOver(open.swap_remove(over))),
                };
            }
            prop_assert_eq!(released, 1);
            let turns: Vec<bool> = ended.iter().map(|uid| priorities[uid.to_string().parse::<usize>().expect("a number")] >= 1000).collect();
            prop_assert!(turns.is_sorted(), "{:?}", turns);
            ended.sort();
            ended.dedup();
            prop_assert_eq!(ended.len(), priorities.len());
        }
    }
}
