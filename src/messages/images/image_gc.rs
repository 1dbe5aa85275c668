//! To `ImageGc`.

use std::collections::BTreeSet;
use std::sync::Arc;

use ractor::RpcReplyPort;

use crate::logic::images::image_garbage::{DiskUse, ImageGcPolicy, ImageUse, ListedImage};
use crate::messages::{Ended, describe};

/// The runtime's images and their users.
#[derive(Debug)]
pub struct ImageLook {
    /// All images.
    pub images: Vec<ListedImage>,
    /// References of containers, running or not: IDs and names of images.
    pub used: BTreeSet<String>,
    /// The file system of images; or why its use is not known.
    pub disk: Result<DiskUse, String>,
}

/// The runtime's images and the references of its containers.
pub type ListedImages = (Vec<ListedImage>, BTreeSet<String>);

/// The images of the node with their use; or why the runtime cannot be asked.
pub type ImageUses = Result<Arc<Vec<ImageUse>>, String>;

/// The result of removing images.
#[derive(Debug, Default)]
pub struct ImagesRemoved {
    /// Those that are gone, with their bytes.
    pub removed: Vec<ListedImage>,
    /// Images that containers have mounted, by ID or name: they stay.
    pub mounted: BTreeSet<String>,
    /// Why others are not.
    pub problems: Vec<String>,
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ImageGcMsg {
    /// From itself: time for a pass.
    PassDue,
    /// From `ImageManager`: a pod is given this image, by ID or name; its container may not be there yet. Answered once no
    /// removal of it is under way: false means that there was one, and the image is to be looked for again.
    HandOut(String, RpcReplyPort<bool>),
    /// From `EvictionManager`: remove every image that nobody uses, whatever the disk's use; answered when that is done, with
    /// what went wrong.
    RemoveAllUnused(RpcReplyPort<Result<(), String>>),
    /// From its own removal of images: whether this one is still nobody's.
    MayGo(Box<ListedImage>, RpcReplyPort<bool>),
    /// From itself: images, containers and disk were looked at.
    Looked(Ended<ImageLook>),
    /// From itself: images were removed.
    Removed(Ended<ImagesRemoved>),
    /// From Root: the configuration was read again.
    PolicyChanged(ImageGcPolicy),
    /// From the server: all images as they are now, and the use of each.
    List(RpcReplyPort<ImageUses>),
    /// From itself: images and containers were looked at for those who asked.
    Listed(Ended<ListedImages>),
}

describe!(ImageGcMsg);
