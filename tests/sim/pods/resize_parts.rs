//! In-place resize (POD-26) of what is not a regular container: sidecars, init containers that run to their end, and pods as
//! a whole, whose limits their containers share.

use podwright::sim::{SimPod, World, simulate_with};
use serde_json::{Value, json};

use super::resize::{
    in_a_cluster, pod, reason, seconds, sized, wait_for_containers, with_crashes, with_kills, with_trouble,
};
use crate::common::started;

/// Shares of a thousand millis, quota of a hundred milliseconds a period.
const ONE_CPU: (i64, i64) = (1024, 100_000);

/// A pod with a sidecar, both of which may use so much.
fn with_sidecar(name: &str, cpu: &str, memory: &str) -> SimPod {
    let both = SimPod::new(name).sidecar("side", "run").container("main", "run");
    both.field_of("side", "resources", sized(cpu, memory)).field_of("main", "resources", sized(cpu, memory))
}

/// A pod whose two containers share so much.
fn shared(name: &str, cpu: &str, memory: &str) -> SimPod {
    SimPod::of(name, "run").container("second", "run").own_field("resources", sized(cpu, memory))
}

/// The status of a container, an init container or not.
fn status(world: &World, pod: &str, container: &str) -> Value {
    let object = world.api_pod(pod).expect("it is there");
    let lists = ["containerStatuses", "initContainerStatuses"];
    let mut all = lists.into_iter().flat_map(|list| object["status"][list].as_array().into_iter().flatten());
    all.find(|one| one["name"] == container).cloned().unwrap_or_default()
}

fn has_no_resize_condition(world: &World, pod: &str) -> bool {
    ["PodResizePending", "PodResizeInProgress"].iter().all(|kind| world.condition(pod, kind).is_none())
}

fn running(world: &World) -> Vec<String> {
    world.running().into_iter().collect()
}

/// POD-21, POD-26: a sidecar is resized as any other container, and the pod's cgroup with it.
#[test]
fn a_sidecar_gets_what_its_pod_asks_for() {
    simulate_with(1, in_a_cluster(), |world| async move {
        started(&world, &[with_sidecar("web", "200m", "64Mi")]).await;
        assert_eq!(world.in_force("web", "side"), Some((204, 20_000, 64 << 20)));
        world.resize_pod("web", "side", &sized("1", "256Mi"));
        world.sleep(seconds(10)).await;
        world.settle().await;
        assert_eq!(world.in_force("web", "side"), Some((ONE_CPU.0, ONE_CPU.1, 256 << 20)));
        assert_eq!(world.in_force("web", "main"), Some((204, 20_000, 64 << 20)), "the other stays");
        assert_eq!(world.pod_figures("web").and_then(|figures| figures.memory_limit), Some(320 << 20));
        assert_eq!(running(&world), ["web/main#0", "web/side#0"]);
        let told = status(&world, "web", "side");
        assert_eq!(told["resources"], sized("1", "256Mi"));
        assert_eq!(told["allocatedResources"], sized("1", "256Mi")["requests"]);
        assert!(has_no_resize_condition(&world, "web"));
        let reasons = world.event_reasons("web");
        for wanted in ["ResizeStarted", "ResizeCompleted"] {
            assert_eq!(reasons.iter().filter(|reason| *reason == wanted).count(), 1, "{wanted} in {reasons:?}");
        }
        world.finish_cluster().await;
    });
}

/// POD-21, POD-26: a sidecar whose policy says so is made anew, alone and once.
#[test]
fn a_sidecar_is_restarted_where_its_policy_says_so() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let policy = json!([{ "resourceName": "memory", "restartPolicy": "RestartContainer" }]);
        let web = with_sidecar("web", "200m", "64Mi").field_of("side", "resizePolicy", policy);
        started(&world, &[web]).await;
        world.resize_pod("web", "side", &sized("300m", "64Mi"));
        world.sleep(seconds(10)).await;
        assert_eq!(running(&world), ["web/main#0", "web/side#0"], "CPU needs no restart");
        world.resize_pod("web", "side", &sized("300m", "128Mi"));
        world.sleep(seconds(10)).await;
        world.settle().await;
        assert_eq!(world.in_force("web", "side"), Some((307, 30_000, 128 << 20)));
        assert_eq!(world.pod_figures("web").and_then(|figures| figures.memory_limit), Some(192 << 20));
        assert_eq!(running(&world), ["web/main#0", "web/side#1"]);
        assert_eq!(status(&world, "web", "side")["restartCount"], 1);
        assert!(has_no_resize_condition(&world, "web"));
        world.finish_cluster().await;
    });
}

