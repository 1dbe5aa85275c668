//! The node's own logs: files below `/var/log`, and the journal.
//!
//! Owned by the server. Keeps the directory's path. A link is followed as long as it stays below the directory, also one
//! with a whole path, as the links of containers' logs are; nothing outside is opened (SEC-15). Programs are given words,
//! never a shell's line (SEC-16).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use rustix::fs::FileType;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Semaphore;

use super::log_reader::Admission;
use crate::platform::files::safe_path::{Directory, Mounts};
use crate::platform::host::blocking;

/// Links on the way to one file.
const LINKS_MAX: usize = 40;
/// Read at once.
const BLOCK: usize = 256 * 1024;
/// Readers at once.
const READERS_MAX: usize = 64;
/// The most bytes that the list of the journal's units may take.
const UNITS_BYTES_MAX: u64 = 4 << 20;
/// How long the journal may take to list its units.
const UNITS_LIMIT: Duration = Duration::from_secs(10);
/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The target of a path.
#[derive(Debug)]
pub enum NodeLog {
    /// A directory: its names, sorted, those of directories with a `/` behind; and when it last changed.
    Folder(Vec<String>, SystemTime),
    /// A regular file, its length in bytes, and when it last changed.
    File(NodeLogFile, u64, SystemTime),
}

/// An open file.
#[derive(Clone, Debug)]
pub struct NodeLogFile(Arc<File>);

impl NodeLogFile {
    /// Bytes at a place: at most `limit`, and some hundred KiB; none at the end.
    ///
    /// # Errors
    /// The kernel's error.
    pub async fn read_at(&self, place: u64, limit: u64) -> io::Result<Bytes> {
        let file = Arc::clone(&self.0);
        let read = move || {
            let mut block = vec![0; BLOCK.min(usize::try_from(limit).unwrap_or(BLOCK))];
            let length = file.read_at(&mut block, place)?;
            block.truncate(length);
            Ok(Bytes::from(block))
        };
        blocking::run(read).await
    }
}

/// The journal's answer, as it comes.
pub struct JournalOutput {
    _child: Child,
    output: ChildStdout,
}

impl JournalOutput {
    /// More of it; none at its end.
    ///
    /// # Errors
    /// The kernel's error.
    pub async fn read(&mut self) -> io::Result<Bytes> {
        let mut block = Vec::with_capacity(BLOCK);
        self.output.read_buf(&mut block).await?;
        Ok(Bytes::from(block))
    }
}

/// See the module.
#[async_trait]
pub trait NodeLogs: Send + Sync {
    /// Room for one more reader; `None` when there are as many as may be at once.
    fn admit(&self) -> Option<Admission>;
    /// Opens what a path, relative to the directory, names.
    async fn open(&self, path: &str) -> io::Result<NodeLog>;
    /// The units that the journal knows, a line each.
    async fn units(&self) -> io::Result<String>;
    /// Asks the journal. Its complaints come with its answer. Dropping the answer ends the program.
    fn journal(&self, arguments: &[String]) -> io::Result<JournalOutput>;
}

/// [`NodeLogs`] of a real node.
pub struct LinuxNodeLogs {
    root: Arc<PathBuf>,
    journal: PathBuf,
    readers: Arc<Semaphore>,
}

impl LinuxNodeLogs {
    /// Files below `root`, absolute; the journal's program by its name or path.
    pub fn new(root: PathBuf, journal: PathBuf) -> Self {
        Self { root: Arc::new(root), journal, readers: Arc::new(Semaphore::new(READERS_MAX)) }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.journal);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| PATH.into()))
            .env("LC_ALL", "C.UTF-8");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        command
    }
}

#[async_trait]
impl NodeLogs for LinuxNodeLogs {
    fn admit(&self) -> Option<Admission> {
        Arc::clone(&self.readers).try_acquire_owned().ok()
    }

