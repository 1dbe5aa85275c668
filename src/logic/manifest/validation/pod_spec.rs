//! The rules about the pod as a whole, in the order of the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use k8s_openapi::api::core::v1::{HostAlias, PodDNSConfig, PodResourceClaim, PodSpec, Volume};
use serde_json::Value;

use super::container::{self, PodFacts};
use super::field::{Errors, FieldPath, text};
use super::{names, resources, scheduling, security, selectors, volumes};

/// The most name servers that the C library of a container takes.
const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_CHARACTERS_MAX: usize = 2048;
const HOSTNAME_OVERRIDE_MAX: usize = 64;

/// Everything in `spec`.
pub(super) fn validate(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    if spec.termination_grace_period_seconds.is_none() {
        errors.required(&path.child("terminationGracePeriodSeconds"), "");
    }
    let pod = PodFacts {
        volumes: volumes::validate(spec.volumes.as_deref().unwrap_or_default(), &path.child("volumes"), errors),
        claims: spec
            .resource_claims
            .iter()
            .flatten()
            .map(|claim| claim.name.as_str())
            .filter(|name| !name.is_empty())
            .collect(),
        grace_period: spec.termination_grace_period_seconds.unwrap_or_default(),
        restart_policy: text(&spec.restart_policy),
        os: spec.os.as_ref().map_or("", |os| os.name.as_str()),
        host_users: spec.host_users.unwrap_or(true),
    };
    resource_claims(spec.resource_claims.as_deref().unwrap_or_default(), &path.child("resourceClaims"), errors);
    let init_containers = spec.init_containers.as_deref().unwrap_or_default();
    container::ordinary(&spec.containers, &pod, &path.child("containers"), errors);
    container::init(init_containers, &spec.containers, &pod, &path.child("initContainers"), errors);
    if let Some(requirements) = &spec.resources {
        resources::of_pod(requirements, spec, &pod.claims, &path.child("resources"), errors);
    }
    host_network_ports(spec, path, errors);
    policies(spec, path, errors);
    names_and_numbers(spec, path, errors);
    on_creation(spec, init_containers, path, errors);
}

fn policies(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    let restart = ["Always", "OnFailure", "Never"];
    errors.one_of(&path.child("restartPolicy"), text(&spec.restart_policy), &restart);
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.one_of(&path.child("dnsPolicy"), text(&spec.dns_policy), &dns);
    selectors::labels(spec.node_selector.as_ref(), &path.child("nodeSelector"), errors);
    if let Some(context) = &spec.security_context {
        security::of_pod(context, spec, &path.child("securityContext"), errors);
    }
    if let Some(affinity) = &spec.affinity {
        scheduling::affinity(affinity, &path.child("affinity"), errors);
    }
    dns_config(spec.dns_config.as_ref(), text(&spec.dns_policy), &path.child("dnsConfig"), errors);
    for (index, gate) in spec.readiness_gates.iter().flatten().enumerate() {
        let path = path.child("readinessGates").index(index).child("conditionType");
        errors.invalid_each(&path, &gate.condition_type, names::label_key(&gate.condition_type));
    }
    let mut seen = BTreeSet::new();
    for (index, gate) in spec.scheduling_gates.iter().flatten().enumerate() {
        let path = path.child("schedulingGates").index(index);
        errors.invalid_each(&path, &gate.name, names::label_key(&gate.name));
        if !seen.insert(gate.name.as_str()) {
            errors.duplicate(&path, gate.name.as_str());
        }
    }
    let constraints = spec.topology_spread_constraints.as_deref().unwrap_or_default();
    scheduling::topology_spread(constraints, &path.child("topologySpreadConstraints"), errors);
    host_users(spec, path, errors);
    hostname_override(spec, path, errors);
}

fn names_and_numbers(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    for (field, name) in [("serviceAccountName", &spec.service_account_name), ("nodeName", &spec.node_name)] {
        let name = text(name);
        if !name.is_empty() {
            errors.invalid_each(&path.child(field), name, names::dns_subdomain(name));
        }
    }
    let seconds_max = i64::from(i32::MAX);
    if let Some(seconds) = spec.active_deadline_seconds.filter(|seconds| !(1..=seconds_max).contains(seconds)) {
        errors.invalid(&path.child("activeDeadlineSeconds"), seconds, names::not_between(1, seconds_max));
    }
    for (field, name) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        let name = text(name);
        if !name.is_empty() {
            errors.invalid_each(&path.child(field), name, names::dns_label(name));
        }
    }
    scheduling::tolerations(spec.tolerations.as_deref().unwrap_or_default(), &path.child("tolerations"), errors);
    host_aliases(spec.host_aliases.as_deref().unwrap_or_default(), &path.child("hostAliases"), errors);
    let priority_class = text(&spec.priority_class_name);
    if !priority_class.is_empty() {
        errors.invalid_each(&path.child("priorityClassName"), priority_class, names::dns_subdomain(priority_class));
    }
    if let Some(class) = &spec.runtime_class_name {
        errors.invalid_each(&path.child("runtimeClassName"), class, names::dns_subdomain(class));
    }
    let preemption = ["PreemptLowerPriority", "Never"];
    security::optional_choice(&spec.preemption_policy, &preemption, &path.child("preemptionPolicy"), errors);
    if let Some(overhead) = &spec.overhead {
        resources::overhead(overhead, &path.child("overhead"), errors);
    }
    match spec.os.as_ref().map(|os| os.name.as_str()) {
        None | Some("windows") => {}
        Some("linux") => windows_options(spec, path, errors),
        Some("") => errors.required(&path.child("os").child("name"), ""),
        Some(other) => errors.not_supported(&path.child("os"), other, &["linux", "windows"]),
    }
    file_references(spec, path, errors);
}

