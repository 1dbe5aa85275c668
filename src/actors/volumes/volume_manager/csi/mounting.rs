//! Mounting a driver's volume for a pod: wait until it is attached, stage it for the node, publish it for the pod (VOL-41). A
//! device (VOL-47) is mapped after that.
//!
//! A note is on the disk before each call of a driver, so that an agent that comes after a crash can undo the call. A driver that is
//! done with a call and refused it has left nothing; after any other failure the traces stay (VOL-45).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::SecretReference;

use super::super::own_node;
use super::super::tasks::{MountTask, label_failure, step_failed};
use super::super::timing::driven_plugin;
use super::words::Words;
use crate::logic::plugins::call_error::CallError;
use crate::logic::volumes::csi::attachment::{NotAttached, check_attachment, check_node};
use crate::logic::volumes::csi::capabilities::NodeCapabilities;
use crate::logic::volumes::csi::names::DevicePlace;
use crate::logic::volumes::csi::requests::Texts;
use crate::logic::volumes::csi::rules::DriverRules;
use crate::logic::volumes::csi::source::{CsiSource, Found};
use crate::logic::volumes::csi::users::VolumeUser;
use crate::logic::volumes::mounting::mount_label::{LabelConflict, MountLabel};
use crate::logic::volumes::order::{Ownership, VolumePlace};
use crate::logic::volumes::plan::{change_policy, readers};
use crate::logic::volumes::steps::VolumeStep;
use crate::logic::volumes::volume_states::TaskFailure;
use crate::messages::volume_manager::NewSecrets;
use crate::platform::cluster::objects::{ObjectError, patiently};
use crate::platform::network::tls::sha256_hex;
use crate::platform::observer::LabelNews;
use crate::platform::volumes::csi::target_path;
use crate::platform::volumes::{Progress, VolumeError};

/// Waits for an attachment within one task: the first, and the longest.
pub(in crate::actors::volumes::volume_manager) const ATTACH_WAIT: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(2));
/// How long one task waits for it: less than after which a task is said to hang.
pub(in crate::actors::volumes::volume_manager) const ATTACH_PATIENCE: Duration = Duration::from_secs(20);

/// A volume that is there.
pub(in crate::actors::volumes::volume_manager) struct CsiMounted {
    /// Its path for containers.
    pub(in crate::actors::volumes::volume_manager) host_path: String,
    /// Whether it is published again at each sync of the pod.
    pub(in crate::actors::volumes::volume_manager) republish: bool,
    /// The label that the pod has for it, where the driver takes one; empty where the pod has none.
    pub(in crate::actors::volumes::volume_manager) label: Option<String>,
    /// Whether it is mounted with that.
    pub(in crate::actors::volumes::volume_manager) is_labelled: bool,
    /// Where it is for its driver.
    pub(in crate::actors::volumes::volume_manager) served: Served,
}

/// Where a volume is for its driver.
pub(in crate::actors::volumes::volume_manager) struct Served {
    /// Where the driver serves.
    pub(in crate::actors::volumes::volume_manager) at: String,
    pub(in crate::actors::volumes::volume_manager) can: NodeCapabilities,
    /// Where it is staged; empty where it is not.
    pub(in crate::actors::volumes::volume_manager) staging: String,
    /// Where it is published; of a device, the device.
    pub(in crate::actors::volumes::volume_manager) path: String,
}

/// One mount under way.
struct Mount<'a> {
    task: &'a MountTask,
    source: &'a CsiSource,
    words: Words,
    rules: DriverRules,
    place: VolumePlace,
    /// Where the driver serves.
    at: String,
    can: NodeCapabilities,
    fs_group: Option<u32>,
    /// Where SELinux is on and the driver takes one.
    label: Option<MountLabel>,
}

/// Whether a pod has this volume, as the disk tells it.
fn has(user: &VolumeUser, source: &CsiSource) -> bool {
    user.has(&source.driver, &source.handle, &source.name)
}

