//! Mounting one volume: find out what it is, gather what is in it, have the host do it.
//!
//! A task reports; it decides nothing. It can be cut off at any await and done again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{CSIVolumeSource, Node, PersistentVolume, PersistentVolumeClaim, Pod, Volume};

use super::drivers::CsiVolumes;
use super::timing::{Timing, mounting, plugin_of};
use crate::actors::kit::address::Address;
use crate::actors::kit::trace::Cause;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;
use crate::logic::volumes::claim::{
    bound_volume, check_affinity, check_mode, check_owner, check_volume, is_block, resolve, volume_group,
};
use crate::logic::volumes::content::certificate::{
    Asked, CertificateKey, CertificateState, KeyAndChain, Step, Wanted, bundle, next_step, note_asked, note_looked,
    overdue,
};
use crate::logic::volumes::content::projected::{Looked, Sources};
use crate::logic::volumes::content::token::TokenKey;
use crate::logic::volumes::content::trust::{NOTHING_SELECTED, TrustKey};
use crate::logic::volumes::csi::migration::of_volume;
use crate::logic::volumes::csi::names::block_map_path;
use crate::logic::volumes::csi::source::CsiSource;
use crate::logic::volumes::expansion::KnownSize;
use crate::logic::volumes::mounting::mount_label::{Labelling, MountLabel, access_modes};
use crate::logic::volumes::order::{SetUp, VolumePlace, plugin};
use crate::logic::volumes::plan::{NodeFacts, VolumeKind, VolumePlan};
use crate::logic::volumes::steps::VolumeStep;
use crate::logic::volumes::volume_states::slow_walk::{DOING, progress_event};
use crate::logic::volumes::volume_states::{DrivenVolume, MountedVolume, TaskFailure};
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::volume_manager::{NewSecrets, TaskEnd, TaskGain, VolumeEvent};
use crate::platform::cluster::objects::{ObjectError, Objects, Token, looked, patiently};
use crate::platform::network::tls::sha256_hex;
use crate::platform::observer::LabelNews;
use crate::platform::volumes::{Doing, Progress, VolumeError, VolumeHost};

/// From one look at a set-up that takes long to the next.
const LOOK_PERIOD: Duration = Duration::from_secs(10);
/// From one look at a claim that cannot be used to the next, and up to half as long again: as upstream's at each sync of a
/// pod that waits. Its absence is somebody's doing, and not worse for having lasted.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// The message about a set-up that another one goes before.
const WAITS: &str = "another pod is given the same files first";

/// The message about a disk that is being attached.
const ATTACHES: &str = "its disk is being attached";

/// A volume to be mounted.
pub(super) struct MountTask {
    pub(super) timing: Timing,
    pub(super) objects: Arc<dyn Objects>,
    pub(super) host: Arc<dyn VolumeHost>,
    pub(super) node: NodeFacts,
    /// The Node object, where it is known.
    pub(super) own_node: Option<Arc<Node>>,
    pub(super) uid: PodUid,
    pub(super) pod: Arc<Pod>,
    pub(super) plan: VolumePlan,
    pub(super) tokens: Vec<(TokenKey, Token)>,
    pub(super) certificates: Vec<(CertificateKey, CertificateState)>,
    pub(super) now: Moment,
    /// In 0..1.
    pub(super) chance: f64,
    /// Where SELinux is on and its policy knows containers.
    pub(super) labelling: Option<Arc<Labelling>>,
    /// Takes what a set-up that takes long is at, and the Event that is due about it.
    pub(super) moves: Box<dyn Fn(String, Option<String>) + Send + Sync>,
    /// For volumes of CSI drivers.
    pub(super) csi: CsiTask,
}

/// A claim and its volume, as they were read.
pub(super) struct Claimed<'a> {
    pub(super) claim: &'a PersistentVolumeClaim,
    pub(super) volume: &'a PersistentVolume,
}

/// The further means for a volume of a CSI driver.
pub(super) struct CsiTask {
    pub(super) volumes: CsiVolumes,
    pub(super) node_status: Address<NodeStatusMsg>,
    pub(super) cause: Cause,
    /// The pod has the volume already: it is published again.
    pub(super) was_published: bool,
    /// The pod has the volume already, and it is only looked at whether it is larger by now.
    pub(super) only_grows: bool,
    /// The size that the volume has on this node, as far as is known.
    pub(super) known: Option<KnownSize>,
    /// Takes the name of a volume that the cluster attaches, as the Node has it.
    pub(super) attaches: Box<dyn Fn(String) + Send + Sync>,
}

