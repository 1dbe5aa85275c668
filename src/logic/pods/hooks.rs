//! Lifecycle hooks and the end of containers: what a hook does, how long a container has to end, and who ends before whom
//! (POD-23, CRI-19).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};

use super::container_actions::{KillContainer, KillReason};
use crate::logic::model::restart_policy::is_sidecar;
use crate::logic::model::runtime_pod::{ContainerState, RuntimePod};
use crate::logic::probes::probe_target::{self, HttpProbe};

/// The shortest time that a container is given to end (POD-08): even one whose hook used up its grace period is asked
/// first and killed then.
pub const STOP_GRACE_MIN: Duration = Duration::from_secs(2);
/// A hook's request that nothing else bounds: as upstream, it may take as long as it takes.
pub const UNBOUNDED: Duration = Duration::from_secs(24 * 3600);

/// The action of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAction {
    /// Run a command in the container, taken as it is written.
    Exec(Vec<String>),
    /// `GET` a page.
    Http(HttpProbe),
    /// Wait.
    Sleep(Duration),
}

/// The action of the hook. `address` is the pod's, for a request that names no host.
///
/// # Errors
/// Why it cannot be done: `tcpSocket` is none of a hook's actions, though the API has it.
pub fn action(container: &Container, handler: &LifecycleHandler, address: Option<&str>) -> Result<HookAction, String> {
    if let Some(exec) = &handler.exec {
        return Ok(HookAction::Exec(exec.command.clone().unwrap_or_default()));
    }
    if let Some(get) = &handler.http_get {
        let host = get.host.as_deref().filter(|host| !host.is_empty()).or(address);
        let host = host.ok_or("failed to find networking container: the pod has no address")?;
        return probe_target::http(container, get, host, UNBOUNDED).map(HookAction::Http);
    }
    if let Some(sleep) = &handler.sleep {
        return Ok(HookAction::Sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))));
    }
    Err("invalid handler: only exec, httpGet and sleep are actions of a hook".to_owned())
}

/// Why a container does not run whose postStart hook failed: upstream's words. `pod` is `name_namespace(uid)`; `output` is
/// what a command printed, bounded.
pub fn failure_message(
    container: &Container,
    handler: &LifecycleHandler,
    pod: &str,
    error: &str,
    output: &str,
) -> String {
    let name = &container.name;
    if let Some(exec) = &handler.exec {
        let command = exec.command.as_deref().unwrap_or_default().join(" ");
        return format!(
            "Exec lifecycle hook ([{command}]) for Container {name:?} in Pod {pod:?} failed - error: {error}, message: \
             {output:?}"
        );
    }
    if let Some(get) = &handler.http_get {
        let path = get.path.as_deref().unwrap_or_default();
        return format!("HTTP lifecycle hook ({path}) for Container {name:?} in Pod {pod:?} failed - error: {error}");
    }
    format!("Cannot run handler: {error}")
}

/// The container's hook before its end.
pub fn pre_stop(container: &Container) -> Option<&LifecycleHandler> {
    container.lifecycle.as_ref()?.pre_stop.as_ref()
}

/// The container's hook after its start.
pub fn post_start(container: &Container) -> Option<&LifecycleHandler> {
    container.lifecycle.as_ref()?.post_start.as_ref()
}

/// The container of this name, if it is one that may have hooks.
pub fn named<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.containers.iter().chain(spec.init_containers.iter().flatten()).find(|container| container.name == name)
}

