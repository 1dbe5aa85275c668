//! Objects of the API that pods refer to: ConfigMaps, Secrets, claims and their volumes, tokens.
//!
//! The trait, and the form without an API server, which has none. Secret texts have no `Debug`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::certificates::v1beta1::PodCertificateRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolume, PersistentVolumeClaim, Secret, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use serde_json::Value;

pub use crate::logic::objects::object_cache::ObjectError;
use crate::logic::objects::object_references::Looked;
use crate::logic::volumes::content::certificate::Wanted;
use crate::logic::volumes::content::token::{TokenKey, TokenLife};

/// Patience with one object; a cache answers sooner about what it watches.
const PATIENCE: Duration = Duration::from_secs(10);

/// Upstream's text without an API server.
const NO_TRUST_BUNDLES: &str = "ClusterTrustBundle projection is not supported in static kubelet mode";

/// The result of a look for an object, for decisions.
pub fn looked<T>(found: Result<Arc<T>, ObjectError>) -> Looked<T> {
    match found {
        Ok(object) => Looked::There(object),
        Err(ObjectError::NotFound(why)) => Looked::Missing(why),
        Err(error) => Looked::Unknown(error.to_string()),
    }
}

/// Waits for one object, for ten seconds at most; `what` and `name` are for the text when that was too short.
///
/// # Errors
/// Those of `ask`; [`ObjectError::Unavailable`] when there was no answer in time.
pub async fn patiently<T>(
    what: &str,
    name: &str,
    ask: impl Future<Output = Result<T, ObjectError>>,
) -> Result<T, ObjectError> {
    let slow = |_| Err(ObjectError::Unavailable(format!("{what} {name:?}: no answer from the API server in time")));
    tokio::time::timeout(PATIENCE, ask).await.unwrap_or_else(slow)
}

/// A service account's token.
#[derive(Clone)]
pub struct Token {
    /// The token itself.
    pub text: Arc<str>,
    /// How long it is good.
    pub life: TokenLife,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a token, {:?}", self.life)
    }
}

