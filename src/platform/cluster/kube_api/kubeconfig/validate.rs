//! Whether a kubeconfig can be used, all faults at once, in upstream's words.

use std::fs::File;

use super::file::{AuthInfo, Cluster, Context, Document};
use super::{KubeconfigError, words};
use crate::platform::cluster::kube_api::transport::Proxy;

const EMPTY: &str = "no configuration has been provided, try setting KUBERNETES_MASTER environment variable";

/// The current context. A document without one has an empty one, as upstream.
pub(super) fn context(document: &Document) -> Result<Context, KubeconfigError> {
    let name = &document.current_context;
    if name.is_empty() {
        return Ok(Context::default());
    }
    let found = document.contexts.iter().flatten().find(|context| context.name == *name);
    found
        .map(|context| context.context.clone())
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
    let empty_cluster = *cluster == Cluster::default();
    match (empty_cluster, faults.is_empty()) {
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
    if cluster.server.is_empty() && name.is_empty() {
        faults.push("default cluster has no server defined".to_owned());
    } else if cluster.server.is_empty() {
        faults.push(format!("no server found for cluster {name:?}"));
    }
    // The URL may hold a password: it is not repeated.
    if let Some(error) = Proxy::parse(&cluster.proxy_url).err().filter(|_| !cluster.proxy_url.is_empty()) {
        faults.push(format!("invalid 'proxy-url' for cluster {name:?}: {error}"));
    }
    if !cluster.certificate_authority.is_empty() && has(cluster.certificate_authority_data.as_ref()) {
        faults.push(format!(
            "certificate-authority-data and certificate-authority are both specified for {name}. \
             certificate-authority-data will override."
        ));
    }
    faults.extend(unreadable("certificate-authority", &cluster.certificate_authority, name));
    faults
}

fn has(data: Option<&k8s_openapi::ByteString>) -> bool {
    data.is_some_and(|data| !data.0.is_empty())
}

fn user_faults(name: &str, user: &AuthInfo) -> Vec<String> {
    let mut faults = vec![];
    let certificate_data = has(user.client_certificate_data.as_ref());
    let key_data = has(user.client_key_data.as_ref());
    if certificate_data || !user.client_certificate.is_empty() {
        if certificate_data && !user.client_certificate.is_empty() {
            faults.push(format!(
                "client-cert-data and client-cert are both specified for {name}. client-cert-data will override."
            ));
        }
        if key_data && !user.client_key.is_empty() {
            faults.push(format!(
                "client-key-data and client-key are both specified for {name}; client-key-data will override"
            ));
        }
        if !key_data && user.client_key.is_empty() {
            faults.push(format!(
                "client-key-data or client-key must be specified for {name} to use the clientCert authentication method."
            ));
        }
        faults.extend(unreadable("client-cert", &user.client_certificate, name));
        faults.extend(unreadable("client-key", &user.client_key, name));
    }
    faults.extend(exec_faults(name, user));
    let basic = !user.username.is_empty() || !user.password.is_empty();
    if !user.token.is_empty() && basic {
        faults.push(format!(
            "more than one authentication method found for {name}; found [token basicAuth], only one is allowed"
        ));
    }
    let as_part = !user.as_uid.is_empty()
        || user.as_groups.as_ref().is_some_and(|groups| !groups.is_empty())
        || user.as_user_extra.as_ref().is_some_and(|extra| !extra.is_empty());
    if as_part && user.impersonate.is_empty() {
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
    if exec.command.is_empty() {
        faults.push(format!("command must be specified for {name} to use exec authentication plugin"));
    }
    if exec.api_version.is_empty() {
        faults.push(format!("apiVersion must be specified for {name} to use exec authentication plugin"));
    }
    if exec.env.iter().flatten().any(|variable| variable.name.is_empty()) {
        faults.push(format!("env variable name must be specified for {name} to use exec authentication plugin"));
    }
    match exec.interactive_mode.as_str() {
        "Never" | "IfAvailable" | "Always" => {}
        "" => faults.push(format!("interactiveMode must be specified for {name} to use exec authentication plugin")),
        other => faults.push(format!("invalid interactiveMode for {name}: {other:?}")),
    }
    faults
}
