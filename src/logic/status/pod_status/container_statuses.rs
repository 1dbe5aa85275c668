//! The status of every container: from the runtime, from the status before, from what failed (POD-28).

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    ContainerUser, LinuxContainerUser, PodSpec, VolumeMount, VolumeMountStatus,
};

use super::{StatusInput, time};
use crate::logic::formats::go_text::clean_absolute;
use crate::logic::model::restart_policy::is_sidecar;
use crate::logic::model::runtime_pod::{ContainerState as RuntimeState, RuntimeContainer};
use crate::logic::pods::pod_containers::ephemeral_containers;

/// The reason of a container whose end nobody saw.
const STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
/// The reason of a container that was removed so that all start over in place (POD-18).
pub(super) const RESTARTING_ALL: &str = "RestartingAllContainers";
/// The exit code shown for such a container: an error.
const EXIT_CODE_UNKNOWN: i32 = 137;
/// The most characters of an image's reference that the API takes.
const IMAGE_REF_MAX: usize = 256;
/// So many bytes of termination messages a pod's status holds, shared evenly by its containers.
const MESSAGES_MAX: usize = 12_288;

/// Statuses of the regular containers, by name.
pub(super) fn of_containers(input: &StatusInput<'_>, spec: &PodSpec) -> Vec<ContainerStatus> {
    let before = input.before().and_then(|before| before.container_statuses.as_deref()).unwrap_or_default();
    let mut statuses: Vec<ContainerStatus> =
        spec.containers.iter().map(|container| Subject::new(input, spec, container, before).status()).collect();
    statuses.sort_by(|a, b| a.name.cmp(&b.name));
    statuses
}

/// Statuses of the ephemeral containers, by name. One is started once: how it ended is its last word. Only one whose start
/// failed appears as upstream has any other, as if it were tried again.
pub(super) fn of_ephemeral_containers(input: &StatusInput<'_>, spec: &PodSpec) -> Vec<ContainerStatus> {
    let before = input.before().and_then(|before| before.ephemeral_container_statuses.as_deref()).unwrap_or_default();
    let status = |container: Container| Subject::new(input, spec, &container, before).status();
    let mut statuses: Vec<ContainerStatus> = ephemeral_containers(spec).map(status).collect();
    statuses.sort_by(|a, b| a.name.cmp(&b.name));
    statuses
}

/// Statuses of the init containers, in the spec's order.
pub(super) fn of_init_containers(input: &StatusInput<'_>, spec: &PodSpec) -> Vec<ContainerStatus> {
    let before = input.before().and_then(|before| before.init_container_statuses.as_deref()).unwrap_or_default();
    let containers = spec.init_containers.iter().flatten();
    containers.map(|container| Subject::new(input, spec, container, before).init_status()).collect()
}

/// One container and all that is known of it.
struct Subject<'a> {
    input: &'a StatusInput<'a>,
    spec: &'a PodSpec,
    container: &'a Container,
    before: Option<&'a ContainerStatus>,
    newest: Option<&'a RuntimeContainer>,
}

impl<'a> Subject<'a> {
    fn new(
        input: &'a StatusInput<'a>,
        spec: &'a PodSpec,
        container: &'a Container,
        before: &'a [ContainerStatus],
    ) -> Self {
        let before = before.iter().find(|status| status.name == container.name);
        Self { input, spec, container, before, newest: input.runtime.container(&container.name) }
    }

    fn status(&self) -> ContainerStatus {
        self.with_start_error(self.plain())
    }

    /// An init container that ended well is over; one of which nothing is known any more must have, where regular
    /// containers have been made.
    fn init_status(&self) -> ContainerStatus {
        let mut status = self.plain();
        let waits = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
        match self.newest {
            Some(newest) if newest.state == RuntimeState::Exited && newest.exit_code == 0 => status,
            None if waits && self.has_run_unseen() => {
                status.state = Some(terminated(ContainerStateTerminated {
                    reason: Some("Completed".to_owned()),
                    message: Some(
                        "Unable to get init container status from container runtime and pod has been initialized, \
                         treat it as exited normally"
                            .to_owned(),
                    ),
                    ..ContainerStateTerminated::default()
                }));
                status
            }
            _ => self.with_start_error(status),
        }
    }

