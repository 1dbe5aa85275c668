//! The facts, besides the pod, that the mapping of a container needs.

use crate::cri::types::{Device, Image, Labels, LinuxContainerResources, Mount, UserNamespace};
use crate::logic::environment::EnvironmentSources;
use crate::logic::model::ids::ContainerId;

/// The user that an image runs as when nobody says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageUser {
    /// Its UID; 0 when the image names no user.
    Uid(i64),
    /// A name that only the image can resolve.
    Name(String),
}

impl Default for ImageUser {
    /// An image without a user runs as root.
    fn default() -> Self {
        Self::Uid(0)
    }
}

impl ImageUser {
    /// The user of `image`, as `ImageStatus` of the pod's image told it; `None` for an image that is not there.
    pub fn of(image: Option<&Image>) -> Self {
        image.map_or_else(Self::default, |image| Self::new(image.uid, &image.username))
    }

    /// The user of an image that has this UID, or else this name, or else none.
    pub fn new(uid: Option<i64>, username: &str) -> Self {
        match uid {
            Some(uid) => Self::Uid(uid),
            None if username.is_empty() => Self::default(),
            None => Self::Name(username.to_owned()),
        }
    }
}

/// The facts, besides the pod, that a container's configuration needs. No `Debug`: it holds Secrets.
#[derive(Clone, Default)]
pub struct ContainerFacts {
    /// How often it was started before.
    pub restart_count: u32,
    /// The image's reference, as the pull step gave it.
    pub image_ref: String,
    /// The image's user.
    pub image_user: ImageUser,
    /// ConfigMaps, Secrets, services and addresses. Its `pod_ips` also decide about `/etc/hosts`.
    pub environment: EnvironmentSources,
    /// Limits and shares.
    pub resources: LinuxContainerResources,
    /// The pod's hosts file on the host, already written; see [`needs_hosts_file`].
    pub etc_hosts_path: Option<String>,
    /// The file for the termination message on the host, already made, mode 0666; `None` leaves the mount out.
    pub termination_log_path: Option<String>,
    /// Whether SELinux is on.
    pub selinux_enabled: bool,
    /// `seccompDefault` of the configuration.
    pub seccomp_default: bool,
    /// Directory of local seccomp profiles: `<root directory>/seccomp`.
    pub seccomp_root: String,
    /// The node's `/sys/devices/system/cpu/cpu<N>/thermal_throttle` that exist, in order of N.
    pub thermal_throttle_paths: Vec<String>,
    /// Mappings of the pod's user namespace, for `hostUsers: false`.
    pub user_namespace: Option<UserNamespace>,
    /// Groups from annotations of the pod's persistent volumes.
    pub volume_groups: Vec<i64>,
    /// The container whose processes an ephemeral container joins.
    pub target: Option<ContainerId>,
    /// One mount for each of the container's `volumeMounts`, in that order.
    pub volume_mounts: Vec<Mount>,
    /// The parts from device plugins.
    pub devices: DeviceFacts,
}

/// The parts that device plugins and block volumes add to a container.
#[derive(Clone, Debug, Default)]
pub struct DeviceFacts {
    /// Devices.
    pub devices: Vec<Device>,
    /// Names of CDI devices.
    pub cdi_devices: Vec<String>,
    /// Mounts; they come before all others.
    pub mounts: Vec<Mount>,
    /// Variables; the container's own of the same name come later and win.
    pub variables: Vec<(String, String)>,
    /// Annotations; the agent's own of the same name win.
    pub annotations: Labels,
}
