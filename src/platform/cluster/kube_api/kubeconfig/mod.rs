//! The kubeconfig: where the API server is, whom to take for it, and who we are. Read once at the start; keeps secrets, so
//! it is in no text.
//!
//! Faults are worded as upstream's `clientcmd` words them. Fields without use for the agent (other contexts, other
//! extensions than those of programs) is read over. Paths are relative to the file they stand in.

pub(super) mod exec_plugin;
mod file;
mod impersonation;
#[cfg(test)]
mod tests;
mod validate;

use std::io;
use std::path::{Path, PathBuf};

use http::HeaderMap;
use kube::config::{AuthInfo, Cluster, Kubeconfig as Document};

use super::transport::{Endpoint, Proxy};
use crate::logic::formats::yaml::{Duplicates, to_json};
use crate::platform::files::small_file::{read, words};
use exec_plugin::ExecPlugin;
pub use file::write_client_kubeconfig;
use file::{complete, data, is_sound, make_absolute, secret, text};

/// A fault in a kubeconfig, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KubeconfigError(pub String);

impl KubeconfigError {
    fn new(problem: impl std::error::Error) -> Self {
        Self(problem.to_string())
    }
}

/// One context of a kubeconfig: the current one.
#[derive(Clone)]
pub struct Kubeconfig {
    /// Where the server is.
    pub server: Endpoint,
    /// The proxy that the file names (`proxy-url`).
    pub proxy: Option<Proxy>,
    /// The name that its certificate is held against, if it is not the address'.
    pub tls_server_name: Option<String>,
    /// The authority that is trusted for it.
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

/// The authority that is trusted for the server.
#[derive(Clone, PartialEq, Eq)]
pub enum Authority {
    /// A server that the system's roots vouch for.
    System,
    /// A server that these roots vouch for, in PEM.
    Data(Vec<u8>),
    /// A server that the roots in this file vouch for; read for each connection.
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

/// The source of the `Authorization` header.
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
        let document = document(path)?.ok_or_else(|| absent(path))?;
        Self::resolve(document, base(path))
    }

    /// Reads a context of the files that a user of kubectl has: of several the first that sets something counts, and one
    /// that is not there says nothing. Without a context it is the current one.
    ///
    /// # Errors
    /// As [`Kubeconfig::load`].
    pub fn load_merged(paths: &[PathBuf], context: Option<&str>) -> Result<Self, KubeconfigError> {
        let mut merged = Document::default();
        for path in paths {
            if let Some(mut next) = document(path)? {
                make_absolute(&mut next, base(path));
                merged = merged.merge(next).map_err(KubeconfigError::new)?;
            }
        }
        if let Some(context) = context {
            if !merged.contexts.iter().any(|named| named.name == context) {
                return Err(KubeconfigError(format!("context {context:?} does not exist")));
            }
            merged.current_context = Some(context.to_owned());
        }
        Self::resolve(merged, Path::new("."))
    }

