//! logind on the simulated node: a shutdown that somebody begins or cancels, and the lock of the agent that delays it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, unfold};
use tokio::sync::watch;

use super::outlet::{Life, Outlet};
use crate::actors::kit::trace::lock;
use crate::platform::host::logind::{Logind, LogindError};

/// The state of logind.
pub struct SimLogind {
    delay_max: Mutex<Duration>,
    /// The incarnation that holds the lock: it ends with the process.
    holder: Mutex<Option<Arc<Life>>>,
    ends: watch::Sender<bool>,
}

impl Default for SimLogind {
    /// As systemd comes: a shutdown is delayed for five seconds at most.
    fn default() -> Self {
        Self {
            delay_max: Mutex::new(Duration::from_secs(5)),
            holder: Mutex::default(),
            ends: watch::Sender::new(false),
        }
    }
}

impl SimLogind {
    /// Somebody shuts the machine down, or cancels that.
    pub fn prepare(&self, ends: bool) {
        self.ends.send_replace(ends);
    }

    /// How long a shutdown is delayed at most.
    pub fn delay_max(&self) -> Duration {
        *lock(&self.delay_max)
    }

    /// Whether a shutdown is delayed.
    pub fn is_delayed(&self) -> bool {
        lock(&self.holder).as_ref().is_some_and(|life| !life.is_over())
    }
}

#[async_trait]
impl Logind for Outlet {
    async fn delay_max(&self) -> Result<Duration, LogindError> {
        Ok(self.node().logind.delay_max())
    }

    async fn set_delay_max(&self, delay: Duration) -> Result<(), LogindError> {
        *lock(&self.node().logind.delay_max) = delay;
        Ok(())
    }

    async fn delay(&self) -> Result<(), LogindError> {
        let logind = &self.node().logind;
        if *logind.ends.borrow() {
            let problem = "The operation inhibition has been requested for is already running".to_owned();
            return Err(LogindError::Bus { doing: "failed creating systemd inhibitor", problem });
        }
        *lock(&logind.holder) = Some(Arc::clone(self.life()));
        Ok(())
    }

    fn release(&self) {
        if !self.life().is_over() {
            *lock(&self.node().logind.holder) = None;
        }
    }

    async fn watch(&self) -> Result<BoxStream<'static, bool>, LogindError> {
        let mut ends = self.node().logind.ends.subscribe();
        ends.mark_changed();
        let next = async |mut ends: watch::Receiver<bool>| {
            ends.changed().await.ok()?;
            let now = *ends.borrow_and_update();
            Some((now, ends))
        };
        Ok(unfold(ends, next).boxed())
    }
}
