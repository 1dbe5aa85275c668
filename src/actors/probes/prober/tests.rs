//! `Prober` over a played runtime, under paused time: tries, costs, the gate for commands, and what outlives it.

mod load;

use serde_json::{Value, json};

use super::*;
use crate::actors::agent::Agent;
use crate::actors::kit::tests::{fill, listen, make_room};
use crate::actors::kit::trace::Cause;
use crate::actors::node::tests::{PlayedAgent, played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::prober::ProbeCost;
use crate::messages::root::Child;

const ASK_LIMIT: Duration = Duration::from_secs(5);

/// An agent whose probes are made; its recorder of Events is there, too.
fn played() -> PlayedAgent {
    played_to_be_ended().0
}

/// The same, with its `Prober`.
fn played_to_be_ended() -> (PlayedAgent, ractor::ActorCell) {
    let played = played_agent(ObjectServer::default().api(), |_, _| {});
    let agent = &played.agent;
    start_alone(Child::EventRecorder, agent);
    let prober = start_alone(Child::Prober, agent);
    (played, prober)
}

/// A pod whose one container runs and is ready, with this readiness probe.
fn changed(agent: &Agent, uid: &str, command: &[&str], more: Value) -> ProberMsg {
    let mut pod = json!({
        "metadata": { "name": uid, "namespace": "ns", "uid": uid },
        "spec": { "containers": [{ "name": "main", "readinessProbe": { "exec": { "command": command } } }] },
    });
    for (field, value) in more.as_object().expect("an object") {
        match field.as_str() {
            "labels" => pod["metadata"]["labels"] = value.clone(),
            _ => pod["spec"]["containers"][0]["readinessProbe"][field] = value.clone(),
        }
    }
    let status = json!({
        "phase": "Running", "podIP": "127.0.0.1",
        "containerStatuses": [{
            "name": "main", "containerID": format!("containerd://{uid}"), "started": true, "ready": true,
            "image": "", "imageID": "", "restartCount": 0, "state": { "running": {} },
        }],
    });
    ProberMsg::PodChanged {
        uid: PodUid::from(uid),
        pod: Arc::new(serde_json::from_value(pod).expect("a pod")),
        status: Arc::new(serde_json::from_value(status).expect("a status")),
        ending: false,
        worker: worker(agent).subscriber(),
    }
}

/// The worker that hears of all pods' results.
fn worker(agent: &Agent) -> Address<PodWorkerMsg> {
    Address::new(&agent.trace, "worker", "PodWorker", "Root", 4096)
}

fn tell(agent: &Agent, message: ProberMsg) {
    agent.directory.prober.tell(Cause::outside("test"), message).expect("has room");
}

async fn costs(agent: &Agent, uid: &str) -> Vec<ProbeCost> {
    let question = |reply| ProberMsg::Costs(PodUid::from(uid), reply);
    agent.directory.prober.ask(Cause::outside("test"), ASK_LIMIT, question).await.expect("answered")
}

async fn warnings(agent: &Agent, uid: &str, reason: &str) -> Vec<String> {
    let question = |reply| EventRecorderMsg::OfPod(PodUid::from(uid), reply);
    let recorder = &agent.directory.event_recorder;
    let events = recorder.ask(Cause::outside("test"), ASK_LIMIT, question).await.expect("answered");
    events.iter().filter(|one| one.event.reason.as_str() == reason).map(|one| one.event.message.clone()).collect()
}

/// PRB-08: three tries a round while the probe cannot be made, one when it was.
#[tokio::test(start_paused = true)]
async fn a_probe_that_cannot_be_made_is_tried_three_times_a_round() {
    let played = played();
    for (uid, command, tries) in [("gone", "refuse", 3), ("bad", "false", 1), ("late", "hang", 1)] {
        // Far from its end, so that the second round is not near.
        tell(&played.agent, changed(&played.agent, uid, &[command], json!({ "periodSeconds": 1000 })));
        seconds(700.0).await;
        assert_eq!(played.runtime().calls(&format!("ExecSync {uid} ")).len(), tries, "{uid}");
    }
    let cost = costs(&played.agent, "gone").await.remove(0);
    let (tries, rounds) = (played.runtime().calls("ExecSync gone ").len() as u64, cost.counts.errored);
    assert!(rounds > 1, "there were rounds since");
    assert_eq!((tries, cost.counts.failed, cost.counts.successful), (3 * rounds, 0, 0), "each round has its own");
}

/// PRB-27: a pod that changes in place is probed on as before: the run goes on, and no round is added.
#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_in_place_is_probed_on_as_before() {
    let played = played();
    let probe = |labels: Value| json!({ "periodSeconds": 10, "failureThreshold": 4, "labels": labels });
    tell(&played.agent, changed(&played.agent, "web", &["false"], probe(json!({}))));
    for number in 0..60 {
        seconds(1.0).await;
        let labels = json!({ "version": number.to_string() });
        tell(&played.agent, changed(&played.agent, "web", &["false"], probe(labels)));
    }
    let rounds = played.runtime().calls("ExecSync web ").len();
    assert!((5..=7).contains(&rounds), "{rounds} rounds of 10 s in a minute");
    let kept = played.agent.adapters.pods.probe_store.results(&PodUid::from("web"));
    assert_eq!(kept.readiness.get(&ContainerId::from("web")), Some(&false), "the failures were counted on");
}

