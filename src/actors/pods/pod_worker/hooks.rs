//! A pod worker's hooks: what containers asked for after their start and before their end (POD-23).

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};

use super::jobs::JobSite;
use super::stopping::Stop;
use crate::actors::kit::trace::Cause;
use crate::actors::probes::prober::output;
use crate::cri::ExecOutcome;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::ContainerId;
use crate::logic::model::runtime_pod::{ContainerState, RuntimePod, RuntimeSandbox};
use crate::logic::pods::hooks::{self, HookAction};
use crate::logic::pods::pod_lifecycle::{POST_START_HOOK_ERROR, StartFailure};
use crate::messages::event_recorder::EventSubject;
use crate::platform::network::network_probe::HookAnswer;
use crate::platform::observer::Occurrence;

/// Why a hook failed.
struct HookFailure {
    error: String,
    /// What its command printed, bounded.
    output: String,
}

impl From<String> for HookFailure {
    fn from(error: String) -> Self {
        Self { error, output: String::new() }
    }
}

/// A preStop hook that goes on although its time is over.
pub(super) type LateHook<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

impl JobSite {
    /// Runs the container's postStart hook, where it has one; the container has not started before it has ended. One that
    /// fails ends the container.
    pub(super) async fn post_start(
        &self,
        pod: &Pod,
        name: &str,
        id: &ContainerId,
        sandbox: &RuntimeSandbox,
        subject: &EventSubject,
        cause: &Cause,
    ) -> Result<(), StartFailure> {
        let Some(container) = named(pod, name) else { return Ok(()) };
        let Some(handler) = hooks::post_start(container) else { return Ok(()) };
        let address = self.address_of(sandbox);
        let Err(failure) = self.run_hook(container, handler, id, address.as_deref(), cause).await else {
            return Ok(());
        };
        // The Event tells nothing of what the hook said: that may be secret, and the pod's status is more guarded.
        self.tell(cause, subject.warning(EventReason::FailedPostStartHook, "PostStartHook failed"));
        let seconds = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        let grace =
            seconds.and_then(|seconds| u64::try_from(seconds).ok()).map_or(hooks::STOP_GRACE_MIN, Duration::from_secs);
        let stop = Stop { id: id.clone(), name: name.to_owned(), message: "FailedPostStartHook".to_owned() };
        if let Err(error) = self.stop_one(Some(pod), &stop, grace, address.as_deref(), None, cause).await {
            tracing::warn!(pod = %self.full_name, container = name, %error, "container with a failed hook not stopped");
        }
        let pod = format!("{}({})", self.full_name, self.uid);
        let message = hooks::failure_message(container, handler, &pod, &failure.error, &failure.output);
        Err(StartFailure { reason: POST_START_HOOK_ERROR, message })
    }

    /// Runs the container's preStop hook, where it has one. Waits for it for at most `grace`; gives how long it took, and the
    /// hook where it goes on. One that fails changes nothing but that it is told.
    pub(super) async fn pre_stop<'a>(
        &'a self,
        container: &'a Container,
        id: &'a ContainerId,
        grace: Duration,
        address: Option<&'a str>,
        subject: &'a EventSubject,
        cause: &'a Cause,
    ) -> (Duration, Option<LateHook<'a>>) {
        let Some(handler) = hooks::pre_stop(container).filter(|_| !grace.is_zero()) else {
            return (Duration::ZERO, None);
        };
        let clock = Arc::clone(self.agent.trace.clock());
        let began = clock.uptime();
        let name = &container.name;
        let mut hook: LateHook<'a> = Box::pin(async move {
            if let Err(failure) = self.run_hook(container, handler, id, address, cause).await {
                tracing::warn!(pod = %self.full_name, container = name, error = failure.error, "preStop hook failed");
                self.tell(cause, subject.warning(EventReason::FailedPreStopHook, "PreStopHook failed"));
            }
        });
        let is_late = tokio::time::timeout(grace, &mut hook).await.is_err();
        if is_late {
            tracing::warn!(pod = %self.full_name, container = name, ?grace, "preStop hook not done within its grace period");
        }
        // A wait has no process that could go on.
        let is_cut_short = is_late && handler.sleep.is_some();
        if is_cut_short {
            self.agent.happened(Occurrence::SleepCutShort);
        }
        (clock.uptime().saturating_sub(began), (is_late && !is_cut_short).then_some(hook))
    }

    /// Where a hook's request goes that names no host: to the pod, on the node's network to the node.
    pub(super) fn address_of(&self, sandbox: &RuntimeSandbox) -> Option<String> {
        let host = self.host.primary().filter(|_| sandbox.host_network);
        sandbox.ips.first().cloned().or_else(|| host.map(|ip| ip.to_string()))
    }

    async fn run_hook(
        &self,
        container: &Container,
        handler: &LifecycleHandler,
        id: &ContainerId,
        address: Option<&str>,
        cause: &Cause,
    ) -> Result<(), HookFailure> {
        let adapters = &self.agent.adapters;
        match hooks::action(container, handler, address)? {
            HookAction::Sleep(time) => tokio::time::sleep(time).await,
            HookAction::Exec(command) => {
                let ended = adapters.runtime.exec_sync(id, &command, Duration::ZERO).await;
                let ended = ended.map_err(|error| HookFailure::from(error.to_string()))?;
                if ended.exit_code != 0 {
                    let printed = output(&ended);
                    let said = output(&ExecOutcome { stdout: vec![], ..ended.clone() });
                    let error = format!("command '{}' exited with {}: {said}", command.join(" "), ended.exit_code);
                    return Err(HookFailure { error, output: printed });
                }
            }
            HookAction::Http(request) => {
                let server = format!("{}:{}", request.host, request.port);
                if adapters.prober.hook(request).await? == HookAnswer::OverPlainHttp {
                    let message = format!(
                        "request to HTTPS lifecycle hook {server} got HTTP response, retry with HTTP succeeded"
                    );
                    self.tell(cause, self.subject(String::new()).warning(EventReason::LifecycleHTTPFallback, message));
                    self.agent.happened(Occurrence::HookFellBack);
                }
            }
        }
        Ok(())
    }
}

/// The container of this name.
pub(super) fn named<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.containers.iter().chain(spec.init_containers.iter().flatten()).find(|container| container.name == name)
}

/// What the runtime holds, as it is shown while these containers are being started: one that is only made is nothing yet,
/// which spares the API server a status between those that say something. One whose postStart hook runs is no more: what
/// was told of its container stands until the hook has ended (POD-23, POD-28).
pub(super) fn without_started<'a>(
    pod: &Pod,
    seen: &Arc<RuntimePod>,
    starting: impl Iterator<Item = &'a str>,
) -> Arc<RuntimePod> {
    let mut shown = Arc::clone(seen);
    for name in starting {
        let Some(newest) = shown.containers.iter().position(|container| container.name == name) else { continue };
        let hook = || named(pod, name).is_some_and(|one| hooks::post_start(one).is_some());
        let is_nothing_yet = match shown.containers[newest].state {
            ContainerState::Created => true,
            ContainerState::Running => hook(),
            ContainerState::Exited | ContainerState::Unknown => false,
        };
        if is_nothing_yet {
            Arc::make_mut(&mut shown).containers.remove(newest);
        }
    }
    shown
}
