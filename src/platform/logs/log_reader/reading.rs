//! Reading a log: which files, from where, block by block. Blocking; called beside the actors' threads.
//!
//! Owned by the log that is open. Keeps the files that are still to be read, and at most one block.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::files::{LogFile, LogFolder, ending_of, lines_in, same, tail_of, unpacked};
use super::{LogReadError, LogWanted};
use crate::logic::logs::container_log::entry::LogTime;
use crate::logic::logs::container_log::printer::{PrintOptions, Printer, Rest};

/// Read at once, and the longest line that is kept whole: runtimes cut them at 16 KiB.
const BLOCK: usize = 256 * 1024;
/// Read at once after a wait: most often there is little.
const BLOCK_AFTER_WAIT: usize = 16 * 1024;

/// Read in one go when the reader gets nothing of it.
const BLOCKS_MAX: usize = 64;

/// A file that is read, or will be.
enum Source {
    Plain(File),
    Packed { from: Box<dyn Read + Send>, lines_to_skip: u64 },
}

/// The result of one go of reading.
pub(super) enum Step {
    Shown(Bytes),
    /// Much was read, and the reader gets nothing of it: it is somebody else's turn.
    NothingYet,
    AtEnd,
    /// All is read, and another log has taken this one's place: what comes late is waited for, once.
    Replaced,
    Done,
}

/// See the module.
pub(super) struct Reading {
    folder: LogFolder,
    wanted: LogWanted,
    printer: Printer,
    sources: VecDeque<Source>,
    /// The newest rotated file when the last of the sources was begun.
    known: Option<String>,
    /// Filled from the front; `filled` bytes were read and not taken.
    block: Vec<u8>,
    filled: usize,
    /// Nothing came late to a log that was replaced.
    settled: bool,
    /// Set when nobody waits any more.
    ended: Arc<AtomicBool>,
}

impl Reading {
    pub(super) fn open(root: &Path, wanted: LogWanted, ended: Arc<AtomicBool>) -> Result<Self, LogReadError> {
        let failed = |problem| LogReadError::Open { path: wanted.path.clone(), problem };
        let folder = LogFolder::open(root, &wanted.path, &wanted.container).map_err(failed)?;
        // In this order: what is rotated in between is then the very file that was opened.
        let known = folder.newest_rotated().map_err(failed)?;
        let live = folder.live().map_err(failed)?;
        let (sources, pieces) = sources(&folder, live, known.as_deref(), &wanted, &ended).map_err(failed)?;
        let lines_max = wanted.print.lines_max.map(|lines| lines.saturating_add(pieces));
        let printer = Printer::new(PrintOptions { lines_max, ..wanted.print });
        Ok(Self { folder, wanted, printer, sources, known, block: vec![], filled: 0, settled: false, ended })
    }

    /// The directory of the log, to be watched.
    pub(super) fn folder(&self) -> &LogFolder {
        &self.folder
    }

    /// Nothing more came to the log that was replaced.
    pub(super) fn settle(&mut self) {
        self.settled = true;
    }

    /// Reads until there is something to show, or the end.
    pub(super) fn step(&mut self) -> Result<Step, LogReadError> {
        let mut shown = Vec::new();
        let mut blocks = 0;
        while shown.is_empty() && !self.printer.is_done() {
            if self.ended.load(Ordering::Relaxed) {
                return Ok(Step::Done);
            }
            blocks += 1;
            if blocks > BLOCKS_MAX {
                return Ok(Step::NothingYet);
            }
            if self.fill().map_err(|problem| self.failed(problem))? {
                let rest = if self.filled == BLOCK { Rest::NoRoom } else { Rest::MayGrow };
                self.print(rest, &mut shown)?;
                continue;
            }
            let last = self.sources.len() <= 1;
            if last && self.wanted.follow && !self.may_go_on().map_err(|problem| self.failed(problem))? {
                let replaced = self.is_replaced().map_err(|problem| self.failed(problem))?;
                self.shrink();
                return Ok(if replaced { Step::Replaced } else { Step::AtEnd });
            }
            self.print(Rest::End, &mut shown)?;
            if self.sources.pop_front().is_none() || self.sources.is_empty() {
                break;
            }
        }
        if !shown.is_empty() {
            return Ok(Step::Shown(Bytes::from(shown)));
        }
        Ok(Step::Done)
    }

