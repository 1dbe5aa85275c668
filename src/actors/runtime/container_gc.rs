//! `ContainerGc`: removes dead containers and sandboxes that nobody reads any more.
//!
//! Parent: Root. Restarted: after a failure; keeps nothing. It asks `Pleg`, not the runtime, what there is, and then
//! `PodManager` which pods are known: a pod is known before its first container. While nobody can say, nothing of unknown
//! pods is removed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::actors::kit::single_flight::{Askers, SingleFlight};
use crate::actors::kit::trace::Cause;
use crate::actors::runtime::removal::remove_container;
use crate::cri::RuntimeService;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::PodUid;
use crate::logic::model::runtime_pod::{ContainerState, RuntimeContainer, RuntimePod};
use crate::logic::pods::container_garbage::{Garbage, GarbagePolicy, collect};
use crate::messages::Ended;
use crate::messages::event_recorder::{EventRecorderMsg, EventSubject};
use crate::messages::pods::pod_manager::{EvictionMsg, PodManagerMsg, PodQuestion};
use crate::messages::runtime::container_gc::{ContainerGcMsg, Look, Removed};
use crate::messages::runtime::pleg::PlegMsg;
use crate::platform::pods::pod_files::PodFiles;

/// Wait between passes (CRI-20).
pub const PASS_PERIOD: Duration = Duration::from_secs(60);
/// Grace of a container that the runtime lost track of, before it is removed.
const STOP_GRACE_MIN: Duration = Duration::from_secs(2);
/// Patience with `Pleg`.
const ASK_LIMIT: Duration = Duration::from_secs(10);

/// The actor's arguments.
#[derive(Clone)]
pub struct Args {
    /// The node's name, for its Events.
    pub node_name: String,
    /// The limits within which containers are kept.
    pub policy: GarbagePolicy,
    /// The runtime.
    pub runtime: Arc<dyn RuntimeService>,
    /// Logs, and the links to them.
    pub files: Arc<dyn PodFiles>,
    /// Knows what the runtime holds, and looks again at what was removed.
    pub pleg: Address<PlegMsg>,
    /// Knows which pods there are.
    pub pod_manager: Address<PodManagerMsg>,
    /// Hears of passes that fail.
    pub event_recorder: Address<EventRecorderMsg>,
}

/// See the module.
pub struct ContainerGc {
    args: Args,
    /// Those who wait until everything unused is removed ask for a pass, too.
    passes: SingleFlight<Askers<Result<(), String>>>,
}

impl Actor for ContainerGc {
    const KIND: &'static str = "ContainerGc";
    type Msg = ContainerGcMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<ContainerGcMsg>) -> Self {
        context.repair_after(PASS_PERIOD, ContainerGcMsg::PassDue);
        Self { args, passes: SingleFlight::default() }
    }

    fn receive(&mut self, message: ContainerGcMsg, context: &mut Context<ContainerGcMsg>) {
        match message {
            ContainerGcMsg::PassDue => {
                self.pass(Askers::default(), context);
                context.repair_after(PASS_PERIOD, ContainerGcMsg::PassDue);
            }
            ContainerGcMsg::Surplus(pod) => {
                if self.passes.want(Askers::default()).is_some() {
                    self.remove(vec![pod], None, false, context);
                }
            }
            ContainerGcMsg::RemoveAllUnused(reply) => self.pass(reply.into(), context),
            ContainerGcMsg::Looked(Ok(Some(Look { pods, known }))) => {
                if known.is_none() {
                    self.answer(&Err("it is not known which pods there are to be".to_owned()));
                }
                self.remove(pods, known, true, context);
            }
            ContainerGcMsg::Looked(Ok(None)) => {
                self.answer(&Err("it is not known what the runtime holds".to_owned()));
                // It is being restarted, and the next pass finds it.
                self.take_end(Ended::Done(Removed::default()), context);
            }
            ContainerGcMsg::Looked(Err(loss)) => self.take_end(Ended::Lost(loss), context),
            ContainerGcMsg::PassEnded(outcome) => self.take_end(outcome, context),
        }
    }
}

