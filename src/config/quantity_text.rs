//! Quantities as texts: are they one, and are they zero? Their values are `logic`'s business.
//!
//! Keeps nothing. Upstream: `staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go`.

/// A text that is a quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuantityText {
    /// Whether it is worth nothing.
    pub is_zero: bool,
    /// Whether it is below zero.
    pub is_negative: bool,
}

const FORMAT_ERROR: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NUMBER_ERROR: &str = "unable to parse numeric part of quantity";
const SUFFIX_ERROR: &str = "unable to parse quantity's suffix";

impl QuantityText {
    /// Reads `100Mi`, `1.5`, `2e3`, `-1`. The error is upstream's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end = unsigned.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        if number.is_empty() {
            return Err(FORMAT_ERROR.into());
        }
        if number.bytes().filter(|byte| *byte == b'.').count() > 1 || number == "." {
            return Err(NUMBER_ERROR.into());
        }
        if !is_suffix(suffix) {
            return Err(SUFFIX_ERROR.into());
        }
        let is_zero = number.bytes().all(|byte| byte == b'0' || byte == b'.');
        Ok(Self { is_zero, is_negative: text.starts_with('-') && !is_zero })
    }
}

fn is_suffix(suffix: &str) -> bool {
    const UNITS: &[&str] = &["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let is_exponent = suffix.strip_prefix(['e', 'E']).is_some_and(|exponent| {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    UNITS.contains(&suffix) || is_exponent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_told_from_other_texts() {
        for text in ["1", "100Mi", "1.5Gi", "2e3", "1E-2", "-1", "+3k", ".5", "5.", "250m", "1E"] {
            assert!(QuantityText::parse(text).is_ok_and(|found| !found.is_zero), "{text}");
        }
        for (text, error) in [
            ("", FORMAT_ERROR),
            ("x", FORMAT_ERROR),
            ("1.2.3", NUMBER_ERROR),
            ("1Q", SUFFIX_ERROR),
            ("1 Mi", SUFFIX_ERROR),
        ] {
            assert_eq!(QuantityText::parse(text), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn zero_and_negative_are_seen() {
        assert_eq!(QuantityText::parse("0.00Gi"), Ok(QuantityText { is_zero: true, is_negative: false }));
        assert_eq!(QuantityText::parse("-0"), Ok(QuantityText { is_zero: true, is_negative: false }));
        assert_eq!(QuantityText::parse("-1Mi"), Ok(QuantityText { is_zero: false, is_negative: true }));
    }
}
