//! Which dead containers and sandboxes go (CRI-20; upstream's container garbage collector).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::logic::model::ids::{ContainerId, PodUid, SandboxId};
use crate::logic::model::runtime_pod::{ContainerState, RuntimeContainer, RuntimePod, SandboxState};
use crate::logic::model::time::Moment;

/// The limits within which containers are kept.
#[derive(Clone, Copy, Debug)]
pub struct GarbagePolicy {
    /// Dead instances of each container of a pod; negative for all.
    pub per_container: i32,
    /// Dead containers of the node; negative for no limit.
    pub total: i32,
    /// Younger ones stay.
    pub age_min: Duration,
}

/// The objects that go.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Garbage {
    /// Containers, with the pod that they are of.
    pub containers: Vec<(PodUid, ContainerId)>,
    /// Sandboxes, with the pod that they are of; to be stopped first.
    pub sandboxes: Vec<(PodUid, SandboxId)>,
}

/// Finds what goes. Pods in `known` are wanted or still end; of all others everything dead goes.
pub fn collect<'a>(
    pods: impl IntoIterator<Item = &'a RuntimePod>,
    known: &BTreeSet<PodUid>,
    policy: GarbagePolicy,
    now: Moment,
) -> Garbage {
    let mut garbage = Garbage::default();
    let mut kept: BTreeMap<(PodUid, String), Vec<&RuntimeContainer>> = BTreeMap::new();
    let pods: Vec<&RuntimePod> = pods.into_iter().collect();
    for pod in &pods {
        let is_known = known.contains(&pod.uid);
        for container in pod.containers.iter().filter(|container| is_dead(container)) {
            if !is_known {
                garbage.containers.push((pod.uid.clone(), container.id.clone()));
            } else if !is_about_to_run(pod, container) && now.since(container.created_at) >= policy.age_min {
                kept.entry((pod.uid.clone(), container.name.clone())).or_default().push(container);
            }
        }
    }
    for ((uid, _), instances) in &mut kept {
        evict(uid, instances, policy.per_container, &mut garbage);
    }
    limit_total(kept, policy, &mut garbage);
    for pod in &pods {
        collect_sandboxes(pod, known.contains(&pod.uid), &mut garbage);
    }
    garbage
}

fn is_dead(container: &RuntimeContainer) -> bool {
    container.state != ContainerState::Running
}

/// The newest instance, made and not yet started. Upstream's collector looks once a minute and may take it for dead;
/// one that looks at every change would meet it at each restart, and let it push out the instance that it follows.
fn is_about_to_run(pod: &RuntimePod, container: &RuntimeContainer) -> bool {
    container.state == ContainerState::Created
        && pod.instances(&container.name).next().is_some_and(|newest| newest.id == container.id)
}

/// `instances` are newest first; what exceeds `keep` goes.
fn evict(uid: &PodUid, instances: &mut Vec<&RuntimeContainer>, keep: i32, garbage: &mut Garbage) {
    let Ok(keep) = usize::try_from(keep) else { return };
    for container in instances.drain(keep.min(instances.len())..) {
        garbage.containers.push((uid.clone(), container.id.clone()));
    }
}

/// An equal share for each container, at least one; then the oldest go, of each container in the order of its instances:
/// one that seems to be made after its successor, because the clock was set back in between, is as old as that.
fn limit_total(
    mut kept: BTreeMap<(PodUid, String), Vec<&RuntimeContainer>>,
    policy: GarbagePolicy,
    garbage: &mut Garbage,
) {
    let Ok(total) = usize::try_from(policy.total) else { return };
    let count = |kept: &BTreeMap<_, Vec<_>>| kept.values().map(Vec::len).sum::<usize>();
    if count(&kept) <= total {
        return;
    }
    let share = i32::try_from((total / kept.len().max(1)).max(1)).unwrap_or(i32::MAX);
    for ((uid, _), instances) in &mut kept {
        evict(uid, instances, share, garbage);
    }
    let surplus = count(&kept).saturating_sub(total);
    let mut rest: Vec<(Moment, PodUid, u32, ContainerId)> = vec![];
    for ((uid, _), instances) in kept {
        let mut made = Moment(i64::MAX);
        for one in instances {
            made = made.min(one.created_at);
            rest.push((made, uid.clone(), one.restart_count, one.id.clone()));
        }
    }
    rest.sort();
    garbage.containers.extend(rest.into_iter().take(surplus).map(|(_, uid, _, id)| (uid, id)));
}

