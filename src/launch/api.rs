//! The API server, where a kubeconfig names one. Reads files and wires; the first call connects.

use std::path::Path;
use std::sync::Arc;

use crate::config::{Invocation, KUBERNETES_VERSION};
use crate::platform::clock::Clock;
use crate::platform::kube_api::ApiServer;
use crate::platform::kube_api::credentials::Credentials;
use crate::platform::kube_api::kubeconfig::Kubeconfig;
use crate::platform::kube_api::transport::{Rate, Settings, Transport, user_agent};

/// The API server, and the connections to it.
pub(super) struct Connected {
    pub(super) api: ApiServer,
    pub(super) transport: Transport,
}

/// Reads the kubeconfig; `None` for a standalone agent (CFG-43). Needs a runtime.
///
/// # Errors
/// When the kubeconfig cannot be used, in upstream's words, or asks for what this version does not do yet.
pub(super) fn connect(invocation: &Invocation, clock: Arc<dyn Clock>) -> Result<Option<Connected>, String> {
    let (config, flags) = (&invocation.config, &invocation.flags);
    let path = Path::new(&flags.kubeconfig);
    if flags.kubeconfig.is_empty() {
        return match flags.bootstrap_kubeconfig.as_str() {
            "" => Ok(None),
            bootstrap => Err(format!("--bootstrap-kubeconfig {bootstrap} is of no use without --kubeconfig")),
        };
    }
    if !flags.bootstrap_kubeconfig.is_empty() && !path.exists() {
        return Err(format!(
            "--kubeconfig {} does not exist, and this version cannot ask for a client certificate with \
             --bootstrap-kubeconfig yet: make the kubeconfig first",
            flags.kubeconfig
        ));
    }
    let kubeconfig = Kubeconfig::load(path).map_err(|error| error.to_string())?;
    if config.rotate_certificates {
        tracing::warn!("client certificates are not rotated by this version; a file that is exchanged is read again");
    }
    let settings = Settings::from_environment(kubeconfig.server.clone(), user_agent(KUBERNETES_VERSION));
    let credentials = Credentials::new(kubeconfig, settings.offer, clock);
    let transport = Transport::new(settings, Arc::new(credentials));
    let api = transport.server(
        Rate::from_settings(config.kube_api_qps, config.kube_api_burst),
        Rate::from_settings(config.event_record_qps, config.event_burst),
    );
    Ok(Some(Connected { api, transport }))
}
