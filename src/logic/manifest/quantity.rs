//! Kubernetes quantities (`100m`, `1.5Gi`, `1e3`) as exact numbers, with upstream's errors and canonical text.
//!
//! Owned by the manifest reader: decoding refuses what is no quantity, defaulting writes the canonical form,
//! validation compares. Values are whole billionths; smaller parts are rounded away from zero, as upstream.

use std::fmt;

/// One, in billionths.
const ONE: i128 = 1_000_000_000;

/// The largest binary quantity: upstream caps them at 2^63 - 1.
const BINARY_MAX: i128 = (i64::MAX as i128) * ONE;

/// The mantissa keeps this many digits' worth; the rest only rounds. 10^20 times 2^60 still fits in 128 bits.
const MANTISSA_MAX: u128 = 100_000_000_000_000_000_000;

/// How a quantity was written, and is written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    DecimalSi,
    BinarySi,
    DecimalExponent,
}

/// Why a text is no quantity; texts as upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number followed by letters.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The letters are no known suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// A parsed quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity {
    billionths: i128,
    format: Format,
}

impl Quantity {
    /// Parses a quantity as upstream's `ParseQuantity`.
    ///
    /// # Errors
    /// When the text has another form, or an unknown suffix.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if text.is_empty() || fraction.contains('.') || !suffix_has_form(suffix) {
            return Err(QuantityError::Format);
        }
        let (shift, exponent, format) = interpret(suffix).ok_or(QuantityError::Suffix)?;
        let scaled = scale(whole, fraction, shift, exponent);
        let magnitude = if format == Format::BinarySi { scaled.min(BINARY_MAX) } else { scaled };
        // Binary suffixes cannot say less than one.
        let small = format == Format::BinarySi && magnitude < ONE && magnitude > 0;
        let format = if small { Format::DecimalSi } else { format };
        Ok(Self { billionths: if negative { -magnitude } else { magnitude }, format })
    }

    /// Rounds away from zero to thousandths, as the API does with resource lists.
    #[must_use]
    pub fn round_up_to_milli(self) -> Self {
        let step = ONE / 1000;
        let rest = self.billionths % step;
        if rest == 0 {
            return self;
        }
        Self { billionths: (self.billionths - rest).saturating_add(step * rest.signum()), ..self }
    }

    /// The value in billionths; saturated for values that no machine has.
    pub fn billionths(self) -> i128 {
        self.billionths
    }

    /// Whether the value is below zero.
    pub fn is_negative(self) -> bool {
        self.billionths < 0
    }

    /// Whether the value is zero.
    pub fn is_zero(self) -> bool {
        self.billionths == 0
    }

    /// Whether the value is an integer.
    pub fn is_whole(self) -> bool {
        self.billionths % ONE == 0
    }
}

/// Letters, then perhaps a sign, then digits: anything else is no suffix at all.
fn suffix_has_form(suffix: &str) -> bool {
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    rest.strip_prefix(['-', '+']).unwrap_or(rest).chars().all(|c| c.is_ascii_digit())
}

/// A suffix as (power of two, power of ten, how it is written again).
fn interpret(suffix: &str) -> Option<(u32, i64, Format)> {
    let decimal = |exponent| Some((0, exponent, Format::DecimalSi));
    let binary = |shift| Some((shift, 0, Format::BinarySi));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some((0, exponent, Format::DecimalExponent))
        }
    }
}

/// The magnitude in billionths of digits, times 2^`shift`, times 10^`exponent`; saturated, rounded up.
fn scale(whole: &str, fraction: &str, shift: u32, exponent: i64) -> i128 {
    let mut mantissa: u128 = 0;
    let mut power = exponent.saturating_add(9);
    let mut inexact = false;
    let digits = whole.bytes().map(|digit| (digit, false)).chain(fraction.bytes().map(|digit| (digit, true)));
    for (digit, is_fraction) in digits {
        let digit = u128::from(digit - b'0');
        if mantissa < MANTISSA_MAX / 10 {
            mantissa = mantissa * 10 + digit;
            power = power.saturating_sub(i64::from(is_fraction));
        } else {
            inexact |= digit != 0;
            power = power.saturating_add(i64::from(!is_fraction));
        }
    }
    if mantissa == 0 {
        return 0;
    }
    let shifted = mantissa << shift;
    let factor = u32::try_from(power.unsigned_abs()).ok().and_then(|power| 10_u128.checked_pow(power));
    let scaled = match (power >= 0, factor) {
        (true, Some(factor)) => shifted.checked_mul(factor),
        (true, None) => None,
        (false, Some(factor)) => Some(shifted.div_ceil(factor) + u128::from(inexact && shifted.is_multiple_of(factor))),
        (false, None) => Some(1),
    };
    scaled.and_then(|scaled| i128::try_from(scaled).ok()).unwrap_or(i128::MAX)
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.billionths.cmp(&other.billionths))
    }
}

