//! How a resize comes into force: what is written where, and in which order (RES-57, RES-58; upstream's
//! `doPodResizeAction`). At no moment a container is allowed more than its pod, and memory is never limited below its use.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;

use super::{Amounts, ContainerResources};
use crate::logic::model::ids::{ContainerId, SandboxId};
use crate::logic::resources::{CgroupSettings, CgroupVersion, shares_to_weight, weight_to_shares};

/// The kernel counts memory in pages: limits that are nearer to each other are one.
const PAGE: u64 = 4096;

/// A running container that is to get other resources.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ContainerUpdate {
    /// Which.
    pub id: ContainerId,
    /// Its name in the pod.
    pub name: String,
    /// Its allocation.
    pub desired: Amounts,
    /// The amounts in force.
    pub current: Amounts,
}

/// The resource that a step is about. They are changed one after the other, because one may grow while the other shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOf {
    /// Memory, first.
    Memory,
    /// CPU.
    Cpu,
}

impl Amounts {
    /// These amounts, but of one resource those of `other`.
    #[must_use]
    pub fn with(self, of: UpdateOf, other: Self) -> Self {
        match of {
            UpdateOf::Memory => Self { memory_request: other.memory_request, memory_limit: other.memory_limit, ..self },
            UpdateOf::Cpu => Self { cpu_request: other.cpu_request, cpu_limit: other.cpu_limit, ..self },
        }
    }
}

/// One thing to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The limit of the pod's cgroup.
    PodLimit(UpdateOf),
    /// Its share.
    PodRequest(UpdateOf),
    /// A container, by its place among the updates.
    Container {
        /// Which.
        at: usize,
        /// The subject.
        of: UpdateOf,
    },
}

/// The figures that a pod's cgroup has, or is to have. An absent one is not controlled, or stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodFigures {
    /// CPU shares.
    pub cpu_shares: Option<u64>,
    /// CPU time per period, in microseconds; −1 is unlimited.
    pub cpu_quota: Option<i64>,
    /// The period, in microseconds.
    pub cpu_period: Option<u64>,
    /// Memory, in bytes; −1 is unlimited.
    pub memory_limit: Option<i64>,
}

impl PodFigures {
    /// Those of a cgroup's settings that resizes are about. A limit of nothing is none that could be written.
    pub fn of(settings: &CgroupSettings) -> Self {
        Self {
            cpu_shares: settings.cpu_shares,
            cpu_quota: settings.cpu_quota.filter(|quota| *quota != 0),
            cpu_period: settings.cpu_period,
            memory_limit: settings.memory_limit.filter(|limit| *limit != 0),
        }
    }

    /// Whether a cgroup that is set to this needs nothing to be as `wanted`.
    pub fn suits(&self, wanted: &Self, version: CgroupVersion) -> bool {
        steps(self, wanted, &[], version).is_empty()
    }

    /// The settings that one step writes.
    pub fn settings(&self, step: Step) -> CgroupSettings {
        let nothing = CgroupSettings::default();
        match step {
            Step::PodLimit(UpdateOf::Memory) => CgroupSettings { memory_limit: self.memory_limit, ..nothing },
            Step::PodLimit(UpdateOf::Cpu) => {
                CgroupSettings { cpu_quota: self.cpu_quota, cpu_period: self.cpu_period, ..nothing }
            }
            Step::PodRequest(UpdateOf::Cpu) => CgroupSettings { cpu_shares: self.cpu_shares, ..nothing },
            // Memory requests are not written to cgroups.
            Step::PodRequest(UpdateOf::Memory) | Step::Container { .. } => nothing,
        }
    }
}

/// The figures of a cgroup once `written` was written to it.
pub fn merged(before: &PodFigures, written: &CgroupSettings) -> PodFigures {
    let written = PodFigures::of(written);
    PodFigures {
        cpu_shares: written.cpu_shares.or(before.cpu_shares),
        cpu_quota: written.cpu_quota.or(before.cpu_quota),
        cpu_period: written.cpu_period.or(before.cpu_period),
        memory_limit: written.memory_limit.or(before.memory_limit),
    }
}

/// A limit, of which none is more than any.
fn bound(limit: Option<i64>) -> Option<u64> {
    limit.map(|limit| u64::try_from(limit).unwrap_or(u64::MAX))
}

/// How two figures stand to each other where both are known, and where they are not the same to the kernel.
fn change(current: Option<u64>, wanted: Option<u64>, same: impl Fn(u64, u64) -> bool) -> Option<std::cmp::Ordering> {
    let (current, wanted) = (current?, wanted?);
    (current != wanted && !same(current, wanted)).then(|| wanted.cmp(&current))
}

