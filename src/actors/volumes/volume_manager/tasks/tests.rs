//! Mounting one volume, with an API and a host that tests write.

mod disks;
mod growth;
mod walks;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use k8s_openapi::api::certificates::v1beta1::PodCertificateRequest;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Secret};
use serde_json::{Value, json};

use super::*;
use crate::actors::kit::trace::lock;
use crate::logic::resources::{ResourceList, ResourceOptions};
use crate::logic::volumes::content::payload::PayloadFile;
use crate::logic::volumes::content::token::TokenLife;
use crate::logic::volumes::order::{SetUp, SubPathOrder, VolumePlace};
use crate::logic::volumes::plan::volume_plans;
use std::time::Duration;

use crate::platform::cluster::objects::ObjectError;

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
    /// Whether it is only what a node without an API server has.
    standalone: bool,
    /// Whether it is a folder of such a node.
    is_folder: bool,
    /// Changes of the claim's status; the claim itself stays.
    patches: Mutex<Vec<Value>>,
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
        !self.standalone
    }
    fn has_cluster(&self) -> bool {
        !self.standalone && !self.is_folder
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
    async fn patch_claim_status(
        &self,
        _: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Arc<PersistentVolumeClaim>, ObjectError> {
        lock(&self.patches).push(patch.clone());
        self.find("persistentvolumeclaim", name).await
    }
    async fn trust_bundle(&self, name: &str) -> Result<String, ObjectError> {
        let bundle: Arc<ConfigMap> = self.find("clustertrustbundle", name).await?;
        Ok(bundle.data.clone().unwrap_or_default().remove("bundle").unwrap_or_default())
    }
    async fn ask_certificate(&self, wanted: &Wanted, _: &Node) -> Result<(Arc<str>, String), ObjectError> {
        match self.away {
            true => Err(ObjectError::Unavailable("connection refused".to_owned())),
            false => Ok(("key\n".into(), format!("req-of-{}", wanted.pod_name))),
        }
    }
    async fn certificate_request(&self, _: &str, name: &str) -> Result<PodCertificateRequest, ObjectError> {
        Ok(self.find::<PodCertificateRequest>("podcertificaterequest", name).await?.as_ref().clone())
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

/// A host that keeps its orders.
#[derive(Default)]
struct Host {
    told: Mutex<Vec<(Option<VolumePlace>, SetUp)>>,
    /// For how many seconds it gives files to the pod's group, one a second.
    walks: u32,
    /// The sources of local volumes that it was to grow.
    grown: Mutex<Vec<String>>,
    /// Why it cannot.
    cannot_grow: Option<&'static str>,
}

#[async_trait]
impl VolumeHost for Host {
    fn path_of(&self, place: &VolumePlace) -> String {
        format!("/pods/{place}")
    }
    fn map_paths(&self, place: &VolumePlace) -> [String; 2] {
        [format!("/plugins/{place}"), format!("/pods/{place}")]
    }
    async fn set_up_watched(
        &self,
        _: &PodUid,
        place: Option<&VolumePlace>,
        order: SetUp,
        progress: Arc<Progress>,
    ) -> Result<Option<String>, VolumeError> {
        lock(&self.told).push((place.cloned(), order));
        if self.walks > 0 {
            progress.begins_walk();
            for _ in 0..self.walks {
                tokio::time::sleep(Duration::from_secs(1)).await;
                progress.counts();
            }
            progress.ends_walk(false);
        }
        Ok(None)
    }
    async fn grow(&self, _: &VolumePlace, source: &str) -> Result<(), VolumeError> {
        lock(&self.grown).push(source.to_owned());
        self.cannot_grow.map_or(Ok(()), |why| Err(VolumeError::Device(why.to_owned())))
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
    fn hanging(&self) -> Vec<(String, Moment)> {
        vec![]
    }
}

fn at(second: u64) -> Moment {
    Moment::EPOCH.plus(Duration::from_secs(second))
}

/// The result of mounting the only volume, `v`, of a pod.
struct Outcome {
    result: Result<MountedVolume, TaskFailure>,
    told: Vec<(Option<VolumePlace>, SetUp)>,
    new: Vec<(TokenKey, Token)>,
    certificates: Vec<(CertificateKey, Option<CertificateState>)>,
    news: Vec<String>,
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
    mount_with(api, source, tokens, vec![], now)
}

fn mount_with(
    api: Api,
    source: Value,
    tokens: Vec<(TokenKey, Token)>,
    certificates: Vec<(CertificateKey, CertificateState)>,
    now: Moment,
) -> Outcome {
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
    mount_pod(api, pod, tokens, certificates, now)
}

fn mount_pod(
    api: Api,
    pod: Pod,
    tokens: Vec<(TokenKey, Token)>,
    certificates: Vec<(CertificateKey, CertificateState)>,
    now: Moment,
) -> Outcome {
    let host = Arc::new(Host::default());
    let task = MountTask { tokens, certificates, now, ..task(Arc::new(api), host.clone(), pod) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let TaskEnd { outcome: result, secrets: NewSecrets { tokens: new, certificates, .. } } =
        runtime.expect("a runtime").block_on(task.run());
    let new = new.into_iter().map(|(key, text, life)| (key, Token { text, life })).collect();
    let news = result.as_ref().map(|gain| gain.news.clone()).unwrap_or_default();
    let result = result.map(|gain| gain.mounted.expect("a mount gives a volume"));
    let told = std::mem::take(&mut *lock(&host.told));
    Outcome { result, told, new, certificates, news }
}

/// The task that mounts a pod's first volume.
fn task(api: Arc<Api>, host: Arc<Host>, pod: Pod) -> MountTask {
    MountTask {
        timing: timing(),
        objects: api,
        host,
        own_node: None,
        node: NodeFacts { allocatable: ResourceList::new(), resources: ResourceOptions::default() },
        uid: PodUid::from("u-1"),
        plan: volume_plans(&pod).remove(0),
        pod: Arc::new(pod),
        tokens: vec![],
        certificates: vec![],
        now: at(0),
        chance: 0.0,
        labelling: None,
        moves: Box::new(|_, _| {}),
        csi: no_driver(),
    }
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
            json!({ "flocker": { "datasetName": "d" } }),
            "no volume plugin matched: flocker is not mounted by this version",
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

/// The claim `data`, whose volume is `pv-1`.
fn claim(phase: &str) -> Value {
    json!({
        "metadata": { "name": "data", "namespace": "ns", "uid": "c-1" },
        "spec": { "volumeName": "pv-1" }, "status": { "phase": phase },
    })
}

/// The volume `pv-1` of this local path, bound to the claim `data`.
fn local_volume(path: &str) -> Value {
    json!({ "metadata": { "name": "pv-1" }, "spec": { "claimRef": { "uid": "c-1" }, "local": { "path": path } } })
}

/// A pod whose volume `v` is that of the claim `data`, with this in its container.
fn claiming_pod(mut container: Value) -> Pod {
    container["name"] = "c".into();
    serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "ns", "uid": "u-1" },
        "spec": {
            "containers": [container],
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }],
        },
    }))
    .expect("a pod")
}

