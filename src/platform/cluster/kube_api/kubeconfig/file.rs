//! The kubeconfig as it stands in its file, to read and to write: kube's types, and what upstream's `clientcmd` does to them
//! before they are used. Plain data with secrets: nothing here prints itself.

use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{
    AuthInfo, Cluster, Context, ExecInteractiveMode, Kubeconfig as Document, NamedAuthInfo, NamedCluster, NamedContext,
};
use secrecy::{ExposeSecret, SecretString};

use super::{Authority, Kubeconfig};
use crate::platform::files::whole_file::write_whole;

/// A text; as upstream, one that is not given is an empty one.
pub(in crate::platform::cluster::kube_api) fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

/// A secret text.
pub(super) fn secret(field: &Option<SecretString>) -> &str {
    field.as_ref().map(ExposeSecret::expose_secret).unwrap_or_default()
}

/// The bytes of a text in Base64, of a document that [`is_sound`].
pub(in crate::platform::cluster::kube_api) fn data(base64: &str) -> Vec<u8> {
    STANDARD.decode(base64).expect("invariant: a document with other texts is refused")
}

/// Whether all that should be Base64 is that.
pub(super) fn is_sound(document: &Document) -> bool {
    let is_data = |base64: &str| STANDARD.decode(base64).is_ok();
    let clusters = document.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let mut users = document.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    clusters.into_iter().all(|cluster| is_data(text(&cluster.certificate_authority_data)))
        && users.all(|user| is_data(text(&user.client_certificate_data)) && is_data(secret(&user.client_key_data)))
}

/// Whether a cluster says nothing that the agent reads.
pub(super) fn is_empty(cluster: &Cluster) -> bool {
    let texts = [
        &cluster.server,
        &cluster.tls_server_name,
        &cluster.certificate_authority,
        &cluster.certificate_authority_data,
        &cluster.proxy_url,
    ];
    texts.into_iter().all(|field| text(field).is_empty())
        && !cluster.insecure_skip_tls_verify.unwrap_or_default()
        && cluster.extensions.is_none()
}

fn absolute(path: &mut Option<String>, base: &Path) {
    if let Some(path) = path.as_mut().filter(|path| !path.is_empty() && Path::new(path.as_str()).is_relative()) {
        *path = base.join(path.as_str()).to_string_lossy().into_owned();
    }
}

/// Makes paths absolute that are relative to the file they stand in, and fills in what upstream fills in.
pub(super) fn complete(cluster: &mut Cluster, user: &mut AuthInfo, base: &Path) {
    absolute(&mut cluster.certificate_authority, base);
    for path in [&mut user.client_certificate, &mut user.client_key, &mut user.token_file] {
        absolute(path, base);
    }
    if let Some(exec) = &mut user.exec {
        // A bare name is looked up in PATH.
        if text(&exec.command).contains('/') {
            absolute(&mut exec.command, base);
        }
        // As upstream defaults it for the older version of the protocol.
        if text(&exec.api_version) == "client.authentication.k8s.io/v1beta1" {
            exec.interactive_mode.get_or_insert(ExecInteractiveMode::IfAvailable);
        }
    }
}

/// The same for all clusters and users of a document, before it is merged with those of other folders.
pub(super) fn make_absolute(document: &mut Document, base: &Path) {
    for cluster in document.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        complete(cluster, &mut AuthInfo::default(), base);
    }
    for user in document.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        complete(&mut Cluster::default(), user, base);
    }
}

/// Writes the kubeconfig of a node that has a client certificate of its own: the bootstrap file's server, its name, roots
/// and proxy, and `pair_path` as certificate and key. Written beside and renamed, mode 0600; missing folders are made.
///
/// # Errors
/// When it cannot be written.
pub fn write_client_kubeconfig(bootstrap: &Kubeconfig, path: &Path, pair_path: &Path) -> io::Result<()> {
    let pair_path = Some(pair_path.to_string_lossy().into_owned());
    let mut cluster = Cluster {
        server: Some(bootstrap.server.to_string()),
        // Upstream leaves both out, and does not reach or not know its server after the next start.
        tls_server_name: bootstrap.tls_server_name.clone(),
        proxy_url: bootstrap.proxy.as_ref().map(|proxy| proxy.url().to_owned()),
        ..Cluster::default()
    };
    match &bootstrap.authority {
        Authority::System => {}
        Authority::Anyone => cluster.insecure_skip_tls_verify = Some(true),
        Authority::File(path) => cluster.certificate_authority = Some(path.to_string_lossy().into_owned()),
        Authority::Data(data) => cluster.certificate_authority_data = Some(STANDARD.encode(data)),
    }
    let user = AuthInfo { client_certificate: pair_path.clone(), client_key: pair_path, ..AuthInfo::default() };
    let context = Context {
        cluster: "default-cluster".to_owned(),
        user: Some("default-auth".to_owned()),
        namespace: Some("default".to_owned()),
        ..Context::default()
    };
    let document = Document {
        api_version: Some("v1".to_owned()),
        kind: Some("Config".to_owned()),
        clusters: vec![NamedCluster {
            name: "default-cluster".to_owned(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        contexts: vec![NamedContext {
            name: "default-context".to_owned(),
            context: Some(context),
            ..NamedContext::default()
        }],
        current_context: Some("default-context".to_owned()),
        auth_infos: vec![NamedAuthInfo {
            name: "default-auth".to_owned(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        ..Document::default()
    };
    let text = serde_saphyr::to_string(&document).map_err(|error| io::Error::other(error.to_string()))?;
    write_whole(path, text.as_bytes(), 0o600)
}
