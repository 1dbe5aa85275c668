//! Memory of probes over restarts: of each machine its container's result and the run of equal outcomes.
//!
//! Without it an agent that starts anew would report static pods as not ready until their first probe. It would count every
//! threshold from nothing (PAIN-16). Read and written as JSON; what cannot be read is as if nothing was kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::probe_kind::ProbeKind;
use crate::logic::model::ids::{ContainerId, PodUid};
use crate::logic::model::runtime_pod::ProbeResults;
use crate::logic::model::time::Moment;

/// A run of outcomes that ended longer ago than this is not gone on with: an agent that was away so long saw nothing of
/// what came between. The result stays what it was.
pub const RUN_AGE_MAX: Duration = Duration::from_secs(300);

/// The memory of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remembered {
    /// The container of the result: nothing of it is true of another instance.
    pub container: ContainerId,
    /// The result that counts; `None` before the first.
    pub result: Option<bool>,
    /// The last outcome; `None` before the first.
    pub last: Option<bool>,
    /// How often in a row it was seen, at most as often as its threshold.
    pub run: u32,
    /// When the above last changed.
    pub at: Moment,
}

impl Remembered {
    /// Whether it says the same, whenever it was said.
    pub fn says_as(&self, other: &Self) -> bool {
        let told = |one: &Self| (one.result, one.last, one.run);
        told(self) == told(other) && self.container == other.container
    }
}

/// By container name and kind of probe.
pub type PodMemory = BTreeMap<(String, ProbeKind), Remembered>;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeMemory {
    pods: BTreeMap<PodUid, PodMemory>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    uid: String,
    container: String,
    probe: ProbeKind,
    id: String,
    result: Option<bool>,
    last: Option<bool>,
    run: u32,
    at: i64,
}

impl ProbeMemory {
    /// From what [`ProbeMemory::to_bytes`] gave; empty for anything else.
    pub fn parse(bytes: &[u8]) -> Self {
        let lines: Vec<Line> = serde_json::from_slice(bytes).unwrap_or_default();
        let mut memory = Self::default();
        for line in lines {
            let remembered = Remembered {
                container: ContainerId::from(line.id),
                result: line.result,
                last: line.last,
                run: line.run,
                at: Moment(line.at),
            };
            let pod = memory.pods.entry(PodUid::from(line.uid)).or_default();
            pod.insert((line.container, line.probe), remembered);
        }
        memory
    }

