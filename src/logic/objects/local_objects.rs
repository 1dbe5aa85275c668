//! ConfigMaps and Secrets of a standalone node, from files of the node itself (`--local-objects`, ours).
//!
//! Pure; keeps nothing. A file holds one or several documents in the API's form. A fault in one refuses the whole file, so
//! that a pod never gets half of it. Errors name files, fields and keys, and never a value: it may be secret.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use super::object_cache::Object;
use super::object_references::{ObjectKey, ObjectKind};
use crate::logic::formats::dns_label::{label_problems, subdomain_problems};
use crate::logic::formats::yaml::{self, Duplicates};

/// The most bytes of an object's values: the API's.
pub const OBJECT_BYTES_MAX: usize = 1024 * 1024;
/// The longest key; the API's.
const KEY_BYTES_MAX: usize = 253;
/// The namespace of an object that names none, as of a static pod.
const NAMESPACE: &str = "default";

/// The readers of the file that an object is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Its owner alone.
    Owner,
    /// Others, too: it may hold no Secret.
    Others,
}

/// Why a file gives no objects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocalObjectError {
    /// It is not text.
    #[error("the file is not UTF-8")]
    NotText,
    /// It is no YAML.
    #[error("{0}")]
    Syntax(String),
    /// A document of it is wrong; counted from one.
    #[error("document {document}: {problem}")]
    Document {
        /// Which one.
        document: usize,
        /// The fault.
        problem: DocumentProblem,
    },
}

/// Why a document is no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentProblem {
    /// A list or a scalar.
    #[error("it is not an object")]
    NotAnObject,
    /// Another kind or version.
    #[error("kind {kind:?} of version {version:?} is neither a ConfigMap nor a Secret of version \"v1\"")]
    Kind {
        /// The kind as given.
        kind: String,
        /// The version as given.
        version: String,
    },
    /// A field that such an object does not have.
    #[error("unknown field {0:?}")]
    UnknownField(String),
    /// A value of a wrong type.
    #[error("{field} is not {expected}")]
    Type {
        /// The field's path.
        field: String,
        /// The type in words.
        expected: &'static str,
    },
    /// The name or the namespace is not one of the API.
    #[error("{field}: {problem}")]
    Name {
        /// The field's path.
        field: &'static str,
        /// The API's words.
        problem: String,
    },
    /// A key that the API refuses.
    #[error("key {0:?} is no valid key: letters, digits, '-', '_' and '.', at most {KEY_BYTES_MAX}")]
    Key(String),
    /// A key of a ConfigMap in both of its maps.
    #[error("key {0:?} is in data and in binaryData")]
    RepeatedKey(String),
    /// The values are too long.
    #[error("the values are larger than {OBJECT_BYTES_MAX} bytes together")]
    TooLarge,
    /// The file of a Secret is open to others.
    #[error("a Secret must be in a file that its owner alone may read and write (mode 0600)")]
    Open,
    /// An object of the same file has the name already.
    #[error("{0} is in this file already")]
    Repeated(String),
}

/// The objects of a file, by kind, namespace and name.
///
/// # Errors
/// Of the first document that is wrong.
pub fn objects_of(content: &[u8], readers: Readers) -> Result<BTreeMap<ObjectKey, Object>, LocalObjectError> {
    let text = std::str::from_utf8(content).map_err(|_| LocalObjectError::NotText)?;
    let documents = yaml::all_to_json(text, Duplicates::Refuse);
    let documents = documents.map_err(|error| LocalObjectError::Syntax(error.as_upstream()))?;
    let mut objects = BTreeMap::new();
    for (index, document) in documents.iter().enumerate().filter(|(_, document)| !document.is_null()) {
        let wrong = |problem| LocalObjectError::Document { document: index + 1, problem };
        let (key, object) = object_of(document, readers).map_err(wrong)?;
        if objects.contains_key(&key) {
            return Err(wrong(DocumentProblem::Repeated(key.to_string())));
        }
        objects.insert(key, object);
    }
    Ok(objects)
}

fn object_of(document: &Value, readers: Readers) -> Result<(ObjectKey, Object), DocumentProblem> {
    let fields = document.as_object().ok_or(DocumentProblem::NotAnObject)?;
    let word = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
    let kind = match (word("apiVersion"), word("kind")) {
        ("v1", "ConfigMap") => ObjectKind::ConfigMap,
        ("v1", "Secret") => ObjectKind::Secret,
        (version, kind) => {
            return Err(DocumentProblem::Kind { kind: kind.to_owned(), version: version.to_owned() });
        }
    };
    if kind == ObjectKind::Secret && readers == Readers::Others {
        return Err(DocumentProblem::Open);
    }
    let known: &[&str] = match kind {
        ObjectKind::ConfigMap => &["apiVersion", "kind", "metadata", "immutable", "data", "binaryData"],
        ObjectKind::Secret => &["apiVersion", "kind", "metadata", "immutable", "data", "stringData", "type"],
    };
    if let Some(unknown) = fields.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(DocumentProblem::UnknownField(unknown.clone()));
    }
    let metadata = metadata(fields)?;
    let key = ObjectKey::new(
        kind,
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    );
    let object = match kind {
        ObjectKind::ConfigMap => Object::ConfigMap(config_map(fields, metadata)?.into()),
        ObjectKind::Secret => Object::Secret(secret(fields, metadata)?.into()),
    };
    Ok((key, object))
}

