//! `ImageGc`: removes images that nobody uses, when the disk is full or they are old, and says why others stay.
//!
//! Parent: Root. Restarted: after a failure; when images were first seen and last used is then counted anew. Images in
//! use are read from the runtime, all containers included; `ImageManager` tells of images that were just given to pods.

mod steps;

use std::sync::Arc;
use std::time::Duration;

use ractor::RpcReplyPort;
use tracing::Instrument;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::held::Held;
use crate::actors::kit::single_flight::{Askers, SingleFlight};
use crate::cri::{ImageService, RuntimeService};
use crate::logic::events::reasons::EventReason;
use crate::logic::images::exempt::ExemptImages;
use crate::logic::images::image_garbage::{
    DiskUse, ImageGarbage, ImageGcPolicy, ListedImage, PASS_PERIOD, Pass, Removal, not_enough, retry_after,
};
use crate::logic::model::time::Moment;
use crate::messages::event_recorder::{EventRecorderMsg, EventSubject};
use crate::messages::images::image_gc::{ImageGcMsg, ImageLook, ImageUses, ImagesRemoved, ListedImages};
use crate::messages::images::image_manager::ImageManagerMsg;
use crate::platform::images::ImageHost;
use crate::platform::observer::{Observation, Observer};

/// A message about a disk that stays full is repeated after this, if it is the same.
const SAY_AGAIN: Duration = Duration::from_secs(3600);

/// The pass under way.
#[derive(Clone, Debug)]
struct Running {
    why: Removal,
    pass: Pass,
    disk: Option<DiskUse>,
}

/// The actor's arguments.
#[derive(Clone)]
pub struct Args {
    /// The node's name, for its Events.
    pub node_name: String,
    /// When images that nobody uses go.
    pub policy: ImageGcPolicy,
    /// Images that stay all the same.
    pub exempt: ExemptImages,
    /// Whether each handler of the runtime has images of its own.
    pub by_handler: bool,
    /// The runtime's images.
    pub images: Arc<dyn ImageService>,
    /// The runtime, for the containers that use them.
    pub runtime: Arc<dyn RuntimeService>,
    /// The disk that they are on.
    pub host: Arc<dyn ImageHost>,
    /// Counts removals.
    pub observer: Arc<dyn Observer>,
    /// Hears which images are left.
    pub image_manager: Address<ImageManagerMsg>,
    /// Hears the node's Events.
    pub event_recorder: Address<EventRecorderMsg>,
}

/// See the module.
pub struct ImageGc {
    args: Arc<Args>,
    garbage: ImageGarbage,
    /// Those who wait until all unused images are removed ask for a pass, too.
    passes: SingleFlight<Askers<Result<(), String>>>,
    /// The images that the pass under way removes.
    running: Option<Running>,
    /// The image that is being removed.
    going: Option<ListedImage>,
    /// The askers of the image, which wait for the end of its removal.
    waiting: Held<RpcReplyPort<bool>>,
    /// Of this pass, what was removed because of its age.
    aged: bool,
    /// When the look that images are judged by began.
    looked_at: Moment,
    failures: u32,
    /// The timer of the next pass.
    next: Option<OperationId>,
    /// Those who wait for the list of images.
    lists: SingleFlight<Askers<ImageUses>>,
    /// The last message, and its time.
    said: Option<(String, Duration)>,
}

impl Actor for ImageGc {
    const KIND: &'static str = "ImageGc";
    type Msg = ImageGcMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<ImageGcMsg>) -> Self {
        let policy = args.policy;
        let mut gc = Self {
            args: Arc::new(args),
            garbage: ImageGarbage::new(policy, context.clock().uptime()),
            passes: SingleFlight::default(),
            running: None,
            going: None,
            waiting: Held::default(),
            aged: false,
            looked_at: context.now(),
            failures: 0,
            next: None,
            lists: SingleFlight::default(),
            said: None,
        };
        if !policy.is_off() {
            gc.pass(Askers::default(), context);
        }
        gc
    }

    fn receive(&mut self, message: ImageGcMsg, context: &mut Context<ImageGcMsg>) {
        match message {
            ImageGcMsg::PassDue => self.pass(Askers::default(), context),
            ImageGcMsg::HandOut(reference, reply) => self.hand_out(&reference, reply, context),
            // A pass that is under way says nothing of images that it did not try.
            ImageGcMsg::RemoveAllUnused(reply) => self.pass(reply.into(), context),
            ImageGcMsg::List(reply) => self.list(reply.into(), context),
            ImageGcMsg::Listed(outcome) => self.listed(outcome.into_result(), context),
            ImageGcMsg::MayGo(image, reply) => {
                self.removal_ended();
                let may_go = !self.garbage.was_handed_out(&image, context.clock().uptime());
                self.going = may_go.then_some(*image);
                let _ = reply.send(may_go); // The asker may have left.
            }
            ImageGcMsg::Looked(outcome) => match outcome.into_result() {
                Ok(look) => self.looked(look, context),
                Err(problem) => self.fail(&problem, context),
            },
            ImageGcMsg::Removed(outcome) => {
                self.removal_ended();
                match outcome.into_result() {
                    Ok(removed) => self.removed(&removed, context),
                    Err(problem) => self.fail(&problem, context),
                }
            }
            ImageGcMsg::PolicyChanged(policy) => self.follow(policy, context),
        }
    }
}

