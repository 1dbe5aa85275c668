//! Whether a pod may use a claim, and all reasons why its claims cannot be prepared or released (RES-48).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimConsumerReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::{ClaimGates, ClaimId, ClaimKey, WantedClaim};
use crate::logic::formats::go_text::quoted;
use crate::logic::plugins::call_error::CallError;

/// The group of the API that PodGroups are of.
const SCHEDULING_API: &str = "scheduling.k8s.io";

/// A call to a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
pub enum ClaimCall {
    /// Makes devices usable.
    #[strum(to_string = "NodePrepareResources")]
    Prepare,
    /// Undoes that.
    #[strum(to_string = "NodeUnprepareResources")]
    Unprepare,
}

/// Why claims are not prepared, or not released. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The claim of a template is not there yet.
    #[error("pod \"{namespace}/{pod}\": ResourceClaim not created yet")]
    NotCreated {
        /// The pod's namespace.
        namespace: String,
        /// Its name.
        pod: String,
    },
    /// The pod names neither a claim nor a template.
    #[error("pod \"{namespace}/{pod}\", spec.resourceClaim {}: none of the supported fields are set", quoted(claim))]
    Unsupported {
        /// The pod's namespace.
        namespace: String,
        /// Its name.
        pod: String,
        /// The claim's name in the pod.
        claim: String,
    },
    /// The API server does not give the claim.
    #[error("fetch ResourceClaim {name}: {why}")]
    Fetch {
        /// Its name.
        name: String,
        /// The API server's words.
        why: String,
    },
    /// Another pod's template made it.
    #[error("ResourceClaim {claim} was not created for Pod {pod} (Pod is not owner)")]
    NotOwner {
        /// Namespace and name of the claim.
        claim: String,
        /// Those of the pod.
        pod: String,
    },
    /// A template made it for something else than the pod and its group.
    #[error("ResourceClaim {claim} was not created for Pod {pod} (neither Pod nor PodGroup {group} is the owner)")]
    NotOfGroup {
        /// Namespace and name of the claim.
        claim: String,
        /// Those of the pod.
        pod: String,
        /// The name of the pod's group.
        group: String,
    },
    /// It is not reserved for the pod.
    #[error("pod {pod} ({pod_uid}) is not allowed to use ResourceClaim {claim} ({claim_uid})")]
    NotReserved {
        /// The pod's name.
        pod: String,
        /// Its UID.
        pod_uid: String,
        /// The claim's name.
        claim: String,
        /// Its UID.
        claim_uid: String,
    },
    /// Nobody chose devices for it.
    #[error("ResourceClaim {0}: not allocated")]
    NotAllocated(String),
    /// Nobody serves the driver's name.
    #[error("{}", if .0.is_empty() { "DRA driver name is empty".to_owned() } else { format!("DRA driver {} is not registered", .0) })]
    NoDriver(String),
    /// An earlier claim of the name is still in use here.
    #[error(
        "old ResourceClaim with same name {name} and different UID {uid} still exists (previous pod force-deleted?!)"
    )]
    OldClaim {
        /// The name.
        name: String,
        /// The earlier one's UID.
        uid: String,
    },
    /// The book cannot be written.
    #[error("checkpoint ResourceClaim state: {0}")]
    Checkpoint(String),
    /// The call failed.
    #[error("{call}: {error}")]
    Call {
        /// Which.
        call: ClaimCall,
        /// How.
        error: CallError,
    },
    /// The driver answered about a claim that it was not asked for.
    #[error("{call} returned result for unknown claim UID {uid}")]
    UnknownResult {
        /// Which call.
        call: ClaimCall,
        /// The claim's UID, in the driver's words.
        uid: String,
    },
    /// The driver could not do it for one claim.
    #[error("{call} failed for ResourceClaim {claim}: {why}")]
    Refused {
        /// Which call.
        call: ClaimCall,
        /// The claim's name.
        claim: String,
        /// The driver's words.
        why: String,
    },
    /// The driver said nothing of some claims.
    #[error("{call} skipped {count} ResourceClaims")]
    Skipped {
        /// Which call.
        call: ClaimCall,
        /// How many.
        count: usize,
    },
    /// The claim is not in the book.
    #[error("internal error: unable to get claim info for ResourceClaim {} in namespace {}", .0.name, .0.namespace)]
    Unknown(ClaimKey),
    /// The pod's claims are being released.
    #[error("the pod's ResourceClaims are being released")]
    Leaving,
    /// The agent's own code failed.
    #[error("{0}")]
    Lost(String),
}

/// A claim that the pod may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedClaim {
    /// Which.
    pub id: ClaimId,
    /// The drivers that have devices of it.
    pub drivers: BTreeSet<String>,
}

