//! The API server, where a kubeconfig names one, and who the agent is to it. Reads files and wires; the first call connects.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{Invocation, KUBERNETES_VERSION};
use crate::logic::model::time::Moment;
use crate::logic::node::certificate_plan::{KubeconfigState, Purpose, StartPlan, at_start};
use crate::platform::cluster::certificates::{FileStore, KeptCertificate, Once};
use crate::platform::cluster::key_pair::Pair;
use crate::platform::cluster::kube_api::ApiServer;
use crate::platform::cluster::kube_api::credentials::Credentials;
use crate::platform::cluster::kube_api::kubeconfig::{ClientCertificate, Kubeconfig, write_client_kubeconfig};
use crate::platform::cluster::kube_api::transport::{Rate, Settings, Transport, user_agent};
use crate::platform::cluster::live_certificate::LiveCertificate;
use crate::platform::host::clock::Clock;
use crate::platform::observer::Observer;

/// Where the key of the first certificate waits for it.
const FIRST_KEY: &str = "kubelet-client.key.tmp";
/// Calls a second and at once for whom upstream sets no limit of their own.
const DEFAULT_RATE: (i32, i32) = (5, 10);

/// The API server, and the connections to it.
pub(super) struct Connected {
    pub(super) api: ApiServer,
    pub(super) transport: Transport,
    /// The client certificate, where the agent asks for it itself.
    pub(super) client: Option<Arc<KeptCertificate>>,
}

/// Reads the kubeconfig, or writes it; `None` for a standalone agent (CFG-43, NODE-49). Needs a runtime.
///
/// # Errors
/// When there are no credentials to begin with, in upstream's words.
pub(super) fn connect(
    invocation: &Invocation,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
) -> Result<Option<Connected>, String> {
    let (config, flags) = (&invocation.config, &invocation.flags);
    let start = Start {
        kubeconfig: Path::new(&flags.kubeconfig),
        bootstrap: Path::new(&flags.bootstrap_kubeconfig),
        folder: Path::new(&flags.cert_dir),
        clock,
    };
    let with_bootstrap = !flags.bootstrap_kubeconfig.is_empty();
    let state = match (flags.kubeconfig.as_str(), with_bootstrap) {
        ("", _) => KubeconfigState::Unset,
        (_, true) => start.state()?,
        // There is nothing else to begin with: what is wrong with it is said when it is read.
        (_, false) => KubeconfigState::Valid,
    };
    let (credentials, client) = match at_start(state, with_bootstrap, config.rotate_certificates) {
        StartPlan::Standalone => {
            if with_bootstrap {
                tracing::warn!("--bootstrap-kubeconfig is of no use without --kubeconfig");
            }
            return Ok(None);
        }
        StartPlan::UseKubeconfig | StartPlan::Impossible => {
            let kubeconfig =
                Kubeconfig::load(start.kubeconfig).map_err(|error| format!("invalid kubeconfig: {error}"))?;
            ((kubeconfig, None), None)
        }
        StartPlan::UseKubeconfigAndRotate => start.rotate_given()?,
        StartPlan::BootstrapFirst => start.bootstrap(false)?,
        StartPlan::BootstrapBehind => start.bootstrap(true)?,
    };
    let (kubeconfig, live) = credentials;
    let transport = transport(kubeconfig, live, &start.clock)?.observed(observer, Arc::clone(&start.clock));
    let api = transport.server(
        Rate::from_settings(config.kube_api_qps, config.kube_api_burst),
        Rate::from_settings(config.event_record_qps, config.event_burst),
    );
    Ok(Some(Connected { api, transport, client }))
}

/// A server, whom to take for it, and the certificate to show where it is not the kubeconfig's own.
type Shown = (Kubeconfig, Option<Arc<LiveCertificate>>);

/// The means from which the credentials are made.
struct Start<'a> {
    kubeconfig: &'a Path,
    bootstrap: &'a Path,
    /// `--cert-dir`.
    folder: &'a Path,
    clock: Arc<dyn Clock>,
}

