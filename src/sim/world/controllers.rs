//! The cluster's controllers for what drivers bring: claims are made for pods, allocated and reserved; volumes are attached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::World;
use super::cluster::NAMESPACE;
use crate::actors::kit::trace::lock;
use crate::logic::volumes::csi::names::{attachment_name, unique_name};
use crate::platform::network::tls::sha256_hex;
use crate::sim::api_server::pods::is_over;
use crate::sim::faults::random::Random;
use crate::sim::invariants::STAGED_OUTLIVES;
use crate::sim::node::NODE_NAME;
use crate::sim::pods::SimPod;

/// From one round of the controllers to the next.
const ROUND: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(1500));
/// Where the API has claims and attachments.
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
/// Where it has persistent volumes and their claims.
const VOLUMES: &str = "/api/v1/persistentvolumes";
const VOLUME_CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// The access mode of a volume that one pod may have at a time.
const FOR_ONE_POD: &str = "ReadWriteOncePod";

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The persistent volume claim that a volume of a pod means.
fn volume_claim(volume: &Value) -> Option<&str> {
    volume["persistentVolumeClaim"]["claimName"].as_str()
}

/// The persistent volume claims of these pods that are not over.
fn claims_in_use(pods: &[Arc<Value>]) -> BTreeSet<&str> {
    let alive = pods.iter().filter(|pod| !is_over(pod));
    alive.flat_map(|pod| items(&pod["spec"]["volumes"])).filter_map(volume_claim).collect()
}

/// An amount of storage, where it is given in whole GiB.
pub(super) fn gibibytes(amount: &Value) -> Option<i64> {
    text(amount).strip_suffix("Gi")?.parse().ok()
}

/// The claim that an entry of a pod means.
pub(super) fn claim_of(pod: &Value, entry: &Value) -> String {
    let own = entry["resourceClaimName"].as_str().map(str::to_owned);
    own.unwrap_or_else(|| {
        let uid = text(&pod["metadata"]["uid"]);
        format!("{}-{}-{uid}", text(&pod["metadata"]["name"]), text(&entry["name"]))
    })
}

/// The allocation of a claim that a driver has a device of.
fn allocated(driver: &str, reserved: &[Value]) -> Value {
    let result = json!({ "driver": driver, "pool": "pool", "device": "any", "request": "all" });
    json!({ "allocation": { "devices": { "results": [result] } }, "reservedFor": reserved })
}

/// The spec of a claim.
fn claim_spec() -> Value {
    json!({ "devices": { "requests": [{ "name": "all", "exactly": { "deviceClassName": "any" } }] } })
}

impl World {
    /// The controllers, for as long as the run goes on.
    pub(super) async fn control(self) {
        let random = Random::named(self.shared.seed, "controllers");
        loop {
            tokio::time::sleep(random.between(ROUND.0, ROUND.1)).await;
            self.control_claims();
            self.control_attachments();
        }
    }

    /// Somebody makes a claim that several pods may use.
    pub fn share_claim(&self, name: &str, driver: &str) {
        let claim = json!({ "metadata": { "name": name }, "spec": claim_spec(), "status": allocated(driver, &[]) });
        self.api().admin("POST", CLAIMS, claim).expect("the first of its name");
    }

