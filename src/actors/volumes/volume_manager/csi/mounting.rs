//! Mounting a driver's volume for a pod: wait until it is attached, stage it for the node, publish it for the pod (VOL-41).
//!
//! A note is on the disk before each call of a driver, so that an agent that comes after a crash can undo the call. A driver that is
//! done with a call and refused it has left nothing; after any other failure the traces stay (VOL-45).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::SecretReference;

use super::super::own_node;
use super::super::tasks::{MountTask, step_failed};
use super::super::timing::driven_plugin;
use crate::logic::plugins::call_error::CallError;
use crate::logic::volumes::claim::change_policy;
use crate::logic::volumes::csi::attachment::{NotAttached, check_attachment, check_node};
use crate::logic::volumes::csi::capabilities::NodeCapabilities;
use crate::logic::volumes::csi::requests::Texts;
use crate::logic::volumes::csi::rules::DriverRules;
use crate::logic::volumes::csi::source::{CsiSource, Found};
use crate::logic::volumes::order::{Ownership, VolumePlace, plugin};
use crate::logic::volumes::plan::readers;
use crate::logic::volumes::steps::VolumeStep;
use crate::logic::volumes::volume_states::TaskFailure;
use crate::messages::volume_manager::NewSecrets;
use crate::platform::cluster::objects::{ObjectError, patiently};
use crate::platform::network::tls::sha256_hex;
use crate::platform::volumes::csi::pod_mount_path;
use crate::platform::volumes::{Progress, VolumeError};

/// Waits for an attachment within one task: the first, and the longest.
const ATTACH_WAIT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How long one task waits for it: less than after which a task is said to hang.
const ATTACH_PATIENCE: Duration = Duration::from_secs(20);

/// A volume that is there.
pub(in crate::actors::volumes::volume_manager) struct CsiMounted {
    /// Its path for containers.
    pub(in crate::actors::volumes::volume_manager) host_path: String,
    /// Whether it is published again at each sync of the pod.
    pub(in crate::actors::volumes::volume_manager) republish: bool,
}

/// One mount under way.
struct Mount<'a> {
    task: &'a MountTask,
    source: &'a CsiSource,
    rules: DriverRules,
    place: VolumePlace,
    /// Where the driver serves.
    at: String,
    can: NodeCapabilities,
    fs_group: Option<u32>,
}

