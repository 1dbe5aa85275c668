//! The words about the node as a whole: its events and its images. As those about pods, every field has a default.

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

/// The answer of `podwright images`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImagesShown {
    /// The runtime's images, by name.
    pub images: Vec<ImageRow>,
    /// Images that containers or volumes wait for, the longest wait first.
    pub pulls: Vec<PullRow>,
}

/// One image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageRow {
    /// ID.
    pub id: String,
    /// Names with tags and with digests.
    pub names: Vec<String>,
    /// Bytes; layers that images share count in each.
    pub bytes: u64,
    /// Whether a container has it, or a pod was given it a short while ago.
    pub in_use: bool,
    /// Since it was last seen in use; `None` when the agent has not seen that.
    pub unused_seconds: Option<f64>,
    /// Why image garbage collection leaves it alone: `exempt`, `pinned`, `for sandboxes`; empty when it does not.
    pub kept: String,
    /// The pods with containers of it, as `namespace/name`.
    pub pods: Vec<String>,
}

/// One image that somebody waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PullRow {
    /// The image, as the spec says it.
    pub image: String,
    /// The pod that waits, as `namespace/name`.
    pub pod: String,
    /// The container; empty for a volume.
    pub container: String,
    /// `inspected`, `credentials`, `queued` or `pulled`.
    pub stage: String,
    /// Pulls that come first.
    pub ahead: usize,
    /// Since it is at that stage. The runtime tells no bytes.
    pub seconds: f64,
}
