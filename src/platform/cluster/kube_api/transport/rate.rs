//! A limit on calls: a bucket of tokens that fills at a steady rate. Owned by one lane; keeps how full it is.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::platform::cluster::kube_api::runtime_clock::now;

/// How many calls, on average and at once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate {
    /// Calls per second (`kubeAPIQPS`, `eventRecordQPS`); above 0.
    pub per_second: f64,
    /// Calls at once after a pause (`kubeAPIBurst`, `eventBurst`); 1 at least.
    pub burst: u32,
}

impl Rate {
    /// As upstream's client reads the two settings: 0 is 5 per second and 10 at once, a negative rate is no limit.
    pub fn from_settings(per_second: i32, burst: i32) -> Option<Self> {
        if per_second < 0 {
            return None;
        }
        let per_second = if per_second == 0 { 5.0 } else { f64::from(per_second) };
        let burst = u32::try_from(burst).unwrap_or(0);
        Some(Self { per_second, burst: if burst == 0 { 10 } else { burst } })
    }
}

/// Lets calls pass in the order they came, no faster than its rate.
pub struct RateLimit {
    rate: Rate,
    bucket: Mutex<Bucket>,
}

struct Bucket {
    /// Below zero: so many calls wait.
    tokens: f64,
    filled: Option<Instant>,
}

/// A token taken; given back if the call is dropped before its turn came.
struct Taken<'a> {
    limit: &'a RateLimit,
    used: bool,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.limit.bucket.lock().unwrap_or_else(PoisonError::into_inner).tokens += 1.0;
        }
    }
}

impl RateLimit {
    /// A full bucket.
    pub fn new(rate: Rate) -> Self {
        Self { rate, bucket: Mutex::new(Bucket { tokens: f64::from(rate.burst), filled: None }) }
    }

    /// Waits for the call's turn.
    pub async fn wait(&self) {
        let wait = self.take();
        let mut taken = Taken { limit: self, used: false };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        taken.used = true;
    }

    fn take(&self) -> Duration {
        let here = now();
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let since = bucket.filled.map_or(Duration::ZERO, |filled| here - filled);
        let full = f64::from(self.rate.burst.max(1));
        bucket.tokens = (bucket.tokens + since.as_secs_f64() * self.rate.per_second).min(full) - 1.0;
        bucket.filled = Some(here);
        Duration::from_secs_f64((-bucket.tokens / self.rate.per_second).clamp(0.0, 3600.0))
    }
}

#[cfg(test)]
mod cases {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Rate, RateLimit};
    use crate::platform::cluster::kube_api::runtime_clock::now;

    #[test]
    fn settings_are_read_as_the_usual_client_reads_them() {
        let rate = |per_second, burst| Some(Rate { per_second, burst });
        assert_eq!(Rate::from_settings(50, 100), rate(50.0, 100));
        assert_eq!(Rate::from_settings(0, 0), rate(5.0, 10));
        assert_eq!(Rate::from_settings(-1, 10), None);
    }

    /// CFG-49.
    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_at_once_and_the_rest_at_its_rate() {
        let limit = RateLimit::new(Rate { per_second: 2.0, burst: 3 });
        let began = now();
        let mut passed = vec![];
        for _ in 0..6 {
            limit.wait().await;
            passed.push((now() - began).as_millis());
        }
        assert_eq!(passed, [0, 0, 0, 500, 1000, 1500]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let began = now();
        for _ in 0..3 {
            limit.wait().await;
        }
        assert_eq!(now() - began, Duration::ZERO, "a pause fills no more than the burst");
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_does_not_hold_up_the_others() {
        let limit = Arc::new(RateLimit::new(Rate { per_second: 1.0, burst: 1 }));
        limit.wait().await;
        for _ in 0..50 {
            assert!(tokio::time::timeout(Duration::from_millis(1), limit.wait()).await.is_err());
        }
        assert!(tokio::time::timeout(Duration::from_secs(2), limit.wait()).await.is_ok());
    }
}
