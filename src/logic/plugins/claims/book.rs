//! The account of claims on this node: which pods use each, what its drivers prepared, and whether all of them did.
//!
//! A claim is in the book from before its first driver is asked until after its last has released it. A claim that was read
//! from the disk counts as not prepared: the node may have been started anew since.

use std::collections::{BTreeMap, BTreeSet};

use super::check::{AllocatedClaim, ClaimError};
use super::{ClaimId, ClaimKey, PreparedDevice};
use crate::logic::model::ids::PodUid;

/// The name under which the metric counts all claims (`dra_resource_claims_in_use`).
pub const ANY_DRIVER: &str = "<any>";

/// A claim on this node (upstream's `ClaimInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimInfo {
    /// Which.
    pub id: ClaimId,
    /// The pods that use it.
    pub pods: BTreeSet<PodUid>,
    /// All drivers with a part in it, and the devices that each prepared.
    pub drivers: BTreeMap<String, Vec<PreparedDevice>>,
    /// All drivers have prepared it, since the agent started.
    pub prepared: bool,
}

/// Claims that one call to a driver is about.
pub type Batches = BTreeMap<String, Vec<ClaimId>>;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimBook(BTreeMap<ClaimKey, ClaimInfo>);

impl ClaimBook {
    /// A book with these claims, as a file has them.
    pub fn of(claims: impl IntoIterator<Item = ClaimInfo>) -> Self {
        Self(claims.into_iter().map(|claim| (claim.id.key.clone(), claim)).collect())
    }

    /// One claim.
    pub fn get(&self, key: &ClaimKey) -> Option<&ClaimInfo> {
        self.0.get(key)
    }

    /// All claims, by their places.
    pub fn all(&self) -> impl Iterator<Item = &ClaimInfo> {
        self.0.values()
    }

    /// The claims that a pod uses.
    pub fn of_pod(&self, pod: &PodUid) -> Vec<ClaimKey> {
        self.0.values().filter(|claim| claim.pods.contains(pod)).map(|claim| claim.id.key.clone()).collect()
    }

    /// All pods that use claims.
    pub fn pods(&self) -> BTreeSet<PodUid> {
        self.0.values().flat_map(|claim| claim.pods.iter().cloned()).collect()
    }

    /// Enters that the pod uses these claims: all of them or none. Gives those that it did not use before.
    ///
    /// # Errors
    /// An earlier claim of a name is here still.
    pub fn admit(&mut self, pod: &PodUid, claims: &[AllocatedClaim]) -> Result<Vec<ClaimKey>, ClaimError> {
        for claim in claims {
            if let Some(known) = self.0.get(&claim.id.key).filter(|known| known.id.uid != claim.id.uid) {
                let (name, uid) = (claim.id.key.name.clone(), known.id.uid.clone());
                return Err(ClaimError::OldClaim { name, uid });
            }
        }
        let mut added = vec![];
        for claim in claims {
            let entry = self.0.entry(claim.id.key.clone()).or_insert_with(|| ClaimInfo {
                id: claim.id.clone(),
                pods: BTreeSet::new(),
                drivers: claim.drivers.iter().map(|driver| (driver.clone(), vec![])).collect(),
                prepared: false,
            });
            if entry.pods.insert(pod.clone()) {
                added.push(claim.id.key.clone());
            }
        }
        Ok(added)
    }

    /// Takes an entry back that could not be written: no driver was asked since.
    pub fn take_back(&mut self, pod: &PodUid, added: &[ClaimKey]) {
        for key in added {
            let Some(claim) = self.0.get_mut(key) else { continue };
            claim.pods.remove(pod);
            if claim.pods.is_empty() {
                self.0.remove(key);
            }
        }
    }

    /// The calls that prepare those of these claims that are not: one for each driver.
    pub fn to_prepare(&self, claims: &[ClaimKey]) -> Batches {
        let open = claims.iter().filter_map(|key| self.0.get(key)).filter(|claim| !claim.prepared);
        batches(open)
    }

