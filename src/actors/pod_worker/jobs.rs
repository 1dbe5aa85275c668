//! A pod worker's jobs: what takes time, step by step, against the adapters.
//!
//! A job reports; it decides nothing. Each can be cut off at any await and done again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::hooks::HookMemory;
use crate::actors::ledger::Cause;
use crate::actors::settings::{Agent, EventSubject};
use crate::cri::pod_mapping::{
    ContainerFacts, DeviceFacts, ImageUser, MappingError, SandboxFacts, container_config, needs_hosts_file,
    runtime_sandbox, sandbox_config,
};
use crate::cri::{ContainerConfig, PodSandboxConfig};
use crate::logic::container_actions::{ContainerKind, StartContainer};
use crate::logic::dns::DnsWarning;
use crate::logic::field_path::Addresses;
use crate::logic::hooks::stop_signal;
use crate::logic::hostname::PodHostname;
use crate::logic::hosts_file::{host_network_hosts_file, pod_network_hosts_file};
use crate::logic::ids::{ContainerId, FullName, PodUid, SandboxId};
use crate::logic::image_policy::{ImageFailure, ImageInUse, PullPolicy};
use crate::logic::log_path::log_link_name;
use crate::logic::pod_lifecycle::{JobEnd, StartFailure};
use crate::logic::resources::{
    container_resources, overhead_resources, pod_cgroup_settings, pod_qos, sandbox_resources,
};
use crate::logic::runtime_pod::{RuntimePod, RuntimeSandbox};
use crate::logic::volume_states::MountedVolumes;
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::image_manager::{ImageManagerMsg, ImageRequest};
use crate::platform::blocking;
use crate::platform::pod_files::PodPlace;

/// Patience with `ImageManager`; a pull itself has no deadline, as upstream.
const IMAGE_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Where jobs work: whose pod, with which adapters.
#[derive(Clone)]
pub struct JobSite {
    /// The agent.
    pub agent: Arc<Agent>,
    /// Whose.
    pub uid: PodUid,
    /// The pod's name and namespace.
    pub full_name: FullName,
    /// What hooks have done already.
    pub hooks: Arc<HookMemory>,
}

/// What a container is started with, besides its pod.
pub struct Given {
    /// Its image, and those of volumes that are images.
    pub image: ImageInUse,
    /// Where the pod's volumes are.
    pub volumes: Arc<MountedVolumes>,
    /// Whether the runtime can make mounts read-only recursively.
    pub recursive_read_only: bool,
}

impl JobSite {
    fn place(&self) -> PodPlace {
        PodPlace { uid: self.uid.clone(), full_name: self.full_name.clone() }
    }

    pub(super) fn tell(&self, cause: &Cause, event: EventRecorderMsg) {
        // An Event that finds no room is lost, as Events may be.
        let _ = self.agent.directory.event_recorder.tell(cause.clone(), event);
    }

    pub(super) fn subject(&self, field_path: String) -> EventSubject {
        EventSubject { uid: self.uid.clone(), full_name: self.full_name.clone(), field_path }
    }

    /// Makes the pod's cgroup and directories; says whether the cgroup was missing.
    pub(super) async fn prepare(self, pod: Arc<Pod>) -> JobEnd {
        JobEnd::Prepared(self.try_prepare(pod).await)
    }

    async fn try_prepare(&self, pod: Arc<Pod>) -> Result<bool, String> {
        let made = self.make_cgroup(pod).await?;
        let files = &self.agent.adapters.files;
        files.make_pod_directories(&self.place()).await.map_err(|error| error.to_string())?;
        Ok(made)
    }

