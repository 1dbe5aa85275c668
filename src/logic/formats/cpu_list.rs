//! Lists of CPUs as the kernel and the configuration write them: `0-3,8`.
//!
//! Pure. A list is kept as ranges, so that one of many CPUs costs nothing. `resources::cpu_manager` has sets to compute with.

use std::fmt;

use super::go_text::quoted;

/// A set of CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList {
    /// In order, apart from each other.
    ranges: Vec<(u64, u64)>,
}

/// Why a text is no list; the texts are those of upstream's parser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// Something else than a number.
    #[error("strconv.Atoi: parsing {}: invalid syntax", quoted(.0))]
    NoNumber(String),
    /// A number of more than 64 bits.
    #[error("strconv.Atoi: parsing {}: value out of range", quoted(.0))]
    TooLarge(String),
    /// A range that ends before it begins.
    #[error("invalid range {} ({first} > {last})", quoted(.range))]
    Reversed {
        /// The range as written.
        range: String,
        /// Its first number.
        first: i64,
        /// Its last number.
        last: i64,
    },
}

impl CpuList {
    /// Reads a list as the kernel writes one; `None` where it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last).then_some((first, last))
        };
        Some(Self::of(text.split(',').map(range).collect::<Option<_>>()?))
    }

    /// Reads a list as upstream's `cpuset.Parse`: the empty text is the empty list.
    ///
    /// # Errors
    /// The first part that is neither a number nor a range.
    pub fn read(text: &str) -> Result<Self, CpuListError> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').map_or((part, None), |(first, last)| (first, Some(last)));
            let first = number(first)?;
            let last = last.map_or(Ok(first), number)?;
            if first > last {
                return Err(CpuListError::Reversed { range: part.to_owned(), first, last });
            }
            // A range begins with a digit or `+`, so that no number is below zero.
            Ok((first.unsigned_abs(), last.unsigned_abs()))
        };
        if text.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self::of(text.split(',').map(range).collect::<Result<_, _>>()?))
    }

    fn of(mut parts: Vec<(u64, u64)>) -> Self {
        parts.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = vec![];
        for (first, last) in parts {
            match ranges.last_mut().filter(|before| first <= before.1.saturating_add(1)) {
                Some(before) => before.1 = before.1.max(last),
                None => ranges.push((first, last)),
            }
        }
        Self { ranges }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.ranges.iter().fold(0, |sum: u64, (first, last)| sum.saturating_add(last - first).saturating_add(1))
    }

    /// First and last CPU of each range, in order.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    /// Whether all of them are among `others`.
    pub fn is_within(&self, others: &Self) -> bool {
        let is_covered =
            |(first, last): &(u64, u64)| others.ranges.iter().any(|(from, to)| from <= first && last <= to);
        self.ranges.iter().all(is_covered)
    }
}

/// A list of numbers, each once and in order.
impl FromIterator<u64> for CpuList {
    fn from_iter<T: IntoIterator<Item = u64>>(cpus: T) -> Self {
        Self::of(cpus.into_iter().map(|cpu| (cpu, cpu)).collect())
    }
}

/// As the kernel and upstream's `cpuset` write it.
impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.ranges.iter().enumerate() {
            let separator = if at == 0 { "" } else { "," };
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
        }
        Ok(())
    }
}

/// A number as Go's `strconv.Atoi` reads it.
fn number(text: &str) -> Result<i64, CpuListError> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(CpuListError::NoNumber(text.to_owned()));
    }
    text.parse().map_err(|_| CpuListError::TooLarge(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> CpuList {
        CpuList::parse(text).expect("a list")
    }

    #[test]
    fn lists_are_sets() {
        for (text, count) in
            [("0", 1), ("0-3,8", 5), ("8,0-3", 5), ("0-3,2-5,5", 6), ("0-18446744073709551615", u64::MAX)]
        {
            assert_eq!(list(text).count(), count, "{text}");
        }
        for text in ["", "x", "3-1", "1,", "-1"] {
            assert_eq!(CpuList::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_list_is_within_another_when_all_of_it_is() {
        assert!(list("1-2,4").is_within(&list("0-1,2-7")));
        assert!(!list("1-2,8").is_within(&list("0-7")));
    }

    #[test]
    fn a_list_is_written_in_its_shortest_form() {
        for (text, written) in [("0", "0"), ("3,1,2", "1-3"), ("0-1,3,4,9", "0-1,3-4,9"), ("5-5", "5")] {
            assert_eq!(list(text).to_string(), written, "{text}");
            assert_eq!(CpuList::read(text).map(|list| list.to_string()), Ok(written.to_owned()));
        }
        assert_eq!(CpuList::read("").map(|list| list.to_string()), Ok(String::new()));
        assert_eq!([7, 1, 2, 1].into_iter().collect::<CpuList>().to_string(), "1-2,7");
    }

    #[test]
    fn a_text_that_is_no_list_is_refused_in_upstreams_words() {
        for (text, error) in [
            ("x", "strconv.Atoi: parsing \"x\": invalid syntax"),
            ("1,", "strconv.Atoi: parsing \"\": invalid syntax"),
            ("-1", "strconv.Atoi: parsing \"\": invalid syntax"),
            ("1-", "strconv.Atoi: parsing \"\": invalid syntax"),
            ("0-1-2", "strconv.Atoi: parsing \"1-2\": invalid syntax"),
            (" 1", "strconv.Atoi: parsing \" 1\": invalid syntax"),
            ("3-1", "invalid range \"3-1\" (3 > 1)"),
            ("0--1", "invalid range \"0--1\" (0 > -1)"),
            ("9223372036854775808", "strconv.Atoi: parsing \"9223372036854775808\": value out of range"),
        ] {
            assert_eq!(CpuList::read(text).map_err(|error| error.to_string()), Err(error.to_owned()), "{text}");
        }
        assert_eq!(CpuList::read("+1-+2").map(|list| list.to_string()), Ok("1-2".to_owned()));
    }
}
