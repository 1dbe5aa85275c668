//! How the runtime is looked at: all pods by two lists, one pod by its label.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::try_join;

use crate::cri::pod_mapping::{
    labels, pod_identity, runtime_container, runtime_pod, runtime_sandbox, termination_message_file,
};
use crate::cri::{
    ContainerFilter, ContainerState, ContainerStatus, CriError, CriResult, Labels, PodSandboxFilter, RuntimeService,
};
use crate::logic::model::ids::{FullName, PodUid, SandboxId};
use crate::logic::model::runtime_pod::{RuntimeContainer, RuntimePod};
use crate::logic::runtime::pleg_diff::{PodParts, PodRecord};
use crate::messages::runtime::pleg::Relist;
use crate::platform::host::clock::Clock;
use crate::platform::pods::pod_files::PodFiles;

/// The most bytes of a container's termination message (POD-38).
const TERMINATION_MESSAGE_MAX: usize = 4096;
/// The most lines and bytes of a log that stand in for one (POD-38).
const LOG_FALLBACK: (usize, usize) = (80, 2048);

/// The means of a look: the runtime, and the files that say more of its containers.
pub(super) struct Looker {
    pub(super) runtime: Arc<dyn RuntimeService>,
    pub(super) files: Arc<dyn PodFiles>,
    /// Whether containers name the signal that they are stopped with.
    pub(super) stop_signals: bool,
    pub(super) clock: Arc<dyn Clock>,
}

/// Lists all sandboxes and containers.
pub(super) async fn relist(looker: &Looker) -> CriResult<Relist> {
    let runtime = &looker.runtime;
    let taken = looker.clock.stamp();
    let (sandbox_filter, container_filter) = (PodSandboxFilter::default(), ContainerFilter::default());
    let (sandboxes, containers) =
        try_join(runtime.list_pod_sandboxes(&sandbox_filter), runtime.list_containers(&container_filter)).await?;
    let mut pods: BTreeMap<PodUid, PodRecord> = BTreeMap::new();
    let (mut names, mut running) = (BTreeMap::new(), BTreeMap::<PodUid, BTreeSet<String>>::new());
    for sandbox in sandboxes {
        if let Some((uid, name)) = pod_identity(&sandbox.labels) {
            names.insert(uid.clone(), name);
            pods.entry(uid).or_default().add_sandbox(sandbox.id, sandbox.state);
        }
    }
    for container in containers {
        if let Some((uid, name)) = pod_identity(&container.labels) {
            names.insert(uid.clone(), name);
            let running = running.entry(uid.clone()).or_default();
            running.extend((container.state == ContainerState::Running).then_some(container.metadata.name));
            pods.entry(uid).or_default().add_container(container.id, container.state);
        }
    }
    Ok(Relist { taken, pods, names, running })
}

/// The parts that the runtime lists for a pod.
async fn list_parts(looker: &Looker, uid: &PodUid) -> CriResult<PodParts> {
    let runtime = &looker.runtime;
    let taken = looker.clock.stamp();
    let label_selector: Labels = [(labels::POD_UID.to_owned(), uid.to_string())].into();
    let sandbox_filter = PodSandboxFilter { label_selector: label_selector.clone(), ..PodSandboxFilter::default() };
    let container_filter = ContainerFilter { label_selector, ..ContainerFilter::default() };
    let (sandboxes, containers) =
        try_join(runtime.list_pod_sandboxes(&sandbox_filter), runtime.list_containers(&container_filter)).await?;
    let of_sandboxes = sandboxes.iter().rev().map(|sandbox| &sandbox.labels);
    let full_name = of_sandboxes.chain(containers.iter().map(|container| &container.labels)).find_map(pod_identity);
    Ok(PodParts {
        taken,
        full_name: full_name.map(|(_, name)| name),
        sandboxes: sandboxes.into_iter().map(|sandbox| (sandbox.id, sandbox.state)).collect(),
        containers: containers.into_iter().map(|line| (line.id, line.sandbox_id, line.state)).collect(),
    })
}

