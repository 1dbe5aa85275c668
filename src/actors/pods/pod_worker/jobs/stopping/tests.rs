//! How containers are stopped, against a played runtime under paused time. IDs end with the seconds that a stop takes.

use serde_json::{Value, json};

use super::*;
use crate::actors::node::tests::{PlayedAgent, played_agent};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::pods::worker_tools;
use crate::logic::model::ids::{FullName, PodUid};

struct Setup {
    played: PlayedAgent,
    site: JobSite,
    pod: Arc<Pod>,
}

impl Setup {
    fn new(spec: Value) -> Self {
        let played = played_agent(ObjectServer::default().api(), |_, _| {});
        let pod = serde_json::from_value(json!({ "metadata": { "name": "web" }, "spec": spec })).expect("a pod");
        let site = JobSite {
            tools: Arc::new(worker_tools(&played.agent)),
            uid: PodUid::from("uid-1"),
            full_name: FullName::new("web", "ns"),
            host: Default::default(),
            machine: None,
            user_namespaces: Arc::default(),
            stops: Arc::default(),
            sandbox_dns: Arc::default(),
        };
        Self { played, site, pod: Arc::new(pod) }
    }

    /// Stops these containers, by ID; what the runtime was asked for, and the seconds it took.
    async fn kill(&self, containers: &[(&str, &str)], grace: u64) -> (Vec<String>, u64, bool) {
        let clock = Arc::clone(&self.site.tools.clock);
        let began = clock.uptime();
        let before = self.played.runtime().calls("").len();
        let stops = containers.iter().map(|(id, name)| Stop::with_pod(ContainerId::from(*id), (*name).to_owned()));
        let kill = Kill { grace: Duration::from_secs(grace), replace: false, address: None };
        let sandboxes = vec![StopSandbox { id: "box".into(), may_fail: false }];
        let pod = Some(Arc::clone(&self.pod));
        let ended = self.site.clone().kill_pod(pod, stops.collect(), sandboxes, kill, Cause::outside("test")).await;
        let calls = self.played.runtime().calls("").split_off(before);
        (calls, clock.uptime().saturating_sub(began).as_secs(), ended == JobEnd::PodKilled(Ok(())))
    }
}

fn container(name: &str, more: Value) -> Value {
    let mut container = json!({ "name": name });
    for (field, value) in more.as_object().expect("fields") {
        container[field] = value.clone();
    }
    container
}

fn pre_stop(command: &[&str]) -> Value {
    json!({ "lifecycle": { "preStop": { "exec": { "command": command } } } })
}

/// POD-23: the hook's time is taken off; what is left is at least two seconds.
#[tokio::test(start_paused = true)]
async fn a_hook_counts_against_the_grace_period() {
    for (command, grace, calls, took) in [
        (&["sleep", "5"][..], 30, &["ExecSync main-1 sleep 5", "StopContainer main-1 25"][..], 6),
        // It goes on until its container has ended.
        (&["sleep", "60"], 7, &["ExecSync main-1 sleep 60", "StopContainer main-1 2", "left ExecSync main-1"], 9),
        (&["sleep", "8"], 7, &["ExecSync main-1 sleep 8", "StopContainer main-1 2"], 8),
        (&["fails"], 30, &["ExecSync main-1 fails", "StopContainer main-1 30"], 1),
        (&["sleep", "5"], 0, &["StopContainer main-1 2"], 1),
    ] {
        let setup = Setup::new(json!({ "containers": [container("main", pre_stop(command))] }));
        let (asked, seconds, well) = setup.kill(&[("main-1", "main")], grace).await;
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        assert_eq!((asked, seconds, well), ([calls, &["StopPodSandbox box"]].concat(), took, true), "{command:?}");
    }
}

/// POD-23: a wait is a hook, too, and may be none.
#[tokio::test(start_paused = true)]
async fn a_wait_of_no_length_is_a_hook() {
    for (sleep, left) in [(0, 10), (4, 6)] {
        let hook = json!({ "lifecycle": { "preStop": { "sleep": { "seconds": sleep } } } });
        let setup = Setup::new(json!({ "containers": [container("main", hook)] }));
        let (asked, seconds, _) = setup.kill(&[("main-1", "main")], 10).await;
        assert_eq!((asked[0].as_str(), seconds), (format!("StopContainer main-1 {left}").as_str(), sleep + 1));
    }
}

/// CRI-19: all hooks at once; regular containers, then the sidecars backwards, each with what is left.
#[tokio::test(start_paused = true)]
async fn sidecars_are_stopped_after_all_others() {
    let sidecar = |name| container(name, json!({ "restartPolicy": "Always" }));
    let mut last = sidecar("last");
    last["lifecycle"] = pre_stop(&["sleep", "1"])["lifecycle"].clone();
    let setup = Setup::new(json!({
        "initContainers": [sidecar("first"), container("once", json!({})), last],
        "containers": [container("quick", json!({})), container("slow", pre_stop(&["sleep", "5"]))],
    }));
    let all = [("first-1", "first"), ("last-3", "last"), ("quick-2", "quick"), ("slow-2", "slow")];
    let (asked, seconds, well) = setup.kill(&all, 30).await;
    let expected = [
        "ExecSync last-3 sleep 1",
        "StopContainer quick-2 30",
        "ExecSync slow-2 sleep 5",
        "StopContainer slow-2 25",
        // The hook took 1 s of 30 s, the wait for the others 6 s more.
        "StopContainer last-3 23",
        "StopContainer first-1 20",
        "StopPodSandbox box",
    ];
    assert_eq!((asked.as_slice(), seconds, well), (&expected.map(str::to_owned)[..], 11, true));
}