    /// Takes the devices that a driver prepared for a claim.
    pub fn set_devices(&mut self, id: &ClaimId, driver: &str, devices: Vec<PreparedDevice>) {
        if let Some(claim) = self.0.get_mut(&id.key).filter(|claim| claim.id == *id) {
            claim.drivers.insert(driver.to_owned(), devices);
        }
    }

    /// All drivers have prepared the claim.
    pub fn set_prepared(&mut self, key: &ClaimKey) {
        if let Some(claim) = self.0.get_mut(key) {
            claim.prepared = true;
        }
    }

    /// Drivers are to release these claims. A pod that uses one again has it prepared first, whatever they answer.
    pub fn doubt(&mut self, claims: &[ClaimKey]) {
        for key in claims {
            if let Some(claim) = self.0.get_mut(key) {
                claim.prepared = false;
            }
        }
    }

    /// The pod uses no claim any more. Gives the claims that it used last, which stay until they are released, and whether
    /// another one changed.
    pub fn leave_shared(&mut self, pod: &PodUid) -> (Vec<ClaimKey>, bool) {
        let (mut last, mut changed) = (vec![], false);
        for (key, claim) in self.0.iter_mut().filter(|(_, claim)| claim.pods.contains(pod)) {
            if claim.pods.len() > 1 {
                claim.pods.remove(pod);
                changed = true;
            } else {
                last.push(key.clone());
            }
        }
        (last, changed)
    }

    /// The calls that release these claims: one for each driver.
    pub fn to_release(&self, claims: &[ClaimKey]) -> Batches {
        batches(claims.iter().filter_map(|key| self.0.get(key)))
    }

    /// The claim is released.
    pub fn remove(&mut self, key: &ClaimKey) {
        self.0.remove(key);
    }

    /// The names that the runtime knows a container's devices by: those of its requests of each claim.
    ///
    /// # Errors
    /// A claim that is not in the book.
    pub fn cdi_devices(&self, requests: &[(ClaimKey, Vec<String>)]) -> Result<Vec<String>, ClaimError> {
        let mut names: Vec<String> = vec![];
        for (key, requests) in requests {
            let claim = self.0.get(key).ok_or_else(|| ClaimError::Unknown(key.clone()))?;
            for request in requests {
                let devices = claim.drivers.values().flatten().filter(|device| device.is_for(request));
                for name in devices.flat_map(|device| &device.cdi_device_ids) {
                    // Two requests of a container may be met by one device, and the runtime takes each name once.
                    if !names.contains(name) {
                        names.push(name.clone());
                    }
                }
            }
        }
        Ok(names)
    }

    /// How many prepared claims each driver has a part in; all of them as [`ANY_DRIVER`].
    pub fn in_use(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::from([(ANY_DRIVER.to_owned(), 0)]);
        for claim in self.0.values().filter(|claim| claim.prepared) {
            for driver in claim.drivers.keys().map(String::as_str).chain([ANY_DRIVER]) {
                *counts.entry(driver.to_owned()).or_default() += 1;
            }
        }
        counts
    }
}

