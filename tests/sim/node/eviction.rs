//! A node that runs short: who ends, in which order, how soon, and what the node says of it.

use std::time::Duration;

use podwright::actors::settings::Settings;
use podwright::logic::eviction::signal::Signal;
use podwright::logic::eviction::threshold::Threshold;
use podwright::sim::node::NODE_NAME;
use podwright::sim::{SimPod, World, simulate_with};
use serde_json::json;

use super::short::{A_ROUND, GIB, condition, evictions, hard, in_a_cluster, is_evicted, seconds, status, watched};
use crate::common::started;

/// Memory may run short for ten seconds, with four seconds for the pod's end.
fn patient(settings: &mut Settings) {
    watched(settings);
    for threshold in &mut settings.resources.eviction.thresholds {
        threshold.grace = seconds(10);
    }
    settings.resources.eviction.soft_grace_max = seconds(4);
}

/// Less than 1 GiB of memory may be left for ten seconds; then a pod has 50 s to end. Less than half of it may not be left.
fn lenient(settings: &mut Settings) {
    watched(settings);
    let eviction = &mut settings.resources.eviction;
    eviction.thresholds.retain(|threshold| threshold.signal != Signal::MemoryAvailable);
    let soft = Threshold { grace: seconds(10), ..hard(Signal::MemoryAvailable, "1Gi") };
    eviction.thresholds.extend([soft, hard(Signal::MemoryAvailable, "512Mi")]);
    eviction.soft_grace_max = seconds(50);
}

/// EVI-11, EVI-12, EVI-13, EVI-15, EVI-17, EVI-22, EVI-23, EVI-24, EVI-25, EVI-50.
#[test]
fn evi_17_the_greediest_pod_ends_and_others_stay() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        let critical = SimPod::of("critical", "run").own_field("priority", json!(2_000_000_000));
        started(&world, &[SimPod::of("greedy", "run"), SimPod::of("modest", "run"), critical]).await;
        world.use_memory("critical", 4 * GIB);
        world.use_memory("greedy", 2 * GIB);
        world.use_memory("modest", GIB / 2);
        world.sleep(seconds(120)).await;
        assert_eq!(
            (world.running().len(), condition(&world, "MemoryPressure").as_str()),
            (3, "False"),
            "there is enough"
        );
        world.use_memory("greedy", 3 * GIB);
        world.sleep(A_ROUND).await;
        assert!(is_evicted(&world, "greedy"), "{}", status(&world, "greedy"));
        assert!(!is_evicted(&world, "modest") && !is_evicted(&world, "critical"), "one was enough");
        let told = status(&world, "greedy");
        let message = told["message"].as_str().expect("it says why");
        assert!(
            message.starts_with("The node was low on resource: memory. Threshold quantity: 1Gi, available: "),
            "{message}"
        );
        let disruption =
            told["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == "DisruptionTarget");
        assert_eq!(disruption.map(|one| &one["reason"]), Some(&json!("TerminationByKubelet")));
        assert_eq!(evictions(&world, "greedy"), 1);
        assert!(world.event_reasons(NODE_NAME).contains(&"EvictionThresholdMet".to_owned()));
        world.sleep(seconds(5)).await;
        assert_eq!(condition(&world, "MemoryPressure"), "True", "within the transition period");
        world.sleep(seconds(60)).await;
        assert_eq!(condition(&world, "MemoryPressure"), "False");
        world.create(&SimPod::of("later", "run")).expect("made");
        world.settle().await;
        assert!(world.running().iter().any(|name| name.contains("later")), "{:?}", world.running());
        world.delete_pod("greedy", None);
        world.finish_cluster().await;
    });
}

