//! A volume of a CSI driver, read out of a persistent volume or out of a pod, and the requests that follow from it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{CSIVolumeSource, PersistentVolume, Pod, SecretReference, Volume};
use serde_json::{Value, json};

use super::capabilities::NodeCapabilities;
use super::migration::{inline, is_read_only};
use super::names::{DevicePlace, Digest, attachment_name, ephemeral_handle, is_segment, unique_name};
use super::requests::{Access, AccessMode, Capability, ExpandRequest, PublishRequest, StageRequest, Texts};
use super::rules::{DriverRules, GroupPolicy};
use super::volume_data::{EPHEMERAL, PERSISTENT, VolumeData};
use crate::logic::model::ids::PodUid;
use crate::logic::volumes::content::token::{EXPIRATION_SECONDS, TokenKey};
use crate::logic::volumes::mounting::mount_label::mount_option;
use crate::logic::volumes::order::{VolumePlace, plugin};

/// The attribute, or secret, that tokens are in.
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";
/// The mode of a volume that names none, and of one that a pod brings along.
const ONE_NODE: &str = "ReadWriteOnce";

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct CsiSource {
    /// The driver's name.
    pub driver: String,
    /// The driver's name of the volume.
    pub handle: String,
    /// The volume's name in its place: the persistent volume's, or that in the pod.
    pub name: String,
    /// The file system type; empty leaves it to the driver.
    pub fs_type: String,
    /// Attributes.
    pub attributes: Texts,
    /// Where the secret for staging is.
    pub stage_secret: Option<SecretReference>,
    /// Where the secret for publishing is.
    pub publish_secret: Option<SecretReference>,
    /// Where the secret for growing it is.
    pub expand_secret: Option<SecretReference>,
    /// Access modes, as the API has them.
    pub access_modes: Vec<String>,
    /// Mount options.
    pub mount_options: Vec<String>,
    /// The label that it is mounted with, where SELinux decides (VOL-31); empty for none.
    pub label: String,
    /// Whether nobody may write.
    pub read_only: bool,
    /// Whether the pod brings it along.
    pub is_ephemeral: bool,
    /// Whether it is used as a device.
    pub is_block: bool,
    /// Whether the API has it as a volume of an in-tree kind.
    pub migrated: bool,
}

/// The findings of the agent for one volume.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The capabilities of the driver.
    pub capabilities: NodeCapabilities,
    /// The result of attaching.
    pub publish_context: Texts,
    /// The secret for the call.
    pub secrets: Texts,
    /// Tokens by audience: each with its expiry as the API writes it.
    pub tokens: BTreeMap<String, (String, String)>,
}

impl CsiSource {
    /// Reads a persistent volume; `None` where it is no driver's.
    ///
    /// # Errors
    /// Names that cannot be parts of paths.
    pub fn of_volume(volume: &PersistentVolume, read_only: bool) -> Option<Result<Self, String>> {
        let spec = volume.spec.as_ref()?;
        let source = spec.csi.as_ref()?;
        let read = Self {
            driver: source.driver.clone(),
            handle: source.volume_handle.clone(),
            name: volume.metadata.name.clone().unwrap_or_default(),
            fs_type: source.fs_type.clone().unwrap_or_default(),
            attributes: source.volume_attributes.clone().unwrap_or_default(),
            stage_secret: source.node_stage_secret_ref.clone(),
            publish_secret: source.node_publish_secret_ref.clone(),
            expand_secret: source.node_expand_secret_ref.clone(),
            access_modes: spec.access_modes.clone().unwrap_or_default(),
            mount_options: spec.mount_options.clone().unwrap_or_default(),
            label: String::new(),
            read_only,
            is_ephemeral: false,
            is_block: spec.volume_mode.as_deref() == Some("Block"),
            migrated: false,
        };
        Some(read.checked())
    }

    /// Reads a pod's own volume of an in-tree kind; `None` where it is of no such kind. As upstream, a slash in its name is no part
    /// of a path.
    ///
    /// # Errors
    /// It cannot be a driver's, or has names that cannot be parts of paths.
    pub fn of_migrated(volume: &Volume, namespace: &str) -> Option<Result<Self, String>> {
        let translated = match inline(volume, namespace)? {
            Ok(translated) => translated,
            Err(why) => return Some(Err(why.to_string())),
        };
        let mut named = translated;
        named.metadata.name = named.metadata.name.map(|name| name.replace('/', "~"));
        let read = Self::of_volume(&named, is_read_only(volume))?;
        Some(read.map(|source| Self { migrated: true, ..source }))
    }

