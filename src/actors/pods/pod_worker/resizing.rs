//! The worker's part of in-place resize: what comes of its pod's conditions, and the job that tells kernel and runtime.
//!
//! Order and refusals are those of `logic::pods::pod_resize`. Each change is noted on the disk once the runtime has taken it;
//! one that was cut off in between is made again, which changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};

use super::PodWorker;
use super::jobs::JobSite;
use crate::actors::agent::Agent;
use crate::actors::kit::context::Context;
use crate::actors::kit::trace::Cause;
use crate::cri::{CriError, Labels, LinuxContainerResources};
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::{PodUid, SandboxId};
use crate::logic::pods::pod_containers::{find_container, first_containers};
use crate::logic::pods::pod_lifecycle::{JobEnd, ResizeMeans, Stage};
use crate::logic::pods::pod_resize::{
    self, Amounts, ContainerResources, ContainerUpdate, PodFigures, PodResources, ResizeConditions, ResizeReport,
    ResizeWork, Step, memory_check, merged, refusal, steps, with_amounts,
};
use crate::logic::resources::cgroup_name::CgroupName;
use crate::logic::resources::{pod_cgroup_settings, pod_qos};
use crate::messages::allocation_manager::{Actuated, AllocationManagerMsg, ResizeCount};
use crate::messages::event_recorder::EventSubject;
use crate::messages::pod_worker::PodWorkerMsg;
use crate::platform::host::blocking;

/// Patience with `AllocationManager`, which waits for the disk.
const KEEP_PATIENCE: Duration = Duration::from_secs(60);
/// Wait before what the runtime was told is asked for again.
const RECALL_RETRY: Duration = Duration::from_secs(1);

/// What resizes depend on.
pub(super) fn means(agent: &Agent) -> ResizeMeans {
    let settings = &agent.settings;
    let per_pod = settings.resources.cgroup_tree.per_qos();
    ResizeMeans { gates: settings.resources.resize, options: settings.resources.options, per_pod }
}

/// Asks what the runtime was told of the pod before.
pub(super) fn recall(agent: &Arc<Agent>, uid: &PodUid, delay: Duration, context: &mut Context<PodWorkerMsg>) {
    let (agent, cause, about) = (Arc::clone(agent), context.cause(), uid.clone());
    let work = async move {
        tokio::time::sleep(delay).await;
        let ask = |reply| AllocationManagerMsg::Recall(about, reply);
        let asked = agent.directory.allocation_manager.ask(cause, KEEP_PATIENCE, ask).await;
        asked.map_err(|error| error.to_string())
    };
    context.start("recall resources", uid.to_string(), work, PodWorkerMsg::Recalled);
}

/// Notes what the runtime is told.
pub(super) async fn note(
    agent: &Agent,
    uid: &PodUid,
    containers: ContainerResources,
    pod: Option<ResourceRequirements>,
    cause: &Cause,
) -> Result<(), String> {
    let actuated = Actuated { uid: uid.clone(), containers, pod };
    let ask = |reply| AllocationManagerMsg::Actuate(actuated, reply);
    let asked = agent.directory.allocation_manager.ask(cause.clone(), KEEP_PATIENCE, ask).await;
    asked.map_err(|error| error.to_string()).and_then(|kept| kept)
}

impl PodWorker {
    pub(super) fn take_recalled(
        &mut self,
        read: Result<PodResources, String>,
        context: &mut Context<PodWorkerMsg>,
    ) -> Option<PodResources> {
        match read {
            Ok(read) => Some(read),
            Err(why) => {
                tracing::debug!(pod = %self.site.full_name, why, "what the runtime was told is not known yet");
                recall(&self.site.agent, &self.site.uid, RECALL_RETRY, context);
                None
            }
        }
    }

    /// A new pod, or a new spec: what the API server shows of resizes counts until this agent knows better, and resources
    /// that changed are a resize that was taken on.
    pub(super) fn note_spec(&mut self, pod: &Pod, context: &Context<PodWorkerMsg>) {
        let gates = &self.site.agent.settings.resources.resize;
        match self.lifecycle.pod() {
            None => self.resize = pod.status.as_ref().map(ResizeConditions::of_status).unwrap_or_default(),
            Some(before) => {
                let (old, new) = (pod_resize::allocation_of(before, gates), pod_resize::allocation_of(pod, gates));
                if !pod_resize::same_resources(&old, &new) {
                    self.resize.begin(pod.metadata.generation, context.now());
                }
            }
        }
    }

    /// Whether all is in force, as the status is to show it; an Event when it has come to be.
    pub(super) fn follow_resize(&mut self, context: &Context<PodWorkerMsg>) {
        let Some(pod) = self.lifecycle.pod().cloned() else { return };
        match self.lifecycle.stage() {
            Stage::Syncing => {}
            Stage::Terminating => return,
            Stage::Terminated => return self.resize = ResizeConditions::default(),
        }
        let Some(in_force) = self.lifecycle.is_in_force() else { return };
        if let Some(generation) = self.resize.note(in_force, pod.metadata.generation, context.now()) {
            let message = pod_resize::completed(&pod, generation.unwrap_or_default());
            let subject = EventSubject::pod(&self.site.uid, &self.site.full_name);
            context
                .tell(&self.site.agent.directory.event_recorder, subject.normal(EventReason::ResizeCompleted, message));
        }
    }