impl MountTask {
    /// Has a driver's volume there.
    pub(in crate::actors::volumes::volume_manager) async fn mount_csi(
        &self,
        source: &CsiSource,
        label: Option<MountLabel>,
        new: &mut NewSecrets,
    ) -> Result<CsiMounted, TaskFailure> {
        let words = Words::of(source);
        let failed = |(step, text): (VolumeStep, &str), why: &dyn std::fmt::Display| {
            step_failed(step, &source.name, format!("{text}{why}"))
        };
        let rules = self.driver_rules(&source.driver).await.map_err(|error| failed(words.rules, &error))?;
        if !source.is_block {
            // As upstream: a device is not asked for otherwise than by a claim.
            rules.check_mode(&source.driver, source.is_ephemeral).map_err(|why| failed(words.rules, &why))?;
        }
        let publish_context = self.attached(source, &rules).await?;
        let at = self.csi.volumes.endpoint(&source.driver).await.map_err(|why| failed(words.client, &why))?;
        let can = self.csi.volumes.calls.capabilities(&at).await.map_err(|error| failed(words.can, &error))?;
        let (place, fs_group) = (source.place(&self.uid), readers(&self.pod).fs_group.filter(|_| !source.is_block));
        let label = label.filter(|_| rules.takes_label && !source.is_block);
        let of_mount = self.label_of_mount(source, &place, label.as_ref()).await;
        let of_mount = of_mount.map_err(|error| failed((words.note, ""), &error))?;
        let source = &CsiSource { label: of_mount, ..source.clone() };
        let mount = Mount { task: self, source, words, rules, place, at, can, fs_group, label };
        mount.run(publish_context, new).await
    }

    /// The label that the volume is mounted with; empty for none. A pod that has it already keeps the one that it has it with: an
    /// agent that knew of no labels may have mounted it.
    async fn label_of_mount(
        &self,
        source: &CsiSource,
        place: &VolumePlace,
        label: Option<&MountLabel>,
    ) -> Result<String, VolumeError> {
        let Some(label) = label else { return Ok(String::new()) };
        let users = self.csi.volumes.host.users().await?;
        // A file that cannot be read is written anew for this mount.
        let own = users.into_iter().find(|user| user.place == *place && has(user, source));
        Ok(match own.and_then(|user| user.data) {
            Some(data) => data.selinux_context,
            None if label.binds => label.label.clone(),
            None => String::new(),
        })
    }

    /// The driver's rules, as the cluster has them.
    async fn driver_rules(&self, driver: &str) -> Result<DriverRules, ObjectError> {
        match patiently("csidriver", driver, self.objects.csi_driver(driver)).await {
            Ok(object) => Ok(DriverRules::of(Some(&object))),
            Err(ObjectError::NotFound(_)) => Ok(DriverRules::of(None)),
            Err(error) => Err(error),
        }
    }

    /// Waits until the cluster attached the volume; gives what it said for the driver (VOL-09).
    async fn attached(&self, source: &CsiSource, rules: &DriverRules) -> Result<Texts, TaskFailure> {
        if !source.is_attached(rules) {
            return Ok(Texts::new());
        }
        // The Node has to say first that the volume is in use: else it might be detached under the pod.
        (self.csi.attaches)(source.unique_name());
        let (mut wait, mut waited) = (ATTACH_WAIT.0, Duration::ZERO);
        let mut verifying = Some(self.timing.clock.uptime());
        let mut verified = |failed| {
            if let Some(began) = verifying.take() {
                self.timing.told_of_source(source, "verify_controller_attached_volume", began, failed);
            }
        };
        loop {
            let looked = self.look_at_attachment(source).await;
            if !matches!(looked, Err(NotAttached::NotInUse | NotAttached::NotListed)) {
                verified(false);
            }
            let why = match looked {
                Ok(context) => return Ok(context),
                Err(why) => why,
            };
            if matches!(why, NotAttached::Failed { .. }) || waited + wait > ATTACH_PATIENCE {
                verified(true);
                return Err(self.not_attached(source, rules, why).await);
            }
            tokio::time::sleep(wait).await;
            waited += wait;
            wait = wait.mul_f64(1.5).min(ATTACH_WAIT.1);
        }
    }

