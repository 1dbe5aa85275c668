//! The node's certificates: keys, files, requests, and the one that connections show.
//!
//! Adapters for whoever rotates them; when that is due is decided in `logic::node::certificate_plan`.

mod all;
mod authorities;
mod error;
mod kept;
mod key;
mod marks;
mod request;
mod self_signed;
mod store;
#[cfg(test)]
pub(crate) mod tests;

pub use all::{Certificates, ServingFiles};
pub use authorities::ClientAuthorities;
pub use error::{AuthoritiesError, IdentifyError, KeyError, PairFileError};
pub use kept::{KeptCertificate, ObtainError, Once};
pub use key::PrivateKey;
pub use marks::Marks;
pub use request::{
    BOOTSTRAP_TIMEOUT, CLIENT_SIGNER, CLIENT_USAGES, ROTATION_TIMEOUT, Request, RequestError, SERVING_SIGNER,
    SERVING_USAGES, request_certificate,
};
pub use self_signed::ensure_serving_files;
pub use store::{FileStore, StoreError};
