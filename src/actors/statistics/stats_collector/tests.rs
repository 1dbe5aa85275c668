//! `StatsCollector` over figures that cannot be read at first, and over those that the runtime tells, under paused time.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;

use super::*;
use crate::actors::kit::trace::Cause;
use crate::actors::node::tests::{PlayedAgent, played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::cri::pod_mapping::labels;
use crate::cri::{
    ContainerStats, CriError, FilesystemUsage, PodSandbox, PodSandboxMetadata, PodSandboxStats, SandboxState,
};
use crate::logic::eviction::alarm::WatchedGroup;
use crate::logic::model::ids::SandboxId;
use crate::logic::model::time::Moment;
use crate::messages::root::Child;
use crate::platform::statistics::{AlarmError, FixedStatistics, LookOrder, SampleError, WalkPlace, Walked};

/// Looks that take a second each; the first one fails.
struct Moody {
    looks: AtomicUsize,
    fixed: FixedStatistics,
}

#[async_trait]
impl Statistics for Moody {
    async fn look(&self, order: LookOrder) -> Result<RawSample, SampleError> {
        seconds(1.0).await;
        match self.looks.fetch_add(1, Ordering::SeqCst) {
            0 => Err(SampleError::NoProc),
            _ => self.fixed.look(order).await,
        }
    }

    async fn memory_runs_short(&self, watched: Vec<WatchedGroup>) -> Result<(), AlarmError> {
        self.fixed.memory_runs_short(watched).await
    }

    async fn walk(&self, places: Vec<(WalkKey, WalkPlace)>, haste: Haste) -> Vec<Walked> {
        self.fixed.walk(places, haste).await
    }
}

/// A look that fails is no answer to who asked after it began: the next look is.
#[tokio::test(start_paused = true)]
async fn an_asker_during_a_look_that_fails_gets_a_look_of_its_own() {
    let agent = played_agent(ObjectServer::default().api(), |_, adapters| {
        let fixed = FixedStatistics::new(crate::actors::node::tests::paused_clock());
        adapters.node.statistics = Arc::new(Moody { looks: AtomicUsize::new(0), fixed });
    })
    .agent;
    start_alone(Child::Pleg, &agent);
    start_alone(Child::StatsCollector, &agent);
    let ask = async |after: f64| {
        seconds(after).await;
        let (wanted, age_max) = (Wanted::RESOURCES, Duration::ZERO);
        let question = |reply| StatsCollectorMsg::Get { wanted, age_max, reply };
        let to = &agent.directory.stats_collector;
        to.ask(Cause::outside("test"), Duration::from_secs(30), question).await.expect("answered").map(drop)
    };
    let (first, second) = futures_util::future::join(ask(0.0), ask(0.5)).await;
    assert_eq!(first, Err(SampleError::NoProc.to_string()));
    assert_eq!(second, Ok(()));
}

/// A node with one pod, which has a sandbox and no container.
async fn node_of_one_pod(from_runtime: bool) -> PlayedAgent {
    let played =
        played_agent(ObjectServer::default().api(), |settings, _| settings.statistics.from_runtime = from_runtime);
    let labels = [(labels::POD_UID, "u"), (labels::POD_NAME, "web"), (labels::POD_NAMESPACE, "ns")];
    played.runtime().set_sandbox(PodSandbox {
        id: "s".into(),
        metadata: PodSandboxMetadata { uid: "u".into(), name: "web".into(), namespace: "ns".into(), attempt: 0 },
        state: SandboxState::Ready,
        created_at: Moment::default(),
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        annotations: Default::default(),
        runtime_handler: String::new(),
    });
    start_alone(Child::Pleg, &played.agent);
    start_alone(Child::StatsCollector, &played.agent);
    seconds(5.0).await; // A relist has shown the pod.
    played
}

async fn ask(played: &PlayedAgent, wanted: Wanted) -> Result<Arc<Snapshot>, String> {
    let question = |reply| StatsCollectorMsg::Get { wanted, age_max: Duration::ZERO, reply };
    let to = &played.agent.directory.stats_collector;
    to.ask(Cause::outside("test"), Duration::from_secs(30), question).await.expect("answered")
}

fn stats(id: &str) -> PodSandboxStats {
    let layer = Some(FilesystemUsage { used_bytes: Some(7), ..FilesystemUsage::default() });
    let container = ContainerStats { id: "unknown".to_owned(), writable_layer: layer, ..ContainerStats::default() };
    PodSandboxStats {
        id: id.to_owned(),
        process_count: Some(7),
        containers: vec![container],
        ..PodSandboxStats::default()
    }
}

/// CRI-34: under the gate the runtime tells the figures of pods; those that nobody here knows are left out.
#[tokio::test(start_paused = true)]
async fn figures_of_pods_are_the_runtimes_under_the_gate() {
    let played = node_of_one_pod(true).await;
    played.runtime().tell_stats(Ok(vec![stats("s"), stats("other")]));
    let snapshot = ask(&played, Wanted::SUMMARY).await.expect("a look");
    let told = snapshot.told.as_ref().expect("told");
    assert_eq!(told.keys().map(SandboxId::as_str).collect::<Vec<_>>(), ["s"]);
    let pod = told.values().next().expect("it is there");
    assert_eq!((pod.processes, pod.containers.len()), (Some(7), 0));
    assert!(ask(&played, Wanted::NODE).await.expect("a look").told.is_none());
    assert_eq!(played.runtime().calls("ListPodSandboxStats").len(), 1, "figures of the node are the kernel's");
}

/// CRI-34: a runtime without the call leaves the figures to control groups; any other failure fails all who want pods.
#[tokio::test(start_paused = true)]
async fn a_runtime_that_fails_gives_no_figures_of_pods_and_one_without_the_call_those_of_groups() {
    let played = node_of_one_pod(true).await;
    let snapshot = ask(&played, Wanted::SUMMARY).await.expect("a look");
    assert_eq!((snapshot.sample.pods.len(), snapshot.told.is_none()), (1, true));
    played.runtime().tell_stats(Err(CriError::Unavailable { message: "away".to_owned() }));
    // The second look serves two askers.
    let asked = [Wanted::RESOURCES, Wanted::SUMMARY, Wanted::NODE].map(|wanted| ask(&played, wanted));
    let told = futures_util::future::join_all(asked).await;
    let [resources, summary, node] = &told[..] else { panic!("three answers") };
    for pods in [resources, summary] {
        assert_eq!(pods.as_ref().err().map(String::as_str), Some("failed to list pod stats: away"));
    }
    assert!(node.is_ok(), "who wants the node does not depend on the runtime");
}

#[tokio::test(start_paused = true)]
async fn the_runtime_is_not_asked_for_figures_of_pods_without_the_gate() {
    let played = node_of_one_pod(false).await;
    played.runtime().tell_stats(Ok(vec![stats("s")]));
    let snapshot = ask(&played, Wanted::SUMMARY).await.expect("a look");
    assert_eq!((snapshot.sample.pods.len(), snapshot.told.is_none()), (1, true));
    assert!(played.runtime().calls("ListPodSandboxStats").is_empty());
}
