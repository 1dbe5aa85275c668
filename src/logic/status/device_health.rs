//! The health of devices in the statuses of their containers (`allocatedResourcesStatus`, RES-46, KEP-4680).
//!
//! Pure. As upstream, containers of the pod's main list alone show it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PodStatus, ResourceHealth, ResourceStatus};

use crate::logic::model::ids::PodUid;
use crate::logic::resources::device_manager::DeviceHealth;
use crate::logic::resources::device_manager::devices::Health;

/// The health of the devices that pods own, by the container's name.
pub type PodDevices = BTreeMap<String, DeviceHealth>;
/// Of all pods that own devices.
pub type DevicesOfPods = BTreeMap<PodUid, PodDevices>;

/// The status with the health of the pod's devices. Shares the status where that is nothing new.
pub fn with_device_health(status: &Arc<PodStatus>, devices: &PodDevices) -> Arc<PodStatus> {
    let mut shown = PodStatus::clone(status);
    for container in shown.container_statuses.iter_mut().flatten() {
        let Some(health) = devices.get(&container.name) else { continue };
        let all = container.allocated_resources_status.get_or_insert_default();
        for (name, devices) in health {
            let resource = |(id, health): (&String, &Health)| ResourceHealth {
                health: Some(health.to_string()),
                resource_id: id.clone(),
                ..ResourceHealth::default()
            };
            let resources = Some(devices.iter().map(resource).collect());
            match all.iter_mut().find(|known| known.name == *name) {
                Some(known) => known.resources = resources,
                None => all.push(ResourceStatus { name: name.clone(), resources }),
            }
        }
    }
    if shown == **status { Arc::clone(status) } else { Arc::new(shown) }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ContainerStatus;

    use super::*;

    /// RES-46: the words are the API's, and a container without devices shows nothing.
    #[test]
    fn devices_show_in_the_status_of_their_container() {
        let container = |name: &str| ContainerStatus { name: name.to_owned(), ..ContainerStatus::default() };
        let status =
            PodStatus { container_statuses: Some(vec![container("a"), container("b")]), ..PodStatus::default() };
        let status = Arc::new(status);
        let of = |health| -> PodDevices {
            let devices = [("g0".to_owned(), Health::Healthy), ("g1".to_owned(), health)].into();
            [("b".to_owned(), [("vendor.com/gpu".to_owned(), devices)].into())].into()
        };
        let shown = with_device_health(&status, &of(Health::Unhealthy));
        let containers = shown.container_statuses.as_deref().expect("two");
        assert_eq!(containers[0].allocated_resources_status, None);
        let json = serde_json::to_value(&containers[1].allocated_resources_status).expect("data");
        let expected = serde_json::json!([{"name": "vendor.com/gpu", "resources": [
            {"resourceID": "g0", "health": "Healthy"}, {"resourceID": "g1", "health": "Unhealthy"}
        ]}]);
        assert_eq!(json, expected);
        assert!(Arc::ptr_eq(&with_device_health(&shown, &of(Health::Unhealthy)), &shown), "that is nothing new");
        let well = with_device_health(&shown, &of(Health::Healthy));
        let all = well.container_statuses.as_ref().and_then(|all| all[1].allocated_resources_status.as_ref());
        assert_eq!(all.map(Vec::len), Some(1), "the entry is replaced");
    }
}
