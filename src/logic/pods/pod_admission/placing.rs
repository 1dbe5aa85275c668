//! The part of admission that the managers of CPUs, memory and devices decide: what they said of which pod.
//!
//! They are asked once about each pod, for several pods at a time. Until they have answered, the pod waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::model::ids::PodUid;

/// The answer of the managers about one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placing {
    /// It has its hardware, and the disk knows.
    Given,
    /// It is refused; nothing was given.
    Refused {
        /// As upstream has it.
        reason: AdmissionReason,
        /// A sentence.
        message: String,
    },
    /// It cannot be decided now, for this reason: a full disk, say.
    NotYet(String),
}

/// See the module. Owned by `PodManager`.
#[derive(Clone, Debug, Default)]
pub struct Placements {
    /// Some policy gives something. Without one nobody is asked, and every pod has what it needs.
    is_needed: bool,
    answers: BTreeMap<PodUid, Placing>,
    /// Pods to be asked about, in the order of their admission.
    due: Vec<(PodUid, Arc<Pod>)>,
    /// Pods that the managers are being asked about.
    asked: BTreeSet<PodUid>,
    /// Pods that hold hardware, as the managers heard last.
    told: Option<Arc<BTreeSet<PodUid>>>,
}

impl Placements {
    /// For a node whose managers give something, or do not.
    pub fn new(is_needed: bool) -> Self {
        Self { is_needed, ..Self::default() }
    }

    /// Whether the managers give anything.
    pub fn is_needed(&self) -> bool {
        self.is_needed
    }

    /// The managers' word about the pod; `None`: they are to be asked.
    pub fn of(&self, uid: &PodUid) -> Option<&Placing> {
        if self.is_needed { self.answers.get(uid) } else { Some(&Placing::Given) }
    }

    /// Has these asked about, unless they are already.
    pub fn ask(&mut self, pods: Vec<(PodUid, Arc<Pod>)>) {
        let is_known = |uid: &PodUid, due: &[(PodUid, Arc<Pod>)]| due.iter().any(|(other, _)| other == uid);
        for (uid, pod) in pods {
            if !self.asked.contains(&uid) && !is_known(&uid, &self.due) {
                self.due.push((uid, pod));
            }
        }
    }

    /// Begins a question: the pods that it is about. `None` when one is under way, or there is nobody to ask about.
    pub fn begin(&mut self) -> Option<Vec<Arc<Pod>>> {
        if !self.asked.is_empty() || self.due.is_empty() {
            return None;
        }
        let due = std::mem::take(&mut self.due);
        self.asked = due.iter().map(|(uid, _)| uid.clone()).collect();
        Some(due.into_iter().map(|(_, pod)| pod).collect())
    }

    /// The question has ended with these answers, or with no answer at all. Returns the pods that it was about.
    pub fn end(&mut self, answers: Result<BTreeMap<PodUid, Placing>, String>) -> BTreeSet<PodUid> {
        let asked = std::mem::take(&mut self.asked);
        match answers {
            Ok(answers) => self.answers.extend(answers),
            Err(why) => {
                let not_yet = |uid: &PodUid| (uid.clone(), Placing::NotYet(why.clone()));
                self.answers.extend(asked.iter().map(not_yet));
            }
        }
        asked
    }

    /// Whether the managers have not decided about the pod.
    pub fn is_open(&self, uid: &PodUid) -> bool {
        matches!(self.of(uid), None | Some(Placing::NotYet(_)))
    }

    /// Why the pod cannot be decided now.
    pub fn delay_of(&self, uid: &PodUid) -> Option<&str> {
        match self.answers.get(uid) {
            Some(Placing::NotYet(why)) => Some(why),
            _ => None,
        }
    }

    /// Whether some pods are to be asked about again after a while.
    pub fn has_delayed(&self) -> bool {
        self.answers.values().any(|answer| matches!(answer, Placing::NotYet(_)))
    }

    /// Those that could not be decided are new again; says which.
    pub fn retry(&mut self) -> BTreeSet<PodUid> {
        let delayed = self.answers.extract_if(.., |_, answer| matches!(answer, Placing::NotYet(_)));
        delayed.map(|(uid, _)| uid).collect()
    }

