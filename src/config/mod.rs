//! Flags and files to one validated [`Config`], as the Kubernetes 1.36 kubelet reads them.
//!
//! Read before anything runs, and again at a reload; upstream reads once. Imports `logic` alone. The steps, low
//! precedence first: built-in defaults, the file of `--config`, drop-ins of `--config-dir`, the command line.
//!
//! * [`flags`] reads the command line and lays it over the configuration.
//! * `files` reads documents; [`decode`] turns them into a [`Config`], with `schema` and its table of `fields`.
//! * [`gates`] knows the release's feature gates.
//! * [`validate`] and [`late`] judge the result.
//! * [`acted`] names the settings that upstream acts on and the agent does not.
//! * [`reload`] knows which settings may change while the agent runs.
//! * [`review`] goes over all of this for `check-config`, and names every fault with its place.

pub mod acted;
pub mod decode;
pub mod duration;
mod fields;
mod files;
pub mod flags;
pub mod gates;
mod labels;
pub mod late;
mod quantity_text;
pub mod review;
mod schema;
mod types;
pub mod validate;
pub mod version;

#[cfg(test)]
mod tests;

pub use duration::GoDuration;
pub use flags::{Flags, LOCAL_SOCKET};
pub use gates::FeatureGates;
pub use review::reload;
pub use types::*;
pub use validate::Host;
pub use version::KUBERNETES_VERSION;

use flags::parse::{self, Parsed};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;

/// The request of the command line.
#[derive(Debug)]
pub enum Startup {
    /// To be the agent.
    Run(Box<Invocation>),
    /// To print this and exit with status 0.
    PrintAndExit {
        /// For standard output, with its last newline. Programs read it.
        stdout: String,
        /// For standard error, with its last newline. People read it.
        stderr: String,
    },
}

/// A valid way to run.
#[derive(Clone, PartialEq, Debug)]
pub struct Invocation {
    /// The configuration: defaults, file, drop-ins and flags together.
    pub config: Config,
    /// The flags that are not part of it.
    pub flags: Flags,
    /// Every flag with its value as text, for `/flagz`.
    pub shown_flags: BTreeMap<String, String>,
    /// Which features are on.
    pub gates: FeatureGates,
    /// Lines for standard error, as they are: uses of deprecated flags.
    pub notices: Vec<String>,
    /// Things for the log once it is set up, each said once.
    pub warnings: Vec<String>,
    /// Every flag with its value, for the log at verbosity 1.
    pub flag_lines: Vec<String>,
    /// Whether there was a `--config`. Without it the defaults are open to everyone.
    pub config_from_file: bool,
}

/// Why the agent cannot start: exit status 1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct StartupError {
    /// Upstream's `err` in its line `command failed`.
    pub message: String,
    /// Lines for standard error before it.
    pub notices: Vec<String>,
}

impl StartupError {
    /// The error as upstream's log shows it after the line's header: `"command failed" err="…"`, in klog's block form
    /// when the message has several lines.
    pub fn as_log_text(&self) -> String {
        if !self.message.contains('\n') {
            return format!("\"command failed\" err={:?}", self.message);
        }
        let lines: String = self.message.lines().map(|line| format!("\t{line}\n")).collect();
        format!("\"command failed\" err=<\n{lines} >")
    }
}

/// Reads the arguments after the program's name, and the files they name.
///
/// Errors are upstream's texts; the error names all broken rules of validation at once.
pub fn load(args: &[String], host: Host) -> Result<Startup, StartupError> {
    let parsed = parse::parse(args).map_err(|error| StartupError {
        message: format!("failed to parse kubelet flag: {}", error.message),
        notices: error.notices,
    })?;
    load_parsed(&parsed, host).map_err(|message| StartupError { message, notices: parsed.notices.clone() })
}

fn load_parsed(parsed: &Parsed, host: Host) -> Result<Startup, String> {
    if let Some(argument) = parsed.positional.first() {
        return Err(format!("unknown command {argument}{}", flags::suggest::command(argument)));
    }
    let flags = Flags::from_parsed(parsed);
    if let Some((stdout, stderr)) = information(&flags) {
        return Ok(Startup::PrintAndExit { stdout, stderr });
    }
    let flag_gates = flags::apply(&Config::default(), parsed).feature_gates;
    let flag_gates = set_gates(&FeatureGates::default(), &flag_gates)?;
    labels::check_node_labels(&flags.node_labels)
        .map_err(|error| format!("failed to validate kubelet flags: {error}"))?;
    flags::exempt_images(&flags).map_err(|errors| format!("failed to validate kubelet flags: {errors}"))?;
    let (config, mut warnings) = from_files(&flags, &flag_gates)?;
    let config = flags::apply(&config, parsed);
    let gates = set_gates(&flag_gates, &config.feature_gates)?;
    check(&config, &flags, &gates, host)?;
    let config_from_file = !flags.config.is_empty();
    warnings.extend(insecure_defaults(&flags, &config)?);
    warnings.extend(gates.notices());
    warnings.extend(late::warnings(&config));
    warnings.extend(acted::warnings(&config, parsed, &gates));
    let notices = parsed.notices.clone();
    let (shown_flags, flag_lines) = (flags::shown::logged_values(parsed), flags::dump::lines(parsed, &config));
    let invocation = Invocation { config, flags, shown_flags, gates, notices, warnings, flag_lines, config_from_file };
    Ok(Startup::Run(Box::new(invocation)))
}

