//! What workers of pods are told, and told again where their mailboxes had no room for it.

use std::sync::Arc;
use std::time::Duration;

use super::{PodManager, Slot};
use crate::actors::kit::context::Context;
use crate::logic::model::ids::PodUid;
use crate::logic::model::runtime_pod::RuntimePod;
use crate::messages::pod_manager::PodManagerMsg;
use crate::messages::pod_worker::PodWorkerMsg;

/// Wait before a worker whose mailbox was full is told again; doubled as long as one is full, up to [`RETELL_MAX`].
pub(super) const RETELL: Duration = Duration::from_millis(100);
/// The longest such wait.
const RETELL_MAX: Duration = Duration::from_secs(1);

/// What a worker's full mailbox refused. Which orders those were, the roster knows.
#[derive(Default)]
pub(super) struct Owed {
    orders: bool,
    health: bool,
    host: bool,
    repeat: bool,
    observed: Option<Arc<RuntimePod>>,
}

impl Owed {
    fn add(&mut self, refused: Owed) {
        self.orders |= refused.orders;
        self.health |= refused.health;
        self.host |= refused.host;
        self.repeat |= refused.repeat;
        let newer = |seen: &Arc<RuntimePod>| self.observed.as_ref().is_none_or(|known| known.taken <= seen.taken);
        if let Some(seen) = refused.observed.filter(newer) {
            self.observed = Some(seen);
        }
    }

    fn is_nothing(&self) -> bool {
        !self.orders && !self.health && !self.host && !self.repeat && self.observed.is_none()
    }
}

impl Slot {
    /// Tells the worker; says whether there was room, and remembers what there was none for. A worker that is down is told
    /// all when it is started again.
    pub(super) fn tell(&mut self, message: PodWorkerMsg, context: &Context<PodManagerMsg>) -> bool {
        let refused = match &message {
            PodWorkerMsg::SpecChanged(_) | PodWorkerMsg::Terminate { .. } => Owed { orders: true, ..Owed::default() },
            PodWorkerMsg::HealthChanged(_) => Owed { health: true, ..Owed::default() },
            PodWorkerMsg::HostChanged(_) => Owed { host: true, ..Owed::default() },
            PodWorkerMsg::Repeat => Owed { repeat: true, ..Owed::default() },
            PodWorkerMsg::Observed(seen) => Owed { observed: Some(Arc::clone(seen)), ..Owed::default() },
            PodWorkerMsg::Probed { .. }
            | PodWorkerMsg::VolumesChanged
            | PodWorkerMsg::Demanded { .. }
            // What it was told is remembered, and compared.
            | PodWorkerMsg::ResizeJudged(_)
            | PodWorkerMsg::Recalled(_)
            | PodWorkerMsg::JobEnded(_)
            | PodWorkerMsg::RetryDue => Owed::default(),
        };
        let has_room = context.try_tell(&self.address, message);
        if !has_room {
            self.owed.add(refused);
        }
        has_room
    }
}

impl PodManager {
    /// Says whether there was room; if not, it is told again soon.
    pub(super) fn tell_worker(
        &mut self,
        uid: &PodUid,
        message: PodWorkerMsg,
        context: &mut Context<PodManagerMsg>,
    ) -> bool {
        let has_room = self.slots.get_mut(uid).is_none_or(|slot| slot.tell(message, context));
        if !has_room {
            self.arm_retell(context);
        }
        has_room
    }

    pub(super) fn tell_all(&mut self, message: &dyn Fn() -> PodWorkerMsg, context: &mut Context<PodManagerMsg>) {
        let refused = self.slots.values_mut().filter_map(|slot| (!slot.tell(message(), context)).then_some(())).count();
        if refused > 0 {
            self.arm_retell(context);
        }
    }

    pub(super) fn arm_retell(&mut self, context: &mut Context<PodManagerMsg>) {
        if !std::mem::replace(&mut self.retelling, true) {
            context.after(self.retell_wait, PodManagerMsg::RetellDue);
            self.retell_wait = (self.retell_wait * 2).min(RETELL_MAX);
        }
    }

    /// Tells workers again what they had no room for. Those that have none yet are owed it still.
    pub(super) fn retell(&mut self, context: &mut Context<PodManagerMsg>) {
        self.retelling = false;
        let health = self.health.clone();
        let (mut orders, mut refused) = (false, false);
        for slot in self.slots.values_mut().filter(|slot| !slot.owed.is_nothing()) {
            let owed = std::mem::take(&mut slot.owed);
            orders |= owed.orders;
            let messages = [
                owed.health.then(|| PodWorkerMsg::HealthChanged(health.clone())),
                owed.host.then(|| PodWorkerMsg::HostChanged(self.host.clone())),
                owed.repeat.then_some(PodWorkerMsg::Repeat),
                owed.observed.map(PodWorkerMsg::Observed),
            ];
            for message in messages.into_iter().flatten() {
                refused |= !slot.tell(message, context);
            }
        }
        if refused {
            self.arm_retell(context);
        }
        if orders {
            self.carry_out(context); // The roster gives them again, or newer ones.
        }
        self.tell_resizes(context);
        self.tell_heard_all(context);
        if !self.retelling {
            self.retell_wait = RETELL;
        }
    }
}
