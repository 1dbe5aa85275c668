//! Probes and hooks of every kind: what they lead to, and that nothing gets lost when things go wrong in the middle.

use std::time::Duration;

use podwright::sim::{Options, SimPod, simulate, simulate_with};
use serde_json::{Value, json};

use crate::common::{seeds, side_by_side, times_of};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn probe(action: Value, more: Value) -> Value {
    let mut probe = json!({ "periodSeconds": 1, "failureThreshold": 2 });
    for (field, value) in [action, more].iter().flat_map(|part| part.as_object().expect("an object")) {
        probe[field] = value.clone();
    }
    probe
}

fn act(word: &str) -> Value {
    json!({ "exec": { "command": [word] } })
}

/// POD-23, POD-08: the hook first, then the stop, with what is left of the time.
#[test]
fn a_hook_runs_before_the_stop_and_takes_from_its_time() {
    for (hook, within, after) in [("/slow/5", 25, 5), ("/slow/60", 2, 30), ("/fails", 30, 0)] {
        simulate(1, move |world| async move {
            world.put(&SimPod::of("web", "run").hooks(&[("preStop", hook)]));
            world.start_agent();
            world.settle().await;
            world.delete("web");
            world.settle().await;
            let ran = times_of(&world, &format!("/main#0 runs {hook}"));
            let asked = times_of(&world, &format!("/main#0 is asked to stop within {within}s"));
            assert_eq!((ran.len(), asked.len()), (1, 1), "{hook}");
            assert_eq!((asked[0] - ran[0]).as_secs_f64().round() as u64, after, "{hook}");
        });
    }
}

/// POD-23: a hook that outlasts the grace period is not cut off: it ends with its container, which is killed two seconds
/// later.
#[test]
fn a_hook_that_outlasts_its_time_ends_with_its_container() {
    simulate(1, |world| async move {
        world.put(&SimPod::of("web", "run ignores stop").hooks(&[("preStop", "/slow/60")]).grace(30));
        world.start_agent();
        world.settle().await;
        world.delete("web");
        world.settle().await;
        let (ran, killed) = (times_of(&world, "/main#0 runs /slow/60"), times_of(&world, "/main#0 is killed"));
        assert_eq!((ran.len(), killed.len()), (1, 1));
        assert_eq!((killed[0] - ran[0]).as_secs_f64().round() as u64, 32);
        assert!(world.node().commands_left.lock().expect("whole").is_empty(), "nobody cut it off");
    });
}

/// POD-23, CRI-18: one container's hook holds up the next one's start, and a pod whose hook fails starts again.
#[test]
fn a_hook_belongs_to_the_start() {
    simulate(1, |world| async move {
        let alive = probe(act("/ok"), json!({}));
        let first = SimPod::of("web", "run").hooks(&[("postStart", "/slow/5")]).field("livenessProbe", alive);
        world.put(&first.container("second", "run"));
        world.put(&SimPod::of("bad", "run").hooks(&[("postStart", "/ok-after/1")]));
        world.start_agent();
        world.sleep(seconds(4)).await;
        assert!(times_of(&world, "/second#0 runs").is_empty(), "it waits for the hook");
        world.sleep(seconds(40)).await;
        let (hook, second) = (times_of(&world, "/main#0 runs /slow/5"), times_of(&world, "/second#0 runs"));
        assert_eq!((second[0] - hook[0]).as_secs(), 5);
        assert!(times_of(&world, "web-node-1/main#1 runs").is_empty(), "it is not taken for dead meanwhile");
        assert!(!times_of(&world, "bad-node-1/main#0 is asked to stop").is_empty(), "{:?}", world.story());
        assert!(!times_of(&world, "bad-node-1/main#1 runs").is_empty());
        world.delete_all();
        world.settle().await;
    });
}

/// POD-08: a second deletion with less time takes effect at once, also while a hook runs.
#[test]
fn less_time_counts_in_the_middle_of_a_hook() {
    let options = Options { cluster: true, ..Options::default() };
    simulate_with(1, options, |world| async move {
        let pod = SimPod::of("web", "run").grace(100).hooks(&[("preStop", "/slow/90")]);
        world.create(&pod).expect("made");
        world.start_agent();
        world.settle().await;
        world.delete_pod("web", None);
        world.sleep(seconds(20)).await;
        world.delete_pod("web", Some(5));
        world.settle().await;
        let (hooks, asked) =
            (times_of(&world, "/main#0 runs /slow/90"), times_of(&world, "/main#0 is asked to stop within 2s"));
        assert_eq!((hooks.len(), asked.len()), (2, 1), "the hook is begun again, with less time");
        assert_eq!((asked[0] - hooks[1]).as_secs_f64().round(), 5.0);
        world.finish_cluster().await;
    });
}

