//! `StatusManager`: the newest status of every pod, and the manifests that give none, for whoever asks; and for the API
//! server, which is sent what it does not have yet, and has the pods deleted that are over.
//!
//! Parent: Root. Restarted: after a failure; the pods' workers and the sources tell it everything again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use ractor::RpcReplyPort;

use super::watchers::Watchers;
use crate::actors::kit::actor::Actor;
use crate::actors::kit::context::{Context, OperationId};
use crate::logic::model::ids::PodUid;
use crate::logic::model::pod_phase::is_terminal;
use crate::logic::pods::node_stop::NodeStop;
use crate::logic::pods::pod_roster::{config_hash, full_name, is_static};
use crate::logic::pods::settling::Settling;
use crate::logic::pods::wait::{ApiWait, PodWait};
use crate::logic::status::device_health::{DevicesOfPods, with_device_health};
use crate::logic::status::pod_status::{never_back, newly_ended};
use crate::logic::status::status_gates::StatusGates;
use crate::logic::status::status_sync::merge::all_ended;
use crate::logic::status::status_sync::{Answer, Call, Order, Own, StatusSync};
use crate::messages::pods::pod_source::SourceKind;
use crate::messages::status::status_manager::{
    ApiNews, Patience, PodNews, PodView, RefusedManifest, StatusManagerMsg, StatusTimer,
};
use crate::platform::cluster::kube_api::{ApiError, ApiServer, PatchKind, Place};
use crate::platform::host::chance::Chance;
use crate::platform::observer::{Observation, Observer};

/// The most askers that may wait at once until all pods are known; one more is answered at once.
const WAITING_MAX: usize = 1024;

/// So long the agent is new: whoever asks for all pods waits no longer for those that nobody has named yet.
const NEW: Duration = Duration::from_secs(10);

/// The actor's arguments.
pub struct Args {
    /// The API server, where one is named.
    pub api: Option<ApiServer>,
    /// Which parts of statuses are the agent's own.
    pub gates: StatusGates,
    /// Spreads retries.
    pub chance: Arc<dyn Chance>,
    /// Counts what happens to pods.
    pub observer: Arc<dyn Observer>,
}

/// See the module.
pub struct StatusManager {
    args: Args,
    pods: BTreeMap<PodUid, PodView>,
    sync: StatusSync,
    /// The timer, and the uptime that it is set to.
    wake: Option<(Duration, OperationId)>,
    refused: BTreeMap<SourceKind, Vec<RefusedManifest>>,
    /// Pods that are gone from the node, and whose objects the API server still has.
    left: BTreeSet<PodUid>,
    /// Pods that the node itself ends.
    stopped: BTreeMap<PodUid, Arc<NodeStop>>,
    /// Since when what is here differs from what the API server was sent, in uptime.
    changed: BTreeMap<PodUid, Duration>,
    /// The health of the devices that pods own.
    devices: Arc<DevicesOfPods>,
    /// The same of what is on its way.
    sent: BTreeMap<PodUid, Duration>,
    /// Whether all pods are known since the start, and who waits for that.
    settling: Settling,
    waiting: Vec<(Patience, RpcReplyPort<()>)>,
    is_new: bool,
    watchers: Watchers,
}

impl Actor for StatusManager {
    const KIND: &'static str = "StatusManager";
    type Msg = StatusManagerMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<StatusManagerMsg>) -> Self {
        context.after(NEW, StatusManagerMsg::Timer(StatusTimer::NewNoMore));
        let observer = Arc::clone(&args.observer);
        let (pods, sync, refused) = (BTreeMap::new(), StatusSync::telling(args.gates), BTreeMap::new());
        Self {
            args,
            pods,
            sync,
            wake: None,
            refused,
            left: BTreeSet::new(),
            stopped: BTreeMap::new(),
            devices: Arc::default(),
            changed: BTreeMap::new(),
            sent: BTreeMap::new(),
            settling: Settling::default(),
            waiting: vec![],
            is_new: true,
            watchers: Watchers::new(observer),
        }
    }

    fn receive(&mut self, message: StatusManagerMsg, context: &mut Context<StatusManagerMsg>) {
        match message {
            StatusManagerMsg::StatusChanged(view) if self.is_told(&view) => self.show(view),
            StatusManagerMsg::StatusChanged(view) => self.take(view, context),
            StatusManagerMsg::Pods(news) => self.hear_of_pods(news, context),
            StatusManagerMsg::Api(news) => self.hear_of_api(news, context),
            StatusManagerMsg::Answered(uid, outcome) => {
                let answer = outcome.unwrap_or(Answer::Failed(None));
                self.count_sent(&uid, &answer, context);
                self.sync.answered(&uid, answer, context.clock().uptime(), self.args.chance.next());
            }
            StatusManagerMsg::Timer(StatusTimer::SendDue) => self.wake = None,
            StatusManagerMsg::Timer(StatusTimer::NewNoMore) => self.is_new = false,
            StatusManagerMsg::Refused(source, manifests) => {
                if self.refused.insert(source, manifests.clone()).is_none_or(|before| before != manifests) {
                    self.watchers.tell_refusals();
                }
            }
            StatusManagerMsg::Settled(patience, reply) => self.wait(patience, reply),
            StatusManagerMsg::List(reply) => return self.list(reply),
            StatusManagerMsg::Watch(watcher, reply) => return self.watchers.begin(watcher, &self.pods, reply),
            StatusManagerMsg::Refusals(reply) => return self.list_refused(reply),
        }
        self.answer_waiting();
        self.carry_out(context);
        self.show_api_waits();
    }
}

