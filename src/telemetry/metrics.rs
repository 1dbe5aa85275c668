//! The agent's metrics: upstream's names and labels (`reference` of dashboards and alerts), and `podwright_actor_*`.
//!
//! Made once by `main`. Counts of events are kept here; everything else is read when someone scrapes.

use std::collections::BTreeMap;
use std::sync::Arc;

use prometheus::Registry;
use prometheus::proto::MetricFamily;
use tokio::runtime::Handle;

use super::node::actor_metrics;
use super::node::certificate_metrics;
use super::node::node_metrics::NodeMetrics;
use super::node::plugin_metrics;
use super::node::process;
use super::node::sli_metrics::SliMetrics;
use super::node::startup_metrics;
use super::node::statistics_metrics;
use super::pods::claim_metrics;
use super::pods::hardware_metrics;
use super::pods::pod_gauges;
use super::pods::pod_metrics::PodMetrics;
use super::pods::probe_metrics;
use super::pods::resize_metrics;
use super::pods::volume_metrics::VolumeMetrics;
use super::registry::exposition::Exposition;
use super::registry::families::Family;
use super::runtime::image_metrics::ImageMetrics;
use super::runtime::relist_metrics::RelistMetrics;
use super::runtime::runtime_metrics::RuntimeMetrics;
use super::serving::auth_metrics::AuthMetrics;
use super::serving::client_metrics::ClientMetrics;
use super::serving::http_metrics::HttpMetrics;
use super::serving::rpc_metrics::RpcMetrics;
use super::sources::Sources;
use super::spans::traces;
use crate::config::FeatureGates;
use crate::config::version::{KUBERNETES_VERSION, OWN_COMMIT, OWN_VERSION};
use crate::logic::model::runtime_pod::{ContainerState, RuntimePod, SandboxState};
use crate::logic::resources::CgroupVersion;
use crate::messages::runtime::pleg::PlegMsg;
use crate::platform::observer::{Observation, Observer, Review};
use crate::telemetry::registry::scrape::{ASK_LIMIT, SCRAPE};

/// See the module.
pub struct Metrics {
    registry: Registry,
    runtime: Arc<RuntimeMetrics>,
    http: Arc<HttpMetrics>,
    rpc: RpcMetrics,
    slis: SliMetrics,
    pods: PodMetrics,
    relists: RelistMetrics,
    images: ImageMetrics,
    volumes: VolumeMetrics,
    node: NodeMetrics,
    client: ClientMetrics,
    authn: AuthMetrics,
    authz: AuthMetrics,
    gates: FeatureGates,
    /// The runtimes whose tasks are counted.
    threads: Vec<Handle>,
}

impl Default for Metrics {
    /// All metrics at zero, all gates at their defaults.
    fn default() -> Self {
        Self::new(FeatureGates::default())
    }
}

impl Metrics {
    /// All metrics at zero; `gates` become metrics as they are.
    pub fn new(gates: FeatureGates) -> Self {
        let registry = Registry::new();
        Self {
            runtime: Arc::new(RuntimeMetrics::new(&registry)),
            http: Arc::new(HttpMetrics::new(&registry)),
            rpc: RpcMetrics::new(&registry),
            slis: SliMetrics::new(),
            pods: PodMetrics::new(&registry),
            relists: RelistMetrics::new(&registry),
            images: ImageMetrics::new(&registry),
            volumes: VolumeMetrics::new(&registry),
            node: NodeMetrics::new(&registry),
            client: ClientMetrics::new(&registry),
            authn: AuthMetrics::new(&registry, "authn"),
            authz: AuthMetrics::new(&registry, "authz"),
            registry,
            gates,
            threads: Vec::new(),
        }
    }

    /// Has the tasks of these runtimes counted.
    #[must_use]
    pub fn with_tasks_of(self, threads: impl Into<Vec<Handle>>) -> Self {
        Self { threads: threads.into(), ..self }
    }

    /// The counters of calls to the runtime.
    pub fn runtime(&self) -> Arc<RuntimeMetrics> {
        Arc::clone(&self.runtime)
    }

