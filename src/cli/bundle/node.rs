//! The node's side of a bundle: kernel, system, runtime, and the last lines of the agent's log.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::cri::RuntimeService;
use crate::cri::grpc::GrpcRuntime;
use crate::cri::instrumented::Unobserved;
use crate::platform::host::program::Program;

/// Files that describe the node, none of which holds a secret.
const FILES: &[&str] = &[
    "/proc/version",
    "/etc/os-release",
    "/proc/uptime",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/pressure/cpu",
    "/proc/pressure/memory",
    "/proc/pressure/io",
    "/proc/cgroups",
    "/sys/fs/cgroup/cgroup.controllers",
];
/// Bytes of each.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// For the runtime's answer.
const RUNTIME_LIMIT: Duration = Duration::from_secs(5);
/// For the journal's answer.
const JOURNAL_LIMIT: Duration = Duration::from_secs(15);
/// Lines of the log.
const JOURNAL_LINES: &str = "3000";
/// Bytes of the log.
const JOURNAL_BYTES_MAX: u64 = 4 << 20;
/// The service, as `deploy/podwright.service` names it.
const UNIT: &str = "podwright";

/// Kernel, distribution, load.
pub(super) fn system() -> String {
    let mut out = String::new();
    for path in FILES {
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut text));
        let text = match read {
            Ok(_) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) => format!("({error})\n"),
        };
        out.push_str(&format!("== {path}\n{text}\n"));
    }
    out
}

/// The runtime's name and version, asked at its socket.
pub(super) async fn runtime(endpoint: &str) -> Result<String, String> {
    let connected = GrpcRuntime::connect(endpoint, "", RUNTIME_LIMIT, Arc::new(Unobserved));
    let runtime = connected.map_err(|error| error.to_string())?;
    let asked = tokio::time::timeout(RUNTIME_LIMIT, runtime.version()).await;
    let version =
        asked.map_err(|_| format!("{endpoint} did not answer in time"))?.map_err(|error| error.to_string())?;
    Ok(format!("{version:#?}\n"))
}

/// The last lines of the agent's log, as the service manager kept them.
pub(super) async fn journal() -> Result<String, String> {
    let mut command = Command::new("journalctl");
    command.args(["--unit", UNIT, "--lines", JOURNAL_LINES, "--output", "cat", "--no-pager", "--quiet"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut program = Program::start(&mut command).map_err(|error| format!("journalctl: {error}"))?;
    let stdout = program.stdout.take().ok_or("journalctl: it has no output")?;
    let mut text = Vec::new();
    let mut stdout = stdout.take(JOURNAL_BYTES_MAX);
    let read = tokio::time::timeout(JOURNAL_LIMIT, stdout.read_to_end(&mut text)).await;
    read.map_err(|_| "journalctl did not end in time".to_owned())?.map_err(|error| format!("journalctl: {error}"))?;
    match text.is_empty() {
        true => Err(format!("the journal has no lines of {UNIT}")),
        false => Ok(String::from_utf8_lossy(&text).into_owned()),
    }
}