    async fn make_cgroup(&self, pod: Arc<Pod>) -> Result<bool, String> {
        let settings = &self.agent.settings;
        if !settings.cgroup_tree.per_qos() {
            return Ok(false);
        }
        let qos = pod_qos(&pod, settings.resources.pod_level_resources);
        let name = settings.cgroup_tree.pod(&self.uid, qos).map_err(|error| error.to_string())?;
        let wanted = pod_cgroup_settings(&pod, false, &settings.resources);
        let cgroups = Arc::clone(&self.agent.adapters.cgroups);
        let made = blocking::run(move || {
            if cgroups.exists(&name) { Ok(false) } else { cgroups.create(&name, &wanted).map(|()| true) }
        });
        made.await.map_err(|error| {
            format!("failed to ensure that the pod: {} cgroups exist and are correctly applied: {error}", self.uid)
        })
    }

    /// Runs a sandbox and reads its addresses.
    pub(super) async fn set_up_sandbox(self, pod: Arc<Pod>, attempt: u32, cause: Cause) -> JobEnd {
        JobEnd::SandboxUp(self.try_sandbox(&pod, attempt, &cause).await)
    }

    async fn try_sandbox(&self, pod: &Pod, attempt: u32, cause: &Cause) -> Result<RuntimeSandbox, String> {
        let (config, warnings) = self.sandbox_config(pod, attempt).map_err(|error| error.to_string())?;
        for warning in warnings {
            self.tell(cause, self.subject(String::new()).warning(warning.reason, warning.pod_message));
        }
        let runtime = &self.agent.adapters.runtime;
        let id = runtime.run_pod_sandbox(&config, "").await.map_err(|error| error.to_string())?;
        let status = runtime.pod_sandbox_status(&id).await.map_err(|error| error.to_string())?;
        Ok(runtime_sandbox(&status))
    }

    fn sandbox_config(&self, pod: &Pod, attempt: u32) -> Result<(PodSandboxConfig, Vec<DnsWarning>), MappingError> {
        let settings = &self.agent.settings;
        let qos = pod_qos(pod, settings.resources.pod_level_resources);
        let driver = self.agent.adapters.cgroups.driver();
        let cgroup_parent = settings.cgroup_tree.cgroup_parent(&self.uid, qos, driver).unwrap_or_default();
        let facts = SandboxFacts {
            attempt,
            pod_logs: settings.pod_logs_dir.clone(),
            cgroup_parent,
            dns: settings.dns.clone(),
            resources: sandbox_resources(pod, false, &settings.resources).into(),
            overhead: overhead_resources(pod, &settings.resources).into(),
            ..SandboxFacts::default()
        };
        sandbox_config(pod, &facts)
    }

    /// Has the container's image there.
    pub(super) async fn ensure_image(self, pod: Arc<Pod>, container: String, cause: Cause) -> JobEnd {
        let outcome = self.try_image(&pod, &container, cause).await;
        JobEnd::ImageEnsured(container, outcome)
    }

    async fn try_image(&self, pod: &Pod, container: &str, cause: Cause) -> Result<ImageInUse, ImageFailure> {
        let (spec, kind) = find(pod, container);
        // Before the container's own, as upstream: without them it is not started anyhow.
        let volumes = self.volume_images(pod, spec, kind, &cause).await?;
        let image = spec.image.clone().unwrap_or_default();
        let policy = PullPolicy::from_spec(spec.image_pull_policy.as_deref());
        let found = self.have_image(pod, image, policy, field_path(kind, container), &cause).await?;
        Ok(ImageInUse { volumes, ..found })
    }

