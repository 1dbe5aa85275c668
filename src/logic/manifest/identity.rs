//! The identity of a static pod: its UID, its name on this node, the marks that tell where it came from (POD-05).
//!
//! Owned by [`super`]. The UID of a pod that names none is a hash of the pod and of the place where it was found. So an
//! edited manifest is another pod. Upstream hashes a dump of Go's memory, which nobody else can reproduce; only that the
//! same input gives the same UID matters.

use k8s_openapi::api::core::v1::{Pod, PodStatus, Toleration};
use serde_json::Value;

/// The annotation that carries the hash of a static pod: equal to its UID.
pub const CONFIG_HASH_ANNOTATION: &str = "kubernetes.io/config.hash";
/// The annotation that names the source of a pod: `file`, `http` or `api`.
pub const CONFIG_SOURCE_ANNOTATION: &str = "kubernetes.io/config.source";

/// Where a manifest was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file of the static pod directory.
    File {
        /// The file's path.
        path: String,
    },
    /// An HTTP server.
    Http {
        /// The URL asked.
        url: String,
    },
}

impl Source {
    /// The source's name as the annotation carries it.
    pub fn name(&self) -> &'static str {
        match self {
            Source::File { .. } => "file",
            Source::Http { .. } => "http",
        }
    }
}

/// Makes the defaulted pod of a manifest this node's own: UID, name, namespace, node, annotations, toleration, status.
///
/// A status written in the manifest is dropped: it would tell of containers that never were.
pub fn static_identity(pod: &mut Pod, source: &Source, node_name: &str) {
    let uid = match pod.metadata.uid.take() {
        Some(uid) if !uid.is_empty() => uid,
        _ => content_uid(pod, source, node_name),
    };
    let name = pod.metadata.name.take().unwrap_or_default();
    pod.metadata.name = Some(format!("{name}-{}", node_name.to_lowercase()));
    if pod.metadata.namespace.as_deref().unwrap_or_default().is_empty() {
        pod.metadata.namespace = Some("default".to_owned());
    }
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(CONFIG_HASH_ANNOTATION.to_owned(), uid.clone());
    annotations.insert(CONFIG_SOURCE_ANNOTATION.to_owned(), source.name().to_owned());
    pod.metadata.uid = Some(uid);
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(node_name.to_owned());
    if let Source::File { .. } = source {
        tolerate_everything(spec.tolerations.get_or_insert_default());
    }
    pod.status = Some(PodStatus { phase: Some("Pending".to_owned()), ..PodStatus::default() });
}

/// Trouble on the node is no reason to evict the pods that the node's own administrator wants.
fn tolerate_everything(tolerations: &mut Vec<Toleration>) {
    let wanted = Toleration {
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        ..Toleration::default()
    };
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let same = |given: &Toleration| {
        text(&given.key).is_empty()
            && text(&given.value).is_empty()
            && given.operator == wanted.operator
            && given.effect == wanted.effect
    };
    match tolerations.iter_mut().find(|given| same(given)) {
        Some(given) => *given = wanted,
        None => tolerations.push(wanted),
    }
}

/// 32 hexadecimal digits of the pod's content and its place.
fn content_uid(pod: &Pod, source: &Source, node_name: &str) -> String {
    let tree = serde_json::to_value(pod).expect("invariant: a pod that was decoded has text keys alone");
    let mut hash = Fnv128a::new();
    hash_tree(&tree, &mut hash);
    let place = match source {
        Source::File { path } => format!("host:{node_name}file:{path}"),
        Source::Http { url } => format!("url:{url}"),
    };
    hash.write(place.as_bytes());
    format!("{:032x}", hash.0)
}

/// Writes JSON with sorted keys, whatever order the tree keeps.
fn hash_tree(tree: &Value, hash: &mut Fnv128a) {
    match tree {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            hash.write(b"{");
            for (key, value) in entries {
                hash.write(Value::from(key.as_str()).to_string().as_bytes());
                hash.write(b":");
                hash_tree(value, hash);
                hash.write(b",");
            }
            hash.write(b"}");
        }
        Value::Array(list) => {
            hash.write(b"[");
            for value in list {
                hash_tree(value, hash);
                hash.write(b",");
            }
            hash.write(b"]");
        }
        leaf => hash.write(leaf.to_string().as_bytes()),
    }
}

/// The 128-bit FNV-1a hash.
struct Fnv128a(u128);

impl Fnv128a {
    fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn file(path: &str) -> Source {
        Source::File { path: path.to_owned() }
    }

