//! From a command line to a running agent, and to its end.
//!
//! The order is upstream's: flags and files, logging, checks of the host, the runtime's word about cgroups, then the
//! tree. Wires; what could be decided elsewhere is decided there.

mod api;
mod credential_providers;
mod host;
mod node;
mod serving;
mod settings;
mod threads;

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

use self::api::Connected;
use crate::actors::kit::address::Address;
use crate::actors::kit::trace::{Cause, Trace};
use crate::actors::objects::object_cache::ApiObjects;
use crate::actors::root;
use crate::actors::server::Listener;
use crate::actors::settings::{Adapters, Agent, Settings};
use crate::actors::tree::Directory;
use crate::config::{self, Config, Configz, Host, Invocation, Startup, version};
use crate::cri::grpc::GrpcRuntime;
use crate::cri::{CriError, RuntimeService};
use crate::logic::resources::cgroup_name::CgroupDriver;
use crate::logic::statistics::sample::System;
use crate::messages::root::RootMsg;
use crate::platform::cgroup::process_placement::{LinuxPlacement, ProcessPlacement};
use crate::platform::cgroup::systemd::SystemdCgroups;
use crate::platform::cgroup::{self, CgroupManager};
use crate::platform::cluster::objects::{Objects, Standalone};
use crate::platform::cluster::offline_store::{DiskStore, OfflineStore, RememberedObjects};
use crate::platform::files::checkpoints::FileCheckpoints;
use crate::platform::files::directories;
use crate::platform::host::Host as HostFiles;
use crate::platform::host::chance::SystemChance;
use crate::platform::host::clock::{Clock, SystemClock};
use crate::platform::host::kernel_tunables::KernelTunables;
use crate::platform::host::lock_file::{Contention, LockFile, watch_contention};
use crate::platform::host::node_facts::LinuxNodeFacts;
use crate::platform::host::process;
use crate::platform::host::systemd::{self, Systemd, Watchdog};
use crate::platform::images::LinuxImageHost;
use crate::platform::logs::container_logs::LinuxContainerLogs;
use crate::platform::logs::log_reader::LinuxLogReader;
use crate::platform::logs::node_logs::LinuxNodeLogs;
use crate::platform::network::network_probe::HostProber;
use crate::platform::network::network_rules::Iptables;
use crate::platform::network::tls::Offer;
use crate::platform::pods::manifests::{HttpManifestUrl, LinuxManifestFolder, ManifestFolder, ManifestUrl};
use crate::platform::pods::pod_files::LinuxPodFiles;
use crate::platform::pods::probe_store::ProbeStore;
use crate::platform::statistics::{LinuxStatistics, Places};
use crate::platform::volumes::LinuxVolumeHost;
use crate::server::{Backend, HealthzListener, LocalSocket, Pages, ReadOnlyListener};
use crate::telemetry::{self, Metrics, ObservedCgroups};
use settings::HostFacts;
use threads::{Elsewhere, Threads};

/// How long the tree may take to stop.
const SHUTDOWN_MAX: Duration = Duration::from_secs(30);
/// Tries of `RuntimeConfig`, and the wait between them (CRI-05).
const RUNTIME_CONFIG_TRIES: (u32, Duration) = (3, Duration::from_secs(2));

/// Runs the program with these arguments, the program's name left out; the status to exit with.
pub fn run(args: &[String]) -> ExitCode {
    let invocation = match config::load(args, Host::detect()) {
        Ok(Startup::PrintAndExit { stdout, stderr }) => {
            // Whoever has read enough (`| head`) closes the pipe.
            let _ = io::stdout().write_all(stdout.as_bytes());
            let _ = io::stderr().write_all(stderr.as_bytes());
            return ExitCode::SUCCESS;
        }
        Ok(Startup::Run(invocation)) => *invocation,
        Err(error) => {
            error.notices.iter().for_each(|notice| eprintln!("{notice}"));
            eprintln!("{}", error.as_log_text());
            return ExitCode::FAILURE;
        }
    };
    invocation.notices.iter().for_each(|notice| eprintln!("{notice}"));
    // Before there is a second thread, which would not take part.
    process::share_memory_pool();
    if let Err(error) = process::harden() {
        eprintln!("{error}");
    }
    let threads = match Threads::start() {
        Ok(threads) => threads,
        Err(error) => return fail(&format!("failed to run Kubelet: start threads: {error}")),
    };
    let status = match threads.tree.block_on(serve(invocation, threads.visitors.handle())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => fail(&format!("failed to run Kubelet: {problem}")),
    };
    threads.end();
    status
}

