//! Which volumes a pod uses, of which kind each is, and what the host is to do for it (VOL-02).

mod nested;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    CSIVolumeSource, ConfigMapVolumeSource, Container, DownwardAPIVolumeSource, EmptyDirVolumeSource, FCVolumeSource,
    ISCSIVolumeSource, ImageVolumeSource, NFSVolumeSource, Node, Pod, PodCertificateProjection, ProjectedVolumeSource,
    SecretVolumeSource, Volume,
};

use nested::nested_mount_points;

use super::content::downward::downward_payload;
use super::content::payload::{Payload, config_map_payload, secret_payload};
use super::content::projected::{Readers, Sources, projected_payload, token_key};
use super::content::token::TokenKey;
use super::content::trust::{TrustKey, trust_key};
use super::csi::migration::{is_migrated, is_read_only};
use super::mounting::mounting_containers;
use super::order::{ChangePolicy, FilesOrder, HostPathKind, Medium, Ownership, SetUp, VolumePlace, plugin};
use super::scsi::orders::{DiskUser, of_fc, of_iscsi};
use crate::logic::model::ids::PodUid;
use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::model::time::Moment;
use crate::logic::resources::{
    MEMORY, ResourceList, ResourceOptions, pod_cgroup_settings, pod_requests, resource_list,
};

/// A volume's kind, with all that the pod says of it.
#[derive(Clone, Debug, PartialEq)]
pub enum VolumeKind {
    /// emptyDir.
    EmptyDir(EmptyDirVolumeSource),
    /// hostPath.
    HostPath {
        /// Absolute.
        path: String,
        /// As the API writes it.
        kind: String,
    },
    /// configMap.
    ConfigMap(ConfigMapVolumeSource),
    /// secret.
    Secret(SecretVolumeSource),
    /// downwardAPI.
    DownwardApi(DownwardAPIVolumeSource),
    /// projected.
    Projected(ProjectedVolumeSource),
    /// A claim of the pod's namespace.
    Claim {
        /// Its name.
        claim: String,
        /// `persistentVolumeClaim.readOnly`.
        read_only: bool,
        /// Whether the pod must own it (a generic ephemeral volume).
        owned: bool,
    },
    /// nfs.
    Nfs(NFSVolumeSource),
    /// iscsi.
    Iscsi(Box<ISCSIVolumeSource>),
    /// fc.
    Fc(FCVolumeSource),
    /// An image: the runtime mounts it.
    Image(ImageVolumeSource),
    /// csi: a volume of a driver that the pod brings along itself.
    Csi(CSIVolumeSource),
    /// An in-tree kind that a driver took over.
    Migrated(Box<Volume>),
    /// A kind that this version does not mount; with its name.
    Refused(&'static str),
}

/// A volume that a pod uses.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumePlan {
    /// Its name in the pod.
    pub name: String,
    /// Its kind.
    pub kind: VolumeKind,
}

/// The facts of the node on which volumes depend.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// The node's resources for pods; at least its memory.
    pub allocatable: ResourceList,
    /// How resources become figures.
    pub resources: ResourceOptions,
}

/// Facts of the node from the configuration and the machine; its Node says it better.
#[derive(Clone, Debug)]
pub struct NodeMeans {
    /// The amounts that pods may use, as a Node would say it.
    pub allocatable: ResourceList,
    /// All memory of the machine, in bytes.
    pub memory_bytes: i64,
    /// How resources become figures.
    pub resources: ResourceOptions,
}

impl NodeFacts {
    /// The node's resources for pods, as its Node says it, if there is one; where nothing is said of memory, all of it.
    pub fn of(node: Option<&Node>, means: &NodeMeans) -> Self {
        let mut allocatable = node_allocatable(node, &means.allocatable);
        let all = || Quantity::from_units(means.memory_bytes, Format::BinarySi);
        allocatable.entry(MEMORY.to_owned()).or_insert_with(all);
        Self { allocatable, resources: means.resources }
    }
}