#[test]
fn a_claim_leads_to_the_volume_behind_it() {
    let mut volume = local_volume("/mnt/disk");
    volume["metadata"]["annotations"] = json!({ "pv.beta.kubernetes.io/gid": "1234" });
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
            is_device: false,
            relabel: false,
            label: None,
            republish: false,
            driven: None,
        }
    );
    assert!(matches!(&outcome.told[0].1, SetUp::Local(order) if order.read_only && order.source == "/mnt/disk"));
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

/// VOL-07, VOL-08: what names the volume or the claim itself stands bare, and both are looked at again soon.
#[test]
fn a_claim_of_another_pod_and_a_wrong_mode_are_told_as_they_are() {
    let mut block = local_volume("/dev/sdx");
    block["spec"]["volumeMode"] = "Block".into();
    let bound = || claim("Bound");
    let of_block = api(&[("persistentvolumeclaim/data", bound()), ("persistentvolume/pv-1", block)]);
    let pod = claiming_pod(json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }));
    let wrong_mode = mount_pod(of_block, pod, vec![], vec![], at(0));
    let text = "volume v has volumeMode Block, but is specified in volumeMounts";
    assert_eq!(wrong_mode.problem(), (text, true));
    let ephemeral = || json!({ "ephemeral": { "volumeClaimTemplate": { "spec": {} } } });
    let not_owned = mount(api(&[("persistentvolumeclaim/web-v", bound())]), ephemeral());
    let text = "PVC ns/data was not created for pod ns/web (pod is not owner)";
    assert_eq!(not_owned.problem(), (text, true));
    let not_bound = mount(api(&[("persistentvolumeclaim/web-v", claim("Pending"))]), ephemeral());
    assert_eq!(
        not_bound.problem(),
        ("error processing PVC ns/web-v: PVC is not bound", true),
        "that is looked at first"
    );
    for outcome in [wrong_mode, not_owned, not_bound] {
        let again = outcome.result.expect_err("it failed").look_again.expect("a wait that does not grow");
        assert!((10..15).contains(&again.as_secs()), "{again:?}");
    }
}

