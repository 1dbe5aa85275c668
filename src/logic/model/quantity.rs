//! A resource quantity as Kubernetes writes it: `100m`, `1.5Gi`, `12e6`.
//!
//! Follows apimachinery's `resource.Quantity`: the same texts parse, and the same canonical text comes out. Readings in
//! whole or thousandth units round away from zero, so that no request becomes nothing. Owned by whoever holds the value;
//! keeps an exact count of billionths and the notation it was written in.

use std::cmp::Ordering;
use std::fmt;

#[cfg(test)]
mod tests;

/// How many billionths make one unit.
const NANOS_PER_UNIT: i128 = 1_000_000_000;
/// The largest magnitude of a quantity in binary notation, in units: upstream caps it at 2^63 − 1.
const BINARY_MAX: i128 = i64::MAX as i128;
/// Decimal places kept of a fraction in binary notation, so that a fraction × 2^60 fits 128 bits; more round up.
const BINARY_PLACES_MAX: usize = 20;
/// Longest text read. Anything longer is no quantity a person or a program wrote.
const TEXT_BYTES_MAX: usize = 256;

/// The notation a quantity was written in, and is printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Powers of ten as `e3`; upstream's `DecimalExponent`.
    DecimalExponent,
    /// Powers of 1024: `Ki`, `Mi`, …; upstream's `BinarySI`.
    BinarySi,
    /// Powers of 1000: `m`, `k`, `M`, …; upstream's `DecimalSI`.
    DecimalSi,
}

/// Why a text is no quantity; the texts are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text has not the shape number and suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The suffix names no unit.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// An amount of some resource, exact to a billionth of a unit.
///
/// Magnitudes beyond about 1.7 × 10^29 units stay at that bound (upstream has none for decimal notation).
/// Equality and order are of the amount alone; `1Ki` equals `1024`.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// Nothing, in decimal notation.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// A whole number of units; upstream's `NewQuantity`.
    pub const fn from_units(units: i64, format: Format) -> Self {
        Self { nanos: units as i128 * NANOS_PER_UNIT, format }
    }

    /// A number of thousandths, in decimal notation; upstream's `NewMilliQuantity`.
    pub const fn from_milli(milli: i64) -> Self {
        Self { nanos: milli as i128 * (NANOS_PER_UNIT / 1000), format: Format::DecimalSi }
    }

    /// Reads a quantity.
    ///
    /// # Errors
    /// [`QuantityError`], when the text has another shape or an unknown suffix.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() || text.len() > TEXT_BYTES_MAX {
            return Err(QuantityError::Format);
        }
        let (negative, unsigned) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = split_digits(unsigned);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(after) => split_digits(after),
            None => ("", rest),
        };
        let (magnitude, format) = match interpret_suffix(suffix)? {
            Scale::Ten { exponent, format } => (decimal_nanos(whole, fraction, exponent), format),
            Scale::Two { exponent } => {
                let nanos = binary_nanos(whole, fraction, exponent);
                // Upstream prints a binary quantity below one unit in decimal notation for good.
                let format = if nanos > 0 && nanos < NANOS_PER_UNIT { Format::DecimalSi } else { Format::BinarySi };
                (nanos, format)
            }
        };
        Ok(Self { nanos: if negative { -magnitude } else { magnitude }, format })
    }

    /// Whole units, rounded away from zero, held within 64 bits; upstream's `Value`.
    pub fn value(&self) -> i64 {
        clamp_to_i64(divide_away_from_zero(self.nanos, NANOS_PER_UNIT))
    }

    /// Thousandths of a unit, rounded away from zero, held within 64 bits; upstream's `MilliValue`.
    pub fn milli_value(&self) -> i64 {
        clamp_to_i64(divide_away_from_zero(self.nanos, NANOS_PER_UNIT / 1000))
    }

    /// The notation it is printed in.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether it is more than nothing; upstream's `Sign() == 1`.
    pub fn is_positive(&self) -> bool {
        self.nanos > 0
    }

    /// Whether it is less than nothing.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// The sum, in this quantity's notation, or in the other's when this one is zero (as upstream).
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos), format: self.format_with(other) }
    }

    /// The difference, in this quantity's notation, or in the other's when this one is zero (as upstream).
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), format: self.format_with(other) }
    }

    fn format_with(self, other: Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self::ZERO
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// The canonical text: no fraction, the largest suffix that loses nothing. Upstream prints some texts back as they were
/// written instead (`1.500`, `+1`, `1E3`); who must echo a text keeps the text.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let units = self.nanos / NANOS_PER_UNIT;
        let whole = self.nanos % NANOS_PER_UNIT == 0;
        // Upstream: below 1024, or with a fraction, binary notation would lose precision.
        match self.format {
            Format::BinarySi if whole && units.abs() >= 1024 => write_binary(f, units),
            Format::DecimalExponent => write_decimal(f, self.nanos, Format::DecimalExponent),
            Format::BinarySi | Format::DecimalSi => write_decimal(f, self.nanos, Format::DecimalSi),
        }
    }
}

