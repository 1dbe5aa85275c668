//! The hash FNV-1a with 32 bits, by which upstream checks its files and containers.
//!
//! Pure.

/// The hash of these bytes.
pub fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_1a_has_its_published_values() {
        let cases: [(&str, u32); 3] = [("", 0x811c_9dc5), ("a", 0xe40c_292c), ("foobar", 0xbf9c_f968)];
        for (text, expected) in cases {
            assert_eq!(fnv1a(text.as_bytes()), expected, "{text:?}");
        }
    }
}
