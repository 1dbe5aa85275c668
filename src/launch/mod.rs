//! From a command line to a running agent, and to its end.
//!
//! The order is upstream's: flags and files, logging, checks of the host, the runtime's word about cgroups, then the
//! tree. Wires; what could be decided elsewhere is decided there.

mod interim;
mod settings;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::actors::ledger::{Cause, Ledger};
use crate::actors::root;
use crate::actors::settings::{Adapters, Agent, Directory};
use crate::config::{self, Host, Invocation, Startup};
use crate::cri::grpc::GrpcRuntime;
use crate::cri::instrumented::Unobserved;
use crate::cri::{CriError, RuntimeService};
use crate::logic::cgroup_name::CgroupDriver;
use crate::messages::root::RootMsg;
use crate::platform::cgroup::systemd::SystemdCgroups;
use crate::platform::cgroup::{self, CgroupManager};
use crate::platform::chance::SystemChance;
use crate::platform::clock::{Clock, SystemClock};
use crate::platform::manifests::{LinuxManifestFolder, ManifestFolder};
use crate::platform::pod_files::LinuxPodFiles;
use settings::HostFacts;

/// Worker threads of the runtime: turns are short, waiting is not done on threads.
const WORKER_THREADS: usize = 2;
/// How long the tree may take to stop.
const SHUTDOWN_MAX: Duration = Duration::from_secs(30);
/// Tries of `RuntimeConfig`, and the wait between them (CRI-05).
const RUNTIME_CONFIG_TRIES: (u32, Duration) = (3, Duration::from_secs(2));
/// The directory of log links, for log collectors.
const CONTAINER_LOG_LINKS: &str = "/var/log/containers";

/// Runs the program with these arguments, the program's name left out; the status to exit with.
pub fn run(args: &[String]) -> ExitCode {
    let invocation = match config::load(args, Host::detect()) {
        Ok(Startup::PrintAndExit { stdout }) => {
            print!("{stdout}");
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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .thread_name("podwright")
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("failed to run Kubelet: start threads: {error}")),
    };
    let status = match runtime.block_on(serve(invocation)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => fail(&format!("failed to run Kubelet: {problem}")),
    };
    runtime.shutdown_timeout(Duration::from_secs(1));
    status
}

fn fail(problem: &str) -> ExitCode {
    let error = config::StartupError { message: problem.to_owned(), notices: vec![] };
    eprintln!("{}", error.as_log_text());
    ExitCode::FAILURE
}

async fn serve(invocation: Invocation) -> Result<(), String> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let hostname = nix::unistd::gethostname().map_err(|error| error.to_string())?.to_string_lossy().into_owned();
    let node_name = settings::node_name(&invocation.flags, &hostname)?;
    let facts = HostFacts {
        hostname,
        ips: vec!["127.0.0.1".parse().expect("ip")],
        cpus: 2,
        memory_bytes: 24 << 30,
        pids_max: 32768,
        cgroup_version: cgroup::detect(),
        swap_controller: false,
        thermal_throttle_paths: vec![],
        resolv_conf: std::fs::read_to_string(&invocation.config.resolv_conf).ok(),
    };
    for warning in &invocation.warnings {
        tracing::warn!("{warning}");
    }
    let agent = assemble(&invocation, &facts, node_name).await?;
    let (address, root) = root::start(Arc::clone(&agent));
    tracing::info!(node = agent.settings.node_name, "Started kubelet");
    tokio::select! {
        biased;
        () = stop_signal() => {
            let _ = address.ask(Cause::outside("signal"), SHUTDOWN_MAX, RootMsg::Shutdown).await;
            Ok(())
        }
        _ = root.wait(None) => Err("the root of the actor tree gave up".to_owned()),
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

async fn assemble(invocation: &Invocation, facts: &HostFacts, node_name: String) -> Result<Arc<Agent>, String> {
    let (config, flags) = (&invocation.config, &invocation.flags);
    let runtime = GrpcRuntime::connect(
        &config.container_runtime_endpoint,
        &config.image_service_endpoint,
        config.runtime_request_timeout.to_std(),
        Arc::new(Unobserved),
    )
    .map_err(|error| error.to_string())?;
    let version = runtime.check_runtime().await.map_err(|error| error.to_string())?;
    let cgroups = cgroup_manager(&runtime, &config.cgroup_driver).await?;
    let runtime = Arc::new(runtime);
    let clock = Arc::new(SystemClock::start());
    let settings = settings::settings(invocation, facts, node_name, version.runtime_name, clock.now())?;
    let ledger = Ledger::new(clock);
    let root_dir = Path::new(&flags.root_dir);
    let adapters = Adapters {
        runtime: runtime.clone(),
        images: runtime,
        cgroups,
        files: Arc::new(LinuxPodFiles::new(
            root_dir,
            PathBuf::from(&config.pod_logs_dir),
            Some(PathBuf::from(CONTAINER_LOG_LINKS)),
        )),
        folder: (!config.static_pod_path.is_empty())
            .then(|| Arc::new(LinuxManifestFolder::new(Path::new(&config.static_pod_path))) as Arc<dyn ManifestFolder>),
        url: None,
        http_prober: Arc::new(interim::NoProber),
        chance: Arc::new(SystemChance::from_kernel()),
        service_manager: Arc::new(interim::NoManager),
        listeners: vec![],
    };
    let directory = Directory::new(&ledger);
    Ok(Arc::new(Agent { settings, adapters, directory, ledger }))
}

/// Asks the runtime who makes cgroups; its word counts over the configuration's (CFG-31, CFG-32).
async fn cgroup_manager(runtime: &GrpcRuntime, configured: &str) -> Result<Arc<dyn CgroupManager>, String> {
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
