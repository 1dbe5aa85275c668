//! logind: hears that the machine is about to go down, and delays that (NODE-42, NODE-43).
//!
//! Owned by `ShutdownManager` through [`Logind`]. Keeps the lock that delays a shutdown, so that it outlives a restart of the
//! actor: without the lock the machine goes down at once.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use super::blocking;

/// How long logind or systemd may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(25);
/// Where the setting of the agent is, below the root.
const OVERRIDE_FOLDER: &str = "etc/systemd/logind.conf.d";
/// Its file.
const OVERRIDE_FILE: &str = "99-kubelet.conf";
/// `SIGHUP`, at which logind reads its configuration.
const HANG_UP: i32 = 1;

/// Trouble with logind.
#[derive(Debug, thiserror::Error)]
pub enum LogindError {
    /// The bus, or logind, did not do it.
    #[error("{doing}: {problem}")]
    Bus {
        /// The order.
        doing: &'static str,
        /// Its words.
        problem: String,
    },
    /// No answer in time.
    #[error("{0}: no answer within 25 s")]
    Silent(&'static str),
    /// The setting cannot be written.
    #[error("failed writing logind shutdown inhibit override file {}: {problem}", path.display())]
    Override {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: io::Error,
    },
    /// logind did not take the setting.
    #[error(
        "node shutdown manager was timed out after {attempts} attempts waiting for logind InhibitDelayMaxSec to update to \
         {wanted:?} (ShutdownGracePeriod), current value is {found:?}"
    )]
    TooShort {
        /// How often it was asked.
        attempts: u32,
        /// The delay that pods need.
        wanted: Duration,
        /// The delay that logind gives.
        found: Duration,
    },
    /// The connection has ended.
    #[error("the connection to logind has ended")]
    Lost,
}

/// See the module.
#[async_trait]
pub trait Logind: Send + Sync {
    /// How long a shutdown is delayed at most.
    async fn delay_max(&self) -> Result<Duration, LogindError>;
    /// Has logind delay shutdowns for so long at most, from now on and after each of its starts.
    async fn set_delay_max(&self, delay: Duration) -> Result<(), LogindError>;
    /// Delays the next shutdown until [`Self::release`]. One lock is enough: a second call keeps one.
    async fn delay(&self) -> Result<(), LogindError>;
    /// Delays no more.
    fn release(&self);
    /// Whether the machine is about to go down: as it is now, and with each change. Ends with the connection.
    async fn watch(&self) -> Result<BoxStream<'static, bool>, LogindError>;
}

#[zbus::proxy(
    interface = "org.freedesktop.login1.Manager",
    default_service = "org.freedesktop.login1",
    default_path = "/org/freedesktop/login1",
    gen_blocking = false
)]
trait Login {
    fn inhibit(&self, what: &str, who: &str, why: &str, mode: &str) -> zbus::Result<zbus::zvariant::OwnedFd>;
    #[zbus(property, name = "InhibitDelayMaxUSec")]
    fn inhibit_delay_max_usec(&self) -> zbus::Result<u64>;
    #[zbus(property)]
    fn preparing_for_shutdown(&self) -> zbus::Result<bool>;
    #[zbus(signal)]
    fn prepare_for_shutdown(&self, start: bool) -> zbus::Result<()>;
}

#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1",
    gen_blocking = false
)]
trait Units {
    fn kill_unit(&self, name: &str, whom: &str, signal: i32) -> zbus::Result<()>;
}

/// Gives a new connection to the bus.
type Connect = Box<dyn Fn() -> BoxFuture<'static, zbus::Result<zbus::Connection>> + Send + Sync>;

/// The logind of this machine. Its calls go over connections of their own: they are rare, and a bus that was started again
/// is found by the next one.
pub struct SystemLogind {
    root: PathBuf,
    connect: Connect,
    lock: Mutex<Option<OwnedFd>>,
}

