//! Which ConfigMaps and Secrets a pod refers to (VOL-50), and what a look for one gave.
//!
//! Used by `ObjectCache`, which keeps an object for as long as a pod refers to it. Keeps nothing.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, Pod, PodSpec, Volume};

/// The kinds of objects that are cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl ObjectKind {
    /// As upstream's texts name it.
    pub fn word(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Of which kind.
    pub kind: ObjectKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    /// The object of this kind, namespace and name.
    pub fn new(kind: ObjectKind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.word(), self.namespace, self.name)
    }
}

/// The result of a look for an object. No `Debug`: it may be a Secret.
#[derive(Clone)]
pub enum Looked<T> {
    /// It is there.
    There(Arc<T>),
    /// It does not exist; with the API's words.
    Missing(String),
    /// Nobody knows; with the reason.
    Unknown(String),
}

impl<T: Default> Looked<T> {
    /// The object; an empty one in place of one that may be missing and is.
    ///
    /// # Errors
    /// Why there is none.
    pub fn or_empty(&self, optional: bool) -> Result<Arc<T>, String> {
        match self {
            Self::There(object) => Ok(Arc::clone(object)),
            Self::Missing(_) if optional => Ok(Arc::default()),
            Self::Missing(why) | Self::Unknown(why) => Err(why.clone()),
        }
    }
}

/// Every ConfigMap and Secret that the pod refers to, in whatever place: its environment, volumes and pull secrets.
/// Names that are empty refer to nothing.
pub fn object_references(pod: &Pod) -> BTreeSet<ObjectKey> {
    let Some(spec) = &pod.spec else { return BTreeSet::new() };
    let mut names = Names::default();
    for reference in spec.image_pull_secrets.iter().flatten() {
        names.secret(Some(&reference.name));
    }
    each_environment(spec, |env_from, env| names.environment(env_from, env));
    for volume in spec.volumes.iter().flatten() {
        names.volume(volume);
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let keys = names.0.into_iter().filter(|(_, name)| !name.is_empty());
    keys.map(|(kind, name)| ObjectKey::new(kind, namespace, name)).collect()
}

/// The ConfigMaps and Secrets of the pod's namespace that one container's environment refers to.
pub fn environment_references<'a>(
    env_from: Option<&'a [EnvFromSource]>,
    env: Option<&'a [EnvVar]>,
) -> BTreeSet<(ObjectKind, &'a str)> {
    let mut names = Names::default();
    names.environment(env_from, env);
    names.0
}

fn each_environment<'a>(spec: &'a PodSpec, mut each: impl FnMut(Option<&'a [EnvFromSource]>, Option<&'a [EnvVar]>)) {
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        each(container.env_from.as_deref(), container.env.as_deref());
    }
    for container in spec.ephemeral_containers.iter().flatten() {
        each(container.env_from.as_deref(), container.env.as_deref());
    }
}

#[derive(Default)]
struct Names<'a>(BTreeSet<(ObjectKind, &'a str)>);

impl<'a> Names<'a> {
    fn config_map(&mut self, name: Option<&'a String>) {
        self.0.extend(name.map(|name| (ObjectKind::ConfigMap, name.as_str())));
    }

    fn secret(&mut self, name: Option<&'a String>) {
        self.0.extend(name.map(|name| (ObjectKind::Secret, name.as_str())));
    }

