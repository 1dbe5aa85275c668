//! Why a disk was not attached; most texts are upstream's.

use std::io;
use std::path::PathBuf;

use crate::platform::volumes::programs::{End, Ended};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AttachError {
    /// A call of `iscsiadm` failed.
    #[error("{text}{output} ({end})")]
    Call {
        /// The begin of the text.
        text: String,
        /// The program's output, but for secrets.
        output: String,
        /// How it ended.
        end: End,
    },
    /// The interface that the volume names could not be read.
    #[error("{end}: {output}")]
    Interface {
        /// How the program ended.
        end: End,
        /// Its output.
        output: String,
    },
    /// The interface has no transport.
    #[error("could not parse iface file for {0}")]
    NoTransport(String),
    /// The volume's own interface would be the one that it copies.
    #[error("iscsi: cannot clone iface with same name: {0}")]
    SameName(String),
    /// No portal led to the disk; with the last reason.
    #[error("failed to get any path for iscsi disk, last err seen:\n{0}")]
    NoWay(String),
    /// It took too long; with the last reason.
    #[error("timed out attaching the disk, last err seen:\n{0}")]
    TooLate(String),
    /// There is no session after a login.
    #[error("could not get SCSI host number for portal {0} after logging in")]
    NoHost(String),
    /// The kernel showed no device.
    #[error("Timed out waiting for device at path {} after {seconds}s", path.display())]
    NoDevice {
        /// The device's link.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The kernel refused something.
    #[error("{attempt}: {problem}")]
    Kernel {
        /// The attempt.
        attempt: &'static str,
        /// Its error.
        problem: String,
    },
    /// No link leads to the disk.
    #[error("no fc disk found")]
    NoFcDisk,
}

impl AttachError {
    pub(super) fn call(text: impl Into<String>, ended: Ended) -> Self {
        Self::Call { text: text.into(), output: ended.output.trim().to_owned(), end: ended.end }
    }

    pub(super) fn kernel(attempt: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Kernel { attempt, problem: error.to_string() }
    }
}
