//! At which level the log has a failure that comes again and again.

/// Failures in a row that the log has at its normal level.
const FAILURES_NORMAL: u32 = 4;

/// The level of one failure among many in a row; upstream's rule for a static pod URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// As of any failure.
    Normal,
    /// The same, for the last time until something succeeds.
    NormalForLast,
    /// Only in a log that has much.
    Debug,
}

impl LogLevel {
    /// The level of the failure that comes after so many in a row.
    pub fn after(failures: u32) -> Self {
        match failures.saturating_add(1) {
            FAILURES_NORMAL => Self::NormalForLast,
            number if number < FAILURES_NORMAL => Self::Normal,
            _ => Self::Debug,
        }
    }

    /// The level of a failure for this reason, by the reason of the failure before it: the log has what is tried without
    /// end once, and again when the reason changes.
    pub fn of_reason(before: Option<&str>, now: &str) -> Self {
        if before == Some(now) { Self::Debug } else { Self::Normal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failures_have_the_normal_level() {
        use LogLevel::{Debug, Normal, NormalForLast};
        let levels: Vec<LogLevel> = [0, 1, 2, 3, 4, 1000, u32::MAX - 1].into_iter().map(LogLevel::after).collect();
        assert_eq!(LogLevel::of_reason(None, "a"), Normal);
        assert_eq!(LogLevel::of_reason(Some("a"), "a"), Debug);
        assert_eq!(LogLevel::of_reason(Some("a"), "b"), Normal);
        assert_eq!(levels, [Normal, Normal, Normal, NormalForLast, Debug, Debug, Debug]);
    }
}
