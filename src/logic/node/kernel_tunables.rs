//! Kernel parameters that a node needs: which values they must have, and what follows where they differ (RES-18).
//!
//! Pure. Names, values and the text of a refusal are upstream's (`setupKernelTunables`). One difference: a machine that
//! forbids the change (a read-only `/proc/sys`, a missing capability) costs a warning. Upstream ends the process there,
//! unless it runs in a user namespace with the gate `KubeletInUserNamespace`.

/// A kernel parameter and the value that a node needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// Its path below `/proc/sys`.
    pub name: &'static str,
    /// The value that it must have.
    pub wanted: i64,
}

/// All of them: memory may be overcommitted, and an out-of-memory kill does not panic. A kernel that panics or fails reboots
/// after ten seconds, and root may own a key for each container.
pub const TUNABLES: [Tunable; 6] = [
    Tunable { name: "vm/overcommit_memory", wanted: 1 },
    Tunable { name: "vm/panic_on_oom", wanted: 0 },
    Tunable { name: "kernel/panic", wanted: 10 },
    Tunable { name: "kernel/panic_on_oops", wanted: 1 },
    Tunable { name: "kernel/keys/root_maxkeys", wanted: 1_000_000 },
    Tunable { name: "kernel/keys/root_maxbytes", wanted: 25_000_000 },
];

/// The treatment of a parameter that has another value: configuration `protectKernelDefaults`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Set it.
    Modify,
    /// Refuse to start.
    Refuse,
}

impl Rule {
    /// The rule of a configuration.
    pub fn from_config(protect_kernel_defaults: bool) -> Self {
        if protect_kernel_defaults { Self::Refuse } else { Self::Modify }
    }
}

/// The values to write, and the faults so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The parameters to set, with their present values.
    pub to_set: Vec<(Tunable, i64)>,
    /// Why the agent cannot start.
    pub faults: Vec<String>,
}

/// Compares the present values, or why they cannot be read, with those that a node needs.
pub fn plan(rule: Rule, present: Vec<(Tunable, Result<i64, String>)>) -> Plan {
    let mut plan = Plan::default();
    for (tunable, value) in present {
        match (value, rule) {
            (Err(problem), _) => plan.faults.push(problem),
            (Ok(value), _) if value == tunable.wanted => {}
            (Ok(value), Rule::Modify) => plan.to_set.push((tunable, value)),
            (Ok(value), Rule::Refuse) => plan.faults.push(format!(
                "invalid kernel flag: {}, expected value: {}, actual value: {value}",
                tunable.name, tunable.wanted
            )),
        }
    }
    plan
}

/// A parameter that could not be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unset {
    /// The attempt, and the kernel's answer.
    pub problem: String,
    /// Whether the kernel forbids the change, as opposed to the value.
    pub forbidden: bool,
}

/// Where the agent runs, as far as it excuses a refused change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// In a user namespace of its own.
    pub user_namespace: bool,
    /// Gate `KubeletInUserNamespace`.
    pub excused: bool,
}

/// The result of all attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The agent must not start.
    pub fatal: Option<String>,
    /// One warning for everything that the machine forbids.
    pub warning: Option<String>,
}

/// Judges what could not be read or set.
pub fn verdict(mut faults: Vec<String>, unset: Vec<Unset>, surroundings: Surroundings) -> Verdict {
    let mut forbidden = vec![];
    for Unset { problem, forbidden: is_forbidden } in unset {
        match surroundings {
            Surroundings { user_namespace: true, excused: true } => {}
            _ if is_forbidden => forbidden.push(problem),
            _ => faults.push(problem),
        }
    }
    let hint = if surroundings.user_namespace {
        " (running in a user namespace: the feature gate KubeletInUserNamespace silences this)"
    } else {
        ""
    };
    let warning = (!forbidden.is_empty()).then(|| format!("{}{hint}", forbidden.join("; ")));
    Verdict { fatal: aggregate(faults), warning }
}

