//! Objects of the node's own folder in the place of the API server's: they are known all at once, so that nothing is waited
//! for but the first look at the folder.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Secret};

use super::objects::{config_map_of, secret_of};
use super::{ObjectCache, ObjectCacheMsg};
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::logic::objects::object_cache::{Answer, Heard, Input, Object, ObjectError, not_found};
use crate::logic::objects::object_references::ObjectKey;
use crate::logic::volumes::content::token::TokenKey;
use crate::platform::cluster::objects::{Objects, Standalone, Token};

/// The objects of the folder, and those of them that are followed.
#[derive(Default)]
pub(super) struct Local {
    /// `None` until the folder was read once.
    objects: Option<Arc<BTreeMap<ObjectKey, Object>>>,
    watched: BTreeSet<ObjectKey>,
}

impl Local {
    pub fn unwatch(&mut self, key: &ObjectKey) {
        self.watched.remove(key);
    }

    pub fn watched(&self) -> usize {
        self.watched.len()
    }

    /// The object as it is now.
    pub fn answer(&self, key: &ObjectKey) -> Answer {
        match &self.objects {
            None => Err(ObjectError::Unavailable("the local objects were not read yet".to_owned())),
            Some(objects) => objects.get(key).cloned().ok_or_else(|| not_found(key)),
        }
    }

    /// The news of an object; nothing before the folder was read.
    fn heard(&self, key: &ObjectKey) -> Option<Heard> {
        self.objects.as_ref().map(|objects| Heard::Is(objects.get(key).cloned()))
    }
}

impl ObjectCache {
    pub(super) fn watch_local(&mut self, key: ObjectKey, context: &mut Context<ObjectCacheMsg>) {
        self.local.watched.insert(key.clone());
        if let Some(heard) = self.local.heard(&key) {
            self.step(Input::Heard(key, heard), context);
        }
    }

    pub(super) fn take_local(
        &mut self,
        objects: Arc<BTreeMap<ObjectKey, Object>>,
        context: &mut Context<ObjectCacheMsg>,
    ) {
        self.local.objects = Some(objects);
        for key in self.local.watched.clone() {
            if let Some(heard) = self.local.heard(&key) {
                self.step(Input::Heard(key, heard), context);
            }
        }
    }
}

/// [`Objects`] of a standalone node with a folder of its own objects; all others cannot be had.
pub struct CachedLocalObjects(pub Address<ObjectCacheMsg>);

#[async_trait]
impl Objects for CachedLocalObjects {
    fn is_connected(&self) -> bool {
        true
    }

    fn has_cluster(&self) -> bool {
        false
    }

    async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>, ObjectError> {
        config_map_of(&self.0, namespace, name).await
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ObjectError> {
        secret_of(&self.0, namespace, name).await
    }

    async fn claim(&self, namespace: &str, name: &str) -> Result<Arc<PersistentVolumeClaim>, ObjectError> {
        Standalone.claim(namespace, name).await
    }

    async fn volume(&self, name: &str) -> Result<Arc<PersistentVolume>, ObjectError> {
        Standalone.volume(name).await
    }

    async fn token(&self, key: &TokenKey) -> Result<Token, ObjectError> {
        Standalone.token(key).await
    }
}
