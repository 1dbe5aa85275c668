//! Images, and the credentials that they are pulled with.

use std::fmt;

use super::Labels;
use crate::logic::model::time::Moment;

/// An image, as asked for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImageSpec {
    /// Name or reference.
    pub image: String,
    /// The pod's annotations, for the runtime's plugins.
    pub annotations: Labels,
    /// The text of the pod's spec.
    pub user_specified_image: String,
    /// Handler for which it is pulled.
    pub runtime_handler: String,
    /// Reference of the image that is mounted, for image volumes.
    pub image_ref: String,
}

/// An image of the node.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Image {
    /// ID.
    pub id: String,
    /// Names.
    pub repo_tags: Vec<String>,
    /// Names with digests.
    pub repo_digests: Vec<String>,
    /// Bytes on disk.
    pub size: u64,
    /// UID of the image's user.
    pub uid: Option<i64>,
    /// Name of the image's user.
    pub username: String,
    /// Annotations it was pulled with.
    pub annotations: Labels,
    /// Handler for which it was pulled.
    pub runtime_handler: String,
    /// Never to be collected.
    pub pinned: bool,
}

/// Credentials of a registry.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct AuthConfig {
    /// User.
    pub username: String,
    /// Password.
    pub password: String,
    /// Both, base64.
    pub auth: String,
    /// Server.
    pub server_address: String,
    /// Identity token.
    pub identity_token: String,
    /// Registry token.
    pub registry_token: String,
}

impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuthConfig(for {:?}, masked)", self.server_address)
    }
}

/// Answer of `ImageFsInfo`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImageFsInfo {
    /// File systems of images.
    pub image_filesystems: Vec<FilesystemUsage>,
    /// File systems of containers' writable layers.
    pub container_filesystems: Vec<FilesystemUsage>,
}

/// Use of a file system.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FilesystemUsage {
    /// When it was looked at.
    pub timestamp: Moment,
    /// Where it is mounted.
    pub mountpoint: String,
    /// Bytes, where told.
    pub used_bytes: Option<u64>,
    /// Inodes, where told.
    pub inodes_used: Option<u64>,
}
