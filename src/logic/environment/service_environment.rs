//! The variables that tell a container where services are.
//!
//! Names and values are upstream's (`pkg/kubelet/envvars`): programs have read them since before there was cluster DNS,
//! and in-cluster clients still find the API server by `KUBERNETES_SERVICE_HOST`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort};

/// Namespace and name of the service that every pod sees, wherever it lives.
pub const MASTER: (&str, &str) = ("default", "kubernetes");

/// Variables of the services that a pod of `namespace` may see: those of its namespace if `links` (`enableServiceLinks`),
/// and always `kubernetes` of namespace `default`. A service of the pod's own namespace wins over that one where the pod may
/// see it. Services without an address of their own are left out.
pub fn service_variables<'a>(
    services: impl IntoIterator<Item = &'a Service>,
    namespace: &str,
    links: bool,
) -> BTreeMap<String, String> {
    let mut visible: BTreeMap<&str, &Service> = BTreeMap::new();
    for service in services {
        if address(service).is_none() {
            continue;
        }
        let metadata = &service.metadata;
        let [name, of] = [&metadata.name, &metadata.namespace].map(|text| text.as_deref().unwrap_or_default());
        if links && of == namespace {
            visible.insert(name, service);
        } else if (of, name) == MASTER {
            visible.entry(name).or_insert(service);
        }
    }
    let mut variables = BTreeMap::new();
    for (name, service) in visible {
        add(name, service, &mut variables);
    }
    variables
}

/// The service's own address, if it has one.
fn address(service: &Service) -> Option<&str> {
    let ip = service.spec.as_ref()?.cluster_ip.as_deref()?;
    (!ip.is_empty() && ip != "None").then_some(ip)
}

fn add(name: &str, service: &Service, variables: &mut BTreeMap<String, String>) {
    let Some(ip) = address(service) else { return };
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let prefix = variable_name(name);
    variables.insert(format!("{prefix}_SERVICE_HOST"), ip.to_owned());
    if let Some(first) = ports.first() {
        variables.insert(format!("{prefix}_SERVICE_PORT"), first.port.to_string());
        variables.insert(format!("{prefix}_PORT"), url(ip, first));
    }
    for port in ports {
        if let Some(port_name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            variables.insert(format!("{prefix}_SERVICE_PORT_{}", variable_name(port_name)), port.port.to_string());
        }
        let of_port = format!("{prefix}_PORT_{}_{}", port.port, protocol(port).to_uppercase());
        variables.insert(format!("{of_port}_PROTO"), protocol(port).to_lowercase());
        variables.insert(format!("{of_port}_PORT"), port.port.to_string());
        variables.insert(format!("{of_port}_ADDR"), ip.to_owned());
        variables.insert(of_port, url(ip, port));
    }
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP")
}

/// `protocol://address:port`, an IPv6 address in brackets.
fn url(ip: &str, port: &ServicePort) -> String {
    let scheme = protocol(port).to_lowercase();
    if ip.contains(':') { format!("{scheme}://[{ip}]:{}", port.port) } else { format!("{scheme}://{ip}:{}", port.port) }
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn service(namespace: &str, name: &str, ip: &str, ports: Value) -> Service {
        let metadata = json!({ "name": name, "namespace": namespace });
        from_value(json!({ "metadata": metadata, "spec": { "clusterIP": ip, "ports": ports } })).unwrap()
    }

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn a_service_has_variables_for_itself_and_each_port() {
        let ports = json!([{ "name": "web-tls", "port": 443 }, { "name": "dns", "port": 53, "protocol": "UDP" }]);
        let found = service_variables(&[service("ns", "my-app", "10.0.0.1", ports)], "ns", true);
        let expected = map(&[
            ("MY_APP_SERVICE_HOST", "10.0.0.1"),
            ("MY_APP_SERVICE_PORT", "443"),
            ("MY_APP_SERVICE_PORT_WEB_TLS", "443"),
            ("MY_APP_SERVICE_PORT_DNS", "53"),
            ("MY_APP_PORT", "tcp://10.0.0.1:443"),
            ("MY_APP_PORT_443_TCP", "tcp://10.0.0.1:443"),
            ("MY_APP_PORT_443_TCP_PROTO", "tcp"),
            ("MY_APP_PORT_443_TCP_PORT", "443"),
            ("MY_APP_PORT_443_TCP_ADDR", "10.0.0.1"),
            ("MY_APP_PORT_53_UDP", "udp://10.0.0.1:53"),
            ("MY_APP_PORT_53_UDP_PROTO", "udp"),
            ("MY_APP_PORT_53_UDP_PORT", "53"),
            ("MY_APP_PORT_53_UDP_ADDR", "10.0.0.1"),
        ]);
        assert_eq!(found, expected);
        let unnamed = service_variables(&[service("ns", "a", "fd00::1", json!([{ "port": 80 }]))], "ns", true);
        assert_eq!(unnamed["A_PORT"], "tcp://[fd00::1]:80");
        assert!(!unnamed.contains_key("A_SERVICE_PORT_"));
    }

    #[test]
    fn a_pod_sees_its_namespace_and_the_api_server() {
        let of = |namespace: &str, name: &str, ip: &str| service(namespace, name, ip, json!([{ "port": 1 }]));
        let all = [
            of("default", "kubernetes", "10.0.0.1"),
            of("default", "other", "10.0.0.2"),
            of("ns", "own", "10.0.0.3"),
            of("ns", "headless", "None"),
            of("ns", "external", ""),
            of("own-api", "kubernetes", "10.0.0.9"),
        ];
        type Variables<'a> = &'a [(&'a str, &'a str)];
        let cases: [(&str, bool, Variables<'_>); 6] = [
            ("ns", true, &[("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("OWN_SERVICE_HOST", "10.0.0.3")]),
            ("ns", false, &[("KUBERNETES_SERVICE_HOST", "10.0.0.1")]),
            ("default", true, &[("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("OTHER_SERVICE_HOST", "10.0.0.2")]),
            ("default", false, &[("KUBERNETES_SERVICE_HOST", "10.0.0.1")]),
            ("own-api", true, &[("KUBERNETES_SERVICE_HOST", "10.0.0.9")]),
            ("own-api", false, &[("KUBERNETES_SERVICE_HOST", "10.0.0.1")]),
        ];
        for (namespace, links, expected) in cases {
            for reversed in [false, true] {
                let order = |services: &[Service]| match reversed {
                    true => services.iter().rev().cloned().collect::<Vec<_>>(),
                    false => services.to_vec(),
                };
                let mut found = service_variables(&order(&all), namespace, links);
                found.retain(|name, _| name.ends_with("_SERVICE_HOST"));
                assert_eq!(found, map(expected), "{namespace} {links} {reversed}");
            }
        }
    }
}
