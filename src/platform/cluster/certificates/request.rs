//! Asking the cluster for a certificate: makes the request object, waits until it is signed. Owned by the operation that
//! runs it; keeps nothing.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use kube::core::ObjectMeta;
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use tokio::sync::mpsc;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use crate::logic::model::time::Moment;
use crate::logic::node::certificate_plan::{Names, bootstrap_request_text};
use crate::platform::cluster::crypto::digest::{SHA512_256, digest};
use crate::platform::cluster::key_pair::{PairError, validity_in};
use crate::platform::cluster::kube_api::reflector::{Followed, follow};
use crate::platform::cluster::kube_api::{ApiError, ApiServer, Place, Selector};

/// The signer of client certificates of nodes.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of serving certificates of nodes.
pub const SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";
/// The usages of a client certificate.
pub const CLIENT_USAGES: [&str; 2] = ["digital signature", "client auth"];
/// The usages of a serving certificate.
pub const SERVING_USAGES: [&str; 2] = ["digital signature", "server auth"];
/// A further usage of a certificate for an RSA key.
pub(super) const KEY_ENCIPHERMENT: &str = "key encipherment";
/// How long to wait for a rotation's certificate before it is asked for anew.
pub const ROTATION_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// How long a bootstrapping node waits.
pub const BOOTSTRAP_TIMEOUT: Duration = Duration::from_secs(3600);

/// The request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The object's name, under which one made before is used again; `None` for a new name each time.
    pub name: Option<&'a str>,
    /// The signer.
    pub signer: &'a str,
    /// The usages of the certificate.
    pub usages: &'a [&'a str],
    /// The request, in PEM.
    pub csr: &'a str,
    /// How long to wait for the certificate once it was asked for.
    pub timeout: Duration,
    /// The time, to tell whether a certificate that is there already still holds.
    pub now: Moment,
}

/// The name of the request that a bootstrapping node makes, as upstream forms it: the digest of all that the node asks for.
pub(super) fn bootstrap_request_name(public_key: &[u8], names: &Names, usages: &[&str]) -> String {
    let text = bootstrap_request_text(public_key, names, usages);
    format!("node-csr-{}", URL_SAFE_NO_PAD.encode(digest(&SHA512_256, text.as_bytes())))
}

/// Why there is no certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The object could not be made or read.
    #[error("cannot {0} certificate signing request: {1}")]
    Api(&'static str, ApiError),
    /// Denied, failed, gone or not ours; in upstream's words.
    #[error("cannot watch on the certificate signing request: {0}")]
    Refused(RefusedError),
    /// One of this name is there and asks for something else.
    #[error("retrieved csr is not compatible: {0}")]
    Incompatible(IncompatibleError),
    /// Nobody signed it in time.
    #[error("timed out waiting for the condition")]
    TimedOut,
}

/// Why a request ends without a certificate; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedError {
    /// Somebody deleted the object of this name.
    #[error("csr {0:?} was deleted")]
    Deleted(String),
    /// The object of this name is another one now.
    #[error("csr {0:?} changed UIDs")]
    OtherUid(String),
    /// An approver denied it, or the signer failed.
    #[error("certificate signing request {verdict}, reason: {reason}, message: {message}")]
    Judged {
        /// `is denied` or `failed`.
        verdict: &'static str,
        /// The condition's reason.
        reason: String,
        /// The condition's message.
        message: String,
    },
}

/// How an object of our name differs from our request; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IncompatibleError {
    /// Another signer.
    #[error("csr signerNames differ: new {there:?}, orig: {ours:?}")]
    Signer {
        /// The object's.
        there: String,
        /// Ours.
        ours: String,
    },
    /// One of the two is no request in PEM.
    #[error("unable to parse new csr: PEM block type must be CERTIFICATE REQUEST")]
    NoPem,
    /// One of the two cannot be read.
    #[error("unable to parse new csr: x509: malformed request")]
    Malformed,
    /// Another subject.
    #[error("csr subjects differ: new: {there}, orig: {ours}")]
    Subject {
        /// The object's.
        there: String,
        /// Ours.
        ours: String,
    },
    /// Another key.
    #[error("error validating signature new CSR against old key: the keys differ")]
    Key,
    /// Its certificate cannot be read.
    #[error("error parsing signed certificate for CSR: {0}")]
    Certificate(PairError),
    /// Its certificate has ended, at this time.
    #[error("one of the certificates for the CSR has expired: {0}")]
    Expired(jiff::Timestamp),
}

impl RequestError {
    /// Whether the server is at work, as far as this shows: as upstream, an answer that one may well get for such a request
    /// says so. Anything else that kept it from being made says the opposite, as does a proxy's; `None` once it was made.
    pub fn server_answers(&self) -> Option<bool> {
        match self {
            Self::Api(_, error) => {
                Some(error.is_unauthorized() || error.is_not_found() || (error.is_forbidden() && !error.is_bare()))
            }
            Self::Refused(_) | Self::Incompatible(_) | Self::TimedOut => None,
        }
    }
}

