//! `PodWorker`: carries one pod (one UID) through its life on this node.
//!
//! Parent: `PodManager`. Restarted: after a failure, later each time. Stops: when the pod is gone from the node and
//! nobody wants it. `logic::pods::pod_lifecycle` decides the next step, and `logic::pods::pod_worker` its news; here they
//! are carried out. Keeps nothing that its parent, the runtime or the disk cannot give back.

mod alarm;
mod counts;
mod hung;
pub mod jobs;
mod passes;
mod performing;
mod published;
mod publishing;
mod resize_track;
pub mod tools;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::context::{Context, OperationId};
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::pod_phase::is_terminal;
use crate::logic::model::time::Stamp;
use crate::logic::network::host_ips::HostIps;
use crate::logic::plugins::claims::report::HealthByContainer;
use crate::logic::pods::pod_containers::all_containers;
use crate::logic::pods::pod_lifecycle::{Demand, Demanded, Input, Job, JobEnd, Now, PodLifecycle, ResizeMeans, Stage};
use crate::logic::pods::pod_resize::PodResources;
use crate::logic::pods::pod_worker::job_events::{stay_of, warning_of};
use crate::logic::pods::pod_worker::object_interest::ObjectInterest;
use crate::logic::pods::pod_worker::told_events::ToldEvents;
use crate::logic::pods::pod_worker::worker_dues::{WorkerDues, retell_after};
use crate::logic::resources::node_cgroups::MachineNow;
use crate::logic::status::pod_status::deadline;
use crate::messages::Ended;
use crate::messages::event_recorder::EventSubject;
use crate::messages::images::image_manager::ImageManagerMsg;
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::resources::allocation_manager::AllocationManagerMsg;
use alarm::Alarm;
use counts::{OwnUsersTry, count_try};
use hung::{HungCall, LOOK_PERIOD};
use jobs::{JobSite, recall};
use passes::Passes;
use published::Published;
use resize_track::ResizeTrack;
use tools::WorkerTools;

/// Wait before the worker asks again for the resources that the runtime has.
const RECALL_RETRY: Duration = Duration::from_secs(1);

/// The arguments of a new incarnation.
pub struct WorkerArgs {
    /// The tools of all workers.
    pub tools: Arc<WorkerTools>,
    /// The UID of the worker's pod.
    pub uid: PodUid,
    /// The pod's name and namespace.
    pub full_name: FullName,
    /// Observations from before do not count.
    pub born: Stamp,
    /// Where it shows how far the pod is.
    pub stage: Arc<ShownStage>,
    /// The host's addresses, until the worker gets others.
    pub host: HostIps,
    /// The machine, once it is of another size than at the start.
    pub machine: Option<Arc<MachineNow>>,
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

/// A job under way.
struct Begun {
    job: Job,
    operation: OperationId,
    /// Tells it that the pod is to end, if it is the start of a container.
    leave: Option<oneshot::Sender<()>>,
}

/// See the module.
pub struct PodWorker {
    site: JobSite,
    lifecycle: PodLifecycle,
    jobs: Vec<Begun>,
    passes: Passes,
    shown: Arc<ShownStage>,
    alarm: Alarm,
    published: Published,
    told: ToldEvents,
    objects: ObjectInterest,
    /// `VolumeManager` knows that nothing starts any more: the volumes stay as they are.
    volumes_settled: bool,
    /// `Prober` has the pod.
    is_probed: bool,
    hung: HungCall,
    resize: ResizeTrack,
    own_users: OwnUsersTry,
    /// The health of devices of its containers' claims.
    device_health: HealthByContainer,
}

impl Actor for PodWorker {
    const KIND: &'static str = "PodWorker";
    type Msg = PodWorkerMsg;
    type Args = WorkerArgs;

