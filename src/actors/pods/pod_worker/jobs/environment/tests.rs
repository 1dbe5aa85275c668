//! Sources of variables that a pod worker's jobs find in a played API server, under paused time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::starting::Given;
use super::*;
use crate::actors::node::tests::{PlayedAgent, played_agent};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::pods::worker_tools;
use crate::actors::wiring::start_alone;
use crate::logic::environment::container_environment;
use crate::logic::images::image_policy::ImageInUse;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::resources::node_cgroups::{MachineNow, MachineSize};
use crate::logic::volumes::volume_states::MountedVolume;
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::object_cache::ObjectCacheMsg;
use crate::messages::root::Child;

struct Setup {
    played: PlayedAgent,
    server: ObjectServer,
    site: JobSite,
    pod: Arc<Pod>,
    volumes: MountedVolumes,
}

impl Setup {
    /// A pod of this specification that `ObjectCache` knows of.
    fn new(spec: Value) -> Self {
        let server = ObjectServer::default();
        let played = played_agent(server.api(), |settings, _| settings.security.selinux = true);
        let (agent, to) = (&played.agent, &played.agent.directory);
        start_alone(Child::EventRecorder, agent);
        start_alone(Child::ObjectCache, agent);
        let metadata = json!({ "name": "web", "namespace": "ns", "uid": "uid-1" });
        let pod = serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).expect("a pod");
        let pod = Arc::new(pod);
        let known = ObjectCacheMsg::PodChanged(Arc::clone(&pod));
        to.object_cache.tell(Cause::outside("test"), known).expect("has room");
        let site = JobSite {
            tools: Arc::new(worker_tools(agent)),
            uid: PodUid::from("uid-1"),
            full_name: FullName::new("web", "ns"),
            host: Default::default(),
            machine: None,
            user_namespaces: Arc::default(),
            stops: Arc::default(),
            sandbox_dns: Arc::default(),
        };
        Self { played, server, site, pod, volumes: MountedVolumes::default() }
    }

    fn put(&self, collection: &str, name: &str, object: Value) {
        self.server.put(&format!("/api/v1/namespaces/ns/{collection}/{name}"), object);
    }

    /// The container's variables as `NAME=value`, or why there are none.
    async fn variables(&self) -> Result<Vec<String>, String> {
        let container = &self.pod.spec.as_ref().expect("a spec").containers[0];
        let sources = self.site.environment_sources(&self.pod, container, Addresses::default(), &self.volumes).await;
        let found = container_environment(&self.pod, container, &sources).map_err(|error| error.to_string())?;
        let shown = |(name, value): (String, Vec<u8>)| format!("{name}={}", String::from_utf8_lossy(&value));
        Ok(found.into_variables().into_iter().map(shown).collect())
    }

    /// The mounts of the first container: their paths on the host, and whether the runtime labels them.
    async fn mounts(&self) -> Vec<(String, bool)> {
        let container = &self.pod.spec.as_ref().expect("a spec").containers[0];
        let sources = self.site.environment_sources(&self.pod, container, Addresses::default(), &self.volumes).await;
        let given = Given {
            image: ImageInUse::default(),
            volumes: Arc::new(self.volumes.clone()),
            recursive_read_only: false,
            runtime: None,
        };
        let mounts = self.site.volume_mounts(&self.pod, container, &sources, &given).await.expect("mounts");
        mounts.into_iter().map(|mount| (mount.host_path, mount.selinux_relabel)).collect()
    }

    async fn users(&self, image: &str) -> Result<Vec<String>, String> {
        let found = self.site.credentials(&self.pod, image, &Cause::outside("test")).await?;
        Ok(found.into_iter().map(|one| format!("{}:{}", one.username, one.password)).collect())
    }

    async fn events(&self) -> Vec<String> {
        let question = |reply| EventRecorderMsg::OfPod(PodUid::from("uid-1"), reply);
        let recorder = &self.played.agent.directory.event_recorder;
        let events = recorder.ask(Cause::outside("test"), Duration::from_secs(1), question).await.expect("answered");
        events.iter().map(|counted| format!("{}: {}", counted.event.reason, counted.event.message)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn variables_come_from_config_maps_secrets_services_and_resources() {
    let env = json!([
        { "name": "LEVEL", "valueFrom": { "configMapKeyRef": { "name": "cm", "key": "level" } } },
        { "name": "USER", "valueFrom": { "secretKeyRef": { "name": "s", "key": "user" } } },
        { "name": "NONE", "valueFrom": { "secretKeyRef": { "name": "none", "key": "k", "optional": true } } },
        { "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu", "divisor": "1m" } } },
    ]);
    let env_from = json!([{ "configMapRef": { "name": "cm" }, "prefix": "P_" }]);
    let resources = json!({ "limits": { "cpu": "250m" } });
    let container = json!({ "name": "app", "env": env, "envFrom": env_from, "resources": resources });
    let setup = Setup::new(json!({ "containers": [container], "enableServiceLinks": true }));
    assert_eq!(setup.variables().await, Err("configmap \"cm\" not found".into()));
    setup.put("configmaps", "cm", json!({ "data": { "level": "high" } }));
    setup.put("secrets", "s", json!({ "data": { "user": "cm9vdA==" } }));
    setup.put("services", "web", json!({ "spec": { "clusterIP": "10.0.0.2", "ports": [] } }));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let expected = ["P_level=high", "LEVEL=high", "USER=root", "CPU=250", "WEB_SERVICE_HOST=10.0.0.2"];
    assert_eq!(setup.variables().await, Ok(expected.map(String::from).to_vec()));
}

