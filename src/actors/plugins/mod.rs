//! The actors of plugins: `PluginWatcher` finds them, `CsiManager` uses storage drivers, `DevicePlugins` device plugins,
//! `ClaimManager` drivers of resource claims.

pub mod claim_manager;
pub mod csi_manager;
pub mod device_plugins;
pub mod plugin_watcher;
#[cfg(test)]
mod tests;
mod verdict;
