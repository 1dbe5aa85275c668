//! The kinds of containers, and what brings each back: where all is well, and where it is not.

use std::time::Duration;

use podwright::actors::kit::trace::Cause;
use podwright::logic::model::ids::FullName;
use podwright::logic::pods::pod_lifecycle::{Demand, Demanded};
use podwright::messages::pods::pod_manager::PodManagerMsg;
use podwright::sim::faults::parse_list;
use podwright::sim::{Options, SimPod, World, describe, run, simulate, simulate_with};

use crate::common::{seeds, side_by_side, times_of};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn phase(world: &World) -> String {
    let view = world.statuses().await.expect("an agent").remove(0);
    view.status.phase.clone().unwrap_or_default()
}

/// POD-21.
#[test]
fn a_sidecar_starts_in_its_turn_comes_back_and_ends_with_its_pod() {
    simulate(1, |world| async move {
        let pod = SimPod::new("job").sidecar("proxy", "exit 3 after 2s below 1").init("setup", "exit 0 after 1s");
        world.put(&pod.container("main", "exit 0 after 9s").restarts("Never"));
        world.start_agent();
        world.sleep(seconds(30)).await;
        world.settle().await;
        let began = |name: &str| times_of(&world, &format!("/{name} runs"))[0];
        assert!(began("proxy#0") < began("setup#0") && began("setup#0") < began("main#0"));
        assert!(
            times_of(&world, "/main#0 runs")[0] < times_of(&world, "/proxy#1 runs")[0],
            "it comes back beside the others"
        );
        assert!(times_of(&world, "/proxy#2 runs").is_empty(), "not after the end of the pod");
        assert_eq!((phase(&world).await.as_str(), world.running().len()), ("Succeeded", 0));
        world.finish().await;
    });
}

/// POD-21: between two starts of the sidecar the pod ends all the same.
#[test]
fn a_sidecar_in_its_back_off_holds_no_job() {
    simulate(1, |world| async move {
        let pod = SimPod::new("job").sidecar("proxy", "exit 1 after 1s").restarts("Never");
        world.put(&pod.container("main", "exit 0 after 8s"));
        world.start_agent();
        world.sleep(seconds(15)).await;
        assert_eq!(phase(&world).await, "Succeeded");
        world.settle().await;
        world.finish().await;
    });
}

/// POD-18.
#[test]
fn all_containers_start_over_in_the_same_sandbox() {
    simulate(1, |world| async move {
        let pod = SimPod::of("web", "run").sidecar("proxy", "run").init("setup", "exit 0 after 1s").restarts("Never");
        world.put(&pod.container("source", "exit 42 after 2s below 1").rule(42, "RestartAllContainers"));
        world.start_agent();
        world.sleep(seconds(20)).await;
        world.settle().await;
        for name in ["proxy", "setup", "main", "source"] {
            assert_eq!(times_of(&world, &format!("/{name}#1 runs")).len(), 1, "{name}");
            assert_eq!(times_of(&world, &format!("/{name}#2 runs")).len(), 0, "{name}");
        }
        assert!(times_of(&world, "/setup#1 runs")[0] < times_of(&world, "/main#1 runs")[0], "in their order");
        assert_eq!(phase(&world).await, "Running");
        world.finish().await;
    });
}

/// POD-18: also where a sidecar asks for it, while the regular container runs or the init container before it. Those are
/// stopped for it, which is no failure of theirs, however long their removal takes, with this agent or the next.
#[test]
fn all_containers_start_over_when_a_sidecar_asks_for_it() {
    for (source, is_killed) in [("5s", false), ("1s", false), ("5s", true), ("1s", true)] {
        simulate(1, move |world| async move {
            let pod = SimPod::of("web", "run").sidecar("source", &format!("exit 42 after {source} below 1"));
            let pod = pod.sidecar_rule(42, "RestartAllContainers").init("setup", "exit 0 after 3s").restarts("Never");
            world.put(&pod);
            world.start_agent();
            world.hang(Some("RemoveContainer"));
            world.sleep(seconds(10)).await;
            assert_eq!(world.running().len(), 0, "{source}: what ran was stopped");
            if is_killed {
                world.kill_agent();
                world.start_agent();
                world.sleep(seconds(10)).await;
            }
            world.hang(None);
            world.sleep(seconds(200)).await; // A call that hangs is given up after two minutes.
            world.settle().await;
            for name in ["source", "setup"] {
                assert_eq!(times_of(&world, &format!("/{name}#1 runs")).len(), 1, "{name}, {source}");
                assert_eq!(times_of(&world, &format!("/{name}#2 runs")).len(), 0, "{name}, {source}");
            }
            assert_eq!((phase(&world).await.as_str(), world.running().len()), ("Running", 2), "{source}");
            world.finish().await;
        });
    }
}

