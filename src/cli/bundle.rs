//! `podwright debug-bundle`: what somebody needs who looks for a fault from afar, in one archive without secrets.
//!
//! Each part is asked for by itself, within a time and to a size; one that fails is named in the list, and the others go
//! on. `pods`, `texts` and `known` say what is cut. The archive says so, too, in its README.txt.

mod known;
mod node;
mod pods;
mod tar;
mod texts;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::arguments::BundleOptions;
use super::client::{Client, Trouble, escape};
use super::html;
use crate::config::version::OWN_COMMIT;
use crate::platform::host::clock::{Clock, SystemClock};
use crate::server::views::table::{Cell, Mood, table};
use crate::server::views::{Explanation, PluginRow, PodRow};
use known::Known;

/// For all parts together; parts that are not begun by then are left out.
const TIME_MAX: Duration = Duration::from_secs(120);
/// Bytes of one part.
const PART_BYTES_MAX: usize = 32 << 20;
/// Bytes of all parts, before they are compressed.
const BYTES_MAX: usize = 128 << 20;
/// Pods that are explained.
const EXPLAINED_MAX: usize = 100;

const README: &str = include_str!("bundle/README.txt");

/// A part of the bundle: its name, and its content or why it is not there.
type Part = (String, Result<Vec<u8>, String>);

/// Makes the bundle; the list of its parts.
pub(super) fn run(client: &Client, wanted: &BundleOptions, colours: bool) -> Result<String, Trouble> {
    let clock = SystemClock::start();
    let parts = Collector::new(client, &clock).all();
    let now = clock.now().to_timestamp();
    let listed = list(&parts, colours);
    if wanted.list {
        return Ok(listed);
    }
    let packed = pack(&parts, u64::try_from(now.as_second()).unwrap_or_default());
    let to_stdout = wanted.file.as_ref().is_some_and(|file| file.as_os_str() == "-");
    if to_stdout {
        let packed = packed.and_then(|bytes| std::io::stdout().lock().write_all(&bytes));
        packed.map_err(|error| Trouble::File { file: PathBuf::from("-"), error })?;
        eprint!("{listed}");
        return Ok(String::new());
    }
    let name = || PathBuf::from(format!("podwright-debug-{}.tar.gz", now.strftime("%Y%m%dT%H%M%SZ")));
    let file = wanted.file.clone().unwrap_or_else(name);
    let written = packed.and_then(|bytes| {
        // Never through a link that somebody put there, and for nobody else's eyes.
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file)?;
        out.write_all(&bytes).map(|()| bytes.len())
    });
    let size = written.map_err(|error| Trouble::File { file: file.clone(), error })?;
    Ok(format!("{listed}\n{}: {size} bytes. Read it before you hand it on.\n", file.display()))
}

/// The list of all parts with their sizes.
fn list(parts: &[Part], colours: bool) -> String {
    let row = |(name, part): &Part| match part {
        Ok(content) => vec![name.as_str().into(), content.len().to_string().into(), Cell::default()],
        Err(why) => vec![name.as_str().into(), "-".into(), Cell::new(why.as_str(), Mood::Pending)],
    };
    table(&["PART", "BYTES", "LEFT OUT BECAUSE"], &parts.iter().map(row).collect::<Vec<_>>(), colours)
}

/// The archive, compressed.
fn pack(parts: &[Part], modified: u64) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Archive::default();
    for (name, part) in parts {
        if let Ok(content) = part {
            archive.add(&format!("podwright-debug/{name}"), modified, content);
        }
    }
    archive.add("podwright-debug/CONTENTS.txt", modified, list(parts, false).as_bytes());
    let mut packed = GzEncoder::new(vec![], Compression::default());
    packed.write_all(&archive.finish())?;
    packed.finish()
}

/// Asks for one part after the other.
struct Collector<'a> {
    client: &'a Client,
    clock: &'a SystemClock,
    parts: Vec<Part>,
    known: Known,
}

impl<'a> Collector<'a> {
    fn new(client: &'a Client, clock: &'a SystemClock) -> Self {
        Self { client, clock, parts: vec![], known: Known::Nothing }
    }

    fn all(mut self) -> Vec<Part> {
        self.add("README.txt", |_| Ok(README.as_bytes().to_vec()));
        self.add("version.txt", |_| Ok(version().into_bytes()));
        // First, because it says which values must not be in the others.
        self.pods();
        self.add("statusz.txt", |this| this.get("/statusz"));
        self.add("flagz.txt", |this| Ok(texts::cut_flags(&this.text("/flagz")?).into_bytes()));
        let endpoint = self.configuration();
        self.actors();
        self.rows();
        self.add("plugins.json", |this| {
            let rows: Vec<PluginRow> = this.decode("/debug/plugins")?;
            indented(&rows.into_iter().map(|row| pods::cut_plugin(row, &this.known)).collect::<Vec<_>>())
        });
        for (name, path) in [
            ("metrics.txt", "/metrics"),
            ("metrics-probes.txt", "/metrics/probes"),
            ("metrics-slis.txt", "/metrics/slis"),
        ] {
            self.add(name, |this| Ok(this.redacted(&this.text(path)?)?.into_bytes()));
        }
        self.add("healthz.txt", |this| this.get("/healthz?verbose=1"));
        self.add("system.txt", |_| Ok(node::system().into_bytes()));
        self.add("runtime.txt", |_| blocking(node::runtime(&endpoint?)));
        self.add("agent-log.txt", |this| {
            let log = String::from_utf8_lossy(&blocking(node::journal())?).into_owned();
            Ok(texts::cut_log(&log, &this.known).into_bytes())
        });
        self.parts
    }

