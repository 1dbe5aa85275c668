//! `PodWorker`: carries one pod (one UID) through its life on this node.
//!
//! Parent: `PodManager`. Restarted: after a failure, later each time. Stops: when the pod is gone from the node and
//! nobody wants it. What happens next is decided by `logic::pods::pod_lifecycle`; here it is carried out. Keeps nothing that
//! its parent, the runtime or the disk cannot give back.

mod absent;
mod configuration;
mod counts;
mod environment;
mod events;
mod hooks;
mod hung;
pub mod jobs;
mod passes;
mod reset;
mod resizing;
mod stopping;
pub(in crate::actors) mod volumes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use crate::actors::agent::Agent;
use crate::actors::kit::actor::Actor;
use crate::actors::kit::context::{Context, OperationId};
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::model::time::Stamp;
use crate::logic::network::host_ips::HostIps;
use crate::logic::objects::object_references::{ObjectKey, object_references};
use crate::logic::pods::pod_containers::all_containers;
use crate::logic::pods::pod_lifecycle::{
    Action, Demand, Demanded, Input, Job, JobEnd, Now, PodLifecycle, SandboxFailure, Stage,
};
use crate::logic::pods::pod_resize::ResizeConditions;
use crate::logic::pods::pod_roster::is_static;
use crate::logic::pods::wait::PodWait;
use crate::logic::probes::probe_schedule::probes_of;
use crate::logic::resources::pod_qos;
use crate::logic::status::pod_status::{self, ContainersInput, NodeInput, ResourcesInput, StatusInput, deadline};
use crate::logic::volumes::plan::{VolumePlan, volume_plans};
use crate::messages::event_recorder::EventSubject;
use crate::messages::image_manager::ImageManagerMsg;
use crate::messages::object_cache::ObjectCacheMsg;
use crate::messages::pleg::PlegMsg;
use crate::messages::pod_manager::PodManagerMsg;
use crate::messages::pod_worker::PodWorkerMsg;
use crate::messages::prober::ProberMsg;
use crate::messages::status_manager::{PodView, StatusManagerMsg};
use crate::messages::volume_manager::VolumeManagerMsg;
use jobs::{Given, JobSite};
use passes::Passes;
use stopping::{Kill, Stop};

/// Wait before a status is told again that there was no room for.
const RETELL: Duration = Duration::from_secs(1);

/// What a new incarnation is given.
pub struct WorkerArgs {
    /// The agent.
    pub agent: Arc<Agent>,
    /// Whose worker.
    pub uid: PodUid,
    /// The pod's name and namespace.
    pub full_name: FullName,
    /// Observations from before do not count.
    pub born: Stamp,
    /// Where it shows how far the pod is.
    pub stage: Arc<ShownStage>,
    /// The host's addresses, until the worker is told others.
    pub host: HostIps,
}

/// How far a pod is, for whoever looks from outside its worker.
#[derive(Debug, Default)]
pub struct ShownStage(AtomicU8);

impl ShownStage {
    /// As it is now.
    pub fn get(&self) -> Stage {
        match self.0.load(Ordering::Relaxed) {
            0 => Stage::Syncing,
            1 => Stage::Terminating,
            _ => Stage::Terminated,
        }
    }

    fn set(&self, stage: Stage) {
        self.0.store(stage as u8, Ordering::Relaxed);
    }
}

