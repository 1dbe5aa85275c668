//! To `NodeLease`.

use std::time::Duration;

use crate::logic::node::node_lease::Input;
use crate::messages::{Lost, describe};

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum NodeLeaseMsg {
    /// From itself: time to renew.
    RenewDue,
    /// From itself: a pause is over.
    PauseOver,
    /// From itself: what the API server said.
    Answered(Result<Box<Input>, Lost>),
    /// From `NodeStatus`: the API server has the Node, so there is an owner for a new Lease. Lost, it costs time.
    NodeRegistered,
    /// From Root: the configuration was read again; a heartbeat may take this long.
    LimitChanged(Duration),
}

describe!(NodeLeaseMsg);