    fn begin(args: WorkerArgs, context: &mut Context<PodWorkerMsg>) -> Self {
        let WorkerArgs { tools, uid, full_name, born, stage, host, machine } = args;
        let settings = &tools.settings;
        let remembered = tools.adapters.probe_store.results(&uid);
        recall(&tools.to.allocation_manager, &uid, Duration::ZERO, context);
        let per_pod = settings.resources.cgroup_tree.per_qos();
        let means = ResizeMeans { gates: settings.resources.resize, options: settings.resources.options, per_pod };
        let lifecycle = PodLifecycle::new(settings.crash_loop, born)
            .with_probes(remembered)
            .with_cgroup_driver(tools.adapters.cgroups.driver())
            .with_container_ttl(settings.dead_age_min)
            .with_resizing(means);
        Self {
            lifecycle,
            site: JobSite {
                tools,
                uid,
                full_name,
                host,
                machine,
                user_namespaces: Arc::default(),
                stops: Arc::default(),
                sandbox_dns: Arc::default(),
            },
            jobs: vec![],
            passes: Passes::default(),
            shown: stage,
            alarm: Alarm::default(),
            published: Published::default(),
            told: ToldEvents::default(),
            objects: ObjectInterest::default(),
            volumes_settled: false,
            is_probed: false,
            hung: HungCall::default(),
            resize: ResizeTrack::default(),
            own_users: OwnUsersTry::default(),
            device_health: vec![],
        }
    }

    fn receive(&mut self, message: PodWorkerMsg, context: &mut Context<PodWorkerMsg>) {
        let is_alarm = matches!(message, PodWorkerMsg::RetryDue);
        if is_alarm && !self.alarm.rings(context) {
            return;
        }
        let is_update = matches!(message, PodWorkerMsg::SpecChanged(_));
        let is_repeat = matches!(message, PodWorkerMsg::Repeat);
        self.published.begin_turn();
        let input = self.input_of(message, context);
        let now = self.now(context);
        let actions = self.lifecycle.step(input, now);
        if self.lifecycle.health().network_problem.is_none() {
            self.told.has_network();
        }
        self.tell_objects(context); // Before the actions, which ask for them.
        self.perform_all(actions, is_update, context);
        if is_update || is_alarm {
            self.refresh_volumes(context);
            self.alarm.note_sync();
        }
        if is_update || is_alarm || is_repeat {
            self.follow_devices(context);
        }
        self.tell_back_offs(context);
        self.follow_resize(context);
        self.publish(context);
        self.end_if_over(now, context);
        self.shown.set(self.lifecycle.stage());
        if self.jobs.is_empty() {
            self.passes.end(&self.site, context.clock().uptime());
            self.own_users.end();
        }
        self.arm(context);
    }
}

impl PodWorker {
    fn now(&self, context: &Context<PodWorkerMsg>) -> Now {
        let (clock, jitter) = (context.clock(), self.site.tools.adapters.chance.next());
        let (uptime, machine_uptime) = (clock.uptime(), clock.machine_uptime());
        Now { moment: context.now(), uptime, machine_uptime, stamp: clock.stamp(), jitter }
    }

    /// Takes what a message says beside the pod's life; gives what it is to that.
    fn input_of(&mut self, message: PodWorkerMsg, context: &mut Context<PodWorkerMsg>) -> Input {
        match message {
            PodWorkerMsg::SpecChanged(pod) => {
                let before = self.lifecycle.pod().map(AsRef::as_ref);
                self.resize.take_spec(before, &pod, &self.site.tools.settings.resources.resize, context.now());
                return Input::Spec(pod);
            }
            PodWorkerMsg::Terminate { grace } => return Input::Removed { grace },
            PodWorkerMsg::Observed(pod) => return Input::Observed(pod),
            PodWorkerMsg::HealthChanged(health) => {
                self.site.user_namespaces = Arc::clone(&health.user_namespaces);
                return Input::Health(health);
            }
            PodWorkerMsg::Probed { container, kind, healthy } => return Input::Probed { container, kind, healthy },
            PodWorkerMsg::JobEnded(end) => {
                self.take_end(&end, context);
                return Input::Ended(end);
            }
            PodWorkerMsg::Recalled(read) => {
                return self.take_recalled(read, context).map_or(Input::Due, Input::Actuated);
            }
            PodWorkerMsg::HostChanged { ips, machine } => (self.site.host, self.site.machine) = (ips, machine),
            PodWorkerMsg::Demanded { demand, reply } => {
                let _ = reply.send(Some(self.take_demand(&demand, context))); // the asker may have left
            }
            PodWorkerMsg::ResizeJudged(pending) => self.resize.note_judged(pending),
            PodWorkerMsg::VolumesChanged => self.lifecycle.volumes_changed(),
            PodWorkerMsg::DevicesToldOf(health) => self.device_health = health,
            PodWorkerMsg::RetryDue => {}
            PodWorkerMsg::Repeat => self.published.forget(),
        }
        Input::Due
    }

