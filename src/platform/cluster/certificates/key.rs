//! A key and the request for its certificate. Owned by whoever asks; the key is in no text.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256};
use rcgen::{PublicKeyData, SanType};

use super::error::KeyError;
use crate::logic::node::certificate_plan::Names;
use crate::platform::files::directories::make_certificate_folder;
use crate::platform::files::small_file::{read, words};

/// A private key, ECDSA P-256 unless an older one is used again.
pub struct PrivateKey {
    pair: KeyPair,
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey")
    }
}

impl PrivateKey {
    /// A new one.
    ///
    /// # Errors
    /// When the library cannot make one.
    pub fn generate() -> Result<Self, KeyError> {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256);
        Ok(Self { pair: pair.map_err(|_| KeyError::Generate)? })
    }

    /// From the PEM of a key, which may stand among certificates.
    ///
    /// # Errors
    /// When there is none that can be used.
    pub fn parse(pem: &[u8]) -> Result<Self, KeyError> {
        use rustls::pki_types::PrivateKeyDer;
        use rustls::pki_types::pem::PemObject;
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| KeyError::Invalid)?;
        Ok(Self { pair: KeyPair::try_from(&der).map_err(|_| KeyError::Invalid)? })
    }

    /// The key in a file, or a new one that is kept there, mode 0600: so that a restart asks with the same key again.
    ///
    /// # Errors
    /// When it can be neither read nor written.
    pub fn load_or_generate(path: &Path) -> Result<Self, KeyError> {
        let wrong = |error: &io::Error| KeyError::Load { path: path.display().to_string(), problem: words(error) };
        match read(path) {
            Ok(pem) => match Self::parse(&pem) {
                Ok(key) => return Ok(key),
                // Half written by a run that was killed: a new one takes its place.
                Err(_) => std::fs::remove_file(path).map_err(|error| wrong(&error))?,
            },
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(wrong(&error)),
            Err(_) => {}
        }
        let key = Self::generate()?;
        let write = || {
            if let Some(parent) = path.parent() {
                make_certificate_folder(parent)?;
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(key.pem().as_bytes())?;
            file.sync_all()
        };
        write().map_err(|error: io::Error| wrong(&error))?;
        Ok(key)
    }

    /// Whether it is an older one of the kind RSA, whose certificates are for one thing more.
    pub fn is_rsa(&self) -> bool {
        *self.pair.algorithm() == PKCS_RSA_SHA256
    }

    /// As the library signs with it.
    pub(super) fn pair(&self) -> &KeyPair {
        &self.pair
    }

    /// As it is stored. Secret.
    pub fn pem(&self) -> String {
        self.pair.serialize_pem()
    }

    /// The public half: SubjectPublicKeyInfo in DER.
    pub fn public(&self) -> Vec<u8> {
        self.pair.subject_public_key_info()
    }

    /// The request for a certificate with these names, in PEM.
    ///
    /// # Errors
    /// When a name cannot stand in a certificate.
    pub fn signing_request(&self, names: &Names) -> Result<String, KeyError> {
        let wrong = |error: rcgen::Error| KeyError::Request(error.to_string());
        let request = Self::parameters(names)?.serialize_request(&self.pair).map_err(wrong)?;
        request.pem().map_err(wrong)
    }

    /// The parameters of a certificate with these names.
    pub(super) fn parameters(names: &Names) -> Result<CertificateParams, KeyError> {
        let wrong = |error: rcgen::Error| KeyError::Request(error.to_string());
        let mut parameters = CertificateParams::default();
        let mut subject = DistinguishedName::new();
        for organization in &names.organizations {
            subject.push(DnType::OrganizationName, organization.as_str());
        }
        subject.push(DnType::CommonName, names.common_name.as_str());
        parameters.distinguished_name = subject;
        for name in &names.dns_names {
            parameters.subject_alt_names.push(SanType::DnsName(name.as_str().try_into().map_err(wrong)?));
        }
        parameters.subject_alt_names.extend(names.ip_addresses.iter().map(|ip| SanType::IpAddress(*ip)));
        Ok(parameters)
    }
}
