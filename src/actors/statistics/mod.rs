//! Statistics: collects figures of the node, its pods, containers and volumes on request.

pub mod stats_collector;
