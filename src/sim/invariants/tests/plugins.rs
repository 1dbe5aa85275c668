//! Negative tests of the invariants about drivers, in the form of [`super`].

use serde_json::json;

use super::super::*;
use super::{Rogue, alone, in_cluster, shows, shows_beside, trips};
use crate::actors::kit::trace::lock;
use crate::cri::{ContainerConfig, Device, Mount, RuntimeService};
use crate::logic::plugins::claims::drivers::Service;
use crate::logic::plugins::claims::health::Health;
use crate::logic::plugins::claims::{ClaimId, ClaimKey};
use crate::logic::volumes::csi::names::DevicePlace;
use crate::logic::volumes::csi::requests::{Access, AccessMode, Capability, PublishRequest, StageRequest, Texts};
use crate::logic::volumes::csi::volume_data::VolumeData;
use crate::logic::volumes::order::VolumePlace;
use crate::platform::plugins::{CsiCalls, DraCalls};
use crate::platform::volumes::csi::{CsiHost, target_path};
use crate::sim::node::plugins::calls::PluginOutlet;
use crate::sim::node::plugins::csi::{Published, Staged};
use crate::sim::node::plugins::dra::Prepared;
use crate::sim::world::drivers::{DISK, DRA, GPU};
use crate::sim::{Options, SimPod, World};

/// The first container of a pod, started with these devices and mounts.
async fn started(world: &World, pod: &SimPod, cdi_devices: Vec<String>, mounts: Vec<Mount>) -> Rogue {
    let rogue = Rogue::of(world, pod).await;
    let sandbox = rogue.sandbox().await;
    let config = ContainerConfig { cdi_devices, mounts, ..rogue.container_config(0) };
    let id = rogue.outlet.create_container(&sandbox, &config, &rogue.sandbox_config()).await.expect("made");
    rogue.outlet.start_container(&id).await.expect("started");
    rogue
}

/// The same of a pod that has a claim, which no static pod may have.
async fn started_with_claim(world: &World) {
    let pod = SimPod::of("one", "run").claim(DRA);
    let rogue = Rogue::with(world, world.create(&pod).expect("made"), &pod).await;
    let sandbox = rogue.sandbox().await;
    let config = ContainerConfig { cdi_devices: vec![format!("claim.sim/{DRA}=u1")], ..rogue.container_config(0) };
    let id = rogue.outlet.create_container(&sandbox, &config, &rogue.sandbox_config()).await.expect("made");
    rogue.outlet.start_container(&id).await.expect("started");
}

/// The same of a pod that asks for a device.
async fn started_with(world: &World, name: &str, devices: &[&str]) {
    let devices = devices.iter().map(|id| format!("{GPU}={id}")).collect();
    started(world, &SimPod::of(name, "run").device(GPU, 1), devices, vec![]).await;
}

#[test]
fn a_device_with_two_containers_is_seen() {
    trips(DEVICE_ONCE, alone(), |world| async move {
        started_with(&world, "one", &["a"]).await;
        started_with(&world, "two", &["a"]).await;
    });
}

#[test]
fn a_container_without_its_device_or_with_one_more_is_seen() {
    for devices in [&[][..], &["a", "b"]] {
        trips(ALL_GIVEN, alone(), move |world| async move { started_with(&world, "one", devices).await });
    }
}

fn claim() -> ClaimId {
    let key = ClaimKey { namespace: "default".to_owned(), name: "claim".to_owned() };
    ClaimId { key, uid: "u1".to_owned() }
}

#[test]
fn a_container_that_starts_before_its_claim_is_prepared_is_seen() {
    trips(CLAIMS_FIRST, in_cluster(), |world| async move {
        started_with_claim(&world).await;
    });
}

#[test]
fn a_claim_released_while_a_container_uses_it_is_seen() {
    trips(CLAIMS_OUTLIVE, in_cluster(), |world| async move {
        let at = world.add_claim_driver(DRA);
        let drivers = PluginOutlet::new(&Rogue::of(&world, &SimPod::of("other", "run")).await.outlet);
        drivers.prepare(&at, Service::V1, vec![claim()]).await.expect("prepared");
        started_with_claim(&world).await;
        drivers.unprepare(&at, Service::V1, vec![claim()]).await.expect("released");
    });
}

