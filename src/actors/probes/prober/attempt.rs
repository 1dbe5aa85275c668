//! One round of a probe: its tries, against the runtime or over the network.

use std::sync::Arc;
use std::time::Duration;

use crate::cri::{CriError, ExecOutcome, RuntimeService};
use crate::logic::formats::go_text::quoted;
use crate::logic::model::backoff::go_duration;
use crate::logic::model::ids::ContainerId;
use crate::logic::probes::probe_target::ProbeTarget;
use crate::messages::prober::Round;
use crate::platform::network::network_probe::{NetworkProbe, NetworkProber, ProbeOutcome};

/// Tries of one round, while the probe itself cannot be made (PRB-08).
const TRIES_MAX: u32 = 3;
/// The most bytes of a command's output that are looked at (SEC-46).
const OUTPUT_BYTES_MAX: usize = 10 * 1024;

/// The action of a probe, made ready.
#[derive(Clone)]
pub(super) enum Aim {
    /// It cannot be made, and why.
    Nowhere(String),
    /// Runs a command in the container, for as long at most.
    Command(Arc<[String]>, Duration),
    /// Goes over the network.
    Network(Arc<dyn NetworkProbe>),
}

impl Aim {
    pub fn at(target: Result<ProbeTarget, String>, network: &dyn NetworkProber) -> Self {
        match target {
            Err(problem) => Self::Nowhere(problem),
            Ok(ProbeTarget::Exec { command, timeout }) => Self::Command(command.into(), timeout),
            Ok(ProbeTarget::Http(probe)) => Self::Network(network.http(probe)),
            Ok(ProbeTarget::Tcp(probe)) => Self::Network(network.tcp(probe)),
            Ok(ProbeTarget::Grpc(probe)) => Self::Network(network.grpc(probe)),
        }
    }
}

/// Tries a command up to three times, as long as it cannot be run.
pub(super) async fn run(
    runtime: Arc<dyn RuntimeService>,
    container: ContainerId,
    command: Arc<[String]>,
    timeout: Duration,
) -> Round {
    let mut tries = 0;
    loop {
        tries += 1;
        let ended = runtime.exec_sync(&container, &command, timeout).await;
        let timed_out = matches!(ended, Err(CriError::Deadline { .. }));
        let outcome = outcome_of(ended, &command, timeout);
        if tries == TRIES_MAX || !matches!(outcome, ProbeOutcome::Error(_)) {
            return Round { outcome, timed_out };
        }
    }
}

/// Tries over the network up to three times, as long as the probe cannot be made.
pub(super) async fn ask(probe: Arc<dyn NetworkProbe>) -> Round {
    let mut tries = 0;
    loop {
        tries += 1;
        let outcome = Arc::clone(&probe).make().await;
        if tries == TRIES_MAX || !matches!(outcome, ProbeOutcome::Error(_)) {
            return Round { outcome, timed_out: false };
        }
    }
}

/// The outcome of a command (PRB-11). One that ran out of time has failed; one that could not be run says nothing.
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
