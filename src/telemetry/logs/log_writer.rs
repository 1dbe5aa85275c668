//! Where lines of the log go: standard error, each in one write, and a count of lines by which a hold-up is seen.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

/// Lines of the log so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogProgress {
    /// The number of lines whose writing began.
    pub begun: u64,
    /// The number of lines whose writing ended, well or not.
    pub ended: u64,
}

/// How far the log is. While `begun` and `ended` differ for long, whoever reads the log does not.
pub fn log_progress() -> LogProgress {
    // The end first: a line that ends in between may then look open for an instant, but none is taken for ended.
    let ended = ENDED.load(Ordering::Acquire);
    LogProgress { begun: BEGUN.load(Ordering::Acquire), ended }
}

/// Writes one line, with its newline. Nobody can hear that it cannot be written.
pub(in crate::telemetry) fn write_line(line: &[u8], to_stdout: bool) {
    BEGUN.fetch_add(1, Ordering::AcqRel);
    let _ = if to_stdout { io::stdout().lock().write_all(line) } else { io::stderr().lock().write_all(line) };
    ENDED.fetch_add(1, Ordering::AcqRel);
}