    /// Has an image there, for what `field_path` names.
    pub(super) async fn have_image(
        &self,
        pod: &Pod,
        image: String,
        policy: PullPolicy,
        field_path: String,
        cause: &Cause,
    ) -> Result<ImageInUse, ImageFailure> {
        let (sandbox_config, _) = self.sandbox_config(pod, 0).map_err(|error| ImageFailure::lost(error.to_string()))?;
        let request = ImageRequest {
            uid: self.uid.clone(),
            full_name: self.full_name.clone(),
            field_path,
            credentials: self.credentials(pod, &image, cause).await,
            image,
            policy,
            sandbox_config: Arc::new(sandbox_config),
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
        let mut outcome = self.try_start(&pod, &start, &sandbox, &given, &subject, &cause).await;
        if let Ok(id) = &outcome
            && let Err(failure) = self.post_start(&pod, &start.name, id, &sandbox, &subject, &cause).await
        {
            outcome = Err(failure); // Told by an Event of its own.
        } else if let Err(failure) = &outcome {
            self.tell(&cause, subject.warning("Failed", format!("Error: {}", failure.message)));
        }
        JobEnd::Started(start.name, outcome)
    }

    async fn try_start(
        &self,
        pod: &Pod,
        start: &StartContainer,
        sandbox: &RuntimeSandbox,
        given: &Given,
        subject: &EventSubject,
        cause: &Cause,
    ) -> Result<ContainerId, StartFailure> {
        let (sandbox_config, _) = self
            .sandbox_config(pod, sandbox.attempt)
            .map_err(|error| StartFailure { reason: "CreateContainerConfigError", message: error.to_string() })?;
        let config = self
            .container_config(pod, start, sandbox, given)
            .await
            .map_err(|message| StartFailure { reason: "CreateContainerConfigError", message })?;
        let runtime = &self.agent.adapters.runtime;
        let id = runtime
            .create_container(&sandbox.id, &config, &sandbox_config)
            .await
            .map_err(|error| StartFailure { reason: "CreateContainerError", message: error.to_string() })?;
        self.tell(cause, subject.normal("Created", "Container created"));
        runtime
            .start_container(&id)
            .await
            .map_err(|error| StartFailure { reason: "RunContainerError", message: error.to_string() })?;
        self.tell(cause, subject.normal("Started", "Container started"));
        let log = format!("{}/{}", sandbox_config.log_directory, config.log_path);
        let link = log_link_name(&self.full_name.name, &self.full_name.namespace, &start.name, id.as_str());
        if let Err(error) = self.agent.adapters.files.link_log(&link, &log).await {
            tracing::warn!(pod = %self.full_name, container = start.name, %error, "log link not made");
        }
        Ok(id)
    }

    async fn container_config(
        &self,
        pod: &Pod,
        start: &StartContainer,
        sandbox: &RuntimeSandbox,
        given: &Given,
    ) -> Result<ContainerConfig, String> {
        let Given { image, volumes, .. } = given;
        let (files, settings) = (&self.agent.adapters.files, &self.agent.settings);
        let (container, _) = find(pod, &start.name);
        let place = self.place();
        let in_logs = files.make_log_directory(&place, &start.name).await.map_err(|error| error.to_string())?;
        // What the runtime forgot the log directory still knows (CRI-16).
        let restart_count = match (start.restart_count, in_logs) {
            (0, Some(highest)) => highest.saturating_add(1),
            (count, _) => count,
        };
        let host_ips: Vec<String> = settings.host_ips.iter().map(ToString::to_string).collect();
        let pod_ips = if sandbox.host_network { host_ips.clone() } else { sandbox.ips.clone() };
        let etc_hosts_path = if needs_hosts_file(pod, container, &pod_ips) {
            Some(self.write_hosts(pod, sandbox.host_network, &pod_ips).await?)
        } else {
            None
        };
        let termination_log_path = match container.termination_message_path.as_deref() {
            None | Some("") => None,
            Some(_) => {
                // Without it the container only cannot leave a message; that is no reason not to start it.
                let made = files.make_termination_log(&place, &start.name, restart_count).await;
                made.inspect_err(|error| tracing::warn!(pod = %self.full_name, %error, "no termination log")).ok()
            }
        };
        let resources = container_resources(pod, container, &settings.node_memory, false, &settings.resources);
        let prefer_ipv6 = settings.host_ips.first().is_some_and(std::net::IpAddr::is_ipv6);
        let addresses = Addresses { pod_ips, host_ips, prefer_ipv6 };
        let environment = self.environment_sources(pod, container, addresses).await;
        let volume_mounts = self.volume_mounts(pod, container, &environment, given).await?;
        let devices = DeviceFacts { devices: Self::volume_devices(pod, container, given)?, ..DeviceFacts::default() };
        let facts = ContainerFacts {
            devices,
            restart_count,
            image_ref: image.reference.clone(),
            image_user: ImageUser::new(image.user_uid, &image.username),
            environment,
            volume_mounts,
            volume_groups: volumes.volumes.values().filter_map(|volume| volume.group).collect(),
            resources: resources.into(),
            etc_hosts_path,
            termination_log_path,
            seccomp_default: settings.seccomp_default,
            seccomp_root: settings.seccomp_root.clone(),
            thermal_throttle_paths: settings.thermal_throttle_paths.clone(),
            ..ContainerFacts::default()
        };
        let config = container_config(pod, container, &facts).map_err(|error| error.to_string())?;
        Ok(ContainerConfig { stop_signal: stop_signal(container, settings.stop_signals)?, ..config })
    }

    async fn write_hosts(&self, pod: &Pod, host_network: bool, pod_ips: &[String]) -> Result<String, String> {
        let files = &self.agent.adapters.files;
        let spec = pod.spec.as_ref().ok_or("the pod has no spec")?;
        let aliases = spec.host_aliases.as_deref().unwrap_or_default();
        let content = if host_network {
            let node = files.node_hosts().await.map_err(|error| error.to_string())?;
            String::from_utf8_lossy(&host_network_hosts_file(node.as_bytes(), aliases)).into_owned()
        } else {
            let (name, namespace) = (&self.full_name.name, &self.full_name.namespace);
            let domain = &self.agent.settings.dns.cluster_domain;
            let host = PodHostname::of(name, namespace, spec, domain).map_err(|error| error.to_string())?;
            pod_network_hosts_file(pod_ips, &host.hostname, &host.domain, aliases)
        };
        files.write_etc_hosts(&self.place(), &content).await.map_err(|error| error.to_string())
    }

    /// Removes dead containers with their logs.
    pub(super) async fn remove_containers(self, known: Option<Arc<RuntimePod>>, ids: Vec<ContainerId>) -> JobEnd {
        for id in &ids {
            if let Err(error) = remove_container(&self.agent, known.as_deref(), id).await {
                return JobEnd::Removed(Err(error));
            }
        }
        JobEnd::Removed(Ok(()))
    }

    /// Gives back the pod's cgroup; with `everything` its sandboxes, containers and directories, too.
    pub(super) async fn clean_up(
        self,
        pod: Option<Arc<Pod>>,
        known: Option<Arc<RuntimePod>>,
        sandboxes: Vec<SandboxId>,
        containers: Vec<ContainerId>,
        everything: bool,
    ) -> JobEnd {
        JobEnd::CleanedUp(self.try_clean_up(pod, known, sandboxes, containers, everything).await)
    }

    async fn try_clean_up(
        &self,
        pod: Option<Arc<Pod>>,
        known: Option<Arc<RuntimePod>>,
        sandboxes: Vec<SandboxId>,
        containers: Vec<ContainerId>,
        everything: bool,
    ) -> Result<(), String> {
        for id in &containers {
            remove_container(&self.agent, known.as_deref(), id).await?;
        }
        for id in &sandboxes {
            self.agent.adapters.runtime.remove_pod_sandbox(id).await.map_err(|error| error.to_string())?;
        }
        self.release_volumes(pod.as_deref()).await?;
        self.destroy_cgroup(pod).await?;
        if everything {
            let removed = self.agent.adapters.files.remove_pod(&self.place(), true).await;
            removed.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    async fn destroy_cgroup(&self, pod: Option<Arc<Pod>>) -> Result<(), String> {
        let settings = &self.agent.settings;
        if !settings.cgroup_tree.per_qos() {
            return Ok(());
        }
        let (cgroups, tree, uid) =
            (Arc::clone(&self.agent.adapters.cgroups), settings.cgroup_tree.clone(), self.uid.clone());
        let qos = pod.map(|pod| pod_qos(&pod, settings.resources.pod_level_resources));
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

    pub(super) fn path_of(&self, pod: Option<&Pod>, container: &str) -> String {
        let init = pod.and_then(|pod| pod.spec.as_ref()).and_then(|spec| spec.init_containers.as_deref());
        let is_init = init.unwrap_or_default().iter().any(|other| other.name == container);
        field_path(if is_init { ContainerKind::Init } else { ContainerKind::Regular }, container)
    }
}

/// Removes a container with its log and the log's link, log first, as upstream: what has no container has no log.
pub async fn remove_container(agent: &Agent, known: Option<&RuntimePod>, id: &ContainerId) -> Result<(), String> {
    let container = known.and_then(|known| known.containers.iter().find(|container| container.id == *id));
    if let (Some(known), Some(container)) = (known, container) {
        let (name, namespace) = (&known.full_name.name, &known.full_name.namespace);
        let link = log_link_name(name, namespace, &container.name, id.as_str());
        if !container.log_path.is_empty() {
            let removed = agent.adapters.files.remove_container_log(&link, &container.log_path).await;
            removed.map_err(|error| error.to_string())?;
        }
    }
    agent.adapters.runtime.remove_container(id).await.map_err(|error| error.to_string())
}

/// Removes directories and cgroups of pods that are not `known`; says how many. What cannot be removed is logged and
/// left for the next pass.
pub async fn remove_leftovers(agent: &Arc<Agent>, known: &BTreeSet<PodUid>) -> usize {
    let mut removed = 0;
    let files = &agent.adapters.files;
    for uid in files.known_pods().await.unwrap_or_default() {
        if !known.contains(&uid) {
            let place = PodPlace { uid: uid.clone(), full_name: FullName::new("", "") };
            // What is mounted there is let go first, and a volume that cannot go keeps its directory (VOL-15).
            let released = super::volumes::release(agent, &uid, Cause::outside("housekeeping")).await;
            let outcome = match released {
                Ok(()) => files.remove_pod(&place, false).await.map_err(|error| error.to_string()),
                Err(error) => Err(error),
            };
            match outcome {
                Ok(()) => removed += 1,
                Err(error) => tracing::warn!(pod = %uid, %error, "orphaned pod directory stays"),
            }
        }
    }
    for (name, uid) in files.known_log_directories().await.unwrap_or_default() {
        if !known.contains(&uid) && files.remove_log_directory(&name).await.is_ok() {
            removed += 1;
        }
    }
    let (owned, known) = (Arc::clone(agent), known.clone());
    removed + blocking::run(move || remove_cgroups(&owned, &known)).await
}

fn remove_cgroups(agent: &Agent, known: &BTreeSet<PodUid>) -> usize {
    let (tree, cgroups) = (&agent.settings.cgroup_tree, &agent.adapters.cgroups);
    if !tree.per_qos() {
        return 0;
    }
    let all = cgroups.list_pods(tree).unwrap_or_default();
    let orphans = all.into_iter().filter(|(uid, _)| !known.contains(uid));
    orphans.filter(|(_, name)| cgroups.destroy(name).is_ok()).count()
}

/// The container of this name, and its list.
fn find<'a>(pod: &'a Pod, name: &str) -> (&'a Container, ContainerKind) {
    let spec = pod.spec.as_ref().expect("a pod that is started has a spec");
    let init = spec.init_containers.iter().flatten().map(|container| (container, ContainerKind::Init));
    let regular = spec.containers.iter().map(|container| (container, ContainerKind::Regular));
    init.chain(regular).find(|(container, _)| container.name == name).expect("planned from this pod")
}

pub(super) fn field_path(kind: ContainerKind, name: &str) -> String {
    match kind {
        ContainerKind::Init => format!("spec.initContainers{{{name}}}"),
        ContainerKind::Regular => format!("spec.containers{{{name}}}"),
    }
}