impl ImageGc {
    /// Images are judged by another policy from now on, at once or when the pass under way has ended.
    fn follow(&mut self, policy: ImageGcPolicy, context: &mut Context<ImageGcMsg>) {
        Arc::make_mut(&mut self.args).policy = policy;
        self.garbage.follow(policy);
        self.unschedule(context);
        if !policy.is_off() {
            self.pass(Askers::default(), context);
        }
    }

    /// The image stays, unless it is just being removed. Where too many wait for that, the answer is a guess: then a
    /// container that is made in vain is made again.
    fn hand_out(&mut self, reference: &str, reply: RpcReplyPort<bool>, context: &Context<ImageGcMsg>) {
        let reply = match self.going.as_ref().is_some_and(|image| image.is_named(reference)) {
            true => self.waiting.push(reply, |reply| reply.is_closed()).err(),
            false => Some(reply),
        };
        if let Some(reply) = reply {
            self.garbage.handed_out(reference, context.clock().uptime());
            let _ = reply.send(true); // The asker may have left.
        }
    }

    /// Asks the runtime for a list that is no older than the question.
    fn list(&mut self, askers: Askers<ImageUses>, context: &mut Context<ImageGcMsg>) {
        if self.lists.want(askers).is_some() {
            let args = Arc::clone(&self.args);
            let work = async move { steps::list(&args).await };
            context.start("list images", "all images", work, |outcome| ImageGcMsg::Listed(outcome.into()));
        }
    }

    fn listed(&mut self, outcome: Result<ListedImages, String>, context: &mut Context<ImageGcMsg>) {
        let now = context.clock().uptime();
        let uses: ImageUses = outcome.map(|(images, used)| {
            self.garbage.detect(&images, &used, now);
            Arc::new(self.garbage.uses(&self.args.exempt, now))
        });
        let (askers, next) = self.lists.end();
        askers.unwrap_or_default().answer(&uses);
        if let Some(askers) = next {
            self.list(askers, context);
        }
    }

    /// Askers that wait for the image that was being removed look for it again.
    fn removal_ended(&mut self) {
        self.going = None;
        for reply in self.waiting.take() {
            let _ = reply.send(false); // The asker may have left.
        }
    }

    /// One pass at a time.
    fn pass(&mut self, askers: Askers<Result<(), String>>, context: &mut Context<ImageGcMsg>) {
        if self.passes.want(askers).is_some() {
            self.unschedule(context);
            self.aged = false;
            self.look(context);
        }
    }

    /// A pass looks at its beginning, and once more when the images that are too old have gone.
    fn look(&mut self, context: &mut Context<ImageGcMsg>) {
        self.looked_at = context.now();
        let args = Arc::clone(&self.args);
        let work = async move { steps::look(&args).await };
        context.start("look at images", "all images", work, |outcome| ImageGcMsg::Looked(outcome.into()));
    }

    fn looked(&mut self, look: ImageLook, context: &mut Context<ImageGcMsg>) {
        let now = context.clock().uptime();
        self.garbage.detect(&look.images, &look.used, now);
        if self.passes.current().is_some_and(|askers| askers.is_waiting()) {
            let pass = self.garbage.all_unused(now);
            if pass.candidates.is_empty() {
                return self.end(false, context);
            }
            return self.remove(Running { why: Removal::Pressure, pass, disk: None }, context);
        }
        let old = if self.aged { Pass::default() } else { self.garbage.too_old(now) };
        if !old.candidates.is_empty() {
            self.aged = true;
            self.remove(Running { why: Removal::Age, pass: old, disk: None }, context);
            return;
        }
        let disk = match look.disk {
            Ok(disk) => disk,
            Err(problem) => {
                self.fail(&problem, context);
                return;
            }
        };
        if disk.capacity == 0 {
            let problem = "invalid capacity 0 on image filesystem";
            self.tell_node(EventReason::InvalidDiskCapacity, problem.to_owned(), context);
            self.fail(problem, context);
            return;
        }
        let pass = self.garbage.for_space(disk, now);
        match pass.wanted {
            None => self.end(false, context),
            Some(_) if pass.candidates.is_empty() => {
                // Images that are only too young yet are no reason to complain.
                if self.garbage.next_pass(true, now) == PASS_PERIOD {
                    self.say_not_enough(disk, 0, &pass, context);
                }
                self.end(true, context);
            }
            Some(wanted) => {
                tracing::info!(
                    usage = disk.percent(),
                    wanted,
                    "disk usage on image filesystem is over the high threshold"
                );
                self.remove(Running { why: Removal::Space, pass, disk: Some(disk) }, context);
            }
        }
    }

