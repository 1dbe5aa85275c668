//! Tests of [`super`]: `tests/pod_fields.txt` against the API's own types and against what is refused.

use super::*;
use crate::logic::manifest::{Decoded, MANIFEST_SIZE_MAX, decode_pod};
use serde::Deserialize;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Error, Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Visits every field that a type can have, by answering whatever the type asks for.
#[derive(Clone)]
struct Explorer<'a> {
    pattern: String,
    seen: &'a RefCell<BTreeSet<String>>,
}

impl Explorer<'_> {
    fn at(&self, suffix: &str) -> Self {
        let pattern = if self.pattern.is_empty() {
            suffix.trim_start_matches('.').to_owned()
        } else {
            format!("{}{suffix}", self.pattern)
        };
        Self { pattern, ..self.clone() }
    }
}

struct Fields<'a>(Explorer<'a>, std::slice::Iter<'static, &'static str>, &'static str);
struct Once<'a>(Explorer<'a>, bool);

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(field) = self.1.next() else { return Ok(None) };
        self.2 = field;
        seed.deserialize(StrDeserializer::new(field)).map(Some)
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let place = self.0.at(&format!(".{}", self.2));
        self.0.seen.borrow_mut().insert(place.pattern.clone());
        seed.deserialize(place)
    }
}

impl<'de> MapAccess<'de> for Once<'_> {
    type Error = Error;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        if std::mem::replace(&mut self.1, true) {
            Ok(None)
        } else {
            seed.deserialize(StrDeserializer::new("key")).map(Some)
        }
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.0.at("{}"))
    }
}

impl<'de> SeqAccess<'de> for Once<'_> {
    type Error = Error;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        if std::mem::replace(&mut self.1, true) { Ok(None) } else { seed.deserialize(self.0.at("[]")).map(Some) }
    }
}

impl<'de> Deserializer<'de> for Explorer<'_> {
    type Error = Error;
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom(format!("{}: a type the explorer does not know", self.pattern)))
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        // The type checks these two itself.
        let fields = if name == "Pod" { &fields[2..] } else { fields };
        visitor.visit_map(Fields(self, fields.iter(), ""))
    }
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        // An integer or a text: the only type that asks for anything.
        if self.pattern.ends_with("ort") && visitor_takes_any(&self.pattern) {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Once(self, false))
    }
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Once(self, false))
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        match name {
            "Quantity" => visitor.visit_string("1".to_owned()),
            "FieldsV1" => visitor.visit_newtype_struct(json!({"f:spec": {}})),
            _ => visitor.visit_newtype_struct(json!("2020-01-01T00:00:00Z")),
        }
    }
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string("text".to_owned())
    }
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(true)
    }
    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i32(1)
    }
    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i64(1)
    }
    serde::forward_to_deserialize_any! {
        i8 i16 u8 u16 u32 u64 i128 u128 f32 f64 char str bytes byte_buf unit unit_struct tuple tuple_struct enum
        identifier ignored_any
    }
}

/// The ports of probes and hooks are numbers or names; those of containers and gRPC are numbers.
fn visitor_takes_any(pattern: &str) -> bool {
    [".httpGet.port", ".tcpSocket.port"].iter().any(|end| pattern.ends_with(end))
}

/// The paths of all fields that the API's type has, and a pod with each of them set.
fn every_field() -> (BTreeSet<String>, Pod) {
    let seen = RefCell::new(BTreeSet::new());
    let pod = Pod::deserialize(Explorer { pattern: String::new(), seen: &seen }).expect("explores");
    (seen.into_inner(), pod)
}

/// The fate of a field, by the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The pod runs.
    Runs,
    /// The pod is refused.
    Refused,
}

/// The lists whose items the table calls `container[]`.
const CONTAINER_LISTS: [&str; 3] = ["spec.containers[]", "spec.initContainers[]", "spec.ephemeralContainers[]"];