/// POD-25.
#[test]
fn a_pod_is_stopped_when_its_time_is_over_and_no_earlier() {
    simulate(1, |world| async move {
        world.put(&SimPod::of("web", "run").deadline(100));
        world.start_agent();
        world.sleep(seconds(95)).await;
        assert_eq!((phase(&world).await.as_str(), world.running().len()), ("Running", 1));
        world.sleep(seconds(10)).await;
        world.settle().await;
        assert_eq!((phase(&world).await.as_str(), world.running().len()), ("Failed", 0));
        world.finish().await;
    });
}

/// Under any faults the invariants hold, and each pod comes to what it should be.
#[test]
fn pods_of_all_kinds_survive_faults() {
    side_by_side(&seeds(6, 4), |seed| {
        let faults = parse_list("all").expect("a list of faults");
        let options = Options { faults, ..Options::default() };
        let run = run(*seed, options, |world| async move {
            let sidecar = || SimPod::new("beside").sidecar("proxy", "exit 3 after 5s").init("setup", "exit 0 after 1s");
            world.put(&sidecar().container("main", "run"));
            let job = SimPod::new("job").sidecar("proxy", "run").restarts("Never");
            world.put(&job.container("main", "exit 0 after 4s"));
            let over = SimPod::of("over", "run").sidecar("proxy", "run").restarts("Never");
            world.put(&over.container("source", "exit 42 after 3s below 1").rule(42, "RestartAllContainers"));
            let over = SimPod::of("again", "run").sidecar("source", "exit 42 after 3s below 1").restarts("Never");
            world.put(&over.sidecar_rule(42, "RestartAllContainers").init("setup", "exit 0 after 2s"));
            world.put(&SimPod::of("late", "run").deadline(20));
            world.start_agent();
            world.sleep(seconds(30)).await;
            world.put(&sidecar().container("main", "run").image("app:2"));
            world.sleep(seconds(20)).await;
            world.finish().await;
        });
        assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
    });
}

/// PAIN-34: an image that can be had by now is pulled at once when somebody on the node ends the back-off of its pulls.
#[test]
fn a_pull_waits_no_longer_when_somebody_says_so() {
    simulate(1, |world| async move {
        let unknown = |there: bool| {
            let mut images = world.node().images.lock().expect("no test panicked");
            images.unknown = there.then(|| "app:late".to_owned()).into_iter().collect();
        };
        unknown(true);
        world.put(&SimPod::of("web", "run").image("app:late"));
        world.start_agent();
        world.sleep(seconds(200)).await; // Waits of 10, 20, 40 and 80 s are over, that of 160 s has begun.
        unknown(false);
        world.sleep(seconds(20)).await;
        assert!(world.running().is_empty(), "the wait goes on");
        let demand = Demand { what: Demanded::ResetBackOff, container: None };
        let agent = world.agent().expect("an agent");
        let question = |reply| PodManagerMsg::Demanded { pod: FullName::new("web-node-1", "default"), demand, reply };
        let asked = agent.agent.directory.pod_manager.ask(Cause::outside("test"), seconds(1), question);
        assert_eq!(asked.await.expect("answered"), Some(Ok(vec!["main".to_owned()])));
        world.sleep(seconds(10)).await;
        assert_eq!(world.running().len(), 1, "{:?}", world.story());
        world.finish().await;
    });
}

/// POD-22: an ephemeral container is started once, has its own place in the status, and does not count for its pod; not
/// after another agent took over, either.
#[test]
fn an_ephemeral_container_runs_once_beside_the_others() {
    for does in ["exit 3 after 5s", "run"] {
        let options = Options { cluster: true, ..Options::default() };
        simulate_with(1, options, move |world| async move {
            world.create(&SimPod::of("web", "run")).expect("made");
            world.start_agent();
            world.settle().await;
            world.debug_pod("web", "debugger", does);
            world.sleep(seconds(30)).await;
            world.kill_agent();
            world.sleep(seconds(60)).await;
            assert_eq!(times_of(&world, "/debugger#0 runs").len(), 1, "{:?}", world.story());
            assert!(times_of(&world, "/debugger#1 runs").is_empty() && times_of(&world, "web/main#1 runs").is_empty());
            let pod = world.api_pod("web").expect("is there");
            let status = &pod["status"]["ephemeralContainerStatuses"][0];
            assert_eq!(status["name"], "debugger");
            match does {
                "run" => assert!(!status["state"]["running"].is_null(), "{status}"),
                _ => assert_eq!(status["state"]["terminated"]["exitCode"], 3, "{status}"),
            }
            assert_eq!(pod["status"]["phase"], "Running");
            world.finish_cluster().await;
            assert!(world.running().is_empty());
        });
    }
}