    /// Adds a part, if there is still time and room.
    fn add(&mut self, name: &str, make: impl FnOnce(&Self) -> Result<Vec<u8>, String>) -> bool {
        let taken: usize = self.parts.iter().filter_map(|(_, part)| part.as_ref().ok()).map(Vec::len).sum();
        let part = match self.clock.uptime() > TIME_MAX {
            true => Err(format!("the bundle took longer than {} s already", TIME_MAX.as_secs())),
            false => make(self),
        };
        let part = part.and_then(|content| match content.len() {
            size if size > PART_BYTES_MAX => Err(format!("{size} bytes are more than {PART_BYTES_MAX}")),
            size if taken + size > BYTES_MAX => Err(format!("the bundle has {taken} bytes already")),
            _ => Ok(content),
        });
        let is_there = part.is_ok();
        self.parts.push((name.to_owned(), part));
        is_there
    }

    fn get(&self, path: &str) -> Result<Vec<u8>, String> {
        self.client.get(path).map_err(|trouble| trouble.to_string())
    }

    fn text(&self, path: &str) -> Result<String, String> {
        Ok(String::from_utf8_lossy(&self.get(path)?).into_owned())
    }

    fn decode<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let body = self.get(path)?;
        self.client.decode(path, &body).map_err(|trouble| trouble.to_string())
    }

    /// A whole text of the agent. Without the pods it may hold anything.
    fn redacted(&self, text: &str) -> Result<String, String> {
        match &self.known {
            Known::Values(_) => Ok(self.known.redacted(text)),
            Known::Nothing => Err("without the pods nobody knows the values that must not be in it".to_owned()),
        }
    }

    fn pods(&mut self) {
        let mut known = Known::Nothing;
        self.add("pods.json", |this| {
            let mut list: Value = this.decode("/pods")?;
            let mut redacted = pods::Redacted::default();
            redacted.cut_pods(&mut list);
            known = Known::of(&redacted.cut, &redacted.kept);
            indented(&list)
        });
        self.known = known;
    }

    /// The runtime's endpoint.
    fn configuration(&mut self) -> Result<String, String> {
        let mut endpoint = Err("the configuration does not name the runtime".to_owned());
        self.add("configz.json", |this| {
            let mut value: Value = this.decode("/configz")?;
            if let Some(named) = value.pointer("/kubeletconfig/containerRuntimeEndpoint").and_then(Value::as_str) {
                endpoint = Ok(named.to_owned());
            }
            texts::cut_configuration(&mut value);
            indented(&value)
        });
        endpoint
    }

    fn actors(&mut self) {
        let mut actors = Value::Null;
        self.add("actors.json", |this| {
            actors = this.decode("/debug/actors")?;
            texts::cut_actors(&mut actors, &this.known);
            indented(&actors)
        });
        let mut trace = Value::Null;
        self.add("trace.json", |this| {
            trace = this.decode("/debug/actors/trace?format=json")?;
            indented(&trace)
        });
        self.add("trace.html", |_| html::bundled(trace, actors).map(String::into_bytes));
    }

    /// The list of pods, and an explanation of each that is not well.
    fn rows(&mut self) {
        let mut unwell = vec![];
        self.add("ps.json", |this| {
            let rows: Vec<PodRow> = this.decode("/ps")?;
            let is_unwell = |row: &&PodRow| !row.waiting.is_empty() || !(row.ready || row.phase == "Succeeded");
            unwell = rows.iter().filter(is_unwell).map(|row| (row.namespace.clone(), row.name.clone())).collect();
            indented(&rows.into_iter().map(|row| pods::cut_row(row, &this.known)).collect::<Vec<_>>())
        });
        for (place, (namespace, name)) in unwell.into_iter().take(EXPLAINED_MAX).enumerate() {
            self.add(&format!("explain/{place:03}-{name}.json"), |this| {
                let found: Vec<Explanation> =
                    this.decode(&format!("/explain/{}/{}", escape(&namespace), escape(&name)))?;
                let cut = |one| pods::cut_explanation(one, &this.known);
                indented(&found.into_iter().map(cut).collect::<Vec<_>>())
            });
        }
    }
}

/// The version of this program; the agent's is in `statusz.txt`.
fn version() -> String {
    format!("podwright {} (commit {OWN_COMMIT})\n", env!("CARGO_PKG_VERSION"))
}

fn indented<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, String> {
    serde_json::to_vec_pretty(value).map_err(|error| error.to_string())
}

/// Waits for an answer of the node.
fn blocking(work: impl Future<Output = Result<String, String>>) -> Result<Vec<u8>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(work).map(String::into_bytes)
}

#[cfg(test)]
mod tests;
