//! The rules about a pod's volumes. Sources that no static pod may have are only counted; the reference check refuses
//! them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, HostPathVolumeSource, KeyToPath, NFSVolumeSource, ProjectedVolumeSource, Volume,
};
use serde_json::Value;

use super::field::{Errors, FieldPath, text};
use super::{disks, names, paths, references};
use crate::logic::model::quantity::Quantity;

const MODE_RANGE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const ONE_TYPE: &str = "may not specify more than 1 volume type";

/// The volumes that mounts may name.
pub(super) struct Volumes<'a>(BTreeMap<&'a str, &'a Volume>);

impl Volumes<'_> {
    /// Whether there is a volume of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether the volume is a claim, and so perhaps a block device.
    pub fn is_claim(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some())
    }
}

/// Checks all volumes; gives those without an error.
pub(super) fn validate<'a>(volumes: &'a [Volume], path: &FieldPath, errors: &mut Errors) -> Volumes<'a> {
    let mut good = BTreeMap::new();
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        let before = errors.found.len();
        source(volume, &path, errors);
        match volume.name.as_str() {
            "" => errors.required(&path.child("name"), ""),
            name => errors.invalid_each(&path.child("name"), name, names::dns_label(name)),
        }
        if good.contains_key(volume.name.as_str()) {
            errors.duplicate(&path.child("name"), volume.name.as_str());
        }
        if errors.found.len() == before {
            good.insert(volume.name.as_str(), volume);
        }
    }
    Volumes(good)
}

/// The names of all sources, in the order in which upstream looks at them.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

fn source(volume: &Volume, path: &FieldPath, errors: &mut Errors) {
    let tree = serde_json::to_value(volume).unwrap_or(Value::Null);
    let mut given = SOURCES.iter().filter(|source| tree.get(**source).is_some());
    let Some(first) = given.next() else { return errors.required(path, "must specify a volume type") };
    only_source(volume, &path.child(first), errors);
    for source in given {
        errors.forbidden(&path.child(source), ONE_TYPE);
    }
}

/// The rules of the first source that is given.
fn only_source(volume: &Volume, path: &FieldPath, errors: &mut Errors) {
    if let Some(empty_dir) = &volume.empty_dir {
        let limit = empty_dir.size_limit.as_ref().and_then(|limit| Quantity::parse(&limit.0).ok());
        if limit.is_some_and(|limit| limit.is_negative()) {
            errors.forbidden(&path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
        }
    } else if let Some(host_path_source) = &volume.host_path {
        host_path(host_path_source, path, errors);
    } else if let Some(secret) = &volume.secret {
        if text(&secret.secret_name).is_empty() {
            errors.required(&path.child("secretName"), "");
        }
        mode(secret.default_mode, &path.child("defaultMode"), errors);
        items(secret.items.as_deref().unwrap_or_default(), &path.child("items"), errors);
    } else if let Some(nfs_source) = &volume.nfs {
        nfs(nfs_source, path, errors);
    } else if let Some(iscsi_source) = &volume.iscsi {
        disks::iscsi(iscsi_source, path, errors);
    } else if let Some(fc_source) = &volume.fc {
        disks::fc(fc_source, path, errors);
    } else if let Some(claim) = &volume.persistent_volume_claim {
        if claim.claim_name.is_empty() {
            errors.required(&path.child("claimName"), "");
        }
    } else if let Some(downward) = &volume.downward_api {
        mode(downward.default_mode, &path.child("defaultMode"), errors);
        for file in downward.items.iter().flatten() {
            downward_file(file, path, errors);
        }
    } else if let Some(config_map) = &volume.config_map {
        if config_map.name.is_empty() {
            errors.required(&path.child("name"), "");
        }
        mode(config_map.default_mode, &path.child("defaultMode"), errors);
        items(config_map.items.as_deref().unwrap_or_default(), &path.child("items"), errors);
    } else if let Some(projected_source) = &volume.projected {
        projected(projected_source, path, errors);
    } else if let Some(image) = &volume.image {
        pull_policy(text(&image.pull_policy), &path.child("pullPolicy"), errors);
    }
}

fn mode(mode: Option<i32>, path: &FieldPath, errors: &mut Errors) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
        errors.invalid(path, mode, MODE_RANGE);
    }
}

fn host_path(source: &HostPathVolumeSource, path: &FieldPath, errors: &mut Errors) {
    if source.path.is_empty() {
        return errors.required(&path.child("path"), "");
    }
    paths::no_backsteps(&source.path, &path.child("path"), errors);
    let types = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let kind = text(&source.type_);
    if !types.contains(&kind) {
        errors.not_supported(&path.child("type"), kind, &types);
    }
}

fn nfs(source: &NFSVolumeSource, path: &FieldPath, errors: &mut Errors) {
    if source.server.is_empty() {
        errors.required(&path.child("server"), "");
    }
    if source.path.is_empty() {
        errors.required(&path.child("path"), "");
    }
    if !source.path.starts_with('/') {
        errors.invalid(&path.child("path"), source.path.as_str(), "must be an absolute path");
    }
}

fn items(items: &[KeyToPath], path: &FieldPath, errors: &mut Errors) {
    for (index, item) in items.iter().enumerate() {
        key_to_path(item, &path.index(index), errors);
    }
}

fn key_to_path(item: &KeyToPath, path: &FieldPath, errors: &mut Errors) {
    if item.key.is_empty() {
        errors.required(&path.child("key"), "");
    }
    if item.path.is_empty() {
        errors.required(&path.child("path"), "");
    }
    paths::not_reserved(&item.path, &path.child("path"), errors);
    mode(item.mode, &path.child("mode"), errors);
}

fn downward_file(file: &DownwardAPIVolumeFile, path: &FieldPath, errors: &mut Errors) {
    if file.path.is_empty() {
        errors.required(&path.child("path"), "");
    }
    paths::not_reserved(&file.path, &path.child("path"), errors);
    match (&file.field_ref, &file.resource_field_ref) {
        (Some(selector), other) => {
            let allowed = &references::FIELDS_OF_FILES;
            references::field_selector(selector, allowed, &path.child("fieldRef"), errors);
            if other.is_some() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, "resource", detail);
            }
        }
        (None, Some(selector)) => {
            references::resource_selector(selector, true, &path.child("resourceFieldRef"), errors);
        }
        (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    mode(file.mode, &path.child("mode"), errors);
}

fn projected(source: &ProjectedVolumeSource, path: &FieldPath, errors: &mut Errors) {
    mode(source.default_mode, &path.child("defaultMode"), errors);
    let mut paths = BTreeSet::new();
    for (index, projection) in source.sources.iter().flatten().enumerate() {
        let path_of_source = path.child("sources").index(index);
        for (item, file) in
            projection.downward_api.iter().flat_map(|downward| downward.items.iter().flatten()).enumerate()
        {
            downward_file(file, &path_of_source.child("downwardAPI").child("items").index(item), errors);
            if !file.path.is_empty() && !paths.insert(file.path.as_str()) {
                errors.invalid(path, file.path.as_str(), "conflicting duplicate paths");
            }
        }
        let kinds = serde_json::to_value(projection).ok().and_then(|tree| tree.as_object().map(serde_json::Map::len));
        if kinds.unwrap_or_default() > 1 {
            errors.forbidden(&path_of_source, "may not specify more than 1 volume type per source");
        }
    }
}

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];

/// When an image is pulled, of a container or of a volume.
pub(super) fn pull_policy(policy: &str, path: &FieldPath, errors: &mut Errors) {
    errors.one_of(path, policy, &PULL_POLICIES);
}