/// A driver with two volumes, of which nothing is done yet.
struct Volumes {
    drivers: PluginOutlet,
    at: String,
    place: VolumePlace,
    staging: String,
}

fn capability() -> Capability {
    Capability {
        access: Access::Mount { fs_type: String::new(), flags: vec![], group: None },
        mode: AccessMode::SingleNodeWriter,
    }
}

impl Volumes {
    async fn begin(world: &World) -> Self {
        Self::of(world, false).await
    }

    async fn of(world: &World, is_device: bool) -> Self {
        let at = world.add_csi_driver(DISK, true);
        let drivers = PluginOutlet::new(&Rogue::of(world, &SimPod::of("other", "run")).await.outlet);
        let plugin = "kubernetes.io~csi".to_owned();
        let place = VolumePlace { uid: "u".into(), plugin, name: "data".to_owned(), is_device };
        let device = DevicePlace::FileSystem { driver: DISK.to_owned(), digest: "0a".to_owned() };
        let staging = device.staging_path("/var/lib/kubelet".as_ref()).display().to_string();
        let mut disk = lock(&world.node().disk);
        disk.csi.pods.insert(place.clone(), VolumeData::default());
        disk.csi.devices.insert(device, None);
        drop(disk);
        Self { drivers, at, place, staging }
    }

    async fn stage(&self) {
        let request = StageRequest {
            volume: "h".to_owned(),
            publish_context: Texts::new(),
            staging: self.staging.clone(),
            capability: capability(),
            secrets: Texts::new(),
            context: Texts::new(),
        };
        self.drivers.stage(&self.at, request).await.expect("staged");
    }

    fn target(&self) -> String {
        target_path("/var/lib/kubelet", &self.place)
    }

    async fn publish(&self, volume: &str, staging: &str) {
        self.publish_at(&self.place, capability(), volume, staging).await;
    }

    async fn publish_at(&self, place: &VolumePlace, capability: Capability, volume: &str, staging: &str) {
        let request = PublishRequest {
            volume: volume.to_owned(),
            publish_context: Texts::new(),
            staging: staging.to_owned(),
            target: target_path("/var/lib/kubelet", place),
            capability,
            read_only: false,
            secrets: Texts::new(),
            context: Texts::new(),
        };
        self.drivers.publish(&self.at, request).await.expect("published");
    }
}

#[test]
fn a_volume_published_over_another_one_is_seen() {
    trips(PUBLISHED_ONCE, in_cluster(), |world| async move {
        let volumes = Volumes::begin(&world).await;
        volumes.publish("one", "").await;
        volumes.publish("other", "").await;
    });
}

#[test]
fn a_volume_for_one_pod_that_two_pods_have_is_seen() {
    trips(ONE_POD, in_cluster(), |world| async move {
        let volumes = Volumes::begin(&world).await;
        let other = VolumePlace { uid: "v".into(), ..volumes.place.clone() };
        lock(&world.node().disk).csi.pods.insert(other.clone(), VolumeData::default());
        let for_one = || Capability { mode: AccessMode::SingleNodeSingleWriter, ..capability() };
        volumes.publish_at(&volumes.place, for_one(), "h", "").await;
        volumes.publish_at(&other, for_one(), "h", "").await;
    });
}

#[test]
fn a_volume_published_before_it_is_staged_is_seen() {
    trips(STAGED_FIRST, in_cluster(), |world| async move {
        let volumes = Volumes::begin(&world).await;
        volumes.publish("h", &volumes.staging).await;
    });
}

#[test]
fn a_volume_unstaged_while_it_is_published_is_seen() {
    trips(STAGED_OUTLIVES, in_cluster(), |world| async move {
        let volumes = Volumes::begin(&world).await;
        volumes.stage().await;
        volumes.publish("h", &volumes.staging).await;
        volumes.drivers.unstage(&volumes.at, "h", &volumes.staging).await.expect("unstaged");
    });
}

#[test]
fn a_container_whose_volume_is_not_published_any_more_is_seen() {
    trips(VOLUMES_OUTLIVE, in_cluster(), |world| async move {
        let volumes = Volumes::begin(&world).await;
        volumes.publish("h", "").await;
        let mounts = vec![Mount { host_path: volumes.target(), ..Mount::default() }];
        started(&world, &SimPod::of("one", "run"), vec![], mounts).await;
        volumes.drivers.unpublish(&volumes.at, "h", &volumes.target()).await.expect("unpublished");
    });
}