/// A node's resources for pods: as its Node says (upstream takes it from there), else `otherwise`.
pub fn node_allocatable(node: Option<&Node>, otherwise: &ResourceList) -> ResourceList {
    let told = node.and_then(|node| node.status.as_ref()?.allocatable.as_ref());
    match resource_list(told) {
        told if told.contains_key(MEMORY) => told,
        // Made to be registered, and not filled in yet.
        _ => otherwise.clone(),
    }
}

/// The volumes that some container of the pod mounts, in the pod's order. Others are not looked at.
pub fn volume_plans(pod: &Pod) -> Vec<VolumePlan> {
    let containers = mounting_containers(pod);
    let mounts = containers.iter().flat_map(|container| container.mounts).map(|mount| mount.name.as_str());
    let devices = containers.iter().flat_map(|container| container.devices).map(|device| device.name.as_str());
    let used: BTreeSet<&str> = mounts.chain(devices).collect();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let used = volumes.filter(|volume| used.contains(volume.name.as_str()));
    used.map(|volume| VolumePlan { name: volume.name.clone(), kind: kind(pod, volume) }).collect()
}

/// The plan of one volume of the pod, used or not.
pub fn volume_plan(pod: &Pod, name: &str) -> Option<VolumePlan> {
    let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let volume = volumes.find(|volume| volume.name == name)?;
    Some(VolumePlan { name: volume.name.clone(), kind: kind(pod, volume) })
}

/// The volumes of a container that are images, by name, in the pod's order.
pub fn mounted_images<'a>(pod: &'a Pod, container: &Container) -> Vec<(&'a str, &'a ImageVolumeSource)> {
    let mounts: BTreeSet<&str> = container.volume_mounts.iter().flatten().map(|mount| mount.name.as_str()).collect();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mounted = volumes.filter(|volume| mounts.contains(volume.name.as_str()));
    mounted.filter_map(|volume| Some((volume.name.as_str(), volume.image.as_ref()?))).collect()
}

fn kind(pod: &Pod, volume: &Volume) -> VolumeKind {
    if let Some(source) = &volume.empty_dir {
        return VolumeKind::EmptyDir(source.clone());
    }
    if let Some(source) = &volume.host_path {
        return VolumeKind::HostPath { path: source.path.clone(), kind: source.type_.clone().unwrap_or_default() };
    }
    if let Some(source) = &volume.config_map {
        return VolumeKind::ConfigMap(source.clone());
    }
    if let Some(source) = &volume.secret {
        return VolumeKind::Secret(source.clone());
    }
    if let Some(source) = &volume.downward_api {
        return VolumeKind::DownwardApi(source.clone());
    }
    if let Some(source) = &volume.projected {
        return VolumeKind::Projected(source.clone());
    }
    if let Some(source) = &volume.persistent_volume_claim {
        let read_only = source.read_only.unwrap_or(false);
        return VolumeKind::Claim { claim: source.claim_name.clone(), read_only, owned: false };
    }
    if volume.ephemeral.is_some() {
        let claim = format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name);
        return VolumeKind::Claim { claim, read_only: false, owned: true };
    }
    if let Some(source) = &volume.nfs {
        return VolumeKind::Nfs(source.clone());
    }
    if let Some(source) = &volume.iscsi {
        return VolumeKind::Iscsi(Box::new(source.clone()));
    }
    if let Some(source) = &volume.fc {
        return VolumeKind::Fc(source.clone());
    }
    if let Some(source) = &volume.image {
        return VolumeKind::Image(source.clone());
    }
    if let Some(source) = &volume.csi {
        return VolumeKind::Csi(source.clone());
    }
    if is_migrated(volume) {
        return VolumeKind::Migrated(Box::new(volume.clone()));
    }
    VolumeKind::Refused(refused_name(volume))
}

