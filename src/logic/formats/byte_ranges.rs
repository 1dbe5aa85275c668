//! Parts of a file that a client asks for: the header `Range`, read as Go's file server reads it, and the form of an
//! answer with several of them (SRV-31).

/// Parts in one answer. More are answered with the whole, as may be; Go has no bound but the file's length.
const PARTS_MAX: usize = 64;

/// A part: its first byte, and the one after its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first byte.
    pub from: u64,
    /// The byte after the last.
    pub to: u64,
}

/// The request of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// All of the file.
    Whole,
    /// These parts, one at least, in the order they were asked for.
    Parts(Vec<Part>),
    /// Nothing that can be understood.
    Invalid,
    /// Parts that lie beyond the file's end.
    Nowhere,
}

/// Reads the value of `Range` for a file of `length` bytes.
pub fn parse(header: &str, length: u64) -> Asked {
    let Some(list) = header.strip_prefix("bytes=") else { return Asked::Invalid };
    let (mut parts, mut beyond) = (vec![], false);
    for text in list.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        match part(text, length) {
            Some(Some(part)) => parts.push(part),
            Some(None) => beyond = true,
            None => return Asked::Invalid,
        }
    }
    let sum = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.to - part.from));
    match parts.len() {
        0 if beyond && length > 0 => Asked::Nowhere,
        0 => Asked::Whole,
        // A client that asks for the same bytes again and again wants too much, or does not know its own wish.
        count if count > PARTS_MAX || sum > length => Asked::Whole,
        _ => Asked::Parts(parts),
    }
}

/// One part; `Some(None)` for one beyond the end, `None` for what is none.
fn part(text: &str, length: u64) -> Option<Option<Part>> {
    let (first, last) = text.split_once('-')?;
    let (first, last) = (first.trim(), last.trim());
    if first.is_empty() {
        let count = number(last)?.min(length);
        return Some((count > 0).then_some(Part { from: length - count, to: length }));
    }
    let from = number(first)?;
    if from >= length {
        return Some(None);
    }
    let to = match last {
        "" => length,
        last => number(last).filter(|last| *last >= from)?.saturating_add(1).min(length),
    };
    Some(Some(Part { from, to }))
}

/// A number as Go reads it, without a sign.
fn number(text: &str) -> Option<u64> {
    let value: i64 = text.parse().ok()?;
    u64::try_from(value).ok().filter(|_| !text.starts_with('+') && !text.starts_with('-'))
}

impl Part {
    /// The value of `Content-Range`, of a file of `length` bytes.
    pub fn content_range(self, length: u64) -> String {
        format!("bytes {}-{}/{length}", self.from, self.to - 1)
    }
}

/// An answer with several parts: what stands before each of them, and at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multipart {
    /// The bytes before each part, and the part.
    pub parts: Vec<(String, Part)>,
    /// The bytes at the end.
    pub end: String,
}

impl Multipart {
    /// Parts of a file of this type and length. `boundary` has to be nobody's guess: else who writes the file could have
    /// its content taken for parts.
    pub fn new(parts: &[Part], boundary: &str, content_type: &str, length: u64) -> Self {
        let head = |index: usize, part: &Part| {
            let before = if index == 0 { "" } else { "\r\n" };
            let range = part.content_range(length);
            format!("{before}--{boundary}\r\nContent-Range: {range}\r\nContent-Type: {content_type}\r\n\r\n")
        };
        let parts = parts.iter().enumerate().map(|(index, part)| (head(index, part), *part)).collect();
        Self { parts, end: format!("\r\n--{boundary}--\r\n") }
    }

    /// Bytes of the whole answer.
    pub fn length(&self) -> u64 {
        let parts = self.parts.iter().map(|(head, part)| head.len() as u64 + part.to - part.from);
        parts.sum::<u64>() + self.end.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SRV-31.
    #[test]
    fn ranges_are_read_as_go_reads_them() {
        let parts =
            |parts: &[(u64, u64)]| Asked::Parts(parts.iter().map(|(from, to)| Part { from: *from, to: *to }).collect());
        for (header, length, expected) in [
            ("bytes=2-4", 10, parts(&[(2, 5)])),
            ("bytes=8-", 10, parts(&[(8, 10)])),
            ("bytes=-3", 10, parts(&[(7, 10)])),
            ("bytes=-30", 10, parts(&[(0, 10)])),
            ("bytes=5-99", 10, parts(&[(5, 10)])),
            ("bytes= 1 - 2 , , 4-4,", 10, parts(&[(1, 3), (4, 5)])),
            ("bytes=4-5,0-1", 10, parts(&[(4, 6), (0, 2)])),
            ("bytes=0-1,20-", 10, parts(&[(0, 2)])),
            ("bytes=10-", 10, Asked::Nowhere),
            ("bytes=20-30,-0", 10, Asked::Nowhere),
            ("bytes=0-", 0, Asked::Whole),
            ("bytes=", 10, Asked::Whole),
            ("bytes=0-9,0-9", 10, Asked::Whole),
            ("lines=1-2", 10, Asked::Invalid),
            ("bytes=4-2", 10, Asked::Invalid),
            ("bytes=5", 10, Asked::Invalid),
            ("bytes=-", 10, Asked::Invalid),
            ("bytes=--1", 10, Asked::Invalid),
            ("bytes=+1-2", 10, Asked::Invalid),
            ("bytes=0-1,x-", 10, Asked::Invalid),
            ("bytes=9223372036854775808-", 10, Asked::Invalid),
        ] {
            assert_eq!(parse(header, length), expected, "{header} of {length}");
        }
        let many: Vec<String> = (0..=PARTS_MAX).map(|at| format!("{at}-{at}")).collect();
        assert_eq!(parse(&format!("bytes={}", many.join(",")), 1000), Asked::Whole);
    }

    #[test]
    fn several_parts_have_the_form_of_go() {
        let parts = [Part { from: 2, to: 5 }, Part { from: 8, to: 10 }];
        let multipart = Multipart::new(&parts, "b", "text/plain", 10);
        let (first, second) = (&multipart.parts[0].0, &multipart.parts[1].0);
        assert_eq!(first, "--b\r\nContent-Range: bytes 2-4/10\r\nContent-Type: text/plain\r\n\r\n");
        assert_eq!(second, "\r\n--b\r\nContent-Range: bytes 8-9/10\r\nContent-Type: text/plain\r\n\r\n");
        assert_eq!(multipart.end, "\r\n--b--\r\n");
        assert_eq!(multipart.length(), (first.len() + 3 + second.len() + 2 + multipart.end.len()) as u64);
    }

    proptest::proptest! {
        /// SEC-59: every part is one of the file, and all of them are no more than it.
        #[test]
        fn no_range_is_too_strange(header in "bytes=[-0-9, ]{0,40}", length in 0_u64..100) {
            if let Asked::Parts(parts) = parse(&header, length) {
                proptest::prop_assert!(!parts.is_empty());
                proptest::prop_assert!(parts.iter().all(|part| part.from < part.to && part.to <= length));
                proptest::prop_assert!(parts.iter().map(|part| part.to - part.from).sum::<u64>() <= length);
            }
        }
    }
}
