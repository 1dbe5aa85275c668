//! Where a probe goes and what it asks: which command, which host, which port (PRB-11 to PRB-16). A handler that only
//! looks like a probe errs before it is made.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, EnvVar, HTTPGetAction, PodStatus, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::probe_schedule::ProbeTiming;
use crate::logic::formats::expansion::{EXPANDED_MAX, TooLong, expand};

/// The action of a probe, and its time limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeTarget {
    /// Run a command in the container.
    Exec {
        /// The command, expanded.
        command: Vec<String>,
        /// For the command; whole seconds.
        timeout: Duration,
    },
    /// `GET` a page.
    Http(HttpProbe),
    /// Connect.
    Tcp(TcpProbe),
    /// Ask a gRPC server for its health.
    Grpc(GrpcProbe),
}

/// A page to get.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpProbe {
    /// `http` or `https`.
    pub scheme: String,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path, perhaps with a query.
    pub path: String,
    /// Headers, in order; names may repeat. They may hold secrets.
    pub headers: Vec<(String, String)>,
    /// For the whole exchange.
    pub timeout: Duration,
}

impl std::fmt::Debug for HttpProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { scheme, host, port, path, headers, timeout } = self;
        write!(f, "HttpProbe({scheme}://{host}:{port}{path}, {} headers, {timeout:?})", headers.len())
    }
}

/// A port to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpProbe {
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// For the connection.
    pub timeout: Duration,
}

/// A gRPC server to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcProbe {
    /// Address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The service asked for; empty for the server as a whole.
    pub service: String,
    /// For the connection and the call together.
    pub timeout: Duration,
}

/// The action of the container's probe.
///
/// # Errors
/// Why it cannot be made: such a probe errs, it does not fail (PRB-07).
pub fn target(container: &Container, probe: &Probe, status: &PodStatus) -> Result<ProbeTarget, String> {
    let timeout = ProbeTiming::from(probe).timeout;
    let address = |given: Option<&str>| {
        host(given, status).map(str::to_owned).ok_or_else(|| "the pod has no address yet".to_owned())
    };
    if let Some(exec) = &probe.exec {
        let command = expand_static(exec.command.as_deref().unwrap_or_default(), container.env.as_deref());
        let command = command.map_err(|too_long| format!("the probe's command is {too_long}"))?;
        return Ok(ProbeTarget::Exec { command, timeout });
    }
    if let Some(get) = &probe.http_get {
        return http(container, get, &address(get.host.as_deref())?, timeout).map(ProbeTarget::Http);
    }
    if let Some(tcp) = &probe.tcp_socket {
        let port = port(container, &tcp.port).map_err(|error| error.to_string())?;
        return Ok(ProbeTarget::Tcp(TcpProbe { host: address(tcp.host.as_deref())?, port, timeout }));
    }
    let grpc = probe.grpc.as_ref().ok_or("missing probe handler")?;
    let port = port(container, &IntOrString::Int(grpc.port)).map_err(|error| error.to_string())?;
    let service = grpc.service.clone().unwrap_or_default();
    Ok(ProbeTarget::Grpc(GrpcProbe { host: address(None)?, port, service, timeout }))
}

/// The page of a probe or hook, on `host`.
///
/// # Errors
/// A port that there is not.
pub fn http(container: &Container, get: &HTTPGetAction, host: &str, timeout: Duration) -> Result<HttpProbe, String> {
    let port = port(container, &get.port).map_err(|error| error.to_string())?;
    let headers = get.http_headers.iter().flatten().map(|header| (header.name.clone(), header.value.clone()));
    Ok(HttpProbe {
        scheme: get.scheme.as_deref().unwrap_or("HTTP").to_lowercase(),
        host: host.to_owned(),
        port,
        path: get.path.clone().unwrap_or_else(|| "/".to_owned()),
        headers: headers.collect(),
        timeout,
    })
}

/// `$(NAME)` of an exec probe's command, as upstream: only variables that the container gives a value of their own are
/// known; those that come from elsewhere are there and empty, as nobody looks them up for a probe.
fn expand_static(command: &[String], variables: Option<&[EnvVar]>) -> Result<Vec<String>, TooLong> {
    let given = variables.unwrap_or_default().iter();
    let values: BTreeMap<&[u8], &[u8]> = given
        .map(|variable| (variable.name.as_bytes(), variable.value.as_deref().unwrap_or_default().as_bytes()))
        .collect();
    let lookup = |name: &[u8]| values.get(name).copied();
    let mut left = EXPANDED_MAX;
    let expanded = command.iter().map(|word| {
        let word = expand(word.as_bytes(), left, lookup)?;
        left = left.saturating_sub(word.len());
        Ok(String::from_utf8_lossy(&word).into_owned())
    });
    expanded.collect()
}

/// A port that a probe cannot go to. Such a probe errs; it does not fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// A number out of range.
    #[error("invalid port number: {0}")]
    OutOfRange(i32),
    /// Neither a port of the container nor a number in range.
    #[error("port \"{0}\" is neither a name of one of the container's ports nor a valid number")]
    Unknown(String),
}

/// The port, within 1 to 65535. A name is looked up in the container's own ports, and taken for a number if it is
/// none of theirs.
fn port(container: &Container, port: &IntOrString) -> Result<u16, PortError> {
    let in_range = |number: i32| u16::try_from(number).ok().filter(|number| *number > 0);
    match port {
        IntOrString::Int(number) => in_range(*number).ok_or(PortError::OutOfRange(*number)),
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let named = ports.find(|port| port.name.as_deref() == Some(name)).map(|port| port.container_port);
            let number = named.or_else(|| name.parse().ok());
            number.and_then(in_range).ok_or_else(|| PortError::Unknown(name.clone()))
        }
    }
}