/// See the module.
pub struct PodWorker {
    site: JobSite,
    lifecycle: PodLifecycle,
    jobs: Vec<(Job, OperationId)>,
    passes: Passes,
    shown: Arc<ShownStage>,
    /// The timer, and the uptime that it is set to: no later than `due`.
    wake: Option<(Duration, OperationId)>,
    /// The uptime of what is due next.
    due: Duration,
    /// When the next periodic sync is due, by uptime: a sync alone moves it, whatever else happens meanwhile.
    sync_due: Option<Duration>,
    status: Option<Arc<PodStatus>>,
    told_waiting: Vec<PodWait>,
    told_over: bool,
    /// Containers of whose back-off an Event tells already.
    told_back_offs: BTreeSet<String>,
    /// Someone has forgotten what was told.
    repeat: bool,
    /// Someone had no room for it.
    refused: bool,
    network_event_told: bool,
    probed: bool,
    /// What `ObjectCache` keeps at hand for the pod.
    kept: BTreeSet<ObjectKey>,
    /// It was told that the pod has ended.
    let_go: bool,
    /// `VolumeManager` was told that nothing starts any more: the volumes stay as they are.
    settled: bool,
    /// The status is the last one.
    ended: bool,
    /// A call to the runtime that hangs, by its number, and the sentence about it: the same for as long as it does.
    hung: Option<(u64, PodWait)>,
    /// What is said of resizes.
    resize: ResizeConditions,
    /// When the change of resources that is under way began, by uptime.
    resize_began: Option<Duration>,
}

impl Actor for PodWorker {
    const KIND: &'static str = "PodWorker";
    type Msg = PodWorkerMsg;
    type Args = WorkerArgs;

    fn begin(args: WorkerArgs, context: &mut Context<PodWorkerMsg>) -> Self {
        let WorkerArgs { agent, uid, full_name, born, stage, host } = args;
        let crash_loop = agent.settings.pods.crash_loop;
        let remembered = agent.adapters.probe_store.results(&uid);
        resizing::recall(&agent, &uid, Duration::ZERO, context);
        let (driver, ttl) = (agent.adapters.cgroups.driver(), agent.settings.runtime.garbage.age_min);
        let lifecycle = PodLifecycle::new(crash_loop, born).with_probes(remembered).with_cgroup_driver(driver);
        let lifecycle = lifecycle.with_container_ttl(ttl);
        Self {
            lifecycle: lifecycle.with_resizing(resizing::means(&agent)),
            site: JobSite { agent, uid, full_name, host, stops: Arc::default() },
            jobs: vec![],
            passes: Passes::default(),
            shown: stage,
            wake: None,
            due: Duration::ZERO,
            sync_due: None,
            status: None,
            told_waiting: vec![],
            told_over: false,
            told_back_offs: BTreeSet::new(),
            repeat: false,
            refused: false,
            network_event_told: false,
            probed: false,
            kept: BTreeSet::new(),
            let_go: false,
            settled: false,
            ended: false,
            hung: None,
            resize: ResizeConditions::default(),
            resize_began: None,
        }
    }

    fn receive(&mut self, message: PodWorkerMsg, context: &mut Context<PodWorkerMsg>) {
        if matches!(message, PodWorkerMsg::RetryDue) {
            self.wake = None;
            if self.due > context.clock().uptime() {
                return self.set_timer(context); // What it was set for is done by now.
            }
        }
        let is_update = matches!(message, PodWorkerMsg::SpecChanged(_));
        let may_refresh = is_update || matches!(message, PodWorkerMsg::RetryDue);
        let input = match message {
            PodWorkerMsg::SpecChanged(pod) => {
                self.note_spec(&pod, context);
                Input::Spec(pod)
            }
            PodWorkerMsg::Terminate { grace } => Input::Removed { grace },
            PodWorkerMsg::Observed(pod) => Input::Observed(pod),
            PodWorkerMsg::HealthChanged(health) => Input::Health(health),
            PodWorkerMsg::HostChanged(host) => {
                self.site.host = host;
                Input::Due
            }
            PodWorkerMsg::Probed { container, kind, healthy } => Input::Probed { container, kind, healthy },
            PodWorkerMsg::JobEnded(Ok(end)) => self.take_end(end, context),
            PodWorkerMsg::JobEnded(Err((job, panicked))) => {
                self.take_end(JobEnd::lost(job, panicked.to_string()), context)
            }
            PodWorkerMsg::Demanded { demand, reply } => {
                let _ = reply.send(Some(self.take_demand(&demand, context))); // the asker may have left
                Input::Due
            }
            PodWorkerMsg::ResizeJudged(pending) => {
                self.resize.pending = pending;
                Input::Due
            }
            PodWorkerMsg::Recalled(read) => {
                let read = read.unwrap_or_else(|panicked| Err(panicked.to_string()));
                self.take_recalled(read, context).map_or(Input::Due, Input::Actuated)
            }
            PodWorkerMsg::VolumesChanged => {
                self.lifecycle.volumes_changed();
                Input::Due
            }
            PodWorkerMsg::RetryDue => Input::Due,
            PodWorkerMsg::Repeat => {
                self.repeat = true;
                Input::Due
            }
        };
        let now = self.now(context);
        let actions = self.lifecycle.step(input, now);
        self.network_event_told &= self.lifecycle.health().network_problem.is_some();
        self.tell_objects(context); // Before the actions, which ask for them.
        self.perform_all(actions, is_update, context);
        if may_refresh {
            self.refresh_volumes(context);
            self.sync_due = None;
        }
        self.tell_back_offs(context);
        self.follow_resize(context);
        self.publish(context);
        self.end_if_over(now, context);
        self.shown.set(self.lifecycle.stage());
        if self.jobs.is_empty() {
            self.passes.end(&self.site, context.clock().uptime());
        }
        self.arm(context);
    }
}

