//! Packet filter rules of the machine, set through the programs `iptables` and `ip6tables`.
//!
//! Used by the actor `NetworkRules`. Keeps where the programs are, nothing that it learnt.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use crate::logic::network::network_rules::{Answer, Family};
use crate::platform::host::program::Program;

/// How long one call of a program may take; it waits for the lock for a part of that.
const TIME_MAX: Duration = Duration::from_secs(30);
/// The most of a complaint that is kept.
const COMPLAINT_BYTES_MAX: u64 = 1024;

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The meaning of its exit status.
    pub answer: Answer,
    /// Its complaint.
    pub complaint: String,
}

/// A program that gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// It could not be started: mostly, there is none.
    #[error("run {program}: {problem}")]
    NotStarted {
        /// Its name.
        program: &'static str,
        /// The kernel's answer.
        problem: io::Error,
    },
    /// It did not end in time, and was killed.
    #[error("run {program}: no answer within {limit:?}")]
    Hangs {
        /// Its name.
        program: &'static str,
        /// How long it was waited for.
        limit: Duration,
    },
}

/// See the module.
#[async_trait]
pub trait NetworkRules: Send + Sync {
    /// Calls the program of a family once.
    ///
    /// # Errors
    /// When it cannot be started, or does not end in time.
    async fn call(&self, family: Family, arguments: Vec<&'static str>) -> Result<Ran, RulesError>;
}

/// A machine without the programs.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNetworkRules;

#[async_trait]
impl NetworkRules for NoNetworkRules {
    async fn call(&self, family: Family, _: Vec<&'static str>) -> Result<Ran, RulesError> {
        Err(RulesError::NotStarted { program: family.program(), problem: io::ErrorKind::NotFound.into() })
    }
}

/// The programs of this machine.
#[derive(Clone, Debug, Default)]
pub struct Iptables {
    /// Where the programs are; found by `PATH` when not set.
    folder: Option<PathBuf>,
    limit: Option<Duration>,
}

impl Iptables {
    /// Those of a test: below a folder, and killed after this time.
    #[cfg(test)]
    fn of_a_test(folder: &std::path::Path, limit: Duration) -> Self {
        Self { folder: Some(folder.to_owned()), limit: Some(limit) }
    }
}

#[async_trait]
impl NetworkRules for Iptables {
    async fn call(&self, family: Family, arguments: Vec<&'static str>) -> Result<Ran, RulesError> {
        let program = family.program();
        let path = self.folder.as_ref().map_or_else(|| PathBuf::from(program), |folder| folder.join(program));
        let mut command = Command::new(path);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let not_started = |problem| RulesError::NotStarted { program, problem };
        let mut child = Program::start(&mut command).map_err(not_started)?;
        let stderr = child.stderr.take().expect("invariant: it is piped");
        let limit = self.limit.unwrap_or(TIME_MAX);
        let ended = tokio::time::timeout(limit, async {
            let complaint = beginning(stderr).await;
            (child.wait().await, complaint)
        });
        match ended.await {
            Ok((Ok(status), complaint)) => {
                let complaint = String::from_utf8_lossy(&complaint).trim().to_owned();
                Ok(Ran { answer: Answer::from_status(status.code()), complaint })
            }
            Ok((Err(problem), _)) => Err(RulesError::NotStarted { program, problem }),
            Err(_) => Err(RulesError::Hangs { program, limit }),
        }
    }
}

/// The first bytes of a complaint; the rest is read and dropped, so that nobody waits for a reader.
async fn beginning(mut from: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = vec![];
    // A pipe that breaks says no more.
    let _ = (&mut from).take(COMPLAINT_BYTES_MAX).read_to_end(&mut bytes).await;
    let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::host::played_program::write_program;

    #[tokio::test]
    async fn a_program_answers_with_its_status_and_a_complaint_of_bounded_size() {
        let folder = tempfile::tempdir().expect("a directory");
        let script = "#!/bin/sh\nif [ \"$1\" = no ]; then head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1; fi\n";
        write_program(&folder.path().join("iptables"), script);
        let rules = Iptables::of_a_test(folder.path(), TIME_MAX);
        let yes = rules.call(Family::Ipv4, vec!["yes"]).await.expect("it runs");
        assert_eq!(yes, Ran { answer: Answer::Yes, complaint: String::new() });
        let no = rules.call(Family::Ipv4, vec!["no"]).await.expect("it runs");
        assert_eq!((no.answer, no.complaint.len()), (Answer::No, 1024));
        let missing = rules.call(Family::Ipv6, vec![]).await.expect_err("there is none").to_string();
        assert!(missing.starts_with("run ip6tables: "), "{missing}");
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_killed_and_named() {
        let folder = tempfile::tempdir().expect("a directory");
        write_program(&folder.path().join("ip6tables"), "#!/bin/sh\nexec sleep 1000\n");
        let rules = Iptables::of_a_test(folder.path(), Duration::from_millis(50));
        let error = rules.call(Family::Ipv6, vec![]).await.expect_err("it hangs");
        assert_eq!(error.to_string(), "run ip6tables: no answer within 50ms");
    }
}
