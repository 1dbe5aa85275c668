//! Events: records Events of pods and the node, and sends them to the API server.

pub mod event_recorder;
