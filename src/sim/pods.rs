//! Pods for tests: builders with defaults, so that what a test sets is what it is about.

pub mod behaviour;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::pods::behaviour::Behaviour;
use crate::logic::manifest::references::References;
use crate::logic::manifest::{Source, check_static_with};
use crate::logic::model::ids::PodUid;
use crate::logic::resources::SYSTEM_CRITICAL_PRIORITY;

/// The beginning of the names of resources that device plugins bring.
pub const OWN_DEVICES: &str = "device.";

/// The beginning of the names of claims' devices, by which they are counted.
pub const CLAIMS_ASKED: &str = "claim.sim";

/// A container of a simulated pod.
#[derive(Clone, Debug)]
pub struct SimSpec {
    /// Name.
    pub name: String,
    /// Image.
    pub image: String,
    /// Its behaviour; see [`super::pods::behaviour`].
    pub does: String,
    /// Its own `restartPolicy`.
    pub restarts: Option<&'static str>,
    rules: Vec<Value>,
    fields: Vec<(&'static str, Value)>,
}

impl SimSpec {
    /// Whether it has rules of its own about its restart.
    pub fn is_ruled(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Whether it is restarted for ever; of an init container.
    pub fn is_sidecar(&self) -> bool {
        self.restarts == Some("Always")
    }

    /// Everything that it asks for: of each resource how many, and how many claims.
    pub fn asks(&self) -> BTreeMap<String, u64> {
        let of = self.fields.iter().filter(|(field, _)| *field == "resources");
        let claims = of.filter_map(|(_, value)| value["claims"].as_array()).flatten().count();
        let claims = (claims > 0).then(|| (CLAIMS_ASKED.to_owned(), claims as u64));
        self.devices().into_iter().chain(claims).collect()
    }

    /// The devices that it asks for: of each resource how many.
    pub fn devices(&self) -> BTreeMap<String, u64> {
        let of = self.fields.iter().filter(|(field, _)| *field == "resources").map(|(_, value)| &value["limits"]);
        let all = of.filter_map(Value::as_object).flatten().filter(|(name, _)| name.starts_with(OWN_DEVICES));
        let count = |value: &Value| value.as_str().and_then(|text| text.parse().ok()).unwrap_or_default();
        all.map(|(name, value)| (name.clone(), count(value))).collect()
    }

    /// Its behaviour.
    pub fn behaviour(&self) -> Behaviour {
        Behaviour::parse(std::slice::from_ref(&self.does))
    }

    fn manifest(&self) -> Value {
        let mut manifest = json!({ "name": self.name, "image": self.image, "args": [self.does] });
        for (field, value) in &self.fields {
            manifest[*field] = value.clone();
        }
        if let Some(policy) = self.restarts {
            manifest["restartPolicy"] = json!(policy);
        }
        if self.is_ruled() {
            manifest["restartPolicyRules"] = json!(self.rules);
        }
        manifest
    }
}

/// A static pod.
#[derive(Clone, Debug)]
pub struct SimPod {
    /// Name in the manifest.
    pub name: String,
    /// `Always`, `OnFailure` or `Never`.
    pub restart_policy: &'static str,
    /// Seconds.
    pub grace: u32,
    /// Init containers.
    pub init: Vec<SimSpec>,
    /// Containers.
    pub containers: Vec<SimSpec>,
    /// `activeDeadlineSeconds`.
    pub deadline: Option<u32>,
    /// Volumes, by name, that the last container mounts: the manifest's text of each source.
    pub volumes: Vec<(String, Value)>,
    /// Fields of the pod's own, such as `resources`.
    pub fields: Vec<(&'static str, Value)>,
}

impl SimPod {
    /// A pod with no container yet, restarted always, given 30 s to end.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            restart_policy: "Always",
            grace: 30,
            init: vec![],
            containers: vec![],
            deadline: None,
            volumes: vec![],
            fields: vec![],
        }
    }

    /// A pod with one container, `main`.
    pub fn of(name: &str, does: &str) -> Self {
        Self::new(name).container("main", does)
    }

    /// One more container.
    #[must_use]
    pub fn container(mut self, name: &str, does: &str) -> Self {
        self.containers.push(spec(name, does));
        self
    }

    /// One more init container.
    #[must_use]
    pub fn init(mut self, name: &str, does: &str) -> Self {
        self.init.push(spec(name, does));
        self
    }

    /// One more init container that runs beside the others: a sidecar.
    #[must_use]
    pub fn sidecar(mut self, name: &str, does: &str) -> Self {
        self.init.push(SimSpec { restarts: Some("Always"), ..spec(name, does) });
        self
    }

