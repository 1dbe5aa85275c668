//! Resources that pods take of the node, pod by pod and as sums: so a new pod is judged without a look at each of the
//! others.
//!
//! Owned by `PodManager`. Pure. The caller decides which pods count; here they are only counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::logic::model::ids::PodUid;
use crate::logic::model::quantity::Quantity;
use crate::logic::resources::{CPU, pod_requests};

/// Protocol and number of a port of the host.
type Port = (String, i32);

/// The resources that one pod takes.
#[derive(Clone, Debug)]
struct Share {
    /// The pod that it was read from: the same one takes the same.
    pod: Arc<Pod>,
    amounts: Vec<(String, i64)>,
    /// Ports of the host, and the address of each.
    ports: Vec<(Port, String)>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Room {
    shares: BTreeMap<PodUid, Share>,
    sums: BTreeMap<String, i128>,
    ports: BTreeMap<Port, BTreeMap<String, usize>>,
    /// How many pods were read: for a test, that one event costs one pod.
    read: u64,
}

impl Room {
    /// The resources that these take together.
    pub fn of<'a>(pods: impl IntoIterator<Item = (&'a PodUid, &'a Arc<Pod>)>, pod_level: bool) -> Self {
        let mut room = Self::default();
        pods.into_iter().for_each(|(uid, pod)| room.set(uid, Some(pod), pod_level));
        room
    }

    /// The pod takes what it asks for, or nothing any more. One that is counted as it is already costs nothing.
    pub fn set(&mut self, uid: &PodUid, pod: Option<&Arc<Pod>>, pod_level: bool) {
        if let (Some(share), Some(pod)) = (self.shares.get(uid), pod)
            && Arc::ptr_eq(&share.pod, pod)
        {
            return;
        }
        if let Some(share) = self.shares.remove(uid) {
            self.take_off(&share);
        }
        if let Some(pod) = pod {
            self.read += 1;
            let requests = pod_requests(pod, pod_level, true);
            let amounts = requests.iter().map(|(name, quantity)| (name.clone(), number(name, quantity))).collect();
            let port =
                |(address, protocol, number): (&str, &str, i32)| ((protocol.to_owned(), number), address.to_owned());
            let share = Share { pod: Arc::clone(pod), amounts, ports: host_ports(pod).map(port).collect() };
            self.put_on(&share);
            self.shares.insert(uid.clone(), share);
        }
    }

    /// Drops the pods that `keeps` does not name.
    pub fn retain(&mut self, keeps: impl Fn(&PodUid) -> bool) {
        let gone: Vec<PodUid> = self.shares.keys().filter(|uid| !keeps(uid)).cloned().collect();
        gone.iter().for_each(|uid| self.set(uid, None, false));
    }

    fn put_on(&mut self, share: &Share) {
        for (name, amount) in &share.amounts {
            *self.sums.entry(name.clone()).or_default() += i128::from(*amount);
        }
        for (port, address) in &share.ports {
            *self.ports.entry(port.clone()).or_default().entry(address.clone()).or_default() += 1;
        }
    }

    fn take_off(&mut self, share: &Share) {
        for (name, amount) in &share.amounts {
            *self.sums.entry(name.clone()).or_default() -= i128::from(*amount);
        }
        for (port, address) in &share.ports {
            let Some(addresses) = self.ports.get_mut(port) else { continue };
            if let Some(count) = addresses.get_mut(address) {
                *count -= 1;
            }
            addresses.retain(|_, count| *count > 0);
            if addresses.is_empty() {
                self.ports.remove(port);
            }
        }
    }

    /// The pods that are counted.
    pub fn pods(&self) -> impl Iterator<Item = (&PodUid, &Arc<Pod>)> {
        self.shares.iter().map(|(uid, share)| (uid, &share.pod))
    }

    /// How many pods were read so far.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// How much of a resource they take together; no pod takes less than nothing.
    pub(super) fn used(&self, name: &str) -> i64 {
        if name == PODS {
            return i64::try_from(self.shares.len()).unwrap_or(i64::MAX);
        }
        let used = self.sums.get(name).copied().unwrap_or_default();
        i64::try_from(used).unwrap_or(i64::MAX)
    }

    /// Whether one of them has a port of the host that this pod asks for.
    pub(super) fn has_ports_of(&self, pod: &Pod) -> bool {
        const ANY: &str = "0.0.0.0";
        host_ports(pod).any(|(address, protocol, number)| {
            let taken = self.ports.get(&(protocol.to_owned(), number));
            taken.is_some_and(|taken| address == ANY || taken.contains_key(address) || taken.contains_key(ANY))
        })
    }
}

