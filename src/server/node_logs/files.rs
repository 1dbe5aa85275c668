//! Files of the node's log directory: listings, whole files, parts of them, and "not modified".

use std::io;
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use futures_util::stream;

use super::super::reply::{self, Reply};
use crate::platform::log_reader::Admission;
use crate::platform::node_logs::{NodeLog, NodeLogFile, NodeLogs};

/// What is looked at of a file to tell text from what is none.
const SNIFFED_BYTES: u64 = 512;
/// How times are written in headers.
const HTTP_DATE: &str = "%a, %d %b %Y %H:%M:%S GMT";

/// Answers with what a path names; the room is given back with the body.
pub(super) async fn answer(logs: &dyn NodeLogs, path: &str, headers: &HeaderMap, room: Admission) -> Reply {
    let as_folder = path.is_empty() || path.ends_with('/');
    match logs.open(path.trim_end_matches('/')).await {
        Ok(NodeLog::Folder(_, _)) if !as_folder => moved(&format!("{}/", last(path))),
        Ok(NodeLog::Folder(names, changed)) => folder(&names, changed, headers),
        Ok(NodeLog::File(..)) if as_folder => moved(&format!("../{}", last(path))),
        Ok(NodeLog::File(opened, length, changed)) => {
            let log = Log { opened, length, changed, packed: path.ends_with(".gz") };
            file(log, headers, room).await
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

async fn file(log: Log, headers: &HeaderMap, room: Admission) -> Reply {
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
    let (status, from, to) = match range(headers, &log) {
        Range::Whole => (StatusCode::OK, 0, log.length),
        Range::Part(from, to) => (StatusCode::PARTIAL_CONTENT, from, to),
        Range::Nowhere => {
            let text = "invalid range: failed to overlap\n";
            let mut answer = reply::text(StatusCode::RANGE_NOT_SATISFIABLE, text);
            put(&mut answer, header::CONTENT_RANGE, &format!("bytes */{}", log.length));
            return answer;
        }
    };
    let (length, changed) = (log.length, log.changed);
    let parts = stream::unfold((log.opened, from, room), move |(opened, at, room)| async move {
        if at >= to {
            return None;
        }
        match opened.read_at(at, to - at).await {
            // Cut short since: the client sees that bytes are missing.
            Ok(part) if part.is_empty() => {
                Some((Err(io::Error::from(io::ErrorKind::UnexpectedEof)), (opened, to, room)))
            }
            Ok(part) => {
                let next = at + part.len() as u64;
                Some((Ok(part), (opened, next, room)))
            }
            Err(error) => Some((Err(error), (opened, to, room))),
        }
    });
    let mut answer = reply::with_type(status, content_type, Body::from_stream(parts));
    put(&mut answer, header::ACCEPT_RANGES, "bytes");
    put(&mut answer, header::LAST_MODIFIED, &http_date(changed));
    put(&mut answer, header::CONTENT_LENGTH, &(to - from).to_string());
    if status == StatusCode::PARTIAL_CONTENT {
        put(&mut answer, header::CONTENT_RANGE, &format!("bytes {from}-{}/{length}", to - 1));
    }
    answer
}

enum Range {
    Whole,
    /// From, up to, the second excluded.
    Part(u64, u64),
    Nowhere,
}

/// The one range that is asked for. Several, and what is none, are answered with the whole, as they may be.
fn range(headers: &HeaderMap, log: &Log) -> Range {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if text(header::IF_RANGE).is_some_and(|since| since != http_date(log.changed)) {
        return Range::Whole;
    }
    let Some((first, last)) = text(header::RANGE).and_then(|text| text.strip_prefix("bytes=")?.split_once('-')) else {
        return Range::Whole;
    };
    let (first, last) = (first.trim(), last.trim());
    if first.is_empty() {
        return match last.parse::<u64>() {
            Ok(0) => Range::Nowhere,
            Ok(count) => Range::Part(log.length.saturating_sub(count), log.length),
            Err(_) => Range::Whole,
        };
    }
    let Ok(from) = first.parse::<u64>() else { return Range::Whole };
    let to = match last {
        "" => log.length,
        last => match last.parse::<u64>() {
            Ok(last) if last >= from => last.saturating_add(1).min(log.length),
            _ => return Range::Whole,
        },
    };
    if from >= log.length { Range::Nowhere } else { Range::Part(from, to) }
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
