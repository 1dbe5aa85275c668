//! Processes of a group: how many, their open files, their network.

use std::os::fd::OwnedFd;

use super::files::Reader;
use super::open_files::{Counts, OpenFiles};
use crate::logic::statistics::figures::{Interface, ProcessFigures};
use crate::logic::statistics::parse;
use crate::logic::statistics::sample::Depth;

/// The facts of processes in `/proc`, for one look.
pub(super) struct Processes<'a> {
    proc: &'a OwnedFd,
    reader: Reader,
    open_files: OpenFiles<'a>,
}

impl<'a> Processes<'a> {
    pub(super) fn new(proc: &'a OwnedFd, open_files: OpenFiles<'a>) -> Self {
        Self { proc, reader: Reader::new(), open_files }
    }

    /// The counts of open files that the next look may go on from.
    pub(super) fn into_counts(self) -> Counts {
        self.open_files.into_counts()
    }

    /// Counts the processes that are listed one a line.
    pub(super) fn count(&mut self, pids: &[u8], depth: Depth) -> ProcessFigures {
        let lines = || pids.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mut figures =
            ProcessFigures { processes: u64::try_from(lines().count()).unwrap_or(0), ..ProcessFigures::default() };
        if depth < Depth::Everything {
            return figures;
        }
        let mut open = Some((0, 0));
        for pid in lines() {
            let Some(pid) = std::str::from_utf8(pid).ok().and_then(|pid| pid.parse().ok()) else { continue };
            open = open.and_then(|(all, sockets)| {
                let (more, more_sockets) = self.open_files.of(pid)?;
                Some((all + more, sockets + more_sockets))
            });
        }
        (figures.descriptors, figures.sockets) = (open.map(|(all, _)| all), open.map(|(_, sockets)| sockets));
        let first = lines().next().and_then(|pid| std::str::from_utf8(pid).ok());
        figures.open_files_max = first.and_then(|pid| {
            let text = self.reader.record(self.proc, &format!("{pid}/limits"))?;
            parse::open_files_max(text)
        });
        figures
    }

    /// The interfaces that the first of these processes sees.
    pub(super) fn interfaces(&mut self, pids: &[u8]) -> Option<Vec<Interface>> {
        let pid = pids.split(|byte| *byte == b'\n').find(|line| !line.is_empty())?;
        let path = format!("{}/net/dev", std::str::from_utf8(pid).ok()?);
        self.reader.read(self.proc, &path).map(parse::interfaces)
    }
}
