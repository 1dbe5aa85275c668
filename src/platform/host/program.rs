//! Programs of others that the agent runs for a while: one that is cut off takes with it what it started.

use std::io;
use std::ops::{Deref, DerefMut};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

/// A program in a process group of its own. Dropped before it was waited for, it is killed with the whole group; what one
/// that ended left running is its own affair.
#[derive(Debug)]
pub struct Program(Child);

impl Program {
    /// Starts it.
    ///
    /// # Errors
    /// The kernel's: there is no such program, or it may not be run.
    pub fn start(command: &mut Command) -> io::Result<Self> {
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
