//! Each invariant is broken on purpose, by an agent that does wrong or by a world that is not as it should be. The test sees
//! that this invariant, and no other one, says so.

mod api;
mod plugins;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use serde_json::{Value, json};

use super::*;
use crate::actors::kit::trace::lock;
use crate::cri::{
    ContainerConfig, ContainerMetadata, IdMapping, ImageService, ImageSpec, Mount, NamespaceMode, PodSandboxConfig,
    PodSandboxMetadata, RuntimeService, UserNamespace,
};
use crate::logic::model::ids::{ContainerId, PodUid, SandboxId};
use crate::logic::volumes::order::VolumePlace;
use crate::messages::status::status_manager::PodView;
use crate::platform::pods::manifests::ManifestFolder;
use crate::platform::pods::pod_files::PodFiles;
use crate::platform::pods::user_namespace_files::UserNamespaceFiles;
use crate::platform::volumes::VolumeHost;
use crate::sim::node::outlet::{Life, Outlet};
use crate::sim::world::cluster::NAMESPACE;
use crate::sim::world::truth::{self, check_forward};
use crate::sim::{Options, SimPod, World, run};

/// The subjects of this file's tests; `every_invariant_has_its_negative_test` compares them with the invariants.
const TRIPPED: &[&str] = &[
    ONE_INSTANCE,
    NEVER_TWICE,
    SANDBOX_FIRST,
    GRACE_SHRINKS,
    COUNTS_GROW,
    NO_WAY_BACK,
    VOLUMES_OUTLIVE,
    WANTED_RUNS,
    UNWANTED_STOPS,
    NOTHING_LEFT,
    TRUE_STATUS,
    STATUS_FORWARD,
    OWN_DELETES,
    GONE_FIRST,
    WANTED_LIVES,
    PRESSURE_ENDS,
    PRESSURE_RELIEVED,
    CRITICAL_STAYS,
    EVICTED_FOR_CAUSE,
    OWN_CPUS,
    OWN_IDS,
    API_TRUTH,
    RESIZED,
    TIER_SHARES,
    MIRRORS,
    NODE_READY,
    API_BOUNDED,
    IMAGES_STAY,
    DEVICE_ONCE,
    ALL_GIVEN,
    CLAIMS_FIRST,
    CLAIMS_OUTLIVE,
    PUBLISHED_ONCE,
    ONE_POD,
    STAGED_FIRST,
    STAGED_OUTLIVES,
    DRIVERS_IDLE,
    VOLUMES_GROWN,
    HEALTH_TOLD,
];

pub(super) fn alone() -> Options {
    Options::default()
}

pub(super) fn in_cluster() -> Options {
    Options { cluster: true, ..Options::default() }
}

/// Fails unless `act` breaks this invariant, and no other one.
pub(super) fn trips<F: Future<Output = ()>>(
    name: &'static str,
    options: Options,
    act: impl FnOnce(World) -> F + Send + 'static,
) {
    assert!(TRIPPED.contains(&name));
    let run = run(1, options, act);
    let broken: BTreeSet<&str> = run.violations.iter().map(|violation| violation.name).collect();
    assert_eq!(broken, BTreeSet::from([name]), "{}", crate::sim::describe(&run.violations, &run.story));
}

/// The names of the parts that are not as they should be; told with how.
async fn named_problems(world: &World) -> BTreeSet<&'static str> {
    let problems = world.problems().await;
    for (name, how) in &problems {
        world.node().story.tell("test", format!("{name}: {how}"));
    }
    problems.into_iter().map(|(name, _)| name).collect()
}

/// Fails unless the quiet node, once it is spoiled, is said not to meet this invariant, and each other one is met.
pub(super) fn shows(
    name: &'static str,
    options: Options,
    pods: &[SimPod],
    spoil: impl FnOnce(&World) + Send + 'static,
) {
    shows_beside(name, options, |_| {}, pods, spoil);
}