fn refused_name(volume: &Volume) -> &'static str {
    let kinds = [
        (volume.flex_volume.is_some(), "flexVolume"),
        (volume.git_repo.is_some(), "gitRepo"),
        (volume.cephfs.is_some(), "cephfs"),
        (volume.rbd.is_some(), "rbd"),
        (volume.glusterfs.is_some(), "glusterfs"),
        (volume.flocker.is_some(), "flocker"),
        (volume.quobyte.is_some(), "quobyte"),
        (volume.scale_io.is_some(), "scaleIO"),
        (volume.storageos.is_some(), "storageos"),
        (volume.photon_persistent_disk.is_some(), "photonPersistentDisk"),
    ];
    kinds.iter().find(|(given, _)| *given).map_or("a kind of its own", |(_, name)| name)
}

impl VolumePlan {
    /// Whether its files may change while the pod runs: it is set up again at each sync of the pod.
    pub fn is_set_up_again(&self) -> bool {
        matches!(
            self.kind,
            VolumeKind::ConfigMap(_) | VolumeKind::Secret(_) | VolumeKind::DownwardApi(_) | VolumeKind::Projected(_)
        )
    }

    /// Whether it is looked at again at each sync of the pod: its files may change, or its volume may have grown.
    pub fn is_looked_at_again(&self) -> bool {
        self.is_set_up_again() || matches!(self.kind, VolumeKind::Claim { read_only: false, .. })
    }

    /// Whether what it is depends on the Node: on its labels or identity, or on what it has for pods.
    pub fn needs_node(&self) -> bool {
        !matches!(
            self.kind,
            VolumeKind::ConfigMap(_)
                | VolumeKind::HostPath { .. }
                | VolumeKind::Nfs(_)
                | VolumeKind::Image(_)
                | VolumeKind::Refused(_)
        )
    }

    /// Whether containers may only read it, whatever their mount says.
    pub fn is_read_only(&self) -> bool {
        match &self.kind {
            VolumeKind::Nfs(source) => source.read_only.unwrap_or(false),
            VolumeKind::Iscsi(source) => source.read_only.unwrap_or(false),
            VolumeKind::Fc(source) => source.read_only.unwrap_or(false),
            VolumeKind::Csi(source) => source.read_only.unwrap_or(false),
            VolumeKind::Migrated(volume) => is_read_only(volume),
            VolumeKind::Image(_) | VolumeKind::Claim { read_only: true, .. } => true,
            _ => self.is_set_up_again(),
        }
    }

    /// Whether its files are to be labelled (upstream: those that it manages); of a claim its volume tells.
    pub fn is_relabelled(&self) -> bool {
        let is_disk = matches!(self.kind, VolumeKind::Iscsi(_) | VolumeKind::Fc(_));
        self.is_set_up_again() || matches!(self.kind, VolumeKind::EmptyDir(_)) || (is_disk && !self.is_read_only())
    }

    /// Its place on the node; `None` for a kind without a directory, and for a claim, whose place is its volume's.
    pub fn place(&self, uid: &PodUid) -> Option<VolumePlace> {
        let plugin = match self.kind {
            VolumeKind::EmptyDir(_) => plugin::EMPTY_DIR,
            VolumeKind::ConfigMap(_) => plugin::CONFIG_MAP,
            VolumeKind::Secret(_) => plugin::SECRET,
            VolumeKind::DownwardApi(_) => plugin::DOWNWARD_API,
            VolumeKind::Projected(_) => plugin::PROJECTED,
            VolumeKind::Nfs(_) => plugin::NFS,
            VolumeKind::Iscsi(_) => plugin::ISCSI,
            VolumeKind::Fc(_) => plugin::FC,
            VolumeKind::Csi(_) => plugin::CSI,
            VolumeKind::HostPath { .. }
            | VolumeKind::Claim { .. }
            | VolumeKind::Image(_)
            | VolumeKind::Migrated(_)
            | VolumeKind::Refused(_) => return None,
        };
        Some(VolumePlace { uid: uid.clone(), plugin: plugin.to_owned(), name: self.name.clone(), is_device: false })
    }

