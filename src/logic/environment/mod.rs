//! A container's environment: from ConfigMaps and Secrets, values, fields of the pod, and services.
//!
//! Keeps nothing. Values may be secret: nothing here prints one, and no error holds one.
//!
//! May import `formats`, `model`, `network` and `objects`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvVar, EnvVarSource, FileKeySelector, Pod, ResourceFieldSelector, Secret,
};

use crate::logic::environment::field_path::{Addresses, FieldPathError, field_value};
use crate::logic::formats::expansion::{EXPANDED_MAX, TooLong, expand};
use crate::logic::objects::object_references::Looked;

/// Annotation that tells where a pod came from.
const CONFIG_SOURCE: &str = "kubernetes.io/config.source";

/// Where variables get their values from, besides the pod itself. No `Debug`: it holds Secrets.
#[derive(Clone, Default)]
pub struct EnvironmentSources {
    /// Each ConfigMap of the pod's namespace that the container names.
    pub config_maps: BTreeMap<String, Looked<ConfigMap>>,
    /// Each Secret of the pod's namespace that the container names.
    pub secrets: BTreeMap<String, Looked<Secret>>,
    /// Variables of the services that the pod may see; `None` until services were read once.
    pub services: Option<Arc<BTreeMap<String, String>>>,
    /// Values of `resourceFieldRef` and `fileKeyRef`, by index in the container's `env`, or why there is none; `None`
    /// leaves the variable out (an optional file key that is not there).
    pub resolved: BTreeMap<usize, Result<Option<String>, String>>,
    /// Addresses of pod and node.
    pub addresses: Addresses,
}

/// Why a container's environment cannot be built. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// `enableServiceLinks` has no value, though the API gives it one.
    #[error("nil pod.spec.enableServiceLinks encountered, cannot construct envvars")]
    ServiceLinksUnset,
    /// Services were never read: the container would miss variables that it counts on. Goes away by itself.
    #[error("services have not yet been read at least once, cannot construct envvars")]
    ServicesUnread,
    /// A ConfigMap or Secret that must exist does not, or nobody knows; in the API's words.
    #[error("{0}")]
    Object(String),
    /// A ConfigMap or Secret lacks a key.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    NoKey {
        /// The key.
        key: String,
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        /// The pod's namespace.
        namespace: String,
        /// The object's name.
        name: String,
    },
    /// A field of the pod has no value.
    #[error(transparent)]
    Field(#[from] FieldPathError),
    /// A resource of a container, or a key of a file, has no value.
    #[error("{0}")]
    Resource(String),
    /// Nobody looked up what the variable refers to.
    #[error("value of environment variable {name} is not known")]
    Unresolved {
        /// The variable.
        name: String,
    },
    /// More than a program can be started with.
    #[error("environment variable {name} is {TooLong}, the ones before it included")]
    TooLong {
        /// The variable.
        name: String,
    },
}

/// Variables in order of first mention; a later value replaces an earlier one in its place. No `Debug`: values may be
/// secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: Vec<(String, Vec<u8>)>,
    places: BTreeMap<String, usize>,
    /// Bytes of all values.
    bytes: usize,
}

impl Environment {
    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: Vec<u8>) {
        self.bytes += value.len();
        match self.places.get(name) {
            Some(place) => {
                let before = std::mem::replace(&mut self.variables[*place].1, value);
                self.bytes -= before.len();
            }
            None => {
                self.places.insert(name.to_owned(), self.variables.len());
                self.variables.push((name.to_owned(), value));
            }
        }
    }

    /// A variable's value.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.places.get(name).map(|place| self.variables[*place].1.as_slice())
    }

    /// `words` with each `$(NAME)` replaced by that variable's value.
    ///
    /// # Errors
    /// Together they may have [`EXPANDED_MAX`] bytes.
    pub fn expand(&self, words: &[String]) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut left = EXPANDED_MAX;
        let expanded = words.iter().map(|word| {
            let word = expand(word.as_bytes(), left, |name| self.get(std::str::from_utf8(name).ok()?))?;
            left = left.saturating_sub(word.len());
            Ok(word)
        });
        expanded.collect()
    }

    /// Names and values, in order.
    pub fn into_variables(self) -> Vec<(String, Vec<u8>)> {
        self.variables
    }
}

/// The environment of `container`: `envFrom`, then `env`, which overrides, then services for names still free.
///
/// # Errors
/// When a source that is not optional is missing, or services were not read yet (static pods do not wait for them).
pub fn container_environment(
    pod: &Pod,
    container: &Container,
    sources: &EnvironmentSources,
) -> Result<Environment, EnvironmentError> {
    if pod.spec.as_ref().is_none_or(|spec| spec.enable_service_links.is_none()) {
        return Err(EnvironmentError::ServiceLinksUnset);
    }
    let none = BTreeMap::new();
    let services = match &sources.services {
        Some(services) => services.as_ref(),
        None if is_static(pod) => &none,
        None => return Err(EnvironmentError::ServicesUnread),
    };
    let mut environment = Environment::default();
    add_whole_objects(container, sources, &mut environment)?;
    for (index, variable) in container.env.iter().flatten().enumerate() {
        if let Some(value) = variable_value(pod, index, variable, sources, &environment, services)? {
            environment.set(&variable.name, value);
        }
    }
    for (name, value) in services {
        if environment.get(name).is_none() {
            environment.set(name, value.clone().into_bytes());
        }
    }
    Ok(environment)
}

