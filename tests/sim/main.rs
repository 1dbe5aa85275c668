//! The whole agent on a simulated node.

mod lifecycle;
