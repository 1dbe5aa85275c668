//! Formats: texts as Go, Kubernetes and the protocols around them write and read them, and checks of such texts.
//!
//! Each module converts between text and plain values and knows nothing of pods or nodes.
//!
//! May import no other domain.

pub mod byte_ranges;
pub mod cpu_list;
pub mod dns_label;
pub mod expansion;
pub mod fnv;
pub mod go_json;
pub mod go_number;
pub mod go_text;
pub mod host_pattern;
pub mod own_labels;
pub mod path_segment;
pub mod projects;
pub mod url_query;
pub mod yaml;
