//! Trust anchors from ClusterTrustBundles (VOL-28, KEP-3257): which bundles a source means, and the file they become.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ClusterTrustBundleProjection;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// A longer label selector is refused, in bytes.
const SELECTOR_BYTES_MAX: usize = 100 * 1024;
/// The width of a line of PEM.
const LINE: usize = 64;
/// Upstream's text when a selection has nothing in it.
pub const NOTHING_SELECTED: &str = "combination of signerName and labelSelector matched zero ClusterTrustBundles";

/// Which bundles a source means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrustKey {
    /// The one of this name.
    Name(String),
    /// All of a signer that have these labels.
    Signer {
        /// The signer's name.
        signer: String,
        /// A label selector in the API's words, empty for all; `None` selects nothing.
        labels: Option<String>,
    },
}

/// The meaning of the source.
///
/// # Errors
/// A source that names nothing, or whose selector is none.
pub fn trust_key(source: &ClusterTrustBundleProjection) -> Result<TrustKey, String> {
    match (&source.name, &source.signer_name) {
        (Some(name), _) => Ok(TrustKey::Name(name.clone())),
        (None, Some(signer)) => {
            let labels = source.label_selector.as_ref().map(selector_text).transpose()?;
            Ok(TrustKey::Signer { signer: signer.clone(), labels })
        }
        (None, None) => Err("ClusterTrustBundle projection requires either name or signerName to be set".to_owned()),
    }
}

fn selector_text(selector: &LabelSelector) -> Result<String, String> {
    let equal = selector.match_labels.iter().flatten().map(|(key, value)| Ok(format!("{key}={value}")));
    let others = selector.match_expressions.iter().flatten().map(requirement_text);
    let text = equal.chain(others).collect::<Result<Vec<String>, String>>()?.join(",");
    match text.len() {
        0..=SELECTOR_BYTES_MAX => Ok(text),
        length => Err(format!("label selector length ({length}) is larger than {SELECTOR_BYTES_MAX}")),
    }
}

fn requirement_text(requirement: &LabelSelectorRequirement) -> Result<String, String> {
    let (key, values) = (&requirement.key, requirement.values.as_deref().unwrap_or_default().join(","));
    match requirement.operator.as_str() {
        "In" => Ok(format!("{key} in ({values})")),
        "NotIn" => Ok(format!("{key} notin ({values})")),
        "Exists" => Ok(key.clone()),
        "DoesNotExist" => Ok(format!("!{key}")),
        other => Err(format!("while parsing label selector: {other:?} is not a valid label selector operator")),
    }
}

/// The anchors of all bundles as one file: each once, whatever stands between them left out. Nobody is to rely on their
/// order: it differs from pod to pod, by `salt`, and stays as it is for one, so that its file is not written for nothing.
pub fn anchors_file<'a>(bundles: impl IntoIterator<Item = &'a str>, salt: &str) -> String {
    let bodies: BTreeSet<String> = bundles.into_iter().flat_map(bodies).collect();
    let mut bodies: Vec<String> = bodies.into_iter().collect();
    bodies.sort_by_cached_key(|body| hash(salt, body));
    let mut file = String::new();
    for body in bodies {
        file.push_str(&block(&body));
    }
    file
}

/// A certificate in PEM, from its base64 text.
pub(super) fn block(body: &str) -> String {
    let mut block = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in body.as_bytes().chunks(LINE) {
        block.push_str(std::str::from_utf8(line).expect("invariant: base64 is ASCII"));
        block.push('\n');
    }
    block.push_str("-----END CERTIFICATE-----\n");
    block
}

/// The base64 texts between the marks of a PEM file, without line ends. A block that is not base64 is none.
pub(super) fn bodies(bundle: &str) -> Vec<String> {
    let (mut found, mut open): (Vec<String>, Option<String>) = (Vec::new(), None);
    for line in bundle.lines().map(str::trim) {
        if line.starts_with("-----BEGIN ") && line.ends_with("-----") {
            open = Some(String::new());
        } else if line.starts_with("-----END ") {
            found.extend(open.take().filter(|body| is_base64(body)));
        } else if let Some(body) = open.as_mut().filter(|_| !line.contains(':')) {
            body.push_str(line); // A line with a colon is a header of the block.
        }
    }
    found
}

fn is_base64(body: &str) -> bool {
    let data = body.trim_end_matches('=');
    let digits = data.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/');
    digits && !data.is_empty() && body.len().is_multiple_of(4) && body.len() - data.len() <= 2
}

/// FNV-1a, for an order.
fn hash(salt: &str, body: &str) -> u64 {
    let bytes = salt.bytes().chain([0]).chain(body.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn key(source: Value) -> Result<TrustKey, String> {
        trust_key(&serde_json::from_value(source).unwrap())
    }

    /// VOL-28.
    #[test]
    fn a_source_means_a_name_or_a_signers_bundles() {
        let signer = |labels: Option<&str>| {
            Ok(TrustKey::Signer { signer: "s.example/x".to_owned(), labels: labels.map(str::to_owned) })
        };
        let selected =
            |selector: Value| key(json!({ "path": "p", "signerName": "s.example/x", "labelSelector": selector }));
        assert_eq!(key(json!({ "path": "p", "name": "root" })), Ok(TrustKey::Name("root".to_owned())));
        assert_eq!(key(json!({ "path": "p", "signerName": "s.example/x" })), signer(None));
        assert_eq!(selected(json!({})), signer(Some("")));
        let every = json!({ "matchLabels": { "a": "b" }, "matchExpressions": [
            { "key": "c", "operator": "In", "values": ["d", "e"] },
            { "key": "f", "operator": "NotIn", "values": ["g"] },
            { "key": "h", "operator": "Exists" }, { "key": "i", "operator": "DoesNotExist" },
        ] });
        assert_eq!(selected(every), signer(Some("a=b,c in (d,e),f notin (g),h,!i")));
        assert!(selected(json!({ "matchExpressions": [{ "key": "c", "operator": "Near" }] })).is_err());
        let nothing = key(json!({ "path": "p" }));
        assert_eq!(
            nothing,
            Err("ClusterTrustBundle projection requires either name or signerName to be set".to_owned())
        );
    }

    fn block(body: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
    }

    #[test]
    fn anchors_come_once_and_without_what_is_between_them() {
        let first = format!("# a comment\n{}{}", block("AAAA"), block("BBBB"));
        let second = format!("{}junk\n{}", block("BB\nBB"), block("not base64!"));
        let file = anchors_file([first.as_str(), second.as_str()], "uid-1");
        let mut blocks: Vec<&str> = file.split_inclusive("-----END CERTIFICATE-----\n").collect();
        blocks.sort_unstable();
        assert_eq!(blocks, [block("AAAA"), block("BBBB")]);
        assert_eq!(anchors_file([second.as_str(), first.as_str()], "uid-1"), file, "in whatever order they are read");
        assert_eq!(anchors_file([], "uid-1"), "");
        let long = "A".repeat(100);
        let wrapped = anchors_file([block(&long).as_str()], "");
        assert_eq!(wrapped, block(&format!("{}\n{}", &long[..64], &long[64..])));
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_read_gives_whole_blocks_alone(text in "(-----BEGIN X-----|-----END X-----|[A-D]{4}|\n|:|=){0,40}") {
            let file = anchors_file([text.as_str()], "");
            let again = anchors_file([file.as_str()], "");
            proptest::prop_assert_eq!(&again, &file);
        }
    }
}
