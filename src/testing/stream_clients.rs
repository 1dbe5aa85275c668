//! Clients of streams: SPDY by the agent's own frames, WebSocket by the library.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::logic::serving::spdy::{self, Event, Reader, Writer};

/// How long anything may take that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection.
pub trait Wire: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Wire for S {}

/// The head of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub headers: BTreeMap<String, Vec<String>>,
}

impl Head {
    /// The first value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|values| values.first()).map(String::as_str)
    }
}

/// Sends a request without a body.
pub async fn send_head(wire: &mut impl Wire, method: &str, path: &str, headers: &[(&str, &str)]) {
    let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: node\r\n{lines}\r\n");
    wire.write_all(head.as_bytes()).await.expect("open");
}

/// Reads lines up to an empty one, and not a byte more: the first line, and the headers by lower-case name.
pub async fn read_head(wire: &mut impl Wire) -> Option<(String, BTreeMap<String, Vec<String>>)> {
    let mut text = vec![];
    while !text.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if wire.read(&mut byte).await.ok()? == 0 {
            return None;
        }
        text.push(byte[0]);
    }
    let text = String::from_utf8(text).expect("a head is text");
    let mut lines = text.trim_end().split("\r\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let mut headers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        headers.entry(name.to_lowercase()).or_default().push(value.trim().to_owned());
    }
    Some((first, headers))
}

/// Asks; the head, and for what is no upgrade the body.
pub async fn ask(wire: &mut impl Wire, method: &str, path: &str, headers: &[(&str, &str)]) -> (Head, String) {
    send_head(wire, method, path, headers).await;
    let (first, headers) = read_head(wire).await.expect("an answer");
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let head = Head { status, headers };
    let mut body = vec![];
    match head.header("content-length").and_then(|length| length.parse().ok()) {
        _ if status == 101 => {}
        Some(length) => {
            body = vec![0; length];
            wire.read_exact(&mut body).await.expect("a whole body");
        }
        None => drop(wire.read_to_end(&mut body).await),
    }
    (head, String::from_utf8_lossy(&body).into_owned())
}

