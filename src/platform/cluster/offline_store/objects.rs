//! `RememberedObjects`: asks the API server, remembers what it said, and says that where it cannot be asked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::certificates::v1beta1::PodCertificateRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolume, PersistentVolumeClaim, Secret, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sealed::content_digest;
use super::{OfflineStore, RECORDS_MAX, TOKEN, secret_record};
use crate::logic::model::time::Moment;
use crate::logic::volumes::content::certificate::Wanted;
use crate::logic::volumes::content::token::{TokenKey, TokenLife};
use crate::platform::cluster::objects::{ObjectError, Objects, Token};
use crate::platform::host::clock::Clock;

/// A token as it is kept.
#[derive(Serialize, Deserialize)]
struct KeptToken {
    text: Arc<str>,
    /// Nanoseconds of the epoch.
    expires: i64,
    lifetime: Duration,
}

/// How often a record that has not changed is marked as one that is still asked for.
const RENEW_EVERY: Duration = Duration::from_secs(3600);

/// The facts of a record on the disk.
struct Known {
    digest: [u8; 32],
    /// The uptime when it was written or marked.
    renewed: Duration,
}

/// See the module. Certificates of pods are not remembered: their keys are theirs alone.
pub struct RememberedObjects {
    inner: Arc<dyn Objects>,
    store: Arc<dyn OfflineStore>,
    /// By record: what has not changed is not written again.
    kept: Mutex<BTreeMap<String, Known>>,
    /// The store's generation that `kept` is of.
    generation: AtomicU64,
    clock: Arc<dyn Clock>,
}

impl RememberedObjects {
    /// Objects of `inner`, remembered in `store`.
    pub fn new(inner: Arc<dyn Objects>, store: Arc<dyn OfflineStore>, clock: Arc<dyn Clock>) -> Self {
        let generation = AtomicU64::new(store.generation());
        Self { inner, store, kept: Mutex::default(), generation, clock }
    }

    /// The answer, or else what was answered before, where nobody could be asked. An object that does not exist, or may not
    /// be read, is forgotten.
    async fn remember<T: Serialize + DeserializeOwned + Send + Sync>(
        &self,
        name: String,
        answer: Result<T, ObjectError>,
    ) -> Result<T, ObjectError> {
        match answer {
            Ok(object) => {
                self.keep(name, &object).await;
                Ok(object)
            }
            Err(error) if !error.is_transient() => {
                self.lock().remove(&name);
                if let Err(why) = self.store.forget(&name).await {
                    tracing::warn!(record = name, error = %why, "what is gone cannot be removed from the offline store");
                }
                Err(error)
            }
            Err(error) => self.recall(&name).await.ok_or(error),
        }
    }

    async fn keep<T: Serialize>(&self, name: String, object: &T) {
        let content = serde_json::to_vec(object).expect("invariant: API objects have text keys alone");
        let digest = content_digest(&content);
        if self.is_kept(&name, digest).await {
            return;
        }
        match self.store.keep(&name, Box::new(|| content)).await {
            Ok(()) => self.note_kept(name, digest),
            Err(error) => tracing::warn!(record = name, %error, "not kept in the offline store"),
        }
    }

    /// Whether the disk has this content. Asked of the disk itself now and then, which also keeps the record from going as
    /// one that nobody needs.
    async fn is_kept(&self, name: &str, digest: [u8; 32]) -> bool {
        let now = self.clock.uptime();
        let generation = self.store.generation();
        if self.generation.swap(generation, Ordering::Relaxed) != generation {
            self.lock().clear(); // Some went that nobody needed then.
        }
        match self.lock().get(name) {
            Some(known) if known.digest != digest => return false,
            Some(known) if now.saturating_sub(known.renewed) < RENEW_EVERY => return true,
            Some(_) => {}
            None => return false,
        }
        let is_there = self.store.renew(name).await.unwrap_or_default();
        if is_there {
            self.note_kept(name.to_owned(), digest);
        }
        is_there
    }

