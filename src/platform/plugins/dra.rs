//! Calls to drivers of resource claims over gRPC, in both versions, and where their messages end.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures_util::StreamExt;
use tokio::time::timeout;
use tonic::Status;

use super::calls::{OpenCall, PluginCalls, problem_of, request};
use super::dra_connections::{Connections, Live};
use super::socket::DIAL_LIMIT;
use super::wire::dra_health_v1alpha1 as health;
use super::wire::dra_health_v1alpha1::dra_resource_health_client::DraResourceHealthClient;
use super::wire::{dra_v1, dra_v1beta1};
use super::{ANSWER_MAX, Connection, DRA_LIMIT, DraCalls, HealthNews};
use crate::logic::plugins::call_error::{CallError, CallProblem};
use crate::logic::plugins::claims::drivers::Service;
use crate::logic::plugins::claims::health::{DeviceHealth, Health};
use crate::logic::plugins::claims::states::Answer;
use crate::logic::plugins::claims::{ClaimId, PreparedDevice};

/// [`DraCalls`] over sockets.
#[derive(Clone)]
pub struct GrpcDra {
    calls: PluginCalls,
    connections: Connections,
}

impl GrpcDra {
    /// Drivers by these calls.
    pub fn new(calls: PluginCalls) -> Self {
        Self { calls, connections: Connections::default() }
    }

    async fn live(&self, at: &str) -> Result<Live, Status> {
        self.connections.live(at).await.map_err(|error| Status::from_error(Box::new(error)))
    }
}

/// Makes one call, in one version. A macro, because the messages of each version are types of their own.
macro_rules! ask {
    ($this:ident, $at:expr, $about:expr, $wire:ident, $name:literal, $method:ident, $request:ident, $claims:expr) => {{
        let claim = |id: ClaimId| $wire::Claim { namespace: id.key.namespace, uid: id.uid, name: id.key.name };
        let message = $wire::$request { claims: $claims.into_iter().map(claim).collect() };
        let message = request(message, DRA_LIMIT);
        let ask = async {
            let client = $wire::dra_plugin_client::DraPluginClient::new($this.live($at).await?.channel);
            client.max_decoding_message_size(ANSWER_MAX).$method(message).await
        };
        $this.calls.counted($at, $name, $about, DRA_LIMIT, ask).await?.claims
    }};
}

/// The devices of each claim, or the driver's words. `share` differs: the older version has no such field.
macro_rules! prepared {
    ($claims:expr, $device:ident: $kind:ty => $share:expr) => {
        $claims
            .into_iter()
            .map(|(uid, claim)| {
                let device = |$device: $kind| PreparedDevice {
                    share_id: $share,
                    pool_name: $device.pool_name,
                    device_name: $device.device_name,
                    request_names: $device.request_names,
                    cdi_device_ids: $device.cdi_device_ids,
                };
                let devices = claim.devices.into_iter().map(device).collect();
                (uid, if claim.error.is_empty() { Ok(devices) } else { Err(claim.error) })
            })
            .collect()
    };
}

fn released(errors: BTreeMap<String, String>) -> Answer {
    let result = |error: String| if error.is_empty() { Ok(vec![]) } else { Err(error) };
    errors.into_iter().map(|(uid, error)| (uid, result(error))).collect()
}

/// The claims that a call is about, for people.
fn about(claims: &[ClaimId]) -> String {
    let names: Vec<String> = claims.iter().map(|id| format!("{}/{}", id.key.namespace, id.key.name)).collect();
    names.join(" ")
}

#[async_trait]
impl DraCalls for GrpcDra {
    async fn prepare(&self, at: &str, service: Service, claims: Vec<ClaimId>) -> Result<Answer, CallError> {
        let about = about(&claims);
        Ok(match service {
            Service::V1 => {
                let claims = ask!(
                    self,
                    at,
                    &about,
                    dra_v1,
                    "NodePrepareResources",
                    node_prepare_resources,
                    NodePrepareResourcesRequest,
                    claims
                );
                prepared!(claims, device: dra_v1::Device => device.share_id)
            }
            Service::V1Beta1 => {
                let claims = ask!(
                    self,
                    at,
                    &about,
                    dra_v1beta1,
                    "NodePrepareResources",
                    node_prepare_resources,
                    NodePrepareResourcesRequest,
                    claims
                );
                prepared!(claims, device: dra_v1beta1::Device => None)
            }
        })
    }

    async fn unprepare(&self, at: &str, service: Service, claims: Vec<ClaimId>) -> Result<Answer, CallError> {
        let about = about(&claims);
        Ok(released(match service {
            Service::V1 => {
                let claims = ask!(
                    self,
                    at,
                    &about,
                    dra_v1,
                    "NodeUnprepareResources",
                    node_unprepare_resources,
                    NodeUnprepareResourcesRequest,
                    claims
                );
                claims.into_iter().map(|(uid, claim)| (uid, claim.error)).collect()
            }
            Service::V1Beta1 => {
                let claims = ask!(
                    self,
                    at,
                    &about,
                    dra_v1beta1,
                    "NodeUnprepareResources",
                    node_unprepare_resources,
                    NodeUnprepareResourcesRequest,
                    claims
                );
                claims.into_iter().map(|(uid, claim)| (uid, claim.error)).collect()
            }
        }))
    }

    async fn watch_health(&self, at: &str) -> Result<HealthNews, CallError> {
        let failed = |problem| CallError { method: "NodeWatchResources", problem };
        // No deadline: the stream lasts. Only its beginning has one.
        let open = async {
            let client = DraResourceHealthClient::new(self.live(at).await?.channel);
            let mut client = client.max_decoding_message_size(ANSWER_MAX);
            client.node_watch_resources(health::NodeWatchResourcesRequest {}).await
        };
        let opened = timeout(DIAL_LIMIT, open).await;
        let opened = opened.map_err(|_| failed(CallProblem::Deadline(DIAL_LIMIT)))?;
        let stream = opened.map_err(|status| failed(problem_of(&status, DIAL_LIMIT)))?.into_inner();
        let news = stream.map(move |news| match news {
            Ok(news) => Ok(news.devices.into_iter().map(device_health).collect()),
            Err(status) => Err(failed(problem_of(&status, DIAL_LIMIT))),
        });
        Ok(Box::pin(news))
    }

    async fn connect(&self, at: &str) -> Result<Connection, CallError> {
        let failed = |problem: String| CallError { method: "connect", problem: CallProblem::Unreachable(problem) };
        let made = timeout(DIAL_LIMIT, self.connections.live(at)).await;
        let made = made.map_err(|_| failed("no connection in time".to_owned()))?;
        Ok(Box::pin(made.map_err(|error| failed(error.to_string()))?.ended()))
    }

    fn renew(&self, at: &str) {
        self.connections.forget(at);
    }

    fn open_calls(&self) -> Vec<(String, OpenCall)> {
        self.calls.open()
    }
}

fn device_health(device: health::DeviceHealth) -> DeviceHealth {
    let state = match device.health() {
        health::HealthStatus::Healthy => Health::Healthy,
        health::HealthStatus::Unhealthy => Health::Unhealthy,
        health::HealthStatus::Unknown => Health::Unknown,
    };
    let name = device.device.unwrap_or_default();
    DeviceHealth {
        pool_name: name.pool_name,
        device_name: name.device_name,
        health: state,
        holds_seconds: device.health_check_timeout_seconds,
        message: device.message,
    }
}
