//! `podwright exec`: a command in a container, with the streams and the terminal of the one who asks.
//!
//! Speaks `v5.channel.k8s.io` over WebSocket on the local socket, as `kubectl exec` does over the API server. The exit
//! status is the command's.

use std::convert::Infallible;
use std::io::{self, IsTerminal, Read, Write};
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};

use super::arguments::ExecOptions;
use super::client::{Client, Trouble, escape};
use super::container_path;
use crate::logic::serving::streams::channels::{CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT};
use crate::logic::serving::streams::options::V5;
use crate::logic::serving::streams::status;
use crate::platform::host::terminal::{self, RawMode};

/// From the connection to the beginning of the streams.
const OPEN_MAX: Duration = Duration::from_secs(30);
/// Pieces of input that wait to be sent.
const INPUT_PIECES_MAX: usize = 16;
/// Bytes of one.
const INPUT_BYTES: usize = 16 * 1024;
/// Bytes of one message from the agent.
const MESSAGE_BYTES_MAX: usize = 32 << 20;
/// Bytes of the status at the end.
const STATUS_BYTES_MAX: usize = 1 << 20;
/// The exit status of a command that was ended by this signal.
const SIGNALLED: i32 = 128;

/// Runs it; the command's exit status.
pub(super) fn run(client: &Client, wanted: &ExecOptions) -> Result<i32, Trouble> {
    let place = container_path(client, &wanted.pod, wanted.container.as_deref())?;
    let has_terminal = wanted.stdin && wanted.tty && io::stdin().is_terminal();
    if wanted.stdin && wanted.tty && !has_terminal {
        eprintln!("Unable to use a TTY - input is not a terminal or the right kind of file");
    }
    let path = path(&place, wanted, has_terminal);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| client.no_answer(&path, error))?;
    let ended = runtime.block_on(async {
        let socket = open(client, &path).await?;
        let broken = |error: &dyn std::fmt::Display| client.no_answer(&path, error);
        // From here on, until this function is left in whatever way.
        let raw = has_terminal.then(RawMode::enter).transpose().map_err(|error| broken(&error))?;
        let this_side = ThisSide {
            input: wanted.stdin.then(input),
            sizes: has_terminal
                .then(|| signal(SignalKind::window_change()))
                .transpose()
                .map_err(|error| broken(&error))?,
            out: &mut io::stdout(),
            err: &mut io::stderr(),
        };
        let conversation = converse(socket, this_side);
        let ended = match raw.is_some() {
            // Without a terminal to give back, a signal may do its usual work.
            false => conversation.await,
            true => tokio::select! {
                ended = conversation => ended,
                number = end_signal() => Ok(Ending::Exited(SIGNALLED + number)),
            },
        };
        drop(raw);
        ended.map_err(|error| broken(&error))
    });
    // A thread that reads standard input may wait for ever; the runtime does not wait for it, nor does the process.
    match ended? {
        Ending::Exited(0) => Ok(0),
        Ending::Exited(code) if code >= SIGNALLED && has_terminal => Ok(code),
        Ending::Exited(code) => {
            eprintln!("command terminated with exit code {code}");
            Ok(code)
        }
        Ending::Failed(why) => Err(Trouble::Refused(why)),
    }
}

/// The agent's path for this command.
fn path(place: &str, wanted: &ExecOptions, has_terminal: bool) -> String {
    let switches = [("input", wanted.stdin), ("output", true), ("error", !has_terminal), ("tty", has_terminal)];
    let switches = switches.iter().filter(|(_, on)| *on).map(|(name, _)| format!("{name}=1"));
    let words = wanted.command.iter().map(|word| format!("command={}", escape(word)));
    format!("/exec/{place}?{}", switches.chain(words).collect::<Vec<_>>().join("&"))
}

/// Opens the streams, within a time.
async fn open(client: &Client, path: &str) -> Result<WebSocketStream<UnixStream>, Trouble> {
    let opening = async {
        let stream = UnixStream::connect(client.place()).await;
        let stream = stream.map_err(|error| Trouble::Unreachable { socket: client.place(), error })?;
        let mut request =
            format!("ws://podwright{path}").into_client_request().map_err(|error| client.no_answer(path, error))?;
        request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(V5));
        let mut config = WebSocketConfig::default();
        config.max_message_size = Some(MESSAGE_BYTES_MAX);
        config.max_frame_size = Some(MESSAGE_BYTES_MAX);
        match tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await {
            Ok((socket, _)) => Ok(socket),
            Err(tungstenite::Error::Http(answer)) => {
                let body = answer.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
                let said = body.trim_end();
                let said = if said.is_empty() { answer.status().to_string() } else { said.to_owned() };
                Err(Trouble::Refused(said))
            }
            Err(other) => Err(client.no_answer(path, other)),
        }
    };
    let opened = tokio::time::timeout(OPEN_MAX, opening).await;
    opened.unwrap_or_else(|_| Err(client.no_answer(path, "it took too long")))
}