/// Several errors as upstream prints them: one as it is, more of them in brackets.
fn aggregate(faults: Vec<String>) -> Option<String> {
    match faults.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        more => Some(format!("[{}]", more.join(", "))),
    }
}

/// Whether a process whose `/proc/self/uid_map` has this text is in a user namespace of its own: the first one maps
/// every ID to itself.
pub fn is_user_namespace(uid_map: &str) -> bool {
    let fields: Vec<&str> = uid_map.split_whitespace().collect();
    !fields.is_empty() && fields != ["0", "0", "4294967295"]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn present(values: [i64; 6]) -> Vec<(Tunable, Result<i64, String>)> {
        TUNABLES.into_iter().zip(values.map(Ok)).collect()
    }

    const GOOD: [i64; 6] = [1, 0, 10, 1, 1_000_000, 25_000_000];

    /// RES-18.
    #[test]
    fn parameters_that_differ_are_set_or_refused() {
        assert_eq!(plan(Rule::Modify, present(GOOD)), Plan::default());
        assert_eq!(plan(Rule::Refuse, present(GOOD)), Plan::default());

        let set = plan(Rule::Modify, present([0, 1, 0, 0, 200, 20000]));
        assert_eq!(set.to_set, TUNABLES.into_iter().zip([0, 1, 0, 0, 200, 20000]).collect::<Vec<_>>());
        assert!(set.faults.is_empty());

        let refused = plan(Rule::Refuse, present([0, 0, 10, 1, 1_000_000, 20000]));
        assert!(refused.to_set.is_empty(), "a protected machine is not touched");
        assert_eq!(
            verdict(refused.faults, vec![], Surroundings::default()).fatal.expect("refused"),
            "[invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 0, invalid kernel flag: \
             kernel/keys/root_maxbytes, expected value: 25000000, actual value: 20000]"
        );
    }

    #[test]
    fn one_that_cannot_be_read_is_fatal_under_both_rules_and_the_others_are_looked_at() {
        for (rule, others) in [(Rule::Modify, 1), (Rule::Refuse, 0)] {
            let mut values = present([0, 0, 10, 1, 1_000_000, 25_000_000]);
            values[2].1 = Err("read kernel/panic: no such file".to_owned());
            let plan = plan(rule, values);
            assert_eq!(plan.to_set.len(), others, "{rule:?}");
            assert!(plan.faults.contains(&"read kernel/panic: no such file".to_owned()), "{rule:?}");
        }
    }

    #[test]
    fn what_the_machine_forbids_is_one_warning_and_anything_else_is_fatal() {
        let unset = |problem: &str, forbidden| Unset { problem: problem.to_owned(), forbidden };
        let two = || vec![unset("one", true), unset("two", true)];
        let here = |user_namespace, excused| Surroundings { user_namespace, excused };
        let hint = " (running in a user namespace: the feature gate KubeletInUserNamespace silences this)";
        let cases = [
            (two(), here(false, false), None, Some("one; two".to_owned())),
            // The gate alone excuses nothing.
            (two(), here(false, true), None, Some("one; two".to_owned())),
            (two(), here(true, false), None, Some(format!("one; two{hint}"))),
            (two(), here(true, true), None, None),
            (vec![unset("odd", false), unset("one", true)], here(false, false), Some("odd"), Some("one".to_owned())),
            (vec![unset("odd", false)], here(true, true), None, None),
        ];
        for (unset, here, fatal, warning) in cases {
            let verdict = verdict(vec![], unset, here);
            assert_eq!((verdict.fatal.as_deref(), verdict.warning), (fatal, warning), "{here:?}");
        }
    }

    #[test]
    fn a_user_namespace_is_told_by_its_map() {
        for (map, expected) in [
            ("         0          0 4294967295\n", false),
            ("", false), // a kernel without user namespaces
            ("         0       1000          1\n", true),
            ("0 1000 1\n1 100000 65536\n", true),
        ] {
            assert_eq!(is_user_namespace(map), expected, "{map:?}");
        }
    }
}
