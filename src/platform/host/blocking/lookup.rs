//! Lookups of names that the operator chooses, by the C library and so by all that `nsswitch.conf` names.
//!
//! Such a lookup blocks its thread and cannot be ended, half a minute long where name servers are silent. Therefore it has
//! threads of its own, a few, and each name is looked up once at a time. Keeps the askers; a thread ends when no name waits.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

/// Names that are looked up at a time. An agent asks for two or three.
const THREADS_MAX: usize = 4;
/// Names that wait for a thread.
const WAITING_MAX: usize = 64;

/// The lookups of this process: the library's configuration is the process's, too.
static LOOKUPS: LazyLock<Arc<Lookups>> =
    LazyLock::new(|| Lookups::by(|name| Ok((name, 0).to_socket_addrs()?.collect())));

type Found = Vec<SocketAddr>;
type Outcome = Result<Found, LookupProblem>;

/// The addresses of a host; one at least. The caller bounds the wait.
///
/// # Errors
/// The name has no address, or too many other names are looked up.
pub async fn find(host: &str, port: u16) -> Result<Vec<SocketAddr>, LookupError> {
    if let Some(address) = literal(host, port) {
        return Ok(vec![address]);
    }
    let found = LOOKUPS.find(host).await;
    let mut found = found.map_err(|problem| LookupError { name: host.to_owned(), server: None, problem })?;
    found.iter_mut().for_each(|address| address.set_port(port));
    Ok(found)
}

/// A host that is an address; a link-local one may name its interface.
pub fn literal(host: &str, port: u16) -> Option<SocketAddr> {
    let Some((ip, zone)) = host.split_once('%') else { return Some(SocketAddr::new(host.parse().ok()?, port)) };
    zoned(IpAddr::V6(ip.parse::<Ipv6Addr>().ok()?), zone, port)
}

/// The address on the interface that `zone` names or numbers; any where it is empty.
pub fn zoned(ip: IpAddr, zone: &str, port: u16) -> Option<SocketAddr> {
    match ip {
        IpAddr::V6(ip) if !zone.is_empty() => {
            let index = zone.parse().or_else(|_| nix::net::if_::if_nametoindex(zone)).ok()?;
            Some(SocketAddrV6::new(ip, port, 0, index).into())
        }
        ip => Some(SocketAddr::new(ip, port)),
    }
}

/// A lookup that found no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct LookupError {
    /// The name as it was given.
    pub name: String,
    /// The name server that had the last word.
    pub server: Option<SocketAddr>,
    /// Why there is no address.
    pub problem: LookupProblem,
}

/// Why a lookup found no address, in the words of Go's resolver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupProblem {
    /// The name is not known.
    #[error("no such host")]
    NoSuchHost,
    /// The servers' answers make no sense, or are refusals.
    #[error("server misbehaving")]
    Misbehaving,
    /// No server answered in time.
    #[error("i/o timeout")]
    Timeout,
    /// A server could not be asked; the kernel's words.
    #[error("{0}")]
    Unreachable(String),
    /// Too many other names are looked up.
    #[error("too many lookups are under way")]
    Busy,
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, server, problem } = self;
        match server {
            Some(server) => write!(f, "lookup {name} on {server}: {problem}"),
            None => write!(f, "lookup {name}: {problem}"),
        }
    }
}

/// The C library's lookup; another function in tests.
type Lookup = dyn Fn(&str) -> io::Result<Found> + Send + Sync;

struct Lookups {
    call: Box<Lookup>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those who wait for each name.
    askers: BTreeMap<String, Vec<oneshot::Sender<Outcome>>>,
    /// Names that no thread has taken.
    waiting: VecDeque<String>,
    threads: usize,
}

