//! `AllocationManager`: gives pods CPUs, memory and devices of their own, and keeps on the disk what pods were given.
//!
//! Parent: Root. Restarted: after a failure; the files have all that was answered for, and who was not answered asks again.
//! Amounts of resources are `PodManager`'s to give, and workers tell the runtime of them: here they are kept, in two files,
//! and resizes are counted. Hardware is decided here, by the managers of `logic::resources` ([`hardware`]). While a file is
//! being written further changes gather and are written together. A change that could not be written counts as never made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::actors::kit::held::Held;
use crate::cri::RuntimeService;
use crate::logic::pods::pod_resize::{parse_checkpoint, print_checkpoint};
use crate::logic::resources::allocations::ResourceManagers;
use crate::messages::Ended;
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::plugins::device_plugins::DevicePluginsMsg;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::resources::allocation_manager::{
    Actuated, AllocationManagerMsg, Book, FilesMsg, HardwareMsg, Kept, ResizeCounts,
};
use crate::messages::status::status_manager::StatusManagerMsg;
use crate::platform::files::checkpoints::Checkpoints;

mod books;
mod hardware;
mod placing;
mod reconcile;
mod state_files;
#[cfg(test)]
mod tests;

use books::{Entries, Pages, Reply};
use hardware::Hardware;

/// Wait before `PodManager` gets again the news that it had no room for.
const RETELL: Duration = Duration::from_secs(1);
/// Wait before entries that amount to nothing are written.
const QUIET_PAUSE: Duration = Duration::from_secs(1);
/// Wait before files that could not be read are read again.
const READ_RETRY: Duration = Duration::from_secs(1);

/// The actor's arguments.
pub struct Args {
    /// The folder of the files.
    pub files: Arc<dyn Checkpoints>,
    /// The folder of device plugins, with the file of the device manager.
    pub device_files: Arc<dyn Checkpoints>,
    /// Carries calls to device plugins.
    pub device_plugins: Address<DevicePluginsMsg>,
    /// How long a pod waits for a device plugin that is late (`--device-plugin-wait`); zero: it fails at once.
    pub device_plugin_wait: Duration,
    /// Gate `ResourceHealthStatus`: statuses of pods show the health of their devices.
    pub shows_device_health: bool,
    /// Hears what pods were given.
    pub pod_manager: Address<PodManagerMsg>,
    /// Hears how many devices there are.
    pub node_status: Address<NodeStatusMsg>,
    /// Knows which containers run. Hears of the health of devices.
    pub status_manager: Address<StatusManagerMsg>,
    /// Hears of CPUs that running containers are to have from now on.
    pub runtime: Arc<dyn RuntimeService>,
    /// The managers of hardware, as they are before any pod.
    pub managers: Arc<ResourceManagers>,
    /// Pause between two comparisons of running containers with the state (`cpuManagerReconcilePeriod`).
    pub reconcile_period: Duration,
}

/// See the module.
pub struct AllocationManager {
    args: Args,
    /// `None` until the files were read; what came before that is held.
    books: Option<BTreeMap<Book, Pages>>,
    hardware: Hardware,
    held: Held<AllocationManagerMsg>,
    counts: ResizeCounts,
}

