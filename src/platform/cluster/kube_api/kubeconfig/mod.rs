//! The kubeconfig: where the API server is, whom to take for it, and who we are. Read once at the start; keeps secrets, so
//! it is in no text.
//!
//! Faults are worded as upstream's `clientcmd` words them. What the agent has no use for (other contexts, other
//! extensions than those of programs) is read over. Paths are relative to the file they stand in.

mod file;
mod impersonation;
#[cfg(test)]
mod tests;
mod validate;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use http::HeaderMap;

use super::exec_plugin::ExecPlugin;
use super::transport::{Endpoint, Proxy};
use crate::logic::formats::yaml::{Duplicates, to_json};
pub use file::write_client_kubeconfig;
use file::{AuthInfo, Document};
pub(in crate::platform::cluster::kube_api) use file::{Cluster, Exec};

/// The most bytes of a kubeconfig, of a certificate, of a token.
pub(crate) const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What is wrong with a kubeconfig, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KubeconfigError(pub String);

/// One context of a kubeconfig: the current one.
#[derive(Clone)]
pub struct Kubeconfig {
    /// Where the server is.
    pub server: Endpoint,
    /// The proxy that the file names (`proxy-url`).
    pub proxy: Option<Proxy>,
    /// The name that its certificate is held against, if it is not the address'.
    pub tls_server_name: Option<String>,
    /// Whom to take for it.
    pub authority: Authority,
    /// Which certificate to show.
    pub certificate: ClientCertificate,
    /// Which token or password to send.
    pub bearer: Bearer,
    /// As whom to call, where that is somebody else; headers.
    pub impersonation: HeaderMap,
    /// The program that gives a token or a certificate, where neither is given here.
    pub exec: Option<ExecPlugin>,
}

/// Whom to take for the server.
#[derive(Clone, PartialEq, Eq)]
pub enum Authority {
    /// Whoever the system's roots vouch for.
    System,
    /// Whoever these roots vouch for, in PEM.
    Data(Vec<u8>),
    /// Whoever the roots in this file vouch for; read for each connection.
    File(PathBuf),
    /// Anyone.
    Anyone,
}

/// The client certificate.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientCertificate {
    /// None.
    Absent,
    /// This one, in PEM.
    Data {
        /// The chain, leaf first.
        chain: Vec<u8>,
        /// The leaf's key.
        key: Vec<u8>,
    },
    /// The one in these files, which may be one; read for each connection, and now and then while one is open.
    Files {
        /// The chain, leaf first.
        chain: PathBuf,
        /// The leaf's key.
        key: PathBuf,
    },
}

/// The PEM of a certificate chain, and that of its key.
pub type PairPem = (Vec<u8>, Vec<u8>);

/// What the `Authorization` header is made of.
#[derive(Clone, PartialEq, Eq)]
pub enum Bearer {
    /// Nothing.
    Absent,
    /// A token.
    Token(String),
    /// The token in this file, read again each minute; before it was ever read, the other one, if there is one.
    File(PathBuf, Option<String>),
    /// A name and a password.
    Basic(String, String),
}

