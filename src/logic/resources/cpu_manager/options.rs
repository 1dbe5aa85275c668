//! `cpuManagerPolicyOptions`: which of the static policy's options are on, and which may be.
//!
//! Pure; made once at the start. The texts are upstream's; upstream tells the first thing that is wrong, this all of them.

use std::collections::BTreeMap;

use super::topology::CpuTopology;
use crate::logic::formats::go_text::quoted;

/// Only whole cores are given (KEP-2625, stable).
const FULL_PCPUS_ONLY: &str = "full-pcpus-only";
/// Even shares of NUMA nodes where one is too small (KEP-2902, beta).
const DISTRIBUTE_ACROSS_NUMA: &str = "distribute-cpus-across-numa";
/// Hints that stay within a socket are as good as those of one node (KEP-3327, alpha).
const ALIGN_BY_SOCKET: &str = "align-by-socket";
/// Single CPUs of different cores (KEP-4176, alpha).
const DISTRIBUTE_ACROSS_CORES: &str = "distribute-cpus-across-cores";
/// Reserved CPUs are not even shared (KEP-4540, stable).
const STRICT_RESERVATION: &str = "strict-cpu-reservation";
/// As few shared caches as possible (KEP-4800, stable).
const PREFER_UNCORE: &str = "prefer-align-cpus-by-uncorecache";

/// Pairs that exclude each other, in the order of upstream's checks.
const EXCLUSIVE: [[&str; 2]; 4] = [
    [FULL_PCPUS_ONLY, DISTRIBUTE_ACROSS_CORES],
    [DISTRIBUTE_ACROSS_NUMA, DISTRIBUTE_ACROSS_CORES],
    [PREFER_UNCORE, DISTRIBUTE_ACROSS_CORES],
    [PREFER_UNCORE, DISTRIBUTE_ACROSS_NUMA],
];

/// The static policy's options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaticOptions {
    /// `full-pcpus-only`.
    pub full_pcpus_only: bool,
    /// `distribute-cpus-across-numa`.
    pub distribute_across_numa: bool,
    /// `align-by-socket`.
    pub align_by_socket: bool,
    /// `distribute-cpus-across-cores`.
    pub distribute_across_cores: bool,
    /// `strict-cpu-reservation`.
    pub strict_reservation: bool,
    /// `prefer-align-cpus-by-uncorecache`.
    pub prefer_uncore: bool,
}

/// The gates that options stand behind. Stable options need none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionGates {
    /// `CPUManagerPolicyAlphaOptions`.
    pub alpha: bool,
    /// `CPUManagerPolicyBetaOptions`.
    pub beta: bool,
}

/// A fault in the options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No such option.
    #[error("unknown CPU Manager Policy option: {}", quoted(.0))]
    Unknown(String),
    /// Its gate is off.
    #[error("CPU Manager Policy Alpha-level Options not enabled, but option {} provided", quoted(.0))]
    Alpha(&'static str),
    /// Its gate is off.
    #[error("CPU Manager Policy Beta-level Options not enabled, but option {} provided", quoted(.0))]
    Beta(&'static str),
    /// Neither true nor false.
    #[error(
        "bad value for option {}: strconv.ParseBool: parsing {}: invalid syntax", quoted(.option), quoted(.value)
    )]
    BadValue {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
    },
    /// Two that contradict each other.
    #[error("static policy options {0} and {1} can not be used at the same time")]
    Both(&'static str, &'static str),
    /// The topology manager's policy contradicts `align-by-socket`; spelled as upstream does.
    #[error("Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option")]
    SingleNumaNode,
    /// A NUMA node of this machine has several sockets.
    #[error("Align by socket is not compatible with hardware where number of sockets are more than number of NUMA")]
    MoreSockets,
}

/// Reads the options of the configuration.
///
/// # Errors
/// Everything that is wrong, by the options' names, then contradictions.
pub fn parse(options: &BTreeMap<String, String>, gates: OptionGates) -> Result<StaticOptions, Vec<OptionError>> {
    let mut parsed = StaticOptions::default();
    let mut errors = Vec::new();
    for (name, value) in options {
        match option(name, value, gates) {
            Ok((option, on)) => *field(&mut parsed, option) = on,
            Err(error) => errors.push(error),
        }
    }
    for [one, other] in EXCLUSIVE {
        if *field(&mut parsed, one) && *field(&mut parsed, other) {
            errors.push(OptionError::Both(one, other));
        }
    }
    if errors.is_empty() { Ok(parsed) } else { Err(errors) }
}

