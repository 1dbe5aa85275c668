//! Files of the node's log directory: listings, whole files, parts of them, and "not modified".

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, SystemTime};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use futures_util::stream;

use crate::logic::formats::byte_ranges::{self, Asked, Multipart, Part};
use crate::platform::logs::log_reader::Admission;
use crate::platform::logs::node_logs::{NodeLog, NodeLogFile, NodeLogs};
use crate::server::reply::{self, Reply};

/// The bytes of a file that are looked at to tell text from other content.
const SNIFFED_BYTES: u64 = 512;
/// How times are written in headers.
const HTTP_DATE: &str = "%a, %d %b %Y %H:%M:%S GMT";

/// Answers with what a path names; the room is given back with the body. `boundary` is nobody's guess.
pub(super) async fn answer(
    logs: &dyn NodeLogs,
    path: &str,
    headers: &HeaderMap,
    boundary: &str,
    room: Admission,
) -> Reply {
    let as_folder = path.is_empty() || path.ends_with('/');
    match logs.open(path.trim_end_matches('/')).await {
        Ok(NodeLog::Folder(_, _)) if !as_folder => moved(&format!("{}/", last(path))),
        Ok(NodeLog::Folder(names, changed)) => folder(&names, changed, headers),
        Ok(NodeLog::File(..)) if as_folder => moved(&format!("../{}", last(path))),
        Ok(NodeLog::File(opened, length, changed)) => {
            let log = Log { opened, length, changed, packed: path.ends_with(".gz") };
            file(log, headers, boundary, room).await
        }
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => reply::not_found().await,
            io::ErrorKind::PermissionDenied => reply::text(StatusCode::FORBIDDEN, "403 Forbidden\n"),
            _ => reply::text(StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error\n"),
        },
    }
}

fn last(path: &str) -> String {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    escaped(name)
}

/// A name as part of a URL, with nothing in it that means something there.
fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn moved(to: &str) -> Reply {
    let mut answer = reply::text(StatusCode::MOVED_PERMANENTLY, "");
    if let Ok(to) = HeaderValue::from_str(to) {
        answer.headers_mut().insert(header::LOCATION, to);
    }
    answer
}

fn folder(names: &[String], changed: SystemTime, headers: &HeaderMap) -> Reply {
    if is_unchanged(headers, changed) {
        return unchanged(changed);
    }
    let mut page = "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n".to_owned();
    for name in names {
        let (plain, mark) = name.strip_suffix('/').map_or((name.as_str(), ""), |plain| (plain, "/"));
        let shown: String = plain.chars().map(in_html).collect();
        page.push_str(&format!("<a href=\"{}{mark}\">{shown}{mark}</a>\n", escaped(plain)));
    }
    page.push_str("</pre>\n");
    let mut answer = reply::with_type(StatusCode::OK, "text/html; charset=utf-8", Body::from(page));
    put(&mut answer, header::LAST_MODIFIED, &http_date(changed));
    answer
}

fn in_html(character: char) -> String {
    match character {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&#34;".to_owned(),
        '\'' => "&#39;".to_owned(),
        other => other.to_string(),
    }
}

struct Log {
    opened: NodeLogFile,
    length: u64,
    changed: SystemTime,
    packed: bool,
}

