//! A pod worker's job that creates and starts a container, to the end of its postStart hook.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::{Mutex, oneshot};

use super::site::{JobSite, field_path};
use super::stopping::Stop;
use crate::actors::kit::trace::Cause;
use crate::cri::ContainerState;
use crate::cri::pod_mapping::runtime_container;
use crate::logic::events::reasons::EventReason;
use crate::logic::images::image_policy::ImageInUse;
use crate::logic::logs::log_path::log_link_name;
use crate::logic::model::ids::{ContainerId, SandboxId};
use crate::logic::model::runtime_pod::{RuntimeContainer, RuntimePod, RuntimeSandbox};
use crate::logic::model::start_reason::StartReason;
use crate::logic::pods::container_actions::StartContainer;
use crate::logic::pods::hooks;
use crate::logic::pods::pod_containers::target_name;
use crate::logic::pods::pod_lifecycle::{JobEnd, StartFailure, Started};
use crate::logic::volumes::volume_states::MountedVolumes;
use crate::messages::event_recorder::EventSubject;

/// For the first sight of a container that was started: it is worth less than the pod's next step.
const SIGHT_PATIENCE: Duration = Duration::from_secs(1);

/// The input of a container's start, besides its pod.
pub struct Given {
    /// Its image, and those of volumes that are images.
    pub image: ImageInUse,
    /// Where the pod's volumes are.
    pub volumes: Arc<MountedVolumes>,
    /// Whether the runtime can make mounts read-only recursively.
    pub recursive_read_only: bool,
    /// The runtime's objects of the pod.
    pub runtime: Option<Arc<RuntimePod>>,
}

/// A container that was made, to be started.
struct Created {
    id: ContainerId,
    restart_count: u32,
    /// The path of its log.
    log: String,
}

impl JobSite {
    /// Creates and starts a container. Where the pod is to end meanwhile it leaves off, but not while the runtime is asked to
    /// start the container: one whose start is cut off shows as one that failed.
    pub(in super::super) async fn start_container(
        self,
        pod: Arc<Pod>,
        start: StartContainer,
        sandbox: RuntimeSandbox,
        given: Given,
        leave: oneshot::Receiver<()>,
        cause: Cause,
    ) -> JobEnd {
        let starting = Mutex::new(());
        let left = async {
            if leave.await.is_err() {
                std::future::pending::<()>().await; // The worker has gone, and this with it.
            }
            let _started = starting.lock().await;
        };
        tokio::select! {
            biased;
            outcome = self.make(&pod, &start, &sandbox, &given, &starting, &cause) => {
                JobEnd::Started(start.name, outcome)
            }
            () = left => JobEnd::Left(start.name),
        }
    }

    async fn make(
        &self,
        pod: &Pod,
        start: &StartContainer,
        sandbox: &RuntimeSandbox,
        given: &Given,
        starting: &Mutex<()>,
        cause: &Cause,
    ) -> Result<Started, StartFailure> {
        let (name, subject) = (&start.name, self.subject(field_path(start.kind, &start.name)));
        let created = self.create(pod, start, sandbox, given, cause).await;
        let Created { id, restart_count, log } = created.inspect_err(|failure| {
            self.tell(cause, subject.warning(EventReason::Failed, format!("Error: {}", failure.message)));
        })?;
        self.tell(cause, subject.normal(EventReason::Created, "Container created"));
        let seen = {
            let _starts = starting.lock().await;
            self.ask_to_start(&id, name, &subject, cause).await?;
            let link = log_link_name(&self.full_name.name, &self.full_name.namespace, name, id.as_str());
            let (linked, seen) = futures_util::join!(
                self.tools.adapters.files.link_log(&link, &log),
                self.see_running(&id, &sandbox.id)
            );
            if let Err(error) = linked {
                tracing::warn!(pod = %self.full_name, container = name, %error, "log link not made");
            }
            seen
        };
        self.post_start(pod, name, &id, sandbox, &subject, cause).await?; // Tells an Event of its own.
        Ok(Started { id, restart_count, seen: seen.map(Box::new) })
    }

