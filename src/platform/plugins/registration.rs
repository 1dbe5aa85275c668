//! The handshake over gRPC. A connection for each call: handshakes are rare, and a socket may be another one next time.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;
use tonic::transport::Channel;

use super::calls::{problem_of, request};
use super::socket::{DIAL_LIMIT, Links, channel, connect};
use super::wire::pluginregistration_v1::registration_client::RegistrationClient;
use super::wire::pluginregistration_v1::{InfoRequest, RegistrationStatus};
use super::{ANSWER_MAX, PluginError, PluginRegistration};
use crate::logic::plugins::call_error::{CallError, CallProblem};
use crate::logic::plugins::plugin::PluginInfo;

/// How long an answer may take.
const INFO_LIMIT: Duration = Duration::from_secs(1);
/// How long the verdict may take.
const NOTIFY_LIMIT: Duration = Duration::from_secs(5);

/// [`PluginRegistration`] over sockets.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrpcRegistration;

/// A connection that is there: one that cannot be made is told by its own words.
async fn dial(socket: &str) -> Result<RegistrationClient<Channel>, PluginError> {
    let failed = |problem: String| PluginError::Dial { socket: socket.to_owned(), problem };
    match timeout(DIAL_LIMIT, connect(Path::new(socket), &Links::Refuse)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(failed(error.to_string())),
        Err(_) => return Err(failed(format!("not connected within {} s", DIAL_LIMIT.as_secs()))),
    }
    let client = RegistrationClient::new(channel(Path::new(socket), &Links::Refuse));
    Ok(client.max_decoding_message_size(ANSWER_MAX))
}

#[async_trait]
impl PluginRegistration for GrpcRegistration {
    async fn info(&self, socket: &str) -> Result<PluginInfo, PluginError> {
        let mut client = dial(socket).await?;
        let method = "GetInfo";
        let problem = match timeout(INFO_LIMIT, client.get_info(request(InfoRequest {}, INFO_LIMIT))).await {
            Ok(Ok(answer)) => {
                let answer = answer.into_inner();
                let (kind, versions) = (answer.r#type, answer.supported_versions);
                return Ok(PluginInfo { kind, name: answer.name, endpoint: answer.endpoint, versions });
            }
            Ok(Err(status)) => problem_of(&status, INFO_LIMIT),
            Err(_) => CallProblem::Deadline(INFO_LIMIT),
        };
        Err(PluginError::Info { socket: socket.to_owned(), error: CallError { method, problem } })
    }

    async fn notify(&self, socket: &str, refusal: Option<&str>) -> Result<(), PluginError> {
        let mut client = dial(socket).await?;
        let error = refusal.unwrap_or_default().to_owned();
        let status = RegistrationStatus { plugin_registered: refusal.is_none(), error };
        let told = client.notify_registration_status(request(status, NOTIFY_LIMIT));
        let problem = match timeout(NOTIFY_LIMIT, told).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(status)) => problem_of(&status, NOTIFY_LIMIT),
            Err(_) => CallProblem::Deadline(NOTIFY_LIMIT),
        };
        Err(PluginError::Notify(CallError { method: "NotifyRegistrationStatus", problem }))
    }
}
