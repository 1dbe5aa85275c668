//! `ObjectCache`: ConfigMaps and Secrets that pods refer to, and services, each as new as the configuration wants it.
//!
//! Parent: Root. Restarted: after a failure; workers tell their pods again, the API server gives the rest.
//! `logic::objects::object_cache` decides which objects are watched and read; here it is carried out. Keeps objects only
//! while a pod refers to them, and of services the parts of which variables are made. Has nothing to do where no API
//! server is named, nor a folder of the node's own objects (`--local-objects`), which then takes its place.

mod local;
mod objects;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Service};
use ractor::RpcReplyPort;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::trace::Cause;
use crate::logic::environment::service_environment::{MASTER, service_variables};
use crate::logic::model::ids::PodUid;
use crate::logic::objects::object_cache::{
    Answer, ChangeDetection, Heard, Input, Object, ObjectCache as Decisions, ObjectError, Order, ReadFor, TTL,
};
use crate::logic::objects::object_references::{ObjectKey, ObjectKind, object_references};
use crate::messages::Lost;
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::object_cache::{CacheWait, ObjectCacheMsg, ServiceVariables, ServicesHeard, Watch};
use crate::messages::volume_manager::VolumeManagerMsg;
use crate::platform::cluster::kube_api::{ApiError, ApiObject, ApiServer, Place};
use crate::platform::host::chance::Chance;
pub use local::CachedLocalObjects;
pub use objects::ApiObjects;
use objects::failure;

/// How long one waits for what is watched to be heard for the first time. Upstream waits 1 s; twice as long outlasts the
/// moment that the API server needs to learn where the pod runs. Only then may this node read the pod's objects.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// How often watches are looked for that nobody needs.
const SWEEP_PERIOD: Duration = Duration::from_secs(60);
/// How long after it fell over a watch is begun again.
const FALL_PAUSE: Duration = Duration::from_secs(5);
/// The node's annotation that says, in seconds, for how long what was read counts as fresh.
const TTL_ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";
/// Patience with `NodeStatus`.
const NODE_PATIENCE: Duration = Duration::from_secs(1);

/// Someone who waits for services to be read.
struct ServiceQuestion {
    namespace: String,
    links: bool,
    reply: RpcReplyPort<ServiceVariables>,
}

/// The actor's arguments.
pub struct Args {
    /// `configMapAndSecretChangeDetectionStrategy`.
    pub change_detection: ChangeDetection,
    /// `syncFrequency`.
    pub sync_period: Duration,
    /// The API server, where one is named.
    pub api: Option<ApiServer>,
    /// Objects come from a folder of the node.
    pub is_local: bool,
    /// Spreads tries.
    pub chance: Arc<dyn Chance>,
    /// Is asked how long what was read counts as fresh.
    pub node_status: Address<NodeStatusMsg>,
    /// Hears which pods' objects changed.
    pub volume_manager: Address<VolumeManagerMsg>,
}

/// See the module.
pub struct ObjectCache {
    args: Args,
    decisions: Decisions,
    watches: BTreeMap<ObjectKey, OperationId>,
    local: local::Local,
    replies: BTreeMap<u64, RpcReplyPort<Answer>>,
    /// Timers of questions that wait.
    waits: BTreeMap<u64, OperationId>,
    /// How many objects there are, and watches, by what was last said of them.
    noted: (usize, usize),
    next_question: u64,
    /// By namespace and name; `None` until they were read once.
    services: Option<BTreeMap<(String, String), Service>>,
    service_questions: BTreeMap<u64, ServiceQuestion>,
    sweep: Option<OperationId>,
}

