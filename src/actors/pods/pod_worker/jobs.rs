//! A pod worker's jobs: what takes time, step by step, against the adapters.
//!
//! A job reports; it decides nothing. Each can be cut off at any await and done again.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::stopping::{StopMemory, joined};
use crate::actors::agent::Agent;
use crate::actors::kit::trace::Cause;
use crate::cri::pod_mapping::{runtime_container, runtime_sandbox};
use crate::cri::{ContainerState, PodSandboxConfig, RuntimeService};
use crate::logic::events::field_path::of_container;
use crate::logic::events::reasons::EventReason;
use crate::logic::images::image_policy::{ImageFailure, ImageInUse, PullPolicy};
use crate::logic::logs::log_path::log_link_name;
use crate::logic::model::ids::{ContainerId, FullName, PodUid, SandboxId};
use crate::logic::model::runtime_pod::{RuntimeContainer, RuntimePod, RuntimeSandbox};
use crate::logic::network::host_ips::HostIps;
use crate::logic::pods::container_actions::{ContainerKind, StartContainer};
use crate::logic::pods::pod_containers::{find_container, target_name};
use crate::logic::pods::pod_lifecycle::{JobEnd, Remains, SandboxFailure, StartFailure, Started};
use crate::logic::pods::pod_resize::ContainerResources;
use crate::logic::resources::{pod_cgroup_settings, pod_qos};
use crate::logic::volumes::volume_states::MountedVolumes;
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::event_recorder::EventSubject;
use crate::messages::image_manager::{ImageManagerMsg, ImageRequest};
use crate::platform::host::blocking;
use crate::platform::observer::Occurrence;
use crate::platform::pods::pod_files::{PodFiles, PodPlace};

/// Patience with `ImageManager`; a pull itself has no deadline, as upstream.
const IMAGE_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// For the first sight of a container that was started: it is worth less than the pod's next step.
const SIGHT_PATIENCE: Duration = Duration::from_secs(1);

/// Where jobs work: whose pod, with which adapters.
#[derive(Clone)]
pub struct JobSite {
    /// The agent.
    pub agent: Arc<Agent>,
    /// Whose.
    pub uid: PodUid,
    /// The pod's name and namespace.
    pub full_name: FullName,
    /// The host's addresses.
    pub host: HostIps,
    /// Stops that are under way or were tried.
    pub stops: Arc<StopMemory>,
}

/// What a container is started with, besides its pod.
pub struct Given {
    /// Its image, and those of volumes that are images.
    pub image: ImageInUse,
    /// Where the pod's volumes are.
    pub volumes: Arc<MountedVolumes>,
    /// Whether the runtime can make mounts read-only recursively.
    pub recursive_read_only: bool,
    /// What the runtime holds of the pod.
    pub runtime: Option<Arc<RuntimePod>>,
}

/// A container that was made, to be started.
struct Created {
    id: ContainerId,
    restart_count: u32,
    /// The path of its log.
    log: String,
}

/// As whom the pod runs; empty for nobody.
fn service_account(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone()).unwrap_or_default()
}

impl JobSite {
    pub(super) fn place(&self) -> PodPlace {
        PodPlace { uid: self.uid.clone(), full_name: self.full_name.clone() }
    }

    pub(super) fn tell(&self, cause: &Cause, event: EventRecorderMsg) {
        // An Event that finds no room is lost, as Events may be.
        let _ = self.agent.directory.event_recorder.tell(cause.clone(), event);
    }

    pub(super) fn subject(&self, field_path: String) -> EventSubject {
        EventSubject { uid: self.uid.clone(), full_name: self.full_name.clone(), field_path }
    }

    /// Makes the pod's cgroup; with `anew` it is set even if it is there. Says whether it was missing, or set anew.
    pub(super) async fn prepare(self, pod: Arc<Pod>, anew: bool, cause: Cause) -> JobEnd {
        JobEnd::Prepared(self.try_prepare(pod, anew, &cause).await)
    }

    async fn try_prepare(&self, pod: Arc<Pod>, anew: bool, cause: &Cause) -> Result<bool, String> {
        let own = pod.spec.as_ref().and_then(|spec| spec.resources.clone());
        let made = self.make_cgroup(pod, anew).await?;
        if let Some(own) = own.filter(|_| made && self.agent.settings.resources.resize.by_pod) {
            let noted =
                super::resizing::note(&self.agent, &self.uid, ContainerResources::new(), Some(own), cause).await;
            noted.map_err(|why| format!("failed to update the state of pod-level resources: {why}"))?;
        }
        Ok(made)
    }

