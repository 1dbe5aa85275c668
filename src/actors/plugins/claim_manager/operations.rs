//! The operations of `ClaimManager`: claims read, drivers called and watched, ResourceSlices deleted.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{pending, select, try_join_all};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};

use crate::actors::kit::address::Address;
use crate::actors::kit::trace::Cause;
use crate::logic::model::backoff::{Backoff, BackoffPolicy};
use crate::logic::model::time::Steady;
use crate::logic::plugins::claims::ClaimKey;
use crate::logic::plugins::claims::check::ClaimError;
use crate::logic::plugins::claims::{checkpoint, health};
use crate::logic::plugins::plugin::Plugin;
use crate::messages::plugins::claim_manager::{ClaimFiles, ClaimManagerMsg, DriverStep};
use crate::platform::cluster::kube_api::{ApiServer, Place, Selector};
use crate::platform::files::checkpoints::Checkpoints;
use crate::platform::host::clock::Clock;
use crate::platform::plugins::DraCalls;

/// Waits after ResourceSlices could not be deleted, as upstream's.
const WIPE_RETRY: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(300), reset: Duration::from_secs(600) };
/// Wait before a driver is connected to once more.
const CONNECT_RETRY: Duration = Duration::from_secs(1);
/// Wait before a stream of health is opened once more, as upstream's.
const HEALTH_RETRY: Duration = Duration::from_secs(5);

pub(super) async fn read_files(files: &dyn Checkpoints) -> Result<ClaimFiles, String> {
    let claims = files.read(checkpoint::FILE_NAME).await.map_err(|error| error.to_string())?;
    // Drivers tell health again that is lost.
    let health = files.read(health::FILE_NAME).await.unwrap_or_default();
    Ok(ClaimFiles { claims, health })
}

/// Reads claims, side by side. The first that is missing ends it.
pub(super) async fn read_claims(api: Option<ApiServer>, keys: Vec<ClaimKey>) -> Result<Vec<ResourceClaim>, ClaimError> {
    let read = |key: ClaimKey| {
        let api = api.clone();
        async move {
            let failed = |why| ClaimError::Fetch { name: key.name.clone(), why };
            let api = api.ok_or_else(|| failed("there is no API server".to_owned()))?;
            let at = Place::namespace(&key.namespace);
            api.get::<ResourceClaim>(&at, &key.name).await.map_err(|error| failed(error.to_string()))
        }
    };
    try_join_all(keys.into_iter().map(read)).await
}

/// Deletes the ResourceSlices of this node: those of a driver, or all. Tries until it succeeds.
pub(super) async fn wipe(
    api: ApiServer,
    node: String,
    driver: Option<String>,
    clock: Arc<dyn Clock>,
) -> Result<(), String> {
    let fields = match &driver {
        Some(driver) => format!("spec.driver={driver},spec.nodeName={node}"),
        None => format!("spec.nodeName={node}"),
    };
    let (selector, mut retries) = (Selector::fields(fields), Backoff::new(WIPE_RETRY));
    loop {
        match api.delete_all::<ResourceSlice>(&Place::Cluster, &selector).await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => tracing::debug!(%error, driver, "ResourceSlices are not deleted yet"),
        }
        let wait = retries.fail("ResourceSlices", Steady::at(clock.uptime()));
        tokio::time::sleep(wait.period).await;
    }
}

/// Watches over a driver for as long as it is registered: whether it is there and, with `with_health`, how its devices are.
pub(super) async fn watch(
    calls: Arc<dyn DraCalls>,
    plugin: Arc<Plugin>,
    with_health: bool,
    to: Address<ClaimManagerMsg>,
) -> Result<(), String> {
    let tell = |step| {
        // Refused, the next change takes its place; the end of a connection repeats its news.
        let _ = to.tell(Cause::outside("driver"), ClaimManagerMsg::Driver(step));
    };
    // It may be the successor of another driver at the same endpoint.
    calls.renew(&plugin.endpoint);
    loop {
        if let Ok(connection) = calls.connect(&plugin.endpoint).await {
            tell(DriverStep::Connected(Arc::clone(&plugin), true));
            let mut is_told = false;
            let health = async {
                match with_health {
                    true => follow_health(&*calls, &plugin, &tell, &mut is_told).await,
                    false => pending().await,
                }
            };
            // Over the same connection, so not before there is one.
            select(connection, pin!(health)).await;
            if is_told {
                tell(DriverStep::Health(Arc::clone(&plugin), None));
            }
            tell(DriverStep::Connected(Arc::clone(&plugin), false));
        }
        tokio::time::sleep(CONNECT_RETRY).await;
    }
}

/// Tells how a driver's devices are. `is_told` while that holds: whoever ends this takes it back.
async fn follow_health(calls: &dyn DraCalls, plugin: &Arc<Plugin>, tell: &impl Fn(DriverStep), is_told: &mut bool) {
    loop {
        if let Ok(mut news) = calls.watch_health(&plugin.endpoint).await {
            *is_told = true;
            while let Some(Ok(devices)) = news.next().await {
                tell(DriverStep::Health(Arc::clone(plugin), Some(devices)));
            }
            tell(DriverStep::Health(Arc::clone(plugin), None));
            *is_told = false;
        }
        tokio::time::sleep(HEALTH_RETRY).await;
    }
}