/// Objects whose fields each have a line of their own, so that a new one needs a decision.
const OPEN: [&str; 16] = [
    "metadata",
    "spec",
    "spec.affinity",
    "spec.resources",
    "spec.securityContext",
    "spec.tolerations[]",
    "spec.volumes[]",
    "spec.volumes[].projected.sources[]",
    "container[]",
    "container[].env[]",
    "container[].env[].valueFrom",
    "container[].envFrom[]",
    "container[].lifecycle",
    "container[].resources",
    "container[].securityContext",
    "container[].volumeMounts[]",
];

/// The table, by field.
fn table() -> BTreeMap<&'static str, Verdict> {
    let text = include_str!("../../../../tests/pod_fields.txt");
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut table = BTreeMap::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let verdict = match words[1..] {
            ["acted" | "ignored"] => Verdict::Runs,
            ["never"] => Verdict::Refused,
            ["until", issue] if issue.parse::<u32>().is_ok() => Verdict::Refused,
            _ => panic!("{line:?} says nothing that is known"),
        };
        assert_eq!(table.insert(words[0], verdict), None, "{line:?} is there twice");
    }
    table
}

/// The field as the table names it.
fn in_table(field: &str) -> String {
    let list = CONTAINER_LISTS.iter().find(|list| field.starts_with(**list));
    list.map_or_else(|| field.to_owned(), |list| field.replacen(list, "container[]", 1))
}

/// Whether `field` is `outer` or something in it.
fn is_within(field: &str, outer: &str) -> bool {
    field.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '{']))
}

fn refusals(spec: Value) -> Vec<(String, &'static str)> {
    let pod: Pod = serde_json::from_value(json!({"apiVersion": "v1", "kind": "Pod", "spec": spec})).expect("a pod");
    unsupported_fields(&pod).into_iter().map(|refusal| (refusal.path, refusal.reason)).collect()
}

/// POD-31.
#[test]
fn every_field_of_the_api_is_in_the_table() {
    let (fields, _) = every_field();
    assert!(fields.contains("spec.containers[].readinessProbe.httpGet.httpHeaders[].name"), "the exploration is deep");
    let table = table();
    for field in fields.iter().map(|field| in_table(field)) {
        let is_decided = table.keys().any(|line| is_within(&field, line));
        let is_shell = table.keys().any(|line| is_within(line, &field));
        assert!(is_decided || is_shell, "{field} is not in tests/pod_fields.txt: what becomes of it?");
    }
    for open in OPEN {
        assert!(!table.contains_key(open), "{open}: each of its fields has a line of its own");
    }
}

#[test]
fn every_line_of_the_table_names_a_field_of_the_api() {
    let fields: BTreeSet<String> = every_field().0.iter().map(|field| in_table(field)).collect();
    for line in table().keys() {
        assert!(fields.contains(*line) || ["apiVersion", "kind"].contains(line), "{line} is misspelt");
    }
}

#[test]
fn a_pod_with_every_field_survives_being_written_and_read() {
    let (_, pod) = every_field();
    let text = serde_json::to_string(&pod).expect("serialises");
    // The second is read as YAML.
    for text in [text.clone(), format!("---\n{text}")] {
        let decoded = decode_pod(text.as_bytes(), MANIFEST_SIZE_MAX).expect("decodes");
        assert_eq!(decoded, Decoded { pod: pod.clone(), warnings: vec![] });
    }
}

#[test]
fn a_pod_that_asks_for_everything_is_refused_for_what_the_table_says_and_nothing_else() {
    let (_, mut pod) = every_field();
    pod.spec.as_mut().expect("given").host_users = Some(false);
    let refused = unsupported_fields(&pod).into_iter().map(|refusal| refusal.path);
    let refused: BTreeSet<String> = refused.map(|path| in_table(&path.replace("[0]", "[]"))).collect();
    let mut expected: BTreeSet<String> = table()
        .into_iter()
        .filter(|(_, verdict)| *verdict == Verdict::Refused)
        .map(|(line, _)| line.to_owned())
        .collect();
    // One of another name than is given out.
    for whose in ["container[]", "spec"] {
        expected.extend(["limits", "requests"].map(|list| format!("{whose}.resources.{list}[key]")));
    }
    assert_eq!(refused, expected);
}

