//! Lists of CPUs as the kernel and the configuration write them: `0-3,8`.
//!
//! Pure. A list is kept as ranges, so that one of many CPUs costs nothing.

/// A set of CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList {
    /// In order, apart from each other.
    ranges: Vec<(u64, u64)>,
}

impl CpuList {
    /// Reads a list; `None` where it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last).then_some((first, last))
        };
        let mut parts: Vec<(u64, u64)> = text.split(',').map(range).collect::<Option<_>>()?;
        parts.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = vec![];
        for (first, last) in parts {
            match ranges.last_mut().filter(|before| first <= before.1.saturating_add(1)) {
                Some(before) => before.1 = before.1.max(last),
                None => ranges.push((first, last)),
            }
        }
        Some(Self { ranges })
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.ranges.iter().fold(0, |sum: u64, (first, last)| sum.saturating_add(last - first).saturating_add(1))
    }

    /// Whether all of them are among `others`.
    pub fn is_within(&self, others: &Self) -> bool {
        let is_covered =
            |(first, last): &(u64, u64)| others.ranges.iter().any(|(from, to)| from <= first && last <= to);
        self.ranges.iter().all(is_covered)
    }
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
}
