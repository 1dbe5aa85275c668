//! A driver of resource claims for tests: each claim has one device, with a name for the runtime (CDI). Each call may fail,
//! hang, or answer something else. It registers as drivers do, by a socket in the plugins' registry.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::StreamExt;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Code, Request, Response, Status};

use crate::platform::plugins::wire::pluginregistration_v1 as registration;
use crate::platform::plugins::wire::pluginregistration_v1::registration_server::{Registration, RegistrationServer};
use crate::platform::plugins::wire::{dra_health_v1alpha1 as health, dra_v1 as v1, dra_v1beta1 as v1beta1};

/// How the driver behaves.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    /// Its services.
    pub versions: Vec<String>,
    /// Answers of the next calls of a method.
    pub fails: BTreeMap<&'static str, VecDeque<Code>>,
    /// Claims that it cannot prepare or release, by name, and its words.
    pub refuses: BTreeMap<String, String>,
    /// Claims of which it says nothing, by name.
    pub skips: BTreeSet<String>,
    /// Methods that never answer.
    pub hangs: BTreeSet<&'static str>,
    /// The requests that its devices are for.
    pub request_names: Vec<String>,
    /// The use of a shared device.
    pub share_id: Option<String>,
}

struct State {
    name: String,
    endpoint: PathBuf,
    switches: Mutex<Switches>,
    calls: Mutex<Vec<String>>,
    /// Its words about its devices, newest last.
    health: watch::Sender<Vec<health::DeviceHealth>>,
    verdicts: Mutex<Vec<(bool, String)>>,
    connections: AtomicUsize,
}

/// A driver; clones are the same one.
#[derive(Clone)]
pub struct DraDriver(Arc<State>);

/// A driver that serves, on threads of its own; its end is that of the driver's process.
pub struct DraServing {
    runtime: Option<tokio::runtime::Runtime>,
    sockets: Vec<PathBuf>,
}

impl Drop for DraServing {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        for socket in &self.sockets {
            let _ = std::fs::remove_file(socket);
        }
    }
}

impl DraDriver {
    /// A driver of this name with its socket below `folder`.
    pub fn new(name: &str, folder: &Path) -> Self {
        let versions = vec!["v1.DRAPlugin".to_owned(), "v1alpha1.DRAResourceHealth".to_owned()];
        let (switches, health) = (Switches { versions, ..Switches::default() }, watch::Sender::new(vec![]));
        Self(Arc::new(State {
            name: name.to_owned(),
            endpoint: folder.join("dra.sock"),
            switches: Mutex::new(switches),
            calls: Mutex::default(),
            health,
            verdicts: Mutex::default(),
            connections: AtomicUsize::default(),
        }))
    }

    /// How it behaves, to be changed.
    pub fn switches(&self) -> MutexGuard<'_, Switches> {
        self.0.switches.lock().expect("not poisoned")
    }

    /// The calls about claims so far: method and names.
    pub fn calls(&self) -> Vec<String> {
        self.0.calls.lock().expect("not poisoned").clone()
    }

    /// The verdicts that it got.
    pub fn verdicts(&self) -> Vec<(bool, String)> {
        self.0.verdicts.lock().expect("not poisoned").clone()
    }

    /// How many connections to its own socket it has accepted.
    pub fn connections(&self) -> usize {
        self.0.connections.load(Ordering::Relaxed)
    }

    /// Its socket.
    pub fn endpoint(&self) -> String {
        self.0.endpoint.display().to_string()
    }

    /// The runtime's name for the device of a claim.
    pub fn cdi(&self, claim: &str) -> String {
        format!("{}/device={claim}", self.0.name)
    }

    /// Says how the device of a claim is.
    pub fn say(&self, claim: &str, state: health::HealthStatus, message: &str) {
        let (pool_name, device_name) = ("pool".to_owned(), claim.to_owned());
        let word = health::DeviceHealth {
            device: Some(health::DeviceIdentifier { pool_name, device_name }),
            health: state.into(),
            message: message.to_owned(),
            ..health::DeviceHealth::default()
        };
        self.0.health.send_replace(vec![word]);
    }

    /// Serves, and appears in the registry.
    pub fn serve(&self, registry: &Path) -> DraServing {
        self.serve_as(registry, &format!("{}-reg.sock", self.0.name))
    }

    /// The same, by this name of its socket there.
    pub fn serve_as(&self, registry: &Path, socket: &str) -> DraServing {
        let registered = registry.join(socket);
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
        let (own, greeter) = (listen(&self.0.endpoint), listen(&registered));
        let services = tonic::transport::Server::builder()
            .add_service(v1::dra_plugin_server::DraPluginServer::new(self.clone()))
            .add_service(v1beta1::dra_plugin_server::DraPluginServer::new(self.clone()))
            .add_service(health::dra_resource_health_server::DraResourceHealthServer::new(self.clone()));
        let greets = tonic::transport::Server::builder().add_service(RegistrationServer::new(self.clone()));
        let state = Arc::clone(&self.0);
        let own = own.inspect(move |_| {
            state.connections.fetch_add(1, Ordering::Relaxed);
        });
        runtime.spawn(async move { drop(services.serve_with_incoming(own).await) });
        runtime.spawn(async move { drop(greets.serve_with_incoming(greeter).await) });
        DraServing { runtime: Some(runtime), sockets }
    }

    async fn enter(&self, method: &'static str, version: &str, claims: &[String]) -> Result<(), Status> {
        let text = format!("{version} {method} {}", claims.join(" "));
        self.0.calls.lock().expect("not poisoned").push(text);
        if self.switches().hangs.contains(method) {
            std::future::pending::<()>().await;
        }
        match self.switches().fails.get_mut(method).and_then(VecDeque::pop_front) {
            Some(code) => Err(Status::new(code, format!("{method} is to fail"))),
            None => Ok(()),
        }
    }

    /// The answer about a claim: nothing, or the driver's words against it.
    fn answer(&self, claim: &str) -> Option<String> {
        let switches = self.switches();
        let words = switches.refuses.get(claim).cloned().unwrap_or_default();
        (!switches.skips.contains(claim)).then_some(words)
    }
}

