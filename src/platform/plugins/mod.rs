//! Plugins behind their sockets: the registry that they appear in, the handshake, and the calls to drivers of volumes and of
//! resource claims, and to device plugins.
//!
//! Traits and what they report; the forms beside them carry it out. The content of the registry may be hostile: only sockets
//! are looked at, no link is followed, every call has a deadline and every answer a bound.

mod calls;
mod csi;
pub mod device_folder;
mod devices;
mod dra;
mod dra_connections;
mod none;
mod registration;
mod registry;
mod socket;
#[cfg(test)]
mod tests;
pub mod wire;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::Stream;
use futures_util::future::BoxFuture;

pub use calls::{OpenCall, PluginCalls};
pub use csi::{GrpcCsi, as_migrated};
pub use devices::GrpcDevices;
pub use dra::GrpcDra;
pub use none::NoPlugins;
pub use registration::GrpcRegistration;
pub use registry::LinuxPluginRegistry;

use crate::logic::plugins::call_error::CallError;
use crate::logic::plugins::claims::ClaimId;
use crate::logic::plugins::claims::drivers::Service;
use crate::logic::plugins::claims::health::DeviceHealth;
use crate::logic::plugins::claims::states::Answer;
use crate::logic::plugins::csi_registration::CsiNodeInfo;
use crate::logic::plugins::device_registration::{RegisterRefusal, Registration};
use crate::logic::plugins::plugin::PluginInfo;
use crate::logic::plugins::plugin_states::SocketIdentity;
use crate::logic::resources::device_manager::devices::{Device, DeviceGrant, PluginOptions};
use crate::logic::volumes::csi::capabilities::NodeCapabilities;
use crate::logic::volumes::csi::requests::{ExpandRequest, PublishRequest, StageRequest, VolumeUse};

/// The largest answer that is read of a plugin.
pub const ANSWER_MAX: usize = 16 * 1024 * 1024;
/// The time limit of a call to a CSI driver, as upstream's.
pub const CSI_LIMIT: Duration = Duration::from_secs(120);
/// The time limit of a call to a driver of resource claims, as upstream's.
pub const DRA_LIMIT: Duration = Duration::from_secs(45);

/// Hints that the registry may have changed; ends when it can no longer be watched.
pub type Hints = Pin<Box<dyn Stream<Item = ()> + Send>>;
/// A driver's words about its devices; ends with the connection.
pub type HealthNews = Pin<Box<dyn Stream<Item = Result<Vec<DeviceHealth>, CallError>> + Send>>;
/// A connection that stands; ends with it.
pub type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Why a plugin was not found, or not spoken to. The texts of the handshake are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// The registry cannot be looked at.
    #[error("{attempt} {path}: {problem}")]
    Registry {
        /// The attempt.
        attempt: &'static str,
        /// On what.
        path: String,
        /// The kernel's words.
        problem: String,
    },
    /// Nobody listens at its socket.
    #[error(
        "RegisterPlugin error -- dial failed at socket {socket}, err: failed to dial socket {socket}, err: {problem}"
    )]
    Dial {
        /// The socket.
        socket: String,
        /// The kernel's words.
        problem: String,
    },
    /// It does not say who it is.
    #[error("RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket {socket}, err: {error}")]
    Info {
        /// The socket.
        socket: String,
        /// How the call failed.
        error: CallError,
    },
    /// The verdict did not reach it.
    #[error("{0}")]
    Notify(CallError),
}

/// The folder where plugins appear: `plugins_registry` below the root directory.
#[async_trait]
pub trait PluginRegistry: Send + Sync {
    /// All sockets below it, by absolute path. Other files, links and hidden names are left out.
    ///
    /// # Errors
    /// The folder cannot be read.
    async fn scan(&self) -> Result<BTreeMap<String, SocketIdentity>, PluginError>;
    /// Watches it and its subfolders. A change that comes after this call is hinted at.
    ///
    /// # Errors
    /// The folder cannot be watched.
    async fn watch(&self) -> Result<Hints, PluginError>;
}

/// The handshake with a plugin, on its registration socket.
#[async_trait]
pub trait PluginRegistration: Send + Sync {
    /// Asks who it is: 10 s for the connection and 1 s for the answer.
    ///
    /// # Errors
    /// It cannot be reached, or does not answer as it should.
    async fn info(&self, socket: &str) -> Result<PluginInfo, PluginError>;
    /// Tells it the verdict, within 5 s. `refusal` says why it is not used.
    ///
    /// # Errors
    /// The verdict could not reach it.
    async fn notify(&self, socket: &str, refusal: Option<&str>) -> Result<(), PluginError>;
}

