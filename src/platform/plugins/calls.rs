//! Calls to plugins: each with a deadline, a bounded number at a time for each endpoint, and seen while they are open.
//!
//! Owned by the adapters of the protocols. Keeps a connection for each endpoint that was called.

use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, TimeoutExpired};

use super::socket::{Links, channel};
use crate::logic::model::time::Moment;
use crate::logic::plugins::call_error::{CallError, CallProblem, Code};
use crate::platform::host::clock::Clock;

/// Calls to one plugin that may be open at a time; others wait within their own deadline.
pub const OPEN_MAX: usize = 64;
/// Endpoints that a connection is kept for; the one that was called longest ago goes first.
const ENDPOINTS_MAX: usize = 256;

/// A call that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// The method.
    pub method: &'static str,
    /// The volume's ID, the devices or the claims, where it is about some.
    pub about: String,
    /// Since when.
    pub since: Moment,
}

/// One endpoint.
struct Peer {
    channel: Channel,
    places: Arc<Semaphore>,
    used: u64,
}

#[derive(Default)]
struct State {
    peers: BTreeMap<String, Peer>,
    open: BTreeMap<u64, (String, OpenCall)>,
    next: u64,
}

/// See the module. Clones share it.
#[derive(Clone)]
pub struct PluginCalls {
    state: Arc<Mutex<State>>,
    clock: Arc<dyn Clock>,
    links: Links,
}

/// Takes a call out of those that are open, also when nobody waits for it any more.
struct Entry {
    number: u64,
    state: Arc<Mutex<State>>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.state).open.remove(&self.number);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PluginCalls {
    /// No call is open.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { state: Arc::default(), clock, links: Links::Follow }
    }

    /// The same for endpoints below a folder, where no link is followed.
    pub fn below(folder: PathBuf, clock: Arc<dyn Clock>) -> Self {
        Self { links: Links::Below(folder), ..Self::new(clock) }
    }

    /// The plugin at an endpoint is another one: the next call has a connection of its own. Calls that are open still count.
    pub(super) fn renew(&self, at: &str) {
        if let Some(peer) = lock(&self.state).peers.get_mut(at) {
            peer.channel = channel(Path::new(at), &self.links);
        }
    }

    /// The connection to the plugin at an endpoint, for a call that is open as long as the plugin is used.
    pub(super) fn channel(&self, at: &str) -> Channel {
        self.peer(&mut lock(&self.state), at).0
    }

    /// The clock that calls are timed by.
    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The calls that are open, by endpoint, oldest first.
    pub fn open(&self) -> Vec<(String, OpenCall)> {
        lock(&self.state).open.values().cloned().collect()
    }

    /// Makes a call to the plugin at an endpoint. `limit` counts from now, with the wait for a place.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn call<A, F: Future<Output = Result<Response<A>, Status>>>(
        &self,
        at: &str,
        method: &'static str,
        about: &str,
        limit: Duration,
        ask: impl FnOnce(Channel) -> F,
    ) -> Result<A, CallError> {
        let work = ask(self.channel(at));
        self.counted(at, method, about, limit, work).await
    }

    /// The same for a call over a connection of its own kind.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn counted<A>(
        &self,
        at: &str,
        method: &'static str,
        about: &str,
        limit: Duration,
        ask: impl Future<Output = Result<Response<A>, Status>>,
    ) -> Result<A, CallError> {
        let (places, entry) = self.enter(at, method, about);
        let failed = |problem| CallError { method, problem };
        let mut waits = true;
        let work = async {
            let place = places.acquire_owned().await.expect("the semaphore is never closed");
            waits = false;
            let answer = ask.await;
            drop(place);
            answer
        };
        let outcome = tokio::time::timeout(limit, work).await;
        drop(entry);
        match outcome {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(failed(problem_of(&status, limit))),
            Err(_) if waits => Err(failed(CallProblem::Busy { open: OPEN_MAX })),
            Err(_) => Err(failed(CallProblem::Deadline(limit))),
        }
    }

    fn enter(&self, at: &str, method: &'static str, about: &str) -> (Arc<Semaphore>, Entry) {
        let since = self.clock.now();
        let mut state = lock(&self.state);
        let (_, places) = self.peer(&mut state, at);
        let number = state.next;
        state.open.insert(number, (at.to_owned(), OpenCall { method, about: about.to_owned(), since }));
        (places, Entry { number, state: Arc::clone(&self.state) })
    }

    /// The connection and the places of calls; `next` of the state is this use's own number afterwards.
    fn peer(&self, state: &mut State, at: &str) -> (Channel, Arc<Semaphore>) {
        state.next += 1;
        let number = state.next;
        if state.peers.len() >= ENDPOINTS_MAX && !state.peers.contains_key(at) {
            let oldest = state.peers.iter().min_by_key(|(_, peer)| peer.used).map(|(at, _)| at.clone());
            oldest.map(|oldest| state.peers.remove(&oldest));
        }
        let peer = state.peers.entry(at.to_owned()).or_insert_with(|| Peer {
            channel: channel(Path::new(at), &self.links),
            places: Arc::new(Semaphore::new(OPEN_MAX)),
            used: 0,
        });
        peer.used = number;
        (peer.channel.clone(), Arc::clone(&peer.places))
    }
}

/// A request that tells the plugin when nobody waits any more.
pub(super) fn request<Q>(message: Q, limit: Duration) -> Request<Q> {
    let mut request = Request::new(message);
    request.set_timeout(limit);
    request
}

/// A status in our words. One that was made on this side is no word of the plugin, whatever its code.
pub(super) fn problem_of(status: &Status, limit: Duration) -> CallProblem {
    if let Some(source) = status.source() {
        let causes = std::iter::successors(Some(source), |error: &&(dyn Error + 'static)| (*error).source());
        if causes.clone().any(|cause| cause.is::<TimeoutExpired>()) {
            return CallProblem::Deadline(limit);
        }
        let causes: Vec<String> = causes.map(ToString::to_string).collect();
        return CallProblem::Unreachable(causes.join(": "));
    }
    let told = status.message();
    let too_large = status.code() == tonic::Code::OutOfRange && told.contains("decoded message length too large");
    let garbled = status.code() == tonic::Code::Internal
        && (told.starts_with("failed to decode Protobuf message") || told.contains("Missing response message"));
    if too_large || garbled {
        return CallProblem::Unreadable(told.to_owned());
    }
    CallProblem::Status { code: code_of(status.code()), message: told.to_owned() }
}

fn code_of(code: tonic::Code) -> Code {
    match code {
        tonic::Code::Ok => Code::Ok,
        tonic::Code::Cancelled => Code::Canceled,
        tonic::Code::Unknown => Code::Unknown,
        tonic::Code::InvalidArgument => Code::InvalidArgument,
        tonic::Code::DeadlineExceeded => Code::DeadlineExceeded,
        tonic::Code::NotFound => Code::NotFound,
        tonic::Code::AlreadyExists => Code::AlreadyExists,
        tonic::Code::PermissionDenied => Code::PermissionDenied,
        tonic::Code::ResourceExhausted => Code::ResourceExhausted,
        tonic::Code::FailedPrecondition => Code::FailedPrecondition,
        tonic::Code::Aborted => Code::Aborted,
        tonic::Code::OutOfRange => Code::OutOfRange,
        tonic::Code::Unimplemented => Code::Unimplemented,
        tonic::Code::Internal => Code::Internal,
        tonic::Code::Unavailable => Code::Unavailable,
        tonic::Code::DataLoss => Code::DataLoss,
        tonic::Code::Unauthenticated => Code::Unauthenticated,
    }
}
