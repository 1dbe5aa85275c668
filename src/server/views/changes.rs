//! Answers that go on: a line of JSON for each thing there is, then one for each change, as the API server's watches have
//! them.

use serde::{Deserialize, Serialize};

/// The kind of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ChangeKind {
    /// It was not there, or is among those that are there at the beginning.
    Added,
    /// It is another now.
    Modified,
    /// It is there no more; the line has it as it was last.
    Deleted,
    /// All that was there at the beginning has been sent.
    Synced,
    /// The watch is over, and why.
    Error,
    /// A kind that only a newer agent knows.
    #[default]
    #[serde(other)]
    Other,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change<T> {
    /// Its kind.
    #[serde(rename = "type", default)]
    pub kind: ChangeKind,
    /// The thing that changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<T>,
    /// Why a watch is over.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub message: String,
}

impl<T> Change<T> {
    /// A line about a thing.
    pub fn of(kind: ChangeKind, object: T) -> Self {
        Self { kind, object: Some(object), message: String::new() }
    }

    /// That all was sent which there was at the beginning.
    pub fn synced() -> Self {
        Self { kind: ChangeKind::Synced, object: None, message: String::new() }
    }

    /// That the watch is over.
    pub fn error(why: impl ToString) -> Self {
        Self { kind: ChangeKind::Error, object: None, message: why.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_that_of_a_watch() {
        let line = |change: Change<u8>| serde_json::to_string(&change).expect("JSON");
        assert_eq!(line(Change::of(ChangeKind::Modified, 7)), r#"{"type":"MODIFIED","object":7}"#);
        assert_eq!(line(Change::synced()), r#"{"type":"SYNCED"}"#);
        assert_eq!(line(Change::error("too slow")), r#"{"type":"ERROR","message":"too slow"}"#);
        let newer: Change<u8> = serde_json::from_str(r#"{"type":"PAUSED","object":1,"since":2}"#).expect("a line");
        assert_eq!((newer.kind, newer.object), (ChangeKind::Other, Some(1)));
    }
}
