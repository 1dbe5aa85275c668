//! Runs a program that gives credentials (SEC-42): once for one image, within a minute, with what it prints bounded.
//!
//! Owned by the adapter; keeps nothing.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::{ProviderError, ProviderProblem};
use crate::logic::images::credential_plugins::Provider;
use crate::platform::host::program::Program;

/// How long a program may take: upstream's limit.
const TIME_MAX: Duration = Duration::from_secs(60);
/// The most bytes of an answer. Upstream reads all there is.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;
/// The most bytes of its complaints that go into the error.
const COMPLAINT_BYTES_MAX: u64 = 4096;

/// Runs the program and tells it `request`; gives what it printed.
pub(super) async fn run(
    folder: &Path,
    provider: &Provider,
    repository: &str,
    request: String,
) -> Result<Vec<u8>, ProviderError> {
    let ran = tokio::time::timeout(TIME_MAX, exchange(folder, provider, request)).await;
    ran.unwrap_or(Err(ProviderProblem::TooSlow)).map_err(|problem| ProviderError {
        provider: provider.name.clone(),
        repository: repository.to_owned(),
        problem,
    })
}

async fn exchange(folder: &Path, provider: &Provider, request: String) -> Result<Vec<u8>, ProviderProblem> {
    let failed = |error: std::io::Error| ProviderProblem::Run(error.to_string());
    let mut command = Command::new(folder.join(&provider.name));
    // Its own variables come after the agent's, and count over them.
    command.args(&provider.args).envs(provider.env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Program::start_plugin(&mut command).map_err(failed)?;
    let (mut stdin, stdout, stderr) = (
        child.stdin.take().expect("invariant: it is piped"),
        child.stdout.take().expect("invariant: it is piped"),
        child.stderr.take().expect("invariant: it is piped"),
    );
    let tell = async move {
        // A program need not read what it is asked.
        let _ = stdin.write_all(request.as_bytes()).await;
        drop(stdin);
    };
    let ((), answer, complaint) = tokio::join!(tell, bounded(stdout, ANSWER_BYTES_MAX), beginning(stderr));
    let answer = answer.map_err(|error| ProviderProblem::Read(error.to_string()))?;
    if answer.len() as u64 > ANSWER_BYTES_MAX {
        return Err(ProviderProblem::TooLarge(ANSWER_BYTES_MAX));
    }
    let status = child.wait().await.map_err(failed)?;
    if status.success() {
        return Ok(answer);
    }
    let ended = status.code().map_or_else(|| status.to_string(), |code| format!("exit status {code}"));
    let complaint = String::from_utf8_lossy(&complaint.unwrap_or_default()).trim_end().to_owned();
    Err(ProviderProblem::Failed { ended, complaint })
}

/// Reads up to one byte more than `most`. Of a program that goes on, the pipe is closed then.
async fn bounded(from: impl AsyncRead + Unpin, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![];
    from.take(most + 1).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

/// The first bytes of its complaints; the rest is read and dropped, so that it need not wait for a reader.
async fn beginning(mut from: impl AsyncRead + Unpin) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![];
    (&mut from).take(COMPLAINT_BYTES_MAX).read_to_end(&mut bytes).await?;
    tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    Ok(bytes)
}
