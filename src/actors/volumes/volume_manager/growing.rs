//! Growing a volume on the node (VOL-46): when it is mounted, and while a pod has it. Its driver does it, or the host, which has
//! the file system on a local volume's device.
//!
//! `logic::volumes::expansion` decides; here the claim is read again, the volume is grown and the claim's status changed. Of
//! pods that share a driver's volume one at a time works on it, so that the driver is asked once.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::csi::mounting::{CsiMounted, Served};
use super::tasks::{Claimed, MountTask, step_failed};
use super::timing::expanding;
use crate::logic::events::reasons::EventReason;
use crate::logic::volumes::claim::{bound_volume, check_volume, is_block, local_path};
use crate::logic::volumes::csi::migration::of_volume;
use crate::logic::volumes::csi::requests::Texts;
use crate::logic::volumes::csi::source::{CsiSource, Found};
use crate::logic::volumes::expansion::{
    CallEnd, Expansion, KnownSize, Verdict, When, decide, grown_message, read_only_message,
};
use crate::logic::volumes::order::{VolumePlace, plugin};
use crate::logic::volumes::steps::VolumeStep;
use crate::logic::volumes::volume_states::TaskFailure;
use crate::messages::volume_manager::{ClaimEvent, NewSecrets};
use crate::platform::cluster::objects::patiently;
use crate::platform::network::tls::sha256_hex;
use crate::platform::volumes::csi::target_path;

/// The one that makes a volume larger on this node.
enum Grower<'a> {
    /// Its driver, if it is known where the volume is for it.
    Driver(&'a CsiSource, Result<&'a Served, &'a str>),
    /// The host, for a local volume of this path.
    Host(&'a str),
}

/// A volume that is larger than the node has it.
struct Growing<'a> {
    task: &'a MountTask,
    claimed: &'a Claimed<'a>,
    /// The persistent volume's name.
    name: &'a str,
    read_only: bool,
    grower: Grower<'a>,
    when: When,
}

impl MountTask {
    /// Grows a driver's volume that was mounted just now, if it is larger than its claim says; or one that was published once
    /// more.
    pub(super) async fn grow_mounted(
        &self,
        claimed: &Claimed<'_>,
        source: &CsiSource,
        mounted: &CsiMounted,
        new: &mut NewSecrets,
    ) -> Result<(), TaskFailure> {
        let grower = Grower::Driver(source, Ok(&mounted.served));
        self.grow_at_mount(claimed, &source.name, source.read_only, grower, new).await
    }

    /// The same of a local volume.
    pub(super) async fn grow_local(
        &self,
        claimed: &Claimed<'_>,
        read_only: bool,
        new: &mut NewSecrets,
    ) -> Result<(), TaskFailure> {
        let Some(path) = local_path(claimed.volume) else { return Ok(()) };
        let name = claimed.volume.metadata.name.as_deref().unwrap_or_default();
        self.grow_at_mount(claimed, name, read_only, Grower::Host(path), new).await
    }

    async fn grow_at_mount(
        &self,
        claimed: &Claimed<'_>,
        name: &str,
        read_only: bool,
        grower: Grower<'_>,
        new: &mut NewSecrets,
    ) -> Result<(), TaskFailure> {
        let (when, step) = match (self.csi.was_published, is_block(claimed.volume)) {
            (true, _) => (When::InUse, VolumeStep::NodeExpand),
            (false, true) => (When::AtMount, VolumeStep::MapExpand),
            (false, false) => (When::AtMount, VolumeStep::Expand),
        };
        let known = self.known_size(claimed.claim);
        // As upstream, a pod that must not write does not wait for more room.
        new.size = (!read_only).then(|| known.clone());
        if decide(claimed.claim, claimed.volume, &known, when, read_only) == Verdict::Rest {
            return Ok(());
        }
        let growing = Growing { task: self, claimed, name, read_only, grower, when };
        growing.run(&known, new).await.map_err(|why| step_failed(step, name, why))
    }