impl serde::Serialize for Quantity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, mut units: i128) -> fmt::Result {
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut power = 0;
    while units % 1024 == 0 && power + 1 < SUFFIXES.len() {
        units /= 1024;
        power += 1;
    }
    write!(f, "{units}{}", SUFFIXES[power])
}

fn write_decimal(f: &mut fmt::Formatter<'_>, nanos: i128, format: Format) -> fmt::Result {
    const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let mut amount = nanos;
    let mut power = 0;
    // The exponent form has a name for every power; the suffixes end at E.
    while amount % 1000 == 0 && (format == Format::DecimalExponent || power + 1 < SUFFIXES.len()) {
        amount /= 1000;
        power += 1;
    }
    match (format, power) {
        (Format::DecimalExponent, 3) => write!(f, "{amount}"),
        (Format::DecimalExponent, power) => write!(f, "{amount}e{}", power as i32 * 3 - 9),
        _ => write!(f, "{amount}{}", SUFFIXES[power]),
    }
}

enum Scale {
    Ten { exponent: i64, format: Format },
    Two { exponent: u32 },
}

fn interpret_suffix(suffix: &str) -> Result<Scale, QuantityError> {
    let decimal = |exponent| Ok(Scale::Ten { exponent, format: Format::DecimalSi });
    let binary = |exponent| Ok(Scale::Two { exponent });
    match suffix {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
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
        _ => interpret_exponent(suffix),
    }
}

/// Reads `e3`, `E-3`. A text of another shape is a format error, one of the right shape without meaning a suffix error.
fn interpret_exponent(suffix: &str) -> Result<Scale, QuantityError> {
    let letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let digits = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    if suffix.len() != letters.len() + 1 || !suffix.starts_with(['e', 'E']) {
        return Err(QuantityError::Suffix);
    }
    let exponent: i64 = letters.parse().map_err(|_| QuantityError::Suffix)?;
    // Beyond a thousand either way nothing changes any more: the amount is at its bound, or one billionth.
    Ok(Scale::Ten { exponent: exponent.clamp(-1000, 1000), format: Format::DecimalExponent })
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// The number that the digits spell, held at the largest magnitude.
fn number(digits: impl Iterator<Item = u8>) -> i128 {
    digits.fold(0_i128, |sum, digit| sum.saturating_mul(10).saturating_add(i128::from(digit - b'0')))
}

/// Billionths in `whole.fraction` × 10^exponent, what is left over rounded up.
fn decimal_nanos(whole: &str, fraction: &str, exponent: i64) -> i128 {
    let places = exponent + 9 - fraction.len() as i64;
    let digits = || whole.bytes().chain(fraction.bytes());
    let count = whole.len() + fraction.len();
    if places >= 0 {
        return (0..places).fold(number(digits()), |amount, _| amount.saturating_mul(10));
    }
    let kept = count.saturating_sub(places.unsigned_abs() as usize);
    let lost = digits().skip(kept).any(|digit| digit != b'0');
    number(digits().take(kept)).saturating_add(i128::from(lost))
}

/// Billionths in `whole.fraction` × 2^exponent, what is left over rounded up, capped as upstream does.
fn binary_nanos(whole: &str, fraction: &str, exponent: u32) -> i128 {
    let bound = BINARY_MAX * NANOS_PER_UNIT;
    let factor = 1_i128 << exponent;
    let whole_units = number(whole.bytes()).saturating_mul(factor);
    if whole_units > BINARY_MAX {
        return bound;
    }
    let kept = fraction.len().min(BINARY_PLACES_MAX);
    let lost = fraction.bytes().skip(kept).any(|digit| digit != b'0');
    let numerator = (number(fraction.bytes().take(kept)) + i128::from(lost)) * factor;
    let denominator = 10_i128.pow(kept as u32);
    let remainder_nanos = divide_away_from_zero((numerator % denominator) * NANOS_PER_UNIT, denominator);
    let nanos = (whole_units + numerator / denominator) * NANOS_PER_UNIT + remainder_nanos;
    nanos.min(bound)
}

fn divide_away_from_zero(amount: i128, divisor: i128) -> i128 {
    amount / divisor + (amount % divisor).signum()
}

fn clamp_to_i64(amount: i128) -> i64 {
    amount.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}