#[test]
fn a_device_is_mapped_and_told_of() {
    let mut volume = local_volume("/dev/sdx");
    volume["spec"]["volumeMode"] = "Block".into();
    let pod = claiming_pod(json!({ "volumeDevices": [{ "name": "v", "devicePath": "/dev/x" }] }));
    let api = api(&[("persistentvolumeclaim/data", claim("Bound")), ("persistentvolume/pv-1", volume)]);
    let outcome = mount_pod(api, pod, vec![], vec![], at(0));
    assert!(outcome.result.expect("mapped").is_device);
    assert_eq!(outcome.told[0].1, SetUp::Device { source: "/dev/sdx".into(), exclusive: false });
    let place = "device u-1/kubernetes.io~local-volume/pv-1";
    assert_eq!(
        outcome.news,
        [
            format!("MapVolume.MapPodDevice succeeded for volume \"pv-1\" globalMapPath \"/plugins/{place}\""),
            format!("MapVolume.MapPodDevice succeeded for volume \"pv-1\" volumeMapPath \"/pods/{place}\""),
        ]
    );
}

#[test]
fn a_certificate_is_asked_for_first_and_used_once_it_is_there() {
    let source = || {
        json!({ "projected": { "defaultMode": 420, "sources": [{ "podCertificate": {
            "signerName": "x.example/y", "keyType": "ED25519", "credentialBundlePath": "bundle.pem",
        } }] } })
    };
    let away = mount(Api { away: true, ..Api::default() }, source());
    assert!(away.problem().0.ends_with("connection refused"), "{:?}", away.problem());
    assert!(away.certificates[0].1.is_none(), "nothing was asked for");
    let first = mount(Api::default(), source());
    assert!(first.problem().0.ends_with("credential bundle is not issued yet"), "{:?}", first.problem());
    let [(key, Some(state))] = &first.certificates[..] else { panic!("asked for") };
    let chain = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let issued = json!({
        "metadata": { "namespace": "ns", "name": "req-of-web" },
        "spec": {
            "nodeName": "n", "nodeUID": "n", "podName": "p", "podUID": "p", "serviceAccountName": "s",
            "serviceAccountUID": "s", "signerName": "x.example/y", "stubPKCS10Request": "",
        },
        "status": { "certificateChain": chain, "conditions": [{
            "type": "Issued", "status": "True", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }] },
    });
    let known = vec![(key.clone(), state.clone())];
    let second = mount_with(api(&[("podcertificaterequest/req-of-web", issued)]), source(), vec![], known, at(6401));
    assert_eq!(second.files()["bundle.pem"].content.to_vec(), format!("key\n{chain}").into_bytes());
}