    async fn make_cgroup(&self, pod: Arc<Pod>, anew: bool) -> Result<bool, String> {
        let settings = &self.agent.settings;
        if !settings.resources.cgroup_tree.per_qos() {
            return Ok(false);
        }
        let qos = pod_qos(&pod, settings.resources.options.pod_level_resources);
        let name = settings.resources.cgroup_tree.pod(&self.uid, qos).map_err(|error| error.to_string())?;
        let wanted = pod_cgroup_settings(&pod, false, &settings.resources.options);
        let cgroups = Arc::clone(&self.agent.adapters.cgroups);
        let made = blocking::run(move || {
            if !anew && cgroups.exists(&name) { Ok(false) } else { cgroups.create(&name, &wanted).map(|()| true) }
        });
        made.await.map_err(|error| {
            format!("failed to ensure that the pod: {} cgroups exist and are correctly applied: {error}", self.uid)
        })
    }

    /// Runs a sandbox and reads its addresses.
    pub(super) async fn set_up_sandbox(self, pod: Arc<Pod>, attempt: u32, cause: Cause) -> JobEnd {
        let own_users = pod.spec.as_ref().is_some_and(|spec| spec.host_users == Some(false));
        self.agent.happened(Occurrence::SandboxBegun { own_users });
        let outcome = self.try_sandbox(&pod, attempt, &cause).await;
        if outcome.is_err() {
            self.agent.happened(Occurrence::SandboxFailed { own_users });
        }
        JobEnd::SandboxUp(outcome)
    }

    async fn try_sandbox(&self, pod: &Pod, attempt: u32, cause: &Cause) -> Result<RuntimeSandbox, SandboxFailure> {
        let not_made = |message| SandboxFailure { made: false, message };
        let (config, handler) = futures_util::join!(self.new_sandbox(pod, attempt, cause), self.runtime_handler(pod));
        let (config, handler) = (config.map_err(not_made)?, handler.map_err(not_made)?);
        let runtime = &self.agent.adapters.runtime;
        let clock = self.agent.trace.clock();
        let began = clock.uptime();
        let running = async {
            let run = runtime.run_pod_sandbox(&config, &handler).await;
            (run, clock.uptime().saturating_sub(began))
        };
        let (noting, making) = (self.note_first_containers(pod, cause), self.make_directories(cause));
        let ((run, took), (), ()) = futures_util::join!(running, noting, making);
        self.agent.happened(Occurrence::SandboxRun { handler: &handler, took, failed: run.is_err() });
        let id = run.map_err(|error| not_made(error.to_string()))?;
        let status = runtime.pod_sandbox_status(&id).await;
        let status = status.map_err(|error| SandboxFailure { made: true, message: error.to_string() })?;
        Ok(runtime_sandbox(&status))
    }

    /// Makes the pod's directories, that of its logs, too. Who puts something there makes what is missing then, and fails if that cannot be.
    async fn make_directories(&self, cause: &Cause) {
        if let Err(error) = self.agent.adapters.files.make_pod_directories(&self.place()).await {
            let message = format!("error making pod data directories: {error}");
            self.tell(cause, self.subject(String::new()).warning(EventReason::Failed, message));
        }
    }

    /// Has the container's image there.
    pub(super) async fn ensure_image(self, pod: Arc<Pod>, container: String, cause: Cause) -> JobEnd {
        let outcome = self.try_image(&pod, &container, cause).await;
        JobEnd::ImageEnsured(container, outcome)
    }

    async fn try_image(&self, pod: &Pod, container: &str, cause: Cause) -> Result<ImageInUse, ImageFailure> {
        let (spec, kind) = find(pod, container);
        // Without a sandbox nothing is pulled: that it cannot be described is told by who makes it.
        let sandbox = self.made_sandbox(pod, 0).await;
        let sandbox = Arc::new(sandbox.map_err(|error| ImageFailure::not_tried(error.to_string()))?);
        // Before the container's own, as upstream: without them it is not started anyhow.
        let volumes = self.volume_images(pod, &spec, kind, &sandbox, &cause).await?;
        let image = spec.image.clone().unwrap_or_default();
        let policy = PullPolicy::from_spec(spec.image_pull_policy.as_deref());
        let found = self.have_image(pod, &sandbox, image, policy, field_path(kind, container), &cause).await?;
        Ok(ImageInUse { volumes, ..found })
    }

