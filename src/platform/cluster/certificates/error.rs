//! Why a key, a file or a certificate cannot be used; `Display` has upstream's words. No error can quote a key.

use std::io;
use std::path::Path;

use crate::platform::cluster::key_pair::PairError;
use crate::platform::files::small_file::words;

/// Why files are no pair of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairFileError {
    /// A file cannot be read or written.
    #[error("open {path}: {problem}")]
    Open {
        /// Which.
        path: String,
        /// The kernel's error.
        problem: String,
    },
    /// One is there without the other.
    #[error("error reading {0}, certificate and key must be supplied as a pair")]
    Alone(String),
    /// They do not hold a pair.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// There is no key, and none can be made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The certificate cannot be made.
    #[error("unable to generate self signed cert: {0}")]
    Sign(String),
}

impl PairFileError {
    pub(super) fn open(path: &Path, error: &io::Error) -> Self {
        Self::Open { path: path.display().to_string(), problem: words(error) }
    }
}

/// Why there is no private key, or no request made with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The library cannot make one.
    #[error("unable to generate a new private key")]
    Generate,
    /// There is none in the text that can be used.
    #[error("data does not contain a valid RSA or ECDSA private key")]
    Invalid,
    /// Its file can be neither read nor written.
    #[error("error loading key from {path}: {problem}")]
    Load {
        /// The file.
        path: String,
        /// The kernel's error.
        problem: String,
    },
    /// A name cannot stand in a certificate.
    #[error("unable to generate certificate request: {0}")]
    Request(String),
}

/// Why the authorities of users' certificates cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthoritiesError {
    /// The file cannot be read.
    #[error("{0}")]
    Read(String),
    /// It holds no certificate.
    #[error("data does not contain any valid RSA or ECDSA certificates")]
    NoCertificate,
    /// The library takes none of them.
    #[error("{0}")]
    Unusable(String),
}

/// Why nobody is found by a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentifyError {
    /// No authority stands for it now.
    #[error("verifying certificate: {0}")]
    Unverified(String),
    /// It cannot be read.
    #[error("x509: malformed certificate")]
    Malformed,
    /// It names a UID, which is empty.
    #[error("UID cannot be an empty string")]
    EmptyUid,
    /// It names several.
    #[error("expected 1 UID, but found multiple")]
    ManyUids,
}