#[test]
fn trust_anchors_are_read_by_name() {
    let source = |optional: bool| {
        json!({ "projected": { "defaultMode": 420, "sources": [
            { "clusterTrustBundle": { "name": "root", "path": "ca.pem", "optional": optional } },
        ] } })
    };
    let anchor = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let there = api(&[("clustertrustbundle/root", json!({ "data": { "bundle": anchor } }))]);
    assert_eq!(mount(there, source(false)).files()["ca.pem"].content.to_vec(), anchor.as_bytes());
    let missing = mount(Api::default(), source(false));
    let expected = "while getting ClusterTrustBundle: clustertrustbundle \"root\" not found";
    assert!(missing.problem().0.ends_with(expected), "{:?}", missing.problem());
    assert_eq!(mount(Api::default(), source(true)).files()["ca.pem"].content.to_vec(), b"");
    assert!(mount(Api { away: true, ..Api::default() }, source(true)).result.is_err());
}

/// VOL-27, SEC-52.
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
            timing: timing(),
            objects: Arc::new(crate::platform::cluster::objects::Standalone),
            host: Arc::new(Host::default()),
            own_node: None,
            node: NodeFacts { allocatable: ResourceList::new(), resources: ResourceOptions::default() },
            uid: PodUid::from("u-1"),
            plan: volume_plans(&pod).remove(0),
            pod: Arc::new(pod),
            tokens: vec![],
            certificates: vec![],
            now: at(0),
            chance: 0.0,
            labelling: None,
            moves: Box::new(|_, _| {}),
            csi: no_driver(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(task.run()).outcome.map(drop).map_err(|failure| failure.message)
    };
    let downward =
        json!([{ "downwardAPI": { "items": [{ "path": "p", "fieldRef": { "fieldPath": "metadata.name" } }] } }]);
    assert_eq!(standalone(downward), Ok(()));
    let refused = standalone(json!([{ "secret": { "name": "s" } }])).expect_err("nobody to ask");
    assert!(refused.ends_with("cannot setup projected volume v because kube client is not configured"), "{refused}");
}

/// A node without drivers, and nobody at any address.
fn no_driver() -> CsiTask {
    use crate::actors::kit::trace::Trace;
    use crate::platform::host::clock::SystemClock;
    use crate::platform::plugins::NoPlugins;
    let trace = Trace::new(Arc::new(SystemClock::start()));
    let none = Arc::new(NoPlugins);
    CsiTask {
        volumes: CsiVolumes {
            node_name: "n".to_owned(),
            calls: none.clone(),
            host: none,
            manager: Address::new(&trace, "CsiManager", "CsiManager", "Root", 1),
        },
        node_status: Address::new(&trace, "NodeStatus", "NodeStatus", "Root", 1),
        cause: Cause::outside("test"),
        was_published: false,
        only_grows: false,
        known: None,
        attaches: Box::new(|_| {}),
    }
}

fn timing() -> Timing {
    use crate::platform::host::clock::SystemClock;
    use crate::platform::observer::Unobserved;
    Timing { observer: Arc::new(Unobserved), clock: Arc::new(SystemClock::start()) }
}

/// VOL-10, VOL-13.
#[test]
fn what_a_host_says_belongs_to_a_step_of_upstreams() {
    let (device, busy) = (VolumeError::Device("x".into()), VolumeError::Busy("x".into()));
    assert_eq!(step_of(&device, false), VolumeStep::MountDevice);
    let source = VolumeError::Source("x".into());
    assert_eq!(step_of(&source, false), VolumeStep::NewMounter);
    assert_eq!(step_of(&VolumeError::InUse, false), VolumeStep::SetUp);
    assert_eq!(step_of(&VolumeError::InUse, true), VolumeStep::SetUpDevice);
    assert_eq!(step_of(&busy, true), VolumeStep::MapBlockVolume);
    assert_eq!(quiet_if_busy(&busy, failure("x".into())).reason, None, "no Event of a wait");
    assert_eq!(quiet_if_busy(&device, failure("x".into())).reason, Some(EventReason::FailedMount));
}