/// The same, on a node that has something before the pods come.
pub(super) fn shows_beside(
    name: &'static str,
    options: Options,
    begin: impl FnOnce(&World) + Send + 'static,
    pods: &[SimPod],
    spoil: impl FnOnce(&World) + Send + 'static,
) {
    assert!(TRIPPED.contains(&name));
    let pods = pods.to_vec();
    let found = run(1, options.clone(), move |world| async move {
        begin(&world);
        for pod in &pods {
            if options.cluster && pod.name != "fixed" {
                world.create(pod).expect("made");
            } else {
                world.put(pod);
            }
        }
        world.start_agent();
        world.settle().await;
        assert_eq!(named_problems(&world).await, BTreeSet::new(), "before anything is spoiled");
        spoil(&world);
        named_problems(&world).await
    });
    assert_eq!(found.value, BTreeSet::from([name]), "{:?}", found.story.iter().rev().take(6).collect::<Vec<_>>());
}

/// Fails unless the node, as `act` leaves it, is said not to meet this invariant, and each other one is met.
pub(super) fn shows_after<F: Future<Output = ()>>(
    name: &'static str,
    options: Options,
    act: impl FnOnce(World) -> F + Send + 'static,
) {
    assert!(TRIPPED.contains(&name));
    let found = run(1, options, |world| async move {
        act(world.clone()).await;
        named_problems(&world).await
    });
    assert_eq!(found.value, BTreeSet::from([name]), "{:?}", found.story.iter().rev().take(6).collect::<Vec<_>>());
}

/// An agent that does what the test says, right or wrong.
pub(super) struct Rogue {
    pub(super) outlet: Outlet,
    uid: PodUid,
    pod: SimPod,
}

impl Rogue {
    /// One for a static pod.
    pub(super) async fn of(world: &World, pod: &SimPod) -> Self {
        Self::with(world, world.put(pod), pod).await
    }

    pub(super) async fn with(world: &World, uid: PodUid, pod: &SimPod) -> Self {
        let outlet = Outlet::new(Arc::clone(world.node()), Arc::new(Life::default()), 1);
        let image = ImageSpec { image: "app:1".to_owned(), ..ImageSpec::default() };
        outlet.pull_image(&image, None, &PodSandboxConfig::default()).await.expect("pulled");
        Self { outlet, uid, pod: pod.clone() }
    }

    pub(super) fn sandbox_config(&self) -> PodSandboxConfig {
        let (name, uid) = (self.pod.name.clone(), self.uid.to_string());
        PodSandboxConfig {
            metadata: PodSandboxMetadata { name, uid, namespace: NAMESPACE.to_owned(), attempt: 0 },
            ..PodSandboxConfig::default()
        }
    }

    pub(super) async fn sandbox(&self) -> SandboxId {
        self.outlet.run_pod_sandbox(&self.sandbox_config(), "").await.expect("made")
    }

    /// A sandbox in a user namespace of its own.
    async fn sandbox_with_ids(&self, attempt: usize, first: u32) -> SandboxId {
        let mut config = self.sandbox_config();
        config.metadata.attempt = u32::try_from(attempt).expect("few");
        config.linux.security_context.namespace_options.userns = Some(users(first));
        self.outlet.run_pod_sandbox(&config, "").await.expect("made")
    }

    pub(super) fn container_config(&self, attempt: u32) -> ContainerConfig {
        let spec = &self.pod.containers[0];
        ContainerConfig {
            metadata: ContainerMetadata { name: spec.name.clone(), attempt },
            image: ImageSpec { image: spec.image.clone(), ..ImageSpec::default() },
            args: vec![spec.does.clone()],
            ..ContainerConfig::default()
        }
    }

    /// The pod's first container, made.
    async fn made(&self, sandbox: &SandboxId, attempt: u32) -> ContainerId {
        let config = self.container_config(attempt);
        self.outlet.create_container(sandbox, &config, &self.sandbox_config()).await.expect("made")
    }