    fn note_kept(&self, name: String, digest: [u8; 32]) {
        let mut kept = self.lock();
        // Of more records than the disk has, some are of pods that are long gone. Those that are not are written again.
        if kept.len() >= RECORDS_MAX && !kept.contains_key(&name) {
            kept.clear();
        }
        kept.insert(name, Known { digest, renewed: self.clock.uptime() });
    }

    async fn recall<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let content = match self.store.recall(name).await {
            Ok(content) => content?,
            Err(error) => {
                tracing::warn!(record = name, %error, "the offline store cannot be read");
                return None;
            }
        };
        match serde_json::from_slice(&content) {
            Ok(object) => {
                tracing::info!(record = name, "the API server cannot be asked, what it said last is used");
                Some(object)
            }
            // The text of the error would quote what is kept.
            Err(_) => {
                tracing::warn!(record = name, "what is in the offline store is of another version");
                None
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Known>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Objects for RememberedObjects {
    fn is_connected(&self) -> bool {
        self.inner.is_connected()
    }

    fn has_cluster(&self) -> bool {
        self.inner.has_cluster()
    }

    async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>, ObjectError> {
        let answer = self.inner.config_map(namespace, name).await;
        self.remember(format!("configmap/{namespace}/{name}"), answer).await
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ObjectError> {
        let answer = self.inner.secret(namespace, name).await;
        self.remember(secret_record(namespace, name), answer).await
    }

    async fn claim(&self, namespace: &str, name: &str) -> Result<Arc<PersistentVolumeClaim>, ObjectError> {
        let answer = self.inner.claim(namespace, name).await;
        self.remember(format!("persistentvolumeclaim/{namespace}/{name}"), answer).await
    }

    async fn volume(&self, name: &str) -> Result<Arc<PersistentVolume>, ObjectError> {
        let answer = self.inner.volume(name).await;
        self.remember(format!("persistentvolume/{name}"), answer).await
    }

    async fn patch_claim_status(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Arc<PersistentVolumeClaim>, ObjectError> {
        self.inner.patch_claim_status(namespace, name, patch).await
    }

    async fn csi_driver(&self, name: &str) -> Result<Arc<CSIDriver>, ObjectError> {
        let answer = self.inner.csi_driver(name).await;
        self.remember(format!("csidriver/{name}"), answer).await
    }

    async fn volume_attachment(&self, name: &str) -> Result<Arc<VolumeAttachment>, ObjectError> {
        self.inner.volume_attachment(name).await
    }

    async fn volume_secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ObjectError> {
        self.inner.volume_secret(namespace, name).await
    }

    async fn runtime_class(&self, name: &str) -> Result<Arc<RuntimeClass>, ObjectError> {
        let answer = self.inner.runtime_class(name).await;
        self.remember(format!("runtimeclass/{name}"), answer).await
    }

    /// Only asked for to pull images, which needs more than what is remembered.
    async fn service_account(&self, namespace: &str, name: &str) -> Result<Arc<ServiceAccount>, ObjectError> {
        self.inner.service_account(namespace, name).await
    }

    /// A token that is remembered may have expired: it is better than none, and is asked for anew soon.
    async fn token(&self, key: &TokenKey) -> Result<Token, ObjectError> {
        let TokenKey { namespace, service_account, audience, expiration_seconds, pod_uid, .. } = key;
        let account = [service_account.as_str(), &key.service_account_uid].join(" ");
        let account = account.trim_end();
        let name = format!("{TOKEN}{namespace}/{account}/{pod_uid}/{expiration_seconds}/{audience}");
        let answer = self.inner.token(key).await.map(|token| KeptToken {
            text: token.text,
            expires: token.life.expires.0,
            lifetime: token.life.lifetime,
        });
        let token = self.remember(name, answer).await?;
        let life = TokenLife { expires: Moment(token.expires), lifetime: token.lifetime };
        Ok(Token { text: token.text, life })
    }

    async fn trust_bundle(&self, name: &str) -> Result<String, ObjectError> {
        let answer = self.inner.trust_bundle(name).await;
        self.remember(format!("clustertrustbundle/{name}"), answer).await
    }

    async fn trust_bundles(&self, signer: &str, labels: &str) -> Result<Vec<String>, ObjectError> {
        let answer = self.inner.trust_bundles(signer, labels).await;
        self.remember(format!("clustertrustbundles/{signer}/{labels}"), answer).await
    }

    async fn ask_certificate(&self, wanted: &Wanted, node: &Node) -> Result<(Arc<str>, String), ObjectError> {
        self.inner.ask_certificate(wanted, node).await
    }

    async fn certificate_request(&self, namespace: &str, name: &str) -> Result<PodCertificateRequest, ObjectError> {
        self.inner.certificate_request(namespace, name).await
    }

    async fn service_variables(
        &self,
        namespace: &str,
        links: bool,
        patient: bool,
    ) -> Option<Arc<BTreeMap<String, String>>> {
        let name = format!("services/{namespace}/{links}");
        match self.inner.service_variables(namespace, links, patient).await {
            Some(variables) => {
                self.keep(name, &variables).await;
                Some(variables)
            }
            // An impatient caller asks again soon: the API server may only not have been heard yet.
            None if patient => self.recall(&name).await,
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU8;

    use k8s_openapi::ByteString;

    use super::super::{DiskStore, Needed};
    use super::*;
    use crate::logic::model::ids::PodUid;
    use crate::platform::host::clock::SystemClock;

    /// An API server that is there, away, or has nothing.
    #[derive(Default)]
    struct Played(AtomicU8);

    const THERE: u8 = 0;
    const AWAY: u8 = 1;
    const GONE: u8 = 2;

    impl Played {
        fn answer<T>(&self, object: T) -> Result<T, ObjectError> {
            match self.0.load(Ordering::Relaxed) {
                THERE => Ok(object),
                AWAY => Err(ObjectError::Unavailable("away".to_owned())),
                _ => Err(ObjectError::NotFound("gone".to_owned())),
            }
        }
    }

    #[async_trait]
    impl Objects for Played {
        fn is_connected(&self) -> bool {
            true
        }
        async fn config_map(&self, _: &str, _: &str) -> Result<Arc<ConfigMap>, ObjectError> {
            self.answer(Arc::default())
        }
        async fn secret(&self, _: &str, _: &str) -> Result<Arc<Secret>, ObjectError> {
            let data = [("password".to_owned(), ByteString(b"hunter2".to_vec()))].into();
            self.answer(Arc::new(Secret { data: Some(data), ..Secret::default() }))
        }
        async fn claim(&self, _: &str, _: &str) -> Result<Arc<PersistentVolumeClaim>, ObjectError> {
            self.answer(Arc::default())
        }
        async fn volume(&self, _: &str) -> Result<Arc<PersistentVolume>, ObjectError> {
            self.answer(Arc::default())
        }
        async fn runtime_class(&self, _: &str) -> Result<Arc<RuntimeClass>, ObjectError> {
            self.answer(Arc::new(RuntimeClass { handler: "other".to_owned(), ..RuntimeClass::default() }))
        }
        async fn service_account(&self, _: &str, _: &str) -> Result<Arc<ServiceAccount>, ObjectError> {
            self.answer(Arc::default())
        }
        async fn token(&self, _: &TokenKey) -> Result<Token, ObjectError> {
            let life = TokenLife { expires: Moment(9), lifetime: Duration::from_secs(3600) };
            self.answer(Token { text: "signed".into(), life })
        }
        async fn service_variables(&self, _: &str, _: bool, _: bool) -> Option<Arc<BTreeMap<String, String>>> {
            self.answer(Arc::new([("DB_HOST".to_owned(), "10.0.0.1".to_owned())].into())).ok()
        }
    }

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(work)
    }

    fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock::start())
    }

    fn key() -> TokenKey {
        TokenKey {
            namespace: "ns".to_owned(),
            service_account: "default".to_owned(),
            service_account_uid: String::new(),
            audience: String::new(),
            expiration_seconds: 3600,
            pod_name: "web".to_owned(),
            pod_uid: PodUid::from("1"),
        }
    }

    /// PAIN-10.
    #[test]
    fn what_the_api_server_said_is_said_again_when_it_cannot_be_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = || Arc::new(DiskStore::open(folder.path(), None).expect("a store"));
        let played = Arc::new(Played::default());
        let before = RememberedObjects::new(played.clone(), store(), clock());
        block_on(async {
            before.secret("ns", "db").await.expect("there");
            before.token(&key()).await.expect("there");
            before.runtime_class("second").await.expect("there");
            before.service_account("ns", "robot").await.expect("there");
            before.service_variables("ns", true, true).await.expect("there");
        });
        played.0.store(AWAY, Ordering::Relaxed);
        // A new process, which has nothing but the disk.
        let after = RememberedObjects::new(played.clone(), store(), clock());
        block_on(async {
            let secret = after.secret("ns", "db").await.expect("remembered");
            assert_eq!(secret.data.as_ref().expect("data")["password"].0, b"hunter2");
            let token = after.token(&key()).await.expect("remembered");
            assert_eq!((&*token.text, token.life.expires), ("signed", Moment(9)));
            assert_eq!(after.runtime_class("second").await.expect("remembered").handler, "other");
            let variables = after.service_variables("ns", true, true).await.expect("remembered");
            assert_eq!(variables["DB_HOST"], "10.0.0.1");
            assert_eq!(after.service_variables("ns", true, false).await, None, "nobody waits");
            let error = after.secret("ns", "other").await.expect_err("never seen");
            assert_eq!(error, ObjectError::Unavailable("away".to_owned()));
            let other = TokenKey { pod_uid: PodUid::from("2"), ..key() };
            assert!(after.token(&other).await.is_err(), "another pod's token");
        });
    }

    /// PAIN-10: what was forgotten with the last pod that used it is kept again for the next one, however soon that comes.
    #[test]
    fn what_was_forgotten_is_kept_again_for_the_next_pod() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Arc::new(DiskStore::open(folder.path(), None).expect("a store"));
        let played = Arc::new(Played::default());
        let objects = RememberedObjects::new(played.clone(), store.clone(), clock());
        block_on(async {
            for _ in 0..2 {
                objects.secret("ns", "db").await.expect("there");
                assert_eq!(store.keep_needed(&Needed::default()).await.expect("removed"), 1);
                assert_eq!(store.recall("secret/ns/db").await.expect("read"), None);
            }
            objects.secret("ns", "db").await.expect("there");
            played.0.store(AWAY, Ordering::Relaxed);
            objects.secret("ns", "db").await.expect("kept again");
        });
    }

    #[test]
    fn an_object_that_is_gone_is_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Arc::new(DiskStore::open(folder.path(), None).expect("a store"));
        let played = Arc::new(Played::default());
        let objects = RememberedObjects::new(played.clone(), store, clock());
        block_on(async {
            objects.config_map("ns", "c").await.expect("there");
            played.0.store(GONE, Ordering::Relaxed);
            assert!(matches!(objects.config_map("ns", "c").await, Err(ObjectError::NotFound(_))));
            played.0.store(AWAY, Ordering::Relaxed);
            assert!(matches!(objects.config_map("ns", "c").await, Err(ObjectError::Unavailable(_))));
            played.0.store(THERE, Ordering::Relaxed);
            objects.config_map("ns", "c").await.expect("there again");
            played.0.store(AWAY, Ordering::Relaxed);
            objects.config_map("ns", "c").await.expect("kept again");
        });
    }
}
