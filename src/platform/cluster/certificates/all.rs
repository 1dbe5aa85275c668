//! All certificates of the agent. Made by `launch`; keeps who they are, and whether the agent can go on with them.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::error::PairFileError;
use super::{ClientAuthorities, KeptCertificate};
use crate::platform::cluster::key_pair::Pair;
use crate::platform::cluster::live_certificate::LiveCertificate;
use crate::platform::files::small_file::read;

/// The serving certificate in files.
#[derive(Clone, Debug)]
pub struct ServingFiles {
    /// The chain, leaf first.
    pub chain: PathBuf,
    /// The leaf's key.
    pub key: PathBuf,
    /// Whether they are read again while the agent runs (gate `ReloadKubeletServerCertificateFile`).
    pub reload: bool,
}

impl ServingFiles {
    /// Reads them.
    ///
    /// # Errors
    /// When they cannot be read, or are no pair.
    pub fn read(&self) -> Result<Pair, PairFileError> {
        let open = |path: &PathBuf| read(path).map_err(|error| PairFileError::open(path, &error));
        Ok(Pair::parse(&open(&self.chain)?, &open(&self.key)?)?)
    }
}

/// See the module.
#[derive(Default)]
pub struct Certificates {
    /// The client certificate, where the agent asks for it itself.
    pub client: Option<Arc<KeptCertificate>>,
    /// The serving certificate, where the agent asks for it (`serverTLSBootstrap`).
    pub serving: Option<Arc<KeptCertificate>>,
    /// The serving certificate's files, where it has some.
    pub files: Option<ServingFiles>,
    /// The authorities that sign certificates of the agent's clients; `None` where none are accepted.
    pub authorities: Option<Arc<ClientAuthorities>>,
    /// The certificate that the agent's server shows, from any source.
    pub shown: Arc<LiveCertificate>,
    /// Set once the agent cannot go on; says why.
    pub hopeless: OnceLock<&'static str>,
}
