//! The part of admission that the managers of CPUs, memory and devices decide: what they said of which pod.
//!
//! They are asked once about each pod, for several pods at a time. A pod that may be given devices of plugins has a question
//! of its own, since plugins take their time. Until the managers have answered, the pod waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::model::ids::PodUid;
use crate::logic::resources::asks_extended;

/// The number of a question to the managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct QuestionId(u64);

/// The answer of the managers about one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placing {
    /// It has its hardware, and the disk knows.
    Given,
    /// The same, and devices of these resources are part of it: there is room for the pod as far as they go, whatever the Node
    /// says of them.
    GivenDevices(BTreeSet<String>),
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
    /// Some policy gives something. Without one nobody is asked about pods without devices: they have what they need.
    has_policies: bool,
    /// A pod was seen that may be given devices.
    has_devices: bool,
    answers: BTreeMap<PodUid, Placing>,
    /// Why pods could not be decided when they were last asked about; also while they are asked about again.
    delays: BTreeMap<PodUid, String>,
    /// Pods to be asked about, in the order of their admission.
    due: Vec<(PodUid, Arc<Pod>)>,
    /// The pods of each question that is under way.
    asked: BTreeMap<QuestionId, BTreeSet<PodUid>>,
    /// Those of them that began before there was more to give.
    outdated: BTreeSet<QuestionId>,
    /// The question about pods without devices, while it is under way.
    plain: Option<QuestionId>,
    newest: QuestionId,
    /// A timer will ask about those again that could not be decided.
    is_armed: bool,
    /// Pods that hold hardware, as the managers heard last.
    told: Option<Arc<BTreeSet<PodUid>>>,
}

impl Placements {
    /// For a node whose policies give something, or do not.
    pub fn new(has_policies: bool) -> Self {
        Self { has_policies, ..Self::default() }
    }

    /// Whether the managers give anything.
    pub fn is_needed(&self) -> bool {
        self.has_policies || self.has_devices
    }

    /// The managers' word about the pod; `None`: they are to be asked.
    pub fn of(&self, uid: &PodUid, pod: &Pod) -> Option<&Placing> {
        if self.has_policies || asks_extended(pod) { self.answers.get(uid) } else { Some(&Placing::Given) }
    }

    /// The answer of the managers about the pod, if they gave one.
    pub fn answer(&self, uid: &PodUid) -> Option<&Placing> {
        self.answers.get(uid)
    }

    /// Whether the managers are being asked about the pod, or will be: the hardware that they give it is not free for others.
    pub fn is_asked(&self, uid: &PodUid) -> bool {
        self.asked.values().any(|asked| asked.contains(uid)) || self.due.iter().any(|(due, _)| due == uid)
    }

    /// Has these asked about, unless they are already.
    pub fn ask(&mut self, pods: Vec<(PodUid, Arc<Pod>)>) {
        for (uid, pod) in pods {
            self.has_devices |= asks_extended(&pod);
            if !self.is_asked(&uid) {
                self.due.push((uid, pod));
            }
        }
    }

    /// Begins questions, and says which pods each is about: one for each pod that may be given devices, and one for all others,
    /// unless such a one is under way.
    pub fn begin(&mut self) -> Vec<(QuestionId, Vec<Arc<Pod>>)> {
        let due = std::mem::take(&mut self.due);
        let (of_devices, plain): (Vec<_>, Vec<_>) = due.into_iter().partition(|(_, pod)| asks_extended(pod));
        let mut questions: Vec<_> = of_devices.into_iter().map(|one| self.begin_one(vec![one])).collect();
        match self.plain {
            Some(_) => self.due = plain,
            None if plain.is_empty() => {}
            None => {
                let question = self.begin_one(plain);
                self.plain = Some(question.0);
                questions.push(question);
            }
        }
        questions
    }

    fn begin_one(&mut self, pods: Vec<(PodUid, Arc<Pod>)>) -> (QuestionId, Vec<Arc<Pod>>) {
        self.newest.0 += 1;
        self.asked.insert(self.newest, pods.iter().map(|(uid, _)| uid.clone()).collect());
        (self.newest, pods.into_iter().map(|(_, pod)| pod).collect())
    }

