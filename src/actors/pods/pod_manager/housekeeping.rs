//! The pass over what a crash left of pods that nobody knows: directories with their volumes, logs, cgroups (POD-33, VOL-15).
//!
//! A pass may take long, and who is known changes meanwhile: a static pod whose manifest comes back has the UID that it
//! had. So this actor is asked about each pod right before what is left of it goes, and none gets a worker while it goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{HOUSEKEEPING_PERIOD, PodManager, RETIRED_KEPT};
use crate::actors::agent::Agent;
use crate::actors::kit::context::Context;
use crate::actors::kit::trace::{Cause, lock};
use crate::actors::pods::pod_worker::volumes::release;
use crate::logic::logs::log_keeping::{LogKeeping, is_full};
use crate::logic::model::ids::PodUid;
use crate::logic::model::loudness::Loudness;
use crate::logic::model::time::Moment;
use crate::logic::resources::cgroup_name::CgroupName;
use crate::messages::Panicked;
use crate::messages::pod_manager::{Found, Leftovers, PodManagerMsg, Swept};
use crate::messages::status_manager::StatusManagerMsg;
use crate::platform::host::blocking;
use crate::platform::observer::Occurrence;

/// How far the pass is, and what the one before it could not remove.
#[derive(Default)]
pub(super) struct Sweep {
    begun: bool,
    under_way: bool,
    /// Pods whose leftovers were found and not yet looked at.
    open: BTreeMap<PodUid, Leftovers>,
    /// How many things went.
    removed: usize,
    /// How many directories there were to remove.
    directories: usize,
    /// How many of them stay.
    failed: usize,
    /// Of which pods something stays, and why.
    stay: BTreeMap<PodUid, String>,
    /// Those of the pass before.
    stayed: BTreeMap<PodUid, String>,
    /// Until when logs stay.
    pub(super) logs: LogKeeping,
}

impl Sweep {
    /// Whether there was a pass since the start.
    pub(super) fn was_begun(&self) -> bool {
        self.begun
    }

    /// A new pass, if none is under way.
    fn begin(&mut self) -> bool {
        if self.under_way {
            return false;
        }
        let (stayed, logs) = (std::mem::take(&mut self.stay), std::mem::take(&mut self.logs));
        *self = Self { begun: true, under_way: true, stayed, logs, ..Self::default() };
        true
    }

    /// What stays is logged unless it stayed for the same reason before (PAIN-14).
    fn note(&mut self, uid: PodUid, swept: Swept) {
        self.removed += swept.removed;
        self.directories += usize::from(swept.directory.is_some());
        self.failed += usize::from(matches!(swept.directory, Some(Err(_))));
        let Some(error) = swept.directory.and_then(Result::err).or(swept.logs) else { return };
        match Loudness::of_reason(self.stayed.get(&uid).map(String::as_str), &error) {
            Loudness::Debug => tracing::debug!(pod = %uid, error, "what is left of an unknown pod stays still"),
            _ => tracing::warn!(pod = %uid, error, "what is left of an unknown pod stays"),
        }
        self.stay.insert(uid, error);
    }

    /// Leaves logs alone that are to be read for a while yet.
    fn keep_logs(&mut self, found: Found, now: Moment, uptime: Duration) -> BTreeMap<PodUid, Leftovers> {
        let Found { mut leftovers, disk_is_full } = found;
        self.logs.keep_only(|uid| leftovers.contains_key(uid), uptime);
        for (uid, left) in leftovers.iter_mut().filter(|(_, left)| !left.logs.is_empty()) {
            self.logs.found(uid, left.written.map(|written| now.since(written)), uptime);
            if !self.logs.may_go(uid, uptime, disk_is_full) {
                left.logs.clear();
            }
        }
        leftovers.retain(|_, left| left.has_directory || !left.logs.is_empty() || !left.cgroups.is_empty());
        leftovers
    }
}

