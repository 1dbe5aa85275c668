//! Which volumes that the cluster attaches are in use here (NODE-24, VOL-09): the cluster takes away what is not.
//!
//! Both what the disk shows, whoever mounted it, and what a wanted pod waits for: the Node says that a volume is in use before
//! it is mounted, and until it is unstaged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::VolumeManager;
use super::tasks::CsiTask;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::single_flight::SingleFlight;
use crate::logic::model::ids::PodUid;
use crate::logic::volumes::order::plugin;
use crate::logic::volumes::plan::{VolumeKind, VolumePlan};
use crate::logic::volumes::volume_states::Task;
use crate::messages::Ended;
use crate::messages::node::node_status::{NodeNews, NodeStatusMsg};
use crate::messages::plugins::csi_manager::CsiManagerMsg;
use crate::messages::volume_manager::{AttachedStep, TaskNews, VolumeManagerMsg};

/// Wait before attached volumes are looked for again: they go when their pods end.
const PERIOD: Duration = Duration::from_secs(30);

/// From the end of a look to the next one for pods that have gone: where many go one after the other, a look serves many, as
/// each costs the list of all volumes.
const PAUSE: Duration = Duration::from_secs(1);

/// News that go out again while there is no room for them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owed {
    /// `CsiManager`: a staged volume may have no user any more.
    MayBeUnused,
    /// `NodeStatus`: the volumes in use.
    InUse,
}

/// See the module.
#[derive(Default)]
pub(super) struct InUse {
    /// Volumes that the disk shows; `None` until it was read.
    on_disk: Option<BTreeSet<String>>,
    /// Looks at the disk. Each is wanted for volumes whose pods have gone: they are in use until a look says otherwise that
    /// began after that.
    looks: SingleFlight<BTreeSet<String>>,
    /// Volumes that pods wait for or have, until the pods are released.
    wanted: BTreeMap<PodUid, BTreeSet<String>>,
    /// Released pods that may have had a volume of a driver, or may have asked for one.
    driven: BTreeSet<PodUid>,
    /// The list that `NodeStatus` has.
    told: Option<BTreeSet<String>>,
    timer: Option<OperationId>,
    /// Until this uptime no look begins for a pod that has gone.
    rests_until: Duration,
}

impl InUse {
    /// All of them; `None` until the disk was read, so that what the Node shows stays.
    fn all(&self) -> Option<BTreeSet<String>> {
        let known = self.on_disk.as_ref()?.iter().chain(self.looks.wants().flatten());
        Some(known.chain(self.wanted.values().flatten()).cloned().collect())
    }
}

impl VolumeManager {
    /// Reads off the disk which volumes are in use: another agent may have mounted them.
    pub(super) fn look_for_attached(&mut self, context: &mut Context<VolumeManagerMsg>) {
        self.look_for(BTreeSet::new(), context);
    }

    /// The same, for volumes whose pod has gone, in a moment.
    fn look_for_gone(&mut self, gone: BTreeSet<String>, context: &mut Context<VolumeManagerMsg>) {
        let rest = self.in_use.rests_until.saturating_sub(context.clock().uptime());
        if rest.is_zero() || self.in_use.looks.is_under_way() {
            return self.look_for(gone, context);
        }
        self.in_use.looks.later(gone);
        self.look_after(rest, context);
    }

    fn look_after(&mut self, wait: Duration, context: &mut Context<VolumeManagerMsg>) {
        let timer = context.after(wait, VolumeManagerMsg::Attached(AttachedStep::AttachedDue));
        if let Some(timer) = self.in_use.timer.replace(timer) {
            context.cancel(timer);
        }
    }

    fn look_for(&mut self, gone: BTreeSet<String>, context: &mut Context<VolumeManagerMsg>) {
        if self.in_use.looks.want(gone).is_none() {
            return;
        }
        let host = Arc::clone(&self.args.volumes);
        let work = async move { host.attached().await.map_err(|error| error.to_string()) };
        context.start("look for attached volumes", "the node".to_owned(), work, |outcome| {
            VolumeManagerMsg::Attached(AttachedStep::AttachedFound(outcome.into()))
        });
    }

    /// Takes what the disk shows. As long as there is something it is looked at again.
    pub(super) fn take_attached(&mut self, outcome: Ended<BTreeSet<String>>, context: &mut Context<VolumeManagerMsg>) {
        let (gone, wanted) = self.in_use.looks.end();
        let wait = if wanted.is_some() { PAUSE } else { PERIOD };
        let mut is_due = wanted.is_some();
        match outcome.into_result() {
            Ok(found) => self.in_use.on_disk = Some(found),
            Err(problem) => {
                tracing::warn!(problem, "it is not known yet which attached volumes are in use");
                // The next look says whether these are.
                gone.into_iter().for_each(|gone| self.in_use.looks.later(gone));
            }
        }
        wanted.into_iter().for_each(|wanted| self.in_use.looks.later(wanted));
        self.in_use.rests_until = context.clock().uptime() + PAUSE;
        is_due |= !self.tell_in_use(context) || self.in_use.told.as_ref().is_none_or(|told| !told.is_empty());
        match is_due {
            true => self.look_after(wait, context),
            false => self.in_use.timer.take().into_iter().for_each(|timer| context.cancel(timer)),
        }
    }