impl ContainerGc {
    /// One pass over all pods.
    fn pass(&mut self, askers: Askers<Result<(), String>>, context: &mut Context<ContainerGcMsg>) {
        let Some(askers) = self.passes.want(askers) else { return };
        let is_asked = askers.is_waiting();
        let (pleg, pod_manager, cause) = (self.args.pleg.clone(), self.args.pod_manager.clone(), context.cause());
        let work = async move {
            // In this order: a pod that was taken in between has nothing in the look yet.
            let pods = pleg.ask(cause.clone(), ASK_LIMIT, PlegMsg::Pods).await.ok()?;
            // A node that runs short keeps nothing of pods that are over, though the API server still has them.
            let known = match is_asked {
                true => {
                    pod_manager
                        .ask(cause, ASK_LIMIT, |reply| PodManagerMsg::Eviction(EvictionMsg::Unfinished(reply)))
                        .await
                }
                false => {
                    pod_manager.ask(cause, ASK_LIMIT, |reply| PodManagerMsg::Question(PodQuestion::Known(reply))).await
                }
            };
            let known = known.ok();
            Some(Look { pods, known: known.flatten() })
        };
        context.start("look for garbage", "dead containers", work, ContainerGcMsg::Looked);
    }

    /// While nobody knows which pods there are to be, each may be: of all of them the surplus goes, and nothing else.
    fn remove(
        &mut self,
        pods: Vec<Arc<RuntimePod>>,
        known: Option<BTreeSet<PodUid>>,
        whole: bool,
        context: &mut Context<ContainerGcMsg>,
    ) {
        let known = known.unwrap_or_else(|| pods.iter().map(|pod| pod.uid.clone()).collect());
        let (args, now) = (self.args.clone(), context.now());
        let work = async move {
            let garbage = collect(pods.iter().map(|pod| &**pod), &known, args.policy, now);
            let removed = remove(&args, &pods, garbage).await;
            if whole {
                remove_dead_links(&*args.files, &pods).await?;
            }
            Ok(removed)
        };
        let span = tracing::info_span!(target: "podwright::turn", "pass", otel.name = "Containers/GarbageCollect");
        context.start("collect garbage", "dead containers", work.instrument(span), |outcome| {
            ContainerGcMsg::PassEnded(outcome.into())
        });
    }

    /// Answers those for whom the pass under way began.
    fn answer(&mut self, outcome: &Result<(), String>) {
        self.passes.current().into_iter().for_each(|askers| askers.answer(outcome));
    }

    /// A pass is over.
    fn take_end(&mut self, outcome: Ended<Removed>, context: &mut Context<ContainerGcMsg>) {
        let outcome = outcome.into_result();
        self.answer(&outcome.as_ref().map(|_| ()).map_err(Clone::clone));
        if let (_, Some(askers)) = self.passes.end() {
            self.pass(askers, context);
        }
        match outcome {
            Ok(removed) if removed == Removed::default() => {}
            Ok(Removed { containers, sandboxes }) => tracing::debug!(containers, sandboxes, "garbage removed"),
            Err(error) => {
                tracing::error!(error, "Container garbage collection failed");
                let node = EventSubject::node(&self.args.node_name);
                context.tell(&self.args.event_recorder, node.warning(EventReason::ContainerGCFailed, error));
            }
        }
    }
}

/// Links that a container left whose log went another way than by its removal here.
///
/// # Errors
/// The reason why they cannot be looked at.
async fn remove_dead_links(files: &dyn PodFiles, pods: &[Arc<RuntimePod>]) -> Result<(), String> {
    let containers = pods.iter().flat_map(|pod| &pod.containers);
    let live = containers.filter(|one| one.state != ContainerState::Exited).map(|one| one.id.clone()).collect();
    let links = files.remove_dead_links(&live).await.map_err(|error| error.to_string())?;
    if links > 0 {
        tracing::debug!(links, "dead links to logs removed");
    }
    Ok(())
}

