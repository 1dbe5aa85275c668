//! A certificate that the cluster signs for the agent: its files, the one that the agent presents, and how another is got.
//!
//! Made by `launch`; shared by `CertificateManager`, which says when, and by connections, which show it. It outlives the
//! actor's incarnations: what a crash leaves half done is asked for again.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::error::KeyError;
use super::request::{KEY_ENCIPHERMENT, RequestError, bootstrap_request_name};
use super::{
    BOOTSTRAP_TIMEOUT, CLIENT_SIGNER, CLIENT_USAGES, FileStore, PrivateKey, ROTATION_TIMEOUT, Request, SERVING_SIGNER,
    SERVING_USAGES, StoreError, request_certificate,
};
use crate::logic::model::histogram::Histogram;
use crate::logic::node::certificate_plan::{Names, Purpose};
use crate::logic::node::certificate_rotation::Held;
use crate::platform::cluster::key_pair::Pair;
use crate::platform::cluster::kube_api::ApiServer;
use crate::platform::cluster::kube_api::kubeconfig::{Kubeconfig, write_client_kubeconfig};
use crate::platform::cluster::live_certificate::LiveCertificate;
use crate::platform::files::small_file::read;
use crate::platform::host::blocking;
use crate::platform::host::clock::Clock;

/// Bounds of how long an exchanged certificate was held: a minute to four years.
static LIFE_BOUNDS: [Duration; 10] = [
    Duration::from_secs(60),
    Duration::from_hours(1),
    Duration::from_hours(4),
    Duration::from_hours(24),
    Duration::from_hours(24 * 7),
    Duration::from_hours(24 * 30),
    Duration::from_hours(24 * 90),
    Duration::from_hours(24 * 180),
    Duration::from_hours(24 * 360),
    Duration::from_hours(24 * 1440),
];

/// The signer of such a certificate.
fn signer(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Client => CLIENT_SIGNER,
        Purpose::Serving => SERVING_SIGNER,
    }
}

/// The usages of such a certificate.
fn usages(purpose: Purpose, key: &PrivateKey) -> Vec<&'static str> {
    let usages = match purpose {
        Purpose::Client => CLIENT_USAGES,
        Purpose::Serving => SERVING_USAGES,
    };
    usages.into_iter().chain(key.is_rsa().then_some(KEY_ENCIPHERMENT)).collect()
}

/// The means to follow the one and only certificate of a node that does not rotate it.
#[derive(Clone)]
pub struct Once {
    /// Where its key waits for it, so that a restart finds the request it made before.
    pub key: PathBuf,
    /// The kubeconfig that is written then.
    pub kubeconfig: PathBuf,
    /// The kubeconfig with the server and the roots.
    pub bootstrap: Kubeconfig,
}

/// See the module.
pub struct KeptCertificate {
    purpose: Purpose,
    store: FileStore,
    live: Arc<LiveCertificate>,
    /// Set where only the first certificate is asked for.
    once: Option<Once>,
    /// One to be replaced as soon as may be: it was laid down with the kubeconfig.
    provisional: Option<Pair>,
    /// Asked while there is none that holds; with none here, whoever the connections are.
    first: Option<ApiServer>,
    clock: Arc<dyn Clock>,
    failures: AtomicU64,
    /// How long each one was held that was exchanged.
    lives: Mutex<Histogram<10>>,
}

/// Why there is no certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObtainError {
    /// The key, or the request's text.
    #[error("Unable to generate a certificate signing request: {0}")]
    Key(KeyError),
    /// The cluster.
    #[error("Failed while requesting a signed certificate from the control plane: {0}")]
    Request(RequestError),
    /// The files.
    #[error("Unable to store the new cert/key pair: {0}")]
    Store(String),
}

impl ObtainError {
    /// Whether the server answers, by this call; `None` where it shows nothing.
    pub fn server_answers(&self) -> Option<bool> {
        match self {
            Self::Request(error) => error.server_answers(),
            Self::Key(_) | Self::Store(_) => None,
        }
    }
}

impl KeptCertificate {
    /// Keeps those of the store. Until there is another, the agent presents the one in `live`.
    pub fn new(purpose: Purpose, store: FileStore, live: Arc<LiveCertificate>, clock: Arc<dyn Clock>) -> Self {
        Self {
            purpose,
            store,
            live,
            once: None,
            provisional: None,
            first: None,
            clock,
            failures: AtomicU64::new(0),
            lives: Mutex::new(Histogram::new(&LIFE_BOUNDS)),
        }
    }

    /// The same, got with the credentials of this server as long as there is none that holds.
    #[must_use]
    pub fn first_from(mut self, server: ApiServer) -> Self {
        self.first = Some(server);
        self
    }

