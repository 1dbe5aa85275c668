//! Decisions about pods, by the source that wants them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Admissions;
use super::placing::Placements;
use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::node_stop::NodeStop;
use crate::logic::pods::pod_roster::API_SOURCE;

/// See the module. Owned by `PodManager`.
#[derive(Clone, Debug, Default)]
pub struct SourceAdmissions {
    /// Pods of the API server.
    pub api: Admissions,
    /// Static pods, by source name.
    statics: BTreeMap<&'static str, Admissions>,
    /// The word of the managers of CPUs and memory.
    pub placements: Placements,
}

impl SourceAdmissions {
    /// For a node whose managers of CPUs and memory give something, or do not.
    pub fn new(managers_give: bool) -> Self {
        Self { placements: Placements::new(managers_give), ..Self::default() }
    }

    /// The decisions about the static pods of a source.
    pub fn statics_of(&mut self, source: &'static str) -> &mut Admissions {
        self.statics.entry(source).or_insert_with(Admissions::of_statics)
    }

    /// Sources of static pods that were refused and are to be judged anew.
    pub fn with_open_refusals(&self) -> Vec<&'static str> {
        let open = self.statics.iter().filter(|(_, admissions)| admissions.has_open_refusals());
        open.map(|(source, _)| *source).collect()
    }

    /// Static pods that were refused are to be asked about anew, too, when they are judged.
    pub fn forget_placement_refusals(&mut self) {
        for uid in self.statics.values().flat_map(Admissions::refused) {
            self.placements.forget(uid);
        }
    }

    /// Pods that were judged and have to wait, whichever source they are of.
    pub fn waiting(&self) -> BTreeSet<PodUid> {
        self.statics.values().chain([&self.api]).flat_map(Admissions::waiting).cloned().collect()
    }

    /// Whether the pod was admitted, whichever source it is of.
    pub fn is_admitted(&self, uid: &PodUid) -> bool {
        self.api.is_admitted(uid) || self.statics.values().any(|one| one.is_admitted(uid))
    }

    /// The reason and the message of a pod that was refused, whichever source it is of.
    pub fn why_not(&self, uid: &PodUid) -> Option<(&AdmissionReason, &str)> {
        self.statics.values().chain([&self.api]).find_map(|one| one.why_not(uid))
    }

    /// The decisions about the pods of a source.
    pub fn of(&mut self, source: &'static str) -> &mut Admissions {
        if source == API_SOURCE { &mut self.api } else { self.statics_of(source) }
    }

    /// Why the node itself ends the pod: to make room for a critical one, to stay alive, or because the machine goes down.
    /// `None` when it does not.
    pub fn stop_of(&self, uid: &PodUid) -> Option<&Arc<NodeStop>> {
        self.statics.values().chain([&self.api]).find_map(|one| one.stop_of(uid))
    }

    /// Pods that the node itself ends, and why.
    pub fn stopped(&self) -> impl Iterator<Item = (&PodUid, &Arc<NodeStop>)> {
        self.statics.values().chain([&self.api]).flat_map(Admissions::stopped)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::super::placing::Placing;
    use super::*;
    use crate::logic::model::time::Moment;

    fn preempt(admissions: &mut Admissions, uid: &PodUid) {
        admissions.admitted.insert(uid.clone());
        drop(admissions.stop(uid, NodeStop::preempted(Moment::EPOCH), Moment::EPOCH));
    }

    /// NODE-45.
    #[test]
    fn a_pod_that_the_node_ends_is_found_whichever_source_wants_it() {
        for source in ["file", API_SOURCE] {
            let (mut admissions, uid) = (SourceAdmissions::default(), PodUid::from("u"));
            assert!(admissions.stop_of(&uid).is_none());
            preempt(admissions.of(source), &uid);
            assert!(admissions.stop_of(&uid).is_some() && !admissions.is_admitted(&uid), "{source}");
            assert_eq!(
                (admissions.stopped().count(), admissions.with_open_refusals().is_empty()),
                (1, source == "api")
            );
        }
    }

    #[test]
    fn a_decision_is_found_whichever_source_wants_the_pod() {
        for source in ["file", API_SOURCE] {
            let mut admissions = SourceAdmissions::default();
            let [taken, refused, late, unknown] = ["taken", "refused", "late", "unknown"].map(PodUid::from);
            let of = admissions.of(source);
            of.admitted.insert(taken.clone());
            of.refused.insert(refused.clone(), (AdmissionReason::NodeName, "elsewhere".to_owned()));
            of.waiting.insert(late.clone());
            let found = [&taken, &refused, &late, &unknown].map(|uid| admissions.is_admitted(uid));
            assert_eq!(found, [true, false, false, false], "{source}");
            assert_eq!(admissions.why_not(&refused), Some((&AdmissionReason::NodeName, "elsewhere")), "{source}");
            assert_eq!((admissions.why_not(&taken), admissions.waiting()), (None, [late].into()), "{source}");
        }
    }

    #[test]
    fn a_refused_static_pod_is_judged_anew_until_nobody_wants_it() {
        let (mut admissions, uid) = (SourceAdmissions::default(), PodUid::from("u"));
        preempt(admissions.statics_of("http"), &uid);
        preempt(&mut admissions.api, &uid);
        assert_eq!(admissions.with_open_refusals(), ["http"], "the API server's pods are refused for good");
        admissions.statics_of("http").forget_refusal(&uid);
        assert_eq!(admissions.with_open_refusals(), [""; 0]);
    }

    /// Upstream never judges it again; here the managers of hardware are asked anew, too.
    #[test]
    fn the_managers_are_asked_again_about_refused_static_pods_alone() {
        let mut admissions = SourceAdmissions::new(true);
        let pod = Arc::new(Pod::default());
        for (source, uid) in [("file", "static"), (API_SOURCE, "of-the-api")] {
            preempt(admissions.of(source), &PodUid::from(uid));
        }
        let uids = ["static", "of-the-api"].map(PodUid::from);
        admissions.placements.ask(uids.iter().map(|uid| (uid.clone(), Arc::clone(&pod))).collect());
        let question = admissions.placements.begin()[0].0;
        admissions.placements.end(question, Ok(uids.into_iter().map(|uid| (uid, Placing::Given)).collect()));
        admissions.forget_placement_refusals();
        let known = |uid: &str| admissions.placements.answer(&uid.into()).is_some();
        assert_eq!((known("static"), known("of-the-api")), (false, true));
    }
}