/// The steps, in this order. Of each resource: a pod that grows before its containers, among them those that
/// shrink before those that grow, then a pod that shrinks; at growing limits before shares, at shrinking the reverse.
pub fn steps(
    current: &PodFigures,
    wanted: &PodFigures,
    updates: &[ContainerUpdate],
    version: CgroupVersion,
) -> Vec<Step> {
    let read_back = |shares| version == CgroupVersion::V2 && weight_to_shares(shares_to_weight(shares)) != shares;
    let same_shares = |current, wanted| read_back(wanted) && weight_to_shares(shares_to_weight(wanted)) == current;
    let memory =
        change(bound(current.memory_limit), bound(wanted.memory_limit), |one, other| one.abs_diff(other) < PAGE);
    let quota = change(bound(current.cpu_quota), bound(wanted.cpu_quota), |_, _| false);
    let shares = change(current.cpu_shares, wanted.cpu_shares, same_shares);
    let mut all = Vec::new();
    for (of, limit, request) in [(UpdateOf::Memory, memory, None), (UpdateOf::Cpu, quota, shares)] {
        let is = |change: Option<std::cmp::Ordering>, what| change == Some(what);
        let (more, less) = (std::cmp::Ordering::Greater, std::cmp::Ordering::Less);
        all.extend(is(limit, more).then_some(Step::PodLimit(of)));
        all.extend(is(request, more).then_some(Step::PodRequest(of)));
        all.extend(in_order(updates, of));
        all.extend(is(request, less).then_some(Step::PodRequest(of)));
        all.extend(is(limit, less).then_some(Step::PodLimit(of)));
    }
    all
}

fn in_order(updates: &[ContainerUpdate], of: UpdateOf) -> Vec<Step> {
    let values = |amounts: Amounts| match of {
        UpdateOf::Memory => (amounts.memory_limit, amounts.memory_request),
        UpdateOf::Cpu => (amounts.cpu_limit, amounts.cpu_request),
    };
    let mut found: Vec<(bool, usize)> = Vec::new();
    for (at, update) in updates.iter().enumerate() {
        let (new, old) = (values(update.desired), values(update.current));
        if new != old {
            // Where the limit stays, the request decides.
            let grows = if new.0 == old.0 { new.1 > old.1 } else { new.0 > old.0 };
            found.push((grows, at));
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, at)| Step::Container { at, of }).collect()
}

/// The pod and containers whose memory limit becomes less: their use is to be looked at before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryCheck {
    /// The pod's new limit, in bytes.
    pub pod: Option<u64>,
    /// Containers, and their new limits.
    pub containers: Vec<(ContainerId, String, u64)>,
}

impl MemoryCheck {
    /// Whether there is nothing to look at.
    pub fn is_empty(&self) -> bool {
        self.pod.is_none() && self.containers.is_empty()
    }
}

/// See [`MemoryCheck`].
pub fn memory_check(current: &PodFigures, wanted: &PodFigures, updates: &[ContainerUpdate]) -> MemoryCheck {
    let (old, new) = (bound(current.memory_limit), bound(wanted.memory_limit));
    let pod = new.filter(|new| old.is_some_and(|old| *new < old && old.abs_diff(*new) >= PAGE));
    let shrinks = |update: &&ContainerUpdate| {
        let (new, old) = (update.desired.memory_limit, update.current.memory_limit);
        new != 0 && (old == 0 || new < old)
    };
    let limit = |update: &ContainerUpdate| u64::try_from(update.desired.memory_limit).unwrap_or(0);
    let containers = updates.iter().filter(shrinks);
    MemoryCheck { pod, containers: containers.map(|one| (one.id.clone(), one.name.clone(), limit(one))).collect() }
}

/// Why memory cannot be limited so, given what is used: by the pod, and by containers by name. A use that is not known
/// may be too much.
pub fn refusal(check: &MemoryCheck, pod: Option<u64>, containers: &BTreeMap<String, u64>) -> Option<String> {
    let mut errors = Vec::new();
    if let Some(limit) = check.pod {
        match pod {
            None => errors.push("missing pod memory usage".to_owned()),
            Some(usage) if usage >= limit => {
                errors.push(format!("attempting to set pod memory limit ({limit}) below current usage ({usage})"));
            }
            Some(_) => {}
        }
    }
    for (_, name, limit) in &check.containers {
        match containers.get(name) {
            None => errors.push(format!("missing container \"{name}\" memory usage")),
            Some(usage) if usage >= limit => errors.push(format!(
                "attempting to set container \"{name}\" memory limit ({limit}) below current usage ({usage})"
            )),
            Some(_) => {}
        }
    }
    let all = match errors.as_slice() {
        [] => return None,
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    Some(format!("cannot decrease memory limits: {all}"))
}

/// The changes to bring into force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResizeWork {
    /// Containers that run.
    pub updates: Vec<ContainerUpdate>,
    /// The pod's sandbox, of which the runtime gets the changes of the pod.
    pub sandbox: Option<SandboxId>,
    /// Resources of the pod as a whole that are to be noted as in force once all else is.
    pub pod: Option<ResourceRequirements>,
}

/// The result. Also a resize that failed may have come into force in part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResizeReport {
    /// By container, what is in force now.
    pub containers: ContainerResources,
    /// The resources in force of the pod as a whole, where they were changed.
    pub pod: Option<ResourceRequirements>,
    /// The figures of the pod's cgroup, where there is one.
    pub cgroup: Option<PodFigures>,
    /// The pod owns its CPUs, and its cgroup is to have no quota; told with the figures.
    pub no_quota: bool,
    /// Whether anything was to be written at all.
    pub changed: bool,
    /// Why it could not be brought about.
    pub problem: Option<String>,
}
