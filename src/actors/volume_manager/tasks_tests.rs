//! Mounting one volume, with an API and a host that tests write.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Secret};
use serde_json::{Value, json};

use super::*;
use crate::actors::ledger::lock;
use crate::logic::resources::{ResourceList, ResourceOptions};
use crate::logic::volumes::order::{SetUp, SubPathOrder, VolumePlace};
use crate::logic::volumes::payload::PayloadFile;
use crate::logic::volumes::plan::volume_plans;
use crate::logic::volumes::token::TokenLife;
use std::time::Duration;

use crate::platform::objects::ObjectError;

/// An API server: objects by `kind/name`, as the API writes them.
#[derive(Default)]
struct Api {
    objects: BTreeMap<&'static str, Value>,
    /// Tokens that were asked for.
    tokens: AtomicU32,
    /// Whether it answers.
    away: bool,
    /// Whether it never answers.
    silent: bool,
}

impl Api {
    async fn find<T: serde::de::DeserializeOwned>(&self, kind: &str, name: &str) -> Result<Arc<T>, ObjectError> {
        if self.silent {
            std::future::pending::<()>().await;
        }
        if self.away {
            return Err(ObjectError::Unavailable("connection refused".to_owned()));
        }
        let found = self.objects.get(format!("{kind}/{name}").as_str());
        let found = found.ok_or_else(|| ObjectError::NotFound(format!("{kind} \"{name}\" not found")))?;
        Ok(Arc::new(serde_json::from_value(found.clone()).expect("an object")))
    }
}

#[async_trait]
impl Objects for Api {
    fn is_connected(&self) -> bool {
        true
    }
    async fn config_map(&self, _: &str, name: &str) -> Result<Arc<ConfigMap>, ObjectError> {
        self.find("configmap", name).await
    }
    async fn secret(&self, _: &str, name: &str) -> Result<Arc<Secret>, ObjectError> {
        self.find("secret", name).await
    }
    async fn claim(&self, _: &str, name: &str) -> Result<Arc<PersistentVolumeClaim>, ObjectError> {
        self.find("persistentvolumeclaim", name).await
    }
    async fn volume(&self, name: &str) -> Result<Arc<PersistentVolume>, ObjectError> {
        self.find("persistentvolume", name).await
    }
    async fn token(&self, _: &TokenKey) -> Result<Token, ObjectError> {
        if self.away {
            return Err(ObjectError::Unavailable("connection refused".to_owned()));
        }
        let number = self.tokens.fetch_add(1, Ordering::Relaxed);
        let life = TokenLife { expires: at(10_000), lifetime: Duration::from_secs(3600) };
        Ok(Token { text: format!("token-{number}").into(), life })
    }
}

/// A host that keeps what it was told.
#[derive(Default)]
struct Host {
    told: Mutex<Vec<(Option<VolumePlace>, SetUp)>>,
}

#[async_trait]
impl VolumeHost for Host {
    fn path_of(&self, place: &VolumePlace) -> String {
        format!("/pods/{place}")
    }
    async fn set_up(&self, _: &PodUid, place: Option<&VolumePlace>, order: SetUp) -> Result<(), VolumeError> {
        lock(&self.told).push((place.cloned(), order));
        Ok(())
    }
    async fn tear_down(&self, _: &VolumePlace) -> Result<(), VolumeError> {
        Ok(())
    }
    async fn prepare_sub_path(&self, order: SubPathOrder) -> Result<String, VolumeError> {
        Ok(order.sub_path)
    }
    async fn volumes_of(&self, _: &PodUid) -> Result<Vec<VolumePlace>, VolumeError> {
        Ok(vec![])
    }
    async fn release(&self, _: &PodUid) -> Result<(), VolumeError> {
        Ok(())
    }
    fn hanging(&self) -> Vec<(String, Duration)> {
        vec![]
    }
}

fn at(second: u64) -> Moment {
    Moment::EPOCH.plus(Duration::from_secs(second))
}

/// What came of mounting the only volume, `v`, of a pod.
struct Outcome {
    result: Result<MountedVolume, TaskFailure>,
    told: Vec<(Option<VolumePlace>, SetUp)>,
    new: Vec<(TokenKey, Token)>,
}

