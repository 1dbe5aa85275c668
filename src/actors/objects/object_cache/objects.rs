//! `ApiObjects`: what pods refer to, from the API server: ConfigMaps and Secrets by `ObjectCache`, the rest as it is now.
//!
//! Owned by whoever wires the agent. Keeps runtime classes and storage drivers; tokens are kept by who asked for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::certificates::v1beta1::{ClusterTrustBundle, PodCertificateRequest, PodCertificateRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolume, PersistentVolumeClaim, Secret, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;

use crate::actors::kit::address::Address;
use crate::actors::kit::trace::{Cause, lock};
use crate::logic::model::time::Moment;
use crate::logic::objects::object_cache::{Object, ObjectError};
use crate::logic::objects::object_references::ObjectKind;
use crate::logic::volumes::content::certificate::Wanted;
use crate::logic::volumes::content::token::{TokenKey, TokenLife};
use crate::messages::object_cache::{ObjectCacheMsg, ServiceVariables};
use crate::platform::cluster::kube_api::{ApiError, ApiObject, ApiServer, PatchKind, Place, Selector};
use crate::platform::cluster::objects::{Objects, Token};
use crate::platform::host::blocking;
use crate::platform::pods::pod_keys;

/// Patience with `ObjectCache`, which answers sooner where it watches and reads with the API server's own time limit.
const PATIENCE: Duration = Duration::from_secs(35);

/// Waits between tries for what the API server is to know or to grant in a moment.
const LATE_WAITS: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(100), Duration::from_millis(200), Duration::from_millis(400)];

/// Objects of one kind that are remembered.
const REMEMBERED_MAX: usize = 256;

/// See the module.
pub struct ApiObjects {
    api: ApiServer,
    cache: Address<ObjectCacheMsg>,
    /// Runtime classes as they were read last, by name.
    classes: Mutex<BTreeMap<String, Arc<RuntimeClass>>>,
    /// The same of storage drivers.
    drivers: Mutex<BTreeMap<String, Arc<CSIDriver>>>,
}

impl ApiObjects {
    /// Objects of this API server, by the cache that lives at this address.
    pub fn new(api: ApiServer, cache: Address<ObjectCacheMsg>) -> Self {
        Self { api, cache, classes: Mutex::default(), drivers: Mutex::default() }
    }

    /// An object that one of the node's pods names, as it is now.
    async fn granted<K: ApiObject>(&self, at: &Place, name: &str) -> Result<Arc<K>, ObjectError> {
        let mut waits = LATE_WAITS.iter();
        loop {
            let answer = self.api.get::<K>(at, name).await;
            match late(&answer, ApiError::is_forbidden, &mut waits) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return answer.map(Arc::new).map_err(|error| failure(&error)),
            }
        }
    }
}

/// A ConfigMap of `ObjectCache`.
pub(super) async fn config_map_of(
    cache: &Address<ObjectCacheMsg>,
    namespace: &str,
    name: &str,
) -> Result<Arc<ConfigMap>, ObjectError> {
    match get(cache, ObjectKind::ConfigMap, namespace, name).await? {
        Object::ConfigMap(object) => Ok(object),
        Object::Secret(_) => unreachable!("the cache gives what it is asked for"),
    }
}

/// A Secret of `ObjectCache`.
pub(super) async fn secret_of(
    cache: &Address<ObjectCacheMsg>,
    namespace: &str,
    name: &str,
) -> Result<Arc<Secret>, ObjectError> {
    match get(cache, ObjectKind::Secret, namespace, name).await? {
        Object::Secret(object) => Ok(object),
        Object::ConfigMap(_) => unreachable!("the cache gives what it is asked for"),
    }
}

async fn get(
    cache: &Address<ObjectCacheMsg>,
    kind: ObjectKind,
    namespace: &str,
    name: &str,
) -> Result<Object, ObjectError> {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    let question = |reply| ObjectCacheMsg::Get { kind, namespace, name, reply };
    let answer = cache.ask(Cause::outside("read object"), PATIENCE, question).await;
    answer.unwrap_or_else(|error| Err(ObjectError::Unavailable(format!("object cache: {error}"))))
}