impl PodManager {
    /// Has those answered who asked before all pods were known. A pod without a worker is not waited for, so this comes
    /// after the orders that start workers, and after the last of them where not all start at once.
    pub(super) fn tell_heard_all(&mut self, context: &mut Context<PodManagerMsg>) {
        let are_all_started = self.roster.all_heard() && self.can_judge() && !self.roster.is_unfinished();
        if self.heard_all_told || !are_all_started {
            return;
        }
        let heard = StatusManagerMsg::HeardAll(self.roster.with_worker());
        self.heard_all_told = context.try_tell(&self.agent.directory.status_manager, heard);
        if !self.heard_all_told {
            self.arm_retell(context);
        }
    }

    /// Whoever is wanted, judged or not, has a worker, or is held by the runtime.
    fn known(&self) -> BTreeSet<PodUid> {
        let mut known = self.roster.known();
        known.extend(self.listed.keys().cloned());
        known.extend(self.api_pods.iter().flat_map(BTreeMap::keys).cloned());
        known.extend(self.statics.values().flat_map(BTreeMap::keys).cloned());
        known
    }

    pub(super) fn keep_house(&mut self, context: &mut Context<PodManagerMsg>) {
        let uptime = context.clock().uptime();
        self.retired.retain(|_, (_, at)| uptime.saturating_sub(*at) < RETIRED_KEPT);
        self.ask_host(context);
        context.after(HOUSEKEEPING_PERIOD, PodManagerMsg::HousekeepingDue);
        if !self.clean_leftovers(context) {
            self.look_again(context);
        }
    }

    /// Looks at all pods once more, in turns of its own: with a thousand of them one would take long.
    fn look_again(&mut self, context: &mut Context<PodManagerMsg>) {
        context.after(Duration::ZERO, PodManagerMsg::LookAgainDue);
    }

    pub(super) fn see_all(&mut self, context: &mut Context<PodManagerMsg>) {
        // Nobody says of a static pod that it has ended.
        self.judge_refused(context);
        self.carry_out(context);
        context.after(Duration::ZERO, PodManagerMsg::RecountDue);
    }

    pub(super) fn count_all(&mut self, context: &mut Context<PodManagerMsg>) {
        self.recount_all();
        self.tell_active(context);
        self.tell_statics(context);
        self.tell_undecided(context);
    }

    /// Begins a pass, unless one is under way; says whether it did.
    pub(super) fn clean_leftovers(&mut self, context: &mut Context<PodManagerMsg>) -> bool {
        if !self.roster.all_heard() || !self.can_judge() || !self.sweep.begin() {
            return false;
        }
        let known = Arc::new(self.known());
        self.tell_gone(context);
        lock(&self.agent.adapters.pod_ends).keep_only(&known);
        self.forget_allocations(&known, context);
        let agent = Arc::clone(&self.agent);
        let logs = self.sweep.logs.clone();
        let work = async move { find_leftovers(&agent, &known, &logs).await };
        context.start("housekeeping", "unknown pods", work, PodManagerMsg::LeftoversFound);
        true
    }

    pub(super) fn take_leftovers(&mut self, found: Result<Found, Panicked>, context: &mut Context<PodManagerMsg>) {
        let found = found.unwrap_or_else(|panicked| {
            tracing::error!(error = %panicked, "housekeeping failed");
            Found::default()
        });
        self.sweep.open = self.sweep.keep_logs(found, context.now(), context.clock().uptime());
        self.sweep_next(context);
        self.look_again(context);
    }

    pub(super) fn take_swept(
        &mut self,
        uid: PodUid,
        outcome: Result<Swept, Panicked>,
        context: &mut Context<PodManagerMsg>,
    ) {
        match outcome {
            Ok(swept) => self.sweep.note(uid, swept),
            Err(panicked) => tracing::error!(pod = %uid, error = %panicked, "housekeeping failed"),
        }
        self.roster.hold(None);
        self.carry_out(context);
        self.sweep_next(context);
    }