impl PodWorker {
    fn now(&self, context: &Context<PodWorkerMsg>) -> Now {
        let jitter = self.site.agent.adapters.chance.next();
        Now { moment: context.now(), uptime: context.clock().uptime(), stamp: context.clock().stamp(), jitter }
    }

    /// A phase that is final is never left: what still runs is stopped (upstream's sync ends so, too).
    fn end_if_over(&mut self, now: Now, context: &mut Context<PodWorkerMsg>) {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        if self.lifecycle.stage() != Stage::Syncing || !pod_status::is_terminal(phase) {
            return;
        }
        let actions = self.lifecycle.step(Input::Over, now);
        self.perform_all(actions, false, context);
        self.publish(context);
    }

    fn perform_all(&mut self, actions: Vec<Action>, is_update: bool, context: &mut Context<PodWorkerMsg>) {
        let (uptime, stage) = (context.clock().uptime(), self.lifecycle.stage());
        // Before it knows the pod, and what is of it, a worker has nothing to be at.
        let is_informed = self.lifecycle.pod().is_some() && self.lifecycle.observed().is_some();
        let pass = match is_informed || stage != Stage::Syncing {
            true => self.passes.enter(&self.site, stage, is_update, uptime),
            false => tracing::Span::none(),
        };
        pass.in_scope(|| actions.into_iter().for_each(|action| self.perform(action, context)));
    }

    fn take_end(&mut self, end: JobEnd, context: &Context<PodWorkerMsg>) -> Input {
        let job = end.job();
        self.jobs.retain(|(open, _)| *open != job);
        self.count(&end);
        let subject = EventSubject::pod(&self.site.uid, &self.site.full_name);
        let event = match &end {
            JobEnd::Prepared(Err(why)) => {
                let message = format!("unable to ensure pod container exists: {why}");
                Some(subject.warning(EventReason::FailedCreatePodContainer, message))
            }
            JobEnd::SandboxUp(Err(SandboxFailure { made: false, message })) => Some(
                subject
                    .warning(EventReason::FailedCreatePodSandBox, format!("Failed to create pod sandbox: {message}")),
            ),
            JobEnd::SandboxUp(Err(SandboxFailure { made: true, message })) => {
                Some(subject.warning(
                    EventReason::FailedPodSandBoxStatus,
                    format!("Unable to get pod sandbox status: {message}"),
                ))
            }
            JobEnd::Reset(Err(why)) => {
                Some(subject.warning(EventReason::FailedSync, format!("error restarting pod: {why}")))
            }
            JobEnd::PodKilled(Err(why)) => {
                Some(subject.warning(EventReason::FailedKillPod, format!("error killing pod: {why}")))
            }
            JobEnd::Resized(report) => {
                self.take_resized(report, context);
                None
            }
            JobEnd::CleanedUp(Err(why)) => {
                tracing::warn!(pod = %self.site.full_name, why, "the pod's volumes or its cgroup cannot be released yet");
                None
            }
            JobEnd::RemainsRemoved(_, Err(why)) => {
                tracing::warn!(pod = %self.site.full_name, why, "what is left of the pod cannot be removed yet");
                None
            }
            _ => None,
        };
        if let Some(event) = event {
            context.tell(&self.site.agent.directory.event_recorder, event);
        }
        Input::Ended(end)
    }