impl Lookups {
    fn by(call: impl Fn(&str) -> io::Result<Found> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { call: Box::new(call), state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn find(self: &Arc<Self>, name: &str) -> Outcome {
        let several_threads =
            Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
        if !several_threads {
            return self.call(name); // As with other blocking calls: in the simulator they run in place.
        }
        let asked = self.ask(name)?;
        asked.await.unwrap_or(Err(LookupProblem::Busy))
    }

    fn ask(self: &Arc<Self>, name: &str) -> Result<oneshot::Receiver<Outcome>, LookupProblem> {
        let (tell, told) = oneshot::channel();
        let mut state = self.state();
        if let Some(askers) = state.askers.get_mut(name) {
            askers.retain(|asker| !asker.is_closed());
            askers.push(tell);
            return Ok(told);
        }
        if state.waiting.len() >= WAITING_MAX {
            return Err(LookupProblem::Busy);
        }
        state.askers.insert(name.to_owned(), vec![tell]);
        state.waiting.push_back(name.to_owned());
        if state.threads < THREADS_MAX {
            state.threads += 1;
            let lookups = Arc::clone(self);
            let begun = std::thread::Builder::new().name("names".to_owned()).spawn(move || lookups.serve());
            if begun.is_err() {
                state.threads -= 1;
                state.waiting.retain(|waiting| waiting != name);
                state.askers.remove(name);
                return Err(LookupProblem::Busy);
            }
        }
        Ok(told)
    }

    /// Looks names up until none waits. A name whose askers have all left is passed over.
    fn serve(&self) {
        loop {
            let mut state = self.state();
            let Some(name) = state.waiting.pop_front() else {
                state.threads -= 1;
                return;
            };
            if state.askers.get(&name).is_some_and(|askers| askers.iter().all(oneshot::Sender::is_closed)) {
                state.askers.remove(&name);
                continue;
            }
            drop(state);
            let outcome = self.call(&name);
            let askers = self.state().askers.remove(&name);
            for asker in askers.into_iter().flatten() {
                let _ = asker.send(outcome.clone()); // The asker may have left.
            }
        }
    }

    fn call(&self, name: &str) -> Outcome {
        match (self.call)(name) {
            Ok(found) if !found.is_empty() => Ok(found),
            Ok(_) => Err(LookupProblem::NoSuchHost),
            Err(error) => {
                tracing::debug!(name, %error, "the name has no address");
                Err(LookupProblem::NoSuchHost)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime")
    }

    /// A library that does not answer for names that begin with `silent` until the sender is dropped; the names asked for.
    fn played() -> (Arc<Lookups>, mpsc::Sender<()>, mpsc::Receiver<String>) {
        let (release, hold) = mpsc::channel::<()>();
        let (tell, asked) = mpsc::channel();
        let (hold, tell) = (Mutex::new(hold), Mutex::new(tell));
        let lookups = Lookups::by(move |name| {
            tell.lock().expect("not poisoned").send(name.to_owned()).expect("the test goes on");
            if name.starts_with("silent") {
                let _ = hold.lock().expect("not poisoned").recv();
            }
            Ok(vec![([10, 0, 0, 7], 0).into()])
        });
        (lookups, release, asked)
    }

    /// SEC-48: where the library hangs for one name, another is found.
    #[test]
    fn a_name_is_looked_up_once_at_a_time_and_holds_up_no_other() {
        let (lookups, release, asked) = played();
        runtime().block_on(async {
            let silent: Vec<_> = (0..50).map(|_| lookups.ask("silent").expect("has room")).collect();
            assert_eq!(asked.recv().expect("begun"), "silent");
            assert_eq!(lookups.find("web").await, Ok(vec![([10, 0, 0, 7], 0).into()]));
            assert_eq!(asked.recv().expect("begun"), "web");
            drop(release);
            for asker in silent {
                asker.await.expect("answered").expect("found");
            }
            assert!(asked.try_recv().is_err(), "one lookup served all");
        });
    }

    #[test]
    fn threads_and_waiting_names_are_bounded_and_left_names_are_passed_over() {
        let (lookups, release, asked) = played();
        runtime().block_on(async {
            let names: Vec<String> = (0..THREADS_MAX + WAITING_MAX).map(|number| format!("silent-{number}")).collect();
            let (held, left) = names.split_at(THREADS_MAX);
            let held: Vec<_> = held.iter().map(|name| lookups.ask(name).expect("has room")).collect();
            for _ in &held {
                asked.recv().expect("begun");
            }
            let left: Vec<_> = left.iter().map(|name| lookups.ask(name).expect("has room")).collect();
            assert_eq!(lookups.find("one more").await, Err(LookupProblem::Busy));
            assert_eq!(lookups.state().threads, THREADS_MAX);
            drop(left);
            drop(release);
            for asker in held {
                asker.await.expect("answered").expect("found");
            }
            let found = loop {
                match lookups.find("web").await {
                    Err(LookupProblem::Busy) => tokio::task::yield_now().await, // The others are not passed over yet.
                    found => break found,
                }
            };
            assert_eq!(found, Ok(vec![([10, 0, 0, 7], 0).into()]));
            assert_eq!(asked.try_iter().collect::<Vec<_>>(), ["web"], "nobody waited for the others");
        });
    }

    #[tokio::test]
    async fn an_address_needs_no_lookup() {
        let found = tokio::time::timeout(Duration::from_secs(60), find("10.0.0.7", 80)).await.expect("at once");
        assert_eq!(found, Ok(vec![([10, 0, 0, 7], 80).into()]));
        assert_eq!(find("fe80::1%1", 80).await.expect("an address")[0].to_string(), "[fe80::1%1]:80");
    }
}
