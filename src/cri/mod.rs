//! The container runtime, as the agent sees it: two traits in our own words, and the adapter that speaks CRI v1.
//!
//! `types` holds the plain data, `grpc` the tonic adapter, `convert` the one place where wire types end. Nothing
//! outside this folder knows a wire type, so the simulator plays a runtime by implementing the same two traits.

pub mod pod_mapping;