    /// Has an image there, for what `field_path` names.
    pub(super) async fn have_image(
        &self,
        pod: &Pod,
        sandbox_config: &Arc<PodSandboxConfig>,
        image: String,
        policy: PullPolicy,
        field_path: String,
        cause: &Cause,
    ) -> Result<ImageInUse, ImageFailure> {
        let request = ImageRequest {
            uid: self.uid.clone(),
            full_name: self.full_name.clone(),
            field_path,
            credentials: self.credentials(pod, &image, cause).await,
            image,
            policy,
            sandbox_config: Arc::clone(sandbox_config),
            service_account: service_account(pod),
        };
        let question = |reply| ImageManagerMsg::Ensure(Arc::new(request), reply);
        let images = &self.agent.directory.image_manager;
        images
            .ask(cause.clone(), IMAGE_PATIENCE, question)
            .await
            .unwrap_or_else(|error| Err(ImageFailure::lost(error.to_string())))
    }

    /// Creates and starts a container.
    pub(super) async fn start_container(
        self,
        pod: Arc<Pod>,
        start: StartContainer,
        sandbox: RuntimeSandbox,
        given: Given,
        cause: Cause,
    ) -> JobEnd {
        let subject = self.subject(field_path(start.kind, &start.name));
        let outcome = match self.create(&pod, &start, &sandbox, &given, &cause).await {
            Ok(created) => self.try_start(&pod, &start.name, created, &sandbox, &subject, &cause).await,
            Err(failure) => {
                self.tell(&cause, subject.warning(EventReason::Failed, format!("Error: {}", failure.message)));
                Err(failure)
            }
        };
        JobEnd::Started(start.name, outcome)
    }

    async fn create(
        &self,
        pod: &Pod,
        start: &StartContainer,
        sandbox: &RuntimeSandbox,
        given: &Given,
        cause: &Cause,
    ) -> Result<Created, StartFailure> {
        let not_made = |message| StartFailure { reason: "CreateContainerConfigError", message };
        let (config, noted, sandbox_config) = futures_util::join!(
            self.container_config(pod, start, sandbox, given),
            self.note_container(pod, &start.name, cause),
            self.made_sandbox(pod, sandbox.attempt),
        );
        let (config, sandbox_config) =
            (config.map_err(not_made)?, sandbox_config.map_err(|error| not_made(error.to_string()))?);
        noted.map_err(not_made)?;
        let runtime = &self.agent.adapters.runtime;
        let id = runtime
            .create_container(&sandbox.id, &config, &sandbox_config)
            .await
            .map_err(|error| StartFailure { reason: "CreateContainerError", message: error.words().into_owned() })?;
        let log = format!("{}/{}", sandbox_config.log_directory, config.log_path);
        Ok(Created { id, restart_count: config.metadata.attempt, log })
    }

    async fn try_start(
        &self,
        pod: &Pod,
        name: &str,
        Created { id, restart_count, log }: Created,
        sandbox: &RuntimeSandbox,
        subject: &EventSubject,
        cause: &Cause,
    ) -> Result<Started, StartFailure> {
        self.tell(cause, subject.normal(EventReason::Created, "Container created"));
        if let Err(error) = self.agent.adapters.runtime.start_container(&id).await {
            let message = error.words().into_owned();
            // The runtime's words may hold the ID, another one at each try: without it all are one Event, and counted.
            let told = message.replace(id.as_str(), name);
            self.tell(cause, subject.warning(EventReason::Failed, format!("Error: {told}")));
            return Err(StartFailure { reason: "RunContainerError", message });
        }
        self.tell(cause, subject.normal(EventReason::Started, "Container started"));
        let link = log_link_name(&self.full_name.name, &self.full_name.namespace, name, id.as_str());
        let (linked, seen) =
            futures_util::join!(self.agent.adapters.files.link_log(&link, &log), self.see_running(&id, &sandbox.id));
        if let Err(error) = linked {
            tracing::warn!(pod = %self.full_name, container = name, %error, "log link not made");
        }
        self.post_start(pod, name, &id, sandbox, subject, cause).await?; // Tells an Event of its own.
        Ok(Started { id, restart_count, seen: seen.map(Box::new) })
    }

