//! How far an image is on its way to a container (PAIN-22). The runtime tells no bytes of a pull.

use std::fmt;
use std::time::Duration;

use crate::logic::model::backoff::go_duration;

/// An image's wait, and its length so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullStep {
    /// As the spec says it.
    pub image: String,
    /// At what.
    pub stage: PullStage,
    /// Since when; printed in whole seconds.
    pub lasts: Duration,
}

/// The stages of a pull. Their names are words for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum PullStage {
    /// The runtime is asked whether it has the image.
    Inspected,
    /// Credentials are gathered.
    Credentials,
    /// Other pulls come first.
    Queued {
        /// How many.
        ahead: usize,
    },
    /// The runtime pulls it.
    Pulled,
}

impl fmt::Display for PullStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let image = &self.image;
        let lasts = go_duration(Duration::from_secs(self.lasts.as_secs()));
        match self.stage {
            PullStage::Inspected => write!(f, "the runtime has been asked for {image} for {lasts}"),
            PullStage::Credentials => write!(f, "credentials for {image} are being looked for, for {lasts}"),
            PullStage::Queued { ahead } => {
                write!(f, "{image} has waited in the queue of pulls for {lasts}, with {ahead} before it")
            }
            PullStage::Pulled => write!(f, "{image} has been pulled for {lasts}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_has_its_sentence() {
        for (stage, expected) in [
            (PullStage::Inspected, "the runtime has been asked for app:1 for 1m1s"),
            (PullStage::Credentials, "credentials for app:1 are being looked for, for 1m1s"),
            (PullStage::Queued { ahead: 3 }, "app:1 has waited in the queue of pulls for 1m1s, with 3 before it"),
            (PullStage::Pulled, "app:1 has been pulled for 1m1s"),
        ] {
            let step = PullStep { image: "app:1".to_owned(), stage, lasts: Duration::from_millis(61_900) };
            assert_eq!(step.to_string(), expected);
        }
    }
}
