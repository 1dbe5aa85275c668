//! How failures of a pod worker's jobs are put in words.

use crate::cri::CriError;
use crate::logic::formats::go_text::quoted;

/// All that failed as one problem, in the way upstream joins errors.
pub(super) fn joined(mut problems: Vec<String>) -> Result<(), String> {
    match &mut problems[..] {
        [] => Ok(()),
        [only] => Err(std::mem::take(only)),
        _ => Err(format!("[{}]", problems.join(", "))),
    }
}

/// The failure, in upstream's words.
pub(super) fn failed(action: &str, target: &str, reason: &str, error: &CriError) -> String {
    format!("failed to {} for {} with {reason}: {}", quoted(action), quoted(target), quoted(&error.to_string()))
}
