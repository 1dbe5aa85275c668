//! Limits of local storage, file systems apart from each other, and admission while a disk is short.

use podwright::actors::settings::Settings;
use podwright::logic::eviction::layout::DiskLayout;
use podwright::logic::eviction::signal::Signal;
use podwright::sim::node::appetites::Beside;
use podwright::sim::{Options, SimPod, World, simulate_with};
use serde_json::{Value, json};

use super::short::{A_ROUND, GIB, condition, evictions, hard, in_a_cluster, is_evicted, seconds, status, watched};
use crate::common::started;

fn limit(amount: &str) -> Value {
    json!({ "limits": { "ephemeral-storage": amount } })
}

fn message(world: &World, pod: &str) -> String {
    status(world, pod)["message"].as_str().unwrap_or_default().to_owned()
}

fn disrupted(world: &World, pod: &str) -> bool {
    let status = status(world, pod);
    status["conditions"].as_array().into_iter().flatten().any(|one| one["type"] == "DisruptionTarget")
}

/// EVI-24, EVI-27: a container without a limit counts, too.
#[test]
fn evi_27_a_pod_that_writes_more_than_its_containers_may_together_is_evicted() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        let pod = |name: &str, rate: u64| {
            let free = SimPod::new(name).container("free", &format!("run fills {rate}"));
            free.container("main", "run fills 1000").field_of("main", "resources", limit("10Mi"))
        };
        started(&world, &[pod("greedy", 1 << 20), pod("modest", 1000)]).await;
        world.sleep(seconds(60)).await;
        assert!(is_evicted(&world, "greedy"), "{}", status(&world, "greedy"));
        let told = "Pod ephemeral local storage usage exceeds the total limit of containers 10Mi. ";
        assert_eq!(message(&world, "greedy"), told);
        assert!(!disrupted(&world, "greedy"), "it is the pod's own fault");
        assert_eq!(world.evictions_counted(), ["ephemeralpodfs.limit"]);
        assert!(!is_evicted(&world, "modest"));
        world.delete_pod("greedy", None);
        world.finish_cluster().await;
    });
}

/// EVI-28.
#[test]
fn evi_28_a_container_that_writes_more_than_it_may_takes_its_pod_along() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        let roomy = SimPod::new("greedy").container("roomy", "run").field_of("roomy", "resources", limit("1Gi"));
        let greedy = roomy.container("main", "run fills 524288").field_of("main", "resources", limit("10Mi"));
        let logs = SimPod::of("chatty", "run writes 524288").field("resources", limit("5Mi"));
        started(&world, &[greedy, logs]).await;
        world.sleep(seconds(90)).await;
        let told = "Container main exceeded its local ephemeral storage limit \"10Mi\". ";
        assert_eq!(message(&world, "greedy"), told);
        let told = "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. ";
        assert_eq!(message(&world, "chatty"), told, "logs count");
        let mut counted = world.evictions_counted();
        counted.sort_unstable();
        assert_eq!(counted, ["ephemeralcontainerfs.limit", "ephemeralpodfs.limit"]);
        for pod in ["greedy", "chatty"] {
            assert!(!disrupted(&world, pod) && is_evicted(&world, pod), "{}", status(&world, pod));
            world.delete_pod(pod, None);
        }
        world.finish_cluster().await;
    });
}

/// EVI-20, EVI-27: a pod that ends already and has an hour for it is held to its limits, too.
#[test]
fn evi_27_a_deleted_pod_beyond_its_limit_is_cut_short() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        let pod = SimPod::of("greedy", "run ignores stop fills 200000").field("resources", limit("10Mi")).grace(3600);
        started(&world, &[pod]).await;
        world.delete_pod("greedy", None);
        world.sleep(seconds(30)).await;
        assert_eq!(world.running().len(), 1, "it has an hour, and is within its limit");
        world.sleep(seconds(90)).await;
        assert_eq!((world.running().len(), world.api_pod("greedy")), (0, None));
        assert_eq!(world.evictions_counted(), ["ephemeralpodfs.limit"]);
        world.finish_cluster().await;
    });
}

/// EVI-29.
#[test]
fn evi_29_limits_are_not_enforced_where_that_is_turned_off() {
    let off = |settings: &mut Settings| {
        watched(settings);
        settings.resources.eviction.local_storage = false;
    };
    simulate_with(1, in_a_cluster(off), |world| async move {
        started(&world, &[SimPod::of("greedy", "run fills 1048576").field("resources", limit("1Mi"))]).await;
        world.sleep(seconds(120)).await;
        assert_eq!((world.running().len(), world.evictions_counted()), (1, vec![]));
        world.finish_cluster().await;
    });
}

/// EVI-25, EVI-35: two evictions of one look, of which the mailbox has room for one: the other is ordered again soon, and each
/// is counted once.
#[test]
fn an_eviction_that_meets_a_full_mailbox_is_told_again_soon() {
    let narrow = Options { mailbox: Some(("PodManager".to_owned(), 1)), ..in_a_cluster(watched) };
    simulate_with(1, narrow, |world| async move {
        let pod = |name: &str| SimPod::of(name, "run fills 524288").field("resources", limit("10Mi"));
        started(&world, &[pod("first"), pod("second"), pod("third")]).await;
        let since = world.node().time.elapsed();
        let gone = |world: &World| ["first", "second", "third"].iter().filter(|pod| is_evicted(world, pod)).count();
        while gone(&world) == 0 {
            world.sleep(seconds(1)).await;
            assert!(world.node().time.elapsed() < since + seconds(120), "nothing is evicted");
        }
        world.sleep(seconds(5)).await;
        assert_eq!(gone(&world), 3, "none waits for the next look");
        for pod in ["first", "second", "third"] {
            assert_eq!(evictions(&world, pod), 1);
            world.delete_pod(pod, None);
        }
        world.sleep(seconds(60)).await;
        assert_eq!(world.evictions_counted().len(), 3, "{:?}", world.evictions_counted());
        world.finish_cluster().await;
    });
}

