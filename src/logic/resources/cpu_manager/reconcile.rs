//! Which running containers need other CPUs than they were given last; upstream's `reconcileState`.
//!
//! Pure. The actor makes the updates, and notes those that the runtime took.

use super::cpu_set::CpuSet;
use super::state::CpuState;
use crate::logic::model::ids::{ContainerId, PodUid};

/// A container that runs. Waiting and ended ones are left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningContainer {
    /// Its pod.
    pub pod: PodUid,
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: ContainerId,
    /// The CPUs that the runtime got last; `None` where this agent has told it none yet.
    pub applied: Option<CpuSet>,
}

/// A container that shall run on other CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuUpdate {
    /// Its pod.
    pub pod: PodUid,
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: ContainerId,
    /// All CPUs that it may use from now on; never empty.
    pub cpus: CpuSet,
}

/// The updates that make containers run on the CPUs of the state, in the order of the containers.
///
/// Containers that lose CPUs come first, so that exclusive CPUs are free before their owner runs on them.
pub fn plan<'a>(state: &CpuState, running: impl IntoIterator<Item = &'a RunningContainer>) -> Vec<CpuUpdate> {
    let update = |container: &RunningContainer| {
        let cpus = state.of_or_shared(&container.pod, &container.name);
        // An empty set would lift every restriction; there is none to set under the policy `none`.
        let is_due = !cpus.is_empty() && container.applied.as_ref() != Some(cpus);
        let grows = container.applied.as_ref().is_some_and(|applied| applied.is_subset(cpus));
        is_due.then(|| {
            let (pod, name, id) = (container.pod.clone(), container.name.clone(), container.id.clone());
            (grows, CpuUpdate { pod, name, id, cpus: cpus.clone() })
        })
    };
    let mut updates: Vec<_> = running.into_iter().filter_map(update).collect();
    updates.sort_by_key(|(grows, _)| *grows);
    updates.into_iter().map(|(_, update)| update).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        CpuSet::parse(text).expect("a set")
    }

    fn running(pod: &str, name: &str, applied: Option<&str>) -> RunningContainer {
        let id = ContainerId::from(format!("{pod}-{name}"));
        RunningContainer { pod: PodUid::from(pod), name: name.to_owned(), id, applied: applied.map(set) }
    }

    /// RES-25.
    #[test]
    fn res_25_containers_follow_the_shared_set_and_keep_their_own() {
        let mut state = CpuState { shared: set("0,2-7"), ..CpuState::default() };
        state.assign(&PodUid::from("own"), "main", set("1"));
        let containers = [
            running("shared", "grown", Some("0,2-6")),
            running("shared", "shrunk", Some("0-7")),
            running("shared", "same", Some("0,2-7")),
            running("shared", "unknown", None),
            running("own", "main", Some("1")),
            running("own", "helper", Some("0-7")),
        ];
        let planned: Vec<_> = plan(&state, &containers).into_iter().map(|one| (one.name, one.cpus)).collect();
        let shared = set("0,2-7");
        assert_eq!(
            planned,
            [
                ("shrunk".to_owned(), shared.clone()),
                ("unknown".to_owned(), shared.clone()),
                ("helper".to_owned(), shared.clone()),
                ("grown".to_owned(), shared),
            ]
        );
    }

    /// RES-23.
    #[test]
    fn res_23_without_shared_cpus_nothing_is_set() {
        let containers = [running("pod", "main", None), running("pod", "other", Some("0-3"))];
        assert_eq!(plan(&CpuState::default(), &containers), []);
    }
}