/// The rules of a pod that is about to be, beyond those of its spec.
fn on_creation(
    spec: &PodSpec,
    init_containers: &[k8s_openapi::api::core::v1::Container],
    path: &FieldPath,
    errors: &mut Errors,
) {
    if text(&spec.service_account_name).is_empty() {
        tokens_without_account(spec, path, errors);
    }
    container::only_for_pods(&spec.containers, &path.child("containers"), errors);
    container::only_for_pods(init_containers, &path.child("initContainers"), errors);
    if spec.ephemeral_containers.as_ref().is_some_and(|containers| !containers.is_empty()) {
        errors.forbidden(&path.child("ephemeralContainers"), "cannot be set on create");
    }
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    if gated && !text(&spec.node_name).is_empty() {
        errors.forbidden(&path.child("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
}

fn tokens_without_account(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let path = path.child("volumes").index(index).child("projected").child("sources");
        let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        for (index, _) in sources.enumerate().filter(|(_, source)| source.service_account_token.is_some()) {
            let path = path.index(index).child("serviceAccountToken");
            errors.forbidden(&path, "must not be specified when serviceAccountName is not set");
        }
    }
}

/// A pod that says it is for Linux has no settings for Windows.
fn windows_options(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    let refused = "windows options cannot be set for a linux pod";
    if spec.security_context.as_ref().is_some_and(|context| context.windows_options.is_some()) {
        errors.forbidden(&path.child("securityContext").child("windowsOptions"), refused);
    }
    let lists = [("initContainers", spec.init_containers.as_ref()), ("containers", Some(&spec.containers))];
    for (field, containers) in lists {
        for (index, container) in containers.into_iter().flatten().enumerate() {
            if container.security_context.as_ref().is_some_and(|context| context.windows_options.is_some()) {
                let path = path.child(field).index(index).child("securityContext").child("windowsOptions");
                errors.forbidden(&path, refused);
            }
        }
    }
}

fn resource_claims(claims: &[PodResourceClaim], path: &FieldPath, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let item = path.index(index);
        if claim.name.is_empty() {
            errors.required(&item.child("name"), "");
        } else if !seen.insert(claim.name.as_str()) {
            errors.duplicate(&item.child("name"), claim.name.as_str());
        } else {
            errors.invalid_each(&item.child("name"), &claim.name, names::dns_label(&claim.name));
        }
        let whole = || serde_json::to_value(claim).unwrap_or(Value::Null);
        match (&claim.resource_claim_name, &claim.resource_claim_template_name) {
            (Some(_), Some(_)) => {
                let detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.invalid(&item, whole(), detail);
            }
            (None, None) => {
                errors.invalid(&item, whole(), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`");
            }
            _ => {}
        }
        for (field, name) in [
            ("resourceClaimName", &claim.resource_claim_name),
            ("resourceClaimTemplateName", &claim.resource_claim_template_name),
        ] {
            if let Some(name) = name {
                errors.invalid_each(&item.child(field), name, names::dns_subdomain(name));
            }
        }
    }
}

fn host_network_ports(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    if spec.host_network != Some(true) {
        return;
    }
    for (index, container) in spec.containers.iter().enumerate() {
        let path = path.child("containers").index(index).child("ports");
        for (index, port) in container.ports.iter().flatten().enumerate() {
            let host_port = port.host_port.unwrap_or_default();
            if host_port != 0 && host_port != port.container_port {
                let path = path.index(index).child("hostPort");
                errors.invalid(&path, host_port, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

fn dns_config(config: Option<&PodDNSConfig>, policy: &str, path: &FieldPath, errors: &mut Errors) {
    let nameservers = config.and_then(|config| config.nameservers.as_deref()).unwrap_or_default();
    if policy == "None" && config.is_none() {
        return errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
    }
    if policy == "None" && nameservers.is_empty() {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        return errors.required(&path.child("nameservers"), detail);
    }
    let Some(config) = config else { return };
    if nameservers.len() > NAMESERVERS_MAX {
        let detail = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        errors.invalid(&path.child("nameservers"), nameservers, detail);
    }
    for (index, address) in nameservers.iter().enumerate() {
        ip_address(address, &path.child("nameservers").index(index), errors);
    }
    let searches = config.searches.as_deref().unwrap_or_default();
    let searches_path = path.child("searches");
    if searches.len() > SEARCHES_MAX {
        let detail = format!("must not have more than {SEARCHES_MAX} search paths");
        errors.invalid(&searches_path, searches, detail);
    }
    if searches.join(" ").len() > SEARCH_CHARACTERS_MAX {
        let detail =
            format!("must not have more than {SEARCH_CHARACTERS_MAX} characters (including spaces) in the search list");
        errors.invalid(&searches_path, searches, detail);
    }
    for (index, search) in searches.iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        errors.invalid_each(&searches_path.index(index), search, names::dns_subdomain_with_underscore(search));
    }
    for (index, option) in config.options.iter().flatten().enumerate() {
        if text(&option.name).is_empty() {
            errors.required(&path.child("options").index(index), "must not be empty");
        }
    }
}

/// An address as the API takes it today: no leading zeros, no IPv4 in the clothes of IPv6.
fn ip_address(address: &str, path: &FieldPath, errors: &mut Errors) {
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(address_v6)) if Ipv6Addr::to_ipv4_mapped(&address_v6).is_some() => {
            errors.invalid(path, address, "must not be an IPv4-mapped IPv6 address");
        }
        Ok(_) => {}
        Err(_) => {
            let stripped: Option<Vec<u8>> = address.split('.').map(octet).collect();
            let has_zeros = stripped.is_some_and(|octets| octets.len() == 4);
            let detail = if has_zeros {
                "must not have leading 0s"
            } else {
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            };
            errors.invalid(path, address, detail);
        }
    }
}

fn octet(text: &str) -> Option<u8> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match text.trim_start_matches('0') {
        "" => Some(0),
        digits => digits.parse().ok(),
    }
}

fn host_aliases(aliases: &[HostAlias], path: &FieldPath, errors: &mut Errors) {
    for (index, alias) in aliases.iter().enumerate() {
        let path = path.index(index);
        ip_address(&alias.ip, &path.child("ip"), errors);
        for (index, hostname) in alias.hostnames.iter().flatten().enumerate() {
            errors.invalid_each(&path.child("hostnames").index(index), hostname, names::dns_subdomain(hostname));
        }
    }
}

/// Upstream restricts user namespaces beside the host's other namespaces, and spells these fields with capitals. The host's
/// network is a matter of a gate (`manifest::gates`).
fn host_users(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    if spec.host_users != Some(false) {
        return;
    }
    for (field, is_host) in [("HostPID", spec.host_pid), ("HostIPC", spec.host_ipc)] {
        if is_host == Some(true) {
            errors.forbidden(&path.child(field), "when `hostUsers` is false");
        }
    }
    let lists = [("containers", Some(&spec.containers)), ("initContainers", spec.init_containers.as_ref())];
    for (field, containers) in lists {
        for (index, container) in containers.into_iter().flatten().enumerate() {
            if container.volume_devices.as_ref().is_some_and(|devices| !devices.is_empty()) {
                let path = path.child(field).index(index).child("volumeDevices");
                errors.forbidden(&path, "when `hostUsers` is false");
            }
        }
    }
}

fn hostname_override(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    let Some(name) = &spec.hostname_override else { return };
    let path = path.child("hostnameOverride");
    if spec.set_hostname_as_fqdn == Some(true) {
        errors.forbidden(&path, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.host_network == Some(true) {
        errors.forbidden(&path, "may not be specified when hostNetwork is true");
    }
    if name.len() > HOSTNAME_OVERRIDE_MAX {
        errors.too_long(&path, HOSTNAME_OVERRIDE_MAX);
    }
    errors.invalid_each(&path, name, names::dns_subdomain(name));
}

/// Variables from files need an empty directory that exists.
fn file_references(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    let volumes: BTreeMap<&str, &Volume> =
        spec.volumes.iter().flatten().map(|volume| (volume.name.as_str(), volume)).collect();
    let lists = [("initContainers", spec.init_containers.as_ref()), ("containers", Some(&spec.containers))];
    for (field, containers) in lists {
        for (index, container) in containers.into_iter().flatten().enumerate() {
            for (variable, source) in container.env.iter().flatten().enumerate() {
                let Some(file) = source.value_from.as_ref().and_then(|from| from.file_key_ref.as_ref()) else {
                    continue;
                };
                let path = path.child(field).index(index).child("env").index(variable);
                let path = path.child("valueFrom").child("fileKeyRef").child("volumeName");
                match volumes.get(file.volume_name.as_str()) {
                    None => errors.not_found(&path, &file.volume_name, ""),
                    Some(volume) if volume.empty_dir.is_none() => {
                        let detail = "referenced volume must be of type emptyDir";
                        errors.invalid(&path, file.volume_name.as_str(), detail);
                    }
                    Some(_) => {}
                }
            }
        }
    }
}
