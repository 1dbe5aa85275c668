//! Requests of the pods that count towards the cgroups above their own, pod by pod and as sums.
//!
//! Owned by `PodManager`. Pure: one pod that changes costs nothing of the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::model::ids::PodUid;
use crate::logic::resources::{CPU, MEMORY, QosClass, Quantity, ResourceList, pod_qos, pod_requests};

/// The sums that settings of the tiers are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierSums {
    /// CPU that burstable pods ask for, in thousandths.
    pub burstable_cpu: i64,
    /// Memory that burstable pods ask for, in bytes.
    pub burstable_memory: i64,
    /// Memory that guaranteed pods ask for, in bytes.
    pub guaranteed_memory: i64,
}

impl TierSums {
    /// The sums of these pods.
    pub fn of<'a>(pods: impl IntoIterator<Item = &'a Pod>, pod_level: bool) -> Self {
        pods.into_iter().map(|pod| Self::of_pod(pod, pod_level)).fold(Self::default(), Self::plus)
    }

    fn of_pod(pod: &Pod, pod_level: bool) -> Self {
        let requests = pod_requests(pod, pod_level, true);
        let amount = |list: &ResourceList, name: &str| list.get(name).copied().unwrap_or(Quantity::ZERO);
        let (cpu, memory) = (amount(&requests, CPU).milli_value(), amount(&requests, MEMORY).value());
        match pod_qos(pod, pod_level) {
            QosClass::Guaranteed => Self { guaranteed_memory: memory, ..Self::default() },
            QosClass::Burstable => Self { burstable_cpu: cpu, burstable_memory: memory, guaranteed_memory: 0 },
            QosClass::BestEffort => Self::default(),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            burstable_cpu: self.burstable_cpu.saturating_add(other.burstable_cpu),
            burstable_memory: self.burstable_memory.saturating_add(other.burstable_memory),
            guaranteed_memory: self.guaranteed_memory.saturating_add(other.guaranteed_memory),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            burstable_cpu: self.burstable_cpu.saturating_sub(other.burstable_cpu),
            burstable_memory: self.burstable_memory.saturating_sub(other.burstable_memory),
            guaranteed_memory: self.guaranteed_memory.saturating_sub(other.guaranteed_memory),
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct TierShares {
    shares: BTreeMap<PodUid, (Arc<Pod>, TierSums)>,
    sums: TierSums,
}

impl TierShares {
    /// The pod counts as it is now, or no longer. One that is counted as it is already costs nothing.
    pub fn set(&mut self, uid: &PodUid, pod: Option<&Arc<Pod>>, pod_level: bool) {
        if let (Some((known, _)), Some(pod)) = (self.shares.get(uid), pod)
            && Arc::ptr_eq(known, pod)
        {
            return;
        }
        if let Some((_, share)) = self.shares.remove(uid) {
            self.sums = self.sums.minus(share);
        }
        if let Some(pod) = pod {
            let share = TierSums::of_pod(pod, pod_level);
            self.sums = self.sums.plus(share);
            self.shares.insert(uid.clone(), (Arc::clone(pod), share));
        }
    }

    /// Drops the pods that `keeps` does not name.
    pub fn retain(&mut self, keeps: impl Fn(&PodUid) -> bool) {
        let gone: Vec<PodUid> = self.shares.keys().filter(|uid| !keeps(uid)).cloned().collect();
        gone.iter().for_each(|uid| self.set(uid, None, false));
    }

    /// The sums of their requests.
    pub fn sums(&self) -> TierSums {
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::resources::testing::{container, pod};

    #[test]
    fn sums_follow_the_pods_that_count() {
        let of = |requests: &str, limits: &str| Arc::new(pod(vec![container("c", requests, limits)], vec![]));
        let burstable = of("cpu=500m,memory=1Gi", "");
        let guaranteed = of("cpu=1,memory=2Gi", "cpu=1,memory=2Gi");
        let (one, two) = (PodUid::from("one"), PodUid::from("two"));
        let mut shares = TierShares::default();
        shares.set(&one, Some(&burstable), true);
        shares.set(&one, Some(&burstable), true);
        shares.set(&two, Some(&guaranteed), true);
        assert_eq!(shares.sums(), TierSums::of([&*burstable, &*guaranteed], true));
        assert_eq!(shares.sums().burstable_cpu, 500);
        shares.retain(|uid| *uid == two);
        assert_eq!(shares.sums(), TierSums::of([&*guaranteed], true));
        shares.set(&two, None, true);
        assert_eq!(shares.sums(), TierSums::default());
    }
}