fn fail(problem: &str) -> ExitCode {
    let error = config::StartupError { message: problem.to_owned(), notices: vec![] };
    eprintln!("{}", error.as_log_text());
    ExitCode::FAILURE
}

async fn serve(invocation: Invocation, visitors: &Handle) -> Result<(), String> {
    let facts = host::facts(&invocation)?;
    let config = &invocation.config;
    let _telemetry = telemetry::init(&config.logging, config.tracing.as_ref(), &facts.node_name)
        .map_err(|error| error.to_string())?;
    say_version();
    say_warnings(&invocation);
    host::check(&invocation, &facts)?;
    let node_name = facts.node_name.clone();
    let lock = Lock::take(&invocation).await?;
    host::prepare(&invocation)?;
    let invocation = host::at_real_root(invocation)?;
    host::tune_kernel(&invocation, &KernelTunables::at(PathBuf::from("/")))?;
    let watchdog = systemd::watchdog().map_err(|error| error.to_string())?;
    let agent = assemble(&invocation, &facts, node_name, watchdog, visitors).await?;
    let (address, root) = root::start(Arc::clone(&agent));
    visitors.spawn(threads::watch(Arc::clone(&agent.trace)));
    if let Err(error) = systemd::notify_ready() {
        tracing::warn!(%error, "the service manager cannot be told that the agent has started");
    }
    tracing::info!(node = agent.settings.node_name, "Started kubelet");
    tokio::select! {
        biased;
        () = stop_signal() => {}
        () = lock.wanted() => tracing::info!("another agent wants the lock, leaving"),
        _ = root.wait(None) => return Err("the root of the actor tree gave up".to_owned()),
    }
    shut_down(&address).await;
    Ok(())
}

/// Ends the tree; pods go on (CFG-56). A second signal ends the process at once, with status 1.
async fn shut_down(root: &Address<RootMsg>) {
    let _ = systemd::notify_stopping(); // Nobody may be listening.
    tokio::select! {
        biased;
        () = stop_signal() => std::process::exit(1),
        ended = root.ask(Cause::outside("signal"), SHUTDOWN_MAX, RootMsg::Shutdown) => {
            if let Err(error) = ended {
                tracing::warn!(%error, "the tree did not stop in order");
            }
        }
    }
}

/// The log's first line: upstream's, and which build of this program it is.
fn say_version() {
    tracing::info!(
        kubeletVersion = config::KUBERNETES_VERSION,
        podwright = version::OWN_VERSION,
        commit = version::OWN_COMMIT,
        "Kubelet version"
    );
}

fn say_warnings(invocation: &Invocation) {
    if invocation.config.logging.verbosity >= 1 {
        invocation.flag_lines.iter().for_each(|line| tracing::info!("{line}"));
    }
    for warning in &invocation.warnings {
        tracing::warn!("{warning}");
    }
    for field in config::set_but_not_acted_on(&invocation.config) {
        tracing::warn!(field, "this field of the configuration is set, but not acted on yet");
    }
    for field in config::set_but_acted_on_in_part(&invocation.config) {
        tracing::warn!(field, "this field of the configuration is set, but acted on only in part yet");
    }
}

/// The lock file, where one is named (CFG-33).
struct Lock {
    _held: Option<LockFile>,
    contention: Option<Contention>,
}

impl Lock {
    async fn take(invocation: &Invocation) -> Result<Self, String> {
        let (path, leave) = (&invocation.flags.lock_file, invocation.flags.exit_on_lock_contention);
        if path.is_empty() {
            return match leave {
                true => Err("cannot exit on lock file contention: no lock file specified".to_owned()),
                false => Ok(Self { _held: None, contention: None }),
            };
        }
        let named = |error: std::io::Error| format!("unable to acquire file lock on {path:?}: {error}");
        let held = LockFile::acquire(Path::new(path)).await.map_err(named)?;
        let contention = leave.then(|| watch_contention(Path::new(path))).transpose().map_err(named)?;
        Ok(Self { _held: Some(held), contention })
    }

    async fn wanted(self) {
        match self.contention {
            Some(contention) => contention.seen().await,
            None => std::future::pending().await,
        }
    }
}

