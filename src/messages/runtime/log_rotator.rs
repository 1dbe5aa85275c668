//! To `LogRotator`.

use std::sync::Arc;

use crate::logic::logs::log_rotation::{LogLook, RotationPolicy};
use crate::logic::model::ids::ContainerId;
use crate::logic::model::runtime_pod::RuntimePod;
use crate::messages::{Ended, Lost, describe};

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum LogRotatorMsg {
    /// From `Pleg`: what the runtime holds of a pod; its running containers' logs are kept small.
    Observed(Arc<RuntimePod>),
    /// From itself: logs at these paths were written to, moved or removed.
    Written(Result<Vec<String>, Lost>),
    /// From itself: some logs are to be looked at.
    LookDue,
    /// From itself: logs were looked at, these in this order.
    Looked(Vec<ContainerId>, Result<Vec<LogLook>, Lost>),
    /// From itself: the runtime was asked to open a missing log anew.
    Reopened(ContainerId, Ended<()>),
    /// From itself: a rotation ended.
    Rotated(ContainerId, Ended<()>),
    /// From itself: a compression ended; how many files it compressed.
    Compressed(ContainerId, Ended<usize>),
    /// From Root: the configuration was read again; `None` when logs are not to be rotated.
    PolicyChanged(Option<RotationPolicy>),
}

describe!(LogRotatorMsg, message => match message {
    LogRotatorMsg::Observed(pod) => Some(&pod.uid),
    _ => None,
});
