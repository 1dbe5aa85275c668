//! azureFile. The handle is made of resource group, account, share, volume and the Secret's namespace.

use k8s_openapi::api::core::v1::{
    AzureFilePersistentVolumeSource, AzureFileVolumeSource, CSIPersistentVolumeSource, PersistentVolume,
    PersistentVolumeSpec, SecretReference,
};

use super::{NotMigrated, Translated, plain};

pub(super) const DRIVER: &str = "file.csi.azure.com";
/// The annotation of a volume that names its resource group.
const RESOURCE_GROUP: &str = "kubernetes.io/azure-file-resource-group";
/// The parts around an account's name in the usual name of its Secret.
const SECRET_NAME: (&str, &str) = ("azure-storage-account-", "-secret");
/// The namespace of a Secret that nobody names one for.
const NAMESPACE: &str = "default";

pub(super) fn of_volume(
    volume: &PersistentVolume,
    spec: &PersistentVolumeSpec,
    source: &AzureFilePersistentVolumeSource,
) -> Translated {
    let group = volume.metadata.annotations.as_ref().and_then(|all| all.get(RESOURCE_GROUP));
    let of_claim = || spec.claim_ref.as_ref().and_then(|claim| claim.namespace.clone());
    let namespace = source.secret_namespace.clone().or_else(of_claim).unwrap_or_default();
    if namespace.is_empty() {
        return Err(NotMigrated::AzureNamespace);
    }
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    let parts = [group.map_or("", String::as_str), account(&source.secret_name), &source.share_name, name, &namespace];
    Ok(translated(parts, &source.secret_name, source.read_only))
}

pub(super) fn inline(source: &AzureFileVolumeSource, name: &str, namespace: &str) -> CSIPersistentVolumeSource {
    let namespace = if namespace.is_empty() { NAMESPACE } else { namespace };
    let parts = ["", account(&source.secret_name), &source.share_name, name, namespace];
    translated(parts, &source.secret_name, source.read_only)
}

fn translated(parts: [&str; 5], secret: &str, read_only: Option<bool>) -> CSIPersistentVolumeSource {
    let [_, _, share, _, namespace] = parts;
    let secret = SecretReference { name: Some(secret.to_owned()), namespace: Some(namespace.to_owned()) };
    let found = plain(DRIVER, parts.join("#"), None, &[("sharename", share)]);
    CSIPersistentVolumeSource { node_stage_secret_ref: Some(secret), read_only, ..found }
}

/// The account that a Secret is of, by the Secret's name; the whole name where it is not the usual one.
fn account(secret: &str) -> &str {
    let (before, after) = SECRET_NAME;
    let rest = secret.find(before).map(|at| &secret[at + before.len()..]);
    let name = rest.and_then(|rest| Some(&rest[..rest.rfind(after)?]));
    name.filter(|name| !name.is_empty()).unwrap_or(secret)
}