#[test]
fn a_plain_pod_is_supported() {
    let refused = refusals(json!({
        "containers": [{
            "name": "c", "image": "busybox", "command": ["sleep"], "args": ["1"], "workingDir": "/", "stdin": true,
            "tty": true,
            "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "127.0.0.1"}],
            "env": [{"name": "A", "value": "b"}, {"name": "N",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "2Gi"}, "requests": {"ephemeral-storage": "1Gi"}},
            "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1}, "securityContext": {},
            "livenessProbe": {"exec": {"command": ["a"]}, "terminationGracePeriodSeconds": 1},
            "startupProbe": {"grpc": {"port": 80}},
            "lifecycle": {"postStart": {"exec": {"command": ["a"]}}, "preStop": {"sleep": {"seconds": 0}}},
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}], "volumeMounts": [
                {"name": "v", "mountPath": "/v", "subPath": "a", "readOnly": true, "mountPropagation": "None"},
            ],
        }],
        "initContainers": [{"name": "i", "image": "busybox"}],
        "securityContext": {}, "hostNetwork": true, "hostPID": false, "hostUsers": false, "os": {"name": "linux"},
        "overhead": {"cpu": "1m"}, "tolerations": [{"operator": "Exists"}], "volumes": [
            {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "h", "hostPath": {"path": "/x", "type": "Directory"}},
            {"name": "d", "downwardAPI": {"defaultMode": 420, "items": [{"path": "p", "fieldRef": {"fieldPath": "x"}}]}},
            {"name": "p", "projected": {"defaultMode": 420, "sources": [{"downwardAPI": {"items": []}}]}},
        ],
        "shareProcessNamespace": false,
    }));
    assert_eq!(refused, []);
}

#[test]
fn what_is_not_done_is_refused_with_its_path() {
    let container = |fields: Value| {
        let mut container = fields;
        container["name"] = json!("c");
        json!({"containers": [container]})
    };
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = json!("v");
        json!({"containers": [], "volumes": [volume]})
    };
    for (spec, path, reason) in [
        (volume(json!({"flexVolume": {"driver": "d/d"}})), "spec.volumes[0].flexVolume", NO_VOLUME),
        (
            json!({"containers": [], "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}}),
            "spec.resources.requests[example.com/gpu]",
            NO_POD_RESOURCE,
        ),
        (
            container(json!({"resources": {"limits": {"hugepages-2Mi": "2Mi", "kubernetes.io/gpu": "1"}}})),
            "spec.containers[0].resources.limits[kubernetes.io/gpu]",
            NO_RESOURCE,
        ),
        (
            container(json!({"resources": {"limits": {"attachable-volumes-x": "2", "example.com/disk": "2"}}})),
            "spec.containers[0].resources.limits[attachable-volumes-x]",
            NO_RESOURCE,
        ),
    ] {
        assert_eq!(refusals(spec.clone()), [(path.to_owned(), reason)], "{spec}");
    }
}

/// A chart for Linux and Windows alike, a pod of a group that is scheduled together, and one that asks for nothing of a
/// device.
#[test]
fn what_has_no_effect_on_a_linux_node_refuses_nothing() {
    let windows = json!({"runAsUserName": "ContainerUser", "hostProcess": false, "gmsaCredentialSpecName": "x"});
    let refused = refusals(json!({
        "containers": [{
            "name": "c", "securityContext": {"windowsOptions": windows},
            "resources": {"limits": {"kubernetes.io/gpu": "0"}},
        }],
        "securityContext": {"windowsOptions": windows}, "schedulingGates": [{"name": "example.com/g"}],
        "schedulingGroup": {"podGroupName": "g"}, "preemptionPolicy": "Never", "hostUsers": true, "resourceClaims": [],
    }));
    assert_eq!(refused, []);
}
