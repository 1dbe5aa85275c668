//! The agent of the configuration: settings, adapters, addresses and listeners, put together. Nothing runs yet.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::adapters::{self, Means};
use super::host::HostFacts;
use super::resource_managers::{check_state, resource_managers};
use super::threads::Elsewhere;
use super::user_namespaces::user_ids;
use super::{api, credential_providers, serving, settings};
use crate::actors::agent::Agent;
use crate::actors::kit::trace::Trace;
use crate::actors::server::Listener;
use crate::actors::tree::Directory;
use crate::config::flags::shown::command_line;
use crate::config::{self, Configz, Invocation};
use crate::cri::grpc::GrpcRuntime;
use crate::cri::{CriError, RuntimeService};
use crate::logic::resources::cgroup_name::CgroupDriver;
use crate::platform::cgroup::systemd::SystemdCgroups;
use crate::platform::cgroup::{self, CgroupManager};
use crate::platform::host::clock::{Clock, SystemClock};
use crate::platform::host::systemd::Watchdog;
use crate::server::rpc::RpcListener;
use crate::server::{Backend, HealthzListener, LocalSocket, Pages, ReadOnlyListener, ShownConfig};
use crate::telemetry::{Metrics, ObservedCgroups};

/// Tries of `RuntimeConfig`, and the wait between them (CRI-05).
const RUNTIME_CONFIG_TRIES: (u32, Duration) = (3, Duration::from_secs(2));

/// Puts the agent together. Asks the runtime, which has to be there.
///
/// # Errors
/// When a part cannot be had; in upstream's words where it has some.
pub(super) async fn assemble(
    invocation: &Invocation,
    facts: &HostFacts,
    watchdog: Option<Watchdog>,
    visitors: &Handle,
) -> Result<Assembled, String> {
    let config = &invocation.config;
    let metrics = Metrics::new(invocation.gates.clone()).with_tasks_of([Handle::current(), visitors.clone()]);
    let metrics = Arc::new(metrics);
    let runtime = runtime(invocation, &metrics)?;
    let version = runtime.check_runtime().await.map_err(|error| error.to_string())?;
    let cgroups = cgroup_manager(&runtime, &config.cgroup_driver, &metrics).await?;
    let clock = Arc::new(SystemClock::start());
    let cgroups = Arc::new(ObservedCgroups::new(cgroups, metrics.clone(), clock.clone()));
    let watched = watchdog.map(|one| one.interval);
    let managers = resource_managers(invocation, facts.size.memory_bytes, &super::host::topology())?;
    check_state(&managers, Path::new(&invocation.flags.root_dir), invocation.flags.repair_state_files)?;
    let managers = Arc::new(managers);
    let mut settings = settings::settings(invocation, facts, version.runtime_name, clock.now(), watched, managers)?;
    settings.pods.user_ids = user_ids(invocation).await?;
    let (providers, programs) =
        (&invocation.flags.image_credential_provider_config, &invocation.flags.image_credential_provider_bin_dir);
    if let Some(hash) = credential_providers::hash(providers, programs) {
        metrics.providers_configured(&hash);
    }
    let connected = api::connect(invocation, clock.clone(), metrics.clone())?;
    let client = connected.as_ref().and_then(|connected| connected.client.clone());
    let mut certificates = serving::certificates(invocation, &facts.node_name, client, clock.clone())?;
    certificates.authorities = serving::client_authorities(invocation)?;
    let trace = Trace::new(clock);
    let directory = Directory::new(&trace);
    let means = Means {
        invocation,
        settings: &settings,
        directory: &directory,
        clock: Arc::clone(trace.clock()),
        metrics: Arc::clone(&metrics),
        runtime: Arc::new(runtime),
        cgroups,
        connected,
        certificates,
    };
    let adapters = adapters::adapters(means)?;
    let mut agent = Agent { settings, adapters, directory, trace, listeners: vec![] };
    let configz = ShownConfig::from(shown(invocation)?);
    let version = config::KUBERNETES_VERSION.to_owned();
    let pages = Pages {
        configz: configz.clone(),
        version,
        flags: invocation.shown_flags.clone(),
        command_line: command_line(std::env::args()),
    };
    let backend = Arc::new(Backend::of(&agent, metrics, pages));
    agent.listeners = listeners(invocation, &agent, &backend, visitors)?;
    Ok(Assembled { agent: Arc::new(agent), configz })
}