/// The `resourceFieldRef`s of a container's `env`, by their index in it.
pub fn resource_fields(container: &Container) -> impl Iterator<Item = (usize, &ResourceFieldSelector)> {
    let variables = container.env.iter().flatten().enumerate();
    variables.filter_map(|(index, variable)| Some((index, variable.value_from.as_ref()?.resource_field_ref.as_ref()?)))
}

/// The `fileKeyRef`s of a container's `env`, by their index in it.
pub fn file_keys(container: &Container) -> impl Iterator<Item = (usize, &FileKeySelector)> {
    let variables = container.env.iter().flatten().enumerate();
    variables.filter_map(|(index, variable)| Some((index, variable.value_from.as_ref()?.file_key_ref.as_ref()?)))
}

/// A pod from file or URL: its source annotation names something else than the API server.
fn is_static(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.and_then(|annotations| annotations.get(CONFIG_SOURCE)).is_some_and(|source| source != "api")
}

/// `envFrom`: every key of whole ConfigMaps and Secrets, in order of mention.
fn add_whole_objects(
    container: &Container,
    sources: &EnvironmentSources,
    environment: &mut Environment,
) -> Result<(), EnvironmentError> {
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        if let Some(reference) = &source.config_map_ref {
            let found = find("configmap", &sources.config_maps, &reference.name, reference.optional)?;
            for (key, value) in found.into_iter().flat_map(|object| object.data.iter().flatten()) {
                environment.set(&format!("{prefix}{key}"), value.clone().into_bytes());
            }
        } else if let Some(reference) = &source.secret_ref {
            let found = find("secret", &sources.secrets, &reference.name, reference.optional)?;
            for (key, value) in found.into_iter().flat_map(|object| object.data.iter().flatten()) {
                environment.set(&format!("{prefix}{key}"), value.0.clone());
            }
        }
    }
    Ok(())
}

/// One variable's value; `None` leaves it out. A value that is not empty wins over a source.
fn variable_value(
    pod: &Pod,
    index: usize,
    variable: &EnvVar,
    sources: &EnvironmentSources,
    environment: &Environment,
    services: &BTreeMap<String, String>,
) -> Result<Option<Vec<u8>>, EnvironmentError> {
    if let Some(value) = variable.value.as_deref().filter(|value| !value.is_empty()) {
        let lookup = |name: &[u8]| {
            let name = std::str::from_utf8(name).ok()?;
            environment.get(name).or_else(|| services.get(name).map(String::as_bytes))
        };
        let left = EXPANDED_MAX.saturating_sub(environment.bytes);
        let too_long = |TooLong| EnvironmentError::TooLong { name: variable.name.clone() };
        return expand(value.as_bytes(), left, lookup).map(Some).map_err(too_long);
    }
    match &variable.value_from {
        Some(source) => sourced_value(pod, index, variable, source, sources),
        None => Ok(Some(Vec::new())),
    }
}

fn sourced_value(
    pod: &Pod,
    index: usize,
    variable: &EnvVar,
    source: &EnvVarSource,
    sources: &EnvironmentSources,
) -> Result<Option<Vec<u8>>, EnvironmentError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(field) = &source.field_ref {
        return Ok(Some(field_value(field, pod, &sources.addresses)?.into_bytes()));
    }
    if let Some(reference) = &source.config_map_key_ref {
        let found = find("configmap", &sources.config_maps, &reference.name, reference.optional)?;
        let value = found.and_then(|object| object.data.as_ref()?.get(&reference.key));
        let value = value.map(|value| value.clone().into_bytes());
        return key_value("ConfigMap", namespace, &reference.name, &reference.key, reference.optional, value);
    }
    if let Some(reference) = &source.secret_key_ref {
        let found = find("secret", &sources.secrets, &reference.name, reference.optional)?;
        let value = found.and_then(|object| object.data.as_ref()?.get(&reference.key)).map(|value| value.0.clone());
        return key_value("Secret", namespace, &reference.name, &reference.key, reference.optional, value);
    }
    if source.resource_field_ref.is_some() || source.file_key_ref.is_some() {
        let unresolved = || EnvironmentError::Unresolved { name: variable.name.clone() };
        let resolved = sources.resolved.get(&index).ok_or_else(unresolved)?.clone();
        return Ok(resolved.map_err(EnvironmentError::Resource)?.map(String::into_bytes));
    }
    Ok(Some(Vec::new()))
}

/// The object of this name; `None` when it may be missing and is.
fn find<'a, T>(
    kind: &'static str,
    objects: &'a BTreeMap<String, Looked<T>>,
    name: &str,
    optional: Option<bool>,
) -> Result<Option<&'a T>, EnvironmentError> {
    match objects.get(name) {
        Some(Looked::There(object)) => Ok(Some(object.as_ref())),
        Some(Looked::Unknown(why)) => Err(EnvironmentError::Object(why.clone())),
        Some(Looked::Missing(_)) | None if optional.unwrap_or(false) => Ok(None),
        Some(Looked::Missing(why)) => Err(EnvironmentError::Object(why.clone())),
        None => Err(EnvironmentError::Object(format!("{kind} \"{name}\" not found"))),
    }
}

/// The value of one key; `None` when it or, where it may be missing, its object is not there.
fn key_value(
    kind: &'static str,
    namespace: &str,
    name: &str,
    key: &str,
    optional: Option<bool>,
    value: Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>, EnvironmentError> {
    match value {
        Some(value) => Ok(Some(value)),
        None if optional.unwrap_or(false) => Ok(None),
        None => Err(EnvironmentError::NoKey {
            key: key.to_owned(),
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }),
    }
}

pub mod env_file;
pub mod field_path;
pub mod service_environment;
#[cfg(test)]
mod tests;
