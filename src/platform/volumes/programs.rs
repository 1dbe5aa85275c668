//! Programs of the host: mount, umount, mkfs, losetup and their like, as upstream calls them. Keeps nothing.
//!
//! Their arguments are words, never a shell's line. Their output goes to a file in memory: a helper that lives on, as
//! those of NFS do, holds nobody up by an open pipe.

pub(super) mod machine;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// No more of what a program printed is looked at.
const OUTPUT_BYTES_MAX: u64 = 16 << 10;
/// Where programs are looked for when the agent was started without a path.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With this code.
    Code(i32),
    /// By a signal.
    Signal,
    /// It did not end in time, and was killed.
    TooLate,
    /// It could not be started.
    NotStarted(String),
}

impl fmt::Display for End {
    /// As Go prints it in upstream's texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit status {code}"),
            Self::Signal => f.write_str("signal: killed"),
            Self::TooLate => f.write_str("context deadline exceeded"),
            Self::NotStarted(why) => f.write_str(why),
        }
    }
}

/// The run of a program.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    /// Its output, on both ways.
    pub(super) output: String,
}

impl Ended {
    pub(super) fn is_ok(&self) -> bool {
        self.end == End::Code(0)
    }
}

/// Runs a program to its end, or to the limit: then it is killed, and not waited for, because one that waits in the kernel
/// for a file system dies only when that answers.
pub(super) fn run(program: &str, arguments: &[&str], limit: Option<Duration>) -> Ended {
    match try_run(program, arguments, limit) {
        Ok(ended) => ended,
        Err(error) => {
            let why = match error.kind() {
                io::ErrorKind::NotFound => format!("exec: \"{program}\": executable file not found in $PATH"),
                _ => format!("{program}: {error}"),
            };
            Ended { end: End::NotStarted(why), output: String::new() }
        }
    }
}

fn try_run(program: &str, arguments: &[&str], limit: Option<Duration>) -> io::Result<Ended> {
    let mut printed = File::from(rustix::fs::memfd_create("printed", MemfdFlags::CLOEXEC)?);
    let path = std::env::var("PATH").unwrap_or_else(|_| PATH.to_owned());
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", path)
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(printed.try_clone()?)
        .stderr(printed.try_clone()?)
        .spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("invariant: a child has a process ID");
    let handle = pidfd_open(pid, PidfdFlags::empty());
    let (tell, told) = mpsc::channel();
    std::thread::Builder::new().name("vol program".to_owned()).spawn(move || {
        let _ = tell.send(child.wait()); // Nobody waits any more for one that came too late.
    })?;
    let ended = match limit {
        Some(limit) => told.recv_timeout(limit).ok(),
        None => told.recv().ok(),
    };
    let end = match ended {
        Some(status) => status?.code().map_or(End::Signal, End::Code),
        None => {
            if let Ok(handle) = handle {
                let _ = pidfd_send_signal(handle, Signal::KILL); // It may have ended by now.
            }
            End::TooLate
        }
    };
    let mut output = Vec::new();
    printed.rewind()?;
    printed.take(OUTPUT_BYTES_MAX).read_to_end(&mut output)?;
    Ok(Ended { end, output: String::from_utf8_lossy(&output).into_owned() })
}

/// Why the host's program did not mount; upstream's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("mount failed: {end}\nMounting command: mount\nMounting arguments: {arguments}\nOutput: {output}\n")]
pub(super) struct MountError {
    end: End,
    arguments: String,
    output: String,
}

/// Mounts by the host's program. `kind` may be empty, as for a second step of a bind mount.
///
/// # Errors
/// See [`MountError`].
pub(super) fn mount(kind: &str, options: &[&str], source: &str, target: &Path) -> Result<(), MountError> {
    let target = target.display().to_string();
    let arguments = mount_arguments(kind, options, source, &target);
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ended = run("mount", &words, None);
    if ended.is_ok() {
        return Ok(());
    }
    Err(MountError { end: ended.end, arguments: words.join(" "), output: ended.output })
}

fn mount_arguments(kind: &str, options: &[&str], source: &str, target: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    if !kind.is_empty() {
        arguments.extend(["-t".to_owned(), kind.to_owned()]);
    }
    if !options.is_empty() {
        arguments.extend(["-o".to_owned(), options.join(",")]);
    }
    if !source.is_empty() {
        arguments.push(source.to_owned());
    }
    arguments.push(target.to_owned());
    arguments
}