/// POD-08, PRB-17: a pod that is deleted while one of its containers is stopped lets that go on: its hook runs once, with
/// the time that it was given, and the other containers do not wait for it.
#[test]
fn a_stop_that_is_under_way_goes_on_when_the_pod_ends() {
    simulate(1, |world| async move {
        let dies = probe(act("/ok-until/5"), json!({}));
        let pod = SimPod::of("web", "run").hooks(&[("preStop", "/slow/20")]).field("livenessProbe", dies);
        world.put(&pod.container("second", "run"));
        world.start_agent();
        while times_of(&world, "/main#0 runs /slow/20").is_empty() {
            world.sleep(seconds(1)).await;
        }
        world.sleep(seconds(5)).await;
        world.delete("web");
        world.settle().await;
        let (hooks, main) =
            (times_of(&world, "/main#0 runs /slow/20"), times_of(&world, "/main#0 is asked to stop within 10s"));
        let second = times_of(&world, "/second#0 is asked to stop within 30s");
        assert_eq!((hooks.len(), main.len(), second.len()), (1, 1, 1), "{:?}", world.story());
        assert_eq!((main[0] - hooks[0]).as_secs(), 20);
        assert!((second[0] - hooks[0]).as_secs() < 10, "{hooks:?} {second:?}");
        assert!(world.running().is_empty());
        world.finish().await;
    });
}

/// An agent that is killed while a hook runs goes on where it can: the pod ends all the same.
#[test]
fn a_hook_that_was_cut_off_by_a_crash_is_run_again() {
    simulate(1, |world| async move {
        world.put(&SimPod::of("web", "run").hooks(&[("preStop", "/slow/20")]).grace(60));
        world.start_agent();
        world.settle().await;
        world.delete("web");
        world.sleep(seconds(8)).await;
        assert_eq!(times_of(&world, "/main#0 runs /slow/20").len(), 1);
        world.kill_agent();
        world.settle().await;
        assert!(world.running().is_empty());
        world.finish().await;
    });
}

/// PRB-17: every kind of action can say that a container does not live; it is started again, with back-off.
#[test]
fn a_container_that_does_not_live_is_started_again() {
    for (action, name) in [
        (act("/ok-until/5"), "exec"),
        (json!({ "grpc": { "port": 80, "service": "/ok-until/5" } }), "grpc"),
        (json!({ "httpGet": { "port": 80, "path": "/ok-until/5" } }), "http"),
    ] {
        simulate(1, move |world| async move {
            world.put(&SimPod::of(name, "run").field("livenessProbe", probe(action, json!({}))));
            world.put(
                &SimPod::of("open", "run")
                    .field("livenessProbe", probe(json!({ "tcpSocket": { "port": 80 } }), json!({}))),
            );
            world.start_agent();
            world.sleep(seconds(60)).await;
            let starts = |attempt: u32| times_of(&world, &format!("{name}-node-1/main#{attempt} runs"));
            let ends = times_of(&world, &format!("{name}-node-1/main#0 is asked to stop within 30s"));
            assert!(!starts(1).is_empty() && !ends.is_empty(), "{name}: {:?}", world.story());
            assert!(times_of(&world, "open-node-1/main#1 runs").is_empty());
            world.stop_faults();
            world.delete_all();
            world.settle().await;
        });
    }
}

/// PRB-10, PRB-18: until a container has started nothing else is asked; one that does not come up is ended within the
/// probe's own time.
#[test]
fn a_container_that_does_not_come_up_is_ended_within_the_probes_time() {
    simulate(1, |world| async move {
        let startup = probe(act("/fails"), json!({ "terminationGracePeriodSeconds": 4 }));
        let liveness = probe(act("/ok"), json!({}));
        world.put(&SimPod::of("web", "run").field("startupProbe", startup).field("livenessProbe", liveness));
        world.start_agent();
        world.sleep(seconds(30)).await;
        assert!(!times_of(&world, "/main#0 is asked to stop within 4s").is_empty());
        assert!(times_of(&world, "/main#0 runs /ok").is_empty(), "liveness is not asked before");
        assert!(!times_of(&world, "/main#1 runs").is_empty());
        world.delete_all();
        world.settle().await;
    });
}

/// PRB-11, SEC-47, SEC-48: a command that hangs is given its time, once in a round, and counts as a failure.
#[test]
fn commands_that_hang_do_not_pile_up() {
    simulate(1, |world| async move {
        let hangs = probe(act("/slow/100"), json!({ "timeoutSeconds": 7, "failureThreshold": 1000 }));
        world.put(&SimPod::of("web", "run").field("livenessProbe", hangs));
        world.start_agent();
        world.sleep(seconds(71)).await;
        let ran = times_of(&world, "/main#0 runs /slow/100");
        assert!((9..=11).contains(&ran.len()), "{}", ran.len());
        assert!(ran.windows(2).all(|pair| pair[1] - pair[0] >= seconds(7)));
        world.delete_all();
        world.settle().await;
    });
}

