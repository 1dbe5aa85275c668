//! `ProcessPlacement`: keeps the agent and, where that is asked for, the machine's daemons in their cgroups; keeps the
//! agent's `oom_score_adj` (RES-19, CFG-41).
//!
//! Parent: Root. Restarted: after a failure; it looks again. No pod waits for it, so no trouble here is more than a line
//! in the log. An agent in a container of its own moves nobody, as upstream.

use std::sync::Arc;
use std::time::Duration;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::context::Context;
use crate::logic::resources::cgroup_name::CgroupName;
use crate::logic::resources::node_cgroups::process_placement::{PlacementSettings, cgroup_of, is_elsewhere, to_move};
use crate::messages::resources::process_placement::{Misplaced, ProcessPlacementMsg};
use crate::platform::cgroup::process_placement;
use crate::platform::host::blocking;

/// Wait between looks where a setting names a cgroup; upstream's.
const ENSURE_PERIOD: Duration = Duration::from_secs(60);
/// Wait between looks at the agent where none is named; upstream's.
const SCORE_PERIOD: Duration = Duration::from_secs(300);
/// Passes over the root's processes before the next look: new ones appear while others are moved. Upstream's number.
const PASSES_MAX: u32 = 11;

/// The actor's arguments.
pub struct Args {
    /// `kubeletCgroups`, `systemCgroups`, `oomScoreAdj`.
    pub settings: PlacementSettings,
    /// Processes of the machine and their cgroups.
    pub placement: Arc<dyn process_placement::ProcessPlacement>,
}

/// See the module.
pub struct ProcessPlacement {
    args: Args,
    /// The faults of the last look: the log has each once.
    said: Misplaced,
}

impl Actor for ProcessPlacement {
    const KIND: &'static str = "ProcessPlacement";
    type Msg = ProcessPlacementMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<ProcessPlacementMsg>) -> Self {
        let placement = Self { args, said: Misplaced::default() };
        placement.place(context);
        placement
    }

    fn receive(&mut self, message: ProcessPlacementMsg, context: &mut Context<ProcessPlacementMsg>) {
        match message {
            ProcessPlacementMsg::Placed(outcome) => {
                let wrong = outcome.unwrap_or_else(|loss| Misplaced { agent: Some(loss.to_string()), system: None });
                say("kubelet", &self.said.agent, &wrong.agent);
                say("system", &self.said.system, &wrong.system);
                self.said = wrong;
                let settings = &self.args.settings;
                let named = settings.agent.is_some() || settings.system.is_some();
                context.after(if named { ENSURE_PERIOD } else { SCORE_PERIOD }, ProcessPlacementMsg::LookDue);
            }
            ProcessPlacementMsg::LookDue => self.place(context),
        }
    }
}

fn say(container: &'static str, before: &Option<String>, problem: &Option<String>) {
    if let Some(problem) = problem.as_ref().filter(|problem| before.as_ref() != Some(*problem)) {
        tracing::warn!(container, problem, "Failed to ensure state");
    }
}

impl ProcessPlacement {
    /// The system's processes come first: the agent, where it is among them, has a place of its own.
    fn place(&self, context: &mut Context<ProcessPlacementMsg>) {
        let (placement, settings) = (Arc::clone(&self.args.placement), self.args.settings.clone());
        let work = blocking::run(move || Misplaced {
            system: settings.system.as_ref().and_then(|name| place_system(&*placement, name).err()),
            agent: place_agent(&*placement, &settings).err(),
        });
        context.start("place processes", "the agent, the system", work, ProcessPlacementMsg::Placed);
    }
}

/// All that can be done is done; the log has every problem.
fn place_agent(
    placement: &dyn process_placement::ProcessPlacement,
    settings: &PlacementSettings,
) -> Result<(), String> {
    if !placement.is_in_host().map_err(|error| format!("failed to find pid namespace of the agent: {error}"))? {
        return Ok(());
    }
    let mut problems = vec![];
    if let Some(wanted) = &settings.agent {
        let text = placement.own_cgroups().map_err(|error| error.to_string());
        let here = text.and_then(|text| cgroup_of(&text, placement.version()));
        let is_elsewhere = here.as_ref().map_or(true, |here| is_elsewhere(here, wanted));
        if let Err(error) = &here {
            problems.push(format!("failed to find container of the agent: {error}"));
        }
        if is_elsewhere && let Err(error) = placement.enter(wanted, None) {
            problems.push(format!("failed to move the agent (in {:?}) to {wanted}: {error}", here.unwrap_or_default()));
        }
    }
    if let Err(error) = placement.set_oom_score_adj(settings.oom_score_adj) {
        problems.push(error.to_string());
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

/// Moves what is in the root until only what belongs there is left.
fn place_system(placement: &dyn process_placement::ProcessPlacement, name: &CgroupName) -> Result<(), String> {
    let mut problem = None;
    for _ in 0..PASSES_MAX {
        let processes = placement.root_processes().map_err(|error| format!("failed to list PIDs for root: {error}"))?;
        let pids = to_move(&processes);
        if pids.is_empty() {
            return Ok(());
        }
        tracing::debug!(?pids, cgroup = %name, "Moving non-kernel processes");
        problem = None;
        for pid in pids {
            if let Err(error) = placement.enter(name, Some(pid)) {
                problem = Some(format!("failed to move PID {pid} into the system container {name}: {error}"));
            }
        }
    }
    problem.map_or(Ok(()), Err)
}
