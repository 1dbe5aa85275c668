//! Users, namespaces and profiles of sandbox and container (CRI-09).
//!
//! The effective value of a field is the container's, else the pod's.

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, Pod, PodSecurityContext, SELinuxOptions, SeccompProfile, SecurityContext,
};

use super::facts::{ContainerFacts, ImageUser};
use super::{PodNames, is_host_network, user_namespace};
use crate::cri::types::{
    LinuxContainerSecurityContext, NamespaceMode, NamespaceOptions, SeLinuxOption, SecurityProfile,
    SupplementalGroupsPolicy, UserNamespace,
};

/// Paths that are hidden from every container, unless `procMount` is `Unmasked`. Those of `thermal_throttle` differ
/// from node to node and come as a fact.
const MASKED_PATHS: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
/// Paths that are read-only in every container, unless `procMount` is `Unmasked`.
const READONLY_PATHS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];
/// Prefix of the annotation that held a container's AppArmor profile before there was a field.
const APPARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
/// Largest UID of the API.
const USER_ID_MAX: i64 = i32::MAX as i64;

/// Why a security context cannot be put to the runtime. The texts are upstream's, but for the last one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecurityError {
    /// `runAsNonRoot` with `runAsUser: 0`.
    #[error("container's runAsUser breaks non-root policy (pod: \"{pod}\", container: {container})")]
    RunAsRoot {
        /// `name_namespace(uid)`.
        pod: String,
        /// The container's name.
        container: String,
    },
    /// `runAsNonRoot` with an image whose user is a name.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root (pod: \
         \"{pod}\", container: {container})"
    )]
    NonNumericUser {
        /// The image's user.
        user: String,
        /// `name_namespace(uid)`.
        pod: String,
        /// The container's name.
        container: String,
    },
    /// `runAsNonRoot` with an image of root.
    #[error("container has runAsNonRoot and image will run as root (pod: \"{pod}\", container: {container})")]
    ImageRunsAsRoot {
        /// `name_namespace(uid)`.
        pod: String,
        /// The container's name.
        container: String,
    },
    /// `runAsNonRoot` with an image whose UID is out of range.
    #[error(
        "container has runAsNonRoot and image has an invalid user id ({uid}). (Must be 1-({USER_ID_MAX})): must be \
         between 0 and {USER_ID_MAX}, inclusive (pod: \"{pod}\", container: {container})"
    )]
    InvalidUser {
        /// The image's UID.
        uid: i64,
        /// `name_namespace(uid)`.
        pod: String,
        /// The container's name.
        container: String,
    },
    /// A local seccomp profile without a name.
    #[error("localhostProfile must be set if seccompProfile type is Localhost.")]
    NoSeccompProfile,
    /// A local seccomp profile outside of the directory of profiles.
    #[error("localhostProfile {profile:?} of seccompProfile leaves the directory of profiles")]
    SeccompProfilePath {
        /// The profile's name.
        profile: String,
    },
    /// A local AppArmor profile without a name.
    #[error("missing localhost apparmor profile name")]
    NoAppArmorProfile,
    /// No kind of AppArmor profile.
    #[error("unknown apparmor profile type: \"{0}\"")]
    AppArmorType(String),
    /// Neither `Merge` nor `Strict`.
    #[error("unsupported supplementalGroupsPolicy: {0}")]
    GroupsPolicy(String),
    /// `hostUsers: false`, and no mappings were handed out.
    #[error("no user namespace was set up for the pod")]
    NoUserNamespace,
}

/// Which namespaces the pod's sandbox and containers have.
pub(super) fn namespace_options(
    pod: &Pod,
    mappings: Option<&UserNamespace>,
) -> Result<NamespaceOptions, SecurityError> {
    let spec = pod.spec.as_ref();
    let is_set = |field: Option<bool>| field.unwrap_or(false);
    let node_or_pod = |on_node: bool| if on_node { NamespaceMode::Node } else { NamespaceMode::Pod };
    Ok(NamespaceOptions {
        network: node_or_pod(is_host_network(pod)),
        pid: if is_set(spec.and_then(|spec| spec.host_pid)) {
            NamespaceMode::Node
        } else if is_set(spec.and_then(|spec| spec.share_process_namespace)) {
            NamespaceMode::Pod
        } else {
            NamespaceMode::Container
        },
        ipc: node_or_pod(is_set(spec.and_then(|spec| spec.host_ipc))),
        target_id: String::new(),
        userns: Some(user_namespace(pod, mappings)?),
    })
}

