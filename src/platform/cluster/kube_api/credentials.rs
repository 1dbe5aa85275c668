//! The agent's identity to the API server, from a kubeconfig: certificates and tokens, each read again when it may have
//! changed. Owned by the transport; keeps the last token and the last output of the program.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{HeaderMap, HeaderValue};
use k8s_openapi::ByteString;
use rustls::ClientConfig;
use rustls::client::ResolvesClientCert;
use rustls::sign::SingleCertAndKey;
use tokio::time::Instant;

use super::kubeconfig::exec_plugin::{ExecCredential, ExecError};
use super::kubeconfig::{Authority, Bearer, ClientCertificate, Kubeconfig, KubeconfigError};
use super::runtime_clock;
use super::shown_files::ShownFiles;
use super::transport::{Identity, IdentityError};
use crate::platform::cluster::key_pair::{Pair, PairError};
use crate::platform::cluster::live_certificate::LiveCertificate;
use crate::platform::files::small_file::{read, words};
use crate::platform::host::blocking;
use crate::platform::host::clock::Clock;
use crate::platform::network::tls::{Offer, Trust, identified_client};

/// How long a token's file is taken at its word.
const TOKEN_PERIOD: Duration = Duration::from_secs(60);

/// Why the client cannot show who it is. No error holds a token or a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// Certificates rotate, and the first has not come yet.
    #[error("there is no client certificate yet")]
    NoCertificate,
    /// A token cannot stand in a header.
    #[error("net/http: invalid header field value for \"Authorization\"")]
    Header,
    /// The token's file is empty.
    #[error("read empty token from file {0:?}")]
    EmptyToken(String),
    /// The token's file cannot be read.
    #[error("failed to read token file {path:?}: open {path}: {problem}")]
    TokenFile {
        /// The file.
        path: String,
        /// The kernel's words.
        problem: String,
    },
    /// The roots' file cannot be read.
    #[error("open {path}: {problem}")]
    Roots {
        /// The file.
        path: String,
        /// The kernel's words.
        problem: String,
    },
    /// There are no settings of TLS for these roots.
    #[error("{0}")]
    Tls(String),
    /// The certificate's files cannot be read.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The certificate and its key are no pair.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// The program gave none.
    #[error(transparent)]
    Program(#[from] ExecError),
}

/// A kubeconfig's identity, as connections and calls show it.
pub struct Credentials {
    kubeconfig: Kubeconfig,
    offer: Offer,
    /// Shown instead of the kubeconfig's certificate, where certificates are rotated.
    live: Option<Arc<LiveCertificate>>,
    clock: Arc<dyn Clock>,
    /// The kubeconfig's certificate, where it is in files.
    files: ShownFiles,
    token: Mutex<Option<KnownToken>>,
    /// The program's output. Held while it runs, so that it runs once for many calls.
    given: tokio::sync::Mutex<Given>,
    /// Counts exchanges of a program's certificate.
    exchanges: AtomicU64,
}

/// The program's last output, and its run that is not over: it has a limit of its own, which is longer than some callers
/// wait. One that gives up leaves it to the next.
#[derive(Default)]
struct Given {
    last: Option<ExecCredential>,
    run: Option<BoxFuture<'static, Result<ExecCredential, ExecError>>>,
}

/// The token that a file held.
#[derive(Clone)]
struct KnownToken {
    text: String,
    /// Until when it is taken at its word.
    fresh_until: Instant,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("server", &self.kubeconfig.server).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Those of the kubeconfig.
    pub fn new(kubeconfig: Kubeconfig, offer: Offer, clock: Arc<dyn Clock>) -> Self {
        Self {
            kubeconfig,
            offer,
            live: None,
            clock,
            files: ShownFiles::default(),
            token: Mutex::default(),
            given: tokio::sync::Mutex::default(),
            exchanges: AtomicU64::new(0),
        }
    }