    /// Whether an init container that is not there must have run to its end. One that was removed to run again has not.
    fn has_run_unseen(&self) -> bool {
        !is_sidecar(self.container) && self.any_regular_made() && !self.input.restarting_all()
    }

    fn any_regular_made(&self) -> bool {
        self.spec.containers.iter().any(|container| self.input.runtime.container(&container.name).is_some())
    }

    fn plain(&self) -> ContainerStatus {
        match (self.newest, self.before) {
            (Some(newest), _) if newest.state == RuntimeState::Exited && self.input.comes_back(self.newest) => {
                self.to_come_back(newest)
            }
            (Some(newest), _) => self.of_instance(newest),
            (None, Some(before)) if self.was_reset(before) => self.reset(before),
            // It ended and was removed since: its entry in the status is still true.
            (None, Some(before)) if ended(before.state.as_ref()).is_some() => before.clone(),
            (None, Some(before)) => self.gone(before),
            (None, None) => self.default(),
        }
    }

    /// A container that was stopped to be started again waits, whatever its policy makes of its end: what was once told
    /// as ended for good the API server does not let run again.
    fn to_come_back(&self, newest: &RuntimeContainer) -> ContainerStatus {
        let status = self.of_instance(newest);
        ContainerStatus { last_state: status.state.clone(), state: self.default().state, ..status }
    }

    /// A container of which nothing is known yet.
    fn default(&self) -> ContainerStatus {
        let has_init = self.spec.init_containers.as_ref().is_some_and(|init| !init.is_empty());
        let reason = if has_init { "PodInitializing" } else { "ContainerCreating" };
        ContainerStatus {
            name: self.container.name.clone(),
            image: self.container.image.clone().unwrap_or_default(),
            state: Some(waiting(Some(reason.to_owned()), None)),
            last_state: Some(ContainerState::default()),
            volume_mounts: self.volume_mounts(),
            ..ContainerStatus::default()
        }
    }

    /// A container that the runtime no longer holds. If it ran when it was last seen, it must have ended: saying so
    /// keeps the pod from falling back to `Pending`.
    fn gone(&self, before: &ContainerStatus) -> ContainerStatus {
        let mut status = ContainerStatus {
            restart_count: before.restart_count,
            last_state: before.last_state.clone().or_else(|| Some(ContainerState::default())),
            ..self.default()
        };
        let ran = before.state.as_ref().is_some_and(|state| state.running.is_some());
        if ran && ended(before.last_state.as_ref()).is_none() {
            let message =
                "The container could not be located when the pod was deleted.  The container used to be Running";
            status.last_state = Some(unseen_end(message));
            status.restart_count += i32::from(!self.input.deleted());
        }
        status
    }

    /// Whether the container was removed so that all start over; said once.
    fn was_reset(&self, before: &ContainerStatus) -> bool {
        before.state.as_ref().is_none_or(|state| state.waiting.is_none()) && self.input.restarting_all()
    }

    fn reset(&self, before: &ContainerStatus) -> ContainerStatus {
        let (reason, message) = (RESTARTING_ALL, "The container is removed because RestartAllContainers in place");
        let end = ContainerStateTerminated {
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            exit_code: EXIT_CODE_UNKNOWN,
            ..ContainerStateTerminated::default()
        };
        ContainerStatus {
            restart_count: before.restart_count.saturating_add(1),
            state: Some(waiting(Some(reason.to_owned()), Some(message.to_owned()))),
            last_state: Some(terminated(end)),
            ..self.default()
        }
    }