/// POD-21, POD-26: a sidecar that has not started is resized once it has, and until then the pod says that it is not.
#[test]
fn a_sidecar_that_is_starting_is_resized_after() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let probe =
            json!({ "httpGet": { "path": "/ok-after/40", "port": 80 }, "periodSeconds": 1, "failureThreshold": 90 });
        world.create(&with_sidecar("web", "200m", "64Mi").field_of("side", "startupProbe", probe)).expect("made");
        world.start_agent();
        world.sleep(seconds(15)).await;
        assert_eq!(running(&world), ["web/side#0"]);
        world.resize_pod("web", "side", &sized("1", "128Mi"));
        world.sleep(seconds(10)).await;
        assert_eq!(world.in_force("web", "side"), Some((204, 20_000, 64 << 20)));
        assert!(world.condition("web", "PodResizeInProgress").is_some(), "it goes on");
        assert_eq!(world.condition("web", "PodResizePending"), None, "it was taken on");
        world.sleep(seconds(40)).await;
        world.settle().await;
        assert_eq!(world.in_force("web", "side"), Some((ONE_CPU.0, ONE_CPU.1, 128 << 20)));
        assert_eq!(running(&world), ["web/main#0", "web/side#0"]);
        assert!(has_no_resize_condition(&world, "web"));
        world.finish_cluster().await;
    });
}

/// POD-20, POD-26: an init container that runs to its end is resized while it runs.
#[test]
fn an_init_container_is_resized_while_it_runs() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let web = SimPod::new("web").init("setup", "exit 0 after 60s").container("main", "run");
        let web = web.field_of("setup", "resources", sized("200m", "64Mi"));
        world.create(&web.field_of("main", "resources", sized("100m", "32Mi"))).expect("made");
        world.start_agent();
        world.sleep(seconds(15)).await;
        assert_eq!(running(&world), ["web/setup#0"]);
        world.resize_pod("web", "setup", &sized("1", "128Mi"));
        world.sleep(seconds(10)).await;
        assert_eq!(world.in_force("web", "setup"), Some((ONE_CPU.0, ONE_CPU.1, 128 << 20)));
        assert_eq!(status(&world, "web", "setup")["resources"], sized("1", "128Mi"));
        assert!(has_no_resize_condition(&world, "web"));
        world.settle().await;
        assert_eq!(running(&world), ["web/main#0"]);
        world.finish_cluster().await;
    });
}

/// POD-26, RES-57: what a pod has as a whole, its cgroup and the containers without limits of their own have.
#[test]
fn a_whole_pod_gets_what_it_asks_for() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let own = shared("web", "500m", "128Mi").field_of("second", "resources", sized("100m", "32Mi"));
        started(&world, &[own]).await;
        let figures = |memory: i64, quota: i64| {
            let figures = world.pod_figures("web").expect("it has a cgroup");
            assert_eq!((figures.memory_limit, figures.cpu_quota), (Some(memory), Some(quota)));
        };
        let limits = |container: &str| world.in_force("web", container).map(|(_, quota, memory)| (quota, memory));
        figures(128 << 20, 50_000);
        assert_eq!(limits("main"), Some((50_000, 128 << 20)), "the pod's limits are its own");
        assert_eq!(limits("second"), Some((10_000, 32 << 20)));
        for (cpu, memory, quota, bytes) in [("1", "512Mi", 100_000, 512 << 20), ("200m", "64Mi", 20_000, 64 << 20)] {
            world.resize_whole_pod("web", &sized(cpu, memory));
            world.sleep(seconds(10)).await;
            world.settle().await;
            figures(bytes, quota);
            assert_eq!(limits("main"), Some((quota, bytes)));
            assert_eq!(limits("second"), Some((10_000, 32 << 20)), "it has limits of its own");
            let object = world.api_pod("web").expect("it is there");
            assert_eq!(object["status"]["resources"], sized(cpu, memory));
            assert_eq!(object["status"]["allocatedResources"], sized(cpu, memory)["requests"]);
            assert!(has_no_resize_condition(&world, "web"));
        }
        assert_eq!(running(&world), ["web/main#0", "web/second#0"]);
        let reasons = world.event_reasons("web");
        let count = |wanted: &str| reasons.iter().filter(|reason| *reason == wanted).count();
        assert_eq!((count("ResizeStarted"), count("ResizeCompleted")), (2, 2), "{reasons:?}");
        world.finish_cluster().await;
    });
}

/// RES-56: a whole pod waits for room as a container does.
#[test]
fn a_whole_pod_waits_for_room() {
    simulate_with(1, in_a_cluster(), |world| async move {
        started(&world, &[shared("web", "500m", "128Mi"), pod("large", "1200m", "128Mi")]).await;
        world.resize_whole_pod("web", &sized("1", "256Mi"));
        world.sleep(seconds(10)).await;
        world.settle().await;
        assert_eq!(reason(&world, "web", "PodResizePending").as_deref(), Some("Deferred"));
        assert_eq!(world.pod_figures("web").and_then(|figures| figures.memory_limit), Some(128 << 20));
        let told = world.api_pod("web").expect("it is there");
        assert_eq!(told["status"]["allocatedResources"], sized("500m", "128Mi")["requests"]);
        world.delete_pod("large", None);
        world.sleep(seconds(45)).await;
        world.settle().await;
        assert!(has_no_resize_condition(&world, "web"));
        assert_eq!(world.pod_figures("web").and_then(|figures| figures.memory_limit), Some(256 << 20));
        world.finish_cluster().await;
    });
}

