//! A pod worker's job of in-place resize: it gives kernel and runtime the amounts that the pod was given.
//!
//! Order and refusals are those of `logic::pods::pod_resize`. Each change is noted on the disk once the runtime has taken it;
//! one that was cut off in between is made again, which changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::allocations::note;
use super::site::JobSite;
use crate::actors::kit::trace::Cause;
use crate::cri::{CriError, Labels, LinuxContainerResources};
use crate::logic::model::ids::SandboxId;
use crate::logic::pods::pod_containers::{find_container, first_containers};
use crate::logic::pods::pod_lifecycle::JobEnd;
use crate::logic::pods::pod_resize::{
    self, Amounts, ContainerResources, ContainerUpdate, PodFigures, ResizeReport, ResizeWork, Step, memory_check,
    merged, refusal, steps, with_amounts,
};
use crate::logic::resources::allocations::PodPinning;
use crate::logic::resources::cgroup_name::CgroupName;
use crate::logic::resources::{pod_cgroup_settings, pod_qos};
use crate::platform::host::blocking;

/// A resize on its way.
struct Resizing<'a> {
    site: &'a JobSite,
    pod: &'a Pod,
    work: &'a ResizeWork,
    cgroup: Option<CgroupName>,
    pinning: PodPinning,
    wanted: PodFigures,
    current: PodFigures,
    report: ResizeReport,
    cause: Cause,
}

impl JobSite {
    /// Brings what the pod was given into force.
    pub(in super::super) async fn resize(self, pod: Arc<Pod>, work: ResizeWork, cause: Cause) -> JobEnd {
        let mut resizing = Resizing {
            site: &self,
            pod: &pod,
            work: &work,
            cgroup: None,
            pinning: PodPinning::default(),
            wanted: PodFigures::default(),
            current: PodFigures::default(),
            report: ResizeReport::default(),
            cause,
        };
        let outcome = resizing.carry_out().await;
        JobEnd::Resized(ResizeReport { problem: outcome.err(), ..resizing.report })
    }

    /// Notes meanwhile what the containers that come first are made with, so that [`Self::note_container`] has nothing left
    /// to wait for. Whether that succeeded is asked there.
    pub(super) async fn note_first_containers(&self, pod: &Pod, cause: &Cause) {
        let by_pod = self.tools.settings.resources.resize.by_pod;
        let made_with = |one: &Container| (one.name.clone(), pod_resize::effective_requirements(pod, one, by_pod));
        let noted = first_containers(pod).iter().map(made_with).collect();
        if let Err(why) = note(&self.tools.to.allocation_manager, &self.uid, noted, None, cause).await {
            tracing::debug!(pod = %self.full_name, why, "resources are not noted ahead");
        }
    }

    /// Notes the resources that the container is made with, or is to have: before it is made, as upstream.
    pub(super) async fn note_container(&self, pod: &Pod, name: &str, cause: &Cause) -> Result<(), String> {
        let Some((_, container)) = find_container(pod, name) else { return Ok(()) };
        let by_pod = self.tools.settings.resources.resize.by_pod;
        let made_with = pod_resize::effective_requirements(pod, &container, by_pod);
        note(
            &self.tools.to.allocation_manager,
            &self.uid,
            [(name.to_owned(), made_with)].into_iter().collect(),
            None,
            cause,
        )
        .await
    }
}