    /// The host's orders; claims are resolved elsewhere ([`super::claim`]).
    ///
    /// # Errors
    /// The text that follows `MountVolume.SetUp failed for volume "…" : `.
    pub fn set_up(&self, pod: &Pod, found: &Sources, node: &NodeFacts, now: Moment) -> Result<SetUp, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let allocatable = &node.allocatable;
        match &self.kind {
            VolumeKind::EmptyDir(source) => {
                let medium = empty_dir_medium(source, pod, node)?;
                let in_user_namespace = pod.spec.as_ref().and_then(|spec| spec.host_users) == Some(false);
                let counted = medium == Medium::Disk && in_user_namespace;
                Ok(SetUp::EmptyDir { medium, ownership: ownership(pod, false), counted })
            }
            VolumeKind::HostPath { path, kind } => {
                check_host_path(path)?;
                Ok(SetUp::HostPath { path: path.clone(), kind: HostPathKind::parse(kind)? })
            }
            VolumeKind::ConfigMap(source) => {
                let optional = source.optional.unwrap_or(false);
                let looked = found.config_maps.get(&source.name).ok_or("nobody looked for the ConfigMap")?;
                let object = looked.or_empty(optional)?;
                let items = source.items.as_deref().unwrap_or_default();
                let payload = config_map_payload(items, &object, source.default_mode, optional);
                self.files(payload.map_err(|error| text(&error))?, Medium::Disk, pod, now)
            }
            VolumeKind::Secret(source) => {
                let name = source.secret_name.as_deref().unwrap_or_default();
                let optional = source.optional.unwrap_or(false);
                let object = found.secrets.get(name).ok_or("nobody looked for the Secret")?.or_empty(optional)?;
                let items = source.items.as_deref().unwrap_or_default();
                let payload = secret_payload(items, &object, source.default_mode, optional);
                self.files(payload.map_err(|error| text(&error))?, memory(None, pod, node), pod, now)
            }
            VolumeKind::DownwardApi(source) => {
                let items = source.items.as_deref().unwrap_or_default();
                let payload = downward_payload(items, pod, source.default_mode, allocatable);
                self.files(payload.map_err(|error| text(&error))?, memory(None, pod, node), pod, now)
            }
            VolumeKind::Projected(source) => {
                let payload = projected_payload(source, pod, found, readers(pod), allocatable);
                self.files(payload.map_err(|error| text(&error))?, memory(None, pod, node), pod, now)
            }
            VolumeKind::Nfs(source) => nfs_set_up(source, source.read_only.unwrap_or(false), vec![]),
            VolumeKind::Iscsi(source) => {
                let order = of_iscsi(source, &self.name, self.disk_user(pod)).map_err(|error| text(&error))?;
                Ok(SetUp::Disk(Box::new(order), disk_ownership(pod, self.is_read_only())))
            }
            VolumeKind::Fc(source) => {
                let order = of_fc(source, self.disk_user(pod)).map_err(|error| text(&error))?;
                Ok(SetUp::Disk(Box::new(order), disk_ownership(pod, self.is_read_only())))
            }
            VolumeKind::Image(_) => Ok(SetUp::Nothing),
            VolumeKind::Claim { .. } => Err("the claim was not resolved".to_owned()),
            VolumeKind::Csi(_) | VolumeKind::Migrated(_) => Err("the driver was not asked".to_owned()),
            VolumeKind::Refused(kind) => {
                Err(format!("no volume plugin matched: {kind} is not mounted by this version"))
            }
        }
    }

    fn disk_user<'a>(&self, pod: &'a Pod) -> DiskUser<'a> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        DiskUser { namespace, read_only: self.is_read_only() }
    }

    fn files(&self, payload: Payload, medium: Medium, pod: &Pod, now: Moment) -> Result<SetUp, String> {
        let payload = payload.checked().map_err(|error| error.to_string())?;
        let mount_points = nested_mount_points(&self.name, pod)?;
        Ok(SetUp::Files(FilesOrder { medium, payload, mount_points, ownership: ownership(pod, true), now }))
    }
}

