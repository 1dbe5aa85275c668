//! The removal of one container, by the pod's own worker and by `ContainerGc` alike.

use crate::cri::RuntimeService;
use crate::logic::logs::log_path::log_link_name;
use crate::logic::model::ids::ContainerId;
use crate::logic::model::runtime_pod::RuntimePod;
use crate::platform::pods::pod_files::PodFiles;

/// Removes a container with its log and the log's link, log first, as upstream: what has no container has no log.
///
/// # Errors
/// The log or the container is still there, and why.
pub async fn remove_container(
    runtime: &dyn RuntimeService,
    files: &dyn PodFiles,
    known: Option<&RuntimePod>,
    id: &ContainerId,
) -> Result<(), String> {
    let container = known.and_then(|known| known.containers.iter().find(|container| container.id == *id));
    if let (Some(known), Some(container)) = (known, container) {
        let (name, namespace) = (&known.full_name.name, &known.full_name.namespace);
        let link = log_link_name(name, namespace, &container.name, id.as_str());
        if !container.log_path.is_empty() {
            let removed = files.remove_container_log(&link, &container.log_path).await;
            removed.map_err(|error| error.to_string())?;
        }
    }
    runtime.remove_container(id).await.map_err(|error| error.to_string())
}
