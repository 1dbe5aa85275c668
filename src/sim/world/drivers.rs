//! Drivers beside the agent, as a test handles them, and what they may have once all is quiet.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::World;
use super::cluster::NAMESPACE;
use super::controllers::{claim_of, gibibytes};
use super::truth::Problem;
use crate::actors::kit::trace::lock;
use crate::cri::ContainerState;
use crate::logic::plugins::claims::health::Health;
use crate::logic::plugins::plugin::PluginKind;
use crate::logic::resources::device_manager::devices::PluginOptions;
use crate::logic::volumes::csi::capabilities::NodeCapabilities;
use crate::sim::SimPod;
use crate::sim::api_server::pods::is_over;
use crate::sim::api_server::refusal::Refused;
use crate::sim::invariants::{DRIVERS_IDLE, HEALTH_TOLD, VOLUMES_GROWN};
use crate::sim::node::NODE_NAME;
use crate::sim::node::plugins::csi::Volumes;
use crate::sim::node::plugins::dra::{Claims, device_of};
use crate::sim::node::plugins::{Driver, ROOT};

/// Resources of simulated device plugins.
pub const GPU: &str = "device.sim/gpu";
/// See [`GPU`].
pub const NIC: &str = "device.sim/nic";

/// A CSI driver that stages volumes, and whose volumes are attached.
pub const DISK: &str = "disk.sim";
/// A CSI driver that neither stages nor has volumes attached, and has volumes that pods bring along.
pub const SHARE: &str = "share.sim";
/// A driver of resource claims.
pub const DRA: &str = "dra.sim";

/// The endpoint of the plugin of a resource.
fn endpoint_of(resource: &str) -> String {
    format!("{ROOT}/device-plugins/{}.sock", resource.replace('/', "-"))
}

impl World {
    /// A device plugin that registers by the agent's socket is there from now on, with these devices; see
    /// [`crate::sim::node::plugins::devices::Devices::set`].
    pub fn add_device_plugin(&self, resource: &str, devices: &[&str], options: PluginOptions) {
        self.add_plugin(resource, devices, options, None);
    }

    /// The same of one that registers by a socket in the plugins' registry.
    pub fn add_registered_plugin(&self, resource: &str, devices: &[&str], options: PluginOptions) {
        let socket = format!("{ROOT}/plugins_registry/{}-reg.sock", resource.replace('/', "-"));
        self.add_plugin(resource, devices, options, Some(socket));
    }

    fn add_plugin(&self, resource: &str, devices: &[&str], options: PluginOptions, socket: Option<String>) {
        let plugins = &self.node().plugins;
        lock(&plugins.devices).set(resource, devices);
        lock(&plugins.devices).all.entry(resource.to_owned()).or_default().options = options;
        let versions = vec!["v1beta1".to_owned()];
        let name = resource.to_owned();
        let driver = Driver { kind: PluginKind::Device, name, versions, socket, is_up: false, life: 0 };
        plugins.add(self.node(), &endpoint_of(resource), driver);
    }

    /// A process of a driver is there from now on, one of several if `instance` tells it from others.
    fn add_driver(&self, kind: PluginKind, name: &str, instance: &str, versions: &[&str]) -> String {
        let endpoint = format!("{ROOT}/plugins/{name}/driver{instance}.sock");
        let socket = Some(format!("{ROOT}/plugins_registry/{name}{instance}-reg.sock"));
        let versions = versions.iter().map(|version| (*version).to_owned()).collect();
        let driver = Driver { kind, name: name.to_owned(), versions, socket, is_up: false, life: 0 };
        self.node().plugins.add(self.node(), &endpoint, driver);
        endpoint
    }

    /// A CSI driver is there from now on, and the cluster knows it. Gives its endpoint.
    pub fn add_csi_driver(&self, name: &str, stages: bool) -> String {
        let capabilities = NodeCapabilities {
            stages,
            measures: true,
            expands: true,
            knows_single_node_modes: stages,
            ..NodeCapabilities::default()
        };
        lock(&self.node().plugins.volumes).capabilities.insert(name.to_owned(), capabilities);
        let modes: &[&str] = if stages { &["Persistent"] } else { &["Persistent", "Ephemeral"] };
        let spec = json!({
            "attachRequired": stages, "podInfoOnMount": true, "volumeLifecycleModes": modes, "fsGroupPolicy": "None",
            "requiresRepublish": !stages, "tokenRequests": [{ "audience": name }],
        });
        let object = json!({ "metadata": { "name": name }, "spec": spec });
        self.api().admin("POST", "/apis/storage.k8s.io/v1/csidrivers", object).expect("the first of its name");
        self.add_driver(PluginKind::Csi, name, "", &["1.0.0"])
    }

