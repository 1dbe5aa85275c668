//! To `CertificateManager`.

use crate::logic::node::certificate_plan::Purpose;
use crate::logic::node::certificate_rotation::{Held, Missed};
use crate::messages::{Ended, describe};

/// The result of reading files again that somebody may have touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reread {
    /// They hold something else, which counts now.
    Changed,
    /// They are as they were.
    Unchanged,
    /// They are no good, and why: what was read before counts on.
    Refused(String),
    /// The reading panicked, which was logged as it happened.
    Lost,
}

impl From<Ended<bool>> for Reread {
    fn from(outcome: Ended<bool>) -> Self {
        match outcome {
            Ended::Done(true) => Self::Changed,
            Ended::Done(false) => Self::Unchanged,
            Ended::Failed(error) => Self::Refused(error),
            Ended::Lost(_) => Self::Lost,
        }
    }
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum CertificateManagerMsg {
    /// From itself: time to look at the certificates.
    LookDue,
    /// From itself: the certificate that the agent asked for is in its request's status, or did not come.
    Obtained(Purpose, Ended<Box<Held>, Missed>),
    /// From `NodeStatus`: these are the node's addresses, by their types.
    AddressesChanged(Vec<(String, String)>),
    /// From itself: the files of the serving certificate were read; whether they hold another one, which the server presents
    /// now.
    FilesRead(Reread),
    /// From itself: the authorities of users' certificates were read again; whether they changed.
    AuthoritiesRead(Reread),
}

describe!(CertificateManagerMsg);