    /// Looks whether a volume that the pod has is larger by now, and grows it. A look that fails is made again at the next sync.
    pub(super) async fn look_for_growth(&self, claim: &str, new: &mut NewSecrets) -> Result<(), TaskFailure> {
        let (objects, namespace) = (&self.objects, self.namespace());
        let Ok(claim) = patiently("persistentvolumeclaim", claim, objects.claim(namespace, claim)).await else {
            return Ok(());
        };
        let known = self.known_size(&claim);
        if !known.may_have_grown(&claim) {
            return Ok(());
        }
        let Ok(name) = bound_volume(&claim) else { return Ok(()) };
        let Ok(volume) = patiently("persistentvolume", &name, objects.volume(&name)).await else { return Ok(()) };
        let (migrated, volume) = match of_volume(&volume) {
            Some(Ok(translated)) => (true, Arc::new(translated)),
            Some(Err(_)) => return Ok(()),
            None => (false, volume),
        };
        let is_larger = decide(&claim, &volume, &known, When::InUse, false) != Verdict::Rest;
        if !is_larger || check_volume(&claim, &volume).is_err() {
            return Ok(());
        }
        let claimed = Claimed { claim: &claim, volume: &volume };
        let grown = if let Some(Ok(source)) = CsiSource::of_volume(&volume, false) {
            let source = CsiSource { migrated, ..source };
            let grown = async {
                let served = self.served(&source).await;
                let grower = Grower::Driver(&source, served.as_ref().map_err(String::as_str));
                self.in_use(&claimed, &name, grower).run(&known, new).await
            };
            self.timing.of_source(&source, expanding(), grown).await
        } else if let Some(path) = local_path(&volume) {
            let growing = self.in_use(&claimed, &name, Grower::Host(path));
            self.timing.of(plugin::LOCAL, expanding(), growing.run(&known, new)).await
        } else {
            Ok(())
        };
        grown.map_err(|why| step_failed(VolumeStep::NodeExpand, &name, why))
    }

    fn in_use<'a>(&'a self, claimed: &'a Claimed<'a>, name: &'a str, grower: Grower<'a>) -> Growing<'a> {
        Growing { task: self, claimed, name, read_only: false, grower, when: When::InUse }
    }

    /// The size that this node knows of, unless it is of an earlier claim of the name.
    fn known_size(&self, claim: &PersistentVolumeClaim) -> KnownSize {
        let of_claim = KnownSize::of(claim);
        self.csi.known.clone().filter(|known| known.claim == of_claim.claim).unwrap_or(of_claim)
    }

    /// Where a driver's volume that was mounted before is for its driver.
    async fn served(&self, source: &CsiSource) -> Result<Served, String> {
        let (csi, place) = (&self.csi.volumes, source.place(&self.uid));
        let at = csi.endpoint(&source.driver).await?;
        let can = csi.calls.capabilities(&at).await;
        let can =
            can.map_err(|error| format!("Expander.NodeExpand failed to check if node supports expansion : {error}"))?;
        let root = csi.host.root();
        let path = match place.is_device {
            true => csi.host.map_device(&place).await.map_err(|error| error.to_string())?,
            false => target_path(&root, &place),
        };
        let staging = if can.stages {
            source.device(sha256_hex).staging_path(root.as_ref()).display().to_string()
        } else {
            String::new()
        };
        Ok(Served { at, can, staging, path })
    }
}

