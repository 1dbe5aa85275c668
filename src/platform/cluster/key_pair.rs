//! A certificate with its key, read from PEM: what a connection shows, and from when to when it holds. Plain data; the key
//! is in no text.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::logic::model::time::Moment;
use crate::logic::node::certificate_plan::Names;
use crate::platform::network::tls::provider;

/// Why a text is no certificate, or no pair of a certificate and its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// There is no certificate in it.
    #[error("tls: failed to find any PEM data in certificate input")]
    NoChain,
    /// There is no key in it.
    #[error("tls: failed to find any PEM data in key input")]
    NoKey,
    /// The key is another certificate's.
    #[error("tls: private key does not match public key")]
    OtherKey,
    /// The key cannot be read. The library's error about a key may quote it; the kind of the fault is enough.
    #[error("tls: failed to parse private key")]
    BadKey,
    /// A certificate cannot be read.
    #[error("x509: malformed certificate")]
    Malformed,
    /// There is no certificate that can be read.
    #[error("data does not contain any valid RSA or ECDSA certificates")]
    NoCertificate,
}

/// A certificate chain and the key of its first certificate.
#[derive(Clone)]
pub struct Pair {
    certified: Arc<CertifiedKey>,
    validity: Vec<Validity>,
    names: Names,
}

/// From when to when a certificate holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// Its first moment.
    pub not_before: Moment,
    /// Its last.
    pub not_after: Moment,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("common_name", &self.names.common_name).field("validity", &self.validity).finish()
    }
}

impl Pair {
    /// From the PEM of the chain, leaf first, and of the key; the two may be one text.
    ///
    /// # Errors
    /// When there is no certificate or no key in it, or they do not belong together.
    pub fn parse(chain: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain).filter_map(Result::ok).collect();
        if chain.is_empty() {
            return Err(PairError::NoChain);
        }
        let key = PrivateKeyDer::from_pem_slice(key);
        let key = key.map_err(|_| PairError::NoKey)?;
        let validity = chain.iter().map(|certificate| validity_of(certificate)).collect::<Result<Vec<_>, _>>()?;
        let names = names_of(&chain[0])?;
        let certified = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => PairError::OtherKey,
            _ => PairError::BadKey,
        })?;
        Ok(Self { certified: Arc::new(certified), validity, names })
    }

    /// The certificate and key that a connection shows.
    pub fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }

    /// From when to when the leaf holds.
    pub fn validity(&self) -> Validity {
        self.validity[0]
    }

    /// Whether any certificate of the chain has ended.
    pub fn has_expired(&self, now: Moment) -> bool {
        self.validity.iter().any(|validity| now > validity.not_after)
    }

    /// The names that the leaf is for.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Whether both show the same chain.
    pub fn same_chain(&self, other: &Self) -> bool {
        self.certified.cert == other.certified.cert
    }
}

/// From when to when the certificates of a PEM text hold, in their order; those that cannot be read are an error.
///
/// # Errors
/// When there is none, or one cannot be read.
pub fn validity_in(pem: &[u8]) -> Result<Vec<Validity>, PairError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|_| PairError::NoCertificate)?;
    if chain.is_empty() {
        return Err(PairError::NoCertificate);
    }
    chain.iter().map(|certificate| validity_of(certificate)).collect()
}

fn validity_of(der: &[u8]) -> Result<Validity, PairError> {
    let certificate = parse(der)?;
    let moment = |time: x509_parser::time::ASN1Time| {
        u64::try_from(time.timestamp())
            .map_or(Moment::EPOCH, |seconds| Moment::EPOCH.plus(Duration::from_secs(seconds)))
    };
    let validity = certificate.validity();
    Ok(Validity { not_before: moment(validity.not_before), not_after: moment(validity.not_after) })
}

fn names_of(der: &[u8]) -> Result<Names, PairError> {
    let certificate = parse(der)?;
    let subject = certificate.subject();
    let text = |value: &x509_parser::prelude::AttributeTypeAndValue<'_>| value.as_str().unwrap_or_default().to_owned();
    let mut names = Names {
        common_name: subject.iter_common_name().last().map(text).unwrap_or_default(),
        organizations: subject.iter_organization().map(text).collect(),
        ..Names::default()
    };
    let alternative = certificate.subject_alternative_name().map_err(|_| PairError::Malformed)?;
    for name in alternative.iter().flat_map(|extension| &extension.value.general_names) {
        match name {
            GeneralName::DNSName(name) => drop(names.dns_names.insert((*name).to_owned())),
            GeneralName::IPAddress(bytes) => {
                let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                names.ip_addresses.extend(four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)));
            }
            _ => {}
        }
    }
    Ok(names)
}

fn parse(der: &[u8]) -> Result<X509Certificate<'_>, PairError> {
    X509Certificate::from_der(der).map(|(_, certificate)| certificate).map_err(|_| PairError::Malformed)
}
