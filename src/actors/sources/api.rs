//! `ApiSource`: pods that the API server puts on this node, and the mirrors of static ones.
//!
//! Parent: Root. Restarted: after a failure; the API server tells it all again. Nothing to do without one. `PodManager`
//! hears of what a pod is to be, `StatusManager` of everything, `MirrorManager` of mirrors alone. While the API server is
//! away, what it said last stands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::Notify;

use super::mark_seen;
use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::actors::kit::trace::Cause;
use crate::logic::manifest::identity::CONFIG_SOURCE_ANNOTATION;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_roster::is_news;
use crate::logic::status::status_sync::is_mirror;
use crate::messages::pods::offline_pods::OfflinePodsMsg;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::pods::pod_source::{ApiSourceMsg, Overrun, SourceKind};
use crate::messages::status::mirror_manager::MirrorManagerMsg;
use crate::messages::status::status_manager::{ApiNews, StatusManagerMsg};
use crate::platform::cluster::kube_api::reflector::{Followed, follow};
use crate::platform::cluster::kube_api::{ApiServer, Place, Selector};
use crate::platform::host::chance::Chance;

/// Wait before the API server is followed anew after more came at once than could be taken.
const FOLLOW_AGAIN: Duration = Duration::from_secs(1);

/// Wait before all news go again to one who had no room for them.
const RETELL: Duration = Duration::from_secs(1);

/// The actor's arguments.
pub struct Args {
    /// The node whose pods are followed.
    pub node_name: String,
    /// The API server, where one is named.
    pub api: Option<ApiServer>,
    /// Whether a pod's claim for extended resources counts, `DRAExtendedResource`.
    pub has_extended_claims: bool,
    /// Spreads tries.
    pub chance: Arc<dyn Chance>,
    /// Hears what each pod is to be.
    pub pod_manager: Address<PodManagerMsg>,
    /// Hears of every pod and mirror.
    pub status_manager: Address<StatusManagerMsg>,
    /// Hears of mirrors.
    pub mirror_manager: Address<MirrorManagerMsg>,
    /// Hears when the API server cannot be heard at the start.
    pub offline_pods: Address<OfflinePodsMsg>,
}

/// See the module.
pub struct ApiSource {
    args: Args,
    /// All pods and mirrors as the API server showed them last.
    shown: BTreeMap<PodUid, Arc<Pod>>,
    /// The pods that `PodManager` has; `None` before the first list. Mirrors are not run, and not told there.
    told: Option<BTreeMap<PodUid, Arc<Pod>>>,
    /// A timer runs, because somebody had no room.
    retelling: bool,
}

impl Actor for ApiSource {
    const KIND: &'static str = "ApiSource";
    type Msg = ApiSourceMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<ApiSourceMsg>) -> Self {
        let source = Self { args, shown: BTreeMap::new(), told: None, retelling: false };
        source.follow(context);
        source
    }

    fn receive(&mut self, message: ApiSourceMsg, context: &mut Context<ApiSourceMsg>) {
        match message {
            ApiSourceMsg::FollowDue => self.follow(context),
            ApiSourceMsg::FollowEnded(why) => {
                let why = why.map_or_else(|loss| loss.to_string(), |Overrun| "it told too much at once".to_owned());
                tracing::warn!(why, "pods of the API server are listed again");
                context.after(FOLLOW_AGAIN, ApiSourceMsg::FollowDue);
            }
            ApiSourceMsg::Listed(pods) => self.take_all(pods, context),
            ApiSourceMsg::Applied(pod) => self.apply(*pod, context),
            ApiSourceMsg::Deleted(pod) => self.remove(&pod, context),
            ApiSourceMsg::Trouble(why) => {
                tracing::warn!(why, "pods of the API server cannot be heard of, they stay as they are");
                if self.told.is_none() {
                    context.tell(&self.args.offline_pods, OfflinePodsMsg::ApiSilent);
                }
            }
            ApiSourceMsg::RetellDue | ApiSourceMsg::Repeat => {
                self.retelling = false;
                if self.told.is_some() {
                    self.told = Some(self.wanted());
                    self.tell_pods(context);
                    self.tell_shown(context);
                    self.tell_mirrors(true, context);
                }
            }
        }
    }
}

/// Follows the node's pods until the mailbox is full: then something was lost, and all are listed again.
async fn follow_pods(api: ApiServer, node: String, me: Address<ApiSourceMsg>, chance: Arc<dyn Chance>) -> Overrun {
    let overrun = Notify::new();
    let tell = |followed: Followed<Pod>| {
        let message = match followed {
            Followed::Reset(pods) => ApiSourceMsg::Listed(pods),
            Followed::Applied(pod) => ApiSourceMsg::Applied(Box::new(pod)),
            Followed::Deleted(pod) => ApiSourceMsg::Deleted(Box::new(pod)),
            Followed::Trouble(error) => ApiSourceMsg::Trouble(error.to_string()),
        };
        if me.tell(Cause::outside("API server"), message).is_err() {
            overrun.notify_one();
        }
    };
    let selector = Selector::fields(format!("spec.nodeName={node}"));
    let chance = || chance.next();
    let followed = follow(&api, &Place::Cluster, &selector, chance, tell);
    tokio::select! {
        biased;
        () = overrun.notified() => Overrun,
        never = followed => match never {},
    }
}

impl ApiSource {
    fn follow(&self, context: &mut Context<ApiSourceMsg>) {
        let Some(api) = self.args.api.clone() else { return };
        let (node, me) = (self.args.node_name.clone(), context.address().clone());
        let work = follow_pods(api, node.clone(), me, Arc::clone(&self.args.chance));
        context.start("watch pods", node, work, ApiSourceMsg::FollowEnded);
    }

