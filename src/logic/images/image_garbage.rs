//! Which images go, when the disk is full or they are old (CRI-26), and why others stay (PAIN-23).
//!
//! Owned by `ImageGc`. Times are those since the agent's start: a clock that is set makes no image old. The rules are
//! upstream's; what differs is said where it does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::exempt::ExemptImages;

/// Wait between passes, if nothing is due before.
pub const PASS_PERIOD: Duration = Duration::from_secs(300);
/// The least wait between passes.
const PASS_PERIOD_MIN: Duration = Duration::from_secs(5);
/// Wait after a first failed pass; doubled with each further one, up to [`PASS_PERIOD`].
const RETRY_FIRST: Duration = Duration::from_secs(15);
/// When removing all that may go does not help, images that were in use this recently stay: they would be pulled again.
const RECENT: Duration = Duration::from_secs(3600);
/// An image that was handed to a pod this recently counts as used: its container may still be on its way.
const HANDED_OUT: Duration = Duration::from_secs(120);

/// The settings of image collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageGcPolicy {
    /// `imageGCHighThresholdPercent`: images go from this use of the disk on.
    pub high_percent: u64,
    /// `imageGCLowThresholdPercent`: until no more than this is used.
    pub low_percent: u64,
    /// `imageMinimumGCAge`: images known for less stay.
    pub age_min: Duration,
    /// `imageMaximumGCAge`: images that nobody used for longer go, however full the disk is.
    pub age_max: Option<Duration>,
}

impl ImageGcPolicy {
    /// Whether there is nothing to do, ever.
    pub fn is_off(&self) -> bool {
        self.high_percent >= 100 && self.age_max.is_none()
    }
}

/// An image as the runtime lists it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ListedImage {
    /// ID.
    pub id: String,
    /// Names with tags and with digests.
    pub names: Vec<String>,
    /// Bytes; layers that images share count in each.
    pub bytes: u64,
    /// The runtime, or the node's own setting, wants it kept.
    pub pinned: bool,
    /// The handler of the runtime that has it; empty where all have the same images, or the runtime does not tell.
    pub handler: String,
}

/// A reference of an image that a handler has, in upstream's form (`getImageTuple`).
pub fn of_handler(reference: &str, handler: &str) -> String {
    if handler.is_empty() { reference.to_owned() } else { format!("{reference},{handler}") }
}

impl ListedImage {
    /// Whether the image is needed for sandboxes. A runtime that knows pinned images pins it; containerd before 1.7 does
    /// not, and the name is all there is to tell it by.
    fn is_for_sandboxes(&self) -> bool {
        let path = |name: &String| name.split(['@', ':']).next().unwrap_or_default().to_owned();
        let repository = |name: &String| match name.rsplit_once('/') {
            Some((_, last)) => path(&last.to_owned()),
            None => path(name),
        };
        self.names.iter().any(|name| repository(name) == "pause")
    }

    /// Whether this is its ID, or one of its names.
    pub fn is_named(&self, reference: &str) -> bool {
        self.id == reference || self.names.iter().any(|name| name == reference)
    }

    fn key(&self) -> String {
        of_handler(&self.id, &self.handler)
    }

    /// Whether containers use the image. `used` has their references, each with its handler where the runtime told one. An
    /// image and a reference also match where one of them has no handler.
    fn is_used(&self, used: &BTreeSet<String>) -> bool {
        let of_any = |name: &String| {
            let beginning = format!("{name},");
            used.range(beginning.clone()..).next().is_some_and(|reference| reference.starts_with(&beginning))
        };
        let refers = |name: &String| {
            used.contains(name)
                || match self.handler.is_empty() {
                    true => of_any(name),
                    false => used.contains(&of_handler(name, &self.handler)),
                }
        };
        refers(&self.id) || self.names.iter().any(refers)
    }

    /// Its name for people.
    pub fn display_name(&self) -> &str {
        self.names.first().map_or(self.id.as_str(), String::as_str)
    }
}

/// Use of the file system that images are on, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskUse {
    /// All there is.
    pub capacity: u64,
    /// The amount that is left.
    pub available: u64,
}

impl DiskUse {
    /// Percent in use, rounded up.
    pub fn percent(self) -> u64 {
        let (available, capacity) = (u128::from(self.available.min(self.capacity)), u128::from(self.capacity));
        let free = (available * 100).checked_div(capacity).unwrap_or(0);
        100 - u64::try_from(free).unwrap_or(100)
    }

    /// The bytes that must be freed for no more than `percent` to be in use.
    fn surplus_over(self, percent: u64) -> u64 {
        let wanted = u128::from(self.capacity) * u128::from(100 - percent.min(100)) / 100;
        u64::try_from(wanted).unwrap_or(u64::MAX).saturating_sub(self.available.min(self.capacity))
    }
}

/// Why an image goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Nobody used it for too long.
    Age,
    /// The disk is full.
    Space,
    /// The node is short of space, and gives up what it can before a pod has to go.
    Pressure,
}

