//! Logs of services: from the journal, or from the file where such a service keeps its log. One deadline for all.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{Stream, StreamExt, stream};

use crate::logic::logs::node_log_query::{NodeLogQuery, files_of, is_in_journal};
use crate::platform::logs::log_reader::Admission;
use crate::platform::logs::node_logs::{JournalOutput, NodeLog, NodeLogFile, NodeLogs};
use crate::server::reply::{self, Reply};

/// For all that an answer takes.
const LIMIT: Duration = Duration::from_secs(30);

/// Answers; the room is given back with the body.
pub(super) fn answer(logs: &Arc<dyn NodeLogs>, query: NodeLogQuery, headers: &HeaderMap, room: Admission) -> Reply {
    let copy = Copying { logs: Arc::clone(logs), query, stage: Stage::Begins, _room: room };
    let parts = stream::unfold(copy, |mut copy| async { copy.next().await.map(|part| (part, copy)) });
    let parts = parts.take_until(tokio::time::sleep(LIMIT));
    // As upstream: nothing else than this very word.
    let packed = headers.get(header::ACCEPT_ENCODING).is_some_and(|value| value == "gzip");
    let body =
        if packed { Body::from_stream(pack(parts)) } else { Body::from_stream(parts.map(Ok::<Bytes, io::Error>)) };
    let mut answer = reply::with_type(StatusCode::OK, "text/plain;charset=UTF-8", body);
    if packed {
        answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    answer
}

/// Compresses part by part, so that each is there when it was read.
fn pack(parts: impl Stream<Item = Bytes> + Send) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let parts = parts.map(Some).chain(stream::once(async { None }));
    parts.scan(Some(GzEncoder::new(Vec::new(), Compression::fast())), |encoder, part| {
        std::future::ready(step(encoder, part))
    })
}

fn step(encoder: &mut Option<GzEncoder<Vec<u8>>>, part: Option<Bytes>) -> Option<io::Result<Bytes>> {
    let Some(part) = part else { return encoder.take().map(|encoder| encoder.finish().map(Bytes::from)) };
    let open = encoder.as_mut()?;
    let written = open.write_all(&part).and_then(|()| open.flush());
    Some(written.map(|()| Bytes::from(std::mem::take(open.get_mut()))))
}

enum Stage {
    Begins,
    Journal(JournalOutput),
    /// Services whose files are still to be copied, last first, and the file that is being copied, with the place in it.
    Files(Vec<String>, Option<(NodeLogFile, u64)>),
    Over,
}

struct Copying {
    logs: Arc<dyn NodeLogs>,
    query: NodeLogQuery,
    stage: Stage,
    _room: Admission,
}

impl Copying {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Begins => {
                    if let Some(text) = self.begin().await {
                        return Some(Bytes::from(text));
                    }
                }
                Stage::Journal(mut output) => match output.read().await {
                    Ok(part) if part.is_empty() => return None,
                    Ok(part) => {
                        self.stage = Stage::Journal(output);
                        return Some(part);
                    }
                    Err(error) => {
                        return Some(Bytes::from(format!("\nerror: journal output not available: {error}\n")));
                    }
                },
                Stage::Files(services, Some((file, place))) => match file.read_at(place, u64::MAX).await {
                    Ok(part) if part.is_empty() => self.stage = Stage::Files(services, None),
                    Ok(part) => {
                        self.stage = Stage::Files(services, Some((file, place + part.len() as u64)));
                        return Some(part);
                    }
                    Err(error) => return Some(Bytes::from(format!("\nerror getting log: {error}\n"))),
                },
                Stage::Files(mut services, None) => {
                    let service = services.pop()?;
                    let found = find(self.logs.as_ref(), &service).await;
                    let (file, problem) = match found {
                        Ok(file) => (Some((file, 0)), None),
                        Err(text) => (None, Some(text)),
                    };
                    self.stage = Stage::Files(services, file);
                    if let Some(text) = problem {
                        return Some(Bytes::from(text));
                    }
                }
                Stage::Over => return None,
            }
        }
    }

    /// Finds out where the services' logs are; a text when nothing is to be copied.
    async fn begin(&mut self) -> Option<String> {
        // A node without a journal has files.
        let units = self.logs.units().await.unwrap_or_default();
        let (native, mut files): (Vec<String>, Vec<String>) =
            self.query.services.iter().cloned().partition(|service| is_in_journal(&units, service));
        if !files.is_empty() && self.query.has_options() {
            let files = files.join(" ");
            return Some(format!(
                "\noptions present and query resolved to log files for [{files}]\ntry without specifying options\n"
            ));
        }
        if !files.is_empty() {
            files.reverse();
            self.stage = Stage::Files(files, None);
            return None;
        }
        match self.logs.journal(&self.query.journal_arguments(&native)) {
            Ok(output) => self.stage = Stage::Journal(output),
            Err(_) => return Some("\nerror: journal output not available\n".to_owned()),
        }
        None
    }
}

async fn find(logs: &dyn NodeLogs, service: &str) -> Result<NodeLogFile, String> {
    for path in files_of(service) {
        match logs.open(&path).await {
            Ok(NodeLog::File(file, ..)) => return Ok(file),
            Ok(NodeLog::Folder(..)) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => return Err(format!("\nerror getting log for {service}: {error}\n")),
        }
    }
    Err(format!("\nlog not found for {service}\n"))
}