    /// Takes what someone on this machine asked for; that is an Event of each container, and in the log.
    fn take_demand(&mut self, demand: &Demand, context: &Context<PodWorkerMsg>) -> Result<Vec<String>, String> {
        let met = self.lifecycle.demand(demand);
        let (reason, what) = match demand.what {
            Demanded::Restart => (EventReason::RestartRequested, "Restart"),
            Demanded::ResetBackOff => (EventReason::BackOffReset, "End of the back-off"),
        };
        self.forgive_images(demand, met.as_deref().unwrap_or_default(), context);
        tracing::info!(pod = %self.site.full_name, what, container = demand.container, ?met, "asked for at the local socket");
        for container in met.iter().flatten() {
            let path = self.site.path_of(self.lifecycle.pod().map(AsRef::as_ref), container);
            let message = format!("{what} of container {container} was asked for on the node");
            context.tell(
                &self.site.agent.directory.event_recorder,
                self.site.subject(path).normal(reason.clone(), message),
            );
        }
        met
    }

    /// Pulls of these containers' images wait no longer. Told before the pulls are asked for.
    fn forgive_images(&self, demand: &Demand, names: &[String], context: &Context<PodWorkerMsg>) {
        let Some(pod) = self.lifecycle.pod().filter(|_| demand.what == Demanded::ResetBackOff) else { return };
        let images = all_containers(pod).filter(|(_, container)| names.contains(&container.name));
        let images = images.filter_map(|(_, container)| container.image.clone()).collect();
        let message = ImageManagerMsg::Forgive(self.site.uid.clone(), images);
        context.tell(&self.site.agent.directory.image_manager, message);
    }