    /// The kubeconfig's server with this certificate, which may change or come later, and nothing else. Before it came,
    /// calls fail without the server being asked.
    pub fn rotating(kubeconfig: &Kubeconfig, live: Arc<LiveCertificate>, offer: Offer, clock: Arc<dyn Clock>) -> Self {
        Self { live: Some(live), ..Self::new(kubeconfig.anonymous(), offer, clock) }
    }

    /// The program's output, from a new run where the last one has expired; `None` where no program is to be asked: as
    /// upstream, none is if there are other credentials.
    async fn given(&self) -> Result<Option<ExecCredential>, ExecError> {
        let other = self.live.is_some()
            || self.kubeconfig.certificate != ClientCertificate::Absent
            || self.kubeconfig.bearer != Bearer::Absent;
        let Some(exec) = self.kubeconfig.exec.as_ref().filter(|_| !other) else { return Ok(None) };
        let mut given = self.given.lock().await;
        let Given { last, run } = &mut *given;
        let expired = |last: &ExecCredential| last.expires.is_some_and(|expires| self.clock.now() > expires);
        if let Some(last) = last.as_ref().filter(|last| !expired(last)) {
            return Ok(Some(last.clone()));
        }
        let outcome = run.get_or_insert_with(|| exec.clone().run().boxed()).await;
        *run = None;
        let fresh = outcome?;
        let changed = match (last.as_ref().and_then(|last| last.certificate.as_ref()), &fresh.certificate) {
            (Some(old), Some(new)) => !old.same_chain(new),
            (old, new) => last.is_some() && old.is_some() != new.is_some(),
        };
        if changed {
            self.exchanges.fetch_add(1, Ordering::Relaxed);
        }
        *last = Some(fresh.clone());
        Ok(Some(fresh))
    }

    async fn token_in(&self, path: &Path, before: Option<&str>) -> Result<String, CredentialsError> {
        let now = runtime_clock::now();
        let known = self.token().clone();
        if let Some(known) = known.as_ref().filter(|known| now < known.fresh_until) {
            return Ok(known.text.clone());
        }
        let (file, shown) = (path.to_owned(), path.display().to_string());
        let fresh = match blocking::run(move || read(&file)).await {
            Ok(bytes) => match String::from_utf8_lossy(&bytes).trim() {
                "" => Err(CredentialsError::EmptyToken(shown)),
                token => Ok(token.to_owned()),
            },
            Err(error) => Err(CredentialsError::TokenFile { path: shown, problem: words(&error) }),
        };
        match (fresh, known) {
            (Ok(token), _) => {
                *self.token() = Some(KnownToken { text: token.clone(), fresh_until: now + TOKEN_PERIOD });
                Ok(token)
            }
            // It was good a minute ago; the server will say if it no longer is.
            (Err(_), Some(known)) => Ok(known.text),
            (Err(problem), None) => before.map(str::to_owned).ok_or(problem),
        }
    }

    fn token(&self) -> MutexGuard<'_, Option<KnownToken>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the certificate's files again, so that an exchange counts. A file that is half written is none yet.
    async fn read_files(&self) {
        let kubeconfig = self.kubeconfig.clone();
        match blocking::run(move || certificate_of(&kubeconfig)).await {
            Ok(Some(pair)) => self.files.note(&pair),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "Loading client cert failed"),
        }
    }
}

