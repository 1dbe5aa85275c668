//! The files of one log: where they are, which there are, and where reading of them begins.
//!
//! Everything is reached from an open directory, segment by segment, and links are refused (SEC-13): a pod that may write to
//! the node's logs must not have the agent read other files to it. The one link that the reader follows is Docker's, to the
//! very file that Docker keeps for that container, wherever its data-root is.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::read::MultiGzDecoder;
use rustix::fs::FileType;

use crate::logic::logs::container_log::entry::{LogFormat, LogTime, parse_cri};
use crate::logic::logs::log_rotation;
use crate::platform::files::safe_path::{Directory, Mounts};

/// Below its data-root, wherever that is, Docker keeps a container's log as `containers/<id>/<id>-json.log`.
const DOCKER_CONTAINERS: &str = "containers";
/// Rotated files of one log that are looked at, the newest ones: as many as an administrator may reasonably ask a node to
/// keep.
const ROTATED_MAX: usize = 64;
/// Read at once when lines are counted.
const COUNT_BLOCK: usize = 128 * 1024;
/// The bytes of a file that are looked at to know its first time, and whether two files are one.
const BEGINNING_BYTES: usize = 4096;
/// The bytes of a line that are looked at to know whether it is a piece: more than the runtime writes before its content.
const LINE_BEGINNING_BYTES: usize = 128;
/// A compressed file that holds more than this is not taken for one of a log.
const UNPACKED_BYTES_MAX: u64 = 64 << 30;

/// A log's directory, opened, and its name there.
#[derive(Debug)]
pub(super) struct LogFolder {
    pub(super) directory: Directory,
    pub(super) name: String,
}

/// One file of a log.
#[derive(Debug)]
pub(super) enum LogFile {
    /// As it was written.
    Plain(File),
    /// Compressed.
    Packed(File),
}

impl LogFolder {
    /// Finds a log by the path that the runtime names, below `root`.
    pub(super) fn open(root: &Path, path: &str, container: &str) -> io::Result<Self> {
        let outside = || io::Error::other("it is not below the directory of pods' logs");
        let below = Path::new(path).strip_prefix(root).map_err(|_| outside())?;
        let segments = below.components().map(|component| match component {
            Component::Normal(name) => name.to_str(),
            _ => None,
        });
        let segments = segments.collect::<Option<Vec<&str>>>().ok_or_else(outside)?;
        let Some((name, parents @ [_, ..])) = segments.split_last() else { return Err(outside()) };
        let directory = Directory::open(root)?.directory(parents, Mounts::Cross)?;
        let folder = Self { directory, name: (*name).to_owned() };
        Ok(folder.docker(container)?.unwrap_or(folder))
    }

    /// Where the log is a link to what Docker writes for this container, its place there. The one who planted the link
    /// chose the data-root, but no more: the names below it are the container's own, and no further link is followed.
    /// Docker itself writes links of a data-root without links.
    fn docker(&self, container: &str) -> io::Result<Option<Self>> {
        let Some(target) = self.directory.link_target(&self.name)? else { return Ok(None) };
        let other = || io::Error::other("it is a link");
        let name = format!("{container}-json.log");
        let mut below = target.to_str().and_then(|path| path.strip_prefix('/')).ok_or_else(other)?.split('/');
        let is_own = below.next_back() == Some(name.as_str())
            && below.next_back() == Some(container)
            && below.clone().next_back() == Some(DOCKER_CONTAINERS);
        if !is_own {
            return Err(other());
        }
        let segments: Vec<&str> = below.chain([container]).collect();
        let directory = Directory::open(Path::new("/"))?.directory(&segments, Mounts::Cross)?;
        Ok(Some(Self { directory, name }))
    }

    /// Opens the log that is written to now.
    pub(super) fn live(&self) -> io::Result<File> {
        self.plain(&self.name)
    }

