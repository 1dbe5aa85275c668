//! How far images are that containers wait for, in words (PAIN-22). The runtime tells no bytes of a pull.

use std::time::Duration;

use super::ImageManager;
use crate::logic::model::backoff::go_duration;
use crate::messages::image_manager::PullProgress;

impl ImageManager {
    /// One sentence for each image that somebody still waits for.
    pub(super) fn progress(&self, now: Duration) -> Vec<PullProgress> {
        let wanted = self.pending.iter().filter(|(_, pending)| !pending.reply.is_closed());
        let told = wanted.map(|(number, pending)| {
            let image = &pending.request.image;
            let since = |began: Duration| go_duration(Duration::from_secs(now.saturating_sub(began).as_secs()));
            let sentence = match (pending.pull_began, self.queue.ahead_of(*number)) {
                (Some(began), _) => format!("{image} has been pulled for {}", since(began)),
                (None, Some(ahead)) => format!(
                    "{image} has waited in the queue of pulls for {}, with {} before it",
                    since(pending.asked),
                    ahead + self.queue.running()
                ),
                (None, None) if self.gathering.values().any(|numbers| numbers.contains(number)) => {
                    format!("credentials for {image} are being looked for, for {}", since(pending.asked))
                }
                (None, None) => format!("the runtime has been asked for {image} for {}", since(pending.asked)),
            };
            let (uid, field_path) = (pending.request.uid.clone(), pending.request.field_path.clone());
            PullProgress { uid, field_path, sentence }
        });
        told.collect()
    }
}
