//! `VolumeManager` and housekeeping on a real disk, with a played API server: what pods leave, and what is kept of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::actors::kit::address::Address;
use crate::actors::kit::tests::{fill, listen, make_room};
use crate::actors::kit::trace::Cause;
use crate::actors::node::tests::{PlayedAgent, played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::pods::sweeper;
use crate::actors::wiring::start_alone;
use crate::logic::logs::log_keeping::LogKeeping;
use crate::logic::model::ids::PodUid;
use crate::messages::root::Child;
use crate::messages::volume_manager::VolumeManagerMsg;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

struct Setup {
    played: PlayedAgent,
    server: ObjectServer,
}

impl Setup {
    fn new() -> Self {
        let server = ObjectServer::default();
        let played = played_agent(server.api(), |_, _| {});
        start_alone(Child::VolumeManager, &played.agent);
        fs::create_dir(played.folder().join("pods")).expect("made");
        Self { played, server }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.played.folder().join(below)
    }

    /// Has the volume `v` of the pod `u` mounted, and reads this file in it.
    async fn mounted(&self, pod: &Arc<Pod>, file: &str) -> String {
        let to = &self.played.agent.directory.volume_manager;
        let worker = Address::new(&self.played.agent.trace, "PodWorker/u", "PodWorker", "PodManager", 16).subscriber();
        let ensure = |reply| VolumeManagerMsg::Ensure(Arc::clone(pod), worker, reply);
        let mounted = to.ask(Cause::outside("test"), LONG, ensure).await.expect("answered").expect("mounted");
        let path = &mounted.volumes["v"].host_path;
        fs::read_to_string(PathBuf::from(path).join(file)).expect("written")
    }

    async fn release(&self) {
        let release = |reply| VolumeManagerMsg::Release(PodUid::from("u"), reply);
        let to = &self.played.agent.directory.volume_manager;
        to.ask(Cause::outside("test"), LONG, release).await.expect("answered").expect("released");
    }
}

/// The pod `u` with these labels, whose volume `v` is projected of this.
fn pod(labels: &Value, source: &Value) -> Arc<Pod> {
    let pod = json!({
        "metadata": { "name": "web", "namespace": "ns", "uid": "u", "labels": labels },
        "spec": {
            "serviceAccountName": "robot",
            "containers": [{ "name": "c", "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }],
            "volumes": [{ "name": "v", "projected": { "defaultMode": 420, "sources": [source] } }],
        },
    });
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}

/// Whether this process may mount; the test skips itself where not.
#[track_caller]
fn may_mount() -> bool {
    let may = nix::unistd::geteuid().is_root();
    if !may {
        crate::testing::skips::skip("only root can mount");
    }
    may
}

/// SEC-52: a token is asked for once while it is good, and kept no longer than the volumes of its pod.
#[tokio::test(start_paused = true)]
async fn sec_52_tokens_of_a_pod_are_forgotten_with_its_volumes() {
    if !may_mount() {
        return;
    }
    let setup = Setup::new();
    let pod = pod(&json!({}), &json!({ "serviceAccountToken": { "path": "token" } }));
    for _ in 0..3 {
        assert_eq!(setup.mounted(&pod, "token").await, "a-token");
    }
    assert_eq!(setup.server.calls("/token").len(), 1);
    setup.release().await;
    assert_eq!(setup.mounted(&pod, "token").await, "a-token");
    assert_eq!(setup.server.calls("/token").len(), 2);
    setup.release().await;
}

/// VOL-25.
#[tokio::test(start_paused = true)]
async fn labels_that_change_are_in_the_file_once_the_pod_is_refreshed() {
    if !may_mount() {
        return;
    }
    let setup = Setup::new();
    let source = json!({ "downwardAPI": { "items": [
        { "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } },
    ] } });
    let (red, blue) = (pod(&json!({ "colour": "red" }), &source), pod(&json!({ "colour": "blue" }), &source));
    assert_eq!(setup.mounted(&red, "labels").await, "colour=\"red\"");
    let to = &setup.played.agent.directory.volume_manager;
    to.tell(Cause::outside("test"), VolumeManagerMsg::Refresh(Arc::clone(&blue))).expect("room");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(setup.mounted(&blue, "labels").await, "colour=\"blue\"");
    setup.release().await;
}

/// VOL-15, PAIN-14: housekeeping removes what a pod that nobody wants left behind, but nothing that may be somebody's data,
/// and nothing of a pod that is known.
#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_pod_goes_unless_there_is_data_in_it() {
    let setup = Setup::new();
    let data = "pods/held/volumes/kubernetes.io~csi/pv/data";
    for file in
        ["pods/gone/volumes/kubernetes.io~empty-dir/cache/file", "pods/gone/etc-hosts", data, "pods/known/etc-hosts"]
    {
        fs::create_dir_all(setup.path(file).parent().expect("below")).expect("made");
        fs::write(setup.path(file), "").expect("written");
    }
    let known = BTreeSet::from([PodUid::from("known")]);
    for expected in [&["gone", "held"][..], &["held"]] {
        let left = sweeper(&setup.played.agent).find(&known, &LogKeeping::default()).await.leftovers;
        assert_eq!(left.keys().map(PodUid::as_str).collect::<Vec<_>>(), expected);
        for (uid, left) in left {
            let swept = sweeper(&setup.played.agent).remove(&uid, left).await;
            let (goes, gone) = (uid.as_str() == "gone", swept.directory.expect("it had one").is_ok());
            assert_eq!((gone, swept.removed), (goes, usize::from(goes)), "{uid}");
        }
        let left = fs::read_dir(setup.path("pods")).expect("listed").flatten();
        let left: BTreeSet<_> = left.map(|entry| entry.file_name().into_string().expect("text")).collect();
        assert_eq!(left, BTreeSet::from(["held".to_owned(), "known".to_owned()]));
    }
    assert!(setup.path(data).exists() && setup.path("pods/known/etc-hosts").exists());
}

/// VOL-41: nobody looks for unused staged volumes by the clock, so the word that there may be one is not lost.
#[tokio::test(start_paused = true)]
async fn a_word_of_volumes_that_may_be_unused_is_told_again() {
    let setup = Setup::new();
    let csi_manager = &setup.played.agent.directory.csi_manager;
    let heard = listen(csi_manager);
    fill(csi_manager);
    setup.release().await;
    seconds(5.0).await;
    assert_eq!(heard.take(), [""; 0], "there is no room");
    make_room(csi_manager);
    seconds(1.0).await;
    assert_eq!(heard.take(), ["MayBeUnused"]);
}
