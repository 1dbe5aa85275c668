//! To `NetworkRules`.

use crate::logic::network::network_rules::Family;
use crate::messages::{Lost, describe};

/// The fate of a family's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// This machine has no such tables.
    Unsupported(String),
    /// All are there; whether they had to be made.
    There {
        /// Something was missing.
        made: bool,
    },
    /// One could not be made.
    Failed(String),
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum NetworkRulesMsg {
    /// From itself: the rules of a family are there, or why not.
    Kept(Family, Result<Kept, Lost>),
    /// From itself: time to look at a family's rules again.
    LookDue(Family),
}

describe!(NetworkRulesMsg);
