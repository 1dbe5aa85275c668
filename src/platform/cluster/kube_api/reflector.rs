//! Follows a selection of objects for as long as it is polled: everything there is, then every change.
//!
//! Owned by the operation that runs it; keeps only the last version seen. As upstream's reflector: a streaming list where
//! the server has it, else a list and a watch from its version; a watch that ends is taken up again where it ended, one
//! whose version is gone begins anew with everything.
//!
//! In the place of kube's `runtime`. That one lists by pages of 500 past the server's cache, and spreads its waits by chance
//! that no seed reaches.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use futures_util::{Stream, StreamExt};

use super::runtime_clock::now;
use super::{ApiError, ApiObject, ApiServer, Place, Selector, WatchEvent, WatchFrom};

/// The first wait after trouble; each further one is twice as long.
const WAIT_FIRST: Duration = Duration::from_millis(800);
/// The longest wait, before its jitter, which adds up to as much again.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Without trouble for this long, waits begin with the first again.
const CALM: Duration = Duration::from_secs(120);
/// A watch lasts five minutes at least, and up to twice as long by chance, so that they do not all end together.
const WATCH_MIN: Duration = Duration::from_secs(300);
/// A watch that ends sooner is trouble.
const WATCH_SHORT: Duration = Duration::from_secs(1);
/// How long a streaming list may be silent before we list. A server that does not know it never says that it is done.
const INITIAL_SILENCE_MAX: Duration = Duration::from_secs(30);

/// News of the objects followed.
#[derive(Clone, Debug, PartialEq)]
pub enum Followed<K> {
    /// These are all: whatever is not among them is gone.
    Reset(Vec<K>),
    /// This one is new, or changed.
    Applied(K),
    /// This one is gone; as it was last.
    Deleted(K),
    /// Nothing can be heard at present; told at each failure. Earlier news still stands.
    Trouble(ApiError),
}

/// Tells everything that is selected, then every change, until it is dropped. `chance` gives values in 0..1.
pub async fn follow<K: ApiObject>(
    api: &ApiServer,
    at: &Place,
    selector: &Selector,
    chance: impl FnMut() -> f64,
    tell: impl FnMut(Followed<K>),
) -> Infallible {
    let waits = Waits { next: WAIT_FIRST, last: None, chance };
    let mut reflector = Reflector { api, at, selector, tell, waits, streaming: true, version: None };
    loop {
        let began = now();
        match reflector.list_and_watch().await {
            Err(error) => reflector.trouble(error).await,
            // Gone as soon as it was listed: that may go on like this.
            Ok(()) if now() - began < WATCH_SHORT => tokio::time::sleep(reflector.waits.next()).await,
            Ok(()) => {}
        }
    }
}

struct Reflector<'a, C, T> {
    api: &'a ApiServer,
    at: &'a Place,
    selector: &'a Selector,
    tell: T,
    waits: Waits<C>,
    /// Whether streaming lists are worth trying.
    streaming: bool,
    /// The newest version told. Lists ask for one at least as new, so that nothing told is taken back by an old cache.
    version: Option<String>,
}

/// How a watch came to its end.
enum End {
    /// It may be taken up again where it ended.
    Resume,
    /// Its version is gone, or what it told cannot be relied on: everything is to be listed.
    Relist,
}

