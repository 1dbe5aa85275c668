//! Whether a kubeconfig can be used, all faults at once, in upstream's words.

use std::fs::File;

use kube::config::{AuthInfo, Cluster, Context, Kubeconfig as Document};

use super::KubeconfigError;
use super::file::{is_empty, secret, text};
use crate::platform::cluster::kube_api::transport::Proxy;
use crate::platform::files::small_file::words;

const EMPTY: &str = "no configuration has been provided, try setting KUBERNETES_MASTER environment variable";

/// The current context. A document without one has an empty one, as upstream.
pub(super) fn context(document: &Document) -> Result<Context, KubeconfigError> {
    let name = text(&document.current_context);
    if name.is_empty() {
        return Ok(Context::default());
    }
    let found = document.contexts.iter().find(|context| context.name == name);
    found
        .map(|context| context.context.clone().unwrap_or_default())
        .ok_or_else(|| KubeconfigError(format!("context was not found for specified context: {name}")))
}

/// Whether these two are enough to talk to a server.
pub(super) fn usable(
    user_name: &str,
    user: &AuthInfo,
    cluster_name: &str,
    cluster: &Cluster,
) -> Result<(), KubeconfigError> {
    let mut faults = user_faults(user_name, user);
    match (is_empty(cluster), faults.is_empty()) {
        (true, true) => faults.push(EMPTY.to_owned()),
        (true, false) => faults.push("cluster has no server defined".to_owned()),
        (false, _) => faults.extend(cluster_faults(cluster_name, cluster)),
    }
    let text = match &faults[..] {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    Err(KubeconfigError(format!("invalid configuration: {text}")))
}

fn unreadable(what: &str, path: &str, name: &str) -> Option<String> {
    let error = File::open(path).err().filter(|_| !path.is_empty())?;
    Some(format!("unable to read {what} {path} for {name} due to open {path}: {}", words(&error)))
}

fn cluster_faults(name: &str, cluster: &Cluster) -> Vec<String> {
    let mut faults = vec![];
    let server = text(&cluster.server);
    if server.is_empty() && name.is_empty() {
        faults.push("default cluster has no server defined".to_owned());
    } else if server.is_empty() {
        faults.push(format!("no server found for cluster {name:?}"));
    }
    // The URL may hold a password: it is not repeated.
    let proxy = text(&cluster.proxy_url);
    if let Some(error) = Proxy::parse(proxy).err().filter(|_| !proxy.is_empty()) {
        faults.push(format!("invalid 'proxy-url' for cluster {name:?}: {error}"));
    }
    let authority = text(&cluster.certificate_authority);
    if !authority.is_empty() && !text(&cluster.certificate_authority_data).is_empty() {
        faults.push(format!(
            "certificate-authority-data and certificate-authority are both specified for {name}. \
             certificate-authority-data will override."
        ));
    }
    faults.extend(unreadable("certificate-authority", authority, name));
    faults
}

fn user_faults(name: &str, user: &AuthInfo) -> Vec<String> {
    let mut faults = vec![];
    let certificate_data = !text(&user.client_certificate_data).is_empty();
    let key_data = !secret(&user.client_key_data).is_empty();
    let (certificate, key) = (text(&user.client_certificate), text(&user.client_key));
    if certificate_data || !certificate.is_empty() {
        if certificate_data && !certificate.is_empty() {
            faults.push(format!(
                "client-cert-data and client-cert are both specified for {name}. client-cert-data will override."
            ));
        }
        if key_data && !key.is_empty() {
            faults.push(format!(
                "client-key-data and client-key are both specified for {name}; client-key-data will override"
            ));
        }
        if !key_data && key.is_empty() {
            faults.push(format!(
                "client-key-data or client-key must be specified for {name} to use the clientCert authentication method."
            ));
        }
        faults.extend(unreadable("client-cert", certificate, name));
        faults.extend(unreadable("client-key", key, name));
    }
    faults.extend(exec_faults(name, user));
    let basic = !text(&user.username).is_empty() || !secret(&user.password).is_empty();
    if !secret(&user.token).is_empty() && basic {
        faults.push(format!(
            "more than one authentication method found for {name}; found [token basicAuth], only one is allowed"
        ));
    }
    let as_part = !text(&user.impersonate_uid).is_empty()
        || user.impersonate_groups.as_ref().is_some_and(|groups| !groups.is_empty())
        || user.impersonate_user_extra.as_ref().is_some_and(|extra| !extra.is_empty());
    if as_part && text(&user.impersonate).is_empty() {
        faults.push(format!("requesting uid, groups or user-extra for {name} without impersonating a user"));
    }
    faults
}

fn exec_faults(name: &str, user: &AuthInfo) -> Vec<String> {
    let Some(exec) = &user.exec else { return vec![] };
    let mut faults = vec![];
    if user.auth_provider.is_some() {
        faults.push(format!("authProvider cannot be provided in combination with an exec plugin for {name}"));
    }
    if text(&exec.command).is_empty() {
        faults.push(format!("command must be specified for {name} to use exec authentication plugin"));
    }
    if text(&exec.api_version).is_empty() {
        faults.push(format!("apiVersion must be specified for {name} to use exec authentication plugin"));
    }
    if exec.env.iter().flatten().any(|variable| variable.get("name").is_none_or(String::is_empty)) {
        faults.push(format!("env variable name must be specified for {name} to use exec authentication plugin"));
    }
    if exec.interactive_mode.is_none() {
        faults.push(format!("interactiveMode must be specified for {name} to use exec authentication plugin"));
    }
    faults
}
