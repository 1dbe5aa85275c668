//! The authorities that sign users' certificates (`clientCAFile`), and who a certificate is of. Read again while the agent
//! runs by `CertificateManager`; keeps the newest roots that were good.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::der_parser::oid::Oid;
use x509_parser::oid_registry::asn1_rs::oid;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate};

use super::error::{AuthoritiesError, IdentifyError};
use crate::logic::model::histogram::Histogram;
use crate::logic::model::time::Moment;
use crate::logic::serving::server_access::{CREDENTIAL_ID, User};
use crate::platform::files::small_file::{read, words};
use crate::platform::network::tls::{provider, sha256_hex};

/// The attribute of a subject that holds a user's UID (gate `AllowParsingUserUIDFromCertAuth`).
const UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

/// Upper bounds of the time that a user's certificate still holds: from half an hour to a year, as upstream.
static LEFT_BOUNDS: [Duration; 14] = [
    Duration::ZERO,
    Duration::from_secs(1800),
    Duration::from_secs(3600),
    Duration::from_secs(7200),
    Duration::from_secs(21_600),
    Duration::from_secs(43_200),
    Duration::from_secs(86_400),
    Duration::from_secs(172_800),
    Duration::from_secs(345_600),
    Duration::from_secs(604_800),
    Duration::from_secs(2_592_000),
    Duration::from_secs(7_776_000),
    Duration::from_secs(15_552_000),
    Duration::from_secs(31_104_000),
];

/// See the module.
pub struct ClientAuthorities {
    path: PathBuf,
    /// Whether the file is read again (gate `ReloadKubeletClientCAFile`).
    pub reload: bool,
    /// Whether a subject may tell a UID.
    parse_uid: bool,
    current: Mutex<Roots>,
    /// The time that certificates of requests still held.
    left: Mutex<Histogram<14>>,
}

#[derive(Clone)]
struct Roots {
    pem: Arc<[u8]>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl fmt::Debug for ClientAuthorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAuthorities").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ClientAuthorities {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read, or holds no certificate.
    pub fn open(path: &Path, reload: bool, parse_uid: bool) -> Result<Self, AuthoritiesError> {
        let roots = roots(path)?;
        Ok(Self {
            path: path.to_owned(),
            reload,
            parse_uid,
            current: Mutex::new(roots),
            left: Mutex::new(Histogram::new(&LEFT_BOUNDS)),
        })
    }

    /// Reads the file again; says whether it changed. A file that is no good leaves the roots as they are.
    ///
    /// # Errors
    /// As [`ClientAuthorities::open`].
    pub fn read_again(&self) -> Result<bool, AuthoritiesError> {
        let newest = roots(&self.path)?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = current.pem != newest.pem;
        *current = newest;
        Ok(changed)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The user of this certificate, leaf first. `None` for a good certificate that names nobody.
    ///
    /// # Errors
    /// When no authority here stands for it now.
    pub fn identify(&self, chain: &[CertificateDer<'_>], now: Moment) -> Result<Option<User>, IdentifyError> {
        let Some((leaf, others)) = chain.split_first() else { return Ok(None) };
        let verifier = Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner).verifier);
        let since_epoch = now.since(Moment::EPOCH);
        verifier
            .verify_client_cert(leaf, others, UnixTime::since_unix_epoch(since_epoch))
            .map_err(|error| IdentifyError::Unverified(error.to_string()))?;
        let (_, certificate) = X509Certificate::from_der(leaf).map_err(|_| IdentifyError::Malformed)?;
        let ends = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
        let left = Duration::from_secs(ends).saturating_sub(since_epoch);
        self.left.lock().unwrap_or_else(PoisonError::into_inner).add(left);
        user_of(leaf, &certificate, self.parse_uid)
    }

    /// The time that the certificates of requests still held.
    pub fn left(&self) -> Histogram<14> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn roots(path: &Path) -> Result<Roots, AuthoritiesError> {
    let pem = read(path).map_err(|error| AuthoritiesError::Read(words(&error)))?;
    let mut store = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
    if store.add_parsable_certificates(certificates).0 == 0 {
        return Err(AuthoritiesError::NoCertificate);
    }
    let built = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider()).build();
    Ok(Roots {
        pem: pem.as_slice().into(),
        verifier: built.map_err(|error| AuthoritiesError::Unusable(error.to_string()))?,
    })
}

fn user_of(
    leaf: &CertificateDer<'_>,
    certificate: &X509Certificate<'_>,
    parse_uid: bool,
) -> Result<Option<User>, IdentifyError> {
    let subject = certificate.subject();
    let text = |value: &AttributeTypeAndValue<'_>| value.as_str().unwrap_or_default().to_owned();
    // Of several common names Go's parser keeps the last, and so does every other component that reads the certificate.
    let name = subject.iter_common_name().last().map(text).unwrap_or_default();
    if name.is_empty() {
        return Ok(None);
    }
    let mut uids = subject.iter_by_oid(&UID).map(text);
    let uid = match (parse_uid, uids.next(), uids.next()) {
        (false, ..) | (true, None, _) => String::new(),
        (true, Some(uid), None) if !uid.is_empty() => uid,
        (true, Some(_), None) => return Err(IdentifyError::EmptyUid),
        (true, ..) => return Err(IdentifyError::ManyUids),
    };
    let credential = format!("X509SHA256={}", sha256_hex(leaf));
    Ok(Some(User {
        name,
        uid,
        groups: subject.iter_organization().map(text).collect(),
        extra: BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![credential])]),
    }))
}