/// The objects that a volume's files come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// ConfigMaps of the pod's namespace.
    pub config_maps: BTreeSet<String>,
    /// Secrets of the pod's namespace.
    pub secrets: BTreeSet<String>,
    /// Tokens.
    pub tokens: BTreeSet<TokenKey>,
    /// Trust bundles.
    pub trust: BTreeSet<TrustKey>,
}

impl VolumePlan {
    /// The certificates that it holds, by the place of their source.
    pub fn certificates(&self) -> Vec<(usize, &PodCertificateProjection)> {
        let VolumeKind::Projected(source) = &self.kind else { return vec![] };
        let sources = source.sources.iter().flatten().enumerate();
        sources.filter_map(|(place, projection)| Some((place, projection.pod_certificate.as_ref()?))).collect()
    }

    /// The objects that must be looked for before [`Self::set_up`].
    pub fn needs(&self, pod: &Pod) -> Needs {
        let mut needs = Needs::default();
        match &self.kind {
            VolumeKind::ConfigMap(source) => drop(needs.config_maps.insert(source.name.clone())),
            VolumeKind::Secret(source) => {
                needs.secrets.insert(source.secret_name.clone().unwrap_or_default());
            }
            VolumeKind::Projected(source) => {
                for projection in source.sources.iter().flatten() {
                    needs.config_maps.extend(projection.config_map.iter().map(|source| source.name.clone()));
                    needs.secrets.extend(projection.secret.iter().map(|source| source.name.clone()));
                    let bundles = projection.cluster_trust_bundle.iter();
                    needs.trust.extend(bundles.filter_map(|source| trust_key(source).ok()));
                    needs.tokens.extend(projection.service_account_token.iter().map(|source| token_key(pod, source)));
                }
            }
            _ => {}
        }
        needs
    }
}

/// Checks the path of a volume that is a path of the host.
///
/// # Errors
/// Upstream's text.
pub fn check_host_path(path: &str) -> Result<(), String> {
    goes_up(path).map_err(|problem| format!("invalid HostPath `{path}`: {problem}"))
}

/// Whether a path leads upwards.
///
/// # Errors
/// Upstream's text, which its callers put words before.
pub fn goes_up(path: &str) -> Result<(), &'static str> {
    if path.split('/').any(|part| part == "..") { Err("path must not contain '..'") } else { Ok(()) }
}

/// The mount of a file server's directory (VOL-38). `options` are the persistent volume's.
///
/// # Errors
/// A server or path that the mount program would take for something else.
pub fn nfs_set_up(source: &NFSVolumeSource, read_only: bool, options: Vec<String>) -> Result<SetUp, String> {
    let (server, path) = (&source.server, &source.path);
    // Words of the pod's author that become an argument of a program that runs as root.
    if server.is_empty() || server.starts_with('-') || server.contains(['/', '\0', '\n']) || path.contains('\0') {
        return Err(format!("invalid server of an NFS volume: {server:?}"));
    }
    let server = if server.parse::<std::net::Ipv6Addr>().is_ok() { format!("[{server}]") } else { server.clone() };
    let own = read_only.then(|| "ro".to_owned());
    let options: BTreeSet<String> = options.into_iter().chain(own).collect();
    Ok(SetUp::Nfs { source: format!("{server}:{path}"), options: options.into_iter().collect() })
}

/// The pod's wishes about the ownership of a volume's files. Upstream ignores the policy for the agent's own kinds.
fn ownership(pod: &Pod, read_only: bool) -> Ownership {
    Ownership { fs_group: readers(pod).fs_group, policy: ChangePolicy::Always, read_only }
}