    /// The failure of a wait for the cluster. The Node never lists a volume that there is no room for: its attachment tells. As
    /// upstream, no pod is refused because of a driver whose limit never changes (VOL-12).
    async fn not_attached(&self, source: &CsiSource, rules: &DriverRules, why: NotAttached) -> TaskFailure {
        let is_listed = !matches!(why, NotAttached::NotInUse | NotAttached::NotListed);
        let full = match rules.limit_period {
            None => None,
            Some(_) if is_listed => Some(why.clone()),
            Some(_) => self.attachment(source).await.err(),
        };
        let full = full.filter(NotAttached::is_full);
        let is_full = full.is_some();
        if is_full {
            self.csi.volumes.tell_full(&source.driver);
        }
        if is_listed {
            return TaskFailure { is_full, ..step_failed(Words::of(source).wait, &source.name, why) };
        }
        // Upstream has no Event for it: that the cluster attaches a volume is told by the cluster.
        let failure = step_failed(VolumeStep::VerifyAttached, &source.name, full.unwrap_or(why));
        TaskFailure { reason: None, is_full, ..failure }
    }

    async fn look_at_attachment(&self, source: &CsiSource) -> Result<Texts, NotAttached> {
        let node = own_node(&self.csi.node_status, self.csi.cause.clone()).await;
        check_node(node.as_deref(), &source.unique_name())?;
        self.attachment(source).await
    }

    async fn attachment(&self, source: &CsiSource) -> Result<Texts, NotAttached> {
        let (name, handle) = (source.attachment(&self.csi.volumes.node_name, sha256_hex), &source.handle);
        let found = patiently("volumeattachment", &name, self.objects.volume_attachment(&name)).await;
        let found = found.map_err(|error| NotAttached::Unknown {
            handle: handle.clone(),
            name: name.clone(),
            why: error.to_string(),
        })?;
        check_attachment(&found, handle)
    }

    /// The texts of a Secret; none without a reference. `what` is upstream's name of the field.
    pub(in crate::actors::volumes::volume_manager) async fn secret_of(
        &self,
        what: &str,
        reference: Option<&SecretReference>,
    ) -> Result<Texts, String> {
        let Some(reference) = reference else { return Ok(Texts::new()) };
        let (namespace, name) =
            (reference.namespace.as_deref().unwrap_or_default(), reference.name.as_deref().unwrap_or_default());
        let found = patiently("secret", name, self.objects.volume_secret(namespace, name)).await;
        let found = found.map_err(|error| format!("fetching {what} {namespace}/{name} failed: {error}"))?;
        let text = |(key, value): (&String, &k8s_openapi::ByteString)| {
            (key.clone(), String::from_utf8_lossy(&value.0).into_owned())
        };
        Ok(found.data.iter().flatten().map(text).collect())
    }
}

