//! Feature gates: what may be set, what follows from it, and which are on.
//!
//! Made at start-up, then read-only. It keeps only what was set; everything else comes from the table in `table`.
//! Rules and texts are upstream's (`staging/src/k8s.io/component-base/featuregate/feature_gate.go`).

mod table;

use self::table::{GATES, Gate, Stage};
use serde_json::Value;
use std::collections::BTreeMap;

const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

/// Which features are on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FeatureGates {
    /// The gates that were set, by name, the two group gates included.
    set: BTreeMap<String, bool>,
}

impl FeatureGates {
    /// Whether a feature is on. A name that the release does not know is off.
    pub fn enabled(&self, name: &str) -> bool {
        if let Some(on) = self.set.get(name) {
            return *on;
        }
        let Some(gate) = find(name) else { return false };
        let group = match gate.stage {
            Stage::Alpha => self.set.get(ALL_ALPHA),
            Stage::Beta => self.set.get(ALL_BETA),
            Stage::GeneralAvailability | Stage::Deprecated => None,
        };
        group.copied().unwrap_or(gate.default)
    }

    /// Whether somebody set the gate: by its own name, or away from its default by a group.
    pub fn is_set(&self, name: &str) -> bool {
        self.set.contains_key(name) || find(name).is_some_and(|gate| gate.default != self.enabled(name))
    }

    /// Every gate with whether it is on, in the order of names: for the metric.
    pub fn all(&self) -> impl Iterator<Item = (&'static Gate, bool)> + '_ {
        GATES.iter().map(|gate| (gate, self.enabled(gate.name)))
    }

    /// These gates with more set on top; what `more` says counts.
    /// Errors are upstream's, all of them, in order of names.
    pub fn with(&self, more: &BTreeMap<String, bool>) -> Result<Self, Vec<String>> {
        let mut next = self.clone();
        next.set.extend(more.iter().map(|(name, on)| (name.clone(), *on)));
        let errors = next.setting_errors();
        let errors = if errors.is_empty() { next.dependency_errors() } else { errors };
        if errors.is_empty() { Ok(next) } else { Err(errors) }
    }

    /// As [`Self::with`], but skips what is wrong: for defaulting, which comes before the check.
    pub(super) fn with_lenient(&self, more: Option<&Value>) -> Self {
        let mut next = self.clone();
        for (name, on) in more.and_then(Value::as_object).into_iter().flatten() {
            if let Some(on) = on.as_bool() {
                next.set.insert(name.clone(), on);
            }
        }
        next
    }

    fn setting_errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for (name, on) in &self.set {
            match find(name) {
                None if name == ALL_ALPHA || name == ALL_BETA => {}
                None => errors.push(format!("unrecognized feature gate: {name}")),
                Some(gate) if gate.locked && gate.default != *on => errors
                    .push(format!("cannot set feature gate {name} to {on}, feature is locked to {}", gate.default)),
                Some(_) => {}
            }
        }
        errors
    }

    fn dependency_errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for (gate, _) in self.all().filter(|(_, on)| *on) {
            let missing: Vec<&str> = gate.needs.iter().copied().filter(|need| !self.enabled(need)).collect();
            if !missing.is_empty() {
                let (name, missing) = (gate.name, missing.join(" "));
                errors.push(format!("{name} is enabled, but depends on features that are disabled: [{missing}]"));
            }
        }
        errors
    }

    /// The notices for the log about gates that will go.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        for (name, on) in &self.set {
            match find(name).map(|gate| gate.stage) {
                Some(Stage::GeneralAvailability) => notices
                    .push(format!("Setting GA feature gate {name}={on}. It will be removed in a future release.")),
                Some(Stage::Deprecated) => notices.push(format!(
                    "Setting deprecated feature gate {name}={on}. It will be removed in a future release."
                )),
                _ => {}
            }
        }
        notices
    }
}

/// The table's row of a name.
pub fn find(name: &str) -> Option<&'static Gate> {
    GATES.binary_search_by(|gate| gate.name.cmp(name)).ok().map(|index| &GATES[index])
}