impl Actor for AllocationManager {
    const KIND: &'static str = "AllocationManager";
    type Msg = AllocationManagerMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<AllocationManagerMsg>) -> Self {
        read_files(&args, context);
        let hardware = Hardware::new(Arc::clone(&args.managers), args.device_plugins.clone(), args.device_plugin_wait);
        Self { args, books: None, hardware, held: Held::default(), counts: ResizeCounts::default() }
    }

    fn receive(&mut self, message: AllocationManagerMsg, context: &mut Context<AllocationManagerMsg>) {
        match message {
            AllocationManagerMsg::Files(FilesMsg::Read(read)) => self.take_read(read, context),
            AllocationManagerMsg::Files(FilesMsg::ReadDue) => read_files(&self.args, context),
            AllocationManagerMsg::Counted(counts) => counts.into_iter().for_each(|count| self.counts.add(count)),
            AllocationManagerMsg::Counts(reply) => drop(reply.send(self.counts.clone())), // The asker may have left.
            AllocationManagerMsg::Hardware(HardwareMsg::Figures(reply)) => self.hardware.tell_figures(reply),
            early if self.books.is_none() => self.hold(early),
            AllocationManagerMsg::Allocate(given, reply) => {
                let pages = self.book(Book::Allocated);
                pages.entries.extend(given);
                pages.waiting.push(reply);
                self.write(Book::Allocated, context);
            }
            AllocationManagerMsg::Actuate(actuated, reply) => self.actuate(actuated, reply, context),
            AllocationManagerMsg::Recall(uid, reply) => {
                let told = self.book(Book::Actuated).entries.get(&uid).cloned();
                let _ = reply.send(told.unwrap_or_default()); // The asker may have left.
            }
            AllocationManagerMsg::Known(known) => {
                for book in [Book::Allocated, Book::Actuated] {
                    self.book(book).sweep(&known);
                    self.write(book, context);
                }
            }
            AllocationManagerMsg::Files(FilesMsg::Written(book, outcome)) => {
                self.take_written(book, &outcome.into_result(), context);
            }
            AllocationManagerMsg::Files(FilesMsg::WriteDue(book)) => {
                self.book(book).pausing = false;
                self.write(book, context);
            }
            AllocationManagerMsg::Allocations(reply) => {
                drop(reply.send(self.hardware.allocations())); // The asker may have left.
            }
            AllocationManagerMsg::Hardware(message) => self.receive_hardware(message, context),
            AllocationManagerMsg::Repeat => {
                self.tell_of_devices_again(context);
                self.tell(context);
            }
        }
    }
}

impl AllocationManager {
    fn book(&mut self, book: Book) -> &mut Pages {
        let books = self.books.as_mut().expect("invariant: what needs the books is held until they were read");
        books.get_mut(&book).expect("invariant: there are both")
    }

    /// Holds back messages that come before the files were read. An asker without room hears so, or hears nothing, and
    /// asks again.
    fn hold(&mut self, early: AllocationManagerMsg) {
        match &early {
            AllocationManagerMsg::Repeat => return, // The actor tells its checkpoints once they were read.
            AllocationManagerMsg::Known(_) => self.held.forget(|held| matches!(held, AllocationManagerMsg::Known(_))),
            _ => {}
        }
        let is_left = |held: &AllocationManagerMsg| match held {
            AllocationManagerMsg::Allocate(_, reply) | AllocationManagerMsg::Actuate(_, reply) => reply.is_closed(),
            AllocationManagerMsg::Recall(_, reply) => reply.is_closed(),
            AllocationManagerMsg::Hardware(HardwareMsg::Place(request)) => request.reply.is_closed(),
            AllocationManagerMsg::Hardware(HardwareMsg::Find { reply, .. }) => reply.is_closed(),
            _ => false,
        };
        if let Err(AllocationManagerMsg::Allocate(_, reply) | AllocationManagerMsg::Actuate(_, reply)) =
            self.held.push(early, is_left)
        {
            let why = "too much waits for the checkpoints of resources to be read";
            let _ = reply.send(Err(why.to_owned())); // The asker may have left.
        }
    }

    /// Nothing goes on without the files: a pod whose file cannot be read was given as much as before.
    fn take_read(&mut self, read: Ended<Kept>, context: &mut Context<AllocationManagerMsg>) {
        let kept = match read.into_result() {
            Ok(kept) => kept,
            Err(why) => {
                tracing::error!(why, "what pods were given cannot be read");
                context.address().record().set_note(Some(format!("waits for its files: {why}")));
                context.after(READ_RETRY, AllocationManagerMsg::Files(FilesMsg::ReadDue));
                return;
            }
        };
        let books = [(Book::Allocated, Pages::of(kept.allocated)), (Book::Actuated, Pages::of(kept.actuated))];
        self.books = Some(books.into());
        self.begin_hardware(Ok(kept.hardware), context);
        self.tell(context);
        for message in self.held.take() {
            self.receive(message, context);
        }
    }

    /// Entries that are being written do not go out: should that fail, nobody must count on them.
    fn tell(&mut self, context: &mut Context<AllocationManagerMsg>) {
        let given = Arc::new(self.book(Book::Allocated).kept.clone());
        // The judge waits for this, so it is sent until there is room for it.
        if !context.try_tell(&self.args.pod_manager, PodManagerMsg::Allocated(given)) {
            context.after(RETELL, AllocationManagerMsg::Repeat);
        }
    }

