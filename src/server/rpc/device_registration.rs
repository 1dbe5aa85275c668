//! `v1beta1.Registration` on `kubelet.sock`: where device plugins register (RES-39).
//!
//! Opened by the actor `DevicePlugins`, and anew after its restart, so that plugins register once more. Keeps why plugins
//! cannot register, for the health check.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::call_gate::CallGate;
use super::{REQUEST_MAX, connections};
use crate::logic::plugins::device_registration::{OWN_SOCKET, Registration as Asked};
use crate::platform::host::blocking;
use crate::platform::host::clock::Clock;
use crate::platform::network::grpc_socket::SocketPlace;
use crate::platform::plugins::wire::deviceplugin_v1beta1::registration_server::{Registration, RegistrationServer};
use crate::platform::plugins::wire::deviceplugin_v1beta1::{Empty, RegisterRequest};
use crate::platform::plugins::{DeviceSocket, Registrar, device_folder};

/// See the module.
pub struct DeviceRegistration {
    folder: PathBuf,
    place: SocketPlace,
    clock: Arc<dyn Clock>,
    problem: Mutex<Option<String>>,
}

impl DeviceRegistration {
    /// In this directory.
    pub fn new(folder: &Path, clock: Arc<dyn Clock>) -> Self {
        let place = SocketPlace::new(folder.join(OWN_SOCKET));
        Self { folder: folder.to_path_buf(), place, clock, problem: Mutex::default() }
    }

    /// Upstream's words for a socket that does not work.
    fn note(&self, problem: Option<&str>) {
        let text = "device registration error: device plugin registration gRPC server failed and no device plugins can \
                    register";
        let problem = problem.map(|why| format!("{text}: {why}"));
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

#[async_trait]
impl DeviceSocket for DeviceRegistration {
    fn endpoint(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    async fn serve(&self, registrar: Registrar) -> String {
        let folder = self.folder.clone();
        let opened = match blocking::run(move || device_folder::clear(&folder)).await {
            Ok(()) => self.place.bind().map_err(|error| format!("listen on {}: {error}", self.place.path().display())),
            Err(error) => Err(format!("clear {}: {error}", self.folder.display())),
        };
        let why = match opened {
            Ok(socket) => {
                self.note(None);
                tracing::info!(endpoint = %self.place.path().display(), "Starting to serve device plugin registration");
                let service = Service { gate: CallGate::new(Arc::clone(&self.clock)), registrar };
                let service = RegistrationServer::new(service).max_decoding_message_size(REQUEST_MAX);
                connections::serve(socket, Routes::new(service).prepare()).await
            }
            Err(why) => why,
        };
        self.note(Some(&why));
        why
    }

    fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Service {
    gate: CallGate,
    registrar: Registrar,
}

#[tonic::async_trait]
impl Registration for Service {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        self.gate.enter()?;
        let RegisterRequest { version, endpoint, resource_name, .. } = request.into_inner();
        let asked = Asked { version, endpoint, resource: resource_name };
        match (self.registrar)(asked).await {
            Ok(()) => Ok(Response::new(Empty {})),
            Err(refusal) => Err(Status::unknown(refusal.to_string())), // The code of an error without one, in Go.
        }
    }
}
