//! Properties: what is printed reads back, and nothing that a file or command line says makes the reader panic.

use super::super::flags::parse;
use super::super::flags::table::FLAGS;
use super::super::{Config, FeatureGates, GoDuration, decode, fields::CONFIGURATION};
use crate::config::fields::kinds::{Field, Kind, Printed};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Some value of a kind, as a file may hold it.
fn value_of(kind: Kind) -> BoxedStrategy<Value> {
    let text = "[a-zA-Z0-9/:. %-]{1,12}";
    let quantity = "[1-9][0-9]{0,3}(Mi|Gi|k|m|)";
    match kind {
        Kind::Bool => any::<bool>().prop_map(Value::from).boxed(),
        Kind::Int32 => any::<i32>().prop_map(Value::from).boxed(),
        Kind::Int64 => any::<i64>().prop_map(Value::from).boxed(),
        Kind::Unsigned => any::<u32>().prop_map(Value::from).boxed(),
        Kind::Float => (1..1000_u32).prop_map(|thousandth| json!(f64::from(thousandth) / 1000.0)).boxed(),
        Kind::Text(_) | Kind::Time => text.prop_map(Value::from).boxed(),
        Kind::Duration | Kind::DurationOrNumber => {
            any::<i64>().prop_map(|nanoseconds| json!(GoDuration(nanoseconds).to_string())).boxed()
        }
        Kind::Quantity => quantity.prop_map(Value::from).boxed(),
        // Upstream cannot print an empty list or map, so it does not read back.
        Kind::TextList => prop::collection::vec(text, 1..4).prop_map(Value::from).boxed(),
        Kind::Int32List => prop::collection::vec(any::<i32>(), 1..4).prop_map(Value::from).boxed(),
        Kind::TextMap => map_of(text.prop_map(Value::from).boxed()),
        Kind::BoolMap => map_of(any::<bool>().prop_map(Value::from).boxed()),
        Kind::HeaderMap => map_of(value_of(Kind::TextList)),
        Kind::QuantityMap => map_of(quantity.prop_map(Value::from).boxed()),
        Kind::Object(_, fields) => object_of(fields),
        Kind::ObjectList(_, fields) => {
            // Structs in lists are not defaulted: only whole ones read back.
            let whole: Vec<_> = fields.iter().map(|field| value_of(field.kind)).collect();
            let keys: Vec<_> = fields.iter().map(|field| field.key.to_owned()).collect();
            let item = whole.prop_map(move |values| keys.iter().cloned().zip(values).collect::<Map<_, _>>());
            prop::collection::vec(item, 1..3).prop_map(|items| items.into_iter().map(Value::Object).collect()).boxed()
        }
    }
}

fn map_of(item: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    prop::collection::btree_map("[a-z.]{1,8}", item, 1..4)
        .prop_map(|entries| Value::Object(entries.into_iter().collect()))
        .boxed()
}

/// An object of some of these fields.
pub fn object_of(fields: &'static [Field]) -> BoxedStrategy<Value> {
    let chosen: Vec<_> = fields.iter().map(|field| prop::option::weighted(0.3, value_of(field.kind))).collect();
    chosen
        .prop_map(move |values| {
            let pairs = fields.iter().zip(values).filter_map(|(field, value)| Some((field.key.to_owned(), value?)));
            Value::Object(pairs.collect())
        })
        .boxed()
}

pub fn with_type(mut document: Value) -> Value {
    document["apiVersion"] = json!("kubelet.config.k8s.io/v1beta1");
    document["kind"] = json!("KubeletConfiguration");
    document
}

fn read(document: &Value) -> Config {
    let text = document.to_string();
    let file = decode::main_file(text.as_bytes(), &FeatureGates::default()).expect("it fits the table");
    assert!(file.warnings.is_empty(), "{:?}", file.warnings);
    file.config
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// CFG-48.
    #[test]
    fn what_is_printed_reads_back(document in object_of(CONFIGURATION)) {
        let config = read(&with_type(document));
        let printed = with_type(Value::Object(decode::printed(&config)));
        prop_assert_eq!(read(&printed), config.clone());
        prop_assert_eq!(decode::from_json(decode::to_json(&config)), config);
    }

    /// CFG-01.
    #[test]
    fn what_a_file_sets_is_what_counts(document in object_of(CONFIGURATION)) {
        let mut whole = decode::to_json(&read(&with_type(document.clone())));
        for field in CONFIGURATION {
            let Some(set) = document.get(field.key) else { continue };
            // Zero means unset for plain fields, and a few fields are completed or corrected.
            let is_plain_scalar = field.printed != Printed::UnlessNull && !set.is_array() && !set.is_object();
            let adjusted = ["podPidsLimit", "evictionHard"].contains(&field.key) || set.is_object() || set.is_array();
            if !adjusted && !(is_plain_scalar && (set == 0 || set == false || set == "0s")) {
                let found = whole.remove(field.key);
                prop_assert_eq!(found.as_ref(), Some(set), "{}", field.key);
            }
        }
    }

    #[test]
    fn an_empty_patch_changes_nothing(document in object_of(CONFIGURATION)) {
        let config = read(&with_type(document));
        let merged = decode::merge(&config, &[json!({})], &FeatureGates::default()).expect("it fits");
        prop_assert_eq!(merged, config);
    }

    #[test]
    fn no_document_makes_it_panic(typed in any::<bool>(), text in "[a-zA-Z:{}\\[\\]0-9 \n.-]{0,80}") {
        let text = if typed { super::document(&text) } else { text };
        let _ = decode::main_file(text.as_bytes(), &FeatureGates::default());
        let _ = decode::drop_in(text.as_bytes());
    }

    #[test]
    fn no_command_line_makes_it_panic(
        words in prop::collection::vec((0..FLAGS.len(), prop::option::of("[-a-z0-9:=,;<.\"{}]{0,20}"), any::<bool>()), 0..5)
    ) {
        let words = words.into_iter().map(|(index, value, dashes)| {
            let dashes = if dashes { "--" } else { "-" };
            let value = value.map_or_else(String::new, |value| format!("={value}"));
            format!("{dashes}{}{value}", FLAGS[index].name)
        });
        if let Ok(parsed) = parse::parse(&words.collect::<Vec<_>>()) {
            super::super::Flags::from_parsed(&parsed);
            super::super::flags::apply(&decode::legacy_defaults(), &parsed);
        }
    }
}
