//! Whether a pod may use a claim, and all reasons why its claims cannot be prepared or released (RES-48).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;

use super::{ClaimId, ClaimKey, WantedClaim};
use crate::logic::formats::go_text::quoted;
use crate::logic::plugins::call_error::CallError;

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

/// Checks a claim as the API server gave it.
///
/// # Errors
/// The first reason against it, in upstream's order.
pub fn check(pod: &Pod, wanted: &WantedClaim, claim: &ResourceClaim) -> Result<AllocatedClaim, ClaimError> {
    let uid = claim.metadata.uid.clone().unwrap_or_default();
    let pod_uid = pod.metadata.uid.clone().unwrap_or_default();
    let pod_name = pod.metadata.name.clone().unwrap_or_default();
    let ClaimKey { namespace, name } = &wanted.key;
    if wanted.is_generated {
        let mut owners = claim.metadata.owner_references.iter().flatten();
        if !owners.any(|owner| owner.controller == Some(true) && owner.uid == pod_uid) {
            let (claim, pod) = (format!("{namespace}/{name}"), format!("{namespace}/{pod_name}"));
            return Err(ClaimError::NotOwner { claim, pod });
        }
    }
    let status = claim.status.as_ref();
    let mut reserved = status.and_then(|status| status.reserved_for.as_ref()).into_iter().flatten();
    if pod_uid.is_empty() || !reserved.any(|consumer| consumer.uid == pod_uid) {
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
            let found = check(&pod, &WantedClaim { key, is_generated }, &claim);
            let found = found.map(|found| found.drivers.into_iter().collect::<Vec<_>>());
            let expected = expected.map(|drivers| drivers.into_iter().map(str::to_owned).collect());
            assert_eq!(found.map_err(|error| error.to_string()), expected.map_err(str::to_owned));
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
