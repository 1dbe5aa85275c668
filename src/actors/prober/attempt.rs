//! One round of a probe: its tries, against the runtime or over the network.

use std::sync::Arc;
use std::time::Duration;

use crate::actors::settings::Agent;
use crate::cri::{CriError, ExecOutcome};
use crate::logic::backoff::go_duration;
use crate::logic::go_text::quoted;
use crate::logic::ids::ContainerId;
use crate::logic::probe_target::ProbeTarget;
use crate::messages::prober::Round;
use crate::platform::network_probe::ProbeOutcome;

/// Tries of one round, while the probe itself cannot be made (PRB-08).
const TRIES_MAX: u32 = 3;
/// The most bytes of a command's output that are looked at (SEC-46).
const OUTPUT_BYTES_MAX: usize = 10 * 1024;

/// Tries up to three times, as long as the probe cannot be made.
pub(super) async fn make(agent: Arc<Agent>, container: ContainerId, target: Result<ProbeTarget, String>) -> Round {
    let target = match target {
        Ok(target) => target,
        Err(problem) => return Round { outcome: ProbeOutcome::Error(problem), timed_out: false },
    };
    let mut round = once(&agent, &container, &target).await;
    for _ in 1..TRIES_MAX {
        if !matches!(round.outcome, ProbeOutcome::Error(_)) {
            break;
        }
        round = once(&agent, &container, &target).await;
    }
    round
}

async fn once(agent: &Agent, container: &ContainerId, target: &ProbeTarget) -> Round {
    let network = &agent.adapters.prober;
    let outcome = match target {
        ProbeTarget::Exec { command, timeout } => {
            let ended = agent.adapters.runtime.exec_sync(container, command, *timeout).await;
            let timed_out = matches!(ended, Err(CriError::Deadline { .. }));
            return Round { outcome: outcome_of(ended, command, *timeout), timed_out };
        }
        ProbeTarget::Http(probe) => network.http(probe).await,
        ProbeTarget::Tcp(probe) => network.tcp(probe).await,
        ProbeTarget::Grpc(probe) => network.grpc(probe).await,
    };
    Round { outcome, timed_out: false }
}

/// What a command's end says (PRB-11). One that ran out of time has failed; one that could not be run says nothing.
fn outcome_of(ended: Result<ExecOutcome, CriError>, command: &[String], timeout: Duration) -> ProbeOutcome {
    match ended {
        Ok(ended) if ended.exit_code == 0 => ProbeOutcome::Success,
        Ok(ended) => ProbeOutcome::Failure(output(&ended)),
        Err(CriError::Deadline { .. }) => {
            let (command, timeout) = (quoted(&command.join(" ")), go_duration(timeout));
            ProbeOutcome::Failure(format!("command timed out: {command} timed out after {timeout}"))
        }
        Err(error) => ProbeOutcome::Error(error.to_string()),
    }
}

/// Standard output, then standard error, as far as they are looked at.
pub(in crate::actors) fn output(ended: &ExecOutcome) -> String {
    let bytes: Vec<u8> = ended.stdout.iter().chain(&ended.stderr).take(OUTPUT_BYTES_MAX).copied().collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(exit_code: i32, stdout: &str, stderr: &str) -> Result<ExecOutcome, CriError> {
        Ok(ExecOutcome { stdout: stdout.into(), stderr: stderr.into(), exit_code })
    }

    /// PRB-11, PRB-07, SEC-46.
    #[test]
    fn a_commands_end_decides() {
        let command = ["test".to_owned(), "-e".to_owned(), "a \"b\"".to_owned()];
        let of = |ended| outcome_of(ended, &command, Duration::from_secs(90));
        assert_eq!(of(ended(0, "out", "err")), ProbeOutcome::Success);
        assert_eq!(of(ended(3, "out", "err")), ProbeOutcome::Failure("outerr".to_owned()));
        let late = CriError::Deadline { call: "ExecSync", limit: Duration::from_secs(90) };
        let text = "command timed out: \"test -e a \\\"b\\\"\" timed out after 1m30s".to_owned();
        assert_eq!(of(Err(late)), ProbeOutcome::Failure(text));
        let gone = CriError::NotFound { message: "no such container".to_owned() };
        assert_eq!(of(Err(gone)), ProbeOutcome::Error("no such container".to_owned()));
        let ProbeOutcome::Failure(text) = of(ended(1, &"x".repeat(10_000), &"y".repeat(10_000))) else {
            panic!("a failure");
        };
        assert_eq!((text.len(), text.ends_with('y')), (10 * 1024, true));
    }
}
