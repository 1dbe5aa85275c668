//! After an eviction for disk space: the runtime removes the pod's writable layers in its own time, after it has answered
//! that its containers are gone. Until then the disk looks as full as before, and another pod would go for nothing.
//!
//! Owned by `EvictionManager`. Upstream looks again a second after the end of the pod, at the earliest.

use std::time::Duration;

use super::monitor::Shortage;
use super::signal::Observations;

/// The wait between two looks at a disk whose space is on its way back.
pub const SPACE_PACE: Duration = Duration::from_secs(1);
/// So many such looks, at most.
const LOOKS_MAX: u8 = 3;
/// The disk gets worse when it loses more than this part of the threshold: somebody else fills it.
const NOISE: u64 = 16;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aftermath {
    looks_left: u8,
    /// The amount that was left at the last look.
    available: Option<u64>,
}

impl Default for Aftermath {
    fn default() -> Self {
        Self { looks_left: LOOKS_MAX, available: None }
    }
}

impl Aftermath {
    /// Whether the next eviction waits for one more look: there are some left, and the disk does not get worse.
    pub fn waits(&mut self, shortage: &Shortage, now: &Observations) -> bool {
        let Some(now) = now.get(&shortage.threshold.signal) else { return false };
        let noise = u64::try_from(shortage.threshold.quantity(now).value()).unwrap_or(0) / NOISE;
        let gets_worse = self.available.is_some_and(|before| now.available.saturating_add(noise) < before);
        if gets_worse || self.looks_left == 0 {
            return false;
        }
        *self = Self { looks_left: self.looks_left - 1, available: Some(now.available) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::signal::Signal;
    use super::super::testing::{observation, observed, threshold};
    use super::*;

    #[test]
    fn another_eviction_waits_while_space_may_come_back() {
        let threshold = threshold(Signal::ImageFsAvailable, 1600);
        let shortage = Shortage { threshold, all: vec![(threshold, observation(500))] };
        let look = |available| observed(&[(Signal::ImageFsAvailable, available)]);
        let waits = |looks: &[u64]| {
            let mut aftermath = Aftermath::default();
            looks.iter().map(|available| aftermath.waits(&shortage, &look(*available))).collect::<Vec<_>>()
        };
        assert_eq!(waits(&[500, 500, 500, 500]), [true, true, true, false], "it does not come back");
        assert_eq!(waits(&[500, 450]), [true, true], "logs are written");
        assert_eq!(waits(&[500, 399]), [true, false], "somebody else fills the disk");
        assert!(!Aftermath::default().waits(&shortage, &observed(&[])), "nobody knows");
    }
}