impl Actor for ObjectCache {
    const KIND: &'static str = "ObjectCache";
    type Msg = ObjectCacheMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<ObjectCacheMsg>) -> Self {
        let cache = Self {
            decisions: Decisions::new(args.change_detection, args.sync_period),
            args,
            watches: BTreeMap::new(),
            local: local::Local::default(),
            replies: BTreeMap::new(),
            waits: BTreeMap::new(),
            noted: (0, 0),
            next_question: 0,
            services: None,
            service_questions: BTreeMap::new(),
            sweep: None,
        };
        cache.watch_services(context);
        cache
    }

    fn receive(&mut self, message: ObjectCacheMsg, context: &mut Context<ObjectCacheMsg>) {
        match message {
            ObjectCacheMsg::PodChanged(pod) => {
                let uid = PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default());
                self.step(Input::PodChanged(uid, object_references(&pod)), context);
            }
            ObjectCacheMsg::PodGone(uid) => self.step(Input::PodGone(uid), context),
            ObjectCacheMsg::Get { kind, namespace, name, reply } => {
                self.next_question += 1;
                self.replies.insert(self.next_question, reply);
                let input = Input::Asked(self.next_question, ObjectKey { kind, namespace, name });
                self.step(input, context);
            }
            ObjectCacheMsg::Services { namespace, links, patient, reply } => {
                self.ask_services(ServiceQuestion { namespace, links, reply }, patient, context);
            }
            ObjectCacheMsg::Local(objects) => self.take_local(objects, context),
            ObjectCacheMsg::Heard(key, heard) => self.hear(key, heard, context),
            ObjectCacheMsg::ServicesHeard(heard) => self.hear_services(heard, context),
            ObjectCacheMsg::Read(read, outcome) => {
                let (answer, ttl) = outcome.unwrap_or_else(|loss| (Err(lost(&loss)), TTL));
                self.step(Input::Read(read, answer, ttl), context);
            }
            ObjectCacheMsg::Due(CacheWait::TooLate(question)) => match self.service_questions.remove(&question) {
                Some(asker) => drop(asker.reply.send(None)), // The asker may have left.
                None => {
                    self.waits.remove(&question);
                    self.step(Input::TooLate(question), context);
                }
            },
            ObjectCacheMsg::Due(CacheWait::SweepDue) => {
                self.sweep = None;
                self.step(Input::SweepDue, context);
            }
            ObjectCacheMsg::Due(CacheWait::WatchAgain(None)) => self.watch_services(context),
            // Nobody may refer to it any more.
            ObjectCacheMsg::Due(CacheWait::WatchAgain(Some(key))) => {
                if self.watches.contains_key(&key) {
                    self.watch(key, context);
                }
            }
        }
        self.arm(context);
    }
}

impl ObjectCache {
    fn step(&mut self, input: Input, context: &mut Context<ObjectCacheMsg>) {
        for order in self.decisions.step(input, context.clock().uptime()) {
            match order {
                Order::Watch(key) if self.args.is_local => self.watch_local(key, context),
                Order::Watch(key) => self.watch(key, context),
                Order::Unwatch(key) => {
                    self.local.unwatch(&key);
                    if let Some(watch) = self.watches.remove(&key) {
                        context.cancel(watch);
                    }
                }
                Order::Read { read, cached } => self.read(read, cached, context),
                Order::Changed(pods) => {
                    context.tell(&self.args.volume_manager, VolumeManagerMsg::ObjectsChanged(pods));
                }
                Order::Wait(question) => {
                    self.waits
                        .insert(question, context.after(WAIT_MAX, ObjectCacheMsg::Due(CacheWait::TooLate(question))));
                }
                Order::Answer(question, answer) => {
                    if let Some(timer) = self.waits.remove(&question) {
                        context.cancel(timer);
                    }
                    if let Some(reply) = self.replies.remove(&question) {
                        let _ = reply.send(answer); // The asker may have left.
                    }
                }
            }
        }
    }

    fn watch(&mut self, key: ObjectKey, context: &mut Context<ObjectCacheMsg>) {
        let Some(api) = self.args.api.clone() else { return };
        let watch = watch::of_object(api, Arc::clone(&self.args.chance), &key);
        self.listen(key, watch, context);
    }

    fn listen(&mut self, key: ObjectKey, watch: Watch<Heard>, context: &mut Context<ObjectCacheMsg>) {
        let of = key.clone();
        let ended = move |heard| ObjectCacheMsg::Heard(of, heard);
        let operation = context.start("watch object", key.to_string(), watch.0, ended);
        self.watches.insert(key, operation);
    }

    fn hear(
        &mut self,
        key: ObjectKey,
        heard: Result<(Heard, Watch<Heard>), Lost>,
        context: &mut Context<ObjectCacheMsg>,
    ) {
        match heard {
            Ok((heard, rest)) => {
                if let Heard::Trouble(error) = &heard {
                    tracing::warn!(object = %key, %error, "object cannot be watched at present");
                }
                self.listen(key.clone(), rest, context);
                self.step(Input::Heard(key, heard), context); // May end the watch.
            }
            Err(loss) => {
                let again = context.after(FALL_PAUSE, ObjectCacheMsg::Due(CacheWait::WatchAgain(Some(key.clone()))));
                self.watches.insert(key.clone(), again);
                self.step(Input::Heard(key, Heard::Trouble(lost(&loss))), context);
            }
        }
    }

    fn read(&self, read: ReadFor, cached: bool, context: &mut Context<ObjectCacheMsg>) {
        let node_status = self.args.node_status.clone();
        let (api, key) = (self.args.api.clone(), read.key.clone());
        let about = key.to_string();
        let local = self.args.is_local.then(|| self.local.answer(&key));
        let work = async move {
            if let Some(answer) = local {
                return (answer, TTL);
            }
            let Some(api) = api else {
                return (Err(ObjectError::Unavailable("there is no API server".to_owned())), TTL);
            };
            let answer = match key.kind {
                ObjectKind::ConfigMap => {
                    get(&api, &key, cached).await.map(|object| Object::ConfigMap(Arc::new(object)))
                }
                ObjectKind::Secret => get(&api, &key, cached).await.map(|object| Object::Secret(Arc::new(object))),
            };
            (answer.map_err(|error| failure(&error)), ttl(&node_status).await)
        };
        context.start("read object", about, work, move |outcome| ObjectCacheMsg::Read(read, outcome));
    }

