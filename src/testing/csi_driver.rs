//! A CSI driver for tests: volumes are directories that are bind mounted, or have a size: devices are files behind loop devices,
//! file systems are in memory, which any root may grow. Every capability can be switched, and each call may fail, hang, or do nothing and say OK. The driver registers
//! as drivers do, by a socket in the plugins' registry.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Code, Request, Response, Status};

use crate::platform::plugins::wire::csi_v1 as csi;
use crate::platform::plugins::wire::csi_v1::node_server::{Node, NodeServer};
use crate::platform::plugins::wire::pluginregistration_v1 as registration;
use crate::platform::plugins::wire::pluginregistration_v1::registration_server::{Registration, RegistrationServer};

/// How the driver behaves.
#[derive(Clone, Debug)]
pub struct Switches {
    /// Its capabilities, by the specification's names.
    pub capabilities: BTreeSet<&'static str>,
    /// Its name of the node.
    pub node_id: String,
    /// Its limit of volumes.
    pub volumes_max: i64,
    /// Where the node is.
    pub topology: BTreeMap<String, String>,
    /// The answer to `GetInfo`: type, name, versions.
    pub info: (String, String, Vec<String>),
    /// Answers of the next calls of a method, before it does its work.
    pub fails: BTreeMap<&'static str, VecDeque<Code>>,
    /// Methods that never answer.
    pub hangs: BTreeSet<&'static str>,
    /// Methods that say OK and do nothing.
    pub idle: BTreeSet<&'static str>,
    /// How long each call takes.
    pub takes: Duration,
    /// The answer to `NodeGetVolumeStats`.
    pub usage: csi::NodeGetVolumeStatsResponse,
    /// Volumes have so many bytes when they are new; `None` for directories.
    pub disk_bytes: Option<u64>,
}

/// The history of the driver.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Each call: method and volume.
    pub calls: Vec<String>,
    /// The newest request to publish.
    pub published: Option<csi::NodePublishVolumeRequest>,
    /// The newest request to stage.
    pub staged: Option<csi::NodeStageVolumeRequest>,
    /// The newest request to grow a volume.
    pub expanded: Option<csi::NodeExpandVolumeRequest>,
    /// Verdicts: whether it is used, and why not.
    pub verdicts: Vec<(bool, String)>,
}

struct State {
    switches: Mutex<Switches>,
    seen: Mutex<Seen>,
    /// Where volumes are.
    data: PathBuf,
    endpoint: PathBuf,
}

/// A driver; clones are the same one.
#[derive(Clone)]
pub struct Driver(Arc<State>);

/// A driver that serves, on threads of its own; its end is that of the driver's process.
pub struct Serving {
    runtime: Option<tokio::runtime::Runtime>,
    sockets: Vec<PathBuf>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        for socket in &self.sockets {
            let _ = std::fs::remove_file(socket);
        }
    }
}

impl Driver {
    /// A driver of this name that keeps its volumes and its socket below `folder`.
    pub fn new(name: &str, folder: &Path) -> Self {
        let data = folder.join("volumes");
        std::fs::create_dir_all(&data).expect("made");
        let switches = Switches {
            capabilities: BTreeSet::from(["STAGE_UNSTAGE_VOLUME"]),
            node_id: "node-id".to_owned(),
            volumes_max: 0,
            topology: BTreeMap::new(),
            info: ("CSIPlugin".to_owned(), name.to_owned(), vec!["1.0.0".to_owned()]),
            fails: BTreeMap::new(),
            hangs: BTreeSet::new(),
            idle: BTreeSet::new(),
            takes: Duration::ZERO,
            usage: csi::NodeGetVolumeStatsResponse::default(),
            disk_bytes: None,
        };
        let (switches, seen) = (Mutex::new(switches), Mutex::default());
        Self(Arc::new(State { switches, seen, data, endpoint: folder.join("csi.sock") }))
    }