    /// Whether the log that is written to now is another file than this; `false` while there is none.
    pub(super) fn is_replaced(&self, file: &File) -> io::Result<bool> {
        match self.live() {
            Ok(live) => Ok(!same(&live, file)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn plain(&self, name: &str) -> io::Result<File> {
        let file = self.directory.read_regular(&[name], Mounts::Cross)?;
        file.ok_or_else(|| io::Error::other("it is not a regular file"))
    }

    /// The newest rotated file's name, as it was before it was compressed.
    pub(super) fn newest_rotated(&self) -> io::Result<Option<String>> {
        Ok(self.rotated_names()?.pop().map(|name| log_rotation::uncompressed_name(&name).to_owned()))
    }

    /// Rotated files, oldest first.
    fn rotated_names(&self) -> io::Result<Vec<String>> {
        let names = self.directory.names()?.into_iter();
        let names: Vec<String> =
            names.filter(|(_, kind)| *kind == FileType::RegularFile).map(|(name, _)| name).collect();
        Ok(log_rotation::rotated_logs(&self.name, &names))
    }

    /// Opens a rotated file, by its name before it was compressed; `None` when it is gone.
    fn rotated(&self, name: &str) -> io::Result<Option<LogFile>> {
        let plain = log_rotation::uncompressed_name(name);
        // It may be compressed between the two looks, never the other way around.
        for (name, packed) in [(plain.to_owned(), false), (log_rotation::compressed_names(plain).0, true)] {
            match self.directory.read_regular(&[&name], Mounts::Cross) {
                Ok(Some(file)) if packed => return Ok(Some(LogFile::Packed(file))),
                Ok(Some(file)) => return Ok(Some(LogFile::Plain(file))),
                Ok(None) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The files that were rotated before `live` was begun, newest first; each is opened when it is asked for, and left
    /// out when it has vanished by then. `known` is the newest rotated file from before `live` was opened: among those
    /// after it `live` itself is looked for, which, with what came after it, is not before it.
    pub(super) fn before(
        &self,
        live: &File,
        known: Option<&str>,
    ) -> io::Result<impl Iterator<Item = io::Result<LogFile>> + use<'_>> {
        let mut names = self.rotated_names()?;
        let known = names.iter().position(|name| Some(log_rotation::uncompressed_name(name)) == known);
        for number in known.map_or(0, |known| known + 1)..names.len() {
            if let Some(file) = self.rotated(&names[number])?
                && file.is(live)?
            {
                names.truncate(number);
                break;
            }
        }
        let newest = names.into_iter().rev().take(ROTATED_MAX);
        Ok(newest.filter_map(|name| self.rotated(&name).transpose()))
    }

    /// The files that follow `current`, oldest first, now that there is another log: rotated files and the log itself.
    /// `known` is the newest rotated file when `current` was begun: it and what is older came before.
    pub(super) fn after(&self, current: &File, known: Option<&str>) -> io::Result<Vec<LogFile>> {
        let live = self.live()?;
        let names = self.rotated_names()?;
        let newer = names.iter().rev().take_while(|name| Some(log_rotation::uncompressed_name(name)) != known);
        let mut after = vec![];
        for name in newer.take(ROTATED_MAX) {
            match self.rotated(name)? {
                Some(file) if file.is(current)? => break,
                // It was given a rotated name just now.
                Some(LogFile::Plain(file)) if same(&file, &live)? => {}
                Some(file) => after.push(file),
                None => {}
            }
        }
        after.reverse();
        after.push(LogFile::Plain(live));
        Ok(after)
    }
}

/// Whether two open files are one.
pub(super) fn same(one: &File, other: &File) -> io::Result<bool> {
    let (one, other) = (one.metadata()?, other.metadata()?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

impl LogFile {
    /// Whether it is this file, or what this file became when it was compressed.
    fn is(&self, file: &File) -> io::Result<bool> {
        match self {
            Self::Plain(own) => same(own, file),
            Self::Packed(_) => {
                let mut beginning = vec![0; BEGINNING_BYTES];
                let length = file.read_at(&mut beginning, 0)?;
                Ok(length > 0 && self.beginning()?.starts_with(&beginning[..length]))
            }
        }
    }

    /// The first bytes that were written, without moving where reading is.
    fn beginning(&self) -> io::Result<Vec<u8>> {
        let mut beginning = vec![];
        match self {
            Self::Plain(file) => {
                beginning.resize(BEGINNING_BYTES, 0);
                let length = file.read_at(&mut beginning, 0)?;
                beginning.truncate(length);
            }
            Self::Packed(file) => {
                unpacked(file)?.take(BEGINNING_BYTES as u64).read_to_end(&mut beginning)?;
            }
        }
        Ok(beginning)
    }

    /// Whether its first line is older than this, or nothing says so.
    pub(super) fn begins_before(&self, time: LogTime) -> io::Result<bool> {
        let beginning = self.beginning()?;
        let line = beginning.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        let format = LogFormat::of(line);
        Ok(format.and_then(|format| format.parse(line)).is_some_and(|entry| entry.time.time() < time))
    }
}

/// A compressed file from its beginning.
pub(super) fn unpacked(file: &File) -> io::Result<impl Read + Send + use<>> {
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(0))?;
    Ok(MultiGzDecoder::new(BufReader::new(file)).take(UNPACKED_BYTES_MAX))
}

/// Where the last `lines` lines of a file begin, and how many there are if it has fewer. As upstream, a last line
/// without an end is no line of its own. Reads backwards, and no more than it must.
pub(super) fn tail_of(file: &File, lines: u64, ended: &AtomicBool) -> io::Result<(u64, u64)> {
    let mut start = file.metadata()?.len();
    let (mut found, mut block) = (0_u64, vec![0; COUNT_BLOCK]);
    while start > 0 {
        stop_if(ended)?;
        let size = start.min(COUNT_BLOCK as u64);
        start -= size;
        let part = &mut block[..usize::try_from(size).unwrap_or(COUNT_BLOCK)];
        file.read_exact_at(part, start)?;
        for end in memchr::memrchr_iter(b'\n', part) {
            if found == lines {
                return Ok((start + end as u64 + 1, lines));
            }
            found += 1;
        }
    }
    Ok((0, found))
}

/// How a file ends that nothing is added to any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Ending {
    /// The last line has no end: the runtime was ended while it wrote.
    pub(super) unfinished: bool,
    /// The last entry is a piece of a line that goes on in the next file: a runtime that has to open another file takes the
    /// part of a line that it has read to be all there is.
    pub(super) goes_on: bool,
}

/// How an uncompressed file ends. Reads its last line's beginning.
pub(super) fn ending_of(file: &File, ended: &AtomicBool) -> io::Result<Ending> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(Ending::default());
    }
    let mut last = [0];
    file.read_exact_at(&mut last, length - 1)?;
    let unfinished = last != [b'\n'];
    let (start, _) = tail_of(file, u64::from(!unfinished), ended)?;
    let mut beginning = [0; LINE_BEGINNING_BYTES];
    let read = file.read_at(&mut beginning, start)?;
    Ok(Ending { unfinished, goes_on: is_piece(&beginning[..read]) })
}

/// How many lines a compressed file holds, one without an end included, and how it ends.
pub(super) fn lines_in(file: &File, ended: &AtomicBool) -> io::Result<(u64, Ending)> {
    let mut unpacked = unpacked(file)?;
    let (mut lines, mut block) = (0_u64, vec![0; COUNT_BLOCK]);
    // Of the last line; empty after the end of one until there is more.
    let (mut beginning, mut at_end) = (Vec::with_capacity(LINE_BEGINNING_BYTES), true);
    loop {
        stop_if(ended)?;
        let length = unpacked.read(&mut block)?;
        if length == 0 {
            let ending = Ending { unfinished: !at_end, goes_on: is_piece(&beginning) };
            return Ok((lines + u64::from(!at_end), ending));
        }
        let read = &block[..length];
        lines += memchr::memchr_iter(b'\n', read).count() as u64;
        // The last line that has a beginning here, or what more there is of the one before.
        let (body, ends) = read.strip_suffix(b"\n").map_or((read, false), |body| (body, true));
        match memchr::memrchr(b'\n', body) {
            Some(before) => keep_beginning(&mut beginning, true, &body[before + 1..]),
            None => keep_beginning(&mut beginning, at_end, body),
        }
        at_end = ends;
    }
}

fn keep_beginning(beginning: &mut Vec<u8>, anew: bool, more: &[u8]) {
    if anew {
        beginning.clear();
    }
    let room = LINE_BEGINNING_BYTES - beginning.len();
    beginning.extend_from_slice(&more[..more.len().min(room)]);
}

/// Whether a line that begins so is a piece of one.
fn is_piece(beginning: &[u8]) -> bool {
    parse_cri(beginning).is_some_and(|entry| entry.partial)
}

fn stop_if(ended: &AtomicBool) -> io::Result<()> {
    // Nobody is there to see the error.
    if ended.load(Ordering::Relaxed) { Err(io::Error::other("the reader has left")) } else { Ok(()) }
}
