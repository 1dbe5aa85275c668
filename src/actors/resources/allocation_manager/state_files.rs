//! The files of state of the managers of hardware: read and written as one.

use crate::logic::resources::allocations::StateFiles;
use crate::logic::resources::device_manager::checkpoint;
use crate::platform::files::checkpoints::Checkpoints;

/// All files of state; `devices` is the folder of device plugins.
///
/// # Errors
/// Says why one cannot be read.
pub(super) async fn read(files: &dyn Checkpoints, devices: &dyn Checkpoints) -> Result<StateFiles, String> {
    let (cpus, memory) = (read_one(files, StateFiles::CPUS), read_one(files, StateFiles::MEMORY));
    let (cpus, memory, devices) = tokio::try_join!(cpus, memory, read_devices(devices))?;
    Ok(StateFiles { cpus, memory, devices })
}

async fn read_one(files: &dyn Checkpoints, name: &'static str) -> Result<Option<Vec<u8>>, String> {
    files.read(name).await.map_err(|error| error.to_string())
}

/// As upstream, a file of devices that cannot be believed ends nothing. It is set aside (SEC-58).
async fn read_devices(files: &dyn Checkpoints) -> Result<Option<Vec<u8>>, String> {
    let Some(bytes) = read_one(files, StateFiles::DEVICES).await? else { return Ok(None) };
    let Err(error) = checkpoint::parse(&bytes) else { return Ok(Some(bytes)) };
    tracing::error!(%error, file = StateFiles::DEVICES, "checkpoint is set aside, it cannot be believed");
    if let Err(why) = files.set_aside(StateFiles::DEVICES).await {
        tracing::warn!(%why, file = StateFiles::DEVICES, "checkpoint cannot be set aside");
    }
    Ok(None)
}

/// Writes the files that there are.
///
/// # Errors
/// Says why one could not be written. Those before it are.
pub(super) async fn write(
    StateFiles { cpus, memory, devices }: StateFiles,
    files: &dyn Checkpoints,
    device_files: &dyn Checkpoints,
) -> Result<(), String> {
    let all = [
        (files, StateFiles::CPUS, cpus),
        (files, StateFiles::MEMORY, memory),
        (device_files, StateFiles::DEVICES, devices),
    ];
    for (folder, name, bytes) in all {
        if let Some(bytes) = bytes {
            folder.write(name, bytes).await.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