    /// Reads a volume that a pod brings along. `name` is its name in the pod.
    ///
    /// # Errors
    /// Names that cannot be parts of paths.
    pub fn inline(source: &CSIVolumeSource, pod: &Pod, name: &str, digest: Digest) -> Result<Self, String> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let namespace = pod.metadata.namespace.clone();
        let secret = source.node_publish_secret_ref.as_ref();
        let read = Self {
            driver: source.driver.clone(),
            handle: ephemeral_handle(uid, name, digest),
            name: name.to_owned(),
            fs_type: source.fs_type.clone().unwrap_or_default(),
            attributes: source.volume_attributes.clone().unwrap_or_default(),
            stage_secret: None,
            publish_secret: secret.map(|secret| SecretReference { name: Some(secret.name.clone()), namespace }),
            expand_secret: None,
            access_modes: vec![],
            mount_options: vec![],
            label: String::new(),
            read_only: source.read_only.unwrap_or(false),
            is_ephemeral: true,
            is_block: false,
            migrated: false,
        };
        read.checked()
    }

    fn checked(self) -> Result<Self, String> {
        if let Some(wrong) = [&self.driver, &self.name].into_iter().find(|name| !is_segment(name)) {
            return Err(format!("{wrong:?} cannot be a name of a driver or of a volume"));
        }
        if self.handle.is_empty() { Err("missing volume id".to_owned()) } else { Ok(self) }
    }

    /// Its place for the whole node.
    pub fn device(&self, digest: Digest) -> DevicePlace {
        match self.is_block {
            true => DevicePlace::block(&self.name),
            false => DevicePlace::of(&self.driver, &self.handle, digest),
        }
    }

    /// Its place for a pod.
    pub fn place(&self, uid: &PodUid) -> VolumePlace {
        let (uid, plugin, name) = (uid.clone(), plugin::CSI.to_owned(), self.name.clone());
        VolumePlace { uid, plugin, name, is_device: self.is_block }
    }

    /// The Node's name of it.
    pub fn unique_name(&self) -> String {
        unique_name(&self.driver, &self.handle)
    }

    /// The VolumeAttachment's name.
    pub fn attachment(&self, node: &str, digest: Digest) -> String {
        attachment_name(&self.handle, &self.driver, node, digest)
    }

    /// Whether the cluster attaches it.
    pub fn is_attached(&self, rules: &DriverRules) -> bool {
        rules.attaches && !self.is_ephemeral
    }

    /// The content of the file in the pod's directory.
    pub fn pod_data(&self, node: &str, digest: Digest) -> VolumeData {
        VolumeData {
            attachment: self.attachment(node, digest),
            driver_name: self.driver.clone(),
            node_name: node.to_owned(),
            selinux_context: self.label.clone(),
            name: self.name.clone(),
            volume_handle: self.handle.clone(),
            mode: match (self.is_block, self.is_ephemeral) {
                (true, _) => "", // As upstream: its file has no such key.
                (false, true) => EPHEMERAL,
                (false, false) => PERSISTENT,
            }
            .to_owned(),
        }
    }

    /// The content of the file in the node's directory.
    pub fn device_data(&self) -> VolumeData {
        VolumeData {
            driver_name: self.driver.clone(),
            volume_handle: self.handle.clone(),
            name: self.name.clone(),
            selinux_context: self.label.clone(),
            ..VolumeData::default()
        }
    }

    fn capability(&self, can: NodeCapabilities, fs_group: Option<u32>) -> Result<Capability, String> {
        let mode = self.access_modes.first().map_or(ONE_NODE, String::as_str);
        let mode = AccessMode::of(mode, can.knows_single_node_modes)?;
        let access = if self.is_block {
            Access::Block
        } else {
            let (fs_type, mut flags) = (self.fs_type.clone(), self.mount_options.clone());
            flags.extend((!self.label.is_empty()).then(|| mount_option(&self.label)));
            Access::Mount { fs_type, flags, group: fs_group.filter(|_| can.gives_group) }
        };
        Ok(Capability { access, mode })
    }

    /// The call that stages it.
    ///
    /// # Errors
    /// An access mode that nobody knows.
    pub fn stage(&self, staging: String, found: &Found, fs_group: Option<u32>) -> Result<StageRequest, String> {
        Ok(StageRequest {
            volume: self.handle.clone(),
            publish_context: found.publish_context.clone(),
            staging,
            capability: self.capability(found.capabilities, fs_group)?,
            secrets: found.secrets.clone(),
            context: self.attributes.clone(),
        })
    }

    /// The call that publishes it. `staging` is empty for a driver that does not stage.
    ///
    /// # Errors
    /// An access mode that nobody knows.
    pub fn publish(
        &self,
        [staging, target]: [String; 2],
        found: &Found,
        rules: &DriverRules,
        pod: &Pod,
        fs_group: Option<u32>,
    ) -> Result<PublishRequest, String> {
        let (mut context, mut secrets) = (self.attributes.clone(), found.secrets.clone());
        if rules.wants_pod {
            context.extend(self.pod_info(pod));
        }
        // As upstream: a device comes without tokens.
        if !rules.tokens.is_empty() && !self.is_block {
            let target = if rules.tokens_in_secrets { &mut secrets } else { &mut context };
            target.insert(TOKENS.to_owned(), tokens_text(&found.tokens));
        }
        Ok(PublishRequest {
            volume: self.handle.clone(),
            publish_context: found.publish_context.clone(),
            staging,
            target,
            capability: self.capability(found.capabilities, fs_group)?,
            read_only: self.read_only,
            secrets,
            context,
        })
    }

    /// The call that grows it. `staging` is empty for a driver that does not stage.
    ///
    /// # Errors
    /// An access mode that nobody knows.
    pub fn expand(
        &self,
        [staging, path]: [String; 2],
        required_bytes: i64,
        found: &Found,
    ) -> Result<ExpandRequest, String> {
        Ok(ExpandRequest {
            volume: self.handle.clone(),
            path,
            staging,
            required_bytes,
            capability: self.capability(found.capabilities, None)?,
            secrets: found.secrets.clone(),
        })
    }

    fn pod_info(&self, pod: &Pod) -> Texts {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let account = pod.spec.as_ref().map(|spec| text(&spec.service_account_name)).unwrap_or_default();
        let pairs = [
            ("csi.storage.k8s.io/pod.name", text(&pod.metadata.name)),
            ("csi.storage.k8s.io/pod.namespace", text(&pod.metadata.namespace)),
            ("csi.storage.k8s.io/pod.uid", text(&pod.metadata.uid)),
            ("csi.storage.k8s.io/serviceAccount.name", account),
            ("csi.storage.k8s.io/ephemeral", self.is_ephemeral.to_string()),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Whether the agent gives the volume's files to the pod's group, for a pod that has one (VOL-44).
    pub fn gives_group(&self, rules: &DriverRules, can: NodeCapabilities) -> bool {
        let one_writer = self.is_ephemeral
            || self.access_modes.iter().any(|mode| mode == "ReadWriteOnce" || mode == "ReadWriteOncePod");
        let applies = match rules.group_policy {
            GroupPolicy::Never => false,
            GroupPolicy::Always => true,
            GroupPolicy::OneWriterWithType => !self.fs_type.is_empty() && one_writer,
        };
        applies && !self.read_only && !can.gives_group && !self.is_block
    }

    /// The tokens that the driver wants of this pod, by audience.
    pub fn token_keys(&self, rules: &DriverRules, pod: &Pod) -> Vec<(String, TokenKey)> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let account = pod.spec.as_ref().map(|spec| text(&spec.service_account_name)).unwrap_or_default();
        let key = |request: &k8s_openapi::api::storage::v1::TokenRequest| TokenKey {
            namespace: text(&pod.metadata.namespace),
            service_account: if account.is_empty() { "default".to_owned() } else { account.clone() },
            service_account_uid: String::new(),
            audience: request.audience.clone(),
            expiration_seconds: request.expiration_seconds.unwrap_or(EXPIRATION_SECONDS),
            pod_name: text(&pod.metadata.name),
            pod_uid: PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default()),
        };
        let wanted = rules.tokens.iter().filter(|_| !self.is_block);
        wanted.map(|request| (request.audience.clone(), key(request))).collect()
    }
}

/// Tokens as drivers read them: an object by audience.
fn tokens_text(tokens: &BTreeMap<String, (String, String)>) -> String {
    let entry = |(audience, (token, expires)): (&String, &(String, String))| {
        (audience.clone(), json!({ "token": token, "expirationTimestamp": expires }))
    };
    Value::Object(tokens.iter().map(entry).collect()).to_string()
}

#[cfg(test)]
mod tests;
