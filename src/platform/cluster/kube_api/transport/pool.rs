//! Connections that share calls. Owned by the transport; keeps what is open, and how much runs on each.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::{http1, http2};

use super::connect::{self, Sender, Tasks};
use super::{Identity, Proxy, Settings, TransportError, texts};

/// Calls on one connection before the next is opened. Servers grant 100; the one past that would wait for ever.
const STREAMS_MAX: usize = 90;
/// Connections of HTTP/1.1 kept without a call, as in upstream's client.
const IDLE_MAX: usize = 25;

/// Connections that share calls.
pub(super) struct Group {
    settings: Settings,
    identity: Arc<dyn Identity>,
    open: Mutex<Open>,
    /// Held while connecting, so that many calls at once open one connection.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Open {
    shared: Vec<Shared>,
    idle: Vec<(http1::SendRequest<Full<Bytes>>, Arc<Tasks>)>,
    /// Every connection that may still have a call, also those that take no more.
    tasks: Vec<Weak<Tasks>>,
    next_id: u64,
    /// Counts resets: what was begun before one is not kept after it.
    generation: u64,
    /// Counts attempts to connect, with how the last one failed.
    attempts: u64,
    failure: Option<TransportError>,
}

/// A connection of HTTP/2.
struct Shared {
    id: u64,
    sender: http2::SendRequest<Full<Bytes>>,
    tasks: Arc<Tasks>,
    streams: usize,
}

/// A connection with room for one call.
pub(super) struct Taken {
    sender: Sender,
    place: Place,
}

/// A call's place on its connection, held until the answer is read or dropped.
struct Place {
    group: Weak<Group>,
    id: Option<u64>,
    /// Keeps the connection of a call alive when the pool gave it up.
    tasks: Arc<Tasks>,
    generation: u64,
}