/// The resource name of the number of pods.
pub(super) const PODS: &str = "pods";

/// An amount as shortages count it: of CPU thousandths.
pub(super) fn number(name: &str, quantity: &Quantity) -> i64 {
    if name == CPU { quantity.milli_value() } else { quantity.value() }
}

/// Address, protocol and number of the host's ports that a pod takes.
pub(super) fn host_ports(pod: &Pod) -> impl Iterator<Item = (&str, &str, i32)> {
    let keeps = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let spec = pod.spec.iter();
    let sidecars = spec.clone().flat_map(move |spec| spec.init_containers.iter().flatten().filter(keeps));
    let containers = spec.flat_map(|spec| &spec.containers).chain(sidecars);
    containers.flat_map(|container| container.ports.iter().flatten()).filter_map(|port| {
        let number = port.host_port.filter(|number| *number > 0)?;
        let address = port.host_ip.as_deref().filter(|address| !address.is_empty()).unwrap_or("0.0.0.0");
        let protocol = port.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP");
        Some((address, protocol, number))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn pod(cpu: i64, port: Option<(&str, i32)>) -> Arc<Pod> {
        let ports = port.map(|(address, number)| json!([{"hostPort": number, "hostIP": address, "containerPort": 1}]));
        let container = json!({"name": "a", "ports": ports, "resources": {"requests": {"cpu": format!("{cpu}m")}}});
        Arc::new(serde_json::from_value(json!({"spec": {"containers": [container]}})).expect("a pod"))
    }

    #[test]
    fn ports_are_free_again_with_the_last_pod_that_had_them() {
        let (one, two) = (PodUid::from("one"), PodUid::from("two"));
        let mut room = Room::default();
        room.set(&one, Some(&pod(1, Some(("127.0.0.1", 80)))), true);
        room.set(&two, Some(&pod(1, Some(("127.0.0.1", 80)))), true);
        for (address, number, taken) in
            [("127.0.0.1", 80, true), ("0.0.0.0", 80, true), ("127.0.0.2", 80, false), ("127.0.0.1", 81, false)]
        {
            assert_eq!(room.has_ports_of(&pod(1, Some((address, number)))), taken, "{address}:{number}");
        }
        room.set(&one, None, true);
        assert!(room.has_ports_of(&pod(1, Some(("127.0.0.1", 80)))));
        room.set(&two, Some(&pod(1, None)), true);
        assert!(!room.has_ports_of(&pod(1, Some(("127.0.0.1", 80)))));
        assert!(room.ports.is_empty());
    }

    #[test]
    fn a_pod_that_is_counted_as_it_is_is_not_read_again() {
        let (uid, pod) = (PodUid::from("one"), pod(100, None));
        let mut room = Room::default();
        (0..10).for_each(|_| room.set(&uid, Some(&pod), true));
        assert_eq!((room.read(), room.used("cpu"), room.used(PODS)), (1, 100, 1));
    }

    #[test]
    fn pods_that_are_not_kept_leave_their_room_and_ports() {
        let mut room = Room::default();
        for (name, cpu, number) in [("stays", 100, 80), ("goes", 30, 81)] {
            room.set(&PodUid::from(name), Some(&pod(cpu, Some(("127.0.0.1", number)))), true);
        }
        room.retain(|uid| uid.as_str() == "stays");
        let names: Vec<&str> = room.pods().map(|(uid, _)| uid.as_str()).collect();
        assert_eq!((names, room.used("cpu"), room.used(PODS)), (vec!["stays"], 100, 1));
        let taken = [80, 81].map(|number| room.has_ports_of(&pod(1, Some(("127.0.0.1", number)))));
        assert_eq!(taken, [true, false]);
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_pods_that_count(changes in prop::collection::vec((0_u8..5, prop::option::of(0_i64..9_000)), 0..40)) {
            let mut room = Room::default();
            let mut wanted = BTreeMap::new();
            for (uid, cpu) in changes {
                let uid = PodUid::from(uid.to_string());
                room.set(&uid, cpu.map(|cpu| pod(cpu, None)).as_ref(), true);
                match cpu {
                    Some(cpu) => drop(wanted.insert(uid, cpu)),
                    None => drop(wanted.remove(&uid)),
                }
            }
            prop_assert_eq!(room.used("cpu"), wanted.values().sum::<i64>());
            prop_assert_eq!(room.used(PODS), i64::try_from(wanted.len()).expect("few"));
        }
    }
}
