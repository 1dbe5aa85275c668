//! The forms that names, keys and values must have: DNS labels and subdomains, label keys, ports, variables.
//!
//! Each function gives the sentences of the API server about a text, none when the text has the form.

use crate::logic::formats::dns_label::{self, SUBDOMAIN_MAX};

/// The longest value of a label.
const LABEL_LENGTH_MAX: usize = 63;

const UNDERSCORE_FORM: &str = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const KEY_FORM: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

fn too_long(length_max: usize) -> String {
    format!("must be no more than {length_max} characters")
}

/// The sentence about a text that does not match a regular expression.
fn no_match(message: &str, form: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{message} (regex used for validation is '{form}')");
    }
    // Upstream ends each example with a comma and a space, and begins the next with a space.
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{form}')", examples.join(" or "))
}

/// The sentence about a number out of bounds.
pub(super) fn not_between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// Begins and ends with `edge`, has only `edge` and `inner` between.
fn is_edged(text: &str, edge: fn(char) -> bool, inner: &str) -> bool {
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|c| edge(c) || inner.contains(c))
}

fn is_lower(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn is_alphanumeric(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

/// A label of RFC 1123: container, volume and host names.
pub(super) fn dns_label(text: &str) -> Vec<String> {
    in_characters(dns_label::label_problems(text))
}

/// A subdomain of RFC 1123: names of most objects.
pub(super) fn dns_subdomain(text: &str) -> Vec<String> {
    in_characters(dns_label::subdomain_problems(text))
}

/// Upstream has these two checks twice; the one for fields speaks of characters, not of bytes.
fn in_characters(problems: Vec<String>) -> Vec<String> {
    problems.into_iter().map(|problem| problem.replace(" bytes", " characters")).collect()
}

/// A subdomain that may have underscores, as DNS search paths do.
pub(super) fn dns_subdomain_with_underscore(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        messages.push(too_long(SUBDOMAIN_MAX));
    }
    let fits = |label: &str| is_edged(label.strip_prefix('_').unwrap_or(label), is_lower, "-_");
    if !text.split('.').all(fits) {
        let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or \
                    '.', and must start and end with an alphanumeric character";
        messages.push(no_match(rule, UNDERSCORE_FORM, &["example.com"]));
    }
    messages
}

/// A label or annotation key: a name, perhaps with a DNS subdomain and a slash before it.
pub(super) fn label_key(text: &str) -> Vec<String> {
    dns_label::qualified_name_problems(text)
}

/// A label's value.
pub(super) fn label_value(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > LABEL_LENGTH_MAX {
        messages.push(format!("must be no more than {LABEL_LENGTH_MAX} bytes"));
    }
    if !text.is_empty() && !is_edged(text, is_alphanumeric, "-_.") {
        let rule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                    and must start and end with an alphanumeric character";
        messages.push(no_match(rule, &format!("({KEY_FORM})?"), &["MyValue", "my_value", "12345"]));
    }
    messages
}

/// A port's name.
pub(super) fn port_name(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 15 {
        messages.push(too_long(15));
    }
    if text.is_empty() || !text.chars().all(|c| is_lower(c) || c == '-') {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.chars().any(|c| c.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

/// A port's number.
pub(super) fn port_number(number: i32) -> Vec<String> {
    if (1..=65535).contains(&number) { Vec::new() } else { vec![not_between(1, 65535)] }
}

/// A variable's name: nearly anything that can be printed.
pub(super) fn variable_name(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.is_empty() {
        messages.push("environment variable name must be non-empty".to_owned());
    }
    if !text.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
        let rule = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        messages.push(rule.to_owned());
    }
    messages
}

/// A key of a ConfigMap or Secret.
pub(super) fn config_key(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        messages.push(too_long(SUBDOMAIN_MAX));
    }
    if text.is_empty() || !text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        let rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        messages.push(no_match(rule, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    match text {
        "." => messages.push("must not be '.'".to_owned()),
        ".." => messages.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => messages.push("must not start with '..'".to_owned()),
        _ => {}
    }
    messages
}

/// The name of an HTTP header.
pub(super) fn header_name(text: &str) -> Vec<String> {
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Vec::new();
    }
    let rule = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![no_match(rule, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

#[cfg(test)]
mod tests {
    use super::*;

    type Form = fn(&str) -> Vec<String>;

    #[test]
    fn good_names_have_nothing_said_about_them() {
        let cases: &[(Form, &[&str])] = &[
            (dns_label, &["a", "0", "a-b", "123-abc"]),
            (dns_subdomain, &["a.b", "a-1.b-2", "example.com"]),
            (dns_subdomain_with_underscore, &["_sip._tcp.a", "a_b.c"]),
            (label_key, &["a", "A.b_c-9", "example.com/a", "kubernetes.io/config.hash"]),
            (label_value, &["", "a", "My_value.1"]),
            (port_name, &["http", "a-1"]),
            (variable_name, &["A", "a.b-c", "1", "a b"]),
            (config_key, &["a.b", "..a".trim_start_matches('.'), ".a", "KEY_NAME"]),
            (header_name, &["X-Header"]),
        ];
        for (form, texts) in cases {
            for text in *texts {
                assert_eq!(form(text), Vec::<String>::new(), "{text:?}");
            }
        }
    }

    #[test]
    fn bad_names_are_explained_in_the_words_of_the_api_server() {
        let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                         '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
                         for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        let cases: &[(Form, &str, &[&str])] = &[
            (dns_label, "A", &[label]),
            (dns_label, "-a", &[label]),
            (dns_label, "a_b", &[label]),
            (dns_label, "", &[label]),
            (dns_label, "a.b", &["must not contain dots"]),
            (dns_subdomain, "a..b", &[subdomain]),
            (dns_subdomain, "A", &[subdomain]),
            (port_name, "toolongportname1", &["must be no more than 15 characters"]),
            (port_name, "80", &["must contain at least one letter (a-z)"]),
            (port_name, "a--b", &["must not contain consecutive hyphens"]),
            (label_key, "/a", &["prefix part must be non-empty"]),
            (
                variable_name,
                "a=b",
                &["a valid environment variable name must consist only of printable ASCII characters other than '='"],
            ),
            (config_key, "..", &["must not be '..'"]),
        ];
        for (form, text, expected) in cases {
            assert_eq!(form(text), *expected, "{text:?}");
        }
        assert_eq!(dns_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert_eq!(dns_subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
    }
}
