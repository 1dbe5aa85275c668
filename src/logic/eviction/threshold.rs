//! The amount of a signal that must be left (EVI-01, EVI-31).

use std::time::Duration;

use super::signal::{Observation, Signal};
use crate::logic::model::quantity::Quantity;
use crate::logic::resources::portion::Portion;

/// The amount of a signal that there must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Of what.
    pub signal: Signal,
    /// There is too little when less than this is left.
    pub value: Portion,
    /// For how long there must be too little before pods are evicted; zero for a hard threshold.
    pub grace: Duration,
    /// How much more than the value must be left before the threshold counts as no longer met.
    pub reclaim_min: Option<Portion>,
}

impl Threshold {
    /// Whether pods are evicted at once.
    pub fn is_hard(&self) -> bool {
        self.grace.is_zero()
    }

    /// The value, of what was observed.
    pub fn quantity(&self, observed: &Observation) -> Quantity {
        self.value.of(self.signal.resource().quantity(observed.capacity))
    }

    /// Whether there is too little. Once it is met it counts as met until its minimum reclaim is left, too.
    pub fn is_met(&self, observed: &Observation, with_reclaim: bool) -> bool {
        let resource = self.signal.resource();
        let mut value = self.quantity(observed);
        if let Some(reclaim) = self.reclaim_min.filter(|_| with_reclaim) {
            value = value.plus(reclaim.of(resource.quantity(observed.capacity)));
        }
        value > resource.quantity(observed.available)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::time::Moment;

    fn amount(text: &str) -> Portion {
        Portion::Amount(Quantity::parse(text).expect("a quantity"))
    }

    /// EVI-31.
    #[test]
    fn evi_31_a_threshold_is_met_below_its_value_and_left_above_value_and_reclaim() {
        let of = |value, reclaim_min| Threshold {
            signal: Signal::NodeFsAvailable,
            value,
            grace: Duration::ZERO,
            reclaim_min,
        };
        for (threshold, available, met, with_reclaim) in [
            (of(amount("100"), None), 99, true, true),
            (of(amount("100"), None), 100, false, false),
            (of(amount("100"), Some(amount("50"))), 100, false, true),
            (of(amount("100"), Some(amount("50"))), 150, false, false),
            (of(Portion::Share(0.1), None), 199, true, true),
            (of(Portion::Share(0.1), None), 200, false, false),
            (of(Portion::Share(0.1), Some(Portion::Share(0.05))), 299, false, true),
            (of(Portion::Share(0.1), Some(Portion::Share(0.05))), 300, false, false),
        ] {
            let observed = Observation { available, capacity: 2000, at: Moment(1) };
            assert_eq!(threshold.is_met(&observed, false), met, "{threshold:?} of {available}");
            assert_eq!(threshold.is_met(&observed, true), with_reclaim, "{threshold:?} of {available}, with reclaim");
        }
    }
}
