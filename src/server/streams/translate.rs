//! `v5.channel.k8s.io`: channels of a client's WebSocket as streams of a SPDY connection to the runtime, which speaks
//! `v4.channel.k8s.io` there (SRV-42 to SRV-45).
//!
//! Two halves run side by side, so that neither way holds up the other: `Up` reads the client and writes to the runtime,
//! and `Down` reads the runtime and writes to the client. `Down` leaves its words to the runtime to `Up`. Nothing
//! is read that cannot be passed on yet, so each side is slowed down by the other.

use std::collections::VecDeque;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Method, header};
use bytes::{Bytes, BytesMut};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::carried::Carried;
use super::relay::Traffic;
use super::tunnel::{SPDY, STREAM_PROTOCOL};
use super::websocket::{self, Connection, Messages};
use crate::logic::serving::spdy::{self, Event, Reader, Writer};
use crate::logic::serving::streams::channels::{self, FromClient};
use crate::logic::serving::streams::options::StreamOptions;
use crate::logic::serving::streams::status;
use crate::platform::network::runtime_stream::{self, Answer, Ask, RuntimeStream, StreamError};

const V4: HeaderValue = HeaderValue::from_static("v4.channel.k8s.io");
/// How often the runtime is asked for a sign of life, which keeps what is in between from forgetting the connection.
const PING_PERIOD: Duration = Duration::from_secs(5);
/// For the runtime to take all streams.
const OPEN_LIMIT: Duration = Duration::from_secs(30);
/// For the client to take the final status.
const STATUS_LIMIT: Duration = Duration::from_secs(10);
/// For the client to leave after that.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);
/// For the runtime to take what a client that left has still sent.
const LEFT_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of a status.
const STATUS_BYTES_MAX: usize = 64 * 1024;
/// Bytes read from the runtime at once, and of a message to the client.
const PIECE_BYTES: usize = 32 * 1024;
/// Orders that wait; one that has no room is of no importance.
const ORDERS_MAX: usize = 16;
/// Events that may come before all streams are taken.
const EARLY_MAX: usize = 64;

/// Carries a command's streams until they end.
pub(super) async fn run(mut carried: Carried, url: String, options: StreamOptions) {
    let Some((connection, messages)) = websocket::accept(&mut carried.client, &carried.room).await else { return };
    let (mut client, mut from_client) = connection.split();
    // Tells the client that the connection is there, as upstream.
    let first = match options {
        StreamOptions { stdout: true, .. } => channels::STDOUT,
        StreamOptions { stderr: true, .. } => channels::STDERR,
        _ => channels::ERROR,
    };
    if client.send(Message::binary(vec![first])).await.is_err() {
        return;
    }
    let told = match open(&url, options).await {
        Ok(runtime) => joined(&mut client, (&mut from_client, &*messages), runtime, &carried).await,
        Err(why) => Some(status::internal_error(&why)),
    };
    if let Some(told) = told {
        // A client that does not take it has left.
        let _ = tokio::time::timeout(STATUS_LIMIT, finish(&mut client, &told)).await;
        // The rest of its bytes is read: a connection that is closed over unread bytes takes the last words with it.
        let rest = async {
            while let Some(Ok(_)) = from_client.next().await {
                messages.passed_on();
            }
        };
        let _ = tokio::time::timeout(LEAVE_LIMIT, rest).await;
    }
}

/// The last words: how it ended, and that this is all.
async fn finish(client: &mut SplitSink<Connection, Message>, told: &str) {
    let message = [&[channels::ERROR], told.as_bytes()].concat();
    let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    if client.send(Message::binary(message)).await.is_ok() && client.send(Message::Close(Some(close))).await.is_ok() {
        let _ = client.close().await;
    }
}

/// Streams to the runtime, by number; those that are not wanted are not there.
#[derive(Clone, Copy, Default)]
struct Streams {
    error: u32,
    stdin: Option<u32>,
    stdout: Option<u32>,
    stderr: Option<u32>,
    resize: Option<u32>,
}

/// A connection to the runtime on which all streams are open.
struct Runtime {
    frames: Frames,
    writer: WriteHalf<RuntimeStream>,
    streams: Streams,
    early: Vec<Event>,
}

/// The runtime's frames.
struct Frames {
    half: ReadHalf<RuntimeStream>,
    buffer: BytesMut,
    reader: Reader,
}

