//! The host's IDs that pods may have, in slots of `userNamespaces.idsPerPod` each.
//!
//! An administrator gives them to the user `kubelet` as subordinate IDs, which the program `getsubids` prints. Without that
//! user or that program pods may have all IDs behind the first slot.

use super::IdRange;

/// The user whose subordinate IDs are the pods'.
pub const SUBORDINATE_USER: &str = "kubelet";
/// All IDs that the kernel knows.
const ALL_IDS: u64 = 1 << 32;
/// Ranges are multiples of this many (KEP-127).
const UNIT: u32 = 65_536;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdSpace {
    ids_per_pod: u32,
    /// The slots of the host before the first one.
    before: u32,
    slots: u32,
}

impl Default for IdSpace {
    fn default() -> Self {
        Self { ids_per_pod: UNIT, before: 1, slots: UNIT - 2 }
    }
}

/// Why IDs cannot be those of pods; upstream's texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// `idsPerPod` has no whole number of units.
    #[error("kubelet user namespace length {0} is not a multiple of {UNIT}")]
    LengthUnit(u32),
    /// The first ID is in the middle of a slot.
    #[error("kubelet user assigned ID {first} is not a multiple of {ids_per_pod}")]
    FirstMultiple {
        /// The first ID.
        first: u32,
        /// `idsPerPod`.
        ids_per_pod: u32,
    },
    /// The host's root and its first users would be among the IDs.
    #[error("kubelet user assigned ID {first} must be greater or equal to {ids_per_pod}")]
    FirstTooLow {
        /// The first ID.
        first: u32,
        /// `idsPerPod`.
        ids_per_pod: u32,
    },
    /// The last slot is not whole.
    #[error("kubelet user assigned IDs length {length} is not a multiple of {ids_per_pod}")]
    LengthMultiple {
        /// How many IDs.
        length: u32,
        /// `idsPerPod`.
        ids_per_pod: u32,
    },
    /// The last IDs are none.
    #[error("kubelet user assigned IDs {first} to {last} are more than the kernel has")]
    PastTheEnd {
        /// The first ID.
        first: u32,
        /// The last one.
        last: u64,
    },
    /// More pods may be here than there are slots.
    #[error("kubelet user assigned IDs are not enough to support {0} pods")]
    TooFew(i64),
}

impl IdSpace {
    /// All IDs behind the first slot.
    ///
    /// # Errors
    /// When the IDs do not suit slots of this size.
    pub fn behind_the_first(ids_per_pod: u32, max_pods: i64) -> Result<Self, SpaceError> {
        let length = u32::try_from(ALL_IDS - u64::from(ids_per_pod)).unwrap_or(u32::MAX);
        Self::new(IdRange { first: ids_per_pod, length }, ids_per_pod, max_pods)
    }

    /// The IDs of this range.
    ///
    /// # Errors
    /// When the range does not suit slots of this size, or has too few for so many pods.
    pub fn new(ids: IdRange, ids_per_pod: u32, max_pods: i64) -> Result<Self, SpaceError> {
        let IdRange { first, length } = ids;
        if ids_per_pod == 0 || !ids_per_pod.is_multiple_of(UNIT) {
            return Err(SpaceError::LengthUnit(ids_per_pod));
        }
        if !first.is_multiple_of(ids_per_pod) {
            return Err(SpaceError::FirstMultiple { first, ids_per_pod });
        }
        if first < ids_per_pod {
            return Err(SpaceError::FirstTooLow { first, ids_per_pod });
        }
        if !length.is_multiple_of(ids_per_pod) {
            return Err(SpaceError::LengthMultiple { length, ids_per_pod });
        }
        if ids.end() > ALL_IDS {
            return Err(SpaceError::PastTheEnd { first, last: ids.end() - 1 });
        }
        // The kernel takes no range with its last ID, which stands for no user. Upstream gives pods that one, too.
        let slots = (length / ids_per_pod).saturating_sub(u32::from(ids.end() == ALL_IDS));
        if i64::from(slots) < max_pods {
            return Err(SpaceError::TooFew(max_pods));
        }
        Ok(Self { ids_per_pod, before: first / ids_per_pod, slots })
    }

    /// How many pods can have a range.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// `idsPerPod`.
    pub fn ids_per_pod(&self) -> u32 {
        self.ids_per_pod
    }

    /// The range of a slot; slots count from 0.
    pub fn range(&self, slot: u32) -> IdRange {
        // In bounds: the last slot ends where the kernel's IDs end, at most.
        let first = self.before.saturating_add(slot).saturating_mul(self.ids_per_pod);
        IdRange { first, length: self.ids_per_pod }
    }

    /// The slot that begins with this ID, if one does.
    pub fn slot(&self, first: u32) -> Option<u32> {
        let slot = (first / self.ids_per_pod).checked_sub(self.before)?;
        (first.is_multiple_of(self.ids_per_pod) && slot < self.slots).then_some(slot)
    }
}

/// Why `getsubids` gives no range; upstream's texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubordinateError {
    /// The user has other groups than users.
    #[error("mismatched subuids and subgids for user {SUBORDINATE_USER:?}")]
    Mismatch,
    /// The user has several ranges, or none.
    #[error("error parsing line {0:?}: it must contain only one line")]
    Lines(String),
    /// The line has another form.
    #[error("invalid line {0:?}")]
    Form(String),
    /// A number is none.
    #[error("error parsing line {0:?}: strconv.ParseUint: parsing {1:?}: {2}")]
    Number(String, String, &'static str),
}

