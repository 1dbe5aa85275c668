//! A pod worker's jobs that prepare a pod: its cgroup, its sandbox, its containers' images.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::allocations::note;
use super::site::{JobSite, field_path, find};
use crate::actors::kit::trace::Cause;
use crate::cri::PodSandboxConfig;
use crate::cri::pod_mapping::runtime_sandbox;
use crate::logic::events::reasons::EventReason;
use crate::logic::images::image_policy::{ImageFailure, ImageInUse, PullPolicy};
use crate::logic::model::runtime_pod::RuntimeSandbox;
use crate::logic::pods::pod_lifecycle::{JobEnd, SandboxFailure};
use crate::logic::pods::pod_resize::ContainerResources;
use crate::logic::resources::user_namespaces::has_own_users;
use crate::logic::resources::{pod_cgroup_settings, pod_qos};
use crate::messages::images::image_manager::{ImageManagerMsg, ImageRequest};
use crate::platform::host::blocking;
use crate::platform::observer::Observation;

/// Patience with `ImageManager`; a pull itself has no deadline, as upstream.
const IMAGE_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// As whom the pod runs; empty for nobody.
fn service_account(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone()).unwrap_or_default()
}

impl JobSite {
    /// Makes the pod's cgroup; with `anew` it is set even if it is there. Says whether it was missing, or set anew.
    pub(in super::super) async fn prepare(self, pod: Arc<Pod>, anew: bool, cause: Cause) -> JobEnd {
        JobEnd::Prepared(self.try_prepare(pod, anew, &cause).await)
    }

    async fn try_prepare(&self, pod: Arc<Pod>, anew: bool, cause: &Cause) -> Result<bool, String> {
        let own = pod.spec.as_ref().and_then(|spec| spec.resources.clone());
        let made = self.make_cgroup(pod, anew, cause).await?;
        if let Some(own) = own.filter(|_| made && self.tools.settings.resources.resize.by_pod) {
            let noted =
                note(&self.tools.to.allocation_manager, &self.uid, ContainerResources::new(), Some(own), cause).await;
            noted.map_err(|why| format!("failed to update the state of pod-level resources: {why}"))?;
        }
        Ok(made)
    }

    async fn make_cgroup(&self, pod: Arc<Pod>, anew: bool, cause: &Cause) -> Result<bool, String> {
        let settings = &self.tools.settings;
        if !settings.resources.cgroup_tree.per_qos() {
            return Ok(false);
        }
        let qos = pod_qos(&pod, settings.resources.options.pod_level_resources);
        let name = settings.resources.cgroup_tree.pod(&self.uid, qos).map_err(|error| error.to_string())?;
        let no_quota = self.pinning(&pod, None, cause).await?.no_quota;
        let wanted = pod_cgroup_settings(&pod, no_quota, &settings.resources.options);
        let cgroups = Arc::clone(&self.tools.adapters.cgroups);
        let made = blocking::run(move || {
            if !anew && cgroups.exists(&name) { Ok(false) } else { cgroups.create(&name, &wanted).map(|()| true) }
        });
        made.await.map_err(|error| {
            format!("failed to ensure that the pod: {} cgroups exist and are correctly applied: {error}", self.uid)
        })
    }

    /// Runs a sandbox and reads its addresses.
    pub(in super::super) async fn set_up_sandbox(self, pod: Arc<Pod>, attempt: u32, cause: Cause) -> JobEnd {
        let own_users = has_own_users(&pod);
        self.tools.observe(Observation::SandboxBegun { own_users });
        let outcome = self.try_sandbox(&pod, attempt, &cause).await;
        if outcome.is_err() {
            self.tools.observe(Observation::SandboxFailed { own_users });
        }
        JobEnd::SandboxUp(outcome)
    }

    async fn try_sandbox(&self, pod: &Pod, attempt: u32, cause: &Cause) -> Result<RuntimeSandbox, SandboxFailure> {
        let not_made = |message| SandboxFailure { made: false, message };
        let (config, handler) = futures_util::join!(self.new_sandbox(pod, attempt, cause), self.runtime_handler(pod));
        let (config, handler) = (config.map_err(not_made)?, handler.map_err(not_made)?);
        let runtime = &self.tools.adapters.runtime;
        let clock = &self.tools.clock;
        let began = clock.uptime();
        let running = async {
            let run = runtime.run_pod_sandbox(&config, &handler).await;
            (run, clock.uptime().saturating_sub(began))
        };
        let (noting, making) = (self.note_first_containers(pod, cause), self.make_directories(cause));
        let ((run, took), (), ()) = futures_util::join!(running, noting, making);
        self.tools.observe(Observation::SandboxRun { handler: &handler, took, failed: run.is_err() });
        let id = run.map_err(|error| not_made(error.to_string()))?;
        let status = runtime.pod_sandbox_status(&id).await;
        let status = status.map_err(|error| SandboxFailure { made: true, message: error.to_string() })?;
        Ok(runtime_sandbox(&status))
    }

    /// Makes the pod's directories, that of its logs, too. A later write makes a missing one, and fails if that cannot be.
    async fn make_directories(&self, cause: &Cause) {
        if let Err(error) = self.tools.adapters.files.make_pod_directories(&self.place()).await {
            let message = format!("error making pod data directories: {error}");
            self.tell(cause, self.subject(String::new()).warning(EventReason::Failed, message));
        }
    }

    /// Has the container's image there.
    pub(in super::super) async fn ensure_image(self, pod: Arc<Pod>, container: String, cause: Cause) -> JobEnd {
        let outcome = self.try_image(&pod, &container, cause).await;
        JobEnd::ImageEnsured(container, outcome)
    }

    async fn try_image(&self, pod: &Pod, container: &str, cause: Cause) -> Result<ImageInUse, ImageFailure> {
        let (spec, kind) = find(pod, container);
        // Without a sandbox nothing is pulled: that it cannot be described is told by who makes it.
        let users = self.user_namespace(pod, &cause).await.map_err(ImageFailure::not_tried)?;
        let sandbox = self.made_sandbox(pod, 0, users, &cause).await;
        let sandbox = Arc::new(sandbox.map_err(ImageFailure::not_tried)?);
        // Before the container's own, as upstream: without them it is not started anyhow.
        let volumes = self.volume_images(pod, &spec, kind, &sandbox, &cause).await?;
        let image = spec.image.clone().unwrap_or_default();
        let policy = PullPolicy::from_spec(spec.image_pull_policy.as_deref());
        let found = self.have_image(pod, &sandbox, image, policy, field_path(kind, container), &cause).await?;
        Ok(ImageInUse { volumes, ..found })
    }

    /// Has an image there, for what `field_path` names.
    pub(super) async fn have_image(
        &self,
        pod: &Pod,
        sandbox_config: &Arc<PodSandboxConfig>,
        image: String,
        policy: PullPolicy,
        field_path: String,
        cause: &Cause,
    ) -> Result<ImageInUse, ImageFailure> {
        let request = ImageRequest {
            uid: self.uid.clone(),
            full_name: self.full_name.clone(),
            field_path,
            credentials: self.credentials(pod, &image, cause).await,
            image,
            policy,
            runtime_handler: self.image_handler(pod).await.map_err(ImageFailure::not_tried)?,
            sandbox_config: Arc::clone(sandbox_config),
            service_account: service_account(pod),
        };
        let question = |reply| ImageManagerMsg::Ensure(Arc::new(request), reply);
        let images = &self.tools.to.image_manager;
        images
            .ask(cause.clone(), IMAGE_PATIENCE, question)
            .await
            .unwrap_or_else(|error| Err(ImageFailure::lost(error.to_string())))
    }
}
