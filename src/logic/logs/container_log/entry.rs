//! One line of a log file, in the runtime's format or in Docker's.
//!
//! The runtime's: `<time> <stdout|stderr> <tags> <content>`, where the first of the tags, `P`, says that the line goes on
//! in the next entry. Docker's: a JSON object with `log`, `stream` and `time`. Which of the two a file has is told by its
//! first line, as upstream does.

use std::borrow::Cow;

use serde::Deserialize;

use crate::logic::model::time::Moment;

/// The date and the time of day at the beginning of an RFC 3339 time.
const SECONDS_LENGTH: usize = "2006-01-02T15:04:05".len();
/// Digits after the point that count, as upstream.
const FRACTION_DIGITS: usize = 9;
/// More than any header takes: a time, a stream, and tags, of which there is one so far.
const HEADER_BYTES_MAX: usize = 1024;

/// Where a container wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl LogStream {
    fn of(text: &[u8]) -> Option<Self> {
        match text {
            b"stdout" => Some(Self::Stdout),
            b"stderr" => Some(Self::Stderr),
            _ => None,
        }
    }
}

/// A point in time, of any year that a log can name: seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogTime {
    seconds: i64,
    nanos: u32,
}

impl LogTime {
    /// Date and time of day in UTC, whole seconds: `2006-01-02 15:04:05`.
    pub fn to_seconds_text(self) -> String {
        let stamp = jiff::Timestamp::from_second(self.seconds).unwrap_or_default();
        stamp.strftime("%Y-%m-%d %H:%M:%S").to_string()
    }
}

impl From<Moment> for LogTime {
    fn from(moment: Moment) -> Self {
        let nanos = u32::try_from(moment.0.rem_euclid(1_000_000_000)).unwrap_or(0);
        Self { seconds: moment.0.div_euclid(1_000_000_000), nanos }
    }
}

/// An RFC 3339 time as it was written: valid, and cheap to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenTime {
    text: [u8; SECONDS_LENGTH],
    nanos: u32,
    /// Minutes east of Greenwich.
    offset: i32,
}

impl WrittenTime {
    /// Upstream's time for a JSON line without one.
    const NONE: Self = Self { text: *b"0001-01-01T00:00:00", nanos: 0, offset: 0 };

    /// Reads a time, as lenient as upstream's reader: a fraction of any length, or none.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (date, rest) = text.split_at_checked(SECONDS_LENGTH)?;
        let date: [u8; SECONDS_LENGTH] = date.try_into().ok()?;
        let marks = [date[4], date[7], date[10], date[13], date[16]];
        let (year, month, day) = (number(&date[0..4])?, number(&date[5..7])?, number(&date[8..10])?);
        let (hour, minute, second) = (number(&date[11..13])?, number(&date[14..16])?, number(&date[17..19])?);
        let fits = (1..=12).contains(&month) && day >= 1 && day <= days_of(year, month);
        if marks != *b"--T::" || !fits || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let (nanos, zone) = fraction(rest)?;
        Some(Self { text: date, nanos, offset: offset(zone)? })
    }

    /// When it is.
    pub fn time(&self) -> LogTime {
        let part = |from, to| number(&self.text[from..to]).map_or(0, i64::from);
        // Days since 1970, counted in years that begin with March, so that the day that leaps is the last.
        let (year, month) = (part(0, 4) - i64::from(part(5, 7) <= 2), (part(5, 7) + 9) % 12);
        let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
            + year.div_euclid(400)
            + (153 * month + 2) / 5
            + part(8, 10)
            - 719_469;
        let of_day = part(11, 13) * 3600 + part(14, 16) * 60 + part(17, 19);
        LogTime { seconds: days * 86_400 + of_day - i64::from(self.offset) * 60, nanos: self.nanos }
    }

    /// Writes it in a fixed width: nine digits after the point, the zone as it was.
    pub fn print(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.text);
        let mut fraction = *b".000000000";
        let mut left = self.nanos;
        for digit in fraction[1..].iter_mut().rev() {
            // A digit: always below ten.
            *digit += u8::try_from(left % 10).unwrap_or(0);
            left /= 10;
        }
        out.extend_from_slice(&fraction);
        if self.offset == 0 {
            out.push(b'Z');
            return;
        }
        let (sign, minutes) = (if self.offset < 0 { '-' } else { '+' }, self.offset.unsigned_abs());
        out.extend_from_slice(format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60).as_bytes());
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |value, digit| {
        let digit = digit.wrapping_sub(b'0');
        (digit < 10).then(|| value * 10 + u32::from(digit))
    })
}

