//! How a call to a plugin fails, and whether the plugin may still be working on it.

use std::fmt;
use std::time::Duration;

/// Status codes of gRPC, spelt as upstream prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::IntoStaticStr, strum::EnumIter)]
#[expect(missing_docs, reason = "gRPC defines them")]
pub enum Code {
    #[strum(to_string = "OK")]
    Ok,
    Canceled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallProblem {
    /// The plugin said so.
    Status {
        /// Its code.
        code: Code,
        /// Its words.
        message: String,
    },
    /// There was no answer in this time.
    Deadline(Duration),
    /// As many calls as a plugin may have open were open for all that time.
    Busy {
        /// How many.
        open: usize,
    },
    /// The socket cannot be reached, or the connection broke.
    Unreachable(String),
    /// The answer is no such message, or too large.
    Unreadable(String),
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// The method's name.
    pub method: &'static str,
    /// See [`CallProblem`].
    pub problem: CallProblem,
}

impl CallError {
    /// The code under which upstream's metrics and rules know the failure.
    pub fn code(&self) -> Code {
        match &self.problem {
            CallProblem::Status { code, .. } => *code,
            CallProblem::Deadline(_) | CallProblem::Busy { .. } => Code::DeadlineExceeded,
            CallProblem::Unreachable(_) => Code::Unavailable,
            CallProblem::Unreadable(_) => Code::Unknown,
        }
    }

    /// Whether the plugin is done with the call and has left nothing (VOL-45). After any other failure the plugin may still
    /// be at work, so that the agent undoes the request as if it had been done.
    pub fn is_final(&self) -> bool {
        match &self.problem {
            CallProblem::Status { code, .. } => !matches!(
                code,
                Code::Canceled | Code::DeadlineExceeded | Code::Unavailable | Code::ResourceExhausted | Code::Aborted
            ),
            _ => false,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code();
        match &self.problem {
            CallProblem::Status { message, .. } => write!(f, "rpc error: code = {code} desc = {message}"),
            CallProblem::Deadline(limit) => {
                write!(f, "rpc error: code = {code} desc = no answer to {} within {} s", self.method, limit.as_secs())
            }
            CallProblem::Busy { open } => {
                write!(f, "rpc error: code = {code} desc = {} waited while {open} calls were open", self.method)
            }
            CallProblem::Unreachable(why) => write!(f, "rpc error: code = {code} desc = {}: {why}", self.method),
            CallProblem::Unreadable(why) => write!(f, "answer to {} cannot be read: {why}", self.method),
        }
    }
}

impl std::error::Error for CallError {}

#[cfg(test)]
mod tests {
    use strum::IntoEnumIterator;

    use super::*;

    /// VOL-45.
    #[test]
    fn only_a_plugins_own_refusal_is_final() {
        let final_codes: Vec<Code> = Code::iter()
            .filter(|code| {
                let problem = CallProblem::Status { code: *code, message: String::new() };
                CallError { method: "NodeStageVolume", problem }.is_final()
            })
            .collect();
        assert_eq!(final_codes.len(), Code::iter().count() - 5);
        for code in [Code::Canceled, Code::DeadlineExceeded, Code::Unavailable, Code::ResourceExhausted, Code::Aborted]
        {
            assert!(!final_codes.contains(&code), "{code}");
        }
        for problem in [
            CallProblem::Deadline(Duration::from_secs(120)),
            CallProblem::Busy { open: 16 },
            CallProblem::Unreachable("no such file".into()),
            CallProblem::Unreadable("too large".into()),
        ] {
            assert!(!CallError { method: "NodeStageVolume", problem: problem.clone() }.is_final(), "{problem:?}");
        }
    }

    #[test]
    fn a_failure_reads_as_upstreams() {
        let problem = CallProblem::Status { code: Code::Internal, message: "disk on fire".into() };
        let error = CallError { method: "NodeStageVolume", problem };
        assert_eq!(error.to_string(), "rpc error: code = Internal desc = disk on fire");
        let late = CallError { method: "NodeStageVolume", problem: CallProblem::Deadline(Duration::from_secs(120)) };
        assert_eq!(
            late.to_string(),
            "rpc error: code = DeadlineExceeded desc = no answer to NodeStageVolume within 120 s"
        );
    }
}