impl Frames {
    /// The next of those that are here already.
    fn here(&mut self) -> Result<Option<Event>, String> {
        self.reader.next(&mut self.buffer).map_err(|error| error.to_string())
    }

    /// The next; `None` at the end of the connection.
    async fn next(&mut self) -> Result<Option<Event>, String> {
        loop {
            if let Some(event) = self.here()? {
                return Ok(Some(event));
            }
            self.buffer.reserve(PIECE_BYTES);
            if self.half.read_buf(&mut self.buffer).await.map_err(|error| error.to_string())? == 0 {
                return Ok(None);
            }
        }
    }
}

/// Opens the connection and its streams; why not, in upstream's words.
async fn open(url: &str, options: StreamOptions) -> Result<Runtime, String> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, SPDY);
    headers.insert(STREAM_PROTOCOL, V4);
    let host = url::Url::parse(url).ok().and_then(|url| HeaderValue::from_str(url.authority()).ok());
    headers.extend(host.map(|host| (header::HOST, host)));
    let ask = Ask { url: url.to_owned(), method: Method::POST, headers };
    let not_sent = |why: &str| format!("error sending request: Post {url:?}: {why}");
    let (answer, runtime) = match runtime_stream::open(ask).await {
        Ok(Answer::Upgraded(headers, runtime)) => (headers, runtime),
        Ok(Answer::Refused(refusal)) if refusal.status.is_redirection() => {
            return Err(not_sent("redirect not allowed"));
        }
        Ok(Answer::Refused(refusal)) => {
            return Err(format!("unable to upgrade connection: {}", String::from_utf8_lossy(&refusal.body).trim_end()));
        }
        Err(StreamError::Dial(why)) => return Err(not_sent(&why.to_string())),
        Err(StreamError::Answer(why)) => return Err(not_sent(&why.to_string())),
    };
    let is = |name: &header::HeaderName, value: &HeaderValue| answer.get(name).is_some_and(|found| found == value);
    if !is(&header::UPGRADE, &SPDY) || !is(&STREAM_PROTOCOL, &V4) {
        return Err("unable to upgrade connection: the runtime does not speak v4.channel.k8s.io".to_owned());
    }
    let (half, writer) = tokio::io::split(runtime);
    let frames = Frames { half, buffer: BytesMut::new(), reader: Reader::default() };
    let mut runtime = Runtime { frames, writer, streams: Streams::default(), early: vec![] };
    match tokio::time::timeout(OPEN_LIMIT, runtime.open_streams(options)).await {
        Ok(opened) => opened.map(|()| runtime),
        Err(_) => Err("Timeout occurred".to_owned()),
    }
}

impl Runtime {
    /// Opens the streams in upstream's order and waits until the runtime took them: it drops what comes before.
    async fn open_streams(&mut self, options: StreamOptions) -> Result<(), String> {
        let (mut writer, mut next, mut bytes) = (Writer::default(), 1, vec![]);
        let mut open = |kind: &str, is_wanted: bool| {
            is_wanted.then(|| {
                let stream = next;
                next += 2;
                bytes.extend_from_slice(&writer.open(stream, &[("streamtype", kind)]));
                stream
            })
        };
        self.streams = Streams {
            error: open("error", true).unwrap_or_default(),
            stdin: open("stdin", options.stdin),
            stdout: open("stdout", options.stdout),
            stderr: open("stderr", options.stderr),
            resize: open("resize", options.tty),
        };
        let mut wanted = (next - 1) / 2;
        self.writer.write_all(&bytes).await.map_err(|error| error.to_string())?;
        self.writer.flush().await.map_err(|error| error.to_string())?;
        while wanted > 0 {
            match self.frames.next().await? {
                Some(Event::Replied { ends: false, .. }) => wanted -= 1,
                Some(Event::Reset { .. }) => return Err("Stream reset".to_owned()),
                Some(event) if self.early.len() < EARLY_MAX => self.early.push(event),
                Some(_) => return Err("the runtime sends before it took all streams".to_owned()),
                None => return Err("the runtime closed the connection".to_owned()),
            }
        }
        Ok(())
    }
}

/// An order of `Down` to `Up`, which speaks to the runtime.
enum Order {
    /// An answer to its ping.
    Pong(u32),
    /// It takes no more input.
    InputEnded,
}