    /// A phase that is final is never left: what still runs is stopped (upstream's sync ends so, too).
    fn end_if_over(&mut self, now: Now, context: &mut Context<PodWorkerMsg>) {
        let phase = self.published.status().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        if self.lifecycle.stage() != Stage::Syncing || !is_terminal(phase) {
            return;
        }
        let actions = self.lifecycle.step(Input::Over, now);
        self.perform_all(actions, false, context);
        self.publish(context);
    }

    fn take_end(&mut self, end: &JobEnd, context: &Context<PodWorkerMsg>) {
        let job = end.job();
        self.jobs.retain(|open| open.job != job);
        let pod = self.lifecycle.pod().map(AsRef::as_ref);
        count_try(&self.site, pod, end);
        self.own_users.take(&self.site, pod, end);
        let (to, subject) = (&self.site.tools.to, EventSubject::pod(&self.site.uid, &self.site.full_name));
        if let JobEnd::Resized(report) = end {
            let told = self.resize.end(report, pod, context.now(), context.clock().uptime());
            if let Some(count) = told.count {
                context.tell(&to.allocation_manager, AllocationManagerMsg::Counted(vec![count]));
            }
            if let Some(message) = told.error {
                context.tell(&to.event_recorder, subject.warning(EventReason::ResizeError, message));
            }
        }
        if let Some((what, why)) = stay_of(end) {
            tracing::warn!(pod = %self.site.full_name, why, "{what}");
        }
        if let Some((reason, message)) = warning_of(end) {
            context.tell(&to.event_recorder, subject.warning(reason, message));
        }
    }

    fn take_recalled(
        &mut self,
        read: Ended<PodResources>,
        context: &mut Context<PodWorkerMsg>,
    ) -> Option<PodResources> {
        match read.into_result() {
            Ok(read) => Some(read),
            Err(why) => {
                tracing::debug!(pod = %self.site.full_name, why, "what the runtime was told is not known yet");
                recall(&self.site.tools.to.allocation_manager, &self.site.uid, RECALL_RETRY, context);
                None
            }
        }
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
            context.tell(&self.site.tools.to.event_recorder, self.site.subject(path).normal(reason.clone(), message));
        }
        met
    }

    /// Pulls of these containers' images wait no longer. Told before the pulls are asked for.
    fn forgive_images(&self, demand: &Demand, names: &[String], context: &Context<PodWorkerMsg>) {
        let Some(pod) = self.lifecycle.pod().filter(|_| demand.what == Demanded::ResetBackOff) else { return };
        let images = all_containers(pod).filter(|(_, container)| names.contains(&container.name));
        let images = images.filter_map(|(_, container)| container.image.clone()).collect();
        let message = ImageManagerMsg::Forgive(self.site.uid.clone(), images);
        context.tell(&self.site.tools.to.image_manager, message);
    }

    /// Sets the timer for what is due next: a retry, or the periodic sync (POD-11).
    fn arm(&mut self, context: &mut Context<PodWorkerMsg>) {
        let tools = &self.site.tools;
        let period = || tools.settings.sync_period.mul_f64(1.0 + tools.adapters.chance.next() / 2.0);
        let sync = self.alarm.until_sync(context.clock().uptime(), period);
        let deadline =
            self.lifecycle.pod().zip(self.published.status()).and_then(|(pod, status)| deadline(pod, status));
        let deadline = deadline.filter(|_| self.lifecycle.stage() == Stage::Syncing);
        let waits_for_calls = !self.jobs.is_empty() || self.lifecycle.awaits_a_look();
        let dues = WorkerDues {
            sync,
            retell: self.published.is_refused().then(|| retell_after(tools.adapters.chance.next())),
            retry: self.lifecycle.wake_at().map(|until| until.since(context.steady())),
            deadline: deadline.map(|until| until.since(context.now())),
            hung_calls: waits_for_calls.then_some(LOOK_PERIOD),
        };
        self.alarm.set(dues.next(), context);
    }
}
