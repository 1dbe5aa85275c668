//! `VolumeManager`: has pods' volumes there when containers need them, and gone when the pods are.
//!
//! Parent: Root. Restarted: after a failure; an asker hears that there is no answer, and asks again.
//! `logic::volumes::volume_states` decides the tasks; here they are carried out, one operation a volume, so that a mount
//! that hangs keeps nobody else. Keeps which volumes wanted pods have, and their tokens; a pod's end is read from the disk.

mod csi;
mod disks;
pub mod drivers;
mod growing;
mod in_use;
mod labels;
mod retrying;
mod tasks;
mod timing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use ractor::RpcReplyPort;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::trace::Cause;
use crate::actors::kit::untold::Untold;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::log_level::LogLevel;
use crate::logic::model::time::Steady;
use crate::logic::volumes::content::certificate::{CertificateKey, CertificateState};
use crate::logic::volumes::content::token::TokenKey;
use crate::logic::volumes::expansion::KnownSize;
use crate::logic::volumes::mounting::mount_label::Labelling;
use crate::logic::volumes::order::plugin;
use crate::logic::volumes::plan::{NodeFacts, NodeMeans, VolumePlan, volume_plans};
use crate::logic::volumes::volume_states::{
    Input, MountedVolume, MountedVolumes, Order, Standing, Task, TaskFailure, VolumeFailure, VolumeStates,
};
use crate::messages::event_recorder::{EventRecorderMsg, EventSubject};
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::volume_manager::{
    AttachedStep, ClaimEvent, PodVolumes, TaskEnd, TaskGain, TaskNews, VolumeCensus, VolumeEvent, VolumeManagerMsg,
};
use crate::messages::{Lost, Subscriber};
use crate::platform::cluster::objects::{Objects, Token};
use crate::platform::host::chance::Chance;
use crate::platform::observer::{Observation, Observer};
use crate::platform::volumes::VolumeHost;
use drivers::CsiVolumes;
use in_use::{InUse, Owed};
use tasks::MountTask;
use timing::{Timing, planned_plugin, unmounting};

/// The soonest that a pod may ask again.
const RETRY_MIN: Duration = Duration::from_millis(100);

/// Patience with `NodeStatus`.
const NODE_PATIENCE: Duration = Duration::from_secs(1);

/// The actor's arguments.
pub struct Args {
    /// The node's resources for pods while no Node says them.
    pub means: NodeMeans,
    /// Volumes on the node.
    pub volumes: Arc<dyn VolumeHost>,
    /// Objects of the API that volumes are made of.
    pub objects: Arc<dyn Objects>,
    /// Counts volumes, and how long they take.
    pub observer: Arc<dyn Observer>,
    /// Spreads renewals.
    pub chance: Arc<dyn Chance>,
    /// Knows the Node, and hears which attached volumes are in use.
    pub node_status: Address<NodeStatusMsg>,
    /// Hears how volumes fare.
    pub event_recorder: Address<EventRecorderMsg>,
    /// For volumes of CSI drivers.
    pub csi: CsiVolumes,
    /// How persistent volumes are labelled, where SELinux is on and its policy knows containers.
    pub labelling: Option<Arc<Labelling>>,
}

/// A wanted pod, and what it has.
struct WantedPod {
    pod: Arc<Pod>,
    plans: BTreeMap<String, VolumePlan>,
    mounted: BTreeMap<String, MountedVolume>,
    /// Sizes of volumes that may grow.
    sizes: BTreeMap<String, KnownSize>,
    /// Since when volumes are waited for, by uptime: those that are not there, and those that are to be set up again.
    asked: BTreeMap<String, Duration>,
    /// Nothing of it starts any more: what becomes of its objects is no concern of its volumes.
    ending: bool,
}

/// Someone who waits for a pod's volumes.
enum Question {
    Mounted(RpcReplyPort<Result<Arc<MountedVolumes>, VolumeFailure>>),
    Released(RpcReplyPort<Result<(), VolumeFailure>>),
}

/// See the module.
pub struct VolumeManager {
    args: Args,
    states: VolumeStates,
    pods: BTreeMap<PodUid, WantedPod>,
    /// The workers that asked for a wanted pod's volumes.
    workers: BTreeMap<PodUid, Subscriber<PodWorkerMsg>>,
    /// Pods to be released that were never wanted here; until the disk was read.
    strangers: BTreeSet<PodUid>,
    tokens: BTreeMap<PodUid, BTreeMap<TokenKey, Token>>,
    certificates: BTreeMap<CertificateKey, CertificateState>,
    questions: BTreeMap<PodUid, Vec<Question>>,
    wake: Option<(Steady, OperationId)>,
    in_use: InUse,
    /// Whether `CsiManager` has yet to hear that a staged volume may be unused.
    untold: Untold<Owed, VolumeManagerMsg>,
}

