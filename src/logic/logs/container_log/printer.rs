//! From a log file's bytes to the bytes that a reader gets: without the runtime's stamps, or with them in another form, from
//! a time on. So many lines or bytes at most, of one stream or both (SRV-35, SRV-36).
//!
//! Owned by whoever reads the files. Keeps where in a line it is and what is left to show, never a line.

use super::entry::{Entry, LogFormat, LogStream, LogTime, parse_cri};
use crate::logic::formats::go_text::quoted;

/// The most that is printed of a first line that is of no format.
const STRANGE_LINE_BYTES_MAX: usize = 4096;

/// A reader's wishes about a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PrintOptions {
    /// Lines that are older are passed over.
    pub since: Option<LogTime>,
    /// Whether each line begins with its time.
    pub timestamps: bool,
    /// Bytes to show at most, times included.
    pub bytes_max: Option<u64>,
    /// Lines of the file to take at most; those that are passed over count, those that are none do not.
    pub lines_max: Option<u64>,
    /// Only this stream.
    pub stream: Option<LogStream>,
}

/// The possible continuation of the bytes that are given to [`Printer::print`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// An unfinished line may be given again with more of it.
    MayGrow,
    /// There is no room for more: the printer gives out a line that takes all of it in pieces.
    NoRoom,
    /// Nothing: an unfinished line is a line.
    End,
}

/// The first line of a file is of no format that is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to get parse function: unsupported log format: {}", quoted(.0))]
pub struct UnknownFormat(pub String);

/// Where in a line that is too long to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    /// In its content.
    Content { partial: bool, shown: bool, empty: bool },
    /// In what is passed over up to the line's end.
    Passed,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Printer {
    options: PrintOptions,
    format: Option<LogFormat>,
    /// Whether what comes next begins a line of the container's.
    at_start: bool,
    inside: Option<Inside>,
    bytes_left: u64,
    lines_left: Option<u64>,
    strange: u64,
    done: bool,
}

impl Printer {
    /// At the beginning of a log.
    pub fn new(options: PrintOptions) -> Self {
        Self {
            options,
            format: None,
            at_start: true,
            inside: None,
            bytes_left: options.bytes_max.unwrap_or(u64::MAX),
            lines_left: options.lines_max,
            strange: 0,
            done: options.lines_max == Some(0),
        }
    }

    /// Whether the reader has all that it wanted.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// How many lines were passed over because they are none of a log.
    pub fn strange_lines(&self) -> u64 {
        self.strange
    }

    /// Takes bytes of the log, appends their printed form to `out`, and says how many it took. The caller gives the rest
    /// again, with more behind it.
    ///
    /// # Errors
    /// The first line is of no known format.
    pub fn print(&mut self, input: &[u8], rest: Rest, out: &mut Vec<u8>) -> Result<usize, UnknownFormat> {
        let mut taken = 0;
        while !self.done && taken < input.len() {
            let left = &input[taken..];
            let end = memchr::memchr(b'\n', left).map(|at| at + 1);
            taken += match (self.inside, end) {
                (Some(inside), _) => self.go_on(inside, left, end, out),
                (None, Some(end)) => self.line(&left[..end], out)?,
                (None, None) => match rest {
                    // A line that is not the only one here is given again from its beginning.
                    Rest::MayGrow => break,
                    Rest::NoRoom if taken > 0 => break,
                    Rest::NoRoom => self.begin_long(left, out)?,
                    Rest::End => self.line(left, out)?,
                },
            };
        }
        if rest == Rest::End && taken == input.len() {
            // The next file begins with a line of its own.
            self.inside = None;
        }
        Ok(if self.done { input.len() } else { taken })
    }

    fn format_of(&mut self, line: &[u8]) -> Result<LogFormat, UnknownFormat> {
        match self.format.or_else(|| LogFormat::of(line)) {
            Some(format) => Ok(*self.format.insert(format)),
            None => {
                let shown = &line[..line.len().min(STRANGE_LINE_BYTES_MAX)];
                Err(UnknownFormat(String::from_utf8_lossy(shown).into_owned()))
            }
        }
    }

    fn line(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<usize, UnknownFormat> {
        let format = self.format_of(line)?;
        let Some(entry) = format.parse(line) else {
            self.strange += 1;
            return Ok(line.len());
        };
        if self.is_shown(&entry) {
            self.begin_entry(&entry, out);
            self.emit(&entry.content, out);
        }
        self.at_start = entry.content.last().is_none_or(|last| *last == b'\n');
        self.count_line();
        Ok(line.len())
    }

    /// Takes the beginning of a line that there is no room for.
    fn begin_long(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<usize, UnknownFormat> {
        let entry = match self.format_of(line) {
            Ok(LogFormat::Cri) => parse_cri(line),
            Ok(LogFormat::Json) => None,
            Err(unknown) => return Err(unknown),
        };
        let Some(entry) = entry else {
            self.strange += 1;
            self.inside = Some(Inside::Passed);
            return Ok(line.len());
        };
        let shown = self.is_shown(&entry);
        if shown {
            self.begin_entry(&entry, out);
            self.emit(&entry.content, out);
        }
        self.inside = Some(Inside::Content { partial: entry.partial, shown, empty: entry.content.is_empty() });
        Ok(line.len())
    }

    /// Takes more of a line that was begun, up to its end if that is there.
    fn go_on(&mut self, inside: Inside, left: &[u8], end: Option<usize>, out: &mut Vec<u8>) -> usize {
        let taken = end.unwrap_or(left.len());
        if let Inside::Content { partial, shown, empty } = inside {
            // The end of a piece is no end of a line.
            let cut = usize::from(partial && end.is_some());
            let piece = &left[..taken - cut];
            let empty = empty && piece.is_empty();
            if shown {
                self.emit(piece, out);
            }
            self.inside = Some(Inside::Content { partial, shown, empty });
            if end.is_some() {
                self.at_start = !partial || empty;
                self.count_line();
            }
        }
        if end.is_some() {
            self.inside = None;
        }
        taken
    }

    fn is_shown(&self, entry: &Entry<'_>) -> bool {
        self.options.stream.is_none_or(|stream| stream == entry.stream)
            && self.options.since.is_none_or(|since| entry.time.time() >= since)
    }

    fn begin_entry(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        if !self.options.timestamps || !self.at_start {
            return;
        }
        let before = out.len();
        entry.time.print(out);
        out.push(b' ');
        let printed = u64::try_from(out.len() - before).unwrap_or(u64::MAX);
        let kept = printed.min(self.bytes_left);
        out.truncate(before + usize::try_from(kept).unwrap_or(0));
        self.spend(kept);
    }

    fn emit(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let kept = u64::try_from(piece.len()).unwrap_or(u64::MAX).min(self.bytes_left);
        out.extend_from_slice(&piece[..usize::try_from(kept).unwrap_or(piece.len())]);
        self.spend(kept);
    }

    fn spend(&mut self, bytes: u64) {
        if self.options.bytes_max.is_some() {
            self.bytes_left -= bytes;
            self.done |= self.bytes_left == 0;
        }
    }

    fn count_line(&mut self) {
        if let Some(left) = &mut self.lines_left {
            *left = left.saturating_sub(1);
            self.done |= *left == 0;
        }
    }
}

#[cfg(test)]
mod tests;