/// Why an image stays that nobody uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The node's own setting exempts it.
    Exempt,
    /// The runtime pins it.
    Pinned,
    /// Sandboxes need it.
    Sandboxes,
}

impl std::fmt::Display for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Exempt => "exempt",
            Self::Pinned => "pinned",
            Self::Sandboxes => "for sandboxes",
        })
    }
}

/// An image, and what is known of its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageUse {
    /// The image.
    pub image: ListedImage,
    /// Whether a container has it, or a pod was given it a short while ago.
    pub in_use: bool,
    /// Since it was last seen in use; `None` when nobody saw that.
    pub unused_for: Option<Duration>,
    /// Why it stays all the same.
    pub kept: Option<Kept>,
}

#[derive(Clone, Debug)]
struct Record {
    image: ListedImage,
    first_detected: Duration,
    last_used: Option<Duration>,
    in_use: bool,
}

/// The orders of a pass.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Pass {
    /// Images to remove, in this order, until `wanted` bytes are freed.
    pub candidates: Vec<ListedImage>,
    /// Bytes; `None` where all candidates go.
    pub wanted: Option<u64>,
}

/// The bytes on the disk, by their holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Holders {
    /// Images that containers use.
    pub in_use: u64,
    /// Images that nobody uses.
    pub unused: u64,
    /// Of these, what stays all the same: pinned, too young, or used a short while ago.
    pub kept: u64,
    /// All else on that file system: writable layers, logs, volumes, foreign files.
    pub other: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ImageGarbage {
    policy: ImageGcPolicy,
    /// Since when it is known which images are used.
    born: Duration,
    records: BTreeMap<String, Record>,
    handed_out: BTreeMap<String, Duration>,
}

impl ImageGarbage {
    /// Knows of no image yet.
    pub fn new(policy: ImageGcPolicy, born: Duration) -> Self {
        Self { policy, born, records: BTreeMap::new(), handed_out: BTreeMap::new() }
    }

    /// Images are judged by another policy from now on; their ages go on.
    pub fn follow(&mut self, policy: ImageGcPolicy) {
        self.policy = policy;
    }

    /// A pod was given this image, by ID or name; its container may not be there yet. Upstream looks at containers alone,
    /// and an old image can go between the look and the container's making.
    pub fn handed_out(&mut self, reference: &str, now: Duration) {
        self.handed_out.insert(reference.to_owned(), now);
        self.handed_out.retain(|_, at| now.saturating_sub(*at) < HANDED_OUT);
    }

    /// Takes in the runtime's images, and what its containers refer to, by ID or name.
    pub fn detect(&mut self, images: &[ListedImage], used: &BTreeSet<String>, now: Duration) {
        self.handed_out.retain(|_, at| now.saturating_sub(*at) < HANDED_OUT);
        let before = std::mem::take(&mut self.records);
        for image in images {
            let known = before.get(&image.key());
            let handed = image.names.iter().chain([&image.id]).any(|name| self.handed_out.contains_key(name));
            let in_use = handed || image.is_used(used);
            let last_used = if in_use { Some(now) } else { known.and_then(|record| record.last_used) };
            let first_detected = known.map_or(now, |record| record.first_detected);
            self.records.insert(image.key(), Record { image: image.clone(), first_detected, last_used, in_use });
        }
    }

    /// Images that containers have mounted are in use, too.
    pub fn mounted(&mut self, references: &BTreeSet<String>, now: Duration) {
        for record in self.records.values_mut() {
            let image = &record.image;
            if references.contains(&image.id) || image.names.iter().any(|name| references.contains(name)) {
                record.in_use = true;
                record.last_used = Some(now);
            }
        }
    }

    /// An image was removed.
    pub fn removed(&mut self, image: &ListedImage) {
        self.records.remove(&image.key());
    }

    /// IDs and names of all images that are known.
    pub fn known(&self) -> BTreeSet<String> {
        let images = self.records.values().map(|record| &record.image);
        images.flat_map(|image| image.names.iter().chain([&image.id])).cloned().collect()
    }

    /// Whether a pod was given the image of late.
    pub fn was_handed_out(&self, image: &ListedImage, now: Duration) -> bool {
        let lately = self.handed_out.iter().filter(|(_, at)| now.saturating_sub(**at) < HANDED_OUT);
        lately.map(|(name, _)| name).any(|name| image.is_named(name))
    }

    /// Images that nobody used for too long. None before their use is known for that long.
    pub fn too_old(&self, now: Duration) -> Pass {
        let Some(age_max) = self.policy.age_max else { return Pass::default() };
        let unused_since = |record: &Record| record.last_used.unwrap_or(self.born);
        let old = |record: &&Record| now.saturating_sub(unused_since(record)) > age_max;
        Pass { candidates: self.in_order(old), wanted: None }
    }

