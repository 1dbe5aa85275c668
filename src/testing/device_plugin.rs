//! A device plugin for tests: its devices, its options and the answers to its calls can be switched, and each call may fail or
//! hang. It registers as plugins do: by the agent's socket, or by a socket in the plugins' registry.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::stream;
use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::codegen::BoxStream;
use tonic::transport::{Endpoint, Uri};
use tonic::{Code, Request, Response, Status};
use tower::service_fn;

use crate::platform::plugins::wire::deviceplugin_v1beta1 as device;
use crate::platform::plugins::wire::deviceplugin_v1beta1::device_plugin_server::{DevicePlugin, DevicePluginServer};
use crate::platform::plugins::wire::deviceplugin_v1beta1::registration_client::RegistrationClient;
use crate::platform::plugins::wire::pluginregistration_v1 as registration;
use crate::platform::plugins::wire::pluginregistration_v1::registration_server::{Registration, RegistrationServer};

/// How the plugin behaves.
#[derive(Clone, Debug)]
pub struct Switches {
    /// Its options.
    pub options: device::DevicePluginOptions,
    /// The versions that it says it speaks.
    pub versions: Vec<String>,
    /// The answer to `Allocate` for one container, whatever its devices.
    pub grant: device::ContainerAllocateResponse,
    /// How many containers the answer to `Allocate` has.
    pub grants: usize,
    /// Answers of the next calls of a method.
    pub fails: BTreeMap<&'static str, VecDeque<Code>>,
    /// Methods that never answer.
    pub hangs: BTreeSet<&'static str>,
    /// The list of devices goes out over and over.
    pub floods: bool,
}

/// The history of the plugin.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Each call: method and devices.
    pub calls: Vec<String>,
    /// Verdicts by the plugins' registry: whether it is used, and why not.
    pub verdicts: Vec<(bool, String)>,
}

struct State {
    resource: String,
    folder: PathBuf,
    switches: Mutex<Switches>,
    seen: Mutex<Seen>,
    devices: watch::Sender<Vec<device::Device>>,
}

/// A plugin; clones are the same one.
#[derive(Clone)]
pub struct Plugin(Arc<State>);

/// A plugin that serves, on threads of its own; its end is that of the plugin's process.
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

/// A device as a plugin tells it: `a`, `a!` when it is not healthy, `a@1` near a NUMA node.
pub fn device(text: &str) -> device::Device {
    let (text, health) = match text.strip_suffix('!') {
        Some(text) => (text, "Unhealthy"),
        None => (text, "Healthy"),
    };
    let (id, node) = text.split_once('@').map_or((text, None), |(id, node)| (id, node.parse().ok()));
    let topology = node.map(|id| device::TopologyInfo { nodes: vec![device::NumaNode { id }] });
    device::Device { id: id.to_owned(), health: health.to_owned(), topology }
}

impl Plugin {
    /// A plugin of this resource that has its socket in `folder`, with these devices (see [`device`]).
    pub fn new(resource: &str, folder: &Path, devices: &[&str]) -> Self {
        let switches = Switches {
            options: device::DevicePluginOptions::default(),
            versions: vec!["v1beta1".to_owned()],
            grant: device::ContainerAllocateResponse::default(),
            grants: 1,
            fails: BTreeMap::new(),
            hangs: BTreeSet::new(),
            floods: false,
        };
        let devices = watch::Sender::new(devices.iter().map(|text| device(text)).collect());
        let (resource, folder) = (resource.to_owned(), folder.to_path_buf());
        let (switches, seen) = (Mutex::new(switches), Mutex::default());
        Self(Arc::new(State { resource, folder, switches, seen, devices }))
    }

