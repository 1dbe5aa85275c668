//! Reads a typed object out of a JSON tree and knows, at every step, the path of the field it is reading.
//!
//! Owned by [`super::decode`]. Two things set it apart from a plain deserialiser: an error names the field
//! (`spec.containers[0].ports[0].containerPort`), and fields that the type does not know are collected, not lost.
//! Like the upstream decoder, `null` stands for a field's zero value, and a number for a quantity.

use std::cell::RefCell;
use std::fmt;

use serde::Deserialize;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::logic::model::quantity::Quantity;

/// A field that could not be read: where it is and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeError {
    /// The field's path; empty when the object itself is wrong.
    pub path: String,
    /// The fault, in the words of upstream's decoder where it has some.
    pub message: String,
    /// Whether `path` was filled in; the innermost field wins.
    located: bool,
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.path, self.message) }
    }
}

impl std::error::Error for TreeError {}

impl serde::de::Error for TreeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { path: String::new(), message: message.to_string(), located: false }
    }
}

/// More unknown fields than this are counted, not listed: a hostile document may have millions.
const UNKNOWN_LISTED_MAX: usize = 20;

/// The most items of one list. Three bytes of a hostile document become a kilobyte of container.
const ITEMS_MAX: usize = 10_000;

/// The fields that the type does not have.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unknown {
    /// The paths of the first of them.
    pub paths: Vec<String>,
    /// How many more there are.
    pub more: usize,
}

/// Reads a `T` out of `value`; gives also the fields that `T` does not have.
pub(super) fn read<'de, T: Deserialize<'de>>(value: &'de Value) -> Result<(T, Unknown), TreeError> {
    let unknown = RefCell::new(Unknown::default());
    let read = T::deserialize(Node { value, path: &Path::Root, unknown: &unknown })?;
    Ok((read, unknown.into_inner()))
}

/// A path as a chain on the stack: it costs nothing until somebody asks for its text.
enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// One value of the tree, with its place.
struct Node<'de, 'p> {
    value: &'de Value,
    path: &'p Path<'p>,
    unknown: &'p RefCell<Unknown>,
}

impl<'de> Node<'de, '_> {
    fn error(&self, message: String) -> TreeError {
        TreeError { path: self.path.to_string(), message, located: true }
    }

    /// Upstream's sentence about a value of the wrong type.
    fn mismatch(&self, expected: &str) -> TreeError {
        let found = match self.value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(number) if expected.starts_with("int") => format!("number {number}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        self.error(format!("cannot unmarshal {found} into a field of type {expected}"))
    }

    /// Gives an error that came from inside the type this node's place.
    fn locate<T>(&self, outcome: Result<T, TreeError>) -> Result<T, TreeError> {
        outcome.map_err(|error| if error.located { error } else { self.error(error.message) })
    }

    fn integer(&self, expected: &str, low: i64, high: i64) -> Result<i64, TreeError> {
        let number = match self.value {
            Value::Null => return Ok(0),
            Value::Number(number) => number,
            _ => return Err(self.mismatch(expected)),
        };
        whole(number).filter(|number| (low..=high).contains(number)).ok_or_else(|| self.mismatch(expected))
    }

    fn walk_map<V: Visitor<'de>>(&self, map: &'de Map<String, Value>, visitor: V) -> Result<V::Value, TreeError> {
        let entries = Entries { rest: map.iter(), pending: None, path: self.path, unknown: self.unknown };
        self.locate(visitor.visit_map(entries))
    }

    fn walk_list<V: Visitor<'de>>(&self, list: &'de [Value], visitor: V) -> Result<V::Value, TreeError> {
        if list.len() > ITEMS_MAX {
            return Err(self.error(format!("has more than {ITEMS_MAX} items")));
        }
        let items = Items { rest: list.iter().enumerate(), path: self.path, unknown: self.unknown };
        self.locate(visitor.visit_seq(items))
    }

    fn quantity(&self) -> Result<String, TreeError> {
        let text = match self.value {
            Value::Null => return Ok("0".to_owned()),
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return Err(self.mismatch("Quantity")),
        };
        Quantity::parse(&text).map_err(|why| self.error(why.to_string()))?;
        Ok(text)
    }
}

