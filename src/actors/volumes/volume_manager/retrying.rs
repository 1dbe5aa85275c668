//! Causes that are over: what failed is tried at once, and those who wait for it hear so.

use super::VolumeManager;
use crate::actors::kit::context::Context;
use crate::logic::model::ids::PodUid;
use crate::logic::volumes::volume_states::{Input, Standing};
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::volume_manager::VolumeManagerMsg;

impl VolumeManager {
    /// A driver has come: all that failed is tried at once, and the workers of pods that lack a volume ask again.
    pub(super) fn retry(&self, context: &Context<VolumeManagerMsg>) -> Vec<Input> {
        for worker in self.states.failing().filter_map(|uid| self.workers.get(uid)) {
            context.tell_subscriber(worker, PodWorkerMsg::VolumesChanged);
        }
        vec![Input::Retry]
    }

    /// The worker of a released pod that hears of a failure asks again after a pause of its own; once the volumes are gone it is
    /// worth asking at once.
    pub(super) fn tell_gone(&mut self, uid: &PodUid, context: &Context<VolumeManagerMsg>) {
        let is_gone =
            !self.pods.contains_key(uid) && matches!(self.states.released(uid, context.steady()), Standing::Done);
        if is_gone
            && !self.questions.contains_key(uid)
            && let Some(worker) = self.workers.remove(uid)
        {
            context.tell_subscriber(&worker, PodWorkerMsg::VolumesChanged);
        }
    }
}
