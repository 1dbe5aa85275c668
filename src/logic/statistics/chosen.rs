//! Which pods and containers have statistics: of several generations the one that runs.

use std::collections::BTreeSet;

use super::sample::{ContainerSample, PodSample, SandboxSample};
use crate::logic::model::ids::FullName;
use crate::logic::model::runtime_pod::{ContainerState, RuntimePod, SandboxState};

/// Pods with something that runs, by namespace and name, with nothing read of them yet. A pod that was made anew hides
/// its predecessors; a container that was started again hides those that ended.
pub fn chosen<'a>(pods: impl IntoIterator<Item = &'a RuntimePod>) -> Vec<PodSample> {
    let pods: Vec<&RuntimePod> = pods.into_iter().filter(|pod| pod.is_alive()).collect();
    let is_ready = |pod: &RuntimePod| pod.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready);
    let ready: BTreeSet<&FullName> = pods.iter().filter(|pod| is_ready(pod)).map(|pod| &pod.full_name).collect();
    let pods = pods.iter().filter(|pod| is_ready(pod) || !ready.contains(&pod.full_name));
    let mut samples: Vec<PodSample> = pods.filter_map(|pod| sample(pod)).collect();
    samples
        .sort_by(|one, other| (&one.namespace, &one.name, &one.uid).cmp(&(&other.namespace, &other.name, &other.uid)));
    samples
}

fn sample(pod: &RuntimePod) -> Option<PodSample> {
    let ready = pod.sandboxes.iter().find(|sandbox| sandbox.state == SandboxState::Ready);
    let sandbox = ready.or(pod.sandboxes.first())?;
    let mut names = BTreeSet::new();
    let running = pod.containers.iter().filter(|container| container.state == ContainerState::Running);
    let newest = running.filter(|container| names.insert(container.name.as_str()));
    let mut containers: Vec<ContainerSample> = newest
        .map(|container| ContainerSample {
            id: container.id.clone(),
            name: container.name.clone(),
            image: container.process.image.clone(),
            created: container.created_at,
            group: None,
            logs: None,
        })
        .collect();
    containers.sort_by(|one, other| one.name.cmp(&other.name));
    Some(PodSample {
        uid: pod.uid.clone(),
        name: pod.full_name.name.to_string(),
        namespace: pod.full_name.namespace.to_string(),
        created: sandbox.created_at,
        group: None,
        sandbox: SandboxSample {
            id: sandbox.id.clone(),
            host_network: sandbox.host_network,
            group: None,
            interfaces: None,
        },
        containers,
        logs: None,
        hosts_file: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::ids::{PodUid, SandboxId};
    use crate::logic::model::runtime_pod::{ContainerProcess, RuntimeContainer, RuntimeSandbox};
    use crate::logic::model::time::{Moment, Stamp};

    fn sandbox(id: &str, state: SandboxState, created: i64) -> RuntimeSandbox {
        let created_at = Moment(created);
        RuntimeSandbox {
            id: SandboxId::from(id),
            attempt: 0,
            state,
            created_at,
            host_network: false,
            ips: vec![],
            lacks_address: false,
        }
    }

    fn container(id: &str, name: &str, state: ContainerState) -> RuntimeContainer {
        RuntimeContainer {
            created_at: Moment(5),
            started_at: Moment(6),
            process: ContainerProcess::of_image("app"),
            ..RuntimeContainer::sample(id, name, state)
        }
    }

    fn pod(uid: &str, sandboxes: Vec<RuntimeSandbox>, containers: Vec<RuntimeContainer>) -> RuntimePod {
        let empty = RuntimePod::empty(PodUid::from(uid), FullName::new("p", "ns"), Stamp(1));
        RuntimePod { sandboxes, containers, ..empty }
    }

    #[test]
    fn what_ended_is_not_told_of() {
        use ContainerState::{Exited, Running};
        let containers =
            vec![container("c3", "web", Running), container("c2", "web", Exited), container("c1", "job", Exited)];
        let pods = [
            pod(
                "new",
                vec![sandbox("s2", SandboxState::Ready, 20), sandbox("s1", SandboxState::NotReady, 10)],
                containers,
            ),
            pod("old", vec![sandbox("s0", SandboxState::NotReady, 1)], vec![container("c0", "web", Running)]),
            pod("dead", vec![sandbox("sx", SandboxState::NotReady, 1)], vec![]),
        ];
        let told = chosen(&pods);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((told[0].uid.as_str(), told[0].sandbox.id.as_str(), told[0].created), ("new", "s2", Moment(20)));
        let ids: Vec<_> = told[0].containers.iter().map(|container| container.id.as_str()).collect();
        assert_eq!(ids, ["c3"]);
    }

    #[test]
    fn two_ready_pods_of_one_name_are_both_told_of() {
        let ready = |uid| pod(uid, vec![sandbox(uid, SandboxState::Ready, 1)], vec![]);
        assert_eq!(chosen(&[ready("a"), ready("b")]).len(), 2);
    }
}
