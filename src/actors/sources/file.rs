//! `FileSource`: static pods from a folder or file.
//!
//! Parent: Root. Restarted: after a failure; the folder tells it all again. Keeps what it made of each file, so that an
//! unchanged file costs nothing; and the last good pod of a file that is broken, for a while: somebody may be writing it. A
//! file that was removed and is there again gives its pod a new life, although nothing in it may have changed (POD-09).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;

use super::mark_seen;
use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::single_flight::SingleFlight;
use crate::actors::kit::trace::Cause;
use crate::logic::manifest::gates::ManifestGates;
use crate::logic::manifest::references::References;
use crate::logic::manifest::{Source, check_static_with, claimed_name};
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Stamp;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::pods::pod_source::{FileSourceMsg, SourceKind};
use crate::messages::status::status_manager::{RefusedManifest, StatusManagerMsg};
use crate::platform::pods::manifests::{Folder, FolderChange, ManifestFile, ManifestFolder};

/// Quiet time after a change before the folder is read. So a file that is being written is read once, whole, and many
/// changes are read together.
const SETTLE: Duration = Duration::from_millis(10);
/// The longest time that changes which do not end are waited out. A file that was moved here after so long a rest is read
/// at once: it is whole, and most likely the only one.
const SETTLE_MAX: Duration = Duration::from_millis(100);
/// Wait before a broken watch is set up again (POD-01).
const WATCH_RETRY: Duration = Duration::from_secs(1);

/// The result of reading a file; `content` is nothing where it could not be read.
struct Known {
    content: Option<Arc<[u8]>>,
    pod: Result<(PodUid, Arc<Pod>), RefusedManifest>,
    /// Of a file that gives no pod: the one it gave last, and since when, by uptime, it gives none.
    last_good: Option<((PodUid, Arc<Pod>), Duration)>,
}

impl Known {
    /// The pod of the file: the one that it gives, or gave last.
    fn newest(&self) -> Option<&(PodUid, Arc<Pod>)> {
        self.pod.as_ref().ok().or_else(|| self.last_good.as_ref().map(|(pod, _)| pod))
    }
}

/// The actor's arguments.
pub struct Args {
    /// The node's name, which is part of its static pods' names.
    pub node_name: String,
    /// The static pod path, where one is set.
    pub folder: Option<Arc<dyn ManifestFolder>>,
    /// `fileCheckFrequency`.
    pub check_period: Duration,
    /// Gates by which pods are refused.
    pub gates: ManifestGates,
    /// Whether pods may name ConfigMaps and Secrets.
    pub references: References,
    /// Hears of all pods.
    pub pod_manager: Address<PodManagerMsg>,
    /// Hears of manifests that give none.
    pub status_manager: Address<StatusManagerMsg>,
}

/// See the module.
pub struct FileSource {
    args: Args,
    files: BTreeMap<PathBuf, Known>,
    told: Option<BTreeMap<PodUid, Arc<Pod>>>,
    /// Pods whose file was removed in between, and since when it is there again.
    lives: BTreeMap<PodUid, Stamp>,
    /// Files that were removed since the folder was last begun to be read.
    removed: BTreeSet<PathBuf>,
    /// Files that were removed before the folder was begun to be read, as it is being now.
    removed_before: BTreeSet<PathBuf>,
    /// `None` until it was sent: another may have been, by who was here before.
    refused: Option<Vec<RefusedManifest>>,
    scans: SingleFlight<()>,
    timer: Option<OperationId>,
    /// When the changes began that are being waited out.
    settling: Option<Duration>,
    /// When the folder was last begun to be read.
    read: Duration,
}

