//! One seed's story, or many seeds until one fails.

fn main() {}