/// PAIN-29, SEC-47: however many commands are due at once, a bounded number is under way, and all have their turn.
#[tokio::test(start_paused = true)]
async fn commands_of_all_pods_together_are_bounded() {
    let played = played();
    let number = COMMANDS.places * 2 + 5;
    seconds(100.0).await; // Old enough not to spread its first rounds.
    for pod in 0..number {
        let uid = format!("pod-{pod}");
        tell(&played.agent, changed(&played.agent, &uid, &["sleep", "10"], json!({ "periodSeconds": 60 })));
    }
    seconds(5.0).await;
    let begun = || played.runtime().calls("ExecSync ").len();
    assert_eq!(begun(), COMMANDS.places);
    let last = format!("pod-{}", number - 1);
    assert!(costs(&played.agent, &last).await[0].waits_for_turn);
    // One that is gone gives its place away.
    tell(&played.agent, ProberMsg::PodGone(PodUid::from("pod-0")));
    seconds(1.0).await;
    assert_eq!(begun(), COMMANDS.places + 1);
    seconds(10.0).await;
    assert_eq!(begun(), COMMANDS.places * 2 + 1);
    seconds(20.0).await;
    assert_eq!(begun(), number);
    let cost = costs(&played.agent, &last).await.remove(0);
    assert_eq!((cost.action, cost.counts.successful, cost.waits_for_turn), ("exec", 1, false));
    assert_eq!(cost.counts.spent, Duration::from_secs(10), "the wait is no cost of its own");
}

/// CVE-2026-53495, SEC-47: commands that never end in time are counted, told of, and run less often.
#[tokio::test(start_paused = true)]
async fn cve_2026_53495_sec_47_commands_that_never_end_are_counted_and_put_off() {
    let played = played();
    tell(&played.agent, changed(&played.agent, "web", &["hang"], json!({ "periodSeconds": 10 })));
    seconds(600.0).await;
    let cost = costs(&played.agent, "web").await.remove(0);
    let rounds = played.runtime().calls("ExecSync web ").len();
    assert!((11..=15).contains(&rounds), "{rounds} rounds, not 60");
    assert!(cost.counts.timed_out >= 11 && cost.counts.failed == cost.counts.timed_out, "{cost:?}");
    assert_eq!(cost.put_off, Some(Duration::from_secs(60)));
    let told = warnings(&played.agent, "web", "ProbeWarning").await;
    let expected = "Readiness probe warning: its command has timed out 4 times in a row and may run on in the container; \
                    it is run again in 20s";
    assert_eq!((told.len(), told[0].as_str()), (3, expected), "{told:?}");
}

/// PAIN-16: another `Prober` goes on where the first one was, result and run.
#[tokio::test(start_paused = true)]
async fn a_prober_that_starts_anew_goes_on() {
    let (first, prober) = played_to_be_ended();
    let store = Arc::clone(&first.agent.adapters.pods.probe_store);
    let probe = || json!({ "periodSeconds": 10, "failureThreshold": 3 });
    seconds(100.0).await;
    tell(&first.agent, changed(&first.agent, "web", &["sleep", "0"], probe()));
    seconds(1.0).await;
    tell(&first.agent, changed(&first.agent, "web", &["false"], probe()));
    seconds(20.0).await;
    let kept = store.of(&PodUid::from("web")).into_values().next().expect("remembered");
    assert_eq!((kept.result, kept.last, kept.run), (Some(true), Some(false), 2));
    prober.kill();
    let second =
        played_agent(ObjectServer::default().api(), |_, adapters| adapters.pods.probe_store = Arc::clone(&store));
    start_alone(Child::Prober, &second.agent);
    tell(&second.agent, changed(&second.agent, "web", &["false"], probe()));
    seconds(9.0).await; // Within the period that the first round is spread over.
    assert_eq!(second.runtime().calls("ExecSync web ").len(), 1);
    assert_eq!(store.results(&PodUid::from("web")).readiness.into_values().next(), Some(false), "the third failure");
    tell(&second.agent, ProberMsg::PodGone(PodUid::from("web")));
    seconds(1.0).await;
    assert!(store.of(&PodUid::from("web")).is_empty());
}

/// A worker whose mailbox is full hears the newest result once there is room, and no older one.
#[tokio::test(start_paused = true)]
async fn a_result_that_a_full_mailbox_refused_is_told_again() {
    let played = played();
    let worker = worker(&played.agent);
    let heard = listen(&worker);
    let probe = || json!({ "periodSeconds": 1, "failureThreshold": 1 });
    let changed = |command: &[&str]| {
        let ProberMsg::PodChanged { uid, pod, status, ending, .. } = changed(&played.agent, "web", command, probe())
        else {
            unreachable!("it makes nothing else")
        };
        tell(&played.agent, ProberMsg::PodChanged { uid, pod, status, ending, worker: worker.subscriber() });
    };
    changed(&["sleep", "0"]);
    seconds(3.0).await;
    assert!(heard.take_of("healthy: true").len() == 1, "it is well");
    fill(&worker);
    changed(&["false"]);
    seconds(10.0).await;
    assert_eq!(heard.take(), [""; 0], "there is no room");
    make_room(&worker);
    seconds(1.0).await;
    let told = heard.take();
    assert!(matches!(told.as_slice(), [one] if one.contains("healthy: false")), "{told:?}");
    seconds(10.0).await;
    assert_eq!(heard.take(), [""; 0], "it is told once");
}