fn option(name: &str, value: &str, gates: OptionGates) -> Result<(&'static str, bool), OptionError> {
    let stable = [FULL_PCPUS_ONLY, STRICT_RESERVATION, PREFER_UNCORE];
    let known = stable.into_iter().chain([DISTRIBUTE_ACROSS_NUMA, ALIGN_BY_SOCKET, DISTRIBUTE_ACROSS_CORES]);
    let option = known.into_iter().find(|known| *known == name).ok_or_else(|| OptionError::Unknown(name.to_owned()))?;
    match option {
        ALIGN_BY_SOCKET | DISTRIBUTE_ACROSS_CORES if !gates.alpha => return Err(OptionError::Alpha(option)),
        DISTRIBUTE_ACROSS_NUMA if !gates.beta => return Err(OptionError::Beta(option)),
        _ => {}
    }
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok((option, true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok((option, false)),
        _ => Err(OptionError::BadValue { option, value: value.to_owned() }),
    }
}

fn field<'a>(options: &'a mut StaticOptions, name: &str) -> &'a mut bool {
    match name {
        FULL_PCPUS_ONLY => &mut options.full_pcpus_only,
        DISTRIBUTE_ACROSS_NUMA => &mut options.distribute_across_numa,
        ALIGN_BY_SOCKET => &mut options.align_by_socket,
        DISTRIBUTE_ACROSS_CORES => &mut options.distribute_across_cores,
        STRICT_RESERVATION => &mut options.strict_reservation,
        PREFER_UNCORE => &mut options.prefer_uncore,
        _ => unreachable!("invariant: only known names are looked up"),
    }
}

impl StaticOptions {
    /// Whether the options fit the machine and the topology manager's policy.
    ///
    /// # Errors
    /// The option that does not fit.
    pub fn check(self, topology: &CpuTopology, single_numa_node: bool) -> Result<(), OptionError> {
        if !self.align_by_socket {
            return Ok(());
        }
        if single_numa_node {
            return Err(OptionError::SingleNumaNode);
        }
        if topology.sockets().len() > topology.nodes().len() {
            return Err(OptionError::MoreSockets);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &[(&str, &str)], alpha: bool, beta: bool) -> Result<StaticOptions, Vec<String>> {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let texts = |errors: Vec<OptionError>| errors.iter().map(ToString::to_string).collect();
        parse(&options, OptionGates { alpha, beta }).map_err(texts)
    }

    /// RES-27.
    #[test]
    fn res_27_options_follow_their_gates() {
        assert_eq!(read(&[], false, false), Ok(StaticOptions::default()));
        let stable = [(FULL_PCPUS_ONLY, "true"), (STRICT_RESERVATION, "1"), (PREFER_UNCORE, "T")];
        let on = StaticOptions {
            full_pcpus_only: true,
            strict_reservation: true,
            prefer_uncore: true,
            ..StaticOptions::default()
        };
        assert_eq!(read(&stable, false, false), Ok(on));
        let beta = StaticOptions { distribute_across_numa: true, ..StaticOptions::default() };
        assert_eq!(read(&[(DISTRIBUTE_ACROSS_NUMA, "True"), (FULL_PCPUS_ONLY, "f")], false, true), Ok(beta));
        let alpha = StaticOptions { align_by_socket: true, distribute_across_cores: true, ..StaticOptions::default() };
        assert_eq!(read(&[(ALIGN_BY_SOCKET, "true"), (DISTRIBUTE_ACROSS_CORES, "t")], true, false), Ok(alpha));
    }

    /// RES-27.
    #[test]
    fn res_27_everything_that_is_wrong_is_told_in_upstreams_words() {
        let closed = [
            (ALIGN_BY_SOCKET, "true"),
            (DISTRIBUTE_ACROSS_CORES, "false"),
            (DISTRIBUTE_ACROSS_NUMA, "true"),
            (FULL_PCPUS_ONLY, "yes"),
            ("pin-all", "true"),
        ];
        let texts = [
            "CPU Manager Policy Alpha-level Options not enabled, but option \"align-by-socket\" provided",
            "CPU Manager Policy Alpha-level Options not enabled, but option \"distribute-cpus-across-cores\" provided",
            "CPU Manager Policy Beta-level Options not enabled, but option \"distribute-cpus-across-numa\" provided",
            "bad value for option \"full-pcpus-only\": strconv.ParseBool: parsing \"yes\": invalid syntax",
            "unknown CPU Manager Policy option: \"pin-all\"",
        ];
        assert_eq!(read(&closed, false, false), Err(texts.map(str::to_owned).to_vec()));
    }

    /// RES-27.
    #[test]
    fn res_27_options_that_contradict_each_other_are_refused() {
        for [one, other] in EXCLUSIVE {
            let both = read(&[(one, "true"), (other, "true")], true, true);
            let text = format!("static policy options {one} and {other} can not be used at the same time");
            assert_eq!(both, Err(vec![text]));
            assert!(read(&[(one, "true"), (other, "false")], true, true).is_ok());
        }
        let all = [FULL_PCPUS_ONLY, DISTRIBUTE_ACROSS_NUMA, DISTRIBUTE_ACROSS_CORES, PREFER_UNCORE];
        let all = all.map(|name| (name, "true"));
        assert_eq!(read(&all, true, true).map_err(|errors| errors.len()), Err(4));
    }
}