    /// The same, got once only.
    #[must_use]
    pub fn once(mut self, once: Once) -> Self {
        self.once = Some(once);
        self
    }

    /// The same, with one that is to be replaced as soon as may be.
    #[must_use]
    pub fn provisional(mut self, pair: Pair) -> Self {
        self.provisional = Some(pair);
        self
    }

    /// Its purpose.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Whether it is exchanged before its end.
    pub fn is_exchanged(&self) -> bool {
        self.once.is_none()
    }

    /// The one that the agent presents, unless it has ended.
    pub fn current(&self) -> Option<Pair> {
        let now = self.clock.now();
        self.live.current().filter(|pair| now <= pair.validity().not_after)
    }

    /// The facts of it.
    pub fn held(&self) -> Option<Held> {
        self.current().as_ref().map(held)
    }

    /// Whether it is to be replaced as soon as may be.
    pub fn is_provisional(&self) -> bool {
        self.current().zip(self.provisional.as_ref()).is_some_and(|(pair, provisional)| pair.same_chain(provisional))
    }

    /// The certificate that connections show.
    pub fn live(&self) -> &Arc<LiveCertificate> {
        &self.live
    }

    /// How often none came.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// How long the certificates were held that were exchanged.
    pub fn lives(&self) -> Histogram<10> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks for a certificate for these names, waits for it, stores it, shows it. `api` is asked unless there is somebody
    /// to be asked first. Dropped, it leaves the old one, or the new one whole.
    ///
    /// # Errors
    /// See [`ObtainError`]; the old one stays.
    pub async fn obtain(
        self: Arc<Self>,
        api: ApiServer,
        names: &Names,
        chance: impl FnMut() -> f64,
    ) -> Result<Held, ObtainError> {
        let result = self.try_obtain(api, names, chance).await;
        if result.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    async fn try_obtain(
        self: &Arc<Self>,
        api: ApiServer,
        names: &Names,
        chance: impl FnMut() -> f64,
    ) -> Result<Held, ObtainError> {
        let (kept, wanted) = (Arc::clone(self), names.clone());
        let made = blocking::run(move || {
            let key = kept.key()?;
            let csr = key.signing_request(&wanted)?;
            Ok((key, csr))
        });
        let (key, csr) = made.await.map_err(ObtainError::Key)?;
        let usages = usages(self.purpose, &key);
        let name = self.once.as_ref().map(|_| bootstrap_request_name(&key.public(), names, &usages));
        let request = Request {
            name: name.as_deref(),
            signer: signer(self.purpose),
            usages: &usages,
            csr: &csr,
            timeout: if self.once.is_some() { BOOTSTRAP_TIMEOUT } else { ROTATION_TIMEOUT },
            now: self.clock.now(),
        };
        let api = self.first.clone().filter(|_| self.current().is_none()).unwrap_or(api);
        let chain = request_certificate(&api, &request, chance).await.map_err(ObtainError::Request)?;
        let kept = Arc::clone(self);
        // To its end once begun: the presented one and the stored one are the same at all times.
        let stored = blocking::run(move || kept.store(&chain, &key)).await;
        stored.map_err(|error| ObtainError::Store(error.to_string()))
    }

    /// A new key; the one and only certificate's is that of an earlier one, or the one of an earlier try.
    fn key(&self) -> Result<PrivateKey, KeyError> {
        let Some(once) = &self.once else { return PrivateKey::generate() };
        let earlier = read(&self.store.current_path()).ok().and_then(|pem| PrivateKey::parse(&pem).ok());
        earlier.map_or_else(|| PrivateKey::load_or_generate(&once.key), Ok)
    }

    fn store(&self, chain: &[u8], key: &PrivateKey) -> Result<Held, StoreError> {
        let now = self.clock.now();
        let pair = self.store.update(chain, key.pem().as_bytes(), now)?;
        if let Some(once) = &self.once {
            let (path, current) = (&once.kubeconfig, self.store.current_path());
            write_client_kubeconfig(&once.bootstrap, path, &current)
                .map_err(|error| StoreError(format!("write kubeconfig {}: {error}", path.display())))?;
            // Used again by the next try if it cannot be removed now; nobody else can read it.
            let _ = fs::remove_file(&once.key);
        }
        if let Some(old) = self.live.current() {
            let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
            lives.add(now.since(old.validity().not_before));
        }
        let held = held(&pair);
        self.live.set(pair);
        Ok(held)
    }
}

/// The facts of a certificate.
fn held(pair: &Pair) -> Held {
    let validity = pair.validity();
    Held { names: pair.names().clone(), not_before: validity.not_before, not_after: validity.not_after }
}
