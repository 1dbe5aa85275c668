//! PodResources `v1` and `v1alpha1`: which CPUs, memory and devices containers own (RES-53; upstream's
//! `pkg/kubelet/apis/podresources`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use tonic::{Request, Response, Status};

use super::call_gate::CallGate;
use super::wire::podresources_v1::pod_resources_lister_server::PodResourcesLister;
use super::wire::podresources_v1::{
    self as v1, AllocatableResourcesRequest, AllocatableResourcesResponse, GetPodResourcesRequest,
    GetPodResourcesResponse, ListPodResourcesRequest, ListPodResourcesResponse,
};
use super::wire::podresources_v1alpha1::{
    self as v1alpha1, pod_resources_lister_server::PodResourcesLister as OldPodResourcesLister,
};
use crate::actors::kit::address::AskError;
use crate::logic::model::ids::PodUid;
use crate::logic::plugins::claims::PreparedDevice;
use crate::logic::plugins::claims::book::{ClaimBook, ClaimInfo};
use crate::logic::plugins::claims::report::claims_of_container;
use crate::logic::resources::allocations::{Allocation, Allocations, DeviceEntry};
use crate::messages::plugins::claim_manager::ClaimManagerMsg;
use crate::messages::resources::allocation_manager::AllocationManagerMsg;
use crate::messages::status::status_manager::PodView;
use crate::server::backend::Backend;
use crate::server::pods::pod_list::{ASK_LIMIT, REQUEST, named, views};
use crate::telemetry::PodResourcesCall;

/// Both versions, which share one rate.
#[derive(Clone)]
pub(super) struct PodResources {
    backend: Arc<Backend>,
    gate: Arc<CallGate>,
    /// Whether `List` leaves out pods that have ended.
    active_only: bool,
}

impl PodResources {
    pub(super) fn new(backend: Arc<Backend>, active_only: bool) -> Self {
        let gate = Arc::new(CallGate::new(Arc::clone(backend.trace.clock())));
        Self { backend, gate, active_only }
    }

    async fn allocations(&self) -> Result<Arc<Allocations>, Status> {
        let to = &self.backend.directory.allocation_manager;
        let answer = to.ask(REQUEST, ASK_LIMIT, AllocationManagerMsg::Allocations).await;
        answer.map_err(|error| unanswered("AllocationManager", &error))
    }

    /// The claims of pods; none while their file is not read.
    async fn claims(&self) -> Result<Arc<ClaimBook>, Status> {
        let to = &self.backend.directory.claim_manager;
        let answer = to.ask(REQUEST, ASK_LIMIT, ClaimManagerMsg::Claims).await;
        answer.map(Option::unwrap_or_default).map_err(|error| unanswered("ClaimManager", &error))
    }

    async fn owned(&self) -> Result<Owned, Status> {
        let (allocations, claims) = tokio::join!(self.allocations(), self.claims());
        Ok(Owned { allocations: allocations?, claims: claims? })
    }

    async fn list_all(&self) -> Result<Vec<v1::PodResources>, Status> {
        let (pods, owned) = tokio::join!(views(&self.backend), self.owned());
        let (pods, owned) = (pods.map_err(|error| unanswered("StatusManager", &error))?, owned?);
        let is_meant = |view: &&PodView| !view.is_over && (is_active(view) || !self.active_only);
        Ok(pods.iter().filter(is_meant).map(|view| of_pod(&view.uid, &view.pod, &owned)).collect())
    }

    async fn get_one(&self, namespace: &str, name: &str) -> Result<v1::PodResources, Status> {
        let is_meant = |view: &PodView| {
            let metadata = &view.pod.metadata;
            let names = (metadata.namespace.as_deref(), metadata.name.as_deref());
            is_active(view) && names == (Some(namespace), Some(name))
        };
        let (found, owned) = tokio::join!(named(&self.backend, is_meant), self.owned());
        let (found, owned) = (found.map_err(|error| unanswered("StatusManager", &error))?, owned?);
        match found.first() {
            Some(view) => Ok(of_pod(&view.uid, &view.pod, &owned)),
            None => Err(Status::unknown(format!("pod {name} in namespace {namespace} not found"))),
        }
    }

    /// Counts a call of `v1`, and its error.
    async fn counted<T>(
        &self,
        call: PodResourcesCall,
        answer: impl Future<Output = Result<T, Status>>,
    ) -> Result<Response<T>, Status> {
        self.gate.enter()?;
        let metrics = self.backend.metrics.rpc();
        metrics.asked(call, "v1");
        answer.await.map(Response::new).inspect_err(|_| metrics.failed(call))
    }
}

#[tonic::async_trait]
impl PodResourcesLister for PodResources {
    async fn list(&self, _: Request<ListPodResourcesRequest>) -> Result<Response<ListPodResourcesResponse>, Status> {
        let answer = async { Ok(ListPodResourcesResponse { pod_resources: self.list_all().await? }) };
        self.counted(PodResourcesCall::List, answer).await
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        let answer = async {
            let allocations = self.allocations().await?;
            let v1::ContainerResources { devices, cpu_ids, memory, .. } =
                of_container("", Some(&allocations.allocatable));
            Ok(AllocatableResourcesResponse { devices, cpu_ids, memory })
        };
        self.counted(PodResourcesCall::GetAllocatable, answer).await
    }