    /// Images that go because the disk is full; none while it is not.
    pub fn for_space(&self, disk: DiskUse, now: Duration) -> Pass {
        if disk.percent() < self.policy.high_percent {
            return Pass::default();
        }
        let wanted = disk.surplus_over(self.policy.low_percent);
        let grown = |record: &&Record| now.saturating_sub(record.first_detected) >= self.policy.age_min;
        let candidates = self.in_order(grown);
        let most: u64 = candidates.iter().map(|image| image.bytes).fold(0, u64::saturating_add);
        // Without any of them the disk would still be full of something else. Then an image that was in use a short
        // while ago is worth more than its bytes: it would be pulled, and removed, again and again.
        let hopeless = disk.surplus_over(self.policy.high_percent) > most;
        let not_recent = |record: &&Record| {
            grown(record) && !(hopeless && record.last_used.is_some_and(|used| now.saturating_sub(used) < RECENT))
        };
        Pass { candidates: self.in_order(not_recent), wanted: Some(wanted) }
    }

    /// Every image that may go: the node is short of space. Those that are too young yet stay, as upstream has it.
    pub fn all_unused(&self, now: Duration) -> Pass {
        let grown = |record: &&Record| now.saturating_sub(record.first_detected) >= self.policy.age_min;
        Pass { candidates: self.in_order(grown), wanted: None }
    }

    /// When the next pass is due, counted from now: when an image becomes old enough to go, or after the period.
    pub fn next_pass(&self, short_of_space: bool, now: Duration) -> Duration {
        let free = self.records.values().filter(|record| record.may_ever_go());
        let due = free.filter_map(|record| {
            let of_age = self.policy.age_max.map(|age_max| record.last_used.unwrap_or(self.born) + age_max);
            let of_space = short_of_space.then_some(record.first_detected + self.policy.age_min);
            // An image may be due and still be here: a pod was given it for a while, or it came of age during the pass.
            of_age.into_iter().chain(of_space.filter(|due| *due > now)).min()
        });
        let wait = due.min().map_or(PASS_PERIOD, |due| due.saturating_sub(now));
        wait.clamp(PASS_PERIOD_MIN, PASS_PERIOD)
    }

    /// The holders of the disk.
    pub fn holders(&self, disk: DiskUse, pass: &Pass) -> Holders {
        let mut holders = Holders::default();
        for record in self.records.values() {
            if record.in_use {
                holders.in_use += record.image.bytes;
            } else {
                holders.unused += record.image.bytes;
                if !pass.candidates.iter().any(|image| image.key() == record.image.key()) {
                    holders.kept += record.image.bytes;
                }
            }
        }
        let used = disk.capacity.saturating_sub(disk.available);
        holders.other = used.saturating_sub(holders.in_use + holders.unused);
        holders
    }

    /// All images, as they were at the last look, by their names.
    pub fn uses(&self, exempt: &ExemptImages, now: Duration) -> Vec<ImageUse> {
        let of = |record: &Record| {
            let image = &record.image;
            let kept = match () {
                () if exempt.has(&image.names) => Some(Kept::Exempt),
                () if image.is_for_sandboxes() => Some(Kept::Sandboxes),
                () => image.pinned.then_some(Kept::Pinned),
            };
            let unused_for = record.last_used.map(|used| now.saturating_sub(used));
            ImageUse { image: image.clone(), in_use: record.in_use, unused_for, kept }
        };
        let mut all: Vec<ImageUse> = self.records.values().map(of).collect();
        all.sort_by(|one, other| one.image.display_name().cmp(other.image.display_name()));
        all
    }

    /// Those that may go and of which `choose` holds: unused for the longest first, then the oldest.
    fn in_order(&self, choose: impl Fn(&&Record) -> bool) -> Vec<ListedImage> {
        let mut found: Vec<&Record> =
            self.records.values().filter(|record| record.may_ever_go()).filter(choose).collect();
        found.sort_by_key(|record| (record.last_used, record.first_detected));
        found.into_iter().map(|record| record.image.clone()).collect()
    }
}

impl Record {
    fn may_ever_go(&self) -> bool {
        !self.in_use && !self.image.pinned && !self.image.is_for_sandboxes()
    }
}

/// How long to wait after a pass that failed, the `failures`-th in a row. Upstream waits for its next period.
pub fn retry_after(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    RETRY_FIRST.saturating_mul(doubled).min(PASS_PERIOD)
}

/// Upstream's words when too little could be freed, and who holds the disk.
pub fn not_enough(disk: DiskUse, freed: u64, holders: Holders) -> String {
    format!(
        "Insufficient free disk space on the node's image filesystem ({}% of {} used). Failed to free sufficient space by \
         deleting unused images (freed {freed} bytes). Investigate disk usage, as it could be used by active images, logs, \
         volumes, or other data. Images in use: {}, unused images: {} (of which kept: {}), everything else: {}.",
        disk.percent(),
        shown_bytes(disk.capacity),
        shown_bytes(holders.in_use),
        shown_bytes(holders.unused),
        shown_bytes(holders.kept),
        shown_bytes(holders.other),
    )
}

/// Such as `9.7 GiB`.
pub fn shown_bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.into_iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => {
            let tenths = (u128::from(bytes) * 10 + u128::from(size / 2)) / u128::from(size);
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests;
