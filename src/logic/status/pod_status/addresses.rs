//! The addresses of a pod and of its host (POD-29).

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{HostIP, PodIP, PodSpec, PodStatus};

use super::{StatusInput, non_empty};
use crate::logic::model::runtime_pod::SandboxState;

/// Sets the addresses of a status.
pub(super) fn set(status: &mut PodStatus, input: &StatusInput<'_>, spec: &PodSpec) {
    set_hosts(status, input);
    let ips = if spec.host_network.unwrap_or(false) { on_the_host(input) } else { on_the_pod_network(input) };
    status.pod_ip = ips.first().cloned();
    status.pod_ips = non_empty(ips.into_iter().map(|ip| PodIP { ip }).collect());
}

/// The host's are what they are now; while they are not known, those in the status stay.
fn set_hosts(status: &mut PodStatus, input: &StatusInput<'_>) {
    if input.node.host.problem().is_some() {
        let before = input.before();
        status.host_ip = before.and_then(|before| before.host_ip.clone());
        status.host_ips = before.and_then(|before| before.host_ips.clone());
        return;
    }
    status.host_ip = input.node.host.primary().map(|ip| ip.to_string());
    status.host_ips = non_empty(input.node.host.reported().map(|ip| HostIP { ip: ip.to_string() }).collect());
}

/// At most one of each family, that of `--node-ip` first. They outlive the sandbox.
fn on_the_pod_network(input: &StatusInput<'_>) -> Vec<String> {
    let ips = runtime_ips(input);
    let any_ready = input.runtime.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready);
    if !ips.is_empty() || any_ready { ips } else { published_ips(input).map(str::to_owned).collect() }
}

/// The addresses of a pod on the host's network. The runtime mostly leaves them to the agent: then they are the host's.
/// Those in the status stay as long as the host has them. So nobody loses the pod because addresses changed places; one of
/// the other family is added when the host gets one. An address that the host lost leads nowhere and gives way: upstream
/// shows it until something happens to one of the pod's containers.
fn on_the_host(input: &StatusInput<'_>) -> Vec<String> {
    let stays = |ip: &&str| input.node.host.problem().is_some() || ip.parse().is_ok_and(|ip| input.node.host.has(ip));
    let mut ips = runtime_ips(input);
    if ips.is_empty() {
        ips = published_ips(input).take_while(stays).map(str::to_owned).collect();
    }
    let mut host = input.node.host.reported();
    let (primary, secondary) = (host.next(), host.next());
    if ips.is_empty() {
        ips.extend(primary.map(|ip| ip.to_string()));
    }
    let is_sixth = |ip: &String| ip.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6());
    if let ([only], Some(other)) = (ips.as_slice(), secondary)
        && is_sixth(only) != other.is_ipv6()
    {
        ips.push(other.to_string());
    }
    ips
}

/// The runtime's addresses of the newest sandbox, if that is ready.
fn runtime_ips(input: &StatusInput<'_>) -> Vec<String> {
    let newest = input.runtime.sandbox().filter(|sandbox| sandbox.state == SandboxState::Ready);
    let ips = newest.into_iter().flat_map(|sandbox| &sandbox.ips).filter_map(|ip| ip.parse::<IpAddr>().ok());
    let first_of = |sixth: bool| ips.clone().find(|ip| ip.is_ipv6() == sixth);
    let ordered = [first_of(input.node.prefer_ipv6), first_of(!input.node.prefer_ipv6)];
    ordered.into_iter().flatten().map(|ip| ip.to_string()).collect()
}

fn published_ips<'a>(input: &StatusInput<'a>) -> impl Iterator<Item = &'a str> {
    let shown = input.before().and_then(|before| before.pod_ips.as_ref());
    shown.into_iter().flatten().map(|shown| shown.ip.as_str())
}

/// The Event's message when a pod's host is now known by an address of the other family than before: what the agent found
/// itself and what a cloud provider set differ.
pub fn family_mismatch(before: &PodStatus, now: &PodStatus) -> Option<String> {
    let family = |ip: IpAddr| if ip.is_ipv6() { 6 } else { 4 };
    let parsed = |status: &PodStatus| status.host_ip.as_ref()?.parse::<IpAddr>().ok();
    let (own, chosen) = (parsed(before)?, parsed(now)?);
    (family(own) != family(chosen)).then(|| {
        format!(
            "Kubelet detected an IPv{} node IP ({own}), but the cloud provider selected an IPv{} node IP ({chosen}); \
             pass an explicit `--node-ip` to kubelet to fix this.",
            family(own),
            family(chosen)
        )
    })
}
