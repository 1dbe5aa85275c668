//! To `ObjectCache`.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Service};
use ractor::RpcReplyPort;

use super::{Lost, describe};
use crate::logic::model::ids::PodUid;
use crate::logic::objects::object_cache::{Answer, Heard, Object, ObjectError, ReadFor};
use crate::logic::objects::object_references::{ObjectKey, ObjectKind};

/// A watch between two things heard: gives the next one, and itself. Nothing of what it hears can be lost on the way.
pub struct Watch<T>(pub Pin<Box<dyn Future<Output = (T, Watch<T>)> + Send>>);

impl<T> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

/// News from the watch of services. Of each service only the parts of which variables are made are kept.
#[derive(Debug)]
pub enum ServicesHeard {
    /// These are all.
    All(Vec<Service>),
    /// This one is new, or changed.
    Changed(Box<Service>),
    /// This one is gone; its namespace and name.
    Gone(String, String),
    /// Nothing can be heard at present.
    Trouble(ObjectError),
}

/// Variables of services by name; `None` as long as services were not read once.
pub type ServiceVariables = Option<Arc<BTreeMap<String, String>>>;

/// A wait that is over.
#[derive(Debug, strum::IntoStaticStr)]
pub enum CacheWait {
    /// A question has waited for as long as it may.
    TooLate(u64),
    /// Time to look for watches that nobody needs.
    SweepDue,
    /// A watch that fell over is begun again; of services, where no object is named.
    WatchAgain(Option<ObjectKey>),
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ObjectCacheMsg {
    /// From a `PodWorker`: this pod is here; what it refers to is kept at hand when it is asked for.
    PodChanged(Arc<Pod>),
    /// From a `PodWorker`: this pod has ended, and its volumes are gone.
    PodGone(PodUid),
    /// From an operation: an object; tells it, or why it cannot be had, within a few seconds where it is watched.
    Get {
        /// Of which kind.
        kind: ObjectKind,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The asker.
        reply: RpcReplyPort<Answer>,
    },
    /// From a `PodWorker`'s operation: the variables of the services that a pod may see.
    Services {
        /// The pod's namespace.
        namespace: String,
        /// Its `enableServiceLinks`.
        links: bool,
        /// Whether to wait until services were read, for as long as one waits for an object.
        patient: bool,
        /// The asker.
        reply: RpcReplyPort<ServiceVariables>,
    },
    /// From `LocalObjects`: all objects of the node's own folder.
    Local(Arc<BTreeMap<ObjectKey, Object>>),
    /// From itself: the watch of an object heard something.
    Heard(ObjectKey, Result<(Heard, Watch<Heard>), Lost>),
    /// From itself: the watch of services heard something.
    ServicesHeard(Result<(ServicesHeard, Watch<ServicesHeard>), Lost>),
    /// From itself: an object was read; for how long it counts as fresh.
    Read(ReadFor, Result<(Answer, Duration), Lost>),
    /// From itself: a wait is over.
    #[strum(transparent)]
    Due(CacheWait),
}

describe!(ObjectCacheMsg, message => match message {
    ObjectCacheMsg::PodGone(uid) => Some(uid),
    _ => None,
});
