//! Parts of `/explain` that other actors answer: why a pod has its CPUs and memory, and what its probes cost.

use crate::logic::model::ids::PodUid;
use crate::messages::prober::{ProbeCost, ProberMsg};
use crate::messages::resources::allocation_manager::{AllocationManagerMsg, HardwareMsg};
use crate::messages::status::status_manager::PodView;
use crate::server::backend::Backend;
use crate::server::pods::pod_list::{ASK_LIMIT, REQUEST};
use crate::server::views::ProbeShown;

/// A line for each decision; none where no policy gives anything, or nobody can say.
pub(super) async fn hardware(backend: &Backend, uid: &PodUid) -> Vec<String> {
    let ask = |reply| AllocationManagerMsg::Hardware(HardwareMsg::Explain(uid.clone(), reply));
    let asked = backend.directory.allocation_manager.ask(REQUEST, ASK_LIMIT, ask).await;
    asked.ok().flatten().map(|record| record.lines()).unwrap_or_default()
}

/// The cost of the pod's probes; nothing when nobody can say.
pub(super) async fn probes(backend: &Backend, view: &PodView) -> Vec<ProbeShown> {
    let uid = view.uid.clone();
    let asked = backend.directory.prober.ask(REQUEST, ASK_LIMIT, |reply| ProberMsg::Costs(uid, reply)).await;
    asked.unwrap_or_default().into_iter().map(show_probe).collect()
}

fn show_probe(cost: ProbeCost) -> ProbeShown {
    let counts = cost.counts;
    ProbeShown {
        container: cost.key.container.to_string(),
        probe: cost.key.kind.to_string(),
        action: cost.action.to_owned(),
        period_seconds: cost.period.as_secs_f64(),
        rounds: counts.successful + counts.failed + counts.errored,
        failed: counts.failed,
        timed_out: counts.timed_out,
        errored: counts.errored,
        spent_seconds: counts.spent.as_secs_f64(),
        put_off_seconds: cost.put_off.map(|wait| wait.as_secs_f64()),
        waits_for_turn: cost.waits_for_turn,
    }
}