/// The agent before it runs, and what a reload changes beside it.
pub(super) struct Assembled {
    pub agent: Arc<Agent>,
    /// The body of `/configz`.
    pub configz: ShownConfig,
}

fn runtime(invocation: &Invocation, metrics: &Metrics) -> Result<GrpcRuntime, String> {
    let config = &invocation.config;
    let (endpoint, images) = (&config.container_runtime_endpoint, &config.image_service_endpoint);
    let limit = config.runtime_request_timeout.to_std();
    let runtime =
        GrpcRuntime::connect(endpoint, images, limit, metrics.runtime()).map_err(|error| error.to_string())?;
    Ok(runtime.with_lists_in_parts(invocation.gates.enabled("CRIListStreaming")))
}

/// The listeners of the agent, as configured; the local socket always.
fn listeners(
    invocation: &Invocation,
    agent: &Agent,
    backend: &Arc<Backend>,
    visitors: &Handle,
) -> Result<Vec<Arc<dyn Listener>>, String> {
    let (config, flags) = (&invocation.config, &invocation.flags);
    let old = Path::new(&flags.root_dir).join(LocalSocket::NAME);
    let socket = LocalSocket::new(PathBuf::from(&flags.socket), backend)
        .owning_its_folder(flags.socket == config::LOCAL_SOCKET)
        .instead_of(old);
    let mut listeners: Vec<Arc<dyn Listener>> = vec![Arc::new(socket)];
    let (root, gates) = (Path::new(&flags.root_dir), &invocation.gates);
    let active_only = gates.enabled("KubeletPodResourcesListUseActivePods");
    listeners.push(Arc::new(RpcListener::pod_resources(root, backend, active_only)));
    if gates.enabled("PodsAPI") {
        listeners.push(Arc::new(RpcListener::pods_api(root, backend)));
    }
    if let Some(secure) = serving::listener(invocation, agent, backend)? {
        listeners.push(Arc::new(secure));
    }
    if let Some(address) =
        serving::socket_address("healthzBindAddress", &config.healthz_bind_address, config.healthz_port)?
    {
        listeners.push(Arc::new(HealthzListener::new(address, backend)));
    }
    if let [_, Some(address)] = serving::addresses(config)? {
        let listener = ReadOnlyListener::bind(address, backend);
        listeners.push(Arc::new(listener.map_err(|error| format!("listen on {address}: {error}"))?));
    }
    Ok(listeners.into_iter().map(|listener| Elsewhere::serve(listener, visitors)).collect())
}

/// The configuration as `/configz` shows it.
pub(super) fn shown(invocation: &Invocation) -> Result<String, String> {
    serde_json::to_string(&Configz(&invocation.config, &invocation.flags)).map_err(|error| error.to_string())
}

/// Asks the runtime who makes cgroups; its word counts over the configuration's (CFG-31, CFG-32).
async fn cgroup_manager(
    runtime: &GrpcRuntime,
    configured: &str,
    metrics: &Metrics,
) -> Result<Arc<dyn CgroupManager>, String> {
    let (tries, wait) = RUNTIME_CONFIG_TRIES;
    let mut answer = runtime.runtime_config().await;
    for _ in 1..tries {
        if !matches!(&answer, Err(error) if !matches!(error, CriError::Unimplemented { .. })) {
            break;
        }
        tokio::time::sleep(wait).await;
        answer = runtime.runtime_config().await;
    }
    let told = match answer {
        Ok(driver) => driver,
        Err(CriError::Unimplemented { .. }) => {
            tracing::warn!("the container runtime does not tell its cgroup driver; its support ends with 1.37.0");
            metrics.runtime_loses_support("1.37.0");
            None
        }
        Err(error) => return Err(format!("failed to get runtime config: {error}")),
    };
    let wants_systemd = told.map_or(configured == "systemd", |driver| driver == crate::cri::CgroupDriver::Systemd);
    if wants_systemd {
        let manager = SystemdCgroups::connect().await.map_err(|error| error.to_string())?;
        return Ok(Arc::new(manager));
    }
    let manager = cgroup::open_file_system(CgroupDriver::Cgroupfs).map_err(|error| error.to_string())?;
    Ok(Arc::from(manager))
}