impl StatusManager {
    fn hear_of_pods(&mut self, news: PodNews, context: &Context<StatusManagerMsg>) {
        match news {
            PodNews::Devices(devices) => self.take_devices(devices, context),
            PodNews::Stopped(uid, stop) => drop(self.stopped.entry(uid).or_insert(stop)),
            PodNews::PodForgotten(uid) => self.forget(&uid),
            PodNews::NeverHere(uid) => self.sync.never_here(&uid),
            PodNews::Rejected(view) => {
                let uid = view.uid.clone();
                // Of a pod that made room its worker has told more than whoever repeats it.
                let is_told = self.sync.has_own(&uid) && self.stopped.contains_key(&uid);
                if !is_told {
                    self.take(view, context);
                }
                self.sync.never_here(&uid);
            }
            PodNews::HeardAll(pods) => self.settling.heard_all(&pods, |uid| self.pods.contains_key(uid)),
            PodNews::Known { pods, ended } => {
                self.settling.keep_only(&pods);
                for (_, gone) in self.pods.extract_if(.., |uid, _| !pods.contains(uid) && !self.left.contains(uid)) {
                    self.watchers.tell(Some(&gone), None);
                }
                self.stopped.retain(|uid, _| pods.contains(uid));
                self.sync.keep_only(&pods);
                ended.iter().for_each(|uid| self.sync.never_here(uid));
            }
        }
    }