    /// How the runtime shows a container that was just started; nothing when it does not say so soon, or when the
    /// container has ended already: an end has more to tell, which a look at the pod collects.
    async fn see_running(&self, id: &ContainerId, sandbox: &SandboxId) -> Option<RuntimeContainer> {
        let status = tokio::time::timeout(SIGHT_PATIENCE, self.agent.adapters.runtime.container_status(id)).await;
        let status = status.ok()?.ok().filter(|status| status.state == ContainerState::Running)?;
        Some(runtime_container(&status, sandbox, self.agent.settings.pods.stop_signals))
    }

    /// Removes dead containers with their logs, each whatever became of the others.
    pub(super) async fn remove_containers(self, known: Option<Arc<RuntimePod>>, ids: Vec<ContainerId>) -> JobEnd {
        let adapters = &self.agent.adapters;
        let mut problems = vec![];
        for id in &ids {
            problems.extend(remove_container(&*adapters.runtime, &*adapters.files, known.as_deref(), id).await.err());
        }
        JobEnd::Removed(joined(problems))
    }

    /// Has the pod's volumes unmounted, then its cgroup removed: what volumes in memory hold is charged to it.
    pub(super) async fn clean_up(self, pod: Option<Arc<Pod>>) -> JobEnd {
        JobEnd::CleanedUp(self.try_clean_up(pod.as_deref()).await)
    }

    async fn try_clean_up(&self, pod: Option<&Pod>) -> Result<(), String> {
        self.release_volumes(pod).await?;
        destroy_cgroup(&self.agent, &self.uid, pod).await
    }

    /// Removes what is left of the pod, each thing whatever became of the others. Logs stay: they are read for a while yet.
    pub(super) async fn remove_remains(self, known: Option<Arc<RuntimePod>>, remains: Remains) -> JobEnd {
        let runtime = &self.agent.adapters.runtime;
        let (mut problems, mut held) = (vec![], BTreeSet::new());
        for id in &remains.containers {
            if let Err(error) = runtime.remove_container(id).await {
                let containers = known.iter().flat_map(|known| &known.containers);
                held.extend(containers.filter(|one| one.id == *id).map(|one| one.sandbox_id.clone()));
                problems.push(error.to_string());
            }
        }
        for id in remains.sandboxes.iter().filter(|id| !held.contains(*id)) {
            problems.extend(runtime.remove_pod_sandbox(id).await.err().map(|error| error.to_string()));
        }
        if remains.directory {
            let removed = self.agent.adapters.files.remove_pod(&self.uid).await;
            problems.extend(removed.err().map(|error| error.to_string()));
        }
        JobEnd::RemainsRemoved(remains, joined(problems))
    }

    pub(super) fn path_of(&self, pod: Option<&Pod>, container: &str) -> String {
        let found = pod.and_then(|pod| find_container(pod, container));
        field_path(found.map_or(ContainerKind::Regular, |(kind, _)| kind), container)
    }
}

/// Removes the cgroup of a pod that has ended.
pub(in crate::actors) async fn destroy_cgroup(agent: &Agent, uid: &PodUid, pod: Option<&Pod>) -> Result<(), String> {
    let settings = &agent.settings;
    if !settings.resources.cgroup_tree.per_qos() {
        return Ok(());
    }
    let (cgroups, tree, uid) =
        (Arc::clone(&agent.adapters.cgroups), settings.resources.cgroup_tree.clone(), uid.clone());
    let qos = pod.map(|pod| pod_qos(pod, settings.resources.options.pod_level_resources));
    let destroyed = blocking::run(move || match qos {
        Some(qos) => cgroups.destroy(&tree.pod(&uid, qos)?),
        // Of a pod that only the runtime knew the class is not known: it is where it is.
        None => {
            let mine = cgroups.list_pods(&tree)?.into_iter().filter(|(owner, _)| *owner == uid);
            mine.map(|(_, name)| name).try_for_each(|name| cgroups.destroy(&name))
        }
    });
    destroyed.await.map_err(|error| error.to_string())
}

/// Removes a container with its log and the log's link, log first, as upstream: what has no container has no log.
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

/// The container of this name, and its list.
pub(super) fn find<'a>(pod: &'a Pod, name: &str) -> (Cow<'a, Container>, ContainerKind) {
    let (kind, container) = find_container(pod, name).expect("planned from this pod");
    (container, kind)
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

pub(super) fn field_path(kind: ContainerKind, name: &str) -> String {
    let list = match kind {
        ContainerKind::Init => "initContainers",
        ContainerKind::Regular => "containers",
        ContainerKind::Ephemeral => "ephemeralContainers",
    };
    of_container(list, name)
}
