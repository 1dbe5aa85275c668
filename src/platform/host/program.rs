//! Programs of others that the agent runs for a while: one that is cut off takes with it what it started, and none hears what
//! the service manager tells the agent alone.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::{Deref, DerefMut};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

/// Variables by which the service manager speaks to the agent alone: where it reports to, what it was started with, and where
/// its secrets are.
const OF_THE_AGENT: &[&str] = &[
    "CREDENTIALS_DIRECTORY",
    "FDSTORE",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "MAINPID",
    "MANAGERPID",
    "MEMORY_PRESSURE_WATCH",
    "MEMORY_PRESSURE_WRITE",
    "MONITOR_METADATA",
    "NOTIFY_SOCKET",
    "SYSTEMD_EXEC_PID",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];
/// Variables of the agent's environment that tools of the host get.
const OF_TOOLS: &[&str] = &["HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ"];

/// The environment of a program, beside the variables that its caller sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Environment {
    /// The little that a tool of the host needs.
    Tool,
    /// The agent's own, as upstream promises it to plugins, but for what is the agent's alone.
    Plugin,
}

impl Environment {
    fn withholds(self, name: &OsStr) -> bool {
        let is_in = |names: &[&str]| names.iter().any(|known| *known == name);
        match self {
            Self::Tool => !is_in(OF_TOOLS),
            Self::Plugin => is_in(OF_THE_AGENT),
        }
    }

    /// Of these variables those that a program does not get, where its caller sets `given` itself.
    fn withheld(self, own: impl Iterator<Item = OsString>, given: &[OsString]) -> Vec<OsString> {
        own.filter(|name| self.withholds(name) && !given.contains(name)).collect()
    }
}

/// A program in a process group of its own. Dropped before it was waited for, it is killed with the whole group; what one
/// that ended left running is its own affair.
#[derive(Debug)]
pub struct Program(Child);

impl Program {
    /// Starts a tool of the host, with the little of the agent's environment that it needs.
    ///
    /// # Errors
    /// The kernel's: there is no such program, or it may not be run.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        Self::start_in(Environment::Tool, command)
    }

    /// Starts a plugin, which upstream promises the agent's environment: without what the service manager tells the agent
    /// alone.
    ///
    /// # Errors
    /// As [`Program::start`].
    pub fn start_plugin(command: &mut Command) -> io::Result<Self> {
        Self::start_in(Environment::Plugin, command)
    }

    fn start_in(environment: Environment, command: &mut Command) -> io::Result<Self> {
        let given: Vec<OsString> = command.as_std().get_envs().map(|(name, _)| name.to_owned()).collect();
        for name in environment.withheld(std::env::vars_os().map(|(name, _)| name), &given) {
            command.env_remove(name);
        }
        command.process_group(0).kill_on_drop(true).spawn().map(Self)
    }
}

impl Deref for Program {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Program {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that was waited for has no number any more: it may be another's by now.
        if let Some(group) = self.0.id().and_then(|id| i32::try_from(id).ok()).filter(|id| *id > 0) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL); // It may have ended, unseen.
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;

    /// Starts a shell that starts a sleep, and gives the sleep's process ID.
    async fn with_a_child(after: &str) -> (Program, u32) {
        let script = format!("sleep 1000 >/dev/null & echo $!; {after}");
        let mut program =
            Program::start(Command::new("sh").arg("-c").arg(script).stdout(Stdio::piped())).expect("runs");
        let mut line = String::new();
        let stdout = program.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).await.expect("told");
        (program, line.trim().parse().expect("a number"))
    }

    /// Whether it has neither ended nor been killed; a killed one may wait for somebody to take note.
    fn runs(pid: u32) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
    }

    fn kill(pid: u32) {
        let pid = Pid::from_raw(i32::try_from(pid).expect("small"));
        nix::sys::signal::kill(pid, Signal::SIGKILL).expect("it runs");
    }

    #[test]
    fn what_the_service_manager_tells_the_agent_alone_is_told_to_nobody_else() {
        let own =
            ["PATH", "HOME", "NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY", "WATCHDOG_USEC", "AWS_REGION", "https_proxy"];
        let withheld = |environment: Environment, given: &[&str]| {
            let given: Vec<OsString> = given.iter().map(Into::into).collect();
            environment.withheld(own.iter().map(Into::into), &given)
        };
        let of_the_agent = ["NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY", "WATCHDOG_USEC"];
        assert_eq!(withheld(Environment::Plugin, &[]), of_the_agent);
        assert_eq!(withheld(Environment::Tool, &["AWS_REGION"]), [&of_the_agent[..], &["https_proxy"]].concat());
    }

    /// A tool does not get the agent's environment, and a plugin does. Cargo sets this variable for tests.
    #[tokio::test]
    async fn a_tool_has_a_clean_environment() {
        let variable = "CARGO_MANIFEST_DIR";
        assert!(std::env::var_os(variable).is_some());
        let script = format!("echo \"[${variable}] [$GIVEN] [${{PATH:+path}}]\"");
        let of_a_plugin = format!("[{}] [yes] [path]", env!("CARGO_MANIFEST_DIR"));
        for (environment, expected) in [(Environment::Tool, "[] [yes] [path]"), (Environment::Plugin, &of_a_plugin)] {
            let mut command = Command::new("sh");
            command.args(["-c", &script]).env("GIVEN", "yes").stdout(Stdio::piped());
            let mut program = Program::start_in(environment, &mut command).expect("runs");
            let mut line = String::new();
            let stdout = program.stdout.take().expect("piped");
            BufReader::new(stdout).read_line(&mut line).await.expect("told");
            program.wait().await.expect("ended");
            assert_eq!(line.trim(), expected);
        }
    }

    /// CVE-2024-21626: no program gets a descriptor of the agent's, whatever the agent has open.
    #[tokio::test]
    async fn cve_2024_21626_a_program_inherits_no_descriptor() {
        let folder = tempfile::tempdir().expect("a folder");
        let _file = std::fs::File::create(folder.path().join("file")).expect("made");
        let _folder = crate::platform::files::safe_path::Directory::open(folder.path()).expect("opened");
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).expect("bound");
        let mut listing = Command::new("sh");
        // The shell lists by itself: one descriptor more is of the folder that it reads.
        listing.args(["-c", "for one in /proc/$$/fd/*; do readlink $one; done"]);
        let program = Program::start(listing.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut program = program.expect("runs");
        let mut said = String::new();
        let mut stdout = program.stdout.take().expect("piped");
        tokio::io::AsyncReadExt::read_to_string(&mut stdout, &mut said).await.expect("told");
        let path = folder.path().display().to_string();
        assert!(said.contains("/dev/null") && said.contains("pipe:"), "{said}");
        assert!(!said.contains(&path) && !said.contains("socket:"), "{said}");
        program.wait().await.expect("ended");
    }

    #[tokio::test]
    async fn one_that_is_cut_off_takes_with_it_what_it_started() {
        let (program, child) = with_a_child("wait").await;
        assert!(runs(child));
        drop(program);
        let ends = async {
            while runs(child) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(60), ends).await;
        if ended.is_err() {
            kill(child);
        }
        ended.expect("its child goes on");
    }

    #[tokio::test]
    async fn what_one_that_ended_left_behind_is_left_alone() {
        let (mut program, child) = with_a_child("exit 0").await;
        assert!(program.wait().await.expect("ended").success());
        drop(program);
        assert!(runs(child));
        kill(child);
    }
}