    fn a_pod(metadata: Value) -> Pod {
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})).expect("a pod")
    }

    fn uid_of(mut pod: Pod, source: &Source, node_name: &str) -> String {
        static_identity(&mut pod, source, node_name);
        pod.metadata.uid.expect("every static pod has a UID")
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        // Vectors of the published algorithm.
        for (text, expected) in
            [("", 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d), ("a", 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964)]
        {
            let mut hash = Fnv128a::new();
            hash.write(text.as_bytes());
            assert_eq!(hash.0, expected, "{text:?}");
        }
    }

    /// A change here restarts every static pod of every node at its next upgrade.
    #[test]
    fn the_uid_does_not_change_between_versions() {
        let pod = a_pod(json!({"name": "web", "labels": {"b": "2", "a": "1"}}));
        assert_eq!(
            uid_of(pod, &file("/etc/kubernetes/manifests/web.yaml"), "node-1"),
            "e5973dfedb46f4d1e0026ea4feffb49f"
        );
    }

    #[test]
    fn a_pod_from_a_file_is_named_after_its_node_and_tolerates_its_troubles() {
        let mut pod = a_pod(json!({"name": "web", "annotations": {"a": "b"}}));
        static_identity(&mut pod, &file("/etc/kubernetes/manifests/web.yaml"), "Node-1");
        let uid = pod.metadata.uid.clone().expect("given");
        assert_eq!(uid.len(), 32);
        assert!(uid.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
        assert_eq!(pod.metadata.name.as_deref(), Some("web-node-1"));
        assert_eq!(pod.metadata.namespace.as_deref(), Some("default"));
        let annotations = [("a", "b"), (CONFIG_HASH_ANNOTATION, uid.as_str()), (CONFIG_SOURCE_ANNOTATION, "file")];
        let expected: BTreeMap<_, _> = annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(pod.metadata.annotations, Some(expected));
        let spec = pod.spec.expect("given");
        assert_eq!(spec.node_name.as_deref(), Some("Node-1"));
        assert_eq!(
            serde_json::to_value(&spec.tolerations).expect("serialises"),
            json!([{"operator": "Exists", "effect": "NoExecute"}])
        );
        assert_eq!(pod.status.and_then(|status| status.phase).as_deref(), Some("Pending"));
    }

    #[test]
    fn a_pod_from_http_gets_no_toleration() {
        let mut pod = a_pod(json!({"name": "web", "namespace": "team", "uid": "u-1"}));
        static_identity(&mut pod, &Source::Http { url: "http://host/pods".to_owned() }, "n");
        let annotations = pod.metadata.annotations.clone().expect("given");
        assert_eq!(
            (annotations[CONFIG_SOURCE_ANNOTATION].as_str(), annotations[CONFIG_HASH_ANNOTATION].as_str()),
            ("http", "u-1")
        );
        assert_eq!((pod.metadata.uid.as_deref(), pod.metadata.namespace.as_deref()), (Some("u-1"), Some("team")));
        assert_eq!(pod.spec.and_then(|spec| spec.tolerations), None);
    }

    #[test]
    fn a_toleration_that_is_there_is_not_added_again() {
        let mut pod = a_pod(json!({"name": "web"}));
        static_identity(&mut pod, &file("a"), "n");
        let once = pod.spec.clone();
        static_identity(&mut pod, &file("a"), "n");
        assert_eq!(pod.spec, once);
    }

    proptest! {
        #[test]
        fn the_uid_is_stable_and_changes_with_content_place_and_node(
            name in "[a-z]{1,8}", other in "[a-z]{1,8}", label in ".{0,8}", path in "/[a-z]{1,8}", node in "[a-z]{1,8}",
        ) {
            let pod = || a_pod(json!({"name": name, "labels": {"l": label}}));
            let uid = uid_of(pod(), &file(&path), &node);
            prop_assert_eq!(&uid, &uid_of(pod(), &file(&path), &node));
            prop_assert_ne!(&uid, &uid_of(pod(), &file(&format!("{path}{other}")), &node));
            prop_assert_ne!(&uid, &uid_of(pod(), &file(&path), &format!("{node}{other}")));
            prop_assert_ne!(&uid, &uid_of(pod(), &Source::Http { url: path.clone() }, &node));
            let edited = a_pod(json!({"name": name, "labels": {"l": format!("{label}{other}")}}));
            prop_assert_ne!(&uid, &uid_of(edited, &file(&path), &node));
        }
    }
}
