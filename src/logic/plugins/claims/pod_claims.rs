//! Which claims a pod has, and what its containers ask of them (RES-48).
//!
//! A claim has a name of its own, or a template made it: then the pod's status says its name. A template may make none on
//! purpose. Extended resources that drivers serve are one more claim, which the scheduler made.

use k8s_openapi::api::core::v1::{Container, Pod, PodResourceClaim, PodStatus};

use super::check::ClaimError;
use super::{ClaimKey, WantedClaim};
use crate::logic::model::quantity::Quantity;
use crate::logic::resources::is_extended;

/// The beginning of names of resources that stand for a class of devices.
pub const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Whether the pod may have claims. Nobody asks about a pod without.
pub fn has_claims(pod: &Pod) -> bool {
    let in_spec = pod.spec.as_ref().and_then(|spec| spec.resource_claims.as_ref());
    in_spec.is_some_and(|claims| !claims.is_empty()) || extended_claim(pod).is_some()
}

/// The name of the claim for the pod's extended resources.
fn extended_claim(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref()?.extended_resource_claim_status.as_ref()?;
    Some(status.resource_claim_name.as_str())
}

fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}

fn key(pod: &Pod, name: &str) -> ClaimKey {
    ClaimKey { namespace: namespace(pod).to_owned(), name: name.to_owned() }
}

/// The claim that an entry of the pod means (upstream's `resourceclaim.Name`); `None` where none was made on purpose.
fn resolve(pod: &Pod, entry: &PodResourceClaim) -> Result<Option<WantedClaim>, ClaimError> {
    let place = || (namespace(pod).to_owned(), pod.metadata.name.clone().unwrap_or_default());
    if let Some(name) = &entry.resource_claim_name {
        return Ok(Some(WantedClaim { key: key(pod, name), is_generated: false }));
    }
    if entry.resource_claim_template_name.is_none() {
        let (namespace, pod) = place();
        return Err(ClaimError::Unsupported { namespace, pod, claim: entry.name.clone() });
    }
    let told = |status: &PodStatus| status.resource_claim_statuses.clone().unwrap_or_default();
    let made = pod.status.as_ref().map(told).unwrap_or_default().into_iter().find(|made| made.name == entry.name);
    let made = made.ok_or_else(|| {
        let (namespace, pod) = place();
        ClaimError::NotCreated { namespace, pod }
    })?;
    Ok(made.resource_claim_name.map(|name| WantedClaim { key: key(pod, &name), is_generated: true }))
}

fn entries(pod: &Pod) -> &[PodResourceClaim] {
    pod.spec.as_ref().and_then(|spec| spec.resource_claims.as_deref()).unwrap_or_default()
}

/// All claims of the pod, each once, in the pod's order.
///
/// # Errors
/// One that is not there yet, or that the pod's status does not name.
pub fn wanted_claims(pod: &Pod) -> Result<Vec<WantedClaim>, ClaimError> {
    let mut wanted: Vec<WantedClaim> = vec![];
    let extended = extended_claim(pod).map(|name| WantedClaim { key: key(pod, name), is_generated: false });
    let named = entries(pod).iter().filter_map(|entry| resolve(pod, entry).transpose());
    for claim in named.chain(extended.map(Ok)) {
        let claim = claim?;
        match wanted.iter_mut().find(|other| other.key == claim.key) {
            Some(other) => other.is_generated |= claim.is_generated,
            None => wanted.push(claim),
        }
    }
    Ok(wanted)
}

/// The claim that a container means by a name of the pod's list; `None` where there is none.
pub fn claim_named(pod: &Pod, name: &str) -> Option<ClaimKey> {
    let entry = entries(pod).iter().find(|entry| entry.name == name)?;
    resolve(pod, entry).ok().flatten().map(|claim| claim.key)
}

/// The requests that a container has of each claim, in the pod's order; an empty name is all of a claim.
///
/// # Errors
/// A claim that is not there yet, or that the pod's status does not name.
pub fn container_requests(pod: &Pod, container: &Container) -> Result<Vec<(ClaimKey, Vec<String>)>, ClaimError> {
    let used = container.resources.as_ref().and_then(|resources| resources.claims.as_deref()).unwrap_or_default();
    let mut found = vec![];
    for entry in entries(pod) {
        let mine = used.iter().filter(|claim| claim.name == entry.name);
        let requests: Vec<String> = mine.map(|claim| claim.request.clone().unwrap_or_default()).collect();
        if requests.is_empty() {
            continue;
        }
        if let Some(claim) = resolve(pod, entry)? {
            found.push((claim.key, requests));
        }
    }
    let extended = extended_requests(pod, container);
    if let Some(name) = extended_claim(pod).filter(|_| !extended.is_empty()) {
        found.push((key(pod, name), extended));
    }
    Ok(found)
}

