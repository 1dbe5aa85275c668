//! Small files that the agent reads whole: kubeconfigs, certificates, tokens.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of a kubeconfig, of a certificate, of a token.
pub(crate) const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

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
