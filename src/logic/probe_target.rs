//! Where a probe goes: which host, which port (PRB-15, PRB-16).

use k8s_openapi::api::core::v1::{Container, PodStatus};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

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
pub fn port(container: &Container, port: &IntOrString) -> Result<u16, PortError> {
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
pub fn host<'a>(given: Option<&'a str>, status: &'a PodStatus) -> Option<&'a str> {
    given.filter(|host| !host.is_empty()).or(status.pod_ip.as_deref()).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ContainerPort;

    use super::*;

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
}
