//! Queries of URLs as Go's `url.ParseQuery` reads them, for upstream's clients write what that function takes.

/// All values of one name, in order, as bytes: Go's strings need not be UTF-8.
pub fn values(query: &str, name: &str) -> Vec<Vec<u8>> {
    let pairs = query.split('&').filter_map(pair);
    pairs.filter(|(key, _)| key == name.as_bytes()).map(|(_, value)| value).collect()
}

/// The first value of one name.
pub fn value(query: &str, name: &str) -> Option<Vec<u8>> {
    values(query, name).into_iter().next()
}

/// One pair. Go drops a pair with a raw `;`, and one with a broken escape.
fn pair(text: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    if text.is_empty() || text.contains(';') {
        return None;
    }
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    Some((unescaped(key)?, unescaped(value)?))
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => digit(bytes.next()?)? << 4 | digit(bytes.next()?)?,
            other => other,
        });
    }
    Some(out)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_as_go_reads_them() {
        for (query, expected) in [
            ("command=ls&command=-l", vec!["ls", "-l"]),
            ("command=a+b&x=1&command=%2Fbin%2fsh", vec!["a b", "/bin/sh"]),
            ("command=a;b&command=c", vec!["c"]),
            ("command=a%3Bb", vec!["a;b"]),
            ("command=%zz&command=%2&command=d", vec!["d"]),
            ("command", vec![""]),
            ("command=a=b", vec!["a=b"]),
            ("%63ommand=e", vec!["e"]),
            ("", vec![]),
            ("&&", vec![]),
        ] {
            let expected: Vec<Vec<u8>> = expected.into_iter().map(|text| text.as_bytes().to_vec()).collect();
            assert_eq!(values(query, "command"), expected, "{query}");
        }
        assert_eq!(value("a=%ff%fe", "a"), Some(vec![0xff, 0xfe]), "bytes are kept as they are");
    }

    proptest::proptest! {
        #[test]
        fn what_is_escaped_is_read_back(value: Vec<u8>) {
            let escaped: String = value.iter().map(|byte| format!("%{byte:02x}")).collect();
            proptest::prop_assert_eq!(super::value(&format!("x=1&k={escaped}"), "k"), Some(value));
        }

        #[test]
        fn no_query_is_too_odd(query in "\\PC{0,60}") {
            values(&query, "a");
        }
    }
}