#[test]
fn a_device_that_is_not_mapped_for_its_container_any_more_is_seen() {
    trips(VOLUMES_OUTLIVE, in_cluster(), |world| async move {
        let volumes = Volumes::of(&world, true).await;
        volumes.publish("h", "").await;
        let host_path = volumes.drivers.map_device(&volumes.place).await.expect("mapped");
        let rogue = Rogue::of(&world, &SimPod::of("one", "run")).await;
        let sandbox = rogue.sandbox().await;
        let devices = vec![Device { container_path: "/dev/data".to_owned(), host_path, permissions: "mrw".to_owned() }];
        let config = ContainerConfig { devices, ..rogue.container_config(0) };
        let id = rogue.outlet.create_container(&sandbox, &config, &rogue.sandbox_config()).await.expect("made");
        rogue.outlet.start_container(&id).await.expect("started");
        volumes.drivers.unmap_device(&volumes.place).await.expect("unmapped");
    });
}

#[test]
fn a_device_unpublished_while_it_is_mapped_is_seen() {
    trips(VOLUMES_OUTLIVE, in_cluster(), |world| async move {
        let volumes = Volumes::of(&world, true).await;
        volumes.publish("h", "").await;
        volumes.drivers.map_device(&volumes.place).await.expect("mapped");
        volumes.drivers.unpublish(&volumes.at, "h", &volumes.target()).await.expect("unpublished");
    });
}

#[test]
fn a_volume_smaller_than_its_claim_says_or_wants_is_seen() {
    let spoils: [fn(&World); 2] = [
        |world| world.grow_volume("data"),
        |world| {
            let status = json!({ "status": { "capacity": { "storage": "2Gi" } } });
            let place = "/api/v1/namespaces/default/persistentvolumeclaims/data/status";
            world.api().admin("PATCH", place, status).expect("it is there");
        },
    ];
    for spoil in spoils {
        let pods = [SimPod::of("one", "run")];
        shows(VOLUMES_GROWN, Options { plugins: true, ..in_cluster() }, &pods, move |world| {
            world.add_volume("data", DISK);
            let uid = world.api_pod("one").expect("it is there")["metadata"]["uid"].clone();
            let (driver, volume) = (DISK.to_owned(), "handle-data".to_owned());
            let published = Published { driver, volume, staging: String::new(), content: Texts::new() };
            let path = format!("/pods/{}", uid.as_str().unwrap_or_default());
            lock(&world.node().plugins.volumes).published.insert(path, published);
            spoil(world);
        });
    }
}

#[test]
fn a_status_that_says_otherwise_of_a_claims_device_than_its_driver_is_seen() {
    let options = Options { plugins: true, ..in_cluster() };
    let begin = |world: &World| drop(world.add_claim_driver(DRA));
    shows_beside(HEALTH_TOLD, options, begin, &[SimPod::of("one", "run").claim(DRA)], |world| {
        lock(&world.node().plugins.claims).values_mut().for_each(|claim| claim.health = Health::Unhealthy);
    });
}

#[test]
fn each_thing_that_a_driver_keeps_for_nobody_is_seen() {
    type Spoil = fn(&World);
    let kinds: [Spoil; 3] = [
        |world| {
            let prepared = Prepared { driver: DRA.to_owned(), name: "gone".to_owned(), health: Health::Healthy };
            lock(&world.node().plugins.claims).insert("u".to_owned(), prepared);
        },
        |world| {
            let staged = Staged { driver: DISK.to_owned(), volume: "h".to_owned() };
            lock(&world.node().plugins.volumes).staged.insert("/s".to_owned(), staged);
        },
        |world| {
            let (driver, volume) = (DISK.to_owned(), "h".to_owned());
            let published = Published { driver, volume, staging: String::new(), content: Texts::new() };
            lock(&world.node().plugins.volumes).published.insert("/pods/gone".to_owned(), published);
        },
    ];
    for spoil in kinds {
        shows(DRIVERS_IDLE, Options { plugins: true, ..in_cluster() }, &[], spoil);
    }
}
