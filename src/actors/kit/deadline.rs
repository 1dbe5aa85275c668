//! `Deadline`: when an operation is late, and what becomes of one that does not end.
//!
//! Each operation has one by its name. A late one is named by Root's watchdog in the log, by `podwright actors` and by
//! `explain`, and it is counted. Reading may be given up after that, as its actor reads again by itself; what writes, or
//! waits for others, ends by the deadlines of its own calls, and a second one must not begin beside it.

use std::time::Duration;

use crate::messages::Lost;

/// An operation is late after this time, where nothing else is said. Longer than the calls of one operation take together
/// by upstream's deadlines (`runtimeRequestTimeout`, two minutes; CSI, two minutes).
pub const LATE_AFTER: Duration = Duration::from_mins(5);
/// Reading is given up after this time.
pub const READ_MAX: Duration = Duration::from_mins(30);

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// It lasts as long as what it follows, or its pod says how long it may take.
    None,
    /// Late after this time; it goes on.
    Late(Duration),
    /// Late after [`LATE_AFTER`], lost after this time.
    Within(Duration),
}

/// Follow somebody, or serve: the end of each is the news.
const FOLLOW: [&str; 16] = [
    "event stream",
    "follow kernel log",
    "listen",
    "serve registrations",
    "wait for devices",
    "wait for writes",
    "watch driver",
    "watch folder",
    "watch logind",
    "watch memory",
    "watch node",
    "watch object",
    "watch pods",
    "watch registry",
    "watch services",
    // Its pod says how long it may take (`timeoutSeconds`).
    "probe",
];

/// Wait for what takes long by its nature, with bounds of their own: an image from afar, an approver of certificates.
const SLOW: [(&str, Duration); 3] = [
    ("ensure image", Duration::from_hours(1)),
    ("pull image", Duration::from_hours(1)),
    ("obtain certificate", Duration::from_mins(30)),
];

/// Read alone, again and again: a loss costs one look.
const READ: [&str; 21] = [
    "ask driver for figures",
    "image status",
    "inspect pod",
    "list images",
    "list volumes",
    "look at images",
    "look at logs",
    "look at statistics",
    "look at the node",
    "look for attached volumes",
    "look for garbage",
    "look for plugins",
    "look for unused volumes",
    "measure pods",
    "read addresses",
    "read facts",
    "read node",
    "read resolv.conf",
    "read size",
    "relist",
    "runtime status",
];

impl Deadline {
    /// That of operations of this name.
    pub fn of(name: &str) -> Self {
        if FOLLOW.contains(&name) {
            return Self::None;
        }
        if READ.contains(&name) {
            return Self::Within(READ_MAX);
        }
        let slow = SLOW.iter().find(|(one, _)| *one == name);
        Self::Late(slow.map_or(LATE_AFTER, |(_, after)| *after))
    }

    /// When an operation with this deadline is late, from its beginning.
    pub fn late_after(self) -> Option<Duration> {
        match self {
            Self::None => None,
            Self::Late(after) => Some(after),
            Self::Within(_) => Some(LATE_AFTER),
        }
    }

    /// The same work, lost where it does not end in time.
    pub(super) async fn bound<T>(self, work: impl Future<Output = T>) -> Result<T, Lost> {
        match self {
            Self::Within(max) => tokio::time::timeout(max, work).await.map_err(|_| Lost::GivenUp(max)),
            Self::None | Self::Late(_) => Ok(work.await),
        }
    }
}
