//! The defaults that the API server gives a pod, for pods that it never saw (PRB-02 among them).
//!
//! Owned by [`super`]. As in Go, an empty text and a zero number are values not given. Running it twice changes
//! nothing.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, DownwardAPIVolumeFile, EmptyDirVolumeSource, HTTPGetAction, Lifecycle,
    ObjectFieldSelector, Pod, PodSpec, Probe, ProjectedVolumeSource, ResourceRequirements, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::logic::images::image_name::ImageName;
use crate::logic::model::quantity::Quantity;
use crate::logic::resources::{
    CPU, HUGEPAGES_PREFIX, MEMORY, aggregate_container_limits, aggregate_container_requests, is_pod_level_resource,
};

/// The mode of projected files when none is given: 0644.
const FILE_MODE: i32 = 0o644;

/// The default grace period, in seconds.
const GRACE_PERIOD_SECONDS: i64 = 30;

/// The default life of a projected service account token, in seconds.
const TOKEN_LIFE_SECONDS: i64 = 3600;

type ResourceList = BTreeMap<String, ApiQuantity>;

/// Fills in what the manifest leaves to the API's defaults.
pub fn apply_defaults(pod: &mut Pod) {
    let spec = pod.spec.get_or_insert_default();
    for volume in spec.volumes.iter_mut().flatten() {
        default_volume(volume);
    }
    let host_network = spec.host_network.unwrap_or_default();
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        default_container(container, host_network);
    }
    default_spec(spec);
}

fn default_spec(spec: &mut PodSpec) {
    default_text(&mut spec.dns_policy, "ClusterFirst");
    default_text(&mut spec.restart_policy, "Always");
    default_text(&mut spec.scheduler_name, "default-scheduler");
    spec.security_context.get_or_insert_default();
    spec.termination_grace_period_seconds.get_or_insert(GRACE_PERIOD_SECONDS);
    spec.enable_service_links.get_or_insert(true);
    round_quantities(spec.overhead.as_mut());
    default_pod_resources(spec);
    // The old name of the field counts when the new one is not given.
    if let (true, Some(alias)) = (is_blank(spec.service_account_name.as_deref()), &spec.service_account) {
        spec.service_account_name = Some(alias.clone());
    }
}

fn default_container(container: &mut Container, host_network: bool) {
    if is_blank(container.image_pull_policy.as_deref()) {
        container.image_pull_policy = Some(pull_policy(container.image.as_deref().unwrap_or_default()).to_owned());
    }
    default_text(&mut container.termination_message_path, "/dev/termination-log");
    default_text(&mut container.termination_message_policy, "File");
    for port in container.ports.iter_mut().flatten() {
        default_port(port, host_network);
    }
    for variable in container.env.iter_mut().flatten() {
        if let Some(field) = variable.value_from.as_mut().and_then(|from| from.field_ref.as_mut()) {
            default_field_ref(field);
        }
    }
    if let Some(resources) = &mut container.resources {
        default_resources(resources);
    }
    let probes = [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    for probe in probes.into_iter().flatten() {
        default_probe(probe);
    }
    if let Some(lifecycle) = &mut container.lifecycle {
        default_lifecycle(lifecycle);
    }
}

/// An image that can change under its name is pulled always; a name that is none is found out elsewhere.
fn pull_policy(image: &str) -> &'static str {
    match ImageName::parse(image) {
        Ok(ImageName { tag: None, digest: None, .. }) => "Always",
        Ok(ImageName { tag: Some(tag), .. }) if tag == "latest" => "Always",
        _ => "IfNotPresent",
    }
}

fn default_port(port: &mut ContainerPort, host_network: bool) {
    default_text(&mut port.protocol, "TCP");
    if host_network && port.host_port.unwrap_or_default() == 0 {
        port.host_port = Some(port.container_port);
    }
}

fn default_field_ref(field: &mut ObjectFieldSelector) {
    default_text(&mut field.api_version, "v1");
}