    /// How it behaves, to be changed.
    pub fn switches(&self) -> MutexGuard<'_, Switches> {
        self.0.switches.lock().expect("not poisoned")
    }

    /// Its history.
    pub fn seen(&self) -> Seen {
        self.0.seen.lock().expect("not poisoned").clone()
    }

    /// Has other devices from now on (see [`device`]).
    pub fn tell(&self, devices: &[&str]) {
        self.0.devices.send_replace(devices.iter().map(|text| device(text)).collect());
    }

    /// The name of its socket.
    pub fn endpoint(&self) -> String {
        format!("{}.sock", self.0.resource.replace('/', "-"))
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.0.folder.join(self.endpoint())
    }

    /// Serves, without registering.
    pub fn serve(&self) -> Serving {
        self.serve_at(&self.socket(), None)
    }

    /// Serves, and appears in the plugins' registry.
    pub fn serve_in_registry(&self, registry: &Path) -> Serving {
        self.serve_at(&self.socket(), Some(&registry.join(self.endpoint())))
    }

    fn serve_at(&self, socket: &Path, registered: Option<&Path>) -> Serving {
        let sockets: Vec<PathBuf> = [Some(socket), registered].into_iter().flatten().map(Path::to_path_buf).collect();
        for socket in &sockets {
            let _ = std::fs::remove_file(socket);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listen = |path: &Path| {
            let _inside = runtime.enter();
            UnixListenerStream::new(UnixListener::bind(path).expect("bound"))
        };
        let server = tonic::transport::Server::builder;
        let (incoming, service) = (listen(socket), DevicePluginServer::new(self.clone()));
        runtime.spawn(async move { drop(server().add_service(service).serve_with_incoming(incoming).await) });
        if let Some(registered) = registered {
            let (incoming, service) = (listen(registered), RegistrationServer::new(self.clone()));
            runtime.spawn(async move { drop(server().add_service(service).serve_with_incoming(incoming).await) });
        }
        Serving { runtime: Some(runtime), sockets }
    }

    /// Registers by the agent's socket, as a plugin does.
    ///
    /// # Errors
    /// The agent's refusal, or that nobody listens.
    pub async fn register(&self, agent: &Path) -> Result<(), Status> {
        register(agent, "v1beta1", &self.endpoint(), &self.0.resource).await
    }

    /// Begins a call.
    async fn enter(&self, method: &'static str, ids: &[String]) -> Result<(), Status> {
        let text = if ids.is_empty() { method.to_owned() } else { format!("{method} {}", ids.join(",")) };
        self.0.seen.lock().expect("not poisoned").calls.push(text);
        if self.switches().hangs.contains(method) {
            std::future::pending::<()>().await;
        }
        match self.switches().fails.get_mut(method).and_then(VecDeque::pop_front) {
            Some(code) => Err(Status::new(code, format!("{method} is to fail"))),
            None => Ok(()),
        }
    }
}

/// Registers a plugin by the agent's socket, whatever it says of itself.
///
/// # Errors
/// The agent's refusal, or that nobody listens.
pub async fn register(agent: &Path, version: &str, endpoint: &str, resource: &str) -> Result<(), Status> {
    let path = agent.to_path_buf();
    let connect = service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connect);
    let (version, endpoint, resource_name) = (version.to_owned(), endpoint.to_owned(), resource.to_owned());
    let message = device::RegisterRequest { version, endpoint, resource_name, options: None };
    RegistrationClient::new(channel).register(message).await.map(drop)
}

#[tonic::async_trait]
impl Registration for Plugin {
    async fn get_info(
        &self,
        _: Request<registration::InfoRequest>,
    ) -> Result<Response<registration::PluginInfo>, Status> {
        self.enter("GetInfo", &[]).await?;
        Ok(Response::new(registration::PluginInfo {
            r#type: "DevicePlugin".to_owned(),
            name: self.0.resource.clone(),
            endpoint: self.socket().display().to_string(),
            supported_versions: self.switches().versions.clone(),
        }))
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
impl DevicePlugin for Plugin {
    async fn get_device_plugin_options(
        &self,
        _: Request<device::Empty>,
    ) -> Result<Response<device::DevicePluginOptions>, Status> {
        self.enter("GetDevicePluginOptions", &[]).await?;
        Ok(Response::new(self.switches().options))
    }

    async fn list_and_watch(
        &self,
        _: Request<device::Empty>,
    ) -> Result<Response<BoxStream<device::ListAndWatchResponse>>, Status> {
        self.enter("ListAndWatch", &[]).await?;
        let mut told = self.0.devices.subscribe();
        told.mark_changed();
        let plugin = self.clone();
        let answers = stream::unfold((told, plugin), |(mut told, plugin)| async move {
            if !plugin.switches().floods {
                told.changed().await.ok()?;
            }
            let devices = told.borrow_and_update().clone();
            Some((Ok(device::ListAndWatchResponse { devices }), (told, plugin)))
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<device::PreferredAllocationRequest>,
    ) -> Result<Response<device::PreferredAllocationResponse>, Status> {
        let asked = request.into_inner().container_requests.pop().expect("one container");
        self.enter("GetPreferredAllocation", &asked.available_device_i_ds).await?;
        // The last ones, so that the agent's own order would be another.
        let count = usize::try_from(asked.allocation_size).expect("a count");
        let others = asked.available_device_i_ds.iter().rev();
        let others = others.filter(|id| !asked.must_include_device_i_ds.contains(id)).cloned();
        let chosen = asked.must_include_device_i_ds.iter().cloned().chain(others).take(count).collect();
        let one = device::ContainerPreferredAllocationResponse { device_i_ds: chosen };
        Ok(Response::new(device::PreferredAllocationResponse { container_responses: vec![one] }))
    }

    async fn allocate(
        &self,
        request: Request<device::AllocateRequest>,
    ) -> Result<Response<device::AllocateResponse>, Status> {
        let asked = request.into_inner().container_requests.pop().expect("one container");
        self.enter("Allocate", &asked.devices_ids).await?;
        let switches = self.switches();
        Ok(Response::new(device::AllocateResponse {
            container_responses: vec![switches.grant.clone(); switches.grants],
        }))
    }

    async fn pre_start_container(
        &self,
        request: Request<device::PreStartContainerRequest>,
    ) -> Result<Response<device::PreStartContainerResponse>, Status> {
        self.enter("PreStartContainer", &request.into_inner().devices_ids).await?;
        Ok(Response::new(device::PreStartContainerResponse {}))
    }
}