    fn remove(&mut self, running: Running, context: &mut Context<ImageGcMsg>) {
        let (args, pass) = (Arc::clone(&self.args), running.pass.clone());
        self.running = Some(running);
        let about = format!("{} images", pass.candidates.len());
        let span = tracing::info_span!(target: "podwright::turn", "pass", otel.name = "Images/GarbageCollect");
        let (me, cause) = (context.address().clone(), context.cause());
        let work = async move { steps::remove(&args, pass, me, cause).await }.instrument(span);
        context.start("remove images", about, work, |outcome| ImageGcMsg::Removed(outcome.into()));
    }

    fn removed(&mut self, outcome: &ImagesRemoved, context: &mut Context<ImageGcMsg>) {
        let Some(running) = self.running.take() else { return };
        self.garbage.mounted(&outcome.mounted, context.clock().uptime());
        let mut freed = 0_u64;
        for image in &outcome.removed {
            freed = freed.saturating_add(image.bytes);
            self.garbage.removed(image);
            let (reason, why) = match running.why {
                Removal::Age => ("age", "nobody used it for too long"),
                Removal::Space | Removal::Pressure => ("space", "the disk is full"),
            };
            self.args.observer.observe(Observation::ImageRemoved { reason });
            tracing::info!(image = image.display_name(), id = image.id, bytes = image.bytes, why, "image removed");
        }
        let left = ImageManagerMsg::ImagesLeft(Arc::new(self.garbage.known()), self.looked_at);
        if !outcome.removed.is_empty() {
            context.tell(&self.args.image_manager, left);
        }
        if !outcome.problems.is_empty() {
            let problems = outcome.problems.join(", ");
            let text = match (running.why, running.pass.wanted) {
                (Removal::Space, Some(wanted)) => format!(
                    "wanted to free {wanted} bytes, but freed {freed} bytes space with errors in image deletion: {problems}"
                ),
                _ => {
                    format!("wanted to free images that are too old, encountered errors in image deletion: {problems}")
                }
            };
            self.fail(&text, context);
            return;
        }
        if running.why == Removal::Pressure {
            return self.end(false, context);
        }
        match (running.disk, running.pass.wanted) {
            (Some(disk), Some(wanted)) => {
                let short = freed < wanted;
                if short {
                    self.say_not_enough(disk, freed, &running.pass, context);
                }
                self.end(short, context);
            }
            // The old are gone: is there room now?
            _ => self.look(context),
        }
    }

    fn say_not_enough(&mut self, disk: DiskUse, freed: u64, pass: &Pass, context: &Context<ImageGcMsg>) {
        let holders = self.garbage.holders(disk, pass);
        let text = not_enough(disk, freed, holders);
        // A disk that is full of other things is said once, not at each pass. A change of the figures is no news.
        let key = format!("{} {freed}", disk.percent());
        self.say(EventReason::FreeDiskSpaceFailed, text, key, context);
    }

    fn end(&mut self, short_of_space: bool, context: &mut Context<ImageGcMsg>) {
        self.failures = 0;
        if !short_of_space {
            self.said = None;
        }
        let wait = self.garbage.next_pass(short_of_space, context.clock().uptime());
        self.over(&Ok(()), wait, context);
    }

    /// A first failure is logged; only further ones are worth an Event, as upstream.
    fn fail(&mut self, problem: &str, context: &mut Context<ImageGcMsg>) {
        self.running = None;
        self.failures += 1;
        tracing::error!(problem, failures = self.failures, "image garbage collection failed");
        if self.failures > 1 {
            self.say(EventReason::ImageGCFailed, problem.to_owned(), problem.to_owned(), context);
        }
        self.over(&Err(problem.to_owned()), retry_after(self.failures), context);
    }

    /// A pass has ended. An asker during it gets one at once, else the next comes after a wait.
    fn over(&mut self, outcome: &Result<(), String>, wait: Duration, context: &mut Context<ImageGcMsg>) {
        let (askers, next) = self.passes.end();
        askers.unwrap_or_default().answer(outcome);
        match next {
            Some(askers) => self.pass(askers, context),
            None if self.args.policy.is_off() => {}
            None => self.next = Some(context.after(wait, ImageGcMsg::PassDue)),
        }
    }

    fn unschedule(&mut self, context: &mut Context<ImageGcMsg>) {
        if let Some(timer) = self.next.take() {
            context.cancel(timer);
        }
    }

    fn say(&mut self, reason: EventReason, text: String, key: String, context: &Context<ImageGcMsg>) {
        let now = context.clock().uptime();
        let again = |(said, at): &(String, Duration)| *said != key || now.saturating_sub(*at) >= SAY_AGAIN;
        if self.said.as_ref().is_none_or(again) {
            tracing::warn!(reason = reason.as_str(), "{text}");
            self.said = Some((key, now));
            self.tell_node(reason, text, context);
        }
    }

    fn tell_node(&self, reason: EventReason, text: String, context: &Context<ImageGcMsg>) {
        let node = EventSubject::node(&self.args.node_name);
        context.tell(&self.args.event_recorder, node.warning(reason, text));
    }
}

#[cfg(test)]
mod tests;
