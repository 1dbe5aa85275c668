//! An amount that the configuration gives outright or as a share of the capacity, such as `100Mi` or `10%`.

use crate::logic::model::quantity::{Format, Quantity};

/// So much, or such a share of all there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Portion {
    /// So much.
    Amount(Quantity),
    /// So much of the capacity: 0.1 for a tenth.
    Share(f32),
}

impl Portion {
    /// Reads `100Mi` or `10%`; `None` for what is neither, and for the shares that turn a threshold off.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('%') {
            Some("0" | "100") => None,
            Some(percent) => percent.parse::<f32>().ok().map(|percent| Self::Share(percent / 100.0)),
            None => Quantity::parse(text).ok().map(Self::Amount),
        }
    }

    /// How much that is of the capacity. Upstream computes with a share of single precision, which gives its very bytes.
    pub fn of(self, capacity: Quantity) -> Quantity {
        match self {
            Self::Amount(amount) => amount,
            Self::Share(share) => {
                #[expect(
                    clippy::cast_precision_loss,
                    clippy::cast_possible_truncation,
                    reason = "as upstream computes"
                )]
                let amount = (capacity.value() as f64 * f64::from(share)) as i64;
                Quantity::from_units(amount, Format::BinarySi)
            }
        }
    }
}