/// RES-58: nor is memory taken from a pod that uses it; CPU that was asked for with it waits, too.
#[test]
fn memory_is_not_taken_from_a_whole_pod_that_uses_it() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let both = sized("100m", "80Mi");
        let web = shared("web", "500m", "256Mi").field_of("main", "resources", both.clone());
        started(&world, &[web.field_of("second", "resources", both)]).await;
        world.use_memory("web", 70 << 20);
        world.resize_whole_pod("web", &sized("300m", "128Mi"));
        world.sleep(seconds(20)).await;
        let told = world.condition("web", "PodResizeInProgress").expect("it goes on");
        assert_eq!(told["reason"], "Error");
        let message = "cannot decrease memory limits: attempting to set pod memory limit (134217728) below current usage \
                       (146800640)";
        assert_eq!(told["message"], message);
        let figures = world.pod_figures("web").expect("it has a cgroup");
        assert_eq!((figures.memory_limit, figures.cpu_quota), (Some(256 << 20), Some(50_000)));
        world.use_memory("web", 1 << 20);
        world.sleep(seconds(30)).await;
        world.settle().await;
        let figures = world.pod_figures("web").expect("it has a cgroup");
        assert_eq!((figures.memory_limit, figures.cpu_quota), (Some(128 << 20), Some(30_000)));
        assert!(has_no_resize_condition(&world, "web"));
        world.finish_cluster().await;
    });
}

/// A restart of the agent in the middle changes no container; what was asked for meanwhile comes about.
#[test]
fn a_restart_of_the_agent_is_not_to_be_seen() {
    simulate_with(1, in_a_cluster(), |world| async move {
        started(&world, &[shared("web", "500m", "128Mi"), with_sidecar("side", "200m", "64Mi")]).await;
        world.resize_whole_pod("web", &sized("600m", "256Mi"));
        world.sleep(seconds(10)).await;
        world.stop_agent();
        world.resize_whole_pod("web", &sized("700m", "192Mi"));
        world.resize_pod("side", "side", &sized("300m", "96Mi"));
        world.sleep(seconds(5)).await;
        world.start_agent();
        world.sleep(seconds(20)).await;
        world.settle().await;
        assert_eq!(world.pod_figures("web").and_then(|figures| figures.memory_limit), Some(192 << 20));
        assert_eq!(world.in_force("side", "side"), Some((307, 30_000, 96 << 20)));
        assert_eq!(running(&world), ["side/main#0", "side/side#0", "web/main#0", "web/second#0"]);
        assert!(has_no_resize_condition(&world, "web") && has_no_resize_condition(&world, "side"));
        world.finish_cluster().await;
    });
}

// ------------------------------------------------------------ trouble

/// A pod as a whole grows and shrinks, sidecars too, one of them by a restart, and the agent is restarted in between.
async fn story(world: World) {
    let policy = json!([{ "resourceName": "memory", "restartPolicy": "RestartContainer" }]);
    for pod in [
        shared("whole", "400m", "128Mi"),
        shared("mixed", "300m", "256Mi").field_of("second", "resources", sized("100m", "64Mi")).sidecar("side", "run"),
        with_sidecar("sides", "100m", "64Mi"),
        with_sidecar("anew", "100m", "64Mi").field_of("side", "resizePolicy", policy),
    ] {
        world.create(&pod).expect("made");
    }
    world.start_agent();
    world.sleep(seconds(15)).await;
    wait_for_containers(&world, 9).await;
    world.resize_whole_pod("whole", &sized("600m", "512Mi"));
    world.resize_pod("sides", "side", &sized("300m", "128Mi"));
    world.sleep(seconds(3)).await;
    world.resize_whole_pod("mixed", &sized("200m", "96Mi"));
    world.resize_pod("anew", "side", &sized("100m", "96Mi"));
    world.sleep(seconds(6)).await;
    world.kill_agent();
    world.resize_whole_pod("whole", &sized("500m", "64Mi"));
    world.resize_pod("sides", "side", &sized("50m", "32Mi"));
    world.sleep(seconds(10)).await;
    world.calm_down().await;
    world.finish_cluster().await;
}

/// POD-26.
#[test]
fn any_actor_may_fail_while_pods_and_sidecars_are_resized() {
    with_crashes("resize_parts.rs", |world| Box::pin(story(world)), 20);
}

/// POD-26.
#[test]
fn the_agent_may_be_killed_while_pods_and_sidecars_are_resized() {
    with_kills("resize_parts.rs", |world| Box::pin(story(world)), 20);
}

/// POD-26.
#[test]
fn pods_and_sidecars_are_resized_under_all_trouble() {
    with_trouble("resize_parts.rs", |world| Box::pin(story(world)));
}
