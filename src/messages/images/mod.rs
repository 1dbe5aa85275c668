//! Images: to the actors that pull and remove images.

pub mod image_gc;
pub mod image_manager;
