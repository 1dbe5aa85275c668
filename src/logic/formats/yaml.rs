//! YAML text to JSON, the way Go's converter does it, for configuration files and pod manifests.
//!
//! The only place that reads YAML. It keeps nothing. Upstream turns every YAML document into JSON first and decodes that;
//! so do we, because the odd corners (old octal numbers, `yes` and `no`, whole floats) then agree in all readers.

pub mod places;

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

/// The treatment of a key that a mapping has already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duplicates {
    /// Refuse the document: upstream's strict decoding.
    Refuse,
    /// The later value counts: upstream's lenient decoding.
    LastWins,
}

/// Why a text is not a document.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", self.as_upstream())]
pub struct YamlError {
    /// The line it was found at, from one; `None` when it has no place.
    pub line: Option<usize>,
    /// The fault, in lower case, without the text itself: a manifest may carry secrets.
    pub message: String,
}

impl YamlError {
    /// The error as upstream's YAML library words it, `yaml: line 3: …`.
    pub fn as_upstream(&self) -> String {
        match self.line {
            Some(line) => format!("yaml: line {line}: {}", self.message),
            None => format!("yaml: {}", self.message),
        }
    }
}

/// The nodes that aliases may add to one document; beyond it lies only an attempt to exhaust memory.
const REPLAYED_EVENTS_MAX: usize = 100_000;

/// How deep mappings and lists may nest: deeper than any API object, shallow enough for every recursion over the result.
const DEPTH_MAX: usize = 64;

/// Reads the first document of `text`; an empty text is `null`.
///
/// Whole floats become integers (Go prints `1e3` as `1000`), numbers that begin with a zero are octal, keys become text.
/// Work and memory are bounded: nesting, anchors and what aliases expand to have limits, reached ones are errors. How long
/// `text` may be is the reader's business.
pub fn to_json(text: &str, duplicate_keys: Duplicates) -> Result<Value, YamlError> {
    let value = match serde_saphyr::from_str_with_options::<Value>(text, options(duplicate_keys)) {
        Ok(value) => value,
        // As upstream, which stops reading at the end of the first document.
        Err(error) if matches!(error.without_snippet(), serde_saphyr::Error::MultipleDocuments { .. }) => {
            first_of_many(text, duplicate_keys)?
        }
        Err(error) => return Err(convert(&error)),
    };
    Ok(whole_floats_to_integers(value))
}

fn first_of_many(text: &str, duplicate_keys: Duplicates) -> Result<Value, YamlError> {
    Ok(all_to_json(text, duplicate_keys)?.into_iter().next().unwrap_or(Value::Null))
}

/// Reads every document of `text`, as [`to_json`] reads the first.
///
/// # Errors
/// When one of them is no document.
pub fn all_to_json(text: &str, duplicate_keys: Duplicates) -> Result<Vec<Value>, YamlError> {
    let all = serde_saphyr::from_multiple_with_options::<Value>(text, options(duplicate_keys));
    let all = all.map_err(|error| convert(&error))?;
    Ok(all.into_iter().map(whole_floats_to_integers).collect())
}

fn options(duplicate_keys: Duplicates) -> serde_saphyr::Options {
    options_with(match duplicate_keys {
        Duplicates::Refuse => DuplicateKeyPolicy::Error,
        Duplicates::LastWins => DuplicateKeyPolicy::LastWins,
    })
}

fn options_with(duplicate_keys: DuplicateKeyPolicy) -> serde_saphyr::Options {
    let mut aliases = serde_saphyr::options::AliasLimits::default();
    aliases.max_total_replayed_events = REPLAYED_EVENTS_MAX;
    serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: DEPTH_MAX, max_documents: 64 },
        alias_limits: aliases,
        // A snippet would carry the text, and with it perhaps a secret, into logs.
        with_snippet: false,
        legacy_octal_numbers: true,
        duplicate_keys: duplicate_keys,
    }
}

fn convert(error: &serde_saphyr::Error) -> YamlError {
    let line = error.location().and_then(|place| usize::try_from(place.line()).ok()).filter(|line| *line > 0);
    let message = match error.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => format!("key {key:?} already set in map"),
        serde_saphyr::Error::DuplicateMappingKey { key: None, .. } => "a key is already set in its map".to_owned(),
        other => other.render(),
    };
    YamlError { line, message }
}