    /// Whether a log that is at its end is followed by others, which are then the sources.
    fn may_go_on(&mut self) -> io::Result<bool> {
        if !self.settled {
            return Ok(false);
        }
        self.settled = false;
        let Some(Source::Plain(current)) = self.sources.back() else { return Ok(false) };
        let known = self.folder.newest_rotated()?;
        let after = match self.folder.after(current, self.known.as_deref()) {
            Ok(after) => after,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if let [LogFile::Plain(only)] = after.as_slice()
            && same(only, current)?
        {
            return Ok(false);
        }
        self.known = known;
        for file in after {
            self.sources.push_back(source(file, 0)?);
        }
        Ok(true)
    }

    fn is_replaced(&mut self) -> io::Result<bool> {
        let Some(Source::Plain(current)) = self.sources.back_mut() else { return Ok(false) };
        if current.stream_position()? > current.metadata()?.len() {
            // Cut short by whoever rotates by copying: what is there now is new.
            current.seek(SeekFrom::Start(0))?;
        }
        self.folder.is_replaced(current)
    }

    /// Reads more behind what is left over; says whether there was any.
    fn fill(&mut self) -> io::Result<bool> {
        let Some(source) = self.sources.front_mut() else { return Ok(false) };
        if self.block.len() < BLOCK {
            let size = if self.block.is_empty() && self.wanted.follow { BLOCK_AFTER_WAIT } else { BLOCK };
            self.block.resize(size.max(self.filled + BLOCK_AFTER_WAIT).min(BLOCK), 0);
        }
        let mut read = 0;
        while self.filled < self.block.len() {
            match source.read(&mut self.block[self.filled..])? {
                0 => break,
                length => {
                    self.filled += length;
                    read += length;
                }
            }
        }
        Ok(read > 0)
    }

    fn print(&mut self, rest: Rest, shown: &mut Vec<u8>) -> Result<(), LogReadError> {
        if shown.capacity() == 0 {
            shown.reserve(self.filled + self.filled / 8);
        }
        let taken = self.printer.print(&self.block[..self.filled], rest, shown)?;
        self.block.copy_within(taken..self.filled, 0);
        self.filled -= taken;
        Ok(())
    }

    /// Gives room back that is not needed while nothing is read.
    fn shrink(&mut self) {
        self.block.truncate(self.filled);
        self.block.shrink_to_fit();
    }

    fn failed(&self, problem: io::Error) -> LogReadError {
        LogReadError::Read { path: self.wanted.path.clone(), problem }
    }
}

impl Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Packed { from, lines_to_skip } => {
                while *lines_to_skip > 0 {
                    let length = from.read(buffer)?;
                    let Some(end) = skip(&buffer[..length], lines_to_skip) else {
                        if length == 0 {
                            return Ok(0);
                        }
                        continue;
                    };
                    if end < length {
                        buffer.copy_within(end..length, 0);
                        return Ok(length - end);
                    }
                }
                from.read(buffer)
            }
        }
    }
}

/// Where the lines to be skipped end, if they end here.
fn skip(bytes: &[u8], lines: &mut u64) -> Option<usize> {
    for end in memchr::memchr_iter(b'\n', bytes) {
        *lines -= 1;
        if *lines == 0 {
            return Some(end + 1);
        }
    }
    None
}

fn source(file: LogFile, lines_to_skip: u64) -> io::Result<Source> {
    Ok(match file {
        LogFile::Plain(file) => Source::Plain(file),
        LogFile::Packed(file) => Source::Packed { from: Box::new(unpacked(&file)?), lines_to_skip },
    })
}

/// The files that the request reaches back to, oldest first, each at the place where reading begins (PAIN-25). Also how many
/// pieces of lines are among the lines to be read that do not count as lines.
///
/// Lines are counted back from the end. A time is looked for in the first line of each file, and all of the log is all files
/// of it. Upstream reads `live` alone, so that its answer depends on when the log was rotated last. As upstream, each piece
/// of a line counts; but not the piece that is one only because the log was rotated within the line.
fn sources(
    folder: &LogFolder,
    live: File,
    known: Option<&str>,
    wanted: &LogWanted,
    ended: &AtomicBool,
) -> io::Result<(VecDeque<Source>, u64)> {
    match wanted.tail_lines {
        Some(lines) => last_lines(folder, live, known, lines, ended),
        None => Ok((since(folder, live, known, wanted.print.since)?, 0)),
    }
}

/// The files that may hold entries of this time and later ones.
fn since(folder: &LogFolder, live: File, known: Option<&str>, since: Option<LogTime>) -> io::Result<VecDeque<Source>> {
    let mut sources = VecDeque::new();
    let newest = LogFile::Plain(live.try_clone()?);
    let mut reaches = !is_older(&newest, since);
    for file in folder.before(&live, known)? {
        if !reaches {
            break;
        }
        let file = file?;
        reaches = !is_older(&file, since);
        sources.push_front(source(file, 0)?);
    }
    sources.push_back(Source::Plain(live));
    Ok(sources)
}

/// The files that the last lines are in, and the pieces among them that do not count as lines.
fn last_lines(
    folder: &LogFolder,
    mut live: File,
    known: Option<&str>,
    lines: u64,
    ended: &AtomicBool,
) -> io::Result<(VecDeque<Source>, u64)> {
    let mut sources = VecDeque::new();
    let (start, found) = tail_of(&live, lines, ended)?;
    let (mut missing, mut pieces) = (lines - found, 0);
    // Also where no line is missing: the first one may have begun in the file before.
    let mut reaches = lines > 0 && start == 0;
    for file in folder.before(&live, known)? {
        if !reaches {
            break;
        }
        let (opened, found, piece);
        match file? {
            LogFile::Plain(mut file) => {
                let ending = ending_of(&file, ended)?;
                piece = u64::from(ending.goes_on);
                // Nothing will be added to it: there, a line without an end is a line.
                let unfinished = u64::from(ending.unfinished).min(missing + piece);
                let (start, ends) = tail_of(&file, missing + piece - unfinished, ended)?;
                file.seek(SeekFrom::Start(start))?;
                (opened, found) = (Source::Plain(file), ends + unfinished);
                reaches = start == 0;
            }
            LogFile::Packed(file) => {
                let (all, ending) = lines_in(&file, ended)?;
                piece = u64::from(ending.goes_on);
                let to_skip = all.saturating_sub(missing + piece);
                (opened, found) = (source(LogFile::Packed(file), to_skip)?, all - to_skip);
                reaches = to_skip == 0;
            }
        }
        missing -= found - piece;
        pieces += piece;
        if found > 0 {
            sources.push_front(opened);
        }
    }
    live.seek(SeekFrom::Start(start))?;
    sources.push_back(Source::Plain(live));
    Ok((sources, pieces))
}

/// Whether all that is older than the file is older than what is wanted. A file that cannot be read now is met again
/// when it is its turn.
fn is_older(file: &LogFile, since: Option<LogTime>) -> bool {
    since.is_some_and(|since| file.begins_before(since).unwrap_or(false))
}
