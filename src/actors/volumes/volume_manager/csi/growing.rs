//! Growing a driver's volume on the node (VOL-46): when it is mounted, and while a pod has it.
//!
//! `logic::volumes::csi::expansion` decides; here the claim is read again, the driver is called and the claim's status changed. All
//! of it while nobody else works on the volume, so that two pods that share it ask the driver once.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::super::tasks::{Claimed, MountTask, step_failed};
use super::super::timing::expanding;
use super::mounting::{CsiMounted, Served};
use crate::logic::events::reasons::EventReason;
use crate::logic::volumes::claim::{bound_volume, check_volume};
use crate::logic::volumes::csi::expansion::{
    CallEnd, Expansion, KnownSize, Verdict, When, decide, grown_message, read_only_message,
};
use crate::logic::volumes::csi::migration::of_volume;
use crate::logic::volumes::csi::requests::Texts;
use crate::logic::volumes::csi::source::{CsiSource, Found};
use crate::logic::volumes::steps::VolumeStep;
use crate::logic::volumes::volume_states::TaskFailure;
use crate::messages::volume_manager::{ClaimEvent, NewSecrets};
use crate::platform::cluster::objects::patiently;
use crate::platform::network::tls::sha256_hex;
use crate::platform::volumes::csi::target_path;

/// A volume that is larger than the node has it.
struct Growing<'a> {
    task: &'a MountTask,
    claimed: &'a Claimed<'a>,
    source: &'a CsiSource,
    when: When,
}

impl MountTask {
    /// Grows a volume that was mounted just now, if it is larger than its claim says; or one that was published once more.
    pub(in crate::actors::volumes::volume_manager) async fn grow_mounted(
        &self,
        claimed: &Claimed<'_>,
        source: &CsiSource,
        mounted: &CsiMounted,
        new: &mut NewSecrets,
    ) -> Result<(), TaskFailure> {
        let (when, step) = match (self.csi.was_published, source.is_block) {
            (true, _) => (When::InUse, VolumeStep::NodeExpand),
            (false, true) => (When::AtMount, VolumeStep::MapExpand),
            (false, false) => (When::AtMount, VolumeStep::Expand),
        };
        let known = self.known_size(claimed.claim);
        // As upstream, a pod that must not write does not wait for more room.
        new.size = (!source.read_only).then(|| known.clone());
        if decide(claimed.claim, claimed.volume, &known, when, source.read_only) == Verdict::Rest {
            return Ok(());
        }
        let growing = Growing { task: self, claimed, source, when };
        let grown = growing.run(&known, Ok(&mounted.served), new).await;
        grown.map_err(|why| step_failed(step, &source.name, why))
    }

    /// Looks whether a volume that the pod has is larger by now, and grows it. A look that fails is made again at the next sync.
    pub(in crate::actors::volumes::volume_manager) async fn look_for_growth(
        &self,
        claim: &str,
        new: &mut NewSecrets,
    ) -> Result<(), TaskFailure> {
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
        let Some(Ok(source)) = CsiSource::of_volume(&volume, false) else { return Ok(()) };
        let source = CsiSource { migrated, ..source };
        let is_larger = decide(&claim, &volume, &known, When::InUse, false) != Verdict::Rest;
        if !is_larger || check_volume(&claim, &volume).is_err() {
            return Ok(());
        }
        let claimed = Claimed { claim: &claim, volume: &volume };
        let growing = Growing { task: self, claimed: &claimed, source: &source, when: When::InUse };
        let grown = async {
            let served = growing.served().await;
            growing.run(&known, served.as_ref().map_err(String::as_str), new).await
        };
        let grown = self.timing.of_source(&source, expanding(), grown).await;
        grown.map_err(|why| step_failed(VolumeStep::NodeExpand, &name, why))
    }

    /// The size that this node knows of, unless it is of an earlier claim of the name.
    fn known_size(&self, claim: &PersistentVolumeClaim) -> KnownSize {
        let of_claim = KnownSize::of(claim);
        self.csi.known.clone().filter(|known| known.claim == of_claim.claim).unwrap_or(of_claim)
    }
}

impl Growing<'_> {
    /// Where a volume that was mounted before is for its driver.
    async fn served(&self) -> Result<Served, String> {
        let (csi, place) = (&self.task.csi.volumes, self.source.place(&self.task.uid));
        let at = csi.endpoint(&self.source.driver).await?;
        let can = csi.calls.capabilities(&at).await;
        let can =
            can.map_err(|error| format!("Expander.NodeExpand failed to check if node supports expansion : {error}"))?;
        let root = csi.host.root();
        let path = match place.is_device {
            true => csi.host.map_device(&place).await.map_err(|error| error.to_string())?,
            false => target_path(&root, &place),
        };
        let staging = if can.stages {
            self.source.device(sha256_hex).staging_path(root.as_ref()).display().to_string()
        } else {
            String::new()
        };
        Ok(Served { at, can, staging, path })
    }

    /// Grows the volume, unless another pod's task did so meanwhile. `served` is where the driver has it, or why that is unknown.
    async fn run(&self, known: &KnownSize, served: Result<&Served, &str>, new: &mut NewSecrets) -> Result<(), String> {
        let (task, device) = (self.task, self.source.device(sha256_hex));
        let _hold = task.csi.volumes.host.hold(&device).await;
        let name = self.claim_name();
        let claim = patiently("persistentvolumeclaim", name, task.objects.claim(task.namespace(), name)).await;
        let claim = claim.map_err(|error| format!("mountVolume.NodeExpandVolume get PVC failed : {error}"))?;
        match decide(&claim, self.claimed.volume, known, self.when, self.source.read_only) {
            Verdict::Rest => Ok(()),
            Verdict::Grown(size) => {
                new.size = Some(KnownSize { size, ..known.clone() });
                Ok(())
            }
            Verdict::ReadOnly => {
                let message = read_only_message(&self.source.name);
                new.of_claim.push(self.event(EventReason::FileSystemResizeFailed, true, message));
                Ok(())
            }
            Verdict::Expand(expansion) => self.expand(&expansion, claim, known, served, new).await,
        }
    }

    async fn expand(
        &self,
        expansion: &Expansion,
        claim: Arc<PersistentVolumeClaim>,
        known: &KnownSize,
        served: Result<&Served, &str>,
        new: &mut NewSecrets,
    ) -> Result<(), String> {
        let claim = match &expansion.begin {
            Some(patch) => self.patch(patch).await?,
            None => claim,
        };
        let end = match served {
            Ok(served) => self.call(expansion, served).await,
            Err(why) => CallEnd::NotAsked(why.to_owned()),
        };
        let after = expansion.after(&end, &claim, known, self.task.now);
        if after.has_grown {
            let message = grown_message(&self.source.name, &self.task.csi.volumes.node_name);
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
            tracing::warn!(volume = self.source.name, ?end, "the volume cannot be grown while it is in use");
        }
        new.size = Some(after.known);
        after.problem.map_or(Ok(()), Err)
    }

    async fn call(&self, expansion: &Expansion, served: &Served) -> CallEnd {
        let (task, source) = (self.task, self.source);
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
