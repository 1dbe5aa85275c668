//! Durations as Go reads and prints them: signed, in nanoseconds, `1m0s` as text.
//!
//! Used by every duration of the configuration. Negative ones are legal values that validation judges.

use std::fmt;
use std::time::Duration;

const NANOSECOND: i64 = 1;
const MICROSECOND: i64 = 1_000;
const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// A signed duration in nanoseconds, as Go's `time.Duration`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GoDuration(pub i64);

impl GoDuration {
    /// No time at all; in a file this means "not set".
    pub const ZERO: Self = Self(0);

    /// So many whole seconds.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds * SECOND)
    }

    /// So many whole milliseconds.
    pub const fn from_millis(milliseconds: i64) -> Self {
        Self(milliseconds * MILLISECOND)
    }

    /// As the standard library's duration; negative ones are zero there.
    pub fn to_std(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }

    /// In seconds, with their fraction.
    #[allow(clippy::cast_precision_loss, reason = "as Go's Duration.Seconds")]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / SECOND as f64
    }

    /// Reads `1h30m`, `-1.5s`, `100ms`, `0`. The error is worded as Go's `time.ParseDuration` words it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        let invalid = || format!("time: invalid duration {text:?}");
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let (nanoseconds, after) = parse_part(text, rest)?;
            total += nanoseconds;
            // One more than the largest positive value, for the most negative one.
            if total > i128::from(i64::MAX) + 1 {
                return Err(invalid());
            }
            rest = after;
        }
        i64::try_from(if negative { -total } else { total }).map(Self).map_err(|_| invalid())
    }
}

/// One number with its unit from the front of `rest`; `whole` is for error texts.
fn parse_part<'a>(whole: &str, rest: &'a str) -> Result<(i128, &'a str), String> {
    let invalid = || format!("time: invalid duration {whole:?}");
    let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, rest) = rest.split_at(end);
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (integer.is_empty() && fraction.is_empty()) || fraction.contains('.') || integer.len() > 19 {
        return Err(invalid());
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let unit = match unit {
        "" => return Err(format!("time: missing unit in duration {whole:?}")),
        "ns" => NANOSECOND,
        "us" | "µs" | "μs" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        other => return Err(format!("time: unknown unit {other:?} in duration {whole:?}")),
    };
    let mut nanoseconds =
        integer.bytes().fold(0_i128, |sum, digit| sum * 10 + i128::from(digit - b'0')) * i128::from(unit);
    let mut scale = i128::from(unit);
    for digit in fraction.bytes().take(18) {
        // Digits below a nanosecond are cut off, as in Go.
        nanoseconds += i128::from(digit - b'0') * scale / 10;
        scale /= 10;
    }
    Ok((nanoseconds, rest))
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let size = self.0.unsigned_abs();
        let (second, minute, hour) = (SECOND.unsigned_abs(), MINUTE.unsigned_abs(), HOUR.unsigned_abs());
        if size == 0 {
            return f.write_str("0s");
        }
        if size < second {
            let (unit, name) = match size {
                0..1_000 => (1, "ns"),
                1_000..1_000_000 => (1_000, "µs"),
                _ => (1_000_000, "ms"),
            };
            return write!(f, "{sign}{}{name}", Decimal { value: size, unit });
        }
        f.write_str(sign)?;
        if size >= hour {
            write!(f, "{}h", size / hour)?;
        }
        if size >= minute {
            write!(f, "{}m", size % hour / minute)?;
        }
        write!(f, "{}s", Decimal { value: size % minute, unit: second })
    }
}

/// `value / unit` as a decimal number without trailing zeros; `unit` is a power of ten.
struct Decimal {
    value: u64,
    unit: u64,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value / self.unit)?;
        let fraction = self.value % self.unit;
        if fraction == 0 {
            return Ok(());
        }
        let width = self.unit.ilog10() as usize;
        let digits = format!("{fraction:0width$}");
        write!(f, ".{}", digits.trim_end_matches('0'))
    }
}

impl fmt::Debug for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for GoDuration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for GoDuration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_printed_as_go_does() {
        for (text, nanoseconds, printed) in [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("60s", MINUTE, "1m0s"),
            ("5m", 5 * MINUTE, "5m0s"),
            ("4h", 4 * HOUR, "4h0m0s"),
            ("1h0.5s", HOUR + SECOND / 2, "1h0m0.5s"),
            ("1.5s", SECOND * 3 / 2, "1.5s"),
            ("100ms", 100 * MILLISECOND, "100ms"),
            ("1500us", 1500 * MICROSECOND, "1.5ms"),
            ("1µs", MICROSECOND, "1µs"),
            (".5m", 30 * SECOND, "30s"),
            ("-1m30s", -90 * SECOND, "-1m30s"),
            ("+3ns", 3, "3ns"),
        ] {
            assert_eq!(GoDuration::parse(text), Ok(GoDuration(nanoseconds)), "{text}");
            assert_eq!(GoDuration(nanoseconds).to_string(), printed, "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_named_as_go_names_it() {
        for (text, error) in [
            ("", "time: invalid duration \"\""),
            ("x", "time: invalid duration \"x\""),
            ("5", "time: missing unit in duration \"5\""),
            ("5x", "time: unknown unit \"x\" in duration \"5x\""),
            ("1..5s", "time: invalid duration \"1..5s\""),
            ("3000000h", "time: invalid duration \"3000000h\""),
        ] {
            assert_eq!(GoDuration::parse(text), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_negative_duration_is_no_time() {
        assert_eq!(GoDuration(-5).to_std(), Duration::ZERO);
        assert_eq!(GoDuration::from_millis(1500).to_std(), Duration::from_millis(1500));
    }

    proptest::proptest! {
        #[test]
        fn printing_and_reading_are_inverse(nanoseconds in proptest::prelude::any::<i64>()) {
            let duration = GoDuration(nanoseconds);
            proptest::prop_assert_eq!(GoDuration::parse(&duration.to_string()), Ok(duration));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[-+0-9.hmsnuµx]{0,30}") {
            let _ = GoDuration::parse(&text);
        }
    }
}