    /// How it behaves, to be changed.
    pub fn switches(&self) -> MutexGuard<'_, Switches> {
        self.0.switches.lock().expect("not poisoned")
    }

    /// Its history.
    pub fn seen(&self) -> Seen {
        self.0.seen.lock().expect("not poisoned").clone()
    }

    /// The calls about volumes so far.
    pub fn calls(&self) -> Vec<String> {
        let calls = self.seen().calls;
        calls.into_iter().filter(|call| !call.contains("Get")).collect()
    }

    /// Forgets the calls so far.
    pub fn forget(&self) {
        self.0.seen.lock().expect("not poisoned").calls.clear();
    }

    /// The directory of a volume.
    pub fn volume(&self, handle: &str) -> PathBuf {
        self.0.data.join(handle)
    }

    /// The file of a volume that is a device.
    pub fn image(&self, handle: &str) -> PathBuf {
        self.0.data.join(format!("{handle}.img"))
    }

    /// Has a volume's disk there: a file, behind a loop device.
    fn disk(&self, handle: &str, bytes: u64) -> Result<String, Status> {
        let image = self.image(handle);
        if !image.exists() {
            let made = std::fs::File::create(&image).and_then(|file| file.set_len(bytes));
            made.map_err(|error| Status::internal(format!("{}: {error}", image.display())))?;
        }
        let there = loop_of(&image)?;
        if there.is_empty() { run("losetup", &["-f", "--show", &image.display().to_string()]) } else { Ok(there) }
    }

    /// Serves, and appears in the registry.
    pub fn serve(&self, registry: &Path) -> Serving {
        let name = self.switches().info.1.clone();
        let registered = registry.join(format!("{name}-reg.sock"));
        let sockets = vec![self.0.endpoint.clone(), registered.clone()];
        for socket in &sockets {
            let _ = std::fs::remove_file(socket);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listen = |path: &Path| {
            let _inside = runtime.enter();
            UnixListenerStream::new(UnixListener::bind(path).expect("bound"))
        };
        let (node, greeter) = (listen(&self.0.endpoint), listen(&registered));
        let (of_node, of_greeter) = (NodeServer::new(self.clone()), RegistrationServer::new(self.clone()));
        let server = tonic::transport::Server::builder;
        runtime.spawn(async move { drop(server().add_service(of_node).serve_with_incoming(node).await) });
        runtime.spawn(async move { drop(server().add_service(of_greeter).serve_with_incoming(greeter).await) });
        Serving { runtime: Some(runtime), sockets }
    }

    /// Begins a call; whether it is to do its work.
    async fn enter(&self, method: &'static str, volume: &str) -> Result<bool, Status> {
        let text = if volume.is_empty() { method.to_owned() } else { format!("{method} {volume}") };
        self.0.seen.lock().expect("not poisoned").calls.push(text);
        let (takes, hangs) = {
            let switches = self.switches();
            (switches.takes, switches.hangs.contains(method))
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(takes).await;
        let mut switches = self.switches();
        if let Some(code) = switches.fails.get_mut(method).and_then(VecDeque::pop_front) {
            return Err(Status::new(code, format!("{method} is to fail")));
        }
        Ok(!switches.idle.contains(method))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        for image in std::fs::read_dir(&self.data).into_iter().flatten().flatten() {
            if let Ok(device) = loop_of(&image.path())
                && !device.is_empty()
            {
                let _ = run("losetup", &["-d", &device]);
            }
        }
    }
}

/// The words that a program of the host writes.
fn run(program: &str, arguments: &[&str]) -> Result<String, Status> {
    let failed = |why: &dyn std::fmt::Display| Status::internal(format!("{program} {}: {why}", arguments.join(" ")));
    let ended = Command::new(program).args(arguments).output().map_err(|error| failed(&error))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if ended.status.success() { Ok(text(&ended.stdout)) } else { Err(failed(&text(&ended.stderr))) }
}

/// The loop device of a file; empty without one.
fn loop_of(image: &Path) -> Result<String, Status> {
    run("losetup", &["-n", "-O", "NAME", "-j", &image.display().to_string()])
}

fn is_block(capability: Option<&csi::VolumeCapability>) -> bool {
    use csi::volume_capability::AccessType;
    matches!(capability.and_then(|capability| capability.access_type.as_ref()), Some(AccessType::Block(_)))
}

/// Has a file system of this size at `target`, once.
fn mount_memory(bytes: u64, target: &str) -> Result<(), Status> {
    if is_mounted(target) {
        return Ok(());
    }
    run("mount", &["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs", target]).map(drop)
}

/// Has a device at a file, once.
fn bind_device(device: &str, target: &str) -> Result<(), Status> {
    let failed = |error: &dyn std::fmt::Display| Status::internal(format!("bind {target}: {error}"));
    if is_mounted(target) {
        return Ok(());
    }
    std::fs::write(target, "").map_err(|error| failed(&error))?;
    let none = None::<&str>;
    mount(Some(device), target, none, MsFlags::MS_BIND, none).map_err(|error| failed(&error))
}

fn is_mounted(path: &str) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("a mount table");
    table.lines().any(|line| line.split(' ').nth(4) == Some(path))
}

