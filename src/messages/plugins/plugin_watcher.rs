//! To `PluginWatcher`.

use std::collections::BTreeMap;

use ractor::RpcReplyPort;

use crate::logic::plugins::plugin::{PluginInfo, PluginKind, Refusal};
use crate::logic::plugins::plugin_states::{PluginView, SocketIdentity};
use crate::messages::root::Child;
use crate::messages::{Ended, Lost, describe};

/// How the watch of the registry goes on.
#[derive(Debug, strum::IntoStaticStr)]
pub enum RegistryStep {
    /// The registry may have changed.
    Hinted,
    /// The watch ended, and why.
    WatchEnded(Result<String, Lost>),
    /// Time to watch it again.
    WatchDue,
    /// All sockets, or why that is not known.
    Scanned(Ended<BTreeMap<String, SocketIdentity>>),
    /// Time to look although nothing was hinted at.
    ScanDue,
}

/// See the module. In the trace, a part of a group has its own name.
#[derive(Debug, strum::IntoStaticStr)]
pub enum PluginWatcherMsg {
    /// From itself: the watch of the registry goes on.
    #[strum(transparent)]
    Registry(RegistryStep),
    /// From itself: a plugin was asked who it is.
    Greeted {
        /// Its socket.
        socket: String,
        /// The handshake.
        attempt: u64,
        /// Its answer, or why there is none.
        outcome: Ended<PluginInfo>,
    },
    /// From `CsiManager` and whoever uses other kinds: the verdict about a plugin that came.
    Judged {
        /// Its socket.
        socket: String,
        /// The handshake, as the plugin has it.
        attempt: u64,
        /// Why it is not used.
        outcome: Result<(), Refusal>,
    },
    /// From itself: the verdict reached a plugin, or could not.
    Notified {
        /// Its socket.
        socket: String,
        /// The handshake.
        attempt: u64,
        /// Why the verdict did not reach it.
        outcome: Ended<()>,
    },
    /// From Root: an actor that uses plugins was started again.
    Repeat(Child),
    /// From itself: a wait is over.
    RetryDue,
    /// From itself: those who had no room for the news that a plugin is gone get it again.
    RetellDue,
    /// From the server: all plugins.
    List(RpcReplyPort<Vec<PluginView>>),
}

describe!(PluginWatcherMsg);

/// The actor that uses plugins of a kind, as Root knows it; `None` where nobody does.
pub fn taker(kind: PluginKind) -> Option<Child> {
    match kind {
        PluginKind::Csi => Some(Child::CsiManager),
        PluginKind::Device => Some(Child::DevicePlugins),
        PluginKind::Dra => Some(Child::ClaimManager),
    }
}
