//! The pods that have to go so that a critical pod has room (POD-32; upstream's `pkg/kubelet/preemption`).
//!
//! Pure. The fewest pods that matter least: best-effort before burstable before guaranteed ones; of one class the pod
//! whose end comes nearest to what is missing.

use k8s_openapi::api::core::v1::Pod;

use super::predicates::taken;
use crate::logic::resources::{CPU, MEMORY, QosClass, is_critical, pod_qos};

/// An amount of a resource that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) name: String,
    pub(super) amount: i64,
}

/// Positions in `pods` of those that have to go; nothing is to be done about pods of the same rank.
///
/// # Errors
/// Upstream's text when all of them together do not make enough room.
pub(super) fn victims(
    critical: &Pod,
    pods: &[&Pod],
    missing: &[Missing],
    pod_level: bool,
) -> Result<Vec<usize>, String> {
    let of_class = |class: QosClass| -> Vec<usize> {
        let may_go = |at: &usize| is_preemptable(critical, pods[*at]) && pod_qos(pods[*at], pod_level) == class;
        (0..pods.len()).filter(may_go).collect()
    };
    let (best_effort, burstable, guaranteed) =
        (of_class(QosClass::BestEffort), of_class(QosClass::Burstable), of_class(QosClass::Guaranteed));
    let search = Search { pods, pod_level };
    let all = [best_effort.as_slice(), &burstable, &guaranteed].concat();
    let never = search.left(missing, &all);
    if !never.is_empty() {
        return Err(too_few(&never));
    }
    let from_guaranteed =
        search.nearest(guaranteed, search.left(missing, &[best_effort.as_slice(), &burstable].concat()))?;
    let from_burstable =
        search.nearest(burstable, search.left(missing, &[best_effort.as_slice(), &from_guaranteed].concat()))?;
    let spared = [from_burstable.as_slice(), &from_guaranteed].concat();
    let from_best_effort = search.nearest(best_effort, search.left(missing, &spared))?;
    Ok([from_best_effort, from_burstable, from_guaranteed].concat())
}

/// Whether `other` may be ended for `critical`: it is not critical, or it is of a lower priority.
fn is_preemptable(critical: &Pod, other: &Pod) -> bool {
    let priority = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.priority);
    (is_critical(critical) && !is_critical(other))
        || matches!((priority(critical), priority(other)), (Some(high), Some(low)) if high > low)
}

struct Search<'a> {
    pods: &'a [&'a Pod],
    pod_level: bool,
}

impl Search<'_> {
    fn request(&self, at: usize, name: &str) -> i64 {
        taken(self.pods[at], name, self.pod_level)
    }

    /// The amounts that are still missing once these are gone.
    fn left(&self, missing: &[Missing], gone: &[usize]) -> Vec<Missing> {
        let left = missing.iter().map(|one| {
            let freed = gone.iter().map(|at| self.request(*at, &one.name)).fold(0, i64::saturating_add);
            Missing { name: one.name.clone(), amount: one.amount.saturating_sub(freed) }
        });
        left.filter(|one| one.amount > 0).collect()
    }

    /// Takes the nearest of `from` until nothing is missing.
    fn nearest(&self, mut from: Vec<usize>, mut missing: Vec<Missing>) -> Result<Vec<usize>, String> {
        let mut found = Vec::new();
        while !missing.is_empty() {
            let smaller = |one: usize, other: usize| {
                let size = |at| (self.request(at, MEMORY), self.request(at, CPU));
                size(one) < size(other)
            };
            let mut best: Option<(usize, f64)> = None;
            for (place, at) in from.iter().enumerate() {
                let distance = self.distance(*at, &missing);
                let better = best.is_none_or(|(known, least)| {
                    distance < least || (distance.total_cmp(&least).is_eq() && smaller(*at, from[known]))
                });
                if better {
                    best = Some((place, distance));
                }
            }
            let Some((place, _)) = best else { return Err(too_few(&missing)) };
            let chosen = from.swap_remove(place);
            missing = self.left(&missing, &[chosen]);
            found.push(chosen);
        }
        Ok(found)
    }

    /// How far from enough the end of this pod is: the sum of squares of what would still be missing, each as a part of
    /// the whole.
    #[expect(clippy::cast_precision_loss, reason = "only compared")]
    fn distance(&self, at: usize, missing: &[Missing]) -> f64 {
        let parts = missing.iter().map(|one| {
            let rest = one.amount.saturating_sub(self.request(at, &one.name)).max(0);
            rest as f64 / one.amount as f64
        });
        parts.map(|part| part * part).sum()
    }
}