/// Floats of at least this size keep their form: Go prints them with an exponent, too.
const FLOAT_PLAIN_MAX: f64 = 1e21;

fn whole_floats_to_integers(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => whole(&number).map_or(Value::Number(number), Value::Number),
        Value::Array(items) => items.into_iter().map(whole_floats_to_integers).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, field)| (key, whole_floats_to_integers(field))).collect()
        }
        other => other,
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "only numbers that are whole and in range")]
fn whole(number: &serde_json::Number) -> Option<serde_json::Number> {
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < FLOAT_PLAIN_MAX)?;
    // A float is cast only inside the target's range; 2^63 and 2^64 themselves are exact as floats and excluded.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float) {
        Some((float as i64).into())
    } else if (0.0..18_446_744_073_709_551_616.0).contains(&float) {
        Some((float as u64).into())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lenient(text: &str) -> Value {
        to_json(text, Duplicates::LastWins).expect("the text is a document")
    }

    #[test]
    fn scalars_are_read_as_upstream_reads_them() {
        for (text, expected) in [
            ("0644", json!(420)),
            ("1e3", json!(1000)),
            ("5.0", json!(5)),
            ("0.5", json!(0.5)),
            ("yes", json!(true)),
            ("off", json!(false)),
            ("\"yes\"", json!("yes")),
            ("~", Value::Null),
            ("", Value::Null),
            ("0x10", json!(16)),
            ("2024-01-01", json!("2024-01-01")),
            ("1m0s", json!("1m0s")),
            ("100Mi", json!("100Mi")),
            ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
        ] {
            assert_eq!(lenient(text), expected, "{text:?}");
        }
    }

    #[test]
    fn keys_become_text() {
        assert_eq!(lenient("1: a\ntrue: b\n"), json!({"1": "a", "true": "b"}));
    }

    #[test]
    fn json_is_yaml() {
        assert_eq!(lenient("{\"a\": [1, {\"b\": null}]}"), json!({"a": [1, {"b": null}]}));
    }

    #[test]
    fn only_the_first_document_is_read() {
        assert_eq!(lenient("a: 1\n---\na: 2\n"), json!({"a": 1}));
    }

    #[test]
    fn anchors_and_merges_expand() {
        assert_eq!(lenient("a: &x {k: 1}\nb: *x\nc: {<<: *x, l: 2}\n")["c"], json!({"k": 1, "l": 2}));
    }

    #[test]
    fn a_second_key_is_refused_or_wins() {
        let text = "a: 1\nb: 2\na: 3\n";
        assert_eq!(lenient(text), json!({"a": 3, "b": 2}));
        let error = to_json(text, Duplicates::Refuse).expect_err("the key is there twice");
        assert_eq!(error, YamlError { line: Some(3), message: "key \"a\" already set in map".into() });
    }

    #[test]
    fn a_broken_text_names_its_line_and_hides_its_content() {
        let error = to_json("a: 1\nb: [hunter2\n", Duplicates::LastWins).expect_err("the list is open");
        assert!(error.line.is_some());
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert!(error.to_string().starts_with("yaml: line "), "{error}");
    }

    #[test]
    fn alias_bombs_and_deep_nesting_are_refused() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let below = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
        }
        to_json(&bomb, Duplicates::LastWins).expect_err("it would expand to ten to the twelfth nodes");
        to_json(&"[".repeat(10_000), Duplicates::LastWins).expect_err("it is too deep");
        to_json(&format!("{}{}", "[".repeat(100), "]".repeat(100)), Duplicates::LastWins).expect_err("too deep");
        to_json(&"- ".repeat(10_000), Duplicates::LastWins).expect_err("it is too deep");
    }

    #[test]
    fn numbers_that_are_not_json_are_refused() {
        for text in [".nan", "a: .inf"] {
            to_json(text, Duplicates::LastWins).expect_err("JSON has no such number");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-a:*&{}\\[\\]<>|0-9.e \n#'\"!~]{0,200}") {
            let _ = to_json(&text, Duplicates::LastWins);
            let _ = to_json(&text, Duplicates::Refuse);
        }

        #[test]
        fn integers_survive(number in proptest::prelude::any::<i64>()) {
            proptest::prop_assert_eq!(lenient(&format!("[{number}]")), json!([number]));
        }
    }
}