    /// The last container is never restarted but for this exit code, with which it asks for this action.
    #[must_use]
    pub fn rule(mut self, code: i32, action: &str) -> Self {
        let last = self.containers.last_mut().expect("a rule needs a container");
        last.restarts = Some("Never");
        last.rules.push(json!({ "action": action, "exitCodes": { "operator": "In", "values": [code] } }));
        self
    }

    /// The last sidecar asks for this action when it ends with this exit code.
    #[must_use]
    pub fn sidecar_rule(mut self, code: i32, action: &str) -> Self {
        let sidecars = self.init.iter_mut().filter(|one| one.restarts == Some("Always"));
        let last = sidecars.last().expect("a rule needs a sidecar");
        last.rules.push(json!({ "action": action, "exitCodes": { "operator": "In", "values": [code] } }));
        self
    }

    /// `activeDeadlineSeconds`.
    #[must_use]
    pub fn deadline(mut self, seconds: u32) -> Self {
        self.deadline = Some(seconds);
        self
    }

    /// The restart policy.
    #[must_use]
    pub fn restarts(mut self, policy: &'static str) -> Self {
        self.restart_policy = policy;
        self
    }

    /// `terminationGracePeriodSeconds`.
    #[must_use]
    pub fn grace(mut self, seconds: u32) -> Self {
        self.grace = seconds;
        self
    }

    /// All containers' image.
    #[must_use]
    pub fn image(mut self, image: &str) -> Self {
        for container in self.init.iter_mut().chain(&mut self.containers) {
            image.clone_into(&mut container.image);
        }
        self
    }

    /// An HTTP probe of the last container: `readinessProbe`, `livenessProbe` or `startupProbe`, each second, on a path
    /// of [`super::node::runtime::probes`].
    #[must_use]
    pub fn probe(self, kind: &'static str, path: &str) -> Self {
        let probe = json!({ "httpGet": { "path": path, "port": 80 }, "periodSeconds": 1, "failureThreshold": 2 });
        self.field(kind, probe)
    }

    /// A field of the last container's, such as a probe of another kind.
    #[must_use]
    pub fn field(mut self, field: &'static str, value: Value) -> Self {
        self.containers.last_mut().expect("a field needs a container").fields.push((field, value));
        self
    }

    /// A field of the container or init container of this name.
    ///
    /// # Panics
    /// When there is none: a mistake of the test.
    #[must_use]
    pub fn field_of(mut self, container: &str, field: &'static str, value: Value) -> Self {
        let found = self.init.iter_mut().chain(&mut self.containers).find(|spec| spec.name == container);
        found.expect("a field needs its container").fields.push((field, value));
        self
    }

    /// The last container has so many devices of this resource.
    #[must_use]
    pub fn device(self, resource: &str, count: u32) -> Self {
        self.field("resources", json!({ "limits": { resource: count.to_string() } }))
    }

    /// The last container has the device of a claim that is made for the pod, of this driver.
    #[must_use]
    pub fn claim(self, driver: &str) -> Self {
        self.with_claim(json!({ "name": "own", "resourceClaimTemplateName": driver }))
    }

    /// The last container has the device of a claim that other pods may use, too.
    #[must_use]
    pub fn shared_claim(self, claim: &str) -> Self {
        self.with_claim(json!({ "name": "shared", "resourceClaimName": claim }))
    }

    fn with_claim(self, entry: Value) -> Self {
        let claims = json!({ "claims": [{ "name": entry["name"] }] });
        self.field("resources", claims).own_field("resourceClaims", json!([entry]))
    }

    /// The last container mounts a persistent volume, by its claim.
    #[must_use]
    pub fn persistent(self, claim: &str) -> Self {
        self.volume(claim, json!({ "persistentVolumeClaim": { "claimName": claim } }))
    }

    /// The last container has a persistent volume as a device, by its claim.
    #[must_use]
    pub fn block(mut self, claim: &str) -> Self {
        let devices = json!([{ "name": claim, "devicePath": format!("/dev/{claim}") }]);
        self.containers.last_mut().expect("a container").fields.push(("volumeDevices", devices));
        self.persistent(claim)
    }

    /// Whether one of its containers asks for devices.
    pub fn asks_for_devices(&self) -> bool {
        self.init.iter().chain(&self.containers).any(|spec| !spec.devices().is_empty())
    }

    /// A field of the pod's own, such as `resources`.
    #[must_use]
    pub fn own_field(mut self, field: &'static str, value: Value) -> Self {
        self.fields.push((field, value));
        self
    }