impl Actor for VolumeManager {
    const KIND: &'static str = "VolumeManager";
    type Msg = VolumeManagerMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<VolumeManagerMsg>) -> Self {
        let mut manager = Self {
            args,
            states: VolumeStates::default(),
            pods: BTreeMap::new(),
            workers: BTreeMap::new(),
            strangers: BTreeSet::new(),
            tokens: BTreeMap::new(),
            certificates: BTreeMap::new(),
            questions: BTreeMap::new(),
            wake: None,
            in_use: InUse::default(),
            untold: Untold::new(|| VolumeManagerMsg::Attached(AttachedStep::RetellDue)),
        };
        manager.look_for_attached(context);
        manager
    }

    fn receive(&mut self, message: VolumeManagerMsg, context: &mut Context<VolumeManagerMsg>) {
        let inputs = match message {
            VolumeManagerMsg::Ensure(pod, worker, reply) => vec![self.ensure(pod, worker, reply, context)],
            VolumeManagerMsg::Refresh(pod) => vec![self.want(uid_of(&pod), pod, context)],
            VolumeManagerMsg::ObjectsChanged(uids) => self.objects_changed(uids, context),
            VolumeManagerMsg::Ending(uid) => self.note_ending(uid).into_iter().collect(),
            VolumeManagerMsg::Release(uid, reply) => vec![self.release(uid, reply)],
            VolumeManagerMsg::Task(TaskNews::TaskEnded { uid, task, outcome }) => {
                let end = (*outcome).unwrap_or_else(|loss| TaskEnd::failed(lost(&task, &loss)));
                vec![self.end(uid, task, end, context)]
            }
            VolumeManagerMsg::Task(TaskNews::TaskMoves { uid, task, doing, event }) => {
                self.tell_of_walk(&uid, event, context);
                vec![Input::Moves { uid, task, doing }]
            }
            VolumeManagerMsg::Task(TaskNews::TaskAttaches { uid, volume }) => {
                return self.note_attachable(uid, volume, context);
            }
            VolumeManagerMsg::RetryDue { at } => {
                self.wake.take_if(|(armed, _)| *armed == at);
                vec![Input::Due]
            }
            VolumeManagerMsg::Attached(AttachedStep::AttachedFound(outcome)) => {
                return self.take_attached(outcome, context);
            }
            VolumeManagerMsg::Attached(AttachedStep::Repeat) => return self.repeat_in_use(context),
            VolumeManagerMsg::Attached(AttachedStep::RetellDue) => return self.untold.tell_again(context),
            VolumeManagerMsg::Attached(AttachedStep::AttachedDue | AttachedStep::Unstaged) => {
                return self.look_for_attached(context);
            }
            VolumeManagerMsg::Attached(AttachedStep::DriverCame) => self.retry(context),
            VolumeManagerMsg::All(reply) => {
                let _ = reply.send(self.all()); // The asker may have left.
                return;
            }
            VolumeManagerMsg::Count(reply) => {
                let _ = reply.send(self.census()); // The asker may have left.
                return;
            }
        };
        self.step(inputs, context);
    }
}

impl VolumeManager {
    /// Has the decisions made, begins what follows from them, and answers those who wait for it.
    fn step(&mut self, inputs: Vec<Input>, context: &mut Context<VolumeManagerMsg>) {
        let mut touched = BTreeSet::new();
        for input in inputs {
            match input.about() {
                Some(uid) => drop(touched.insert(uid.clone())),
                None => touched.extend(self.questions.keys().cloned()),
            }
            for order in self.states.step(input, context.clocks()) {
                self.begin_task(order, context);
            }
        }
        for uid in &touched {
            self.answer(uid, context);
            self.tell_gone(uid, context);
        }
        self.arm(context);
    }

    fn ensure(
        &mut self,
        pod: Arc<Pod>,
        worker: Subscriber<PodWorkerMsg>,
        reply: RpcReplyPort<Result<Arc<MountedVolumes>, VolumeFailure>>,
        context: &Context<VolumeManagerMsg>,
    ) -> Input {
        let uid = uid_of(&pod);
        self.questions.entry(uid.clone()).or_default().push(Question::Mounted(reply));
        let wanted = self.want(uid.clone(), pod, context);
        self.workers.insert(uid, worker);
        wanted
    }