    fn perform(&mut self, action: Action, context: &mut Context<PodWorkerMsg>) {
        let site = self.site.clone();
        let pod = self.lifecycle.pod().cloned();
        let cause = context.cause();
        match action {
            Action::Cancel(job) => self.cancel(&job, context),
            Action::Inspect => context.tell(&site.agent.directory.pleg, PlegMsg::Inspect(site.uid.clone())),
            Action::InspectSoon => context.tell(&site.agent.directory.pleg, PlegMsg::InspectSoon(site.uid.clone())),
            Action::NetworkNotReady(problem) => self.tell_network(&problem, context),
            Action::Finish => context.tell(&site.agent.directory.pod_manager, PodManagerMsg::WorkerFinished(site.uid)),
            Action::Prepare { anew } => {
                self.begin(Job::Prepare, "prepare", site.prepare(wanted(pod), anew, cause), context)
            }
            Action::MountVolumes => {
                let work = site.mount_volumes(wanted(pod), context.address().clone(), cause);
                self.begin(Job::MountVolumes, "mount volumes", work, context);
            }
            Action::SetUpSandbox { attempt } => {
                self.begin(Job::SetUpSandbox, "run sandbox", site.set_up_sandbox(wanted(pod), attempt, cause), context);
            }
            Action::EnsureImage { container } => {
                let job = Job::EnsureImage(container.clone());
                self.begin(job, "ensure image", site.ensure_image(wanted(pod), container, cause), context);
            }
            Action::StartContainer { start, sandbox, image } => {
                let job = Job::StartContainer(start.name.clone());
                let volumes = self.lifecycle.volumes().cloned().unwrap_or_default();
                let recursive_read_only = self.lifecycle.health().recursive_read_only.unwrap_or_default();
                let runtime = self.lifecycle.observed().cloned();
                let given = Given { image, volumes, recursive_read_only, runtime };
                let work = site.start_container(wanted(pod), start, sandbox, given, cause);
                self.begin(job, "start container", work, context);
            }
            Action::KillContainer { id, name, message, grace } => {
                let job = Job::KillContainer(id.clone());
                let work = site.kill_container(pod, Stop { id, name, message }, grace, self.address(), cause);
                self.begin(job, "stop container", work, context);
            }
            Action::RemoveContainers(ids) => {
                let known = self.lifecycle.observed().cloned();
                self.begin(Job::RemoveContainers, "remove containers", site.remove_containers(known, ids), context);
            }
            Action::ResetContainers(containers) => {
                let work = site.reset_containers(containers, cause);
                self.begin(Job::ResetContainers, "start over", work, context);
            }
            Action::Resize(work) => {
                self.resize_began = Some(context.clock().uptime());
                self.begin(Job::Resize, "resize", site.resize(wanted(pod), work, cause), context);
            }
            Action::KillPod { containers, sandboxes, grace, replace } => {
                let stops = containers.into_iter().map(|(id, name)| Stop::with_pod(id, name)).collect();
                let address = self.address();
                let work = site.kill_pod(pod, stops, sandboxes, Kill { grace, replace, address }, cause);
                self.begin(Job::KillPod, "stop pod", work, context);
            }
            Action::Confirm(absent) => self.begin(Job::Confirm, "confirm absence", site.confirm(absent), context),
            Action::CleanUp => self.begin(Job::CleanUp, "clean up", site.clean_up(pod), context),
            Action::Remove(remains) => {
                let known = self.lifecycle.observed().cloned();
                self.begin(Job::Remove, "remove", site.remove_remains(known, remains), context);
            }
            Action::Over => context.tell(&site.agent.directory.pod_manager, PodManagerMsg::PodOver(site.uid)),
        }
    }

    /// The pod's address, where the runtime knows one.
    fn address(&self) -> Option<String> {
        self.site.address_of(self.lifecycle.observed()?.sandbox()?)
    }

    fn begin(
        &mut self,
        job: Job,
        name: &'static str,
        work: impl Future<Output = JobEnd> + Send + 'static,
        context: &mut Context<PodWorkerMsg>,
    ) {
        let about = match &job {
            Job::EnsureImage(container) | Job::StartContainer(container) => container.clone(),
            Job::KillContainer(id) => id.to_string(),
            _ => self.site.full_name.to_string(),
        };
        let lost = job.clone();
        let id = context.start(name, about, work, move |outcome| {
            PodWorkerMsg::JobEnded(outcome.map_err(|panicked| (lost, panicked)))
        });
        self.jobs.push((job, id));
    }

