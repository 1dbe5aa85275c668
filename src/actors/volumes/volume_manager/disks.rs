//! Disks of storage networks (VOL-39), before the host attaches them: the Node says that the volume is in use and attached
//! (VOL-09), and the Secret for CHAP is read.

use std::time::Duration;

use super::csi::mounting::{ATTACH_PATIENCE, ATTACH_WAIT};
use super::own_node;
use super::tasks::{MountTask, step_failed};
use crate::logic::node::node_object::is_attached_by_cluster;
use crate::logic::volumes::csi::attachment::{NotAttached, check_node};
use crate::logic::volumes::order::SetUp;
use crate::logic::volumes::scsi::ChapTexts;
use crate::logic::volumes::steps::VolumeStep;
use crate::logic::volumes::volume_states::TaskFailure;
use crate::platform::cluster::objects::patiently;

impl MountTask {
    /// Makes an order for a disk ready for the host; any other is as it is. `name` is the volume's in its place.
    pub(super) async fn ready_disk(&self, name: &str, is_device: bool, order: &mut SetUp) -> Result<(), TaskFailure> {
        let SetUp::Disk(order, _) = order else { return Ok(()) };
        self.listed(name, &order.disk.unique_name()).await?;
        if let Some((namespace, secret)) = &order.secret {
            let step = if is_device { VolumeStep::NewMapper } else { VolumeStep::NewMounter };
            order.chap = self.chap(namespace, secret).await.map_err(|why| step_failed(step, name, why))?;
        }
        Ok(())
    }

    /// Waits until the Node lists the volume as attached. Without a cluster, or where the cluster attaches nothing to this node, nobody
    /// would ever list it.
    async fn listed(&self, name: &str, unique_name: &str) -> Result<(), TaskFailure> {
        (self.csi.attaches)(unique_name.to_owned());
        if !self.objects.has_cluster() {
            return Ok(());
        }
        let began = self.timing.clock.uptime();
        let outcome = self.wait_listed(unique_name).await;
        self.timing.verified(unique_name, began, outcome.is_err());
        // As with drivers: upstream has no Event for it.
        outcome.map_err(|why| TaskFailure { reason: None, ..step_failed(VolumeStep::VerifyAttached, name, why) })
    }

    async fn wait_listed(&self, unique_name: &str) -> Result<(), NotAttached> {
        let (mut wait, mut waited) = (ATTACH_WAIT.0, Duration::ZERO);
        loop {
            let node = own_node(&self.csi.node_status, self.csi.cause.clone()).await;
            if !is_attached_by_cluster(node.as_deref()) {
                return Ok(());
            }
            match check_node(node.as_deref(), unique_name) {
                Err(why) if waited + wait > ATTACH_PATIENCE => return Err(why),
                Err(_) => tokio::time::sleep(wait).await,
                Ok(()) => return Ok(()),
            }
            waited += wait;
            wait = wait.mul_f64(1.5).min(ATTACH_WAIT.1);
        }
    }

    /// The Secret for CHAP.
    async fn chap(&self, namespace: &str, name: &str) -> Result<ChapTexts, String> {
        let found = patiently("secret", name, self.objects.volume_secret(namespace, name)).await;
        let found = found.map_err(|error| format!("couldn't get secret {namespace}/{name} error: {error}"))?;
        let texts = found.data.iter().flatten();
        let texts = texts.map(|(key, value)| (key.clone(), String::from_utf8_lossy(&value.0).into_owned()));
        Ok(ChapTexts(texts.collect()))
    }
}