    fn objects_changed(&mut self, uids: BTreeSet<PodUid>, context: &Context<VolumeManagerMsg>) -> Vec<Input> {
        let wanted = uids.into_iter().filter_map(|uid| Some((self.pods.get(&uid)?, uid)));
        let known = wanted.filter(|(wanted, _)| !wanted.ending).map(|(wanted, uid)| (Arc::clone(&wanted.pod), uid));
        let known: Vec<(Arc<Pod>, PodUid)> = known.collect();
        known.into_iter().flat_map(|(pod, uid)| self.changed(uid, pod, context)).collect()
    }

    fn note_ending(&mut self, uid: PodUid) -> Option<Input> {
        self.pods.get_mut(&uid)?.ending = true;
        Some(Input::Settle { uid })
    }

    fn release(&mut self, uid: PodUid, reply: RpcReplyPort<Result<(), VolumeFailure>>) -> Input {
        self.questions.entry(uid.clone()).or_default().push(Question::Released(reply));
        self.note_released(&uid);
        if self.pods.remove(&uid).is_none() {
            self.strangers.insert(uid.clone());
        }
        self.tokens.remove(&uid);
        for (key, _) in self.certificates_of(&uid) {
            self.certificates.remove(&key);
        }
        Input::Release { uid }
    }

    /// An Event of a set-up that takes long, where one is due.
    fn tell_of_walk(&self, uid: &PodUid, event: Option<String>, context: &Context<VolumeManagerMsg>) {
        if let (Some(wanted), Some(message)) = (self.pods.get(uid), event) {
            let subject = EventSubject::pod(uid, &full_name(&wanted.pod));
            let event = subject.warning(EventReason::VolumePermissionChangeInProgress, message);
            context.tell(&self.args.event_recorder, event);
        }
    }

    fn all(&self) -> Vec<PodVolumes> {
        let all = self.pods.iter().map(|(uid, wanted)| (uid.clone(), Arc::clone(&wanted.pod), self.mounted(uid)));
        all.collect()
    }

    fn want(&mut self, uid: PodUid, pod: Arc<Pod>, context: &Context<VolumeManagerMsg>) -> Input {
        let plans: BTreeMap<String, VolumePlan> =
            volume_plans(&pod).into_iter().map(|plan| (plan.name.clone(), plan)).collect();
        let before = self.pods.remove(&uid).map(|before| (before.mounted, before.sizes, before.asked));
        let (mounted, sizes, mut asked) = before.unwrap_or_default();
        let again = |plan: &VolumePlan| {
            let mounted = mounted.get(&plan.name);
            let may_grow = sizes.contains_key(&plan.name);
            plan.is_set_up_again() || mounted.is_some_and(|mounted| mounted.republish || may_grow)
        };
        let volumes = plans.values().map(|plan| (plan.name.clone(), again(plan))).collect();
        asked.retain(|name, _| plans.contains_key(name));
        for plan in plans.values().filter(|plan| plan.is_set_up_again() || !mounted.contains_key(&plan.name)) {
            asked.entry(plan.name.clone()).or_insert(context.clock().uptime());
        }
        self.pods.insert(uid.clone(), WantedPod { pod, plans, mounted, sizes, asked, ending: false });
        Input::Want { uid, volumes }
    }

    /// Objects that the pod refers to changed: what failed for want of them is tried at once, and its worker asks again.
    fn changed(&mut self, uid: PodUid, pod: Arc<Pod>, context: &Context<VolumeManagerMsg>) -> Vec<Input> {
        let wanted = self.want(uid.clone(), pod, context);
        let plans = self.pods[&uid].plans.values();
        let volumes = plans.filter(|plan| plan.is_set_up_again()).map(|plan| plan.name.clone()).collect();
        if self.states.lacks_some(&uid)
            && let Some(worker) = self.workers.get(&uid)
        {
            context.tell_subscriber(worker, PodWorkerMsg::VolumesChanged);
        }
        vec![Input::Changed { uid, volumes }, wanted]
    }