/// SEC-47, SEC-48, PAIN-29: pods with more commands that hang than there are places, and with all the time in the world,
/// leave a neighbour its probes.
#[test]
fn commands_that_hang_hold_up_no_other_pod() {
    for (hogs, at_least) in [(1, 58), (5, 48)] {
        simulate(1, move |world| async move {
            let hangs = probe(act("/slow/9999"), json!({ "timeoutSeconds": 3600 }));
            for hog in 0..hogs {
                let pod = SimPod::new(&format!("hog-{hog}"));
                let pod = (0..32).fold(pod, |pod, number| {
                    pod.container(&format!("c{number}"), "run").field("readinessProbe", hangs.clone())
                });
                world.put(&pod);
            }
            world.start_agent();
            world.sleep(seconds(120)).await;
            world.put(&SimPod::of("web", "run").field("readinessProbe", probe(act("/ok"), json!({}))));
            world.sleep(seconds(65)).await;
            assert!(times_of(&world, "hog-0-node-1/c").len() > 32, "its containers run");
            let (web, hog) = (times_of(&world, "web-node-1/main#0 runs /ok"), times_of(&world, " runs /slow/9999"));
            assert!(web.len() >= at_least, "{} rounds in a minute", web.len());
            assert_eq!(hog.len(), hogs * 8, "a pod has a share");
            world.delete_all();
            world.settle().await;
        });
    }
}

/// Pods with hooks and probes of all kinds, while all goes wrong that can.
#[test]
fn pods_with_hooks_and_probes_end_as_they_should_whatever_goes_wrong() {
    side_by_side(&seeds(30, 10), |seed| {
        let faults = podwright::sim::faults::parse_list("all").expect("a list");
        let command = format!("cargo test --features sim --test sim hooks (seed {seed})");
        let options = Options { faults, command, ..Options::default() };
        let run = podwright::sim::run(*seed, options, |world| async move {
            let hooks = [("postStart", "/slow/1"), ("preStop", "/slow/3")];
            let ready = probe(act("/ok-after/2"), json!({}));
            world.put(&SimPod::of("web", "run").grace(20).hooks(&hooks).field("readinessProbe", ready));
            world.put(&SimPod::of("short", "run").grace(3).hooks(&[("preStop", "/slow/9")]));
            let alive = probe(act("/ok"), json!({ "failureThreshold": 30 }));
            world.put(&SimPod::of("alive", "run").field("livenessProbe", alive.clone()).field("startupProbe", alive));
            world.start_agent();
            world.sleep(seconds(40)).await;
            world.delete("short");
            world.put(&SimPod::of("web", "run stops in 2s").grace(20).hooks(&hooks).image("app:2"));
            world.sleep(seconds(30)).await;
            world.finish().await;
        });
        assert!(run.violations.is_empty(), "{}", podwright::sim::describe(&run.violations, &run.story));
    });
}

/// PRB-21: while a pod ends its readiness is asked for and told on, and nobody asks whether it lives.
#[test]
fn a_pod_that_ends_is_asked_for_its_readiness_alone() {
    let options = Options { cluster: true, ..Options::default() };
    simulate_with(1, options, |world| async move {
        let (ready, alive) = (probe(act("/ok-until/30"), json!({})), probe(act("/ok"), json!({})));
        let pod = SimPod::of("web", "run").grace(60).hooks(&[("preStop", "/slow/50")]);
        world.create(&pod.field("readinessProbe", ready).field("livenessProbe", alive)).expect("made");
        world.start_agent();
        world.settle().await;
        let is_ready = || {
            let pod = world.api_pod("web").expect("is there");
            let conditions = pod["status"]["conditions"].as_array().expect("conditions").clone();
            conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        assert!(is_ready());
        world.delete_pod("web", None);
        world.sleep(seconds(3)).await;
        let asked = || world.story().iter().filter(|line| line.what.ends_with("/main#0 runs /ok")).count();
        let before = asked();
        assert!(before > 0 && is_ready());
        world.sleep(seconds(35)).await;
        assert!(!is_ready(), "the endpoint is taken away");
        assert_eq!(asked(), before, "nobody asks whether it lives");
        assert!(!times_of(&world, "/main#0 runs /ok-until/30").is_empty());
        world.finish_cluster().await;
        assert!(times_of(&world, "/main#1 runs").is_empty());
    });
}