    fn hear_of_api(&mut self, news: ApiNews, context: &Context<StatusManagerMsg>) {
        match news {
            ApiNews::ApiPods(pods) => {
                let shown = |pod| self.args.observer.observe(Observation::PodShown { pod, at: context.now() });
                pods.iter().for_each(|pod| shown(pod));
                self.sync.all(&pods);
                self.drop_left();
            }
            ApiNews::ApiPodSeen(pod) => {
                self.args.observer.observe(Observation::PodShown { pod: &pod, at: context.now() });
                self.sync.seen(pod);
            }
            ApiNews::ApiPodGone(pod) => {
                self.sync.gone(&pod);
                let uid = PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default());
                self.args.observer.observe(Observation::PodGone(&uid));
                if !self.sync.is_in_api(&uid) && self.left.remove(&uid) {
                    self.watchers.tell(self.pods.remove(&uid).as_ref(), None);
                }
            }
        }
    }

    /// Nothing is left of the pod on the node. The pod can be looked at for as long as the API server has its object.
    fn forget(&mut self, uid: &PodUid) {
        self.settling.told(uid);
        let is_left = self.sync.is_in_api(uid);
        match self.pods.get(uid).filter(|_| is_left || self.stopped.contains_key(uid)) {
            Some(view) => {
                self.put(PodView { may_run: false, waiting: Arc::default(), ..view.clone() });
                self.left.extend(is_left.then(|| uid.clone()));
            }
            None => self.watchers.tell(self.pods.remove(uid).as_ref(), None),
        }
        self.sync.finished(uid);
    }

    /// Forgets pods that are gone from the API as well.
    fn drop_left(&mut self) {
        for uid in self.left.extract_if(.., |uid| !self.sync.is_in_api(uid)) {
            self.watchers.tell(self.pods.remove(&uid).as_ref(), None);
        }
    }

    /// Tells of pods whose status the API server keeps otherwise, once each, and shows it in their waits.
    fn show_api_waits(&mut self) {
        for (uid, name) in self.sync.changed_waits() {
            if let Some(wait) = self.sync.api_wait(&uid) {
                tracing::warn!(pod = %name, "the pod waits for {wait}");
                if let ApiWait::NotTaken { .. } | ApiWait::Refused { .. } = wait {
                    let refused = matches!(wait, ApiWait::Refused { .. });
                    self.args.observer.observe(Observation::StatusNotTaken { refused });
                }
            }
            if let Some(view) = self.pods.get(&uid).cloned() {
                self.put(view);
            }
        }
    }

    fn list_refused(&self, reply: RpcReplyPort<Vec<(SourceKind, RefusedManifest)>>) {
        let of = |(source, manifests): (&SourceKind, &Vec<RefusedManifest>)| {
            manifests.iter().map(|manifest| (*source, manifest.clone())).collect::<Vec<_>>()
        };
        let _ = reply.send(self.refused.iter().flat_map(of).collect()); // The asker may have left.
    }

    fn wait(&mut self, patience: Patience, reply: RpcReplyPort<()>) {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.retain(|(_, reply)| !reply.is_closed());
        }
        match self.waiting.len() < WAITING_MAX {
            true => self.waiting.push((patience, reply)),
            false => drop(reply.send(())), // The asker may have left.
        }
    }

    fn answer_waiting(&mut self) {
        let (settled, is_new) = (self.settling.is_settled(), self.is_new);
        let is_over = |(patience, _): &mut (Patience, _)| settled || (*patience == Patience::WhileNew && !is_new);
        for (_, reply) in self.waiting.extract_if(.., is_over) {
            let _ = reply.send(()); // The asker may have left.
        }
    }

    /// Statuses of pods show the health of their devices. A pod that gave its devices back goes on showing them.
    fn take_devices(&mut self, devices: Arc<DevicesOfPods>, context: &Context<StatusManagerMsg>) {
        let before = std::mem::replace(&mut self.devices, devices);
        let changed = self.devices.iter().filter(|(uid, own)| before.get(*uid) != Some(*own));
        let views: Vec<PodView> = changed.filter_map(|(uid, _)| self.pods.get(uid).cloned()).collect();
        views.into_iter().for_each(|view| self.take(view, context));
    }

    /// Whether nothing is new but the waits of the pod, which only people hear of.
    fn is_told(&self, view: &PodView) -> bool {
        let is_same = |shown: &PodView| {
            Arc::ptr_eq(&shown.status, &view.status)
                && Arc::ptr_eq(&shown.pod, &view.pod)
                && (shown.may_run, shown.is_over) == (view.may_run, view.is_over)
        };
        !self.stopped.contains_key(&view.uid)
            && self.pods.get(&view.uid).is_some_and(is_same)
            && (self.args.api.is_none() || self.sync.has_own(&view.uid))
    }

    fn take(&mut self, mut view: PodView, context: &Context<StatusManagerMsg>) {
        if let Some(devices) = self.devices.get(&view.uid) {
            view.status = with_device_health(&view.status, devices);
        }
        if let Some(shown) = self.pods.get(&view.uid) {
            never_back(&mut view.status, &shown.status);
        }
        if let Some(stop) = self.stopped.get(&view.uid) {
            view.status = Arc::new(stop.status(PodStatus::clone(&view.status)));
        }
        if !view.may_run && view.status.phase.as_deref().is_some_and(is_terminal) {
            view.status = Arc::new(all_ended(PodStatus::clone(&view.status)));
        }
        self.count_ended(&view);
        if self.args.api.is_some() {
            let own = Own {
                full_name: full_name(&view.pod),
                is_static: is_static(&view.pod),
                config_hash: config_hash(&view.pod),
                status: Arc::clone(&view.status),
                may_run: view.may_run,
            };
            self.sync.own(&view.uid, own);
            if view.is_over {
                self.sync.never_here(&view.uid); // Not any more: it may go as soon as the API is known to have it.
            }
            self.changed.entry(view.uid.clone()).or_insert(context.clock().uptime());
        }
        self.show(view);
    }

    /// Shows this from now on to all who ask for the pod, or watch it.
    fn show(&mut self, view: PodView) {
        self.settling.told(&view.uid);
        self.left.remove(&view.uid);
        self.put(view);
    }

    /// Puts the pod into the list, with its wait for the API server behind its others.
    fn put(&mut self, mut view: PodView) {
        let is_api = |wait: &PodWait| matches!(wait, PodWait::Api(_));
        let wait = self.sync.api_wait(&view.uid);
        if wait.is_some() || view.waiting.iter().any(is_api) {
            let others = view.waiting.iter().filter(|wait| !is_api(wait)).cloned();
            view.waiting = Arc::new(others.chain(wait.cloned().map(PodWait::Api)).collect());
        }
        let was = self.pods.insert(view.uid.clone(), view.clone());
        self.watchers.tell(was.as_ref(), Some(&view));
    }

    /// Counts containers that have ended since the agent last reported the pod's status.
    fn count_ended(&self, view: &PodView) {
        let shown = self.pods.get(&view.uid).map(|shown| &*shown.status);
        for ended in newly_ended(shown.or(view.pod.status.as_ref()), &view.status) {
            self.args.observer.observe(Observation::ContainerEnded(ended));
        }
    }

    /// Counts how long a status took from its first change that the API server had not seen until it was there.
    fn count_sent(&mut self, uid: &PodUid, answer: &Answer, context: &Context<StatusManagerMsg>) {
        let Some(sent) = self.sent.remove(uid) else { return };
        let uptime = context.clock().uptime();
        match answer {
            Answer::Done(Some(_)) => {
                self.args.observer.observe(Observation::StatusSent { took: uptime.saturating_sub(sent) });
            }
            // It is as old as it was.
            Answer::Away | Answer::Failed(_) | Answer::Refused(_) | Answer::Gone => {
                self.changed.insert(uid.clone(), sent);
            }
            Answer::Done(None) => {}
        }
    }

    fn list(&self, reply: RpcReplyPort<Vec<PodView>>) {
        if reply.is_closed() {
            return;
        }
        let mut views: Vec<PodView> = self.pods.values().cloned().collect();
        views.sort_by(|one, other| place(one).cmp(&place(other)));
        let _ = reply.send(views); // The asker may have left.
    }

    fn carry_out(&mut self, context: &mut Context<StatusManagerMsg>) {
        let Some(api) = self.args.api.clone() else { return };
        let now = context.clock().uptime();
        let (orders, wake) = self.sync.orders(now);
        for order in orders {
            let uid = order.uid.clone();
            if let Some(changed) = self.changed.remove(&uid) {
                self.sent.insert(uid.clone(), changed);
            }
            let (name, about) = match order.call {
                Call::Patch { .. } => ("patch status", order.full_name.to_string()),
                Call::Delete => ("delete pod", order.full_name.to_string()),
            };
            context
                .start(name, about, send(api.clone(), order), move |outcome| StatusManagerMsg::Answered(uid, outcome));
        }
        // The API server has what is here of these.
        for uid in self.sync.take_settled() {
            self.changed.remove(&uid);
        }
        if self.wake.map(|(set, _)| set) == wake {
            return;
        }
        if let Some((_, timer)) = self.wake.take() {
            context.cancel(timer);
        }
        self.wake = wake
            .map(|due| (due, context.after(due.saturating_sub(now), StatusManagerMsg::Timer(StatusTimer::SendDue))));
    }
}

