//! Listening: sockets, how connections are accepted, what they speak, and the heads of requests.

pub(super) mod accepting;
pub(super) mod connections;
pub(super) mod heads;
pub(super) mod room;
pub(super) mod socket;