    fn cancel(&mut self, job: &Job, context: &mut Context<PodWorkerMsg>) {
        let (ended, open): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.jobs).into_iter().partition(|(open, _)| open == job);
        self.jobs = open;
        for (_, id) in ended {
            context.cancel(id);
        }
    }

    fn tell_network(&mut self, problem: &str, context: &Context<PodWorkerMsg>) {
        if !std::mem::replace(&mut self.network_event_told, true) {
            let subject = EventSubject::pod(&self.site.uid, &self.site.full_name);
            let message = format!("network is not ready: {problem}");
            context.tell(
                &self.site.agent.directory.event_recorder,
                subject.warning(EventReason::NetworkNotReady, message),
            );
        }
    }

    /// What is in some kinds of volumes changes while the pod runs; upstream looks at each sync of a pod, too.
    fn refresh_volumes(&self, context: &Context<PodWorkerMsg>) {
        let Some(pod) = self.lifecycle.pod().filter(|_| self.lifecycle.stage() == Stage::Syncing) else { return };
        if self.lifecycle.volumes().is_some() && volume_plans(pod).iter().any(VolumePlan::is_set_up_again) {
            context.tell(&self.site.agent.directory.volume_manager, VolumeManagerMsg::Refresh(Arc::clone(pod)));
        }
    }

    /// What a pod refers to in the API server is kept at hand from its start to the end of its volumes (VOL-50).
    fn tell_objects(&mut self, context: &Context<PodWorkerMsg>) {
        let (to, pod) = (&self.site.agent.directory.object_cache, self.lifecycle.pod());
        let references = pod.map(|pod| object_references(pod)).unwrap_or_default();
        match (self.lifecycle.stage(), pod) {
            (Stage::Syncing, None) => {}
            (Stage::Syncing, Some(pod)) => {
                let known = self.kept == references && (references.is_empty() || !self.repeat);
                if !known && context.try_tell(to, ObjectCacheMsg::PodChanged(Arc::clone(pod))) {
                    self.kept = references;
                }
            }
            (Stage::Terminating, _) => {
                let ending = VolumeManagerMsg::Ending(self.site.uid.clone());
                self.settled = self.settled || context.try_tell(&self.site.agent.directory.volume_manager, ending);
            }
            // Told by a new worker, too: it cannot know what its predecessor had kept; or of what pod, if nobody wants it now.
            (Stage::Terminated, pod) => {
                let known = self.let_go || (pod.is_some() && references.is_empty() && self.kept.is_empty());
                self.let_go = known || context.try_tell(to, ObjectCacheMsg::PodGone(self.site.uid.clone()));
            }
        }
    }

    /// Tells the pod's status wherever it counts, when it changed.
    fn publish(&mut self, context: &Context<PodWorkerMsg>) {
        let hung = self.note_hung_call(context);
        let waiting: Vec<PodWait> = hung.iter().cloned().chain(self.waiting()).collect();
        context.address().record().set_note(waiting.first().map(ToString::to_string));
        let Some(pod) = self.lifecycle.pod().cloned() else { return };
        let Some(seen) = self.lifecycle.observed().cloned() else { return };
        let mut status = match (&self.status, self.ended) {
            // Its containers may be gone by now: how they ended was said while they could be looked at.
            (Some(status), true) => PodStatus::clone(status),
            _ => self.make_status(&pod, &self.as_shown(&pod, &seen), context),
        };
        let obstacle = || self.lifecycle.obstacle().map(|obstacle| obstacle.to_string());
        pod_status::set_obstacle(&mut status, hung.map(|hung| hung.to_string()).or_else(obstacle));
        let status = Arc::new(status);
        self.tell_change(&pod, &status, context);
        self.count_start(&pod, &status, context);
        self.ended = self.lifecycle.stage() == Stage::Terminated;
        let is_over = self.lifecycle.is_over();
        let is_known =
            self.status.as_ref() == Some(&status) && self.told_waiting == waiting && self.told_over == is_over;
        let is_due = std::mem::take(&mut self.repeat) | std::mem::take(&mut self.refused);
        if is_known && !is_due {
            return;
        }
        (self.status, self.told_waiting, self.told_over) = (Some(Arc::clone(&status)), waiting.clone(), is_over);
        crate::actors::kit::trace::lock(&self.site.agent.adapters.pod_ends).note(&self.site.uid, &status);
        let (uid, to) = (self.site.uid.clone(), &self.site.agent.directory);
        let view = PodView {
            uid: uid.clone(),
            pod: Arc::clone(&pod),
            status: Arc::clone(&status),
            may_run: self.lifecycle.stage() < Stage::Terminated,
            is_over,
            waiting: waiting.into(),
        };
        // What there was no room for is told again soon.
        self.refused |= !context.try_tell(&to.status_manager, StatusManagerMsg::StatusChanged(view));
        if self.lifecycle.stage() == Stage::Terminated {
            if std::mem::replace(&mut self.probed, false) {
                context.tell(&to.prober, ProberMsg::PodGone(uid));
            }
        } else if !probes_of(&pod).is_empty() {
            self.probed = true;
            let (worker, ending) = (context.address().clone(), self.lifecycle.stage() == Stage::Terminating);
            self.refused |= !context.try_tell(&to.prober, ProberMsg::PodChanged { uid, pod, status, ending, worker });
        }
    }

    /// A container whose postStart hook still runs has not started yet, for whoever reads the status.
    fn as_shown(&self, pod: &Pod, seen: &Arc<RuntimePod>) -> Arc<RuntimePod> {
        let starting = self.jobs.iter().filter_map(|(job, _)| match job {
            Job::StartContainer(name) => Some(name.as_str()),
            _ => None,
        });
        hooks::without_started(pod, seen, starting)
    }

    fn make_status(&self, pod: &Pod, seen: &RuntimePod, context: &Context<PodWorkerMsg>) -> PodStatus {
        let settings = &self.site.agent.settings;
        pod_status::generate(&StatusInput {
            pod,
            runtime: seen,
            previous: self.status.as_deref(),
            containers: ContainersInput {
                probes: self.lifecycle.probes(),
                start_errors: self.lifecycle.start_errors(),
                restarts: self.lifecycle.restarts(),
                adopted: self.lifecycle.adopted(),
            },
            resources: ResourcesInput {
                resize: &self.resize,
                actuated: self.lifecycle.actuated(),
                figures: self.lifecycle.pod_figures(),
                options: &settings.resources.options,
                gates: &settings.resources.resize,
            },
            node: NodeInput {
                host: &self.site.host,
                prefer_ipv6: settings.node.status.addresses.prefers_sixth(),
                runtime_name: &settings.runtime.name,
                recursive_read_only: self.lifecycle.health().recursive_read_only,
            },
            volumes_mounted: self.lifecycle.has_its_volumes(),
            terminal: self.lifecycle.stage() == Stage::Terminated,
            is_static: is_static(pod),
            qos_class: pod_qos(pod, settings.resources.options.pod_level_resources).as_str(),
            now: context.now(),
        })
    }

    /// What the pod waits for; nothing when it is as it should be.
    fn waiting(&self) -> Vec<PodWait> {
        let at_stage = match self.lifecycle.stage() {
            Stage::Syncing => PodWait::ToRun,
            Stage::Terminating => PodWait::ToEnd,
            Stage::Terminated => PodWait::ToBeGone,
        };
        self.lifecycle.waits().cloned().map(at_stage).collect()
    }

    /// Finds what is due next: a retry, or the periodic sync (POD-11).
    fn arm(&mut self, context: &mut Context<PodWorkerMsg>) {
        let (uptime, agent) = (context.clock().uptime(), &self.site.agent);
        let next = || uptime + agent.settings.pods.sync_period.mul_f64(1.0 + agent.adapters.chance.next() / 2.0);
        let sync = self.sync_due.get_or_insert_with(next).saturating_sub(uptime);
        let sync = if self.refused { RETELL.min(sync) } else { sync };
        let deadline = self.lifecycle.pod().zip(self.status.as_ref()).and_then(|(pod, status)| deadline(pod, status));
        let deadline = deadline.filter(|_| self.lifecycle.stage() == Stage::Syncing);
        let wait = self.lifecycle.wake_at().map(|until| until.since(context.steady()));
        let due = wait.into_iter().chain(deadline.map(|until| until.since(context.now()))).min();
        let due = due.map_or(sync, |due| sync.min(due + Duration::from_millis(1))).min(self.next_look_for_hung_calls());
        self.due = uptime + due;
        self.set_timer(context);
    }

    /// One timer for all of it. One that is set already and comes too early stays: to set it anew in each turn would cost
    /// more than the turn that it wakes in vain.
    fn set_timer(&mut self, context: &mut Context<PodWorkerMsg>) {
        match self.wake {
            Some((set, _)) if set <= self.due => return,
            Some((_, timer)) => context.cancel(timer),
            None => {}
        }
        let wait = self.due.saturating_sub(context.clock().uptime());
        self.wake = Some((self.due, context.after(wait, PodWorkerMsg::RetryDue)));
    }
}

fn wanted(pod: Option<Arc<Pod>>) -> Arc<Pod> {
    pod.expect("only a wanted pod is started")
}
