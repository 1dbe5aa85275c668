//! From a pod to what the runtime is asked for, and from what the runtime tells back to the pod.
//!
//! Pure: a pod and facts in, plain types of this folder out. Values, names and error texts are upstream's, because a
//! runtime, its plugins, and a kubelet that takes over must not see a difference.

pub mod container;
mod facts;
pub mod labels;
pub mod observe;
mod resources;
pub mod sandbox;
pub mod security;

use k8s_openapi::api::core::v1::Pod;

use super::types::UserNamespace;
use crate::logic::environment::EnvironmentError;
use crate::logic::formats::expansion::TooLong;
use crate::logic::formats::path_segment::{UnsafeSegment, is_safe_segment};
use crate::logic::network::hostname::HostnameError;
pub use container::{container_config, needs_hosts_file};
pub use facts::{ContainerFacts, DeviceFacts, ImageUser};
pub use observe::{
    generation, pod_identity, runtime_container, runtime_pod, runtime_sandbox, sandbox_generation,
    termination_message_file,
};
pub use sandbox::{SandboxFacts, sandbox_config};

/// Why a pod cannot be put to the runtime. For a container its text becomes the message of
/// `CreateContainerConfigError`, for a sandbox that of `FailedCreatePodSandBox`; texts are upstream's where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// The pod has no valid host name.
    #[error(transparent)]
    Hostname(#[from] HostnameError),
    /// The environment cannot be built.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The security context asks for what cannot be.
    #[error(transparent)]
    Security(#[from] security::SecurityError),
    /// A volume mount has no mounted volume behind it.
    #[error("cannot find volume \"{volume}\" to mount into container \"{container}\"")]
    VolumeMissing {
        /// The volume's name.
        volume: String,
        /// The container's name.
        container: String,
    },
    /// A command or argument holds, once expanded, what is no text; the protocol cannot carry it.
    #[error("{field} of container {container} is not valid UTF-8 once expanded")]
    NotText {
        /// `command` or `args`.
        field: &'static str,
        /// The container's name.
        container: String,
    },
    /// A command, or the arguments, would be longer than what a program can be started with.
    #[error("{field} of container {container}: {TooLong}")]
    TooLong {
        /// `command` or `args`.
        field: &'static str,
        /// The container's name.
        container: String,
    },
    /// A name that becomes part of a path of the host would leave its directory.
    #[error("{field} {value:?} cannot be part of a path: {problem}")]
    UnsafeName {
        /// Which name.
        field: &'static str,
        /// Its value.
        value: String,
        /// The fault in it.
        problem: UnsafeSegment,
    },
}

/// The name, namespace and UID that paths and labels are made of, checked to be path segments.
pub(crate) struct PodNames<'a> {
    /// `metadata.name`.
    pub(crate) name: &'a str,
    /// `metadata.namespace`.
    pub(crate) namespace: &'a str,
    /// `metadata.uid`.
    pub(crate) uid: &'a str,
}

impl<'a> PodNames<'a> {
    /// The names of `pod`.
    pub(crate) fn of(pod: &'a Pod) -> Result<Self, MappingError> {
        let metadata = &pod.metadata;
        Ok(Self {
            name: segment("pod name", metadata.name.as_deref())?,
            namespace: segment("pod namespace", metadata.namespace.as_deref())?,
            uid: segment("pod UID", metadata.uid.as_deref())?,
        })
    }

    /// As upstream names a pod in messages: `name_namespace(uid)`.
    pub(crate) fn describe(&self) -> String {
        format!("{}_{}({})", self.name, self.namespace, self.uid)
    }
}

/// `value` if it is exactly one path segment.
pub(crate) fn segment<'a>(field: &'static str, value: Option<&'a str>) -> Result<&'a str, MappingError> {
    let value = value.unwrap_or_default();
    match is_safe_segment(value) {
        Ok(()) => Ok(value),
        Err(problem) => Err(MappingError::UnsafeName { field, value: value.to_owned(), problem }),
    }
}

/// Whether the pod uses the node's network.
pub(crate) fn is_host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false)
}

/// The pod's user namespace: the node's unless `hostUsers` is false; then the mappings that were handed out to it.
pub(crate) fn user_namespace(
    pod: &Pod,
    mappings: Option<&UserNamespace>,
) -> Result<UserNamespace, security::SecurityError> {
    if pod.spec.as_ref().and_then(|spec| spec.host_users).unwrap_or(true) {
        return Ok(UserNamespace { mode: super::NamespaceMode::Node, ..UserNamespace::default() });
    }
    mappings.cloned().ok_or(security::SecurityError::NoUserNamespace)
}

#[cfg(test)]
mod tests;