/// Looks at one pod, from these parts on if the caller knows them. A container that vanishes between the lists and the
/// question after it counts as gone. `known` saves the questions about containers that had ended by then, and about complete
/// sandboxes in the same state: they do not change any more.
pub(super) async fn inspect(
    looker: &Looker,
    uid: &PodUid,
    known: Option<&RuntimePod>,
    parts: Option<PodParts>,
) -> CriResult<Arc<RuntimePod>> {
    let runtime = &looker.runtime;
    let parts = match parts {
        Some(parts) => parts,
        None => list_parts(looker, uid).await?,
    };
    let mut sandboxes = vec![];
    for (id, state) in &parts.sandboxes {
        let same = known.and_then(|known| known.sandboxes.iter().find(|one| one.id == *id && one.state == *state));
        if let Some(same) = same.filter(|same| same.is_complete()) {
            sandboxes.push(same.clone());
        } else if let Some(status) = present(runtime.pod_sandbox_status(id).await)? {
            sandboxes.push(runtime_sandbox(&status));
        }
    }
    let mut containers = vec![];
    for (id, sandbox_id, state) in &parts.containers {
        let ended = known.and_then(|known| {
            let same = known.containers.iter().find(|container| container.id == *id);
            same.filter(|container| container.state == ContainerState::Exited && *state == ContainerState::Exited)
        });
        if let Some(container) = ended {
            containers.push(container.clone());
        } else if let Some(status) = present(runtime.container_status(id).await)? {
            containers.push(container_account(&*looker.files, looker.stop_signals, uid, &status, sandbox_id).await);
        }
    }
    let full_name = parts.full_name.or_else(|| known.map(|known| known.full_name.clone()));
    let full_name = full_name.unwrap_or_else(|| FullName::new("", ""));
    Ok(Arc::new(runtime_pod(uid.clone(), full_name, sandboxes, containers, parts.taken)))
}

/// The answer of the runtime; `None` where it says that there is no such thing.
pub(in crate::actors) fn present<T>(answer: CriResult<T>) -> CriResult<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(CriError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A container, with what it said itself about its end (POD-38).
pub(in crate::actors) async fn container_account(
    files: &dyn PodFiles,
    stop_signals: bool,
    uid: &PodUid,
    status: &ContainerStatus,
    sandbox: &SandboxId,
) -> RuntimeContainer {
    let mut container = runtime_container(status, sandbox, stop_signals);
    if status.state != ContainerState::Exited {
        return container;
    }
    let said = termination_message(files, uid, status).await;
    if !said.is_empty() {
        let joint = if container.message.is_empty() { "" } else { ": " };
        container.message = format!("{}{joint}{said}", container.message);
    }
    container
}

async fn termination_message(files: &dyn PodFiles, uid: &PodUid, status: &ContainerStatus) -> String {
    let mut said = String::new();
    if let Some(path) = termination_message_file(status) {
        match files.read_termination_log(uid, path, TERMINATION_MESSAGE_MAX).await {
            Ok(text) => said = text,
            // As upstream, in the message's place, and the log is not asked.
            Err(error) => return format!("Error on reading termination log {path}: {}", error.problem),
        }
    }
    let policy = status.annotations.get(labels::TERMINATION_MESSAGE_POLICY).map(String::as_str);
    let falls_back = policy == Some("FallbackToLogsOnError")
        && said.is_empty()
        && status.exit_code != 0
        && status.reason != "ContainerCannotRun";
    if falls_back {
        let (lines, bytes) = LOG_FALLBACK;
        let read = files.log_tail(&status.log_path, lines, bytes).await;
        said = read.unwrap_or_else(|error| format!("Error on reading termination message from logs: {error}"));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::node::tests::{PlayedAgent, played_agent};
    use crate::actors::played_api::ObjectServer;
    use crate::cri::Mount;

    /// A container that failed, with its termination log at this path of the host, and its log.
    fn status(termination_log: &str, log: &str) -> ContainerStatus {
        let annotations = [
            (labels::TERMINATION_MESSAGE_PATH, "/dev/termination-log"),
            (labels::TERMINATION_MESSAGE_POLICY, "FallbackToLogsOnError"),
        ];
        let mount = Mount {
            container_path: "/dev/termination-log".to_owned(),
            host_path: termination_log.to_owned(),
            ..Mount::default()
        };
        ContainerStatus {
            id: "c".into(),
            metadata: Default::default(),
            state: ContainerState::Exited,
            created_at: Default::default(),
            started_at: Default::default(),
            finished_at: Default::default(),
            exit_code: 1,
            image: String::new(),
            image_ref: String::new(),
            image_id: String::new(),
            reason: "Error".to_owned(),
            message: "ended".to_owned(),
            labels: Labels::default(),
            annotations: annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            mounts: vec![mount],
            log_path: log.to_owned(),
            resources: None,
            user: None,
            stop_signal: None,
        }
    }

    /// POD-38: the reason why a container's last words cannot be read stands in their place.
    #[tokio::test]
    async fn last_words_that_cannot_be_read_are_told_of() {
        let played: PlayedAgent = played_agent(ObjectServer::default().api(), |_, _| {});
        let said = async |uid: &str, log: &str| {
            let status = status("/nowhere/log", log);
            container_account(&*played.agent.adapters.pods.files, true, &PodUid::from(uid), &status, &"s".into())
                .await
                .message
        };
        let of_log =
            "Error on reading termination message from logs: open log /etc/passwd: is not below the pod logs directory";
        assert_eq!(said("uid", "/etc/passwd").await, format!("ended: {of_log}"));
        let of_file = said("..", "/etc/passwd").await;
        assert!(of_file.starts_with("ended: Error on reading termination log /nowhere/log: "), "{of_file}");
        assert!(!of_file.contains("from logs"), "{of_file}");
    }
}
