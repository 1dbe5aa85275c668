//! How records are sealed: AES-256-GCM, the nonce before the text, the record's name bound to it.

use std::io;

use crate::platform::cluster::crypto::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use crate::platform::cluster::crypto::digest::{SHA256, digest};
use crate::platform::cluster::crypto::rand::{SecureRandom, SystemRandom};

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 32;
/// The purpose of the key: the same secret gives another key elsewhere.
const PURPOSE: &[u8] = b"podwright offline store 1\0";

/// Seals and opens records. No `Debug`: it holds the key.
pub(super) struct Seal {
    key: LessSafeKey,
}

impl Seal {
    /// The seal that belongs to a secret of any length.
    pub(super) fn from_secret(secret: &[u8]) -> Self {
        let derived = digest(&SHA256, &[PURPOSE, secret].concat());
        let key = UnboundKey::new(&AES_256_GCM, derived.as_ref()).expect("invariant: a SHA-256 is as long as the key");
        Self { key: LessSafeKey::new(key) }
    }

    /// Seals a record's content.
    pub(super) fn close(&self, name: &str, mut content: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        fill(&mut nonce)?;
        let aad = Aad::from(name.as_bytes());
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut content)
            .map_err(|_| io::Error::other("the record cannot be encrypted"))?;
        Ok([&nonce[..], &content].concat())
    }

    /// The content of what was sealed under this name.
    pub(super) fn open(&self, name: &str, mut sealed: Vec<u8>) -> io::Result<Vec<u8>> {
        let broken = || io::Error::other("the record is damaged, or was kept with another key");
        if sealed.len() < NONCE_LEN {
            return Err(broken());
        }
        let mut content = sealed.split_off(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(&sealed).map_err(|_| broken())?;
        let opened = self.key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut content).map_err(|_| broken())?;
        let length = opened.len();
        content.truncate(length);
        Ok(content)
    }
}

/// A new key.
pub(super) fn random_key() -> io::Result<Vec<u8>> {
    let mut key = vec![0; KEY_BYTES];
    fill(&mut key)?;
    Ok(key)
}

/// The SHA-256 of a record's name, in hexadecimal digits: names of objects are no file names.
pub(super) fn name_digest(name: &str) -> String {
    digest(&SHA256, name.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 of a record's content, to tell whether it has changed.
pub(super) fn content_digest(content: &[u8]) -> [u8; 32] {
    digest(&SHA256, content).as_ref().try_into().expect("invariant: a SHA-256 has 32 bytes")
}

fn fill(bytes: &mut [u8]) -> io::Result<()> {
    SystemRandom::new().fill(bytes).map_err(|_| io::Error::other("the kernel gives no random bytes"))
}
