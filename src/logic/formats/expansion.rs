//! `$(NAME)` in commands, arguments and environment variables.
//!
//! Works on bytes: a Secret's value may be any bytes, and it may be expanded into another variable.

/// Bytes that a container's variables may have together once they are expanded, and its command, and its arguments.
/// Linux starts no program with more of them: three quarters of 8 MiB, however large the stack (execve(2)). Without a
/// bound, forty variables that each name the one before twice are a terabyte.
pub const EXPANDED_MAX: usize = 6 << 20;

/// A text that is longer, once expanded, than any program can be given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("longer than {EXPANDED_MAX} bytes with its variables expanded")]
pub struct TooLong;

/// Replaces each `$(NAME)` by what `lookup` gives for `NAME`, once, without looking into the result.
///
/// As upstream: an unknown name stays as written, and `$$` becomes `$` (so `$$(A)` gives `$(A)`). A `$` before anything
/// else, or at the end, stays, and so does an unterminated `$(`.
///
/// # Errors
/// A text with a variable in it may not be longer than `limit` bytes once expanded.
pub fn expand<'a>(input: &[u8], limit: usize, lookup: impl Fn(&[u8]) -> Option<&'a [u8]>) -> Result<Vec<u8>, TooLong> {
    let mut out = Vec::with_capacity(input.len());
    let mut rest = input;
    // So that what is never closed is not looked through again and again.
    let after_closed = input.iter().rev().position(|byte| *byte == b')').unwrap_or(input.len());
    while let Some(dollar) = rest.iter().position(|byte| *byte == b'$') {
        out.extend_from_slice(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        match rest.first() {
            Some(b'$') => {
                out.push(b'$');
                rest = &rest[1..];
            }
            Some(b'(') => match rest[..rest.len().saturating_sub(after_closed)].iter().position(|byte| *byte == b')') {
                Some(end) => {
                    match lookup(&rest[1..end]) {
                        Some(value) if out.len() + value.len() > limit => return Err(TooLong),
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
    Ok(out)
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
        String::from_utf8(expand(input.as_bytes(), EXPANDED_MAX, known).unwrap()).unwrap()
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

    #[test]
    fn no_more_is_made_than_may_be() {
        let long = vec![b'x'; 1000];
        let known = |_: &[u8]| Some(long.as_slice());
        let input = b"$(A)".repeat(1_000_000);
        assert_eq!(expand(&input, 9999, known), Err(TooLong));
        assert_eq!(expand(b"$(A)$(A)", 2000, known).map(|out| out.len()), Ok(2000));
        assert_eq!(expand(b"$(A)$(A)", 1999, known), Err(TooLong));
    }

    #[test]
    fn megabytes_that_are_never_closed_are_looked_through_once() {
        let open = b"$(".repeat(4 << 20);
        assert_eq!(expand(&open, EXPANDED_MAX, |_| None), Ok(open.clone()));
        let closed = [b"$(A)", open.as_slice()].concat();
        assert_eq!(expand(&closed, EXPANDED_MAX, |_| None), Ok(closed.clone()));
    }

    proptest::proptest! {
        #[test]
        fn with_nothing_known_only_double_dollars_change(input in "[$()Aa ]{0,24}") {
            let out = expand(input.as_bytes(), EXPANDED_MAX, |_| None).unwrap();
            let dollars = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'$').count();
            let others = |bytes: &[u8]| bytes.iter().copied().filter(|byte| *byte != b'$').collect::<Vec<_>>();
            proptest::prop_assert_eq!(others(&out), others(input.as_bytes()));
            proptest::prop_assert!(dollars(&out) <= dollars(input.as_bytes()));
        }

        #[test]
        fn a_text_without_dollars_is_itself(input in "[^$]{0,24}") {
            let out = expand(input.as_bytes(), 0, |_| Some(b"x".as_slice()));
            proptest::prop_assert_eq!(out, Ok(input.into_bytes()));
        }
    }
}