/// The path of an exec.
pub fn exec_path(place: &str, streams: &str, command: &[&str]) -> String {
    let command: String = command.iter().map(|word| format!("&command={}", escaped(word))).collect();
    format!("/exec/{place}?{streams}{command}")
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// A SPDY connection, from the side that opens streams.
pub struct Spdy<W> {
    wire: W,
    reader: Reader,
    writer: Writer,
    buffer: BytesMut,
    next: u32,
    taken: BTreeSet<u32>,
    over: BTreeSet<u32>,
    data: BTreeMap<u32, Vec<u8>>,
}

impl<W: Wire> Spdy<W> {
    /// Upgrades; the protocol that the server chose. Not an upgrade: head and body.
    pub async fn upgrade(mut wire: W, path: &str, protocols: &[&str]) -> Result<(Self, String), (Head, String)> {
        let mut headers = vec![("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")];
        headers.extend(protocols.iter().map(|protocol| ("X-Stream-Protocol-Version", *protocol)));
        let (head, body) = ask(&mut wire, "POST", path, &headers).await;
        if head.status != 101 {
            return Err((head, body));
        }
        assert_eq!(head.header("upgrade"), Some("SPDY/3.1"));
        let chosen = head.header("x-stream-protocol-version").unwrap_or_default().to_owned();
        Ok((Self::inside(wire), chosen))
    }

    /// On a connection that speaks SPDY already.
    pub fn inside(wire: W) -> Self {
        Self {
            wire,
            reader: Reader::default(),
            writer: Writer::default(),
            buffer: BytesMut::new(),
            next: 1,
            taken: BTreeSet::new(),
            over: BTreeSet::new(),
            data: BTreeMap::new(),
        }
    }

    /// Opens a stream and waits until it is taken.
    pub async fn open(&mut self, headers: &[(&str, &str)]) -> u32 {
        let stream = self.next;
        self.next += 2;
        let frame = self.writer.open(stream, headers);
        self.wire.write_all(&frame).await.expect("open");
        self.wire.flush().await.expect("open");
        self.until(|spdy| spdy.taken.contains(&stream)).await;
        stream
    }

    /// Sends on a stream.
    pub async fn send(&mut self, stream: u32, bytes: &[u8], ends: bool) {
        let frame = [&spdy::data_head(stream, bytes.len(), ends)[..], bytes].concat();
        self.wire.write_all(&frame).await.expect("open");
        self.wire.flush().await.expect("open");
    }

    /// Reads until something is so; an end of the connection ends the waiting, too.
    pub async fn until(&mut self, is_so: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !is_so(self) {
                if !self.step().await {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("in time");
    }

    /// The text that came on a stream so far.
    pub fn text(&self, stream: u32) -> String {
        self.data.get(&stream).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    }

    /// Whether nothing more comes on a stream.
    pub fn is_over(&self, stream: u32) -> bool {
        self.over.contains(&stream)
    }

    async fn step(&mut self) -> bool {
        loop {
            if let Some(event) = self.reader.next(&mut self.buffer).expect("SPDY") {
                self.take(event).await;
                return true;
            }
            // An end without ceremony is an end, too.
            if self.wire.read_buf(&mut self.buffer).await.unwrap_or(0) == 0 {
                return false;
            }
        }
    }

    async fn take(&mut self, event: Event) {
        match event {
            Event::Data { stream, bytes, ends } => {
                self.data.entry(stream).or_default().extend_from_slice(&bytes);
                if ends {
                    self.over.insert(stream);
                }
            }
            Event::Replied { stream, .. } => drop(self.taken.insert(stream)),
            Event::Reset { stream, .. } => drop((self.taken.insert(stream), self.over.insert(stream))),
            Event::Ping(id) if id % 2 == 0 => self.wire.write_all(&spdy::ping(id)).await.expect("open"),
            Event::Ping(_) | Event::GoAway | Event::Opened { .. } | Event::Other => {}
        }
    }
}

/// The streams of a command over SPDY.
pub struct Command<W> {
    pub spdy: Spdy<W>,
    pub error: u32,
    pub stdin: u32,
    pub stdout: u32,
    pub stderr: u32,
    pub resize: u32,
}

impl<W: Wire> Command<W> {
    /// Opens those that are wanted, by their names, error always; the others have the number 0.
    pub async fn open(mut spdy: Spdy<W>, wanted: &[&str]) -> Self {
        let mut numbers = BTreeMap::new();
        for kind in ["error", "stdin", "stdout", "stderr", "resize"] {
            if kind == "error" || wanted.contains(&kind) {
                numbers.insert(kind, spdy.open(&[("streamtype", kind)]).await);
            }
        }
        let number = |kind| numbers.get(kind).copied().unwrap_or_default();
        let [error, stdin, stdout, stderr, resize] = ["error", "stdin", "stdout", "stderr", "resize"].map(number);
        Self { spdy, error, stdin, stdout, stderr, resize }
    }

    /// Waits for the end: output, errors and status.
    pub async fn end(mut self) -> (String, String, String) {
        let error = self.error;
        self.spdy.until(|spdy| spdy.is_over(error)).await;
        (self.spdy.text(self.stdout), self.spdy.text(self.stderr), self.spdy.text(self.error))
    }
}

/// A WebSocket connection of a client.
pub struct Socket<W> {
    pub inner: WebSocketStream<W>,
    pub protocol: Option<String>,
    is_base64: bool,
}

/// All that came, by channel.
pub type Channels = BTreeMap<u8, Vec<u8>>;

impl<W: Wire> Socket<W> {
    /// Opens it with these sub-protocols on offer. Not an upgrade: the status and the body.
    pub async fn open(
        wire: W,
        path: &str,
        protocols: &str,
        more: &[(&'static str, &str)],
    ) -> Result<Self, (u16, String)> {
        let mut request = format!("ws://node{path}").into_client_request().expect("a request");
        if !protocols.is_empty() {
            request.headers_mut().insert("sec-websocket-protocol", protocols.parse().expect("a value"));
        }
        for (name, value) in more {
            request.headers_mut().append(*name, value.parse().expect("a value"));
        }
        match tokio_tungstenite::client_async(request, wire).await {
            Ok((inner, answer)) => {
                let protocol =
                    answer.headers().get("sec-websocket-protocol").map(|name| name.to_str().expect("text").to_owned());
                Ok(Self::inside(inner, protocol))
            }
            Err(Error::Http(answer)) => {
                let body = answer.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
                Err((answer.status().as_u16(), body))
            }
            Err(other) => panic!("no answer: {other}"),
        }
    }

    /// On a connection that was upgraded already.
    pub fn inside(inner: WebSocketStream<W>, protocol: Option<String>) -> Self {
        let is_base64 = protocol.as_deref().is_some_and(|name| name.contains("base64"));
        Self { inner, protocol, is_base64 }
    }

    /// Sends on a channel.
    pub async fn send(&mut self, channel: u8, bytes: &[u8]) {
        let message = if self.is_base64 {
            Message::text(format!("{channel}{}", STANDARD.encode(bytes)))
        } else {
            Message::binary([&[channel], bytes].concat())
        };
        self.inner.send(message).await.expect("open");
    }

    /// The next message: its channel and its bytes; `None` at the end.
    pub async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.inner.next()).await.expect("in time");
            let bytes = match message {
                Some(Ok(Message::Binary(bytes))) => bytes,
                Some(Ok(Message::Text(text))) => Bytes::copy_from_slice(text.as_bytes()),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => continue,
            };
            let (channel, rest) = bytes.split_first().expect("a channel");
            return Some(if self.is_base64 {
                (channel - b'0', STANDARD.decode(rest).expect("base64"))
            } else {
                (*channel, rest.to_vec())
            });
        }
    }

    /// All that comes until the connection ends.
    pub async fn rest(&mut self) -> Channels {
        let mut all = Channels::new();
        while let Some((channel, bytes)) = self.next().await {
            all.entry(channel).or_default().extend(bytes);
        }
        all
    }

    /// Reads until a channel has said something.
    pub async fn until(&mut self, channel: u8, words: &str) -> String {
        let mut said = String::new();
        while !said.contains(words) {
            let (from, bytes) = self.next().await.unwrap_or_else(|| panic!("{words:?} is not in {said:?}"));
            if from == channel {
                said.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
        said
    }
}
