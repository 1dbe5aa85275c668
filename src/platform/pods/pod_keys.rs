//! Keys for pods' certificates (KEP-4317). Keeps nothing; a key is in no text but the one that it is given as.

use rcgen::{
    CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
};

/// Why there is no key, or no proof of it; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodKeyError {
    /// The library failed to make one.
    #[error("while generating keypair: {0}")]
    Generate(rcgen::Error),
    /// This build makes no key of this type.
    #[error("while generating keypair: unknown key type {0:?}")]
    UnknownType(String),
    /// The library failed to sign the proof.
    #[error("while generating stub PKCS#10 request: {0}")]
    Request(rcgen::Error),
}

/// A new key of one of the API's types: in PEM (PKCS #8), and the proof that it is at hand. The proof is a request for a
/// certificate without any name in it (PKCS #10), in DER. Takes a while for RSA.
///
/// # Errors
/// See [`PodKeyError`].
pub fn generate(kind: &str) -> Result<(String, Vec<u8>), PodKeyError> {
    let pair = pair(kind)?;
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    let request = parameters.serialize_request(&pair);
    let request = request.map_err(PodKeyError::Request)?;
    Ok((pair.serialize_pem(), request.der().to_vec()))
}

fn pair(kind: &str) -> Result<KeyPair, PodKeyError> {
    let made = match kind {
        "ECDSAP256" => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        "ECDSAP384" => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
        "ED25519" => KeyPair::generate_for(&PKCS_ED25519),
        #[cfg(feature = "aws-lc")]
        "ECDSAP521" => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P521_SHA512),
        #[cfg(feature = "aws-lc")]
        "RSA3072" => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_3072),
        #[cfg(feature = "aws-lc")]
        "RSA4096" => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_4096),
        other => return Err(PodKeyError::UnknownType(other.to_owned())),
    };
    made.map_err(PodKeyError::Generate)
}

#[cfg(test)]
mod tests {
    use x509_parser::prelude::{FromDer, X509CertificationRequest};

    use super::*;

    #[test]
    fn each_key_is_new_and_proves_itself_without_a_name() {
        let mut kinds = vec!["ECDSAP256", "ECDSAP384", "ED25519"];
        if cfg!(feature = "aws-lc") {
            kinds.extend(["ECDSAP521", "RSA3072"]);
        }
        for kind in kinds {
            let (first, second) = (generate(kind).expect(kind), generate(kind).expect(kind));
            assert_ne!(first, second, "{kind}");
            assert!(first.0.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{kind}");
            let (rest, request) = X509CertificationRequest::from_der(&first.1).expect("a request");
            assert!(rest.is_empty() && request.certification_request_info.subject.iter().count() == 0, "{kind}");
            let of_key = KeyPair::from_pem(&first.0).expect("a key");
            let public = request.certification_request_info.subject_pki.raw;
            assert_eq!(rcgen::PublicKeyData::subject_public_key_info(&of_key), public, "{kind}");
        }
        let error = generate("DSA").expect_err("no such type").to_string();
        assert_eq!(error, "while generating keypair: unknown key type \"DSA\"");
    }
}
