//! Pods' lives on a node where all is well, or one thing is wrong.

use std::time::Duration;

use podwright::actors::kit::trace::Cause;
use podwright::logic::model::runtime_health::RuntimeHealth;
use podwright::messages::pods::pod_manager::PodManagerMsg;
use podwright::sim::invariants::WANTED_RUNS;
use podwright::sim::{Options, SimPod, World, run, simulate, simulate_with};

use crate::common::times_of;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_wanted_pod_runs_and_a_deleted_pod_leaves_nothing() {
    simulate(1, |world| async move {
        world.put(&SimPod::of("web", "run"));
        world.start_agent();
        let took = world.settle().await;
        assert!(took < seconds(30), "{took:?} {:?}", world.violations());
        assert_eq!(world.running().len(), 1);
        world.finish().await;
        assert!(world.running().is_empty());
    });
}

/// The runtime tells of four things that were made or started, all the agent's own doing: no look at the pod is under way
/// while it starts, and one serves all. A container that ends is looked at at once.
#[test]
fn a_pod_is_looked_at_once_it_has_started_and_as_soon_as_something_ends() {
    simulate(1, |world| async move {
        world.start_agent();
        world.settle().await;
        let agent = world.agent().expect("it runs");
        let looks = || {
            let trace = &agent.agent.trace;
            let looks = trace.turns(|turn| &*turn.actor == "Pleg" && turn.message == "Inspected");
            looks.into_iter().map(|turn| turn.began).collect::<Vec<_>>()
        };
        world.put(&SimPod::of("web", "exit 1 after 3s"));
        let before = looks().len();
        while world.running().is_empty() {
            world.sleep(Duration::from_millis(1)).await;
        }
        let known_at_its_start = looks().len() - before;
        assert!(known_at_its_start <= 1, "{known_at_its_start} looks at a pod that starts");
        world.sleep(seconds(2)).await;
        let at_its_end = looks().len();
        assert!(at_its_end - before <= 3, "{:?}", looks());
        while !world.running().is_empty() {
            world.sleep(Duration::from_millis(1)).await;
        }
        world.sleep(Duration::from_millis(100)).await;
        let is_looking = agent.agent.trace.open_operations().contains(&"inspect pod");
        assert!(is_looking || looks().len() > at_its_end, "nobody looks at what ended");
        world.finish().await;
    });
}

#[test]
fn init_containers_come_one_after_another_before_all_others() {
    simulate(1, |world| async move {
        let pod = SimPod::new("web").init("first", "exit 0 after 2s").init("second", "exit 0 after 2s");
        world.put(&pod.container("main", "run"));
        world.start_agent();
        world.settle().await;
        let began = |name: &str| times_of(&world, &format!("/{name}#0 runs"))[0];
        let ended = |name: &str| times_of(&world, &format!("/{name}#0 ends by itself"))[0];
        assert!(ended("first") < began("second") && ended("second") < began("main"));
        world.finish().await;
    });
}

#[test]
fn a_crash_loop_waits_ten_seconds_then_twenty() {
    simulate(1, |world| async move {
        world.put(&SimPod::of("crash", "exit 1 after 1s"));
        world.start_agent();
        world.sleep(seconds(60)).await;
        let (starts, ends) = (times_of(&world, "/main#"), times_of(&world, "ends by itself"));
        assert!(!starts.is_empty());
        let began = |attempt: usize| times_of(&world, &format!("/main#{attempt} runs"))[0];
        let gap = |attempt: usize| (began(attempt + 1) - ends[attempt]).as_secs();
        assert_eq!((gap(0), gap(1), gap(2)), (0, 10, 20));
        world.finish().await;
    });
}

#[test]
fn a_container_that_ignores_the_stop_is_killed_when_its_time_is_over() {
    simulate(1, |world| async move {
        world.put(&SimPod::of("stubborn", "run ignores stop").grace(7));
        world.start_agent();
        world.settle().await;
        world.delete("stubborn");
        world.settle().await;
        let (asked, killed) = (times_of(&world, "is asked to stop within 7s"), times_of(&world, "is killed"));
        assert_eq!((killed[0] - asked[0]).as_secs(), 7);
    });
}

