//! Whether the runtime can be worked with, as the agent last saw it.

use std::time::Duration;

use super::time::Moment;

/// A runtime that has not answered for longer cannot be used (upstream's runtime state threshold).
pub const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A call to the runtime that is open for longer is named to whoever waits for it (PAIN-02).
pub const CALL_HANGS_AFTER: Duration = Duration::from_secs(30);

/// Whether a call of this name that is open for so long hangs. A pull takes its time and tells how far it is, a stop has
/// the container's own, a command runs for as long as its probe or hook lets it, and events are waited for.
pub fn hangs(method: &str, open: Duration, grace: Duration) -> bool {
    let own = match method {
        "PullImage" | "ExecSync" | "GetContainerEvents" => return false,
        "StopContainer" | "StopPodSandbox" => grace,
        _ => Duration::ZERO,
    };
    open > CALL_HANGS_AFTER.saturating_add(own)
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Default, serde::Serialize)]
pub struct RuntimeHealth {
    /// Why the runtime cannot be used; `None` when it can.
    pub runtime_problem: Option<String>,
    /// Why pods have no network; `None` when they have. As upstream words it after `network is not ready: `.
    pub network_problem: Option<String>,
    /// Whether the runtime's default handler can make mounts read-only with all that is mounted below them.
    pub recursive_read_only: bool,
    /// Whether the runtime keeps to `supplementalGroupsPolicy`; `None` until a ready runtime said so.
    pub groups_policy: Option<bool>,
}

/// A condition of the runtime: whether it holds, the reason, the message.
pub type Condition = (bool, String, String);

/// Before the first answer.
pub fn not_yet_known() -> RuntimeHealth {
    RuntimeHealth {
        runtime_problem: Some("container runtime status check may not have completed yet".to_owned()),
        ..RuntimeHealth::default()
    }
}

/// Judges one answer: the conditions `RuntimeReady` and `NetworkReady`, or why there was none. A silence is borne for
/// [`SILENCE_MAX`] with what was known `before`.
pub fn judge(
    answer: Result<[Option<Condition>; 2], String>,
    last_good: Option<Moment>,
    now: Moment,
    before: Option<&RuntimeHealth>,
) -> RuntimeHealth {
    match answer {
        Ok([runtime, network]) => RuntimeHealth {
            runtime_problem: problem("container runtime not ready: ", "RuntimeReady", runtime),
            network_problem: problem("container runtime network not ready: ", "NetworkReady", network),
            ..RuntimeHealth::default()
        },
        Err(error) => match (last_good, before) {
            (Some(last), Some(before)) if now.since(last) <= SILENCE_MAX => before.clone(),
            _ => RuntimeHealth {
                runtime_problem: Some(format!("container runtime is down: {error}")),
                network_problem: before.and_then(|before| before.network_problem.clone()),
                ..RuntimeHealth::default()
            },
        },
    }
}

/// A condition as upstream prints it (NODE-36, NODE-37); one that the runtime does not tell is `<nil>` there.
fn problem(prefix: &str, kind: &str, condition: Option<Condition>) -> Option<String> {
    match condition {
        Some((true, _, _)) => None,
        Some((false, reason, message)) => Some(format!("{prefix}{kind}=false reason:{reason} message:{message}")),
        None => Some(format!("{prefix}<nil>")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds() -> Option<Condition> {
        Some((true, String::new(), String::new()))
    }

    /// PAIN-02.
    #[test]
    fn a_call_hangs_when_it_takes_longer_than_it_may() {
        let (short, long) = (Duration::from_secs(30), Duration::from_secs(61));
        for (method, open, expected) in [
            ("StartContainer", short, false),
            ("StartContainer", long, true),
            ("StopContainer", long, true),
            ("PullImage", long, false),
            ("ExecSync", long, false),
        ] {
            assert_eq!(hangs(method, open, Duration::from_secs(30)), expected, "{method} {open:?}");
        }
        assert!(!hangs("StopContainer", long, Duration::from_secs(31)));
    }

    #[test]
    fn a_ready_runtime_has_no_problem() {
        assert_eq!(judge(Ok([holds(), holds()]), None, Moment(0), None), RuntimeHealth::default());
    }

    /// NODE-36, NODE-37.
    #[test]
    fn what_is_missing_or_false_is_named() {
        let network = Some((false, "NetworkPluginNotReady".to_owned(), "no networks found".to_owned()));
        let health = judge(Ok([None, network]), None, Moment(0), None);
        assert_eq!(health.runtime_problem.as_deref(), Some("container runtime not ready: <nil>"));
        let expected = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                        message:no networks found";
        assert_eq!(health.network_problem.as_deref(), Some(expected));
    }

    /// NODE-39.
    #[test]
    fn a_short_silence_changes_nothing_and_a_long_one_does() {
        let well = RuntimeHealth::default();
        let at = |seconds: u64| Moment(0).plus(Duration::from_secs(seconds));
        let silent = |seconds| judge(Err("gone".to_owned()), Some(at(0)), at(seconds), Some(&well));
        assert_eq!(silent(30), well);
        assert_eq!(silent(31).runtime_problem.as_deref(), Some("container runtime is down: gone"));
        assert!(judge(Err("gone".to_owned()), None, at(0), None).runtime_problem.is_some());
    }
}