/// Remembers what was read, and gives what was read before where nobody answers.
fn remembered<K>(
    known: &Mutex<BTreeMap<String, Arc<K>>>,
    name: &str,
    found: Result<K, ObjectError>,
) -> Result<Arc<K>, ObjectError> {
    let mut known = lock(known);
    match found {
        Ok(object) => {
            let object = Arc::new(object);
            if known.len() >= REMEMBERED_MAX && !known.contains_key(name) {
                known.pop_first();
            }
            known.insert(name.to_owned(), Arc::clone(&object));
            Ok(object)
        }
        Err(error @ ObjectError::Unavailable(_)) => known.get(name).cloned().ok_or(error),
        Err(error) => {
            known.remove(name);
            Err(error)
        }
    }
}

/// How long to wait before something is asked for again, for a moment: the Node authorizer grants what the node's pods
/// name, and may hear of a pod a little later than the node does; so may who makes tokens.
fn late<T>(
    answer: &Result<T, ApiError>,
    may_be: impl Fn(&ApiError) -> bool,
    waits: &mut std::slice::Iter<'_, Duration>,
) -> Option<Duration> {
    waits.next().copied().filter(|_| answer.as_ref().is_err_and(may_be))
}

/// The failure of a call, in the words of the object's asker.
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
        config_map_of(&self.cache, namespace, name).await
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ObjectError> {
        secret_of(&self.cache, namespace, name).await
    }

    async fn claim(&self, namespace: &str, name: &str) -> Result<Arc<PersistentVolumeClaim>, ObjectError> {
        self.granted(&Place::namespace(namespace), name).await
    }

    async fn volume(&self, name: &str) -> Result<Arc<PersistentVolume>, ObjectError> {
        self.granted(&Place::Cluster, name).await
    }

    async fn patch_claim_status(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Arc<PersistentVolumeClaim>, ObjectError> {
        let at = Place::namespace(namespace);
        let patched = self.api.patch(&at, name, Some("status"), PatchKind::Strategic, patch).await;
        patched.map(Arc::new).map_err(|error| failure(&error))
    }

    /// The object as it was read last, where the API server does not answer: volumes can be published again meanwhile.
    async fn csi_driver(&self, name: &str) -> Result<Arc<CSIDriver>, ObjectError> {
        let found: Result<CSIDriver, _> = self.api.get_cached(&Place::Cluster, name).await;
        remembered(&self.drivers, name, found.map_err(|error| failure(&error)))
    }

    async fn volume_attachment(&self, name: &str) -> Result<Arc<VolumeAttachment>, ObjectError> {
        self.api.get(&Place::Cluster, name).await.map(Arc::new).map_err(|error| failure(&error))
    }

    async fn volume_secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ObjectError> {
        self.granted(&Place::namespace(namespace), name).await
    }

    /// As it is now; what was read last where the API server does not answer, for a class keeps its handler.
    async fn runtime_class(&self, name: &str) -> Result<Arc<RuntimeClass>, ObjectError> {
        let found: Result<RuntimeClass, _> = self.api.get(&Place::Cluster, name).await;
        remembered(&self.classes, name, found.map_err(|error| failure(&error)))
    }

    async fn service_account(&self, namespace: &str, name: &str) -> Result<Arc<ServiceAccount>, ObjectError> {
        self.granted(&Place::namespace(namespace), name).await
    }

    async fn token(&self, key: &TokenKey) -> Result<Token, ObjectError> {
        let at = Place::namespace(&key.namespace);
        let asked = request(key);
        let mut waits = LATE_WAITS.iter();
        loop {
            let account = &key.service_account;
            let answer =
                self.api.post_subresource::<ServiceAccount, _, TokenRequest>(&at, account, "token", &asked).await;
            // The pod may be here before the part of the server that makes its tokens knows of it.
            let is_late = |error: &ApiError| error.is_forbidden() || error.is_not_found();
            match late(&answer, is_late, &mut waits) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return token(answer.map_err(|error| failure(&error))?),
            }
        }
    }

    async fn trust_bundle(&self, name: &str) -> Result<String, ObjectError> {
        let found = self.api.get::<ClusterTrustBundle>(&Place::Cluster, name).await;
        found.map(|bundle| bundle.spec.trust_bundle).map_err(|error| failure(&error))
    }

    async fn trust_bundles(&self, signer: &str, labels: &str) -> Result<Vec<String>, ObjectError> {
        let selector = Selector { fields: format!("spec.signerName={signer}"), labels: labels.to_owned() };
        // As old as the server's cache: the files are looked at again with each sync of the pod.
        let found = self.api.list::<ClusterTrustBundle>(&Place::Cluster, &selector, Some("0")).await;
        let found = found.map_err(|error| failure(&error))?;
        Ok(found.items.into_iter().map(|bundle| bundle.spec.trust_bundle).collect())
    }

    async fn ask_certificate(&self, wanted: &Wanted, node: &Node) -> Result<(Arc<str>, String), ObjectError> {
        let at = Place::namespace(&wanted.namespace);
        let account: ServiceAccount = self
            .api
            .get(&at, &wanted.service_account)
            .await
            .map_err(|error| ObjectError::Unavailable(format!("while fetching service account: {error}")))?;
        let kind = wanted.source.key_type.clone();
        let made = blocking::run(move || pod_keys::generate(&kind)).await;
        let (key, proof) = made.map_err(|error| ObjectError::Unavailable(error.to_string()))?;
        let request = certificate_request(wanted, node, &account, proof);
        let made = self.api.create(&at, &request).await;
        let made: PodCertificateRequest = made.map_err(|error| {
            ObjectError::Unavailable(format!("while creating PodCertificateRequest: while creating on API: {error}"))
        })?;
        Ok((key.into(), made.metadata.name.unwrap_or_default()))
    }

    async fn certificate_request(&self, namespace: &str, name: &str) -> Result<PodCertificateRequest, ObjectError> {
        self.api.get(&Place::namespace(namespace), name).await.map_err(|error| failure(&error))
    }

    async fn service_variables(&self, namespace: &str, links: bool, patient: bool) -> ServiceVariables {
        let namespace = namespace.to_owned();
        let question = |reply| ObjectCacheMsg::Services { namespace, links, patient, reply };
        self.cache.ask(Cause::outside("read services"), PATIENCE, question).await.ok().flatten()
    }
}