    /// The same, started.
    pub(super) async fn started(&self, sandbox: &SandboxId, attempt: u32) -> ContainerId {
        let id = self.made(sandbox, attempt).await;
        self.outlet.start_container(&id).await.expect("started");
        id
    }

    pub(super) fn volume(&self) -> VolumePlace {
        let plugin = "kubernetes.io~empty-dir".into();
        VolumePlace { uid: self.uid.clone(), plugin, name: "cache".into(), is_device: false }
    }
}

/// A user namespace of the usual size.
fn users(first: u32) -> UserNamespace {
    let ids = vec![IdMapping { host_id: first, container_id: 0, length: 65_536 }];
    UserNamespace { mode: NamespaceMode::Pod, uids: ids.clone(), gids: ids }
}

#[test]
fn an_image_taken_from_a_container_that_runs_is_seen() {
    trips(IMAGES_STAY, alone(), |world| async move {
        let rogue = Rogue::of(&world, &SimPod::of("web", "run")).await;
        let sandbox = rogue.sandbox().await;
        rogue.started(&sandbox, 0).await;
        let image = ImageSpec { image: "sha256:app:1".to_owned(), ..ImageSpec::default() };
        rogue.outlet.remove_image(&image).await.expect("removed");
    });
}

async fn second() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[test]
fn a_second_instance_beside_the_first_is_seen() {
    trips(ONE_INSTANCE, alone(), |world| async move {
        let rogue = Rogue::of(&world, &SimPod::of("web", "run")).await;
        let sandbox = rogue.sandbox().await;
        rogue.started(&sandbox, 0).await;
        rogue.started(&sandbox, 1).await;
    });
}

#[test]
fn a_container_of_a_pod_that_never_restarts_is_seen_when_it_runs_again() {
    trips(NEVER_TWICE, alone(), |world| async move {
        let rogue = Rogue::of(&world, &SimPod::of("job", "exit 1 after 100ms").restarts("Never")).await;
        let sandbox = rogue.sandbox().await;
        rogue.started(&sandbox, 0).await;
        second().await;
        rogue.started(&sandbox, 1).await;
    });
}

#[test]
fn a_container_asked_for_in_a_sandbox_that_never_was_ready_is_seen() {
    trips(SANDBOX_FIRST, alone(), |world| async move {
        let rogue = Rogue::of(&world, &SimPod::of("web", "run")).await;
        lock(&world.node().containers).cut_off_sandbox(&rogue.sandbox_config()).expect("cut off");
        let sandbox = lock(&world.node().containers).sandboxes.keys().next().cloned().expect("one");
        let config = rogue.container_config(0);
        rogue.outlet.create_container(&sandbox, &config, &rogue.sandbox_config()).await.expect_err("refused");
    });
}

#[test]
fn a_container_asked_for_in_a_sandbox_that_nobody_made_is_seen() {
    trips(SANDBOX_FIRST, alone(), |world| async move {
        let rogue = Rogue::of(&world, &SimPod::of("web", "run")).await;
        let config = rogue.container_config(0);
        let made = rogue.outlet.create_container(&"nowhere".into(), &config, &rogue.sandbox_config()).await;
        made.expect_err("refused");
    });
}

#[test]
fn a_grace_period_that_grows_is_seen() {
    trips(GRACE_SHRINKS, alone(), |world| async move {
        let rogue = Rogue::of(&world, &SimPod::of("web", "run ignores stop")).await;
        let sandbox = rogue.sandbox().await;
        let id = rogue.started(&sandbox, 0).await;
        world.delete("web");
        let first = rogue.outlet.stop_container(&id, Duration::from_secs(5));
        let then = async {
            second().await;
            rogue.outlet.stop_container(&id, Duration::from_secs(10)).await
        };
        let (first, then) = tokio::join!(first, then);
        first.and(then).expect("stopped");
    });
}