impl Actor for FileSource {
    const KIND: &'static str = "FileSource";
    type Msg = FileSourceMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<FileSourceMsg>) -> Self {
        let mut source = Self {
            args,
            files: BTreeMap::new(),
            told: None,
            lives: BTreeMap::new(),
            removed: BTreeSet::new(),
            removed_before: BTreeSet::new(),
            refused: None,
            scans: SingleFlight::default(),
            timer: None,
            settling: None,
            read: Duration::ZERO,
        };
        if source.args.folder.is_some() {
            source.watch(context);
            source.scan(context);
        }
        source
    }

    fn receive(&mut self, message: FileSourceMsg, context: &mut Context<FileSourceMsg>) {
        match message {
            FileSourceMsg::ScanDue => self.scan(context),
            FileSourceMsg::Changed(change) => self.changed(change, context),
            FileSourceMsg::WatchDue => self.watch(context),
            FileSourceMsg::WatchEnded(why) => {
                let why = why.unwrap_or_else(|loss| loss.to_string());
                tracing::debug!(why, "watch of the static pod path ended");
                context.after(WATCH_RETRY, FileSourceMsg::WatchDue);
            }
            FileSourceMsg::Scanned(outcome) => {
                let (_, wanted) = self.scans.end();
                match outcome.into_result() {
                    Ok(folder) => self.take(folder, context),
                    Err(error) => tracing::error!(error, "static pods cannot be read"),
                }
                let settles = wanted.is_some() || self.settling.is_some();
                self.scan_in(if settles { SETTLE } else { self.args.check_period }, context);
            }
            FileSourceMsg::Repeat => {
                if let Some(pods) = self.told.take() {
                    self.tell(pods, context);
                    self.tell_refused(context);
                }
            }
        }
    }
}

impl FileSource {
    fn folder(&self) -> Arc<dyn ManifestFolder> {
        Arc::clone(self.args.folder.as_ref().expect("only a source with a folder gets this far"))
    }

    fn watch(&self, context: &mut Context<FileSourceMsg>) {
        let (folder, me) = (self.folder(), context.address().clone());
        let work = async move {
            match folder.watch().await {
                Err(error) => error.problem,
                Ok(mut changes) => {
                    // A change before the watch began is found by reading once more. Of a file that is there again only the
                    // change says that it was away.
                    let cause = Cause::outside("inotify");
                    me.tell_at_last(&cause, || FileSourceMsg::Changed(FolderChange::growing())).await;
                    while let Some(change) = changes.next().await {
                        me.tell_at_last(&cause, || FileSourceMsg::Changed(change.clone())).await;
                    }
                    "the kernel ended it".to_owned()
                }
            }
        };
        context.start("watch folder", "static pod path", work, FileSourceMsg::WatchEnded);
    }

    fn changed(&mut self, change: FolderChange, context: &mut Context<FileSourceMsg>) {
        let now = context.clock().uptime();
        let is_alone = self.settling.is_none() && now.saturating_sub(self.read) >= SETTLE_MAX;
        let waited = now.saturating_sub(*self.settling.get_or_insert(now));
        let is_known = |path: &PathBuf| self.scans.is_under_way() || self.files.contains_key(path);
        self.removed.extend(change.removed.into_iter().filter(is_known));
        if waited >= SETTLE_MAX || (is_alone && change.is_whole) {
            self.scan(context);
        } else {
            self.scan_in(SETTLE, context);
        }
    }

    fn scan_in(&mut self, delay: Duration, context: &mut Context<FileSourceMsg>) {
        if let Some(timer) = self.timer.take() {
            context.cancel(timer);
        }
        self.timer = Some(context.after(delay, FileSourceMsg::ScanDue));
    }

    fn scan(&mut self, context: &mut Context<FileSourceMsg>) {
        if let Some(timer) = self.timer.take() {
            context.cancel(timer);
        }
        self.settling = None;
        if self.scans.want(()).is_none() {
            return;
        }
        self.read = context.clock().uptime();
        self.removed_before.append(&mut self.removed);
        let folder = self.folder();
        let work = async move { folder.scan().await };
        context.start("read folder", "static pod path", work, |outcome| FileSourceMsg::Scanned(outcome.into()));
    }

    fn take(&mut self, folder: Folder, context: &Context<FileSourceMsg>) {
        let mut before = std::mem::take(&mut self.files);
        let removed = std::mem::take(&mut self.removed_before);
        let removed: Vec<Known> = removed.iter().filter_map(|path| before.remove(path)).collect();
        for file in folder.files {
            let known = before.remove(&file.path);
            let known = self.know(&file, known, context);
            self.files.insert(file.path, known);
        }
        if !folder.is_one_file {
            self.let_go_of_broken(context.clock().uptime());
        }
        let pods = self.pods();
        self.lives.retain(|uid, _| pods.contains_key(uid));
        for (uid, _) in removed.iter().filter_map(Known::newest).filter(|(uid, _)| pods.contains_key(uid)) {
            tracing::info!(%uid, "static pod ends and runs anew, since its file was removed and is there again");
            self.lives.insert(uid.clone(), context.clock().stamp());
        }
        if self.told.as_ref() != Some(&pods) {
            self.tell(pods, context);
        }
        let refused: Vec<_> = self.files.values().filter_map(|known| known.pod.as_ref().err().cloned()).collect();
        if self.refused.as_ref() != Some(&refused) {
            self.refused = Some(refused);
            self.tell_refused(context);
        }
    }