/// Has `source` at `target`, once.
fn bind(source: &Path, target: &str, read_only: bool) -> Result<(), Status> {
    let failed = |error: &dyn std::fmt::Display| Status::internal(format!("bind {target}: {error}"));
    std::fs::create_dir_all(source).map_err(|error| failed(&error))?;
    std::fs::create_dir_all(target).map_err(|error| failed(&error))?;
    if is_mounted(target) {
        return Ok(());
    }
    let none = None::<&str>;
    mount(Some(source), target, none, MsFlags::MS_BIND, none).map_err(|error| failed(&error))?;
    if read_only {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(none, target, none, flags, none).map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn unbind(target: &str) -> Result<(), Status> {
    if is_mounted(target) {
        umount2(target, MntFlags::empty()).map_err(|error| Status::internal(format!("unmount {target}: {error}")))?;
    }
    Ok(())
}

#[tonic::async_trait]
impl Registration for Driver {
    async fn get_info(
        &self,
        _: Request<registration::InfoRequest>,
    ) -> Result<Response<registration::PluginInfo>, Status> {
        self.enter("GetInfo", "").await?;
        let (kind, name, versions) = self.switches().info.clone();
        let endpoint = self.0.endpoint.display().to_string();
        Ok(Response::new(registration::PluginInfo { r#type: kind, name, endpoint, supported_versions: versions }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<registration::RegistrationStatus>,
    ) -> Result<Response<registration::RegistrationStatusResponse>, Status> {
        let told = request.into_inner();
        self.0.seen.lock().expect("not poisoned").verdicts.push((told.plugin_registered, told.error));
        Ok(Response::new(registration::RegistrationStatusResponse {}))
    }
}

#[tonic::async_trait]
impl Node for Driver {
    async fn node_stage_volume(
        &self,
        request: Request<csi::NodeStageVolumeRequest>,
    ) -> Result<Response<csi::NodeStageVolumeResponse>, Status> {
        let request = request.into_inner();
        self.0.seen.lock().expect("not poisoned").staged = Some(request.clone());
        let does = self.enter("NodeStageVolume", &request.volume_id).await?;
        let bytes = self.switches().disk_bytes;
        if let Some(bytes) = bytes.filter(|_| does) {
            match is_block(request.volume_capability.as_ref()) {
                true => drop(self.disk(&request.volume_id, bytes)?),
                false => mount_memory(bytes, &request.staging_target_path)?,
            }
        } else if does {
            bind(&self.volume(&request.volume_id), &request.staging_target_path, false)?;
        }
        Ok(Response::new(csi::NodeStageVolumeResponse {}))
    }

    async fn node_unstage_volume(
        &self,
        request: Request<csi::NodeUnstageVolumeRequest>,
    ) -> Result<Response<csi::NodeUnstageVolumeResponse>, Status> {
        let request = request.into_inner();
        if self.enter("NodeUnstageVolume", &request.volume_id).await? {
            unbind(&request.staging_target_path)?;
            let device = loop_of(&self.image(&request.volume_id))?;
            if !device.is_empty() {
                run("losetup", &["-d", &device])?;
            }
        }
        Ok(Response::new(csi::NodeUnstageVolumeResponse {}))
    }

    async fn node_publish_volume(
        &self,
        request: Request<csi::NodePublishVolumeRequest>,
    ) -> Result<Response<csi::NodePublishVolumeResponse>, Status> {
        let request = request.into_inner();
        self.0.seen.lock().expect("not poisoned").published = Some(request.clone());
        let does = self.enter("NodePublishVolume", &request.volume_id).await?;
        if does && is_block(request.volume_capability.as_ref()) {
            let bytes = self.switches().disk_bytes.ok_or_else(|| Status::invalid_argument("volumes are no disks"))?;
            bind_device(&self.disk(&request.volume_id, bytes)?, &request.target_path)?;
        } else if does {
            let staged = PathBuf::from(&request.staging_target_path);
            let source = if staged.as_os_str().is_empty() { self.volume(&request.volume_id) } else { staged };
            bind(&source, &request.target_path, request.readonly)?;
        }
        Ok(Response::new(csi::NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<csi::NodeUnpublishVolumeRequest>,
    ) -> Result<Response<csi::NodeUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        if self.enter("NodeUnpublishVolume", &request.volume_id).await? {
            unbind(&request.target_path)?;
            let _ = std::fs::remove_dir(&request.target_path);
            let _ = std::fs::remove_file(&request.target_path);
        }
        Ok(Response::new(csi::NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<csi::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<csi::NodeGetVolumeStatsResponse>, Status> {
        let request = request.into_inner();
        self.enter("NodeGetVolumeStats", &request.volume_id).await?;
        if !is_mounted(&request.volume_path) {
            return Err(Status::not_found(format!("nothing is mounted at {}", request.volume_path)));
        }
        Ok(Response::new(self.switches().usage.clone()))
    }

    async fn node_expand_volume(
        &self,
        request: Request<csi::NodeExpandVolumeRequest>,
    ) -> Result<Response<csi::NodeExpandVolumeResponse>, Status> {
        let request = request.into_inner();
        self.0.seen.lock().expect("not poisoned").expanded = Some(request.clone());
        let does = self.enter("NodeExpandVolume", &request.volume_id).await?;
        let capacity_bytes = request.capacity_range.map_or(0, |range| range.required_bytes);
        let has_size = does && self.switches().disk_bytes.is_some();
        if has_size && !is_block(request.volume_capability.as_ref()) {
            let size = format!("remount,size={capacity_bytes}");
            run("mount", &["-o", &size, &request.staging_target_path])?;
        } else if has_size {
            let image = self.image(&request.volume_id);
            let bytes = u64::try_from(capacity_bytes).map_err(|_| Status::out_of_range("less than nothing"))?;
            let file = std::fs::OpenOptions::new().write(true).open(&image);
            let grown = file.and_then(|file| file.set_len(bytes));
            grown.map_err(|error| Status::internal(format!("{}: {error}", image.display())))?;
            let device = loop_of(&image)?;
            run("losetup", &["-c", &device])?;
        }
        Ok(Response::new(csi::NodeExpandVolumeResponse { capacity_bytes }))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<csi::NodeGetCapabilitiesResponse>, Status> {
        use csi::node_service_capability::{Rpc, Type, rpc};
        self.enter("NodeGetCapabilities", "").await?;
        let names = self.switches().capabilities.clone();
        let known = |name: &&str| rpc::Type::from_str_name(name).expect("a capability of the specification");
        let capability =
            |kind: rpc::Type| csi::NodeServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: kind.into() })) };
        let capabilities = names.iter().map(known).map(capability).collect();
        Ok(Response::new(csi::NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(
        &self,
        _: Request<csi::NodeGetInfoRequest>,
    ) -> Result<Response<csi::NodeGetInfoResponse>, Status> {
        self.enter("NodeGetInfo", "").await?;
        let switches = self.switches();
        Ok(Response::new(csi::NodeGetInfoResponse {
            node_id: switches.node_id.clone(),
            max_volumes_per_node: switches.volumes_max,
            accessible_topology: Some(csi::Topology { segments: switches.topology.clone() }),
        }))
    }
}