    fn resolve(document: Document, base: &Path) -> Result<Self, KubeconfigError> {
        let context = validate::context(&document)?;
        let user_name = text(&context.user);
        let user = document.auth_infos.into_iter().find(|named| named.name == user_name);
        let cluster = document.clusters.into_iter().find(|named| named.name == context.cluster);
        let mut user = user.and_then(|named| named.auth_info).unwrap_or_default();
        let mut cluster = cluster.and_then(|named| named.cluster).unwrap_or_default();
        complete(&mut cluster, &mut user, base);
        validate::usable(user_name, &user, &context.cluster, &cluster)?;
        let authority = authority(&cluster)?;
        let tls = authority != Authority::System || has_certificate(&user);
        let server = Endpoint::parse(text(&cluster.server), tls).map_err(KubeconfigError::new)?;
        if let Some(provider) = &user.auth_provider {
            return Err(KubeconfigError(format!("no Auth Provider found for name {:?}", provider.name)));
        }
        let exec = user.exec.clone().map(|exec| ExecPlugin::new(exec, &cluster)).transpose();
        let exec = exec.map_err(KubeconfigError::new)?;
        let proxy = Some(text(&cluster.proxy_url)).filter(|url| !url.is_empty());
        Ok(Self {
            server,
            proxy: proxy.map(Proxy::parse).transpose().map_err(KubeconfigError::new)?,
            tls_server_name: cluster.tls_server_name.filter(|name| !name.is_empty()),
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
            None => Proxy::from_environment(&self.server).map_err(KubeconfigError::new),
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

/// The document in a file; `None` where there is no file.
fn document(path: &Path) -> Result<Option<Document>, KubeconfigError> {
    let fault = |what: &dyn std::fmt::Display| {
        KubeconfigError(format!("error loading config file \"{}\": {what}", path.display()))
    };
    let text = match read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fault(&words(&error))),
    };
    let text = String::from_utf8(text).map_err(|_| fault(&"it is not UTF-8"))?;
    let json = to_json(&text, Duplicates::LastWins).map_err(|error| fault(&error))?;
    // A value that does not fit may be a secret, so no error has it.
    let document: Result<Option<Document>, _> = serde_json::from_value(json);
    let document = document.ok().map(Option::unwrap_or_default).filter(is_sound);
    document.map(Some).ok_or_else(|| fault(&"a field has a value of another kind than it should"))
}

fn absent(path: &Path) -> KubeconfigError {
    KubeconfigError(format!("stat {}: no such file or directory", path.display()))
}

/// The folder that paths in a file are relative to.
fn base(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn authority(cluster: &Cluster) -> Result<Authority, KubeconfigError> {
    let data = data(text(&cluster.certificate_authority_data));
    let file = text(&cluster.certificate_authority);
    let named = !data.is_empty() || !file.is_empty();
    match cluster.insecure_skip_tls_verify.unwrap_or_default() {
        true if named => {
            Err(KubeconfigError("specifying a root certificates file with the insecure flag is not allowed".to_owned()))
        }
        true => Ok(Authority::Anyone),
        false if !data.is_empty() => Ok(Authority::Data(data)),
        false if named => Ok(Authority::File(PathBuf::from(file))),
        false => Ok(Authority::System),
    }
}

fn has_certificate(user: &AuthInfo) -> bool {
    !matches!(certificate(user), ClientCertificate::Absent)
}

fn certificate(user: &AuthInfo) -> ClientCertificate {
    let (chain, key) = (data(text(&user.client_certificate_data)), data(secret(&user.client_key_data)));
    let (chain_file, key_file) = (text(&user.client_certificate), text(&user.client_key));
    // One may be given as data and the other as a file.
    let read_or =
        |data: Vec<u8>, path: &str| if data.is_empty() { read(Path::new(path)).unwrap_or_default() } else { data };
    match (chain.is_empty(), key.is_empty()) {
        (true, true) if chain_file.is_empty() => ClientCertificate::Absent,
        (true, true) => ClientCertificate::Files { chain: PathBuf::from(chain_file), key: PathBuf::from(key_file) },
        _ => {
            let (chain, key) = (read_or(chain, chain_file), read_or(key, key_file));
            if chain.is_empty() { ClientCertificate::Absent } else { ClientCertificate::Data { chain, key } }
        }
    }
}

fn bearer(user: &AuthInfo) -> Bearer {
    let token = Some(secret(&user.token).to_owned()).filter(|token| !token.is_empty());
    let (file, name, password) = (text(&user.token_file), text(&user.username), secret(&user.password));
    match token {
        token if !file.is_empty() => Bearer::File(PathBuf::from(file), token),
        Some(token) => Bearer::Token(token),
        None if !name.is_empty() || !password.is_empty() => Bearer::Basic(name.to_owned(), password.to_owned()),
        None => Bearer::Absent,
    }
}
