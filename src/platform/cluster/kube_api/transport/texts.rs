//! Errors of a connection, in the words that upstream's client and its users know. Pure.

use std::io;

use rustls::{CertificateError, Error as TlsError};

/// The kernel's words: lower case, without the number.
pub(super) fn kernel(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// A handshake that failed.
pub(super) fn handshake(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) {
        Some(TlsError::InvalidCertificate(fault)) => {
            format!("tls: failed to verify certificate: {}", certificate(fault))
        }
        Some(TlsError::InvalidMessage(_)) => "tls: first record does not look like a TLS handshake".to_owned(),
        Some(TlsError::AlertReceived(alert)) => format!("remote error: tls:{}", words(&format!("{alert:?}"))),
        Some(other) => format!("tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => kernel(error),
    }
}

/// A call that failed, or its answer.
pub(super) fn call(error: &hyper::Error) -> String {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(inner) = inner.downcast_ref::<io::Error>() {
            return handshake(inner);
        }
        source = inner.source();
    }
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return "EOF".to_owned();
    }
    if error.is_timeout() {
        return "http2: client connection lost".to_owned();
    }
    if error.is_parse() {
        return format!("net/http: HTTP/1.x transport connection broken: malformed HTTP response ({error})");
    }
    // A call that was under way when connections were closed, for another certificate.
    if error.to_string().starts_with("dispatch task is gone") {
        return "use of closed network connection".to_owned();
    }
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn certificate(fault: &CertificateError) -> String {
    match fault {
        CertificateError::UnknownIssuer => "x509: certificate signed by unknown authority".to_owned(),
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            format!("x509: certificate has expired or is not yet valid: {fault}")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("x509: certificate is not valid for the server's name: {fault}")
        }
        CertificateError::BadSignature => "x509: invalid signature".to_owned(),
        other => format!("x509: {other}"),
    }
}

/// `HandshakeFailure` as ` handshake failure`.
fn words(name: &str) -> String {
    name.chars().fold(String::new(), |mut text, letter| {
        if letter.is_ascii_uppercase() {
            text.push(' ');
        }
        text.push(letter.to_ascii_lowercase());
        text
    })
}
