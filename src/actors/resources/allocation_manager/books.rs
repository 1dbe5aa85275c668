//! One of the two files of the resources that pods were given and that the runtime has: what it says, and what it is to say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceRequirements;
use ractor::RpcReplyPort;

use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_resize::PodResources;

pub(super) type Reply = RpcReplyPort<Result<(), String>>;
pub(super) type Entries = BTreeMap<PodUid, PodResources>;

/// Wait between two writes of one file, for each entry in it: with a thousand pods that start at once, each would
/// otherwise have all others printed. Less than a millisecond is none.
const PAUSE_PER_ENTRY: Duration = Duration::from_micros(20);

/// One file: what it says, and what it is to say.
#[derive(Default)]
pub(super) struct Pages {
    pub(super) kept: Entries,
    pub(super) entries: Entries,
    /// The entries that are being written, and the askers that are answered when that has ended.
    pub(super) writing: Option<(Arc<Entries>, Vec<Reply>)>,
    /// The uptime when the last write ended.
    pub(super) written_at: Duration,
    /// The next write waits for a timer.
    pub(super) pausing: bool,
    /// The askers that the next write answers.
    pub(super) waiting: Vec<Reply>,
    /// Entries have gone or come since the last write, and nobody waits for that.
    pub(super) quietly_changed: bool,
}

impl Pages {
    pub(super) fn of(kept: Entries) -> Self {
        Self { entries: kept.clone(), kept, ..Self::default() }
    }

    /// Whether the disk has what the entry says, and will have it after the write that is under way.
    pub(super) fn has(&self, uid: &PodUid) -> bool {
        let entry = self.entries.get(uid);
        let written = self.writing.as_ref().map_or(entry, |(written, _)| written.get(uid));
        self.kept.get(uid) == entry && written == entry
    }

    /// How long the next write has still to wait, so that it serves whoever comes meanwhile.
    pub(super) fn pause(&self, uptime: Duration) -> Option<Duration> {
        let pause = PAUSE_PER_ENTRY.saturating_mul(u32::try_from(self.entries.len()).unwrap_or(u32::MAX));
        let left = (self.written_at + pause).saturating_sub(uptime);
        (pause.as_millis() > 0 && !left.is_zero()).then_some(left)
    }

    pub(super) fn sweep(&mut self, known: &BTreeSet<PodUid>) {
        let before = self.entries.len();
        self.entries.retain(|uid, _| known.contains(uid));
        self.quietly_changed |= self.entries.len() < before;
    }

    /// Whether the entry says nothing that the disk contradicts, should it never get there: no entry means no amounts.
    pub(super) fn can_do_without(&self, uid: &PodUid) -> bool {
        let written = self.writing.as_ref().map(|(written, _)| &**written);
        let mut all = [Some(&self.entries), Some(&self.kept), written].into_iter().flatten();
        all.all(|entries| entries.get(uid).is_none_or(is_of_nothing))
    }
}

/// Whether the pod's containers have no amounts of anything.
fn is_of_nothing(pod: &PodResources) -> bool {
    let has_some = |of: &ResourceRequirements| {
        let has = |amounts: &Option<BTreeMap<_, _>>| amounts.as_ref().is_some_and(|amounts| !amounts.is_empty());
        has(&of.requests) || has(&of.limits)
    };
    pod.pod.is_none() && pod.containers.iter().all(|(_, of)| !has_some(of))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    use super::*;

    fn of(container: &str) -> PodResources {
        let containers = Arc::new([(container.to_owned(), ResourceRequirements::default())].into_iter().collect());
        PodResources { containers, pod: None }
    }

    /// Only what the disk has, and will have, needs no write.
    #[test]
    fn an_entry_is_there_when_no_write_can_change_it() {
        let (mine, other) = (PodUid::from("mine"), PodUid::from("other"));
        let mut pages = Pages::of([(mine.clone(), of("a"))].into());
        assert!(pages.has(&mine));
        pages.entries.insert(other.clone(), of("b"));
        assert!(pages.has(&mine) && !pages.has(&other));
        pages.writing = Some((Arc::new(pages.entries.clone()), vec![]));
        assert!(pages.has(&mine) && !pages.has(&other), "a write that is under way may fail");
        pages.entries.insert(mine.clone(), of("c"));
        assert!(!pages.has(&mine));
        pages.writing = Some((Arc::new(pages.entries.clone()), vec![]));
        pages.entries.insert(mine.clone(), of("a"));
        assert!(!pages.has(&mine), "what is being written is not that");
    }

    /// An entry of nothing may get lost, unless the disk has, or is about to have, amounts for the pod.
    #[test]
    fn only_an_entry_without_amounts_can_do_without_the_disk() {
        let uid = PodUid::from("u");
        let nothing = of("a");
        let requests = Some([("cpu".to_owned(), Quantity("1".to_owned()))].into());
        let one = ResourceRequirements { requests, ..ResourceRequirements::default() };
        let limits = ResourceRequirements { limits: one.requests.clone(), ..ResourceRequirements::default() };
        let with = |of: ResourceRequirements| {
            let containers = Arc::new([("a".to_owned(), of)].into_iter().collect());
            PodResources { containers, pod: None }
        };
        let of_pod = PodResources { pod: Some(ResourceRequirements::default()), ..nothing.clone() };
        let entries = |pod: &PodResources| Entries::from([(uid.clone(), pod.clone())]);
        let mut pages = Pages { entries: entries(&nothing), ..Pages::default() };
        assert!(pages.can_do_without(&uid));
        for amounts in [with(one.clone()), with(limits.clone()), of_pod] {
            pages.entries = entries(&amounts);
            assert!(!pages.can_do_without(&uid), "{amounts:?}");
            pages.entries = entries(&nothing);
            pages.kept = entries(&amounts);
            assert!(!pages.can_do_without(&uid), "{amounts:?} on the disk");
            pages.kept = Entries::new();
            pages.writing = Some((Arc::new(entries(&amounts)), vec![]));
            assert!(!pages.can_do_without(&uid), "{amounts:?} on the way there");
            pages.writing = None;
        }
        pages.kept = entries(&nothing);
        assert!(pages.can_do_without(&uid));
    }

    /// POD-34: with many entries one write serves whoever comes soon after the last; with few nobody waits.
    #[test]
    fn many_entries_are_written_after_a_pause() {
        let entry = |number: usize| (PodUid::from(format!("u{number}").as_str()), of("a"));
        let at = Duration::from_millis;
        let pages = |count: usize| Pages { written_at: at(1000), ..Pages::of((0..count).map(entry).collect()) };
        assert_eq!(pages(10).pause(at(1000)), None);
        assert_eq!(pages(1000).pause(at(1000)), Some(at(20)));
        assert_eq!(pages(1000).pause(at(1015)), Some(at(5)));
        assert_eq!(pages(1000).pause(at(1020)), None);
    }
}
