//! Lookups of names that pods choose: by the node's hosts file and its name servers, as Go's resolver does it.
//!
//! A lookup is a future and no thread. Askers of one name share it, and with the last of them it ends: a server that is
//! silent costs two sockets for as long as a probe lasts. Keeps the two files for a while, and the lookups under way.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use super::{ADDRESSES_MAX, exchange};
use crate::logic::network::name_lookup::message::{Family, Question, Reply};
use crate::logic::network::name_lookup::{LookupSettings, NameServer, hosts, in_order};
use crate::platform::host::blocking;
use crate::platform::host::blocking::lookup::{LookupError, LookupProblem, zoned};
use crate::platform::host::chance::unforeseen;
use crate::platform::host::clock::{Clock, SystemClock};

/// Names that are looked up at a time.
const LOOKUPS_MAX: usize = 1024;
/// How long the files' content counts as fresh, as with Go's resolver.
const FILES_FRESH: Duration = Duration::from_secs(5);
/// How long a lookup waits for files that were read before and are read again.
const FILES_PATIENCE: Duration = Duration::from_millis(500);
/// The most bytes of each file that are read.
const FILE_BYTES_MAX: u64 = 1 << 20;
const PORT: u16 = 53;

type Outcome = Result<Vec<IpAddr>, LookupError>;
type Lookup = BoxFuture<'static, Outcome>;

/// See the module.
pub struct NameServers {
    folder: PathBuf,
    port: u16,
    fresh: Duration,
    clock: SystemClock,
    files: tokio::sync::Mutex<Option<Files>>,
    under_way: Mutex<BTreeMap<String, WeakShared<Lookup>>>,
    /// The server that the next lookup begins with, where they take turns.
    turn: AtomicUsize,
}

/// The content of both files, and the uptime at which it was read.
#[derive(Clone)]
struct Files {
    read_at: Duration,
    content: Arc<Content>,
}

struct Content {
    settings: LookupSettings,
    hosts: String,
}