    /// The counters of requests to the kubelet's ports, and of streams.
    pub fn http(&self) -> &Arc<HttpMetrics> {
        &self.http
    }

    /// Counters of calls to the gRPC sockets.
    pub fn rpc(&self) -> &RpcMetrics {
        &self.rpc
    }

    /// Tells that the runtime lacks what it will need from this release on, such as `1.37.0`.
    pub fn runtime_loses_support(&self, version: &str) {
        self.node.loses_support(version);
    }

    /// Tells the hash of the configuration of credential providers.
    pub fn providers_configured(&self, hash: &str) {
        self.images.providers_configured(hash);
    }

    /// The metrics of `/metrics`.
    pub async fn all(&self, sources: &Sources) -> Exposition {
        let mut families = self.registry.gather();
        if let Ok(pods) = sources.directory.pleg.ask(SCRAPE, ASK_LIMIT, PlegMsg::Pods).await {
            running(&pods, &mut families);
        }
        pod_gauges::families(sources, &mut families).await;
        node(sources, &mut families);
        startup_metrics::families(sources, &mut families).await;
        resize_metrics::families(sources, &mut families).await;
        let by_pod = self.gates.enabled("PodLevelResourceManagers");
        hardware_metrics::families(sources, by_pod, &mut families).await;
        claim_metrics::families(sources, &mut families).await;
        certificate_metrics::families(sources, &mut families);
        plugin_metrics::families(sources, &mut families).await;
        statistics_metrics::families(sources, &mut families).await;
        self.features(&mut families);
        build_info(&mut families);
        actor_metrics::families(&sources.trace, &mut families);
        process::families(&self.threads, &mut families);
        registered(&mut families);
        Exposition::new(families)
    }

    /// The metrics of `/metrics/probes`.
    pub async fn probes(&self, sources: &Sources) -> Exposition {
        let mut families = vec![];
        probe_metrics::families(sources, &mut families).await;
        process::start_time(&mut families);
        Exposition::new(families)
    }

    /// The metrics of `/metrics/slis`.
    pub fn slis(&self) -> Exposition {
        let mut families = self.slis.families();
        process::start_time(&mut families);
        Exposition::new(families)
    }

    /// Has `/metrics/slis` count anew.
    pub fn reset_slis(&self) {
        self.slis.reset();
    }

    fn features(&self, families: &mut Vec<MetricFamily>) {
        let help = "[BETA] This metric records the data about the stage and enablement of a k8s feature.";
        let mut family = Family::gauge("kubernetes_feature_enabled", help);
        for (gate, enabled) in self.gates.all() {
            let labels = [("name", gate.name), ("stage", gate.stage.label())];
            family.sample(&labels, if enabled { 1.0 } else { 0.0 });
        }
        family.finish(families);
    }
}

impl Observer for Metrics {
    fn observe(&self, what: Observation<'_>) {
        match &what {
            Observation::HealthChecked { name, healthy } => return self.slis.checked(name, *healthy),
            Observation::CallerReviewed { kind: Review::Identity, code, took } => {
                return self.authn.answered(*code, *took);
            }
            Observation::CallerReviewed { kind: Review::Right, code, took } => {
                return self.authz.answered(*code, *took);
            }
            Observation::ImagePulled { uid, began, took, .. } => self.pods.pulled(uid, *began, *took),
            _ => {}
        }
        let counted = self.pods.observe(&what)
            || self.relists.observe(&what)
            || self.images.observe(&what)
            || self.volumes.observe(&what)
            || self.client.observe(&what)
            || self.node.observe(&what)
            || self.rpc.observe(&what);
        debug_assert!(counted, "nobody counts {what:?}");
    }

    fn context(&self) -> Vec<(&'static str, String)> {
        traces::current_context()
    }
}

