//! The actors of plugins: `PluginWatcher` finds them, `CsiManager` uses storage drivers.

pub mod csi_manager;
pub mod plugin_watcher;
#[cfg(test)]
mod tests;
