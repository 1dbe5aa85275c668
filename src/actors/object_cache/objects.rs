//! `ApiObjects`: what pods refer to, from the API server: ConfigMaps and Secrets by `ObjectCache`, the rest as it is now.
//!
//! Owned by whoever wires the agent. Keeps nothing; tokens are kept by who asked for them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Secret, ServiceAccount};

use crate::actors::address::Address;
use crate::actors::ledger::Cause;
use crate::logic::object_cache::{Object, ObjectError};
use crate::logic::object_references::ObjectKind;
use crate::logic::time::Moment;
use crate::logic::volumes::token::{TokenKey, TokenLife};
use crate::messages::object_cache::{ObjectCacheMsg, ServiceVariables};
use crate::platform::kube_api::{ApiError, ApiServer, Place};
use crate::platform::objects::{Objects, Token};

/// Patience with `ObjectCache`, which answers sooner where it watches and reads with the API server's own time limit.
const PATIENCE: Duration = Duration::from_secs(35);

/// See the module.
pub struct ApiObjects {
    api: ApiServer,
    cache: Address<ObjectCacheMsg>,
}

impl ApiObjects {
    /// Objects of this API server, by the cache that lives at this address.
    pub fn new(api: ApiServer, cache: Address<ObjectCacheMsg>) -> Self {
        Self { api, cache }
    }

    async fn get(&self, kind: ObjectKind, namespace: &str, name: &str) -> Result<Object, ObjectError> {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let question = |reply| ObjectCacheMsg::Get { kind, namespace, name, reply };
        let answer = self.cache.ask(Cause::outside("read object"), PATIENCE, question).await;
        answer.unwrap_or_else(|error| Err(ObjectError::Unavailable(format!("object cache: {error}"))))
    }
}

/// What became of a call, in the words of who wants the object.
pub(super) fn failure(error: &ApiError) -> ObjectError {
    let text = error.to_string();
    match error {
        error if error.is_not_found() => ObjectError::NotFound(text),
        error if error.is_forbidden() => ObjectError::Forbidden(text),
        _ => ObjectError::Unavailable(text),
    }
}

#[async_trait]
impl Objects for ApiObjects {
    fn is_connected(&self) -> bool {
        true
    }

    async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>, ObjectError> {
        match self.get(ObjectKind::ConfigMap, namespace, name).await? {
            Object::ConfigMap(object) => Ok(object),
            Object::Secret(_) => unreachable!("the cache gives what it is asked for"),
        }
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ObjectError> {
        match self.get(ObjectKind::Secret, namespace, name).await? {
            Object::Secret(object) => Ok(object),
            Object::ConfigMap(_) => unreachable!("the cache gives what it is asked for"),
        }
    }

    async fn claim(&self, namespace: &str, name: &str) -> Result<Arc<PersistentVolumeClaim>, ObjectError> {
        let found = self.api.get(&Place::namespace(namespace), name).await;
        found.map(Arc::new).map_err(|error| failure(&error))
    }

    async fn volume(&self, name: &str) -> Result<Arc<PersistentVolume>, ObjectError> {
        self.api.get(&Place::Cluster, name).await.map(Arc::new).map_err(|error| failure(&error))
    }

    async fn token(&self, key: &TokenKey) -> Result<Token, ObjectError> {
        let at = Place::namespace(&key.namespace);
        let asked = request(key);
        let answer =
            self.api.post_subresource::<ServiceAccount, _, TokenRequest>(&at, &key.service_account, "token", &asked);
        token(answer.await.map_err(|error| failure(&error))?)
    }

    async fn service_variables(&self, namespace: &str, links: bool, patient: bool) -> ServiceVariables {
        let namespace = namespace.to_owned();
        let question = |reply| ObjectCacheMsg::Services { namespace, links, patient, reply };
        self.cache.ask(Cause::outside("read services"), PATIENCE, question).await.ok().flatten()
    }
}

/// A token for these, bound to the pod (VOL-27).
fn request(key: &TokenKey) -> TokenRequest {
    // Without one the API server takes its own.
    let audiences = (!key.audience.is_empty()).then(|| vec![key.audience.clone()]);
    let bound = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(key.pod_name.clone()),
        uid: Some(key.pod_uid.to_string()),
    };
    let expiration_seconds = Some(key.expiration_seconds);
    let spec = TokenRequestSpec { audiences, bound_object_ref: Some(bound), expiration_seconds };
    TokenRequest { spec: Some(spec), ..TokenRequest::default() }
}

/// The token of an answer. How long it was made for is the answer's own word: the server may have changed it.
fn token(answer: TokenRequest) -> Result<Token, ObjectError> {
    let without = |what| ObjectError::Unavailable(format!("the API server answered without {what}"));
    let status = answer.status.unwrap_or_default();
    let text = status.token.filter(|text| !text.is_empty()).ok_or_else(|| without("a token"))?;
    let expires = status.expiration_timestamp.ok_or_else(|| without("a token's end"))?;
    let expires = Moment::from_timestamp(expires.0);
    let seconds = answer.spec.and_then(|spec| u64::try_from(spec.expiration_seconds?).ok()).unwrap_or_default();
    let life = TokenLife { expires, lifetime: Duration::from_secs(seconds) };
    Ok(Token { text: text.into(), life })
}