impl MountTask {
    /// Has a driver's volume there.
    pub(in crate::actors::volumes::volume_manager) async fn mount_csi(
        &self,
        source: &CsiSource,
        new: &mut NewSecrets,
    ) -> Result<CsiMounted, TaskFailure> {
        let failed = |step, problem: String| step_failed(step, &source.name, problem);
        let mode = |why: String| {
            failed(
                VolumeStep::SetUp,
                format!("kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: {why}"),
            )
        };
        let rules = self.driver_rules(&source.driver).await.map_err(|error| mode(error.to_string()))?;
        rules.check_mode(&source.driver, source.is_ephemeral).map_err(mode)?;
        let publish_context = self.attached(source, &rules).await?;
        let at = self.csi.volumes.endpoint(&source.driver).await.map_err(|why| match source.is_ephemeral {
            true => {
                failed(VolumeStep::SetUp, format!("kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: {why}"))
            }
            false => failed(
                VolumeStep::MountDevice,
                format!("kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: {why}"),
            ),
        })?;
        let first = if source.is_ephemeral { VolumeStep::SetUp } else { VolumeStep::MountDevice };
        let can = self.csi.volumes.calls.capabilities(&at).await.map_err(|error| failed(first, error.to_string()))?;
        let place = VolumePlace {
            uid: self.uid.clone(),
            plugin: plugin::CSI.to_owned(),
            name: source.name.clone(),
            is_device: false,
        };
        let fs_group = readers(&self.pod).fs_group;
        let mount = Mount { task: self, source, rules, place, at, can, fs_group };
        mount.run(publish_context, new).await
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
                let failure = match why {
                    NotAttached::NotInUse | NotAttached::NotListed => {
                        // Upstream has no Event for it: that the cluster attaches a volume is told by the cluster.
                        let failure = step_failed(VolumeStep::VerifyAttached, &source.name, why);
                        TaskFailure { reason: None, ..failure }
                    }
                    why => {
                        // As upstream, a driver whose limit never changes has no pod refused for it.
                        let is_full = why.is_full() && rules.limit_period.is_some();
                        if is_full {
                            self.csi.volumes.tell_full(&source.driver);
                        }
                        TaskFailure { is_full, ..step_failed(VolumeStep::WaitForAttach, &source.name, why) }
                    }
                };
                return Err(failure);
            }
            tokio::time::sleep(wait).await;
            waited += wait;
            wait = wait.mul_f64(1.5).min(ATTACH_WAIT.1);
        }
    }

    async fn look_at_attachment(&self, source: &CsiSource) -> Result<Texts, NotAttached> {
        let node = own_node(&self.csi.node_status, self.csi.cause.clone()).await;
        check_node(node.as_deref(), &source.unique_name())?;
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
    async fn secret_of(&self, what: &str, reference: Option<&SecretReference>) -> Result<Texts, String> {
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

    async fn run(&self, publish_context: Texts, new: &mut NewSecrets) -> Result<CsiMounted, TaskFailure> {
        let (task, source) = (self.task, self.source);
        let host = &task.csi.volumes.host;
        let secrets = task.secret_of("NodePublishSecretRef", source.publish_secret.as_ref()).await;
        let secrets = secrets.map_err(|why| self.failed(VolumeStep::SetUp, why))?;
        let tokens = self.tokens(new).await.map_err(|why| self.failed(VolumeStep::SetUp, why))?;
        let staging = self.stage_and_note(&publish_context).await?;
        let target = pod_mount_path(&host.root(), &self.place);
        let found = Found { capabilities: self.can, publish_context, secrets, tokens };
        let paths = [staging, target.clone()];
        let request = source.publish(paths, &found, &self.rules, &task.pod, self.fs_group);
        let request = request.map_err(|why| self.failed(VolumeStep::SetUp, why))?;
        if let Err(error) = task.csi.volumes.calls.publish(&self.at, request).await {
            return Err(self.not_published(&error).await);
        }
        // No container starts on a directory that should be a volume.
        let is_mounted = host.is_pod_mounted(&self.place).await;
        if !is_mounted.map_err(|error| self.failed(VolumeStep::SetUp, error))? {
            let driver = &source.driver;
            let text = format!("driver {driver} answered OK to NodePublishVolume, and nothing is mounted at {target}");
            return Err(self.failed(VolumeStep::SetUp, text));
        }
        self.give_to_group().await?;
        Ok(CsiMounted { host_path: target, republish: self.rules.republishes })
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
        let set_up = |error: VolumeError| self.failed(VolumeStep::SetUp, error);
        let data = source.pod_data(&csi.node_name, sha256_hex);
        if source.is_ephemeral {
            csi.host.note_pod(&self.place, data).await.map_err(set_up)?;
            return Ok(String::new());
        }
        let device = source.device(sha256_hex);
        let mut hold = csi.host.hold(&device).await;
        self.check_for_one_pod().await?;
        let staging = device.staging_path(csi.host.root().as_ref()).display().to_string();
        if self.can.stages && !hold.staged {
            let step = VolumeStep::MountDevice;
            let secrets = self.task.secret_of("NodeStageSecretRef", source.stage_secret.as_ref()).await;
            let secrets = secrets.map_err(|why| self.failed(step, why))?;
            let (capabilities, publish_context) = (self.can, publish_context.clone());
            let found = Found { capabilities, publish_context, secrets, ..Found::default() };
            let request = source.stage(staging.clone(), &found, self.fs_group);
            let request = request.map_err(|why| self.failed(step, why))?;
            let noted = csi.host.note_device(&device, Some(source.device_data())).await;
            noted.map_err(|error| self.failed(step, error))?;
            if let Err(error) = csi.calls.stage(&self.at, request).await {
                if error.is_final()
                    && let Err(why) = csi.host.forget_device(&device).await
                {
                    tracing::warn!(driver = source.driver, volume = source.handle, %why, "a directory stays");
                }
                return Err(self.failed(step, error));
            }
            hold.staged = true;
        }
        csi.host.note_pod(&self.place, data).await.map_err(set_up)?;
        Ok(if self.can.stages { staging } else { String::new() })
    }

    /// One pod at a time, where the volume is for one (VOL-10).
    async fn check_for_one_pod(&self) -> Result<(), TaskFailure> {
        if !matches!(self.source.access_modes.as_slice(), [mode] if mode == "ReadWriteOncePod") {
            return Ok(());
        }
        let set_up = |error: VolumeError| self.failed(VolumeStep::SetUp, error);
        let users = self.task.csi.volumes.host.users().await.map_err(set_up)?;
        let (driver, handle) = (&self.source.driver, &self.source.handle);
        let is_other = users.iter().any(|(place, data)| {
            place.uid != self.place.uid && data.driver_name == *driver && data.volume_handle == *handle
        });
        if is_other { Err(set_up(VolumeError::InUse)) } else { Ok(()) }
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
        self.failed(VolumeStep::SetUp, error)
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