impl Mount<'_> {
    fn failed(&self, step: VolumeStep, problem: impl std::fmt::Display) -> TaskFailure {
        step_failed(step, &self.source.name, problem)
    }

    async fn run(mut self, publish_context: Texts, new: &mut NewSecrets) -> Result<CsiMounted, TaskFailure> {
        let (task, source) = (self.task, self.source);
        let (host, publish) = (&task.csi.volumes.host, self.words.publish);
        let secrets = task.secret_of("NodePublishSecretRef", source.publish_secret.as_ref()).await;
        let secrets = secrets.map_err(|why| self.failed(publish, why))?;
        let tokens = self.tokens(new).await.map_err(|why| self.failed(publish, why))?;
        let staging = self.stage_and_note(&publish_context).await?;
        let target = target_path(&host.root(), &self.place);
        let found = Found { capabilities: self.can, publish_context, secrets, tokens };
        // As upstream: of a device the path is named also where the driver does not stage.
        let named = if source.is_block { self.staging_path() } else { staging.clone() };
        let request = source.publish([named, target.clone()], &found, &self.rules, &task.pod, self.fs_group);
        let request = request.map_err(|why| self.failed(publish, why))?;
        if let Err(error) = task.csi.volumes.calls.publish(&self.at, request).await {
            return Err(self.not_published(&error).await);
        }
        // No container starts on a directory that should be a volume.
        let is_mounted = host.is_pod_mounted(&self.place).await;
        if !is_mounted.map_err(|error| self.failed(publish, error))? {
            let (driver, what) = (&source.driver, self.words.nothing);
            let text = format!("driver {driver} answered OK to NodePublishVolume, and {what} at {target}");
            return Err(self.failed(publish, text));
        }
        let (host_path, path) = if source.is_block {
            let device = host.map_device(&self.place).await;
            let device = device.map_err(|error| self.failed(VolumeStep::MapBlockVolume, error))?;
            (task.host.path_of(&self.place), device)
        } else {
            self.give_to_group().await?;
            (target.clone(), target)
        };
        let served = Served { at: self.at, can: self.can, staging, path };
        let (label, is_labelled) = (self.label.take().map(|label| label.label), !source.label.is_empty());
        Ok(CsiMounted { host_path, republish: self.rules.republishes, label, is_labelled, served })
    }

    fn staging_path(&self) -> String {
        let root = self.task.csi.volumes.host.root();
        self.source.device(sha256_hex).staging_path(root.as_ref()).display().to_string()
    }

    async fn tokens(&self, new: &mut NewSecrets) -> Result<BTreeMap<String, (String, String)>, String> {
        let mut found = BTreeMap::new();
        for (audience, key) in self.source.token_keys(&self.rules, &self.task.pod) {
            let token = self.task.whole_token(&key, new).await.map_err(|why| {
                format!("kubernetes.io/csi: mounter.SetUpAt failed to get service account token attributes: {why}")
            })?;
            found.insert(audience, (token.text.to_string(), token.life.expires.to_timestamp().to_string()));
        }
        Ok(found)
    }

    /// Stages the volume, unless the driver does not stage or has done so; notes that the pod has it. Both while nobody else
    /// works on the volume, so that it is not unstaged in between. Gives the path; empty where it is not staged.
    async fn stage_and_note(&self, publish_context: &Texts) -> Result<String, TaskFailure> {
        let (source, csi) = (self.source, &self.task.csi.volumes);
        let set_up = |error: VolumeError| self.failed(self.words.note, error);
        let data = source.pod_data(&csi.node_name, sha256_hex);
        if source.is_ephemeral {
            csi.host.note_pod(&self.place, data).await.map_err(set_up)?;
            return Ok(String::new());
        }
        let device = source.device(sha256_hex);
        let mut hold = csi.host.hold(&device).await;
        self.check_for_one_pod().await?;
        self.check_label(&device).await?;
        let staging = self.staging_path();
        // The file of a device says as much as that of a pod, since the pod has none.
        let of_node = if source.is_block { data.clone() } else { source.device_data() };
        if hold.staged && hold.name != source.name {
            csi.host.note_device(&device, Some(of_node)).await.map_err(set_up)?;
            hold.name.clone_from(&source.name);
        } else if self.can.stages && !hold.staged {
            let step = self.words.stage;
            let secrets = self.task.secret_of("NodeStageSecretRef", source.stage_secret.as_ref()).await;
            let secrets = secrets.map_err(|why| self.failed(step, why))?;
            let (capabilities, publish_context) = (self.can, publish_context.clone());
            let found = Found { capabilities, publish_context, secrets, ..Found::default() };
            let request = source.stage(staging.clone(), &found, self.fs_group);
            let request = request.map_err(|why| self.failed(step, why))?;
            let noted = csi.host.note_device(&device, Some(of_node)).await;
            noted.map_err(|error| self.failed(step, error))?;
            if let Err(error) = csi.calls.stage(&self.at, request).await {
                if error.is_final()
                    && let Err(why) = csi.host.forget_device(&device).await
                {
                    tracing::warn!(driver = source.driver, volume = source.handle, %why, "a directory stays");
                }
                return Err(self.failed(step, error));
            }
            (hold.staged, hold.name) = (true, source.name.clone());
        }
        csi.host.note_pod(&self.place, data).await.map_err(set_up)?;
        Ok(if self.can.stages { staging } else { String::new() })
    }

    /// One pod at a time, where the volume is for one (VOL-10).
    async fn check_for_one_pod(&self) -> Result<(), TaskFailure> {
        if !matches!(self.source.access_modes.as_slice(), [mode] if mode == "ReadWriteOncePod") {
            return Ok(());
        }
        let set_up = |error: VolumeError| self.failed(self.words.note, error);
        let users = self.task.csi.volumes.host.users().await.map_err(set_up)?;
        let is_other = users.iter().any(|user| user.place.uid != self.place.uid && has(user, self.source));
        if is_other { Err(set_up(VolumeError::InUse)) } else { Ok(()) }
    }

    /// One label at a time, where the volume is mounted with one (VOL-31).
    async fn check_label(&self, device: &DevicePlace) -> Result<(), TaskFailure> {
        if self.label.as_ref().is_none_or(|label| !label.binds) {
            return Ok(());
        }
        let (task, source) = (self.task, self.source);
        let set_up = |error: VolumeError| self.failed(self.words.note, error);
        let host = &task.csi.volumes.host;
        let users = host.users().await.map_err(set_up)?;
        let others = || users.iter().filter(|user| user.place.uid != self.place.uid && has(user, source));
        if let Some(unread) = others().find(|user| user.data.is_none()) {
            let why = format!("the label of {} is not known: its vol_data.json cannot be read", unread.place);
            return Err(set_up(VolumeError::Refused(why)));
        }
        let of_pods = others().filter_map(|user| user.data.as_ref()).map(|data| data.selinux_context.as_str());
        let devices = host.devices().await.map_err(set_up)?;
        let staged = devices.iter().find(|(place, _)| place == device);
        let staged = staged.map(|(_, data)| data.selinux_context.as_str());
        let (name, wanted) = (&source.name, &source.label);
        let why = match LabelConflict::check(wanted, of_pods, staged) {
            Ok(()) => return Ok(()),
            Err(LabelConflict::OfPod(there)) => {
                format!("conflicting SELinux labels of volume {name}: {there:?} and {wanted:?}")
            }
            // It is unstaged without this pod's doing.
            Err(LabelConflict::Staged) => VolumeError::OtherLabel(name.clone()).to_string(),
        };
        let plugin = format!("kubernetes.io/csi/{}", source.driver);
        task.tell_problem(LabelNews::OtherPod, true, &source.access_modes, &plugin);
        Err(label_failure(why))
    }

    /// A refused first call has left nothing; a pod that has the volume already keeps it.
    async fn not_published(&self, error: &CallError) -> TaskFailure {
        let csi = &self.task.csi;
        if error.is_final()
            && !csi.was_published
            && let Err(why) = csi.volumes.host.forget_pod(&self.place).await
        {
            tracing::warn!(volume = %self.place, %why, "a directory stays");
        }
        self.failed(self.words.publish, error)
    }

    /// Files are given to the pod's group once, where the agent does that (VOL-44).
    async fn give_to_group(&self) -> Result<(), TaskFailure> {
        let (task, csi) = (self.task, &self.task.csi);
        let is_due = !csi.was_published && self.source.gives_group(&self.rules, self.can);
        let Some(fs_group) = self.fs_group.filter(|_| is_due) else { return Ok(()) };
        let policy = change_policy(&task.pod);
        let ownership = Ownership { fs_group: Some(fs_group), policy, read_only: false };
        let progress = Arc::new(Progress::by(Arc::clone(&task.timing.clock)));
        let work = csi.volumes.host.own(&self.place, ownership, Arc::clone(&progress));
        let given = task.watched(Some(&self.place), &progress, work).await;
        task.tell_walks(&driven_plugin(&self.source.driver), self.source.migrated, &progress);
        let handle = &self.source.handle;
        given.map_err(|error| self.failed(VolumeStep::SetUp, format!("applyFSGroup failed for vol {handle}: {error}")))
    }
}