    async fn open(&self, path: &str) -> io::Result<NodeLog> {
        let (root, path) = (Arc::clone(&self.root), path.to_owned());
        blocking::run(move || open(&root, &path)).await
    }

    async fn units(&self) -> io::Result<String> {
        let mut child = self.command().args(["--field", "_SYSTEMD_UNIT"]).stderr(Stdio::null()).spawn()?;
        let Some(output) = child.stdout.take() else { return Ok(String::new()) };
        let mut units = vec![];
        let mut output = output.take(UNITS_BYTES_MAX);
        let read = tokio::time::timeout(UNITS_LIMIT, output.read_to_end(&mut units)).await;
        read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        Ok(String::from_utf8_lossy(&units).into_owned())
    }

    fn journal(&self, arguments: &[String]) -> io::Result<JournalOutput> {
        let mut command = self.command();
        command.args(arguments);
        // Both on one way, so that they come in order.
        let (read, write) = io::pipe()?;
        command.stdout(write.try_clone()?).stderr(write);
        let child = command.spawn()?;
        drop(command);
        let output = ChildStdout::from_std(std::process::ChildStdout::from(std::os::fd::OwnedFd::from(read)))?;
        Ok(JournalOutput { _child: child, output })
    }
}

/// Opens what a path names, link by link: each step is one that no link is part of.
fn open(root: &Path, path: &str) -> io::Result<NodeLog> {
    let top = Directory::open(root)?;
    let mut segments = below(&[], Path::new(path.trim_start_matches('/')))?;
    for _ in 0..=LINKS_MAX {
        let names: Vec<&str> = segments.iter().map(String::as_str).collect();
        match open_plain(&top, &names) {
            Err(error) if is_link(&error) => segments = follow(root, &top, &segments)?,
            opened => return opened,
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}

fn open_plain(top: &Directory, names: &[&str]) -> io::Result<NodeLog> {
    let Some((&name, parents)) = names.split_last() else { return list(top) };
    let within;
    let folder = match parents {
        [] => top,
        parents => {
            within = top.directory(parents, Mounts::Cross)?;
            &within
        }
    };
    match folder.kind(name)? {
        Some(FileType::Directory) => list(&folder.directory(&[name], Mounts::Cross)?),
        Some(FileType::RegularFile) => match folder.read_regular(&[name], Mounts::Cross)? {
            Some(file) => {
                let found = file.metadata()?;
                Ok(NodeLog::File(NodeLogFile(Arc::new(file)), found.len(), found.modified()?))
            }
            None => Err(refused("it is not a regular file")),
        },
        Some(FileType::Symlink) => Err(rustix::io::Errno::LOOP.into()),
        Some(_) => Err(refused("it is not a regular file")),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

fn list(folder: &Directory) -> io::Result<NodeLog> {
    let names = folder.names()?.into_iter();
    let names = names.map(|(name, kind)| if kind == FileType::Directory { name + "/" } else { name }).collect();
    let found = rustix::fs::fstat(folder)?;
    let seconds = u64::try_from(found.st_mtime).unwrap_or(0);
    Ok(NodeLog::Folder(names, SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)))
}

/// The path with its first link replaced by what that leads to.
fn follow(root: &Path, top: &Directory, segments: &[String]) -> io::Result<Vec<String>> {
    for (index, name) in segments.iter().enumerate() {
        let parents: Vec<&str> = segments[..index].iter().map(String::as_str).collect();
        let target = match parents.as_slice() {
            [] => top.link_target(name)?,
            parents => top.directory(parents, Mounts::Cross)?.link_target(name)?,
        };
        let Some(target) = target else { continue };
        let mut replaced = match target.strip_prefix(root) {
            Ok(within) => below(&[], within)?,
            Err(_) if target.is_absolute() => return Err(refused("it is a link to elsewhere")),
            Err(_) => below(&segments[..index], &target)?,
        };
        replaced.extend_from_slice(&segments[index + 1..]);
        return Ok(replaced);
    }
    // The link has been replaced meanwhile.
    Ok(segments.to_vec())
}

/// The segments of a path from a directory; an error when it leads above the top.
fn below(from: &[String], path: &Path) -> io::Result<Vec<String>> {
    let mut segments = from.to_vec();
    for component in path.components() {
        match component {
            Component::Normal(name) => {
                let name = name.to_str().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
                segments.push(name.to_owned());
            }
            Component::CurDir => {}
            Component::ParentDir => drop(segments.pop().ok_or_else(|| refused("it leads out of the log directory"))?),
            Component::RootDir | Component::Prefix(_) => return Err(refused("it leads out of the log directory")),
        }
    }
    Ok(segments)
}

fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn logs(root: &Path) -> LinuxNodeLogs {
        LinuxNodeLogs::new(root.to_owned(), "/bin/echo".into())
    }

    async fn text(logs: &LinuxNodeLogs, path: &str) -> Result<String, io::ErrorKind> {
        match logs.open(path).await.map_err(|error| error.kind())? {
            NodeLog::Folder(names, _) => Ok(names.join(" ")),
            NodeLog::File(file, length, _) => {
                let bytes = file.read_at(0, length).await.map_err(|error| error.kind())?;
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
        }
    }

    /// SEC-15, SRV-31: links lead wherever they like below the directory, and nowhere else.
    #[tokio::test]
    async fn sec_15_nothing_outside_is_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("log");
        fs::create_dir_all(root.join("pods/web")).expect("made");
        fs::create_dir(root.join("containers")).expect("made");
        fs::write(root.join("pods/web/0.log"), "words").expect("written");
        fs::write(folder.path().join("secret"), "secret").expect("written");
        let link = |to: &Path, from: &str| symlink(to, root.join(from)).expect("linked");
        link(&root.join("pods/web/0.log"), "containers/web.log");
        link(Path::new("../pods"), "containers/pods");
        link(Path::new("containers/web.log"), "twice");
        link(&folder.path().join("secret"), "absolute");
        link(Path::new("../secret"), "relative");
        link(folder.path(), "folder");
        link(Path::new("loop"), "loop");
        rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .expect("made");
        let logs = logs(&root);
        for path in [
            "pods/web/0.log",
            "/pods/web/0.log",
            "containers/web.log",
            "containers/pods/web/0.log",
            "twice",
            "pods/../twice",
        ] {
            assert_eq!(text(&logs, path).await.as_deref(), Ok("words"), "{path}");
        }
        assert_eq!(text(&logs, "containers").await.as_deref(), Ok("pods web.log"));
        assert_eq!(text(&logs, "pods").await.as_deref(), Ok("web/"));
        for path in ["absolute", "relative", "folder/secret", "folder", "../secret", "pods/../../secret", "fifo"] {
            assert_eq!(text(&logs, path).await, Err(io::ErrorKind::PermissionDenied), "{path}");
        }
        assert_eq!(text(&logs, "none").await, Err(io::ErrorKind::NotFound));
        assert!(text(&logs, "loop").await.is_err() && text(&logs, "pods/web/0.log/x").await.is_err());
    }

    /// SEC-16: what the program is given is what was said, word by word.
    #[tokio::test]
    async fn the_journal_is_given_words() {
        let logs = logs(Path::new("/nowhere"));
        let words = ["--unit=a; id", "--grep=$(id) `id` 'x' \"y\"", ""].map(str::to_owned);
        let mut output = logs.journal(&words).expect("begun");
        let mut said = vec![];
        loop {
            let part = output.read().await.expect("read");
            if part.is_empty() {
                break;
            }
            said.extend_from_slice(&part);
        }
        assert_eq!(String::from_utf8_lossy(&said), "--unit=a; id --grep=$(id) `id` 'x' \"y\" \n");
        assert_eq!(logs.units().await.expect("listed"), "--field _SYSTEMD_UNIT\n");
    }
}
