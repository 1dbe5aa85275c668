//! The authenticated port: its certificate (asked for, given in files, or made here: NODE-52, NODE-53), who is let in, and
//! what they may. Reads files and wires.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::actors::agent::Agent;
use crate::config::{Config, Invocation};
use crate::logic::node::certificate_plan::Purpose;
use crate::logic::serving::server_access::Switches;
use crate::platform::cluster::access_review::{AccessReviews, ApiReviews};
use crate::platform::cluster::certificates::{
    Certificates, ClientAuthorities, FileStore, KeptCertificate, ServingFiles, ensure_serving_files,
};
use crate::platform::cluster::live_certificate::LiveCertificate;
use crate::platform::host::clock::Clock;
use crate::platform::network::tls_server::{ServerTls, server_config};
use crate::server::Backend;
use crate::server::secure::{Authentication, Authorization, Parts, SecureListener, Tokens};

/// All certificates of the agent, of which the client's is known.
///
/// # Errors
/// When there is none and none can be made, in upstream's words.
pub(super) fn certificates(
    invocation: &Invocation,
    node_name: &str,
    client: Option<Arc<KeptCertificate>>,
    clock: Arc<dyn Clock>,
) -> Result<Certificates, String> {
    let (config, folder) = (&invocation.config, Path::new(&invocation.flags.cert_dir));
    let given = (PathBuf::from(&config.tls_cert_file), PathBuf::from(&config.tls_private_key_file));
    let is_given = !config.tls_cert_file.is_empty() || !config.tls_private_key_file.is_empty();
    if config.server_tls_bootstrap {
        let given = Some(given).filter(|_| is_given);
        let wrong = |what: &str, error: &dyn std::fmt::Display| {
            format!("failed to initialize server certificate {what}: {error}")
        };
        let store =
            FileStore::open(Purpose::Serving.prefix(), folder, given).map_err(|error| wrong("store", &error))?;
        let current = store.current().map_err(|error| wrong("manager", &error))?;
        let current = current.filter(|pair| clock.now() <= pair.validity().not_after);
        let shown = Arc::new(LiveCertificate::new(current));
        let kept = KeptCertificate::new(Purpose::Serving, store, Arc::clone(&shown), clock);
        return Ok(Certificates { client, serving: Some(Arc::new(kept)), shown, ..Certificates::default() });
    }
    let reload = invocation.gates.enabled("ReloadKubeletServerCertificateFile");
    let files = match is_given {
        true => ServingFiles { chain: given.0, key: given.1, reload },
        false => {
            let files = ServingFiles { chain: folder.join("kubelet.crt"), key: folder.join("kubelet.key"), reload };
            ensure_serving_files(&files.chain, &files.key, node_name, clock.now())
                .map_err(|error| error.to_string())?;
            files
        }
    };
    let pair = files.read().map_err(|error| {
        format!("unable to set up dynamic certificate manager for kubelet server cert files: {error}")
    })?;
    let shown = Arc::new(LiveCertificate::new(Some(pair)));
    Ok(Certificates { client, files: Some(files), shown, ..Certificates::default() })
}

/// The authorities of users' certificates, where some are named.
///
/// # Errors
/// When they cannot be read.
pub(super) fn client_authorities(invocation: &Invocation) -> Result<Option<Arc<ClientAuthorities>>, String> {
    let path = &invocation.config.authentication.x509.client_ca_file;
    if path.is_empty() {
        return Ok(None);
    }
    let gates = &invocation.gates;
    let (reload, uid) = ("ReloadKubeletClientCAFile", "AllowParsingUserUIDFromCertAuth");
    let opened = ClientAuthorities::open(Path::new(path), gates.enabled(reload), gates.enabled(uid));
    opened.map(|found| Some(Arc::new(found))).map_err(|error| format!("unable to load client CA file {path}: {error}"))
}

/// Address and port; `None` for port 0, which turns the listener off.
pub(super) fn socket_address(field: &str, address: &str, port: i32) -> Result<Option<SocketAddr>, String> {
    let port = u16::try_from(port).map_err(|_| format!("{field}: port {port} is out of range"))?;
    let ip: IpAddr = address.parse().map_err(|_| format!("{field} {address:?} is not an IP address"))?;
    Ok((port != 0).then(|| SocketAddr::new(ip, port)))
}