    fn of_instance(&self, newest: &RuntimeContainer) -> ContainerStatus {
        let container_id = Some(format!("{}://{}", self.input.node.runtime_name, newest.id));
        let same = self.before.filter(|before| before.container_id == container_id);
        let before_count = self.before.map_or(0, |before| before.restart_count);
        // A container that was only made may be removed and made again: it is no restart before it runs.
        let not_yet = u32::from(newest.state == RuntimeState::Created);
        let count = newest.restart_count.saturating_sub(not_yet);
        let mut status = ContainerStatus {
            name: newest.name.clone(),
            image: newest.process.image.clone(),
            image_id: newest.process.image_ref.clone(),
            restart_count: i32::try_from(count).unwrap_or(i32::MAX).max(before_count),
            state: Some(self.state(newest)),
            last_state: Some(self.last_state(same.is_some())),
            started: same.and_then(|same| same.started),
            stop_signal: newest.process.stop_signal.clone(),
            volume_mounts: self.volume_mounts().map(|mounts| self.with_images(mounts, newest)),
            resources: Some(super::resources::of_container(self.input, self.container, newest, same)),
            allocated_resources: self.container.resources.as_ref().and_then(|resources| resources.requests.clone()),
            user: newest.process.user.as_ref().map(user),
            container_id,
            ..ContainerStatus::default()
        };
        if newest.state == RuntimeState::Unknown
            && let Some(before) = self.before
        {
            self.lost(&mut status, before, same);
        }
        status
    }

    /// A container that the runtime lost. If it was seen running, it is taken for ended, once: it must not run twice.
    fn lost(&self, status: &mut ContainerStatus, before: &ContainerStatus, same: Option<&ContainerStatus>) {
        let ran = before.state.as_ref().is_some_and(|state| state.running.is_some());
        if ran {
            let mut state = unseen_end("The container could not be located when the pod was terminated");
            if let Some(end) = state.terminated.as_mut().filter(|_| self.input.restarting_all()) {
                end.reason = Some(RESTARTING_ALL.to_owned());
            }
            status.state = Some(state);
            status.restart_count = status.restart_count.max(before.restart_count.saturating_add(1));
        } else if let Some(same) = same.filter(|same| ended(same.state.as_ref()).is_some()) {
            status.state = same.state.clone();
        } else if let Some(same) = same.filter(|same| shows_own_end_last(same)) {
            // A failed start had moved it there.
            status.last_state = same.last_state.clone();
        }
    }

    fn state(&self, instance: &RuntimeContainer) -> ContainerState {
        match instance.state {
            RuntimeState::Running => ContainerState {
                running: Some(ContainerStateRunning { started_at: Some(time(instance.started_at)) }),
                ..ContainerState::default()
            },
            RuntimeState::Exited => terminated(self.end(instance)),
            RuntimeState::Created | RuntimeState::Unknown => waiting(None, None),
        }
    }

    fn end(&self, instance: &RuntimeContainer) -> ContainerStateTerminated {
        ContainerStateTerminated {
            container_id: Some(format!("{}://{}", self.input.node.runtime_name, instance.id)),
            exit_code: instance.exit_code,
            reason: some_text(&instance.reason),
            message: some_text(self.cut(&instance.message)),
            started_at: Some(time(instance.started_at)),
            finished_at: Some(time(instance.finished_at)),
            ..ContainerStateTerminated::default()
        }
    }

    /// How the instance before ended: as the runtime knows; else as was shown, be it of that instance or by an earlier
    /// status of this one.
    fn last_state(&self, shown_before: bool) -> ContainerState {
        let second = self.input.runtime.instances(&self.container.name).nth(1);
        if let Some(second) = second.filter(|second| second.state == RuntimeState::Exited) {
            return terminated(self.end(second));
        }
        let state = self.before.and_then(|before| ended(before.state.as_ref())).filter(|_| !shown_before);
        let last = self.before.and_then(|before| ended(before.last_state.as_ref()));
        state.or(last).cloned().map_or_else(ContainerState::default, terminated)
    }

    /// A container that is to be started and could not be says why; how it ended becomes its last state.
    fn with_start_error(&self, mut status: ContainerStatus) -> ContainerStatus {
        let error = self.input.containers.start_errors.get(&self.container.name);
        let Some(error) = error.filter(|_| self.input.wants_start(self.container, self.newest)) else {
            return status;
        };
        if ended(status.state.as_ref()).is_some() {
            status.last_state = status.state.take();
        }
        if self.newest.is_none() {
            // All other facts are about an instance that is gone; the next status could not tell them again.
            let ContainerStatus { restart_count, last_state, .. } = status;
            status = ContainerStatus { restart_count, last_state, ..self.default() };
        }
        status.state = Some(waiting(Some(error.reason.to_string()), some_text(&error.message)));
        status
    }