/// EVI-32, EVI-22: the pod that asks for nothing is refused, the one that asks for memory is not.
#[test]
fn evi_32_new_pods_are_judged_by_the_pressure() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        let critical = SimPod::of("critical", "run").own_field("priority", json!(2_000_000_000));
        started(&world, &[critical]).await;
        world.use_memory("critical", 15 * GIB / 2);
        world.sleep(A_ROUND).await;
        assert_eq!(condition(&world, "MemoryPressure"), "True");
        assert!(!is_evicted(&world, "critical"), "EVI-22");
        world.create(&SimPod::of("best-effort", "run")).expect("made");
        world.sleep(seconds(3)).await;
        assert!(is_evicted(&world, "best-effort"), "{}", status(&world, "best-effort"));
        let message = "Pod was rejected: The node had condition: [MemoryPressure]. ";
        assert_eq!(status(&world, "best-effort")["message"], message);
        world.use_memory("critical", GIB);
        world.sleep(seconds(60)).await;
        world.create(&SimPod::of("later", "run")).expect("made");
        world.settle().await;
        assert!(world.running().iter().any(|name| name.contains("later")), "{:?}", world.running());
        world.delete_pod("best-effort", None);
        world.finish_cluster().await;
    });
}

/// EVI-20, EVI-21: a soft threshold waits for its grace period, and gives the pod time to end.
#[test]
fn evi_21_a_soft_threshold_waits_and_gives_time_to_end() {
    simulate_with(1, in_a_cluster(patient), |world| async move {
        started(&world, &[SimPod::of("greedy", "run").grace(30)]).await;
        world.use_memory("greedy", 15 * GIB / 2);
        let since = world.node().time.elapsed();
        while !is_evicted(&world, "greedy") {
            world.sleep(Duration::from_millis(100)).await;
            assert!(world.node().time.elapsed() < since + seconds(60), "it is never evicted");
        }
        let took = world.node().time.elapsed().saturating_sub(since);
        assert!(took >= seconds(10), "before the grace period of the threshold is over: {took:?}");
        world.delete_pod("greedy", None);
        world.finish_cluster().await;
    });
}

/// EVI-30, EVI-09: what the node can give up goes before any pod.
#[test]
fn evi_30_a_full_disk_takes_unused_images_before_pods() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        started(&world, &[SimPod::of("web", "run")]).await;
        world.fill_images(true);
        world.sleep(A_ROUND).await;
        assert!(world.event_reasons(NODE_NAME).contains(&"EvictionThresholdMet".to_owned()));
        assert_eq!(condition(&world, "DiskPressure"), "True");
        assert!(is_evicted(&world, "web"), "the disk stays full of other things: {}", status(&world, "web"));
        world.fill_images(false);
        world.sleep(seconds(60)).await;
        assert_eq!(condition(&world, "DiskPressure"), "False");
        world.delete_pod("web", None);
        world.finish_cluster().await;
    });
}

/// EVI-48: without the API server the node still keeps itself alive, and tells when it can.
#[test]
fn evi_48_pods_are_evicted_while_the_api_server_is_gone() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        started(&world, &[SimPod::of("greedy", "run")]).await;
        world.link().go_away(world.node(), seconds(120));
        world.use_memory("greedy", 15 * GIB / 2);
        world.sleep(A_ROUND).await;
        assert_eq!(world.running().len(), 0, "nothing runs that takes all memory");
        world.sleep(seconds(150)).await;
        assert!(is_evicted(&world, "greedy"), "{}", status(&world, "greedy"));
        assert_eq!(evictions(&world, "greedy"), 1);
        world.delete_pod("greedy", None);
        world.finish_cluster().await;
    });
}

/// EVI-47: a pod that was evicted stays so after a restart of the agent.
#[test]
fn evi_47_an_evicted_pod_is_not_run_again() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        started(&world, &[SimPod::of("greedy", "run")]).await;
        world.use_memory("greedy", 15 * GIB / 2);
        world.sleep(A_ROUND).await;
        assert!(is_evicted(&world, "greedy"));
        world.stop_agent();
        world.start_agent();
        world.sleep(seconds(120)).await;
        assert!(is_evicted(&world, "greedy") && world.running().is_empty());
        world.delete_pod("greedy", None);
        world.finish_cluster().await;
    });
}

/// EVI-34, PAIN-27: the look that is due is seconds away, and the kernel's alarm does not wait for it.
#[test]
fn evi_34_pain_27_memory_that_runs_short_is_seen_at_once() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        started(&world, &[SimPod::of("greedy", "run"), SimPod::of("modest", "run")]).await;
        for wait in [1, 4, 7] {
            world.sleep(seconds(60 + wait)).await;
            world.use_memory("greedy", 6 * GIB);
            world.sleep(seconds(1)).await;
            assert_eq!(world.running().len(), 2, "there is enough");
        }
        world.use_memory("greedy", 15 * GIB / 2);
        world.sleep(seconds(1)).await;
        assert_eq!(world.running().len(), 1, "it is stopped within a second: {:?}", world.running());
        world.sleep(seconds(60)).await;
        assert!(is_evicted(&world, "greedy") && !is_evicted(&world, "modest"));
        world.delete_pod("greedy", None);
        world.finish_cluster().await;
    });
}