impl<C: FnMut() -> f64, T> Reflector<'_, C, T> {
    /// Ends where everything must be listed again: at once, or with an error after a wait.
    async fn list_and_watch<K: ApiObject>(&mut self) -> Result<(), ApiError>
    where
        T: FnMut(Followed<K>),
    {
        let mut end = match self.streaming_list().await? {
            Some(end) => end,
            None => {
                self.list().await?;
                End::Resume
            }
        };
        while matches!(end, End::Resume) {
            end = self.watch().await?;
        }
        Ok(())
    }

    /// Lists and watches in one call. `None` where the server does not do that: then a plain list is next.
    async fn streaming_list<K: ApiObject>(&mut self) -> Result<Option<End>, ApiError>
    where
        T: FnMut(Followed<K>),
    {
        if !self.streaming {
            return Ok(None);
        }
        let timeout = self.watch_timeout();
        let watch = self.api.watch::<K>(self.at, self.selector, WatchFrom::InitialEvents, timeout).await;
        let told = match watch {
            Ok(mut watch) => initial_events(&mut watch).await.map(|initial| initial.map(|initial| (initial, watch))),
            Err(error) => Err(error),
        };
        match told {
            Ok(Some(((objects, version), watch))) => {
                self.version = Some(version);
                (self.tell)(Followed::Reset(objects));
                self.hear(watch).await.map(Some)
            }
            // Cut off, or silent. A list needs no promise.
            Ok(None) => Ok(None),
            // Nobody is there, or asks for time: a list would fare no better.
            Err(error) if error.is_unreachable() || error.is_too_many() => Err(error),
            // A list may do, and if it does, it will do from now on.
            Err(_) => Ok(None),
        }
    }

    async fn list<K: ApiObject>(&mut self) -> Result<(), ApiError>
    where
        T: FnMut(Followed<K>),
    {
        // The first one is of the newest, as a streaming list is: a server's cache may be older than what an earlier process
        // has seen. An agent that believed it would end pods that were made since.
        let listed = match self.api.list::<K>(self.at, self.selector, self.version.as_deref()).await {
            // Too old, or newer than this server's cache: the newest will do.
            Err(error) if error.is_gone() || error.code() == Some(504) => {
                self.api.list::<K>(self.at, self.selector, None).await?
            }
            other => other?,
        };
        self.streaming = false;
        self.version = Some(listed.resource_version);
        (self.tell)(Followed::Reset(listed.items));
        Ok(())
    }

    async fn watch<K: ApiObject>(&mut self) -> Result<End, ApiError>
    where
        T: FnMut(Followed<K>),
    {
        let timeout = self.watch_timeout();
        let version = self.version.clone().unwrap_or_default();
        match self.api.watch::<K>(self.at, self.selector, WatchFrom::Version(&version), timeout).await {
            Ok(watch) => self.hear(watch).await,
            Err(error) if error.is_gone() || error.is_too_new() => Ok(End::Relist),
            Err(error) if error.is_transient() => {
                self.trouble(error).await;
                Ok(End::Resume)
            }
            Err(error) => Err(error),
        }
    }

    /// Tells what a watch tells until it ends.
    async fn hear<K: ApiObject>(
        &mut self,
        mut watch: impl Stream<Item = Result<WatchEvent<K>, ApiError>> + Unpin,
    ) -> Result<End, ApiError>
    where
        T: FnMut(Followed<K>),
    {
        let began = now();
        let mut heard = false;
        let from = self.version.as_deref().and_then(number);
        while let Some(event) = watch.next().await {
            match event {
                // An event older than the watch's beginning comes from a store that was restored from a copy.
                Ok(event) if version_of(&event).and_then(number).is_some_and(|version| Some(version) < from) => {
                    return Ok(End::Relist);
                }
                Ok(event) => {
                    heard = true;
                    self.take(event);
                }
                Err(error) if error.is_gone() || error.is_too_new() => return Ok(End::Relist),
                // The connection broke, or the server has trouble: where we are is known.
                Err(error) if error.is_transient() => {
                    self.trouble(error).await;
                    return Ok(End::Resume);
                }
                Err(error) => return Err(error),
            }
        }
        if now() - began < WATCH_SHORT {
            // Also one that told something: a server that ends them all at once must not be asked without end.
            let what = if heard { "few" } else { "no" };
            let text = "very short watch: Unexpected watch close - watch lasted less than a second and";
            self.trouble(ApiError::Transport(format!("{text} {what} items received"))).await;
        }
        Ok(End::Resume)
    }

    fn take<K: ApiObject>(&mut self, event: WatchEvent<K>)
    where
        T: FnMut(Followed<K>),
    {
        let (version, told) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                (object.meta().resource_version.clone(), Some(Followed::Applied(object)))
            }
            WatchEvent::Deleted(object) => (object.meta().resource_version.clone(), Some(Followed::Deleted(object))),
            WatchEvent::Bookmark { resource_version, .. } => (Some(resource_version), None),
        };
        self.version = version.filter(|version| !version.is_empty()).or_else(|| self.version.take());
        if let Some(told) = told {
            (self.tell)(told);
        }
    }

    async fn trouble<K: ApiObject>(&mut self, error: ApiError)
    where
        T: FnMut(Followed<K>),
    {
        let wait = self.waits.next().max(error.retry_after().unwrap_or_default());
        (self.tell)(Followed::Trouble(error));
        tokio::time::sleep(wait).await;
    }

    fn watch_timeout(&mut self) -> Duration {
        WATCH_MIN.mul_f64(1.0 + (self.waits.chance)().clamp(0.0, 1.0))
    }
}

/// The version that an event tells.
fn version_of<K: ApiObject>(event: &WatchEvent<K>) -> Option<&str> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            object.meta().resource_version.as_deref()
        }
        WatchEvent::Bookmark { resource_version, .. } => Some(resource_version),
    }
}

/// A version as the number that it is (KEP-5504).
fn number(version: &str) -> Option<u128> {
    version.parse().ok()
}

/// Everything there is, with its version. `None` when the watch ends or falls silent before it said that this is all. The
/// gathered objects have a bound: the watch fails beyond it.
async fn initial_events<K: ApiObject>(
    watch: &mut (impl Stream<Item = Result<WatchEvent<K>, ApiError>> + Unpin),
) -> Result<Option<(Vec<K>, String)>, ApiError> {
    let mut objects = BTreeMap::new();
    let key = |object: &K| (object.meta().namespace.clone(), object.meta().name.clone());
    while let Ok(Some(event)) = tokio::time::timeout(INITIAL_SILENCE_MAX, watch.next()).await {
        match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => drop(objects.insert(key(&object), object)),
            WatchEvent::Deleted(object) => drop(objects.remove(&key(&object))),
            WatchEvent::Bookmark { resource_version, initial_events_end: true } => {
                return Ok(Some((objects.into_values().collect(), resource_version)));
            }
            WatchEvent::Bookmark { .. } => {}
        }
    }
    Ok(None)
}

/// How long to wait after trouble.
struct Waits<C> {
    next: Duration,
    last: Option<tokio::time::Instant>,
    chance: C,
}

impl<C: FnMut() -> f64> Waits<C> {
    fn next(&mut self) -> Duration {
        let here = now();
        if self.last.is_none_or(|last| here - last >= CALM) {
            self.next = WAIT_FIRST;
        }
        let wait = self.next.mul_f64(1.0 + (self.chance)().clamp(0.0, 1.0));
        self.next = (self.next * 2).min(WAIT_MAX);
        self.last = Some(here + wait);
        wait
    }
}