#[test]
fn an_edited_pod_is_replaced_never_doubled() {
    simulate(1, |world| async move {
        world.put(&SimPod::of("web", "run stops in 3s"));
        world.start_agent();
        world.settle().await;
        world.put(&SimPod::of("web", "run").image("app:2"));
        world.settle().await;
        let (stopped, began) = (times_of(&world, "stops as asked"), times_of(&world, "web-node-1/main#0 runs"));
        assert!(began[1] > stopped[0]);
        world.finish().await;
    });
}

/// CRI-04, POD-11, NODE-37.
#[test]
fn pods_wait_while_the_network_is_missing_and_start_when_it_comes() {
    simulate(1, |world| async move {
        world.set_condition("NetworkReady", Some("cni plugin not initialized"));
        world.put(&SimPod::of("web", "run"));
        world.start_agent();
        world.sleep(seconds(60)).await;
        assert!(world.running().is_empty());
        let waiting = world.statuses().await.expect("an agent").remove(0).waits();
        assert!(waiting[0].contains("cni plugin not initialized"), "{waiting:?}");
        world.set_condition("NetworkReady", None);
        assert!(world.settle().await < seconds(30));
        world.finish().await;
    });
}

#[test]
fn an_image_that_nobody_has_is_told_of_and_holds_up_no_other_pod() {
    simulate(1, |world| async move {
        world.node().images.lock().expect("no panic yet").unknown.insert("gone:1".to_owned());
        world.put(&SimPod::of("lost", "run").image("gone:1"));
        world.put(&SimPod::of("web", "run"));
        world.start_agent();
        world.sleep(seconds(40)).await;
        assert_eq!(world.running().len(), 1);
        let views = world.statuses().await.expect("an agent");
        let lost = views.iter().find(|view| view.pod.metadata.name.as_deref() == Some("lost-node-1")).expect("told");
        let statuses = lost.status.container_statuses.as_ref().expect("one container");
        let waiting = statuses[0].state.as_ref().and_then(|state| state.waiting.as_ref()).expect("it waits");
        let reason = waiting.reason.as_deref().unwrap_or_default();
        assert!(matches!(reason, "ErrImagePull" | "ImagePullBackOff"), "{reason}");
        world.finish().await;
    });
}

/// CRI-22: the Event of a back-off comes when it begins, not when the next pull would be due.
#[test]
fn the_first_back_off_of_an_image_is_told_of_at_once() {
    simulate(1, |world| async move {
        world.node().images.lock().expect("no panic yet").unknown.insert("gone:1".to_owned());
        world.put(&SimPod::of("lost", "run").image("gone:1"));
        world.start_agent();
        let mut failed = None;
        let told = loop {
            world.sleep(Duration::from_millis(50)).await;
            let views = world.statuses().await.unwrap_or_default();
            let statuses = views.first().and_then(|view| view.status.container_statuses.clone()).unwrap_or_default();
            let state = statuses.into_iter().next().and_then(|one| one.state);
            let reason = state.and_then(|state| state.waiting).and_then(|waiting| waiting.reason);
            let now = world.node().time.elapsed();
            match reason.as_deref() {
                Some("ErrImagePull") => drop(failed.get_or_insert(now)),
                Some("ImagePullBackOff") => break now,
                _ => {}
            }
            assert!(now < seconds(60), "{reason:?}");
        };
        let failed = failed.expect("that the pull failed is told of first");
        assert!(told - failed < seconds(3), "{:?}", told - failed);
        world.finish().await;
    });
}

/// The checks themselves can fail: a pod that can never be started is no pod that runs.
#[test]
fn a_pod_that_does_not_run_is_found_out() {
    let run = run(1, Options::default(), |world| async move {
        world.put(&SimPod::of("web", "run"));
        world.start_agent();
        world.set_condition("NetworkReady", Some("cni plugin not initialized"));
        world.settle().await;
    });
    assert_eq!(run.violations.iter().map(|violation| violation.name).collect::<Vec<_>>(), [WANTED_RUNS]);
}