/// The host: the one the probe names, else the pod's address, which on the node's network is the node's. `None` while the
/// pod has none.
fn host<'a>(given: Option<&'a str>, status: &'a PodStatus) -> Option<&'a str> {
    given.filter(|host| !host.is_empty()).or(status.pod_ip.as_deref()).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ContainerPort, EnvVarSource, ExecAction, GRPCAction, TCPSocketAction};

    use super::*;

    /// PRB-16.
    #[test]
    fn ports_are_found_by_name_or_number() {
        let named = |name: &str, container_port| ContainerPort {
            name: Some(name.to_owned()),
            container_port,
            ..ContainerPort::default()
        };
        let ports = Some(vec![named("web", 8080), named("81", 9090), named("bad", 70_000)]);
        let container = Container { ports, ..Container::default() };
        for (asked, expected) in [
            (IntOrString::Int(1), Some(1)),
            (IntOrString::Int(65_535), Some(65_535)),
            (IntOrString::Int(0), None),
            (IntOrString::Int(65_536), None),
            (IntOrString::Int(-1), None),
            (IntOrString::String("web".to_owned()), Some(8080)),
            (IntOrString::String("81".to_owned()), Some(9090)),
            (IntOrString::String("82".to_owned()), Some(82)),
            (IntOrString::String("0".to_owned()), None),
            (IntOrString::String("bad".to_owned()), None),
            (IntOrString::String("other".to_owned()), None),
        ] {
            assert_eq!(port(&container, &asked).ok(), expected, "{asked:?}");
        }
    }

    #[test]
    fn a_named_host_comes_before_the_pods_address() {
        let with_ip = PodStatus { pod_ip: Some("10.0.0.9".to_owned()), ..PodStatus::default() };
        assert_eq!(host(Some("example.org"), &with_ip), Some("example.org"));
        assert_eq!(host(Some(""), &with_ip), Some("10.0.0.9"));
        assert_eq!(host(None, &with_ip), Some("10.0.0.9"));
        assert_eq!(host(None, &PodStatus::default()), None);
    }

    fn variable(name: &str, value: Option<&str>) -> EnvVar {
        let value_from = value.is_none().then(EnvVarSource::default);
        EnvVar { name: name.to_owned(), value: value.map(str::to_owned), value_from }
    }

    /// PRB-11.
    #[test]
    fn a_command_is_expanded_with_the_containers_own_values() {
        let env = Some(vec![variable("A", Some("1")), variable("B", Some("$(A)")), variable("S", None)]);
        let container = Container { env, ..Container::default() };
        let command = ["sh", "$(A) $(B) $(S) $(X) $$(A)"].map(str::to_owned).to_vec();
        let exec = Some(ExecAction { command: Some(command) });
        let probe = Probe { exec, timeout_seconds: Some(3), ..Probe::default() };
        let expected = ["sh", "1 $(A)  $(X) $(A)"].map(str::to_owned).to_vec();
        let found = target(&container, &probe, &PodStatus::default());
        assert_eq!(found, Ok(ProbeTarget::Exec { command: expected, timeout: Duration::from_secs(3) }));
    }

    #[test]
    fn a_command_that_no_program_could_be_started_with_errs() {
        let long = "x".repeat(1 << 20);
        let container = Container { env: Some(vec![variable("A", Some(&long))]), ..Container::default() };
        let exec = Some(ExecAction { command: Some(vec!["$(A)".to_owned(); 100_000]) });
        let found = target(&container, &Probe { exec, ..Probe::default() }, &PodStatus::default());
        let expected = "the probe's command is longer than 6291456 bytes with its variables expanded";
        assert_eq!(found, Err(expected.to_owned()));
    }

    /// PRB-13, PRB-14, PRB-15.
    #[test]
    fn sockets_are_of_the_pod_unless_another_host_is_given() {
        let status = PodStatus { pod_ip: Some("10.0.0.9".to_owned()), ..PodStatus::default() };
        let container = Container::default();
        let tcp = |host: Option<&str>| Probe {
            tcp_socket: Some(TCPSocketAction { host: host.map(str::to_owned), port: IntOrString::Int(80) }),
            ..Probe::default()
        };
        for (given, expected) in [(None, "10.0.0.9"), (Some("h"), "h")] {
            let Ok(ProbeTarget::Tcp(found)) = target(&container, &tcp(given), &status) else { panic!("a socket") };
            assert_eq!((found.host.as_str(), found.port, found.timeout), (expected, 80, Duration::from_secs(1)));
        }
        let grpc = |port| Probe { grpc: Some(GRPCAction { port, service: None }), ..Probe::default() };
        let Ok(ProbeTarget::Grpc(found)) = target(&container, &grpc(9), &status) else { panic!("a server") };
        assert_eq!((found.host.as_str(), found.port, found.service.as_str()), ("10.0.0.9", 9, ""));
        assert_eq!(target(&container, &grpc(0), &status), Err("invalid port number: 0".to_owned()));
        assert!(target(&container, &grpc(9), &PodStatus::default()).is_err());
        assert_eq!(target(&container, &Probe::default(), &status), Err("missing probe handler".to_owned()));
    }

    #[test]
    fn headers_are_not_shown() {
        let headers = vec![("Authorization".to_owned(), "secret".to_owned())];
        let get = HttpProbe {
            scheme: String::new(),
            host: String::new(),
            port: 1,
            path: String::new(),
            headers,
            timeout: Duration::ZERO,
        };
        assert!(!format!("{get:?}").contains("secret"));
    }
}
