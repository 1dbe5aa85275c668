//! References that a static pod may not have: objects of the API, which it could read only behind the API server's back
//! (SEC-18).
//!
//! Owned by [`super`]. Upstream's gate `PreventStaticPodAPIReferences`, always on here.

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVarSource, Pod, PodSpec, ProjectedVolumeSource, Volume};

/// Whether static pods may name ConfigMaps and Secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// They may not, as upstream.
    #[default]
    Refused,
    /// They may: the node has a folder of its own objects (`--local-objects`, ours). Others stay refused.
    Local,
}

/// The first kind of API object that the pod refers to and may not, in upstream's words and order; `None` when there is none.
pub fn refused_references(pod: &Pod, references: References) -> Option<&'static str> {
    let spec = pod.spec.as_ref()?;
    let account =
        [&spec.service_account_name, &spec.service_account].into_iter().flatten().any(|name| !name.is_empty());
    let volumes = || spec.volumes.iter().flatten();
    if account {
        return Some("serviceaccounts");
    }
    let is_local = references == References::Local;
    if (!is_local && uses_secrets(spec)) || volumes().any(|volume| uses_refused_secret(volume, is_local)) {
        return Some("secrets");
    }
    let config_maps =
        any_environment(spec, |from| from.config_map_ref.is_some(), |from| from.config_map_key_ref.is_some());
    if !is_local && (config_maps || volumes().any(volume_uses_config_map)) {
        return Some("configmaps");
    }
    if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        return Some("resourceclaims");
    }
    volumes().find_map(refused_volume)
}

fn uses_secrets(spec: &PodSpec) -> bool {
    spec.image_pull_secrets.as_ref().is_some_and(|secrets| !secrets.is_empty())
        || any_environment(spec, |from| from.secret_ref.is_some(), |from| from.secret_key_ref.is_some())
}

fn any_environment(spec: &PodSpec, whole: fn(&EnvFromSource) -> bool, single: fn(&EnvVarSource) -> bool) -> bool {
    let in_container = |container: &Container| {
        container.env_from.iter().flatten().any(whole)
            || container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()).any(single)
    };
    let ephemeral = || spec.ephemeral_containers.iter().flatten();
    spec.init_containers.iter().flatten().chain(&spec.containers).any(in_container)
        || ephemeral().flat_map(|container| container.env_from.iter().flatten()).any(whole)
        || ephemeral()
            .flat_map(|container| container.env.iter().flatten())
            .filter_map(|variable| variable.value_from.as_ref())
            .any(single)
}

fn any_projected(volume: &Volume, is_it: impl Fn(&k8s_openapi::api::core::v1::VolumeProjection) -> bool) -> bool {
    volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()).any(is_it)
}

/// Secrets of most plugins of volumes are refused on every node: nobody mounts such a volume, or only for pods of the API.
fn uses_refused_secret(volume: &Volume, is_local: bool) -> bool {
    let of_node = volume.secret.is_some()
        || any_projected(volume, |source| source.secret.is_some())
        || volume.iscsi.as_ref().is_some_and(|source| source.secret_ref.is_some());
    (!is_local && of_node)
        || volume.azure_file.as_ref().is_some_and(|source| !source.secret_name.is_empty())
        || volume.cephfs.as_ref().is_some_and(|source| source.secret_ref.is_some())
        || volume.cinder.as_ref().is_some_and(|source| source.secret_ref.is_some())
        || volume.flex_volume.as_ref().is_some_and(|source| source.secret_ref.is_some())
        || volume.rbd.as_ref().is_some_and(|source| source.secret_ref.is_some())
        || volume.scale_io.is_some()
        || volume.storageos.as_ref().is_some_and(|source| source.secret_ref.is_some())
        || volume.csi.as_ref().is_some_and(|source| source.node_publish_secret_ref.is_some())
}

fn volume_uses_config_map(volume: &Volume) -> bool {
    volume.config_map.is_some() || any_projected(volume, |source| source.config_map.is_some())
}

fn refused_volume(volume: &Volume) -> Option<&'static str> {
    if volume.csi.is_some() {
        return Some("csidrivers (via CSI volumes)");
    }
    if volume.glusterfs.is_some() {
        return Some("endpoints (via glusterFS volumes)");
    }
    if volume.persistent_volume_claim.is_some() {
        return Some("persistentvolumeclaims");
    }
    if volume.ephemeral.is_some() {
        return Some("persistentvolumeclaims (via ephemeral volumes)");
    }
    if volume.azure_file.is_some() {
        return Some("secrets (via azureFile volumes)");
    }
    volume.projected.as_ref().and_then(refused_projection)
}

