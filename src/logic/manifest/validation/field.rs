//! Errors about fields: where, what kind, which value, why; printed as the API server prints them.

use std::fmt;

use serde_json::Value;

use crate::logic::formats::go_text::quoted;

/// A fault in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// A value must be given.
    Required,
    /// The value has the wrong form or is out of bounds.
    Invalid,
    /// The value is none of those allowed.
    NotSupported,
    /// Something else has this value.
    Duplicate,
    /// The value refers to nothing.
    NotFound,
    /// The field must not be set here.
    Forbidden,
    /// Too long; the value itself is not repeated.
    TooLong,
    /// Too many items.
    TooMany,
}

/// More errors than this are not kept: a hostile manifest may have millions.
const ERRORS_MAX: usize = 500;

/// One error of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The field's path, `spec.containers[0].name`.
    pub path: String,
    /// The kind of error.
    pub kind: ErrorKind,
    /// The value, when the kind repeats it.
    pub value: Option<Value>,
    /// More about it; may be empty.
    pub detail: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ErrorKind::Required => "Required value",
            ErrorKind::Invalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::NotFound => "Not found",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooMany => "Too many",
        };
        write!(f, "{}: {kind}", self.path)?;
        match &self.value {
            Some(Value::String(text)) => write!(f, ": {}", quoted(text))?,
            Some(value) => write!(f, ": {value}")?,
            None => {}
        }
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

/// The path of a field under validation.
#[derive(Debug, Clone)]
pub(super) struct FieldPath(String);

impl FieldPath {
    /// A field of the object itself.
    pub fn root(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// A field of this one.
    pub fn child(&self, name: &str) -> Self {
        Self(format!("{}.{name}", self.0))
    }

    /// An item of this list.
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// An entry of this map.
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }
}

/// The errors found so far, in the order of the API server.
#[derive(Debug, Default)]
pub(super) struct Errors {
    pub found: Vec<FieldError>,
}

impl Errors {
    fn push(&mut self, path: &FieldPath, kind: ErrorKind, value: Option<Value>, detail: String) {
        if self.found.len() >= ERRORS_MAX {
            return;
        }
        self.found.push(FieldError { path: path.0.clone(), kind, value, detail });
    }

    pub fn required(&mut self, path: &FieldPath, detail: &str) {
        self.push(path, ErrorKind::Required, None, detail.to_owned());
    }

    pub fn invalid(&mut self, path: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(path, ErrorKind::Invalid, Some(value.into()), detail.into());
    }

    /// One error for each of `details`.
    pub fn invalid_each(&mut self, path: &FieldPath, value: &str, details: Vec<String>) {
        for detail in details {
            self.invalid(path, value, detail);
        }
    }

    pub fn not_supported(&mut self, path: &FieldPath, value: &str, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|value| quoted(value)).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        self.push(path, ErrorKind::NotSupported, Some(value.into()), detail);
    }

    pub fn duplicate(&mut self, path: &FieldPath, value: impl Into<Value>) {
        self.push(path, ErrorKind::Duplicate, Some(value.into()), String::new());
    }

    pub fn not_found(&mut self, path: &FieldPath, value: &str, detail: impl Into<String>) {
        self.push(path, ErrorKind::NotFound, Some(value.into()), detail.into());
    }

    pub fn forbidden(&mut self, path: &FieldPath, detail: &str) {
        self.push(path, ErrorKind::Forbidden, None, detail.to_owned());
    }

    pub fn too_long(&mut self, path: &FieldPath, bytes_max: usize) {
        self.push(path, ErrorKind::TooLong, None, format!("may not be more than {bytes_max} bytes"));
    }

    pub fn too_many(&mut self, path: &FieldPath, count: usize, count_max: usize) {
        self.push(path, ErrorKind::TooMany, Some(count.into()), format!("must have at most {count_max} items"));
    }

    /// A value that must be given, and be one of `supported`.
    pub fn one_of(&mut self, path: &FieldPath, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(path, "");
        } else if !supported.contains(&value) {
            self.not_supported(path, value, supported);
        }
    }

    pub fn nonnegative(&mut self, path: &FieldPath, value: i64) {
        if value < 0 {
            self.invalid(path, value, "must be greater than or equal to 0");
        }
    }
}

/// The text of an optional field: as in Go, absent and empty are the same.
pub(super) fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_without_end_are_cut() {
        let mut errors = Errors::default();
        for index in 0..10 * ERRORS_MAX {
            errors.required(&FieldPath::root("spec").index(index), "");
        }
        assert_eq!(errors.found.len(), ERRORS_MAX);
    }

    #[test]
    fn errors_print_as_the_api_server_prints_them() {
        let path = FieldPath::root("spec").child("containers").index(0).child("name");
        let mut errors = Errors::default();
        errors.required(&path, "");
        errors.required(&path, "why");
        errors.invalid(&path, "a\"\n\u{1}é", "must not");
        errors.invalid(&path, 70_000, "must be less");
        errors.not_supported(&path, "x", &["a", "b"]);
        errors.duplicate(&path.key("k"), "x");
        errors.not_found(&path, "", "");
        errors.forbidden(&path, "may not be set");
        let printed: Vec<String> = errors.found.iter().map(ToString::to_string).collect();
        assert_eq!(
            printed,
            [
                "spec.containers[0].name: Required value",
                "spec.containers[0].name: Required value: why",
                "spec.containers[0].name: Invalid value: \"a\\\"\\n\\x01é\": must not",
                "spec.containers[0].name: Invalid value: 70000: must be less",
                "spec.containers[0].name: Unsupported value: \"x\": supported values: \"a\", \"b\"",
                "spec.containers[0].name[k]: Duplicate value: \"x\"",
                "spec.containers[0].name: Not found: \"\"",
                "spec.containers[0].name: Forbidden: may not be set",
            ]
        );
    }
}