/// The calls to a CSI driver, each within [`CSI_LIMIT`]. `at` is the driver's endpoint.
#[async_trait]
pub trait CsiCalls: Send + Sync {
    /// The driver at this endpoint has this name, under which its calls are counted.
    fn name(&self, _at: &str, _driver: &str) {}
    /// The driver's view of this node.
    async fn node_info(&self, at: &str) -> Result<CsiNodeInfo, CallError>;
    /// The capabilities of its part on the node.
    async fn capabilities(&self, at: &str) -> Result<NodeCapabilities, CallError>;
    /// Has a volume there for the whole node.
    async fn stage(&self, at: &str, request: StageRequest) -> Result<(), CallError>;
    /// Undoes that. `staging` is the path.
    async fn unstage(&self, at: &str, volume: &str, staging: &str) -> Result<(), CallError>;
    /// Has a volume there for a pod.
    async fn publish(&self, at: &str, request: PublishRequest) -> Result<(), CallError>;
    /// Undoes that. `target` is the path.
    async fn unpublish(&self, at: &str, volume: &str, target: &str) -> Result<(), CallError>;
    /// How full a volume is.
    async fn usage(&self, at: &str, volume: &str, path: &str, staging: &str) -> Result<VolumeUse, CallError>;
    /// Grows the file system or the device; gives its size in bytes.
    async fn expand(&self, at: &str, request: ExpandRequest) -> Result<i64, CallError>;
    /// The calls that are open, by endpoint.
    fn open_calls(&self) -> Vec<(String, OpenCall)>;
}

/// Answers a registration of a device plugin, once it is known whether the plugin is used.
pub type Registrar = Arc<dyn Fn(Registration) -> BoxFuture<'static, Result<(), RegisterRefusal>> + Send + Sync>;

/// The socket where device plugins register: `kubelet.sock` in their directory.
#[async_trait]
pub trait DeviceSocket: Send + Sync {
    /// The path of the plugin's socket of this name.
    fn endpoint(&self, name: &str) -> String;
    /// Removes all sockets of the directory, listens, and has registrations answered; says why it ended. Dropping the future
    /// ends it.
    async fn serve(&self, registrar: Registrar) -> String;
    /// Why plugins cannot register now.
    fn problem(&self) -> Option<String>;
}

/// The devices of one plugin, now and with each change.
#[async_trait]
pub trait DeviceList: Send + Sync {
    /// All devices by name, as soon as they changed; `None` when the plugin tells no more. One question at a time. After many
    /// answers it takes its time.
    ///
    /// # Errors
    /// The plugin does not answer as it should; nothing comes after that.
    async fn next(&self) -> Result<Option<BTreeMap<String, Device>>, CallError>;
}

/// The calls to a device plugin, each with a deadline. `at` is the plugin's endpoint.
#[async_trait]
pub trait DeviceCalls: Send + Sync {
    /// Connects anew, and asks which calls the plugin wants: 10 s at most.
    async fn connect(&self, at: &str) -> Result<PluginOptions, CallError>;
    /// Its devices.
    fn list(&self, at: &str) -> Arc<dyn DeviceList>;
    /// The devices of `available` that the plugin would take, `count` with those that are `required`: 10 s at most.
    async fn prefer(
        &self,
        at: &str,
        available: Vec<String>,
        required: Vec<String>,
        count: usize,
    ) -> Result<Vec<String>, CallError>;
    /// Gives devices to one container: 30 s at most.
    async fn allocate(&self, at: &str, ids: Vec<String>) -> Result<DeviceGrant, CallError>;
    /// A container with these devices is about to start: 30 s at most.
    async fn pre_start(&self, at: &str, ids: Vec<String>) -> Result<(), CallError>;
    /// The calls that are open, by endpoint.
    fn open_calls(&self) -> Vec<(String, OpenCall)>;
}

/// The calls to a driver of resource claims, each within [`DRA_LIMIT`]. `at` is the driver's endpoint.
#[async_trait]
pub trait DraCalls: Send + Sync {
    /// Has devices of claims usable (`NodePrepareResources`).
    async fn prepare(&self, at: &str, service: Service, claims: Vec<ClaimId>) -> Result<Answer, CallError>;
    /// Undoes that (`NodeUnprepareResources`).
    async fn unprepare(&self, at: &str, service: Service, claims: Vec<ClaimId>) -> Result<Answer, CallError>;
    /// Hears how the driver's devices are (`NodeWatchResources`).
    async fn watch_health(&self, at: &str) -> Result<HealthNews, CallError>;
    /// Another driver serves at the endpoint from now on: no call goes to the former one any more.
    fn renew(&self, at: &str) {
        let _ = at;
    }
    /// Connects to the driver, to see when it goes.
    async fn connect(&self, at: &str) -> Result<Connection, CallError>;
    /// The calls that are open, by endpoint.
    fn open_calls(&self) -> Vec<(String, OpenCall)>;
}
