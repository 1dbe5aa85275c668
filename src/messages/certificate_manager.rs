//! To `CertificateManager`.

use super::{Panicked, describe};
use crate::logic::node::certificate_plan::Purpose;
use crate::logic::node::certificate_rotation::{Held, Missed};

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum CertificateManagerMsg {
    /// From itself: time to look at the certificates.
    LookDue,
    /// From itself: the certificate that was asked for is shown, or did not come.
    Obtained(Purpose, Result<Result<Box<Held>, Missed>, Panicked>),
    /// From `NodeStatus`: these are the node's addresses, by their types.
    AddressesChanged(Vec<(String, String)>),
    /// From itself: the files of the serving certificate were read; whether they hold another one, which is shown now.
    FilesRead(Result<Result<bool, String>, Panicked>),
    /// From itself: the authorities of users' certificates were read again; whether they changed.
    AuthoritiesRead(Result<Result<bool, String>, Panicked>),
}

describe!(CertificateManagerMsg);
