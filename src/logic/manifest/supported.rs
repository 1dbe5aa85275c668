//! What this version of the agent does with each field of a pod, and the refusal of all that it does not do.
//!
//! Owned by [`super`]. A pod is never run without something it asked for: a probe that nobody makes or a security
//! setting that nobody applies is worse than a pod that does not start. The pod's JSON is walked against `RULES`; a
//! field that has no rule, as one of a newer API, is refused, too. When a feature arrives, its rule changes and
//! nothing else does.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::logic::resources::HUGEPAGES_PREFIX;

/// A field that the agent would not act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The field's path, `spec.containers[0].livenessProbe`.
    pub path: String,
    /// Why it is refused.
    pub reason: &'static str,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

/// What happens to a field.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// Accepted with all that is in it: it is acted on, or it concerns others (the scheduler, the API server).
    Accept,
    /// Accepted as a shell; the fields in it have rules of their own.
    Open,
    /// Refused unless it is empty or says what is so anyway: absent, `false`, `0`, no text, no items.
    Refuse(&'static str),
    /// Refused when anything at all is set in it, even `false`.
    RefuseAny(&'static str),
    /// Refused when it is there at all, even empty: that it is there says something.
    RefuseGiven(&'static str),
    /// Accepted with this value alone.
    Only(&'static str, &'static str),
}

use Rule::{Accept, Only, Open, Refuse, RefuseAny, RefuseGiven};

const NO_VOLUME: &str = "volumes of this kind are not supported by this version";
const NO_WINDOWS: &str = "settings of Windows are not acted on";
const NO_CLAIMS: &str = "resource claims are not supported by this version";
const NO_RESOURCE: &str =
    "of the resources only cpu, memory, huge pages and ephemeral-storage are supported by this version";
const NO_POD_RESOURCE: &str = "a pod as a whole has cpu, memory and huge pages alone";
const UNKNOWN: &str = "is not known to this version";

/// Every field of a pod: its path, with `[]` for any item of a list and `{}` for any key of a map, and its rule.
const RULES: &[(&str, Rule)] = &[
    ("apiVersion", Accept),
    ("kind", Accept),
    ("metadata", Open),
    ("metadata.annotations", Accept),
    ("metadata.creationTimestamp", Accept),
    ("metadata.deletionGracePeriodSeconds", Accept),
    ("metadata.deletionTimestamp", Accept),
    ("metadata.finalizers", Accept),
    ("metadata.generateName", Accept),
    ("metadata.generation", Accept),
    ("metadata.labels", Accept),
    ("metadata.managedFields", Accept),
    ("metadata.name", Accept),
    ("metadata.namespace", Accept),
    ("metadata.ownerReferences", Accept),
    ("metadata.resourceVersion", Accept),
    ("metadata.selfLink", Accept),
    ("metadata.uid", Accept),
    ("status", Accept),
    ("spec", Open),
    ("spec.activeDeadlineSeconds", Accept),
    ("spec.affinity", Accept),
    // The API server turns this into a volume; the node does nothing with the flag itself.
    ("spec.automountServiceAccountToken", Accept),
    ("spec.containers", Open),
    ("spec.dnsConfig", Accept),
    ("spec.dnsPolicy", Accept),
    ("spec.enableServiceLinks", Accept),
    ("spec.ephemeralContainers", Open),
    ("spec.ephemeralContainers[].targetContainerName", Accept),
    ("spec.hostAliases", Accept),
    ("spec.hostIPC", Accept),
    ("spec.hostNetwork", Accept),
    ("spec.hostPID", Accept),
    ("spec.hostUsers", Only("true", "user namespaces are not supported by this version")),
    ("spec.hostname", Accept),
    ("spec.hostnameOverride", Accept),
    ("spec.imagePullSecrets", Accept),
    ("spec.initContainers", Open),
    ("spec.nodeName", Accept),
    ("spec.nodeSelector", Accept),
    ("spec.os", Open),
    ("spec.os.name", Accept),
    ("spec.overhead", Accept),
    ("spec.preemptionPolicy", Accept),
    ("spec.priority", Accept),
    ("spec.priorityClassName", Accept),
    ("spec.readinessGates", Accept),
    ("spec.resourceClaims", Refuse(NO_CLAIMS)),
    ("spec.resources", Open),
    ("spec.resources.claims", Refuse(NO_CLAIMS)),
    ("spec.resources.limits", Open),
    ("spec.resources.limits{}", RefuseAny(NO_POD_RESOURCE)),
    ("spec.resources.limits{cpu}", Accept),
    ("spec.resources.limits{hugepages}", Accept),
    ("spec.resources.limits{memory}", Accept),
    ("spec.resources.requests", Open),
    ("spec.resources.requests{}", RefuseAny(NO_POD_RESOURCE)),
    ("spec.resources.requests{cpu}", Accept),
    ("spec.resources.requests{hugepages}", Accept),
    ("spec.resources.requests{memory}", Accept),
    ("spec.restartPolicy", Accept),
    ("spec.runtimeClassName", Accept),
    ("spec.schedulerName", Accept),
    ("spec.schedulingGates", Refuse("a pod with scheduling gates must not run")),
    ("spec.schedulingGroup", Refuse("scheduling groups are not supported by this version")),
    ("spec.securityContext", Open),
    ("spec.securityContext.fsGroup", Accept),
    ("spec.securityContext.fsGroupChangePolicy", Accept),
    ("spec.securityContext.appArmorProfile", Accept),
    ("spec.securityContext.runAsGroup", Accept),
    ("spec.securityContext.runAsNonRoot", Accept),
    ("spec.securityContext.runAsUser", Accept),
    // Volumes are never mounted with a label here, so that what can be asked for is what is done: to label the files.
    ("spec.securityContext.seLinuxChangePolicy", Accept),
    ("spec.securityContext.seLinuxOptions", Accept),
    ("spec.securityContext.seccompProfile", Accept),
    ("spec.securityContext.supplementalGroups", Accept),
    ("spec.securityContext.supplementalGroupsPolicy", Accept),
    ("spec.securityContext.sysctls", Accept),
    ("spec.securityContext.windowsOptions", RefuseAny(NO_WINDOWS)),
    ("spec.serviceAccount", Accept),
    ("spec.serviceAccountName", Accept),
    ("spec.setHostnameAsFQDN", Accept),
    ("spec.shareProcessNamespace", Accept),
    ("spec.subdomain", Accept),
    ("spec.terminationGracePeriodSeconds", Accept),
    ("spec.tolerations", Accept),
    ("spec.topologySpreadConstraints", Accept),
    ("spec.volumes", Open),
    ("spec.volumes[]", Open),
    ("spec.volumes[].name", Accept),
    ("spec.volumes[].emptyDir", Accept),
    ("spec.volumes[].hostPath", Accept),
    ("spec.volumes[].downwardAPI", Accept),
    ("spec.volumes[].configMap", Accept),
    ("spec.volumes[].secret", Accept),
    ("spec.volumes[].persistentVolumeClaim", Accept),
    ("spec.volumes[].ephemeral", Accept),
    ("spec.volumes[].projected", Open),
    ("spec.volumes[].projected.defaultMode", Accept),
    ("spec.volumes[].projected.sources", Open),
    ("spec.volumes[].projected.sources[]", Open),
    ("spec.volumes[].projected.sources[].clusterTrustBundle", Accept),
    ("spec.volumes[].projected.sources[].configMap", Accept),
    ("spec.volumes[].projected.sources[].downwardAPI", Accept),
    ("spec.volumes[].projected.sources[].podCertificate", Accept),
    ("spec.volumes[].projected.sources[].secret", Accept),
    ("spec.volumes[].projected.sources[].serviceAccountToken", Accept),
    ("spec.volumes[].awsElasticBlockStore", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].azureDisk", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].azureFile", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].cephfs", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].cinder", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].csi", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].fc", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].flexVolume", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].flocker", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].gcePersistentDisk", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].gitRepo", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].glusterfs", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].image", Accept),
    ("spec.volumes[].iscsi", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].nfs", Accept),
    ("spec.volumes[].photonPersistentDisk", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].portworxVolume", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].quobyte", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].rbd", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].scaleIO", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].storageos", RefuseGiven(NO_VOLUME)),
    ("spec.volumes[].vsphereVolume", RefuseGiven(NO_VOLUME)),
];