/// The output of `--help` and `--version` on standard output, and beside it on standard error: programs that read the
/// version take exactly upstream's words.
fn information(flags: &Flags) -> Option<(String, String)> {
    if flags.help {
        return Some((flags::help::usage(), String::new()));
    }
    let own = format!("{}\n", version::own());
    match flags.version.as_str() {
        "raw" => Some((version::raw(), own)),
        "true" => Some((version::short(version::KUBERNETES_VERSION), own)),
        _ => None,
    }
}

fn set_gates(gates: &FeatureGates, more: &std::collections::BTreeMap<String, bool>) -> Result<FeatureGates, String> {
    gates.with(more).map_err(|errors| {
        format!("failed to set feature gates from initial flags-based config: {}", validate::aggregate(&errors))
    })
}

/// The configuration before the command line, and warnings about its files.
fn from_files(flags: &Flags, gates: &FeatureGates) -> Result<(Config, Vec<String>), String> {
    let (config, mut warnings) = match flags.config.as_str() {
        "" => (decode::legacy_defaults(), Vec::new()),
        name => files::load_main(name, gates)
            .map_err(|error| format!("failed to load kubelet config file, path: {name}, error: {error}"))?,
    };
    if flags.config_dir.is_empty() {
        return Ok((config, warnings));
    }
    let (config, skipped) = files::merge_directory(&config, &flags.config_dir, gates)
        .map_err(|error| format!("failed to merge kubelet configs: {error}"))?;
    for file in skipped {
        warnings.push(format!("Skipped file in drop-in directory (does not have .conf extension) file={file:?}"));
    }
    Ok((config, warnings))
}

/// Whether an agent may run with this: as [`load`] judges it.
///
/// # Errors
/// The text of [`load`]'s.
pub fn check(config: &Config, flags: &Flags, gates: &FeatureGates, host: Host) -> Result<(), String> {
    judge(config, gates, host)?;
    late::check(flags, config)
}

fn judge(config: &Config, gates: &FeatureGates, host: Host) -> Result<(), String> {
    let errors = validate::logging::errors(&config.logging, gates);
    if !errors.is_empty() {
        return Err(format!("initialize logging: {}", validate::aggregate(&errors)));
    }
    let errors = validate::validate(config, gates, host);
    if !errors.is_empty() {
        return Err(format!(
            "failed to validate kubelet configuration, error: {}, path: &TypeMeta{{Kind:,APIVersion:,}}",
            validate::aggregate(&errors)
        ));
    }
    Ok(())
}

/// Names what stands open because there is no configuration file; an error when the operator wants none of it.
fn insecure_defaults(flags: &Flags, config: &Config) -> Result<Option<String>, String> {
    if !flags.config.is_empty() {
        return Ok(None);
    }
    let mut open = Vec::new();
    if config.authentication.anonymous.enabled {
        open.push("anyone may call the server (authentication.anonymous.enabled: true)".to_owned());
    }
    if config.authorization.mode == "AlwaysAllow" {
        open.push("every call is allowed (authorization.mode: AlwaysAllow)".to_owned());
    }
    if config.read_only_port != 0 {
        open.push(format!("pods are shown without authentication (readOnlyPort: {})", config.read_only_port));
    }
    if open.is_empty() {
        return Ok(None);
    }
    let open = open.join("; ");
    let way_out = "give a configuration file with --config, or set these fields in one of --config-dir or by flags";
    if flags.refuse_insecure_defaults {
        return Err(format!("refusing to start with insecure defaults: {open}; {way_out}"));
    }
    Ok(Some(format!("INSECURE: there is no --config, so old defaults hold: {open}; {way_out}")))
}

/// A configuration as `GET /configz` shows it: `{"kubeletconfig":{…}}`, in upstream's keys and with its omissions.
pub struct Configz<'a>(pub &'a Config, pub &'a Flags);

impl Serialize for Configz<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = decode::printed(self.0);
        // Upstream puts the very list in order that it shows.
        if let Some(Value::Array(periods)) = fields.get_mut("shutdownGracePeriodByPodPriority") {
            periods.sort_by_key(|period| period["priority"].as_i64());
        }
        fields.insert("kind".into(), "KubeletConfiguration".into());
        fields.insert("apiVersion".into(), "kubelet.config.k8s.io/v1beta1".into());
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kubeletconfig", &Value::Object(fields))?;
        // Settings of our own that change decisions; without them the answer is upstream's.
        let mut own = serde_json::Map::new();
        if self.1.eviction_by_available_memory {
            own.insert("evictionByAvailableMemory".to_owned(), true.into());
        }
        if self.1.follow_machine_size {
            own.insert("followMachineSize".to_owned(), true.into());
        }
        if self.1.repair_state_files {
            own.insert("repairStateFiles".to_owned(), true.into());
        }
        if self.1.cpu_burst_max_percent != 0 {
            own.insert("cpuBurstMaxPercent".to_owned(), self.1.cpu_burst_max_percent.into());
        }
        if self.1.device_plugin_wait > GoDuration::ZERO {
            own.insert("devicePluginWait".to_owned(), self.1.device_plugin_wait.to_string().into());
        }
        if !self.1.image_gc_exempt.is_empty() {
            own.insert("imageGCExempt".to_owned(), self.1.image_gc_exempt.clone().into());
        }
        if !own.is_empty() {
            map.serialize_entry("podwright", &own)?;
        }
        map.end()
    }
}