    /// Hooks of the last container's by commands of [`super::node::runtime::probes`]: `postStart`, `preStop`.
    #[must_use]
    pub fn hooks(self, hooks: &[(&str, &str)]) -> Self {
        let hook = |command: &str| json!({ "exec": { "command": [command] } });
        let all = hooks.iter().map(|(name, command)| ((*name).to_owned(), hook(command)));
        self.field("lifecycle", Value::Object(all.collect()))
    }

    /// A volume of this source, mounted by the last container, unless its field `volumeMounts` is given, or it is a device.
    #[must_use]
    pub fn volume(mut self, name: &str, source: Value) -> Self {
        self.volumes.push((name.to_owned(), source));
        self
    }

    /// Whether a probe, hook, resize, rule, deadline or limit of its own may have a container stopped.
    pub fn may_be_stopped(&self) -> bool {
        let mut specs = self.init.iter().chain(&self.containers);
        let fields = specs.clone().flat_map(|spec| &spec.fields);
        self.deadline.is_some()
            || self.is_limited()
            || specs.any(SimSpec::is_ruled)
            || fields.into_iter().any(|(field, _)| !matches!(*field, "readinessProbe" | "resources"))
    }

    /// Whether its priority is that of pods that the node never ends for its own sake.
    pub fn is_critical(&self) -> bool {
        let priority = self.fields.iter().find(|(field, _)| *field == "priority").and_then(|(_, value)| value.as_i64());
        priority.is_some_and(|priority| priority >= i64::from(SYSTEM_CRITICAL_PRIORITY))
    }

    /// A pod in a user namespace of its own.
    #[must_use]
    pub fn with_own_users(self) -> Self {
        self.own_field("hostUsers", json!(false))
    }

    /// Whether it is to have a user namespace of its own.
    pub fn has_own_users(&self) -> bool {
        self.fields.iter().any(|(field, value)| *field == "hostUsers" && *value == json!(false))
    }

    /// Whether it has a limit of its own for what it writes to the node's disk.
    pub fn is_limited(&self) -> bool {
        let fields = self.containers.iter().flat_map(|spec| &spec.fields);
        let limits = |value: &Value| value["limits"]["ephemeral-storage"].is_string();
        fields.into_iter().any(|(field, value)| *field == "resources" && limits(value))
            || self.volumes.iter().any(|(_, source)| source["emptyDir"]["sizeLimit"].is_string())
    }

    /// The manifest's text.
    pub fn manifest(&self) -> Vec<u8> {
        let all = |specs: &[SimSpec]| specs.iter().map(SimSpec::manifest).collect::<Vec<_>>();
        let mut containers = all(&self.containers);
        let place = |name: &String| json!({ "name": name, "mountPath": format!("/{name}") });
        if let Some(last) = containers.last_mut().filter(|last| last["volumeMounts"].is_null()) {
            let devices = last["volumeDevices"].as_array().cloned().unwrap_or_default();
            let is_device = |name: &String| devices.iter().any(|one| one["name"] == **name);
            let mounted = self.volumes.iter().map(|(name, _)| name).filter(|name| !is_device(name));
            last["volumeMounts"] = mounted.map(place).collect();
        }
        let volume = |(name, source): &(String, Value)| {
            let mut volume = source.clone();
            volume["name"] = json!(name);
            volume
        };
        let mut manifest = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": self.name },
            "spec": {
                "restartPolicy": self.restart_policy,
                "terminationGracePeriodSeconds": self.grace,
                "activeDeadlineSeconds": self.deadline,
                "initContainers": all(&self.init),
                "containers": containers,
                "volumes": self.volumes.iter().map(volume).collect::<Vec<_>>(),
            },
        });
        for (field, value) in &self.fields {
            manifest["spec"][*field] = value.clone();
        }
        manifest.to_string().into_bytes()
    }

    /// The UID that the agent on `node` gives the pod of this manifest.
    ///
    /// # Panics
    /// For a pod that the agent refuses: a mistake of the test.
    pub fn uid(&self, node: &str) -> PodUid {
        let source = Source::File { path: manifest_path(&self.name) };
        let checked = check_static_with(&self.manifest(), &source, node, References::Local);
        let checked = checked.unwrap_or_else(|error| panic!("pod {} of the test is refused: {error}", self.name));
        PodUid::from(checked.pod.metadata.uid.as_deref().unwrap_or_default())
    }
}

fn spec(name: &str, does: &str) -> SimSpec {
    let (name, image, does) = (name.to_owned(), "app:1".to_owned(), does.to_owned());
    SimSpec { name, image, does, restarts: None, rules: vec![], fields: vec![] }
}

/// The static pod path.
pub const FOLDER: &str = "/etc/kubernetes/manifests";

/// The path of a pod's manifest.
pub fn manifest_path(name: &str) -> String {
    format!("{FOLDER}/{name}.json")
}