pub(super) fn failed(error: VolumeError) -> TaskFailure {
    failure(error.to_string())
}

/// A failure that an Event `FailedMount` tells of.
pub(super) fn failure(message: String) -> TaskFailure {
    TaskFailure {
        message,
        in_processing: false,
        reason: Some(EventReason::FailedMount),
        look_again: None,
        is_full: false,
    }
}

/// A pod that waits for the sake of a label. As upstream, no Event tells of it: the pod's wait does.
pub(super) fn label_failure(why: impl std::fmt::Display) -> TaskFailure {
    TaskFailure { in_processing: true, reason: None, ..failure(why.to_string()) }
}

/// Upstream's text of a failed mount; `name` is the persistent volume's for a claim.
fn set_up_failed(name: &str, error: impl std::fmt::Display) -> TaskFailure {
    step_failed(VolumeStep::SetUp, name, error)
}

/// The same of any step.
pub(super) fn step_failed(step: VolumeStep, name: &str, error: impl std::fmt::Display) -> TaskFailure {
    TaskFailure { reason: Some(step.reason()), ..failure(format!("{step} for volume \"{name}\" : {error}")) }
}

/// A call that waits for an earlier one that hangs is no failure of its own: it waits, as the pod's conditions say.
fn quiet_if_busy(error: &VolumeError, failure: TaskFailure) -> TaskFailure {
    match error {
        VolumeError::Busy(_) => TaskFailure { reason: None, ..failure },
        _ => failure,
    }
}

/// Upstream's step that an error of the host is in.
fn step_of(error: &VolumeError, is_device: bool) -> VolumeStep {
    match error {
        VolumeError::Attach(_) if is_device => VolumeStep::MapWaitForAttach,
        VolumeError::Attach(_) => VolumeStep::WaitForAttach,
        VolumeError::Device(_) | VolumeError::OtherFileSystem(_) => VolumeStep::MountDevice,
        VolumeError::Source(_) if !is_device => VolumeStep::NewMounter,
        VolumeError::InUse if is_device => VolumeStep::SetUpDevice,
        _ if is_device => VolumeStep::MapBlockVolume,
        _ => VolumeStep::SetUp,
    }
}

/// Upstream's texts about a device that is mapped: for the node, and for the pod.
fn mapped_news(name: &str, [of_node, of_pod]: [String; 2]) -> Vec<String> {
    let told = [("globalMapPath", of_node), ("volumeMapPath", of_pod)]
        .map(|(what, path)| format!("MapVolume.MapPodDevice succeeded for volume \"{name}\" {what} {path:?}"));
    told.to_vec()
}

/// A volume of an in-tree kind that a driver took over as the driver's; any other as it is. Says which it was.
fn as_drivers(volume: Arc<PersistentVolume>) -> Result<(Arc<PersistentVolume>, bool), String> {
    match of_volume(&volume) {
        Some(translated) => translated.map(|volume| (Arc::new(volume), true)).map_err(|why| why.to_string()),
        None => Ok((volume, false)),
    }
}

impl MountTask {
    pub(super) async fn run(self) -> TaskEnd {
        let mut tokens = NewSecrets::default();
        let outcome = match &self.plan.kind {
            VolumeKind::Claim { claim, .. } if self.csi.only_grows => {
                self.look_for_growth(claim, &mut tokens).await.map(|()| TaskGain::default())
            }
            VolumeKind::Claim { claim, read_only, owned } => {
                self.mount_claim(claim, *read_only, *owned, &mut tokens).await
            }
            VolumeKind::Image(_) => self.mount_own(&mut tokens).await,
            VolumeKind::Csi(source) => self.mount_inline(source, &mut tokens).await,
            VolumeKind::Migrated(volume) => self.mount_migrated(volume, &mut tokens).await,
            _ => {
                let place = self.plan.place(&self.uid);
                let work = self.mount_own(&mut tokens);
                self.timing.of(plugin_of(place.as_ref()), mounting(false), work).await
            }
        };
        TaskEnd { outcome, secrets: tokens }
    }

