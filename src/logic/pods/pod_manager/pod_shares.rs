//! Resources that pods take of the node, and of the cgroups above their own.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_admission::Room;
use crate::logic::resources::{TierShares, TierSums};

/// See the module. Owned by `PodManager`.
#[derive(Default)]
pub struct PodShares {
    /// The resources that admitted pods take of the node.
    room: Room,
    /// The shares of the tiers' cgroups that the pods that count take.
    active: TierShares,
}

impl PodShares {
    /// The resources that admitted pods take of the node.
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// The same, to judge pods by: whoever is admitted is counted at once.
    pub fn room_mut(&mut self) -> &mut Room {
        &mut self.room
    }

    /// Counts one pod anew: with what it takes of the node, and with what it takes of the tiers' cgroups.
    pub fn set(&mut self, uid: &PodUid, share: Option<&Arc<Pod>>, active: Option<&Arc<Pod>>, pod_level: bool) {
        self.room.set(uid, share, pod_level);
        self.active.set(uid, active, pod_level);
    }

    /// Forgets pods that are not `known` any more.
    pub fn retain(&mut self, known: impl Fn(&PodUid) -> bool) {
        self.room.retain(&known);
        self.active.retain(&known);
    }

    /// The sums of the shares that the pods that count take of the tiers' cgroups.
    pub fn sums(&self) -> TierSums {
        self.active.sums()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::resources::testing::{container, pod};

    /// A pod that asks for so many thousandths of a CPU.
    fn asks(cpu: &str) -> Arc<Pod> {
        Arc::new(pod(vec![container("app", &format!("cpu={cpu}"), "")], vec![]))
    }

    fn counted(shares: &PodShares) -> Vec<&str> {
        shares.room().pods().map(|(uid, _)| uid.as_str()).collect()
    }

    /// A pod that was refused and still runs takes room; one that ended in the API and still runs counts for the tiers.
    #[test]
    fn room_and_tiers_are_counted_apart() {
        let (uid, web) = (PodUid::from("u"), asks("500m"));
        for (room, active) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut shares = PodShares::default();
            shares.set(&uid, room.then_some(&web), active.then_some(&web), true);
            assert_eq!(counted(&shares).len(), usize::from(room), "room: {room}, active: {active}");
            let cpu = if active { 500 } else { 0 };
            assert_eq!(shares.sums().burstable_cpu, cpu, "room: {room}, active: {active}");
        }
    }

    #[test]
    fn a_pod_that_is_counted_anew_counts_as_it_is_now() {
        let (one, two) = (PodUid::from("1"), PodUid::from("2"));
        let mut shares = PodShares::default();
        let mut set = |uid: &PodUid, pod: Option<&Arc<Pod>>| {
            shares.set(uid, pod, pod, true);
            (counted(&shares).len(), shares.sums().burstable_cpu)
        };
        assert_eq!(set(&one, Some(&asks("500m"))), (1, 500));
        assert_eq!(set(&two, Some(&asks("1"))), (2, 1500));
        assert_eq!(set(&one, Some(&asks("200m"))), (2, 1200), "a resize");
        assert_eq!(set(&one, None), (1, 1000), "it has ended");
        assert_eq!(set(&two, None), (0, 0));
    }

    /// A pod that admission counted at once, and that no source wants any more.
    #[test]
    fn pods_that_nobody_knows_take_nothing() {
        let [one, two, three] = ["1", "2", "3"].map(PodUid::from);
        let mut shares = PodShares::default();
        shares.set(&one, Some(&asks("1")), Some(&asks("1")), true);
        shares.set(&two, Some(&asks("2")), Some(&asks("2")), true);
        shares.room_mut().set(&three, Some(&asks("4")), true);
        assert_eq!(counted(&shares), ["1", "2", "3"], "judges of pods count the third in the same room");
        shares.retain(|uid| *uid == two);
        assert_eq!((counted(&shares), shares.sums().burstable_cpu), (vec!["2"], 2000));
        shares.retain(|_| false);
        assert_eq!((counted(&shares), shares.sums()), (vec![], TierSums::default()));
    }

    /// Resources of whole pods count with their gate.
    #[test]
    fn resources_of_a_whole_pod_count_where_the_gate_is_on() {
        let whole = Arc::new(crate::logic::resources::testing::with_pod_level((*asks("100m")).clone(), "cpu=3", ""));
        for (pod_level, cpu) in [(true, 3000), (false, 100)] {
            let mut shares = PodShares::default();
            shares.set(&"u".into(), Some(&whole), Some(&whole), pod_level);
            assert_eq!(shares.sums().burstable_cpu, cpu, "gate: {pod_level}");
        }
    }
}