async fn stop_signal() {
    let (mut terminate, mut interrupt) = match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
        _ => return std::future::pending().await,
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

async fn assemble(
    invocation: &Invocation,
    facts: &HostFacts,
    node_name: String,
    watchdog: Option<Watchdog>,
    visitors: &Handle,
) -> Result<Arc<Agent>, String> {
    let (config, flags) = (&invocation.config, &invocation.flags);
    let metrics = Metrics::new(invocation.gates.clone()).with_tasks_of([Handle::current(), visitors.clone()]);
    let metrics = Arc::new(metrics);
    let runtime = GrpcRuntime::connect(
        &config.container_runtime_endpoint,
        &config.image_service_endpoint,
        config.runtime_request_timeout.to_std(),
        metrics.runtime(),
    )
    .map_err(|error| error.to_string())?;
    let version = runtime.check_runtime().await.map_err(|error| error.to_string())?;
    let cgroups = cgroup_manager(&runtime, &config.cgroup_driver, &metrics).await?;
    let (runtime, clock) = (Arc::new(runtime), Arc::new(SystemClock::start()));
    let cgroups = Arc::new(ObservedCgroups::new(cgroups, metrics.clone(), clock.clone()));
    let watched = watchdog.map(|one| one.interval);
    let settings = settings::settings(invocation, facts, version.runtime_name, clock.now(), watched)?;
    let connected = api::connect(invocation, clock.clone(), metrics.clone())?;
    let client = connected.as_ref().and_then(|connected| connected.client.clone());
    let mut certificates = serving::certificates(invocation, &node_name, client, clock.clone())?;
    certificates.authorities = serving::client_authorities(invocation)?;
    let trace = Trace::new(clock);
    let directory = Directory::new(&trace);
    let root_dir = Path::new(&flags.root_dir);
    let offline = offline_store(invocation, connected.is_some())?;
    let statistics = statistics(invocation, &settings, &*cgroups, Arc::clone(trace.clock()));
    let adapters = Adapters {
        runtime: runtime.clone(),
        images: runtime,
        image_host: Arc::new(LinuxImageHost::new(root_dir, Path::new(&flags.image_credential_provider_bin_dir))),
        checkpoints: Arc::new(FileCheckpoints::new(root_dir)),
        cgroups,
        files: Arc::new(LinuxPodFiles::new(
            root_dir,
            PathBuf::from(&config.pod_logs_dir),
            Some(PathBuf::from(directories::CONTAINER_LOG_LINKS)),
        )),
        logs: Arc::new(LinuxContainerLogs::new(PathBuf::from(&config.pod_logs_dir))),
        log_reader: Arc::new(LinuxLogReader::new(PathBuf::from(&config.pod_logs_dir))),
        statistics: Arc::new(statistics),
        node_logs: Arc::new(LinuxNodeLogs::new("/var/log".into(), "journalctl".into())),
        volumes: Arc::new(LinuxVolumeHost::new(root_dir, Arc::clone(trace.clock()))),
        objects: objects(connected.as_ref(), &directory, offline.as_ref(), Arc::clone(trace.clock())),
        offline,
        folder: (!config.static_pod_path.is_empty())
            .then(|| Arc::new(LinuxManifestFolder::new(Path::new(&config.static_pod_path))) as Arc<dyn ManifestFolder>),
        url: (!config.static_pod_url.is_empty()).then(|| manifest_url(config)),
        prober: Arc::new(HostProber::new(Offer::from_environment())),
        pod_ends: Arc::default(),
        probe_store: Arc::new(ProbeStore::open(root_dir)),
        chance: Arc::new(SystemChance::from_kernel()),
        service_manager: Arc::new(Systemd),
        api: connected.as_ref().map(|connected| connected.api.clone()),
        certificates: Arc::new(certificates),
        doubt_connections: doubts(connected),
        node_facts: Arc::new(LinuxNodeFacts::new(HostFiles::default(), root_dir.to_owned())),
        network_rules: Arc::new(Iptables::default()),
        placement: placement()?,
        observer: metrics.clone(),
    };
    let mut agent = Agent { settings, adapters, directory, trace, listeners: vec![] };
    let backend = Arc::new(Backend::of(&agent, metrics, pages(invocation)?));
    agent.listeners = listeners(invocation, &agent, &backend, visitors)?;
    Ok(Arc::new(agent))
}

/// The machine's own processes. Their cgroups are folders for any driver, as upstream has it.
fn placement() -> Result<Arc<dyn ProcessPlacement>, String> {
    let entry = cgroup::open_entry().map_err(|error| error.to_string())?;
    Ok(Arc::new(LinuxPlacement::new(PathBuf::from("/proc"), cgroup::detect(), entry)))
}

/// What is done when heartbeats failed repeatedly.
fn doubts(connected: Option<Connected>) -> Arc<dyn Fn() + Send + Sync> {
    match connected {
        Some(Connected { transport, .. }) => Arc::new(move || transport.heartbeat_failed()),
        None => Arc::new(|| {}),
    }
}

/// Where figures of the node are read.
fn statistics(
    invocation: &Invocation,
    settings: &Settings,
    cgroups: &dyn CgroupManager,
    clock: Arc<dyn Clock>,
) -> LinuxStatistics {
    let (config, flags) = (&invocation.config, &invocation.flags);
    let daemons = [
        (System::Kubelet, &config.kubelet_cgroups),
        (System::Runtime, &flags.runtime_cgroups),
        (System::Misc, &config.system_cgroups),
    ];
    let places = Places {
        root: PathBuf::from("/"),
        version: cgroups.version(),
        driver: cgroups.driver(),
        tree: settings.resources.cgroup_tree.clone(),
        daemons: daemons.map(|(kind, path)| (kind, path.clone())).into(),
        root_dir: PathBuf::from(&flags.root_dir),
        pod_logs: PathBuf::from(&config.pod_logs_dir),
    };
    LinuxStatistics::new(places, clock)
}

/// Where pods' objects come from.
fn objects(
    connected: Option<&Connected>,
    directory: &Directory,
    offline: Option<&Arc<dyn OfflineStore>>,
    clock: Arc<dyn Clock>,
) -> Arc<dyn Objects> {
    let Some(connected) = connected else { return Arc::new(Standalone) };
    let objects = Arc::new(ApiObjects::new(connected.api.clone(), directory.object_cache.clone()));
    match offline {
        Some(store) => Arc::new(RememberedObjects::new(objects, Arc::clone(store), clock)),
        None => objects,
    }
}

/// The store for a boot without the API server, where it is asked for and there is an API server.
fn offline_store(invocation: &Invocation, connected: bool) -> Result<Option<Arc<dyn OfflineStore>>, String> {
    let flags = &invocation.flags;
    if !flags.offline_store {
        return Ok(None);
    }
    if !connected {
        tracing::warn!("--offline-store is of no use without --kubeconfig");
        return Ok(None);
    }
    let store = DiskStore::open(Path::new(&flags.root_dir), std::env::var_os("CREDENTIALS_DIRECTORY"))?;
    Ok(Some(Arc::new(store)))
}

fn manifest_url(config: &Config) -> Arc<dyn ManifestUrl> {
    let headers = config.static_pod_url_header.0.iter();
    let headers = headers.flat_map(|(name, values)| values.iter().map(move |value| (name.clone(), value.clone())));
    Arc::new(HttpManifestUrl::new(&config.static_pod_url, headers.collect()))
}

/// What the agent listens on, as configured; the local socket always.
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
    if let Some(secure) = serving::listener(invocation, agent, backend)? {
        listeners.push(Arc::new(secure));
    }
    if let Some(address) = socket_address("healthzBindAddress", &config.healthz_bind_address, config.healthz_port)? {
        listeners.push(Arc::new(HealthzListener::new(address, backend)));
    }
    if let Some(address) = socket_address("address", &config.address, config.read_only_port)? {
        let listener = ReadOnlyListener::bind(address, backend);
        listeners.push(Arc::new(listener.map_err(|error| format!("listen on {address}: {error}"))?));
    }
    Ok(listeners.into_iter().map(|listener| Elsewhere::serve(listener, visitors)).collect())
}

/// What the server shows of the start.
fn pages(invocation: &Invocation) -> Result<Pages, String> {
    let configz = serde_json::to_string(&Configz(&invocation.config)).map_err(|error| error.to_string())?;
    let version = config::KUBERNETES_VERSION.to_owned();
    Ok(Pages { configz, version, flags: invocation.shown_flags.clone() })
}

/// Address and port; `None` for port 0, which turns the listener off.
fn socket_address(field: &str, address: &str, port: i32) -> Result<Option<SocketAddr>, String> {
    let port = u16::try_from(port).map_err(|_| format!("{field}: port {port} is out of range"))?;
    let ip: IpAddr = address.parse().map_err(|_| format!("{field} {address:?} is not an IP address"))?;
    Ok((port != 0).then(|| SocketAddr::new(ip, port)))
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