    fn environment(&mut self, env_from: Option<&'a [EnvFromSource]>, env: Option<&'a [EnvVar]>) {
        for source in env_from.into_iter().flatten() {
            self.config_map(source.config_map_ref.as_ref().map(|reference| &reference.name));
            self.secret(source.secret_ref.as_ref().map(|reference| &reference.name));
        }
        for source in env.into_iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            self.config_map(source.config_map_key_ref.as_ref().map(|reference| &reference.name));
            self.secret(source.secret_key_ref.as_ref().map(|reference| &reference.name));
        }
    }

    fn volume(&mut self, volume: &'a Volume) {
        self.config_map(volume.config_map.as_ref().map(|source| &source.name));
        self.secret(volume.secret.as_ref().and_then(|source| source.secret_name.as_ref()));
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            self.config_map(source.config_map.as_ref().map(|source| &source.name));
            self.secret(source.secret.as_ref().map(|source| &source.name));
        }
        self.secret(volume.azure_file.as_ref().map(|source| &source.secret_name));
        let references = [
            volume.csi.as_ref().and_then(|source| source.node_publish_secret_ref.as_ref()),
            volume.cephfs.as_ref().and_then(|source| source.secret_ref.as_ref()),
            volume.cinder.as_ref().and_then(|source| source.secret_ref.as_ref()),
            volume.flex_volume.as_ref().and_then(|source| source.secret_ref.as_ref()),
            volume.iscsi.as_ref().and_then(|source| source.secret_ref.as_ref()),
            volume.rbd.as_ref().and_then(|source| source.secret_ref.as_ref()),
            volume.scale_io.as_ref().map(|source| &source.secret_ref),
            volume.storageos.as_ref().and_then(|source| source.secret_ref.as_ref()),
        ];
        for reference in references.into_iter().flatten() {
            self.secret(Some(&reference.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(spec: Value) -> Vec<String> {
        let metadata = json!({ "name": "web", "namespace": "ns" });
        let pod: Pod = serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap();
        object_references(&pod).iter().map(ToString::to_string).collect()
    }

    fn volume(source: Value) -> Value {
        let mut volume = source;
        volume["name"] = "v".into();
        json!({ "containers": [], "volumes": [volume] })
    }

    #[test]
    fn references_are_found_wherever_they_are() {
        let env = json!([
            { "name": "A", "valueFrom": { "configMapKeyRef": { "name": "cm", "key": "k" } } },
            { "name": "B", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k", "optional": true } } },
            { "name": "C", "value": "plain" },
        ]);
        let env_from = json!([{ "configMapRef": { "name": "cm" } }, { "secretRef": { "name": "t" }, "prefix": "P_" }]);
        let container = json!({ "name": "c", "env": env, "envFrom": env_from });
        let three: &[&str] = &["configmap ns/cm", "secret ns/s", "secret ns/t"];
        let cases: [(Value, &[&str]); 16] = [
            (json!({ "containers": [] }), &[]),
            (json!({ "containers": [container] }), three),
            (json!({ "containers": [], "initContainers": [container] }), three),
            (json!({ "containers": [], "ephemeralContainers": [container] }), three),
            (json!({ "containers": [], "imagePullSecrets": [{ "name": "p" }, { "name": "" }, {}] }), &["secret ns/p"]),
            (volume(json!({ "configMap": { "name": "cm" } })), &["configmap ns/cm"]),
            (volume(json!({ "secret": { "secretName": "s", "optional": true } })), &["secret ns/s"]),
            (
                volume(json!({ "projected": { "sources": [
                    { "secret": { "name": "s" } }, { "configMap": { "name": "cm" } },
                    { "serviceAccountToken": { "path": "token" } },
                ] } })),
                &["configmap ns/cm", "secret ns/s"],
            ),
            (volume(json!({ "emptyDir": {} })), &[]),
            (volume(json!({ "csi": { "driver": "d", "nodePublishSecretRef": { "name": "s" } } })), &["secret ns/s"]),
            (volume(json!({ "azureFile": { "secretName": "s", "shareName": "x" } })), &["secret ns/s"]),
            (volume(json!({ "cephfs": { "monitors": [], "secretRef": { "name": "s" } } })), &["secret ns/s"]),
            (
                volume(json!({ "iscsi": {
                    "iqn": "i", "lun": 0, "targetPortal": "p", "secretRef": { "name": "s" },
                } })),
                &["secret ns/s"],
            ),
            (
                volume(json!({ "rbd": { "image": "i", "monitors": [], "secretRef": { "name": "s" } } })),
                &["secret ns/s"],
            ),
            (
                volume(json!({ "scaleIO": { "gateway": "g", "system": "s", "secretRef": { "name": "s" } } })),
                &["secret ns/s"],
            ),
            (volume(json!({ "persistentVolumeClaim": { "claimName": "c" } })), &[]),
        ];
        for (spec, expected) in cases {
            assert_eq!(found(spec.clone()), expected, "{spec}");
        }
    }

    #[test]
    fn a_pod_without_a_spec_refers_to_nothing() {
        assert!(object_references(&Pod::default()).is_empty());
    }
}
