//! Images: pulls images for containers, and removes unused ones.

pub mod image_gc;
pub mod image_manager;
