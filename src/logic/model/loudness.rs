//! How loud a failure is told that comes again and again.

/// Failures in a row that are told of at the log's first level.
const FAILURES_TOLD: u32 = 4;

/// How loud one failure of many in a row is; upstream's rule for a static pod URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loudness {
    /// As any.
    Told,
    /// So, and for the last time until something succeeds.
    ToldLast,
    /// Only where much is logged.
    Debug,
}

impl Loudness {
    /// That of the failure that comes after so many in a row.
    pub fn after(failures: u32) -> Self {
        match failures.saturating_add(1) {
            FAILURES_TOLD => Self::ToldLast,
            number if number < FAILURES_TOLD => Self::Told,
            _ => Self::Debug,
        }
    }

    /// That of a failure for this reason, by the reason of the one before it: what is tried without end is told once, and
    /// again when the reason changes.
    pub fn of_reason(before: Option<&str>, now: &str) -> Self {
        if before == Some(now) { Self::Debug } else { Self::Told }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failures_are_told() {
        use Loudness::{Debug, Told, ToldLast};
        let loudness: Vec<Loudness> = [0, 1, 2, 3, 4, 1000, u32::MAX - 1].into_iter().map(Loudness::after).collect();
        assert_eq!(Loudness::of_reason(None, "a"), Told);
        assert_eq!(Loudness::of_reason(Some("a"), "a"), Debug);
        assert_eq!(Loudness::of_reason(Some("a"), "b"), Told);
        assert_eq!(loudness, [Told, Told, Told, ToldLast, Debug, Debug, Debug]);
    }
}
