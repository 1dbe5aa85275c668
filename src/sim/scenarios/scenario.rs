//! The standard scenario: every kind of pod there is, wanted, edited and deleted while things go wrong.

use std::time::Duration;

use crate::sim::{SimPod, World};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The pods of the standard scenario, by turns. The first sixteen stay what they are: seeds of old faults meet them. Every
/// second one of the others is in a user namespace of its own.
pub fn pod(number: usize) -> SimPod {
    let pod = kind(number);
    if number >= 16 && number.is_multiple_of(2) { pod.with_own_users() } else { pod }
}

fn kind(number: usize) -> SimPod {
    let name = format!("pod-{number}");
    match if number < 16 { number % 8 } else { number % 11 } {
        0 => SimPod::of(&name, "run"),
        1 => SimPod::new(&name).init("setup", "exit 0 after 2s").container("main", "run"),
        2 => SimPod::of(&name, "exit 0 after 5s").restarts("Never"),
        3 => SimPod::of(&name, "exit 1 after 3s"),
        4 => SimPod::of(&name, "run").container("side", "run ignores stop").grace(5),
        5 => SimPod::of(&name, "exit 1 after 1s below 2").restarts("OnFailure"),
        6 => SimPod::of(&name, "run").probe("readinessProbe", "/ok-after/3"),
        7 => SimPod::of(&name, "exit 0 after 4s").restarts("OnFailure").image("job:1"),
        8 => SimPod::new(&name).sidecar("proxy", "exit 3 after 7s").container("main", "run"),
        9 => SimPod::new(&name).sidecar("proxy", "run").container("main", "exit 0 after 5s").restarts("Never"),
        _ => SimPod::of(&name, "run")
            .sidecar("proxy", "run")
            .init("setup", "exit 0 after 1s")
            .container("source", "exit 42 after 3s below 1")
            .rule(42, "RestartAllContainers"),
    }
}

/// Runs the standard scenario with so many pods for so long, then lets all become quiet and go away.
pub async fn standard(world: World, pods: usize, time: Duration) {
    world.start_agent();
    world.add_hopeless();
    let names: Vec<String> = (0..pods).map(|number| pod(number).name).collect();
    for number in 0..pods {
        world.put(&pod(number));
        if number % 3 == 2 {
            world.sleep(world.random().between(Duration::ZERO, seconds(4))).await;
        }
    }
    let end = world.node().time.elapsed().max(seconds(1)) + time;
    let mut edits = 0;
    while world.node().time.elapsed() < end {
        world.until_next_deed(seconds(2), seconds(12)).await;
        let number = usize::try_from(world.random().below(pods as u64)).unwrap_or_default();
        match world.random().below(3) {
            0 => {
                edits += 1;
                world.put(&pod(number).image(&format!("app:{}", edits + 1)));
            }
            1 => world.delete(&names[number]),
            _ => drop(world.put(&pod(number))),
        }
    }
    world.finish().await;
}

/// The length of a crowd's life, in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// From the agent's start until all ran.
    pub started: Duration,
    /// From their deletion until nothing was left.
    pub gone: Duration,
}

/// So many pods at once, as a node meets them that starts up full: all run, all are deleted, nothing is left.
///
/// # Panics
/// When not all run at the same time: a mistake of the agent's that no invariant names.
pub async fn crowd(world: World, pods: usize) -> Crowd {
    for number in 0..pods {
        world.put(&SimPod::of(&format!("web-{number}"), "run").grace(2));
    }
    world.start_agent();
    let started = world.settle().await;
    assert_eq!(world.running().len(), pods, "not all run");
    world.stop_faults();
    world.delete_all();
    let gone = world.settle().await;
    assert_eq!(world.running().len(), 0, "some still run");
    Crowd { started, gone }
}

/// Pods of a churn that are there at a time.
pub const CHURN_AT_A_TIME: usize = 100;

/// So many pods, each another one, a hundred at a time: started, all running, deleted, nothing left. `look` hears after
/// each hundred how many have been, when none is there.
///
/// # Panics
/// When not all of a hundred run: a mistake of the agent's that no invariant names.
pub async fn churn(world: World, pods: usize, look: impl Fn(usize)) {
    world.start_agent();
    let mut count = 0;
    while count < pods {
        let next = pods.min(count + CHURN_AT_A_TIME);
        for number in count..next {
            world.put(&of_churn(number));
        }
        world.settle().await;
        assert_eq!(world.running().len(), next - count, "not all run");
        world.delete_all();
        world.settle().await;
        assert_eq!(world.running().len(), 0, "some still run");
        count = next;
        world.forget();
        look(count);
    }
}

/// A pod that uses what each pod costs something for: an init container, a probe, a volume.
fn of_churn(number: usize) -> SimPod {
    let pod = SimPod::new(&format!("churn-{number}")).init("setup", "exit 0 after 100ms").container("main", "run");
    pod.probe("readinessProbe", "/ok").volume("cache", serde_json::json!({ "emptyDir": {} })).grace(2)
}

/// A short fixed story for crashes at each message: start, restart after an exit, edit, delete.
pub async fn short(world: World) {
    world.put(&SimPod::new("web").init("setup", "exit 0 after 1s").container("main", "run"));
    world.put(&SimPod::of("crash", "exit 1 after 2s below 2").probe("readinessProbe", "/ok").with_own_users());
    world.start_agent();
    world.sleep(seconds(6)).await;
    world.put(&SimPod::of("job", "exit 0 after 2s").restarts("Never").with_own_users());
    let cache = serde_json::json!({ "emptyDir": {} });
    world.put(&SimPod::of("web", "run").image("app:2").grace(3).volume("cache", cache));
    world.sleep(seconds(8)).await;
    world.delete("crash");
    world.sleep(seconds(3)).await;
    world.finish().await;
}
