//! Tools to read a control group, of either generation.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::files::Reader;
use super::processes::Processes;
use crate::logic::model::time::Moment;
use crate::logic::statistics::sample::Depth;
use crate::platform::host::clock::Clock;

/// The tools to read a group.
pub(super) struct Tools<'a> {
    pub(super) reader: Reader,
    pub(super) processes: Processes<'a>,
    pub(super) clock: &'a dyn Clock,
    pub(super) depth: Depth,
}

/// Opens a hierarchy's root, which may be a link.
pub(super) fn open_root(path: &Path) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// When a group was made: the older of its folder and of a file in it that is hardly ever written.
pub(super) fn created(here: BorrowedFd<'_>, file: &str) -> Option<Moment> {
    let of = |stat: rustix::fs::Stat| {
        let (seconds, rest) = (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0));
        Moment(seconds.saturating_mul(1_000_000_000).saturating_add(rest))
    };
    let folder = rustix::fs::fstat(here).ok().map(of);
    let file = rustix::fs::statat(here, file, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).ok().map(of);
    folder.into_iter().chain(file).min()
}