/// Answers with a file, or parts of it; `boundary` stands between several.
async fn file(log: Log, headers: &HeaderMap, boundary: &str, room: Admission) -> Reply {
    if is_unchanged(headers, log.changed) {
        return unchanged(log.changed);
    }
    let beginning = match log.opened.read_at(0, log.length.min(SNIFFED_BYTES)).await {
        Ok(beginning) => beginning,
        Err(_) => return reply::text(StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error\n"),
    };
    let binary = beginning.iter().any(|byte| matches!(byte, 0..=8 | 11 | 14..=26 | 28..=31));
    let content_type = match (log.packed, binary) {
        (true, _) => "application/gzip",
        (false, true) => "application/octet-stream",
        // Never a page: a container may have written it.
        (false, false) => "text/plain; charset=utf-8",
    };
    let (length, changed) = (log.length, http_date(log.changed));
    let parts = match asked(headers, &log) {
        Asked::Whole => vec![],
        Asked::Parts(parts) => parts,
        Asked::Invalid => return out_of_range("invalid range\n", None),
        Asked::Nowhere => {
            return out_of_range("invalid range: failed to overlap\n", Some(&format!("bytes */{length}")));
        }
    };
    let whole = [Part { from: 0, to: length }];
    let (status, content_range, multipart) = match parts.as_slice() {
        [] => (StatusCode::OK, None, None),
        [one] => (StatusCode::PARTIAL_CONTENT, Some(one.content_range(length)), None),
        many => (StatusCode::PARTIAL_CONTENT, None, Some(Multipart::new(many, boundary, content_type, length))),
    };
    let (pieces, body_length): (VecDeque<Piece>, u64) = match &multipart {
        Some(multipart) => {
            let parts = multipart.parts.iter().flat_map(|(head, part)| [Piece::text(head), Piece::Part(*part)]);
            (parts.chain([Piece::text(&multipart.end)]).collect(), multipart.length())
        }
        None => {
            let part = parts.first().unwrap_or(&whole[0]);
            ([Piece::Part(*part)].into(), part.to - part.from)
        }
    };
    let body = Body::from_stream(stream::unfold((log.opened, pieces, room), |(opened, mut pieces, room)| async move {
        let piece = next(&opened, &mut pieces).await?;
        Some((piece, (opened, pieces, room)))
    }));
    let mut answer = reply::with_type(status, content_type, body);
    if multipart.is_some() {
        put(&mut answer, header::CONTENT_TYPE, &format!("multipart/byteranges; boundary={boundary}"));
    }
    put(&mut answer, header::ACCEPT_RANGES, "bytes");
    put(&mut answer, header::LAST_MODIFIED, &changed);
    put(&mut answer, header::CONTENT_LENGTH, &body_length.to_string());
    if let Some(range) = content_range {
        put(&mut answer, header::CONTENT_RANGE, &range);
    }
    answer
}

/// A piece of an answer.
enum Piece {
    Text(Bytes),
    Part(Part),
}

impl Piece {
    fn text(text: &str) -> Self {
        Self::Text(Bytes::copy_from_slice(text.as_bytes()))
    }
}

/// The next bytes of what is still to be answered.
async fn next(opened: &NodeLogFile, pieces: &mut VecDeque<Piece>) -> Option<io::Result<Bytes>> {
    loop {
        match pieces.pop_front()? {
            Piece::Text(text) => return Some(Ok(text)),
            Piece::Part(Part { from, to }) if from >= to => {}
            Piece::Part(Part { from, to }) => {
                let read = match opened.read_at(from, to - from).await {
                    // Cut short since: the client sees that bytes are missing.
                    Ok(read) if read.is_empty() => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                    read => read,
                };
                match &read {
                    Ok(read) => pieces.push_front(Piece::Part(Part { from: from + read.len() as u64, to })),
                    Err(_) => pieces.clear(),
                }
                return Some(read);
            }
        }
    }
}

fn out_of_range(text: &str, content_range: Option<&str>) -> Reply {
    let mut answer = reply::text(StatusCode::RANGE_NOT_SATISFIABLE, text);
    if let Some(range) = content_range {
        put(&mut answer, header::CONTENT_RANGE, range);
    }
    answer
}

/// The parts that are asked for, unless the file is another than the client knows.
fn asked(headers: &HeaderMap, log: &Log) -> Asked {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if text(header::IF_RANGE).is_some_and(|since| since != http_date(log.changed)) {
        return Asked::Whole;
    }
    text(header::RANGE)
        .filter(|range| !range.is_empty())
        .map_or(Asked::Whole, |range| byte_ranges::parse(range, log.length))
}

fn is_unchanged(headers: &HeaderMap, changed: SystemTime) -> bool {
    let since = headers.get(header::IF_MODIFIED_SINCE).and_then(|value| value.to_str().ok());
    let since = since.and_then(|text| jiff::civil::DateTime::strptime(HTTP_DATE, text).ok());
    let since = since.and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok());
    since.is_some_and(|since| seconds(changed) <= since.timestamp().as_second())
}

fn unchanged(changed: SystemTime) -> Reply {
    let mut answer = Reply::new(Body::empty());
    *answer.status_mut() = StatusCode::NOT_MODIFIED;
    put(&mut answer, header::LAST_MODIFIED, &http_date(changed));
    answer
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn http_date(time: SystemTime) -> String {
    jiff::Timestamp::from_second(seconds(time)).unwrap_or_default().strftime(HTTP_DATE).to_string()
}

fn put(answer: &mut Reply, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}
