//! The words about the node as a whole: its events. As those about pods, every field has a default.

use serde::{Deserialize, Serialize};

/// One event in `podwright events`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventRow {
    /// `Normal` or `Warning`.
    pub kind: String,
    /// Reason.
    pub reason: String,
    /// `Pod`, `Node`, `PersistentVolumeClaim` or `PersistentVolume`.
    pub object_kind: String,
    /// The object's namespace; empty where it is in none.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's UID; of the node, its name.
    pub uid: String,
    /// The container it is about, as a field path; empty for the object itself.
    pub field_path: String,
    /// Message.
    pub message: String,
    /// How often.
    pub count: u32,
    /// When first, RFC 3339.
    pub first_seen: String,
    /// When last, RFC 3339.
    pub last_seen: String,
    /// Since the first.
    pub first_seconds: f64,
    /// Since the last.
    pub last_seconds: f64,
}
