//! Pods whose device plugin may only be late: how long each waits for it (our own setting; upstream fails them at once).
//!
//! Pure. Owned by `AllocationManager`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;

/// When a wait began.
#[derive(Clone, Copy, Debug)]
struct Since {
    uptime: Duration,
    moment: Moment,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct LatePlugins {
    /// How long a pod waits; zero: it does not.
    patience: Duration,
    waits: BTreeMap<PodUid, Since>,
}

/// The wait of a pod. `Display` is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateWait {
    /// The resource whose plugin is awaited.
    pub resource: String,
    /// Since when the pod waits.
    pub since: Moment,
    /// When the wait ends, and the pod fails.
    pub until: Moment,
}

impl fmt::Display for LateWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, since, until } = self;
        let (since, until) = (since.to_timestamp(), until.to_timestamp());
        write!(
            f,
            "the device plugin of {resource} has no healthy device yet; the pod waits since {since} until {until}"
        )
    }
}

impl LatePlugins {
    /// Pods wait this long.
    pub fn new(patience: Duration) -> Self {
        Self { patience, waits: BTreeMap::new() }
    }

    /// Whether the pod may wait still, or begin to.
    pub fn may_wait(&self, uid: &PodUid, uptime: Duration) -> bool {
        let waited = self.waits.get(uid).map_or(Duration::ZERO, |since| uptime.saturating_sub(since.uptime));
        waited < self.patience
    }

    /// The pod waits for the plugin of this resource, from now on or still.
    pub fn wait(&mut self, uid: &PodUid, resource: String, uptime: Duration, now: Moment) -> LateWait {
        let since = *self.waits.entry(uid.clone()).or_insert(Since { uptime, moment: now });
        LateWait { resource, since: since.moment, until: since.moment.plus(self.patience) }
    }

    /// The pod is decided.
    pub fn end(&mut self, uid: &PodUid) {
        self.waits.remove(uid);
    }

    /// Nobody wants other pods than these.
    pub fn keep_only(&mut self, active: &BTreeSet<PodUid>) {
        self.waits.retain(|uid, _| active.contains(uid));
    }

    /// Whether some pod waits.
    pub fn has_waits(&self) -> bool {
        !self.waits.is_empty()
    }
}