impl Resizing<'_> {
    async fn carry_out(&mut self) -> Result<(), String> {
        self.pinning = self.site.pinning(self.pod, None, &self.cause).await?;
        self.report.no_quota = self.pinning.no_quota;
        let settings = &self.site.tools.settings;
        if settings.resources.cgroup_tree.per_qos() {
            self.look().await?;
        }
        let all = steps(&self.current, &self.wanted, &self.work.updates, settings.resources.options.cgroup_version);
        self.report.changed = !all.is_empty();
        self.check_memory().await?;
        let mut in_force: Vec<Amounts> = self.work.updates.iter().map(|update| update.current).collect();
        for step in all {
            match step {
                Step::Container { at, of } => {
                    let update = &self.work.updates[at];
                    let amounts = in_force[at].with(of, update.desired);
                    self.update_container(update, amounts).await?;
                    in_force[at] = amounts;
                }
                Step::PodLimit(_) | Step::PodRequest(_) => self.set_cgroup(step).await?,
            }
        }
        if let Some(own) = &self.work.pod {
            note(
                &self.site.tools.to.allocation_manager,
                &self.site.uid,
                ContainerResources::new(),
                Some(own.clone()),
                &self.cause,
            )
            .await?;
            self.report.pod = Some(own.clone());
            self.report.changed = true;
        }
        Ok(())
    }

    /// The pod as upstream's messages name it.
    fn named(&self) -> String {
        let (name, namespace) = (&self.site.full_name.name, &self.site.full_name.namespace);
        format!("\"{name}_{namespace}({})\"", self.site.uid)
    }

    async fn look(&mut self) -> Result<(), String> {
        let settings = &self.site.tools.settings;
        let qos = pod_qos(self.pod, settings.resources.options.pod_level_resources);
        let name = settings.resources.cgroup_tree.pod(&self.site.uid, qos).map_err(|error| error.to_string())?;
        let (cgroups, about) = (Arc::clone(&self.site.tools.adapters.cgroups), name.clone());
        let read = blocking::run(move || cgroups.read(&about)).await;
        let read =
            read.map_err(|error| format!("unable to get pod cgroup config for pod {}: {error}", self.named()))?;
        self.current = PodFigures::of(&read);
        self.wanted =
            PodFigures::of(&pod_cgroup_settings(self.pod, self.pinning.no_quota, &settings.resources.options));
        self.report.cgroup = Some(self.current);
        self.cgroup = Some(name);
        Ok(())
    }

    /// Memory is never limited to less than is used: the kernel would end someone for it.
    async fn check_memory(&self) -> Result<(), String> {
        let check = memory_check(&self.current, &self.wanted, &self.work.updates);
        if check.is_empty() {
            return Ok(());
        }
        let pod_usage = match check.pod {
            Some(_) => self.pod_usage().await?,
            None => None,
        };
        let mut usages = BTreeMap::new();
        for (id, name, _) in &check.containers {
            let stats = self.site.tools.adapters.runtime.container_stats(id).await;
            let usage = stats.ok().and_then(|stats| stats.memory).and_then(|memory| memory.usage_bytes);
            usages.extend(usage.map(|usage| (name.clone(), usage)));
        }
        refusal(&check, pod_usage, &usages).map_or(Ok(()), Err)
    }

    /// The memory that the pod uses, in bytes, where somebody tells. As upstream, a runtime that has no figure leaves it to
    /// the control group.
    async fn pod_usage(&self) -> Result<Option<u64>, String> {
        let tools = &self.site.tools;
        if let Some(sandbox) = self.work.sandbox.as_ref().filter(|_| tools.settings.resources.usage_from_runtime) {
            match tools.adapters.runtime.pod_sandbox_stats(sandbox).await.map(|stats| stats.memory) {
                Ok(Some(memory)) => return Ok(memory.usage_bytes),
                Ok(None) | Err(CriError::Unimplemented { .. }) => {}
                Err(_) => return Err(format!("unable to read memory usage for pod {}", self.named())),
            }
        }
        let Some(name) = self.cgroup.clone() else { return Ok(None) };
        let cgroups = Arc::clone(&tools.adapters.cgroups);
        Ok(blocking::run(move || cgroups.memory_usage(&name)).await.ok())
    }

    async fn update_container(&mut self, update: &ContainerUpdate, amounts: Amounts) -> Result<(), String> {
        let Some((_, container)) = find_container(self.pod, &update.name) else { return Ok(()) };
        let own = container.resources.clone().unwrap_or_default();
        let resources = with_amounts(&own, amounts);
        let resized = Container { resources: Some(resources.clone()), ..container.into_owned() };
        let told: LinuxContainerResources =
            self.site.resources(self.pod, &resized, self.pinning.of(&update.name).no_quota).into();
        let runtime = &self.site.tools.adapters.runtime;
        runtime
            .update_container_resources(&update.id, &told, &Labels::new())
            .await
            .map_err(|error| error.to_string())?;
        let by_pod = self.site.tools.settings.resources.resize.by_pod;
        let in_force = pod_resize::effective_requirements(self.pod, &resized, by_pod);
        let noted = [(update.name.clone(), in_force.clone())].into_iter().collect();
        note(&self.site.tools.to.allocation_manager, &self.site.uid, noted, None, &self.cause).await?;
        self.report.containers.insert(update.name.clone(), in_force);
        Ok(())
    }

    async fn set_cgroup(&mut self, step: Step) -> Result<(), String> {
        let Some(name) = self.cgroup.clone() else { return Ok(()) };
        let written = self.wanted.settings(step);
        let after = merged(&self.current, &written);
        // First the runtime: one that says no has refused it.
        self.tell_runtime(&after).await?;
        let cgroups = Arc::clone(&self.site.tools.adapters.cgroups);
        if let Err(error) = blocking::run(move || cgroups.update(&name, &written)).await {
            if let Err(why) = self.tell_runtime(&self.current).await {
                tracing::warn!(pod = %self.site.full_name, why, "the runtime was not told that a resize was taken back");
            }
            return Err(error.to_string());
        }
        self.current = after;
        self.report.cgroup = Some(after);
        Ok(())
    }

    /// Tells the runtime what the pod may use. One that does not get there does no harm.
    async fn tell_runtime(&self, figures: &PodFigures) -> Result<(), String> {
        let Some(sandbox) = &self.work.sandbox else { return Ok(()) };
        let overhead = self.site.overhead(self.pod);
        let less = |value: i64, overhead: i64| if value > 0 { (value - overhead).max(0) } else { value };
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let resources = LinuxContainerResources {
            cpu_period: figures.cpu_period.map_or(0, number),
            cpu_quota: less(figures.cpu_quota.unwrap_or(0), overhead.cpu_quota),
            cpu_shares: less(figures.cpu_shares.map_or(0, number), overhead.cpu_shares),
            memory_limit_in_bytes: less(figures.memory_limit.unwrap_or(0), overhead.memory_limit_in_bytes),
            ..LinuxContainerResources::default()
        };
        let runtime = &self.site.tools.adapters.runtime;
        match runtime.update_pod_sandbox_resources(sandbox, &overhead, &resources).await {
            Ok(()) => Ok(()),
            Err(error) if is_unable(&error) => Ok(()),
            Err(error) => Err(refused(sandbox, &error)),
        }
    }
}

/// Whether the runtime has no such call. containerd 2.2 says so in words.
fn is_unable(error: &CriError) -> bool {
    match error {
        CriError::Unimplemented { .. } => true,
        CriError::Other { code: "Unknown", message } => message.contains("not implemented"),
        _ => false,
    }
}

fn refused(sandbox: &SandboxId, error: &CriError) -> String {
    format!(
        "failed to notify runtime for UpdatePodSandboxResources; resize rejected: updatePodSandboxResources failed for \
         sanboxID \"{sandbox}\": {error}"
    )
}