/// Joins both sides; how it ended, unless the client has left.
async fn joined(
    client: &mut SplitSink<Connection, Message>,
    (from_client, messages): (&mut SplitStream<Connection>, &Messages),
    runtime: Runtime,
    carried: &Carried,
) -> Option<String> {
    let Runtime { frames, writer, streams, early } = runtime;
    let (orders, ordered) = mpsc::channel(ORDERS_MAX);
    let traffic = &*carried.traffic;
    let mut up = Up { from_client, messages, writer, streams, ordered, traffic, input_ended: false, ping: 1 };
    let waiting = early.into();
    let mut down = Down { frames, waiting, client, streams, orders, traffic, status: vec![], left: false };
    let mut down = std::pin::pin!(down.run());
    tokio::select! {
        biased;
        ended = &mut down => Some(match ended {
            Ok(written) => status::from_runtime(&written),
            Err(why) => status::internal_error(&why),
        }),
        outcome = up.run() => match outcome {
            Left::Client => {
                // The bytes that it has sent are still worth something to the command.
                let _ = tokio::time::timeout(LEFT_LIMIT, down).await;
                None
            }
            Left::Runtime(why) => Some(match tokio::time::timeout(STATUS_LIMIT, down).await {
                Ok(Ok(written)) => status::from_runtime(&written),
                Ok(Err(_)) | Err(_) => status::internal_error(&why),
            }),
        },
        () = traffic.stillness(carried.idle_max) => Some(status::internal_error("nothing moved for too long")),
    }
}

/// The side that ended it.
enum Left {
    Client,
    Runtime(String),
}

/// From the client to the runtime.
struct Up<'a> {
    from_client: &'a mut SplitStream<Connection>,
    messages: &'a Messages,
    writer: WriteHalf<RuntimeStream>,
    streams: Streams,
    ordered: mpsc::Receiver<Order>,
    traffic: &'a Traffic,
    input_ended: bool,
    ping: u32,
}

