//! The means of tasks for volumes of CSI drivers: how drivers are reached, and what the disk knows of their volumes.

use std::sync::Arc;
use std::time::Duration;

use super::timing::driven_plugin;
use crate::actors::kit::address::Address;
use crate::actors::kit::trace::Cause;
use crate::logic::volumes::order::{VolumePlace, plugin};
use crate::messages::plugins::csi_manager::{CsiManagerMsg, DriverEndpoint};
use crate::platform::plugins::CsiCalls;
use crate::platform::volumes::csi::CsiHost;

/// Patience with `CsiManager`.
const PATIENCE: Duration = Duration::from_secs(1);

/// The means of tasks for volumes of drivers.
#[derive(Clone)]
pub struct CsiVolumes {
    /// The node's name.
    pub node_name: String,
    /// Calls drivers.
    pub calls: Arc<dyn CsiCalls>,
    /// Volumes as the disk knows them.
    pub host: Arc<dyn CsiHost>,
    /// Knows where drivers serve, and unstages what nobody uses.
    pub manager: Address<CsiManagerMsg>,
}

impl CsiVolumes {
    /// Upstream's name of the plugin of a volume in a pod's directory, with its driver where the disk tells it.
    pub(super) async fn plugin_of(&self, place: &VolumePlace) -> String {
        let data = self.host.pod_data(place).await.ok().flatten();
        data.map_or_else(|| plugin::CSI.to_owned(), |data| driven_plugin(&data.driver_name))
    }

    /// The node has no room for another volume of the driver: its limit may not be the one that the cluster knows.
    pub(super) fn tell_full(&self, driver: &str) {
        // Lost, it comes again with the next try.
        let _ = self.manager.tell(Cause::outside("attach volume"), CsiManagerMsg::LimitReached(driver.to_owned()));
    }

    /// Where a driver serves.
    ///
    /// # Errors
    /// It is not registered, in upstream's words; behind them why its registration failed.
    pub(in crate::actors) async fn endpoint(&self, driver: &str) -> Result<String, String> {
        let question = |reply| CsiManagerMsg::Endpoint(driver.to_owned(), reply);
        let missing = format!("driver name {driver} not found in the list of registered CSI drivers");
        match self.manager.ask(Cause::outside("find driver"), PATIENCE, question).await {
            Ok(DriverEndpoint::At(endpoint)) => Ok(endpoint),
            Ok(DriverEndpoint::Failed(why)) => Err(format!("{missing}: {why}")),
            Ok(DriverEndpoint::Unknown) | Err(_) => Err(missing),
        }
    }
}
