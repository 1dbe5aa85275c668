//! Messages to the actors of plugins.

pub mod claim_manager;
pub mod csi_manager;
pub mod device_plugins;
pub mod plugin_watcher;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::logic::plugins::plugin::Plugin;

/// News from `PluginWatcher` to the actor that uses a kind of plugins. Every `Came` is answered by `PluginWatcherMsg::Judged`.
#[derive(Clone, Debug)]
pub enum PluginNews {
    /// A plugin is there, and waits for the verdict.
    Came(Arc<Plugin>),
    /// A plugin that came is gone.
    Gone(Arc<Plugin>),
    /// All sockets that there are, after a start of `PluginWatcher` and when one is gone that it had not handed over yet: a plugin at
    /// any other one is gone.
    Sockets(Arc<BTreeSet<String>>),
}
