//! From a command line to a running agent, and to its end.
//!
//! The order is upstream's: flags and files, logging, checks of the host, the runtime's word about cgroups, then the
//! tree. Wires; what could be decided elsewhere is decided there.

mod adapters;
mod api;
mod assembly;
mod credential_providers;
mod host;
mod node;
mod ready;
mod reload;
mod resource_managers;
mod serving;
mod settings;
mod threads;
mod user_namespaces;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

use crate::actors::kit::address::Address;
use crate::actors::kit::trace::Cause;
use crate::actors::tree::STOP_MAX;
use crate::actors::wiring;
use crate::config::{self, Host, Invocation, Startup, version};
use crate::messages::root::RootMsg;
use crate::platform::host::kernel_tunables::KernelTunables;
use crate::platform::host::lock_file::{Contention, LockFile, watch_contention};
use crate::platform::host::process;
use crate::platform::host::systemd;
use crate::telemetry;
use assembly::Assembled;
use reload::Reloader;
use threads::Threads;

/// Runs the program with these arguments, the program's name left out; the status to exit with.
pub fn run(args: &[String]) -> ExitCode {
    let invocation = match config::load(args, Host::detect()) {
        Ok(Startup::PrintAndExit { stdout, stderr }) => {
            // A reader that has read enough (`| head`) closes the pipe.
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
    let status = match threads.tree.block_on(serve(args, invocation, threads.visitors.handle())) {
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

async fn serve(args: &[String], invocation: Invocation, visitors: &Handle) -> Result<(), String> {
    // From here on the signal ends nobody.
    let reloads = signal(SignalKind::hangup()).map_err(|error| format!("wait for SIGHUP: {error}"))?;
    let facts = host::facts(&invocation)?;
    let config = &invocation.config;
    let _telemetry = telemetry::init(&config.logging, config.tracing.as_ref(), &facts.node_name)
        .map_err(|error| error.to_string())?;
    say_version();
    say_warnings(&invocation);
    host::check(&invocation, &facts)?;
    let lock = Lock::take(&invocation).await?;
    host::prepare(&invocation)?;
    let invocation = host::at_real_root(invocation)?;
    host::tune_kernel(&invocation, &KernelTunables::at(PathBuf::from("/")))?;
    let watchdog = systemd::watchdog().map_err(|error| error.to_string())?;
    let Assembled { agent, configz } = assembly::assemble(&invocation, &facts, watchdog, visitors).await?;
    let (address, root) = wiring::start(Arc::clone(&agent));
    visitors.spawn(threads::watch(Arc::clone(&agent.trace)));
    tracing::info!(node = agent.settings.node_name, "Started kubelet");
    let socket = PathBuf::from(&invocation.flags.socket);
    let reloader = Reloader::new(args, invocation, &agent, address.clone(), configz);
    tokio::select! {
        biased;
        () = stop_signal() => {}
        () = lock.wanted() => tracing::info!("another agent wants the lock, leaving"),
        _ = root.wait(None) => return Err("the root of the actor tree gave up".to_owned()),
        () = reloader.run(reloads) => {}
        never = ready::announce(&socket) => match never {},
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
        ended = root.ask(Cause::outside("signal"), STOP_MAX, RootMsg::Shutdown) => {
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
