//! Spans: those of requests, and the export of all.

pub(super) mod request_spans;
pub(super) mod traces;
