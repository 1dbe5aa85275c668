//! The runtime's version as upstream publishes it: what its version parser makes of the runtime's words (NODE-21).
//!
//! Pure; keeps nothing.

/// The version without a `v` before it; what follows its numbers stays only where all of it is a semantic version.
/// `None` for what is no version.
pub(super) fn normal(told: &str) -> Option<String> {
    let text = told.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']);
    let text = text.strip_prefix('v').unwrap_or(text);
    let (numbers, rest) = split(text);
    if rest.contains('\n') {
        return None;
    }
    semantic(numbers, rest).or_else(|| generic(numbers))
}

/// The numbers with single dots between them, and what follows.
fn split(text: &str) -> (&str, &str) {
    let is_number = |part: &&str| part.starts_with(|first: char| first.is_ascii_digit());
    let mut end = 0;
    for part in text.split('.').take_while(is_number) {
        let digits = part.find(|one: char| !one.is_ascii_digit()).unwrap_or(part.len());
        let start = if end == 0 { 0 } else { end + 1 };
        end = start + digits;
        if digits < part.len() {
            break;
        }
    }
    text.split_at(end)
}

fn semantic(numbers: &str, rest: &str) -> Option<String> {
    let parts: Vec<&str> = numbers.split('.').collect();
    if parts.len() != 3 || parts.iter().any(|part| is_padded(part) || part.parse::<u64>().is_err()) {
        return None;
    }
    let rest = rest.trim_end_matches([' ', '\t', '\r', '\x0c']);
    let (before, build) = rest.split_once('+').map_or((rest, None), |(before, build)| (before, Some(build)));
    let release = match before {
        "" => None,
        before => Some(before.strip_prefix('-')?),
    };
    let is_good = |text: &str| text.split('.').all(is_identifier);
    if !release.is_none_or(is_good) || !build.is_none_or(is_good) {
        return None;
    }
    let numbered = |part: &str| part.parse::<u64>().is_ok();
    if release.is_some_and(|text| text.split('.').any(|part| numbered(part) && is_padded(part))) {
        return None;
    }
    Some(format!("{numbers}{rest}"))
}

fn generic(numbers: &str) -> Option<String> {
    let parts: Vec<&str> = numbers.split('.').collect();
    if parts.len() < 2 || is_padded(parts[0]) {
        return None;
    }
    let numbers: Option<Vec<String>> =
        parts.into_iter().map(|part| part.parse::<u64>().ok().map(|number| number.to_string())).collect();
    Some(numbers?.join("."))
}

fn is_padded(number: &str) -> bool {
    number.len() > 1 && number.starts_with('0')
}

fn is_identifier(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NODE-21.
    #[test]
    fn versions_are_told_as_upstream_parses_them() {
        for (told, expected) in [
            ("v2.1.9", Some("2.1.9")),
            ("2.1.9", Some("2.1.9")),
            ("1.6.20~ds1", Some("1.6.20")),
            ("1.30.0-rc.1+build.5", Some("1.30.0-rc.1+build.5")),
            ("1.30.0+build", Some("1.30.0+build")),
            (" v1.7.0 ", Some("1.7.0")),
            ("2.0", Some("2.0")),
            ("2.0.", Some("2.0")),
            ("2.0.x", Some("2.0")),
            ("1.2.3.4", Some("1.2.3.4")),
            ("20.04.1", Some("20.4.1")),
            ("1.2.3-01", Some("1.2.3")),
            ("1.2.3-", Some("1.2.3")),
            ("1.2.3-a..b", Some("1.2.3")),
            ("1.2.3-é", Some("1.2.3")),
            ("01.2.3", None),
            ("2", None),
            ("v", None),
            ("", None),
            ("main", None),
            ("vv1.2.3", None),
            ("1.99999999999999999999", None),
            ("1.2.3\n4", None),
        ] {
            assert_eq!(normal(told).as_deref(), expected, "{told:?}");
        }
    }
}