    /// Once in the status they never change. So those that depend on the runtime's abilities stay out before these are
    /// known.
    fn volume_mounts(&self) -> Option<Vec<VolumeMountStatus>> {
        if let Some(shown) = self.before.and_then(|before| before.volume_mounts.clone()) {
            return Some(shown);
        }
        let mounts = self.container.volume_mounts.as_ref().filter(|mounts| !mounts.is_empty())?;
        mounts.iter().map(|mount| self.volume_mount(mount)).collect()
    }

    /// The mounts, those of image volumes with the image that this instance has there.
    fn with_images(&self, mut mounts: Vec<VolumeMountStatus>, newest: &RuntimeContainer) -> Vec<VolumeMountStatus> {
        let is_image = |mount: &VolumeMountStatus| {
            let mut volumes = self.spec.volumes.iter().flatten();
            self.input.gates.image_references
                && volumes.any(|volume| volume.name == mount.name && volume.image.is_some())
        };
        for mount in mounts.iter_mut().filter(|mount| is_image(mount)) {
            let reference = newest.process.image_mounts.get(&clean_absolute(&mount.mount_path));
            let Some(reference) = reference.filter(|reference| reference.len() <= IMAGE_REF_MAX) else { continue };
            let status = mount.volume_status.get_or_insert_default();
            status.image.get_or_insert_default().image_ref.clone_from(reference);
        }
        mounts
    }

    fn volume_mount(&self, mount: &VolumeMount) -> Option<VolumeMountStatus> {
        let read_only = mount.read_only.unwrap_or(false);
        let asked = matches!(mount.recursive_read_only.as_deref(), Some("IfPossible" | "Enabled"));
        let recursive = if read_only && asked && self.input.node.recursive_read_only? { "Enabled" } else { "Disabled" };
        Some(VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: read_only.then_some(true),
            recursive_read_only: read_only.then(|| recursive.to_owned()),
            ..VolumeMountStatus::default()
        })
    }

    /// The container's share of the room for termination messages, cut from the end.
    fn cut<'t>(&self, message: &'t str) -> &'t str {
        let all = self.spec.containers.len()
            + self.spec.init_containers.as_ref().map_or(0, Vec::len)
            + self.spec.ephemeral_containers.as_ref().map_or(0, Vec::len);
        &message[..message.floor_char_boundary(MESSAGES_MAX / all.max(1))]
    }
}

fn ended(state: Option<&ContainerState>) -> Option<&ContainerStateTerminated> {
    state.and_then(|state| state.terminated.as_ref())
}

fn waiting(reason: Option<String>, message: Option<String>) -> ContainerState {
    ContainerState { waiting: Some(ContainerStateWaiting { reason, message }), ..ContainerState::default() }
}

fn terminated(end: ContainerStateTerminated) -> ContainerState {
    ContainerState { terminated: Some(end), ..ContainerState::default() }
}

fn unseen_end(message: &str) -> ContainerState {
    terminated(ContainerStateTerminated {
        reason: Some(STATUS_UNKNOWN.to_owned()),
        message: Some(message.to_owned()),
        exit_code: EXIT_CODE_UNKNOWN,
        ..ContainerStateTerminated::default()
    })
}

/// Whether the last state is how this very instance ended, or how it must have.
fn shows_own_end_last(status: &ContainerStatus) -> bool {
    ended(status.last_state.as_ref())
        .is_some_and(|end| end.container_id == status.container_id || end.reason.as_deref() == Some(STATUS_UNKNOWN))
}

fn user((uid, gid, groups): &(i64, i64, Vec<i64>)) -> ContainerUser {
    let supplemental_groups = (!groups.is_empty()).then(|| groups.clone());
    ContainerUser { linux: Some(LinuxContainerUser { uid: *uid, gid: *gid, supplemental_groups }) }
}

fn some_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