impl Outcome {
    fn files(&self) -> BTreeMap<String, PayloadFile> {
        match &self.told[..] {
            [(_, SetUp::Files(order))] => order.payload.files.clone(),
            other => panic!("{other:?}"),
        }
    }
    fn problem(&self) -> (&str, bool) {
        let failure = self.result.as_ref().expect_err("it failed");
        (&failure.message, failure.in_processing)
    }
}

fn mount_at(api: Api, source: Value, tokens: Vec<(TokenKey, Token)>, now: Moment) -> Outcome {
    let mut volume = source;
    volume["name"] = json!("v");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "ns", "uid": "u-1" },
        "spec": {
            "serviceAccountName": "robot",
            "containers": [{ "name": "c", "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }],
            "volumes": [volume],
        },
    }))
    .expect("a pod");
    let host = Arc::new(Host::default());
    let task = MountTask {
        objects: Arc::new(api),
        host: host.clone(),
        node: Arc::new(NodeFacts { allocatable: ResourceList::new(), resources: ResourceOptions::default() }),
        uid: PodUid::from("u-1"),
        plan: volume_plans(&pod).remove(0),
        pod: Arc::new(pod),
        tokens,
        now,
        chance: 0.0,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let (result, NewTokens(new)) = runtime.expect("a runtime").block_on(task.run());
    let new = new.into_iter().map(|(key, text, life)| (key, Token { text, life })).collect();
    let result = result.map(|gain| gain.mounted.expect("a mount gives a volume"));
    let told = std::mem::take(&mut *lock(&host.told));
    Outcome { result, told, new }
}

fn mount(api: Api, source: Value) -> Outcome {
    mount_at(api, source, vec![], at(6400))
}