impl fmt::Debug for NameServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameServers").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl NameServers {
    /// The name servers of this machine.
    pub fn of_machine() -> Self {
        Self::of(PathBuf::from("/etc"), PORT, FILES_FRESH)
    }

    /// Those that the files `resolv.conf` and `hosts` of a folder name, at this port.
    pub(super) fn of(folder: PathBuf, port: u16, fresh: Duration) -> Self {
        Self {
            folder,
            port,
            fresh,
            clock: SystemClock::start(),
            files: tokio::sync::Mutex::default(),
            under_way: Mutex::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// The addresses of a name; one at least.
    ///
    /// # Errors
    /// The name has none, or no server says so.
    pub async fn find(self: &Arc<Self>, name: &str) -> Outcome {
        self.join(name)?.await
    }

    /// The lookup of this name that is under way, or a new one.
    fn join(self: &Arc<Self>, name: &str) -> Result<Shared<Lookup>, LookupError> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lookup) = under_way.get(name).and_then(WeakShared::upgrade) {
            return Ok(lookup);
        }
        under_way.retain(|_, lookup| lookup.upgrade().is_some());
        if under_way.len() >= LOOKUPS_MAX {
            return Err(LookupError { name: name.to_owned(), server: None, problem: LookupProblem::Busy });
        }
        let (servers, asked) = (Arc::clone(self), name.to_owned());
        let lookup = async move { servers.look_up(asked).await }.boxed().shared();
        under_way.extend(lookup.downgrade().map(|lookup| (name.to_owned(), lookup)));
        Ok(lookup)
    }

    /// How many lookups are under way.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        let under_way = self.under_way.lock().expect("not poisoned");
        under_way.values().filter(|lookup| lookup.upgrade().is_some()).count()
    }

    async fn look_up(&self, name: String) -> Outcome {
        let content = self.content().await;
        let known = hosts::addresses(&content.hosts, &name, ADDRESSES_MAX);
        if !known.is_empty() {
            return Ok(known);
        }
        let settings = &content.settings;
        let first = if settings.rotates { self.turn.fetch_add(1, Ordering::Relaxed) } else { 0 };
        let mut failure = None;
        for candidate in settings.candidates(&name) {
            match self.ask_for_both(settings, first, &candidate).await {
                Ok(found) => return Ok(dialling_order(found)),
                // The word on the name itself counts more than that on one with a search domain.
                Err(problem) if candidate.trim_end_matches('.') == name => failure = Some(problem),
                Err(problem) => drop(failure.get_or_insert(problem)),
            }
        }
        let (server, problem) = failure.unwrap_or((None, LookupProblem::NoSuchHost));
        Err(LookupError { name, server, problem })
    }

    /// The addresses of both families; one at least.
    async fn ask_for_both(&self, settings: &LookupSettings, first: usize, name: &str) -> Asked {
        let four = self.ask_for(settings, first, name, Family::V4);
        let six = self.ask_for(settings, first, name, Family::V6);
        let (four, six) = if settings.one_by_one { (four.await, six.await) } else { tokio::join!(four, six) };
        match (four, six) {
            (Ok(mut found), Ok(more)) => {
                found.extend(more);
                Ok(found)
            }
            (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
            // That no server answered says more than that one knows no address of the other family.
            (Err((_, LookupProblem::NoSuchHost)), Err(problem)) | (Err(problem), Err(_)) => Err(problem),
        }
    }

    /// The addresses of one family; one at least.
    async fn ask_for(&self, settings: &LookupSettings, first: usize, name: &str, family: Family) -> Asked {
        let mut failure = (None, LookupProblem::NoSuchHost);
        for _ in 0..settings.attempts {
            for number in 0..settings.servers.len() {
                let server = &settings.servers[(first + number) % settings.servers.len()];
                let Some(address) = self.address_of(server) else { continue };
                let question = Question::new(unforeseen(), name, family);
                let answer = exchange::ask(address, &question, settings.by_tcp);
                let problem = match tokio::time::timeout(settings.timeout, answer).await {
                    Ok(Ok(Reply::Addresses(found))) if !found.is_empty() => return Ok(found),
                    Ok(Ok(Reply::Addresses(_) | Reply::NoSuchName)) => {
                        return Err((Some(address), LookupProblem::NoSuchHost));
                    }
                    Ok(Ok(Reply::Foreign | Reply::Cut | Reply::Failed)) => LookupProblem::Misbehaving,
                    Ok(Err(error)) => LookupProblem::Unreachable(kernel_text(&error)),
                    Err(_) => LookupProblem::Timeout,
                };
                failure = (Some(address), problem);
            }
        }
        Err(failure)
    }

    fn address_of(&self, server: &NameServer) -> Option<SocketAddr> {
        zoned(server.ip, &server.zone, self.port)
    }

    /// The files' content. Content that is no longer fresh serves on while the disk does not answer.
    async fn content(&self) -> Arc<Content> {
        let mut files = self.files.lock().await;
        let now = self.clock.uptime();
        let folder = self.folder.clone();
        let read = blocking::run(move || Arc::new(Content::read(&folder)));
        let content = match &*files {
            Some(kept) if now.saturating_sub(kept.read_at) < self.fresh => return Arc::clone(&kept.content),
            Some(kept) => {
                tokio::time::timeout(FILES_PATIENCE, read).await.unwrap_or_else(|_| Arc::clone(&kept.content))
            }
            None => read.await,
        };
        *files = Some(Files { read_at: now, content: Arc::clone(&content) });
        content
    }
}

type Asked = Result<Vec<IpAddr>, (Option<SocketAddr>, LookupProblem)>;

impl Content {
    fn read(folder: &Path) -> Self {
        let hostname = nix::unistd::gethostname().unwrap_or_default();
        let settings = LookupSettings::parse(&text(&folder.join("resolv.conf")), &hostname.to_string_lossy());
        Self { settings, hosts: text(&folder.join("hosts")) }
    }
}

/// The beginning of a file; nothing of one that cannot be read, as with Go's resolver.
fn text(path: &Path) -> String {
    let mut bytes = vec![];
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    if let Err(error) = read {
        tracing::debug!(path = %path.display(), %error, "names of pods are looked up without this file");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Asks the kernel's routes from which of the node's addresses each would be reached; nothing is sent.
fn dialling_order(found: Vec<IpAddr>) -> Vec<IpAddr> {
    if found.iter().all(IpAddr::is_ipv4) || found.iter().all(IpAddr::is_ipv6) {
        return found;
    }
    let from = |to: IpAddr| {
        let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((to, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    in_order(found.into_iter().map(|to| (to, from(to))).collect())
}

/// The kernel's words for an error, as Go writes them: lower case, without the number.
fn kernel_text(error: &std::io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase()
}
