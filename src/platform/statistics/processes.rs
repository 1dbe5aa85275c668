//! Processes of a group: how many, their open files, their network.

use std::os::fd::OwnedFd;

use super::files::{Reader, folder};
use crate::logic::statistics::figures::{Interface, ProcessFigures};
use crate::logic::statistics::parse;
use crate::logic::statistics::sample::Depth;

/// The most open files that one look counts, of all groups together; beyond it their numbers are not told.
const DESCRIPTORS_MAX: u64 = 20_000;

/// `/proc`, and how much of a look's bound is left.
pub(super) struct Processes<'a> {
    proc: &'a OwnedFd,
    reader: Reader,
    descriptors_left: u64,
}

impl<'a> Processes<'a> {
    pub(super) fn new(proc: &'a OwnedFd) -> Self {
        Self { proc, reader: Reader::new(), descriptors_left: DESCRIPTORS_MAX }
    }

    /// What is told of the processes that are listed one a line.
    pub(super) fn count(&mut self, pids: &[u8], depth: Depth) -> ProcessFigures {
        let lines = || pids.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mut figures =
            ProcessFigures { processes: u64::try_from(lines().count()).unwrap_or(0), ..ProcessFigures::default() };
        if depth < Depth::Everything {
            return figures;
        }
        let mut open = Some((0, 0));
        for pid in lines() {
            let Ok(pid) = std::str::from_utf8(pid) else { continue };
            open = open.and_then(|(all, sockets)| {
                let (more, more_sockets) = self.descriptors(pid)?;
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

    /// Open files and sockets of a process, none of one that has gone; `None` once too many were counted.
    fn descriptors(&mut self, pid: &str) -> Option<(u64, u64)> {
        let Some(entries) = folder(self.proc, &format!("{pid}/fd")) else { return Some((0, 0)) };
        let (mut all, mut sockets) = (0, 0);
        let mut target = Vec::new();
        let mut listed = rustix::fs::Dir::new(entries).ok()?;
        while let Some(entry) = listed.next() {
            let Ok(entry) = entry else { continue };
            if entry.file_name().to_bytes().first() == Some(&b'.') {
                continue;
            }
            self.descriptors_left = self.descriptors_left.checked_sub(1)?;
            all += 1;
            if let Ok(link) = rustix::fs::readlinkat(listed.fd().ok()?, entry.file_name(), target) {
                sockets += u64::from(link.as_bytes().starts_with(b"socket:"));
                target = link.into_bytes();
            } else {
                target = Vec::new();
            }
        }
        Some((all, sockets))
    }

    /// The interfaces that the first of these processes sees.
    pub(super) fn interfaces(&mut self, pids: &[u8]) -> Option<Vec<Interface>> {
        let pid = pids.split(|byte| *byte == b'\n').find(|line| !line.is_empty())?;
        let path = format!("{}/net/dev", std::str::from_utf8(pid).ok()?);
        self.reader.read(self.proc, &path).map(parse::interfaces)
    }
}