    pub(super) fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    async fn mount_own(&self, tokens: &mut NewSecrets) -> Result<TaskGain, TaskFailure> {
        let name = &self.plan.name;
        let sources = self.gather(tokens).await.map_err(|error| set_up_failed(name, error))?;
        let order = self.plan.set_up(&self.pod, &sources, &self.node, self.now);
        let mut order = order.map_err(|error| set_up_failed(name, error))?;
        self.ready_disk(name, false, &mut order).await?;
        let host = &self.host;
        let place = self.plan.place(&self.uid);
        let set_up = self.set_up(place.as_ref(), order).await;
        set_up.map_err(|error| {
            // Another kind's errors have upstream's one step.
            let step = if matches!(self.plan.kind, VolumeKind::Iscsi(_) | VolumeKind::Fc(_)) {
                step_of(&error, false)
            } else {
                VolumeStep::SetUp
            };
            quiet_if_busy(&error, step_failed(step, name, &error))
        })?;
        let host_path = match (&self.plan.kind, place) {
            (VolumeKind::HostPath { path, .. }, _) => path.clone(),
            (_, Some(place)) => host.path_of(&place),
            (_, None) => String::new(),
        };
        let relabel = self.plan.is_relabelled();
        let mounted = MountedVolume { host_path, name: name.clone(), relabel, ..MountedVolume::default() };
        Ok(TaskGain { mounted: Some(mounted), ..TaskGain::default() })
    }

    /// A volume of a driver that the pod brings along (VOL-43).
    async fn mount_inline(&self, source: &CSIVolumeSource, new: &mut NewSecrets) -> Result<TaskGain, TaskFailure> {
        let name = &self.plan.name;
        let source = CsiSource::inline(source, &self.pod, name, sha256_hex);
        let source = source.map_err(|why| step_failed(VolumeStep::NewMounter, name, why))?;
        self.mount_driven(&source, None, None, new).await
    }

    /// A volume of an in-tree kind that a driver took over. One that cannot be the driver's fails as in upstream's
    /// populator.
    async fn mount_migrated(&self, volume: &Volume, new: &mut NewSecrets) -> Result<TaskGain, TaskFailure> {
        let source = CsiSource::of_migrated(volume, self.namespace()).expect("planned as one of such a kind");
        let source = source.map_err(|message| TaskFailure { in_processing: true, reason: None, ..failure(message) })?;
        self.mount_driven(&source, None, None, new).await
    }

    /// A volume of a driver that a claim is bound to.
    async fn mount_claimed(
        &self,
        source: Result<CsiSource, String>,
        claimed: Claimed<'_>,
        new: &mut NewSecrets,
    ) -> Result<TaskGain, TaskFailure> {
        let name = claimed.volume.metadata.name.as_deref().unwrap_or_default();
        let label = self.label_of(claimed.volume)?;
        let step = if is_block(claimed.volume) { VolumeStep::NewMapper } else { VolumeStep::NewMounter };
        check_affinity(claimed.volume, self.own_node.as_deref())
            .map_err(|error| step_failed(error.step, name, error.problem))?;
        let source = source.map_err(|why| step_failed(step, name, why))?;
        self.mount_driven(&source, Some(claimed), label, new).await
    }

    /// A volume of a driver, by a claim or without one.
    async fn mount_driven(
        &self,
        source: &CsiSource,
        claimed: Option<Claimed<'_>>,
        label: Option<MountLabel>,
        new: &mut NewSecrets,
    ) -> Result<TaskGain, TaskFailure> {
        let work = async {
            let mounted = self.mount_csi(source, label, new).await?;
            if let Some(claimed) = &claimed {
                self.grow_mounted(claimed, source, &mounted, new).await?;
            }
            Ok(mounted)
        };
        let mounted = self.timing.of_source(source, mounting(source.is_block), work).await?;
        let (name, is_device) = (source.name.clone(), source.is_block);
        let (host_path, republish) = (mounted.host_path, mounted.republish);
        let (mut news, mut target) = (vec![], host_path.clone());
        if is_device {
            let of_node = block_map_path(self.csi.volumes.host.root().as_ref(), &name).display().to_string();
            target = format!("{of_node}/{}", self.uid);
            let [_, of_pod] = self.host.map_paths(&source.place(&self.uid));
            news = if self.csi.was_published { vec![] } else { mapped_news(&name, [of_node, of_pod]) };
        }
        let group = claimed.as_ref().and_then(|claimed| volume_group(claimed.volume));
        let relabel = !source.read_only && !is_device && !mounted.is_labelled;
        let label = mounted.label;
        let (driver, handle) = (source.driver.clone(), source.handle.clone());
        let driven = Some(DrivenVolume { driver, handle, target, migrated: source.migrated });
        let mounted = MountedVolume { host_path, name, group, is_device, relabel, label: None, republish, driven };
        let mounted = self.labelled(mounted, label, claimed.map(|claimed| claimed.volume));
        Ok(TaskGain { mounted: Some(mounted), news, ..TaskGain::default() })
    }