    /// A driver of resource claims is there from now on. Gives its endpoint.
    pub fn add_claim_driver(&self, name: &str) -> String {
        self.add_driver(PluginKind::Dra, name, "", &["v1.DRAPlugin", "v1beta1.DRAPlugin"])
    }

    /// A second instance of a driver of this name is there from now on, of another version. Gives its endpoint.
    pub fn add_second_driver(&self, name: &str) -> String {
        match name {
            DRA => self.add_driver(PluginKind::Dra, name, "-2", &["v1beta1.DRAPlugin"]),
            _ => self.add_driver(PluginKind::Csi, name, "-2", &["0.3.0", "1.0.0"]),
        }
    }

    /// A driver's instance goes for good.
    pub fn remove_driver(&self, endpoint: &str) {
        self.node().plugins.remove(self.node(), endpoint);
    }

    /// Whether a scheduler would place the pod here: devices are known to be here at all, and no other pod of the API has
    /// a volume that is for one pod.
    pub(super) fn check_placed(&self, pod: &SimPod) -> Result<(), Refused> {
        if let Some(claim) = self.claim_in_use(pod) {
            let why = format!(
                "node has pod using PersistentVolumeClaim {claim} with the same name and ReadWriteOncePod access mode"
            );
            return Err(Refused::new(409, "Unschedulable", why));
        }
        let specs = pod.init.iter().chain(&pod.containers);
        let asked: BTreeSet<String> = specs.flat_map(|spec| spec.devices().into_keys()).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let node = self.api().get("nodes", "", NODE_NAME).unwrap_or_default();
        let lacks =
            |resource: &&String| matches!(node["status"]["allocatable"][resource.as_str()].as_str(), None | Some("0"));
        match asked.iter().find(lacks) {
            None => Ok(()),
            Some(resource) => Err(Refused::new(409, "Unschedulable", format!("Insufficient {resource}"))),
        }
    }

    /// The plugin tells these devices from now on.
    pub fn set_devices(&self, resource: &str, devices: &[&str]) {
        self.node().story.tell("driver", format!("{resource} has {devices:?}"));
        lock(&self.node().plugins.devices).set(resource, devices);
        self.node().plugins.changed();
    }

    /// The devices of all claims are like this from now on.
    pub fn set_claims_health(&self, health: Health) {
        let plugins = &self.node().plugins;
        self.node().story.tell("driver", format!("the devices of all claims are {health}"));
        lock(&plugins.claims).values_mut().for_each(|claim| claim.health = health);
        plugins.changed();
    }

    /// All processes of a driver, or of a resource's plugin, die.
    pub fn kill_driver(&self, name: &str) {
        for (endpoint, _) in self.node().plugins.drivers().iter().filter(|(_, driver)| driver.name == name) {
            self.node().plugins.die(self.node(), endpoint, false);
        }
    }

    /// One process of a driver dies, and leaves its socket.
    pub fn kill_instance(&self, endpoint: &str) {
        self.node().plugins.die(self.node(), endpoint, true);
    }

    /// They begin again.
    pub fn start_driver(&self, name: &str) {
        for (endpoint, _) in self.node().plugins.drivers().iter().filter(|(_, driver)| driver.name == name) {
            self.node().plugins.start(self.node(), endpoint);
        }
    }

    /// CDI devices of the running containers of this pod, by its name in the API.
    pub fn devices_of(&self, pod: &str) -> Vec<String> {
        let containers = lock(&self.node().containers);
        let running = containers.containers.values().filter(|one| one.state == ContainerState::Running);
        running.filter(|one| one.pod == pod).flat_map(|one| one.devices.iter().cloned()).collect()
    }
}

