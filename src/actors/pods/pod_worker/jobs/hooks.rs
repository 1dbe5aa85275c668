//! A pod worker's hooks: what containers asked for after their start and before their end (POD-23). Their runners are
//! beside.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};

use super::site::JobSite;
use crate::actors::kit::trace::Cause;
use crate::actors::probes::prober::output;
use crate::cri::ExecOutcome;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::ContainerId;
use crate::logic::pods::hooks::{self, HookAction};
use crate::messages::event_recorder::EventSubject;
use crate::platform::network::network_probe::HookAnswer;
use crate::platform::observer::Observation;

/// Why a hook failed.
pub(super) struct HookFailure {
    pub(super) error: String,
    /// The output of its command, bounded.
    pub(super) output: String,
}

impl From<String> for HookFailure {
    fn from(error: String) -> Self {
        Self { error, output: String::new() }
    }
}

/// A preStop hook that goes on although its time is over.
pub(super) type LateHook<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

impl JobSite {
    /// Runs the container's preStop hook, where it has one. Waits for it for at most `grace`; gives how long it took, and
    /// the hook where it goes on. One that fails changes nothing but an Event.
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
        let clock = Arc::clone(&self.tools.clock);
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
            self.tools.observe(Observation::SleepCutShort);
        }
        (clock.uptime().saturating_sub(began), (is_late && !is_cut_short).then_some(hook))
    }

    /// Runs a hook to its end.
    pub(super) async fn run_hook(
        &self,
        container: &Container,
        handler: &LifecycleHandler,
        id: &ContainerId,
        address: Option<&str>,
        cause: &Cause,
    ) -> Result<(), HookFailure> {
        let adapters = &self.tools.adapters;
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
                let answered = adapters.prober.hook(request).await;
                let answered = answered.map_err(|error| HookFailure::from(error.to_string()))?;
                if answered == HookAnswer::OverPlainHttp {
                    let message = format!(
                        "request to HTTPS lifecycle hook {server} got HTTP response, retry with HTTP succeeded"
                    );
                    self.tell(cause, self.subject(String::new()).warning(EventReason::LifecycleHTTPFallback, message));
                    self.tools.observe(Observation::HookFellBack);
                }
            }
        }
        Ok(())
    }
}
