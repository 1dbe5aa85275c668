//! Tells the cluster of drivers: one job, carried out to its end.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;

use crate::actors::kit::address::Address;
use crate::actors::kit::trace::Cause;
use crate::logic::plugins::csi_registration::{
    CsiNodeInfo, allowed, is_owned, new_csi_node, node_patch, node_patch_without, with_driver, with_migrated,
    without_driver,
};
use crate::logic::plugins::plugin::Plugin;
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::plugins::csi_manager::PublishError;
use crate::platform::cluster::kube_api::{ApiError, ApiServer, PatchKind, Place};

/// Waits between tries of one job, as upstream: somebody else may have changed the object.
const TRY_WAITS: [Duration; 3] = [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(250)];
/// Patience with `NodeStatus`.
const NODE_PATIENCE: Duration = Duration::from_secs(1);

/// Something for the cluster.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// The node's CSINode is to be there, and to be of this Node.
    Initialize,
    /// A driver is used.
    Install { plugin: Arc<Plugin>, info: CsiNodeInfo },
    /// A driver has another limit.
    Limit { driver: String, info: CsiNodeInfo },
    /// A driver is gone.
    Remove { driver: String },
}

impl Job {
    /// The driver that it is about.
    pub(super) fn driver(&self) -> Option<&str> {
        match self {
            Self::Initialize => None,
            Self::Install { plugin, .. } => Some(&plugin.name),
            Self::Limit { driver, .. } | Self::Remove { driver } => Some(driver),
        }
    }
}

/// The failure of a call. A call that the server will not have would only keep other drivers waiting.
fn failed(error: ApiError) -> PublishError {
    match error.is_final() {
        true => PublishError::Refused(error.to_string()),
        false => PublishError::Transient(error.to_string()),
    }
}

/// Carries a job out, up to four times.
pub(super) async fn carry_out(
    api: &ApiServer,
    node_status: &Address<NodeStatusMsg>,
    cause: Cause,
    node_name: &str,
    job: &Job,
) -> Result<(), PublishError> {
    // The Node's UID shows that the API server has it: as long as there is none, the node is not registered.
    let node = node_status.ask(cause, NODE_PATIENCE, NodeStatusMsg::Node).await.ok().flatten();
    let uid = node.as_ref().and_then(|node| node.metadata.uid.clone()).ok_or(PublishError::NoNode)?;
    let mut waits = TRY_WAITS.iter();
    loop {
        match (try_once(api, node_name, &uid, job).await, waits.next()) {
            (Err(PublishError::Transient(_)), Some(wait)) => tokio::time::sleep(*wait).await,
            (outcome, _) => return outcome,
        }
    }
}

async fn try_once(api: &ApiServer, node_name: &str, uid: &str, job: &Job) -> Result<(), PublishError> {
    match job {
        Job::Initialize => {
            let found = csi_node(api, node_name, uid).await?;
            match with_migrated(&found) {
                Some(changed) => replace(api, &changed).await,
                None => Ok(()),
            }
        }
        Job::Install { plugin, info } => {
            let (node, info) = info_for(api, node_name, &plugin.name, info).await?;
            let refused = |why: String| {
                PublishError::Refused(format!("error updating Node object with CSI driver node info: {why}"))
            };
            if let Some(patch) = node_patch(&node, &plugin.name, &info).map_err(refused)? {
                patch_node(api, node_name, &patch).await?;
            }
            show(api, node_name, uid, &plugin.name, &info).await
        }
        Job::Limit { driver, info } => {
            let (_, info) = info_for(api, node_name, driver, info).await?;
            show(api, node_name, uid, driver, &info).await
        }
        Job::Remove { driver } => {
            match api.get::<CSINode>(&Place::Cluster, node_name).await {
                Ok(found) => {
                    if let Some(changed) = without_driver(&found, driver) {
                        replace(api, &changed).await?;
                    }
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(failed(error)),
            }
            let node: Node = api.get(&Place::Cluster, node_name).await.map_err(failed)?;
            match node_patch_without(&node, driver).map_err(PublishError::Refused)? {
                Some(patch) => patch_node(api, node_name, &patch).await,
                None => Ok(()),
            }
        }
    }
}

/// The Node, and the driver's words as far as this Node may show them.
async fn info_for(
    api: &ApiServer,
    node_name: &str,
    driver: &str,
    info: &CsiNodeInfo,
) -> Result<(Node, CsiNodeInfo), PublishError> {
    let node: Node = api.get(&Place::Cluster, node_name).await.map_err(failed)?;
    let (info, dropped) = allowed(&node, info);
    if !dropped.is_empty() {
        tracing::warn!(driver, ?dropped, "a node may not give itself these labels; the driver is used without them");
    }
    Ok((node, info))
}

/// Has the CSINode show a driver.
async fn show(
    api: &ApiServer,
    node_name: &str,
    uid: &str,
    driver: &str,
    info: &CsiNodeInfo,
) -> Result<(), PublishError> {
    match with_driver(&csi_node(api, node_name, uid).await?, driver, info) {
        Some(changed) => replace(api, &changed).await,
        None => Ok(()),
    }
}

/// The node's CSINode, made where there is none. One of an earlier Node is removed first.
async fn csi_node(api: &ApiServer, node_name: &str, uid: &str) -> Result<CSINode, PublishError> {
    let at = Place::Cluster;
    match api.get::<CSINode>(&at, node_name).await {
        Ok(found) if is_owned(&found, node_name, uid) => return Ok(found),
        Ok(found) => {
            tracing::info!(node = node_name, "the CSINode is of an earlier Node and is made anew");
            match api.delete::<CSINode>(&at, node_name, None, found.metadata.uid.as_deref()).await {
                Err(error) if !error.is_not_found() => return Err(failed(error)),
                _ => {}
            }
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(failed(error)),
    }
    api.create(&at, &new_csi_node(node_name, uid)).await.map_err(failed)
}

async fn replace(api: &ApiServer, csi_node: &CSINode) -> Result<(), PublishError> {
    api.replace(&Place::Cluster, csi_node, None).await.map(drop).map_err(failed)
}

async fn patch_node(api: &ApiServer, node_name: &str, patch: &serde_json::Value) -> Result<(), PublishError> {
    let patched = api.patch::<Node>(&Place::Cluster, node_name, Some("status"), PatchKind::Strategic, patch).await;
    patched.map(drop).map_err(failed)
}
