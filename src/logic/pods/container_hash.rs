//! The hash by which a running container is known to match its specification.
//!
//! It must equal upstream's bit for bit: equal hashes are what lets a replaced kubelet keep running containers.

use crate::logic::formats::fnv::fnv1a;
use crate::logic::formats::go_text::json_string;

/// 32-bit FNV-1a, lower hex without leading zeros, over what upstream's `HashContainer` feeds it: the dump of the bytes
/// of a JSON object with `image` and `name`. Only these two fields count, so that no other change restarts a container.
pub fn container_hash(name: &str, image: &str) -> String {
    let json = format!("{{\"image\":{},\"name\":{}}}", json_string(image), json_string(name));
    let bytes = json.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(" ");
    format!("{:x}", fnv1a(format!("([]uint8)[{bytes}]").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CRI-15.
    #[test]
    fn the_hash_equals_upstreams() {
        // Upstream's own vector (`container_hash_test.go`).
        assert_eq!(container_hash("test_container", "foo/image:v1"), "8e45cbd0");
    }

    #[test]
    fn only_name_and_image_count_and_both_do() {
        let hash = container_hash("web", "nginx:1");
        assert_ne!(hash, container_hash("web", "nginx:2"));
        assert_ne!(hash, container_hash("wec", "nginx:1"));
        assert!(hash.len() <= 8 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{hash}");
    }
}