/// The API's SELinux options as the runtime's.
pub(super) fn selinux_options(options: &SELinuxOptions) -> SeLinuxOption {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    SeLinuxOption {
        user: text(&options.user),
        role: text(&options.role),
        kind: text(&options.type_),
        level: text(&options.level),
    }
}

/// How the pod's further groups and the image's mix.
pub(super) fn supplemental_groups_policy(pod: &Pod) -> Result<SupplementalGroupsPolicy, SecurityError> {
    match pod_context(pod).and_then(|context| context.supplemental_groups_policy.as_deref()) {
        None | Some("Merge") => Ok(SupplementalGroupsPolicy::Merge),
        Some("Strict") => Ok(SupplementalGroupsPolicy::Strict),
        Some(other) => Err(SecurityError::GroupsPolicy(other.to_owned())),
    }
}

/// The security context of `container`.
pub(super) fn container_security_context(
    pod: &Pod,
    names: &PodNames<'_>,
    container: &Container,
    facts: &ContainerFacts,
) -> Result<LinuxContainerSecurityContext, SecurityError> {
    let (of_pod, own) = (pod_context(pod), container.security_context.as_ref());
    let user = effective(of_pod, own, |pod| pod.run_as_user, |own| own.run_as_user);
    if effective(of_pod, own, |pod| pod.run_as_non_root, |own| own.run_as_non_root).unwrap_or(false) {
        check_not_root(user, &facts.image_user, names, container)?;
    }
    let (run_as_user, run_as_username) = match (user, &facts.image_user) {
        (Some(uid), _) => (Some(uid), String::new()),
        (None, ImageUser::Uid(uid)) => (Some(*uid), String::new()),
        (None, ImageUser::Name(name)) => (None, name.clone()),
    };
    let flag = |field: fn(&SecurityContext) -> Option<bool>| own.and_then(field);
    let unmasked = own.and_then(|own| own.proc_mount.as_deref()) == Some("Unmasked");
    let capabilities = own.and_then(|own| own.capabilities.as_ref());
    let selinux = effective(of_pod, own, |pod| pod.se_linux_options.clone(), |own| own.se_linux_options.clone());
    let groups = of_pod.and_then(|context| context.supplemental_groups.clone()).unwrap_or_default();
    Ok(LinuxContainerSecurityContext {
        add_capabilities: capabilities.and_then(|capabilities| capabilities.add.clone()).unwrap_or_default(),
        drop_capabilities: capabilities.and_then(|capabilities| capabilities.drop.clone()).unwrap_or_default(),
        add_ambient_capabilities: Vec::new(),
        privileged: flag(|own| own.privileged).unwrap_or(false),
        namespace_options: container_namespaces(pod, facts)?,
        selinux_options: selinux.as_ref().map(selinux_options),
        run_as_user,
        run_as_group: effective(of_pod, own, |pod| pod.run_as_group, |own| own.run_as_group),
        run_as_username,
        readonly_rootfs: flag(|own| own.read_only_root_filesystem).unwrap_or(false),
        supplemental_groups: of_pod
            .and_then(|context| context.fs_group)
            .into_iter()
            .chain(groups)
            .chain(facts.volume_groups.iter().copied())
            .collect(),
        supplemental_groups_policy: supplemental_groups_policy(pod)?,
        no_new_privs: flag(|own| own.allow_privilege_escalation) == Some(false),
        masked_paths: if unmasked { Vec::new() } else { masked_paths(facts) },
        readonly_paths: if unmasked { Vec::new() } else { READONLY_PATHS.map(str::to_owned).to_vec() },
        seccomp: Some(seccomp(of_pod, own, facts)?),
        apparmor: apparmor(pod, container)?,
    })
}

fn pod_context(pod: &Pod) -> Option<&PodSecurityContext> {
    pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref())
}

/// The container's field, else the pod's.
fn effective<T>(
    of_pod: Option<&PodSecurityContext>,
    own: Option<&SecurityContext>,
    pod_field: impl Fn(&PodSecurityContext) -> Option<T>,
    own_field: impl Fn(&SecurityContext) -> Option<T>,
) -> Option<T> {
    own.and_then(own_field).or_else(|| of_pod.and_then(pod_field))
}

