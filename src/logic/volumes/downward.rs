//! Files of the downward API (VOL-25): fields of the pod and its containers' resources as text.

use k8s_openapi::api::core::v1::{Container, DownwardAPIVolumeFile, Pod, ResourceFieldSelector};

use super::payload::{Payload, PayloadError, clean, permission_bits};
use crate::logic::field_path::{Addresses, field_value};
use crate::logic::quantity::Quantity;
use crate::logic::resources::{CPU, MEMORY, ResourceList, container_limits, container_requests, resource_list};

/// Resources whose missing limit is what the node has for pods.
const BOUNDED_BY_NODE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The files of a downward API volume. `allocatable` is what the node has for pods.
///
/// # Errors
/// All fields that have no value, each with upstream's text.
pub fn downward_payload(
    items: &[DownwardAPIVolumeFile],
    pod: &Pod,
    default_mode: Option<i32>,
    allocatable: &ResourceList,
) -> Result<Payload, PayloadError> {
    let default_mode = default_mode.ok_or(PayloadError::NoDefaultMode)?;
    let mut payload = Payload::default();
    let mut errors = Vec::new();
    for file in items {
        let value = match (&file.field_ref, &file.resource_field_ref) {
            // No addresses: files may not name fields of the status, which change while the file does not.
            (Some(field), _) => field_value(field, pod, &Addresses::default()).map_err(|error| error.to_string()),
            (None, Some(selector)) => resource_value(selector, pod, allocatable),
            (None, None) => Ok(String::new()),
        };
        match value {
            Ok(text) => {
                let path = if file.path.starts_with('/') { file.path.clone() } else { clean(&file.path) };
                payload.insert(&path, text.into_bytes(), permission_bits(file.mode.unwrap_or(default_mode)), None);
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(payload) } else { Err(PayloadError::Several(errors)) }
}

/// A request or limit of a container, divided by the selector's divisor and rounded up.
///
/// # Errors
/// Upstream's text for a container or resource that is none.
pub fn resource_value(
    selector: &ResourceFieldSelector,
    pod: &Pod,
    allocatable: &ResourceList,
) -> Result<String, String> {
    let name = selector.container_name.as_deref().unwrap_or_default();
    let container = find(pod, name).ok_or_else(|| format!("container {name} not found"))?;
    let unsupported = || format!("unsupported container resource : {}", selector.resource);
    let (list, resource) = match selector.resource.split_once('.').ok_or_else(unsupported)? {
        ("limits", resource) => (limits(pod, container, allocatable), resource),
        ("requests", resource) => (container_requests(container), resource),
        _ => return Err(unsupported()),
    };
    if !BOUNDED_BY_NODE.contains(&resource) && !resource.starts_with("hugepages-") {
        return Err(unsupported());
    }
    let amount = list.get(resource).copied().unwrap_or(Quantity::ZERO);
    let one = Quantity::from_milli(1000);
    let divisor = selector.divisor.as_ref().and_then(|divisor| Quantity::parse(&divisor.0).ok());
    let divisor = divisor.filter(|divisor| divisor.is_positive()).unwrap_or(one);
    let (amount, divisor) = if resource == "cpu" {
        (amount.milli_value(), divisor.milli_value())
    } else {
        (amount.value(), divisor.value())
    };
    Ok(rounded_up(amount, divisor).to_string())
}

/// `divisor` is more than nothing.
fn rounded_up(amount: i64, divisor: i64) -> i64 {
    let whole = amount / divisor;
    if amount % divisor > 0 { whole.saturating_add(1) } else { whole }
}

/// A limit that the container does not have is the pod's own (KEP-2837), else the node's.
fn limits(pod: &Pod, container: &Container, allocatable: &ResourceList) -> ResourceList {
    let mut limits = container_limits(container);
    let own = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let own = resource_list(own.and_then(|resources| resources.limits.as_ref()));
    for name in BOUNDED_BY_NODE {
        let missing = limits.get(name).is_none_or(Quantity::is_zero);
        let of_pod = own.get(name).filter(|limit| !limit.is_zero() && [CPU, MEMORY].contains(&name));
        // As upstream, the pod's limit counts only of what the node has.
        if let (true, Some(node)) = (missing, allocatable.get(name)) {
            limits.insert(name.to_owned(), *of_pod.unwrap_or(node));
        }
    }
    limits
}

fn find<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.containers.iter().chain(spec.init_containers.iter().flatten()).find(|container| container.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{ObjectFieldSelector, PodSpec, ResourceRequirements};
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn pod() -> Pod {
        let list = |entries: &[(&str, &str)]| {
            Some(entries.iter().map(|(name, text)| ((*name).to_owned(), ApiQuantity((*text).to_owned()))).collect())
        };
        let container = Container {
            name: "web".into(),
            resources: Some(ResourceRequirements {
                limits: list(&[("memory", "64Mi")]),
                requests: list(&[("cpu", "250m"), ("hugepages-2Mi", "4Mi")]),
                ..ResourceRequirements::default()
            }),
            ..Container::default()
        };
        Pod {
            metadata: ObjectMeta {
                labels: Some(BTreeMap::from([("b".into(), "2".into()), ("a".into(), "1".into())])),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
            status: None,
        }
    }

    fn allocatable() -> ResourceList {
        [("cpu", "3500m"), ("memory", "8Gi"), ("ephemeral-storage", "90Gi"), ("hugepages-2Mi", "1Gi")]
            .into_iter()
            .map(|(name, text)| (name.to_owned(), Quantity::parse(text).unwrap()))
            .collect()
    }

    /// VOL-25.
    #[test]
    fn resources_are_divided_and_rounded_up() {
        let cases = [
            ("limits.memory", "", "67108864"),
            ("limits.memory", "1Mi", "64"),
            ("limits.memory", "1G", "1"),
            ("requests.cpu", "", "1"),
            ("requests.cpu", "1m", "250"),
            ("requests.memory", "", "0"),
            ("requests.hugepages-2Mi", "1Mi", "4"),
            // No limit: what the node has for pods.
            ("limits.cpu", "", "4"),
            ("limits.cpu", "1m", "3500"),
            ("limits.ephemeral-storage", "1Gi", "90"),
            // Huge pages are never more than what was asked for.
            ("limits.hugepages-2Mi", "", "0"),
        ];
        for (resource, divisor, expected) in cases {
            let selector = ResourceFieldSelector {
                container_name: Some("web".into()),
                divisor: (!divisor.is_empty()).then(|| ApiQuantity(divisor.into())),
                resource: resource.into(),
            };
            assert_eq!(
                resource_value(&selector, &pod(), &allocatable()),
                Ok(expected.into()),
                "{resource} / {divisor}"
            );
        }
    }

    #[test]
    fn unknown_containers_and_resources_are_named() {
        let of = |container: &str, resource: &str| {
            let selector = ResourceFieldSelector {
                container_name: Some(container.into()),
                divisor: None,
                resource: resource.into(),
            };
            resource_value(&selector, &pod(), &allocatable()).unwrap_err()
        };
        assert_eq!(of("db", "limits.cpu"), "container db not found");
        assert_eq!(of("web", "limits.gpu"), "unsupported container resource : limits.gpu");
        assert_eq!(of("web", "cpu"), "unsupported container resource : cpu");
    }

    /// VOL-25.
    #[test]
    fn files_hold_fields_and_all_bad_ones_are_told() {
        let file = |path: &str, field: &str, mode: Option<i32>| DownwardAPIVolumeFile {
            path: path.into(),
            field_ref: Some(ObjectFieldSelector { api_version: None, field_path: field.into() }),
            mode,
            resource_field_ref: None,
        };
        let good = [file("labels", "metadata.labels", None), file("k8s//one", "metadata.labels['a']", Some(0o400))];
        let payload = downward_payload(&good, &pod(), Some(0o644), &allocatable()).unwrap();
        let shown: Vec<_> =
            payload.files.iter().map(|(path, file)| (path.as_str(), &*file.content, file.mode)).collect();
        let expected: [(&str, &[u8], u32); 2] = [("k8s/one", b"1", 0o400), ("labels", b"a=\"1\"\nb=\"2\"", 0o644)];
        assert_eq!(shown, expected);
        let bad = [file("x", "status.phase", None), file("y", "spec.nope", None)];
        let error = downward_payload(&bad, &pod(), Some(0o644), &allocatable()).unwrap_err().to_string();
        assert_eq!(error, "[unsupported fieldPath: status.phase, field label not supported: spec.nope]");
    }
}
