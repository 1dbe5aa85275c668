//! A node without plugins: for tests and simulations that play none.

use std::collections::BTreeMap;
use std::future;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream;

use super::{
    Connection, CsiCalls, DeviceCalls, DeviceList, DeviceSocket, DraCalls, HealthNews, Hints, OpenCall, PluginError,
    PluginRegistration, PluginRegistry, Registrar,
};
use crate::logic::plugins::call_error::{CallError, CallProblem};
use crate::logic::plugins::claims::ClaimId;
use crate::logic::plugins::claims::drivers::Service;
use crate::logic::plugins::claims::states::Answer;
use crate::logic::plugins::csi_registration::CsiNodeInfo;
use crate::logic::plugins::plugin::PluginInfo;
use crate::logic::plugins::plugin_states::SocketIdentity;
use crate::logic::resources::device_manager::devices::{Device, DeviceGrant, PluginOptions};
use crate::logic::volumes::csi::capabilities::NodeCapabilities;
use crate::logic::volumes::csi::names::DevicePlace;
use crate::logic::volumes::csi::requests::{ExpandRequest, PublishRequest, StageRequest, VolumeUse};
use crate::logic::volumes::csi::users::VolumeUser;
use crate::logic::volumes::csi::volume_data::VolumeData;
use crate::logic::volumes::order::{Ownership, VolumePlace};
use crate::platform::files::FileError;
use crate::platform::files::checkpoints::Checkpoints;
use crate::platform::volumes::csi::{CsiHost, DeviceHold, DeviceHolds};
use crate::platform::volumes::{Progress, VolumeError};

/// No plugin ever appears; whoever is called does not answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPlugins;

fn no_socket(socket: &str) -> PluginError {
    PluginError::Dial { socket: socket.to_owned(), problem: "there are no plugins here".to_owned() }
}

fn nobody<T>(method: &'static str) -> Result<T, CallError> {
    Err(CallError { method, problem: CallProblem::Unreachable("there are no plugins here".to_owned()) })
}

/// Nothing is kept of devices that nobody has.
#[async_trait]
impl Checkpoints for NoPlugins {
    async fn read(&self, _: &'static str) -> Result<Option<Vec<u8>>, FileError> {
        Ok(None)
    }
    async fn write(&self, _: &'static str, _: Vec<u8>) -> Result<(), FileError> {
        Ok(())
    }
    async fn set_aside(&self, _: &'static str) -> Result<(), FileError> {
        Ok(())
    }
}

#[async_trait]
impl PluginRegistry for NoPlugins {
    async fn scan(&self) -> Result<BTreeMap<String, SocketIdentity>, PluginError> {
        Ok(BTreeMap::new())
    }

    async fn watch(&self) -> Result<Hints, PluginError> {
        Ok(Box::pin(stream::pending()))
    }
}

#[async_trait]
impl PluginRegistration for NoPlugins {
    async fn info(&self, socket: &str) -> Result<PluginInfo, PluginError> {
        Err(no_socket(socket))
    }

    async fn notify(&self, socket: &str, _: Option<&str>) -> Result<(), PluginError> {
        Err(no_socket(socket))
    }
}

#[async_trait]
impl CsiHost for NoPlugins {
    fn root(&self) -> String {
        String::new()
    }

    async fn hold(&self, device: &DevicePlace) -> DeviceHold {
        DeviceHolds::default().hold(device).await
    }

    async fn note_device(&self, _: &DevicePlace, _: Option<VolumeData>) -> Result<(), VolumeError> {
        Ok(())
    }

    async fn forget_device(&self, _: &DevicePlace) -> Result<(), VolumeError> {
        Ok(())
    }

    async fn devices(&self) -> Result<Vec<(DevicePlace, VolumeData)>, VolumeError> {
        Ok(vec![])
    }

    async fn note_pod(&self, _: &VolumePlace, _: VolumeData) -> Result<(), VolumeError> {
        Ok(())
    }

    async fn pod_data(&self, _: &VolumePlace) -> Result<Option<VolumeData>, VolumeError> {
        Ok(None)
    }

