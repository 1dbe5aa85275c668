//! The probe that asks a gRPC server for its health: `grpc.health.v1.Health/Check` (PRB-14). The two messages have one
//! field each, so they are written and read by hand.

use super::{GrpcProbe, ProbeOutcome};
use crate::logic::formats::go_text::quoted;
use crate::logic::model::backoff::go_duration;
use crate::platform::network::http_exchange::{Unary, UnaryError, unary};
use crate::platform::network::names::Names;

/// The probe's name for itself.
const USER_AGENT: &str = "kube-probe/1.36";
/// gRPC's codes by number.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];
const DEADLINE_EXCEEDED: u32 = 4;
const UNIMPLEMENTED: u32 = 12;
/// `HealthCheckResponse.ServingStatus` by number.
const STATUSES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];
const SERVING: u64 = 1;

/// Asks. All that goes wrong is a failure, never an error, as with upstream's probe.
pub(super) async fn probe(probe: &GrpcProbe, names: &Names) -> ProbeOutcome {
    let call = Unary {
        host: &probe.host,
        port: probe.port,
        path: "/grpc.health.v1.Health/Check",
        user_agent: USER_AGENT,
        message: check_request(&probe.service),
        timeout: probe.timeout,
        names,
    };
    match unary(call).await {
        Ok(answer) => match serving_status(&answer) {
            Some(SERVING) => ProbeOutcome::Success,
            Some(status) => {
                let name = usize::try_from(status).ok().and_then(|status| STATUSES.get(status).copied());
                let name = name.map_or_else(|| status.to_string(), str::to_owned);
                ProbeOutcome::Failure(format!("service unhealthy (responded with {})", quoted(&name)))
            }
            None => failed(13, "the answer is no HealthCheckResponse"),
        },
        Err(error) => ProbeOutcome::Failure(text_of(error, probe)),
    }
}

fn failed(code: u32, message: &str) -> ProbeOutcome {
    ProbeOutcome::Failure(rpc_failed(code, message))
}

fn rpc_failed(code: u32, message: &str) -> String {
    let name = usize::try_from(code).ok().and_then(|code| CODES.get(code).copied());
    let name = name.map_or_else(|| format!("Code({code})"), str::to_owned);
    format!("error: health rpc probe failed: rpc error: code = {name} desc = {message}")
}

fn text_of(error: UnaryError, probe: &GrpcProbe) -> String {
    let host = if probe.host.contains(':') { format!("[{}]", probe.host) } else { probe.host.clone() };
    let address = quoted(&format!("{host}:{}", probe.port));
    let timeout = go_duration(probe.timeout);
    match error {
        UnaryError::Unconnected => {
            format!("timeout: failed to connect service {address} within {timeout}: context deadline exceeded")
        }
        UnaryError::NoServer(problem) => format!("error: failed to connect service at {address}: {problem}"),
        UnaryError::Deadline | UnaryError::Status { code: DEADLINE_EXCEEDED, .. } => {
            format!("timeout: health rpc did not complete within {timeout}")
        }
        UnaryError::Status { code: UNIMPLEMENTED, message } => {
            format!("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}")
        }
        UnaryError::Status { code, message } => rpc_failed(code, &message),
    }
}

/// `HealthCheckRequest { string service = 1; }`; a field that is empty is not written.
fn check_request(service: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(service.len() + 6);
    if !service.is_empty() {
        message.push(1 << 3 | 2);
        let mut length = service.len();
        while length >= 0x80 {
            message.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        message.push((length & 0x7f) as u8);
        message.extend_from_slice(service.as_bytes());
    }
    message
}

/// `HealthCheckResponse { ServingStatus status = 1; }`; 0 when it is not there, `None` for what is no message. Other
/// fields, as a newer server may have, are passed over.
fn serving_status(mut message: &[u8]) -> Option<u64> {
    let mut status = 0;
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        match (tag >> 3, tag & 7) {
            (1, 0) => status = varint(&mut message)?,
            (_, 0) => drop(varint(&mut message)?),
            (_, 1) => message = message.get(8..)?,
            (_, 2) => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                message = message.get(length..)?;
            }
            (_, 5) => message = message.get(4..)?,
            _ => return None,
        }
    }
    Some(status)
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests;
