//! The rules about volumes on disks of storage networks: iscsi and fc.

use k8s_openapi::api::core::v1::{FCVolumeSource, ISCSIVolumeSource};

use super::field::{Errors, FieldPath};
use super::names;

const KINDS: &str = "must be valid format starting with iqn, eui, or naa";
const FORMAT: &str = "must be valid format";

pub(super) fn iscsi(source: &ISCSIVolumeSource, path: &FieldPath, errors: &mut Errors) {
    if source.target_portal.is_empty() {
        errors.required(&path.child("targetPortal"), "");
    }
    if source.iqn.is_empty() {
        errors.required(&path.child("iqn"), "");
    } else {
        name(&source.iqn, &path.child("iqn"), errors);
    }
    if !(0..=255).contains(&source.lun) {
        errors.invalid(&path.child("lun"), source.lun, names::not_between(0, 255));
    }
    let authenticates = [source.chap_auth_discovery, source.chap_auth_session].contains(&Some(true));
    if authenticates && source.secret_ref.is_none() {
        errors.required(&path.child("secretRef"), "");
    }
    if let Some(initiator) = &source.initiator_name {
        name(initiator, &path.child("initiatorname"), errors);
    }
}

/// The name of a target or of an initiator.
fn name(text: &str, path: &FieldPath, errors: &mut Errors) {
    let of_letters = |rest: &str, count: usize| {
        let mut letters = rest.chars().skip(1);
        letters.clone().count() == count && letters.all(|letter| letter.is_ascii_alphanumeric())
    };
    let is_good = match text.get(..3) {
        Some("iqn") => is_qualified(text),
        Some("eui") => of_letters(&text[3..], 16),
        Some("naa") => of_letters(&text[3..], 32),
        _ => return errors.invalid(path, text, KINDS),
    };
    if !is_good {
        errors.invalid(path, text, FORMAT);
    }
}

/// A year and a month, a domain, and a name of its owner's choice.
fn is_qualified(text: &str) -> bool {
    let Some((date, rest)) = text.strip_prefix("iqn.").and_then(|rest| rest.split_once('.')) else { return false };
    let Some((domain, own)) = rest.split_once(':') else { return false };
    let is_number = |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = date.split_once('-').is_some_and(|(year, month)| is_number(year, 4) && is_number(month, 2));
    let of_domain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
    let of_own = |letter: char| !",;*&$|".contains(letter) && !letter.is_ascii_whitespace();
    is_date && !domain.is_empty() && domain.chars().all(of_domain) && !own.is_empty() && own.chars().all(of_own)
}

pub(super) fn fc(source: &FCVolumeSource, path: &FieldPath, errors: &mut Errors) {
    let wwns = source.target_wwns.as_deref().unwrap_or_default();
    let wwids = source.wwids.as_deref().unwrap_or_default();
    let of_targets = path.child("targetWWNs");
    match (wwns, wwids) {
        ([], []) => errors.required(&of_targets, "must specify either targetWWNs or wwids, but not both"),
        ([], _) | (_, []) => {}
        _ => errors.invalid(&of_targets, wwns.to_vec(), "targetWWNs and wwids can not be specified simultaneously"),
    }
    if wwns.is_empty() {
        return;
    }
    match source.lun {
        None => errors.required(&path.child("lun"), "lun is required if targetWWNs is specified"),
        Some(lun) if !(0..=255).contains(&lun) => {
            errors.invalid(&path.child("lun"), lun, names::not_between(0, 255));
        }
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(check: impl Fn(&FieldPath, &mut Errors)) -> String {
        let mut errors = Errors::default();
        check(&FieldPath::root("spec").child("iscsi"), &mut errors);
        errors.found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    fn of_iscsi(change: Value) -> String {
        let mut source = json!({ "targetPortal": "10.0.0.1", "iqn": "iqn.2003-01.io.k8s:e2e.volume-1", "lun": 1 });
        source.as_object_mut().expect("an object").extend(change.as_object().cloned().expect("an object"));
        let source = serde_json::from_value(source).expect("a source");
        of(|path, errors| iscsi(&source, path, errors))
    }

    #[test]
    fn names_of_targets_and_initiators_have_upstreams_forms() {
        for good in [
            "iqn.2003-01.io.k8s:a",
            "iqn.2003-01.io.k8s:a:b",
            "eui.0123456789abcdef",
            &format!("naa.{}", "5".repeat(32)),
        ] {
            assert_eq!(of_iscsi(json!({ "iqn": good, "initiatorName": good })), "", "{good}");
        }
        for bad in ["iqn.2003-01.io.k8s", "iqn.2003-1.io.k8s:a", "iqn.2003-01.io.k8s:a b", "eui.01", "naa.5", "iqn"] {
            assert!(of_iscsi(json!({ "iqn": bad })).ends_with(FORMAT), "{bad}");
            assert!(of_iscsi(json!({ "initiatorName": bad })).ends_with(FORMAT), "{bad}");
        }
        assert!(of_iscsi(json!({ "iqn": "disk" })).ends_with(KINDS));
        assert!(of_iscsi(json!({ "iqn": "äé" })).ends_with(KINDS));
        let chap = json!({ "chapAuthSession": true });
        assert!(of_iscsi(chap).contains("secretRef: Required value"));
    }

    #[test]
    fn a_disk_of_fibre_channel_has_targets_and_a_unit_or_names() {
        let fc = |source: Value| {
            let source = serde_json::from_value(source).expect("a source");
            of(|path, errors| fc(&source, path, errors))
        };
        assert_eq!(fc(json!({ "wwids": ["a"] })), "");
        assert_eq!(fc(json!({ "targetWWNs": ["a"], "lun": 0 })), "");
        assert!(fc(json!({})).ends_with("must specify either targetWWNs or wwids, but not both"));
        let both = fc(json!({ "targetWWNs": ["a"], "wwids": ["b"], "lun": 0 }));
        assert!(both.ends_with("targetWWNs and wwids can not be specified simultaneously"), "{both}");
        assert!(fc(json!({ "targetWWNs": ["a"] })).ends_with("lun is required if targetWWNs is specified"));
        assert!(fc(json!({ "targetWWNs": ["a"], "lun": 256 })).contains("lun: Invalid value: 256"));
    }
}