    /// A try to bring resources into force has ended.
    pub(super) fn take_resized(&mut self, report: &ResizeReport, context: &Context<PodWorkerMsg>) {
        let to = &self.site.agent.directory;
        if report.changed {
            let took = self.resize_began.take().map_or(Duration::ZERO, |began| context.clock().uptime() - began);
            let count = ResizeCount::Actuated { success: report.problem.is_none(), took };
            context.tell(&to.allocation_manager, AllocationManagerMsg::Counted(vec![count]));
        }
        let (Some(why), Some(pod)) = (&report.problem, self.lifecycle.pod()) else { return };
        if let Some(generation) = self.resize.fail(why, pod.metadata.generation, context.now()) {
            let message = pod_resize::failed(pod, generation.unwrap_or_default(), why);
            let subject = EventSubject::pod(&self.site.uid, &self.site.full_name);
            context.tell(&to.event_recorder, subject.warning(EventReason::ResizeError, message));
        }
    }
}

/// A resize on its way.
struct Resizing<'a> {
    site: &'a JobSite,
    pod: &'a Pod,
    work: &'a ResizeWork,
    cgroup: Option<CgroupName>,
    wanted: PodFigures,
    current: PodFigures,
    report: ResizeReport,
    cause: Cause,
}

impl JobSite {
    /// Brings what the pod was given into force.
    pub(super) async fn resize(self, pod: Arc<Pod>, work: ResizeWork, cause: Cause) -> JobEnd {
        let mut resizing = Resizing {
            site: &self,
            pod: &pod,
            work: &work,
            cgroup: None,
            wanted: PodFigures::default(),
            current: PodFigures::default(),
            report: ResizeReport::default(),
            cause,
        };
        let outcome = resizing.carry_out().await;
        JobEnd::Resized(ResizeReport { problem: outcome.err(), ..resizing.report })
    }

    /// Notes meanwhile what the containers that come first are made with, so that [`Self::note_container`] has nothing left
    /// to wait for. Whether that succeeded is asked there.
    pub(super) async fn note_first_containers(&self, pod: &Pod, cause: &Cause) {
        let by_pod = self.agent.settings.resources.resize.by_pod;
        let made_with = |one: &Container| (one.name.clone(), pod_resize::effective_requirements(pod, one, by_pod));
        let noted = first_containers(pod).iter().map(made_with).collect();
        if let Err(why) = note(&self.agent, &self.uid, noted, None, cause).await {
            tracing::debug!(pod = %self.full_name, why, "resources are not noted ahead");
        }
    }

    /// What the container is made with, or is to have: noted before it is made, as upstream.
    pub(super) async fn note_container(&self, pod: &Pod, name: &str, cause: &Cause) -> Result<(), String> {
        let Some((_, container)) = find_container(pod, name) else { return Ok(()) };
        let by_pod = self.agent.settings.resources.resize.by_pod;
        let made_with = pod_resize::effective_requirements(pod, &container, by_pod);
        note(&self.agent, &self.uid, [(name.to_owned(), made_with)].into_iter().collect(), None, cause).await
    }
}

