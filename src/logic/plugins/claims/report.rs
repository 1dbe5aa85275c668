//! Claims as PodResources and metrics have them: the health of devices in a container's status (RES-51), and the devices of
//! a container in PodResources (RES-53).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, ResourceHealth, ResourceStatus};

use super::book::{ClaimBook, ClaimInfo};
use super::health::HealthBook;
use super::pod_claims::{claim_named, extended_of};
use super::{ClaimGates, ClaimKey, PreparedDevice};
use crate::logic::model::time::Moment;

/// The health of a pod's devices, by the container's name: entries of `allocatedResourcesStatus`.
pub type HealthByContainer = Vec<(String, Vec<ResourceStatus>)>;

/// The health of all devices that the pod's containers have of claims, as far as the gates show it. Only containers that name
/// claims have any.
pub fn health_of(
    pod: &Pod,
    book: &ClaimBook,
    health: &HealthBook,
    gates: ClaimGates,
    now: Moment,
) -> HealthByContainer {
    let containers = pod.spec.iter().filter(|_| gates.health).flat_map(|spec| &spec.containers);
    let of = |container: &Container| {
        let mut entries = container_health(pod, container, book, health, now);
        if !gates.health_messages {
            let devices = entries.iter_mut().flat_map(|entry| entry.resources.iter_mut().flatten());
            devices.for_each(|device| device.message = None);
        }
        (!entries.is_empty()).then(|| (container.name.clone(), entries))
    };
    containers.filter_map(of).collect()
}

fn container_health(
    pod: &Pod,
    container: &Container,
    book: &ClaimBook,
    health: &HealthBook,
    now: Moment,
) -> Vec<ResourceStatus> {
    let used = container.resources.as_ref().and_then(|resources| resources.claims.as_deref()).unwrap_or_default();
    let mut entries: Vec<ResourceStatus> = vec![];
    for claim in used {
        let request = claim.request.as_deref().unwrap_or_default();
        let Some(info) = claim_named(pod, &claim.name).and_then(|key| book.get(&key)) else { continue };
        let slash = if request.is_empty() { "" } else { "/" };
        let name = format!("claim:{}{slash}{request}", claim.name);
        let resources = device_health(info, request, health, now);
        if !resources.is_empty() && entries.iter().all(|entry| entry.name != name) {
            entries.push(ResourceStatus { name, resources: Some(resources) });
        }
    }
    entries
}

fn device_health(info: &ClaimInfo, request: &str, health: &HealthBook, now: Moment) -> Vec<ResourceHealth> {
    let mut seen = BTreeSet::new();
    let mut found = vec![];
    for (driver, devices) in &info.drivers {
        for device in devices.iter().filter(|device| device.is_for(request)) {
            let resource_id = resource_id(driver, device);
            // Devices that the runtime knows by one name are one to whoever reads the status.
            if seen.insert(resource_id.clone()) {
                let (state, message) = health.of(driver, &device.pool_name, &device.device_name, now);
                let (health, message) = (Some(state.to_string()), message.map(str::to_owned));
                found.push(ResourceHealth { health, message, resource_id });
            }
        }
    }
    found
}

fn resource_id(driver: &str, device: &PreparedDevice) -> String {
    let own = || format!("{driver}/{}/{}", device.pool_name, device.device_name);
    device.cdi_device_ids.first().cloned().unwrap_or_else(own)
}

/// Puts entries into a container's status. Entries of the same names give way to them, all others stay.
pub fn put_resource_health(status: &mut ContainerStatus, entries: &[ResourceStatus]) {
    if entries.is_empty() {
        return;
    }
    let all = status.allocated_resources_status.get_or_insert_default();
    all.retain(|old| entries.iter().all(|new| new.name != old.name));
    all.extend(entries.iter().cloned());
    all.sort_by(|one, other| one.name.cmp(&other.name));
}