    fn actuate(&mut self, actuated: Actuated, reply: Reply, context: &mut Context<AllocationManagerMsg>) {
        let Actuated { uid, containers, pod } = actuated;
        let pages = self.book(Book::Actuated);
        let entry = pages.entries.entry(uid.clone()).or_default();
        if containers.iter().any(|(name, own)| entry.containers.get(name) != Some(own)) {
            Arc::make_mut(&mut entry.containers).extend(containers);
        }
        entry.pod = pod.or(entry.pod.take());
        if pages.has(&uid) {
            // Said before: whoever repeats it waits for nobody's write.
            return drop(reply.send(Ok(()))); // The asker may have left.
        }
        if pages.can_do_without(&uid) {
            // One write serves all pods without amounts that come together, and none of them waits for it.
            if !std::mem::replace(&mut pages.quietly_changed, true) {
                context.after(QUIET_PAUSE, AllocationManagerMsg::Files(FilesMsg::WriteDue(Book::Actuated)));
            }
            return drop(reply.send(Ok(()))); // The asker may have left.
        }
        pages.waiting.push(reply);
        self.write(Book::Actuated, context);
    }

    fn write(&mut self, book: Book, context: &mut Context<AllocationManagerMsg>) {
        let (files, uptime) = (Arc::clone(&self.args.files), context.clock().uptime());
        let pages = self.book(book);
        if pages.writing.is_some() || pages.pausing || (pages.waiting.is_empty() && !pages.quietly_changed) {
            return;
        }
        if let Some(pause) = pages.pause(uptime) {
            pages.pausing = true;
            context.after(pause, AllocationManagerMsg::Files(FilesMsg::WriteDue(book)));
            return;
        }
        pages.quietly_changed = false;
        let waiting = std::mem::take(&mut pages.waiting);
        if pages.entries == pages.kept {
            return waiting.into_iter().for_each(|reply| drop(reply.send(Ok(()))));
        }
        let entries = Arc::new(pages.entries.clone());
        pages.writing = Some((Arc::clone(&entries), waiting));
        let work = async move {
            let written = files.write(book.file(), print_checkpoint(&entries)).await;
            written.map_err(|error| error.to_string())
        };
        context.start("keep allocations", book.file(), work, move |outcome| {
            AllocationManagerMsg::Files(FilesMsg::Written(book, outcome.into()))
        });
    }

    fn take_written(&mut self, book: Book, outcome: &Result<(), String>, context: &mut Context<AllocationManagerMsg>) {
        let uptime = context.clock().uptime();
        let pages = self.book(book);
        let Some((written, mut waiting)) = pages.writing.take() else { return };
        pages.written_at = uptime;
        match outcome {
            Ok(()) => pages.kept = Arc::unwrap_or_clone(written),
            Err(why) => {
                tracing::error!(why, file = book.file(), "resources of pods are not kept");
                // The asker hears so, and asks again.
                pages.entries.clone_from(&pages.kept);
                waiting.append(&mut pages.waiting);
            }
        }
        waiting.into_iter().for_each(|reply| drop(reply.send(outcome.clone())));
        self.write(book, context);
    }
}

fn read_files(args: &Args, context: &mut Context<AllocationManagerMsg>) {
    let (files, devices) = (Arc::clone(&args.files), Arc::clone(&args.device_files));
    context.start("read allocations", "checkpoints", async move { read_all(&*files, &*devices).await }, |read| {
        AllocationManagerMsg::Files(FilesMsg::Read(read.into()))
    });
}

async fn read_all(files: &dyn Checkpoints, devices: &dyn Checkpoints) -> Result<Kept, String> {
    // Side by side: pods wait for the last of them, and a disk may take a second for each.
    let books = (read(files, Book::Allocated), read(files, Book::Actuated));
    let (allocated, actuated, hardware) = tokio::try_join!(books.0, books.1, state_files::read(files, devices))?;
    Ok(Kept { allocated, actuated, hardware })
}

/// A file that cannot be believed is set aside and not obeyed (SEC-58); upstream does not start with one.
async fn read(files: &dyn Checkpoints, book: Book) -> Result<Entries, String> {
    let bytes = match files.read(book.file()).await.map_err(|error| error.to_string())? {
        Some(bytes) => bytes,
        None => return Ok(BTreeMap::new()),
    };
    Ok(match parse_checkpoint(&bytes) {
        Ok(entries) => entries,
        Err(corrupt) => {
            tracing::error!(error = %corrupt, file = book.file(), "checkpoint is set aside, it cannot be believed");
            if let Err(why) = files.set_aside(book.file()).await {
                tracing::warn!(%why, file = book.file(), "checkpoint cannot be set aside");
            }
            BTreeMap::new()
        }
    })
}