    fn end(&mut self, uid: PodUid, task: Task, end: TaskEnd, context: &mut Context<VolumeManagerMsg>) -> Input {
        let TaskEnd { outcome, secrets } = end;
        let mut first = None;
        if let Some(wanted) = self.pods.get_mut(&uid) {
            let tokens = secrets.tokens.into_iter().map(|(key, text, life)| (key, Token { text, life }));
            self.tokens.entry(uid.clone()).or_default().extend(tokens);
            if let (Task::Mount(name), Ok(TaskGain { mounted: Some(mounted), .. })) = (&task, &outcome) {
                let had = wanted.mounted.insert(name.clone(), mounted.clone());
                first = had.is_none().then(|| mounted.clone());
                let took = wanted.asked.remove(name).map(|since| context.clock().uptime().saturating_sub(since));
                if let (Some(took), Some(plan), false) = (took, wanted.plans.get(name), mounted.is_device) {
                    let plugin = &planned_plugin(plan, Some(mounted)).replace('~', "/");
                    self.args.observer.observe(Observation::VolumeThere { plugin, took });
                }
            }
            let subject = EventSubject::pod(&uid, &full_name(&wanted.pod));
            if let Some(VolumeEvent { name, uid, message }) = secrets.of_volume {
                let volume = EventSubject::persistent_volume(&name, &uid);
                let event = volume.warning(EventReason::FailedMountOnFilesystemMismatch, message);
                context.tell(&self.args.event_recorder, event);
            }
            for (reason, message) in secrets.events {
                context.tell(&self.args.event_recorder, subject.warning(reason, message));
            }
            tell_of_claim(&subject, secrets.of_claim, &self.args.event_recorder, context);
            if let (Task::Mount(name), Some(size)) = (&task, secrets.size) {
                wanted.sizes.insert(name.clone(), size);
            }
            for (key, state) in secrets.certificates {
                match state {
                    Some(state) => drop(self.certificates.insert(key, state)),
                    None => drop(self.certificates.remove(&key)),
                }
            }
            if let Ok(gain) = &outcome {
                let news =
                    gain.news.iter().map(|text| subject.normal(EventReason::SuccessfulMountVolume, text.clone()));
                let warned =
                    gain.warning.iter().map(|text| subject.warning(EventReason::AlreadyMountedVolume, text.clone()));
                for event in news.chain(warned) {
                    context.tell(&self.args.event_recorder, event);
                }
            }
        }
        first.iter().for_each(|mounted| self.tell_label(&uid, mounted));
        self.count_found(&uid, &task, &outcome);
        if outcome.is_ok() || matches!(task, Task::Mount(_)) {
            self.note_gone(&uid, &task, context);
        }
        if let Err(failure) = &outcome {
            self.tell_failure(&uid, &task, failure, context);
        }
        Input::Ended { uid, task, outcome: outcome.map(|gain| gain.found) }
    }

    /// Volumes of a pod that this agent never gave any are of the time before it.
    fn count_found(&mut self, uid: &PodUid, task: &Task, outcome: &Result<TaskGain, TaskFailure>) {
        if *task == Task::List && self.strangers.remove(uid) {
            let count = outcome.as_ref().map_or(1, |gain| gain.found.len());
            self.args.observer.observe(Observation::VolumesFound { count, failed: outcome.is_err() });
        }
    }

    /// As upstream, there is an Event for each failed mount and none for a failed unmount (VOL-13); that is in the log, once
    /// for each reason.
    fn tell_failure(&self, uid: &PodUid, task: &Task, failure: &TaskFailure, context: &Context<VolumeManagerMsg>) {
        let message = &failure.message;
        match (self.pods.get(uid), task) {
            (Some(wanted), Task::Mount(_)) if !wanted.ending => {
                let subject = EventSubject::pod(uid, &full_name(&wanted.pod));
                let event = failure.reason.clone().map(|reason| subject.warning(reason, message.clone()));
                event.into_iter().for_each(|event| context.tell(&self.args.event_recorder, event));
            }
            (_, Task::Mount(_)) => {}
            _ => match self.states.log_level(uid, task, failure) {
                LogLevel::Debug => tracing::debug!(pod = %uid, %task, error = message, "a volume stays still"),
                _ => tracing::warn!(pod = %uid, %task, error = message, "a volume stays for now"),
            },
        }
    }