/// Asks for a certificate and waits for it; gives its PEM. Nothing is undone when it is dropped: what was asked for stays
/// with the cluster.
///
/// # Errors
/// See [`RequestError`].
pub async fn request_certificate(
    api: &ApiServer,
    request: &Request<'_>,
    chance: impl FnMut() -> f64,
) -> Result<Vec<u8>, RequestError> {
    let (name, uid) = submit(api, request).await?;
    tracing::info!(csr = name, signer = request.signer, "Waiting for certificate to be issued");
    let (tell, mut told) = mpsc::unbounded_channel();
    let selector = Selector::name(&name);
    let watch = follow(api, &Place::Cluster, &selector, chance, |seen| {
        if let Some(end) = end_of(&name, &uid, seen) {
            // The waiting task may have left.
            let _ = tell.send(end);
        }
    });
    let ended = async {
        tokio::select! {
            biased;
            end = told.recv() => end,
            never = watch => match never {},
        }
    };
    match tokio::time::timeout(request.timeout, ended).await {
        Ok(Some(Ok(certificate))) => {
            tracing::info!(csr = name, "Certificate signing request is issued");
            Ok(certificate)
        }
        Ok(Some(Err(problem))) => Err(RequestError::Refused(problem)),
        Ok(None) | Err(_) => Err(RequestError::TimedOut),
    }
}

/// Makes the object, or finds the one made before; its name and UID.
async fn submit(api: &ApiServer, request: &Request<'_>) -> Result<(String, String), RequestError> {
    let object = CertificateSigningRequest {
        metadata: ObjectMeta {
            name: request.name.map(str::to_owned),
            generate_name: request.name.is_none().then(|| "csr-".to_owned()),
            ..ObjectMeta::default()
        },
        spec: CertificateSigningRequestSpec {
            request: ByteString(request.csr.as_bytes().to_vec()),
            signer_name: request.signer.to_owned(),
            usages: Some(request.usages.iter().map(|usage| (*usage).to_owned()).collect()),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    };
    let made = match (api.create(&Place::Cluster, &object).await, request.name) {
        (Err(error), Some(name)) if error.is_already_exists() => {
            let found: CertificateSigningRequest =
                api.get(&Place::Cluster, name).await.map_err(|error| RequestError::Api("retrieve", error))?;
            compatible(&found, request).map_err(RequestError::Incompatible)?;
            tracing::info!(csr = name, "csr for this node already exists and is still valid, reusing");
            found
        }
        (made, _) => made.map_err(|error| RequestError::Api("create", error))?,
    };
    Ok((made.metadata.name.unwrap_or_default(), made.metadata.uid.unwrap_or_default()))
}

/// The meaning of a change of the object: the certificate, or why there will be none; `None` while it is open.
fn end_of(name: &str, uid: &str, seen: Followed<CertificateSigningRequest>) -> Option<Result<Vec<u8>, RefusedError>> {
    let object = match seen {
        Followed::Reset(objects) => objects.into_iter().next()?,
        Followed::Applied(object) => object,
        Followed::Deleted(_) => return Some(Err(RefusedError::Deleted(name.to_owned()))),
        Followed::Trouble(_) => return None,
    };
    if object.metadata.uid.as_deref() != Some(uid) {
        return Some(Err(RefusedError::OtherUid(name.to_owned())));
    }
    let status = object.status.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    for condition in &conditions {
        let verdict = match condition.type_.as_str() {
            "Denied" => "is denied",
            "Failed" => "failed",
            _ => continue,
        };
        let (reason, message) = (condition.reason.clone(), condition.message.clone());
        let (reason, message) = (reason.unwrap_or_default(), message.unwrap_or_default());
        return Some(Err(RefusedError::Judged { verdict, reason, message }));
    }
    let approved = conditions.iter().any(|condition| condition.type_ == "Approved");
    let certificate = status.certificate.map(|certificate| certificate.0).filter(|bytes| !bytes.is_empty());
    certificate.filter(|_| approved).map(Ok)
}

/// Whether an object of our name asks for what we ask for, with our key, and what it was given still holds.
fn compatible(found: &CertificateSigningRequest, wanted: &Request<'_>) -> Result<(), IncompatibleError> {
    if found.spec.signer_name != wanted.signer {
        let (there, ours) = (found.spec.signer_name.clone(), wanted.signer.to_owned());
        return Err(IncompatibleError::Signer { there, ours });
    }
    let (there, ours) = (der_of(&found.spec.request.0)?, der_of(wanted.csr.as_bytes())?);
    let (there, ours) = (parse(&there)?, parse(&ours)?);
    let (there, ours) = (&there.certification_request_info, &ours.certification_request_info);
    let subjects = (there.subject.to_string(), ours.subject.to_string());
    if subjects.0 != subjects.1 {
        return Err(IncompatibleError::Subject { there: subjects.0, ours: subjects.1 });
    }
    if there.subject_pki.raw != ours.subject_pki.raw {
        return Err(IncompatibleError::Key);
    }
    let certificate = found.status.as_ref().and_then(|status| status.certificate.as_ref());
    let Some(certificate) = certificate.filter(|certificate| !certificate.0.is_empty()) else { return Ok(()) };
    let validity = validity_in(&certificate.0).map_err(IncompatibleError::Certificate)?;
    match validity.iter().find(|validity| wanted.now > validity.not_after) {
        None => Ok(()),
        Some(ended) => Err(IncompatibleError::Expired(ended.not_after.to_timestamp())),
    }
}

fn der_of(pem: &[u8]) -> Result<CertificateSigningRequestDer<'static>, IncompatibleError> {
    CertificateSigningRequestDer::from_pem_slice(pem).map_err(|_| IncompatibleError::NoPem)
}

fn parse(der: &[u8]) -> Result<X509CertificationRequest<'_>, IncompatibleError> {
    let parsed = X509CertificationRequest::from_der(der);
    parsed.map(|(_, request)| request).map_err(|_| IncompatibleError::Malformed)
}
