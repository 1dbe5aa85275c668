//! A request's query, read as upstream's language does: pairs that cannot be decoded, and pairs with a raw `;`, are
//! dropped; the rest counts.

/// The pairs of a query, decoded, in order. Bytes that are no UTF-8 are replaced.
pub fn pairs(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
    let split = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decoded(name)?, decoded(value)?))
    };
    pairs.filter_map(split).collect()
}

/// The first value of a name.
pub fn first<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// `%41` is `A`; what is no such escape stays.
pub fn unescaped(text: &str) -> String {
    let mut rest = text.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `None` for a `%` that two hexadecimal digits do not follow.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit(digits[0])? << 4 | digit(digits[1])?
            }
            other => other,
        });
    }
    Some(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_and_what_cannot_be_is_dropped() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("", &[]),
            ("a=1&b=2&a=3", &[("a", "1"), ("b", "2"), ("a", "3")]),
            ("a&&b=", &[("a", ""), ("b", "")]),
            ("a+b=c%20d%2B", &[("a b", "c d+")]),
            ("a=1;b=2&c=%3B", &[("c", ";")]),
            ("a=%&b=%2&c=%zz&d=1", &[("d", "1")]),
            ("a=b=c", &[("a", "b=c")]),
            ("a=%ff", &[("a", "\u{fffd}")]),
        ];
        for (query, expected) in cases {
            let found = pairs(query);
            let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(found, *expected, "{query:?}");
        }
        let found = pairs("a=1&a=2");
        assert_eq!((first(&found, "a"), first(&found, "b")), (Some("1"), None));
    }

    proptest::proptest! {
        /// SEC-59.
        #[test]
        fn no_query_is_too_strange(query in "[a%&=;+0-9é]{0,40}") {
            proptest::prop_assert!(pairs(&query).len() <= query.split('&').count());
        }

        #[test]
        fn what_was_encoded_comes_back(name in ".{1,10}", value in ".{0,10}") {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            let query = query.append_pair(&name, &value).finish();
            proptest::prop_assert_eq!(pairs(&query), vec![(name, value)]);
        }
    }
}