/// The fields of a container of any kind, below its item.
const CONTAINER_RULES: &[(&str, Rule)] = &[
    ("", Open),
    (".args", Accept),
    (".command", Accept),
    (".env", Open),
    (".env[]", Open),
    (".env[].name", Accept),
    (".env[].value", Accept),
    (".env[].valueFrom", Accept),
    (".envFrom", Accept),
    (".image", Accept),
    (".imagePullPolicy", Accept),
    (".lifecycle", Accept),
    (".livenessProbe", Accept),
    (".name", Accept),
    (".ports", Accept),
    (".readinessProbe", Accept),
    (".resizePolicy", Accept),
    (".resources", Open),
    (".resources.claims", Refuse(NO_CLAIMS)),
    (".resources.limits", Open),
    (".resources.limits{}", RefuseAny(NO_RESOURCE)),
    (".resources.limits{cpu}", Accept),
    (".resources.limits{ephemeral-storage}", Accept),
    (".resources.limits{hugepages}", Accept),
    (".resources.limits{memory}", Accept),
    (".resources.requests", Open),
    (".resources.requests{}", RefuseAny(NO_RESOURCE)),
    (".resources.requests{cpu}", Accept),
    (".resources.requests{ephemeral-storage}", Accept),
    (".resources.requests{hugepages}", Accept),
    (".resources.requests{memory}", Accept),
    (".restartPolicy", Accept),
    (".restartPolicyRules", Accept),
    (".securityContext", Open),
    (".securityContext.allowPrivilegeEscalation", Accept),
    (".securityContext.appArmorProfile", Accept),
    (".securityContext.capabilities", Accept),
    (".securityContext.privileged", Accept),
    (".securityContext.procMount", Accept),
    (".securityContext.readOnlyRootFilesystem", Accept),
    (".securityContext.runAsGroup", Accept),
    (".securityContext.runAsNonRoot", Accept),
    (".securityContext.runAsUser", Accept),
    (".securityContext.seLinuxOptions", Accept),
    (".securityContext.seccompProfile", Accept),
    (".securityContext.windowsOptions", RefuseAny(NO_WINDOWS)),
    (".startupProbe", Accept),
    (".stdin", Accept),
    (".stdinOnce", Accept),
    (".terminationMessagePath", Accept),
    (".terminationMessagePolicy", Accept),
    (".tty", Accept),
    (".volumeDevices", Accept),
    (".volumeMounts", Accept),
    (".workingDir", Accept),
];

