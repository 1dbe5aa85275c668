//! The agent's metrics: upstream's names and labels (`reference` of dashboards and alerts), and `podwright_actor_*`.
//!
//! Made once by `main`. What is counted as it happens is kept here; everything else is read when someone scrapes.

use std::sync::Arc;

use prometheus::proto::MetricFamily;
use prometheus::{Encoder, Registry, TextEncoder};

use super::actor_metrics;
use super::certificate_metrics;
use super::families::Family;
use super::http_metrics::HttpMetrics;
use super::probe_metrics;
use super::process;
use super::relist_metrics::RelistMetrics;
use super::runtime_metrics::RuntimeMetrics;
use super::startup_metrics;
use crate::actors::ledger::Cause;
use crate::actors::settings::Agent;
use crate::config::FeatureGates;
use crate::config::version::KUBERNETES_VERSION;
use crate::logic::resources::CgroupVersion;
use crate::logic::runtime_pod::{ContainerState, RuntimePod, SandboxState};
use crate::messages::pleg::PlegMsg;

/// How long the runtime's pods may be waited for; a scrape without them is better than none.
const ASK_LIMIT: std::time::Duration = std::time::Duration::from_secs(2);

/// See the module.
pub struct Metrics {
    registry: Registry,
    runtime: Arc<RuntimeMetrics>,
    http: Arc<HttpMetrics>,
    relists: RelistMetrics,
    gates: FeatureGates,
}

impl Default for Metrics {
    /// All metrics at zero, all gates at their defaults.
    fn default() -> Self {
        Self::new(FeatureGates::default())
    }
}

impl Metrics {
    /// All metrics at zero; `gates` are told as they are.
    pub fn new(gates: FeatureGates) -> Self {
        let registry = Registry::new();
        let runtime = Arc::new(RuntimeMetrics::new(&registry));
        let http = Arc::new(HttpMetrics::new(&registry));
        let relists = RelistMetrics::new(&registry);
        Self { registry, runtime, http, relists, gates }
    }

    /// What counts calls to the runtime.
    pub fn runtime(&self) -> Arc<RuntimeMetrics> {
        Arc::clone(&self.runtime)
    }

    /// What counts requests to the kubelet's ports.
    pub(crate) fn http(&self) -> &Arc<HttpMetrics> {
        &self.http
    }

    /// All metrics in the text form 0.0.4, families in order of their names.
    pub async fn render(&self, agent: &Agent) -> String {
        let asked = agent.directory.pleg.ask(Cause::outside("request"), ASK_LIMIT, PlegMsg::Pods).await;
        self.relists.catch_up(&agent.ledger);
        let mut families = self.registry.gather();
        if let Ok(pods) = asked {
            running(&pods, &mut families);
        }
        node(agent, &mut families);
        startup_metrics::families(agent, &mut families).await;
        certificate_metrics::families(agent, &mut families);
        self.features(&mut families);
        build_info(&mut families);
        actor_metrics::families(&agent.ledger, &mut families);
        process::families(&mut families);
        text_of(families)
    }

    /// What `/metrics/probes` shows, in the same form.
    pub async fn render_probes(&self, agent: &Agent) -> String {
        let mut families = vec![];
        probe_metrics::families(agent, &mut families).await;
        text_of(families)
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

pub(super) fn text_of(mut families: Vec<MetricFamily>) -> String {
    families.sort_by(|one, other| one.name().cmp(other.name()));
    let mut text = String::new();
    for family in &families {
        // A family that has no text form, which none here is, costs only itself.
        let mut one = Vec::new();
        if TextEncoder::new().encode(std::slice::from_ref(family), &mut one).is_ok() {
            text.push_str(&String::from_utf8_lossy(&one));
        }
    }
    text
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

fn node(agent: &Agent, families: &mut Vec<MetricFamily>) {
    let mut family = Family::gauge("kubelet_node_name", "[ALPHA] The node's name. The count is always 1.");
    family.sample(&[("node", &agent.settings.node_name)], 1.0);
    family.finish(families);
    let version = match agent.adapters.cgroups.version() {
        CgroupVersion::V1 => 1.0,
        CgroupVersion::V2 => 2.0,
    };
    let mut family = Family::gauge("kubelet_cgroup_version", "[ALPHA] cgroup version on the hosts.");
    family.sample(&[], version);
    family.finish(families);
}

fn build_info(families: &mut Vec<MetricFamily>) {
    let help = "[ALPHA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree \
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
}
