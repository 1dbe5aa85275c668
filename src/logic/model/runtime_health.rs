//! Whether the runtime can be worked with, as the agent last saw it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::backoff::go_duration;
use super::time::Moment;

/// A runtime that has not answered for so long cannot be used (NODE-38; upstream's runtime state threshold).
pub const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A runtime that has not listed its pods for so long cannot be used (NODE-38; upstream's relist threshold).
pub const RELIST_AGE_MAX: Duration = Duration::from_secs(180);

/// How long the first list of pods may take: a node that was ready does not become unready because its agent was started
/// again (PAIN-16). Upstream bears nothing here.
pub const FIRST_RELIST_MAX: Duration = Duration::from_secs(10);

/// A call to the runtime that is open for longer is named to whoever waits for it (PAIN-02).
pub const CALL_HANGS_AFTER: Duration = Duration::from_secs(30);

/// Whether a call of this name that is open for so long hangs. A pull takes its time and reports how far it is, and a stop
/// has the container's own time. A command runs for as long as its probe or hook lets it, and the stream of events has no
/// limit.
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
    /// Whether the runtime's default handler can make mounts read-only with all that is mounted below them; `None` until a
    /// ready runtime said so.
    pub recursive_read_only: Option<bool>,
    /// Whether the runtime keeps to `supplementalGroupsPolicy`; `None` until a ready runtime said so.
    pub groups_policy: Option<bool>,
    /// Whether the runtime can do user namespaces on the host's network; `None` until a ready runtime said so.
    pub host_network_users: Option<bool>,
    /// The runtime's handlers by name, and whether each can do user namespaces; none until a ready runtime said so.
    pub user_namespaces: Arc<BTreeMap<String, bool>>,
}

/// A condition of the runtime: whether it holds, the reason, the message.
pub type Condition = (bool, String, String);

/// The message about the network before the first answer.
pub const NETWORK_UNKNOWN: &str = "network state unknown";

/// Before the first answer.
pub fn not_yet_known() -> RuntimeHealth {
    RuntimeHealth {
        runtime_problem: Some("container runtime status check may not have completed yet".to_owned()),
        ..RuntimeHealth::default()
    }
}

/// Judges one answer: the conditions `RuntimeReady` and `NetworkReady`, or why there was none. A silence, of so long by now,
/// is borne for [`SILENCE_MAX`] with what was known `before`; `None` is that of a runtime that was never heard.
pub fn judge(
    answer: Result<[Option<Condition>; 2], String>,
    silent: Option<Duration>,
    before: Option<&RuntimeHealth>,
) -> RuntimeHealth {
    let why = match answer {
        Ok([runtime, network]) => {
            return RuntimeHealth {
                runtime_problem: problem("container runtime not ready: ", "RuntimeReady", runtime),
                network_problem: problem("container runtime network not ready: ", "NetworkReady", network),
                ..RuntimeHealth::default()
            };
        }
        Err(why) => why,
    };
    match (silent, before) {
        (Some(silent), Some(before)) if silent < SILENCE_MAX => before.clone(),
        (Some(_), before) => RuntimeHealth {
            runtime_problem: Some(format!("container runtime is down: {why}")),
            network_problem: before.and_then(|before| before.network_problem.clone()),
            ..RuntimeHealth::default()
        },
        (None, _) => RuntimeHealth {
            runtime_problem: not_yet_known().runtime_problem.map(|problem| format!("{problem}: {why}")),
            network_problem: Some(NETWORK_UNKNOWN.to_owned()),
            ..RuntimeHealth::default()
        },
    }
}

/// Upstream's message about a runtime that has not listed its pods for too long, and the reason (NODE-38). `age` is that
/// of the last list; `None` when there never was one.
pub fn relist_problem(age: Option<Duration>, why: &str) -> String {
    match age {
        Some(age) => {
            let (age, limit) = (go_duration(age), go_duration(RELIST_AGE_MAX));
            format!("PLEG is not healthy: pleg was last seen active {age} ago; threshold is {limit}: {why}")
        }
        None => format!("PLEG is not healthy: pleg has yet to be successful: {why}"),
    }
}

/// Why there is no answer, while a call is open since then. It names a point in time, not a span, so that one message is
/// enough.
pub fn no_answer(method: &str, open: Duration, now: Moment) -> String {
    let since = Moment(now.0.saturating_sub(i64::try_from(open.as_nanos()).unwrap_or(0)));
    format!("{method} has not answered since {}", since.to_timestamp())
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
        assert_eq!(judge(Ok([holds(), holds()]), None, None), RuntimeHealth::default());
    }

    /// NODE-36, NODE-37.
    #[test]
    fn what_is_missing_or_false_is_named() {
        let network = Some((false, "NetworkPluginNotReady".to_owned(), "no networks found".to_owned()));
        let health = judge(Ok([None, network]), None, None);
        assert_eq!(health.runtime_problem.as_deref(), Some("container runtime not ready: <nil>"));
        let expected = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                        message:no networks found";
        assert_eq!(health.network_problem.as_deref(), Some(expected));
    }

    /// NODE-38, NODE-39.
    #[test]
    fn a_short_silence_changes_nothing_and_a_long_one_does() {
        let well = RuntimeHealth::default();
        let silent = |silent: Duration| judge(Err("gone".to_owned()), Some(silent), Some(&well));
        assert_eq!(silent(SILENCE_MAX - Duration::from_millis(1)), well);
        assert_eq!(silent(SILENCE_MAX).runtime_problem.as_deref(), Some("container runtime is down: gone"));
        let never = judge(Err("gone".to_owned()), None, None);
        let expected = "container runtime status check may not have completed yet: gone";
        assert_eq!(never.runtime_problem.as_deref(), Some(expected));
        assert_eq!(never.network_problem.as_deref(), Some("network state unknown"));
    }

    /// NODE-38: as Go writes durations.
    #[test]
    fn an_old_list_of_pods_is_told_in_upstreams_words() {
        let told = relist_problem(Some(Duration::from_millis(185_100)), "gone");
        assert_eq!(told, "PLEG is not healthy: pleg was last seen active 3m5.1s ago; threshold is 3m0s: gone");
        assert_eq!(relist_problem(None, "gone"), "PLEG is not healthy: pleg has yet to be successful: gone");
    }

    #[test]
    fn a_call_without_an_answer_is_named_with_its_beginning() {
        let now = Moment(1_767_225_660_000_000_000);
        let told = no_answer("Status", Duration::from_secs(60), now);
        assert_eq!(told, "Status has not answered since 2026-01-01T00:00:00Z");
    }
}
