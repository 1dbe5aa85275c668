//! The certificate that connections show, as client or as server: exchanged while the agent runs. Owned by whoever rotates it; keeps the
//! newest only.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::key_pair::Pair;

/// Shows the newest certificate. As long as there is none, handshakes fail where it is the server's; where it is the
/// client's, nobody is connected to.
#[derive(Default)]
pub struct LiveCertificate {
    current: Mutex<Option<Pair>>,
    generation: AtomicU64,
}

impl LiveCertificate {
    /// With a certificate, if there is one already.
    pub fn new(current: Option<Pair>) -> Self {
        Self { current: Mutex::new(current), generation: AtomicU64::new(0) }
    }

    /// The certificate shown now.
    pub fn current(&self) -> Option<Pair> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows another certificate from the next connection on. Says whether it is another: then the open connections are
    /// to be closed, which the transport does by itself with its next call.
    pub fn set(&self, pair: Pair) -> bool {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = current.as_ref().is_none_or(|current| !current.same_chain(&pair));
        *current = Some(pair);
        if changed {
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        changed
    }

    /// Counts exchanges.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for LiveCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveCertificate").field("generation", &self.generation()).finish_non_exhaustive()
    }
}

impl ResolvesClientCert for LiveCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.current().map(|pair| pair.certified())
    }

    fn has_certs(&self) -> bool {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl ResolvesServerCert for LiveCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current().map(|pair| pair.certified())
    }
}
