//! The parts of a pod's status that it never takes back.
//!
//! A `PodWorker` that was started again knows of the pod's past only what the runtime still holds. The status had instances
//! that were removed meanwhile: their number, and how the last one ended, stay told.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, PodStatus};

/// Keeps in `status` the entries of `shown`, the one before, about instances that are gone.
pub fn never_back(status: &mut Arc<PodStatus>, shown: &PodStatus) {
    if lists(status).any(|now| lists(shown).any(|before| is_less(now, before))) {
        keep(Arc::make_mut(status), shown);
    }
}

/// Whether `now` tells of fewer instances of the same container.
fn is_less(now: &ContainerStatus, before: &ContainerStatus) -> bool {
    now.name == before.name && now.restart_count < before.restart_count
}

fn lists(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    [&status.init_container_statuses, &status.container_statuses].into_iter().flatten().flatten()
}

fn keep(status: &mut PodStatus, shown: &PodStatus) {
    let all = [&mut status.init_container_statuses, &mut status.container_statuses];
    for now in all.into_iter().flatten().flatten() {
        let Some(before) = lists(shown).find(|before| is_less(now, before)) else { continue };
        now.restart_count = before.restart_count;
        if !has_ended(now.last_state.as_ref()) && has_ended(before.last_state.as_ref()) {
            now.last_state.clone_from(&before.last_state);
        }
    }
}

fn has_ended(state: Option<&ContainerState>) -> bool {
    state.is_some_and(|state| state.terminated.is_some())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ContainerStateTerminated;

    use super::*;

    fn status_of(count: i32, terminated: Option<ContainerStateTerminated>) -> ContainerStatus {
        let last_state = Some(ContainerState { terminated, ..ContainerState::default() });
        ContainerStatus { name: "a".to_owned(), restart_count: count, last_state, ..ContainerStatus::default() }
    }

    fn status(count: i32, ended: bool) -> PodStatus {
        let container = status_of(count, ended.then(Default::default));
        PodStatus { container_statuses: Some(vec![container]), ..PodStatus::default() }
    }

    /// POD-12: a worker that knows less than the status takes nothing back.
    #[test]
    fn counts_and_ends_stay_told() {
        let mut less = Arc::new(status(0, false));
        never_back(&mut less, &status(2, true));
        assert_eq!(*less, status(2, true));
    }

    #[test]
    fn what_is_newer_is_told_as_it_is() {
        for count in [2, 3] {
            let more = Arc::new(status(count, false));
            let mut told = Arc::clone(&more);
            never_back(&mut told, &status(2, true));
            assert!(Arc::ptr_eq(&more, &told), "{count}");
        }
    }

    #[test]
    fn a_newer_end_and_other_containers_stay_as_they_are() {
        let container = |name: &str, count: i32, exit_code: i32| ContainerStatus {
            name: name.to_owned(),
            ..status_of(count, Some(ContainerStateTerminated { exit_code, ..ContainerStateTerminated::default() }))
        };
        let of = |list: Vec<ContainerStatus>| PodStatus { container_statuses: Some(list), ..PodStatus::default() };
        let mut now = Arc::new(of(vec![container("a", 1, 5), container("b", 0, 6)]));
        never_back(&mut now, &of(vec![container("a", 4, 7), container("c", 9, 8)]));
        assert_eq!(*now, of(vec![container("a", 4, 5), container("b", 0, 6)]));
    }
}