/// A sandbox goes when it is stopped and holds no container; of a known pod the newest stays.
fn collect_sandboxes(pod: &RuntimePod, is_known: bool, garbage: &mut Garbage) {
    let gone: BTreeSet<&ContainerId> = garbage.containers.iter().map(|(_, id)| id).collect();
    let holds = |id: &SandboxId| {
        pod.containers.iter().any(|container| container.sandbox_id == *id && !gone.contains(&container.id))
    };
    let stays = usize::from(is_known);
    let stopped = pod.sandboxes.iter().skip(stays).filter(|sandbox| sandbox.state == SandboxState::NotReady);
    let ids: Vec<SandboxId> = stopped.filter(|sandbox| !holds(&sandbox.id)).map(|sandbox| sandbox.id.clone()).collect();
    garbage.sandboxes.extend(ids.into_iter().map(|id| (pod.uid.clone(), id)));
}

/// Whether the pod has more dead instances of a container than are kept.
pub fn has_surplus(pod: &RuntimePod, per_container: i32) -> bool {
    let policy = GarbagePolicy { per_container, total: -1, age_min: Duration::ZERO };
    let garbage = collect(
        [pod],
        &[pod.uid.clone()].into(),
        policy,
        pod.containers.first().map_or_else(Default::default, |newest| newest.created_at),
    );
    !garbage.containers.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::ids::FullName;
    use crate::logic::model::runtime_pod::RuntimeSandbox;
    use crate::logic::model::time::Stamp;

    const KEEP_ONE: GarbagePolicy = GarbagePolicy { per_container: 1, total: -1, age_min: Duration::ZERO };

    fn container(id: &str, name: &str, state: ContainerState, created: i64) -> RuntimeContainer {
        RuntimeContainer {
            sandbox_id: "s1".into(),
            created_at: Moment(created),
            started_at: Moment(created),
            finished_at: Moment(created + 1),
            ..RuntimeContainer::sample(id, name, state)
        }
    }

    fn pod(uid: &str, containers: Vec<RuntimeContainer>) -> RuntimePod {
        let sandbox = |id: &str, attempt, state| RuntimeSandbox {
            id: id.into(),
            attempt,
            state,
            created_at: Moment(0),
            host_network: false,
            ips: vec![],
            lacks_address: false,
        };
        let sandboxes = vec![sandbox("s1", 1, SandboxState::Ready), sandbox("s0", 0, SandboxState::NotReady)];
        RuntimePod { sandboxes, containers, ..RuntimePod::empty(uid.into(), FullName::new(uid, "default"), Stamp(1)) }
    }

    fn ids(garbage: &Garbage) -> Vec<&str> {
        garbage.containers.iter().map(|(_, id)| id.as_str()).collect()
    }

    /// EVI-44.
    #[test]
    fn the_newest_dead_instance_stays_and_running_ones_do_not_count() {
        use ContainerState::{Exited, Running};
        let pod = pod(
            "u",
            vec![
                container("c3", "web", Running, 30),
                container("c2", "web", Exited, 20),
                container("c1", "web", Exited, 10),
                container("i1", "init", Exited, 5),
            ],
        );
        let garbage = collect([&pod], &[PodUid::from("u")].into(), KEEP_ONE, Moment(100));
        assert_eq!(ids(&garbage), ["c1"]);
        assert_eq!(garbage.sandboxes, [("u".into(), "s0".into())]);
    }

    #[test]
    fn an_instance_that_is_about_to_run_does_not_push_out_the_one_before() {
        use ContainerState::{Created, Exited};
        let instances = vec![
            container("c3", "web", Created, 30),
            container("c2", "web", Exited, 20),
            container("c1", "web", Created, 10),
        ];
        let garbage = collect([&pod("u", instances)], &[PodUid::from("u")].into(), KEEP_ONE, Moment(100));
        assert_eq!(ids(&garbage), ["c1"], "made and never started, it counts as dead once another followed");
    }

    #[test]
    fn a_stopped_sandbox_goes_with_the_last_of_its_containers() {
        use ContainerState::Exited;
        let old = |id| RuntimeContainer { sandbox_id: "s0".into(), ..container(id, "web", Exited, 10) };
        let known = [PodUid::from("u")].into();
        let kept = collect([&pod("u", vec![old("c1")])], &known, KEEP_ONE, Moment(100));
        assert!(kept.containers.is_empty() && kept.sandboxes.is_empty(), "{kept:?}");
        let pushed_out = pod("u", vec![container("c2", "web", Exited, 20), old("c1")]);
        let garbage = collect([&pushed_out], &known, KEEP_ONE, Moment(100));
        assert_eq!((ids(&garbage), &garbage.sandboxes[..]), (vec!["c1"], &[("u".into(), "s0".into())][..]));
    }

    #[test]
    fn the_total_is_shared_out_before_the_oldest_go() {
        let all = |name, created: &[i64]| -> Vec<RuntimeContainer> {
            let one = |at: &i64| container(&format!("{name}{at}"), name, ContainerState::Exited, *at);
            created.iter().map(one).collect()
        };
        let pod = pod("u", [all("a", &[50, 40, 30, 20]), all("b", &[10])].concat());
        let policy = GarbagePolicy { per_container: -1, total: 4, ..KEEP_ONE };
        let garbage = collect([&pod], &[PodUid::from("u")].into(), policy, Moment(100));
        assert_eq!(ids(&garbage), ["a30", "a20"], "two for each; that of b is older, and alone");
    }

    #[test]
    fn of_an_unknown_pod_everything_dead_goes() {
        let pod = pod("gone", vec![container("c1", "web", ContainerState::Exited, 10)]);
        let garbage = collect([&pod], &BTreeSet::new(), KEEP_ONE, Moment(100));
        assert_eq!(ids(&garbage), ["c1"]);
        assert_eq!(garbage.sandboxes, [("gone".into(), "s0".into())]);
    }

    #[test]
    fn a_pod_has_a_surplus_once_a_container_died_more_often_than_is_kept() {
        use ContainerState::Exited;
        let mut all = vec![container("b", "b", Exited, 20), container("a2", "a", Exited, 10)];
        assert!(!has_surplus(&pod("u", all.clone()), 1), "one dead instance of each container");
        all.push(container("a1", "a", Exited, 5));
        assert!(has_surplus(&pod("u", all.clone()), 1), "a has two");
        assert!(!has_surplus(&pod("u", all), 2));
    }

    #[test]
    fn the_young_stay_and_the_total_takes_the_oldest() {
        use ContainerState::Exited;
        let all = pod("u", vec![container("b", "b", Exited, 20), container("a", "a", Exited, 10)]);
        let known = [PodUid::from("u")].into();
        let young = GarbagePolicy { age_min: Duration::from_secs(60), per_container: 0, ..KEEP_ONE };
        assert_eq!(ids(&collect([&all], &known, young, Moment(100))), Vec::<&str>::new());
        let total = GarbagePolicy { total: 1, ..KEEP_ONE };
        assert_eq!(ids(&collect([&all], &known, total, Moment(100))), ["a"]);
    }

    /// CRI-20: the clock was set back between the making of the two; the newer one stays.
    #[test]
    fn the_newest_instance_stays_whatever_the_clock_showed() {
        use crate::logic::model::runtime_pod::RuntimeContainer as Instance;
        let instance = |id, count, created| Instance {
            restart_count: count,
            ..container(id, "web", ContainerState::Exited, created)
        };
        let known = [PodUid::from("u")].into();
        let mut instances = vec![instance("first", 0, 500), instance("second", 1, 20)];
        instances.sort_by(Instance::newest_first);
        let all = pod("u", instances);
        assert_eq!(ids(&collect([&all], &known, KEEP_ONE, Moment(600))), ["first"]);
        let total = GarbagePolicy { total: 1, per_container: -1, ..KEEP_ONE };
        let mut other = pod("v", vec![container("other", "web", ContainerState::Exited, 100)]);
        other.sandboxes.clear();
        let known = [PodUid::from("u"), PodUid::from("v")].into();
        let total_of_two = GarbagePolicy { total: 2, ..total };
        assert_eq!(ids(&collect([&all, &other], &known, total_of_two, Moment(600))), ["first"]);
    }
}