    /// A set that there is no room for counts as not told: the next scan tells it.
    fn tell(&mut self, pods: BTreeMap<PodUid, Arc<Pod>>, context: &Context<FileSourceMsg>) {
        let lives = self.lives.clone();
        let set = PodManagerMsg::SourceSet { source: SourceKind::File, pods: pods.clone(), lives };
        self.told = context.try_tell(&self.args.pod_manager, set).then_some(pods);
    }

    fn tell_refused(&self, context: &Context<FileSourceMsg>) {
        let refused = StatusManagerMsg::Refused(SourceKind::File, self.refused.clone().unwrap_or_default());
        context.tell(&self.args.status_manager, refused);
    }

    /// A file of a folder that stays broken gives no pod any more: as upstream, which keeps a broken file's pod until it
    /// next lists all files. Where the path is the one file, it keeps the pod for as long as that is there (POD-01).
    fn let_go_of_broken(&mut self, uptime: Duration) {
        let patience = self.args.check_period;
        for known in self.files.values_mut() {
            known.last_good.take_if(|(_, since)| uptime.saturating_sub(*since) >= patience);
        }
    }

    fn know(&self, file: &ManifestFile, known: Option<Known>, context: &Context<FileSourceMsg>) -> Known {
        let path = file.path.display();
        let refused = |pod, why| RefusedManifest { pod, place: path.to_string(), why };
        let last_good = known.as_ref().and_then(|known| match &known.pod {
            Ok(pod) => Some((pod.clone(), context.clock().uptime())),
            Err(_) => known.last_good.clone(),
        });
        let content = match &file.content {
            Ok(content) => Arc::clone(content),
            Err(problem) => {
                tracing::error!(file = %path, %problem, "static pod cannot be read");
                return Known { content: None, pod: Err(refused(None, problem.to_string())), last_good };
            }
        };
        let before = match known {
            Some(known) if known.content.as_ref() == Some(&content) => return known,
            other => other.and_then(|known| known.newest().map(|(_, pod)| Arc::clone(pod))),
        };
        let (source, node) = (Source::File { path: path.to_string() }, &self.args.node_name);
        let gates = self.args.gates;
        let pod = match check_static_with(&content, &source, node, self.args.references)
            .and_then(|checked| checked.within(gates))
        {
            Ok(mut checked) => {
                mark_seen(&mut checked.pod, before.as_deref(), context.now());
                for warning in &checked.warnings {
                    tracing::warn!(file = %path, warning, "static pod");
                }
                let uid = PodUid::from(checked.pod.metadata.uid.as_deref().unwrap_or_default());
                Ok((uid, Arc::new(checked.pod)))
            }
            Err(error) => {
                tracing::error!(file = %path, %error, "static pod is refused");
                Err(refused(claimed_name(&content, &source, node), error.to_string()))
            }
        };
        let last_good = last_good.filter(|_| pod.is_err());
        Known { content: Some(content), pod, last_good }
    }

    /// By UID. Of two files with one namespace and name, or one UID, the last counts (POD-01).
    fn pods(&self) -> BTreeMap<PodUid, Arc<Pod>> {
        let mut by_name = BTreeMap::new();
        for (path, known) in &self.files {
            if let Some((uid, pod)) = known.newest() {
                let name = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
                if let Some((_, _, first)) = by_name.insert(name, (uid.clone(), Arc::clone(pod), path)) {
                    let (first, second) = (first.display(), path.display());
                    tracing::warn!(%first, %second, "two static pods of one name, the second file counts");
                }
            }
        }
        by_name.into_values().map(|(uid, pod, _)| (uid, pod)).collect()
    }
}

#[cfg(test)]
mod tests;