    fn control_claims(&self) {
        let pods = self.api().all("pods");
        let alive: Vec<&Arc<Value>> = pods.iter().filter(|pod| !is_over(pod)).collect();
        for pod in alive.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
            self.claims_for(pod);
        }
        let is_alive = |uid: &Value| alive.iter().any(|pod| pod["metadata"]["uid"] == *uid);
        for claim in self.api().all("resourceclaims") {
            let place = format!("{CLAIMS}/{}", text(&claim["metadata"]["name"]));
            let has_owner = !claim["metadata"]["ownerReferences"].is_null();
            let owner_is_there = items(&claim["metadata"]["ownerReferences"])
                .any(|owner| pods.iter().any(|pod| pod["metadata"]["uid"] == owner["uid"]));
            if has_owner && !owner_is_there {
                drop(self.api().admin("DELETE", &place, Value::Null)); // It may be gone already.
                continue;
            }
            let reserved: Vec<&Value> = items(&claim["status"]["reservedFor"]).collect();
            let left: Vec<&Value> = reserved.iter().copied().filter(|user| is_alive(&user["uid"])).collect();
            if left.len() < reserved.len() {
                let patch = json!({ "status": { "reservedFor": left } });
                drop(self.api().admin("PATCH", &place, patch)); // It may be gone already.
            }
        }
    }

    /// Has the claims of a pod made, and reserved for it.
    fn claims_for(&self, pod: &Value) {
        let (name, uid) = (text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"]));
        let user = json!({ "resource": "pods", "name": name, "uid": uid });
        let mut made = vec![];
        for entry in items(&pod["spec"]["resourceClaims"]) {
            let claim = claim_of(pod, entry);
            let known = self.api().get("resourceclaims", NAMESPACE, &claim);
            if let Some(driver) = entry["resourceClaimTemplateName"].as_str() {
                made.push(json!({ "name": entry["name"], "resourceClaimName": claim }));
                if known.is_none() {
                    let owner =
                        json!({ "apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": true });
                    let metadata = json!({ "name": claim, "ownerReferences": [owner] });
                    let status = allocated(driver, std::slice::from_ref(&user));
                    let claim = json!({ "metadata": metadata, "spec": claim_spec(), "status": status });
                    self.api().admin("POST", CLAIMS, claim).expect("none of its name is there");
                }
            } else if let Some(known) =
                known.filter(|known| !items(&known["status"]["reservedFor"]).any(|one| *one == user))
            {
                let all: Vec<&Value> = items(&known["status"]["reservedFor"]).chain([&user]).collect();
                let patch = json!({ "status": { "reservedFor": all } });
                self.api().admin("PATCH", &format!("{CLAIMS}/{claim}"), patch).expect("it is there");
            }
        }
        if !made.is_empty() && pod["status"]["resourceClaimStatuses"].is_null() {
            let patch = json!({ "status": { "resourceClaimStatuses": made } });
            let place = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}/status");
            self.api().admin("PATCH", &place, patch).expect("it is there");
        }
    }

    /// Somebody makes a persistent volume of a driver, bound to a claim of the same name.
    pub fn add_volume(&self, name: &str, driver: &str) {
        self.add_volume_of(name, driver, "Filesystem", "ReadWriteOnce");
    }

    /// The same of one that pods have as a device.
    pub fn add_block_volume(&self, name: &str, driver: &str) {
        self.add_volume_of(name, driver, "Block", "ReadWriteOnce");
    }

    /// The same of one that one pod may have at a time.
    pub fn add_volume_for_one_pod(&self, name: &str, driver: &str) {
        self.add_volume_of(name, driver, "Filesystem", FOR_ONE_POD);
    }

    /// The first claim of a pod that is for one pod and that another pod of the API has.
    pub(super) fn claim_in_use(&self, pod: &SimPod) -> Option<String> {
        let is_for_one = |claim: &&str| {
            let found = self.api().get("persistentvolumeclaims", NAMESPACE, claim);
            found.is_some_and(|claim| claim["spec"]["accessModes"] == json!([FOR_ONE_POD]))
        };
        let others = self.api().all("pods");
        let used = claims_in_use(&others);
        let of_pod = pod.volumes.iter().filter_map(|(_, source)| volume_claim(source));
        of_pod.filter(|claim| used.contains(claim)).find(is_for_one).map(str::to_owned)
    }

    fn add_volume_of(&self, name: &str, driver: &str, mode: &str, access: &str) {
        let requests = json!({ "storage": "1Gi" });
        let claim = json!({
            "metadata": { "name": name },
            "spec": {
                "volumeName": name, "accessModes": [access], "volumeMode": mode, "resources": { "requests": requests },
            },
            "status": { "phase": "Bound", "accessModes": [access], "capacity": { "storage": "1Gi" } },
        });
        let claim = self.api().admin("POST", VOLUME_CLAIMS, claim).expect("the first of its name");
        let csi = json!({
            "driver": driver, "volumeHandle": format!("handle-{name}"), "fsType": "ext4", "volumeAttributes": { "of": name },
        });
        let volume = json!({
            "metadata": { "name": name },
            "spec": {
                "accessModes": [access], "capacity": { "storage": "1Gi" }, "volumeMode": mode, "csi": csi,
                "claimRef": { "namespace": NAMESPACE, "name": name, "uid": claim["metadata"]["uid"] },
            },
            "status": { "phase": "Bound" },
        });
        self.api().admin("POST", VOLUMES, volume).expect("the first of its name");
    }

    /// Somebody wants a volume to be larger by 1 GiB, and its resizer has done its part: the node is to do the rest. Not while
    /// the node has not done it for the last time.
    pub fn grow_volume(&self, name: &str) {
        let claim = self.api().get("persistentvolumeclaims", NAMESPACE, name).expect("it is there");
        let volume = self.api().get("persistentvolumes", "", name).expect("it is there");
        let state = &claim["status"]["allocatedResourceStatuses"]["storage"];
        if !state.is_null() && state != "NodeResizeInfeasible" {
            return;
        }
        let size = gibibytes(&volume["spec"]["capacity"]["storage"])
            .map(|size| json!({ "storage": format!("{}Gi", size + 1) }));
        let size = size.expect("whole GiB");
        self.node().story.tell("api", format!("{name} is to have {}", size["storage"]));
        let place = format!("{VOLUME_CLAIMS}/{name}");
        let patch = |place: &str, patch: Value| self.api().admin("PATCH", place, patch).expect("it is there");
        patch(&place, json!({ "spec": { "resources": { "requests": size } } }));
        patch(&format!("{VOLUMES}/{name}"), json!({ "spec": { "capacity": size } }));
        let pending = json!({ "storage": "NodeResizePending" });
        patch(
            &format!("{place}/status"),
            json!({ "status": { "allocatedResources": size, "allocatedResourceStatuses": pending } }),
        );
    }

    /// The volumes of drivers with attachments that pods of the node want: by the Node's name of each, driver and handle.
    fn wanted_attachments(&self) -> BTreeMap<String, (String, String)> {
        let pods = self.api().all("pods");
        let volumes =
            claims_in_use(&pods).into_iter().filter_map(|claim| self.api().get("persistentvolumes", "", claim));
        let attaches = |driver: &str| {
            let known = self.api().get("csidrivers", "", driver);
            known.is_none_or(|known| known["spec"]["attachRequired"] != false)
        };
        let names = volumes.map(|volume| {
            let csi = &volume["spec"]["csi"];
            (text(&csi["driver"]).to_owned(), text(&csi["volumeHandle"]).to_owned())
        });
        let attached = names.filter(|(driver, _)| attaches(driver));
        attached.map(|(driver, handle)| (unique_name(&driver, &handle), (driver, handle))).collect()
    }

    fn control_attachments(&self) {
        let Some(node) = self.api().get("nodes", "", NODE_NAME) else { return };
        let wanted = self.wanted_attachments();
        let mut attached: Vec<Value> = items(&node["status"]["volumesAttached"]).cloned().collect();
        let before = attached.len();
        for (name, (driver, handle)) in &wanted {
            let attachment = attachment_name(handle, driver, NODE_NAME, sha256_hex);
            if self.api().get("volumeattachments", "", &attachment).is_none() {
                let spec = json!({ "attacher": driver, "nodeName": NODE_NAME, "source": { "inlineVolumeSpec": null } });
                let status = json!({ "attached": true, "attachmentMetadata": { "lun": "1" } });
                let object = json!({ "metadata": { "name": attachment }, "spec": spec, "status": status });
                self.api().admin("POST", ATTACHMENTS, object).expect("none of its name is there");
            } else if !attached.iter().any(|one| one["name"] == **name) {
                attached.push(json!({ "name": name, "devicePath": "" }));
            }
        }
        let is_used = |one: &Value| {
            let in_use = items(&node["status"]["volumesInUse"]).any(|name| *name == one["name"]);
            in_use || wanted.contains_key(text(&one["name"]))
        };
        let (left, gone): (Vec<Value>, Vec<Value>) = attached.into_iter().partition(is_used);
        gone.iter().for_each(|one| self.detach(text(&one["name"])));
        if !gone.is_empty() || left.len() != before {
            let patch = json!({ "status": { "volumesAttached": left } });
            drop(self.api().admin("PATCH", &format!("/api/v1/nodes/{NODE_NAME}/status"), patch)); // It may be gone.
        }
    }

    fn detach(&self, name: &str) {
        let Some((driver, handle)) = name.trim_start_matches("kubernetes.io/csi/").split_once('^') else { return };
        self.node().story.tell("api", format!("{handle} of {driver} is detached"));
        let attachment = attachment_name(handle, driver, NODE_NAME, sha256_hex);
        drop(self.api().admin("DELETE", &format!("{ATTACHMENTS}/{attachment}"), Value::Null)); // It may be gone.
        let volumes = lock(&self.node().plugins.volumes);
        if volumes.staged.values().any(|one| one.driver == driver && one.volume == handle) {
            drop(volumes);
            self.node().invariants.broken(STAGED_OUTLIVES, format!("{handle} of {driver} is detached while staged"));
        }
    }
}