/// The pod's wishes about the ownership of files on a disk.
pub fn disk_ownership(pod: &Pod, read_only: bool) -> Ownership {
    Ownership { policy: change_policy(pod), ..ownership(pod, read_only) }
}

/// When the pod wants ownership of files to be changed.
pub fn change_policy(pod: &Pod) -> ChangePolicy {
    let security = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    match security.and_then(|security| security.fs_group_change_policy.as_deref()) {
        Some("OnRootMismatch") => ChangePolicy::OnRootMismatch,
        _ => ChangePolicy::Always,
    }
}

/// The pod's `fsGroup`, and the user of its containers if all have the same (VOL-30).
pub fn readers(pod: &Pod) -> Readers {
    let security = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let fs_group = security.and_then(|security| security.fs_group).and_then(|gid| u32::try_from(gid).ok());
    let pod_user = security.and_then(|security| security.run_as_user);
    let mut users = mounting_containers(pod)
        .into_iter()
        .map(|container| container.security.and_then(|security| security.run_as_user).or(pod_user));
    let first = users.next().flatten();
    let fs_user = first.filter(|first| users.all(|user| user == Some(*first))).and_then(|uid| u32::try_from(uid).ok());
    Readers { fs_user, fs_group }
}

fn empty_dir_medium(source: &EmptyDirVolumeSource, pod: &Pod, node: &NodeFacts) -> Result<Medium, String> {
    let limit = source.size_limit.as_ref().and_then(|limit| Quantity::parse(&limit.0).ok());
    match source.medium.as_deref().unwrap_or_default() {
        "" => Ok(Medium::Disk),
        "Memory" => Ok(memory(limit, pod, node)),
        "HugePages" => {
            let sizes = huge_page_sizes(pod, node);
            match sizes.iter().collect::<Vec<_>>().as_slice() {
                [size] => Ok(Medium::HugePages { page_size: **size }),
                [] => Err(no_huge_pages("HugePages")),
                _ => Err("medium: HugePages can't be used if container requests multiple huge page sizes".to_owned()),
            }
        }
        other => {
            let unknown = || format!("unknown storage medium {other:?}");
            let size = other.strip_prefix("HugePages-").ok_or_else(unknown)?;
            let size = Quantity::parse(size).map_err(|_| unknown())?.value();
            let page_size = u64::try_from(size).map_err(|_| unknown())?;
            if !huge_page_sizes(pod, node).contains(&page_size) {
                return Err(no_huge_pages(other));
            }
            Ok(Medium::HugePages { page_size })
        }
    }
}

fn no_huge_pages(medium: &str) -> String {
    format!("medium {medium}: hugePages storage requested, but there is no resource request for huge pages")
}

fn huge_page_sizes(pod: &Pod, node: &NodeFacts) -> BTreeSet<u64> {
    let requests = pod_requests(pod, node.resources.pod_level_resources, false);
    let wanted = requests.iter().filter(|(_, amount)| !amount.is_zero());
    let sizes = wanted.filter_map(|(name, _)| Quantity::parse(name.strip_prefix("hugepages-")?).ok());
    sizes.filter_map(|size| u64::try_from(size.value()).ok()).collect()
}

/// A tmpfs no larger than what the pod may use of memory: the node's, the pod's limit, the volume's limit.
fn memory(limit: Option<Quantity>, pod: &Pod, node: &NodeFacts) -> Medium {
    let pod_limit = pod_cgroup_settings(pod, false, &node.resources).memory_limit;
    let bounds = [node.allocatable.get(MEMORY).map(Quantity::value), pod_limit, limit.map(|limit| limit.value())];
    let smallest = bounds.into_iter().flatten().filter(|bytes| *bytes > 0).min();
    Medium::Memory { size_max: smallest.and_then(|bytes| u64::try_from(bytes).ok()) }
}

#[cfg(test)]
mod tests;