    /// To be read by [`ProbeMemory::parse`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let lines = self.pods.iter().flat_map(|(uid, pod)| {
            pod.iter().map(|((container, probe), kept)| Line {
                uid: uid.to_string(),
                container: container.clone(),
                probe: *probe,
                id: kept.container.to_string(),
                result: kept.result,
                last: kept.last,
                run: kept.run,
                at: kept.at.0,
            })
        });
        serde_json::to_vec(&lines.collect::<Vec<_>>()).unwrap_or_default()
    }

    /// The memory of the pod.
    pub fn of(&self, uid: &PodUid) -> PodMemory {
        self.pods.get(uid).cloned().unwrap_or_default()
    }

    /// The pod's results, by container ID.
    pub fn results(&self, uid: &PodUid) -> ProbeResults {
        let mut results = ProbeResults::default();
        for ((_, kind), kept) in self.pods.get(uid).into_iter().flatten() {
            let of_kind = match kind {
                ProbeKind::Startup => &mut results.startup,
                ProbeKind::Readiness => &mut results.readiness,
                ProbeKind::Liveness => &mut results.liveness,
            };
            of_kind.extend(kept.result.map(|result| (kept.container.clone(), result)));
        }
        results
    }

    /// Takes note of a machine; says whether that is news.
    pub fn note(&mut self, uid: &PodUid, container: &str, kind: ProbeKind, now: Remembered) -> bool {
        let key = (container.to_owned(), kind);
        let pod = self.pods.entry(uid.clone()).or_default();
        if pod.get(&key).is_some_and(|known| known.says_as(&now)) {
            return false;
        }
        pod.insert(key, now);
        true
    }

    /// Forgets the pod; says whether there was anything.
    pub fn forget(&mut self, uid: &PodUid) -> bool {
        self.pods.remove(uid).is_some()
    }

    /// Forgets readiness and startup of all pods; says whether there was anything. No status shows the memory of
    /// liveness.
    pub fn forget_states(&mut self) -> bool {
        let count = |pods: &BTreeMap<PodUid, PodMemory>| pods.values().map(BTreeMap::len).sum::<usize>();
        let before = count(&self.pods);
        self.pods.values_mut().for_each(|pod| pod.retain(|(_, kind), _| *kind == ProbeKind::Liveness));
        self.pods.retain(|_, pod| !pod.is_empty());
        count(&self.pods) != before
    }

    /// Forgets all others; says whether there were any.
    pub fn keep_only(&mut self, known: &BTreeSet<PodUid>) -> bool {
        let before = self.pods.len();
        self.pods.retain(|uid, _| known.contains(uid));
        self.pods.len() != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(id: &str, result: Option<bool>, run: u32, at: i64) -> Remembered {
        Remembered { container: ContainerId::from(id), result, last: result, run, at: Moment(at) }
    }

    #[test]
    fn what_was_kept_is_read_again() {
        let (one, other) = (PodUid::from("one"), PodUid::from("other"));
        let mut memory = ProbeMemory::default();
        assert!(memory.note(&one, "web", ProbeKind::Readiness, kept("a", Some(true), 1, 7)));
        assert!(memory.note(&one, "web", ProbeKind::Liveness, kept("a", None, 2, 8)));
        assert!(memory.note(&other, "web", ProbeKind::Startup, kept("b", Some(false), 0, 9)));
        assert_eq!(ProbeMemory::parse(&memory.to_bytes()), memory);
        let results = memory.results(&one);
        assert_eq!(results.readiness.into_iter().collect::<Vec<_>>(), [(ContainerId::from("a"), true)]);
        assert!(results.liveness.is_empty() && results.startup.is_empty());
        assert_eq!(memory.results(&other).startup.len(), 1);
    }

    #[test]
    fn readiness_and_startup_can_be_forgotten_alone() {
        let uid = PodUid::from("one");
        let mut memory = ProbeMemory::default();
        memory.note(&uid, "web", ProbeKind::Liveness, kept("a", Some(true), 2, 8));
        assert!(!memory.forget_states());
        let liveness = memory.clone();
        memory.note(&uid, "web", ProbeKind::Readiness, kept("a", Some(true), 1, 7));
        memory.note(&PodUid::from("other"), "web", ProbeKind::Startup, kept("b", Some(true), 1, 9));
        assert!(memory.forget_states());
        assert_eq!(memory, liveness);
    }

    /// Probes that go on as they were cost no writing.
    #[test]
    fn only_what_says_something_else_is_news() {
        let uid = PodUid::from("one");
        let mut memory = ProbeMemory::default();
        assert!(memory.note(&uid, "web", ProbeKind::Readiness, kept("a", Some(true), 1, 1)));
        assert!(!memory.note(&uid, "web", ProbeKind::Readiness, kept("a", Some(true), 1, 2)));
        assert!(memory.note(&uid, "web", ProbeKind::Readiness, kept("b", Some(true), 1, 3)));
        assert!(!memory.keep_only(&BTreeSet::from([uid.clone()])));
        assert!(memory.forget(&uid));
        assert!(!memory.forget(&uid));
    }

    #[test]
    fn what_cannot_be_read_is_nothing() {
        for bytes in [&b""[..], b"{}", b"[1]", br#"[{"uid":"u"}]"#, b"\xff"] {
            assert_eq!(ProbeMemory::parse(bytes), ProbeMemory::default(), "{bytes:?}");
        }
    }
}