    fn begin_task(&mut self, Order { uid, task }: Order, context: &mut Context<VolumeManagerMsg>) {
        let about = match &task {
            Task::Mount(name) => format!("{name} of {uid}"),
            Task::Unmount(place) => place.to_string(),
            Task::List | Task::Finish => uid.to_string(),
        };
        let (of, done) = (uid.clone(), task.clone());
        let ended = move |outcome| {
            VolumeManagerMsg::Task(TaskNews::TaskEnded { uid: of, task: done, outcome: Box::new(outcome) })
        };
        let host = Arc::clone(&self.args.volumes);
        match task {
            Task::Mount(name) => {
                let work = self.mount(uid, &name, context);
                context.start("mount volume", about, work, ended);
            }
            Task::List => {
                let work = async move {
                    let found = host.volumes_of(&uid).await;
                    let found = found.map(|found| TaskGain { found, ..TaskGain::default() });
                    TaskEnd::of(found.map_err(tasks::failed))
                };
                context.start("list volumes", about, work, ended);
            }
            Task::Unmount(place) => {
                let (timing, csi) = (self.timing(context), self.args.csi.clone());
                let work = async move {
                    let is_driven = place.plugin == plugin::CSI;
                    let gone = async {
                        match is_driven {
                            true => csi.unpublish(&place).await.map_err(tasks::failure),
                            false => host.tear_down(&place).await.map_err(tasks::failed),
                        }
                    };
                    let plugin = if is_driven { csi.plugin_of(&place).await } else { place.plugin.clone() };
                    let gone = timing.of(&plugin, unmounting(place.is_device), gone).await;
                    TaskEnd::of(gone.map(|()| TaskGain::default()))
                };
                context.start("unmount volume", about, work, ended);
            }
            Task::Finish => {
                let work = async move {
                    let gone = host.release(&uid).await;
                    TaskEnd::of(gone.map(|()| TaskGain::default()).map_err(tasks::failed))
                };
                context.start("release volumes", about, work, ended);
            }
        }
    }

    fn timing(&self, context: &Context<VolumeManagerMsg>) -> Timing {
        Timing { observer: Arc::clone(&self.args.observer), clock: Arc::clone(context.clock()) }
    }

    /// The work that has one volume of a wanted pod there.
    fn mount(
        &self,
        uid: PodUid,
        name: &str,
        context: &Context<VolumeManagerMsg>,
    ) -> impl Future<Output = TaskEnd> + Send + use<> {
        debug_assert!(self.pods.contains_key(&uid), "volumes are mounted for wanted pods alone");
        let wanted = &self.pods[&uid];
        let (means, node_status, cause) = (self.args.means.clone(), self.args.node_status.clone(), context.cause());
        let (me, cause_of_moves) = (context.address().clone(), context.cause());
        let (of_moves, task_moves) = (uid.clone(), Task::Mount(name.to_owned()));
        let csi = self.csi_task(&uid, name, context);
        let needs_node = wanted.plans[name].needs_node();
        let mut work = MountTask {
            timing: self.timing(context),
            objects: Arc::clone(&self.args.objects),
            host: Arc::clone(&self.args.volumes),
            node: NodeFacts::of(None, &means),
            own_node: None,
            pod: Arc::clone(&wanted.pod),
            plan: wanted.plans[name].clone(),
            certificates: self.certificates_of(&uid),
            tokens: self.tokens.get(&uid).into_iter().flatten().map(own).collect(),
            now: context.now(),
            chance: self.args.chance.next(),
            labelling: self.args.labelling.clone(),
            moves: Box::new(move |doing, event| {
                let (uid, task) = (of_moves.clone(), task_moves.clone());
                let news = TaskNews::TaskMoves { uid, task, doing, event };
                // Lost, it comes again.
                let _ = me.tell(cause_of_moves.clone(), VolumeManagerMsg::Task(news));
            }),
            csi,
            uid,
        };
        async move {
            if needs_node {
                work.own_node = own_node(&node_status, cause).await;
                work.node = NodeFacts::of(work.own_node.as_deref(), &means);
            }
            work.run().await
        }
    }

    fn census(&self) -> VolumeCensus {
        let mut census = VolumeCensus::default();
        for wanted in self.pods.values() {
            for (name, plan) in &wanted.plans {
                let mounted = wanted.mounted.get(name);
                let plugin = planned_plugin(plan, mounted).replace('~', "/");
                *census.desired.entry(plugin.clone()).or_default() += 1;
                *census.actual.entry(plugin).or_default() += usize::from(mounted.is_some());
            }
        }
        census.actual.retain(|_, count| *count > 0);
        census
    }

