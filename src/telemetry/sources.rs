//! The sources of a scrape, besides counts of events: actors that are asked, and facts of the node.

use std::sync::Arc;

use crate::actors::kit::trace::Trace;
use crate::actors::tree::Directory;
use crate::logic::resources::CgroupVersion;
use crate::platform::cluster::certificates::Certificates;
use crate::platform::images::ImageHost;

/// See the module.
pub struct Sources {
    /// The node's name.
    pub node_name: String,
    /// Which control groups the node has.
    pub cgroup_version: CgroupVersion,
    /// Gate `PodAndContainerStatsFromCRI`: whether the runtime tells the figures of pods.
    pub from_runtime: bool,
    /// Whether there is an API server.
    pub has_api_server: bool,
    /// Actors that are asked for what they counted, or for what there is.
    pub directory: Directory,
    /// The record of what actors did.
    pub trace: Arc<Trace>,
    /// The agent's own certificates.
    pub certificates: Arc<Certificates>,
    /// Records of pulled images, where they are kept.
    pub image_records: Option<Arc<dyn ImageHost>>,
}
