//! Eviction thresholds (EVI-01 to EVI-05). The texts of errors are upstream's.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use crate::config::duration::GoDuration;
use crate::config::types::Config;
use crate::logic::eviction::signal::Signal;
use crate::logic::eviction::threshold::Threshold;
use crate::logic::model::quantity::{Quantity, QuantityError};
use crate::logic::resources::portion::Portion;

/// Why a threshold cannot be used; the texts are upstream's, after the field and key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// No such signal.
    #[error("unsupported eviction signal {0}")]
    Unsupported(String),
    /// A negative share.
    #[error("eviction percentage threshold {0} must be >= 0%: {1}")]
    ShareTooSmall(Signal, String),
    /// A share of more than all.
    #[error("eviction percentage threshold {0} must be <= 100%: {1}")]
    ShareTooLarge(Signal, String),
    /// No share at all.
    #[error("invalid percentage {1:?} for {0}")]
    NoShare(Signal, String),
    /// An amount of nothing or less.
    #[error("eviction threshold {0} must be positive: {1}")]
    NotPositive(Signal, Quantity),
    /// No amount at all.
    #[error("{error}: {signal}: {text:?}")]
    NoQuantity {
        /// Of which signal.
        signal: Signal,
        /// The text as written.
        text: String,
        /// The fault in it.
        error: QuantityError,
    },
    /// A soft threshold without its period.
    #[error("grace period must be specified for the soft eviction threshold {0}")]
    NoGrace(Signal),
    /// A period that ends before it begins.
    #[error("invalid eviction grace period specified: {0}, must be a positive value")]
    NegativeGrace(String),
    /// No period at all.
    #[error("invalid eviction grace period {1:?} for {0}: {2}")]
    NoDuration(Signal, String, String),
    /// A minimum reclaim of no share or less.
    #[error("eviction percentage minimum reclaim {0} must be positive: {1}")]
    ReclaimNotPositive(Signal, String),
    /// A minimum reclaim of less than nothing.
    #[error("negative eviction minimum reclaim specified for {0}")]
    NegativeReclaim(Signal),
}

/// Reads the thresholds, in the order of their signals, hard ones first.
///
/// # Errors
/// Everything that is wrong, each once.
pub fn thresholds(config: &Config) -> Result<Vec<Threshold>, Vec<ThresholdError>> {
    let mut errors = Vec::new();
    let hard = read(&config.eviction_hard, &mut errors, value);
    let soft = read(&config.eviction_soft, &mut errors, value);
    let graces = read(&config.eviction_soft_grace_period, &mut errors, grace);
    let reclaims = read(&config.eviction_minimum_reclaim, &mut errors, reclaim);
    let mut thresholds = Vec::new();
    for (signal, value) in hard {
        let reclaim_min = reclaims.get(&signal).copied();
        thresholds.push(Threshold { signal, value, grace: Duration::ZERO, reclaim_min });
    }
    for (signal, value) in soft {
        match graces.get(&signal) {
            Some(grace) => {
                let reclaim_min = reclaims.get(&signal).copied();
                thresholds.push(Threshold { signal, value, grace: *grace, reclaim_min });
            }
            // One that is there and wrong is in the error already.
            None if config.eviction_soft_grace_period.contains_key(<&str>::from(signal)) => {}
            None => errors.push(ThresholdError::NoGrace(signal)),
        }
    }
    // As upstream, all pods together get the threshold of the node's memory where they are held to a limit.
    if config.enforce_node_allocatable.iter().any(|name| name == "pods") {
        let of_memory = |one: &&Threshold| one.signal == Signal::MemoryAvailable && one.is_hard();
        let of_pods = thresholds.iter().find(of_memory).copied();
        thresholds.extend(of_pods.map(|one| Threshold { signal: Signal::AllocatableMemoryAvailable, ..one }));
    }
    if errors.is_empty() { Ok(thresholds) } else { Err(errors) }
}

fn signal(name: &str) -> Result<Signal, ThresholdError> {
    Signal::from_str(name).map_err(|_| ThresholdError::Unsupported(name.to_owned()))
}

/// Reads one of the configuration's maps by signal.
fn read<T>(
    written: &BTreeMap<String, String>,
    errors: &mut Vec<ThresholdError>,
    of: impl Fn(Signal, &str) -> Result<Option<T>, ThresholdError>,
) -> BTreeMap<Signal, T> {
    let mut found = BTreeMap::new();
    for (name, text) in written {
        match signal(name).and_then(|signal| Ok((signal, of(signal, text)?))) {
            Ok((signal, Some(value))) => drop(found.insert(signal, value)),
            Ok((_, None)) => {}
            Err(error) => errors.push(error),
        }
    }
    found
}

/// `None` for a share that turns the threshold off.
fn value(signal: Signal, text: &str) -> Result<Option<Portion>, ThresholdError> {
    if matches!(text, "0%" | "100%") {
        return Ok(None);
    }
    if text.ends_with('%') {
        let share = share(signal, text)?;
        return match share {
            _ if share < 0.0 => Err(ThresholdError::ShareTooSmall(signal, text.to_owned())),
            _ if share > 1.0 => Err(ThresholdError::ShareTooLarge(signal, text.to_owned())),
            _ => Ok(Some(Portion::Share(share))),
        };
    }
    let amount = quantity(signal, text)?;
    match amount.is_positive() {
        true => Ok(Some(Portion::Amount(amount))),
        false => Err(ThresholdError::NotPositive(signal, amount)),
    }
}

