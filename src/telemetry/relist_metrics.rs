//! `kubelet_pleg_*` and `kubelet_evented_pleg_*`: read from the ledger, where every relist is a turn with its cause.
//!
//! Keeps how far it has read. Relists that the ledger forgot before anyone scraped are not in the histograms: it keeps
//! the last few thousand turns of the node, more than happen between two scrapes.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use prometheus::{Gauge, Histogram, HistogramOpts, IntCounter, Registry};

use super::runtime_metrics::register;
use crate::actors::ledger::{Ledger, Turn, lock};
use crate::logic::time::{Moment, Stamp};

/// Upstream's default buckets, in seconds.
pub(super) const DEFAULT_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const PLEG: &str = "Pleg";

/// See the module.
pub(super) struct RelistMetrics {
    duration: Histogram,
    interval: Histogram,
    last_seen: Gauge,
    streams_opened: IntCounter,
    streams_ended: IntCounter,
    read: Mutex<Read>,
}

#[derive(Default)]
struct Read {
    up_to: Stamp,
    last_start: Option<Duration>,
}

impl RelistMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let histogram = |name: &str, help: &str| {
            let opts = HistogramOpts::new(name, help).buckets(DEFAULT_BUCKETS.to_vec());
            register(registry, Histogram::with_opts(opts))
        };
        let counter = |name: &str, help: &str| register(registry, IntCounter::new(name, help));
        Self {
            duration: histogram(
                "kubelet_pleg_relist_duration_seconds",
                "[ALPHA] Duration in seconds for relisting pods in PLEG.",
            ),
            interval: histogram(
                "kubelet_pleg_relist_interval_seconds",
                "[ALPHA] Interval in seconds between relisting in PLEG.",
            ),
            last_seen: register(
                registry,
                Gauge::new(
                    "kubelet_pleg_last_seen_seconds",
                    "[ALPHA] Timestamp in seconds when PLEG was last seen active.",
                ),
            ),
            streams_opened: counter(
                "kubelet_evented_pleg_connection_success_count",
                "[ALPHA] The number of times a streaming client was obtained to receive CRI Events.",
            ),
            streams_ended: counter(
                "kubelet_evented_pleg_connection_error_count",
                "[ALPHA] The number of errors encountered during the establishment of streaming connection with the \
                 CRI runtime.",
            ),
            read: Mutex::default(),
        }
    }

    /// Takes in what happened since the last time.
    pub(super) fn catch_up(&self, ledger: &Ledger) {
        if let Some(sums) = ledger.kinds().get(PLEG) {
            for (counter, message) in [(&self.streams_opened, "StreamOpened"), (&self.streams_ended, "StreamEnded")] {
                let count = sums.messages.get(message).copied().unwrap_or_default();
                counter.inc_by(count.saturating_sub(counter.get()));
            }
        }
        self.take(&ledger.turns(|turn| *turn.actor == *PLEG));
    }

    fn take(&self, turns: &[Turn]) {
        let mut read = lock(&self.read);
        let by_id: BTreeMap<Stamp, &Turn> = turns.iter().map(|turn| (turn.id, turn)).collect();
        let up_to = read.up_to;
        for turn in turns.iter().filter(|turn| turn.id > up_to && turn.message == "Relisted") {
            // The turn that asked for the lists; unknown for the first relist, which no turn began.
            let Some(asked) = turn.cause.turn.and_then(|id| by_id.get(&id)) else { continue };
            let ended = turn.began.saturating_sub(turn.waited);
            self.duration.observe(ended.saturating_sub(asked.began).as_secs_f64());
            if let Some(before) = read.last_start.replace(asked.began) {
                self.interval.observe(asked.began.saturating_sub(before).as_secs_f64());
            }
            self.last_seen.set(asked.began_at.since(Moment::EPOCH).as_secs_f64());
        }
        if let Some(last) = turns.last() {
            read.up_to = up_to.max(last.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::actors::ledger::{Cause, Ending};

    fn turn(id: u64, message: &'static str, cause: Option<u64>, began_millis: u64) -> Turn {
        Turn {
            id: Stamp(id),
            actor: Arc::from(PLEG),
            message,
            pod: None,
            cause: Cause { turn: cause.map(Stamp), origin: "relist" },
            began_at: Moment(i64::try_from(began_millis).expect("small") * 1_000_000),
            began: Duration::from_millis(began_millis),
            waited: Duration::from_millis(2),
            took: Duration::ZERO,
            ending: Ending::Done,
        }
    }

    #[test]
    fn each_relist_counts_once_however_often_it_is_read() {
        let metrics = RelistMetrics::new(&Registry::new());
        let mut turns = vec![
            turn(1, "Relisted", None, 100),
            turn(2, "RelistDue", None, 1100),
            turn(3, "Relisted", Some(2), 1132),
            turn(4, "RelistDue", None, 2132),
            turn(5, "Relisted", Some(4), 2144),
        ];
        metrics.take(&turns);
        metrics.take(&turns);
        assert_eq!((metrics.duration.get_sample_count(), metrics.interval.get_sample_count()), (2, 1));
        assert!((metrics.duration.get_sample_sum() - 0.040).abs() < 1e-9);
        assert!((metrics.interval.get_sample_sum() - 1.032).abs() < 1e-9);
        turns.extend([turn(6, "RelistDue", None, 3144), turn(7, "Relisted", Some(6), 3150)]);
        metrics.take(&turns);
        assert_eq!((metrics.duration.get_sample_count(), metrics.interval.get_sample_count()), (3, 2));
        assert!((metrics.last_seen.get() - 3.144).abs() < 1e-9);
    }
}
