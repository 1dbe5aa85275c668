//! Tests of [`super`]: the table against the API's own types, and a case for each kind of rule.

use super::*;
use crate::logic::manifest::{Decoded, MANIFEST_SIZE_MAX, decode_pod};
use proptest::prelude::*;
use serde::Deserialize;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Error, json};
use std::cell::RefCell;
use std::collections::BTreeSet;

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

/// All patterns of both tables, containers spelled out.
fn all_rules() -> Vec<(String, Rule)> {
    let containers = CONTAINER_LISTS
        .iter()
        .flat_map(|list| CONTAINER_RULES.iter().map(move |(pattern, rule)| (format!("{list}{pattern}"), *rule)));
    RULES.iter().map(|(pattern, rule)| ((*pattern).to_owned(), *rule)).chain(containers).collect()
}

fn refusals(spec: Value) -> Vec<(String, &'static str)> {
    let pod: Pod = serde_json::from_value(json!({"apiVersion": "v1", "kind": "Pod", "spec": spec})).expect("a pod");
    unsupported_fields(&pod).into_iter().map(|refusal| (refusal.path, refusal.reason)).collect()
}

#[test]
fn every_field_of_the_api_has_a_rule() {
    let (fields, _) = every_field();
    assert!(fields.contains("spec.containers[].readinessProbe.httpGet.httpHeaders[].name"), "the exploration is deep");
    for field in &fields {
        // The rule of the field itself, or the one of the nearest field around it that settles the matter.
        let settled = field
            .char_indices()
            .filter(|(_, c)| matches!(c, '.' | '[' | '{'))
            .map(|(at, _)| &field[..at])
            .chain([field.as_str()])
            .find_map(|part| match rule_of(part) {
                Some(Open) if part != field => None,
                Some(_) => Some(()),
                None => None,
            });
        assert!(settled.is_some(), "{field} has no rule: accept or refuse it");
    }
}

#[test]
fn every_rule_is_about_a_field_of_the_api() {
    let (fields, _) = every_field();
    for (pattern, _) in all_rules() {
        let field = pattern.split('{').next().unwrap_or_default().trim_end_matches("[]");
        assert!(fields.contains(field) || ["apiVersion", "kind"].contains(&field), "{pattern} is a misspelt rule");
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
fn rules_are_said_once() {
    let patterns: Vec<String> = all_rules().into_iter().map(|(pattern, _)| pattern).collect();
    assert_eq!(patterns.iter().collect::<BTreeSet<_>>().len(), patterns.len());
}

#[test]
fn a_pod_that_asks_for_everything_is_refused_for_each_rule() {
    let (_, pod) = every_field();
    let refused: BTreeSet<String> = unsupported_fields(&pod)
        .into_iter()
        .map(|refusal| refusal.path.replace("[0]", "[]").replace("[key]", "{}"))
        .collect();
    let expected: BTreeSet<String> = all_rules()
        .into_iter()
        .filter(|(pattern, rule)| match rule {
            Refuse(_) | RefuseAny(_) | RefuseGiven(_) => true,
            Only(allowed, _) => *allowed != "true" && !pattern.is_empty(),
            Accept | Open => false,
        })
        .map(|(pattern, _)| pattern)
        .collect();
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
        "securityContext": {}, "hostNetwork": true, "hostPID": false, "hostUsers": true, "os": {"name": "linux"},
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
        (volume(json!({"csi": {"driver": "d"}})), "spec.volumes[0].csi", NO_VOLUME),
        (
            json!({"containers": [], "securityContext": {"fsGroup": 1, "windowsOptions": {"hostProcess": false}}}),
            "spec.securityContext.windowsOptions",
            NO_WINDOWS,
        ),
        (
            json!({"containers": [], "hostUsers": false}),
            "spec.hostUsers",
            "user namespaces are not supported by this version",
        ),
        (
            json!({"containers": [], "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}}),
            "spec.resources.requests[example.com/gpu]",
            NO_POD_RESOURCE,
        ),
        (
            container(json!({"securityContext": {"windowsOptions": {"runAsUserName": "x"}}})),
            "spec.containers[0].securityContext.windowsOptions",
            NO_WINDOWS,
        ),
        (
            container(json!({"resources": {"limits": {"hugepages-2Mi": "2Mi", "example.com/gpu": "1"}}})),
            "spec.containers[0].resources.limits[example.com/gpu]",
            NO_RESOURCE,
        ),
        (
            container(json!({"resources": {"limits": {"example.com/disk": "2"}}})),
            "spec.containers[0].resources.limits[example.com/disk]",
            NO_RESOURCE,
        ),
    ] {
        assert_eq!(refusals(spec.clone()), [(path.to_owned(), reason)], "{spec}");
    }
}

proptest! {
    #[test]
    fn a_field_without_a_rule_is_refused(field in "[a-z]{1,12}") {
        prop_assume!(rule_of(&format!("spec.{field}")).is_none());
        let mut refused = Vec::new();
        walk_into(&Place { path: "spec".into(), pattern: "spec".into() }, &json!({(field.as_str()): {"x": false}}),
        &mut refused);
        prop_assert_eq!(refused, vec![Refusal { path: format!("spec.{field}"), reason: UNKNOWN }]);
    }
}
