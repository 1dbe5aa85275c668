//! Listening: sockets, the connections that they take, and the heads of requests.

pub(super) mod connections;
pub(super) mod heads;
pub(super) mod socket;
