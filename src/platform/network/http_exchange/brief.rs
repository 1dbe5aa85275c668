//! An exchange over a plain connection whose answer is there as a whole with its first bytes.
//!
//! Nearly every probe's answer is, and probes are most of what a quiet node does. Such an answer is read where it lies;
//! every other one (in pieces, in chunks, until the end of the connection, redirecting, too large, odd) goes on over
//! `hyper`. That hears it from its beginning. So what is right and wrong in HTTP is decided there alone: what is taken here,
//! `hyper` would take the same way.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use hyper::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use super::dial::Line;
use super::{Answer, Haste, is_redirect};

/// The longest answer, with its header, that can be brief.
const BYTES_MAX: usize = 4096;
/// The most headers that a brief answer has.
const HEADERS_MAX: usize = 32;
/// How long it is until an answer without haste is looked for, each time. Those that come later are waited for.
const PAUSES: [Duration; 2] = [Duration::from_millis(20); 2];

/// The kind of an answer, by its first bytes.
pub(super) enum Heard {
    /// They are all of it.
    Whole(Answer),
    /// There is more, or something to be looked at closely.
    Begun(Resumed),
}

/// Sends a request and hears what comes first. Without `haste` the answer is looked for some milliseconds later: what
/// was asked together is then heard in a few wakes of the thread, and nearly all of it without an event of its own.
///
/// # Errors
/// The kernel's.
pub(super) async fn ask(line: Line, request: &[u8], body_max: usize, haste: Haste) -> io::Result<Heard> {
    let sent = line.speak(request)?;
    if haste == Haste::Little && sent == request.len() {
        for pause in PAUSES {
            tokio::time::sleep(pause).await;
            let mut room = [MaybeUninit::uninit(); BYTES_MAX];
            let Some(heard) = line.heard(&mut room)? else { continue };
            return match whole(heard, body_max) {
                Some(answer) => Ok(Heard::Whole(answer)),
                None => Ok(Heard::Begun(Resumed::new(line.watched()?, heard.to_vec()))),
            };
        }
    }
    let mut stream = line.watched()?;
    stream.write_all(&request[sent..]).await?;
    let heard = poll_fn(|cx| {
        let mut room = [MaybeUninit::uninit(); BYTES_MAX];
        let mut room = ReadBuf::uninit(&mut room);
        ready!(Pin::new(&mut stream).poll_read(cx, &mut room))?;
        let heard = room.filled();
        Poll::Ready(io::Result::Ok(whole(heard, body_max).ok_or_else(|| heard.to_vec())))
    });
    Ok(match heard.await? {
        Ok(answer) => Heard::Whole(answer),
        Err(heard) => Heard::Begun(Resumed::new(stream, heard)),
    })
}

/// The answer, if this is all of one, and nobody could read it in another way.
fn whole(heard: &[u8], body_max: usize) -> Option<Answer> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(head_bytes)) = head.parse(heard) else { return None };
    let status = head.code.filter(|status| *status >= 200 && !is_redirect(*status))?;
    let has_body = status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED;
    let body_bytes = if has_body { content_length(head.headers)? } else { 0 };
    let body = &heard[head_bytes..];
    let is_whole = body.len() == body_bytes && body_bytes <= body_max;
    is_whole.then(|| Answer { status, body: body.to_vec(), cut: false })
}

/// The body's length, if the header has it once, and in no other way.
fn content_length(headers: &[httparse::Header]) -> Option<usize> {
    let mut length = None;
    for header in headers {
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return None;
        }
        if header.name.eq_ignore_ascii_case("content-length") {
            let digits = std::str::from_utf8(header.value).ok()?;
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            if length.is_some() || !is_number {
                return None;
            }
            length = Some(digits.parse().ok()?);
        }
    }
    length
}

/// A connection on which the request was sent and the answer has begun, for one who would do both: the request that is
/// written to it goes nowhere, and the answer is read from its beginning.
#[derive(Debug)]
pub(super) struct Resumed {
    stream: TcpStream,
    heard: Vec<u8>,
    taken: usize,
    is_asked: bool,
    /// The reader that would read before the request was written: an answer to nothing would be an error.
    waiting: Option<Waker>,
}

impl Resumed {
    fn new(stream: TcpStream, heard: Vec<u8>) -> Self {
        Self { stream, heard, taken: 0, is_asked: false, waiting: None }
    }
}

