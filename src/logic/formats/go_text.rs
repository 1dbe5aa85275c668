//! Texts as Go's standard library writes them.
//!
//! Owned by nobody in particular: pure helpers for bytes that upstream's kubelet wrote with Go's `encoding/json` or
//! `strconv`. Another program, or the same agent after an upgrade, compares them.

use std::fmt::Write;

/// `text` as a JSON string, quotes included, as Go's `json.Marshal` writes it: besides what JSON asks for, `<`, `>`,
/// `&`, U+2028 and U+2029 are escaped so that the text may stand in HTML.
pub fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                write!(out, "\\u{:04x}", u32::from(character)).expect("invariant: a String takes all text");
            }
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

/// A duration as Go's `time.ParseDuration` reads it, such as `1h30m` or `-1.5s`, in nanoseconds; `None` for what is none,
/// or too long.
pub fn duration_nanos(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut sum = 0_i128;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, more) = rest.split_at(end);
        let end = more.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(more.len());
        let (unit, left) = more.split_at(end);
        let size: i128 = match unit {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.len() > 32 || (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let part = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i128>().ok() };
        let scale = 10_i128.pow(u32::try_from(fraction.len().min(18)).ok()?);
        let below = part(&fraction[..fraction.len().min(18)])?.checked_mul(size)? / scale;
        sum = sum.checked_add(part(whole)?.checked_mul(size)?)?.checked_add(below)?;
        rest = left;
    }
    i64::try_from(if negative { -sum } else { sum }).ok()
}

/// `text` in double quotes as Go's `strconv.Quote` writes it: printable characters stay, all others are escaped.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\'' => out.push(character),
            _ if is_printable(character) => out.push(character),
            _ => {
                let code = u32::from(character);
                let escaped = match code {
                    0..0x80 => format!("\\x{code:02x}"),
                    0x80..0x1_0000 => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                };
                out.push_str(&escaped);
            }
        }
    }
    out.push('"');
    out
}

/// Whether Go's `strconv.IsPrint` and Rust's own idea of a printable character let it stand. A combining mark counts
/// as printable for Go, and for Rust only after the first character, hence the `a` in front.
fn is_printable(character: char) -> bool {
    let text = ['a', character].iter().collect::<String>();
    text.escape_debug().nth(1) == Some(character)
}

/// `path` made absolute, without doubled slashes, `.` and `..`, as Go's `filepath.Clean("/" + path)`.
pub fn clean_absolute(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let cases = [
            ("0", Some(0)),
            ("5s", Some(5_000_000_000)),
            ("1h30m", Some(5_400_000_000_000)),
            ("-1.5s", Some(-1_500_000_000)),
            ("100ms", Some(100_000_000)),
            (".5s", Some(500_000_000)),
            ("1\u{b5}s2ns", Some(1_002)),
            ("", None),
            ("s", None),
            ("1", None),
            (".s", None),
            ("1d", None),
            ("1..5s", None),
            ("3000000h", None),
        ];
        for (text, expected) in cases {
            assert_eq!(duration_nanos(text), expected, "{text:?}");
        }
    }

    #[test]
    fn json_strings_are_escaped_as_go_does() {
        let cases = [
            ("", r#""""#),
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("<a>&b", r#""\u003ca\u003e\u0026b""#),
            ("\n\r\t\u{8}\u{c}", r#""\n\r\t\b\f""#),
            ("\u{0}\u{1f}\u{7f}", "\"\\u0000\\u001f\u{7f}\""),
            ("\u{2028}\u{2029}é", r#""\u2028\u2029é""#),
        ];
        for (text, expected) in cases {
            assert_eq!(json_string(text), expected, "{text:?}");
        }
    }

    #[test]
    fn quoted_texts_are_escaped_as_go_does() {
        let cases = [
            ("", r#""""#),
            ("it's", r#""it's""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\a\b\f\n\r\t\v""#),
            ("\u{0}\u{1}\u{7f}", r#""\x00\x01\x7f""#),
            ("\u{85}\u{2028}é世", "\"\\u0085\\u2028é世\""),
            ("e\u{301}", "\"e\u{301}\""),
            ("\u{301}", "\"\u{301}\""),
            ("\u{e0001}", r#""\U000e0001""#),
        ];
        for (text, expected) in cases {
            assert_eq!(quoted(text), expected, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_json_string_reads_back(text: String) {
            let back: String = serde_json::from_str(&json_string(&text)).unwrap();
            proptest::prop_assert_eq!(back, text);
        }
    }
}