/// CRI-19: the turn of a sidecar comes when its time is over, whoever still runs.
#[tokio::test(start_paused = true)]
async fn a_sidecar_waits_no_longer_than_its_time() {
    let setup = Setup::new(json!({
        "initContainers": [container("side", json!({ "restartPolicy": "Always" }))],
        "containers": [container("main", json!({}))],
    }));
    let (asked, seconds, _) = setup.kill(&[("side-1", "side"), ("main-60", "main")], 5).await;
    assert_eq!(asked[..2], ["StopContainer main-60 5", "StopContainer side-1 2"]);
    assert_eq!(seconds, 6);
}

/// A stop that is tried again neither runs the hook again nor gives its time back.
#[tokio::test(start_paused = true)]
async fn a_hook_that_ran_is_not_run_again_when_the_stop_failed() {
    let setup = Setup::new(json!({ "containers": [container("main", pre_stop(&["sleep", "5"]))] }));
    let (asked, _, well) = setup.kill(&[("lost-1", "main")], 30).await;
    assert_eq!(
        (asked[0].as_str(), asked[1].as_str(), well),
        ("ExecSync lost-1 sleep 5", "StopContainer lost-1 25", false)
    );
    let (asked, _, well) = setup.kill(&[("lost-1", "main")], 12).await;
    assert_eq!((asked[0].as_str(), well), ("StopContainer lost-1 7", true));
}

/// POD-08: what is being stopped already is waited for, as long as the new grace period lasts; its hook runs once.
#[tokio::test(start_paused = true)]
async fn a_stop_beside_another_waits_for_it() {
    for (id, grace, asked, seconds) in [
        ("main-1", 30, &["ExecSync main-1 sleep 5", "StopContainer main-1 25", "StopPodSandbox box"][..], 6),
        ("lost-1", 30, &["ExecSync lost-1 sleep 5", "StopContainer lost-1 25", "StopContainer lost-1 25"], 7),
        ("main-1", 3, &["ExecSync main-1 sleep 5", "StopContainer main-1 2", "StopPodSandbox box"], 4),
    ] {
        let setup = Setup::new(json!({ "containers": [container("main", pre_stop(&["sleep", "5"]))] }));
        let stop = Stop { id: ContainerId::from(id), name: "main".to_owned(), message: String::new() };
        let (site, pod) = (setup.site.clone(), Some(Arc::clone(&setup.pod)));
        let first = site.kill_container(pod, stop, Duration::from_secs(30), None, Cause::outside("test"));
        let containers = [(id, "main")];
        let (_, (_, took, well)) = tokio::join!(first, setup.kill(&containers, grace));
        let calls = setup.played.runtime().calls("");
        let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
        assert_eq!((&calls[..asked.len()], took, well), (asked, seconds, true), "{id} within {grace}s");
    }
}

/// Of a pod that only the runtime knows no hook is known.
#[tokio::test(start_paused = true)]
async fn a_pod_that_only_the_runtime_knows_has_no_hooks() {
    let setup = Setup::new(json!({ "containers": [] }));
    let (asked, _, well) = setup.kill(&[("main-1", "main")], 1).await;
    assert_eq!((asked[0].as_str(), well), ("StopContainer main-1 2", true));
}

/// One that cannot be removed keeps none of the others, and the error names each that stays.
#[tokio::test(start_paused = true)]
async fn dead_containers_are_removed_each_whatever_becomes_of_the_others() {
    let setup = Setup::new(json!({ "containers": [] }));
    let ids = ["kept-1", "old", "kept-2", "older"].map(ContainerId::from);
    let ended = setup.site.clone().remove_containers(None, ids.to_vec()).await;
    let asked = setup.played.runtime().calls("RemoveContainer");
    assert_eq!(asked, ids.each_ref().map(|id| format!("RemoveContainer {id}")));
    let JobEnd::Removed(Err(why)) = ended else { panic!("{ended:?}") };
    assert!(why.contains("kept-1 is in use") && why.contains("kept-2 is in use") && !why.contains("old"), "{why}");
}

/// CRI-19: what the machine's boot took down already holds up nobody; any other sandbox does.
#[tokio::test(start_paused = true)]
async fn a_sandbox_from_before_the_boot_may_stay() {
    let setup = Setup::new(json!({ "containers": [] }));
    for (may_fail, expected) in [(true, None), (false, Some("stuck-1 is damaged"))] {
        let sandboxes = ["stuck-1", "box"].map(|id| StopSandbox { id: id.into(), may_fail }).to_vec();
        let kill = Kill { grace: Duration::ZERO, replace: true, address: None };
        let ended = setup.site.clone().kill_pod(None, vec![], sandboxes, kill, Cause::outside("test")).await;
        let JobEnd::PodKilled(ended) = ended else { panic!("{ended:?}") };
        let why = ended.err();
        assert_eq!(why.is_some(), expected.is_some(), "{why:?}");
        assert!(expected.is_none_or(|expected| why.unwrap().contains(expected)));
    }
    assert_eq!(setup.played.runtime().calls("StopPodSandbox box").len(), 2, "the other is stopped all the same");
}