impl Start<'_> {
    /// The state of the kubeconfig where there is a bootstrap file to fall back on.
    fn state(&self) -> Result<KubeconfigState, String> {
        let path = self.kubeconfig.display();
        match std::fs::metadata(self.kubeconfig) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(KubeconfigState::Unusable),
            Err(error) => return Err(format!("error reading existing bootstrap kubeconfig {path}: {error}")),
            Ok(_) => {}
        }
        let kubeconfig = match Kubeconfig::load(self.kubeconfig) {
            Ok(kubeconfig) => kubeconfig,
            Err(error) => {
                tracing::error!(%error, "unable to read existing bootstrap client config from {path}");
                return Ok(KubeconfigState::Unusable);
            }
        };
        let without = Ok(KubeconfigState::WithoutCertificate);
        let pem = kubeconfig.certificate_pem().map_err(|error| error.to_string());
        let parse = |(chain, key): (Vec<u8>, Vec<u8>)| Pair::parse(&chain, &key).map_err(|error| error.to_string());
        let pair = pem.and_then(|pem| pem.map(parse).transpose());
        match pair {
            Ok(Some(pair)) if !pair.has_expired(self.clock.now()) => Ok(KubeconfigState::Valid),
            Ok(Some(_)) => {
                tracing::error!("part of the existing bootstrap client certificate in {path} is expired");
                without
            }
            Ok(None) => {
                tracing::error!(
                    "unable to read TLS certificates from existing bootstrap client config read from {path}"
                );
                without
            }
            Err(error) => {
                tracing::error!(
                    error,
                    "unable to load TLS configuration from existing bootstrap client config read from {path}"
                );
                without
            }
        }
    }

    /// The kubeconfig's server; its certificate only until there is another.
    fn rotate_given(&self) -> Result<(Shown, Option<Arc<KeptCertificate>>), String> {
        let kubeconfig =
            Kubeconfig::load(self.kubeconfig).map_err(|error| format!("unable to load kubeconfig: {error}"))?;
        let wrong = |error: &dyn std::fmt::Display| format!("failed to initialize client certificate manager: {error}");
        let given = match &kubeconfig.certificate {
            ClientCertificate::Files { chain, key } => Some((chain.clone(), key.clone())),
            ClientCertificate::Data { .. } | ClientCertificate::Absent => None,
        };
        let store = self.store(given)?;
        let now = self.clock.now();
        let mut current = store.current().map_err(|error| wrong(&error))?.filter(|pair| holds(pair, now));
        let mut provisional = None;
        if let (None, ClientCertificate::Data { chain, key }) = (&current, &kubeconfig.certificate) {
            let pair = Pair::parse(chain, key).map_err(|error| wrong(&error))?;
            if let Err(error) = store.update(chain, key, now) {
                tracing::error!(%error, "Unable to set the cert/key pair to the bootstrap certificate");
            }
            provisional = Some(pair.clone());
            current = Some(pair);
        }
        let live = Arc::new(LiveCertificate::new(current));
        let first = self.first_server(&kubeconfig)?;
        let clock = Arc::clone(&self.clock);
        let mut kept = KeptCertificate::new(Purpose::Client, store, Arc::clone(&live), clock).first_from(first);
        if let Some(pair) = provisional {
            kept = kept.provisional(pair);
        }
        Ok(((kubeconfig, Some(live)), Some(Arc::new(kept))))
    }

    /// The bootstrap file's server, and no certificate before the first was issued; `behind`: it is exchanged later, and
    /// the kubeconfig is written at once.
    fn bootstrap(&self, behind: bool) -> Result<(Shown, Option<Arc<KeptCertificate>>), String> {
        let bootstrap = Kubeconfig::load(self.bootstrap)
            .map_err(|error| format!("unable to load bootstrap kubeconfig: {error}"))?;
        let store = self.store(None)?;
        let mut current = None;
        if behind {
            let path = self.kubeconfig;
            write_client_kubeconfig(&bootstrap, path, &store.current_path())
                .map_err(|error| format!("write kubeconfig {}: {error}", path.display()))?;
            let now = self.clock.now();
            let found =
                store.current().inspect_err(|error| tracing::error!(%error, "another certificate is asked for"));
            current = found.ok().flatten().filter(|pair| holds(pair, now));
        }
        tracing::info!(bootstrap = %self.bootstrap.display(), "Using bootstrap kubeconfig to get a client certificate");
        let live = Arc::new(LiveCertificate::new(current));
        let first = self.first_server(&bootstrap)?;
        let clock = Arc::clone(&self.clock);
        let mut kept = KeptCertificate::new(Purpose::Client, store, Arc::clone(&live), clock).first_from(first);
        if !behind {
            kept = kept.once(Once {
                key: self.folder.join(FIRST_KEY),
                kubeconfig: self.kubeconfig.to_owned(),
                bootstrap: bootstrap.clone(),
            });
        }
        Ok(((bootstrap, Some(live)), Some(Arc::new(kept))))
    }

    fn store(&self, given: Option<(PathBuf, PathBuf)>) -> Result<FileStore, String> {
        FileStore::open(Purpose::Client.prefix(), self.folder, given)
            .map_err(|error| format!("failed to initialize client certificate store: {error}"))
    }

    /// The server by the credentials that the first certificate is asked for with.
    fn first_server(&self, kubeconfig: &Kubeconfig) -> Result<ApiServer, String> {
        let (rate, burst) = DEFAULT_RATE;
        Ok(transport(kubeconfig.clone(), None, &self.clock)?.server(Rate::from_settings(rate, burst), None))
    }
}

fn transport(
    kubeconfig: Kubeconfig,
    live: Option<Arc<LiveCertificate>>,
    clock: &Arc<dyn Clock>,
) -> Result<Transport, String> {
    let proxy = kubeconfig.way().map_err(|error| error.to_string())?;
    if let Some(proxy) = &proxy {
        tracing::info!(server = %kubeconfig.server, ?proxy, "the API server is reached through a proxy");
    }
    let settings = Settings::from_environment(kubeconfig.server.clone(), user_agent(KUBERNETES_VERSION));
    let settings = Settings { proxy, ..settings };
    let (offer, clock) = (settings.offer, Arc::clone(clock));
    let credentials = match live {
        Some(live) => Credentials::rotating(&kubeconfig, live, offer, clock),
        None => Credentials::new(kubeconfig, offer, clock),
    };
    Ok(Transport::new(settings, Arc::new(credentials)))
}

fn holds(pair: &Pair, now: Moment) -> bool {
    now <= pair.validity().not_after
}

#[cfg(test)]
mod tests;
