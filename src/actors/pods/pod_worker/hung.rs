//! A call to the runtime that hangs, named to whoever looks at the pod that waits for it (PAIN-02).

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::jobs::JobSite;
use crate::actors::kit::context::Context;
use crate::cri::open_calls::OpenCall;
use crate::logic::model::runtime_health::{CALL_HANGS_AFTER, hangs};
use crate::logic::model::time::Moment;
use crate::logic::pods::pod_lifecycle::PodLifecycle;
use crate::logic::pods::wait::PodWait;
use crate::messages::pods::pod_worker::PodWorkerMsg;

/// From one look for such calls to the next, while there is anything to wait for. Nothing tells when a call begins to hang.
pub(super) const LOOK_PERIOD: Duration = CALL_HANGS_AFTER.saturating_add(Duration::from_secs(1));

/// The call that hangs, by its number, and the wait for it: the same for as long as it does.
#[derive(Default)]
pub(super) struct HungCall(Option<(u64, PodWait)>);

impl HungCall {
    /// The call of this pod that hangs: one of its own jobs, or `Pleg`'s look at it.
    pub(super) fn look(
        &mut self,
        site: &JobSite,
        lifecycle: &PodLifecycle,
        context: &Context<PodWorkerMsg>,
    ) -> Option<PodWait> {
        let call = find(site, lifecycle, context);
        let known = self.0.take().filter(|(number, _)| call.is_some_and(|call| call.number == *number));
        self.0 = known.or_else(|| {
            let OpenCall { number, method, open } = call?;
            let since = Moment(context.now().0.saturating_sub(i64::try_from(open.as_nanos()).ok()?));
            Some((number, PodWait::Call { method, since }))
        });
        self.0.as_ref().map(|(_, wait)| wait.clone())
    }
}

fn find(site: &JobSite, lifecycle: &PodLifecycle, context: &Context<PodWorkerMsg>) -> Option<OpenCall> {
    let own = context.address().record().oldest_call(None);
    let pleg = site.tools.to.pleg.record().oldest_call(Some(site.uid.as_str()));
    let grace = lifecycle.grace().or_else(|| lifecycle.pod().map(|pod| own_grace(pod))).unwrap_or_default();
    let hung = own.into_iter().chain(pleg).filter(|call| hangs(call.method, call.open, grace));
    hung.max_by_key(|call| call.open)
}

fn own_grace(pod: &Pod) -> Duration {
    let seconds = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