    /// Has the host do it, tells how far that is for as long as it takes long, and how long it took to change ownership.
    async fn set_up(&self, place: Option<&VolumePlace>, order: SetUp) -> Result<Option<String>, VolumeError> {
        let progress = Arc::new(Progress::by(Arc::clone(&self.timing.clock)));
        let work = self.host.set_up_watched(&self.uid, place, order, Arc::clone(&progress));
        let outcome = self.watched(place, &progress, work).await;
        self.tell_walks(plugin_of(place), false, &progress);
        outcome
    }

    /// Tells how long it took to change ownership.
    pub(super) fn tell_walks(&self, plugin: &str, migrated: bool, progress: &Progress) {
        for walk in progress.take_walks() {
            self.timing.walked(plugin, migrated, walk);
        }
    }

    /// Waits for work, and tells how far it is for as long as it takes long.
    pub(super) async fn watched<T>(
        &self,
        place: Option<&VolumePlace>,
        progress: &Progress,
        work: impl Future<Output = T>,
    ) -> T {
        let of_volume = place.filter(|place| [plugin::LOCAL, plugin::CSI].contains(&&*place.plugin));
        let mut work = std::pin::pin!(work);
        let (mut seen, mut told) = (0, 0);
        loop {
            match tokio::time::timeout(LOOK_PERIOD, &mut work).await {
                Ok(outcome) => return outcome,
                Err(_) => self.look(progress, of_volume, &mut seen, &mut told),
            }
        }
    }

    /// One look at a set-up that takes long.
    fn look(&self, progress: &Progress, of_local: Option<&VolumePlace>, seen: &mut u64, told: &mut u32) {
        match progress.look() {
            (Doing::Calls, _) => {}
            (Doing::Waits, _) => (self.moves)(WAITS.to_owned(), None),
            (Doing::Attaches, _) => (self.moves)(ATTACHES.to_owned(), None),
            (Doing::Walks { began }, files) => {
                let took = self.timing.clock.uptime().saturating_sub(began);
                let event = of_local.and_then(|place| progress_event(place, took, files, *told));
                *told += u32::from(event.is_some());
                if std::mem::replace(seen, files) != files || event.is_some() {
                    (self.moves)(DOING.to_owned(), event);
                }
            }
        }
    }

    async fn gather(&self, new: &mut NewSecrets) -> Result<Sources, String> {
        let needs = self.plan.needs(&self.pod);
        let (objects, namespace) = (&self.objects, self.namespace());
        let needs_api = !(needs.config_maps.is_empty()
            && needs.secrets.is_empty()
            && needs.tokens.is_empty()
            && needs.trust.is_empty()
            && self.plan.certificates().is_empty());
        if needs_api && matches!(self.plan.kind, VolumeKind::Projected(_)) && !objects.is_connected() {
            let name = &self.plan.name;
            return Err(format!("cannot setup projected volume {name} because kube client is not configured"));
        }
        let mut found = Sources::default();
        for name in needs.config_maps {
            let object = patiently("configmap", &name, objects.config_map(namespace, &name)).await;
            found.config_maps.insert(name, looked(object));
        }
        for name in needs.secrets {
            let object = patiently("secret", &name, objects.secret(namespace, &name)).await;
            found.secrets.insert(name, looked(object));
        }
        for key in needs.tokens {
            let token = self.token(&key, new).await;
            found.tokens.insert(key, token);
        }
        for key in needs.trust {
            let bundles = self.trust(&key).await;
            found.trust.insert(key, bundles);
        }
        found.certificates = self.certificates(new).await;
        Ok(found)
    }

    /// The certificates of the volume's sources, each asked for or looked after as it is due.
    async fn certificates(&self, new: &mut NewSecrets) -> BTreeMap<usize, KeyAndChain> {
        let mut found = BTreeMap::new();
        for (source, projection) in self.plan.certificates() {
            let key = CertificateKey { pod_uid: self.uid.clone(), volume: self.plan.name.clone(), source };
            let known = self.certificates.iter().find(|(other, _)| *other == key).map(|(_, state)| state.clone());
            let (state, trouble) = self.certificate(known, &Wanted::new(&self.pod, projection), new).await;
            let bundle = bundle(state.as_ref()).map_err(|why| trouble.unwrap_or(why));
            found.insert(source, bundle);
            new.certificates.push((key, state));
        }
        found
    }

