//! Devices of played plugins on a machine of two NUMA nodes, with CPUs for all.

mod admission;
mod files;
mod properties;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::calls::{Need, Preference};
use super::devices::{Device, DeviceGrant, Health, Inventory, PluginOptions, ResourceDevices, Session};
use super::*;
use crate::logic::resources::allocations::tests::managers;
use crate::logic::resources::allocations::{Placement, ResourceManagers};
use crate::logic::resources::testing;
use crate::logic::resources::topology::policy::PolicyKind;

const GPU: &str = "vendor.com/gpu";

/// Devices from texts like `g0@0+1!`: the name, the NUMA nodes, `!` for an unhealthy one.
fn devices(texts: &[&str]) -> ResourceDevices {
    let device = |text: &&str| {
        let health = if text.ends_with('!') { Health::Unhealthy } else { Health::Healthy };
        let text = text.trim_end_matches('!');
        let (id, nodes) = text.split_once('@').unwrap_or((text, ""));
        let nodes = nodes.split('+').filter_map(|node| node.parse().ok()).collect();
        (id.to_owned(), Device { health, nodes })
    };
    let options = PluginOptions::default();
    ResourceDevices { devices: texts.iter().map(device).collect(), options, session: Session::Live }
}

/// The inventory of GPUs alone.
fn gpus(texts: &[&str]) -> Arc<Inventory> {
    Arc::new([(GPU.to_owned(), devices(texts))].into())
}

/// GPUs whose plugin has an opinion.
fn choosy_gpus(texts: &[&str]) -> Arc<Inventory> {
    let mut of = devices(texts);
    of.options.preferred = true;
    Arc::new([(GPU.to_owned(), of)].into())
}

fn with(kind: PolicyKind, inventory: &Arc<Inventory>) -> ResourceManagers {
    let mut managers = managers(kind);
    managers.set_inventory(Arc::clone(inventory));
    managers
}

fn wants(name: &str, count: usize) -> Container {
    let amounts = format!("{GPU}={count}");
    testing::container(name, &amounts, &amounts)
}

fn named(uid: &str, mut pod: Pod) -> Pod {
    pod.metadata.uid = Some(uid.to_owned());
    pod
}

/// A pod of one container that wants as many GPUs.
fn user(uid: &str, count: usize) -> Pod {
    named(uid, testing::pod(vec![wants("main", count)], vec![]))
}

fn need(container: &str) -> Need {
    Need { container: container.to_owned(), resource: GPU.to_owned() }
}

/// Admits without an opinion of any plugin.
fn admit(managers: &mut ResourceManagers, pod: &Pod) -> Placement {
    managers.admit(pod, Inquiry::default())
}

/// The devices that each container was given.
fn called(placement: Placement) -> BTreeMap<String, String> {
    match placement {
        Placement::Call { taken, .. } => taken.into_iter().map(|(need, ids)| (need.container, ids.join(","))).collect(),
        other => panic!("{other:?}"),
    }
}

/// The devices of a pod with one container, which its plugin gives at once.
fn given(managers: &mut ResourceManagers, pod: &Pod) -> String {
    let placement = admit(managers, pod);
    let uid = uid_of(pod);
    if let Placement::Call { taken, .. } = &placement {
        taken.iter().for_each(|(need, _)| managers.grant(&uid, need, DeviceGrant::default()));
    }
    called(placement).into_values().collect::<Vec<_>>().join(";")
}

fn refused(placement: Placement) -> String {
    match placement {
        Placement::Refused(refusal) => format!("{}: {refusal}", refusal.reason()),
        other => panic!("{other:?}"),
    }
}