/// `runAsNonRoot`: a user's name cannot be verified, because only the image knows its UID.
fn check_not_root(
    user: Option<i64>,
    image_user: &ImageUser,
    names: &PodNames<'_>,
    container: &Container,
) -> Result<(), SecurityError> {
    let (pod, container) = (names.describe(), container.name.clone());
    match (user, image_user) {
        (Some(0), _) => Err(SecurityError::RunAsRoot { pod, container }),
        (Some(_), _) => Ok(()),
        (None, ImageUser::Name(user)) => Err(SecurityError::NonNumericUser { user: user.clone(), pod, container }),
        (None, ImageUser::Uid(0)) => Err(SecurityError::ImageRunsAsRoot { pod, container }),
        (None, ImageUser::Uid(1..=USER_ID_MAX)) => Ok(()),
        (None, ImageUser::Uid(uid)) => Err(SecurityError::InvalidUser { uid: *uid, pod, container }),
    }
}

/// The pod's namespaces; a container that debugs another joins that one's processes.
fn container_namespaces(pod: &Pod, facts: &ContainerFacts) -> Result<NamespaceOptions, SecurityError> {
    let mut options = namespace_options(pod, facts.user_namespace.as_ref())?;
    if let (Some(target), NamespaceMode::Container) = (&facts.target, options.pid) {
        options.pid = NamespaceMode::Target;
        options.target_id = target.to_string();
    }
    Ok(options)
}

fn masked_paths(facts: &ContainerFacts) -> Vec<String> {
    MASKED_PATHS.map(str::to_owned).into_iter().chain(facts.thermal_throttle_paths.iter().cloned()).collect()
}

fn seccomp(
    of_pod: Option<&PodSecurityContext>,
    own: Option<&SecurityContext>,
    facts: &ContainerFacts,
) -> Result<SecurityProfile, SecurityError> {
    let profile = effective(of_pod, own, |pod| pod.seccomp_profile.clone(), |own| own.seccomp_profile.clone());
    match profile {
        Some(profile) => seccomp_profile(&profile, &facts.seccomp_root),
        None if facts.seccomp_default => Ok(SecurityProfile::RuntimeDefault),
        None => Ok(SecurityProfile::Unconfined),
    }
}

/// A local profile is a file below `root`. The API server refuses names that leave it; a static pod's has not been
/// there, so the name is checked again.
fn seccomp_profile(profile: &SeccompProfile, root: &str) -> Result<SecurityProfile, SecurityError> {
    match profile.type_.as_str() {
        "RuntimeDefault" => Ok(SecurityProfile::RuntimeDefault),
        "Localhost" => {
            let name = profile.localhost_profile.as_deref().filter(|name| !name.is_empty());
            let name = name.ok_or(SecurityError::NoSeccompProfile)?;
            if name.starts_with('/') || name.contains('\0') || name.split('/').any(|part| part == "..") {
                return Err(SecurityError::SeccompProfilePath { profile: name.to_owned() });
            }
            Ok(SecurityProfile::Localhost(crate::logic::formats::go_text::clean_absolute(&format!("{root}/{name}"))))
        }
        _ => Ok(SecurityProfile::Unconfined),
    }
}

/// The container's profile; else the one of its annotation, which a static pod may still have; else the pod's.
fn apparmor(pod: &Pod, container: &Container) -> Result<Option<SecurityProfile>, SecurityError> {
    let field = container.security_context.as_ref().and_then(|own| own.app_armor_profile.as_ref());
    if let Some(profile) = field {
        return apparmor_profile(profile).map(Some);
    }
    let annotations = pod.metadata.annotations.as_ref();
    let annotation = annotations.and_then(|all| all.get(&format!("{APPARMOR_ANNOTATION}{}", container.name)));
    match annotation.map(String::as_str) {
        Some("runtime/default") => return Ok(Some(SecurityProfile::RuntimeDefault)),
        Some("unconfined") => return Ok(Some(SecurityProfile::Unconfined)),
        Some(text) => {
            if let Some(name) = text.strip_prefix("localhost/") {
                return Ok(Some(SecurityProfile::Localhost(name.to_owned())));
            }
        }
        None => {}
    }
    pod_context(pod).and_then(|context| context.app_armor_profile.as_ref()).map(apparmor_profile).transpose()
}

fn apparmor_profile(profile: &AppArmorProfile) -> Result<SecurityProfile, SecurityError> {
    match profile.type_.as_str() {
        "RuntimeDefault" => Ok(SecurityProfile::RuntimeDefault),
        "Unconfined" => Ok(SecurityProfile::Unconfined),
        "Localhost" => {
            profile.localhost_profile.clone().map(SecurityProfile::Localhost).ok_or(SecurityError::NoAppArmorProfile)
        }
        other => Err(SecurityError::AppArmorType(other.to_owned())),
    }
}
