//! The end of a container's log, read backwards within a bound.
//!
//! The format is CRI's: `<time> <stdout|stderr> <tags> <content>`, one entry a line; tag `P` says that the entry's line
//! goes on in the next entry. Used by the Linux files of pods; keeps nothing.

use std::io::{self, Read, Seek, SeekFrom};

/// How much of the file is read at a time, from its end.
const CHUNK: u64 = 8 * 1024;
/// The most bytes of an entry's time, stream and tags.
const PREFIX_BYTES_MAX: usize = 64;
/// Runtimes cut entries at 16 KiB of content unless told otherwise; this is room for some.
const SPARE_BYTES: usize = 64 * 1024;

/// The contents of the last `lines_max` entries, at most the last `bytes_max` bytes of them. Reads no more of the file
/// than these can take and 64 KiB. As upstream does for a termination message, both streams are taken, in the order of
/// the file, and entries that are none are passed over.
pub(super) fn tail(file: &mut (impl Read + Seek), lines_max: usize, bytes_max: usize) -> io::Result<Vec<u8>> {
    let budget = bytes_max.saturating_add(lines_max.saturating_add(1).saturating_mul(PREFIX_BYTES_MAX + 1));
    let window = read_backwards(file, lines_max, budget.saturating_add(SPARE_BYTES))?;
    let mut contents = Vec::new();
    let mut lines: Vec<&[u8]> = window.bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    let from = lines.len().saturating_sub(lines_max);
    for (index, line) in lines.iter().enumerate().skip(from) {
        let cut = index == 0 && window.cut;
        match parse(line) {
            _ if cut => {
                // The beginning of a very long entry is out of reach; what is left of it, its prefix surely excluded.
                contents.extend_from_slice(line.get(PREFIX_BYTES_MAX..).unwrap_or_default());
                contents.push(b'\n');
            }
            Some(entry) => {
                contents.extend_from_slice(entry.content);
                if !entry.partial {
                    contents.push(b'\n');
                }
            }
            None => {}
        }
    }
    let surplus = contents.len().saturating_sub(bytes_max);
    contents.drain(..surplus);
    Ok(contents)
}

struct Window {
    bytes: Vec<u8>,
    /// Whether the first line may begin before the window.
    cut: bool,
}

/// Reads from the end until `lines_max` whole lines, the beginning of the file or `bytes_max` are reached.
fn read_backwards(file: &mut (impl Read + Seek), lines_max: usize, bytes_max: usize) -> io::Result<Window> {
    let mut start = file.seek(SeekFrom::End(0))?;
    let mut chunks: Vec<Vec<u8>> = Vec::new();
    let (mut held, mut ends) = (0, 0);
    // One more end than lines: the one before the first line wanted. A last line without an end only gives one more.
    while start > 0 && held < bytes_max && ends <= lines_max {
        let size = CHUNK.min(start);
        start -= size;
        file.seek(SeekFrom::Start(start))?;
        let mut chunk = Vec::new();
        file.by_ref().take(size).read_to_end(&mut chunk)?;
        held += chunk.len();
        ends += chunk.iter().filter(|byte| **byte == b'\n').count();
        chunks.push(chunk);
    }
    chunks.reverse();
    Ok(Window { bytes: chunks.concat(), cut: start > 0 })
}

struct Entry<'a> {
    partial: bool,
    content: &'a [u8],
}

fn parse(line: &[u8]) -> Option<Entry<'_>> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let (time, stream, tags) = (parts.next()?, parts.next()?, parts.next()?);
    let time = std::str::from_utf8(time).ok()?;
    time.parse::<jiff::Timestamp>().ok()?;
    if stream != b"stdout" && stream != b"stderr" {
        return None;
    }
    let partial = tags.split(|byte| *byte == b':').next() == Some(b"P");
    Some(Entry { partial, content: parts.next().unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::tail;

    const TIME: &str = "2026-01-02T03:04:05.123456789Z";

    fn tail_of(log: &str, lines_max: usize, bytes_max: usize) -> String {
        String::from_utf8(tail(&mut Cursor::new(log.as_bytes().to_vec()), lines_max, bytes_max).expect("read"))
            .expect("text")
    }

    /// SEC-12.
    #[test]
    fn sec_12_the_last_lines_are_given_without_their_prefixes() {
        let log = format!("{TIME} stdout F one\n{TIME} stderr F two  words\n{TIME} stdout F three\n");
        let cases: &[(usize, usize, &str)] = &[
            (80, 2048, "one\ntwo  words\nthree\n"),
            (2, 2048, "two  words\nthree\n"),
            (1, 2048, "three\n"),
            (80, 8, "s\nthree\n"),
            (0, 2048, ""),
            (80, 0, ""),
        ];
        for (lines_max, bytes_max, expected) in cases {
            assert_eq!(tail_of(&log, *lines_max, *bytes_max), *expected, "{lines_max} lines, {bytes_max} bytes");
        }
    }

    #[test]
    fn partial_entries_are_joined() {
        let log = format!("{TIME} stdout P one \n{TIME} stdout P two \n{TIME} stdout F three\n{TIME} stdout F\n");
        assert_eq!(tail_of(&log, 80, 2048), "one two three\n\n");
    }

    #[test]
    fn entries_that_are_none_are_passed_over() {
        let log = format!("no entry\n{TIME} stdnone F x\nyesterday stdout F x\n{TIME} stdout F good\n{TIME} stdout");
        assert_eq!(tail_of(&log, 80, 2048), "good\n");
    }

    #[test]
    fn a_zone_other_than_utc_is_an_entry_too() {
        assert_eq!(tail_of("2026-01-02T03:04:05.1+02:00 stdout F good", 80, 2048), "good\n");
    }

    #[test]
    fn a_line_longer_than_the_bound_gives_its_end() {
        let log = format!("{TIME} stdout F {}end\n", "x".repeat(1 << 20));
        assert_eq!(tail_of(&log, 80, 6), "xxend\n");
    }

    #[test]
    fn only_the_end_of_a_large_log_is_read() {
        struct Counting(Cursor<Vec<u8>>, usize);
        impl std::io::Read for Counting {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let read = self.0.read(buffer)?;
                self.1 += read;
                Ok(read)
            }
        }
        impl std::io::Seek for Counting {
            fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
                self.0.seek(to)
            }
        }
        let log = format!("{TIME} stdout F {}\n", "x".repeat(16_000)).repeat(500);
        let mut file = Counting(Cursor::new(log.into_bytes()), 0);
        assert_eq!(tail(&mut file, 80, 2048).expect("read").len(), 2048);
        assert!(file.1 < 128 * 1024, "{} bytes read", file.1);
    }

    proptest::proptest! {
        #[test]
        fn the_tail_is_the_end_of_all_contents(
            contents in proptest::collection::vec("[a-z ]{0,40}", 0..60),
            lines_max in 0_usize..70,
            bytes_max in 0_usize..400,
        ) {
            let log: String = contents.iter().map(|content| format!("{TIME} stdout F {content}\n")).collect();
            let all: String =
                contents.iter().skip(contents.len().saturating_sub(lines_max)).map(|content| format!("{content}\n")).collect();
            let expected = &all[all.len().saturating_sub(bytes_max)..];
            proptest::prop_assert_eq!(tail_of(&log, lines_max, bytes_max), expected);
        }
    }
}