    /// The pod is to be asked about as if it were new.
    pub fn forget(&mut self, uid: &PodUid) {
        self.answers.remove(uid);
    }

    /// Nobody wants other pods than these any more.
    pub fn retain(&mut self, is_wanted: impl Fn(&PodUid) -> bool) {
        self.answers.retain(|uid, _| is_wanted(uid));
        self.due.retain(|(uid, _)| is_wanted(uid));
    }

    /// Whether the managers have heard that just these pods hold hardware.
    pub fn knows_holders(&self, holders: &BTreeSet<PodUid>) -> bool {
        self.told.as_deref() == Some(holders)
    }

    /// The managers have heard of these.
    pub fn note_told(&mut self, holders: Option<Arc<BTreeSet<PodUid>>>) {
        self.told = holders;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(names: &[&str]) -> Vec<(PodUid, Arc<Pod>)> {
        let pod = |name: &&str| {
            let mut pod = Pod::default();
            pod.metadata.uid = Some((*name).to_owned());
            (PodUid::from(*name), Arc::new(pod))
        };
        names.iter().map(pod).collect()
    }

    fn asked(placements: &mut Placements) -> Option<Vec<String>> {
        Some(placements.begin()?.iter().filter_map(|pod| pod.metadata.uid.clone()).collect())
    }

    #[test]
    fn without_policies_every_pod_has_what_it_needs() {
        let placements = Placements::new(false);
        assert_eq!(placements.of(&PodUid::from("a")), Some(&Placing::Given));
    }

    #[test]
    fn pods_are_asked_about_once_and_together() {
        let mut placements = Placements::new(true);
        assert_eq!(placements.of(&PodUid::from("a")), None);
        placements.ask(pods(&["b", "a"]));
        placements.ask(pods(&["a"]));
        assert_eq!(asked(&mut placements), Some(vec!["b".to_owned(), "a".to_owned()]));
        placements.ask(pods(&["a", "c"]));
        assert_eq!(asked(&mut placements), None, "one question at a time");
        let answers = [(PodUid::from("a"), Placing::Given), (PodUid::from("b"), Placing::NotYet("full".to_owned()))];
        assert_eq!(placements.end(Ok(answers.into())).len(), 2);
        assert_eq!(placements.delay_of(&PodUid::from("b")), Some("full"));
        assert_eq!(asked(&mut placements), Some(vec!["c".to_owned()]));
        placements.end(Err("gone".to_owned()));
        assert_eq!(placements.delay_of(&PodUid::from("c")), Some("gone"));
        assert!(placements.has_delayed());
        assert_eq!(placements.retry().len(), 2);
        assert!(!placements.has_delayed() && placements.of(&PodUid::from("b")).is_none());
        assert_eq!(placements.of(&PodUid::from("a")), Some(&Placing::Given));
        placements.retain(|uid| uid.as_str() != "a");
        assert_eq!(placements.of(&PodUid::from("a")), None);
    }

    #[test]
    fn a_refusal_stands_until_it_is_forgotten() {
        let mut placements = Placements::new(true);
        placements.ask(pods(&["a"]));
        placements.begin();
        let refused = Placing::Refused { reason: AdmissionReason::TopologyAffinityError, message: String::new() };
        placements.end(Ok([(PodUid::from("a"), refused.clone())].into()));
        assert_eq!(placements.of(&PodUid::from("a")), Some(&refused));
        placements.forget(&PodUid::from("a"));
        assert_eq!(placements.of(&PodUid::from("a")), None);
    }

    #[test]
    fn the_managers_hear_of_holders_when_they_change() {
        let mut placements = Placements::new(true);
        let holders: Arc<BTreeSet<PodUid>> = Arc::new([PodUid::from("a")].into());
        assert!(!placements.knows_holders(&holders));
        placements.note_told(Some(Arc::clone(&holders)));
        assert!(placements.knows_holders(&holders) && !placements.knows_holders(&BTreeSet::new()));
    }
}