    fn certificates_of(&self, uid: &PodUid) -> Vec<(CertificateKey, CertificateState)> {
        let first = CertificateKey { pod_uid: uid.clone(), volume: String::new(), source: 0 };
        let own = self.certificates.range(first..).take_while(|(key, _)| key.pod_uid == *uid);
        own.map(|(key, state)| (key.clone(), state.clone())).collect()
    }

    /// Answers those who wait for this pod's volumes, if there is an answer.
    fn answer(&mut self, uid: &PodUid, context: &Context<VolumeManagerMsg>) {
        let now = context.steady();
        let mut open = Vec::new();
        for question in self.questions.remove(uid).unwrap_or_default() {
            let standing = match &question {
                Question::Mounted(reply) if !reply.is_closed() => self.states.mounted(uid, now),
                Question::Released(reply) if !reply.is_closed() => self.states.released(uid, now),
                _ => continue, // The asker has left.
            };
            let outcome = match standing {
                Standing::Working => {
                    open.push(question);
                    continue;
                }
                Standing::Done => Ok(()),
                Standing::Failed(failure) => {
                    Err(VolumeFailure { retry_after: failure.retry_after.max(RETRY_MIN), ..failure })
                }
            };
            // The asker may leave at any time.
            match question {
                Question::Mounted(reply) => {
                    let _ = reply.send(outcome.map(|()| self.mounted(uid)));
                }
                Question::Released(reply) => {
                    if outcome.is_ok() {
                        self.workers.remove(uid);
                    }
                    let _ = reply.send(outcome);
                }
            }
        }
        if !open.is_empty() {
            self.questions.insert(uid.clone(), open);
        }
    }

    fn mounted(&self, uid: &PodUid) -> Arc<MountedVolumes> {
        let volumes = self.pods.get(uid).map(|wanted| wanted.mounted.clone()).unwrap_or_default();
        Arc::new(MountedVolumes { volumes })
    }

    /// One timer, for whatever is due next; and who hangs, for whoever looks.
    fn arm(&mut self, context: &mut Context<VolumeManagerMsg>) {
        let hanging = self.args.volumes.hanging();
        let note = hanging.first().map(|(what, since)| {
            format!("{what} has not ended since {}, one of {} such calls", since.to_timestamp(), hanging.len())
        });
        context.address().record().set_note(note);
        let due = self.states.wake_at();
        // One that comes too early looks, and is set anew: nearly all that a timer waits for ends long before.
        if self.wake.as_ref().map(|(at, _)| *at).is_some_and(|set| due.is_none_or(|due| set <= due)) {
            return;
        }
        if let Some((_, timer)) = self.wake.take() {
            context.cancel(timer);
        }
        if let Some(at) = due {
            let delay = at.since(context.steady()) + Duration::from_millis(1);
            self.wake = Some((at, context.after(delay, VolumeManagerMsg::RetryDue { at })));
        }
    }
}

/// Events of a claim, each of the pod that has it too.
fn tell_of_claim(
    pod: &EventSubject,
    events: Vec<ClaimEvent>,
    recorder: &Address<EventRecorderMsg>,
    context: &Context<VolumeManagerMsg>,
) {
    for ClaimEvent { name, uid, reason, is_warning, message } in events {
        let full_name = FullName::new(&name, &pod.full_name.namespace);
        let claim = EventSubject { uid: PodUid::from(uid.as_str()), full_name, field_path: String::new() };
        let event = |of: &EventSubject| match is_warning {
            true => of.warning(reason.clone(), message.clone()),
            false => of.normal(reason.clone(), message.clone()),
        };
        context.tell(recorder, event(pod));
        context.tell(recorder, event(&claim).of_claim());
    }
}

fn own((key, token): (&TokenKey, &Token)) -> (TokenKey, Token) {
    (key.clone(), token.clone())
}

fn lost(task: &Task, loss: &Lost) -> TaskFailure {
    tasks::failure(format!("{task}: {loss}"))
}

fn uid_of(pod: &Pod) -> PodUid {
    PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default())
}

fn full_name(pod: &Pod) -> FullName {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    FullName::new(&text(&pod.metadata.name), &text(&pod.metadata.namespace))
}

/// The Node, where there is one.
pub(in crate::actors) async fn own_node(node_status: &Address<NodeStatusMsg>, cause: Cause) -> Option<Arc<Node>> {
    node_status.ask(cause, NODE_PATIENCE, NodeStatusMsg::Node).await.ok().flatten()
}
