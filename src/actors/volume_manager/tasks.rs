//! Mounting one volume: find out what it is, gather what is in it, have the host do it.
//!
//! A task reports; it decides nothing. It can be cut off at any await and done again.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::ids::PodUid;
use crate::logic::time::Moment;
use crate::logic::volume_states::{MountedVolume, TaskFailure};
use crate::logic::volumes::claim::{bound_volume, check_volume, resolve, volume_group};
use crate::logic::volumes::plan::{NodeFacts, VolumeKind, VolumePlan};
use crate::logic::volumes::projected::Sources;
use crate::logic::volumes::token::TokenKey;
use crate::messages::volume_manager::{NewTokens, TaskGain};
use crate::platform::objects::{Objects, Token, looked, patiently};
use crate::platform::volumes::{VolumeError, VolumeHost};

/// A volume to be mounted.
pub(super) struct MountTask {
    pub(super) objects: Arc<dyn Objects>,
    pub(super) host: Arc<dyn VolumeHost>,
    pub(super) node: Arc<NodeFacts>,
    pub(super) uid: PodUid,
    pub(super) pod: Arc<Pod>,
    pub(super) plan: VolumePlan,
    pub(super) tokens: Vec<(TokenKey, Token)>,
    pub(super) now: Moment,
    /// In 0..1.
    pub(super) chance: f64,
}

pub(super) fn failed(error: VolumeError) -> TaskFailure {
    TaskFailure { message: error.to_string(), in_processing: false }
}

/// Upstream's text of a failed mount; `name` is the persistent volume's for a claim.
fn set_up_failed(name: &str, error: impl std::fmt::Display) -> TaskFailure {
    TaskFailure { message: format!("MountVolume.SetUp failed for volume \"{name}\" : {error}"), in_processing: false }
}

impl MountTask {
    pub(super) async fn run(self) -> (Result<TaskGain, TaskFailure>, NewTokens) {
        let mut tokens = NewTokens::default();
        let mounted = match &self.plan.kind {
            VolumeKind::Claim { claim, read_only, owned } => self.mount_claim(claim, *read_only, *owned).await,
            _ => self.mount_own(&mut tokens).await,
        };
        (mounted.map(|mounted| TaskGain { mounted: Some(mounted), found: vec![] }), tokens)
    }

    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    async fn mount_own(&self, tokens: &mut NewTokens) -> Result<MountedVolume, TaskFailure> {
        let name = &self.plan.name;
        let sources = self.gather(tokens).await.map_err(|error| set_up_failed(name, error))?;
        let order = self.plan.set_up(&self.pod, &sources, &self.node, self.now);
        let order = order.map_err(|error| set_up_failed(name, error))?;
        let host = &self.host;
        let place = self.plan.place(&self.uid);
        host.set_up(&self.uid, place.as_ref(), order).await.map_err(|error| set_up_failed(name, error))?;
        let host_path = match (&self.plan.kind, place) {
            (VolumeKind::HostPath { path, .. }, _) => path.clone(),
            (_, Some(place)) => host.path_of(&place),
            (_, None) => String::new(),
        };
        Ok(MountedVolume { host_path, name: name.clone(), group: None })
    }

    async fn gather(&self, new: &mut NewTokens) -> Result<Sources, String> {
        let needs = self.plan.needs(&self.pod);
        let (objects, namespace) = (&self.objects, self.namespace());
        let needs_api = !(needs.config_maps.is_empty() && needs.secrets.is_empty() && needs.tokens.is_empty());
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
        Ok(found)
    }

    /// A token that is good for a while: the one at hand, or a new one; one at hand lasts while there is no new one.
    async fn token(&self, key: &TokenKey, new: &mut NewTokens) -> Result<Arc<str>, String> {
        let known = self.tokens.iter().find(|(known, _)| known == key).map(|(_, token)| token);
        if let Some(token) = known.filter(|token| !token.life.is_due(self.now, self.chance)) {
            return Ok(Arc::clone(&token.text));
        }
        let name = &key.service_account;
        match patiently("token of", name, self.objects.token(key)).await {
            Ok(token) => {
                new.0.push((key.clone(), Arc::clone(&token.text), token.life));
                Ok(token.text)
            }
            Err(error) => match known {
                Some(token) if !token.life.has_expired(self.now) => {
                    tracing::warn!(pod = %self.uid, service_account = name, %error, "couldn't update token, the old one is kept");
                    Ok(Arc::clone(&token.text))
                }
                Some(_) => Err(format!("token {name} expired and refresh failed: {error}")),
                None => Err(format!("failed to fetch token: {error}")),
            },
        }
    }

    async fn mount_claim(&self, claim: &str, read_only: bool, owned: bool) -> Result<MountedVolume, TaskFailure> {
        let processing = |cause: String| TaskFailure {
            message: format!("error processing PVC {}/{claim}: {cause}", self.namespace()),
            in_processing: true,
        };
        let objects = &self.objects;
        let found = patiently("persistentvolumeclaim", claim, objects.claim(self.namespace(), claim)).await;
        let found = found.map_err(|error| processing(format!("failed to fetch PVC from API server: {error}")))?;
        let name = bound_volume(&found, &self.pod, owned).map_err(processing)?;
        let volume = patiently("persistentvolume", &name, objects.volume(&name)).await;
        let volume =
            volume.map_err(|error| processing(format!("failed to fetch PV {name} from API server: {error}")))?;
        check_volume(&self.plan.name, &self.pod, &found, &volume).map_err(processing)?;
        let resolved =
            resolve(&volume, &self.pod, &self.uid, read_only).map_err(|error| set_up_failed(&name, error))?;
        let host = &self.host;
        let set_up = host.set_up(&self.uid, resolved.place.as_ref(), resolved.set_up).await;
        set_up.map_err(|error| set_up_failed(&name, error))?;
        let host_path = resolved.host_path.or_else(|| resolved.place.map(|place| host.path_of(&place)));
        Ok(MountedVolume { host_path: host_path.unwrap_or_default(), name, group: volume_group(&volume) })
    }
}

#[cfg(test)]
#[path = "tasks_tests.rs"]
mod tests;