/// Where the authenticated port and the read-only one listen, each where it is wanted (CFG-38, CFG-39).
///
/// # Errors
/// As [`socket_address`].
pub(super) fn addresses(config: &Config) -> Result<[Option<SocketAddr>; 2], String> {
    let secure = socket_address("address", &config.address, config.port)?.filter(|_| config.enable_server);
    Ok([secure, socket_address("address", &config.address, config.read_only_port)?])
}

/// The authenticated port; `None` without `enableServer`.
///
/// # Errors
/// When the port cannot be had, or the configuration asks for what cannot be; in upstream's words where it has some.
pub(super) fn listener(
    invocation: &Invocation,
    agent: &Agent,
    backend: &Arc<Backend>,
) -> Result<Option<SecureListener>, String> {
    let config = &invocation.config;
    let [Some(address), _] = addresses(config)? else { return Ok(None) };
    let settings = ServerTls {
        min_version: config.tls_min_version.clone(),
        cipher_suites: config.tls_cipher_suites.clone(),
        groups: config.tls_curve_preferences.clone(),
        ask_client: agent.adapters.cluster.certificates.authorities.is_some(),
    };
    let shown: Arc<LiveCertificate> = Arc::clone(&agent.adapters.cluster.certificates.shown);
    let (tls, notes) = server_config(&settings, shown).map_err(|error| error.to_string())?;
    for note in notes {
        tracing::warn!("{note}");
    }
    let reviews =
        agent.adapters.cluster.api.as_ref().map(|api| Arc::new(ApiReviews::new(api)) as Arc<dyn AccessReviews>);
    let parts = Parts {
        tls,
        authentication: Arc::new(authentication(invocation, agent, reviews.clone())?),
        authorization: Arc::new(authorization(invocation, agent, reviews)?),
        switches: switches(invocation),
        backend: Arc::clone(backend),
    };
    let listener = SecureListener::bind(address, parts);
    listener.map(Some).map_err(|error| format!("listen on {address}: {error}"))
}

fn authentication(
    invocation: &Invocation,
    agent: &Agent,
    reviews: Option<Arc<dyn AccessReviews>>,
) -> Result<Authentication, String> {
    let settings = &invocation.config.authentication;
    let tokens = match settings.webhook.enabled {
        true => {
            let reviews = reviews.ok_or("no client provided, cannot use webhook authentication")?;
            let tokens = Tokens::new(reviews, settings.webhook.cache_ttl.to_std());
            Some(tokens.map_err(|error| error.to_string())?)
        }
        false => None,
    };
    let authorities = agent.adapters.cluster.certificates.authorities.clone();
    Ok(Authentication::new(authorities, tokens, settings.anonymous.enabled, Arc::clone(agent.trace.clock())))
}

fn authorization(
    invocation: &Invocation,
    agent: &Agent,
    reviews: Option<Arc<dyn AccessReviews>>,
) -> Result<Authorization, String> {
    let settings = &invocation.config.authorization;
    if settings.mode == "AlwaysAllow" {
        return Ok(Authorization::AlwaysAllow);
    }
    let reviews = reviews.ok_or("no client provided, cannot use webhook authorization")?;
    let (allowed, refused) = (&settings.webhook.cache_authorized_ttl, &settings.webhook.cache_unauthorized_ttl);
    Ok(Authorization::webhook(
        reviews,
        &agent.settings.node_name,
        allowed.to_std(),
        refused.to_std(),
        Arc::clone(agent.trace.clock()),
    ))
}

fn switches(invocation: &Invocation) -> Switches {
    let (config, gates) = (&invocation.config, &invocation.gates);
    Switches {
        debugging: config.enable_debugging_handlers,
        system_logs: config.enable_system_log_handler,
        profiling: config.enable_profiling_handler,
        debug_flags: config.enable_debug_flags_handler,
        checkpoint: gates.enabled("ContainerCheckpoint"),
        flagz: gates.enabled("ComponentFlagz"),
        statusz: gates.enabled("ComponentStatusz"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CFG-38: as upstream, the read-only port has a setting of its own.
    #[test]
    fn without_a_server_no_authenticated_port_opens_and_the_read_only_one_may() {
        let addresses = |enable_server, read_only_port| {
            let address = "127.0.0.1".to_owned();
            let config = Config { enable_server, address, port: 10250, read_only_port, ..Config::default() };
            addresses(&config).expect("they are addresses").map(|address| address.map(|address| address.port()))
        };
        assert_eq!(addresses(true, 0), [Some(10250), None]);
        assert_eq!(addresses(false, 0), [None, None]);
        assert_eq!(addresses(false, 10255), [None, Some(10255)]);
    }
}
