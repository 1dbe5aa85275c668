//! `$(NAME)` in commands, arguments and environment variables.
//!
//! Works on bytes: a Secret's value may be any bytes, and it may be expanded into another variable.

/// Replaces each `$(NAME)` by what `lookup` gives for `NAME`, once, without looking into the result.
///
/// As upstream: an unknown name stays as written, `$$` becomes `$` (so `$$(A)` gives `$(A)`), a `$` before anything
/// else, or at the end, stays, and so does an unterminated `$(`.
pub fn expand<'a>(input: &[u8], lookup: impl Fn(&[u8]) -> Option<&'a [u8]>) -> Vec<u8> {
    let mut out = Vec::with_capacity(input.len());
    let mut rest = input;
    while let Some(dollar) = rest.iter().position(|byte| *byte == b'$') {
        out.extend_from_slice(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        match rest.first() {
            Some(b'$') => {
                out.push(b'$');
                rest = &rest[1..];
            }
            Some(b'(') => match rest.iter().position(|byte| *byte == b')') {
                Some(end) => {
                    match lookup(&rest[1..end]) {
                        Some(value) => out.extend_from_slice(value),
                        None => {
                            out.push(b'$');
                            out.extend_from_slice(&rest[..=end]);
                        }
                    }
                    rest = &rest[end + 1..];
                }
                None => {
                    out.extend_from_slice(b"$(");
                    rest = &rest[1..];
                }
            },
            _ => out.push(b'$'),
        }
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(input: &str) -> String {
        let known = |name: &[u8]| match name {
            b"A" => Some(b"1".as_slice()),
            b"B" => Some(b"$(A)".as_slice()),
            b"EMPTY" => Some(b"".as_slice()),
            _ => None,
        };
        String::from_utf8(expand(input.as_bytes(), known)).unwrap()
    }

    #[test]
    fn references_are_replaced_and_all_else_is_kept() {
        let cases = [
            ("", ""),
            ("plain", "plain"),
            ("$(A)", "1"),
            ("x$(A)y$(A)z", "x1y1z"),
            ("$(B)", "$(A)"),
            ("[$(EMPTY)]", "[]"),
            ("$(C)", "$(C)"),
            ("$()", "$()"),
            ("$$", "$"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$$$$(A)", "$$(A)"),
            ("$", "$"),
            ("a$", "a$"),
            ("$A", "$A"),
            ("$é$(A)", "$é1"),
            ("$(A", "$(A"),
            ("$(A$(A)", "$(A$(A)"),
            ("$(A$$", "$(A$"),
            ("$(A))", "1)"),
            ("$( A)", "$( A)"),
            ("${A}", "${A}"),
        ];
        for (input, expected) in cases {
            assert_eq!(expanded(input), expected, "{input:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn with_nothing_known_only_double_dollars_change(input in "[$()Aa ]{0,24}") {
            let out = expand(input.as_bytes(), |_| None);
            let dollars = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'$').count();
            let others = |bytes: &[u8]| bytes.iter().copied().filter(|byte| *byte != b'$').collect::<Vec<_>>();
            proptest::prop_assert_eq!(others(&out), others(input.as_bytes()));
            proptest::prop_assert!(dollars(&out) <= dollars(input.as_bytes()));
        }

        #[test]
        fn a_text_without_dollars_is_itself(input in "[^$]{0,24}") {
            proptest::prop_assert_eq!(expand(input.as_bytes(), |_| Some(b"x".as_slice())), input.into_bytes());
        }
    }
}
