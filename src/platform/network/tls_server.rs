//! TLS as the server speaks it: which versions, suites and groups, and that a certificate of the client is asked for but
//! judged later (SRV-09, SRV-10). Made once at the start.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ResolvesServerCert;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName, NamedGroup, ServerConfig, SignatureScheme, SupportedCipherSuite,
};

use super::tls::provider;

/// The settings.
#[derive(Clone, Debug, Default)]
pub struct ServerTls {
    /// `tlsMinVersion`; empty for TLS 1.2.
    pub min_version: String,
    /// `tlsCipherSuites`, by Go's names; empty for all that are sound. They count for TLS 1.2 alone.
    pub cipher_suites: Vec<String>,
    /// `tlsCurvePreferences`, by their numbers in TLS; empty for the default.
    pub groups: Vec<i32>,
    /// Whether clients are asked for a certificate.
    pub ask_client: bool,
}

/// Why there is no side of a server for these settings.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TlsServerError {
    /// No suite is left for the versions.
    #[error("tlsCipherSuites: {0}")]
    NoSuite(rustls::Error),
    /// No group is left.
    #[error("tlsCurvePreferences: none of the groups is served")]
    NoGroup,
}

/// The server's side of TLS, and what of the configuration it cannot follow, in words for the log.
///
/// # Errors
/// When nothing is left that a client could speak.
pub fn server_config(
    settings: &ServerTls,
    certificate: Arc<dyn ResolvesServerCert>,
) -> Result<(Arc<ServerConfig>, Vec<String>), TlsServerError> {
    let mut notes = vec![];
    let chosen = Arc::new(CryptoProvider {
        cipher_suites: suites(settings, &mut notes),
        kx_groups: groups(settings, &mut notes)?,
        ..(*provider()).clone()
    });
    let versions: &[_] = match settings.min_version.as_str() {
        "VersionTLS13" => &[&rustls::version::TLS13],
        "VersionTLS10" | "VersionTLS11" => {
            notes.push(format!("tlsMinVersion {} is below what is served: TLS 1.2", settings.min_version));
            &[&rustls::version::TLS13, &rustls::version::TLS12]
        }
        _ => &[&rustls::version::TLS13, &rustls::version::TLS12],
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&chosen)).with_protocol_versions(versions);
    let builder = builder.map_err(TlsServerError::NoSuite)?;
    let builder = match settings.ask_client {
        true => builder.with_client_cert_verifier(Arc::new(JudgedLater(chosen))),
        false => builder.with_no_client_auth(),
    };
    // No protocol is named, so that clients that offer HTTP/2 speak HTTP/1.1: what floods an HTTP/2 server is not there.
    Ok((Arc::new(builder.with_cert_resolver(certificate)), notes))
}

fn suites(settings: &ServerTls, notes: &mut Vec<String>) -> Vec<SupportedCipherSuite> {
    let all = provider().cipher_suites.clone();
    if settings.cipher_suites.is_empty() {
        return all;
    }
    // Go's names of the TLS 1.2 suites are IANA's, but for two that once had none of their own.
    let name = |suite: &SupportedCipherSuite| format!("{:?}", suite.suite());
    let is_named = |wanted: &str, suite: &SupportedCipherSuite| {
        let name = name(suite);
        wanted == name || (wanted.ends_with("_CHACHA20_POLY1305") && name == format!("{wanted}_SHA256"))
    };
    for wanted in &settings.cipher_suites {
        if !wanted.starts_with("TLS_AES_")
            && !wanted.starts_with("TLS_CHACHA20_")
            && !all.iter().any(|suite| is_named(wanted, suite))
        {
            notes.push(format!(
                "tlsCipherSuites: {wanted} is not served: only suites with forward secrecy and AEAD are"
            ));
        }
    }
    all.into_iter()
        .filter(|suite| suite.tls13().is_some() || settings.cipher_suites.iter().any(|wanted| is_named(wanted, suite)))
        .collect()
}

