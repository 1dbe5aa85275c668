//! The settings that upstream acts on and this agent does not, so that nobody relies on one in silence.
//!
//! Pure; keeps nothing. A setting leaves its list in the change that makes it work. `tests/settings.txt` names every flag,
//! field and gate beside these, and docs/differences.md says what the agent does instead.

use serde_json::Value;

use super::decode;
use super::flags::parse::Parsed;
use super::gates::FeatureGates;
use super::types::Config;

/// Fields of the configuration, each with the value that the agent behaves by, as JSON; empty where no value says it.
pub const IGNORED_FIELDS: &[(&str, &str)] = &[
    ("contentType", "\"application/json\""),
    ("enableContentionProfiling", "false"),
    ("kernelMemcgNotification", "true"),
    ("logging.flushFrequency", ""),
    ("logging.options.json.infoBufferSize", "\"0\""),
    ("logging.options.text.infoBufferSize", "\"0\""),
    ("showHiddenMetricsForVersion", "\"\""),
    ("volumePluginDir", ""),
];

/// Flags of the command line that no field stands for.
pub const IGNORED_FLAGS: &[&str] = &[
    "application-metrics-count-limit",
    "boot-id-file",
    "container-hints",
    "containerd",
    "containerd-namespace",
    "enable-load-reader",
    "event-storage-age-limit",
    "event-storage-event-limit",
    "experimental-mounter-path",
    "global-housekeeping-interval",
    "housekeeping-interval",
    "log-cadvisor-usage",
    "machine-id-file",
];

/// Feature gates, each with the setting that the agent behaves by, whatever was set.
pub const IGNORED_GATES: &[(&str, bool)] = &[
    ("ClientsAllowCARotation", true),
    ("ClientsAllowCBOR", false),
    ("ClientsPreferCBOR", false),
    ("ClusterTrustBundle", true),
    ("ClusterTrustBundleProjection", true),
    ("ContextualLogging", true),
    ("NativeHistograms", false),
    ("PodCertificateRequest", true),
    ("PreventStaticPodAPIReferences", true),
    ("TaintTolerationComparisonOperators", true),
    ("WatchListClient", true),
];

/// A warning for each setting that was made and changes nothing: fields, then flags, then gates, each in order of names.
pub fn warnings(config: &Config, parsed: &Parsed, gates: &FeatureGates) -> Vec<String> {
    let fields = fields(config).into_iter().map(field_warning);
    let flags = parsed.values.keys().filter(|name| is_ignored(name)).map(|name| flag_warning(name));
    fields.chain(flags).chain(gate_warnings(gates)).collect()
}

/// The ignored fields that are set to another value than their default and than the one that the agent behaves by.
pub(super) fn fields(config: &Config) -> Vec<&'static str> {
    let set = Value::Object(decode::to_json(config));
    let plain = Value::Object(decode::to_json(&decode::file_defaults()));
    let is_told = |(path, behaves): &&(&str, &str)| {
        let pointer = format!("/{}", path.replace('.', "/"));
        let value = set.pointer(&pointer);
        value != plain.pointer(&pointer) && value != serde_json::from_str(behaves).ok().as_ref()
    };
    IGNORED_FIELDS.iter().filter(is_told).map(|(path, _)| *path).collect()
}

/// Whether a flag changes nothing.
pub(super) fn is_ignored(flag: &str) -> bool {
    IGNORED_FLAGS.contains(&flag)
}

/// The warning about a field.
pub(super) fn field_warning(path: &str) -> String {
    format!("{path} is set, but the agent does not act on it")
}

/// The warning about a flag.
pub(super) fn flag_warning(name: &str) -> String {
    format!("--{name} is set, but the agent does not act on it")
}

/// The warnings about gates that somebody set, by their own names or by a group, to what the agent does not do.
pub(super) fn gate_warnings(gates: &FeatureGates) -> Vec<String> {
    let is_told = |(name, behaves): &&(&str, bool)| gates.enabled(name) != *behaves && gates.is_set(name);
    let warning = |(name, behaves): &(&str, bool)| {
        let on = gates.enabled(name);
        format!("feature gate {name}={on} is set, but the agent behaves as with {name}={behaves}")
    };
    IGNORED_GATES.iter().filter(is_told).map(warning).collect()
}
