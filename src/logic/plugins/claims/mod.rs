//! Claims of resources that drivers beside the agent prepare for pods (RES-48..52; KEP-4381).
//!
//! Pure; `ClaimManager` owns what is kept here. `pod_claims` says which claims a pod has and what a container asks of them;
//! `check` says whether a pod may use a claim. `book` is the account of claims on this node, `states` the machine around it
//! and `checkpoint` its file. `drivers` knows who serves a driver's name, `health` how devices are, `report` prints claims
//! for the API and for PodResources.

pub mod book;
pub mod check;
pub mod checkpoint;
pub mod drivers;
pub mod health;
pub mod pod_claims;
pub mod report;
pub mod states;

/// Gates of the rules for claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimGates {
    /// `DRAExtendedResource`: the claim that a scheduler made for a pod's extended resources counts as the pod's (KEP-5004).
    pub extended_resources: bool,
    /// `DRAWorkloadResourceClaims`: a pod may use claims that were made for its PodGroup, or that are reserved for it.
    pub pod_groups: bool,
    /// `ResourceHealthStatus`: drivers are asked how devices are, and statuses of pods show the answers (KEP-4680).
    pub health: bool,
    /// `ResourceHealthStatusMessage`: with the drivers' words.
    pub health_messages: bool,
}

impl Default for ClaimGates {
    fn default() -> Self {
        Self { extended_resources: true, pod_groups: false, health: true, health_messages: true }
    }
}

/// The place of a claim in the API: its namespace, then its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimKey {
    /// `metadata.namespace`, also the pod's.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

/// A claim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedClaim {
    /// Which.
    pub key: ClaimKey,
    /// A template made it for the pod: then the pod owns it.
    pub is_generated: bool,
}

/// A claim as drivers know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimId {
    /// Its place.
    pub key: ClaimKey,
    /// `metadata.uid`: another claim of the same name has another one.
    pub uid: String,
}

/// A device that a driver prepared for a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedDevice {
    /// The pool that it is of.
    pub pool_name: String,
    /// Its name in the pool.
    pub device_name: String,
    /// Tells uses of one device apart that several claims share.
    pub share_id: Option<String>,
    /// The requests of the claim that it is for; empty for all.
    pub request_names: Vec<String>,
    /// The runtime's names for what a container gets with it.
    pub cdi_device_ids: Vec<String>,
}

/// The name of a request, of a subrequest that of the request which it belongs to (`BaseRequestRef`).
pub fn base_request(name: &str) -> &str {
    name.split('/').next().unwrap_or_default()
}

impl PreparedDevice {
    /// Whether the device is for this request; no name is any request.
    pub fn is_for(&self, request: &str) -> bool {
        let wanted = base_request(request);
        let is_it = |name: &String| base_request(name) == wanted;
        request.is_empty() || self.request_names.is_empty() || self.request_names.iter().any(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RES-48.
    #[test]
    fn a_device_is_for_its_requests_and_their_subrequests() {
        let of = |names: &[&str]| PreparedDevice {
            request_names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..PreparedDevice::default()
        };
        for (names, request, expected) in [
            (vec![], "gpu", true),
            (vec!["gpu"], "", true),
            (vec!["gpu"], "gpu", true),
            (vec!["gpu"], "nic", false),
            (vec!["gpu", "nic"], "nic", true),
            (vec!["gpu"], "gpu/large", true),
            (vec!["gpu/large"], "gpu", true),
            (vec!["gpu2"], "gpu", false),
        ] {
            assert_eq!(of(&names).is_for(request), expected, "{names:?} {request:?}");
        }
    }
}