    /// There is more to give than when the questions under way began: none of them has the last word where it gives nothing.
    pub fn outdate(&mut self) {
        self.outdated = self.asked.keys().copied().collect();
    }

    /// A question has ended with these answers, or with no answer at all. Returns the pods that it was about.
    pub fn end(
        &mut self,
        question: QuestionId,
        answers: Result<BTreeMap<PodUid, Placing>, String>,
    ) -> BTreeSet<PodUid> {
        let asked = self.asked.remove(&question).unwrap_or_default();
        self.plain.take_if(|plain| *plain == question);
        match answers {
            Ok(answers) => self.answers.extend(answers),
            Err(why) => {
                let not_yet = |uid: &PodUid| (uid.clone(), Placing::NotYet(why.clone()));
                self.answers.extend(asked.iter().map(not_yet));
            }
        }
        for uid in &asked {
            match self.answers.get(uid) {
                Some(Placing::NotYet(why)) => drop(self.delays.insert(uid.clone(), why.clone())),
                _ => drop(self.delays.remove(uid)),
            }
        }
        if self.outdated.remove(&question) {
            let gives = |answer: &Placing| matches!(answer, Placing::Given | Placing::GivenDevices(_));
            self.answers.retain(|uid, answer| gives(answer) || !asked.contains(uid));
        }
        asked
    }

    /// Whether the managers have not decided about the pod.
    pub fn is_open(&self, uid: &PodUid, pod: &Pod) -> bool {
        matches!(self.of(uid, pod), None | Some(Placing::NotYet(_)))
    }

    /// Why the pod cannot be decided now, or could not be at the last try.
    pub fn delay_of(&self, uid: &PodUid) -> Option<&str> {
        self.delays.get(uid).map(String::as_str)
    }

    /// Whether some pods are to be asked about again after a while, and no timer runs for that yet: one is to run now.
    pub fn arm(&mut self) -> bool {
        let has_delayed = self.answers.values().any(|answer| matches!(answer, Placing::NotYet(_)));
        has_delayed && !std::mem::replace(&mut self.is_armed, true)
    }

    /// The timer has run out.
    pub fn disarm(&mut self) {
        self.is_armed = false;
    }

    /// Those that could not be decided are new again; says which.
    pub fn retry(&mut self) -> BTreeSet<PodUid> {
        let delayed = self.answers.extract_if(.., |_, answer| matches!(answer, Placing::NotYet(_)));
        delayed.map(|(uid, _)| uid).collect()
    }

    /// The pod is to be asked about as if it were new.
    pub fn forget(&mut self, uid: &PodUid) {
        self.answers.remove(uid);
        self.delays.remove(uid);
    }

