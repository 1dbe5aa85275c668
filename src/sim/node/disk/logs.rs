//! Logs that containers write to, at a steady rate each: sizes, first writes after a look, rotation, compression.
//!
//! A container writes to the file that it has open, also when that was renamed, until the runtime opens its log anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::{Disk, POD_LOGS, log_place};
use crate::actors::kit::trace::lock;
use crate::logic::logs::log_rotation::{LogLook, compressed_names, leftovers, plan, to_compress};
use crate::logic::model::time::Moment;
use crate::platform::files::FileError;
use crate::platform::logs::container_logs::ContainerLogs;
use crate::sim::node::outlet::Outlet;

/// From a write to whoever hears of it.
const HEARD_AFTER: Duration = Duration::from_millis(1);
/// The effect of compression on a file: a part of this many.
const COMPRESSION: u64 = 10;

/// A container that writes.
#[derive(Debug)]
struct Writer {
    /// Bytes a second.
    rate: u64,
    /// The file that it has open.
    file: String,
    /// How much was in that file at `since`.
    written: u64,
    since: Moment,
}

impl Writer {
    fn bytes(&self, now: Moment) -> u64 {
        let more = now.since(self.since).as_millis() * u128::from(self.rate) / 1000;
        self.written.saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Writing {
    /// By the path that the runtime got.
    writers: BTreeMap<String, Writer>,
    /// The sizes of files that nobody writes to.
    sizes: BTreeMap<String, u64>,
    /// Logs whose next write the watch reports.
    watched: BTreeSet<String>,
    watch_changed: Arc<Notify>,
    /// The most that any log ever held when it was looked at, renamed or left.
    pub largest: u64,
    /// Looks so far.
    pub looks: u64,
}

impl Writing {
    /// A container begins to write to its log.
    pub fn begin(&mut self, path: &str, rate: u64, now: Moment) {
        if rate > 0 {
            self.writers.insert(path.to_owned(), Writer { rate, file: path.to_owned(), written: 0, since: now });
        }
    }

    /// It has ended.
    pub fn end(&mut self, path: &str, now: Moment) {
        if let Some(writer) = self.writers.remove(path) {
            self.seal(&writer, now);
        }
    }

    /// Forgets files that are not there any more.
    pub(super) fn keep_only(&mut self, is_there: impl Fn(&str) -> bool) {
        self.sizes.retain(|file, _| is_there(file));
        self.watched.retain(|file| is_there(file));
    }

    /// The runtime opens its log anew.
    fn reopen(&mut self, path: &str, now: Moment) {
        if self.writers.get(path).is_none_or(|writer| writer.file == path) {
            return;
        }
        let Some(writer) = self.writers.remove(path) else { return };
        self.seal(&writer, now);
        let rate = writer.rate;
        self.begin(path, rate, now);
    }

    fn seal(&mut self, writer: &Writer, now: Moment) {
        let bytes = writer.bytes(now);
        self.largest = self.largest.max(bytes);
        self.sizes.insert(writer.file.clone(), bytes);
    }

    /// The size of a file.
    pub fn bytes(&self, file: &str, now: Moment) -> u64 {
        let writer = self.writers.values().find(|writer| writer.file == file);
        writer.map_or_else(|| self.sizes.get(file).copied().unwrap_or(0), |writer| writer.bytes(now))
    }

    fn rename(&mut self, from: &str, to: &str) {
        if let Some(size) = self.sizes.remove(from) {
            self.sizes.insert(to.to_owned(), size);
        }
        for writer in self.writers.values_mut().filter(|writer| writer.file == from) {
            to.clone_into(&mut writer.file);
        }
    }

    /// Watched logs that are written to.
    fn take_written(&mut self) -> Vec<String> {
        let open: BTreeSet<&String> = self.writers.values().map(|writer| &writer.file).collect();
        let found: Vec<String> = self.watched.iter().filter(|path| open.contains(path)).cloned().collect();
        self.watched.retain(|path| !found.contains(path));
        found
    }
}

impl Disk {
    /// The runtime opens a container's log anew.
    pub fn reopen_log(&mut self, path: &str, now: Moment) {
        self.write_log(path);
        self.writing.reopen(path, now);
        self.writing.watch_changed.notify_one();
    }

    /// Bytes in the logs of a container, rotated ones too, by the path of its newest one.
    pub fn bytes_of_logs(&self, path: &str, now: Moment) -> u64 {
        let Some((directory, file)) = log_place(path) else { return 0 };
        let folder = file.split('/').next().unwrap_or(file);
        let files = self.logs.get(directory).into_iter().flatten();
        let own = files.filter(|name| name.split('/').next() == Some(folder));
        own.map(|name| self.writing.bytes(&format!("{POD_LOGS}/{directory}/{name}"), now)).sum()
    }

    /// Bytes in all logs.
    pub fn bytes_of_all_logs(&self, now: Moment) -> u64 {
        let files = self.logs.iter().flat_map(|(directory, files)| files.iter().map(move |name| (directory, name)));
        files.map(|(directory, name)| self.writing.bytes(&format!("{POD_LOGS}/{directory}/{name}"), now)).sum()
    }

    fn there(&self, path: &str) -> bool {
        log_place(path)
            .is_some_and(|(directory, file)| self.logs.get(directory).is_some_and(|files| files.contains(file)))
    }

    /// The files of the log's own directory that begin with its name.
    fn names_of(&self, path: &str) -> Vec<String> {
        let Some((directory, base)) = log_place(path) else { return vec![] };
        let files = self.logs.get(directory).into_iter().flatten();
        files.filter(|file| file.starts_with(base)).cloned().collect()
    }

    fn remove_log(&mut self, directory: &str, name: &str) {
        if let Some(files) = self.logs.get_mut(directory) {
            files.remove(name);
        }
    }

    fn rename_log(&mut self, directory: &str, from: &str, to: &str) {
        if let Some(files) = self.logs.get_mut(directory)
            && files.remove(from)
        {
            files.insert(to.to_owned());
        }
    }
}

fn absolute(path: &str, base: &str, name: &str) -> String {
    format!("{}{name}", path.strip_suffix(base).unwrap_or_default())
}

#[async_trait]
impl ContainerLogs for Outlet {
    async fn look(&self, paths: &[String]) -> Vec<LogLook> {
        let now = self.node().time.truly();
        let look = |disk: &mut Disk| {
            disk.writing.looks += 1;
            let mut looks = vec![];
            for path in paths {
                if !disk.there(path) {
                    looks.push(LogLook::Missing);
                    continue;
                }
                let bytes = disk.writing.bytes(path, now);
                disk.writing.largest = disk.writing.largest.max(bytes);
                disk.writing.watched.insert(path.clone());
                looks.push(LogLook::There(bytes, true));
            }
            disk.writing.watch_changed.notify_one();
            looks
        };
        match self.file("look at log", &format!("{} logs", paths.len()), look).await {
            Ok(looks) => looks,
            Err(error) => vec![LogLook::Failed(error.to_string()); paths.len()],
        }
    }

    async fn written(&self) -> Vec<String> {
        loop {
            let (found, changed) = {
                let mut disk = lock(&self.node().disk);
                (disk.writing.take_written(), Arc::clone(&disk.writing.watch_changed))
            };
            if !self.is_alive() {
                return std::future::pending().await;
            }
            if !found.is_empty() {
                self.pass(HEARD_AFTER).await;
                return found;
            }
            changed.notified().await;
        }
    }

    async fn begin_rotation(&self, path: &str, files_max: usize, now: Moment) -> Result<String, FileError> {
        let at = now.to_timestamp().to_zoned(jiff::tz::TimeZone::UTC).datetime();
        self.file("rotate log", path, |disk| {
            let Some((directory, base)) = log_place(path) else { return path.to_owned() };
            let plan = plan(base, &disk.names_of(path), files_max, at);
            for old in &plan.remove {
                disk.remove_log(directory, old);
                disk.writing.sizes.remove(&absolute(path, base, old));
            }
            let rotated = absolute(path, base, &plan.rotated);
            disk.rename_log(directory, base, &plan.rotated);
            disk.writing.rename(path, &rotated);
            rotated
        })
        .await
    }

    async fn undo_rotation(&self, path: &str, rotated: &str) -> Result<(), FileError> {
        self.file("undo rotation of log", path, |disk| {
            let (Some((directory, base)), Some((_, name))) = (log_place(path), log_place(rotated)) else { return };
            if !disk.there(path) {
                disk.rename_log(directory, name, base);
                disk.writing.rename(rotated, path);
            }
        })
        .await
    }

    async fn compress(&self, path: &str) -> Result<usize, FileError> {
        self.file("compress log", path, |disk| {
            let Some((directory, base)) = log_place(path) else { return 0 };
            for left in leftovers(base, &disk.names_of(path)) {
                disk.remove_log(directory, &left);
            }
            let names = to_compress(base, &disk.names_of(path));
            for name in &names {
                let (compressed, _) = compressed_names(name);
                let bytes = disk.writing.sizes.remove(&absolute(path, base, name)).unwrap_or(0);
                disk.writing.sizes.insert(absolute(path, base, &compressed), bytes / COMPRESSION);
                disk.rename_log(directory, name, &compressed);
            }
            names.len()
        })
        .await
    }
}