/// The requests of the claim for extended resources that serve this container.
fn extended_requests(pod: &Pod, container: &Container) -> Vec<String> {
    let status = pod.status.as_ref().and_then(|status| status.extended_resource_claim_status.as_ref());
    let amounts = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let asks = |name: &str| {
        let is_served = is_extended(name) || name.starts_with(DEVICE_CLASS_PREFIX);
        let amount = amounts.and_then(|amounts| amounts.get(name));
        is_served && amount.is_some_and(|amount| !Quantity::parse(&amount.0).is_ok_and(|amount| amount.is_zero()))
    };
    let mappings = status.iter().flat_map(|status| &status.request_mappings);
    let mine = mappings.filter(|mapping| mapping.container_name == container.name && asks(&mapping.resource_name));
    mine.map(|mapping| mapping.request_name.clone()).collect()
}

/// Whether the claim for extended resources serves this container, and which that is.
pub fn extended_of(pod: &Pod, container: &str) -> Option<ClaimKey> {
    let status = pod.status.as_ref()?.extended_resource_claim_status.as_ref()?;
    let serves = status.request_mappings.iter().any(|mapping| mapping.container_name == container);
    serves.then(|| key(pod, &status.resource_claim_name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(claims: Value, status: Value) -> Pod {
        let resources = json!({
            "claims": [{ "name": "a", "request": "gpu" }, { "name": "a", "request": "nic" }, { "name": "b" }],
            "requests": { "vendor.com/gpu": "1", "cpu": "1", "vendor.com/none": "0" },
        });
        let containers = json!([{ "name": "c", "resources": resources }, { "name": "d" }]);
        let value = json!({
            "metadata": { "name": "p", "namespace": "ns", "uid": "u" },
            "spec": { "containers": containers, "resourceClaims": claims },
            "status": status,
        });
        serde_json::from_value(value).expect("a pod")
    }

    fn names(pod: &Pod) -> Result<Vec<(String, bool)>, String> {
        let wanted = wanted_claims(pod).map_err(|error| error.to_string())?;
        Ok(wanted.into_iter().map(|claim| (claim.key.name, claim.is_generated)).collect())
    }

    /// RES-48.
    #[test]
    fn claims_have_names_of_their_own_or_those_of_the_status() {
        let named = json!([{ "name": "a", "resourceClaimName": "x" }]);
        let made = json!([{ "name": "a", "resourceClaimTemplateName": "t" }]);
        let status = |name: Value| json!({ "resourceClaimStatuses": [{ "name": "a", "resourceClaimName": name }] });
        let extended = json!({ "extendedResourceClaimStatus": { "resourceClaimName": "e", "requestMappings": [] } });
        let text = |name: &str, generated| (name.to_owned(), generated);
        for (claims, status, expected) in [
            (Value::Null, Value::Null, Ok(vec![])),
            (named.clone(), Value::Null, Ok(vec![text("x", false)])),
            (made.clone(), status(json!("p-a-1")), Ok(vec![text("p-a-1", true)])),
            (made.clone(), status(Value::Null), Ok(vec![])),
            (made, Value::Null, Err("pod \"ns/p\": ResourceClaim not created yet")),
            (
                json!([{ "name": "a" }]),
                Value::Null,
                Err("pod \"ns/p\", spec.resourceClaim \"a\": none of the supported fields are set"),
            ),
            (named.clone(), extended, Ok(vec![text("x", false), text("e", false)])),
            (
                json!([{ "name": "a", "resourceClaimName": "x" }, { "name": "b", "resourceClaimName": "x" }]),
                Value::Null,
                Ok(vec![text("x", false)]),
            ),
        ] {
            let pod = pod(claims.clone(), status);
            assert_eq!(names(&pod), expected.map_err(str::to_owned), "{claims}");
        }
        assert!(!has_claims(&pod(Value::Null, Value::Null)) && has_claims(&pod(named, Value::Null)));
    }

    /// RES-48.
    #[test]
    fn a_container_has_the_requests_that_it_names() {
        let claims = json!([
            { "name": "b", "resourceClaimName": "y" }, { "name": "a", "resourceClaimName": "x" },
            { "name": "z", "resourceClaimName": "z" },
        ]);
        let mapping = |container: &str, resource: &str, request: &str| json!({ "containerName": container, "resourceName": resource, "requestName": request });
        let mappings = [
            mapping("c", "vendor.com/gpu", "r0"),
            mapping("c", "vendor.com/gpu", "r1"),
            mapping("c", "vendor.com/none", "r2"),
            mapping("d", "vendor.com/gpu", "r3"),
        ];
        let extended = json!({ "resourceClaimName": "e", "requestMappings": mappings });
        let pod = pod(claims, json!({ "extendedResourceClaimStatus": extended }));
        let containers = &pod.spec.as_ref().expect("a spec").containers;
        let of = |container| {
            let found = container_requests(&pod, container).expect("there");
            found.into_iter().map(|(key, requests)| format!("{}: {}", key.name, requests.join(" "))).collect::<Vec<_>>()
        };
        assert_eq!(of(&containers[0]), ["y: ", "x: gpu nic", "e: r0 r1"]);
        assert_eq!(of(&containers[1]), Vec::<String>::new());
        assert_eq!(claim_named(&pod, "a").map(|key| key.name).as_deref(), Some("x"));
        assert_eq!(extended_of(&pod, "d").map(|key| key.name).as_deref(), Some("e"));
        assert_eq!(extended_of(&pod, "other"), None);
    }
}