/// The runtime's objects, as others see them while these containers are being started. A container that was only made
/// counts as nothing yet, which spares the API server a status between those that say something. A container whose
/// postStart hook runs is left out: its earlier status stands until the hook has ended (POD-23, POD-28).
pub fn without_started<'a>(
    pod: &Pod,
    seen: &Arc<RuntimePod>,
    starting: impl Iterator<Item = &'a str>,
) -> Arc<RuntimePod> {
    let mut shown = Arc::clone(seen);
    for name in starting {
        let Some(newest) = shown.containers.iter().position(|container| container.name == name) else { continue };
        let hook = || named(pod, name).is_some_and(|one| post_start(one).is_some());
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

/// The signal that the container is to be stopped with; `None` for the image's own (KEP-4960, POD-24). `enabled` is the
/// gate `ContainerStopSignals`: as upstream, what a pod names while it is off counts for nothing.
pub fn stop_signal(container: &Container, enabled: bool) -> Option<String> {
    let named = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.clone());
    named.filter(|_| enabled)
}

/// The grace period that a failed probe names for the container that it ends (PRB-18); `None` leaves the pod's own.
pub fn probe_grace(pod: &Pod, kill: &KillContainer) -> Option<Duration> {
    let spec = pod.spec.as_ref()?;
    if pod.metadata.deletion_grace_period_seconds.is_some() {
        return None;
    }
    let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let container = all.find(|container| container.name == kill.name)?;
    let probe = match kill.reason {
        KillReason::LivenessProbe => container.liveness_probe.as_ref(),
        KillReason::StartupProbe => container.startup_probe.as_ref(),
        _ => None,
    };
    let seconds = probe?.termination_grace_period_seconds?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

/// The rest of a grace period after `spent`, of which whole seconds count, as upstream.
pub fn left_of(grace: Duration, spent: Duration) -> Duration {
    grace.saturating_sub(Duration::from_secs(spent.as_secs()))
}

/// The containers that each running container waits for before it is asked to stop (upstream's `terminationOrdering`,
/// KEP-753): a sidecar waits for all regular containers and for the sidecar after it. Others wait for nobody. By name;
/// nobody waits for containers that do not run.
pub fn stop_order(pod: &Pod, running: &BTreeSet<&str>) -> BTreeMap<String, Vec<String>> {
    let Some(spec) = pod.spec.as_ref() else { return BTreeMap::new() };
    let runs = |container: &&Container| running.contains(container.name.as_str());
    let regular: Vec<String> = spec.containers.iter().filter(runs).map(|container| container.name.clone()).collect();
    let mut order = BTreeMap::new();
    let mut next: Option<&Container> = None;
    for sidecar in spec.init_containers.iter().flatten().filter(|init| is_sidecar(init)).filter(runs).rev() {
        let mut before = regular.clone();
        before.extend(next.map(|next| next.name.clone()));
        order.insert(sidecar.name.clone(), before);
        next = Some(sidecar);
    }
    order
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{
        ExecAction, HTTPGetAction, Lifecycle, PodSpec, Probe, SleepAction, TCPSocketAction,
    };
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

    use super::*;
    use crate::logic::model::ids::{ContainerId, FullName};
    use crate::logic::model::runtime_pod::RuntimeContainer;
    use crate::logic::model::time::Stamp;
    use crate::logic::pods::pod_containers::ContainerKind;

    fn container(name: &str, restart_policy: Option<&str>) -> Container {
        Container { name: name.to_owned(), restart_policy: restart_policy.map(str::to_owned), ..Container::default() }
    }

    fn pod(init: Vec<Container>, containers: Vec<Container>) -> Pod {
        let spec = PodSpec { containers, init_containers: Some(init), ..PodSpec::default() };
        Pod { spec: Some(spec), ..Pod::default() }
    }

    /// POD-23.
    #[test]
    fn a_hook_is_a_command_a_request_or_a_wait() {
        let it = container("c", None);
        let exec = LifecycleHandler {
            exec: Some(ExecAction { command: Some(vec!["a".to_owned(), "$(B)".to_owned()]) }),
            ..LifecycleHandler::default()
        };
        let expected = HookAction::Exec(vec!["a".to_owned(), "$(B)".to_owned()]);
        assert_eq!(action(&it, &exec, None), Ok(expected), "taken as it is written");
        let get = |host: Option<&str>| LifecycleHandler {
            http_get: Some(HTTPGetAction {
                host: host.map(str::to_owned),
                port: IntOrString::Int(80),
                ..HTTPGetAction::default()
            }),
            ..LifecycleHandler::default()
        };
        for (host, address, expected) in [
            (None, Some("10.0.0.9"), Some("10.0.0.9")),
            (Some("h"), Some("10.0.0.9"), Some("h")),
            (Some("h"), None, Some("h")),
            (None, None, None),
        ] {
            let found = match action(&it, &get(host), address) {
                Ok(HookAction::Http(probe)) => Some(probe.host),
                _ => None,
            };
            assert_eq!(found.as_deref(), expected, "{host:?} {address:?}");
        }
        for (seconds, expected) in [(0, 0), (7, 7), (-1, 0)] {
            let sleep = LifecycleHandler { sleep: Some(SleepAction { seconds }), ..LifecycleHandler::default() };
            assert_eq!(action(&it, &sleep, None), Ok(HookAction::Sleep(Duration::from_secs(expected))));
        }
        let tcp = LifecycleHandler { tcp_socket: Some(TCPSocketAction::default()), ..LifecycleHandler::default() };
        assert!(action(&it, &tcp, None).is_err_and(|error| error.starts_with("invalid handler")));
    }

    #[test]
    fn a_failure_is_told_in_upstreams_words() {
        let exec = LifecycleHandler {
            exec: Some(ExecAction { command: Some(vec!["sh".to_owned(), "-c".to_owned()]) }),
            ..LifecycleHandler::default()
        };
        assert_eq!(
            failure_message(&container("c", None), &exec, "p_ns(u)", "command 'sh -c' exited with 1: no", "out\n"),
            "Exec lifecycle hook ([sh -c]) for Container \"c\" in Pod \"p_ns(u)\" failed - error: command 'sh -c' \
             exited with 1: no, message: \"out\\n\""
        );
    }

    /// PRB-18.
    #[test]
    fn a_failed_probe_may_have_a_grace_period_of_its_own() {
        let probe = |seconds| Some(Probe { termination_grace_period_seconds: seconds, ..Probe::default() });
        let with = Container {
            liveness_probe: probe(Some(10)),
            startup_probe: probe(None),
            readiness_probe: probe(Some(7)),
            ..container("c", None)
        };
        let mut pod = pod(vec![], vec![with]);
        let kill = |reason| KillContainer {
            id: ContainerId::from("i"),
            name: "c".to_owned(),
            kind: ContainerKind::Regular,
            message: String::new(),
            reason,
        };
        for (reason, expected) in [
            (KillReason::LivenessProbe, Some(10)),
            (KillReason::StartupProbe, None),
            (KillReason::DefinitionChanged, None),
            (KillReason::Unknown, None),
        ] {
            assert_eq!(probe_grace(&pod, &kill(reason)), expected.map(Duration::from_secs), "{reason:?}");
        }
        pod.metadata.deletion_grace_period_seconds = Some(3);
        assert_eq!(probe_grace(&pod, &kill(KillReason::LivenessProbe)), None, "the pod's deletion counts");
    }

    /// POD-24.
    #[test]
    fn a_stop_signal_is_behind_its_gate() {
        let named = Container {
            lifecycle: Some(Lifecycle { stop_signal: Some("SIGUSR1".to_owned()), ..Lifecycle::default() }),
            ..container("c", None)
        };
        assert_eq!(stop_signal(&named, true), Some("SIGUSR1".to_owned()));
        assert_eq!(stop_signal(&named, false), None);
        assert_eq!(stop_signal(&container("c", None), true), None);
    }

    #[test]
    fn whole_seconds_are_taken_off_a_grace_period() {
        for (grace, spent, left) in [(30, 4_999, 26), (30, 0, 30), (3, 3_000, 0), (3, 9_000, 0)] {
            let left = Duration::from_secs(left);
            assert_eq!(left_of(Duration::from_secs(grace), Duration::from_millis(spent)), left, "{grace} {spent}");
        }
    }

    /// CRI-19.
    #[test]
    fn sidecars_end_last_and_backwards() {
        let init = vec![
            container("first", Some("Always")),
            container("once", None),
            container("second", Some("Always")),
            container("third", Some("Always")),
        ];
        let pod = pod(init, vec![container("a", None), container("b", None)]);
        let order = |running: &[&str]| -> Vec<(String, String)> {
            let running = running.iter().copied().collect();
            stop_order(&pod, &running).into_iter().map(|(name, before)| (name, before.join(","))).collect()
        };
        let expected = |rows: &[(&str, &str)]| -> Vec<(String, String)> {
            rows.iter().map(|(name, before)| ((*name).to_owned(), (*before).to_owned())).collect()
        };
        assert_eq!(
            order(&["first", "second", "third", "a", "b"]),
            expected(&[("first", "a,b,second"), ("second", "a,b,third"), ("third", "a,b")])
        );
        assert_eq!(order(&["first", "third", "b"]), expected(&[("first", "b,third"), ("third", "b")]));
        assert_eq!(order(&["once", "first"]), expected(&[("first", "")]));
        assert_eq!(order(&["a", "b"]), []);
    }

    /// POD-23, POD-28: the status of a container stands until its postStart hook has ended.
    #[test]
    fn a_container_that_is_being_started_is_not_shown_as_running() {
        let hook = Lifecycle {
            post_start: Some(LifecycleHandler { exec: Some(ExecAction::default()), ..LifecycleHandler::default() }),
            ..Lifecycle::default()
        };
        let hooked = Container { lifecycle: Some(hook), ..container("hooked", None) };
        let pod = pod(vec![], vec![hooked, container("plain", None)]);
        for (name, state, is_shown) in [
            ("plain", ContainerState::Created, false),
            ("plain", ContainerState::Running, true),
            ("hooked", ContainerState::Created, false),
            ("hooked", ContainerState::Running, false),
            ("hooked", ContainerState::Exited, true),
        ] {
            let mut seen = RuntimePod::empty("u".into(), FullName::new("web", "default"), Stamp(1));
            seen.containers = vec![RuntimeContainer::sample("c", name, state)];
            let shown = without_started(&pod, &Arc::new(seen), [name].into_iter());
            assert_eq!(!shown.containers.is_empty(), is_shown, "{name} {state:?}");
        }
    }
}
