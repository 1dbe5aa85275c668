//! References that a static pod may not have: objects of the API, which it could read only behind the API server's back
//! (SEC-18).
//!
//! Owned by [`super`]. Upstream's gate `PreventStaticPodAPIReferences`, always on here.

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVarSource, Pod, PodSpec, ProjectedVolumeSource, Volume};

/// The first kind of API object that the pod refers to, in upstream's words and order; `None` when there is none.
pub fn refused_references(pod: &Pod) -> Option<&'static str> {
    let spec = pod.spec.as_ref()?;
    let account =
        [&spec.service_account_name, &spec.service_account].into_iter().flatten().any(|name| !name.is_empty());
    let volumes = || spec.volumes.iter().flatten();
    if account {
        return Some("serviceaccounts");
    }
    if uses_secrets(spec) || volumes().any(volume_uses_secret) {
        return Some("secrets");
    }
    let config_maps =
        any_environment(spec, |from| from.config_map_ref.is_some(), |from| from.config_map_key_ref.is_some());
    if config_maps || volumes().any(volume_uses_config_map) {
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

fn volume_uses_secret(volume: &Volume) -> bool {
    volume.secret.is_some()
        || any_projected(volume, |source| source.secret.is_some())
        || volume.azure_file.as_ref().is_some_and(|source| !source.secret_name.is_empty())
        || volume.cephfs.as_ref().is_some_and(|source| source.secret_ref.is_some())
        || volume.cinder.as_ref().is_some_and(|source| source.secret_ref.is_some())
        || volume.flex_volume.as_ref().is_some_and(|source| source.secret_ref.is_some())
        || volume.rbd.as_ref().is_some_and(|source| source.secret_ref.is_some())
        || volume.scale_io.is_some()
        || volume.iscsi.as_ref().is_some_and(|source| source.secret_ref.is_some())
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
        refused_references(&pod)
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