fn metadata(fields: &Map<String, Value>) -> Result<ObjectMeta, DocumentProblem> {
    let wrong = |field: &str, expected| DocumentProblem::Type { field: field.to_owned(), expected };
    let given = fields.get("metadata").and_then(Value::as_object).ok_or_else(|| wrong("metadata", "an object"))?;
    let text = |key: &str, default: &str| match given.get(key) {
        None | Some(Value::Null) => Ok(default.to_owned()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(wrong(&format!("metadata.{key}"), "a text")),
    };
    let (name, namespace) = (text("name", "")?, text("namespace", NAMESPACE)?);
    let checks = [("metadata.name", subdomain_problems(&name)), ("metadata.namespace", label_problems(&namespace))];
    for (field, problems) in checks {
        if let Some(problem) = problems.into_iter().next() {
            return Err(DocumentProblem::Name { field, problem });
        }
    }
    Ok(ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() })
}

fn config_map(fields: &Map<String, Value>, metadata: ObjectMeta) -> Result<ConfigMap, DocumentProblem> {
    let (data, binary_data) = (texts(fields, "data")?, bytes(fields, "binaryData")?);
    if let Some(key) = data.keys().find(|key| binary_data.contains_key(*key)) {
        return Err(DocumentProblem::RepeatedKey(key.clone()));
    }
    let sizes = data.values().map(String::len).chain(binary_data.values().map(|value| value.0.len()));
    check_values(data.keys().chain(binary_data.keys()), sizes.sum())?;
    let (immutable, data, binary_data) = (immutable(fields)?, Some(data), Some(binary_data));
    Ok(ConfigMap { metadata, immutable, data, binary_data })
}

/// `stringData` counts over `data`, as the API has it.
fn secret(fields: &Map<String, Value>, metadata: ObjectMeta) -> Result<Secret, DocumentProblem> {
    let mut data = bytes(fields, "data")?;
    let plain = texts(fields, "stringData")?;
    data.extend(plain.into_iter().map(|(key, text)| (key, ByteString(text.into_bytes()))));
    check_values(data.keys(), data.values().map(|value| value.0.len()).sum())?;
    let type_ = match fields.get("type") {
        None | Some(Value::Null) => "Opaque".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(_) => return Err(DocumentProblem::Type { field: "type".to_owned(), expected: "a text" }),
    };
    let (data, type_) = (Some(data), Some(type_));
    Ok(Secret { metadata, immutable: immutable(fields)?, data, type_, ..Secret::default() })
}

fn immutable(fields: &Map<String, Value>) -> Result<Option<bool>, DocumentProblem> {
    match fields.get("immutable") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(immutable)) => Ok(Some(*immutable)),
        Some(_) => Err(DocumentProblem::Type { field: "immutable".to_owned(), expected: "true or false" }),
    }
}

fn texts(fields: &Map<String, Value>, field: &str) -> Result<BTreeMap<String, String>, DocumentProblem> {
    let wrong = |field: String, expected| DocumentProblem::Type { field, expected };
    let entries = match fields.get(field) {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(entries)) => entries,
        Some(_) => return Err(wrong(field.to_owned(), "a map")),
    };
    let text = |(key, value): (&String, &Value)| match value {
        Value::String(text) => Ok((key.clone(), text.clone())),
        _ => Err(wrong(format!("{field}.{key}"), "a text")),
    };
    entries.iter().map(text).collect()
}

fn bytes(fields: &Map<String, Value>, field: &str) -> Result<BTreeMap<String, ByteString>, DocumentProblem> {
    let decode = |(key, text): (String, String)| {
        // As the API, which forgives the line breaks of `base64`.
        let text: String = text.chars().filter(|letter| !matches!(letter, '\n' | '\r')).collect();
        match STANDARD.decode(text) {
            Ok(bytes) => Ok((key, ByteString(bytes))),
            Err(_) => Err(DocumentProblem::Type { field: format!("{field}.{key}"), expected: "base64" }),
        }
    };
    texts(fields, field)?.into_iter().map(decode).collect()
}

fn check_values<'a>(keys: impl Iterator<Item = &'a String>, bytes: usize) -> Result<(), DocumentProblem> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    for key in keys {
        let is_path = key == "." || key.starts_with("..");
        if key.is_empty() || key.len() > KEY_BYTES_MAX || is_path || !key.chars().all(allowed) {
            return Err(DocumentProblem::Key(key.clone()));
        }
    }
    if bytes > OBJECT_BYTES_MAX { Err(DocumentProblem::TooLarge) } else { Ok(()) }
}

/// The objects of all files; where two files have one of the same name, the later file counts. Gives also those names, each
/// with the places of both files in the order of `files`.
pub fn together<'a>(
    files: impl Iterator<Item = &'a BTreeMap<ObjectKey, Object>>,
) -> (BTreeMap<ObjectKey, Object>, BTreeSet<ObjectKey>) {
    let (mut all, mut repeated) = (BTreeMap::new(), BTreeSet::new());
    for (key, object) in files.flatten() {
        if all.insert(key.clone(), object.clone()).is_some() {
            repeated.insert(key.clone());
        }
    }
    (all, repeated)
}

#[cfg(test)]
mod tests;