/// The gates that may be switched, as `--help` lists them.
pub fn known_features() -> Vec<String> {
    let mut lines: Vec<String> = [(ALL_ALPHA, "ALPHA"), (ALL_BETA, "BETA")]
        .map(|(name, stage)| format!("{name}=true|false ({stage} - default=false)"))
        .into();
    for gate in GATES.iter().filter(|gate| matches!(gate.stage, Stage::Alpha | Stage::Beta)) {
        lines.push(format!("{}=true|false ({} - default={})", gate.name, gate.stage.label(), gate.default));
    }
    lines.sort();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, bool)]) -> Result<FeatureGates, Vec<String>> {
        FeatureGates::default().with(&pairs.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect())
    }

    #[test]
    fn the_table_is_sorted_and_closed() {
        assert!(GATES.windows(2).all(|pair| pair[0].name < pair[1].name));
        for gate in GATES {
            assert!(gate.needs.iter().all(|need| find(need).is_some()), "{} needs an unknown gate", gate.name);
        }
        assert!(FeatureGates::default().dependency_errors().is_empty(), "defaults fit together");
    }

    #[test]
    fn stages_and_defaults_are_those_of_the_release() {
        for (name, stage, default, locked) in [
            ("NodeSwap", Stage::GeneralAvailability, true, true),
            ("CustomCPUCFSQuotaPeriod", Stage::GeneralAvailability, true, false),
            ("EventedPLEG", Stage::Alpha, false, false),
            ("KubeletEnsureSecretPulledImages", Stage::Beta, true, false),
            ("KubeletCrashLoopBackOffMax", Stage::Beta, true, false),
            ("SELinuxMount", Stage::Beta, false, false),
            ("GitRepoVolumeDriver", Stage::Deprecated, false, true),
            ("WatchListClient", Stage::Beta, true, false),
        ] {
            let gate = find(name).expect(name);
            assert_eq!((gate.stage, gate.default, gate.locked), (stage, default, locked), "{name}");
        }
    }

    #[test]
    fn what_may_not_be_set_is_named() {
        for (pairs, errors) in [
            (&[("Foo", true)][..], &["unrecognized feature gate: Foo"][..]),
            (&[("NodeSwap", false)], &["cannot set feature gate NodeSwap to false, feature is locked to true"]),
            (
                &[("A", true), ("NodeSwap", false)],
                &[
                    "unrecognized feature gate: A",
                    "cannot set feature gate NodeSwap to false, feature is locked to true",
                ],
            ),
            (
                &[("ContainerRestartRules", false)],
                &["RestartAllContainersOnContainerExits is enabled, but depends on features that are disabled: \
                   [ContainerRestartRules]"],
            ),
            (
                &[("WindowsGracefulNodeShutdown", false), ("GracefulNodeShutdown", false)],
                &["GracefulNodeShutdownBasedOnPodPriority is enabled, but depends on features that are disabled: \
                   [GracefulNodeShutdown]"],
            ),
        ] {
            assert_eq!(set(pairs).expect_err("it is refused"), errors, "{pairs:?}");
        }
        set(&[("NodeDeclaredFeatures", false)]).expect_err("its dependents are on");
    }

    /// CFG-22.
    #[test]
    fn a_prerequisite_may_go_with_its_dependents() {
        set(&[("ContainerRestartRules", false), ("RestartAllContainersOnContainerExits", false)])
            .expect("both are off");
        set(&[("NodeSwap", true)]).expect("it is what it is locked to");
    }

    /// CFG-23.
    #[test]
    fn group_gates_move_what_is_not_set_itself() {
        let gates = set(&[("AllAlpha", true), ("EventedPLEG", false), ("AllBeta", true)]).expect("fits together");
        assert!(gates.enabled("MemoryQoS"));
        assert!(!gates.enabled("EventedPLEG"));
        assert!(gates.enabled("SELinuxMount"));
        assert!(!gates.enabled("AllowDNSOnlyNodeCSR"), "a deprecated gate is in no group");
        let gates = set(&[("AllBeta", false)]).expect("fits together");
        assert!(!gates.enabled("PodLevelResources") && gates.enabled("NodeSwap"));
    }

    #[test]
    fn later_settings_count() {
        let first = set(&[("MemoryQoS", true), ("EventedPLEG", true)]).expect("known");
        let both = first.with(&BTreeMap::from([("MemoryQoS".to_owned(), false)])).expect("known");
        assert!(!both.enabled("MemoryQoS") && both.enabled("EventedPLEG"));
    }

    #[test]
    fn gates_that_will_go_are_told() {
        let gates = set(&[("NodeSwap", true), ("AllowDNSOnlyNodeCSR", true), ("MemoryQoS", true)]).expect("known");
        assert_eq!(
            gates.notices(),
            [
                "Setting deprecated feature gate AllowDNSOnlyNodeCSR=true. It will be removed in a future release.",
                "Setting GA feature gate NodeSwap=true. It will be removed in a future release.",
            ]
        );
    }
}
