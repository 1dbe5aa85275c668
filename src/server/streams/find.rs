//! Which pod, container and sandbox a request means. The runtime is asked for what runs now, as upstream does: what the
//! agent saw last may have been replaced since.

use super::problem::Problem;
use crate::cri::pod_mapping::labels::{CONTAINER_NAME, POD_UID};
use crate::cri::pod_mapping::{generation, sandbox_generation};
use crate::cri::{ContainerFilter, ContainerState, CriResult, Labels, PodSandboxFilter, SandboxState};
use crate::logic::model::ids::{ContainerId, PodUid, SandboxId};
use crate::messages::status::status_manager::PodView;
use crate::server::backend::Backend;
use crate::server::pods::pod_list::named;

/// The pod of this name.
pub(in crate::server) async fn pod(backend: &Backend, namespace: &str, name: &str) -> Result<PodView, Problem> {
    let is_it = |view: &PodView| {
        let metadata = &view.pod.metadata;
        !view.is_over
            && metadata.name.as_deref() == Some(name)
            && metadata.namespace.as_deref().unwrap_or("default") == namespace
    };
    named(backend, is_it).await?.into_iter().next().ok_or_else(|| Problem::not_found("pod does not exist"))
}

/// The container of this name that runs, the newest where there are more.
pub(in crate::server) async fn running_container(
    backend: &Backend,
    uid: &PodUid,
    name: &str,
) -> CriResult<Option<ContainerId>> {
    let label_selector = of_pod(uid);
    let filter = ContainerFilter { state: Some(ContainerState::Running), label_selector, ..ContainerFilter::default() };
    let mut found = backend.runtime.list_containers(&filter).await?;
    found.retain(|container| container.labels.get(CONTAINER_NAME).is_some_and(|label| label == name));
    Ok(found.into_iter().max_by(|one, other| generation(one).cmp(&generation(other))).map(|container| container.id))
}

/// Nothing of this name runs in the pod, in the words of exec and run.
pub(in crate::server) fn no_container(name: &str) -> Problem {
    Problem::internal(format!("container not found ({name:?})"))
}

/// The pod's sandbox, if it is ready.
pub(super) async fn ready_sandbox(backend: &Backend, uid: &PodUid) -> CriResult<Option<SandboxId>> {
    let label_selector = of_pod(uid);
    let filter = PodSandboxFilter { state: Some(SandboxState::Ready), label_selector, ..PodSandboxFilter::default() };
    let found = backend.runtime.list_pod_sandboxes(&filter).await?;
    let newest = found.into_iter().max_by(|one, other| sandbox_generation(one).cmp(&sandbox_generation(other)));
    Ok(newest.map(|sandbox| sandbox.id))
}

fn of_pod(uid: &PodUid) -> Labels {
    [(POD_UID.to_owned(), uid.to_string())].into()
}