impl Up<'_> {
    async fn run(&mut self) -> Left {
        match self.forward().await {
            Ok(()) => {
                // The client left; the command is to see the end of its input.
                let _ = self.end_input().await;
                Left::Client
            }
            Err(error) => Left::Runtime(error.to_string()),
        }
    }

    async fn forward(&mut self) -> std::io::Result<()> {
        let mut pings = tokio::time::interval(PING_PERIOD);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pings.tick().await; // the first comes at once
        loop {
            tokio::select! {
                biased;
                Some(order) = self.ordered.recv() => match order {
                    Order::Pong(id) => self.write(&spdy::ping(id)).await?,
                    Order::InputEnded => self.end_input().await?,
                },
                _ = pings.tick() => {
                    self.write(&spdy::ping(self.ping)).await?;
                    self.ping = if self.ping > 0x7fff_fffd { 1 } else { self.ping + 2 };
                }
                message = self.from_client.next() => match message {
                    Some(Ok(message @ (Message::Binary(_) | Message::Text(_)))) => {
                        if !self.take(&message.into_data()).await? {
                            return Ok(());
                        }
                        self.messages.passed_on();
                    }
                    Some(Ok(Message::Ping(content) | Message::Pong(content))) => self.messages.heard(&content),
                    Some(Ok(Message::Frame(_))) => {}
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
                },
            }
        }
    }

    /// Passes a message on; whether the connection goes on.
    async fn take(&mut self, message: &[u8]) -> std::io::Result<bool> {
        match channels::from_client(message) {
            FromClient::Stdin => {
                if let Some(stream) = self.streams.stdin.filter(|_| !self.input_ended) {
                    self.send(stream, &message[1..]).await?;
                }
            }
            FromClient::Resize => {
                if let Some(stream) = self.streams.resize {
                    self.send(stream, channels::sizes(&message[1..]).as_bytes()).await?;
                }
            }
            FromClient::StdinEnds => self.end_input().await?,
            FromClient::Nothing => {}
            FromClient::Broken(why) => {
                tracing::debug!(why, "a client's stream is ended");
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn send(&mut self, stream: u32, bytes: &[u8]) -> std::io::Result<()> {
        for piece in bytes.chunks(spdy::DATA_BYTES_MAX) {
            // One write, so that a small piece is one packet.
            let head = spdy::data_head(stream, piece.len(), false);
            let mut frame = bytes::Buf::chain(&head[..], piece);
            self.writer.write_all_buf(&mut frame).await?;
            self.traffic.add_to_runtime(piece.len());
        }
        self.writer.flush().await
    }

    async fn end_input(&mut self) -> std::io::Result<()> {
        let Some(stream) = self.streams.stdin.filter(|_| !self.input_ended) else { return Ok(()) };
        self.input_ended = true;
        self.write(&spdy::data_head(stream, 0, true)).await
    }

    async fn write(&mut self, frame: &[u8]) -> std::io::Result<()> {
        self.writer.write_all(frame).await?;
        self.writer.flush().await
    }
}

/// From the runtime to the client.
struct Down<'a> {
    frames: Frames,
    /// The events that come before anything else from the runtime.
    waiting: VecDeque<Event>,
    client: &'a mut SplitSink<Connection, Message>,
    streams: Streams,
    orders: mpsc::Sender<Order>,
    traffic: &'a Traffic,
    status: Vec<u8>,
    left: bool,
}

impl Down<'_> {
    /// Until output and status are over; what was written as the status.
    async fn run(&mut self) -> Result<Vec<u8>, String> {
        let mut open: Vec<u32> =
            [Some(self.streams.error), self.streams.stdout, self.streams.stderr].into_iter().flatten().collect();
        while !open.is_empty() {
            let event = match self.waiting.pop_front() {
                Some(event) => event,
                None => match self.frames.next().await {
                    Ok(Some(event)) => event,
                    // A runtime that closes over bytes of ours that it did not read resets the connection behind its last words.
                    Ok(None) | Err(_) if !self.status.is_empty() => break,
                    Ok(None) => return Err("the connection to the runtime was lost".to_owned()),
                    Err(why) => return Err(why),
                },
            };
            if let Some(over) = self.take(event).await? {
                open.retain(|stream| *stream != over);
                if Some(over) == self.streams.stdin {
                    let _ = self.orders.try_send(Order::InputEnded);
                }
            }
        }
        Ok(std::mem::take(&mut self.status))
    }

    /// Passes an event on; the stream that is over with it.
    async fn take(&mut self, event: Event) -> Result<Option<u32>, String> {
        Ok(match event {
            Event::Data { stream, bytes, ends } => {
                if stream == self.streams.error {
                    let room = STATUS_BYTES_MAX - self.status.len();
                    self.status.extend_from_slice(&bytes[..bytes.len().min(room)]);
                } else if Some(stream) == self.streams.stdout {
                    return self.tell(channels::STDOUT, stream, bytes, ends).await;
                } else if Some(stream) == self.streams.stderr {
                    return self.tell(channels::STDERR, stream, bytes, ends).await;
                }
                ends.then_some(stream)
            }
            Event::Reset { stream, .. } => Some(stream),
            Event::Ping(id) if id % 2 == 0 => {
                let _ = self.orders.try_send(Order::Pong(id));
                None
            }
            Event::Ping(_) | Event::GoAway | Event::Replied { .. } | Event::Opened { .. } | Event::Other => None,
        })
    }

    /// Output for the client, in one message with what else of it is here already; one that has left is still not allowed to
    /// hold up the command. The stream, if it is over.
    async fn tell(&mut self, channel: u8, stream: u32, first: Bytes, mut is_over: bool) -> Result<Option<u32>, String> {
        let mut message = Vec::with_capacity(PIECE_BYTES.max(1 + first.len()));
        message.push(channel);
        message.extend_from_slice(&first);
        while !is_over && message.len() < PIECE_BYTES {
            let next = match self.waiting.pop_front() {
                None => self.frames.here()?,
                waiting => waiting,
            };
            match next {
                Some(Event::Data { stream: of, bytes, ends }) if of == stream => {
                    message.extend_from_slice(&bytes);
                    is_over = ends;
                }
                Some(other) => {
                    self.waiting.push_front(other);
                    break;
                }
                None => break,
            }
        }
        if message.len() > 1 && !self.left {
            self.traffic.add_to_client(message.len() - 1);
            self.left = self.client.send(Message::binary(message)).await.is_err();
        }
        Ok(is_over.then_some(stream))
    }
}
