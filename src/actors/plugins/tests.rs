//! A driver from its socket to a pod's volume and back: real sockets and mounts, a played API server.

mod claims;
mod labels;
mod load;
mod refused;
mod timing;
mod unread;

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use nix::mount::{MntFlags, umount2};
use serde_json::{Value, json};
use tonic::Code;

use crate::actors::agent::PluginAdapters;
use crate::actors::kit::address::Address;
use crate::actors::kit::trace::Cause;
use crate::actors::node::tests::{PlayedAgent, played_agent_with};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::logic::model::ids::PodUid;
use crate::logic::volumes::csi::names::{attachment_name, unique_name};
use crate::logic::volumes::mounting::mount_label::Labelling;
use crate::logic::volumes::volume_states::VolumeFailure;
use crate::messages::root::Child;
use crate::messages::volume_manager::VolumeManagerMsg;
use crate::platform::files::mount_table;
use crate::platform::host::clock::SystemClock;
use crate::platform::network::tls::sha256_hex;
use crate::platform::observer::{LabelNews, Observation, Observer, Unobserved};
use crate::platform::plugins::{GrpcCsi, GrpcDra, GrpcRegistration, LinuxPluginRegistry, PluginCalls};
use crate::platform::volumes::LinuxVolumeHost;
use crate::testing::csi_driver::{Driver, Serving};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);
/// The CSIDrivers of the API server.
const DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers";