fn too_few(missing: &[Missing]) -> String {
    let each: String = missing.iter().map(|one| format!("(res: {}, q: {}), ", one.name, one.amount)).collect();
    format!("no set of running pods found to reclaim resources: [{each}]")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// A pod that asks for thousandths of a CPU and Mi of memory; guaranteed if `limited`.
    fn pod(priority: i32, cpu: i64, memory: i64, limited: bool) -> Pod {
        let amounts = json!({ "cpu": format!("{cpu}m"), "memory": format!("{memory}Mi") });
        let resources = match (cpu, memory) {
            (0, 0) => Value::Null,
            _ if limited => json!({ "requests": amounts, "limits": amounts }),
            _ => json!({ "requests": amounts }),
        };
        serde_json::from_value(json!({ "spec": {
            "priority": priority, "containers": [{ "name": "a", "resources": resources }],
        } }))
        .expect("a pod")
    }

    fn missing(amounts: &[(&str, i64)]) -> Vec<Missing> {
        amounts.iter().map(|(name, amount)| Missing { name: (*name).to_owned(), amount: *amount }).collect()
    }

    const CRITICAL: i32 = 2_000_000_000;

    /// RES-60.
    #[test]
    fn the_least_important_go_and_no_more_than_needed() {
        let (best, small, big) = (pod(0, 0, 0, false), pod(0, 100, 100, false), pod(0, 500, 300, false));
        let (sure, own) = (pod(0, 500, 300, true), pod(CRITICAL, 900, 900, false));
        let critical = pod(CRITICAL, 1000, 1000, false);
        let all = [&best, &small, &big, &sure, &own];
        // The missing amounts, the pods that go.
        for (wanted, expected) in [
            (vec![("cpu", 100)], vec![1]),
            (vec![("cpu", 101)], vec![2]),
            (vec![("cpu", 600)], vec![2, 1]),
            (vec![("cpu", 700)], vec![2, 3]),
            (vec![("pods", 1)], vec![0]),
            (vec![("cpu", 100), ("memory", 200 << 20)], vec![2]),
        ] {
            assert_eq!(victims(&critical, &all, &missing(&wanted), false), Ok(expected), "{wanted:?}");
        }
        let too_much = victims(&critical, &all, &missing(&[("cpu", 1101)]), false).expect_err("too much");
        assert_eq!(too_much, "no set of running pods found to reclaim resources: [(res: cpu, q: 1), ]");
    }

    /// RES-60: the squares of the missing parts are added up; of pods as near the one that asks for less goes.
    #[test]
    fn res_60_of_one_class_the_nearest_and_smallest_goes_first() {
        let critical = pod(CRITICAL, 1000, 1000, false);
        let (only_cpu, half, only_memory) = (pod(0, 1000, 1, false), pod(0, 400, 400, false), pod(0, 1, 700, false));
        let (plenty, leaner, leanest) = (pod(0, 600, 300, false), pod(0, 700, 200, false), pod(0, 600, 200, false));
        let nearest = |pods: &[&Pod], wanted: &[(&str, i64)]| victims(&critical, pods, &missing(wanted), false);
        let all_missing = [("cpu", 1000), ("memory", 1000 << 20)];
        for (pods, wanted, expected) in [
            // Most of the one and nothing of the other is further away than a part of both.
            ([&only_cpu, &half, &only_memory], &all_missing[..], vec![1, 0, 2]),
            ([&only_memory, &half, &only_cpu], &all_missing, vec![1, 2, 0]),
            ([&half, &plenty, &leaner], &[("cpu", 500)], vec![2]),
            ([&leaner, &plenty, &leanest], &[("cpu", 500)], vec![2]),
            ([&leanest, &leaner, &plenty], &[("cpu", 500)], vec![0]),
            // Of equals the first one goes, so that each run decides alike.
            ([&plenty, &leanest, &leanest], &[("cpu", 500)], vec![1]),
        ] {
            assert_eq!(nearest(&pods, wanted), Ok(expected), "{wanted:?} {pods:?}");
        }
    }

    #[test]
    fn only_lower_pods_go() {
        let (high, higher) = (pod(CRITICAL, 500, 1, false), pod(CRITICAL + 1000, 500, 1, false));
        assert_eq!(victims(&higher, &[&high], &missing(&[("cpu", 1)]), false), Ok(vec![0]));
        assert!(victims(&high, &[&higher, &high], &missing(&[("cpu", 1)]), false).is_err());
    }

    proptest! {
        #[test]
        fn who_goes_makes_enough_room(
            sizes in prop::collection::vec((0_i64..500, 0_i64..500, any::<bool>()), 0..6), cpu in 0_i64..1500, memory in 0_i64..1500,
        ) {
            let pods: Vec<Pod> = sizes.iter().map(|(cpu, memory, limited)| pod(0, *cpu, *memory, *limited)).collect();
            let pods: Vec<&Pod> = pods.iter().collect();
            let wanted: Vec<Missing> =
                missing(&[("cpu", cpu), ("memory", memory << 20)]).into_iter().filter(|one| one.amount > 0).collect();
            let all: (i64, i64) = sizes.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            match victims(&pod(CRITICAL, 1, 1, false), &pods, &wanted, false) {
                Err(_) => prop_assert!(all.0 < cpu || all.1 < memory),
                Ok(found) => {
                    let freed = found.iter().fold((0, 0), |sum, at| (sum.0 + sizes[*at].0, sum.1 + sizes[*at].1));
                    prop_assert!(freed.0 >= cpu && freed.1 >= memory);
                }
            }
        }
    }
}