fn groups(
    settings: &ServerTls,
    notes: &mut Vec<String>,
) -> Result<Vec<&'static dyn rustls::crypto::SupportedKxGroup>, TlsServerError> {
    let all = provider().kx_groups.clone();
    if settings.groups.is_empty() {
        return Ok(all);
    }
    let mut kept = vec![];
    for number in &settings.groups {
        let wanted = u16::try_from(*number).map(NamedGroup::from).ok();
        match all.iter().find(|group| Some(group.name()) == wanted) {
            Some(group) => kept.push(*group),
            None => notes.push(format!("tlsCurvePreferences: group {number} is not served")),
        }
    }
    if kept.is_empty() {
        return Err(TlsServerError::NoGroup);
    }
    Ok(kept)
}

/// Asks for a certificate and has the client prove that it is its own; whether it is worth anything, authentication says,
/// with an answer that people can read instead of a broken handshake.
#[derive(Debug)]
struct JudgedLater(Arc<CryptoProvider>);

impl ClientCertVerifier for JudgedLater {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// None: clients send what they have, and the roots may change.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::cluster::live_certificate::LiveCertificate;

    fn made(settings: ServerTls) -> Result<(Arc<ServerConfig>, Vec<String>), TlsServerError> {
        server_config(&settings, Arc::new(LiveCertificate::default()))
    }

    /// SRV-09.
    /// SEC-38: whatever the configuration says, nothing is older than TLS 1.2, and no suite without forward secrecy and
    /// AEAD.
    #[test]
    fn sec_38_nothing_weak_is_served() {
        let weak =
            ["TLS_RSA_WITH_RC4_128_SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "TLS_RSA_WITH_AES_256_GCM_SHA384"];
        for min_version in ["", "VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"] {
            let settings = ServerTls {
                min_version: min_version.to_owned(),
                cipher_suites: weak.map(str::to_owned).to_vec(),
                ..ServerTls::default()
            };
            let (config, notes) = made(settings).expect("TLS 1.3 is left");
            assert!(weak.iter().all(|suite| notes.iter().any(|note| note.contains(suite))), "{notes:?}");
            assert!(config.crypto_provider().cipher_suites.iter().all(|suite| suite.tls13().is_some()));
            let (config, _) =
                made(ServerTls { min_version: min_version.to_owned(), ..ServerTls::default() }).expect("valid");
            let names: Vec<_> =
                config.crypto_provider().cipher_suites.iter().map(|suite| format!("{:?}", suite.suite())).collect();
            let sound = |name: &String| name.starts_with("TLS13_") || name.starts_with("TLS_ECDHE_");
            assert!(names.iter().all(sound), "{names:?}");
            assert!(names.iter().all(|name| name.contains("GCM") || name.contains("CHACHA20_POLY1305")), "{names:?}");
        }
    }

    /// SRV-09.
    #[test]
    fn suites_and_groups_that_are_not_served_are_named_and_the_others_count() {
        let cipher_suites =
            ["TLS_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"].map(str::to_owned).to_vec();
        let (config, notes) =
            made(ServerTls { cipher_suites, groups: vec![23, 9], ..ServerTls::default() }).expect("some");
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("TLS_RSA_WITH_AES_128_GCM_SHA256") && notes[1].contains("group 9"), "{notes:?}");
        let older: Vec<_> =
            config.crypto_provider().cipher_suites.iter().filter(|suite| suite.tls13().is_none()).collect();
        assert_eq!(older.len(), 1);
        assert_eq!(config.crypto_provider().kx_groups.len(), 1);
        assert!(config.alpn_protocols.is_empty());
    }

    #[test]
    fn a_configuration_that_leaves_nothing_is_refused() {
        let error = made(ServerTls { groups: vec![9999], ..ServerTls::default() }).expect_err("nothing is left");
        assert_eq!(error.to_string(), "tlsCurvePreferences: none of the groups is served");
    }
}
