//! gRPC on Unix sockets: what hardware pods have (PodResources), the pods themselves (the Pods API), and where device plugins
//! register.
//!
//! Started, and started again, by the actor `Server`; the registration by `DevicePlugins`. Anyone who may enter the socket's folder may ask, as upstream.
//! Answers are made when somebody asks; nothing is kept for it.

mod call_gate;
mod connections;
mod device_registration;
mod pod_bytes;
mod pod_resources;
mod pods;
#[cfg(test)]
mod tests;
pub mod wire;

use std::path::Path;
use std::sync::Arc;

use tonic::service::Routes;

pub use device_registration::DeviceRegistration;

use super::backend::Backend;
use crate::actors::server::Listener;
use crate::platform::network::grpc_socket::SocketPlace;
use pod_resources::PodResources;
use pods::PodsApi;
use wire::podresources_v1::pod_resources_lister_server::PodResourcesListerServer;
use wire::podresources_v1alpha1::pod_resources_lister_server::PodResourcesListerServer as OldPodResourcesListerServer;
use wire::pods_v1alpha1::pods_server::PodsServer;

/// The largest request: names take a few hundred bytes.
const REQUEST_MAX: usize = 64 * 1024;

/// One of the sockets.
pub struct RpcListener {
    /// Upstream's name of it.
    api: &'static str,
    place: SocketPlace,
    routes: Routes,
}

impl RpcListener {
    /// `pod-resources/kubelet.sock` below the root directory (SRV-51). `active_only` is the gate
    /// `KubeletPodResourcesListUseActivePods`: without it `List` has pods that have ended, too.
    pub fn pod_resources(root: &Path, backend: &Arc<Backend>, active_only: bool) -> Self {
        let service = PodResources::new(Arc::clone(backend), active_only);
        let newer = PodResourcesListerServer::new(service.clone()).max_decoding_message_size(REQUEST_MAX);
        let older = OldPodResourcesListerServer::new(service).max_decoding_message_size(REQUEST_MAX);
        let place = SocketPlace::new(root.join("pod-resources/kubelet.sock"));
        Self { api: "podresources API", place, routes: Routes::new(newer).add_service(older).prepare() }
    }

    /// `pods-api/pods-api.sock` below the root directory, with the gate `PodsAPI` (SRV-52).
    pub fn pods_api(root: &Path, backend: &Arc<Backend>) -> Self {
        let service = PodsServer::new(PodsApi::new(Arc::clone(backend))).max_decoding_message_size(REQUEST_MAX);
        let place = SocketPlace::new(root.join("pods-api/pods-api.sock"));
        Self { api: "pods API", place, routes: Routes::new(service).prepare() }
    }
}

#[async_trait::async_trait]
impl Listener for RpcListener {
    fn name(&self) -> String {
        format!("{} {}", self.api, self.place.path().display())
    }

    async fn serve(&self) -> String {
        match self.place.bind() {
            Ok(socket) => {
                tracing::info!(endpoint = %self.place.path().display(), "Starting to serve the {}", self.api);
                connections::serve(socket, self.routes.clone()).await
            }
            Err(error) => format!("cannot listen on {}: {error}", self.place.path().display()),
        }
    }
}