/// Unmounts by the host's program, which knows what kinds of file systems want to hear of it.
///
/// # Errors
/// How it ended, and upstream's text.
pub(super) fn unmount(target: &Path, force: bool, limit: Option<Duration>) -> Result<(), (End, String)> {
    let target = target.display().to_string();
    let words: &[&str] = if force { &["-f", &target] } else { &[&target] };
    let ended = run("umount", words, limit);
    if ended.is_ok() {
        return Ok(());
    }
    let text =
        format!("unmount failed: {}\nUnmounting arguments: {}\nOutput: {}\n", ended.end, words.join(" "), ended.output);
    Err((ended.end, text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::platform::files::safe_path::Directory;

    #[test]
    fn mounts_are_asked_for_in_upstreams_words() {
        let words = |kind, options: &[&str], source| mount_arguments(kind, options, source, "/t").join(" ");
        assert_eq!(words("nfs", &[], "s:/x"), "-t nfs s:/x /t");
        assert_eq!(words("nfs", &["nfsvers=4.1", "ro"], "s:/x"), "-t nfs -o nfsvers=4.1,ro s:/x /t");
        assert_eq!(words("", &["bind", "remount", "noexec"], ""), "-o bind,remount,noexec /t");
    }

    #[test]
    fn an_end_and_what_was_printed_are_told() {
        let ended = run("sh", &["-c", "echo out; echo err >&2; exit 3"], None);
        assert_eq!((ended.end.to_string().as_str(), ended.output.as_str()), ("exit status 3", "out\nerr\n"));
        let missing = run("no-such-program", &[], None).end.to_string();
        assert_eq!(missing, "exec: \"no-such-program\": executable file not found in $PATH");
        assert_eq!(run("sleep", &["600"], Some(Duration::from_millis(20))).end, End::TooLate);
    }

    #[test]
    fn a_program_whose_child_lives_on_ends_all_the_same() {
        let ended = run("sh", &["-c", "sleep 5 & echo gone"], None);
        assert_eq!((ended.end, ended.output.as_str()), (End::Code(0), "gone\n"));
    }

    #[test]
    fn words_are_not_a_shells_line() {
        assert_eq!(run("echo", &["$(id)", "; id", "*"], None).output, "$(id) ; id *\n");
    }

    /// CVE-2024-21626: a program of the host gets three descriptors and the root directory, whatever the agent has open and
    /// wherever it runs. A mount helper inherits both from `mount`.
    #[test]
    fn cve_2024_21626_a_program_of_the_host_gets_no_descriptor_and_no_directory_of_the_agent() {
        let folder = tempfile::tempdir().expect("a folder");
        let _file = File::create(folder.path().join("file")).expect("made");
        let _folder = Directory::open(folder.path()).expect("opened");
        let _socket = UnixListener::bind(folder.path().join("socket")).expect("bound");
        // The shell itself expands the pattern: its descriptor of the folder is closed again when `readlink` runs.
        let list = "for one in /proc/$$/fd/*; do readlink $one && echo ${one##*/}; done; pwd";
        let said = run("sh", &["-c", list], None).output;
        let (printed, own) = ("/memfd:printed (deleted)", folder.path().display().to_string());
        assert!(said.starts_with(&format!("/dev/null\n0\n{printed}\n1\n")), "{said}");
        assert!(said.contains(&format!("{printed}\n2\n")) && said.ends_with("\n/\n"), "{said}");
        assert_eq!(said.matches("memfd:").count(), 2, "{said}");
        assert!(!said.contains(&own) && !said.contains("socket:"), "{said}");
        assert_ne!(std::env::current_dir().expect("there"), Path::new("/"), "the directory shows nothing");
    }

    #[test]
    fn a_mount_that_fails_says_so_in_upstreams_words() {
        let error = mount("no-such-kind", &["ro"], "none", Path::new("/proc")).expect_err("no such kind").to_string();
        assert!(error.starts_with("mount failed: exit status "), "{error}");
        let rest = "\nMounting command: mount\nMounting arguments: -t no-such-kind -o ro none /proc\nOutput: ";
        assert!(error.contains(rest), "{error}");
    }
}