/// The name of the pod's PodGroup.
fn group_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.scheduling_group.as_ref()?.pod_group_name.as_deref()
}

/// Whether the owner is this group. A pod does not know its group's UID, and the API's version may change.
fn is_group(owner: &OwnerReference, group: &str) -> bool {
    let is_of_api = owner.api_version.split_once('/').is_some_and(|(api, _)| api == SCHEDULING_API);
    is_of_api && owner.kind == "PodGroup" && owner.name == group
}

/// Whether a claim is reserved for this group.
fn is_for_group(consumer: &ResourceClaimConsumerReference, group: &str) -> bool {
    consumer.api_group.as_deref() == Some(SCHEDULING_API) && consumer.resource == "podgroups" && consumer.name == group
}

/// Checks a claim as the API server gave it. With the gate `DRAWorkloadResourceClaims` it may be that of the pod's group.
///
/// # Errors
/// The first reason against it, in upstream's order.
pub fn check(
    pod: &Pod,
    wanted: &WantedClaim,
    claim: &ResourceClaim,
    gates: ClaimGates,
) -> Result<AllocatedClaim, ClaimError> {
    let group = group_of(pod).filter(|_| gates.pod_groups);
    let uid = claim.metadata.uid.clone().unwrap_or_default();
    let pod_uid = pod.metadata.uid.clone().unwrap_or_default();
    let pod_name = pod.metadata.name.clone().unwrap_or_default();
    let ClaimKey { namespace, name } = &wanted.key;
    if wanted.is_generated {
        let mut owners = claim.metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true));
        let is_own = |owner: &OwnerReference| owner.uid == pod_uid || group.is_some_and(|group| is_group(owner, group));
        if !owner.is_some_and(is_own) {
            let (claim, pod) = (format!("{namespace}/{name}"), format!("{namespace}/{pod_name}"));
            return Err(match group.map(str::to_owned) {
                None => ClaimError::NotOwner { claim, pod },
                Some(group) => ClaimError::NotOfGroup { claim, pod, group },
            });
        }
    }
    let status = claim.status.as_ref();
    let mut reserved = status.and_then(|status| status.reserved_for.as_ref()).into_iter().flatten();
    let is_for = |consumer: &ResourceClaimConsumerReference| {
        consumer.uid == pod_uid || group.is_some_and(|group| is_for_group(consumer, group))
    };
    if pod_uid.is_empty() || !reserved.any(is_for) {
        return Err(ClaimError::NotReserved { pod: pod_name, pod_uid, claim: name.clone(), claim_uid: uid });
    }
    let allocation = status.and_then(|status| status.allocation.as_ref());
    let allocation = allocation.ok_or_else(|| ClaimError::NotAllocated(name.clone()))?;
    let results = allocation.devices.as_ref().and_then(|devices| devices.results.as_ref()).into_iter().flatten();
    let drivers = results.map(|result| result.driver.clone()).collect();
    Ok(AllocatedClaim { id: ClaimId { key: wanted.key.clone(), uid }, drivers })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(reserved: Value, allocation: Value, owner: Value) -> ResourceClaim {
        let metadata = json!({ "name": "c", "namespace": "ns", "uid": "c1", "ownerReferences": owner });
        let status = json!({ "reservedFor": reserved, "allocation": allocation });
        serde_json::from_value(json!({ "metadata": metadata, "spec": {}, "status": status })).expect("a claim")
    }

    fn owner(uid: &str, controller: bool) -> Value {
        json!([{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": controller }])
    }

    /// RES-48.
    #[test]
    fn a_claim_is_used_by_the_pods_that_it_is_reserved_for() {
        let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": "p", "namespace": "ns", "uid": "u1" } }))
            .expect("a pod");
        let reserved = json!([{ "resource": "pods", "name": "p", "uid": "u1" }]);
        let other = json!([{ "resource": "pods", "name": "p", "uid": "u2" }]);
        let result = |driver: &str| json!({ "driver": driver, "pool": "n", "device": "d", "request": "r" });
        let allocation = json!({ "devices": { "results": [result("b"), result("a"), result("b")] } });
        let not_reserved = "pod p (u1) is not allowed to use ResourceClaim c (c1)";
        let not_owner = "ResourceClaim ns/c was not created for Pod ns/p (Pod is not owner)";
        for (is_generated, claim, expected) in [
            (false, claim(reserved.clone(), allocation.clone(), Value::Null), Ok(vec!["a", "b"])),
            (true, claim(reserved.clone(), allocation.clone(), owner("u1", true)), Ok(vec!["a", "b"])),
            (true, claim(reserved.clone(), allocation.clone(), owner("u1", false)), Err(not_owner)),
            (true, claim(reserved.clone(), allocation.clone(), owner("u2", true)), Err(not_owner)),
            (true, claim(reserved.clone(), allocation.clone(), Value::Null), Err(not_owner)),
            (false, claim(other, allocation.clone(), Value::Null), Err(not_reserved)),
            (false, claim(Value::Null, allocation, Value::Null), Err(not_reserved)),
            (false, claim(reserved.clone(), Value::Null, Value::Null), Err("ResourceClaim c: not allocated")),
            (false, claim(reserved, json!({}), Value::Null), Ok(vec![])),
        ] {
            let key = ClaimKey { namespace: "ns".to_owned(), name: "c".to_owned() };
            let found = check(&pod, &WantedClaim { key, is_generated }, &claim, ClaimGates::default());
            let found = found.map(|found| found.drivers.into_iter().collect::<Vec<_>>());
            let expected = expected.map(|drivers| drivers.into_iter().map(str::to_owned).collect());
            assert_eq!(found.map_err(|error| error.to_string()), expected.map_err(str::to_owned));
        }
    }

    /// RES-48.
    #[test]
    fn a_pod_uses_the_claims_of_its_group_where_the_gate_says_so() {
        let pod = |group: Value| -> Pod {
            let metadata = json!({ "name": "p", "namespace": "ns", "uid": "u1" });
            let spec = json!({ "containers": [], "schedulingGroup": group });
            serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).expect("a pod")
        };
        let (of_group, of_none) = (pod(json!({ "podGroupName": "g" })), pod(Value::Null));
        let owned = |api: &str, kind: &str, name: &str| json!([{ "apiVersion": api, "kind": kind, "name": name, "uid": "g1", "controller": true }]);
        let reserved = |api: &str, resource: &str, name: &str| json!([{ "apiGroup": api, "resource": resource, "name": name, "uid": "g1" }]);
        let (api, version) = ("scheduling.k8s.io", "scheduling.k8s.io/v1alpha2");
        let own = || (owned(version, "PodGroup", "g"), reserved(api, "podgroups", "g"));
        let not_owner = "ResourceClaim ns/c was not created for Pod ns/p (Pod is not owner)";
        let neither = "ResourceClaim ns/c was not created for Pod ns/p (neither Pod nor PodGroup g is the owner)";
        let not_reserved = "pod p (u1) is not allowed to use ResourceClaim c (c1)";
        for (pod, pod_groups, (owner, reserved), expected) in [
            (&of_group, true, own(), Ok(())),
            (&of_group, false, own(), Err(not_owner)),
            (&of_none, true, own(), Err(not_owner)),
            (&of_group, true, (owner("u1", true), own().1), Ok(())),
            (&of_group, true, (owned(version, "PodGroup", "h"), own().1), Err(neither)),
            (&of_group, true, (owned(version, "Workload", "g"), own().1), Err(neither)),
            (&of_group, true, (owned("example.com/v1", "PodGroup", "g"), own().1), Err(neither)),
            (&of_group, true, (own().0, reserved(api, "podgroups", "h")), Err(not_reserved)),
            (&of_group, true, (own().0, reserved(api, "workloads", "g")), Err(not_reserved)),
            (&of_group, true, (own().0, reserved("example.com", "podgroups", "g")), Err(not_reserved)),
        ] {
            let key = ClaimKey { namespace: "ns".to_owned(), name: "c".to_owned() };
            let gates = ClaimGates { pod_groups, ..ClaimGates::default() };
            let claim = claim(reserved.clone(), json!({}), owner.clone());
            let found = check(pod, &WantedClaim { key, is_generated: true }, &claim, gates);
            let found = found.map(drop).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{pod_groups} {owner} {reserved}");
        }
    }

    /// RES-48.
    #[test]
    fn failures_are_told_in_upstreams_words() {
        let (call, uid) = (ClaimCall::Prepare, "u".to_owned());
        for (error, expected) in [
            (ClaimError::NoDriver("gpu.example.com".to_owned()), "DRA driver gpu.example.com is not registered"),
            (ClaimError::NoDriver(String::new()), "DRA driver name is empty"),
            (
                ClaimError::Refused { call, claim: "c".to_owned(), why: "no".to_owned() },
                "NodePrepareResources failed for ResourceClaim c: no",
            ),
            (ClaimError::Skipped { call, count: 2 }, "NodePrepareResources skipped 2 ResourceClaims"),
            (
                ClaimError::UnknownResult { call: ClaimCall::Unprepare, uid: uid.clone() },
                "NodeUnprepareResources returned result for unknown claim UID u",
            ),
            (
                ClaimError::OldClaim { name: "c".to_owned(), uid },
                "old ResourceClaim with same name c and different UID u still exists (previous pod force-deleted?!)",
            ),
        ] {
            assert_eq!(error.to_string(), expected);
        }
    }
}
