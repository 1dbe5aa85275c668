//! Rules that the cluster has for a driver: the CSIDriver object, and the rules without one (VOL-42, VOL-43, VOL-44).

use std::time::Duration;

use k8s_openapi::api::storage::v1::{CSIDriver, TokenRequest};

use super::volume_data::{EPHEMERAL, PERSISTENT};

/// The one who gives files to the pod's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum GroupPolicy {
    /// Nobody.
    Never,
    /// The agent, whatever the volume is.
    Always,
    /// The agent, where the volume has a file system type and one node writes to it.
    #[default]
    OneWriterWithType,
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct DriverRules {
    /// Whether the cluster has an object of the driver.
    pub is_known: bool,
    /// Whether the cluster attaches volumes before they are mounted.
    pub attaches: bool,
    /// Whether the driver gets the pod's names.
    pub wants_pod: bool,
    /// The one who gives files to the pod's group.
    pub group_policy: GroupPolicy,
    /// Kinds of volumes that it has: persistent, and those that a pod brings along.
    pub persistent: bool,
    /// See [`Self::persistent`].
    pub ephemeral: bool,
    /// Tokens that the driver is given.
    pub tokens: Vec<TokenRequest>,
    /// Whether tokens are among the secrets, not among the attributes (SEC-53).
    pub tokens_in_secrets: bool,
    /// Whether a volume is published again at each sync of the pod.
    pub republishes: bool,
    /// Whether its volumes can be mounted with a label of SELinux (VOL-31).
    pub takes_label: bool,
    /// How often the driver is asked how many of its volumes the node has room for; `None` where that never changes.
    pub limit_period: Option<Duration>,
}

/// The shortest period that the API takes.
const LIMIT_PERIOD_MIN: Duration = Duration::from_secs(10);

/// `nodeAllocatableUpdatePeriodSeconds` of a CSIDriver.
pub fn limit_period(driver: &CSIDriver) -> Option<Duration> {
    let seconds = driver.spec.node_allocatable_update_period_seconds.filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(u64::try_from(seconds).ok()?).max(LIMIT_PERIOD_MIN))
}

impl DriverRules {
    /// The rules of a driver; `None` where the cluster has no object of it.
    pub fn of(driver: Option<&CSIDriver>) -> Self {
        let Some(spec) = driver.map(|driver| &driver.spec) else {
            return Self {
                is_known: false,
                attaches: true,
                wants_pod: false,
                group_policy: GroupPolicy::default(),
                // Upstream checks kinds against an object alone; without one only persistent volumes are had.
                persistent: true,
                ephemeral: false,
                tokens: vec![],
                tokens_in_secrets: false,
                republishes: false,
                takes_label: false,
                limit_period: None,
            };
        };
        let modes = spec.volume_lifecycle_modes.as_deref().unwrap_or_default();
        let has = |mode: &str| modes.iter().any(|one| one == mode);
        let group_policy = match spec.fs_group_policy.as_deref() {
            Some("None") => GroupPolicy::Never,
            Some("File") => GroupPolicy::Always,
            _ => GroupPolicy::OneWriterWithType,
        };
        Self {
            is_known: true,
            attaches: spec.attach_required.unwrap_or(true),
            wants_pod: spec.pod_info_on_mount.unwrap_or(false),
            group_policy,
            persistent: modes.is_empty() || has(PERSISTENT),
            ephemeral: has(EPHEMERAL),
            tokens: spec.token_requests.clone().unwrap_or_default(),
            tokens_in_secrets: spec.service_account_token_in_secrets.unwrap_or(false),
            republishes: spec.requires_republish.unwrap_or(false),
            takes_label: spec.se_linux_mount.unwrap_or(false),
            limit_period: driver.and_then(limit_period),
        }
    }

    /// Checks that the driver has volumes of this kind.
    ///
    /// # Errors
    /// That it has none, in upstream's words.
    pub fn check_mode(&self, driver: &str, is_ephemeral: bool) -> Result<(), String> {
        let (has, mode) = if is_ephemeral { (self.ephemeral, EPHEMERAL) } else { (self.persistent, PERSISTENT) };
        if has {
            return Ok(());
        }
        let only =
            if self.is_known { format!("only supports {:?}", self.modes()) } else { "no CSIDriver object".to_owned() };
        Err(format!("volume mode {mode:?} not supported by driver {driver} ({only})"))
    }

    fn modes(&self) -> Vec<&'static str> {
        let modes = [(self.ephemeral, EPHEMERAL), (self.persistent, PERSISTENT)];
        modes.into_iter().filter(|(has, _)| *has).map(|(_, mode)| mode).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules(spec: Value) -> DriverRules {
        let driver: CSIDriver = serde_json::from_value(json!({ "metadata": { "name": "d" }, "spec": spec })).unwrap();
        DriverRules::of(Some(&driver))
    }

    #[test]
    fn a_driver_without_object_attaches_and_has_persistent_volumes() {
        let bare = DriverRules::of(None);
        let silent = DriverRules { is_known: false, ..rules(json!({})) };
        assert_eq!(bare, silent, "an object that says nothing changes nothing");
        assert!(bare.attaches && bare.persistent && !bare.ephemeral && !bare.wants_pod && !bare.republishes);
        assert_eq!(bare.check_mode("d", false), Ok(()));
        let refused = bare.check_mode("d", true).unwrap_err();
        assert_eq!(refused, "volume mode \"Ephemeral\" not supported by driver d (no CSIDriver object)");
    }

    /// VOL-42, VOL-43, VOL-44.
    #[test]
    fn an_object_says_what_the_driver_wants() {
        let found = rules(json!({
            "attachRequired": false, "podInfoOnMount": true, "fsGroupPolicy": "File", "requiresRepublish": true,
            "volumeLifecycleModes": ["Ephemeral"], "tokenRequests": [{ "audience": "vault" }],
            "serviceAccountTokenInSecrets": true,
        }));
        assert!(!found.attaches && found.wants_pod && found.republishes && found.tokens_in_secrets);
        assert_eq!((found.group_policy, found.tokens.len()), (GroupPolicy::Always, 1));
        assert_eq!(found.check_mode("d", true), Ok(()));
        found.check_mode("d", false).unwrap_err();
        assert_eq!(rules(json!({ "fsGroupPolicy": "None" })).group_policy, GroupPolicy::Never);
    }

    /// VOL-12.
    #[test]
    fn limits_are_asked_for_where_the_object_says_how_often() {
        for (seconds, period) in [(json!(60), Some(60)), (json!(3), Some(10)), (json!(0), None), (json!(null), None)] {
            let found = rules(json!({ "nodeAllocatableUpdatePeriodSeconds": seconds })).limit_period;
            assert_eq!(found, period.map(Duration::from_secs), "{seconds}");
        }
    }
}
