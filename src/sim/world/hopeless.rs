//! Pods that never come right: one part of each fails, or hangs, for good. All others must come right beside them in the usual
//! time. Nobody may wait in a line that such a pod stands in.

use serde_json::json;

use super::World;
use crate::actors::kit::trace::lock;
use crate::sim::faults::random::Random;
use crate::sim::pods::SimPod;

/// The beginning of their names.
const PREFIX: &str = "hopeless-";
/// An image that nobody has.
const IMAGE: &str = "nobody-has:1";
/// A driver that never comes, and its volume.
const DRIVER: &str = "absent.csi.example.com";
const VOLUME: &str = "never-comes";

fn named(what: &str, does: &str) -> SimPod {
    SimPod::of(&format!("{PREFIX}{what}"), does).grace(1)
}

impl World {
    /// Makes some of them, by the seed, in the strict mode.
    pub fn add_hopeless(&self) {
        if !self.shared.strict.0 {
            return;
        }
        let random = Random::named(self.shared.seed, "hopeless");
        lock(&self.node().images).unknown.insert(IMAGE.to_owned());
        self.hang_volume(Some("set up stuck"));
        let mut all = vec![
            named("image", "run").image(IMAGE),
            named("start", "cannot start"),
            named("volume", "run").volume("stuck", json!({ "emptyDir": {} })),
        ];
        if let Some(link) = &self.shared.link {
            link.refuse(Some(format!("/pods/{PREFIX}status/status")));
            all.push(named("status", "exit 1 after 3s"));
            all.push(named("settings", "run").volume("settings", json!({ "configMap": { "name": "never-made" } })));
            if self.shared.plugins {
                self.add_volume(VOLUME, DRIVER);
                all.push(named("driver", "run").persistent(VOLUME));
            }
        }
        for pod in all.into_iter().filter(|_| random.chance(0.5)) {
            match &self.shared.link {
                Some(_) => drop(self.create(&pod)),
                None => drop(self.put(&pod)),
            }
        }
    }

    /// Whether a problem is of a pod that never comes right, and that somebody wants still.
    pub(super) fn is_of_hopeless(&self, how: &str) -> bool {
        let wanted =
            || self.wanted().into_keys().chain(self.shared.link.iter().flat_map(|_| self.api_wanted().into_keys()));
        how.contains(PREFIX) && wanted().any(|name| name.starts_with(PREFIX) && how.contains(&name))
    }

    /// Calls that hung for good go on, so that such a pod can go.
    pub(super) fn heal_hopeless(&self) {
        if self.shared.strict.0 {
            self.hang_volume(None);
        }
    }
}
