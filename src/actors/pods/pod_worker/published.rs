//! The last news of a pod worker: the status, the waits, and whether someone has to hear of them or of other things again.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;

use crate::logic::pods::wait::PodWait;

/// See the module.
#[derive(Default)]
pub(super) struct Published {
    status: Option<Arc<PodStatus>>,
    waiting: Vec<PodWait>,
    is_over: bool,
    /// The status is the last one.
    is_final: bool,
    /// Someone has forgotten the status.
    is_forgotten: bool,
    /// Someone had no room for it.
    is_refused: bool,
    /// Someone had no room for another word of this turn, which the next turn says again.
    is_unheard: bool,
}

impl Published {
    /// The newest status.
    pub(super) fn status(&self) -> Option<&Arc<PodStatus>> {
        self.status.as_ref()
    }

    /// The status that went out for good: containers may be gone by now, and how they ended was said while they could be
    /// looked at.
    pub(super) fn last(&self) -> Option<&PodStatus> {
        self.status.as_deref().filter(|_| self.is_final)
    }

    /// Whether the next status is the last one.
    pub(super) fn set_final(&mut self, is_final: bool) {
        self.is_final = is_final;
    }

    /// Someone has forgotten the status: everything is to go out again.
    pub(super) fn forget(&mut self) {
        self.is_forgotten = true;
    }

    /// Whether everything is to go out again because someone has forgotten it.
    pub(super) fn is_forgotten(&self) -> bool {
        self.is_forgotten
    }

    /// Someone had no room: everything is to go out again soon.
    pub(super) fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// A turn begins, in which all is said that has to be.
    pub(super) fn begin_turn(&mut self) {
        self.is_unheard = false;
    }

    /// Whether someone had room for a word that each turn says until it is heard.
    pub(super) fn note(&mut self, is_heard: bool) {
        self.is_unheard |= !is_heard;
    }

    /// Whether something is to go out again because someone had no room for it.
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused || self.is_unheard
    }

    /// Takes what is to be published; says whether it is to go out: it is news, or someone has to hear it again.
    pub(super) fn take(&mut self, status: &Arc<PodStatus>, waiting: &[PodWait], is_over: bool) -> bool {
        let is_same = self.status.as_ref().is_some_and(|known| Arc::ptr_eq(known, status) || known == status);
        let is_known = is_same && self.waiting == waiting && self.is_over == is_over;
        let is_due = std::mem::take(&mut self.is_forgotten) | std::mem::take(&mut self.is_refused);
        if is_known && !is_due {
            return false;
        }
        (self.status, self.waiting, self.is_over) = (Some(Arc::clone(status)), waiting.to_vec(), is_over);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_told_when_it_is_news_or_was_lost() {
        let (mut published, status) = (Published::default(), Arc::<PodStatus>::default());
        let waits = |what: &str| vec![PodWait::NotYet(what.to_owned())];
        assert!(published.take(&status, &[], false));
        assert!(!published.take(&status, &[], false), "nothing has changed");
        assert!(published.take(&status, &waits("its image"), false));
        assert!(published.take(&status, &waits("its image"), true));
        published.forget();
        published.refuse();
        assert!(published.take(&status, &waits("its image"), true));
        assert!(!published.is_forgotten() && !published.is_refused());
        assert!(!published.take(&status, &waits("its image"), true));
    }
}