impl Kubeconfig {
    /// Reads the current context of a file.
    ///
    /// # Errors
    /// In upstream's words: the file is not there, cannot be read or understood, or lacks what is needed.
    pub fn load(path: &Path) -> Result<Self, KubeconfigError> {
        let wrong = |text: String| KubeconfigError(text);
        let text = read(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => wrong(format!("stat {}: no such file or directory", path.display())),
            _ => wrong(format!("error loading config file \"{}\": {}", path.display(), words(&error))),
        })?;
        let fault =
            |what: &dyn std::fmt::Display| wrong(format!("error loading config file \"{}\": {what}", path.display()));
        let text = String::from_utf8(text).map_err(|_| fault(&"it is not UTF-8"))?;
        let json = to_json(&text, Duplicates::LastWins).map_err(|error| fault(&error))?;
        // What does not fit may be a secret, so it is not shown.
        let document: Option<Document> =
            serde_json::from_value(json).map_err(|_| fault(&"a field has a value of another kind than it should"))?;
        let document = document.unwrap_or_default();
        let base = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Self::resolve(document, base)
    }

    fn resolve(document: Document, base: &Path) -> Result<Self, KubeconfigError> {
        let context = validate::context(&document)?;
        let find = |name: &str| document.users.iter().flatten().find(|user| user.name == name);
        let mut user = find(&context.user).map(|user| user.user.clone()).unwrap_or_default();
        let clusters = document.clusters.iter().flatten();
        let mut cluster = clusters
            .clone()
            .find(|cluster| cluster.name == context.cluster)
            .map(|c| c.cluster.clone())
            .unwrap_or_default();
        user.resolve_paths(base);
        cluster.resolve_paths(base);
        validate::usable(&context.user, &user, &context.cluster, &cluster)?;
        let authority = authority(&cluster)?;
        let tls = authority != Authority::System || has_certificate(&user);
        let server = Endpoint::parse(&cluster.server, tls).map_err(KubeconfigError)?;
        if let Some(provider) = &user.auth_provider {
            return Err(KubeconfigError(format!("no Auth Provider found for name {:?}", provider.name)));
        }
        let exec =
            user.exec.clone().map(|exec| ExecPlugin::new(exec, &cluster)).transpose().map_err(KubeconfigError)?;
        let proxy = Some(&cluster.proxy_url).filter(|url| !url.is_empty());
        Ok(Self {
            server,
            proxy: proxy.map(|url| Proxy::parse(url)).transpose().map_err(KubeconfigError)?,
            tls_server_name: Some(cluster.tls_server_name).filter(|name| !name.is_empty()),
            authority,
            certificate: certificate(&user),
            bearer: bearer(&user),
            impersonation: impersonation::headers(&user)?,
            exec,
        })
    }

    /// The same server, with nobody's credentials.
    #[must_use]
    pub fn anonymous(&self) -> Self {
        let (certificate, bearer, impersonation) = (ClientCertificate::Absent, Bearer::Absent, HeaderMap::new());
        Self { certificate, bearer, impersonation, exec: None, ..self.clone() }
    }

    /// The proxy to the server: the file's own, else the one that the environment names.
    ///
    /// # Errors
    /// When that one cannot be used.
    pub fn way(&self) -> Result<Option<Proxy>, KubeconfigError> {
        match &self.proxy {
            Some(proxy) => Ok(Some(proxy.clone())),
            None => Proxy::from_environment(&self.server).map_err(KubeconfigError),
        }
    }

    /// The client certificate's PEM and its key's, `None` where there is none; read from its files if need be.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn certificate_pem(&self) -> Result<Option<PairPem>, KubeconfigError> {
        match &self.certificate {
            ClientCertificate::Absent => Ok(None),
            ClientCertificate::Data { chain, key } => Ok(Some((chain.clone(), key.clone()))),
            ClientCertificate::Files { chain, key } => {
                let read = |path: &Path| {
                    let wrong =
                        |error: io::Error| KubeconfigError(format!("open {}: {}", path.display(), words(&error)));
                    read(path).map_err(wrong)
                };
                Ok(Some((read(chain)?, read(key)?)))
            }
        }
    }
}

/// Reads a file of credentials. It is the administrator's, and may be a link.
///
/// # Errors
/// When it cannot be read, or has more than 4 MiB.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("larger than 4 MiB"));
    }
    Ok(bytes)
}

/// The kernel's words, as upstream prints them.
pub(crate) fn words(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase()
}

fn authority(cluster: &Cluster) -> Result<Authority, KubeconfigError> {
    let data = cluster.certificate_authority_data.as_ref().map(|data| data.0.clone()).unwrap_or_default();
    let named = !data.is_empty() || !cluster.certificate_authority.is_empty();
    match cluster.insecure_skip_tls_verify {
        true if named => {
            Err(KubeconfigError("specifying a root certificates file with the insecure flag is not allowed".to_owned()))
        }
        true => Ok(Authority::Anyone),
        false if !data.is_empty() => Ok(Authority::Data(data)),
        false if named => Ok(Authority::File(PathBuf::from(&cluster.certificate_authority))),
        false => Ok(Authority::System),
    }
}

fn has_certificate(user: &AuthInfo) -> bool {
    !matches!(certificate(user), ClientCertificate::Absent)
}

fn certificate(user: &AuthInfo) -> ClientCertificate {
    let chain = user.client_certificate_data.as_ref().map(|data| data.0.clone()).unwrap_or_default();
    let key = user.client_key_data.as_ref().map(|data| data.0.clone()).unwrap_or_default();
    // One may be given as data and the other as a file.
    let read_or =
        |data: Vec<u8>, path: &str| if data.is_empty() { read(Path::new(path)).unwrap_or_default() } else { data };
    match (chain.is_empty(), key.is_empty()) {
        (true, true) if user.client_certificate.is_empty() => ClientCertificate::Absent,
        (true, true) => ClientCertificate::Files {
            chain: PathBuf::from(&user.client_certificate),
            key: PathBuf::from(&user.client_key),
        },
        _ => {
            let chain = read_or(chain, &user.client_certificate);
            let key = read_or(key, &user.client_key);
            if chain.is_empty() { ClientCertificate::Absent } else { ClientCertificate::Data { chain, key } }
        }
    }
}

fn bearer(user: &AuthInfo) -> Bearer {
    let token = Some(user.token.clone()).filter(|token| !token.is_empty());
    match token {
        token if !user.token_file.is_empty() => Bearer::File(PathBuf::from(&user.token_file), token),
        Some(token) => Bearer::Token(token),
        None if !user.username.is_empty() || !user.password.is_empty() => {
            Bearer::Basic(user.username.clone(), user.password.clone())
        }
        None => Bearer::Absent,
    }
}
