//! To `UserNamespaces`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ractor::RpcReplyPort;

use crate::logic::model::ids::PodUid;
use crate::logic::resources::user_namespaces::IdRange;
use crate::logic::resources::user_namespaces::assignments::AssignmentError;
use crate::messages::{Ended, describe};

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum UserNamespacesMsg {
    /// From a `PodWorker`: which IDs does its pod have? One without is given some, and the disk has them before the answer.
    Assign(PodUid, RpcReplyPort<Result<IdRange, AssignmentError>>),
    /// From a `PodWorker` and `PodManager`: the pod has ended, its volumes and cgroup are gone; answered when its file is.
    Release(PodUid, RpcReplyPort<()>),
    /// From `PodManager`: there are no pods but these.
    Known(Arc<BTreeSet<PodUid>>),
    /// From itself: the files of all pods were read, or why their folder cannot be.
    Read(Ended<BTreeMap<PodUid, Result<Vec<u8>, String>>>),
    /// From itself: they are to be read once more.
    ReadDue,
    /// From itself: a pod's file was written, or why it may not have been.
    Written(PodUid, Ended<()>),
    /// From itself: a pod's file was removed, or why it may not have been.
    Removed(PodUid, Ended<()>),
}

describe!(UserNamespacesMsg, message => match message {
    UserNamespacesMsg::Assign(uid, _)
    | UserNamespacesMsg::Release(uid, _)
    | UserNamespacesMsg::Written(uid, _)
    | UserNamespacesMsg::Removed(uid, _) => Some(uid),
    _ => None,
});
