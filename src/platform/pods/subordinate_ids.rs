//! The host's IDs that an administrator gave to the pods' user namespaces, as the program `getsubids` prints them (RES-63).
//!
//! Asked once, at the start. The program may ask a directory on the network: so may the look for the user.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::unistd::User;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::logic::resources::user_namespaces::space::SUBORDINATE_USER;
use crate::platform::host::blocking;
use crate::platform::host::program::Program;

const PROGRAM: &str = "getsubids";
/// The longest wait for the user, and for each run of the program. Upstream waits for ever.
const TIME_MAX: Duration = Duration::from_secs(30);
/// No more of what the program prints is read: one range is a line.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;
/// Where programs are looked for when the agent was started without a path.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why the IDs are not known; upstream's texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubordinateIdsError {
    /// Nobody says whether there is the user.
    #[error("user: lookup username {SUBORDINATE_USER}: {0}")]
    User(String),
    /// The program gives no users.
    #[error("error retrieving additional uids for user {SUBORDINATE_USER:?}: {0}")]
    Users(RunError),
    /// The program gives no groups.
    #[error("error retrieving additional gids for user {SUBORDINATE_USER:?}")]
    Groups,
}

/// Why the program gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// It cannot be run.
    #[error("fork/exec {PROGRAM}: {0}")]
    NotStarted(String),
    /// It failed, with this code.
    #[error("exit status {0}")]
    Failed(i32),
    /// It was killed.
    #[error("{0}")]
    Killed(String),
    /// It did not end in time.
    #[error("no answer within {0:?}")]
    Late(Duration),
}

/// The words of the program about users and about groups; `None` where nobody was given any, because there is no such user
/// or no such program.
///
/// # Errors
/// When there are both, and the program does not say.
pub async fn ask() -> Result<Option<[String; 2]>, SubordinateIdsError> {
    let found = tokio::time::timeout(TIME_MAX, blocking::run(|| User::from_name(SUBORDINATE_USER))).await;
    let found = found.map_err(|_| SubordinateIdsError::User("no answer in time".to_owned()))?;
    if found.map_err(|errno| SubordinateIdsError::User(errno.desc().to_owned()))?.is_none() {
        tracing::debug!(user = SUBORDINATE_USER, "user namespaces: user not found, using default mappings");
        return Ok(None);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| PATH.into());
    ask_program(&path, TIME_MAX).await
}

async fn ask_program(path: &OsStr, limit: Duration) -> Result<Option<[String; 2]>, SubordinateIdsError> {
    let Some(program) = std::env::split_paths(path).map(|folder| folder.join(PROGRAM)).find(|file| is_program(file))
    else {
        tracing::debug!(executable = PROGRAM, "user namespaces: executable not found, using default mappings");
        return Ok(None);
    };
    let users = run(&program, &[SUBORDINATE_USER], limit).await.map_err(SubordinateIdsError::Users)?;
    let groups = run(&program, &["-g", SUBORDINATE_USER], limit).await.map_err(|error| {
        tracing::error!(%error, executable = PROGRAM, "user namespaces: no groups");
        SubordinateIdsError::Groups
    })?;
    Ok(Some([users, groups]))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

async fn run(program: &Path, arguments: &[&str], limit: Duration) -> Result<String, RunError> {
    let told = |error: io::Error| RunError::NotStarted(error.to_string());
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Program::start(&mut command).map_err(told)?;
    let stdout = child.stdout.take().expect("invariant: it is piped");
    let ended = tokio::time::timeout(limit, async {
        let mut printed = vec![];
        stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut printed).await?;
        Ok((child.wait().await?, printed))
    });
    let (status, printed) = ended.await.map_err(|_| RunError::Late(limit))?.map_err(told)?;
    match status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&printed).into_owned()),
        Some(code) => Err(RunError::Failed(code)),
        None => Err(RunError::Killed(status.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::host::played_program::write_program;

    /// RES-63.
    #[tokio::test]
    async fn res_63_the_program_is_asked_for_users_and_for_groups() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = std::env::join_paths([Path::new("/nowhere"), folder.path()]).expect("a path");
        let asked = || ask_program(&path, TIME_MAX);
        assert_eq!(asked().await, Ok(None), "there is no such program");
        let program = folder.path().join(PROGRAM);
        write_program(&program, "#!/bin/sh\necho \"0: $* 65536 131072\"\n");
        let expected = ["0: kubelet 65536 131072\n", "0: -g kubelet 65536 131072\n"].map(str::to_owned);
        assert_eq!(asked().await, Ok(Some(expected)));
        write_program(&program, "#!/bin/sh\nexit 3\n");
        let told = asked().await.expect_err("it failed").to_string();
        assert_eq!(told, "error retrieving additional uids for user \"kubelet\": exit status 3");
        write_program(&program, "#!/bin/sh\n[ \"$1\" = kubelet ]\n");
        let told = asked().await.expect_err("it failed").to_string();
        assert_eq!(told, "error retrieving additional gids for user \"kubelet\"");
    }

    #[tokio::test]
    async fn a_program_that_hangs_or_goes_on_for_ever_is_killed() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join(PROGRAM);
        write_program(&program, "#!/bin/sh\nexec sleep 1000\n");
        let told = ask_program(folder.path().as_os_str(), Duration::from_millis(50)).await.expect_err("it hangs");
        let expected = "error retrieving additional uids for user \"kubelet\": no answer within 50ms";
        assert_eq!(told.to_string(), expected);
        write_program(&program, "#!/bin/sh\nexec yes\n");
        let told = ask_program(folder.path().as_os_str(), TIME_MAX).await.expect_err("it was cut off").to_string();
        assert!(told.starts_with("error retrieving additional uids for user \"kubelet\": "), "{told}");
    }
}
