//! Is a configuration one that an agent can run with? Every rule that is broken, in upstream's order and words.
//!
//! Pure; keeps nothing. Upstream: `pkg/kubelet/apis/config/validation/validation.go`. The rules are grouped as there,
//! one function a theme, because the order of texts in the one message is part of what operators see.

mod allocatable;
pub mod cpus;
pub mod eviction;
mod images;
pub mod logging;
pub mod managers;
mod numbers;
mod policies;
mod rest;

use self::cpus::cpu_policy;
use self::eviction::thresholds;
use super::gates::FeatureGates;
use super::types::Config;

/// The facts of the host that validation needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Host {
    /// The host has no unified (v2) cgroup hierarchy.
    pub cgroup_v1: bool,
}

/// The subject of the rules, and the texts of those that are broken.
struct Review<'a> {
    config: &'a Config,
    gates: &'a FeatureGates,
    errors: Vec<String>,
}

impl Review<'_> {
    /// Notes a broken rule; the text begins as nearly all do.
    fn refuse_if(&mut self, broken: bool, text: impl FnOnce() -> String) {
        if broken {
            self.errors.push(format!("invalid configuration: {}", text()));
        }
    }

    /// Upstream refuses these after its other checks, one at a time; here the error names all together with the others.
    fn eviction(&mut self) {
        if let Err(errors) = thresholds(self.config) {
            self.errors.extend(errors.iter().map(ToString::to_string));
        }
    }

    /// As [`Self::eviction`].
    fn cpus(&mut self) {
        if let Err(errors) = cpu_policy(self.config, self.gates) {
            self.errors.extend(errors.iter().map(ToString::to_string));
        }
    }

    fn on(&self, gate: &str) -> bool {
        self.gates.enabled(gate)
    }
}

/// Every broken rule, in order; empty when the configuration is valid.
pub fn validate(config: &Config, gates: &FeatureGates, host: Host) -> Vec<String> {
    let mut review = Review { config, gates, errors: Vec::new() };
    review.numbers();
    review.image_pulls();
    review.taints();
    review.topology();
    review.shutdown();
    review.swap_and_back_off();
    review.node_allocatable();
    review.network();
    review.image_credentials();
    review.reserved_cpus();
    review.reserved_memory();
    review.operating_system(host);
    review.observability();
    review.memory_qos();
    review.endpoints_and_logs();
    review.eviction();
    review.topology_options();
    review.cpus();
    review.pod_logs_directory();
    review.errors
}

/// Many errors as one text, each once, as upstream's aggregate prints them.
pub fn aggregate(errors: &[String]) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for error in errors {
        if !seen.contains(&error.as_str()) {
            seen.push(error);
        }
    }
    match seen[..] {
        [single] => single.to_owned(),
        _ => format!("[{}]", seen.join(", ")),
    }
}

impl Host {
    /// Looks at the host: which kind of file system `/sys/fs/cgroup` is.
    pub fn detect() -> Self {
        let unified = nix::sys::statfs::statfs("/sys/fs/cgroup")
            .is_ok_and(|found| found.filesystem_type() == nix::sys::statfs::CGROUP2_SUPER_MAGIC);
        Self { cgroup_v1: !unified }
    }
}
