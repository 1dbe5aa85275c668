//! Label keys and values, and the labels a node may give itself.
//!
//! Keeps nothing. Texts are upstream's (`staging/src/k8s.io/apimachinery/pkg/api/validate/content`,
//! `staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go`).

use std::collections::BTreeMap;

use crate::logic::formats::own_labels::{ALLOWED_LABELS, ALLOWED_NAMESPACES, is_protected};

/// The effects a taint may have.
pub const TAINT_EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

const KEY_PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                        alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
                        is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                     must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
                     regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Judges `--node-labels`; the error is what upstream says after `failed to validate kubelet flags: `.
pub fn check_node_labels(labels: &BTreeMap<String, String>) -> Result<(), String> {
    let unknown: Vec<&str> = labels.keys().map(String::as_str).filter(|key| is_protected(key)).collect();
    if !unknown.is_empty() {
        return Err(format!(
            "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [{}]\n--node-labels in the \
             'kubernetes.io' namespace must begin with an allowed prefix ({}) or be in the specifically allowed set ({})",
            unknown.join(" "),
            ALLOWED_NAMESPACES.join(", "),
            ALLOWED_LABELS.join(", ")
        ));
    }
    let mut invalid: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key, value) in labels {
        for (text, errors) in [(key, key_errors(key)), (value, value_errors(value))] {
            if !errors.is_empty() {
                invalid.entry(text).or_default().extend(errors);
            }
        }
    }
    if invalid.is_empty() {
        return Ok(());
    }
    let invalid: Vec<String> =
        invalid.iter().map(|(text, errors)| format!("'{text}' - {}", errors.join(", "))).collect();
    Err(format!("invalid node labels: {}", invalid.join("; ")))
}

/// The faults of a label's (or taint's) key; empty when there are none.
pub fn key_errors(key: &str) -> Vec<String> {
    let parts: Vec<&str> = key.split('/').collect();
    let mut errors = Vec::new();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".into());
            } else {
                if prefix.len() > 253 {
                    errors.push("prefix part must be no more than 253 characters".into());
                }
                if !is_subdomain(prefix) {
                    errors.push(format!("prefix part {SUBDOMAIN}"));
                }
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {KEY_PART} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 characters".into());
    }
    if !is_name(name) {
        errors.push(format!("name part {KEY_PART}"));
    }
    errors
}

/// The faults of a label's (or taint's) value; empty when there are none.
pub fn value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push("must be no more than 63 characters".into());
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(VALUE.into());
    }
    errors
}

fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() && bytes.iter().all(|byte| inner(*byte))
        }
        _ => false,
    }
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(|part| {
        let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = part.as_bytes();
        bytes.first().is_some_and(|byte| edge(*byte))
            && bytes.last().is_some_and(|byte| edge(*byte))
            && bytes.iter().all(|byte| edge(*byte) || *byte == b'-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&str, &str)]) -> Result<(), String> {
        check_node_labels(&pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect())
    }

    /// NODE-03.
    #[test]
    fn a_node_may_set_its_own_labels() {
        for key in [
            "example.com/foo",
            "foo",
            "kubernetes.io/hostname",
            "node.kubernetes.io/foo",
            "my.node.kubernetes.io/foo",
            "kubelet.kubernetes.io/foo",
            "notkubernetes.io/foo",
        ] {
            assert_eq!(check(&[(key, "v")]), Ok(()), "{key}");
        }
    }

    /// NODE-03.
    #[test]
    fn labels_of_kubernetes_are_refused_together() {
        let error = check(&[("kubernetes.io/foo", ""), ("x.k8s.io/a", ""), ("mynode.kubernetes.io/b", "")])
            .expect_err("they are Kubernetes' own");
        assert!(
            error.starts_with(
                "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: \
                 [kubernetes.io/foo mynode.kubernetes.io/b x.k8s.io/a]\n--node-labels in the 'kubernetes.io' namespace \
                 must begin with an allowed prefix (kubelet.kubernetes.io, node.kubernetes.io) or be in the specifically \
                 allowed set (beta.kubernetes.io/arch, beta.kubernetes.io/instance-type, "
            ),
            "{error}"
        );
    }

    #[test]
    fn what_is_no_label_is_refused() {
        for (key, value, part) in [
            ("", "", "name part must be non-empty"),
            ("a/b/c", "", "a valid label key must consist"),
            ("/b", "", "prefix part must be non-empty"),
            ("Upper.example/b", "", "prefix part a lowercase RFC 1123 subdomain"),
            ("-a", "", "name part must consist of"),
            ("a", "b c", "a valid label must be an empty string or"),
            ("a", &"x".repeat(64), "must be no more than 63 characters"),
            (&"x".repeat(64), "", "name part must be no more than 63 characters"),
        ] {
            let error = check(&[(key, value)]).expect_err(key);
            assert!(error.starts_with("invalid node labels: '") && error.contains(part), "{key} {value}: {error}");
        }
    }
}