/// Everything that drivers have and no pod wants.
pub(super) fn problems(world: &World) -> Vec<Problem> {
    if !world.shared.plugins || world.shared.link.is_none() {
        return vec![];
    }
    let wanted = world.api_wanted();
    let objects = wanted.keys().filter_map(|name| world.api_pod(name)).filter(|pod| !is_over(pod));
    let objects: Vec<_> = objects.collect();
    let entries = |pod: &Value| pod["spec"]["resourceClaims"].as_array().cloned().unwrap_or_default();
    let extended =
        |pod: &Value| pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"].as_str().map(str::to_owned);
    let claims: BTreeSet<String> = objects
        .iter()
        .flat_map(|pod| entries(pod).into_iter().map(|entry| claim_of(pod, &entry)).chain(extended(pod)))
        .collect();
    let plugins = &world.node().plugins;
    let mut problems = vec![];
    for (uid, claim) in lock(&plugins.claims).iter().filter(|(_, claim)| !claims.contains(&claim.name)) {
        problems.push((DRIVERS_IDLE, format!("claim {}, {uid}, of {} is prepared", claim.name, claim.driver)));
    }
    problems.extend(objects.iter().flat_map(|pod| healths(&lock(&plugins.claims), pod)));
    let volumes = lock(&plugins.volumes);
    for (path, one) in &volumes.published {
        let is_wanted = objects.iter().any(|pod| pod["metadata"]["uid"].as_str().is_some_and(|uid| path.contains(uid)));
        if !is_wanted {
            problems.push((DRIVERS_IDLE, format!("{} of {} is published at {path}", one.volume, one.driver)));
        }
    }
    for (path, one) in &volumes.staged {
        if !volumes.published.values().any(|user| user.staging == *path) {
            problems.push((DRIVERS_IDLE, format!("{} of {} is staged", one.volume, one.driver)));
        }
    }
    problems.extend(world.api().all("persistentvolumes").iter().filter_map(|volume| sizes(world, &volumes, volume)));
    problems
}

/// The faults of what a running pod's status says of the devices of its claims.
fn healths(claims: &Claims, pod: &Value) -> Vec<Problem> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut problems = vec![];
    for entry in list(&pod["spec"]["resourceClaims"]) {
        let name = claim_of(pod, &entry);
        let Some((uid, claim)) = claims.iter().find(|(_, claim)| claim.name == name) else { continue };
        let uses =
            |container: &&Value| list(&container["resources"]["claims"]).iter().any(|it| it["name"] == entry["name"]);
        let wanted = json!({ "resourceID": device_of(&claim.driver, uid), "health": claim.health.to_string() });
        for container in list(&pod["spec"]["containers"]).iter().filter(uses) {
            let of_container = |status: &&Value| status["name"] == container["name"];
            let statuses = list(&pod["status"]["containerStatuses"]);
            // One that never ran has no devices to speak of.
            let Some(status) =
                statuses.iter().find(of_container).filter(|status| status["state"]["running"].is_object())
            else {
                continue;
            };
            let told = list(&status["allocatedResourcesStatus"]);
            let title = format!("claim:{}", entry["name"].as_str().unwrap_or_default());
            let said = told.iter().find(|one| one["name"] == *title).map(|one| &one["resources"][0]);
            if said != Some(&wanted) {
                let pod = &pod["metadata"]["name"];
                problems.push((HEALTH_TOLD, format!("{pod} says of the device of {name} {said:?}, not {wanted}")));
            }
        }
    }
    problems
}

/// The fault of a persistent volume's size.
fn sizes(world: &World, volumes: &Volumes, volume: &Value) -> Option<Problem> {
    let csi = &volume["spec"]["csi"];
    let (driver, handle) = (csi["driver"].as_str()?.to_owned(), csi["volumeHandle"].as_str()?.to_owned());
    let claim = world.api().get("persistentvolumeclaims", NAMESPACE, volume["metadata"]["name"].as_str()?)?;
    let status = &claim["status"];
    let has = volumes.sizes.get(&(driver, handle.clone())).map_or(1, |bytes| bytes >> 30);
    let (said, wanted) =
        (gibibytes(&status["capacity"]["storage"])?, gibibytes(&volume["spec"]["capacity"]["storage"])?);
    let is_excused = status["allocatedResourceStatuses"]["storage"] == "NodeResizeInfeasible"
        || status["conditions"].as_array().is_some_and(|all| all.iter().any(|one| one["type"] == "NodeResizeError"));
    let is_used = volumes.published.values().any(|one| one.volume == handle);
    let is_right = said <= has && (said >= wanted || !is_used || is_excused);
    (!is_right)
        .then(|| (VOLUMES_GROWN, format!("{handle} is to have {wanted} GiB, has {has}, and its claim: {status}")))
}