fn days_of(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The nanoseconds after the point, and what follows them.
fn fraction(rest: &[u8]) -> Option<(u32, &[u8])> {
    let Some(digits) = rest.strip_prefix(b".").or_else(|| rest.strip_prefix(b",")) else { return Some((0, rest)) };
    let length = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let counted = &digits[..length.min(FRACTION_DIGITS)];
    let scale = 10_u32.pow(u32::try_from(FRACTION_DIGITS - counted.len()).ok()?);
    (length > 0).then_some((number(counted)? * scale, &digits[length..]))
}

/// Minutes east of Greenwich.
fn offset(zone: &[u8]) -> Option<i32> {
    let (sign, hours, minutes) = match zone {
        b"Z" => return Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => (*sign, number(&[*h1, *h2])?, number(&[*m1, *m2])?),
        _ => return None,
    };
    let minutes = (hours <= 24 && minutes <= 60).then(|| i32::try_from(hours * 60 + minutes).ok())??;
    Some(if sign == b'-' { -minutes } else { minutes })
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// The runtime's.
    Cri,
    /// Docker's.
    Json,
}

/// A line, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// When it was written.
    pub time: WrittenTime,
    /// Where to.
    pub stream: LogStream,
    /// Whether the line goes on in the next entry: the end of this one is then no end of a line.
    pub partial: bool,
    /// The written bytes, with the end of the line.
    pub content: Cow<'a, [u8]>,
}

impl LogFormat {
    /// The format of a file with this first line; `None` for one that is no log's.
    pub fn of(line: &[u8]) -> Option<Self> {
        [Self::Cri, Self::Json].into_iter().find(|format| format.parse(line).is_some())
    }

    /// Reads a line, with or without its end; `None` for one that is not of this format.
    pub fn parse(self, line: &[u8]) -> Option<Entry<'_>> {
        match self {
            Self::Cri => parse_cri(line),
            Self::Json => parse_json(line),
        }
    }
}

/// The header of a line of the runtime's, and the rest of the line. The end of a line that is partial is
/// cut off. Works for a line that is not there to its end yet, too, if what is there holds the header.
pub fn parse_cri(line: &[u8]) -> Option<Entry<'_>> {
    let head = &line[..line.len().min(HEADER_BYTES_MAX)];
    let mut blanks = memchr::memchr_iter(b' ', head);
    let (first, second, third) = (blanks.next()?, blanks.next()?, blanks.next()?);
    let time = WrittenTime::parse(&line[..first])?;
    let stream = LogStream::of(&line[first + 1..second])?;
    let partial = line[second + 1..third].split(|byte| *byte == b':').next() == Some(b"P");
    let mut content = &line[third + 1..];
    if partial {
        content = content.strip_suffix(b"\n").unwrap_or(content);
    }
    Some(Entry { time, stream, partial, content: Cow::Borrowed(content) })
}

/// A line of Docker's. Members that it has beside these are nobody's concern here.
#[derive(Deserialize)]
struct JsonLine<'a> {
    #[serde(borrow, default)]
    log: Cow<'a, str>,
    #[serde(borrow, default)]
    stream: Cow<'a, str>,
    #[serde(borrow, default)]
    time: Option<Cow<'a, str>>,
}

fn parse_json(line: &[u8]) -> Option<Entry<'_>> {
    let text = match std::str::from_utf8(line) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(String::from_utf8_lossy(line).into_owned()),
    };
    let read: JsonLine<'_> = serde_json::from_str(&text).ok()?;
    let time = read.time.map_or(Some(WrittenTime::NONE), |time| WrittenTime::parse(time.as_bytes()))?;
    let stream = LogStream::of(read.stream.as_bytes())?;
    // Docker's pieces of a line say that they are pieces by not ending with one.
    Some(Entry { time, stream, partial: false, content: Cow::Owned(read.log.into_owned().into_bytes()) })
}

#[cfg(test)]
mod tests;