fn batches<'a>(claims: impl Iterator<Item = &'a ClaimInfo>) -> Batches {
    let mut batches = Batches::new();
    for claim in claims {
        for driver in claim.drivers.keys() {
            batches.entry(driver.clone()).or_default().push(claim.id.clone());
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ClaimKey {
        ClaimKey { namespace: "ns".to_owned(), name: name.to_owned() }
    }

    fn claim(name: &str, uid: &str, drivers: &[&str]) -> AllocatedClaim {
        let drivers = drivers.iter().map(|driver| (*driver).to_owned()).collect();
        AllocatedClaim { id: ClaimId { key: key(name), uid: uid.to_owned() }, drivers }
    }

    fn names(batches: &Batches) -> Vec<String> {
        let of = |(driver, claims): (&String, &Vec<ClaimId>)| {
            let claims: Vec<&str> = claims.iter().map(|claim| claim.key.name.as_str()).collect();
            format!("{driver}: {}", claims.join(" "))
        };
        batches.iter().map(of).collect()
    }

    fn device(name: &str, requests: &[&str]) -> PreparedDevice {
        PreparedDevice {
            device_name: name.to_owned(),
            request_names: requests.iter().map(|request| (*request).to_owned()).collect(),
            cdi_device_ids: vec![format!("v.com/c={name}")],
            ..PreparedDevice::default()
        }
    }

    /// RES-48, RES-52.
    #[test]
    fn each_driver_is_asked_once_for_all_claims_that_are_not_prepared() {
        let mut book = ClaimBook::default();
        let (pod, other) = (PodUid::from("p"), PodUid::from("q"));
        let claims = [claim("a", "1", &["d", "e"]), claim("b", "2", &["d"])];
        assert_eq!(book.admit(&pod, &claims), Ok(vec![key("a"), key("b")]));
        assert_eq!(names(&book.to_prepare(&[key("a"), key("b")])), ["d: a b", "e: a"]);
        book.set_prepared(&key("a"));
        assert_eq!(names(&book.to_prepare(&[key("a"), key("b")])), ["d: b"]);
        assert_eq!(book.in_use(), BTreeMap::from([("<any>".into(), 1), ("d".into(), 1), ("e".into(), 1)]));
        assert_eq!(book.admit(&pod, &claims), Ok(vec![]), "nothing is new");
        let old = book.admit(&other, &[claim("c", "3", &[]), claim("a", "9", &["d"])]);
        assert!(matches!(old, Err(ClaimError::OldClaim { uid, .. }) if uid == "1"));
        assert_eq!(book.of_pod(&other), [], "all or none");
        assert_eq!(book.admit(&other, &claims), Ok(vec![key("a"), key("b")]));
        book.take_back(&other, &[key("a"), key("b")]);
        book.take_back(&pod, &[key("b")]);
        assert_eq!((book.of_pod(&pod), book.get(&key("b"))), (vec![key("a")], None));
    }

    /// RES-48.
    #[test]
    fn the_last_pod_that_leaves_a_claim_has_it_released() {
        let mut book = ClaimBook::default();
        let (pod, other) = (PodUid::from("p"), PodUid::from("q"));
        book.admit(&pod, &[claim("a", "1", &["d"]), claim("b", "2", &["d", "e"])]).expect("new");
        book.admit(&other, &[claim("a", "1", &["d"])]).expect("the same");
        assert_eq!(book.leave_shared(&pod), (vec![key("b")], true));
        assert_eq!(names(&book.to_release(&[key("b")])), ["d: b", "e: b"]);
        assert_eq!(book.of_pod(&pod), [key("b")], "until it is released");
        book.remove(&key("b"));
        assert_eq!(book.leave_shared(&pod), (vec![], false));
        assert_eq!(book.leave_shared(&other), (vec![key("a")], false));
    }

    /// RES-48.
    #[test]
    fn a_container_has_the_devices_of_its_requests() {
        let mut book = ClaimBook::default();
        book.admit(&PodUid::from("p"), &[claim("a", "1", &["d", "e"])]).expect("new");
        let id = ClaimId { key: key("a"), uid: "1".to_owned() };
        book.set_devices(&id, "d", vec![device("g0", &["gpu"]), device("n0", &["nic"])]);
        book.set_devices(&id, "e", vec![device("x", &[])]);
        book.set_devices(&ClaimId { uid: "old".to_owned(), ..id }, "e", vec![]);
        for (requests, expected) in [
            (vec![""], vec!["v.com/c=g0", "v.com/c=n0", "v.com/c=x"]),
            (vec!["gpu"], vec!["v.com/c=g0", "v.com/c=x"]),
            (vec!["gpu/big", "nic"], vec!["v.com/c=g0", "v.com/c=x", "v.com/c=n0"]),
            (vec![], vec![]),
        ] {
            let asked = vec![(key("a"), requests.iter().map(|request| (*request).to_owned()).collect())];
            assert_eq!(book.cdi_devices(&asked), Ok(expected.into_iter().map(str::to_owned).collect()), "{requests:?}");
        }
        let unknown = book.cdi_devices(&[(key("z"), vec![])]).expect_err("not there").to_string();
        assert_eq!(unknown, "internal error: unable to get claim info for ResourceClaim z in namespace ns");
    }
}