    /// Nobody wants other pods than these any more.
    pub fn retain(&mut self, is_wanted: impl Fn(&PodUid) -> bool) {
        self.answers.retain(|uid, _| is_wanted(uid));
        self.delays.retain(|uid, _| is_wanted(uid));
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
    use crate::logic::resources::testing;

    fn pods(names: &[&str]) -> Vec<(PodUid, Arc<Pod>)> {
        let pod = |name: &&str| {
            let mut pod = Pod::default();
            pod.metadata.uid = Some((*name).to_owned());
            (PodUid::from(*name), Arc::new(pod))
        };
        names.iter().map(pod).collect()
    }

    /// The pods of each question that begins.
    fn asked(placements: &mut Placements) -> Vec<(QuestionId, Vec<String>)> {
        let names = |pods: Vec<Arc<Pod>>| pods.iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
        placements.begin().into_iter().map(|(question, pods)| (question, names(pods))).collect()
    }

    fn of(placements: &Placements, name: &str) -> Option<Placing> {
        placements.of(&PodUid::from(name), &Pod::default()).cloned()
    }

    #[test]
    fn without_policies_only_pods_with_devices_are_asked_about() {
        let mut placements = Placements::new(false);
        assert_eq!(of(&placements, "a"), Some(Placing::Given));
        assert!(!placements.is_needed());
        let limits = "vendor.com/gpu=1";
        let user = testing::pod(vec![testing::container("main", "", limits)], vec![]);
        assert_eq!(placements.of(&PodUid::from("user"), &user), None);
        let pods = ["user", "other"].map(|name| (PodUid::from(name), Arc::new(user.clone())));
        placements.ask(pods.into());
        let questions = placements.begin();
        assert_eq!(questions.len(), 2, "each has a question of its own");
        assert!(placements.is_needed());
        let given = Placing::GivenDevices([limits.to_owned()].into());
        placements.end(questions[1].0, Ok([(PodUid::from("other"), given.clone())].into()));
        assert!(placements.is_asked(&PodUid::from("user")) && !placements.is_asked(&PodUid::from("other")));
        assert_eq!(
            placements.of(&PodUid::from("other"), &user),
            Some(&given),
            "the plugin of another one takes its time"
        );
        assert!(placements.is_open(&PodUid::from("user"), &user) && !placements.is_open(&PodUid::from("other"), &user));
    }

    #[test]
    fn pods_are_asked_about_once_and_together() {
        let mut placements = Placements::new(true);
        assert_eq!(of(&placements, "a"), None);
        placements.ask(pods(&["b", "a"]));
        placements.ask(pods(&["a"]));
        let questions = asked(&mut placements);
        assert_eq!(questions[0].1, ["b", "a"]);
        placements.ask(pods(&["a", "c"]));
        assert_eq!(asked(&mut placements), [], "one question at a time");
        for (name, expected) in [("a", true), ("b", true), ("c", true), ("d", false)] {
            assert_eq!(placements.is_asked(&PodUid::from(name)), expected, "{name}: under way, or due");
        }
        let answers = [(PodUid::from("a"), Placing::Given), (PodUid::from("b"), Placing::NotYet("full".to_owned()))];
        assert_eq!(placements.end(questions[0].0, Ok(answers.into())).len(), 2);
        assert_eq!(placements.delay_of(&PodUid::from("b")), Some("full"));
        let questions = asked(&mut placements);
        assert_eq!(questions[0].1, ["c"]);
        placements.end(questions[0].0, Err("gone".to_owned()));
        assert_eq!(placements.delay_of(&PodUid::from("c")), Some("gone"));
        assert!(placements.arm());
        assert!(!placements.arm(), "one timer is enough");
        placements.disarm();
        assert!(placements.arm(), "it has run out, and both still wait");
        placements.disarm();
        assert_eq!(placements.retry().len(), 2);
        assert_eq!(placements.delay_of(&PodUid::from("b")), Some("full"), "the reason is shown from try to try");
        assert!(!placements.arm() && of(&placements, "b").is_none());
        assert_eq!(of(&placements, "a"), Some(Placing::Given));
        placements.retain(|uid| uid.as_str() != "a");
        assert_eq!(of(&placements, "a"), None);
    }

    #[test]
    fn what_came_during_a_question_has_it_asked_again_where_nothing_was_given() {
        let mut placements = Placements::new(true);
        placements.ask(pods(&["full", "given", "refused"]));
        let question = placements.begin()[0].0;
        placements.outdate();
        let refused = Placing::Refused { reason: AdmissionReason::UnexpectedAdmissionError, message: String::new() };
        let not_yet = Placing::NotYet("no devices yet".to_owned());
        let all = [("full", not_yet.clone()), ("given", Placing::Given), ("refused", refused.clone())];
        let all = all.map(|(name, answer)| (PodUid::from(name), answer));
        placements.end(question, Ok(all.clone().into()));
        assert_eq!(["full", "given", "refused"].map(|name| of(&placements, name)), [None, Some(Placing::Given), None]);
        assert_eq!(placements.delay_of(&PodUid::from("full")), Some("no devices yet"), "shown until it is decided");
        placements.ask(pods(&["full", "refused"]));
        let question = placements.begin()[0].0;
        placements.end(question, Ok(all.into()));
        assert_eq!([of(&placements, "full"), of(&placements, "refused")], [Some(not_yet), Some(refused)]);
    }

    #[test]
    fn a_refusal_stands_until_it_is_forgotten() {
        let mut placements = Placements::new(true);
        placements.ask(pods(&["a"]));
        let question = placements.begin()[0].0;
        let refused = Placing::Refused { reason: AdmissionReason::TopologyAffinityError, message: String::new() };
        placements.end(question, Ok([(PodUid::from("a"), refused.clone())].into()));
        assert_eq!(of(&placements, "a"), Some(refused));
        placements.forget(&PodUid::from("a"));
        assert_eq!(of(&placements, "a"), None);
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