    /// One step of one certificate, and what went wrong in it.
    async fn certificate(
        &self,
        state: Option<CertificateState>,
        wanted: &Wanted,
        new: &mut NewSecrets,
    ) -> (Option<CertificateState>, Option<String>) {
        let (mut state, trouble) = match next_step(state.as_ref(), self.now) {
            Step::Rest => (state, None),
            Step::Ask => {
                let node = self.own_node.clone().unwrap_or_default();
                let asked = self.objects.ask_certificate(wanted, &node);
                match patiently("certificate for", &wanted.pod_name, asked).await {
                    Ok((key, request)) => {
                        (Some(note_asked(state, Asked::new(key, request, self.now, self.chance))), None)
                    }
                    Err(error) => (state, Some(error.to_string())),
                }
            }
            Step::Look(name) => {
                let looked = self.objects.certificate_request(&wanted.namespace, &name);
                let looked = match patiently("podcertificaterequest", &name, looked).await {
                    Ok(request) => Ok(Some(request)),
                    Err(ObjectError::NotFound(_)) => Ok(None),
                    Err(error) => Err(format!("while getting PodCertificateRequest: {error}")),
                };
                match (state, looked) {
                    (Some(state), Ok(request)) => {
                        let (state, events) = note_looked(state, request.as_ref(), self.now, self.chance);
                        new.events.extend(events);
                        (state, None)
                    }
                    (state, looked) => (state, looked.err()),
                }
            }
        };
        if let Some(state) = &mut state {
            new.events.extend(overdue(state, self.now));
        }
        (state, trouble)
    }

    async fn trust(&self, key: &TrustKey) -> Looked<Vec<String>> {
        let objects = &self.objects;
        let missing = || Looked::Missing(NOTHING_SELECTED.to_owned());
        let (found, trouble) = match key {
            TrustKey::Name(name) => {
                let bundle = patiently("clustertrustbundle", name, objects.trust_bundle(name)).await;
                (bundle.map(|bundle| vec![bundle]), "while getting ClusterTrustBundle")
            }
            TrustKey::Signer { labels: None, .. } => return missing(),
            TrustKey::Signer { signer, labels: Some(labels) } => {
                let bundles = objects.trust_bundles(signer, labels);
                (patiently("clustertrustbundles of", signer, bundles).await, "while listing ClusterTrustBundles")
            }
        };
        match found {
            Ok(bundles) if bundles.is_empty() => missing(),
            Ok(bundles) => Looked::There(Arc::new(bundles)),
            Err(error @ ObjectError::NotFound(_)) => Looked::Missing(format!("{trouble}: {error}")),
            Err(error) => Looked::Unknown(format!("{trouble}: {error}")),
        }
    }

    /// A token that is good for a while: the one at hand, or a new one; one at hand lasts while there is no new one.
    async fn token(&self, key: &TokenKey, new: &mut NewSecrets) -> Result<Arc<str>, String> {
        self.whole_token(key, new).await.map(|token| token.text)
    }

    /// The same, with its life.
    pub(super) async fn whole_token(&self, key: &TokenKey, new: &mut NewSecrets) -> Result<Token, String> {
        let known = self.tokens.iter().find(|(known, _)| known == key).map(|(_, token)| token);
        if let Some(token) = known.filter(|token| !token.life.is_due(self.now, self.chance)) {
            return Ok(token.clone());
        }
        let name = &key.service_account;
        match patiently("token of", name, self.objects.token(key)).await {
            Ok(token) => {
                new.tokens.push((key.clone(), Arc::clone(&token.text), token.life));
                Ok(token)
            }
            Err(error) => match known {
                Some(token) if !token.life.has_expired(self.now) => {
                    tracing::warn!(pod = %self.uid, service_account = name, %error, "couldn't update token, the old one is kept");
                    Ok(token.clone())
                }
                Some(_) => Err(format!("token {name} expired and refresh failed: {error}")),
                None => Err(format!("failed to fetch token: {error}")),
            },
        }
    }

