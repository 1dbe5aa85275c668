//! Answers of the simulated API server, in the words of a real one. Plain data.

use super::refusal::Refused;

use serde_json::Value;

use super::watches::Watching;

/// An answer.
pub enum Answer {
    /// All at once.
    Whole {
        /// HTTP status code.
        code: u16,
        /// `Retry-After`, in seconds.
        retry_after: Option<u64>,
        /// The body.
        body: Value,
    },
    /// Bit by bit.
    Stream(Watching),
}

impl From<Result<Value, Refused>> for Answer {
    fn from(outcome: Result<Value, Refused>) -> Self {
        match outcome {
            Ok(body) => Self::Whole { code: 200, retry_after: None, body },
            Err(refused) => {
                let retry_after = refused.retry_after.map(|wait| wait.as_secs());
                Self::Whole { code: refused.code, retry_after, body: refused.status() }
            }
        }
    }
}