impl Resizing<'_> {
    async fn carry_out(&mut self) -> Result<(), String> {
        let settings = &self.site.agent.settings;
        if settings.resources.cgroup_tree.per_qos() {
            self.look().await?;
        }
        let all = steps(&self.current, &self.wanted, &self.work.updates, settings.resources.options.cgroup_version);
        self.report.changed = !all.is_empty();
        self.check_memory().await?;
        let mut in_force: Vec<Amounts> = self.work.updates.iter().map(|update| update.current).collect();
        for step in all {
            match step {
                Step::Container { at, of } => {
                    let update = &self.work.updates[at];
                    let amounts = in_force[at].with(of, update.desired);
                    self.update_container(update, amounts).await?;
                    in_force[at] = amounts;
                }
                Step::PodLimit(_) | Step::PodRequest(_) => self.set_cgroup(step).await?,
            }
        }
        if let Some(own) = &self.work.pod {
            note(&self.site.agent, &self.site.uid, ContainerResources::new(), Some(own.clone()), &self.cause).await?;
            self.report.pod = Some(own.clone());
            self.report.changed = true;
        }
        Ok(())
    }

    /// The pod as upstream's messages name it.
    fn named(&self) -> String {
        let (name, namespace) = (&self.site.full_name.name, &self.site.full_name.namespace);
        format!("\"{name}_{namespace}({})\"", self.site.uid)
    }

    async fn look(&mut self) -> Result<(), String> {
        let settings = &self.site.agent.settings;
        let qos = pod_qos(self.pod, settings.resources.options.pod_level_resources);
        let name = settings.resources.cgroup_tree.pod(&self.site.uid, qos).map_err(|error| error.to_string())?;
        let (cgroups, about) = (Arc::clone(&self.site.agent.adapters.cgroups), name.clone());
        let read = blocking::run(move || cgroups.read(&about)).await;
        let read =
            read.map_err(|error| format!("unable to get pod cgroup config for pod {}: {error}", self.named()))?;
        self.current = PodFigures::of(&read);
        self.wanted = PodFigures::of(&pod_cgroup_settings(self.pod, false, &settings.resources.options));
        self.report.cgroup = Some(self.current);
        self.cgroup = Some(name);
        Ok(())
    }

    /// Memory is never limited to less than is used: the kernel would end someone for it.
    async fn check_memory(&self) -> Result<(), String> {
        let check = memory_check(&self.current, &self.wanted, &self.work.updates);
        if check.is_empty() {
            return Ok(());
        }
        let mut pod_usage = None;
        if let (Some(name), Some(_)) = (self.cgroup.clone(), check.pod) {
            let cgroups = Arc::clone(&self.site.agent.adapters.cgroups);
            pod_usage = blocking::run(move || cgroups.memory_usage(&name)).await.ok();
        }
        let mut usages = BTreeMap::new();
        for (id, name, _) in &check.containers {
            let stats = self.site.agent.adapters.runtime.container_stats(id).await;
            let usage = stats.ok().and_then(|stats| stats.memory).and_then(|memory| memory.usage_bytes);
            usages.extend(usage.map(|usage| (name.clone(), usage)));
        }
        refusal(&check, pod_usage, &usages).map_or(Ok(()), Err)
    }

    async fn update_container(&mut self, update: &ContainerUpdate, amounts: Amounts) -> Result<(), String> {
        let Some((_, container)) = find_container(self.pod, &update.name) else { return Ok(()) };
        let own = container.resources.clone().unwrap_or_default();
        let resources = with_amounts(&own, amounts);
        let resized = Container { resources: Some(resources.clone()), ..container.into_owned() };
        let told: LinuxContainerResources = self.site.resources(self.pod, &resized).into();
        let runtime = &self.site.agent.adapters.runtime;
        runtime
            .update_container_resources(&update.id, &told, &Labels::new())
            .await
            .map_err(|error| error.to_string())?;
        let by_pod = self.site.agent.settings.resources.resize.by_pod;
        let in_force = pod_resize::effective_requirements(self.pod, &resized, by_pod);
        let noted = [(update.name.clone(), in_force.clone())].into_iter().collect();
        note(&self.site.agent, &self.site.uid, noted, None, &self.cause).await?;
        self.report.containers.insert(update.name.clone(), in_force);
        Ok(())
    }

    async fn set_cgroup(&mut self, step: Step) -> Result<(), String> {
        let Some(name) = self.cgroup.clone() else { return Ok(()) };
        let written = self.wanted.settings(step);
        let after = merged(&self.current, &written);
        // First the runtime: one that says no has refused it.
        self.tell_runtime(&after).await?;
        let cgroups = Arc::clone(&self.site.agent.adapters.cgroups);
        if let Err(error) = blocking::run(move || cgroups.update(&name, &written)).await {
            if let Err(why) = self.tell_runtime(&self.current).await {
                tracing::warn!(pod = %self.site.full_name, why, "the runtime was not told that a resize was taken back");
            }
            return Err(error.to_string());
        }
        self.current = after;
        self.report.cgroup = Some(after);
        Ok(())
    }

    /// Tells the runtime what the pod may use. One that cannot be told need not be.
    async fn tell_runtime(&self, figures: &PodFigures) -> Result<(), String> {
        let Some(sandbox) = &self.work.sandbox else { return Ok(()) };
        let overhead = self.site.overhead(self.pod);
        let less = |value: i64, overhead: i64| if value > 0 { (value - overhead).max(0) } else { value };
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let resources = LinuxContainerResources {
            cpu_period: figures.cpu_period.map_or(0, number),
            cpu_quota: less(figures.cpu_quota.unwrap_or(0), overhead.cpu_quota),
            cpu_shares: less(figures.cpu_shares.map_or(0, number), overhead.cpu_shares),
            memory_limit_in_bytes: less(figures.memory_limit.unwrap_or(0), overhead.memory_limit_in_bytes),
            ..LinuxContainerResources::default()
        };
        let runtime = &self.site.agent.adapters.runtime;
        match runtime.update_pod_sandbox_resources(sandbox, &overhead, &resources).await {
            Ok(()) => Ok(()),
            Err(error) if is_unable(&error) => Ok(()),
            Err(error) => Err(refused(sandbox, &error)),
        }
    }
}

/// Whether the runtime has no such call. containerd 2.2 says so in words.
fn is_unable(error: &CriError) -> bool {
    match error {
        CriError::Unimplemented { .. } => true,
        CriError::Other { code: "Unknown", message } => message.contains("not implemented"),
        _ => false,
    }
}

fn refused(sandbox: &SandboxId, error: &CriError) -> String {
    format!(
        "failed to notify runtime for UpdatePodSandboxResources; resize rejected: updatePodSandboxResources failed for \
         sanboxID \"{sandbox}\": {error}"
    )
}