/// Standard input in pieces; an empty end when it is closed. A thread reads, because a terminal can only be waited for.
fn input() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(INPUT_PIECES_MAX);
    std::thread::spawn(move || {
        let mut buffer = vec![0; INPUT_BYTES];
        loop {
            match io::stdin().lock().read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => {
                    if sender.blocking_send(buffer[..count].to_vec()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
    receiver
}

/// The streams of the one who asks.
struct ThisSide<'a> {
    /// Closed when the input ends; `None` when it is not passed on.
    input: Option<mpsc::Receiver<Vec<u8>>>,
    /// Says that the terminal's size changed.
    sizes: Option<Signal>,
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    /// With this status.
    Exited(i32),
    /// It did not run, or nobody knows how it ended.
    Failed(String),
}

/// The connection's two halves.
type Sink<S> = SplitSink<WebSocketStream<S>, Message>;
type Stream<S> = SplitStream<WebSocketStream<S>>;

/// Carries bytes in both directions until the agent has said how the command ended. Neither direction waits for the other:
/// a command that writes before it reads on would stand still otherwise.
async fn converse<S>(socket: WebSocketStream<S>, this_side: ThisSide<'_>) -> Result<Ending, Box<tungstenite::Error>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let ThisSide { input, sizes, out, err } = this_side;
    let (sink, stream) = socket.split();
    tokio::select! {
        ended = receive(stream, out, err) => ended,
        never = send(sink, input, sizes) => match never {},
    }
}

/// Takes output until the end.
async fn receive<S>(
    mut stream: Stream<S>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Ending, Box<tungstenite::Error>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut said = vec![];
    loop {
        let bytes = match stream.next().await {
            Some(Ok(Message::Binary(bytes))) => bytes,
            Some(Ok(Message::Close(_))) | None => break,
            // An end without ceremony is an end, once the command's own is known.
            Some(Err(_)) if !said.is_empty() => break,
            Some(Err(error)) => return Err(Box::new(error)),
            Some(Ok(_)) => continue,
        };
        let Some((channel, rest)) = bytes.split_first() else { continue };
        let written = match *channel {
            STDOUT => out.write_all(rest).and_then(|()| out.flush()),
            STDERR => err.write_all(rest).and_then(|()| err.flush()),
            ERROR if said.len() + rest.len() <= STATUS_BYTES_MAX => {
                said.extend_from_slice(rest);
                Ok(())
            }
            _ => Ok(()),
        };
        written.map_err(|error| Box::new(tungstenite::Error::Io(error)))?;
    }
    Ok(match status::outcome(&said) {
        Ok(code) => Ending::Exited(code.into()),
        Err(why) => Ending::Failed(why),
    })
}

/// Passes input and sizes on. Never ends: a command that takes no more has a status, which is still on its way.
async fn send<S>(mut sink: Sink<S>, mut input: Option<mpsc::Receiver<Vec<u8>>>, mut sizes: Option<Signal>) -> Infallible
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut next = sizes.is_some().then(size).flatten();
    loop {
        let message = match next.take() {
            Some(message) => message,
            None => tokio::select! {
                piece = next_piece(&mut input) => match piece {
                    Some(piece) => [&[STDIN], &piece[..]].concat(),
                    None => {
                        input = None;
                        vec![CLOSE, STDIN]
                    }
                },
                () = next_signal(&mut sizes) => match size() {
                    Some(message) => message,
                    None => continue,
                },
            },
        };
        if sink.send(Message::binary(message)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A piece of input, `None` at its end; waits for ever where there is none, or no more.
async fn next_piece(input: &mut Option<mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match input {
        Some(input) => input.recv().await,
        None => std::future::pending().await,
    }
}

async fn next_signal(sizes: &mut Option<Signal>) {
    match sizes {
        Some(sizes) => drop(sizes.recv().await),
        None => std::future::pending().await,
    }
}

/// The message that tells the terminal's size.
fn size() -> Option<Vec<u8>> {
    let size = terminal::size()?;
    let text = format!(r#"{{"Width":{},"Height":{}}}"#, size.width, size.height);
    Some([&[RESIZE], text.as_bytes()].concat())
}

/// Waits for a signal that ends a program; its number.
async fn end_signal() -> i32 {
    let kinds = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit(), SignalKind::terminate()];
    let waits = kinds.into_iter().map(|kind| {
        Box::pin(async move {
            match signal(kind) {
                Ok(mut signal) => signal.recv().await,
                Err(_) => std::future::pending().await,
            };
            kind.as_raw_value()
        })
    });
    futures_util::future::select_all(waits).await.0
}

#[cfg(test)]
mod tests;
