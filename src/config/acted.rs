//! Which fields of the configuration the agent does not act on yet, so that nobody relies on one in silence.
//!
//! Pure; keeps nothing. A field leaves [`NOT_YET_ACTED_ON`] in the change that makes it work.

use super::decode;
use super::gates::FeatureGates;
use super::types::Config;

/// Fields that are read, checked and shown, but change nothing yet.
pub const NOT_YET_ACTED_ON: &[&str] =
    &["contentType", "enableContentionProfiling", "showHiddenMetricsForVersion", "volumePluginDir"];

/// Those of [`NOT_YET_ACTED_ON`] that are set away from their default, in order of names.
pub fn set_but_not_acted_on(config: &Config) -> Vec<&'static str> {
    let set = decode::to_json(config);
    // Eviction thresholds of a file that names none are a default, too.
    let plain = decode::to_json(&decode::defaults(&FeatureGates::default()));
    let file = decode::to_json(&decode::file_defaults());
    let is_default = |field: &str| set.get(field) == plain.get(field) || set.get(field) == file.get(field);
    // JSON is what is always spoken.
    let is_so = |field: &str| field == "contentType" && config.content_type == "application/json";
    NOT_YET_ACTED_ON.iter().copied().filter(|field| !is_default(field) && !is_so(field)).collect()
}