/// CRI-11: each mount of a volume is labelled, as the runtime labels nothing but what it is given.
#[tokio::test(start_paused = true)]
async fn all_mounts_of_a_volume_are_labelled() {
    let mount = |name: &str, path: &str| json!({ "name": name, "mountPath": path });
    let mounts = [mount("own", "/a"), mount("own", "/b"), mount("host", "/c")];
    let mut setup = Setup::new(json!({
        "containers": [{ "name": "app", "volumeMounts": mounts }],
        "enableServiceLinks": false,
        "volumes": [{ "name": "own", "emptyDir": {} }, { "name": "host", "hostPath": { "path": "/host" } }],
    }));
    for (name, relabel) in [("own", true), ("host", false)] {
        let volume =
            MountedVolume { host_path: format!("/{name}"), name: name.to_owned(), relabel, ..Default::default() };
        setup.volumes.volumes.insert(name.to_owned(), volume);
    }
    let expected = [("/own", true), ("/own", true), ("/host", false)];
    assert_eq!(setup.mounts().await, expected.map(|(path, labelled)| (path.to_owned(), labelled)));
}

/// CRI-13: an ephemeral container's own resources are there without its name.
#[tokio::test(start_paused = true)]
async fn a_container_outside_the_pods_lists_has_its_own_resources() {
    let field = json!({ "resourceFieldRef": { "resource": "limits.memory" } });
    let setup = Setup::new(json!({ "containers": [{ "name": "app" }] }));
    let container = json!({ "name": "debugger", "env": [{ "name": "MEMORY", "valueFrom": field }] });
    let container: Container = serde_json::from_value(container).expect("a container");
    let sources = setup.site.environment_sources(&setup.pod, &container, Addresses::default(), &setup.volumes).await;
    assert!(matches!(sources.resolved[&0], Ok(Some(_))), "{:?}", sources.resolved);
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_services_and_then_says_so() {
    let setup = Setup::new(json!({ "containers": [{ "name": "app" }], "enableServiceLinks": false }));
    setup.server.refuse("services", Some((503, "ServiceUnavailable")));
    let text = "services have not yet been read at least once, cannot construct envvars";
    assert_eq!(setup.variables().await, Err(text.into()));
}

/// CRI-23, SEC-40.
#[tokio::test(start_paused = true)]
async fn pull_secrets_become_credentials_and_missing_ones_an_event() {
    let with_secrets = |names: &[&str]| {
        let names: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        let setup = Setup::new(json!({ "containers": [], "imagePullSecrets": names }));
        let secret =
            |config: &str| json!({ "type": "kubernetes.io/dockerconfigjson", "data": { ".dockerconfigjson": config } });
        // {"auths":{"reg.example":{"username":"u","password":"p"}}}, and "hunter2", which is no JSON.
        setup.put(
            "secrets",
            "good",
            secret("eyJhdXRocyI6eyJyZWcuZXhhbXBsZSI6eyJ1c2VybmFtZSI6InUiLCJwYXNzd29yZCI6InAifX19"),
        );
        setup.put("secrets", "broken", secret("aHVudGVyMg=="));
        setup
    };
    let setup = with_secrets(&["good", "missing", ""]);
    assert_eq!(setup.users("reg.example/team/app:1").await, Ok(vec!["u:p".to_owned()]));
    assert_eq!(setup.users("other.example/app").await, Ok(vec![]));
    let text = "FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (missing); \
                attempting to pull the image may not succeed.";
    assert_eq!(setup.events().await, [text]);
    // The image does not matter: nobody knows what the broken secret was meant for.
    let setup = with_secrets(&["broken", "good"]);
    let wrong = "pull secret broken: .dockerconfigjson is not a JSON object of registries";
    assert_eq!(setup.users("reg.example/team/app:1").await, Err(wrong.into()));
    assert!(setup.events().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_pull_secrets_asks_for_none() {
    let setup = Setup::new(json!({ "containers": [] }));
    assert_eq!(setup.users("reg.example/app").await, Ok(vec![]));
    assert!(setup.server.calls("/secrets").is_empty() && setup.events().await.is_empty());
}

/// CRI-37.
#[tokio::test(start_paused = true)]
async fn a_runtime_class_gives_its_handler_also_while_the_api_server_is_away() {
    let setup = Setup::new(json!({ "containers": [], "runtimeClassName": "small" }));
    let handler = async || setup.site.runtime_handler(&setup.pod).await;
    setup.server.refuse("runtimeclasses", Some((503, "ServiceUnavailable")));
    let unknown = handler().await.expect_err("never read");
    assert!(unknown.starts_with("failed to lookup RuntimeClass small: "), "{unknown}");
    setup.server.refuse("runtimeclasses", None);
    assert!(handler().await.is_err(), "there is none");
    setup.server.put("/apis/node.k8s.io/v1/runtimeclasses/small", json!({ "handler": "gvisor" }));
    assert_eq!(handler().await.as_deref(), Ok("gvisor"));
    setup.server.refuse("runtimeclasses", Some((503, "ServiceUnavailable")));
    assert_eq!(handler().await.as_deref(), Ok("gvisor"));
    let plain = Setup::new(json!({ "containers": [] }));
    assert_eq!(plain.site.runtime_handler(&plain.pod).await.as_deref(), Ok(""));
}

/// CRI-37: with its gate, the image of a volume is for the pod's handler, too.
#[tokio::test(start_paused = true)]
async fn the_image_of_a_volume_is_for_the_pods_handler() {
    let mut setup = Setup::new(json!({
        "containers": [{ "name": "main", "volumeMounts": [{ "name": "models", "mountPath": "/models" }] }],
        "volumes": [{ "name": "models", "image": { "reference": "models:1" } }],
        "runtimeClassName": "small", "enableServiceLinks": false,
    }));
    setup.server.put("/apis/node.k8s.io/v1/runtimeclasses/small", json!({ "handler": "gvisor" }));
    for (image_handlers, told) in [(false, ""), (true, "gvisor")] {
        let mut tools = worker_tools(&setup.played.agent);
        tools.settings.containers.image_handlers = image_handlers;
        setup.site.tools = Arc::new(tools);
        let container = &setup.pod.spec.as_ref().expect("a spec").containers[0];
        let (addresses, none) = (Addresses::default(), MountedVolumes::default());
        let sources = setup.site.environment_sources(&setup.pod, container, addresses, &none).await;
        let volumes = [("models".to_owned(), "sha256:1".to_owned())].into();
        let given = Given {
            image: ImageInUse { volumes, ..ImageInUse::default() },
            volumes: Arc::default(),
            recursive_read_only: false,
            runtime: None,
        };
        let mounts = setup.site.volume_mounts(&setup.pod, container, &sources, &given).await.expect("mounts");
        let image = mounts[0].image.as_ref().expect("an image");
        assert_eq!((image.image.as_str(), image.runtime_handler.as_str()), ("sha256:1", told));
    }
}

/// KEP-3953: a container that starts on a machine that has grown is scored by its memory as it is now.
#[tokio::test(start_paused = true)]
async fn a_container_is_scored_by_the_machine_as_it_is_now() {
    let requests = json!({ "requests": { "memory": "512Mi" } });
    let mut setup = Setup::new(json!({ "containers": [{ "name": "main", "resources": requests }] }));
    let mut scored = |memory_bytes: i64| {
        let size = MachineSize { memory_bytes, ..MachineSize::default() };
        setup.site.machine = Some(Arc::new(MachineNow { size, ..MachineNow::default() }));
        setup.site.resources(&setup.pod, &setup.pod.spec.as_ref().expect("a spec").containers[0], false).oom_score_adj
    };
    assert_eq!((scored(1 << 30), scored(8 << 30)), (500, 938));
}