/// A number without a fraction: `3`, and `3.0` as YAML may write it.
fn whole(number: &Number) -> Option<i64> {
    if let Some(whole) = number.as_i64() {
        return Some(whole);
    }
    let float = number.as_f64()?;
    // Beyond 2^53 a float no longer says which integer was meant.
    let exact = float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
    exact.then_some(float as i64)
}

macro_rules! integers {
    ($($method:ident, $visit:ident, $number:ty, $named:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
            let high = i64::try_from(<$number>::MAX).unwrap_or(i64::MAX);
            let number = self.integer($named, i64::try_from(<$number>::MIN).unwrap_or(0), high)?;
            visitor.$visit(<$number>::try_from(number).expect("invariant: the range was checked"))
        }
    )*};
}

impl<'de> Deserializer<'de> for Node<'de, '_> {
    type Error = TreeError;

    integers! {
        deserialize_i8, visit_i8, i8, "int8";
        deserialize_i16, visit_i16, i16, "int16";
        deserialize_i32, visit_i32, i32, "int32";
        deserialize_i64, visit_i64, i64, "int64";
        deserialize_u8, visit_u8, u8, "uint8";
        deserialize_u16, visit_u16, u16, "uint16";
        deserialize_u32, visit_u32, u32, "uint32";
        deserialize_u64, visit_u64, u64, "uint64";
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        let outcome = match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Number(number) => match whole(number) {
                Some(number) => visitor.visit_i64(number),
                None => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(list) => return self.walk_list(list, visitor),
            Value::Object(map) => return self.walk_map(map, visitor),
        };
        self.locate(outcome)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        match self.value {
            Value::Null => visitor.visit_bool(false),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            _ => Err(self.mismatch("bool")),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        match self.value {
            Value::Null => visitor.visit_f64(0.0),
            Value::Number(number) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            _ => Err(self.mismatch("float64")),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        match self.value {
            Value::Null => self.locate(visitor.visit_borrowed_str("")),
            Value::String(text) => self.locate(visitor.visit_borrowed_str(text)),
            _ => Err(self.mismatch("string")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, TreeError> {
        match name {
            "Quantity" => visitor.visit_string(self.quantity()?),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        match self.value {
            Value::Null => self.walk_list(&[], visitor),
            Value::Array(list) => self.walk_list(list, visitor),
            _ => Err(self.mismatch("list")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        match self.value {
            Value::Null => self.locate(visitor.visit_map(NoEntries)),
            Value::Object(map) => self.walk_map(map, visitor),
            _ => Err(self.mismatch("map")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TreeError> {
        match self.value {
            Value::Null => self.locate(visitor.visit_map(NoEntries)),
            Value::Object(map) => self.walk_map(map, visitor),
            _ => Err(self.mismatch(name)),
        }
    }

    /// The value of a field that the type does not have.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        let mut unknown = self.unknown.borrow_mut();
        if unknown.paths.len() < UNKNOWN_LISTED_MAX {
            unknown.paths.push(self.path.to_string());
        } else {
            unknown.more += 1;
        }
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
    }
}

/// The entries of an object.
struct Entries<'de, 'p> {
    rest: serde_json::map::Iter<'de>,
    pending: Option<(&'de str, &'de Value)>,
    path: &'p Path<'p>,
    unknown: &'p RefCell<Unknown>,
}

impl<'de> MapAccess<'de> for Entries<'de, '_> {
    type Error = TreeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, TreeError> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.pending = Some((key, value));
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, TreeError> {
        let (key, value) = self.pending.take().expect("invariant: a value is asked for after its key");
        seed.deserialize(Node { value, path: &Path::Field(self.path, key), unknown: self.unknown })
    }
}

/// The items of a list.
struct Items<'de, 'p> {
    rest: std::iter::Enumerate<std::slice::Iter<'de, Value>>,
    path: &'p Path<'p>,
    unknown: &'p RefCell<Unknown>,
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = TreeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, TreeError> {
        let Some((index, value)) = self.rest.next() else { return Ok(None) };
        seed.deserialize(Node { value, path: &Path::Item(self.path, index), unknown: self.unknown }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// An object with no entries: what `null` stands for.
struct NoEntries;

impl<'de> MapAccess<'de> for NoEntries {
    type Error = TreeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, _: K) -> Result<Option<K::Value>, TreeError> {
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, _: V) -> Result<V::Value, TreeError> {
        Err(serde::de::Error::custom("no value without a key"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn read_pod(value: Value) -> Result<(Pod, Unknown), TreeError> {
        read(&value)
    }

    #[test]
    fn an_error_names_the_innermost_field() {
        for (spec, path, message) in [
            (json!({"containers": {}}), "spec.containers", "cannot unmarshal object into a field of type list"),
            (
                json!({"containers": ["x"]}),
                "spec.containers[0]",
                "cannot unmarshal string into a field of type Container",
            ),
            (
                json!({"containers": [{}, {"ports": [{"containerPort": "80"}]}]}),
                "spec.containers[1].ports[0].containerPort",
                "cannot unmarshal string into a field of type int32",
            ),
            (
                json!({"containers": [{"ports": [{"containerPort": 4_294_967_296_u64}]}]}),
                "spec.containers[0].ports[0].containerPort",
                "cannot unmarshal number 4294967296 into a field of type int32",
            ),
            (
                json!({"terminationGracePeriodSeconds": 1.5}),
                "spec.terminationGracePeriodSeconds",
                "cannot unmarshal number 1.5 into a field of type int64",
            ),
            (json!({"hostname": true}), "spec.hostname", "cannot unmarshal bool into a field of type string"),
            (json!({"hostNetwork": "yes"}), "spec.hostNetwork", "cannot unmarshal string into a field of type bool"),
            (
                json!({"nodeSelector": {"a": 1}}),
                "spec.nodeSelector.a",
                "cannot unmarshal number into a field of type string",
            ),
            (
                json!({"overhead": {"cpu": "1 core"}}),
                "spec.overhead.cpu",
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
        ] {
            let error = read_pod(json!({"spec": spec})).expect_err("must be refused");
            assert_eq!((error.path.as_str(), error.message.as_str()), (path, message));
        }
    }

    #[test]
    fn a_port_that_is_neither_number_nor_text_is_refused_with_its_path() {
        let probe = json!({"containers": [{"readinessProbe": {"httpGet": {"port": true}}}]});
        let error = read_pod(json!({"spec": probe})).expect_err("must be refused");
        assert_eq!(error.path, "spec.containers[0].readinessProbe.httpGet.port");
    }

    #[test]
    fn unknown_fields_are_ignored_and_told() {
        let (pod, unknown) = read_pod(json!({
            "metadata": {"name": "a"}, "spec": {"restartpolicy": "Never", "containers": [{"name": "c",
            "img": {"deep": [1]}}]},
        }))
        .expect("reads");
        assert_eq!(pod.metadata.name.as_deref(), Some("a"));
        assert_eq!(unknown.paths, ["spec.containers[0].img", "spec.restartpolicy"]);
    }

    #[test]
    fn of_very_many_unknown_fields_the_first_are_listed() {
        let fields: Map<String, Value> = (0..1000).map(|n| (format!("x{n}"), json!({"y": [n]}))).collect();
        let (_, unknown) = read_pod(json!({"spec": fields})).expect("reads");
        assert_eq!((unknown.paths.len(), unknown.more), (UNKNOWN_LISTED_MAX, 1000 - UNKNOWN_LISTED_MAX));
    }

    #[test]
    fn a_list_beyond_all_measure_is_refused() {
        let error = read_pod(json!({"spec": {"containers": vec![json!({}); ITEMS_MAX + 1]}})).expect_err("too many");
        assert_eq!(error.to_string(), "spec.containers: has more than 10000 items");
    }

    #[test]
    fn null_stands_for_the_zero_value() {
        let (pod, unknown) = read_pod(json!({
            "metadata": {"creationTimestamp": null, "labels": {"a": null}}, "status": null,
            "spec": {"containers": [null, {"name": null, "args": null, "ports": [{"containerPort": null}]}],
            "volumes": null},
        }))
        .expect("reads");
        assert_eq!(unknown, Unknown::default());
        let spec = pod.spec.expect("given");
        assert_eq!((spec.containers.len(), spec.containers[1].name.as_str(), spec.volumes), (2, "", None));
        assert_eq!(pod.metadata.labels.expect("given")["a"], "");
    }

    #[test]
    fn a_number_is_a_quantity_too() {
        let (pod, _) = read_pod(json!({"spec": {"overhead": {"cpu": 2, "memory": 0.5}}})).expect("reads");
        let overhead = pod.spec.and_then(|spec| spec.overhead).expect("given");
        assert_eq!((overhead["cpu"].0.as_str(), overhead["memory"].0.as_str()), ("2", "0.5"));
    }
}
