//! Sets of CPUs to compute with; upstream's `cpuset.CPUSet`.
//!
//! Pure. A bit for each CPU: the sets of a machine of 512 CPUs are eight words.

use std::fmt;

use crate::logic::formats::cpu_list::{CpuList, CpuListError};

/// CPUs have numbers below this; the kernel's own bound is 8192. A file of state cannot ask for more memory than that.
pub const CPU_NUMBERS_MAX: u32 = 65_536;

const WORD_BITS: u32 = u64::BITS;

/// A set of CPUs by their numbers.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSet {
    /// Bit `n` of word `w` is CPU `64 w + n`; the last word is not zero.
    words: Vec<u64>,
}

/// Why a text is no set of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuSetError {
    /// It is no list.
    #[error(transparent)]
    List(#[from] CpuListError),
    /// It has a CPU that no machine has.
    #[error("CPU {0} is not below {CPU_NUMBERS_MAX}")]
    NoCpu(u64),
}

impl CpuSet {
    /// Reads a list, as upstream's `cpuset.Parse`; the empty text is the empty set.
    ///
    /// # Errors
    /// The fault.
    pub fn parse(text: &str) -> Result<Self, CpuSetError> {
        let list = CpuList::read(text)?;
        let mut set = Self::default();
        for &(first, last) in list.ranges() {
            let number = |cpu: u64| u32::try_from(cpu).ok().filter(|cpu| *cpu < CPU_NUMBERS_MAX);
            let (Some(first), Some(last)) = (number(first), number(last)) else {
                return Err(CpuSetError::NoCpu(last));
            };
            (first..=last).for_each(|cpu| set.insert(cpu));
        }
        Ok(set)
    }

    /// Adds a CPU.
    pub fn insert(&mut self, cpu: u32) {
        let word = Self::word(cpu);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % WORD_BITS);
    }

    fn word(cpu: u32) -> usize {
        usize::try_from(cpu / WORD_BITS).expect("invariant: at least 32 bits address memory")
    }

    /// Whether the CPU is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.words.get(Self::word(cpu)).is_some_and(|word| word >> (cpu % WORD_BITS) & 1 == 1)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| usize::try_from(word.count_ones()).expect("invariant: 64 at most")).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The CPUs of either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (long, short) = if self.words.len() >= other.words.len() { (self, other) } else { (other, self) };
        let mut set = long.clone();
        set.words.iter_mut().zip(&short.words).for_each(|(word, more)| *word |= more);
        set
    }

    /// The CPUs of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self::of_words(self.words.iter().zip(&other.words).map(|(word, others)| word & others).collect())
    }

    /// The CPUs that the other set does not have.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        Self::of_words(self.words.iter().zip(others).map(|(word, others)| word & !others).collect())
    }

    fn of_words(mut words: Vec<u64>) -> Self {
        let len = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        words.truncate(len);
        Self { words }
    }

    /// How many CPUs are in both sets.
    pub fn common(&self, other: &Self) -> usize {
        let shared = self.words.iter().zip(&other.words).map(|(word, others)| (word & others).count_ones());
        shared.map(|bits| usize::try_from(bits).expect("invariant: 64 at most")).sum()
    }

    /// Whether no CPU is in both sets.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(word, others)| word & others == 0)
    }

    /// Whether every CPU is in the other set.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.common(other) == self.len()
    }

    /// The CPUs in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let starts = (0_u32..).step_by(64);
        self.words.iter().zip(starts).flat_map(|(word, start)| {
            (0..WORD_BITS).filter(move |bit| word >> bit & 1 == 1).map(move |bit| start + bit)
        })
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<T: IntoIterator<Item = u32>>(cpus: T) -> Self {
        let mut set = Self::default();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

/// As the kernel and upstream write it: `0-3,8`; nothing for the empty set.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().map(u64::from).collect::<CpuList>().fmt(f)
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each operation does to the bits what `BTreeSet` does to the numbers.
        #[test]
        fn sets_are_sets(
            one in prop::collection::btree_set(0_u32..300, 0..60),
            other in prop::collection::btree_set(0_u32..300, 0..60),
        ) {
            let of = |cpus: &BTreeSet<u32>| cpus.iter().copied().collect::<CpuSet>();
            let (a, b) = (of(&one), of(&other));
            prop_assert_eq!(a.iter().collect::<BTreeSet<_>>(), one.clone());
            prop_assert_eq!(a.len(), one.len());
            prop_assert_eq!(a.is_empty(), one.is_empty());
            prop_assert_eq!(a.union(&b), of(&(&one | &other)));
            prop_assert_eq!(a.intersection(&b), of(&(&one & &other)));
            prop_assert_eq!(a.difference(&b), of(&(&one - &other)));
            prop_assert_eq!(a.common(&b), one.intersection(&other).count());
            prop_assert_eq!(a.is_disjoint(&b), one.is_disjoint(&other));
            prop_assert_eq!(a.is_subset(&b), one.is_subset(&other));
            prop_assert!(a.intersection(&b).is_subset(&a));
            prop_assert!((0..310).all(|cpu| a.contains(cpu) == one.contains(&cpu)));
            prop_assert_eq!(CpuSet::parse(&a.to_string()), Ok(a));
        }
    }

    #[test]
    fn a_set_has_the_kernels_text() {
        for (text, written) in [("", ""), ("0", "0"), ("2,0-1", "0-2"), ("63-64,200", "63-64,200"), ("5,3", "3,5")] {
            assert_eq!(CpuSet::parse(text).map(|set| set.to_string()), Ok(written.to_owned()), "{text}");
        }
        let error = CpuSet::parse("0-4294967296").map_err(|error| error.to_string());
        assert_eq!(error, Err("CPU 4294967296 is not below 65536".to_owned()));
        assert!(CpuSet::parse("65535").is_ok() && CpuSet::parse("65536").is_err());
    }
}
