//! A pod worker's questions about what is in the API server: for a container's environment, and to pull its image.

use std::collections::BTreeMap;

use futures_util::future::{join, join_all};
use k8s_openapi::api::core::v1::{Container, FileKeySelector, Pod, ResourceFieldSelector};

use super::site::JobSite;
use crate::actors::kit::trace::Cause;
use crate::actors::volumes::volume_manager::own_node;
use crate::logic::environment::env_file::{FILE_BYTES_MAX, value_of};
use crate::logic::environment::field_path::Addresses;
use crate::logic::environment::{EnvironmentSources, file_keys, resource_fields};
use crate::logic::events::reasons::EventReason;
use crate::logic::images::image_credentials::{Credential, Keyring};
use crate::logic::images::image_name::ImageName;
use crate::logic::objects::object_references::{ObjectKind, environment_references};
use crate::logic::pods::pod_roster::is_static;
use crate::logic::volumes::content::downward::variable_value;
use crate::logic::volumes::plan::{NodeFacts, NodeMeans};
use crate::logic::volumes::volume_states::{HANGS_AFTER, MountedVolumes};
use crate::platform::cluster::objects::{looked, patiently};
use crate::platform::volumes::VolumeError;

impl JobSite {
    /// Where the container's variables come from (CRI-13). A source that cannot be had gives its name as the error: whether
    /// that matters is decided with the environment.
    pub(super) async fn environment_sources(
        &self,
        pod: &Pod,
        container: &Container,
        addresses: Addresses,
        volumes: &MountedVolumes,
    ) -> EnvironmentSources {
        let objects = &self.tools.adapters.objects;
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let references = environment_references(container.env_from.as_deref(), container.env.as_deref());
        let named = |wanted: ObjectKind| {
            let names = references.iter().filter(move |(kind, _)| *kind == wanted);
            names.map(|(_, name)| *name).collect::<Vec<_>>()
        };
        let config_maps = named(ObjectKind::ConfigMap).into_iter().map(|name| async move {
            (name.to_owned(), looked(patiently("configmap", name, objects.config_map(namespace, name)).await))
        });
        let secrets = named(ObjectKind::Secret).into_iter().map(|name| async move {
            (name.to_owned(), looked(patiently("secret", name, objects.secret(namespace, name)).await))
        });
        let links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true);
        // A static pod does not wait for services: the API server may be one.
        let services = objects.service_variables(namespace, links, !is_static(pod));
        let (services, (config_maps, secrets)) = join(services, join(join_all(config_maps), join_all(secrets))).await;
        let mut resolved = self.resource_values(pod, container).await;
        for (index, selector) in file_keys(container) {
            resolved.insert(index, self.file_value(selector, volumes).await);
        }
        EnvironmentSources {
            config_maps: config_maps.into_iter().collect(),
            secrets: secrets.into_iter().collect(),
            services,
            resolved,
            addresses,
        }
    }

    /// The value of a key of a file in a volume; `None` when it may be missing and is (KEP-3721).
    async fn file_value(&self, selector: &FileKeySelector, volumes: &MountedVolumes) -> Result<Option<String>, String> {
        if !self.tools.settings.containers.env_files {
            return Ok(Some(String::new()));
        }
        let FileKeySelector { key, path, volume_name, optional } = selector;
        let missing = || format!("cannot find the volume {volume_name:?} referenced by FileKeyRef");
        let volume = volumes.volumes.get(volume_name).filter(|volume| !volume.host_path.is_empty());
        let root = &volume.ok_or_else(missing)?.host_path;
        let read = self.tools.adapters.volumes.read_file(root, path, FILE_BYTES_MAX);
        let read = match tokio::time::timeout(HANGS_AFTER, read).await {
            Ok(Err(VolumeError::Busy(_))) | Err(_) => {
                return Err(format!("couldn't read env file {path:?}: volume {volume_name:?} does not answer"));
            }
            Ok(read) => read,
        };
        let parsed = read.map_err(|error| error.to_string()).and_then(|bytes| {
            let bytes = bytes.ok_or_else(|| "no such file".to_owned())?;
            let text = String::from_utf8(bytes).map_err(|_| "is not valid UTF-8".to_owned())?;
            value_of(&text, key).map_err(|error| error.to_string())
        });
        // The fault in the file is for the node's log alone, as upstream: its text may be secret.
        let value = parsed.map_err(|error| {
            tracing::error!(pod = %self.full_name, file = path, error, "file of variables cannot be read");
            "couldn't parse env file".to_owned()
        })?;
        match value.is_empty() {
            false => Ok(Some(value)),
            true if optional.unwrap_or(false) => Ok(None),
            true => Err(format!("environment variable key {key:?} not found in file {path:?}")),
        }
    }

    async fn resource_values(
        &self,
        pod: &Pod,
        container: &Container,
    ) -> BTreeMap<usize, Result<Option<String>, String>> {
        let mut fields = resource_fields(container).peekable();
        if fields.peek().is_none() {
            return BTreeMap::new();
        }
        let node = own_node(&self.tools.to.node_status, Cause::outside("resource field")).await;
        let means = &self.tools.settings.resources.means;
        let node = match &self.machine {
            Some(machine) if node.is_none() => {
                let (allocatable, memory_bytes) = (machine.allocatable.clone(), machine.size.memory_bytes);
                NodeFacts::of(None, &NodeMeans { allocatable, memory_bytes, ..means.clone() })
            }
            _ => NodeFacts::of(node.as_deref(), means),
        };
        let value = |(index, selector): (usize, &ResourceFieldSelector)| {
            (index, variable_value(selector, pod, container, &node.allocatable).map(Some))
        };
        fields.map(value).collect()
    }

    /// The credentials of the pod's pull secrets that are for the image (CRI-23). A secret that cannot be had is told of by
    /// an Event, and the pull is tried with the rest.
    ///
    /// # Errors
    /// As upstream, one that is there and cannot be read keeps every image from being pulled. No log has its content.
    pub(super) async fn credentials(&self, pod: &Pod, image: &str, cause: &Cause) -> Result<Vec<Credential>, String> {
        let references = pod.spec.iter().flat_map(|spec| spec.image_pull_secrets.iter().flatten());
        let names: Vec<&str> =
            references.map(|reference| reference.name.as_str()).filter(|name| !name.is_empty()).collect();
        let Some(parsed) = ImageName::parse(image).ok().filter(|_| !names.is_empty()) else { return Ok(vec![]) };
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let objects = &self.tools.adapters.objects;
        let reads = names.iter().map(|name| patiently("secret", name, objects.secret(namespace, name)));
        let (mut keyring, mut failed, mut added) = (Keyring::default(), vec![], Ok(()));
        for (name, secret) in names.iter().zip(join_all(reads).await) {
            match secret {
                Ok(secret) => added = added.and_then(|()| keyring.add(&secret)),
                Err(error) => {
                    tracing::warn!(pod = %self.full_name, secret = name, %error, "pull secret cannot be had");
                    failed.push(*name);
                }
            }
        }
        if !failed.is_empty() {
            let message = format!(
                "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                failed.join(", ")
            );
            let event = self.subject(String::new()).warning(EventReason::FailedToRetrieveImagePullSecret, message);
            self.tell(cause, event);
        }
        added.map_err(|error| error.to_string())?;
        Ok(keyring.of(&parsed.repository))
    }
}

#[cfg(test)]
mod tests;