/// The lists whose items follow [`CONTAINER_RULES`].
const CONTAINER_LISTS: [&str; 3] = ["spec.containers[]", "spec.ephemeralContainers[]", "spec.initContainers[]"];

/// What the names of annotations begin with that are settings in disguise: upstream's old form of the AppArmor profile.
pub const APP_ARMOR_ANNOTATION_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The fields of the pod that this version of the agent would not act on, in the order of their paths.
///
/// Empty for a pod that can be run in full. To be asked about a pod with its defaults, from any source.
pub fn unsupported_fields(pod: &Pod) -> Vec<Refusal> {
    let tree = serde_json::to_value(pod).expect("invariant: a pod that was decoded has text keys alone");
    let mut refusals = Vec::new();
    for (field, value) in tree.as_object().into_iter().flatten() {
        walk(&Place { path: field.clone(), pattern: field.clone() }, value, &mut refusals);
    }
    refusals
}

/// More refusals than this are not kept: a hostile manifest may have millions.
const REFUSALS_MAX: usize = 500;

/// Where the walk is: the path for people, the pattern for the rules.
struct Place {
    path: String,
    pattern: String,
}

fn walk(place: &Place, value: &Value, refusals: &mut Vec<Refusal>) {
    if refusals.len() >= REFUSALS_MAX {
        return;
    }
    let mut refuse = |reason| refusals.push(Refusal { path: place.path.clone(), reason });
    match rule_of(&place.pattern) {
        Some(Open) => walk_into(place, value, refusals),
        Some(Accept) => {}
        Some(Refuse(reason)) if !is_idle(value) => refuse(reason),
        Some(RefuseAny(reason)) if !is_hollow(value) => refuse(reason),
        Some(Only(allowed, reason)) if !is_text_or_flag(value, allowed) => refuse(reason),
        Some(RefuseGiven(reason)) if !value.is_null() => refuse(reason),
        Some(_) => {}
        None if is_hollow(value) => {}
        None => refuse(UNKNOWN),
    }
}

fn walk_into(place: &Place, value: &Value, refusals: &mut Vec<Refusal>) {
    let Place { path, pattern } = place;
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                walk(&below(place, field), value, refusals);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let item_place = Place { path: format!("{path}[{index}]"), pattern: format!("{pattern}[]") };
                walk(&item_place, item, refusals);
            }
        }
        _ => {}
    }
}

/// The place of an object's field or a map's entry.
fn below(place: &Place, field: &str) -> Place {
    let Place { path, pattern } = place;
    let any = format!("{pattern}{{}}");
    if rule_of(&any).is_none() {
        return Place { path: format!("{path}.{field}"), pattern: format!("{pattern}.{field}") };
    }
    let group = if field.starts_with(HUGEPAGES_PREFIX) { "hugepages" } else { field };
    let named = format!("{pattern}{{{group}}}");
    let known = rule_of(&named).is_some();
    let pattern = if known { named } else { any };
    Place { path: format!("{path}[{field}]"), pattern }
}

fn rule_of(pattern: &str) -> Option<Rule> {
    let find = |rules: &[(&str, Rule)], wanted: &str| {
        rules.iter().find(|(pattern, _)| *pattern == wanted).map(|(_, rule)| *rule)
    };
    match CONTAINER_LISTS.iter().find_map(|list| pattern.strip_prefix(list)) {
        Some(rest) => find(CONTAINER_RULES, rest).or_else(|| find(RULES, pattern)),
        None => find(RULES, pattern),
    }
}

/// Nothing in it, at any depth.
fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_hollow),
        _ => false,
    }
}

/// Says what would be so without it.
fn is_idle(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        other => is_hollow(other),
    }
}

fn is_text_or_flag(value: &Value, allowed: &str) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => flag.to_string() == allowed,
        Value::String(text) => text == allowed,
        _ => false,
    }
}

#[cfg(test)]
#[path = "supported_tests.rs"]
mod tests;