#[test]
fn a_restart_count_that_falls_is_seen() {
    trips(COUNTS_GROW, alone(), |world| async move {
        let rogue = Rogue::of(&world, &SimPod::of("web", "exit 1 after 100ms")).await;
        let sandbox = rogue.sandbox().await;
        rogue.started(&sandbox, 1).await;
        second().await;
        rogue.started(&sandbox, 0).await;
    });
}

/// Both halves: the sandbox alone, and a container in it.
#[test]
fn a_pod_that_comes_back_after_it_was_removed_is_seen() {
    for with_sandbox_before in [false, true] {
        trips(NO_WAY_BACK, alone(), move |world| async move {
            let rogue = Rogue::of(&world, &SimPod::of("web", "run")).await;
            let before = if with_sandbox_before { Some(rogue.sandbox().await) } else { None };
            world.delete("web");
            rogue.outlet.scan().await.expect("read");
            rogue.outlet.remove_pod(&rogue.uid).await.expect("removed");
            match before {
                Some(sandbox) => drop(rogue.started(&sandbox, 0).await),
                None => drop(rogue.sandbox().await),
            }
        });
    }
}

/// A pod with the IDs of another, one whose IDs change, one with the host's, and one whose IDs others may have too early.
#[test]
fn ids_that_are_not_a_pods_own_are_seen() {
    const A: u32 = 65_536;
    const B: u32 = 131_072;
    for (ids, own) in [(vec![("web", A), ("db", A)], false), (vec![("web", A), ("web", B)], false), (vec![], true)] {
        trips(OWN_IDS, alone(), move |world| async move {
            let pod = |name: &str| SimPod::of(name, "run");
            let web = if own { pod("web").with_own_users() } else { pod("web") };
            let (web, db) = (Rogue::of(&world, &web).await, Rogue::of(&world, &pod("db")).await);
            for (attempt, (name, first)) in ids.into_iter().enumerate() {
                let rogue = if name == "web" { &web } else { &db };
                rogue.sandbox_with_ids(attempt, first).await;
            }
            if own {
                web.sandbox().await;
            }
        });
    }
    trips(OWN_IDS, alone(), |world| async move {
        let rogue = Rogue::of(&world, &SimPod::of("web", "run")).await;
        let sandbox = rogue.sandbox_with_ids(0, A).await;
        let mut config = rogue.container_config(0);
        config.security_context.namespace_options.userns = Some(users(A));
        let id = rogue.outlet.create_container(&sandbox, &config, &rogue.sandbox_config()).await.expect("made");
        rogue.outlet.start_container(&id).await.expect("started");
        UserNamespaceFiles::remove(&rogue.outlet, &rogue.uid).await.expect("removed");
    });
}

#[test]
fn a_container_made_without_its_volume_is_seen() {
    trips(VOLUMES_OUTLIVE, alone(), |world| async move {
        let rogue = Rogue::of(&world, &SimPod::of("web", "run")).await;
        let sandbox = rogue.sandbox().await;
        let host_path = rogue.outlet.path_of(&rogue.volume());
        let mounts = vec![Mount { host_path, ..Mount::default() }];
        let config = ContainerConfig { mounts, ..rogue.container_config(0) };
        rogue.outlet.create_container(&sandbox, &config, &rogue.sandbox_config()).await.expect("made");
    });
}

#[test]
fn a_volume_taken_from_a_container_that_runs_is_seen() {
    trips(VOLUMES_OUTLIVE, alone(), |world| async move {
        let rogue = Rogue::of(&world, &SimPod::of("web", "run")).await;
        lock(&world.node().disk).volumes.insert(rogue.volume());
        let sandbox = rogue.sandbox().await;
        rogue.started(&sandbox, 0).await;
        rogue.outlet.tear_down(&rogue.volume()).await.expect("taken down");
    });
}

#[test]
fn a_wanted_pod_that_does_not_run_is_seen() {
    shows(WANTED_RUNS, alone(), &[SimPod::of("web", "run")], |world| {
        let mut containers = lock(&world.node().containers);
        containers.sandboxes.clear();
        containers.containers.clear();
    });
}

