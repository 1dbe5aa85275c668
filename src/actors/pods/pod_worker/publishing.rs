//! The status of a pod, as its worker makes it and tells it wherever it counts; and the Events that it is worth.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::PodWorker;
use super::counts::count_start;
use crate::actors::kit::context::Context;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::plugins::claims::pod_claims::has_claims;
use crate::logic::plugins::claims::report::put_resource_health;
use crate::logic::pods::hooks::without_started;
use crate::logic::pods::pod_lifecycle::{Job, Stage};
use crate::logic::pods::pod_roster::is_static;
use crate::logic::pods::pod_worker::object_interest::Interest;
use crate::logic::pods::wait::PodWait;
use crate::logic::probes::probe_schedule::probes_of;
use crate::logic::resources::pod_qos;
use crate::logic::status::pod_status::{
    self, ContainersInput, DEADLINE_EXCEEDED, DEADLINE_MESSAGE, NodeInput, ResourcesInput, StatusInput, family_mismatch,
};
use crate::logic::volumes::plan::{VolumePlan, volume_plans};
use crate::messages::event_recorder::EventSubject;
use crate::messages::object_cache::ObjectCacheMsg;
use crate::messages::plugins::claim_manager::ClaimManagerMsg;
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::prober::ProberMsg;
use crate::messages::status::status_manager::{PodView, StatusManagerMsg};
use crate::messages::volume_manager::VolumeManagerMsg;

impl PodWorker {
    /// Tells the pod's status wherever it counts, when it changed.
    pub(super) fn publish(&mut self, context: &Context<PodWorkerMsg>) {
        let hung = self.hung.look(&self.site, &self.lifecycle, context);
        let waiting: Vec<PodWait> = hung.iter().cloned().chain(self.waiting()).collect();
        context.address().record().set_note(waiting.first().map(ToString::to_string));
        let Some(pod) = self.lifecycle.pod().cloned() else { return };
        let Some(seen) = self.lifecycle.settled().cloned() else { return };
        let mut status = match self.published.last() {
            Some(status) => status.clone(),
            None => self.make_status(&pod, &self.as_shown(&pod, &seen), context),
        };
        let problem = || self.lifecycle.problem().map(|problem| problem.to_string());
        let gates = self.site.tools.settings.status;
        pod_status::set_problem(&mut status, gates, hung.map(|hung| hung.to_string()).or_else(problem));
        let before = self.published.status();
        // A status that has not changed keeps its address, by which others know it.
        let status = before.filter(|before| ***before == status).map_or_else(|| Arc::new(status), Arc::clone);
        self.tell_change(&pod, before.map(AsRef::as_ref), &status, context);
        count_start(&self.site, &pod, before.map(AsRef::as_ref), &status, context.now());
        self.published.set_final(self.lifecycle.stage() == Stage::Terminated);
        let is_over = self.lifecycle.is_over();
        if !self.published.take(&status, &waiting, is_over) {
            return;
        }
        self.site.tools.adapters.pod_ends.note(&self.site.uid, &status);
        let view = PodView {
            uid: self.site.uid.clone(),
            pod: Arc::clone(&pod),
            status: Arc::clone(&status),
            may_run: self.lifecycle.stage() < Stage::Terminated,
            is_over,
            waiting: waiting.into(),
        };
        let to = &self.site.tools.to;
        if !context.try_tell(&to.status_manager, StatusManagerMsg::StatusChanged(view)) {
            self.published.refuse();
        }
        self.tell_prober(pod, status, context);
    }

    fn tell_prober(&mut self, pod: Arc<Pod>, status: Arc<PodStatus>, context: &Context<PodWorkerMsg>) {
        let (uid, to) = (self.site.uid.clone(), &self.site.tools.to);
        if self.lifecycle.stage() == Stage::Terminated {
            if self.is_probed {
                self.is_probed = !context.try_tell(&to.prober, ProberMsg::PodGone(uid));
                self.published.note(!self.is_probed);
            }
        } else if !probes_of(&pod).is_empty() {
            self.is_probed = true;
            let (worker, ending) = (context.address().subscriber(), self.lifecycle.stage() == Stage::Terminating);
            if !context.try_tell(&to.prober, ProberMsg::PodChanged { uid, pod, status, ending, worker }) {
                self.published.refuse();
            }
        }
    }

    /// A container whose postStart hook still runs has not started yet, for whoever reads the status.
    fn as_shown(&self, pod: &Pod, seen: &Arc<RuntimePod>) -> Arc<RuntimePod> {
        let starting = self.jobs.iter().filter_map(|open| match &open.job {
            Job::StartContainer(name) => Some(name.as_str()),
            _ => None,
        });
        without_started(pod, seen, starting)
    }

    fn make_status(&self, pod: &Pod, seen: &RuntimePod, context: &Context<PodWorkerMsg>) -> PodStatus {
        let settings = &self.site.tools.settings;
        let mut status = pod_status::generate(&StatusInput {
            pod,
            runtime: seen,
            previous: self.published.status().map(AsRef::as_ref),
            containers: ContainersInput {
                probes: self.lifecycle.probes(),
                start_errors: self.lifecycle.start_errors(),
                restarts: self.lifecycle.restarts(),
                adopted: self.lifecycle.adopted(),
            },
            resources: ResourcesInput {
                resize: self.resize.conditions(),
                actuated: self.lifecycle.actuated(),
                figures: self.lifecycle.pod_figures(),
                options: &settings.resources.options,
                gates: &settings.resources.resize,
            },
            node: NodeInput {
                host: &self.site.host,
                prefer_ipv6: settings.node.prefer_ipv6,
                runtime_name: &settings.node.runtime_name,
                recursive_read_only: self.lifecycle.health().recursive_read_only,
            },
            volumes_mounted: self.lifecycle.has_its_volumes(),
            terminal: self.lifecycle.stage() == Stage::Terminated,
            is_static: is_static(pod),
            qos_class: pod_qos(pod, settings.resources.options.pod_level_resources).as_str(),
            gates: settings.status,
            now: context.now(),
        });
        for container in status.container_statuses.iter_mut().flatten() {
            if let Some((_, entries)) = self.device_health.iter().find(|(name, _)| *name == container.name) {
                put_resource_health(container, entries);
            }
        }
        status
    }

