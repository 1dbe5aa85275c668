//! Restarts of the agent, of the runtime and of the machine.

use std::collections::BTreeSet;
use std::time::Duration;

use podwright::actors::kit::trace::Cause;
use podwright::messages::status::status_manager::{Patience, StatusManagerMsg};
use podwright::sim::{Options, SimPod, World, simulate, simulate_with};
use serde_json::{Value, json};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn starts(world: &World, pod: &str) -> usize {
    let story = world.story();
    story
        .iter()
        .filter(|line| line.who == "runtime" && line.what.starts_with(pod) && line.what.ends_with(" runs"))
        .count()
}

#[test]
fn a_killed_agent_adopts_what_runs() {
    for seed in 0..20 {
        simulate(seed, |world| async move {
            for number in 0..4 {
                world.put(&SimPod::of(&format!("web-{number}"), "run"));
            }
            world.start_agent();
            world.settle().await;
            let running = world.running();
            for _ in 0..3 {
                world.kill_agent();
                world.sleep(world.random().between(Duration::from_millis(100), seconds(9))).await;
            }
            world.settle().await;
            assert_eq!(world.running(), running);
            assert_eq!(starts(&world, "web-"), 4);
            world.finish().await;
        });
    }
}

#[test]
fn an_agent_killed_at_random_moments_starts_each_container_once() {
    for seed in 0..40 {
        simulate(seed, |world| async move {
            for number in 0..4 {
                world.put(
                    &SimPod::new(&format!("web-{number}")).init("setup", "exit 0 after 300ms").container("main", "run"),
                );
            }
            world.start_agent();
            for _ in 0..4 {
                world.sleep(world.random().between(Duration::ZERO, seconds(3))).await;
                world.kill_agent();
            }
            world.settle().await;
            let mains =
                world.story().into_iter().filter(|line| line.what.contains("/main#") && line.what.ends_with(" runs"));
            assert_eq!(mains.count(), 4);
            world.finish().await;
        });
    }
}

#[test]
fn the_back_off_goes_on_where_it_was() {
    simulate(1, |world| async move {
        world.put(&SimPod::of("crash", "exit 1 after 1s"));
        world.start_agent();
        // Waits of 0, 10 and 20 s are over, that of 40 s has begun.
        world.sleep(seconds(45)).await;
        let before = starts(&world, "crash");
        world.kill_agent();
        world.sleep(seconds(20)).await;
        assert_eq!(starts(&world, "crash"), before, "it began anew without a wait");
        world.sleep(seconds(30)).await;
        assert_eq!(starts(&world, "crash"), before + 1);
        world.finish().await;
    });
}

#[test]
fn the_runtime_may_be_restarted_while_pods_start() {
    for seed in 0..40 {
        simulate(seed, |world| async move {
            for number in 0..4 {
                world.put(
                    &SimPod::new(&format!("web-{number}")).init("setup", "exit 0 after 1s").container("main", "run"),
                );
            }
            world.start_agent();
            for _ in 0..3 {
                world.sleep(world.random().between(Duration::ZERO, seconds(2))).await;
                world.restart_runtime(world.random().between(Duration::from_millis(50), seconds(2)));
            }
            world.settle().await;
            assert_eq!(world.running().len(), 4);
            world.finish().await;
        });
    }
}

#[test]
fn a_pod_whose_sandbox_was_cut_off_is_no_older_than_it_is() {
    let cut_off: Vec<bool> = (0..20)
        .map(|seed| {
            simulate(seed, |world| async move {
                world.put(&SimPod::of("web", "run"));
                world.start_agent();
                world.sleep(Duration::from_millis(100)).await;
                world.restart_runtime(Duration::from_millis(50));
                world.sleep(seconds(1)).await;
                let cut_off = world.story().iter().any(|line| line.what.ends_with("was cut off"));
                world.kill_agent();
                world.start_agent();
                world.settle().await;
                let view = world.statuses().await.expect("the agent runs").remove(0);
                let start = view.status.start_time.as_ref().expect("has begun");
                assert!(start.0 >= "2030-01-01T00:00:00Z".parse().expect("is a time"), "began at {start:?}");
                world.finish().await;
                cut_off
            })
        })
        .collect();
    assert!(cut_off.contains(&true), "no sandbox was cut off");
}