#[async_trait::async_trait]
impl Identity for Credentials {
    async fn tls(&self) -> Result<Arc<ClientConfig>, IdentityError> {
        let given = self.given().await?.and_then(|given| given.certificate);
        let (kubeconfig, live, offer) = (self.kubeconfig.clone(), self.live.clone(), self.offer);
        let (config, own) = blocking::run(move || {
            let mut own = None;
            let identity = match (live, given) {
                (Some(live), _) => Some(live as Arc<dyn ResolvesClientCert>),
                (None, Some(pair)) => Some(fixed(&pair)),
                (None, None) => {
                    own = certificate_of(&kubeconfig)?;
                    own.as_ref().map(fixed)
                }
            };
            let trust = match &kubeconfig.authority {
                Authority::System => Trust::System,
                Authority::Anyone => Trust::Anyone,
                Authority::Data(pem) => Trust::Roots(pem.clone()),
                Authority::File(path) => {
                    let shown = path.display().to_string();
                    let wrong = |error| CredentialsError::Roots { path: shown, problem: words(&error) };
                    Trust::Roots(read(path).map_err(wrong)?)
                }
            };
            let config = identified_client(&trust, identity, offer);
            let config = config.map_err(|error| CredentialsError::Tls(error.to_string()))?;
            Ok::<_, CredentialsError>((config, own))
        })
        .await?;
        if let (Some(pair), ClientCertificate::Files { .. }) = (own, &self.kubeconfig.certificate) {
            self.files.note(&pair);
        }
        Ok(config)
    }

    fn server_name(&self) -> Option<String> {
        self.kubeconfig.tls_server_name.clone()
    }

    fn impersonation(&self) -> Option<&HeaderMap> {
        Some(&self.kubeconfig.impersonation).filter(|headers| !headers.is_empty())
    }

    fn generation(&self) -> u64 {
        let live = self.live.as_ref().map_or(0, |live| live.generation());
        live + self.files.exchanges() + self.exchanges.load(Ordering::Relaxed)
    }

    async fn look(&self) {
        if self.files.are_due() {
            self.read_files().await;
        }
    }

    async fn authorization(&self) -> Result<Option<HeaderValue>, IdentityError> {
        // As nobody the server would refuse nearly everything, and some of it is not said twice.
        if self.live.as_ref().is_some_and(|live| live.current().is_none()) && self.kubeconfig.server.tls() {
            return Err(CredentialsError::NoCertificate.into());
        }
        let text = match &self.kubeconfig.bearer {
            Bearer::Token(token) => format!("Bearer {token}"),
            Bearer::File(path, before) => format!("Bearer {}", self.token_in(path, before.as_deref()).await?),
            Bearer::Basic(name, password) => {
                let both = ByteString(format!("{name}:{password}").into_bytes());
                let encoded = serde_json::to_value(both).expect("bytes have a text");
                format!("Basic {}", encoded.as_str().unwrap_or_default())
            }
            Bearer::Absent => match self.given().await?.and_then(|given| given.token) {
                Some(token) => format!("Bearer {token}"),
                None => return Ok(None),
            },
        };
        let mut value = HeaderValue::from_str(text.trim()).map_err(|_| CredentialsError::Header)?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    async fn refused(&self, shown: Option<&HeaderValue>) {
        // Somebody may have laid down better ones. Until they are read, the agent presents those that it read last.
        if let Some(known) = self.token().as_mut() {
            known.fresh_until = runtime_clock::now();
        }
        if self.files.are_shown() {
            self.read_files().await;
        }
        if self.kubeconfig.exec.is_none() {
            return;
        }
        // Its next run may give better ones, unless it gave a better token already. The certificate stays known, so that an
        // exchange is noticed.
        let Ok(mut given) = self.given.try_lock() else { return };
        let last = given.last.as_mut();
        if let Some(last) = last.filter(|last| last.token.is_none() || last.is_shown_by(shown)) {
            last.expires = Some(crate::logic::model::time::Moment::EPOCH);
        }
    }
}

/// The kubeconfig's own certificate, read from its files if need be.
fn certificate_of(kubeconfig: &Kubeconfig) -> Result<Option<Pair>, CredentialsError> {
    let pem = kubeconfig.certificate_pem()?;
    Ok(pem.map(|(chain, key)| Pair::parse(&chain, &key)).transpose()?)
}

fn fixed(pair: &Pair) -> Arc<dyn ResolvesClientCert> {
    Arc::new(SingleCertAndKey::from(pair.certified()))
}