/// The canonical text: no fraction, the largest suffix that loses nothing.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.billionths == 0 {
            return f.write_str("0");
        }
        let small = self.billionths.abs() < 1024 * ONE;
        if self.format == Format::BinarySi && !small && self.is_whole() {
            let (number, step) = reduce(self.billionths / ONE, 1024, 6);
            return write!(f, "{number}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][step]);
        }
        let (number, step) = reduce(self.billionths, 1000, 9);
        match (self.format, step) {
            (Format::DecimalExponent, 3) => write!(f, "{number}"),
            (Format::DecimalExponent, 0..3) => write!(f, "{number}e-{}", (3 - step) * 3),
            (Format::DecimalExponent, _) => write!(f, "{number}e{}", (step - 3) * 3),
            _ => write!(f, "{number}{}", ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][step]),
        }
    }
}

/// Divides by `base` as often as nothing is lost, at most `steps` times.
fn reduce(mut number: i128, base: i128, steps: usize) -> (i128, usize) {
    let mut done = 0;
    while done < steps && number % base == 0 {
        number /= base;
        done += 1;
    }
    (number, done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_print_in_canonical_form() {
        for (text, canonical) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("00100m", "100m"),
            ("1", "1"),
            ("+1", "1"),
            ("-1.5", "-1500m"),
            ("0.5", "500m"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1024", "1024"),
            ("1Ki", "1Ki"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512Ki", "512Ki"),
            ("1000Ki", "1000Ki"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("5e-1", "500e-3"),
            ("1E", "1E"),
            ("0.1n", "1n"),
            ("1.G", "1G"),
            (".5", "500m"),
            ("100Ei", "9223372036854775807"),
            ("0.5Ki", "512"),
            ("0.1Ki", "102400m"),
            ("12345678901234567890", "12345678901234567890"),
        ] {
            assert_eq!(Quantity::parse(text).map(|quantity| quantity.to_string()), Ok(canonical.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_upstreams_words() {
        for text in ["", "a", "1.2.3", "1 ", " 1", "1Mi5x", "1,5", "0x10", "1mm+x"] {
            assert_eq!(Quantity::parse(text), Err(QuantityError::Format), "{text:?}");
        }
        for text in ["1mi", "1K", "1kk", "1e", "1i", "1m5", "--1", "1e99999999999999999999"] {
            assert_eq!(Quantity::parse(text), Err(QuantityError::Suffix), "{text:?}");
        }
    }

    #[test]
    fn resource_lists_round_up_to_thousandths() {
        for (text, rounded) in [("100u", "1m"), ("1.0001", "1001m"), ("-0.0001", "-1m"), ("3m", "3m")] {
            assert_eq!(Quantity::parse(text).expect("parses").round_up_to_milli().to_string(), rounded, "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_the_canonical_form_is_a_fixed_point(
            text in "[-+]?[0-9.]{0,44}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,3}",
        ) {
            if let Ok(quantity) = Quantity::parse(&text) {
                let printed = quantity.to_string();
                // Saturated values are beyond what can be printed and read again.
                if quantity.billionths().unsigned_abs() < MANTISSA_MAX {
                    let again = Quantity::parse(&printed).expect("canonical text parses");
                    prop_assert_eq!(again.billionths(), quantity.billionths(), "{} -> {}", text, printed);
                    prop_assert_eq!(again.to_string(), printed);
                }
            }
        }
    }
}