#[test]
fn what_runs_and_nobody_wants_is_seen() {
    shows(UNWANTED_STOPS, alone(), &[], |world| {
        let metadata = PodSandboxMetadata { name: "x".into(), uid: "x".into(), namespace: "x".into(), attempt: 0 };
        let config = PodSandboxConfig { metadata, ..PodSandboxConfig::default() };
        let mut containers = lock(&world.node().containers);
        containers.run_sandbox(&config, world.node().time.now()).expect("made");
    });
}

#[test]
fn each_kind_of_remains_is_seen() {
    type Spoil = fn(&World);
    let kinds: [Spoil; 5] = [
        |world| drop(lock(&world.node().disk).pods.insert("gone".into(), BTreeSet::new())),
        |world| drop(lock(&world.node().disk).logs.insert("default_gone_gone".to_owned(), BTreeSet::new())),
        |world| {
            let plugin = "kubernetes.io~empty-dir".into();
            let place = VolumePlace { uid: "gone".into(), plugin, name: "cache".into(), is_device: false };
            lock(&world.node().disk).volumes.insert(place);
        },
        |world| lock(&world.node().cgroups).ensure("/kubepods/besteffort/podgone"),
        |world| {
            let mut containers = lock(&world.node().containers);
            containers.cut_off_sandbox(&PodSandboxConfig::default()).expect("cut off");
        },
    ];
    for spoil in kinds {
        shows(NOTHING_LEFT, alone(), &[], spoil);
    }
}

/// Changes the runtime's container of the pod `web`, of which the agent has told.
pub(super) fn spoil_container(world: &World, spoil: impl Fn(&mut crate::sim::containers::SimContainer)) {
    let mut containers = lock(&world.node().containers);
    containers.containers.values_mut().filter(|one| one.pod.starts_with("web")).for_each(spoil);
}

#[test]
fn each_untruth_of_a_status_is_seen() {
    type Spoil = fn(&World);
    let ended = SimPod::of("web", "exit 3 after 1s").restarts("Never");
    let cases: [(SimPod, Spoil); 4] = [
        (SimPod::of("web", "run"), |world| spoil_container(world, |one| one.metadata.attempt += 1)),
        (ended.clone(), |world| spoil_container(world, |one| one.exit_code = 4)),
        (ended.clone(), |world| spoil_container(world, |one| one.reason = "OOMKilled")),
        (ended, |world| spoil_container(world, |one| one.id = "another".into())),
    ];
    for (pod, spoil) in cases {
        shows(TRUE_STATUS, alone(), &[pod], spoil);
    }
}

/// A status tells of a container that the runtime never made.
#[test]
fn a_container_that_was_never_made_and_is_told_of_is_seen() {
    run(1, alone(), |world| async move {
        let pod = SimPod::of("web", "run");
        let wanted = crate::sim::world::Wanted { uid: world.put(&pod), pod };
        let told = |state: Value| {
            let status = json!({ "phase": "Pending", "containerStatuses": [
                { "name": "main", "image": "app:1", "imageID": "", "ready": false, "restartCount": 0, "state": state },
            ] });
            let view = view(wanted.uid.as_str(), serde_json::from_value(status).expect("a status"));
            truth::untrue(world.node(), &lock(&world.node().containers), &wanted, &view)
        };
        assert_eq!(told(json!({ "waiting": { "reason": "ContainerCreating" } })), None);
        for untrue in [json!({ "running": {} }), json!({ "terminated": { "exitCode": 1 } })] {
            assert!(told(untrue.clone()).is_some(), "{untrue}");
        }
    });
}

fn view(uid: &str, status: PodStatus) -> PodView {
    let (uid, status) = (PodUid::from(uid), Arc::new(status));
    PodView { uid, status, pod: Arc::new(Pod::default()), may_run: true, is_over: false, waiting: Arc::default() }
}

