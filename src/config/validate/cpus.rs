//! Rules about the CPU manager: its policy's options, and that something is reserved. Part of `validate`.
//!
//! Upstream refuses these when it makes the manager, one at a time; here the error names all together with the others.

use crate::config::gates::FeatureGates;
use crate::config::types::Config;
use crate::logic::model::quantity::Quantity;
use crate::logic::resources::cpu_manager::options::{self, OptionError, OptionGates, StaticOptions};

/// A fault in the CPU manager's settings; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuPolicyError {
    /// The policy `none` has no options.
    #[error("new none policy error: None policy: received unsupported options=map[{0}]")]
    NoneHasOptions(String),
    /// An option of the static policy.
    #[error("new static policy error: {0}")]
    Option(OptionError),
    /// Nothing is kept for the host.
    #[error("[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero")]
    NothingReserved,
}

/// The static policy's options; `None` under another policy.
///
/// # Errors
/// Everything that is wrong.
pub fn cpu_policy(config: &Config, gates: &FeatureGates) -> Result<Option<StaticOptions>, Vec<CpuPolicyError>> {
    let options = &config.cpu_manager_policy_options;
    match config.cpu_manager_policy.as_str() {
        "none" if options.is_empty() => Ok(None),
        "none" => {
            let shown: Vec<_> = options.iter().map(|(name, value)| format!("{name}:{value}")).collect();
            Err(vec![CpuPolicyError::NoneHasOptions(shown.join(" "))])
        }
        "static" => {
            let option_gates = OptionGates {
                alpha: gates.enabled("CPUManagerPolicyAlphaOptions"),
                beta: gates.enabled("CPUManagerPolicyBetaOptions"),
            };
            let reserved = (!reserves_cpus(config)).then_some(CpuPolicyError::NothingReserved);
            match (options::parse(options, option_gates), reserved) {
                (Ok(options), None) => Ok(Some(options)),
                (Ok(_), Some(error)) => Err(vec![error]),
                (Err(errors), reserved) => {
                    Err(reserved.into_iter().chain(errors.into_iter().map(CpuPolicyError::Option)).collect())
                }
            }
        }
        // `late` refuses every other policy.
        _ => Ok(None),
    }
}

/// Whether CPUs are kept for the host, by number or by amount. An amount that cannot be read is refused elsewhere.
fn reserves_cpus(config: &Config) -> bool {
    let amounts = [&config.kube_reserved, &config.system_reserved].into_iter().filter_map(|amounts| amounts.get("cpu"));
    let is_some = |text: &String| Quantity::parse(text).map_or(true, |amount| amount.is_positive());
    !config.reserved_system_cpus.is_empty() || amounts.into_iter().any(is_some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(policy: &str, options: &[(&str, &str)]) -> Config {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Config { cpu_manager_policy: policy.to_owned(), cpu_manager_policy_options: options, ..Config::default() }
    }

    fn reserving(mut config: Config) -> Config {
        config.kube_reserved.insert("cpu".to_owned(), "100m".to_owned());
        config
    }

    fn texts(config: &Config) -> Vec<String> {
        let errors = cpu_policy(config, &FeatureGates::default()).err();
        errors.into_iter().flatten().map(|error| error.to_string()).collect()
    }

    /// RES-27.
    #[test]
    fn res_27_what_the_cpu_manager_cannot_be_made_of_is_told_together() {
        assert_eq!(cpu_policy(&config("none", &[]), &FeatureGates::default()), Ok(None));
        let options = [("full-pcpus-only", "true")];
        let on = StaticOptions { full_pcpus_only: true, ..StaticOptions::default() };
        assert_eq!(cpu_policy(&reserving(config("static", &options)), &FeatureGates::default()), Ok(Some(on)));
        let none = texts(&config("none", &[("b", "1"), ("a", "x")]));
        assert_eq!(none, ["new none policy error: None policy: received unsupported options=map[a:x b:1]"]);
        let all = texts(&config("static", &[("align-by-socket", "true"), ("full-pcpus-only", "?")]));
        assert_eq!(
            all,
            [
                "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero",
                "new static policy error: CPU Manager Policy Alpha-level Options not enabled, but option \
                 \"align-by-socket\" provided",
                "new static policy error: bad value for option \"full-pcpus-only\": strconv.ParseBool: parsing \"?\": \
                 invalid syntax",
            ]
        );
    }

    /// RES-26.
    #[test]
    fn res_26_cpus_are_reserved_by_number_or_by_amount() {
        let mut by_number = config("static", &[]);
        by_number.reserved_system_cpus = "0-1".to_owned();
        let mut by_system = config("static", &[]);
        by_system.system_reserved.insert("cpu".to_owned(), "1".to_owned());
        let mut zero = config("static", &[]);
        zero.kube_reserved.insert("cpu".to_owned(), "0".to_owned());
        assert_eq!([&by_number, &by_system].map(texts), [const { Vec::<String>::new() }; 2]);
        assert_eq!(texts(&zero).len(), 1);
    }
}