/// Removes what it can; what it cannot does not hold up the rest, and is for the log alone, as upstream: the next pass
/// tries again.
async fn remove(args: &Args, pods: &[Arc<RuntimePod>], garbage: Garbage) -> Removed {
    let mut removed = Removed::default();
    for (uid, id) in &garbage.containers {
        let pod = pods.iter().find(|pod| pod.uid == *uid).map(|pod| &**pod);
        // A container that the runtime lost track of may still run (CRI-20).
        let lost = |one: &RuntimeContainer| one.id == *id && one.state == ContainerState::Unknown;
        if pod.is_some_and(|pod| pod.containers.iter().any(lost)) {
            tracing::info!(container = %id, "Container is in unknown state, try killing it before removal");
            if let Err(error) = args.runtime.stop_container(id, STOP_GRACE_MIN).await {
                tracing::error!(pod = %uid, container = %id, %error, "Failed to stop container");
                continue;
            }
        }
        match remove_container(&*args.runtime, &*args.files, pod, id).await {
            Ok(()) => removed.containers += 1,
            Err(error) => tracing::error!(pod = %uid, container = %id, %error, "Failed to remove container"),
        }
    }
    for (uid, id) in &garbage.sandboxes {
        let runtime = &args.runtime;
        let gone = match runtime.stop_pod_sandbox(id).await {
            Ok(()) => runtime.remove_pod_sandbox(id).await,
            Err(error) => Err(error),
        };
        match gone {
            Ok(()) => removed.sandboxes += 1,
            Err(error) => tracing::error!(pod = %uid, sandbox = %id, %error, "Failed to remove sandbox"),
        }
    }
    let touched: BTreeSet<PodUid> = garbage
        .containers
        .iter()
        .map(|(uid, _)| uid)
        .chain(garbage.sandboxes.iter().map(|(uid, _)| uid))
        .cloned()
        .collect();
    for uid in touched {
        // The removal is seen at once, not at the next relist.
        let _ = args.pleg.tell(Cause::outside("garbage"), PlegMsg::Inspect(uid));
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::kit::actor::spawn;
    use crate::actors::node::tests::{PlayedAgent, played_agent, seconds};
    use crate::actors::played_api::ObjectServer;
    use crate::actors::wiring::start_alone;
    use crate::logic::model::ids::FullName;
    use crate::logic::model::time::Stamp;
    use crate::messages::root::Child;
    use crate::platform::pods::pod_files::LinuxPodFiles;

    /// A collector over a runtime that removes nothing; links to logs are in the folder of this name.
    fn played(links: &str) -> PlayedAgent {
        let links = links.to_owned();
        let played = played_agent(ObjectServer::default().api(), move |_, adapters| {
            adapters.pods.files =
                Arc::new(LinuxPodFiles::new("/nowhere".as_ref(), "/nowhere/logs".into(), Some(links.into())));
        });
        start_alone(Child::EventRecorder, &played.agent);
        start_alone(Child::Pleg, &played.agent);
        start_alone(Child::ContainerGc, &played.agent);
        played
    }

    /// An instance of one container that has ended.
    fn dead(id: &str) -> RuntimeContainer {
        RuntimeContainer::sample(id, "c", ContainerState::Exited)
    }

    /// CRI-20: what cannot be removed is for the log; what keeps the collector from looking is an Event of the node.
    #[tokio::test(start_paused = true)]
    async fn only_a_look_that_fails_is_an_event() {
        let calm = played("/nowhere/links");
        let pod = RuntimePod::empty(PodUid::from("web"), FullName::new("web", "ns"), Stamp(1));
        let containers = ["c-3", "kept-2", "kept-1"].map(dead).into();
        let surplus = ContainerGcMsg::Surplus(Arc::new(RuntimePod { containers, ..pod }));
        calm.agent.directory.container_gc.tell(Cause::outside("test"), surplus).expect("has room");
        seconds(70.0).await;
        assert_eq!(calm.runtime().calls("RemoveContainer"), ["RemoveContainer kept-2", "RemoveContainer kept-1"]);
        assert_eq!(calm.node_events().await, Vec::<String>::new());
        let blind = played(&format!("/{}", "x".repeat(300)));
        seconds(70.0).await;
        let told = blind.node_events().await;
        assert!(told[0].starts_with("ContainerGCFailed: remove dead links /xxx"), "{told:?}");
    }

    /// Knows of no pods.
    struct NoPods;

    impl Actor for NoPods {
        const KIND: &'static str = "PodManager";
        type Msg = PodManagerMsg;
        type Args = ();

        fn begin((): (), _: &mut Context<PodManagerMsg>) -> Self {
            Self
        }

        fn receive(&mut self, _: PodManagerMsg, _: &mut Context<PodManagerMsg>) {}
    }

    /// CRI-20, EVI-30: whoever asks during a pass is answered by the next one: what ended meanwhile is removed, too.
    #[tokio::test(start_paused = true)]
    async fn an_asker_during_a_pass_gets_a_pass_of_its_own() {
        let played = played("/nowhere/links");
        spawn::<NoPods>(&played.agent.directory.pod_manager, (), None);
        let gc = &played.agent.directory.container_gc;
        let asked = async || {
            let limit = Duration::from_secs(60);
            gc.ask(Cause::outside("test"), limit, ContainerGcMsg::RemoveAllUnused)
                .await
                .expect("answered")
                .expect_err("nobody says which pods there are");
        };
        futures_util::future::join(asked(), asked()).await;
        seconds(1.0).await;
        let looks = played.agent.trace.turns(|turn| ["Unfinished", "Known"].contains(&turn.message));
        let looks: Vec<&str> = looks.iter().map(|turn| turn.message).collect();
        assert_eq!(looks, ["Unfinished", "Unfinished"], "both passes are for a node that runs short");
    }

    /// EVI-30: an asker hears of success only where all was looked at: neither without `Pleg`, nor without `PodManager`.
    #[tokio::test(start_paused = true)]
    async fn nobody_hears_that_all_is_removed_while_it_is_not_known_what_there_is() {
        for (has_pleg, problem) in [(false, "what the runtime holds"), (true, "which pods there are to be")] {
            let agent = played_agent(ObjectServer::default().api(), |_, _| {}).agent;
            start_alone(Child::ContainerGc, &agent);
            if has_pleg {
                start_alone(Child::Pleg, &agent);
            }
            let (gc, limit) = (&agent.directory.container_gc, Duration::from_secs(60));
            let asked = gc.ask(Cause::outside("test"), limit, ContainerGcMsg::RemoveAllUnused).await;
            let outcome = asked.expect("answered");
            assert!(outcome.as_ref().is_err_and(|why| why.contains(problem)), "{outcome:?}");
        }
    }

    /// CRI-20: what the runtime lost track of may still run, and is stopped before it is removed; or stays, if that fails.
    #[tokio::test(start_paused = true)]
    async fn an_unknown_container_is_stopped_before_it_is_removed() {
        let played = played("/nowhere/links");
        let of = |id: &str, state| RuntimeContainer { state, ..dead(id) };
        let kept = [("newest", ContainerState::Exited), ("dead", ContainerState::Exited)];
        let all = kept.into_iter().chain([("lost", ContainerState::Unknown), ("web", ContainerState::Unknown)]);
        let pod = RuntimePod::empty(PodUid::from("web"), FullName::new("web", "ns"), Stamp(1));
        let pod = RuntimePod { containers: all.map(|(id, state)| of(id, state)).collect(), ..pod };
        let surplus = ContainerGcMsg::Surplus(Arc::new(pod));
        played.agent.directory.container_gc.tell(Cause::outside("test"), surplus).expect("has room");
        seconds(1.0).await;
        let mut calls = played.runtime().calls("StopContainer");
        calls.sort();
        assert_eq!(calls, ["StopContainer lost 2", "StopContainer web 2"]);
        let of_web: Vec<String> = played.runtime().calls("").into_iter().filter(|call| call.contains(" web")).collect();
        assert_eq!(of_web, ["StopContainer web 2", "RemoveContainer web"]);
        let mut removed = played.runtime().calls("RemoveContainer");
        removed.sort();
        assert_eq!(removed, ["RemoveContainer dead", "RemoveContainer web"], "the other could not be stopped");
    }
}