    async fn get(&self, request: Request<GetPodResourcesRequest>) -> Result<Response<GetPodResourcesResponse>, Status> {
        let GetPodResourcesRequest { pod_name, pod_namespace } = request.into_inner();
        let answer = async {
            let found = self.get_one(&pod_namespace, &pod_name).await?;
            Ok(GetPodResourcesResponse { pod_resources: Some(found) })
        };
        self.counted(PodResourcesCall::Get, answer).await
    }
}

#[tonic::async_trait]
impl OldPodResourcesLister for PodResources {
    async fn list(
        &self,
        _: Request<v1alpha1::ListPodResourcesRequest>,
    ) -> Result<Response<v1alpha1::ListPodResourcesResponse>, Status> {
        self.gate.enter()?;
        self.backend.metrics.rpc().asked(PodResourcesCall::List, "v1alpha1");
        let (pods, allocations) = tokio::join!(views(&self.backend), self.allocations());
        let (pods, allocations) = (pods.map_err(|error| unanswered("StatusManager", &error))?, allocations?);
        let known = pods.iter().filter(|view| !view.is_over);
        let pod_resources = known.map(|view| of_pod_before_v1(&view.uid, &view.pod, &allocations)).collect();
        Ok(Response::new(v1alpha1::ListPodResourcesResponse { pod_resources }))
    }
}

/// Whether containers of the pod may still run: until then what they own is not given to others.
fn is_active(view: &PodView) -> bool {
    view.may_run && !view.is_over
}

fn unanswered(who: &str, error: &AskError) -> Status {
    Status::unavailable(format!("{who} does not answer: {error}"))
}

/// All that pods own.
#[derive(Default)]
pub(super) struct Owned {
    pub(super) allocations: Arc<Allocations>,
    pub(super) claims: Arc<ClaimBook>,
}

pub(super) fn of_pod(uid: &PodUid, pod: &Pod, owned: &Owned) -> v1::PodResources {
    let spec = pod.spec.as_ref();
    let first = spec.and_then(|spec| spec.init_containers.as_ref()).into_iter().flatten();
    let restartable = first.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let containers = restartable.chain(spec.into_iter().flat_map(|spec| &spec.containers));
    v1::PodResources {
        name: pod.metadata.name.clone().unwrap_or_default(),
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        containers: containers
            .map(|container| v1::ContainerResources {
                dynamic_resources: claims_of_container(pod, container, &owned.claims)
                    .iter()
                    .map(|it| of_claim(it))
                    .collect(),
                ..of_container(&container.name, owned.allocations.of(uid, &container.name))
            })
            .collect(),
    }
}

fn of_claim(claim: &ClaimInfo) -> v1::DynamicResource {
    let devices = claim.drivers.iter().flat_map(|(driver, devices)| devices.iter().map(move |device| (driver, device)));
    let resource = |(driver, device): (&String, &PreparedDevice)| v1::ClaimResource {
        cdi_devices: device.cdi_device_ids.iter().map(|name| v1::CdiDevice { name: name.clone() }).collect(),
        driver_name: driver.clone(),
        pool_name: device.pool_name.clone(),
        device_name: device.device_name.clone(),
        share_id: device.share_id.clone(),
    };
    v1::DynamicResource {
        claim_name: claim.id.key.name.clone(),
        claim_namespace: claim.id.key.namespace.clone(),
        claim_resources: devices.map(resource).collect(),
    }
}

fn of_container(name: &str, owned: Option<&Allocation>) -> v1::ContainerResources {
    let at = |nodes: &[u32]| v1::TopologyInfo {
        nodes: nodes.iter().map(|node| v1::NumaNode { id: i64::from(*node) }).collect(),
    };
    let nothing = Allocation::default();
    let Allocation { cpu_ids, memory, devices } = owned.unwrap_or(&nothing);
    v1::ContainerResources {
        name: name.to_owned(),
        devices: devices
            .iter()
            .map(|entry| v1::ContainerDevices {
                resource_name: entry.resource.clone(),
                device_ids: vec![entry.id.clone()],
                topology: entry.node.map(|node| at(&[node])),
            })
            .collect(),
        cpu_ids: cpu_ids.iter().map(|cpu| i64::from(*cpu)).collect(),
        memory: memory
            .iter()
            .map(|block| v1::ContainerMemory {
                memory_type: block.memory_type.clone(),
                size: block.bytes,
                topology: Some(at(&block.nodes)),
            })
            .collect(),
        dynamic_resources: vec![],
    }
}

/// As `v1alpha1` has it: no init containers, and of devices no place.
pub(super) fn of_pod_before_v1(uid: &PodUid, pod: &Pod, allocations: &Allocations) -> v1alpha1::PodResources {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    v1alpha1::PodResources {
        name: pod.metadata.name.clone().unwrap_or_default(),
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        containers: containers
            .map(|container| {
                let devices = allocations.of(uid, &container.name).into_iter().flat_map(|owned| &owned.devices);
                let device = |entry: &DeviceEntry| v1alpha1::ContainerDevices {
                    resource_name: entry.resource.clone(),
                    device_ids: vec![entry.id.clone()],
                };
                v1alpha1::ContainerResources { name: container.name.clone(), devices: devices.map(device).collect() }
            })
            .collect(),
    }
}