/// The resources as a whole of a pod that has limits of its own (KEP-2837), once its containers have their defaults: a
/// request is the sum of the containers' requests, else the limit. Huge pages have no more limits than pages, so their
/// limit is the sum of the containers' limits.
fn default_pod_resources(spec: &mut PodSpec) {
    let (asked_for, limited_to) = (aggregate_container_requests(spec), aggregate_container_limits(spec));
    let Some(resources) = &mut spec.resources else { return };
    round_quantities(resources.limits.as_mut());
    round_quantities(resources.requests.as_mut());
    let mut limits = resources.limits.clone().unwrap_or_default();
    let mut requests = resources.requests.clone().unwrap_or_default();
    if limits.is_empty() && requests.is_empty() {
        return;
    }
    for (name, limit) in limited_to.iter().filter(|(name, _)| name.starts_with(HUGEPAGES_PREFIX)) {
        if !requests.contains_key(name) {
            limits.entry(name.clone()).or_insert_with(|| ApiQuantity(limit.to_string()));
        }
    }
    if limits.is_empty() {
        return;
    }
    for (name, sum) in asked_for.iter().filter(|(name, _)| [CPU, MEMORY].contains(&name.as_str())) {
        requests.entry(name.clone()).or_insert_with(|| ApiQuantity(sum.to_string()));
    }
    for (name, limit) in limits.iter().filter(|(name, _)| is_pod_level_resource(name)) {
        requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
    resources.limits = Some(limits);
    if !requests.is_empty() {
        resources.requests = Some(requests);
    }
}

/// Quantities in canonical form; a limit is the request where none is given.
fn default_resources(resources: &mut ResourceRequirements) {
    round_quantities(resources.limits.as_mut());
    round_quantities(resources.requests.as_mut());
    let Some(limits) = &resources.limits else { return };
    let requests = resources.requests.get_or_insert_default();
    for (name, limit) in limits {
        requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
}

fn round_quantities(list: Option<&mut ResourceList>) {
    for value in list.into_iter().flat_map(BTreeMap::values_mut) {
        // Decoding refused what does not parse.
        if let Ok(quantity) = Quantity::parse(&value.0) {
            value.0 = round_up_to_milli(quantity).to_string();
        }
    }
}

/// The API keeps thousandths of a resource, and gives rather too much than too little.
fn round_up_to_milli(quantity: Quantity) -> Quantity {
    let milli = quantity.milli_value();
    // Beyond what thousandths can count there is nothing to round.
    let is_countable = milli != i64::MAX && milli != i64::MIN;
    let rounded = Quantity::from_milli(milli);
    if is_countable && rounded != quantity { rounded } else { quantity }
}

fn default_probe(probe: &mut Probe) {
    default_number(&mut probe.timeout_seconds, 1);
    default_number(&mut probe.period_seconds, 10);
    default_number(&mut probe.success_threshold, 1);
    default_number(&mut probe.failure_threshold, 3);
    if let Some(http) = &mut probe.http_get {
        default_http(http);
    }
    if let Some(grpc) = &mut probe.grpc {
        grpc.service.get_or_insert_default();
    }
}

fn default_lifecycle(lifecycle: &mut Lifecycle) {
    for hook in [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten() {
        if let Some(http) = &mut hook.http_get {
            default_http(http);
        }
    }
}

fn default_http(http: &mut HTTPGetAction) {
    default_text(&mut http.path, "/");
    default_text(&mut http.scheme, "HTTP");
}

fn default_volume(volume: &mut Volume) {
    // A volume with a name alone is an empty directory.
    if *volume == (Volume { name: volume.name.clone(), ..Volume::default() }) {
        volume.empty_dir = Some(EmptyDirVolumeSource::default());
    }
    if let Some(host_path) = &mut volume.host_path {
        host_path.type_.get_or_insert_default();
    }
    if let Some(secret) = &mut volume.secret {
        secret.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(config_map) = &mut volume.config_map {
        config_map.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(downward) = &mut volume.downward_api {
        downward.default_mode.get_or_insert(FILE_MODE);
        default_downward_files(downward.items.as_mut());
    }
    if let Some(projected) = &mut volume.projected {
        default_projected(projected);
    }
    if let Some(iscsi) = &mut volume.iscsi {
        default_text(&mut iscsi.iscsi_interface, "default");
    }
    if let Some(image) = &mut volume.image
        && is_blank(image.pull_policy.as_deref())
    {
        image.pull_policy = Some(pull_policy(image.reference.as_deref().unwrap_or_default()).to_owned());
    }
}

fn default_projected(projected: &mut ProjectedVolumeSource) {
    projected.default_mode.get_or_insert(FILE_MODE);
    for source in projected.sources.iter_mut().flatten() {
        if let Some(token) = &mut source.service_account_token {
            token.expiration_seconds.get_or_insert(TOKEN_LIFE_SECONDS);
        }
        if let Some(downward) = &mut source.downward_api {
            default_downward_files(downward.items.as_mut());
        }
    }
}

fn default_downward_files(files: Option<&mut Vec<DownwardAPIVolumeFile>>) {
    for field in files.into_iter().flatten().filter_map(|file| file.field_ref.as_mut()) {
        default_field_ref(field);
    }
}

fn is_blank(text: Option<&str>) -> bool {
    text.unwrap_or_default().is_empty()
}

fn default_text(field: &mut Option<String>, value: &str) {
    if is_blank(field.as_deref()) {
        *field = Some(value.to_owned());
    }
}

fn default_number(field: &mut Option<i32>, value: i32) {
    if field.unwrap_or_default() == 0 {
        *field = Some(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn defaulted(spec: Value) -> Value {
        let mut pod: Pod =
            serde_json::from_value(json!({"apiVersion": "v1", "kind": "Pod", "spec": spec})).expect("a pod");
        apply_defaults(&mut pod);
        let once = pod.clone();
        apply_defaults(&mut pod);
        assert_eq!(pod, once, "defaulting twice changes nothing");
        serde_json::to_value(pod).expect("serialises")["spec"].take()
    }

    #[test]
    fn a_bare_pod_gets_the_defaults_of_the_api() {
        assert_eq!(
            defaulted(
                json!({"containers": [{"name": "c", "image": "busybox"}], "dnsPolicy": "", "schedulerName": null})
            ),
            json!({
                "containers": [{
                    "name": "c", "image": "busybox", "imagePullPolicy": "Always",
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30, "enableServiceLinks": true,
            })
        );
    }

    #[test]
    fn what_is_given_stays() {
        let spec = defaulted(json!({
            "containers": [{"name": "c", "image": "busybox", "imagePullPolicy": "Never",
            "terminationMessagePath": "/m"}],
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "enableServiceLinks": false,
        }));
        assert_eq!(spec["containers"][0]["imagePullPolicy"], "Never");
        assert_eq!(spec["containers"][0]["terminationMessagePath"], "/m");
        assert_eq!((&spec["restartPolicy"], &spec["terminationGracePeriodSeconds"]), (&json!("Never"), &json!(0)));
        assert_eq!(spec["enableServiceLinks"], false);
    }

    /// PRB-02.
    #[test]
    fn probes_get_their_numbers_path_and_scheme() {
        let spec = defaulted(json!({"containers": [{
            "name": "c",
            "readinessProbe": {"httpGet": {"port": 80}, "timeoutSeconds": 0, "periodSeconds": 3},
            "livenessProbe": {"grpc": {"port": 1}},
            "lifecycle": {"preStop": {"httpGet": {"port": "http"}}},
        }]}));
        let container = &spec["containers"][0];
        assert_eq!(
            container["readinessProbe"],
            json!({
                "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                "timeoutSeconds": 1, "periodSeconds": 3, "successThreshold": 1, "failureThreshold": 3,
            })
        );
        assert_eq!(container["livenessProbe"]["grpc"]["service"], "");
        assert_eq!(container["lifecycle"]["preStop"]["httpGet"]["path"], "/");
    }

    #[test]
    fn ports_take_tcp_and_on_the_host_network_their_own_number() {
        let ports = json!([{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "hostPort": 5353}]);
        for (host_network, first) in [
            (false, json!({"containerPort": 80, "protocol": "TCP"})),
            (true, json!({"containerPort": 80, "protocol": "TCP", "hostPort": 80})),
        ] {
            let container = json!({"name": "c", "ports": ports});
            let spec = defaulted(
                json!({"hostNetwork": host_network, "containers": [container.clone()], "initContainers": [container]}),
            );
            for list in ["containers", "initContainers"] {
                assert_eq!(spec[list][0]["ports"][0], first);
                assert_eq!(
                    spec[list][0]["ports"][1],
                    json!({"containerPort": 53, "protocol": "UDP", "hostPort": 5353})
                );
            }
        }
    }

    #[test]
    fn limits_become_requests_and_quantities_canonical() {
        let spec = defaulted(json!({"containers": [{"name": "c", "resources": {
            "limits": {"cpu": "0.5", "memory": "1024Mi"}, "requests": {"cpu": "100.1m"},
        }}]}));
        assert_eq!(
            spec["containers"][0]["resources"],
            json!({"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "101m", "memory": "1Gi"}})
        );
    }

    /// RES-02, KEP-2837.
    #[test]
    fn a_pod_with_limits_of_its_own_gets_the_requests_that_it_lacks() {
        let container = |requests: Value, limits: Value| json!({"name": "c", "resources": {"requests": requests, "limits": limits}});
        let none = || container(json!({}), json!({}));
        let cases = [
            (
                "the limits, where no container asks",
                json!({"limits": {"cpu": "1", "memory": "1Gi"}}),
                vec![none()],
                json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}),
            ),
            (
                "what the containers ask for together, a limit of theirs included",
                json!({"limits": {"cpu": "1", "memory": "1Gi"}}),
                vec![container(json!({"cpu": "100m"}), json!({})), container(json!({}), json!({"cpu": "0.15"}))],
                json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "250m", "memory": "1Gi"}}),
            ),
            (
                "also of what the pod does not limit; not of what a pod cannot have",
                json!({"limits": {"cpu": "1"}}),
                vec![container(json!({"memory": "1Gi", "ephemeral-storage": "1Gi"}), json!({}))],
                json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1", "memory": "1Gi"}}),
            ),
            (
                "what is given stays",
                json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
                vec![container(json!({"cpu": "3"}), json!({}))],
                json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
            ),
            (
                "nothing without limits",
                json!({"requests": {"cpu": "1"}}),
                vec![container(json!({"memory": "1Gi"}), json!({}))],
                json!({"requests": {"cpu": "1"}}),
            ),
            ("nothing for nothing", json!({}), vec![container(json!({"cpu": "1"}), json!({}))], json!({})),
            (
                "huge pages, limit and request, although only requests are given",
                json!({"requests": {"memory": "1Gi"}}),
                vec![container(json!({}), json!({"hugepages-2Mi": "4Mi"}))],
                json!({
                    "limits": {"hugepages-2Mi": "4Mi"},
                    "requests": {"memory": "1Gi", "hugepages-2Mi": "4Mi"},
                }),
            ),
            (
                "no limit of huge pages that are asked for",
                json!({"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}}),
                vec![container(json!({}), json!({"hugepages-2Mi": "4Mi"}))],
                json!({"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}}),
            ),
        ];
        for (name, resources, containers, expected) in cases {
            let spec = defaulted(json!({"containers": containers, "resources": resources}));
            assert_eq!(spec["resources"], expected, "{name}");
        }
    }

    #[test]
    fn a_pod_with_limits_alone_is_guaranteed() {
        let mut pod: Pod = serde_json::from_value(json!({"spec": {
            "containers": [{"name": "c"}], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        }}))
        .expect("a pod");
        apply_defaults(&mut pod);
        assert_eq!(crate::logic::resources::pod_qos(&pod, true), crate::logic::resources::QosClass::Guaranteed);
    }

    #[test]
    fn images_that_can_change_are_pulled_always() {
        let digest = format!("busybox@sha256:{}", "a".repeat(64));
        for (image, policy) in [
            ("busybox", "Always"),
            ("host:5000/busybox", "Always"),
            ("busybox:latest", "Always"),
            ("busybox:1", "IfNotPresent"),
            (digest.as_str(), "IfNotPresent"),
            ("Not//AName", "IfNotPresent"),
        ] {
            let spec = defaulted(json!({"containers": [{"name": "c", "image": image}]}));
            assert_eq!(spec["containers"][0]["imagePullPolicy"], policy, "{image}");
        }
    }

    #[test]
    fn quantities_round_up_to_thousandths_and_keep_their_size() {
        for (text, rounded) in [
            ("100u", "1m"),
            ("1.0001", "1001m"),
            ("3m", "3m"),
            ("1.5Gi", "1536Mi"),
            ("20Pi", "20Pi"),
            ("-0.0001", "-1m"),
        ] {
            let quantity = Quantity::parse(text).expect("parses");
            assert_eq!(round_up_to_milli(quantity).to_string(), rounded, "{text}");
        }
    }

    #[test]
    fn volumes_get_their_defaults() {
        let spec = defaulted(json!({"containers": [], "volumes": [
            {"name": "a"},
            {"name": "b", "hostPath": {"path": "/x"}},
            {"name": "c", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"name": "d", "image": {"reference": "a:1"}},
            {"name": "e", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ]}));
        assert_eq!(
            spec["volumes"],
            json!([
                {"name": "a", "emptyDir": {}},
                {"name": "b", "hostPath": {"path": "/x", "type": ""}},
                {"name": "c", "downwardAPI": {"defaultMode": 420,
                    "items": [{"path": "p", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}]}},
                {"name": "d", "image": {"reference": "a:1", "pullPolicy": "IfNotPresent"}},
                {"name": "e", "projected": {"defaultMode": 420,
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}},
            ])
        );
    }
}
