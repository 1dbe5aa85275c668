//! `LocalObjects`: ConfigMaps and Secrets of a standalone node, from a folder (`--local-objects`, ours).
//!
//! Parent: Root. Restarted: after a failure; the folder tells it all again. Tells `ObjectCache` complete sets, never
//! differences. Keeps the objects of each file, also of one that is broken by now: somebody may be writing it. Has nothing
//! to do where no folder is named.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::single_flight::SingleFlight;
use crate::actors::kit::trace::Cause;
use crate::logic::objects::local_objects::{Readers, objects_of, together};
use crate::logic::objects::object_cache::Object;
use crate::logic::objects::object_references::ObjectKey;
use crate::messages::object_cache::ObjectCacheMsg;
use crate::messages::pods::local_objects::LocalObjectsMsg;
use crate::platform::pods::local_objects::{LocalObjectFolder, ObjectFile, SecretBytes};
use crate::platform::pods::manifests::FolderChange;

/// Quiet time after a change before the folder is read.
const SETTLE: Duration = Duration::from_millis(100);
/// Wait before a broken watch is set up again.
const WATCH_RETRY: Duration = Duration::from_secs(1);

/// The actor's arguments.
pub struct Args {
    /// The folder, where one is named.
    pub folder: Option<Arc<dyn LocalObjectFolder>>,
    /// How often it is read although nothing was heard of it: `fileCheckFrequency`.
    pub check_period: Duration,
    /// Hears of all objects.
    pub object_cache: Address<ObjectCacheMsg>,
}

/// The knowledge of a file.
#[derive(Default)]
struct Known {
    /// Its content as it was judged last, and who may read it; nothing where it could not be read.
    read: Option<(SecretBytes, Readers)>,
    /// The objects that it gives, or gave last.
    objects: BTreeMap<ObjectKey, Object>,
    /// The last fault that the log has.
    said: Option<String>,
}

/// See the module.
pub struct LocalObjects {
    args: Args,
    files: BTreeMap<PathBuf, Known>,
    told: Option<Arc<BTreeMap<ObjectKey, Object>>>,
    scans: SingleFlight<()>,
    timer: Option<OperationId>,
    /// The fault of the folder that the log has.
    said: Option<String>,
}

impl Actor for LocalObjects {
    const KIND: &'static str = "LocalObjects";
    type Msg = LocalObjectsMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<LocalObjectsMsg>) -> Self {
        let (files, told, timer, said) = (BTreeMap::new(), None, None, None);
        let mut objects = Self { args, files, told, scans: SingleFlight::default(), timer, said };
        if objects.args.folder.is_some() {
            objects.watch(context);
            objects.scan(context);
        }
        objects
    }

    fn receive(&mut self, message: LocalObjectsMsg, context: &mut Context<LocalObjectsMsg>) {
        match message {
            LocalObjectsMsg::ScanDue => self.scan(context),
            LocalObjectsMsg::Changed(_) if self.scans.is_under_way() => self.scans.later(()),
            LocalObjectsMsg::Changed(_) => self.scan_in(SETTLE, context),
            LocalObjectsMsg::WatchDue => self.watch(context),
            LocalObjectsMsg::WatchEnded(why) => {
                let why = why.unwrap_or_else(|loss| loss.to_string());
                tracing::debug!(why, "watch of the local objects ended");
                context.after(WATCH_RETRY, LocalObjectsMsg::WatchDue);
            }
            LocalObjectsMsg::Scanned(outcome) => {
                let (_, wanted) = self.scans.end();
                match outcome.into_result() {
                    Ok(files) => self.take(files, context),
                    Err(error) => {
                        if self.said.as_ref() != Some(&error) {
                            tracing::error!(error, "local objects cannot be read; those known before go on");
                            self.said = Some(error);
                        }
                    }
                }
                self.scan_in(if wanted.is_some() { SETTLE } else { self.args.check_period }, context);
            }
            LocalObjectsMsg::Repeat => {
                if let Some(objects) = self.told.take() {
                    self.tell(objects, context);
                }
            }
        }
    }
}

impl LocalObjects {
    fn watch(&self, context: &mut Context<LocalObjectsMsg>) {
        let Some(folder) = self.args.folder.clone() else { return };
        let me = context.address().clone();
        let work = async move {
            match folder.watch().await {
                Err(error) => error.problem,
                Ok(mut changes) => {
                    // A change before the watch began is found by reading once more.
                    let _ = me.tell(Cause::outside("inotify"), LocalObjectsMsg::Changed(FolderChange::growing()));
                    while let Some(change) = changes.next().await {
                        let _ = me.tell(Cause::outside("inotify"), LocalObjectsMsg::Changed(change));
                    }
                    "the kernel ended it".to_owned()
                }
            }
        };
        context.start("watch folder", "local objects", work, LocalObjectsMsg::WatchEnded);
    }

    fn scan_in(&mut self, delay: Duration, context: &mut Context<LocalObjectsMsg>) {
        if let Some(timer) = self.timer.take() {
            context.cancel(timer);
        }
        self.timer = Some(context.after(delay, LocalObjectsMsg::ScanDue));
    }

    fn scan(&mut self, context: &mut Context<LocalObjectsMsg>) {
        self.timer = None;
        let Some(folder) = self.args.folder.clone() else { return };
        if self.scans.want(()).is_none() {
            return;
        }
        let work = async move { folder.scan().await };
        context.start("read folder", "local objects", work, |outcome| LocalObjectsMsg::Scanned(outcome.into()));
    }

    fn take(&mut self, files: Vec<ObjectFile>, context: &Context<LocalObjectsMsg>) {
        self.said = None;
        let mut before = std::mem::take(&mut self.files);
        for file in files {
            let known = before.remove(&file.path).unwrap_or_default();
            let known = judge(&file, known);
            self.files.insert(file.path, known);
        }
        let (objects, repeated) = together(self.files.values().map(|known| &known.objects));
        if self.told.as_ref().is_none_or(|told| **told != objects) {
            for object in repeated {
                tracing::warn!(%object, "two files have this object, the later file by name counts");
            }
            self.tell(Arc::new(objects), context);
        }
    }

    /// A set that there is no room for counts as not told: the next scan tells it.
    fn tell(&mut self, objects: Arc<BTreeMap<ObjectKey, Object>>, context: &Context<LocalObjectsMsg>) {
        let set = ObjectCacheMsg::Local(Arc::clone(&objects));
        self.told = context.try_tell(&self.args.object_cache, set).then_some(objects);
    }
}

/// Judges a file. One that is wrong gives the objects that it gave before.
fn judge(file: &ObjectFile, known: Known) -> Known {
    let read = file.content.as_ref().ok().cloned();
    if read.is_some() && known.read == read {
        return known;
    }
    let judged = match &file.content {
        Ok((content, readers)) => objects_of(&content.0, *readers).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match judged {
        Ok(objects) => Known { read, objects, said: None },
        Err(error) => {
            if known.said.as_ref() != Some(&error) {
                tracing::error!(file = %file.path.display(), error, "local objects of this file are refused");
            }
            Known { read, objects: known.objects, said: Some(error) }
        }
    }
}

#[cfg(test)]
mod tests;
