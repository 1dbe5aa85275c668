//! The node's certificates: reading and keeping them, asking for new ones, showing the newest.
//!
//! Adapters for whoever rotates them; when that is due is decided in `logic::certificate_plan`.

mod live;
mod pair;

pub use live::LiveCertificate;
pub use pair::{Pair, Validity, validity_in};
