//! The cryptography behind TLS under one name, for digests and seals. Keeps nothing.

#[cfg(feature = "aws-lc")]
pub(super) use aws_lc_rs::{aead, digest, rand};
#[cfg(all(feature = "ring", not(feature = "aws-lc")))]
pub(super) use ring::{aead, digest, rand};