    async fn forget_pod(&self, _: &VolumePlace) -> Result<(), VolumeError> {
        Ok(())
    }

    async fn is_pod_mounted(&self, _: &VolumePlace) -> Result<bool, VolumeError> {
        Ok(false)
    }

    async fn users(&self) -> Result<Vec<VolumeUser>, VolumeError> {
        Ok(vec![])
    }

    async fn own(&self, _: &VolumePlace, _: Ownership, _: Arc<Progress>) -> Result<(), VolumeError> {
        Ok(())
    }

    async fn clean_parts(&self, _: &VolumePlace) -> Result<(), VolumeError> {
        Ok(())
    }
}

#[async_trait]
impl CsiCalls for NoPlugins {
    async fn node_info(&self, _: &str) -> Result<CsiNodeInfo, CallError> {
        nobody("NodeGetInfo")
    }

    async fn capabilities(&self, _: &str) -> Result<NodeCapabilities, CallError> {
        nobody("NodeGetCapabilities")
    }

    async fn stage(&self, _: &str, _: StageRequest) -> Result<(), CallError> {
        nobody("NodeStageVolume")
    }

    async fn unstage(&self, _: &str, _: &str, _: &str) -> Result<(), CallError> {
        nobody("NodeUnstageVolume")
    }

    async fn publish(&self, _: &str, _: PublishRequest) -> Result<(), CallError> {
        nobody("NodePublishVolume")
    }

    async fn unpublish(&self, _: &str, _: &str, _: &str) -> Result<(), CallError> {
        nobody("NodeUnpublishVolume")
    }

    async fn usage(&self, _: &str, _: &str, _: &str, _: &str) -> Result<VolumeUse, CallError> {
        nobody("NodeGetVolumeStats")
    }

    async fn expand(&self, _: &str, _: ExpandRequest) -> Result<i64, CallError> {
        nobody("NodeExpandVolume")
    }

    fn open_calls(&self) -> Vec<(String, OpenCall)> {
        vec![]
    }
}

#[async_trait]
impl DeviceSocket for NoPlugins {
    fn endpoint(&self, name: &str) -> String {
        name.to_owned()
    }

    async fn serve(&self, _: Registrar) -> String {
        future::pending().await
    }

    fn problem(&self) -> Option<String> {
        None
    }
}

#[async_trait]
impl DeviceList for NoPlugins {
    async fn next(&self) -> Result<Option<BTreeMap<String, Device>>, CallError> {
        nobody("ListAndWatch")
    }
}

#[async_trait]
impl DeviceCalls for NoPlugins {
    async fn connect(&self, _: &str) -> Result<PluginOptions, CallError> {
        nobody("GetDevicePluginOptions")
    }

    fn list(&self, _: &str) -> Arc<dyn DeviceList> {
        Arc::new(Self)
    }

    async fn prefer(&self, _: &str, _: Vec<String>, _: Vec<String>, _: usize) -> Result<Vec<String>, CallError> {
        nobody("GetPreferredAllocation")
    }

    async fn allocate(&self, _: &str, _: Vec<String>) -> Result<DeviceGrant, CallError> {
        nobody("Allocate")
    }

    async fn pre_start(&self, _: &str, _: Vec<String>) -> Result<(), CallError> {
        nobody("PreStartContainer")
    }

    fn open_calls(&self) -> Vec<(String, OpenCall)> {
        vec![]
    }
}

#[async_trait]
impl DraCalls for NoPlugins {
    async fn prepare(&self, _: &str, _: Service, _: Vec<ClaimId>) -> Result<Answer, CallError> {
        nobody("NodePrepareResources")
    }

    async fn unprepare(&self, _: &str, _: Service, _: Vec<ClaimId>) -> Result<Answer, CallError> {
        nobody("NodeUnprepareResources")
    }

    async fn watch_health(&self, _: &str) -> Result<HealthNews, CallError> {
        nobody("NodeWatchResources")
    }

    async fn connect(&self, _: &str) -> Result<Connection, CallError> {
        nobody("connect")
    }

    fn open_calls(&self) -> Vec<(String, OpenCall)> {
        vec![]
    }
}