async fn send(api: ApiServer, order: Order) -> Answer {
    let (at, name) = (Place::namespace(&*order.full_name.namespace), &*order.full_name.name);
    let answer = match &order.call {
        Call::Patch { body } => {
            let patched = api.patch::<Pod>(&at, name, Some("status"), PatchKind::Strategic, body).await;
            patched.map(|pod| Some(Arc::new(pod)))
        }
        Call::Delete => {
            let deleted = api.delete::<Pod>(&at, name, Some(0), Some(order.api_uid.as_str())).await;
            deleted.map(|()| None)
        }
    };
    answer.map_or_else(|error| refused(&order, &error), Answer::Done)
}

fn refused(order: &Order, error: &ApiError) -> Answer {
    // A conflict says either that there is another pod of this name, which the watch will bring, or only that others wrote
    // the same object: what is to be sent is as due as before.
    if error.is_not_found() {
        tracing::debug!(pod = %order.full_name, %error, "the API has no such pod");
        return Answer::Gone;
    }
    // The log has the first refusal of each pod, with the server's words.
    if order.call != Call::Delete && (error.is_invalid() || error.is_forbidden()) {
        return Answer::Refused(error.to_string());
    }
    tracing::warn!(pod = %order.full_name, %error, "pod status cannot be sent yet");
    if error.is_unreachable() { Answer::Away } else { Answer::Failed(error.retry_after()) }
}

/// By namespace and name; of two pods of one name the one that is over comes last.
fn place(view: &PodView) -> (Option<&str>, Option<&str>, bool, &PodUid) {
    (view.pod.metadata.namespace.as_deref(), view.pod.metadata.name.as_deref(), view.is_over, &view.uid)
}