/// The range that `getsubids` printed for users and for groups, such as `0: kubelet 65536 2147483648`.
///
/// # Errors
/// When they differ, or are not one range.
pub fn subordinate_ids(users: &str, groups: &str) -> Result<IdRange, SubordinateError> {
    if users != groups {
        return Err(SubordinateError::Mismatch);
    }
    let line = users.trim_matches('\n');
    if line.contains('\n') {
        return Err(SubordinateError::Lines(users.to_owned()));
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, first, length] = words[..] else { return Err(SubordinateError::Form(users.to_owned())) };
    let number = |word: &str| {
        let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let problem = if is_number { "value out of range" } else { "invalid syntax" };
        let parsed = if is_number { word.parse().ok() } else { None };
        parsed.ok_or_else(|| SubordinateError::Number(users.to_owned(), word.to_owned(), problem))
    };
    Ok(IdRange { first: number(first)?, length: number(length)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(first: u32, length: u32, ids_per_pod: u32, max_pods: i64) -> Result<IdSpace, String> {
        IdSpace::new(IdRange { first, length }, ids_per_pod, max_pods).map_err(|error| error.to_string())
    }

    /// RES-63: upstream's checks, in its order and words.
    #[test]
    fn res_63_ids_that_do_not_suit_pods_are_refused() {
        for (first, length, ids_per_pod, max_pods, problem) in [
            (65_536, 65_536, 65_537, 1, "kubelet user namespace length 65537 is not a multiple of 65536"),
            (65_537, 65_536, 65_536, 1, "kubelet user assigned ID 65537 is not a multiple of 65536"),
            (0, 65_536, 65_536, 1, "kubelet user assigned ID 0 must be greater or equal to 65536"),
            (65_536, 65_537, 65_536, 1, "kubelet user assigned IDs length 65537 is not a multiple of 65536"),
            (65_536, 131_072, 65_536, 3, "kubelet user assigned IDs are not enough to support 3 pods"),
            (65_536, 131_072, 131_072, 1, "kubelet user assigned ID 65536 is not a multiple of 131072"),
            (
                4_294_901_760,
                131_072,
                65_536,
                1,
                "kubelet user assigned IDs 4294901760 to 4295032831 are more than the kernel has",
            ),
        ] {
            assert_eq!(told(first, length, ids_per_pod, max_pods), Err(problem.to_owned()), "{first} {length}");
        }
        assert_eq!(told(65_536, 131_072, 65_536, 2).expect("suits").slots(), 2);
    }

    /// RES-63.
    #[test]
    fn res_63_without_subordinate_ids_pods_have_all_behind_the_first_slot() {
        let space = IdSpace::behind_the_first(65_536, 110).expect("suits");
        assert_eq!(space, IdSpace::default());
        assert_eq!(space.slots(), 65_534);
        assert_eq!(space.range(0), IdRange { first: 65_536, length: 65_536 });
        assert_eq!(space.range(65_533), IdRange { first: 4_294_836_224, length: 65_536 });
        assert_eq!(space.slot(4_294_901_760), None, "the kernel does not take it");
        let wide = IdSpace::behind_the_first(131_072, 110).expect("suits");
        assert_eq!((wide.slots(), wide.range(0)), (32_766, IdRange { first: 131_072, length: 131_072 }));
        let uneven = IdSpace::behind_the_first(196_608, 110).map_err(|error| error.to_string());
        let text = "kubelet user assigned IDs length 4294770688 is not a multiple of 196608";
        assert_eq!(uneven, Err(text.to_owned()));
    }

    #[test]
    fn a_slot_is_known_by_its_first_id() {
        let space = IdSpace::new(IdRange { first: 131_072, length: 196_608 }, 65_536, 1).expect("suits");
        for slot in 0..space.slots() {
            assert_eq!(space.slot(space.range(slot).first), Some(slot));
        }
        for outside in [0, 65_536, 131_073, 327_680, u32::MAX] {
            assert_eq!(space.slot(outside), None, "{outside}");
        }
    }

    /// RES-63.
    #[test]
    fn res_63_what_getsubids_prints_is_read_in_upstreams_way() {
        let read = |text: &str| subordinate_ids(text, text).map_err(|error| error.to_string());
        for text in
            ["0: kubelet 65536 2147483648\n", "0: kubelet 65536 2147483648", "\n0:  kubelet 65536\t2147483648\n"]
        {
            assert_eq!(read(text), Ok(IdRange { first: 65_536, length: 2_147_483_648 }), "{text:?}");
        }
        for (text, problem) in [
            ("0: kubelet 1 2\n1: kubelet 3 4\n", "it must contain only one line"),
            ("", "invalid line \"\""),
            ("0: kubelet 65536", "invalid line \"0: kubelet 65536\""),
            ("0: kubelet x 2", "strconv.ParseUint: parsing \"x\": invalid syntax"),
            ("0: kubelet 1 +2", "strconv.ParseUint: parsing \"+2\": invalid syntax"),
            ("0: kubelet 1 4294967296", "strconv.ParseUint: parsing \"4294967296\": value out of range"),
        ] {
            let told = read(text).expect_err(text);
            assert!(told.ends_with(problem), "{told}");
        }
        let differ = subordinate_ids("0: kubelet 65536 65536\n", "0: kubelet 131072 65536\n");
        let told = differ.expect_err("they differ").to_string();
        assert_eq!(told, "mismatched subuids and subgids for user \"kubelet\"");
    }
}