impl SystemLogind {
    /// Over the system's message bus, with its settings below `root`.
    pub fn new(root: &Path) -> Self {
        Self::by(root, Box::new(|| Box::pin(zbus::Connection::system())))
    }

    fn by(root: &Path, connect: Connect) -> Self {
        Self { root: root.to_owned(), connect, lock: Mutex::new(None) }
    }

    async fn login(&self) -> zbus::Result<LoginProxy<'static>> {
        let connection = (self.connect)().await?;
        LoginProxy::builder(&connection).cache_properties(zbus::proxy::CacheProperties::No).build().await
    }

    async fn hang_up(&self) -> zbus::Result<()> {
        let connection = (self.connect)().await?;
        let units = UnitsProxy::builder(&connection).cache_properties(zbus::proxy::CacheProperties::No).build().await?;
        units.kill_unit("systemd-logind.service", "all", HANG_UP).await
    }
}

async fn answer<T>(doing: &'static str, call: impl Future<Output = zbus::Result<T>>) -> Result<T, LogindError> {
    match tokio::time::timeout(ANSWER_MAX, call).await {
        Ok(outcome) => outcome.map_err(|error| LogindError::Bus { doing, problem: error.to_string() }),
        Err(_) => Err(LogindError::Silent(doing)),
    }
}

#[async_trait]
impl Logind for SystemLogind {
    async fn delay_max(&self) -> Result<Duration, LogindError> {
        let read = async { self.login().await?.inhibit_delay_max_usec().await };
        let micros = answer("failed reading InhibitDelayMaxUSec property from logind", read).await?;
        Ok(Duration::from_micros(micros))
    }

    async fn set_delay_max(&self, delay: Duration) -> Result<(), LogindError> {
        let folder = self.root.join(OVERRIDE_FOLDER);
        let path = folder.join(OVERRIDE_FILE);
        // logind is given whole seconds. Rounded down, its delay would be too short for ever.
        let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
        let text = format!("# Kubelet logind override\n[Login]\nInhibitDelayMaxSec={seconds}\n");
        let of = path.clone();
        let written = blocking::run(move || fs::create_dir_all(&folder).and_then(|()| fs::write(&of, text))).await;
        written.map_err(|problem| LogindError::Override { path, problem })?;
        answer("unable to reload logind conf", self.hang_up()).await
    }

    async fn delay(&self) -> Result<(), LogindError> {
        let (who, why) = ("kubelet", "Kubelet needs time to handle node shutdown");
        let take = async { self.login().await?.inhibit("shutdown", who, why, "delay").await };
        let lock = answer("failed creating systemd inhibitor", take).await?;
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(lock.into());
        Ok(())
    }

    fn release(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    async fn watch(&self) -> Result<BoxStream<'static, bool>, LogindError> {
        let begin = async {
            let login = self.login().await?;
            // In this order: a shutdown that begins in between is heard.
            let signals = login.receive_prepare_for_shutdown().await?;
            Ok((login.preparing_for_shutdown().await?, signals))
        };
        let (now, signals) = answer("failed to monitor shutdown", begin).await?;
        let told = signals.filter_map(async |signal| signal.args().ok().map(|args| args.start));
        Ok(futures_util::stream::iter([now]).chain(told).boxed())
    }
}

/// A machine without logind, or one whose shutdowns are nobody's business.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLogind;

#[async_trait]
impl Logind for NoLogind {
    async fn delay_max(&self) -> Result<Duration, LogindError> {
        Err(LogindError::Lost)
    }
    async fn set_delay_max(&self, _: Duration) -> Result<(), LogindError> {
        Err(LogindError::Lost)
    }
    async fn delay(&self) -> Result<(), LogindError> {
        Err(LogindError::Lost)
    }
    fn release(&self) {}
    async fn watch(&self) -> Result<BoxStream<'static, bool>, LogindError> {
        Err(LogindError::Lost)
    }
}

#[cfg(test)]
mod tests;