/// The objects of the API server. Objects read through a cache may be as old as the cache allows; claims and volumes
/// are read live, as upstream.
#[async_trait]
pub trait Objects: Send + Sync {
    /// Whether there are any: an API server, or a folder of the node that stands in for it.
    fn is_connected(&self) -> bool;
    /// Whether they are of a cluster, which also attaches volumes. A folder of the node does not.
    fn has_cluster(&self) -> bool {
        self.is_connected()
    }
    /// A ConfigMap.
    async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>, ObjectError>;
    /// A Secret.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ObjectError>;
    /// A claim.
    async fn claim(&self, namespace: &str, name: &str) -> Result<Arc<PersistentVolumeClaim>, ObjectError>;
    /// A persistent volume.
    async fn volume(&self, name: &str) -> Result<Arc<PersistentVolume>, ObjectError>;
    /// Changes a claim's status by a strategic merge patch (VOL-46); gives the claim as it is then. A patch that names a version
    /// is refused where the claim has another one by now.
    async fn patch_claim_status(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Arc<PersistentVolumeClaim>, ObjectError> {
        let _ = (namespace, patch);
        Standalone::refuse("persistentvolumeclaim", name)
    }
    /// The cluster's object of a CSI driver, from the API server's cache.
    async fn csi_driver(&self, name: &str) -> Result<Arc<CSIDriver>, ObjectError> {
        Standalone::refuse("csidriver", name)
    }
    /// Whether the cluster attached a volume, as it is now.
    async fn volume_attachment(&self, name: &str) -> Result<Arc<VolumeAttachment>, ObjectError> {
        Standalone::refuse("volumeattachment", name)
    }
    /// A Secret that a volume names, as it is now: it need not be in the pod's namespace.
    async fn volume_secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ObjectError> {
        self.secret(namespace, name).await
    }
    /// A runtime class.
    async fn runtime_class(&self, name: &str) -> Result<Arc<RuntimeClass>, ObjectError> {
        Standalone::refuse("runtimeclass", name)
    }
    /// A service account, as it is now.
    async fn service_account(&self, namespace: &str, name: &str) -> Result<Arc<ServiceAccount>, ObjectError> {
        let _ = namespace;
        Standalone::refuse("serviceaccount", name)
    }
    /// A new token, bound to the pod that the key names.
    async fn token(&self, key: &TokenKey) -> Result<Token, ObjectError>;
    /// A ClusterTrustBundle's text.
    async fn trust_bundle(&self, name: &str) -> Result<String, ObjectError> {
        let _ = name;
        Err(ObjectError::Unavailable(NO_TRUST_BUNDLES.to_owned()))
    }
    /// The texts of a signer's ClusterTrustBundles that have these labels, as a label selector.
    async fn trust_bundles(&self, signer: &str, labels: &str) -> Result<Vec<String>, ObjectError> {
        let _ = (signer, labels);
        Err(ObjectError::Unavailable(NO_TRUST_BUNDLES.to_owned()))
    }
    /// Makes a key and asks for its certificate; gives the key, in PEM, and the request's name.
    async fn ask_certificate(&self, wanted: &Wanted, node: &Node) -> Result<(Arc<str>, String), ObjectError> {
        let _ = (wanted, node);
        Err(ObjectError::Unavailable("unimplemented".to_owned()))
    }
    /// A request for a pod's certificate.
    async fn certificate_request(&self, namespace: &str, name: &str) -> Result<PodCertificateRequest, ObjectError> {
        let _ = (namespace, name);
        Err(ObjectError::Unavailable("unimplemented".to_owned()))
    }
    /// The variables of the services that a pod of `namespace` may see: its namespace's if `links`
    /// (`enableServiceLinks`), and the API server's. `None` when services were not read yet; who is `patient` waits a
    /// little for that. Without an API server there are none.
    async fn service_variables(
        &self,
        namespace: &str,
        links: bool,
        patient: bool,
    ) -> Option<Arc<BTreeMap<String, String>>> {
        let _ = (namespace, links, patient);
        Some(Arc::default())
    }
}

/// Without an API server nothing of it can be had.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standalone;

impl Standalone {
    fn refuse<T>(what: &str, name: &str) -> Result<T, ObjectError> {
        Err(ObjectError::Unavailable(format!("{what} {name:?} cannot be read: the agent runs without an API server")))
    }
}

#[async_trait]
impl Objects for Standalone {
    fn is_connected(&self) -> bool {
        false
    }

    async fn config_map(&self, _: &str, name: &str) -> Result<Arc<ConfigMap>, ObjectError> {
        Self::refuse("configmap", name)
    }

    async fn secret(&self, _: &str, name: &str) -> Result<Arc<Secret>, ObjectError> {
        Self::refuse("secret", name)
    }

    async fn claim(&self, _: &str, name: &str) -> Result<Arc<PersistentVolumeClaim>, ObjectError> {
        Self::refuse("persistentvolumeclaim", name)
    }

    async fn volume(&self, name: &str) -> Result<Arc<PersistentVolume>, ObjectError> {
        Self::refuse("persistentvolume", name)
    }

    async fn token(&self, _: &TokenKey) -> Result<Token, ObjectError> {
        Err(ObjectError::Unavailable("cannot use TokenManager when kubelet is in standalone mode".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::time::Moment;

    #[test]
    fn a_token_is_not_printed() {
        let life = TokenLife { expires: Moment(9), lifetime: std::time::Duration::from_nanos(9) };
        let shown = format!("{:?}", Token { text: "hunter2".into(), life });
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn without_an_api_server_what_is_missing_is_named() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let error = runtime.block_on(Standalone.secret("ns", "db")).expect_err("none");
        assert_eq!(error.to_string(), "secret \"db\" cannot be read: the agent runs without an API server");
        assert!(error.is_transient());
    }
}