    /// The pod's waits; nothing when it is as it should be.
    fn waiting(&self) -> Vec<PodWait> {
        let at_stage = match self.lifecycle.stage() {
            Stage::Syncing => PodWait::ToRun,
            Stage::Terminating => PodWait::ToEnd,
            Stage::Terminated => PodWait::ToBeGone,
        };
        self.lifecycle.waits().cloned().map(at_stage).collect()
    }

    /// One Event when the pod's time is over (POD-25), one when its host is known by an address of the other family than
    /// before.
    fn tell_change(&self, pod: &Pod, before: Option<&PodStatus>, status: &PodStatus, context: &Context<PodWorkerMsg>) {
        let is_past = |status: &PodStatus| status.reason.as_deref() == Some(DEADLINE_EXCEEDED);
        let before = before.or(pod.status.as_ref());
        let subject = EventSubject::pod(&self.site.uid, &self.site.full_name);
        let tell = |event| context.tell(&self.site.tools.to.event_recorder, event);
        if is_past(status) && !before.is_some_and(is_past) {
            tell(subject.normal(EventReason::DeadlineExceeded, DEADLINE_MESSAGE));
        }
        if let Some(message) = before.and_then(|before| family_mismatch(before, status)) {
            tell(subject.warning(EventReason::HostIPsIPFamilyMismatch, message));
        }
    }

    /// One Event for each back-off of a container that keeps ending (POD-37).
    pub(super) fn tell_back_offs(&mut self, context: &Context<PodWorkerMsg>) {
        for container in self.told.new_back_offs(self.lifecycle.start_errors()) {
            let (name, uid) = (&self.site.full_name, &self.site.uid);
            let message = format!("Back-off restarting failed container {container} in pod {name}({uid})");
            let subject = self.site.subject(self.site.path_of(self.lifecycle.pod().map(AsRef::as_ref), &container));
            context.tell(&self.site.tools.to.event_recorder, subject.warning(EventReason::BackOff, message));
        }
    }

    /// An Event when all that the pod was given has come into force.
    pub(super) fn follow_resize(&mut self, context: &Context<PodWorkerMsg>) {
        if let Some(message) = self.resize.follow(&self.lifecycle, context.now()) {
            let subject = EventSubject::pod(&self.site.uid, &self.site.full_name);
            context.tell(&self.site.tools.to.event_recorder, subject.normal(EventReason::ResizeCompleted, message));
        }
    }

    /// Looks at volumes again whose content or size changes while the pod runs; upstream looks at each sync of a pod, too.
    pub(super) fn refresh_volumes(&mut self, context: &Context<PodWorkerMsg>) {
        let Some(pod) = self.lifecycle.pod().filter(|_| self.lifecycle.stage() == Stage::Syncing) else { return };
        if self.lifecycle.volumes().is_some() && volume_plans(pod).iter().any(VolumePlan::is_looked_at_again) {
            let refresh = VolumeManagerMsg::Refresh(Arc::clone(pod));
            self.published.note(context.try_tell(&self.site.tools.to.volume_manager, refresh));
        }
    }

    /// Hears how the devices of the pod's claims are; asked again with each sync, and when the one that tells has begun anew.
    pub(super) fn follow_devices(&mut self, context: &Context<PodWorkerMsg>) {
        let Some(pod) = self.lifecycle.pod().filter(|pod| has_claims(pod)) else { return };
        let followed = match self.lifecycle.stage() {
            Stage::Syncing => Some((Arc::clone(pod), context.address().subscriber())),
            Stage::Terminating => return, // The release ends it.
            Stage::Terminated => None,
        };
        let follow = ClaimManagerMsg::Follow(self.site.uid.clone(), followed);
        self.published.note(context.try_tell(&self.site.tools.to.claim_manager, follow));
    }

    /// Tells which objects of the API server are to be at hand, and that the volumes of a pod that ends stay as they are.
    pub(super) fn tell_objects(&mut self, context: &Context<PodWorkerMsg>) {
        let (to, uid) = (&self.site.tools.to, &self.site.uid);
        let (stage, pod) = (self.lifecycle.stage(), self.lifecycle.pod());
        if stage == Stage::Terminating && !self.volumes_settled {
            self.volumes_settled = context.try_tell(&to.volume_manager, VolumeManagerMsg::Ending(uid.clone()));
            self.published.note(self.volumes_settled);
        }
        let interest = self.objects.due(stage, pod.map(AsRef::as_ref), self.published.is_forgotten());
        let message = match (interest, pod) {
            (Some(Interest::Keep), Some(pod)) => ObjectCacheMsg::PodChanged(Arc::clone(pod)),
            (Some(Interest::LetGo), _) => ObjectCacheMsg::PodGone(uid.clone()),
            (Some(Interest::Keep), None) | (None, _) => return,
        };
        match interest.filter(|_| context.try_tell(&to.object_cache, message)) {
            Some(interest) => self.objects.note(interest, pod.map(AsRef::as_ref)),
            None => self.published.note(false),
        }
    }
}