impl Group {
    pub fn new(settings: Settings, identity: Arc<dyn Identity>) -> Self {
        Self { settings, identity, open: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection with room for one more call: an open one, else a new one.
    pub async fn take(self: &Arc<Self>) -> Result<Taken, TransportError> {
        loop {
            if let Some(taken) = self.free() {
                return Ok(taken);
            }
            let seen = self.lock().attempts;
            let _connecting = self.connecting.lock().await;
            if let Some(taken) = self.free() {
                return Ok(taken);
            }
            {
                let open = self.lock();
                // A caller that waited for an attempt shares its failure; many callers do not try one after the other.
                if let (true, Some(failure)) = (open.attempts != seen, &open.failure) {
                    return Err(failure.clone());
                }
            }
            let generation = self.lock().generation;
            let opened = self.connect().await;
            let mut open = self.lock();
            open.attempts += 1;
            open.failure = opened.as_ref().err().cloned();
            let (sender, tasks) = opened?;
            if open.generation == generation {
                return Ok(self.keep(&mut open, sender, tasks));
            }
        }
    }

    async fn connect(&self) -> Result<(Sender, Arc<Tasks>), TransportError> {
        let mut tls = None;
        if self.settings.server.tls() || self.settings.proxy.as_ref().is_some_and(Proxy::tls) {
            let given = self.identity.tls().await;
            tls = Some(given.map_err(|error| TransportError(error.to_string()))?);
        }
        let name = self.identity.server_name().unwrap_or_else(|| self.settings.server.host().to_owned());
        connect::open(&self.settings, tls, &name).await
    }

    fn keep(self: &Arc<Self>, open: &mut Open, sender: Sender, tasks: Arc<Tasks>) -> Taken {
        open.tasks.retain(|tasks| tasks.strong_count() > 0);
        open.tasks.push(Arc::downgrade(&tasks));
        let mut id = None;
        if let Sender::Http2(sender) = &sender {
            open.next_id += 1;
            id = Some(open.next_id);
            let shared = Shared { id: open.next_id, sender: sender.clone(), tasks: Arc::clone(&tasks), streams: 1 };
            open.shared.push(shared);
        }
        let place = Place { group: Arc::downgrade(self), id, tasks, generation: open.generation };
        Taken { sender, place }
    }

    fn free(self: &Arc<Self>) -> Option<Taken> {
        let mut open = self.lock();
        open.shared.retain(|shared| !shared.sender.is_closed());
        open.idle.retain(|(sender, _)| !sender.is_closed());
        let generation = open.generation;
        let place =
            |id, tasks: &Arc<Tasks>| Place { group: Arc::downgrade(self), id, tasks: Arc::clone(tasks), generation };
        let roomy = open.shared.iter_mut().find(|shared| {
            // A server may grant less than usual; one call is always tried.
            let granted = shared.tasks.granted();
            shared.streams < STREAMS_MAX.min(granted.saturating_mul(9) / 10).max(1)
        });
        if let Some(shared) = roomy {
            shared.streams += 1;
            let sender = Sender::Http2(shared.sender.clone());
            return Some(Taken { sender, place: place(Some(shared.id), &shared.tasks) });
        }
        let ready = open.idle.iter().position(|(sender, _)| sender.is_ready())?;
        let (sender, tasks) = open.idle.swap_remove(ready);
        Some(Taken { sender: Sender::Http1(sender), place: place(None, &tasks) })
    }

    /// Closes every connection, with the calls on it.
    pub fn reset(&self) {
        let mut open = self.lock();
        open.generation += 1;
        open.failure = None;
        open.shared.clear();
        open.idle.clear();
        for tasks in open.tasks.drain(..).filter_map(|tasks| tasks.upgrade()) {
            tasks.abort();
        }
    }

    /// Closes connections without a call.
    pub fn close_idle(&self) {
        let mut open = self.lock();
        open.idle.clear();
        open.shared.retain(|shared| shared.streams > 0);
    }

    /// Connections that take calls.
    pub fn len(&self) -> usize {
        let mut open = self.lock();
        open.shared.retain(|shared| !shared.sender.is_closed());
        open.tasks.retain(|tasks| tasks.strong_count() > 0);
        open.tasks.len()
    }

    fn release(&self, place: &Place) {
        let mut open = self.lock();
        let Some(index) = open.shared.iter().position(|shared| Some(shared.id) == place.id) else { return };
        open.shared[index].streams -= 1;
        // The first stays open for the next call; further ones were for a crowd that has gone.
        if index > 0 && open.shared[index].streams == 0 {
            open.shared.remove(index);
        }
    }

    fn give_back(&self, sender: http1::SendRequest<Full<Bytes>>, place: &Place) {
        let mut open = self.lock();
        if open.generation == place.generation && open.idle.len() < IDLE_MAX && !sender.is_closed() {
            open.idle.push((sender, Arc::clone(&place.tasks)));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(group) = self.group.upgrade() {
            group.release(self);
        }
    }
}

/// Why a call failed, with the call if the server never saw it.
type Failed = (TransportError, Option<Request<Full<Bytes>>>);

impl Taken {
    pub fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }

    /// Sends the call and waits for the head of its answer.
    pub async fn send(mut self, request: Request<Full<Bytes>>) -> Result<Response<Answer>, Failed> {
        let sent = match &mut self.sender {
            Sender::Http1(sender) => sender.try_send_request(request).await,
            Sender::Http2(sender) => sender.try_send_request(request).await,
        };
        let response = sent.map_err(|mut error| {
            let unsent = error.take_message();
            (TransportError(texts::call(error.error())), unsent)
        })?;
        Ok(response.map(|body| {
            let mut answer = Answer { body, held: Some(self) };
            answer.finish_if_read();
            answer
        }))
    }
}

/// The body of an answer. Its call's place on the connection is free once it is read, or dropped.
pub(super) struct Answer {
    body: Incoming,
    held: Option<Taken>,
}

impl Answer {
    fn finish_if_read(&mut self) {
        if self.body.is_end_stream() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        let Some(Taken { sender, place }) = self.held.take() else { return };
        if let (Sender::Http1(sender), Some(group)) = (sender, place.group.upgrade()) {
            group.give_back(sender, &place);
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = TransportError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransportError>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        match frame {
            None => {
                self.finish();
                Poll::Ready(None)
            }
            Some(Ok(frame)) => {
                self.finish_if_read();
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(TransportError(match texts::call(&error).as_str() {
                "EOF" => "unexpected EOF".to_owned(),
                other => other.to_owned(),
            })))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
