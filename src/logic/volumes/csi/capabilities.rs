//! The capabilities of a driver on the node, as `NodeGetCapabilities` lists them.

/// See the module. A capability that nobody here knows is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCapabilities {
    /// `STAGE_UNSTAGE_VOLUME`: a volume is staged once for the node, then published for each pod.
    pub stages: bool,
    /// `GET_VOLUME_STATS`.
    pub measures: bool,
    /// `EXPAND_VOLUME`.
    pub expands: bool,
    /// `VOLUME_CONDITION`.
    pub tells_condition: bool,
    /// `SINGLE_NODE_MULTI_WRITER`: it knows the newer access modes.
    pub knows_single_node_modes: bool,
    /// `VOLUME_MOUNT_GROUP`: the driver gives files to the pod's group.
    pub gives_group: bool,
}