fn reclaim(signal: Signal, text: &str) -> Result<Option<Portion>, ThresholdError> {
    if text.ends_with('%') {
        let share = share(signal, text)?;
        return match share > 0.0 {
            true => Ok(Some(Portion::Share(share))),
            false => Err(ThresholdError::ReclaimNotPositive(signal, text.to_owned())),
        };
    }
    let amount = quantity(signal, text)?;
    if amount.is_negative() { Err(ThresholdError::NegativeReclaim(signal)) } else { Ok(Some(Portion::Amount(amount))) }
}

fn share(signal: Signal, text: &str) -> Result<f32, ThresholdError> {
    let number = text.trim_end_matches('%').parse::<f32>().ok().filter(|number| number.is_finite());
    number.map(|percent| percent / 100.0).ok_or_else(|| ThresholdError::NoShare(signal, text.to_owned()))
}

fn quantity(signal: Signal, text: &str) -> Result<Quantity, ThresholdError> {
    Quantity::parse(text).map_err(|error| ThresholdError::NoQuantity { signal, text: text.to_owned(), error })
}

fn grace(signal: Signal, text: &str) -> Result<Option<Duration>, ThresholdError> {
    let parsed = GoDuration::parse(text);
    let period = parsed.map_err(|error| ThresholdError::NoDuration(signal, text.to_owned(), error))?;
    match period < GoDuration::ZERO {
        true => Err(ThresholdError::NegativeGrace(text.to_owned())),
        false => Ok(Some(period.to_std())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(
        hard: &[(&str, &str)],
        soft: &[(&str, &str)],
        graces: &[(&str, &str)],
        reclaims: &[(&str, &str)],
    ) -> Config {
        let map =
            |entries: &[(&str, &str)]| entries.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        Config {
            eviction_hard: map(hard),
            eviction_soft: map(soft),
            eviction_soft_grace_period: map(graces),
            eviction_minimum_reclaim: map(reclaims),
            enforce_node_allocatable: vec!["pods".to_owned()],
            ..Config::default()
        }
    }

    /// EVI-04.
    #[test]
    fn evi_04_thresholds_are_read_and_shares_of_nothing_or_all_turn_them_off() {
        let read = thresholds(&config(
            &[
                ("memory.available", "100Mi"),
                ("nodefs.available", "10%"),
                ("pid.available", "0%"),
                ("imagefs.available", "100%"),
            ],
            &[("memory.available", "1Gi")],
            &[("memory.available", "1m30s")],
            &[("nodefs.available", "5%"), ("memory.available", "0")],
        ))
        .expect("all are well");
        let shown: Vec<_> = read.iter().map(|one| (one.signal.to_string(), one.value, one.grace.as_secs())).collect();
        let amount = |text| Portion::Amount(Quantity::parse(text).expect("a quantity"));
        assert_eq!(
            shown,
            [
                ("memory.available".to_owned(), amount("100Mi"), 0),
                ("nodefs.available".to_owned(), Portion::Share(0.1), 0),
                ("memory.available".to_owned(), amount("1Gi"), 90),
                ("allocatableMemory.available".to_owned(), amount("100Mi"), 0),
            ]
        );
        assert_eq!(read[1].reclaim_min, Some(Portion::Share(0.05)));
        assert_eq!(read[3].reclaim_min, Some(amount("0")), "the copy for all pods has the node's minimum reclaim");
    }

    /// EVI-03, EVI-05.
    #[test]
    fn evi_03_evi_05_everything_that_is_wrong_is_told_with_upstreams_text() {
        let wrong = thresholds(&config(
            &[
                ("disk.free", "1"),
                ("imagefs.available", "-1%"),
                ("memory.available", "-5"),
                ("nodefs.available", "101%"),
                ("nodefs.inodesFree", "x%"),
                ("pid.available", "many"),
            ],
            &[("memory.available", "1Gi"), ("nodefs.available", "1Gi")],
            &[("memory.available", "-1s")],
            &[("nodefs.available", "-1%"), ("memory.available", "-1")],
        ))
        .expect_err("nothing is well");
        let texts: Vec<_> = wrong.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "unsupported eviction signal disk.free",
                "eviction percentage threshold imagefs.available must be >= 0%: -1%",
                "eviction threshold memory.available must be positive: -5",
                "eviction percentage threshold nodefs.available must be <= 100%: 101%",
                "invalid percentage \"x%\" for nodefs.inodesFree",
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': pid.available: \"many\"",
                "invalid eviction grace period specified: -1s, must be a positive value",
                "negative eviction minimum reclaim specified for memory.available",
                "eviction percentage minimum reclaim nodefs.available must be positive: -1%",
                "grace period must be specified for the soft eviction threshold nodefs.available",
            ]
        );
    }
}