/// EVI-15, EVI-16: one pod goes a round, and the next round waits until that pod is over.
#[test]
fn evi_16_the_next_round_waits_for_the_end_of_the_last_pod() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        started(&world, &[SimPod::of("stubborn", "run ignores stop"), SimPod::of("second", "run")]).await;
        world.use_memory("stubborn", 5 * GIB);
        world.use_memory("second", 3 * GIB);
        // The kill comes after the grace period, which the runtime has as two seconds.
        world.sleep(Duration::from_millis(1500)).await;
        assert_eq!(world.running().len(), 2, "the first one still ends");
        world.sleep(A_ROUND).await;
        assert!(is_evicted(&world, "stubborn"), "{}", status(&world, "stubborn"));
        assert!(!is_evicted(&world, "second"), "the end of the first one was enough");
        world.delete_pod("stubborn", None);
        world.finish_cluster().await;
    });
}

/// EVI-15, EVI-20: as upstream, a pod that ends already is ranked among the others, and loses the rest of its time.
#[test]
fn evi_20_a_deleted_pod_that_grows_is_cut_short_and_nobody_goes_for_it() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        let slow = SimPod::of("slow", "run ignores stop").grace(3600);
        started(&world, &[slow, SimPod::of("modest", "run")]).await;
        world.use_memory("modest", GIB);
        world.delete_pod("slow", None);
        world.sleep(seconds(30)).await;
        assert_eq!(world.running().len(), 2, "it has an hour");
        world.use_memory("slow", 13 * GIB / 2);
        world.sleep(A_ROUND).await;
        assert!(!is_evicted(&world, "modest") && world.running().len() == 1, "{:?}", world.running());
        assert_eq!((world.api_pod("slow"), evictions(&world, "slow")), (None, 1));
        world.finish_cluster().await;
    });
}

/// EVI-16, EVI-21: the pod may use all of its time, and nobody else goes meanwhile.
#[test]
fn evi_16_a_soft_eviction_waits_for_the_pod_that_uses_its_grace() {
    simulate_with(1, in_a_cluster(lenient), |world| async move {
        let names = ["first", "second", "third"];
        started(&world, &names.map(|name| SimPod::of(name, "run ignores stop").grace(300))).await;
        names.iter().for_each(|name| world.use_memory(name, 12 * GIB / 5));
        let all = |world: &World| names.iter().map(|name| evictions(world, name)).sum::<usize>();
        world.sleep(seconds(50)).await;
        assert_eq!((all(&world), world.running().len()), (1, 3), "one pod ends");
        world.sleep(seconds(40)).await;
        assert_eq!((all(&world), world.running().len()), (1, 2), "its end was enough");
        for name in names.iter().filter(|name| is_evicted(&world, name)) {
            world.delete_pod(name, None);
        }
        world.finish_cluster().await;
    });
}

/// EVI-16, EVI-20: a hard threshold does not wait for a pod that a soft one gave time to end.
#[test]
fn evi_16_a_hard_threshold_cuts_the_time_of_a_soft_eviction() {
    simulate_with(1, in_a_cluster(lenient), |world| async move {
        started(&world, &[SimPod::of("greedy", "run ignores stop").grace(300), SimPod::of("modest", "run")]).await;
        world.use_memory("modest", GIB);
        world.use_memory("greedy", 31 * GIB / 5);
        world.sleep(seconds(20)).await;
        assert_eq!((evictions(&world, "greedy"), world.running().len()), (1, 2), "it has 50 s");
        world.use_memory("greedy", 34 * GIB / 5);
        world.sleep(A_ROUND).await;
        assert!(is_evicted(&world, "greedy"), "{}", status(&world, "greedy"));
        assert_eq!((evictions(&world, "greedy"), is_evicted(&world, "modest")), (1, false));
        world.delete_pod("greedy", None);
        world.finish_cluster().await;
    });
}