    fn take_all(&mut self, pods: Vec<Pod>, context: &mut Context<ApiSourceMsg>) {
        let known = std::mem::take(&mut self.shown);
        for pod in pods {
            let uid = uid_of(&pod);
            let pod = self.marked(pod, known.get(&uid), context);
            self.shown.insert(uid, pod);
        }
        self.tell_shown(context);
        self.tell_mirrors(true, context);
        self.told = Some(self.wanted());
        self.tell_pods(context);
    }

    /// Says on the pod itself where it comes from and since when it is known, as upstream does (POD-05).
    fn marked(&self, mut pod: Pod, before: Option<&Arc<Pod>>, context: &Context<ApiSourceMsg>) -> Arc<Pod> {
        let source = SourceKind::Api.as_str().to_owned();
        if is_mirror(&pod) {
            return Arc::new(pod); // It never runs.
        }
        pod.metadata.annotations.get_or_insert_default().insert(CONFIG_SOURCE_ANNOTATION.to_owned(), source);
        mark_seen(&mut pod, before.map(|pod| &**pod), context.now());
        if !self.args.has_extended_claims
            && let Some(status) = &mut pod.status
        {
            status.extended_resource_claim_status = None;
        }
        Arc::new(pod)
    }

    fn apply(&mut self, pod: Pod, context: &mut Context<ApiSourceMsg>) {
        let uid = uid_of(&pod);
        let pod = self.marked(pod, self.shown.get(&uid), context);
        self.shown.insert(uid.clone(), Arc::clone(&pod));
        let has_room =
            context.try_tell(&self.args.status_manager, StatusManagerMsg::Api(ApiNews::ApiPodSeen(Arc::clone(&pod))));
        self.see_to(has_room, context);
        if is_mirror(&pod) { self.tell_mirrors(false, context) } else { self.tell_pod(uid, Some(pod), context) }
    }

    fn remove(&mut self, pod: &Pod, context: &mut Context<ApiSourceMsg>) {
        let uid = uid_of(pod);
        let Some(pod) = self.shown.remove(&uid) else { return };
        let has_room =
            context.try_tell(&self.args.status_manager, StatusManagerMsg::Api(ApiNews::ApiPodGone(Arc::clone(&pod))));
        self.see_to(has_room, context);
        if is_mirror(&pod) { self.tell_mirrors(false, context) } else { self.tell_pod(uid, None, context) }
    }

    /// Tells `PodManager` of one pod when what it is to be has changed, or when there may be room for a resize that waits;
    /// a pod whose status changed otherwise costs nothing there, and no other pod is looked at.
    fn tell_pod(&mut self, uid: PodUid, pod: Option<Arc<Pod>>, context: &mut Context<ApiSourceMsg>) {
        let Some(told) = &mut self.told else { return }; // The first list is still to come.
        let is_news = match (told.get(&uid), &pod) {
            (Some(before), Some(now)) => is_news(before, now),
            (before, now) => before.is_some() || now.is_some(),
        };
        if !is_news {
            return;
        }
        match &pod {
            Some(pod) => drop(told.insert(uid.clone(), Arc::clone(pod))),
            None => drop(told.remove(&uid)),
        }
        let news = PodManagerMsg::SourcePod { source: SourceKind::Api, uid, pod };
        let has_room = context.try_tell(&self.args.pod_manager, news);
        self.see_to(has_room, context);
    }

    /// All pods that are to run: as they were sent where there is no news of them, else as the API server has them.
    fn wanted(&self) -> BTreeMap<PodUid, Arc<Pod>> {
        let newest = |uid: &PodUid, pod: &Arc<Pod>| {
            let told = self.told.as_ref().and_then(|told| told.get(uid));
            Arc::clone(told.filter(|before| !is_news(before, pod)).unwrap_or(pod))
        };
        let wanted = self.shown.iter().filter(|(_, pod)| !is_mirror(pod));
        wanted.map(|(uid, pod)| (uid.clone(), newest(uid, pod))).collect()
    }

    fn tell_pods(&mut self, context: &mut Context<ApiSourceMsg>) {
        let pods = self.told.clone().unwrap_or_default();
        let set = PodManagerMsg::SourceSet { source: SourceKind::Api, pods, lives: BTreeMap::new() };
        let has_room = context.try_tell(&self.args.pod_manager, set);
        self.see_to(has_room, context);
    }

    fn tell_shown(&mut self, context: &mut Context<ApiSourceMsg>) {
        let all: Vec<Arc<Pod>> = self.shown.values().cloned().collect();
        let has_room = context.try_tell(&self.args.status_manager, StatusManagerMsg::Api(ApiNews::ApiPods(all)));
        self.see_to(has_room, context);
    }

    /// Tells all mirrors; whether the API server has just listed them, or somebody had no room for that.
    fn tell_mirrors(&mut self, are_listed: bool, context: &mut Context<ApiSourceMsg>) {
        let mirrors = self.shown.values().filter(|pod| is_mirror(pod)).cloned().collect();
        let all = MirrorManagerMsg::Mirrors { mirrors, are_listed };
        let has_room = context.try_tell(&self.args.mirror_manager, all);
        self.see_to(has_room, context);
    }

    /// Changes go out once: a change that somebody had no room for goes out again soon.
    fn see_to(&mut self, has_room: bool, context: &mut Context<ApiSourceMsg>) {
        if !has_room && !std::mem::replace(&mut self.retelling, true) {
            context.after(RETELL, ApiSourceMsg::RetellDue);
        }
    }
}

fn uid_of(pod: &Pod) -> PodUid {
    PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default())
}