#[test]
fn after_a_reset_of_the_machine_all_runs_again_in_new_sandboxes() {
    for seed in 0..10 {
        simulate(seed, |world| async move {
            world.put(&SimPod::of("web", "run"));
            world.put(&SimPod::of("job", "exit 0 after 1s").restarts("Never"));
            world.start_agent();
            world.settle().await;
            world.reset_machine();
            world.settle().await;
            assert_eq!(starts(&world, "web"), 2);
            assert_eq!(starts(&world, "job"), 1);
            world.finish().await;
        });
    }
}

/// The pod's condition Ready as the agent tells it; `None` while it tells nothing.
async fn ready(world: &World) -> Option<bool> {
    let view = world.statuses().await?.into_iter().next()?;
    Some(view.status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True"))
}

fn probe(word: &str, more: Value) -> Value {
    let mut probe = json!({ "exec": { "command": [word] } });
    for (field, value) in more.as_object().expect("an object") {
        probe[field] = value.clone();
    }
    probe
}

/// The words of the next agent on a ready pod: after the kill of one that is younger than the pod's readiness, and of one
/// that is older by far.
fn words_of_next_agents(seed: u64, options: Options) -> [Vec<bool>; 2] {
    let cluster = options.cluster;
    simulate_with(seed, options, move |world| async move {
        let slow = json!({ "periodSeconds": 30, "failureThreshold": 3 });
        let pod = SimPod::of("web", "run")
            .field("startupProbe", probe("/ok", json!({ "periodSeconds": 1 })))
            .field("readinessProbe", probe("/ok", slow));
        match cluster {
            true => drop(world.create(&pod).expect("made")),
            false => drop(world.put(&pod)),
        }
        world.start_agent();
        world.settle().await;
        let mut all = [vec![], vec![]];
        for (age, words) in [0, 60].into_iter().zip(&mut all) {
            world.sleep(seconds(age)).await;
            world.kill_agent();
            for _ in 0..4000 {
                world.sleep(Duration::from_millis(10)).await;
                words.extend(ready(&world).await);
            }
            assert!(words.len() > 1000, "{} words", words.len());
        }
        if cluster {
            world.finish_cluster().await
        } else {
            world.finish().await
        }
        all
    })
}

/// PAIN-16, PRB-23: what was ready and started is so in every word of the next agent, with and without an API server.
#[test]
fn a_ready_pod_is_ready_in_every_word_of_the_next_agent() {
    for (seed, cluster) in (0..6).flat_map(|seed| [(seed, false), (seed, true)]) {
        let words = words_of_next_agents(seed, Options { cluster, ..Options::default() });
        assert!(words.iter().flatten().all(|ready| *ready), "seed {seed}: it flickered");
    }
}

/// PRB-23: the gate `ChangeContainerStatusOnKubeletRestart`.
#[test]
fn a_ready_pod_is_unready_for_a_moment_where_a_restart_is_to_show() {
    let of = |(seed, cluster)| {
        let options = Options {
            cluster,
            settings: |settings| settings.pods.status_gates.restart_shows = true,
            ..Options::default()
        };
        words_of_next_agents(seed, options)
    };
    let all: Vec<_> = (0..3).flat_map(|seed| [(seed, false), (seed, true)]).flat_map(of).collect();
    assert!(all.iter().any(|words| words.contains(&false)), "nobody saw the restarts");
    assert!(all.iter().all(|words| words.last() == Some(&true)), "its probes succeed");
}

/// PAIN-16: whoever waits until a new agent knows its pods finds all of them then. It finds those of every source, also
/// where there are more of them than start at once.
#[test]
fn once_a_new_agent_knows_its_pods_it_knows_those_of_every_source() {
    for seed in 0..6 {
        simulate_with(seed, Options { cluster: true, ..Options::default() }, move |world| async move {
            world.put(&SimPod::of("fixed", "run"));
            let mut wanted: BTreeSet<String> = (0..25).map(|number| format!("web-{number}")).collect();
            for name in &wanted {
                world.create(&SimPod::of(name, "run")).expect("made");
            }
            wanted.insert("fixed-node-1".to_owned());
            world.start_agent();
            world.settle().await;
            let before = world.incarnations();
            world.kill_agent();
            while world.incarnations() == before {
                world.sleep(Duration::from_millis(10)).await;
            }
            let manager = world.agent().expect("an agent").agent.directory.status_manager.clone();
            let settled = |reply| StatusManagerMsg::Settled(Patience::UntilKnown, reply);
            manager.ask(Cause::outside("test"), seconds(60), settled).await.expect("it knows them in the end");
            let known = world.statuses().await.expect("an answer");
            let names: BTreeSet<_> = known.iter().filter_map(|view| view.pod.metadata.name.clone()).collect();
            assert_eq!(names, wanted, "seed {seed}");
            world.finish_cluster().await;
        });
    }
}

/// PAIN-16: an agent that is killed again and again counts failures on, and so sees what has failed.
#[test]
fn failures_are_counted_on_over_restarts() {
    simulate(3, |world| async move {
        let failing = json!({ "periodSeconds": 10, "failureThreshold": 5 });
        world.put(&SimPod::of("web", "run").field("readinessProbe", probe("/ok-until/40", failing)));
        world.start_agent();
        world.sleep(seconds(30)).await;
        assert_eq!(ready(&world).await, Some(true));
        for _ in 0..9 {
            world.sleep(seconds(16)).await;
            world.kill_agent();
        }
        world.sleep(seconds(9)).await;
        assert_eq!(ready(&world).await, Some(false), "no agent lived for five rounds");
        world.finish().await;
    });
}

/// POD-20, POD-34: a pod that is restarted on failure loses its sandbox, so that its init container runs again: the API
/// server lets nobody tell that, hears of all else at once, and refuses next to nothing. A pod that had ended well
/// stays so.
#[test]
fn an_init_container_that_runs_again_holds_up_no_status() {
    for seed in 0..4 {
        simulate_with(seed, Options { cluster: true, ..Options::default() }, |world| async move {
            let pod = SimPod::new("mixed").init("setup", "exit 0 after 20s").container("job", "exit 0 after 2s");
            world.create(&pod.container("main", "run").restarts("OnFailure")).expect("made");
            world.start_agent();
            world.settle().await;
            for reset in [false, true] {
                if reset {
                    world.reset_machine();
                } else {
                    world.kill_sandboxes("mixed");
                }
                world.sleep(seconds(15)).await;
                let object = world.api_pod("mixed").expect("it is there");
                // The pod itself is never ready: its job has ended.
                let ready = |object: &Value| {
                    let all = object["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
                    all.iter().any(|one| one["name"] == "main" && one["ready"] == true)
                };
                assert!(!ready(&object), "while it is set up anew: {:#}", object["status"]);
                assert_eq!(world.running().into_iter().filter(|one| one.contains("/setup#")).count(), 1);
                world.settle().await;
                let object = world.api_pod("mixed").expect("it is there");
                assert!(ready(&object), "{:#}", object["status"]);
                let job = &object["status"]["containerStatuses"][0];
                assert_eq!((&job["name"], &job["state"]["terminated"]["exitCode"]), (&json!("job"), &json!(0)));
            }
            let refused = world.story().iter().filter(|line| line.who == "api" && line.what.ends_with(": 422")).count();
            assert_eq!(refused, 0);
            world.finish_cluster().await;
        });
    }
}
