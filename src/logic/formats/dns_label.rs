//! Checks of names, with upstream's words for what is wrong with them.

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

/// Longest DNS label, in bytes (RFC 1123).
const LABEL_MAX: usize = 63;
/// Longest DNS subdomain, in bytes (RFC 1123).
pub const SUBDOMAIN_MAX: usize = 253;

/// The faults of `value` as a DNS label (upstream's `IsDNS1123Label`); empty when there are none.
pub fn label_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > LABEL_MAX {
        problems.push(format!("must be no more than {LABEL_MAX} bytes"));
    }
    if !is_label_text(value) {
        problems.push(if value.split('.').all(is_label_text) {
            "must not contain dots".to_owned()
        } else {
            format!(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                 '{LABEL}')"
            )
        });
    }
    problems
}

/// The faults of `value` as a DNS subdomain (upstream's `IsDNS1123Subdomain`); empty when there are none.
pub fn subdomain_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > SUBDOMAIN_MAX {
        problems.push(format!("must be no more than {SUBDOMAIN_MAX} bytes"));
    }
    if !value.split('.').all(is_label_text) {
        problems.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '{LABEL}(\\.{LABEL})*')"
        ));
    }
    problems
}

/// The faults of `value` as the key of a label (upstream's `IsQualifiedName`); empty when there are none.
pub fn qualified_name_problems(value: &str) -> Vec<String> {
    const KEY: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
        alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
        '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let mut problems = Vec::new();
    let parts = value.split('/').collect::<Vec<_>>();
    let name = match parts.as_slice() {
        [name] => *name,
        ["", name] => {
            problems.push("prefix part must be non-empty".to_owned());
            *name
        }
        [prefix, name] => {
            problems.extend(subdomain_problems(prefix).iter().map(|problem| format!("prefix part {problem}")));
            *name
        }
        _ => {
            return vec![format!(
                "a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        problems.push(format!("name part must be no more than {LABEL_MAX} bytes"));
    }
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !begins_and_ends(name, |byte| byte.is_ascii_alphanumeric()) || !name.bytes().all(inner) {
        problems.push(format!("name part {KEY}"));
    }
    problems
}

fn is_label_text(text: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    begins_and_ends(text, outer) && text.bytes().all(|byte| outer(byte) || byte == b'-')
}

fn begins_and_ends(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    matches!((text.bytes().next(), text.bytes().next_back()), (Some(first), Some(last)) if allowed(first) && allowed(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_lower_case_letters_digits_and_inner_dashes() {
        for good in ["a", "a-b", "0a", &"x".repeat(63)] {
            assert_eq!(label_problems(good), Vec::<String>::new(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a b", "é", "a..b"] {
            assert!(label_problems(bad).concat().starts_with("a lowercase RFC 1123 label must"), "{bad}");
        }
        assert_eq!(label_problems("a.b"), ["must not contain dots"]);
        assert_eq!(label_problems(&"x".repeat(64)), ["must be no more than 63 bytes"]);
    }

    #[test]
    fn subdomains_are_labels_joined_by_dots() {
        for good in ["a", "a.b-c.d", &"x".repeat(253)] {
            assert_eq!(subdomain_problems(good), Vec::<String>::new(), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "A.b", "a.-b"] {
            assert!(subdomain_problems(bad).concat().starts_with("a lowercase RFC 1123 subdomain must"), "{bad}");
        }
        assert_eq!(subdomain_problems(&"x".repeat(254)), ["must be no more than 253 bytes"]);
    }

    #[test]
    fn qualified_names_have_an_optional_prefix() {
        for good in ["a", "A_b.c-9", "example.com/name", &format!("a/{}", "x".repeat(63))] {
            assert_eq!(qualified_name_problems(good), Vec::<String>::new(), "{good}");
        }
        let cases = [
            ("/a", "prefix part must be non-empty"),
            ("A/a", "prefix part a lowercase RFC 1123 subdomain"),
            ("", "name part must be non-empty"),
            ("a/", "name part must be non-empty"),
            ("-a", "name part must consist of"),
            ("a/b/c", "a valid label key must consist of"),
            (&"x".repeat(64), "name part must be no more than 63 bytes"),
        ];
        for (bad, problem) in cases {
            assert!(qualified_name_problems(bad).concat().starts_with(problem), "{bad}");
        }
    }
}