impl AsyncRead for Resumed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.is_asked {
            self.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let left = &self.heard[self.taken..];
        if left.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let now = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..now]);
        self.taken += now;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Resumed {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.is_asked = true;
        self.waiting.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Ask, Errand, Redirects, Target, WireError, test_server};
    use super::*;
    use crate::platform::network::names::Names;

    fn parsed(heard: &str) -> Option<(u16, String)> {
        let answer = whole(heard.as_bytes(), 8)?;
        assert!(!answer.cut);
        Some((answer.status, String::from_utf8(answer.body).expect("text")))
    }

    #[test]
    fn only_what_is_all_there_and_plain_is_taken() {
        let answer = |status, body: &str| Some((status, body.to_owned()));
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", answer(200, "ok")),
            ("HTTP/1.0 503 \r\nserver: x\r\ncontent-LENGTH: 0\r\n\r\n", answer(503, "")),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nLocation: /x\r\n\r\n", answer(304, "")),
            ("HTTP/1.1 204\r\n\r\n", answer(204, "")),
            ("", None),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", None),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", None),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok!", None),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ntoo large", None),
            ("HTTP/1.1 200 OK\r\n\r\nuntil its end", None),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", None),
            ("HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", None),
            ("HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok", None),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nok", None),
            ("HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /x\r\n\r\n", None),
            ("HTTP/1.1 204 No Content\r\n\r\nand yet", None),
            ("HTTP/1.1 100 Continue\r\n\r\n", None),
            ("HTTP/1.1 101 Switching\r\nContent-Length: 0\r\n\r\n", None),
            ("HTTP/2 200\r\nContent-Length: 0\r\n\r\n", None),
            ("SSH-2.0-x\r\n\r\n", None),
        ];
        for (heard, expected) in cases {
            assert_eq!(parsed(heard), expected, "{heard:?}");
        }
    }

    /// Whether it is there when it is looked for, comes later, in pieces or not at all: the answer is the same.
    #[tokio::test]
    async fn an_answer_is_heard_whenever_it_comes() {
        let cases: [(&[&str], _); 5] = [
            (&["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"], Ok((200, "ok"))),
            (&["", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate"], Ok((200, "late"))),
            (&["HTTP/1.1 200 OK\r\nContent-Len", "gth: 6\r\n\r\npie", "ces"], Ok((200, "pieces"))),
            (&["HTTP/1.1 503 Busy\r\n\r\n", "until its end"], Ok((503, "until its end"))),
            (&[], Err(": EOF")),
        ];
        for (said, expected) in cases {
            for haste in [Haste::Great, Haste::Little] {
                let address = test_server::serve(move |_, stream| {
                    for piece in said {
                        stream.write_all(piece.as_bytes()).expect("heard");
                        std::thread::sleep(2 * PAUSES[1]);
                    }
                });
                let target = Target::from_parts("http", "127.0.0.1", address.port(), "/").expect("a target");
                let (redirects, timeout) = (Redirects::SameHost, Duration::from_secs(60));
                let names = Names::OfNode;
                let ask = Ask { target, headers: vec![], redirects, body_max: 100, timeout, haste, names };
                let heard = Errand::new(ask)
                    .expect("plain")
                    .run(&|| Err(WireError::Settings("not asked for".to_owned())))
                    .await;
                let heard = heard.map(|answer| (answer.status, String::from_utf8(answer.body).expect("text")));
                match (&heard, expected) {
                    (Ok((status, body)), Ok(expected)) => assert_eq!((*status, body.as_str()), expected, "{haste:?}"),
                    (Err(error), Err(end)) => assert!(error.to_string().ends_with(end), "{haste:?}: {error}"),
                    _ => panic!("{haste:?}, {said:?}: {heard:?}"),
                }
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_judged(heard in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let begun = [b"HTTP/1.1 200 OK\r\n".as_slice(), &heard].concat();
            proptest::prop_assert!(whole(&heard, 8).is_none());
            proptest::prop_assert!(whole(&begun, 8).is_none_or(|answer| answer.body.len() <= 8));
        }
    }

    /// A header too many is no error: it is read by whom it is not too many for.
    #[test]
    fn many_headers_are_not_brief() {
        let with = |count: usize| format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "X: y\r\n".repeat(count));
        assert_eq!(parsed(&with(HEADERS_MAX - 1)), Some((200, String::new())));
        assert_eq!(parsed(&with(HEADERS_MAX)), None);
    }
}