/// News of the labels of volumes: which, whether a pod was refused, the access mode and the plugin.
#[derive(Default)]
struct Labels(Mutex<Vec<(LabelNews, bool, &'static str, String)>>);

impl Observer for Labels {
    fn observe(&self, what: Observation<'_>) {
        if let Observation::Labelled { news, refused, access_mode, plugin } = what {
            self.0.lock().expect("not poisoned").push((news, refused, access_mode, plugin.to_owned()));
        }
    }
}

struct Setup {
    played: PlayedAgent,
    server: ObjectServer,
    driver: Driver,
    root: tempfile::TempDir,
    labels: Arc<Labels>,
    _folder: tempfile::TempDir,
}

impl Drop for Setup {
    /// A test may end with volumes that pods still have.
    fn drop(&mut self) {
        let mounts = mount_table::read().unwrap_or_default();
        for mount in mounts.iter().rev().filter(|mount| mount.point.starts_with(self.root.path())) {
            let _ = umount2(&mount.point, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW); // It may have gone.
        }
    }
}

impl Setup {
    /// The actors of plugins and volumes on a real disk, and a driver that does not serve yet. `None` without the right to
    /// mount.
    #[track_caller]
    fn new() -> Option<Self> {
        Self::with_labels(None)
    }

    /// The same on a node that labels volumes so.
    #[track_caller]
    fn with_labels(labelling: Option<Labelling>) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            crate::testing::skips::skip("only root can mount");
            return None;
        }
        let (server, root) = (ObjectServer::default(), tempfile::tempdir().expect("a folder"));
        let clock: Arc<SystemClock> = Arc::new(SystemClock::start());
        let (path, labels) = (root.path(), Arc::new(Labels::default()));
        let told = Arc::clone(&labels);
        fs::create_dir(path.join("pods")).expect("made");
        fs::create_dir(path.join("plugins_registry")).expect("made");
        let played = played_agent_with(server.api(), clock.clone(), None, |settings, adapters| {
            settings.security.labelling = labelling.map(Arc::new);
            adapters.observer = told.clone();
            let volumes = Arc::new(LinuxVolumeHost::new(path, clock.clone()));
            adapters.pods.volumes = volumes.clone();
            adapters.plugins = PluginAdapters {
                registry: Arc::new(LinuxPluginRegistry::new(path)),
                registration: Arc::new(GrpcRegistration),
                csi: Arc::new(GrpcCsi::new(PluginCalls::new(clock.clone()), Arc::new(Unobserved))),
                dra: Arc::new(GrpcDra::new(PluginCalls::new(clock))),
                volumes,
                ..PluginAdapters::none()
            };
        });
        let folder = tempfile::tempdir().expect("a folder");
        let driver = Driver::new("drv.test", folder.path());
        let setup = Self { played, server, driver, root, labels, _folder: folder };
        setup.put_node(json!({}));
        setup.server.put(&format!("{DRIVERS}/drv.test"), json!({ "spec": { "attachRequired": false } }));
        for child in [Child::NodeStatus, Child::VolumeManager, Child::CsiManager, Child::PluginWatcher] {
            start_alone(child, &setup.played.agent);
        }
        Some(setup)
    }

    fn node(&self) -> &str {
        &self.played.agent.settings.node_name
    }

    fn put_node(&self, status: Value) {
        let node = json!({ "metadata": { "uid": "node-uid" }, "status": status });
        self.server.put(&format!("/api/v1/nodes/{}", self.node()), node);
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    /// Serves, and waits until the driver is used.
    async fn serve(&self) -> Serving {
        let serving = self.driver.serve(&self.path("plugins_registry"));
        self.eventually("the driver is used", || !self.driver.seen().verdicts.is_empty()).await;
        assert_eq!(self.driver.seen().verdicts, [(true, String::new())]);
        serving
    }

    async fn eventually(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        for _ in 0..3000 {
            if is_so() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never: {what}; calls {:?}", self.driver.seen().calls);
    }

    /// The claim `data` of the volume `pv-1`, which is the driver's `h-1`.
    fn put_volume(&self, change: &Value) {
        let mut spec = json!({
            "accessModes": ["ReadWriteOnce"], "claimRef": { "uid": "claim-1" },
            "csi": { "driver": "drv.test", "volumeHandle": "h-1" },
        });
        for (key, value) in change.as_object().expect("an object") {
            spec[key] = value.clone();
        }
        self.server.put("/api/v1/persistentvolumes/pv-1", json!({ "spec": spec }));
        let claim = json!({
            "metadata": { "uid": "claim-1" }, "spec": { "volumeName": "pv-1" }, "status": { "phase": "Bound" },
        });
        self.server.put("/api/v1/namespaces/ns/persistentvolumeclaims/data", claim);
    }

    async fn ensure(&self, pod: &Arc<Pod>) -> Result<String, VolumeFailure> {
        let to = &self.played.agent.directory.volume_manager;
        let worker = Address::new(&self.played.agent.trace, "PodWorker/u", "PodWorker", "PodManager", 16).subscriber();
        let ensure = |reply| VolumeManagerMsg::Ensure(Arc::clone(pod), worker, reply);
        let mounted = to.ask(Cause::outside("test"), LONG, ensure).await.expect("answered");
        mounted.map(|mounted| mounted.volumes["v"].host_path.clone())
    }

    async fn release(&self, uid: &str) {
        let release = |reply| VolumeManagerMsg::Release(PodUid::from(uid), reply);
        let to = &self.played.agent.directory.volume_manager;
        to.ask(Cause::outside("test"), LONG, release).await.expect("answered").expect("released");
    }

    fn staging(&self) -> PathBuf {
        self.path(&format!("plugins/kubernetes.io/csi/drv.test/{}/globalmount", sha256_hex(b"h-1")))
    }
}

/// A pod of this UID with a volume `v`: the claim `data`.
fn pod(uid: &str) -> Arc<Pod> {
    pod_with(uid, &json!({ "persistentVolumeClaim": { "claimName": "data" } }))
}

fn pod_with(uid: &str, source: &Value) -> Arc<Pod> {
    let mut volume = source.clone();
    volume["name"] = "v".into();
    let pod = json!({
        "metadata": { "name": uid, "namespace": "ns", "uid": uid },
        "spec": {
            "serviceAccountName": "robot",
            "containers": [{ "name": "c", "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }],
            "volumes": [volume],
        },
    });
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}

/// VOL-40, VOL-41, NODE-59, NODE-60, RES-47.
#[tokio::test]
async fn a_volume_is_staged_once_published_for_each_pod_and_goes_with_the_last() {
    let Some(setup) = Setup::new() else { return };
    setup.driver.switches().topology.insert("zone".into(), "a".into());
    setup.driver.switches().volumes_max = 9;
    let serving = setup.serve().await;
    let csi_node = setup.server.object(&format!("/apis/storage.k8s.io/v1/csinodes/{}", setup.node()));
    assert_eq!(csi_node["metadata"]["ownerReferences"][0]["uid"], "node-uid");
    let entry = json!([{
        "name": "drv.test", "nodeID": "node-id", "topologyKeys": ["zone"], "allocatable": { "count": 9 },
    }]);
    assert_eq!(csi_node["spec"]["drivers"], entry);
    let node = setup.server.object(&format!("/api/v1/nodes/{}", setup.node()));
    assert_eq!(node["metadata"]["annotations"]["csi.volume.kubernetes.io/nodeid"], r#"{"drv.test":"node-id"}"#);
    assert_eq!(node["metadata"]["labels"]["zone"], "a");

    setup.put_volume(&json!({}));
    let path = setup.ensure(&pod("one")).await.expect("mounted");
    assert_eq!(path, setup.path("pods/one/volumes/kubernetes.io~csi/pv-1/mount").display().to_string());
    fs::write(format!("{path}/file"), "kept").expect("written");
    assert_eq!(fs::read_to_string(setup.driver.volume("h-1").join("file")).expect("there"), "kept");
    let data = |path: PathBuf| -> Value { serde_json::from_slice(&fs::read(path).expect("there")).expect("JSON") };
    let of_node = data(setup.staging().with_file_name("vol_data.json"));
    assert_eq!(of_node, json!({ "driverName": "drv.test", "specVolID": "pv-1", "volumeHandle": "h-1" }));
    let of_pod = data(setup.path("pods/one/volumes/kubernetes.io~csi/pv-1/vol_data.json"));
    let attachment = attachment_name("h-1", "drv.test", setup.node(), sha256_hex);
    let expected = json!({
        "attachmentID": attachment, "driverName": "drv.test", "nodeName": setup.node(), "specVolID": "pv-1",
        "volumeHandle": "h-1", "volumeLifecycleMode": "Persistent",
    });
    assert_eq!(of_pod, expected);
    setup.ensure(&pod("two")).await.expect("mounted");
    setup.release("one").await;
    assert!(!setup.path("pods/one/volumes/kubernetes.io~csi").exists());
    setup.release("two").await;
    setup.eventually("it is unstaged", || !setup.staging().parent().expect("a folder").exists()).await;
    let calls = [
        "NodeStageVolume h-1",
        "NodePublishVolume h-1",
        "NodePublishVolume h-1",
        "NodeUnpublishVolume h-1",
        "NodeUnpublishVolume h-1",
        "NodeUnstageVolume h-1",
    ];
    assert_eq!(setup.driver.calls(), calls);
    drop(serving);
    let gone = || {
        setup.server.object(&format!("/apis/storage.k8s.io/v1/csinodes/{}", setup.node()))["spec"]["drivers"]
            == json!([])
    };
    setup.eventually("its entry goes", gone).await;
}

/// VOL-45: what a driver refused has left nothing; what it may still be at work on is undone.
#[tokio::test]
async fn a_refused_volume_leaves_nothing_and_an_uncertain_one_is_undone() {
    let Some(setup) = Setup::new() else { return };
    let _serving = setup.serve().await;
    setup.put_volume(&json!({}));
    for (code, undone) in [(Code::Internal, 0), (Code::Aborted, 1)] {
        setup.driver.forget();
        setup.driver.switches().fails.entry("NodeStageVolume").or_default().extend([code; 100]);
        let failure = setup.ensure(&pod("one")).await.expect_err("refused");
        let expected = format!("MountVolume.MountDevice failed for volume \"pv-1\" : rpc error: code = {code:?} desc");
        assert!(failure.message.contains(&expected), "{}", failure.message);
        assert_eq!(setup.staging().exists(), undone == 1, "{code:?}");
        setup.release("one").await;
        setup.eventually("nothing is left", || !setup.staging().exists()).await;
        let unstaged = || setup.driver.calls().iter().filter(|call| call.starts_with("NodeUnstage")).count();
        setup.eventually("it is undone", || unstaged() >= undone).await;
        assert_eq!(unstaged(), undone, "{code:?}");
        assert!(!setup.driver.calls().iter().any(|call| call.contains("ublish")), "{:?}", setup.driver.calls());
        setup.driver.switches().fails.clear();
    }
}

/// VOL-45: a call that fails may have had its effect. The next pod has the volume staged once more.
#[tokio::test]
async fn a_volume_whose_unstaging_failed_is_staged_again() {
    let Some(setup) = Setup::new() else { return };
    let _serving = setup.serve().await;
    setup.put_volume(&json!({}));
    setup.ensure(&pod("one")).await.expect("mounted");
    setup.driver.switches().fails.entry("NodeUnstageVolume").or_default().extend([Code::DeadlineExceeded; 100]);
    setup.driver.forget();
    setup.release("one").await;
    let tried = || setup.driver.calls().iter().any(|call| call.starts_with("NodeUnstage"));
    setup.eventually("it is tried", tried).await;
    setup.driver.forget();
    setup.ensure(&pod("two")).await.expect("mounted");
    let calls = setup.driver.calls();
    let of_mounts: Vec<&str> = calls.iter().map(String::as_str).filter(|call| !call.contains("Unstage")).collect();
    assert_eq!(of_mounts, ["NodeStageVolume h-1", "NodePublishVolume h-1"]);
    setup.driver.switches().fails.clear();
    setup.release("two").await;
    setup.eventually("it is unstaged", || !setup.staging().exists()).await;
}

/// A driver that says OK and mounts nothing is seen before a container starts.
#[tokio::test]
async fn an_ok_without_a_mount_is_no_volume() {
    let Some(setup) = Setup::new() else { return };
    let _serving = setup.serve().await;
    setup.put_volume(&json!({}));
    setup.driver.switches().idle.insert("NodePublishVolume");
    let failure = setup.ensure(&pod("one")).await.expect_err("nothing is there");
    let expected = "driver drv.test answered OK to NodePublishVolume, and nothing is mounted at";
    assert!(failure.message.contains(expected), "{}", failure.message);
    setup.driver.switches().idle.clear();
    setup
        .eventually("it is tried again", || setup.path("pods/one/volumes/kubernetes.io~csi/pv-1/mount").exists())
        .await;
    setup.ensure(&pod("one")).await.expect("mounted");
    setup.release("one").await;
}

/// VOL-42, VOL-43, SEC-53.
#[tokio::test]
async fn sec_53_an_inline_volume_is_published_again_with_the_pods_tokens() {
    let Some(setup) = Setup::new() else { return };
    let _serving = setup.serve().await;
    let spec = json!({
        "attachRequired": false, "podInfoOnMount": true, "volumeLifecycleModes": ["Ephemeral"], "requiresRepublish": true,
        "tokenRequests": [{ "audience": "vault" }], "serviceAccountTokenInSecrets": true,
    });
    setup.server.put(&format!("{DRIVERS}/drv.test"), json!({ "spec": spec }));
    let pod = pod_with("one", &json!({ "csi": { "driver": "drv.test", "volumeAttributes": { "size": "1" } } }));
    setup.ensure(&pod).await.expect("mounted");
    let asked = setup.driver.seen().published.expect("asked");
    assert_eq!(asked.volume_id, format!("csi-{}", sha256_hex(b"onev")));
    assert_eq!(asked.staging_target_path, "");
    assert_eq!((&*asked.volume_context["size"], &*asked.volume_context["csi.storage.k8s.io/ephemeral"]), ("1", "true"));
    let tokens = &asked.secrets["csi.storage.k8s.io/serviceAccount.tokens"];
    assert_eq!(tokens, r#"{"vault":{"expirationTimestamp":"2026-01-01T00:10:00Z","token":"a-token"}}"#);
    setup.driver.switches().fails.entry("NodePublishVolume").or_default().push_back(Code::Internal);
    let refresh = VolumeManagerMsg::Refresh(Arc::clone(&pod));
    setup.played.agent.directory.volume_manager.tell(Cause::outside("test"), refresh).expect("room");
    setup.eventually("it is published again", || setup.driver.calls().len() >= 2).await;
    assert!(
        setup.path("pods/one/volumes/kubernetes.io~csi/v/vol_data.json").exists(),
        "a failed one leaves what is there"
    );
    setup.release("one").await;
    assert!(setup.driver.calls().last().is_some_and(|call| call.starts_with("NodeUnpublishVolume")));
}

/// VOL-09.
#[tokio::test]
async fn a_volume_waits_until_the_cluster_attached_it() {
    let Some(setup) = Setup::new() else { return };
    setup.server.put(&format!("{DRIVERS}/drv.test"), json!({ "spec": {} }));
    let _serving = setup.serve().await;
    setup.put_volume(&json!({}));
    let pod = pod("one");
    let mut mounted = Box::pin(setup.ensure(&pod));
    tokio::time::timeout(Duration::from_millis(500), &mut mounted).await.expect_err("it waits");
    assert_eq!(setup.driver.calls(), [""; 0], "nothing is asked of the driver before");
    let name = unique_name("drv.test", "h-1");
    setup.put_node(json!({ "volumesInUse": [name], "volumesAttached": [{ "name": name, "devicePath": "" }] }));
    let attachment = attachment_name("h-1", "drv.test", setup.node(), sha256_hex);
    let status = json!({ "attached": true, "attachmentMetadata": { "lun": "3" } });
    let spec = json!({ "attacher": "drv.test", "nodeName": setup.node(), "source": {} });
    let path = format!("/apis/storage.k8s.io/v1/volumeattachments/{attachment}");
    setup.server.put(&path, json!({ "spec": spec, "status": status }));
    mounted.await.expect("mounted");
    assert_eq!(setup.driver.seen().staged.expect("staged").publish_context["lun"], "3");
    setup.release("one").await;
}

/// VOL-12: the driver is asked at once how many volumes there is room for, and at its period; the cluster hears it.
#[tokio::test]
async fn a_node_without_room_tells_its_limit_anew() {
    let Some(setup) = Setup::new() else { return };
    setup.server.put(&format!("{DRIVERS}/drv.test"), json!({ "spec": { "nodeAllocatableUpdatePeriodSeconds": 10 } }));
    setup.driver.switches().volumes_max = 9;
    let _serving = setup.serve().await;
    setup.put_volume(&json!({}));
    let name = unique_name("drv.test", "h-1");
    setup.put_node(json!({ "volumesInUse": [name], "volumesAttached": [{ "name": name, "devicePath": "" }] }));
    let attachment = attachment_name("h-1", "drv.test", setup.node(), sha256_hex);
    let status = json!({ "attached": false, "attachError": { "message": "no slot is left", "errorCode": 8 } });
    let spec = json!({ "attacher": "drv.test", "nodeName": setup.node(), "source": {} });
    let path = format!("/apis/storage.k8s.io/v1/volumeattachments/{attachment}");
    setup.server.put(&path, json!({ "spec": spec, "status": status }));
    setup.driver.switches().volumes_max = 1;
    let failure = setup.ensure(&pod("one")).await.expect_err("no room");
    assert!(failure.message.ends_with("no slot is left") && !failure.rejects, "{failure:?}");
    let csi_node = || setup.server.object(&format!("/apis/storage.k8s.io/v1/csinodes/{}", setup.node()));
    let count = || csi_node()["spec"]["drivers"][0]["allocatable"]["count"].clone();
    setup.eventually("the cluster knows", || count() == json!(1)).await;
    setup.driver.switches().volumes_max = 3;
    setup.eventually("the period is over", || count() == json!(3)).await;
    let asked = setup.driver.seen().calls.iter().filter(|call| *call == "NodeGetInfo").count();
    assert!((3..6).contains(&asked), "{asked}: at the registration, without room, and once a period");
    setup.release("one").await;
}

/// One hung driver costs its own volumes only.
#[tokio::test]
async fn a_driver_that_hangs_keeps_no_other_from_its_work() {
    let Some(setup) = Setup::new() else { return };
    let _serving = setup.serve().await;
    let folder = tempfile::tempdir().expect("a folder");
    let hung = Driver::new("hung.test", folder.path());
    hung.switches().hangs.insert("NodeGetInfo");
    let _hung = hung.serve(&setup.path("plugins_registry"));
    setup.eventually("it is asked", || hung.seen().calls.iter().any(|call| call == "NodeGetInfo")).await;
    setup.put_volume(&json!({}));
    setup.ensure(&pod("one")).await.expect("mounted");
    setup.release("one").await;
    assert!(hung.seen().verdicts.is_empty());
}

/// A pod of this UID with the claim `data` as a device.
fn device_pod(uid: &str) -> Arc<Pod> {
    let mut pod = (*pod(uid)).clone();
    let container = &mut pod.spec.as_mut().expect("a specification").containers[0];
    container.volume_mounts = None;
    let device = json!([{ "name": "v", "devicePath": "/dev/xvda" }]);
    container.volume_devices = serde_json::from_value(device).expect("a device");
    Arc::new(pod)
}

/// VOL-47: also when an agent before had removed the pod's link, as upstream does before the driver is asked.
#[tokio::test]
async fn a_device_is_published_mapped_and_taken_down_from_the_disk_alone() {
    let Some(setup) = Setup::new() else { return };
    let _serving = setup.serve().await;
    setup.put_volume(&json!({ "volumeMode": "Block" }));
    setup.driver.switches().idle.insert("NodePublishVolume");
    let failure = setup.ensure(&device_pod("one")).await.expect_err("nothing is there");
    let expected = "MapVolume.MapPodDevice failed for volume \"pv-1\" : driver drv.test answered OK to \
                    NodePublishVolume, and there is no block device at";
    assert!(failure.message.contains(expected), "{}", failure.message);
    setup.release("one").await;
    setup.driver.switches().idle.clear();
    setup.driver.switches().disk_bytes = Some(16 << 20);
    let devices = setup.path("plugins/kubernetes.io/csi/volumeDevices");
    setup.eventually("it is unstaged", || !devices.join("pv-1").exists()).await;
    setup.driver.forget();
    let path = match setup.ensure(&device_pod("two")).await {
        Err(failure) if failure.message.contains("losetup") => {
            return crate::testing::skips::skip("no loop devices");
        }
        mapped => mapped.expect("mapped"),
    };
    assert_eq!(path, setup.path("pods/two/volumeDevices/kubernetes.io~csi/pv-1").display().to_string());
    let target = devices.join("publish/pv-1/two");
    assert_eq!(fs::read_link(&path).expect("a link"), target);
    assert!(devices.join("pv-1/dev/two").exists());
    fs::remove_file(&path).expect("there");
    setup.release("two").await;
    setup.eventually("it is unstaged", || !devices.join("pv-1").exists()).await;
    let calls = ["NodeStageVolume h-1", "NodePublishVolume h-1", "NodeUnpublishVolume h-1", "NodeUnstageVolume h-1"];
    assert_eq!(setup.driver.calls(), calls);
}

impl Setup {
    /// The claim wants this size, and its volume has it; the resizer says that the node is to follow.
    fn grow(&self, size: &str) {
        self.put_volume(&json!({ "capacity": { "storage": size } }));
        let path = "/api/v1/namespaces/ns/persistentvolumeclaims/data";
        let mut claim = self.server.object(path);
        claim["spec"]["resources"] = json!({ "requests": { "storage": size } });
        claim["status"]["capacity"] = json!({ "storage": "1Gi" });
        claim["status"]["allocatedResources"] = json!({ "storage": size });
        claim["status"]["allocatedResourceStatuses"] = json!({ "storage": "NodeResizePending" });
        self.server.put(path, claim);
    }

    fn claim_status(&self) -> Value {
        self.server.object("/api/v1/namespaces/ns/persistentvolumeclaims/data")["status"].clone()
    }

    fn refresh(&self, pod: &Arc<Pod>) {
        let refresh = VolumeManagerMsg::Refresh(Arc::clone(pod));
        self.played.agent.directory.volume_manager.tell(Cause::outside("test"), refresh).expect("room");
    }
}

/// VOL-46: at the mount and while the pod has it; a pod that syncs and whose claim is quiet costs one question.
#[tokio::test]
async fn a_volume_grows_when_it_is_mounted_and_in_use() {
    let Some(setup) = Setup::new() else { return };
    setup.driver.switches().capabilities.insert("EXPAND_VOLUME");
    let _serving = setup.serve().await;
    setup.grow("2Gi");
    let pod = pod("one");
    let path = setup.ensure(&pod).await.expect("mounted");
    let asked = setup.driver.seen().expanded.expect("asked");
    assert_eq!((asked.volume_path, asked.staging_target_path), (path, setup.staging().display().to_string()));
    assert_eq!(asked.capacity_range.map(|range| range.required_bytes), Some(2 << 30));
    assert_eq!(setup.claim_status()["capacity"]["storage"], "2Gi");
    assert!(setup.claim_status()["allocatedResourceStatuses"].is_null());

    let reads = |what: &str| setup.server.calls(&format!("GET /api/v1/{what}")).len();
    let before = (reads("namespaces/ns/persistentvolumeclaims"), reads("persistentvolumes"));
    setup.refresh(&pod);
    setup.eventually("it is looked at", || reads("namespaces/ns/persistentvolumeclaims") > before.0).await;
    assert_eq!(reads("persistentvolumes"), before.1);
    setup.grow("3Gi");
    setup.refresh(&pod);
    setup.eventually("it grew", || setup.claim_status()["capacity"]["storage"] == "3Gi").await;

    setup.driver.switches().fails.entry("NodeExpandVolume").or_default().push_back(Code::OutOfRange);
    setup.grow("4Gi");
    setup.refresh(&pod);
    let given_up = || setup.claim_status()["allocatedResourceStatuses"]["storage"] == "NodeResizeInfeasible";
    setup.eventually("it is given up", given_up).await;
    assert_eq!(setup.claim_status()["conditions"][0]["type"], "NodeResizeError");
    setup.ensure(&pod).await.expect("the pod keeps what it has");
    setup.release("one").await;
}

/// VOL-46: a pod does not start on a volume that the driver could not grow, and does so once it could.
#[tokio::test]
async fn a_volume_that_cannot_be_grown_keeps_its_pod_waiting() {
    let Some(setup) = Setup::new() else { return };
    setup.driver.switches().capabilities.insert("EXPAND_VOLUME");
    let _serving = setup.serve().await;
    setup.driver.switches().fails.entry("NodeExpandVolume").or_default().push_back(Code::Internal);
    setup.grow("2Gi");
    let failure = setup.ensure(&pod("one")).await.expect_err("it is too small");
    let expected = "MountVolume.Setup failed while expanding volume for volume \"pv-1\" : Expander.NodeExpand failed to \
                    expand the volume : rpc error: code = Internal";
    assert!(failure.message.contains(expected), "{}", failure.message);
    setup.eventually("it grew", || setup.claim_status()["capacity"]["storage"] == "2Gi").await;
    setup.ensure(&pod("one")).await.expect("mounted");
    // One that the driver cannot grow in use is mounted as it is.
    setup.driver.switches().fails.entry("NodeExpandVolume").or_default().push_back(Code::FailedPrecondition);
    setup.grow("3Gi");
    setup.ensure(&pod("two")).await.expect("mounted all the same");
    assert_eq!(setup.claim_status()["allocatedResourceStatuses"]["storage"], "NodeResizeInProgress");
    setup.release("one").await;
    setup.release("two").await;
}