    /// Tells `NodeStatus`, unless it has the same list or gets it soon; says whether the list is known.
    fn tell_in_use(&mut self, context: &mut Context<VolumeManagerMsg>) -> bool {
        let Some(all) = self.in_use.all() else { return false };
        if self.in_use.told.as_ref() != Some(&all) {
            let (node_status, volumes) = (self.args.node_status.clone(), all.iter().cloned().collect::<Vec<_>>());
            let news = move || NodeStatusMsg::News(NodeNews::VolumesInUse(volumes.clone()));
            self.untold.tell(Owed::InUse, move |context| context.try_tell(&node_status, news()), context);
            self.in_use.told = Some(all);
        }
        true
    }

    /// A wanted pod waits for a volume that the cluster attaches.
    pub(super) fn note_attachable(&mut self, uid: PodUid, volume: String, context: &mut Context<VolumeManagerMsg>) {
        if self.pods.contains_key(&uid) {
            self.in_use.wanted.entry(uid).or_default().insert(volume);
            self.tell_in_use(context);
        }
    }

    /// `NodeStatus` forgot the volumes: a pod that waits until the Node tells of one would wait for ever.
    pub(super) fn repeat_in_use(&mut self, context: &mut Context<VolumeManagerMsg>) {
        self.in_use.told = None;
        self.look_for_attached(context);
    }

    /// A pod is released. Of one that was never wanted here nobody knows which volumes it had.
    pub(super) fn note_released(&mut self, uid: &PodUid) {
        let may_be = |plan: &VolumePlan| {
            matches!(plan.kind, VolumeKind::Claim { .. } | VolumeKind::Csi(_) | VolumeKind::Migrated(_))
        };
        if self.pods.get(uid).is_none_or(|wanted| wanted.plans.values().any(may_be)) {
            self.in_use.driven.insert(uid.clone());
        }
    }

    /// Something of a released pod is gone, or a mount for it came to its end: a staged volume may have no user any more. Once
    /// nothing is left, what the pod waited for is in use only where the disk shows it.
    pub(super) fn note_gone(&mut self, uid: &PodUid, task: &Task, context: &mut Context<VolumeManagerMsg>) {
        let is_over = *task == Task::Finish;
        let was_driven = match task {
            Task::Unmount(place) => place.plugin == plugin::CSI,
            Task::Mount(_) => !self.pods.contains_key(uid),
            Task::List | Task::Finish => false,
        };
        let may_be = is_over && self.in_use.driven.remove(uid);
        let waited = if is_over { self.in_use.wanted.remove(uid) } else { None };
        if was_driven || may_be {
            let manager = self.args.csi.manager.clone();
            self.untold.tell(
                Owed::MayBeUnused,
                move |context| context.try_tell(&manager, CsiManagerMsg::MayBeUnused),
                context,
            );
        }
        if let Some(gone) = waited {
            self.look_for_gone(gone, context);
        }
    }

    /// The means of a mount, should it be of a driver.
    pub(super) fn csi_task(&self, uid: &PodUid, name: &str, context: &Context<VolumeManagerMsg>) -> CsiTask {
        let (me, cause, of) = (context.address().clone(), context.cause(), uid.clone());
        let wanted = self.pods.get(uid);
        let mounted = wanted.and_then(|wanted| wanted.mounted.get(name));
        let known = wanted.and_then(|wanted| wanted.sizes.get(name)).cloned();
        CsiTask {
            volumes: self.args.csi.clone(),
            node_status: self.args.node_status.clone(),
            cause: context.cause(),
            was_published: mounted.is_some(),
            only_grows: known.is_some() && mounted.is_some_and(|mounted| !mounted.republish),
            known,
            attaches: Box::new(move |volume| {
                let news = TaskNews::TaskAttaches { uid: of.clone(), volume };
                // Lost, it comes again with the next try.
                let _ = me.tell(cause.clone(), VolumeManagerMsg::Task(news));
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NODE-24: the cluster would take the volume away while it is staged.
    #[test]
    fn a_volume_whose_pod_has_gone_is_in_use_until_a_look_that_began_after_that() {
        let (uid, volume) = (PodUid::from("u"), BTreeSet::from(["disk".to_owned()]));
        let wanted = BTreeMap::from([(uid.clone(), volume.clone())]);
        let mut in_use = InUse { on_disk: Some(BTreeSet::new()), wanted, ..InUse::default() };
        assert!(in_use.looks.want(BTreeSet::new()).is_some(), "a look from before");
        let gone = in_use.wanted.remove(&uid).expect("it was wanted");
        assert!(in_use.looks.want(gone).is_none());
        assert_eq!(in_use.all(), Some(volume.clone()));
        let (_, next) = in_use.looks.end();
        assert!(in_use.looks.want(next.expect("for the pod that has gone")).is_some());
        assert_eq!(in_use.all(), Some(volume));
        assert!(in_use.looks.end().1.is_none());
        assert_eq!(in_use.all(), Some(BTreeSet::new()));
    }
}
