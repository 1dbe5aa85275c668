//! Truth values and whole numbers as Go reads them from text, with the texts of its errors.
//!
//! Pure. Options of policies are written as text and upstream prints these errors (`strconv`).

use super::go_text::quoted;

/// Why a text is no value; the texts are those of `strconv.NumError`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    /// The text has another shape.
    #[error("strconv.{function}: parsing {}: invalid syntax", quoted(.text))]
    Syntax {
        /// Go's function.
        function: &'static str,
        /// The text that was read.
        text: String,
    },
    /// The number does not fit 64 bits.
    #[error("strconv.{function}: parsing {}: value out of range", quoted(.text))]
    Range {
        /// Go's function.
        function: &'static str,
        /// The text that was read.
        text: String,
    },
}

/// Go's `strconv.ParseBool`.
///
/// # Errors
/// [`NumberError::Syntax`] for any other text.
pub fn parse_bool(text: &str) -> Result<bool, NumberError> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(NumberError::Syntax { function: "ParseBool", text: text.to_owned() }),
    }
}

/// A whole number of 64 bits as a person writes it: without a plus sign, leading zeros or `-0`.
pub fn canonical_integer(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}

/// Go's `strconv.Atoi`.
///
/// # Errors
/// [`NumberError`], when the text is no whole number of 64 bits.
pub fn atoi(text: &str) -> Result<i64, NumberError> {
    let function = "Atoi";
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NumberError::Syntax { function, text: text.to_owned() });
    }
    text.parse().map_err(|_| NumberError::Range { function, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_values_are_those_that_go_knows() {
        for (text, expected) in [("1", true), ("True", true), ("0", false), ("f", false)] {
            assert_eq!(parse_bool(text), Ok(expected), "{text}");
        }
        let error = parse_bool("yes").expect_err("no truth value");
        assert_eq!(error.to_string(), "strconv.ParseBool: parsing \"yes\": invalid syntax");
    }

    #[test]
    fn numbers_may_have_a_sign() {
        for (text, expected) in [("12", 12), ("+7", 7), ("-3", -3), ("007", 7)] {
            assert_eq!(atoi(text), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("", "strconv.Atoi: parsing \"\": invalid syntax"),
            ("1 ", "strconv.Atoi: parsing \"1 \": invalid syntax"),
            ("can't", "strconv.Atoi: parsing \"can't\": invalid syntax"),
            ("99999999999999999999", "strconv.Atoi: parsing \"99999999999999999999\": value out of range"),
        ] {
            assert_eq!(atoi(text).expect_err("no number").to_string(), expected);
        }
    }
}