/// Pods and containers in the runtime.
fn running(pods: &[Arc<RuntimePod>], families: &mut Vec<MetricFamily>) {
    let is_running = |pod: &&Arc<RuntimePod>| pod.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready);
    let mut family = Family::gauge("kubelet_running_pods", "[ALPHA] Number of pods that have a running pod sandbox");
    family.sample(&[], pods.iter().filter(is_running).count() as f64);
    family.finish(families);
    let mut family = Family::gauge("kubelet_running_containers", "[ALPHA] Number of containers currently running");
    let states = [
        (ContainerState::Created, "created"),
        (ContainerState::Exited, "exited"),
        (ContainerState::Running, "running"),
        (ContainerState::Unknown, "unknown"),
    ];
    for (state, label) in states {
        // All states are always told: a state that emptied must not keep its last value.
        let count = pods.iter().flat_map(|pod| &pod.containers).filter(|container| container.state == state).count();
        family.sample(&[("container_state", label)], count as f64);
    }
    family.finish(families);
}

fn node(sources: &Sources, families: &mut Vec<MetricFamily>) {
    let mut family = Family::gauge("kubelet_node_name", "[ALPHA] The node's name. The count is always 1.");
    family.sample(&[("node", &sources.node_name)], 1.0);
    family.finish(families);
    let version = match sources.cgroup_version {
        CgroupVersion::V1 => 1.0,
        CgroupVersion::V2 => 2.0,
    };
    let mut family = Family::gauge("kubelet_cgroup_version", "[ALPHA] cgroup version on the hosts.");
    family.sample(&[], version);
    family.finish(families);
    let help =
        "[ALPHA] Metrics provider used by kubelet to collect container stats. Values can be 'cadvisor' and 'cri'";
    let mut family = Family::gauge("kubelet_metrics_provider", help);
    // Figures are those of cgroups, as cAdvisor's are, or the runtime's.
    family.sample(&[("provider", if sources.from_runtime { "cri" } else { "cadvisor" })], 1.0);
    family.finish(families);
}

fn build_info(families: &mut Vec<MetricFamily>) {
    let help = "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree \
                state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it \
                is running.";
    let platform = match std::env::consts::ARCH {
        "x86_64" => "linux/amd64",
        "aarch64" => "linux/arm64",
        _ => "linux",
    };
    let mut numbers = KUBERNETES_VERSION.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let mut family = Family::gauge("kubernetes_build_info", help);
    let labels = [
        ("build_date", "1970-01-01T00:00:00Z"),
        ("compiler", "rustc"),
        ("git_commit", ""),
        ("git_tree_state", ""),
        ("git_version", KUBERNETES_VERSION),
        ("go_version", ""),
        ("major", major),
        ("minor", minor),
        ("platform", platform),
    ];
    family.sample(&labels, 1.0);
    family.finish(families);
    let help =
        "A metric with a constant '1' value labeled by the program's own version and the commit it was built from.";
    let mut family = Family::gauge("podwright_build_info", help);
    family.sample(&[("commit", OWN_COMMIT), ("version", OWN_VERSION)], 1.0);
    family.finish(families);
}

/// How many families there are of each level. None is hidden or turned off: upstream's kubelet has no flags for that, and
/// none of its metrics is deprecated.
fn registered(families: &mut Vec<MetricFamily>) {
    let mut levels: BTreeMap<&str, usize> = BTreeMap::new();
    for family in families.iter() {
        let level = family.help().strip_prefix('[').and_then(|rest| Some(rest.split_once(']')?.0));
        *levels.entry(level.unwrap_or_default()).or_default() += 1;
    }
    let help = "[BETA] The count of registered metrics broken by stability level and deprecation version.";
    let mut family = Family::counter("registered_metrics_total", help);
    for (level, count) in levels {
        family.sample(&[("deprecated_version", ""), ("stability_level", level)], count as f64);
    }
    let mut hidden = Family::counter("hidden_metrics_total", "[BETA] The count of hidden metrics.");
    hidden.sample(&[], 0.0);
    let mut disabled = Family::counter("disabled_metrics_total", "[BETA] The count of disabled metrics.");
    disabled.sample(&[], 0.0);
    for family in [family, hidden, disabled] {
        family.finish(families);
    }
}

#[cfg(test)]
mod tests;