fn refused_projection(projected: &ProjectedVolumeSource) -> Option<&'static str> {
    projected.sources.iter().flatten().find_map(|source| {
        if source.service_account_token.is_some() {
            return Some("serviceaccounts (via projected volumes)");
        }
        if source.cluster_trust_bundle.is_some() {
            return Some("clustertrustbundles");
        }
        source.pod_certificate.as_ref().map(|_| "podcertificates")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn refused(spec: Value) -> Option<&'static str> {
        let pod: Pod = serde_json::from_value(json!({"apiVersion": "v1", "kind": "Pod", "spec": spec})).expect("a pod");
        refused_references(&pod, References::Refused)
    }

    #[test]
    fn a_node_with_objects_of_its_own_takes_config_maps_and_secrets_alone() {
        let judge = |spec: Value| {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec});
            refused_references(&serde_json::from_value(pod).expect("a pod"), References::Local)
        };
        let from = json!({"name": "a", "envFrom": [{"secretRef": {"name": "a"}}, {"configMapRef": {"name": "a"}}]});
        let sources = json!([{"secret": {"name": "a"}}, {"configMap": {"name": "a"}}]);
        let taken = json!({
            "containers": [from],
            "imagePullSecrets": [{"name": "a"}],
            "volumes": [
                {"name": "v", "projected": {"sources": sources}}, {"name": "w", "secret": {"secretName": "a"}},
                {"name": "x", "iscsi": {"targetPortal": "p", "iqn": "i", "lun": 0, "secretRef": {"name": "a"}}},
            ],
        });
        assert_eq!(judge(taken), None);
        let token = json!([{"secret": {"name": "a"}}, {"serviceAccountToken": {"path": "t"}}]);
        for (refused, expected) in [
            (json!({"containers": [], "serviceAccountName": "a"}), "serviceaccounts"),
            (json!({"containers": [], "resourceClaims": [{"name": "a"}]}), "resourceclaims"),
            (
                json!({"containers": [], "volumes": [{"name": "v", "projected": {"sources": token}}]}),
                "serviceaccounts (via projected volumes)",
            ),
            (
                json!({"containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]}),
                "persistentvolumeclaims",
            ),
            (
                json!({"containers": [], "volumes": [{"name": "v", "azureFile": {"secretName": "a", "shareName": "s"}}]}),
                "secrets",
            ),
        ] {
            assert_eq!(judge(refused), Some(expected));
        }
    }

    #[test]
    fn each_reference_to_an_api_object_is_named() {
        let volume = |source: Value| {
            let mut volume = source;
            volume["name"] = json!("v");
            json!({"containers": [], "volumes": [volume]})
        };
        let container = |fields: Value| json!({"containers": [], "initContainers": [fields]});
        for (spec, expected) in [
            (json!({"containers": [], "serviceAccountName": "a"}), "serviceaccounts"),
            (json!({"containers": [], "serviceAccount": "a"}), "serviceaccounts"),
            (json!({"containers": [], "imagePullSecrets": [{"name": "a"}]}), "secrets"),
            (container(json!({"envFrom": [{"secretRef": {"name": "a"}}]})), "secrets"),
            (container(json!({"env": [{"name": "E", "valueFrom": {"secretKeyRef": {"key": "k"}}}]})), "secrets"),
            (container(json!({"envFrom": [{"configMapRef": {"name": "a"}}]})), "configmaps"),
            (container(json!({"env": [{"name": "E", "valueFrom": {"configMapKeyRef": {"key": "k"}}}]})), "configmaps"),
            (json!({"containers": [], "resourceClaims": [{"name": "a"}]}), "resourceclaims"),
            (volume(json!({"secret": {"secretName": "a"}})), "secrets"),
            (volume(json!({"configMap": {"name": "a"}})), "configmaps"),
            (
                volume(json!({"iscsi": {"targetPortal": "p", "iqn": "i", "lun": 0, "secretRef": {"name": "a"}}})),
                "secrets",
            ),
            (volume(json!({"projected": {"sources": [{"secret": {"name": "a"}}]}})), "secrets"),
            (volume(json!({"projected": {"sources": [{"configMap": {"name": "a"}}]}})), "configmaps"),
            (
                volume(
                    json!({"projected": {"sources": [{"downwardAPI": {}}, {"serviceAccountToken": {"path": "t"}}]}}),
                ),
                "serviceaccounts (via projected volumes)",
            ),
            (volume(json!({"projected": {"sources": [{"clusterTrustBundle": {"path": "t"}}]}})), "clustertrustbundles"),
            (volume(json!({"csi": {"driver": "d"}})), "csidrivers (via CSI volumes)"),
            (volume(json!({"persistentVolumeClaim": {"claimName": "c"}})), "persistentvolumeclaims"),
            (volume(json!({"ephemeral": {}})), "persistentvolumeclaims (via ephemeral volumes)"),
            (volume(json!({"glusterfs": {"endpoints": "e", "path": "p"}})), "endpoints (via glusterFS volumes)"),
        ] {
            assert_eq!(refused(spec.clone()), Some(expected), "{spec}");
        }
    }

    #[test]
    fn what_needs_no_api_is_allowed() {
        let spec = json!({
            "containers": [{"name": "c", "env": [{"name": "E",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}],
            "volumes": [
                {"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/x"}}, {"name": "c",
                "nfs": {"server": "s", "path": "/"}},
                {"name": "d", "downwardAPI": {}}, {"name": "e", "projected": {"sources": [{"downwardAPI": {}}]}},
                {"name": "f", "image": {"reference": "a"}},
            ],
        });
        assert_eq!(refused(spec), None);
    }
}