/// Of the three messages that a new worker gets at once, a mailbox for one message refuses two. A relist, which would have
/// repeated them, comes a minute later.
#[test]
fn what_a_full_mailbox_refused_is_told_again_soon() {
    let options = Options { mailbox: Some(("PodWorker".to_owned(), 1)), ..Options::default() };
    simulate_with(1, options, |world| async move {
        for number in 0..20 {
            world.put(&SimPod::of(&format!("web-{number}"), "run"));
        }
        world.start_agent();
        assert!(world.settle().await < seconds(15));
        assert!(refused(&world) > 20, "no mailbox was full");
        let began = times_of(&world, "sandbox web-");
        assert_eq!(began.len(), 20);
        assert!(*began.iter().max().expect("twenty") < seconds(3), "{began:?}");
        world.delete_all();
        assert!(world.settle().await < seconds(15));
        world.finish().await;
    });
}

/// While the runtime cannot be used pods wait; the word that it can comes once.
#[test]
fn news_of_the_runtime_reach_a_worker_whose_mailbox_was_full() {
    let options = Options { mailbox: Some(("PodWorker".to_owned(), 1)), ..Options::default() };
    simulate_with(1, options, |world| async move {
        world.start_agent();
        world.sleep(seconds(10)).await;
        world.set_condition("RuntimeReady", Some("the runtime has no shim"));
        world.put(&SimPod::of("web", "run"));
        world.sleep(seconds(10)).await;
        assert!(world.running().is_empty());
        let agent = world.agent().expect("an agent");
        // Not awaited in between: the worker has no turn before `PodManager` tells it the news.
        let manager = &agent.agent.directory.pod_manager;
        for _ in 0..3 {
            manager.tell(Cause::outside("test"), PodManagerMsg::Repeat).expect("has room");
        }
        manager.tell(Cause::outside("test"), PodManagerMsg::HealthChanged(RuntimeHealth::default())).expect("has room");
        let before = refused(&world);
        world.sleep(seconds(3)).await;
        assert!(refused(&world) > before + 1, "the mailbox was not full");
        assert_eq!(times_of(&world, "sandbox web-").len(), 1, "{:?}", world.statuses().await);
        world.set_condition("RuntimeReady", None);
        world.finish().await;
    });
}

/// Messages that workers' mailboxes refused so far.
fn refused(world: &World) -> u64 {
    let agent = world.agent().expect("an agent");
    let actors = agent.agent.trace.actors();
    actors.iter().filter(|actor| actor.kind == "PodWorker").map(|actor| actor.refused).sum()
}

/// PAIN-02: a call that hangs is named to the pod that waits for it, in its words and its condition, once and with its
/// time; the pods beside it run, and it is named no more when it has answered.
#[test]
fn a_call_that_hangs_is_named_to_the_pod_that_waits() {
    simulate(1, |world| async move {
        world.put(&SimPod::of("well", "run"));
        world.start_agent();
        world.settle().await;
        world.hang(Some("StartContainer"));
        world.put(&SimPod::of("stuck", "run"));
        world.sleep(Duration::from_secs(20)).await;
        let words = async |world: &World, name: &str| {
            let views = world.statuses().await.expect("the agent answers");
            let view =
                views.into_iter().find(|view| view.pod.metadata.name.as_deref() == Some(name)).expect("is there");
            let condition =
                view.status.conditions.iter().flatten().find(|one| one.type_ == "PodReadyToStartContainers");
            let message = condition.and_then(|condition| condition.message.clone());
            (view.waits().first().cloned().unwrap_or_default(), message)
        };
        assert_eq!(words(&world, "stuck-node-1").await.1, None, "it may still answer");
        let mut seen = vec![];
        for _ in 0..60 {
            world.sleep(Duration::from_secs(1)).await;
            seen.push(words(&world, "stuck-node-1").await);
        }
        seen.dedup();
        let (waits, told) = seen.last().cloned().expect("words");
        assert!(waits.starts_with("waits for the runtime, which has not answered StartContainer since "), "{seen:?}");
        assert_eq!((told.as_ref(), seen.len()), (Some(&waits), 2), "told once: {seen:?}");
        assert_eq!(words(&world, "well-node-1").await, (String::new(), None));
        world.hang(None);
        world.settle().await;
        assert_eq!(words(&world, "stuck-node-1").await, (String::new(), None));
        world.finish().await;
    });
}