/// EVI-09, EVI-39: the runtime tells where its images are only after the agent has looked at the node. From then on the
/// disk of images counts by itself, and layers alone are measured on it.
#[test]
fn evi_39_the_layout_is_found_when_the_runtime_answers_at_last() {
    let unrotated = |settings: &mut Settings| {
        watched(settings);
        settings.logs.rotation = None;
    };
    simulate_with(1, in_a_cluster(unrotated), |world| async move {
        world.lay_out(DiskLayout::ImagesApart);
        world.put_beside(Beside { image_bytes: 40 * GIB, ..Beside::default() });
        world.hang(Some("ImageFsInfo"));
        started(&world, &[SimPod::of("modest", "run")]).await;
        world.sleep(seconds(30)).await;
        world.hang(None);
        world.sleep(seconds(120)).await;
        world.create(&SimPod::of("writer", &format!("run writes {}", 600 << 20))).expect("made");
        world.create(&SimPod::of("filler", &format!("run fills {}", 200 << 20))).expect("made");
        world.sleep(seconds(75)).await;
        assert!(is_evicted(&world, "filler"), "{}", status(&world, "filler"));
        assert!(!is_evicted(&world, "writer"), "its logs are on the other disk");
        world.delete_pod("filler", None);
        world.delete_pod("writer", None);
        world.sleep(seconds(120)).await;
        assert!(!is_evicted(&world, "modest"));
        world.finish_cluster().await;
    });
}

/// EVI-39: where layers are with the agent's directory, a full disk of images is relieved by unused images alone.
#[test]
fn evi_39_split_disks_are_relieved_each_by_what_is_on_it() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        world.lay_out(DiskLayout::Split);
        started(&world, &[SimPod::of("modest", "run")]).await;
        world.create(&SimPod::of("filler", &format!("run fills {}", 1 << 30))).expect("made");
        world.sleep(seconds(90)).await;
        assert!(is_evicted(&world, "filler"), "{}", status(&world, "filler"));
        assert_eq!(world.evictions_counted(), ["nodefs.available"], "its copy for containerfs is met, too");
        assert!(!is_evicted(&world, "modest"));
        world.delete_pod("filler", None);
        world.finish_cluster().await;
    });
}

/// EVI-39: with the gate `KubeletSeparateDiskGC` off upstream evicts nobody from then on. Here memory is watched as ever.
#[test]
fn evi_39_a_split_that_the_gate_refuses_ends_no_eviction() {
    let refusing = |settings: &mut Settings| {
        watched(settings);
        settings.resources.eviction.refuses_split = true;
    };
    simulate_with(1, in_a_cluster(refusing), |world| async move {
        world.lay_out(DiskLayout::Split);
        started(&world, &[SimPod::of("modest", "run")]).await;
        world.create(&SimPod::of("leaker", &format!("run leaks {}", 256 << 20))).expect("made");
        world.sleep(seconds(60)).await;
        assert!(is_evicted(&world, "leaker"), "{}", status(&world, "leaker"));
        assert_eq!(world.evictions_counted(), ["memory.available"]);
        assert!(!is_evicted(&world, "modest"));
        world.delete_pod("leaker", None);
        world.sleep(seconds(60)).await;
        world.finish_cluster().await;
    });
}

/// EVI-38: 99 % of `containerfs` is never left, and is not what counts.
#[test]
fn evi_38_a_threshold_of_containerfs_is_ignored() {
    let strict = |settings: &mut Settings| {
        watched(settings);
        settings.resources.eviction.thresholds.push(hard(Signal::ContainerFsAvailable, "99%"));
    };
    simulate_with(1, in_a_cluster(strict), |world| async move {
        started(&world, &[SimPod::of("web", "run")]).await;
        world.sleep(seconds(60)).await;
        assert_eq!((world.running().len(), condition(&world, "DiskPressure").as_str()), (1, "False"));
        world.finish_cluster().await;
    });
}

/// EVI-33, EVI-46: while a disk is short critical and static pods run, and others are refused whatever they ask for.
#[test]
fn evi_33_a_full_disk_keeps_all_but_critical_pods_away() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        started(&world, &[]).await;
        world.put_beside(Beside { bytes: 55 * GIB, ..Beside::default() });
        world.sleep(A_ROUND).await;
        assert_eq!(condition(&world, "DiskPressure"), "True");
        let asks =
            json!({ "requests": { "cpu": "100m", "memory": "64Mi" }, "limits": { "cpu": "100m", "memory": "64Mi" } });
        world.create(&SimPod::of("asking", "run").field("resources", asks)).expect("made");
        world.create(&SimPod::of("best-effort", "run")).expect("made");
        world.create(&SimPod::of("critical", "run").own_field("priority", json!(2_000_000_000))).expect("made");
        world.put(&SimPod::of("static", "run"));
        world.sleep(seconds(40)).await;
        for pod in ["asking", "best-effort"] {
            assert!(is_evicted(&world, pod), "{}", status(&world, pod));
            assert_eq!(message(&world, pod), "Pod was rejected: The node had condition: [DiskPressure]. ");
            world.delete_pod(pod, None);
        }
        let running = world.running();
        assert!(running.iter().any(|name| name.contains("critical")), "{running:?}");
        assert!(running.iter().any(|name| name.contains("static")), "{running:?}");
        world.put_beside(Beside::default());
        world.sleep(seconds(60)).await;
        world.create(&SimPod::of("later", "run")).expect("made");
        world.finish_cluster().await;
    });
}
