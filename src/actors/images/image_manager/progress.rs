//! How far images are that containers wait for (PAIN-22).

use std::time::Duration;

use super::ImageManager;
use crate::logic::events::field_path::container_in;
use crate::logic::images::pull_progress::{PullStage, PullStep};
use crate::messages::images::image_manager::PullProgress;

impl ImageManager {
    /// How far each image is that somebody still waits for.
    pub(super) fn progress(&self, now: Duration) -> Vec<PullProgress> {
        let wanted = self.pending.iter().filter(|(_, pending)| !pending.reply.is_closed());
        let told = wanted.map(|(number, pending)| {
            let (stage, began) = match (pending.pull_began, self.queue.ahead_of(*number)) {
                (Some(began), _) => (PullStage::Pulled, began),
                (None, Some(ahead)) => (PullStage::Queued { ahead: ahead + self.queue.running() }, pending.asked),
                (None, None) if self.gathering.values().any(|numbers| numbers.contains(number)) => {
                    (PullStage::Credentials, pending.asked)
                }
                (None, None) => (PullStage::Inspected, pending.asked),
            };
            let request = &pending.request;
            let step = PullStep { image: request.image.clone(), stage, lasts: now.saturating_sub(began) };
            let container = container_in(&request.field_path).map(str::to_owned);
            let (uid, full_name) = (request.uid.clone(), request.full_name.clone());
            PullProgress { uid, full_name, container, step }
        });
        told.collect()
    }
}
