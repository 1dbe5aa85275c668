//! Where wire types end: CRI's messages to and from our own types, checked on the way in (CRI-03).
//!
//! Requests never fail to convert. Answers fail only where the protocol makes a field mandatory; numbers of
//! enumerations that are newer than this agent become the value that makes it act least. Owned by `grpc`.

mod answers;
mod requests;
mod signals;
mod stats;

pub(super) use answers::*;
pub(super) use stats::*;

use super::{CriError, CriResult};
use crate::logic::model::time::Moment;

/// A time of the wire: nanoseconds since 1970. An earlier time is none: a runtime in Go that was killed while it made a
/// sandbox gives a strange time when it is back. The sandbox was made at the runtime's zero time, which comes over the wire
/// as the year 1754.
fn moment(nanoseconds: i64) -> Moment {
    Moment(nanoseconds).max(Moment::EPOCH)
}

/// Refuses an answer.
fn invalid<T>(call: &'static str, problem: impl Into<String>) -> CriResult<T> {
    Err(CriError::InvalidAnswer { call, problem: problem.into() })
}

/// Refuses an answer whose mandatory field was left out, which on the wire is the same as left empty.
fn require(call: &'static str, field: &str, present: bool) -> CriResult<()> {
    if present { Ok(()) } else { invalid(call, format!("{field} is not set")) }
}

/// A mandatory text: an ID, a reference, an address.
pub(super) fn required_text(call: &'static str, field: &str, text: String) -> CriResult<String> {
    require(call, field, !text.is_empty())?;
    Ok(text)
}

/// A mandatory message.
pub(super) fn required_message<T>(call: &'static str, field: &str, message: Option<T>) -> CriResult<T> {
    message.map_or_else(|| invalid(call, format!("{field} is not set")), Ok)
}

#[cfg(test)]
mod tests {
    mod hostile;

    use super::*;

    #[test]
    fn a_time_before_the_epoch_is_none() {
        let zero_of_go = -6_795_364_578_871_345_152;
        assert_eq!(moment(zero_of_go), Moment::EPOCH);
        assert_eq!(moment(0), Moment::EPOCH);
        assert_eq!(moment(5), Moment(5));
    }
}