    fn watch_services(&self, context: &mut Context<ObjectCacheMsg>) {
        let Some(api) = self.args.api.clone() else { return };
        listen_to_services(watch::of_services(api, Arc::clone(&self.args.chance)), context);
    }

    fn hear_services(
        &mut self,
        heard: Result<(ServicesHeard, Watch<ServicesHeard>), Lost>,
        context: &mut Context<ObjectCacheMsg>,
    ) {
        let heard = match heard {
            Ok((heard, rest)) => {
                listen_to_services(rest, context);
                heard
            }
            Err(loss) => {
                context.after(FALL_PAUSE, ObjectCacheMsg::Due(CacheWait::WatchAgain(None)));
                ServicesHeard::Trouble(lost(&loss))
            }
        };
        match heard {
            ServicesHeard::All(services) => {
                self.services = Some(services.into_iter().map(|service| (name_of(&service), service)).collect());
            }
            ServicesHeard::Changed(service) => {
                self.services.get_or_insert_default().insert(name_of(&service), *service);
            }
            ServicesHeard::Gone(namespace, name) => {
                self.services.get_or_insert_default().remove(&(namespace, name));
            }
            ServicesHeard::Trouble(error) => {
                tracing::warn!(%error, "services cannot be watched at present");
                return;
            }
        }
        for (_, asker) in std::mem::take(&mut self.service_questions) {
            let _ = asker.reply.send(self.variables(&asker.namespace, asker.links)); // The asker may have left.
        }
    }

    fn ask_services(&mut self, asker: ServiceQuestion, patient: bool, context: &mut Context<ObjectCacheMsg>) {
        let variables = self.variables(&asker.namespace, asker.links);
        if variables.is_some() || !patient {
            let _ = asker.reply.send(variables); // The asker may have left.
            return;
        }
        self.next_question += 1;
        self.service_questions.insert(self.next_question, asker);
        context.after(WAIT_MAX, ObjectCacheMsg::Due(CacheWait::TooLate(self.next_question)));
    }

    fn variables(&self, namespace: &str, links: bool) -> ServiceVariables {
        let services = self.services.as_ref()?;
        let first = Bound::Included((namespace.to_owned(), String::new()));
        let own = services.range((first, Bound::Unbounded)).take_while(|((of, _), _)| of == namespace);
        let master = services.get(&(MASTER.0.to_owned(), MASTER.1.to_owned()));
        let seen = own.filter(|_| links).map(|(_, service)| service).chain(master);
        Some(Arc::new(service_variables(seen, namespace, links)))
    }

    /// One timer, only while there is something to look for; and how much is watched, for whoever looks.
    fn arm(&mut self, context: &mut Context<ObjectCacheMsg>) {
        let (watches, objects) = (self.watches.len() + self.local.watched(), self.decisions.len());
        if watches > 0 && self.sweep.is_none() {
            self.sweep = Some(context.after(SWEEP_PERIOD, ObjectCacheMsg::Due(CacheWait::SweepDue)));
        }
        if std::mem::replace(&mut self.noted, (objects, watches)) != (objects, watches) {
            let note = (objects > 0).then(|| format!("{objects} objects referred to, {watches} of them watched"));
            context.address().record().set_note(note);
        }
    }
}

fn listen_to_services(watch: Watch<ServicesHeard>, context: &mut Context<ObjectCacheMsg>) {
    context.start("watch services", "all", watch.0, ObjectCacheMsg::ServicesHeard);
}

fn name_of(service: &Service) -> (String, String) {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (text(&service.metadata.namespace), text(&service.metadata.name))
}

fn lost(loss: &Lost) -> ObjectError {
    ObjectError::Unavailable(loss.to_string())
}

async fn get<K: ApiObject>(api: &ApiServer, key: &ObjectKey, cached: bool) -> Result<K, ApiError> {
    let at = Place::namespace(&key.namespace);
    if cached { api.get_cached(&at, &key.name).await } else { api.get(&at, &key.name).await }
}

/// For how long what was read counts as fresh: the Node says, or upstream's minute.
async fn ttl(node_status: &Address<NodeStatusMsg>) -> Duration {
    let answer = node_status.ask(Cause::outside("read object"), NODE_PATIENCE, NodeStatusMsg::Node).await;
    let node = answer.ok().flatten();
    node.as_deref().and_then(ttl_of).unwrap_or(TTL)
}

fn ttl_of(node: &Node) -> Option<Duration> {
    let seconds = node.metadata.annotations.as_ref()?.get(TTL_ANNOTATION)?;
    seconds.parse().ok().map(Duration::from_secs)
}
