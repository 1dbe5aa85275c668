//! The rules about what a container mounts, and about paths in general.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, VolumeMount};

use crate::logic::manifest::validation::field::{Errors, FieldPath, text};
use crate::logic::manifest::validation::paths::{descending, has_backstep};
use crate::logic::manifest::validation::volumes::Volumes;

/// The volumes mounted as directories or files.
pub(super) fn volume_mounts(container: &Container, volumes: &Volumes, path: &FieldPath, errors: &mut Errors) {
    let devices: BTreeMap<&str, &str> = container
        .volume_devices
        .iter()
        .flatten()
        .map(|device| (device.name.as_str(), device.device_path.as_str()))
        .collect();
    let mut places = BTreeSet::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let item = path.index(index);
        let (name, place) = (mount.name.as_str(), mount.mount_path.as_str());
        if name.is_empty() {
            errors.required(&item.child("name"), "");
        }
        if !volumes.has(name) {
            errors.not_found(&item.child("name"), name, "");
        }
        if place.is_empty() {
            errors.required(&item.child("mountPath"), "");
        }
        if !places.insert(place) {
            errors.invalid(&item.child("mountPath"), place, "must be unique");
        }
        if devices.contains_key(name) {
            errors.invalid(&item.child("name"), name, "must not already exist in volumeDevices");
        }
        if devices.values().any(|device| *device == place) {
            errors.invalid(&item.child("mountPath"), place, "must not already exist as a path in volumeDevices");
        }
        sub_path(mount, path, &item, errors);
        propagation(mount, container, path, errors);
    }
}

/// Upstream names the list, not the item, in some of these.
fn sub_path(mount: &VolumeMount, list: &FieldPath, item: &FieldPath, errors: &mut Errors) {
    let (sub_path, expression) = (text(&mount.sub_path), text(&mount.sub_path_expr));
    if !sub_path.is_empty() {
        descending(sub_path, &list.child("subPath"), errors);
    }
    if expression.is_empty() {
        return;
    }
    if !sub_path.is_empty() {
        let detail = "subPathExpr and subPath are mutually exclusive";
        errors.invalid(&item.child("subPathExpr"), expression, detail);
    }
    descending(expression, &list.child("subPathExpr"), errors);
}

fn propagation(mount: &VolumeMount, container: &Container, list: &FieldPath, errors: &mut Errors) {
    let path = list.child("mountPropagation");
    if let Some(mode) = mount.mount_propagation.as_deref() {
        let modes = ["Bidirectional", "HostToContainer", "None"];
        if !modes.contains(&mode) {
            errors.not_supported(&path, mode, &modes);
        }
        let privileged = container.security_context.as_ref().and_then(|context| context.privileged).unwrap_or_default();
        if mode == "Bidirectional" && !privileged {
            errors.forbidden(&path, "Bidirectional mount propagation is available only to privileged containers");
        }
    }
    let path = list.child("recursiveReadOnly");
    match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.read_only.unwrap_or_default() {
                errors.forbidden(&path, "may only be specified when readOnly is true");
            }
            if mount.mount_propagation.as_deref().is_some_and(|mode| mode != "None") {
                errors.forbidden(&path, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(other) => errors.not_supported(&path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

/// The volumes given as block devices.
pub(super) fn volume_devices(container: &Container, volumes: &Volumes, path: &FieldPath, errors: &mut Errors) {
    let mounts: BTreeMap<&str, &str> = container
        .volume_mounts
        .iter()
        .flatten()
        .map(|mount| (mount.name.as_str(), mount.mount_path.as_str()))
        .collect();
    let (mut seen, mut places) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in container.volume_devices.iter().flatten().enumerate() {
        let item = path.index(index);
        let (name, place) = (device.name.as_str(), device.device_path.as_str());
        if name.is_empty() {
            errors.required(&item.child("name"), "");
        }
        if seen.contains(name) {
            errors.invalid(&item.child("name"), name, "must be unique");
        }
        if !volumes.has(name) {
            errors.not_found(&item.child("name"), name, "");
        } else if !volumes.is_claim(name) {
            let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
            errors.invalid(&item.child("name"), name, detail);
        }
        if place.is_empty() {
            errors.required(&item.child("devicePath"), "");
        }
        if places.contains(place) {
            errors.invalid(&item.child("devicePath"), place, "must be unique");
        }
        if has_backstep(place) {
            errors.invalid(&item.child("devicePath"), place, "can not contain backsteps ('..')");
        } else {
            places.insert(place);
        }
        if mounts.contains_key(name) {
            errors.invalid(&item.child("name"), name, "must not already exist in volumeMounts");
        }
        if mounts.values().any(|mount| *mount == place) {
            errors.invalid(&item.child("devicePath"), place, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            seen.insert(name);
        }
    }
}