impl Growing<'_> {
    /// Grows the volume, unless another pod's task did so meanwhile.
    async fn run(&self, known: &KnownSize, new: &mut NewSecrets) -> Result<(), String> {
        let task = self.task;
        let _hold = match &self.grower {
            Grower::Driver(source, _) => Some(task.csi.volumes.host.hold(&source.device(sha256_hex)).await),
            Grower::Host(_) => None,
        };
        let name = self.claim_name();
        let claim = patiently("persistentvolumeclaim", name, task.objects.claim(task.namespace(), name)).await;
        let claim = claim.map_err(|error| format!("mountVolume.NodeExpandVolume get PVC failed : {error}"))?;
        match decide(&claim, self.claimed.volume, known, self.when, self.read_only) {
            Verdict::Rest => Ok(()),
            Verdict::Grown(size) => {
                new.size = Some(KnownSize { size, ..known.clone() });
                Ok(())
            }
            Verdict::ReadOnly => {
                let message = read_only_message(self.name);
                new.of_claim.push(self.event(EventReason::FileSystemResizeFailed, true, message));
                Ok(())
            }
            Verdict::Expand(expansion) => self.expand(&expansion, claim, known, new).await,
        }
    }

    async fn expand(
        &self,
        expansion: &Expansion,
        claim: Arc<PersistentVolumeClaim>,
        known: &KnownSize,
        new: &mut NewSecrets,
    ) -> Result<(), String> {
        let claim = match &expansion.begin {
            Some(patch) => self.patch(patch).await?,
            None => claim,
        };
        let end = match &self.grower {
            Grower::Driver(source, Ok(served)) => self.call(source, served, expansion).await,
            Grower::Driver(_, Err(why)) => CallEnd::NotAsked((*why).to_owned()),
            Grower::Host(path) => self.grow_on_host(path).await,
        };
        let after = expansion.after(&end, &claim, known, self.task.now);
        if after.has_grown {
            let message = grown_message(self.name, &self.task.csi.volumes.node_name);
            new.of_claim.push(self.event(EventReason::FileSystemResizeSuccessful, false, message));
        }
        if let Some(patch) = &after.patch
            && let Err(why) = self.patch(patch).await
        {
            if after.has_grown {
                return Err(format!("mountVolume.NodeExpandVolume update pvc status failed: {why}"));
            }
            tracing::warn!(claim = self.claim_name(), why, "a failed expansion is not in the claim's status");
        }
        if after.known.in_use && !known.in_use {
            tracing::warn!(volume = self.name, ?end, "the volume cannot be grown while it is in use");
        }
        new.size = Some(after.known);
        after.problem.map_or(Ok(()), Err)
    }

    /// A device without a file system shows its size at once.
    async fn grow_on_host(&self, path: &str) -> CallEnd {
        if is_block(self.claimed.volume) {
            return CallEnd::Done;
        }
        let (uid, name) = (self.task.uid.clone(), self.name.to_owned());
        let place = VolumePlace { uid, plugin: plugin::LOCAL.to_owned(), name, is_device: false };
        let grown = self.task.host.grow(&place, path).await;
        grown.map_or_else(|error| CallEnd::Failing(error.to_string()), |()| CallEnd::Done)
    }

    async fn call(&self, source: &CsiSource, served: &Served, expansion: &Expansion) -> CallEnd {
        let task = self.task;
        if !served.can.expands {
            return CallEnd::Unsupported(source.driver.clone());
        }
        let secrets: Texts = match task.secret_of("NodeExpandSecretRef", source.expand_secret.as_ref()).await {
            Ok(secrets) => secrets,
            Err(why) => {
                return CallEnd::NoSecret(format!("expander.NodeExpand failed to get NodeExpandSecretRef: {why}"));
            }
        };
        let found = Found { capabilities: served.can, secrets, ..Found::default() };
        let paths = [served.staging.clone(), served.path.clone()];
        match source.expand(paths, expansion.size.value(), &found) {
            Err(why) => CallEnd::NotAsked(why),
            Ok(request) => match task.csi.volumes.calls.expand(&served.at, request).await {
                Ok(_) => CallEnd::Done,
                Err(error) => CallEnd::Failed(error),
            },
        }
    }

    /// Changes the claim's status.
    async fn patch(&self, patch: &serde_json::Value) -> Result<Arc<PersistentVolumeClaim>, String> {
        let (name, objects) = (self.claim_name(), &self.task.objects);
        let patched = objects.patch_claim_status(self.task.namespace(), name, patch);
        let patched = patiently("persistentvolumeclaim", name, patched).await;
        patched.map_err(|error| format!("patchPVCStatus failed to patch PVC {name:?}: {error}"))
    }

    fn claim_name(&self) -> &str {
        self.claimed.claim.metadata.name.as_deref().unwrap_or_default()
    }

    fn event(&self, reason: EventReason, is_warning: bool, message: String) -> ClaimEvent {
        let uid = self.claimed.claim.metadata.uid.clone().unwrap_or_default();
        ClaimEvent { name: self.claim_name().to_owned(), uid, reason, is_warning, message }
    }
}
