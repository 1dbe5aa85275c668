//! A pod as protobuf: the bytes that `v1.Pod#Unmarshal` of Kubernetes reads (SRV-52).
//!
//! The pod's JSON form is walked through beside a table that `build.rs` makes of `proto/k8s.io`: names, numbers and kinds of
//! fields. Generated types would hold a second copy of seventy messages that nothing else uses.

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Map, Value};

include!(concat!(env!("OUT_DIR"), "/pod_fields.rs"));

/// A field of a message.
struct Field {
    name: &'static str,
    number: u32,
    shape: Shape,
    kind: Kind,
}

/// How often a field is there.
#[derive(Clone, Copy)]
enum Shape {
    One,
    Many,
    /// By names.
    Map,
    /// Its own fields are beside it in JSON.
    Beside,
}

/// The content of a field.
#[derive(Clone, Copy)]
enum Kind {
    Bool,
    Integer,
    Text,
    /// A message, by its place in `MESSAGES`.
    Message(usize),
    /// An amount: a message whose only field is the text that JSON has.
    Quantity,
    /// A time: a text in JSON, seconds and nanoseconds here.
    Time,
    /// A number or a name.
    IntOrString,
    /// An object whose only field is its JSON.
    Raw,
}

/// How a value is written.
const VARINT: u32 = 0;
const BYTES: u32 = 2;

/// A pod in parts, as JSON has it; the kind and the version are no part of the bytes.
#[derive(Serialize)]
struct Parts<'a> {
    metadata: &'a ObjectMeta,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<&'a PodSpec>,
    status: &'a PodStatus,
}

/// The pod with this status.
///
/// # Errors
/// It has no JSON form, which no pod that was read from one can be.
pub(super) fn pod_bytes(pod: &Pod, status: &PodStatus) -> serde_json::Result<Vec<u8>> {
    encoded(&Parts { metadata: &pod.metadata, spec: pod.spec.as_ref(), status })
}

/// The parts of a pod that is gone on which clients may rely: its name, namespace and UID.
///
/// # Errors
/// As [`pod_bytes`].
pub(super) fn gone_pod_bytes(pod: &Pod) -> serde_json::Result<Vec<u8>> {
    let ObjectMeta { name, namespace, uid, .. } = pod.metadata.clone();
    let metadata = ObjectMeta { name, namespace, uid, ..ObjectMeta::default() };
    encoded(&Parts { metadata: &metadata, spec: None, status: &PodStatus::default() })
}

fn encoded(pod: &Parts<'_>) -> serde_json::Result<Vec<u8>> {
    let mut bytes = vec![];
    if let Value::Object(object) = serde_json::to_value(pod)? {
        put_message(MESSAGES[POD], &object, &mut bytes);
    }
    Ok(bytes)
}

/// Fields in the order of their names: readers take any order. Fields that the table does not have are left out.
fn put_message(fields: &[Field], object: &Map<String, Value>, out: &mut Vec<u8>) {
    for field in fields {
        match (field.shape, object.get(field.name)) {
            (Shape::Beside, _) => put_field(field, &Value::Object(object.clone()), out),
            (Shape::One, Some(value)) => put_field(field, value, out),
            (Shape::Many, Some(Value::Array(values))) => {
                values.iter().for_each(|value| put_field(field, value, out));
            }
            (Shape::Map, Some(Value::Object(entries))) => {
                for (name, value) in entries {
                    let mut entry = vec![];
                    put_text(1, name, &mut entry);
                    put_field(&Field { number: 2, ..*field }, value, &mut entry);
                    put_bytes(field.number, &entry, out);
                }
            }
            _ => {}
        }
    }
}

fn put_field(field: &Field, value: &Value, out: &mut Vec<u8>) {
    let number = field.number;
    match (field.kind, value) {
        (Kind::Bool, Value::Bool(value)) => put_integer(number, i64::from(*value), out),
        (Kind::Integer, value) => value.as_i64().into_iter().for_each(|value| put_integer(number, value, out)),
        (Kind::Text, Value::String(text)) => put_text(number, text, out),
        (Kind::Message(place), Value::Object(object)) => {
            put_part(number, out, |part| put_message(MESSAGES[place], object, part));
        }
        (Kind::Quantity, Value::String(text)) => put_part(number, out, |part| put_text(1, text, part)),
        (Kind::Time, Value::String(text)) => {
            // A pod that was read has no malformed time.
            let time: jiff::Timestamp = text.parse().unwrap_or_default();
            put_part(number, out, |part| {
                put_integer(1, time.as_second(), part);
                put_integer(2, i64::from(time.subsec_nanosecond()), part);
            });
        }
        (Kind::IntOrString, Value::Number(value)) => {
            let value = value.as_i64().unwrap_or_default();
            put_part(number, out, |part| {
                put_integer(1, 0, part);
                put_integer(2, value, part);
            });
        }
        (Kind::IntOrString, Value::String(text)) => put_part(number, out, |part| {
            put_integer(1, 1, part);
            put_text(3, text, part);
        }),
        (Kind::Raw, object) => put_part(number, out, |part| put_text(1, &object.to_string(), part)),
        _ => {}
    }
}

fn put_part(number: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut part = vec![];
    write(&mut part);
    put_bytes(number, &part, out);
}

fn put_text(number: u32, text: &str, out: &mut Vec<u8>) {
    put_bytes(number, text.as_bytes(), out);
}

fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(u64::from(number << 3 | BYTES), out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn put_integer(number: u32, value: i64, out: &mut Vec<u8>) {
    put_varint(u64::from(number << 3 | VARINT), out);
    put_varint(value.cast_unsigned(), out);
}

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}
