//! `graceful_node_shutdown_state`: when the last shutdown of the node began and ended (NODE-48). Upstream's file, so that
//! either agent reads the other's.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::logic::model::time::Moment;

/// The name of the file, below the agent's root directory.
pub const FILE_NAME: &str = "graceful_node_shutdown_state";
/// Go's time of nothing.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownTimes {
    /// When it began.
    pub began: Option<Moment>,
    /// When the last pod had ended, or the time of all was over.
    pub ended: Option<Moment>,
}

impl ShutdownTimes {
    /// As the file has them.
    pub fn to_json(self) -> Vec<u8> {
        let text = |at: Option<Moment>| {
            let time = at.and_then(|Moment(nanos)| Timestamp::from_nanosecond(i128::from(nanos)).ok());
            time.map_or_else(|| NEVER.to_owned(), |time| time.to_string())
        };
        json!({ "startTime": text(self.began), "endTime": text(self.ended) }).to_string().into_bytes()
    }

    /// Reads the file.
    ///
    /// # Errors
    /// It is no such file.
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let tree: Value = serde_json::from_slice(bytes)?;
        let time = |key: &str| {
            let time: Option<Timestamp> = tree.get(key).map(|text| serde_json::from_value(text.clone())).transpose()?;
            Ok(time.filter(|time| *time > Timestamp::UNIX_EPOCH).map(Moment::from_timestamp))
        };
        Ok(Self { began: time("startTime")?, ended: time("endTime")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NODE-48.
    #[test]
    fn node_48_the_file_is_upstreams() {
        let begun = ShutdownTimes { began: Some(Moment(1_790_000_000_250_000_000)), ended: None };
        let text = r#"{"endTime":"0001-01-01T00:00:00Z","startTime":"2026-09-21T14:13:20.25Z"}"#;
        assert_eq!(String::from_utf8(begun.to_json()).expect("text"), text);
        let upstream =
            br#"{"startTime":"2026-09-21T16:13:20.25+02:00","endTime":"2026-09-21T16:14:20.000000001+02:00"}"#;
        let ended = Some(Moment(1_790_000_060_000_000_001));
        assert_eq!(ShutdownTimes::parse(upstream).expect("read"), ShutdownTimes { ended, ..begun });
        for times in [begun, ShutdownTimes { ended, ..begun }, ShutdownTimes::default()] {
            assert_eq!(ShutdownTimes::parse(&times.to_json()).expect("read"), times);
        }
        for broken in ["", "[", r#"{"startTime":"yesterday"}"#, r#"{"endTime":7}"#] {
            ShutdownTimes::parse(broken.as_bytes()).expect_err(broken);
        }
        assert_eq!(ShutdownTimes::parse(b"{}").expect("read"), ShutdownTimes::default());
    }
}
