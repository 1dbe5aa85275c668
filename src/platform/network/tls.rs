//! TLS as the adapters use it: the cryptography chosen at build time, the system's roots, and the probes' trust in anyone.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

#[cfg(not(any(feature = "aws-lc", feature = "ring")))]
compile_error!("TLS needs one of the features `aws-lc` and `ring`");

/// The most bytes of a file of root certificates.
const ROOTS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Where distributions keep their root certificates; the first that is there counts, as in upstream's client.
const ROOTS_FILES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The cryptography behind TLS: the one that the build's feature names (`aws-lc` before `ring`).
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    #[cfg(feature = "aws-lc")]
    use rustls::crypto::aws_lc_rs as chosen;
    #[cfg(all(feature = "ring", not(feature = "aws-lc")))]
    use rustls::crypto::ring as chosen;
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(chosen::default_provider())))
}

/// SHA-256 of some bytes, in lower hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    let wanted = rustls::CipherSuite::TLS13_AES_128_GCM_SHA256;
    let suites = provider();
    let suite = suites.cipher_suites.iter().find(|suite| suite.suite() == wanted).and_then(|suite| suite.tls13());
    let suite = suite.expect("invariant: TLS 1.3 demands this suite of every provider");
    let hash = suite.common.hash_provider.hash(bytes);
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Which protocols a client offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// HTTP/2, else HTTP/1.1.
    Http2,
    /// HTTP/1.1 alone, as with the environment's `DISABLE_HTTP2`.
    Http1,
}

impl Offer {
    /// The protocols that the environment allows: HTTP/2 unless `DISABLE_HTTP2` has a value (CFG-51).
    pub fn from_environment() -> Self {
        match std::env::var_os("DISABLE_HTTP2") {
            Some(value) if !value.is_empty() => Self::Http1,
            _ => Self::Http2,
        }
    }

    fn protocols(self) -> Vec<Vec<u8>> {
        match self {
            Self::Http2 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Self::Http1 => vec![b"http/1.1".to_vec()],
        }
    }
}

/// A client that takes any server for the right one and shows no certificate: for probes, which send no secrets and
/// only ask whether someone answers.
pub fn unverified_client(offer: Offer) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions");
    let mut config = builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer)).with_no_client_auth();
    config.alpn_protocols = offer.protocols();
    // Each probe is a connection of its own: nothing is kept for a later one.
    config.resumption = rustls::client::Resumption::disabled();
    Arc::new(config)
}

/// A client that trusts the system's root certificates: those of the file that `SSL_CERT_FILE` names, else of the first
/// of the distributions' usual files.
///
/// # Errors
/// When there is no such file, or no certificate in it.
pub fn system_client(offer: Offer) -> io::Result<Arc<ClientConfig>> {
    let named = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()).map(PathBuf::from);
    let usual = || ROOTS_FILES.iter().map(PathBuf::from).find(|path| path.is_file());
    let path = named.or_else(usual).ok_or_else(|| io::Error::other("the system has no root certificates"))?;
    client_trusting(&path, offer)
}

/// A client that trusts the root certificates of one file, in PEM.
///
/// # Errors
/// When it cannot be read, is larger than 16 MiB, or holds no certificate.
pub fn client_trusting(roots: &Path, offer: Offer) -> io::Result<Arc<ClientConfig>> {
    let wrong = |problem: &str| io::Error::other(format!("read root certificates {}: {problem}", roots.display()));
    let mut pem = Vec::new();
    let file = File::open(roots).map_err(|error| wrong(&error.to_string()))?;
    file.take(ROOTS_BYTES_MAX + 1).read_to_end(&mut pem).map_err(|error| wrong(&error.to_string()))?;
    if pem.len() as u64 > ROOTS_BYTES_MAX {
        return Err(wrong("larger than 16 MiB"));
    }
    let store = roots_in(&pem).ok_or_else(|| wrong("no certificate in it"))?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions");
    let mut config = builder.with_root_certificates(store).with_no_client_auth();
    config.alpn_protocols = offer.protocols();
    Ok(Arc::new(config))
}

/// The certificates of a PEM text; `None` if there are none. One bad certificate among many does not take the others
/// away.
fn roots_in(pem: &[u8]) -> Option<RootCertStore> {
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
    (added > 0).then_some(store)
}

/// The servers that a client trusts.
#[derive(Clone, PartialEq, Eq)]
pub enum Trust {
    /// One whose certificate comes from these roots, in PEM.
    Roots(Vec<u8>),
    /// One whose certificate comes from the system's roots.
    System,
    /// Anyone: `insecure-skip-tls-verify`.
    Anyone,
}

/// A client that shows a certificate, if it has one. Sessions are not taken up again: the server's certificate may change,
/// and a resumed session would still be the old one's.
///
/// # Errors
/// When there are no roots to trust.
pub fn identified_client(
    trust: &Trust,
    identity: Option<Arc<dyn ResolvesClientCert>>,
    offer: Offer,
) -> io::Result<Arc<ClientConfig>> {
    let mut config = match trust {
        Trust::Anyone => (*unverified_client(offer)).clone(),
        Trust::System => (*system_client(offer)?).clone(),
        Trust::Roots(pem) => {
            let store = roots_in(pem).ok_or_else(|| io::Error::other("unable to load root certificates"))?;
            let builder = ClientConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()
                .expect("the provider has the default versions");
            let mut config = builder.with_root_certificates(store).with_no_client_auth();
            config.alpn_protocols = offer.protocols();
            config
        }
    };
    config.resumption = rustls::client::Resumption::disabled();
    if let Some(identity) = identity {
        config.client_auth_cert_resolver = identity;
    }
    Ok(Arc::new(config))
}

/// Takes every certificate, even one that cannot be parsed. Signatures are not looked at either: without a name to hold
/// them against they prove nothing.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