#[test]
fn a_status_that_goes_back_is_seen() {
    let phase = |phase: &str| PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() };
    let counted = |restart_count| {
        let one = ContainerStatus { name: "main".to_owned(), restart_count, ..ContainerStatus::default() };
        PodStatus { container_statuses: Some(vec![one]), ..phase("Running") }
    };
    for statuses in [[phase("Succeeded"), phase("Running")], [counted(2), counted(1)]] {
        trips(STATUS_FORWARD, alone(), |world| async move {
            for status in statuses {
                check_forward(&world, &[view("u", status)]);
            }
        });
    }
}

/// The verdict of the truth on a pod of this policy whose status says that it has ended.
fn judged(
    pod: SimPod,
    phase: &'static str,
    reason: Option<&'static str>,
    waits: u64,
    runs: bool,
) -> Result<(), String> {
    let judged = run(1, alone(), move |world| async move {
        let rogue = Rogue::of(&world, &pod).await;
        if runs {
            let sandbox = rogue.sandbox().await;
            rogue.started(&sandbox, 0).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            rogue.outlet.remove_pod_sandbox(&sandbox).await.expect("removed");
        }
        tokio::time::sleep(Duration::from_secs(waits)).await;
        let status = json!({ "phase": phase, "reason": reason });
        let view = view(rogue.uid.as_str(), serde_json::from_value(status).expect("a status"));
        let wanted = crate::sim::world::Wanted { uid: rogue.uid.clone(), pod };
        truth::as_wanted(world.node(), &lock(&world.node().containers), &wanted, Some(&view))
    });
    judged.value
}

/// A status may say that a pod has ended only when it has ended so.
#[test]
fn an_end_that_did_not_happen_is_seen() {
    let never = |does: &str| SimPod::of("job", does).restarts("Never");
    let late = Some("DeadlineExceeded");
    let limited = || SimPod { deadline: Some(60), ..SimPod::of("job", "run") };
    let cases = [
        ("it ran and failed", never("exit 1 after 1s"), "Failed", None, 0, true, true),
        ("it ran and ended well", never("exit 0 after 1s"), "Succeeded", None, 0, true, true),
        ("it never ran", never("exit 1 after 1s"), "Failed", None, 0, false, false),
        ("it ended well", never("exit 0 after 1s"), "Failed", None, 0, true, false),
        ("it failed", never("exit 1 after 1s"), "Succeeded", None, 0, true, false),
        ("it never ran", never("exit 0 after 1s"), "Succeeded", None, 0, false, false),
        ("it restarts always", SimPod::of("web", "exit 1 after 1s"), "Failed", None, 0, true, false),
        ("its time is over", limited(), "Failed", late, 61, false, true),
        ("its time is not over", limited(), "Failed", late, 30, false, false),
        ("its time is no reason", limited(), "Failed", None, 61, false, false),
        ("it has no deadline", SimPod::of("web", "run"), "Failed", late, 61, false, false),
    ];
    for (what, pod, phase, reason, waits, runs, is_right) in cases {
        let judged = judged(pod, phase, reason, waits, runs);
        assert_eq!(judged.is_ok(), is_right, "{what}, {phase}: {judged:?}");
    }
}

#[test]
fn every_invariant_has_its_negative_test() {
    let all: Vec<&str> =
        include_str!("../invariants.rs").lines().filter(|line| line.starts_with("pub const ")).collect();
    assert_eq!(all.len(), TRIPPED.len(), "{all:#?}");
    let tests = [include_str!("tests.rs"), include_str!("tests/api.rs"), include_str!("tests/plugins.rs")].concat();
    for line in all {
        let name = line.trim_start_matches("pub const ").split(':').next().expect("a name");
        let is_tripped = ["trips(", "shows(", "shows_beside(", "shows_after("]
            .iter()
            .any(|call| tests.contains(&format!("{call}{name},")));
        assert!(is_tripped, "{name} has no test that trips it");
    }
}