    /// Has what is left of the next pod removed that nobody knows by now, too.
    fn sweep_next(&mut self, context: &mut Context<PodManagerMsg>) {
        let known = self.known();
        while let Some((uid, left)) = self.sweep.open.pop_first() {
            if known.contains(&uid) {
                continue;
            }
            self.roster.hold(Some(uid.clone()));
            let (agent, of) = (Arc::clone(&self.agent), uid.clone());
            let work = async move { remove_leftovers(&agent, &of, left).await };
            context
                .start("housekeeping", uid.to_string(), work, |outcome| PodManagerMsg::LeftoversRemoved(uid, outcome));
            return;
        }
        self.sweep.under_way = false;
        let (found, failed) = (self.sweep.directories, self.sweep.failed);
        self.agent.happened(Occurrence::OrphansSwept { found, failed });
        if self.sweep.removed > 0 {
            tracing::info!(count = self.sweep.removed, "leftovers of unknown pods removed");
        }
    }
}

/// What is on the node of pods that are not `known`.
pub(in crate::actors) async fn find_leftovers(
    agent: &Arc<Agent>,
    known: &BTreeSet<PodUid>,
    logs: &LogKeeping,
) -> Found {
    let files = &agent.adapters.files;
    let mut found: BTreeMap<PodUid, Leftovers> = BTreeMap::new();
    for uid in files.known_pods().await.unwrap_or_default() {
        found.entry(uid).or_default().has_directory = true;
    }
    for (name, uid) in files.known_log_directories().await.unwrap_or_default() {
        found.entry(uid).or_default().logs.push(name);
    }
    let owned = Arc::clone(agent);
    for (uid, name) in blocking::run(move || pod_cgroups(&owned)).await {
        found.entry(uid).or_default().cgroups.push(name);
    }
    found.retain(|uid, _| !known.contains(uid));
    let mut disk_is_full = false;
    if found.values().any(|left| !left.logs.is_empty()) {
        let disk = agent.adapters.image_host.disk_use(&agent.settings.logs.folder).await;
        disk_is_full = disk.is_ok_and(is_full);
    }
    for (_, left) in found.iter_mut().filter(|(uid, _)| !logs.knows(uid)) {
        for name in &left.logs {
            left.written = left.written.max(files.log_directory_written(name).await.ok().flatten());
        }
    }
    Found { leftovers: found, disk_is_full }
}

fn pod_cgroups(agent: &Agent) -> Vec<(PodUid, CgroupName)> {
    let (tree, cgroups) = (&agent.settings.resources.cgroup_tree, &agent.adapters.cgroups);
    if tree.per_qos() { cgroups.list_pods(tree).unwrap_or_default() } else { vec![] }
}

/// Removes what is left of one pod. What cannot be removed is left for the next pass.
pub(in crate::actors) async fn remove_leftovers(agent: &Arc<Agent>, uid: &PodUid, left: Leftovers) -> Swept {
    let files = &agent.adapters.files;
    let directory = if left.has_directory { Some(remove_directory(agent, uid).await) } else { None };
    let mut removed = usize::from(directory == Some(Ok(())));
    let mut logs = None;
    for name in &left.logs {
        match files.remove_log_directory(name).await {
            Ok(()) => removed += 1,
            Err(error) => logs = Some(error.to_string()),
        }
    }
    // What still uses the volumes may be in the pod's cgroup: that stays as long as they do (upstream, too).
    if !matches!(directory, Some(Err(_))) {
        let cgroups = Arc::clone(&agent.adapters.cgroups);
        let gone = move || left.cgroups.iter().filter(|name| cgroups.destroy(name).is_ok()).count();
        removed += blocking::run(gone).await;
    }
    Swept { removed, directory, logs }
}

/// What is mounted there is let go first, and a volume that cannot go keeps its directory (VOL-15).
async fn remove_directory(agent: &Arc<Agent>, uid: &PodUid) -> Result<(), String> {
    release(agent, uid, Cause::outside("housekeeping")).await?;
    agent.adapters.files.remove_pod(uid).await.map_err(|error| error.to_string())
}