fn api(objects: &[(&'static str, Value)]) -> Api {
    Api { objects: objects.iter().cloned().collect(), ..Api::default() }
}

#[test]
fn a_config_map_becomes_files_in_its_place() {
    let api = api(&[("configmap/x", json!({ "data": { "k": "v" } }))]);
    let outcome = mount(api, json!({ "configMap": { "name": "x", "defaultMode": 420 } }));
    let mounted = outcome.result.as_ref().expect("mounted");
    assert_eq!(mounted.host_path, "/pods/u-1/kubernetes.io~configmap/v");
    assert_eq!(&*outcome.files()["k"].content, b"v");
}

/// PAIN-21: the missing object is named, and nothing is made on the host.
#[test]
fn a_missing_object_is_named_and_the_host_is_left_alone() {
    let prefix = "MountVolume.SetUp failed for volume \"v\" : ";
    let cases = [
        (json!({ "configMap": { "name": "x", "defaultMode": 420 } }), "configmap \"x\" not found"),
        (json!({ "secret": { "secretName": "y", "defaultMode": 420 } }), "secret \"y\" not found"),
        (
            json!({ "projected": { "defaultMode": 420, "sources": [
                { "secret": { "name": "a" } }, { "configMap": { "name": "b" } },
            ] } }),
            "[secret \"a\" not found, configmap \"b\" not found]",
        ),
        (
            json!({ "nfs": { "server": "s", "path": "/" } }),
            "no volume plugin matched: nfs is not mounted by this version",
        ),
    ];
    for (source, expected) in cases {
        let outcome = mount(Api::default(), source);
        assert_eq!(outcome.problem(), (format!("{prefix}{expected}").as_str(), false));
        assert_eq!(outcome.told, []);
    }
    let optional = json!({ "secret": { "secretName": "y", "defaultMode": 420, "optional": true } });
    assert_eq!(mount(Api::default(), optional.clone()).files(), BTreeMap::new());
    // Not known is not the same as not there.
    let away = Api { away: true, ..Api::default() };
    assert_eq!(mount(away, optional).problem().0, format!("{prefix}connection refused"));
}

#[test]
fn an_api_server_that_never_answers_costs_ten_seconds() {
    let silent = Api { silent: true, ..Api::default() };
    let outcome = mount(silent, json!({ "configMap": { "name": "x", "defaultMode": 420 } }));
    assert!(outcome.problem().0.ends_with("configmap \"x\": no answer from the API server in time"));
}

#[test]
fn a_claim_leads_to_the_volume_behind_it() {
    let claim = |phase: &str| {
        json!({
            "metadata": { "name": "data", "namespace": "ns", "uid": "c-1" },
            "spec": { "volumeName": "pv-1" }, "status": { "phase": phase },
        })
    };
    let volume = json!({
        "metadata": { "name": "pv-1", "annotations": { "pv.beta.kubernetes.io/gid": "1234" } },
        "spec": { "claimRef": { "uid": "c-1" }, "local": { "path": "/mnt/disk" } },
    });
    let source = || json!({ "persistentVolumeClaim": { "claimName": "data", "readOnly": true } });
    let bound = api(&[("persistentvolumeclaim/data", claim("Bound")), ("persistentvolume/pv-1", volume)]);
    let outcome = mount(bound, source());
    let mounted = outcome.result.as_ref().expect("mounted");
    assert_eq!(
        *mounted,
        MountedVolume {
            host_path: "/pods/u-1/kubernetes.io~local-volume/pv-1".into(),
            name: "pv-1".into(),
            group: Some(1234),
        }
    );
    assert!(matches!(&outcome.told[0].1, SetUp::Bind { source, read_only: true, .. } if source == "/mnt/disk"));
    let cases = [
        (api(&[]), "failed to fetch PVC from API server: persistentvolumeclaim \"data\" not found"),
        (api(&[("persistentvolumeclaim/data", claim("Pending"))]), "PVC is not bound"),
        (
            api(&[("persistentvolumeclaim/data", claim("Bound"))]),
            "failed to fetch PV pv-1 from API server: persistentvolume \"pv-1\" not found",
        ),
    ];
    for (api, expected) in cases {
        let outcome = mount(api, source());
        assert_eq!(outcome.problem(), (format!("error processing PVC ns/data: {expected}").as_str(), true));
        assert_eq!(outcome.told, []);
    }
}

#[test]
fn a_token_is_kept_while_it_is_good_and_as_long_as_there_is_no_other() {
    let source =
        || json!({ "projected": { "defaultMode": 420, "sources": [{ "serviceAccountToken": { "path": "token" } }] } });
    let text = |outcome: &Outcome| String::from_utf8(outcome.files()["token"].content.to_vec()).expect("text");
    let first = mount(Api::default(), source());
    assert_eq!((text(&first).as_str(), first.new.len()), ("token-0", 1));
    assert_eq!(first.new[0].0.service_account, "robot");
    let old = |life: TokenLife| vec![(first.new[0].0.clone(), Token { text: "old".into(), life })];
    let life = first.new[0].1.life;
    // Made at 6400 s for 3600 s: due after 2880 s, over at 10000 s.
    for (second, away, expected) in [
        (9000, false, Ok("old")),
        (9300, false, Ok("token-0")),
        (9300, true, Ok("old")),
        (10_001, true, Err("token robot expired and refresh failed: connection refused")),
    ] {
        let outcome = mount_at(Api { away, ..Api::default() }, source(), old(life), at(second));
        match expected {
            Ok(expected) => assert_eq!(text(&outcome), expected, "at {second}"),
            Err(expected) => assert!(outcome.problem().0.ends_with(expected), "{:?}", outcome.problem()),
        }
    }
}

#[test]
fn without_an_api_server_only_what_needs_none_is_projected() {
    let standalone = |sources: Value| {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "ns", "uid": "u-1" },
            "spec": {
                "containers": [{ "name": "c", "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }],
                "volumes": [{ "name": "v", "projected": { "defaultMode": 420, "sources": sources } }],
            },
        }))
        .expect("a pod");
        let task = MountTask {
            objects: Arc::new(crate::platform::objects::Standalone),
            host: Arc::new(Host::default()),
            node: Arc::new(NodeFacts { allocatable: ResourceList::new(), resources: ResourceOptions::default() }),
            uid: PodUid::from("u-1"),
            plan: volume_plans(&pod).remove(0),
            pod: Arc::new(pod),
            tokens: vec![],
            now: at(0),
            chance: 0.0,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(task.run()).0.map(drop).map_err(|failure| failure.message)
    };
    let downward =
        json!([{ "downwardAPI": { "items": [{ "path": "p", "fieldRef": { "fieldPath": "metadata.name" } }] } }]);
    assert_eq!(standalone(downward), Ok(()));
    let refused = standalone(json!([{ "secret": { "name": "s" } }])).expect_err("nobody to ask");
    assert!(refused.ends_with("cannot setup projected volume v because kube client is not configured"), "{refused}");
}