/// The claims that a container has devices of, for PodResources.
pub fn claims_of_container<'a>(pod: &Pod, container: &Container, book: &'a ClaimBook) -> Vec<&'a ClaimInfo> {
    let used = container.resources.as_ref().and_then(|resources| resources.claims.as_deref()).unwrap_or_default();
    let entries = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
    let named = entries.filter(|entry| used.iter().any(|claim| claim.name == entry.name));
    let mut keys: Vec<ClaimKey> = named.filter_map(|entry| claim_named(pod, &entry.name)).collect();
    keys.extend(extended_of(pod, &container.name));
    keys.iter().filter_map(|key| book.get(key)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::logic::model::ids::PodUid;
    use crate::logic::plugins::claims::ClaimId;
    use crate::logic::plugins::claims::health::{DeviceHealth, Health};

    fn device(name: &str, request: &str, cdi: &[&str]) -> PreparedDevice {
        PreparedDevice {
            pool_name: "n".to_owned(),
            device_name: name.to_owned(),
            share_id: None,
            request_names: vec![request.to_owned()],
            cdi_device_ids: cdi.iter().map(|id| (*id).to_owned()).collect(),
        }
    }

    fn setup() -> (Pod, ClaimBook) {
        let resources = json!({ "claims": [{ "name": "a", "request": "gpu/big" }, { "name": "a" }, { "name": "z" }] });
        let pod = serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "ns", "uid": "u" },
            "spec": {
                "containers": [{ "name": "c", "resources": resources }, { "name": "d" }],
                "resourceClaims": [{ "name": "a", "resourceClaimName": "x" }],
            },
        }));
        let key = ClaimKey { namespace: "ns".to_owned(), name: "x".to_owned() };
        let devices =
            vec![device("0", "gpu", &["v.com/c=0"]), device("1", "nic", &[]), device("2", "nic", &["v.com/c=0"])];
        let book = ClaimBook::of([ClaimInfo {
            id: ClaimId { key, uid: "1".to_owned() },
            pods: BTreeSet::from([PodUid::from("u")]),
            drivers: BTreeMap::from([("d".to_owned(), devices)]),
            prepared: true,
        }]);
        (pod.expect("a pod"), book)
    }

    /// RES-51.
    #[test]
    fn a_status_names_each_device_once_by_what_the_container_asked_for() {
        let (pod, book) = setup();
        let mut health = HealthBook::default();
        let (pool_name, device_name) = ("n".to_owned(), "0".to_owned());
        let told =
            DeviceHealth { pool_name, device_name, health: Health::Unhealthy, holds_seconds: 0, message: "hot".into() };
        health.take("d", 1, vec![told], Moment(0));
        let shown = |gates| health_of(&pod, &book, &health, gates, Moment(0));
        let found = shown(ClaimGates::default());
        let [(container, entries)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(container, "c");
        let hot = json!({ "resourceID": "v.com/c=0", "health": "Unhealthy", "message": "hot" });
        let unknown = json!({ "resourceID": "d/n/1", "health": "Unknown" });
        assert_eq!(
            serde_json::to_value(entries).expect("printed"),
            json!([
                { "name": "claim:a/gpu/big", "resources": [hot] },
                { "name": "claim:a", "resources": [hot, unknown] },
            ])
        );
        let silent = shown(ClaimGates { health_messages: false, ..ClaimGates::default() });
        let messages =
            silent.iter().flat_map(|(_, entries)| entries.iter().flat_map(|entry| entry.resources.iter().flatten()));
        assert_eq!(messages.map(|device| device.message.as_deref()).collect::<Vec<_>>(), [None; 3]);
        assert_eq!(shown(ClaimGates { health: false, ..ClaimGates::default() }), []);
        let mut status = ContainerStatus::default();
        let other = ResourceStatus { name: "vendor.com/nic".to_owned(), resources: Some(vec![]) };
        status.allocated_resources_status = Some(vec![other]);
        put_resource_health(&mut status, entries);
        put_resource_health(&mut status, entries);
        let names: Vec<String> =
            status.allocated_resources_status.into_iter().flatten().map(|entry| entry.name).collect();
        assert_eq!(names, ["claim:a", "claim:a/gpu/big", "vendor.com/nic"]);
    }

    /// RES-53.
    #[test]
    fn a_container_has_the_claims_that_it_names() {
        let (pod, book) = setup();
        let containers = &pod.spec.as_ref().expect("a spec").containers;
        assert_eq!(claims_of_container(&pod, &containers[0], &book).len(), 1);
        assert_eq!(claims_of_container(&pod, &containers[1], &book).len(), 0);
    }
}