    async fn mount_claim(
        &self,
        claim: &str,
        read_only: bool,
        owned: bool,
        new: &mut NewSecrets,
    ) -> Result<TaskGain, TaskFailure> {
        let told = |message: String| TaskFailure {
            message,
            in_processing: true,
            reason: None,
            look_again: Some(LOOK_AGAIN.mul_f64(1.0 + self.chance / 2.0)),
            is_full: false,
        };
        let processing = |cause: String| told(format!("error processing PVC {}/{claim}: {cause}", self.namespace()));
        let objects = &self.objects;
        let found = patiently("persistentvolumeclaim", claim, objects.claim(self.namespace(), claim)).await;
        let found = found.map_err(|error| processing(format!("failed to fetch PVC from API server: {error}")))?;
        let name = bound_volume(&found).map_err(processing)?;
        if owned {
            check_owner(&found, &self.pod).map_err(told)?;
        }
        let volume = patiently("persistentvolume", &name, objects.volume(&name)).await;
        let volume =
            volume.map_err(|error| processing(format!("failed to fetch PV {name} from API server: {error}")))?;
        check_volume(&found, &volume).map_err(processing)?;
        check_mode(&self.plan.name, &self.pod, &volume).map_err(told)?;
        let (volume, migrated) = as_drivers(volume).map_err(told)?;
        let claimed = Claimed { claim: &found, volume: &volume };
        match CsiSource::of_volume(&volume, read_only) {
            Some(source) => {
                let source = source.map(|source| CsiSource { migrated, ..source });
                self.mount_claimed(source, claimed, new).await
            }
            None => self.mount_resolved(claimed, read_only, new).await,
        }
    }

    /// A volume that the host mounts and that a claim is bound to.
    async fn mount_resolved(
        &self,
        claimed: Claimed<'_>,
        read_only: bool,
        new: &mut NewSecrets,
    ) -> Result<TaskGain, TaskFailure> {
        let volume = claimed.volume;
        let name = volume.metadata.name.clone().unwrap_or_default();
        let label = self.label_of(volume)?;
        let mut resolved = resolve(volume, &self.pod, &self.uid, read_only, self.own_node.as_deref())
            .map_err(|error| step_failed(error.step, &name, error.problem))?;
        let (host, is_device, mut relabel) = (&self.host, is_block(volume), resolved.relabel);
        let label = label.filter(|_| !is_device && matches!(resolved.set_up, SetUp::Disk(..)));
        if let (Some(label), SetUp::Disk(order, _)) = (&label, &mut resolved.set_up) {
            order.label = label.binds.then(|| label.label.clone());
            relabel &= !label.binds || label.label.is_empty();
        }
        self.ready_disk(&name, is_device, &mut resolved.set_up).await?;
        let set_up = self.set_up(resolved.place.as_ref(), resolved.set_up);
        let set_up = self.timing.of(plugin_of(resolved.place.as_ref()), mounting(is_device), set_up).await;
        let warning = set_up.map_err(|error| {
            if let VolumeError::OtherFileSystem(text) = &error {
                let uid = volume.metadata.uid.clone().unwrap_or_default();
                let message = format!("MountVolume failed for volume \"{name}\" {text}");
                new.of_volume = Some(VolumeEvent { name: name.clone(), uid, message });
            }
            if let VolumeError::OtherLabel(_) = &error {
                let plugin = plugin_of(resolved.place.as_ref()).replace('~', "/");
                self.tell_problem(LabelNews::OtherPod, true, access_modes(volume), &plugin);
                return label_failure(&error);
            }
            quiet_if_busy(&error, step_failed(step_of(&error, is_device), &name, &error))
        })?;
        let mapped = resolved.place.as_ref().filter(|_| is_device).map(|place| host.map_paths(place));
        let host_path = resolved.host_path.or_else(|| resolved.place.map(|place| host.path_of(&place)));
        let news = mapped.map(|paths| mapped_news(&name, paths)).unwrap_or_default();
        self.grow_local(&claimed, read_only, new).await?;
        let host_path = host_path.unwrap_or_default();
        let group = volume_group(volume);
        let mounted = MountedVolume { host_path, name, group, is_device, relabel, ..MountedVolume::default() };
        let mounted = self.labelled(mounted, label.map(|label| label.label), Some(volume));
        Ok(TaskGain { mounted: Some(mounted), news, warning, ..TaskGain::default() })
    }
}

#[cfg(test)]
mod tests;