/// A request for the pod's certificate, owned by the pod (VOL-28).
fn certificate_request(
    wanted: &Wanted,
    node: &Node,
    account: &ServiceAccount,
    proof: Vec<u8>,
) -> PodCertificateRequest {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: wanted.pod_name.clone(),
        uid: wanted.pod_uid.to_string(),
        ..OwnerReference::default()
    };
    let metadata = ObjectMeta {
        namespace: Some(wanted.namespace.clone()),
        generate_name: Some("req-".to_owned()),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    let spec = PodCertificateRequestSpec {
        signer_name: wanted.source.signer_name.clone(),
        pod_name: wanted.pod_name.clone(),
        pod_uid: wanted.pod_uid.to_string(),
        service_account_name: wanted.service_account.clone(),
        service_account_uid: text(&account.metadata.uid),
        node_name: text(&node.metadata.name),
        node_uid: text(&node.metadata.uid),
        max_expiration_seconds: wanted.source.max_expiration_seconds,
        stub_pkc_s10_request: ByteString(proof),
        unverified_user_annotations: wanted.source.user_annotations.clone(),
        ..PodCertificateRequestSpec::default()
    };
    PodCertificateRequest { metadata, spec, status: None }
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
    // The server refuses the request where the account has another one.
    let uid = Some(key.service_account_uid.clone()).filter(|uid| !uid.is_empty());
    let metadata = ObjectMeta { uid, ..ObjectMeta::default() };
    TokenRequest { metadata, spec: Some(spec), ..TokenRequest::default() }
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
