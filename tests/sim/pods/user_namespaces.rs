//! Pods with user namespaces of their own: which IDs they have, while the agent dies and its disk fails.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use podwright::logic::model::ids::PodUid;
use podwright::logic::resources::user_namespaces::IdRange;
use podwright::logic::resources::user_namespaces::mapping_file::{parse, print};
use podwright::sim::faults::parse_list;
use podwright::sim::{Options, SimPod, World, simulate, simulate_with};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn own(number: u32) -> SimPod {
    SimPod::new(&format!("own-{number}")).init("setup", "exit 0 after 300ms").container("main", "run").with_own_users()
}

/// The ranges that the disk has.
fn kept(world: &World) -> BTreeMap<PodUid, u32> {
    let files = world.node().disk.lock().expect("no panic before").user_namespaces.clone();
    files.into_iter().map(|(uid, bytes)| (uid, parse(&bytes).expect("a range").first)).collect()
}

/// The ranges of ready sandboxes, by pod; none for a pod in the host's user namespace.
fn given(world: &World) -> BTreeMap<PodUid, u32> {
    let containers = world.node().containers.lock().expect("no panic before");
    let first = |users: &podwright::cri::UserNamespace| users.uids.first().map(|ids| ids.host_id);
    let all = containers.sandboxes.values();
    all.filter_map(|one| Some((PodUid::from(one.metadata.uid.as_str()), first(one.users.as_ref()?)?))).collect()
}

/// The agent's words about pods that wait.
async fn waits(world: &World) -> Vec<String> {
    let views = world.statuses().await.expect("the agent answers");
    views.iter().flat_map(|view| view.waits()).collect()
}

/// RES-63, SEC-26.
#[test]
fn pods_keep_their_ids_whenever_the_agent_is_killed() {
    for seed in 0..30 {
        simulate(seed, |world| async move {
            for number in 0..5 {
                world.put(&own(number));
            }
            world.put(&SimPod::of("hosts", "run"));
            world.start_agent();
            let mut before: BTreeMap<PodUid, u32> = BTreeMap::new();
            for _ in 0..5 {
                world.sleep(world.random().between(Duration::ZERO, seconds(2))).await;
                world.kill_agent();
                let now = kept(&world);
                assert!(before.iter().all(|(uid, first)| now.get(uid) == Some(first)), "{before:?} then {now:?}");
                before = now;
            }
            world.settle().await;
            assert_eq!(world.running().len(), 6);
            assert_eq!(kept(&world), given(&world));
            assert_eq!(BTreeSet::from_iter(kept(&world).values()).len(), 5, "{:?}", kept(&world));
            world.finish().await;
            assert_eq!(kept(&world), BTreeMap::new(), "all are free");
        });
    }
}

/// RES-63: a disk that fails costs time, and no pod's IDs.
#[test]
fn pods_have_ids_of_their_own_on_a_disk_that_fails() {
    for seed in 0..20 {
        let options = Options { faults: parse_list("disk,kills,crashes").expect("faults"), ..Options::default() };
        simulate_with(seed, options, |world| async move {
            world.start_agent();
            for number in 0..6 {
                world.put(&own(number));
                world.sleep(world.random().between(Duration::ZERO, seconds(4))).await;
                if number > 2 {
                    world.delete(&format!("own-{}", number - 2));
                }
            }
            world.finish().await;
            assert_eq!(kept(&world), BTreeMap::new());
        });
    }
}

/// Files of pods that nobody wants any more.
fn leave_files(world: &World) {
    let mut disk = world.node().disk.lock().expect("no panic before");
    for (uid, content) in
        [("lost", b"{\"uidMappings\":".to_vec()), ("wide", print(IdRange { first: 65_536, length: 131_072 }))]
    {
        disk.pods.insert(uid.into(), BTreeSet::new());
        disk.user_namespaces.insert(uid.into(), content);
    }
}

/// RES-63: files that pods of an earlier run left hold nobody up for long, also one that does not say its range.
#[test]
fn files_of_pods_that_are_gone_are_removed() {
    simulate(3, |world| async move {
        leave_files(&world);
        world.put(&own(1));
        world.put(&SimPod::of("hosts", "run"));
        world.start_agent();
        world.settle().await;
        assert_eq!(world.running().len(), 2);
        assert_eq!(kept(&world), given(&world), "those of nobody are gone");
        assert_eq!(waits(&world).await, Vec::<String>::new());
        world.finish().await;
    });
}

/// RES-63: a start asks once for the pod's IDs, so that its sandbox and its container name the same.
#[test]
fn a_start_asks_once_for_the_pods_ids() {
    simulate(4, |world| async move {
        world.put(&SimPod::of("own", "run").with_own_users());
        world.start_agent();
        world.settle().await;
        let agent = world.agent().expect("an agent");
        let asked = agent.agent.trace.turns(|turn| turn.message == "Assign").len();
        assert_eq!(asked, 3, "for its sandbox, its image and its container");
        world.finish().await;
    });
}