#[tonic::async_trait]
impl Registration for DraDriver {
    async fn get_info(
        &self,
        _: Request<registration::InfoRequest>,
    ) -> Result<Response<registration::PluginInfo>, Status> {
        Ok(Response::new(registration::PluginInfo {
            r#type: "DRAPlugin".to_owned(),
            name: self.0.name.clone(),
            endpoint: self.endpoint(),
            supported_versions: self.switches().versions.clone(),
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<registration::RegistrationStatus>,
    ) -> Result<Response<registration::RegistrationStatusResponse>, Status> {
        let told = request.into_inner();
        self.0.verdicts.lock().expect("not poisoned").push((told.plugin_registered, told.error));
        Ok(Response::new(registration::RegistrationStatusResponse {}))
    }
}

/// The service in one version; the devices differ by a field.
macro_rules! serve {
    ($wire:ident, $version:literal, $driver:ident, $switches:ident, $claim:ident => $device:expr) => {
        #[tonic::async_trait]
        impl $wire::dra_plugin_server::DraPlugin for DraDriver {
            async fn node_prepare_resources(
                &self,
                request: Request<$wire::NodePrepareResourcesRequest>,
            ) -> Result<Response<$wire::NodePrepareResourcesResponse>, Status> {
                let asked = request.into_inner().claims;
                let names: Vec<String> = asked.iter().map(|claim| claim.name.clone()).collect();
                self.enter("NodePrepareResources", $version, &names).await?;
                let ($driver, $switches) = (self, self.switches().clone());
                let answer = |$claim: &$wire::Claim| {
                    let error = self.answer(&$claim.name)?;
                    let devices = if error.is_empty() { vec![$device] } else { vec![] };
                    Some(($claim.uid.clone(), $wire::NodePrepareResourceResponse { devices, error }))
                };
                let claims = asked.iter().filter_map(answer).collect();
                Ok(Response::new($wire::NodePrepareResourcesResponse { claims }))
            }

            async fn node_unprepare_resources(
                &self,
                request: Request<$wire::NodeUnprepareResourcesRequest>,
            ) -> Result<Response<$wire::NodeUnprepareResourcesResponse>, Status> {
                let asked = request.into_inner().claims;
                let names: Vec<String> = asked.iter().map(|claim| claim.name.clone()).collect();
                self.enter("NodeUnprepareResources", $version, &names).await?;
                let answer = |claim: &$wire::Claim| {
                    let error = self.answer(&claim.name)?;
                    Some((claim.uid.clone(), $wire::NodeUnprepareResourceResponse { error }))
                };
                let claims = asked.iter().filter_map(answer).collect();
                Ok(Response::new($wire::NodeUnprepareResourcesResponse { claims }))
            }
        }
    };
}

serve!(v1, "v1", driver, switches, claim => v1::Device {
    pool_name: "pool".to_owned(),
    device_name: claim.name.clone(),
    cdi_device_ids: vec![driver.cdi(&claim.name)],
    request_names: switches.request_names.clone(),
    share_id: switches.share_id.clone(),
});

serve!(v1beta1, "v1beta1", driver, switches, claim => v1beta1::Device {
    pool_name: "pool".to_owned(),
    device_name: claim.name.clone(),
    cdi_device_ids: vec![driver.cdi(&claim.name)],
    request_names: switches.request_names.clone(),
});

#[tonic::async_trait]
impl health::dra_resource_health_server::DraResourceHealth for DraDriver {
    async fn node_watch_resources(
        &self,
        _: Request<health::NodeWatchResourcesRequest>,
    ) -> Result<Response<tonic::codegen::BoxStream<health::NodeWatchResourcesResponse>>, Status> {
        let mut words = self.0.health.subscribe();
        words.mark_changed();
        let news = futures_util::stream::unfold(words, |mut words| async move {
            words.changed().await.ok()?;
            let devices = words.borrow_and_update().clone();
            Some((Ok(health::NodeWatchResourcesResponse { devices }), words))
        });
        Ok(Response::new(Box::pin(news)))
    }
}
