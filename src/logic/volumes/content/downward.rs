//! Files of the downward API (VOL-25): fields of the pod and its containers' resources as text.

use k8s_openapi::api::core::v1::{Container, DownwardAPIVolumeFile, Pod, ResourceFieldSelector};

use super::payload::{Payload, PayloadError, clean, permission_bits};
use crate::logic::environment::field_path::{Addresses, field_value};
use crate::logic::model::quantity::Quantity;
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

/// A request or limit of a container as a volume tells it: a missing limit is what the node has for pods, as upstream also
/// in a pod with limits of its own.
///
/// # Errors
/// Upstream's text for a container or resource that is none.
pub fn resource_value(
    selector: &ResourceFieldSelector,
    pod: &Pod,
    allocatable: &ResourceList,
) -> Result<String, String> {
    let (container, _) = find(pod, selector.container_name.as_deref().unwrap_or_default())?;
    value_of(selector, container, Some(allocatable))
}

/// A request or limit as a variable of the container `own` tells it: its own where the selector names none, also where the
/// pod's lists do not have it. A missing limit is the pod's own (KEP-2837), else what the node has for pods; but, as
/// upstream, nothing of an init container that is named.
///
/// # Errors
/// Upstream's text for a container or resource that is none.
pub fn variable_value(
    selector: &ResourceFieldSelector,
    pod: &Pod,
    own: &Container,
    allocatable: &ResourceList,
) -> Result<String, String> {
    let (container, has_bounds) = match selector.container_name.as_deref() {
        None | Some("") => (own, true),
        Some(name) => find(pod, name).map(|(container, is_init)| (container, !is_init))?,
    };
    value_of(selector, container, has_bounds.then(|| bounds(pod, allocatable)).as_ref())
}

/// Divided by the selector's divisor and rounded up; what is in `bounds` stands for limits that are missing.
fn value_of(
    selector: &ResourceFieldSelector,
    container: &Container,
    bounds: Option<&ResourceList>,
) -> Result<String, String> {
    let unsupported = || format!("unsupported container resource : {}", selector.resource);
    let (list, resource) = match selector.resource.split_once('.').ok_or_else(unsupported)? {
        ("limits", resource) => (limits(container, bounds), resource),
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

/// The most that the pod's containers have together. As upstream, the pod's limit counts only of what the node has.
fn bounds(pod: &Pod, allocatable: &ResourceList) -> ResourceList {
    let own = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let own = resource_list(own.and_then(|resources| resources.limits.as_ref()));
    let mut bounds = allocatable.clone();
    for name in [CPU, MEMORY] {
        if let (Some(bound), Some(limit)) = (bounds.get_mut(name), own.get(name).filter(|limit| !limit.is_zero())) {
            *bound = *limit;
        }
    }
    bounds
}

fn limits(container: &Container, bounds: Option<&ResourceList>) -> ResourceList {
    let mut limits = container_limits(container);
    for name in BOUNDED_BY_NODE {
        let missing = limits.get(name).is_none_or(Quantity::is_zero);
        if let (true, Some(bound)) = (missing, bounds.and_then(|bounds| bounds.get(name))) {
            limits.insert(name.to_owned(), *bound);
        }
    }
    limits
}

/// The container of this name, and whether it is an init container.
fn find<'a>(pod: &'a Pod, name: &str) -> Result<(&'a Container, bool), String> {
    let spec = pod.spec.as_ref();
    let regular = spec.iter().flat_map(|spec| &spec.containers).map(|container| (container, false));
    let init = spec.iter().flat_map(|spec| spec.init_containers.iter().flatten()).map(|container| (container, true));
    let found = regular.chain(init).find(|(container, _)| container.name == name);
    found.ok_or_else(|| format!("container {name} not found"))
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

    /// VOL-25, CRI-13: as upstream, a volume does not know limits of the whole pod, a variable does, but for an init
    /// container that it names; without a name it is about the container itself, whatever the pod's lists have.
    #[test]
    fn missing_limits_of_variables_are_the_pods_own() {
        let mut pod = pod();
        let limits = BTreeMap::from([("cpu".to_owned(), ApiQuantity("2".into()))]);
        let spec = pod.spec.as_mut().unwrap();
        spec.resources = Some(ResourceRequirements { limits: Some(limits), ..ResourceRequirements::default() });
        spec.init_containers = Some(vec![Container { name: "init".into(), ..Container::default() }]);
        let debugger = Container { name: "debugger".into(), ..Container::default() };
        let selector = |name: Option<&str>, resource: &str| ResourceFieldSelector {
            container_name: name.map(str::to_owned),
            divisor: None,
            resource: resource.into(),
        };
        let cases = [
            (None, "limits.cpu", "2"),
            (Some(""), "limits.ephemeral-storage", "96636764160"),
            (Some("web"), "limits.cpu", "2"),
            (Some("web"), "limits.memory", "67108864"),
            (Some("init"), "limits.cpu", "0"),
        ];
        for (name, resource, expected) in cases {
            let found = variable_value(&selector(name, resource), &pod, &debugger, &allocatable());
            assert_eq!(found, Ok(expected.into()), "{name:?} {resource}");
        }
        for name in ["web", "init"] {
            assert_eq!(resource_value(&selector(Some(name), "limits.cpu"), &pod, &allocatable()), Ok("4".into()));
        }
        let named = variable_value(&selector(Some("debugger"), "limits.cpu"), &pod, &debugger, &allocatable());
        assert_eq!(named, Err("container debugger not found".into()));
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
