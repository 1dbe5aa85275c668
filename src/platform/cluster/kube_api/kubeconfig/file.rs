//! The kubeconfig as it stands in its file, to read and to write. Plain data with secrets: nothing here prints itself.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Authority, Kubeconfig};
use crate::platform::files::whole_file::write_whole;

#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Document {
    pub clusters: Option<Vec<NamedCluster>>,
    pub users: Option<Vec<NamedUser>>,
    pub contexts: Option<Vec<NamedContext>>,
    pub current_context: String,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
pub(super) struct NamedCluster {
    pub name: String,
    pub cluster: Cluster,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
pub(super) struct NamedUser {
    pub name: String,
    pub user: AuthInfo,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
pub(super) struct NamedContext {
    pub name: String,
    pub context: Context,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
pub(super) struct Context {
    pub cluster: String,
    pub user: String,
}

#[derive(Deserialize, Default, Clone, PartialEq)]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::platform::cluster::kube_api) struct Cluster {
    pub server: String,
    pub tls_server_name: String,
    pub insecure_skip_tls_verify: bool,
    pub certificate_authority: String,
    pub certificate_authority_data: Option<ByteString>,
    pub proxy_url: String,
    pub extensions: Option<Vec<NamedExtension>>,
}

/// What a program of the administrator's wants to know, as they laid it down.
#[derive(Deserialize, Default, Clone, PartialEq)]
#[serde(default)]
pub(in crate::platform::cluster::kube_api) struct NamedExtension {
    pub name: String,
    pub extension: Value,
}

#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct AuthInfo {
    pub client_certificate: String,
    pub client_certificate_data: Option<ByteString>,
    pub client_key: String,
    pub client_key_data: Option<ByteString>,
    pub token: String,
    #[serde(rename = "tokenFile")]
    pub token_file: String,
    pub username: String,
    pub password: String,
    #[serde(rename = "as")]
    pub impersonate: String,
    pub as_uid: String,
    pub as_groups: Option<Vec<String>>,
    pub as_user_extra: Option<BTreeMap<String, Vec<String>>>,
    pub auth_provider: Option<AuthProvider>,
    pub exec: Option<Exec>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
pub(super) struct AuthProvider {
    pub name: String,
}

/// The program that gives credentials.
#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::platform::cluster::kube_api) struct Exec {
    pub command: String,
    pub args: Option<Vec<String>>,
    pub env: Option<Vec<ExecVariable>>,
    pub api_version: String,
    pub install_hint: String,
    pub provide_cluster_info: bool,
    pub interactive_mode: String,
}

#[derive(Deserialize, Serialize, Default, Clone)]
#[serde(default)]
pub(in crate::platform::cluster::kube_api) struct ExecVariable {
    pub name: String,
    pub value: String,
}

fn absolute(path: &mut String, base: &Path) {
    if !path.is_empty() && Path::new(path.as_str()).is_relative() {
        *path = base.join(path.as_str()).to_string_lossy().into_owned();
    }
}

impl Cluster {
    pub(super) fn resolve_paths(&mut self, base: &Path) {
        absolute(&mut self.certificate_authority, base);
    }
}

impl AuthInfo {
    pub(super) fn resolve_paths(&mut self, base: &Path) {
        for path in [&mut self.client_certificate, &mut self.client_key, &mut self.token_file] {
            absolute(path, base);
        }
        if let Some(exec) = &mut self.exec {
            // A bare name is looked up in PATH.
            if exec.command.contains('/') {
                absolute(&mut exec.command, base);
            }
            // As upstream defaults it for the older version of the protocol.
            if exec.interactive_mode.is_empty() && exec.api_version == "client.authentication.k8s.io/v1beta1" {
                exec.interactive_mode = "IfAvailable".to_owned();
            }
        }
    }
}

/// Writes the kubeconfig of a node that has a client certificate of its own: the bootstrap file's server, its name, roots and proxy, and
/// `pair_path` as certificate and key. Written beside and renamed, mode 0600; missing folders are made.
///
/// # Errors
/// When it cannot be written.
pub fn write_client_kubeconfig(bootstrap: &Kubeconfig, path: &Path, pair_path: &Path) -> io::Result<()> {
    let mut cluster = json!({"server": bootstrap.server.to_string()});
    match &bootstrap.authority {
        Authority::System => {}
        Authority::Anyone => cluster["insecure-skip-tls-verify"] = true.into(),
        Authority::File(path) => cluster["certificate-authority"] = path.to_string_lossy().into(),
        Authority::Data(data) => {
            cluster["certificate-authority-data"] =
                serde_json::to_value(ByteString(data.clone())).expect("bytes have a text");
        }
    }
    // Upstream leaves both out, and does not reach or not know its server after the next start.
    if let Some(name) = &bootstrap.tls_server_name {
        cluster["tls-server-name"] = name.as_str().into();
    }
    if let Some(proxy) = &bootstrap.proxy {
        cluster["proxy-url"] = proxy.url().into();
    }
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default-cluster", "cluster": cluster}],
        "contexts": [{"name": "default-context", "context":
            {"cluster": "default-cluster", "namespace": "default", "user": "default-auth"}}],
        "current-context": "default-context",
        "users": [{"name": "default-auth", "user":
            {"client-certificate": pair_path.to_string_lossy(), "client-key": pair_path.to_string_lossy()}}],
    });
    let text = serde_saphyr::to_string(&document).map_err(|error| io::Error::other(error.to_string()))?;
    write_whole(path, text.as_bytes(), 0o600)
}