    async fn create(
        &self,
        pod: &Pod,
        start: &StartContainer,
        sandbox: &RuntimeSandbox,
        given: &Given,
        cause: &Cause,
    ) -> Result<Created, StartFailure> {
        let not_made = |message| StartFailure { reason: StartReason::CreateContainerConfigError, message };
        // Once for both: they are to name the same IDs.
        let users = self.user_namespace(pod, cause).await.map_err(not_made)?;
        let (config, noted, sandbox_config) = futures_util::join!(
            self.container_config(pod, start, sandbox, given, users.clone(), cause),
            self.note_container(pod, &start.name, cause),
            self.made_sandbox(pod, sandbox.attempt, users, cause),
        );
        let (config, sandbox_config) = (config.map_err(not_made)?, sandbox_config.map_err(not_made)?);
        noted.map_err(not_made)?;
        if config.metadata.attempt > start.restart_count {
            self.deny_unseen(&start.name, given.runtime.as_deref()).await.map_err(not_made)?;
        }
        let runtime = &self.tools.adapters.runtime;
        let id = runtime.create_container(&sandbox.id, &config, &sandbox_config).await.map_err(|error| {
            StartFailure { reason: StartReason::CreateContainerError, message: error.words().into_owned() }
        })?;
        let log = format!("{}/{}", sandbox_config.log_directory, config.log_path);
        Ok(Created { id, restart_count: config.metadata.attempt, log })
    }

    async fn ask_to_start(
        &self,
        id: &ContainerId,
        name: &str,
        subject: &EventSubject,
        cause: &Cause,
    ) -> Result<(), StartFailure> {
        if let Err(error) = self.tools.adapters.runtime.start_container(id).await {
            let message = error.words().into_owned();
            // The runtime's words may hold the ID, another one at each try: without it all are one Event, and counted.
            let told = message.replace(id.as_str(), name);
            self.tell(cause, subject.warning(EventReason::Failed, format!("Error: {told}")));
            return Err(StartFailure { reason: StartReason::RunContainerError, message });
        }
        self.tell(cause, subject.normal(EventReason::Started, "Container started"));
        Ok(())
    }

    /// How the runtime shows a container that was just started; nothing when it does not say so soon, or when the
    /// container has ended already: an end has more to tell, which a look at the pod collects.
    async fn see_running(&self, id: &ContainerId, sandbox: &SandboxId) -> Option<RuntimeContainer> {
        let status = tokio::time::timeout(SIGHT_PATIENCE, self.tools.adapters.runtime.container_status(id)).await;
        let status = status.ok()?.ok().filter(|status| status.state == ContainerState::Running)?;
        Some(runtime_container(&status, sandbox, self.tools.settings.containers.stop_signals))
    }

    /// Runs the container's postStart hook, where it has one; the container has not started before it has ended. One that
    /// fails ends the container.
    pub(super) async fn post_start(
        &self,
        pod: &Pod,
        name: &str,
        id: &ContainerId,
        sandbox: &RuntimeSandbox,
        subject: &EventSubject,
        cause: &Cause,
    ) -> Result<(), StartFailure> {
        let Some(container) = hooks::named(pod, name) else { return Ok(()) };
        let Some(handler) = hooks::post_start(container) else { return Ok(()) };
        let address = self.address_of(sandbox);
        let Err(failure) = self.run_hook(container, handler, id, address.as_deref(), cause).await else {
            return Ok(());
        };
        // The Event tells nothing of what the hook said: that may be secret, and the pod's status is more guarded.
        self.tell(cause, subject.warning(EventReason::FailedPostStartHook, "PostStartHook failed"));
        let seconds = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        let grace =
            seconds.and_then(|seconds| u64::try_from(seconds).ok()).map_or(hooks::STOP_GRACE_MIN, Duration::from_secs);
        let stop = Stop { id: id.clone(), name: name.to_owned(), message: "FailedPostStartHook".to_owned() };
        if let Err(error) = self.stop_one(Some(pod), &stop, grace, address.as_deref(), None, cause).await {
            tracing::warn!(pod = %self.full_name, container = name, %error, "container with a failed hook not stopped");
        }
        let pod = format!("{}({})", self.full_name, self.uid);
        let message = hooks::failure_message(container, handler, &pod, &failure.error, &failure.output);
        Err(StartFailure { reason: StartReason::PostStartHookError, message })
    }
}

/// The instance whose processes an ephemeral container joins (POD-22).
pub(super) fn target(
    pod: &Pod,
    start: &StartContainer,
    seen: Option<&RuntimePod>,
) -> Result<Option<ContainerId>, String> {
    let Some(name) = target_name(pod, &start.name) else { return Ok(None) };
    let newest = seen.and_then(|seen| seen.container(name));
    newest.map(|newest| Some(newest.id.clone())).ok_or_else(|| format!("unable to find target container {name}"))
}
