//! Which kernel parameters pods may set (SEC-24; upstream's `pkg/kubelet/sysctl`).
//!
//! Pure. A parameter is safe when it is the pod's own and changes nothing for others; the rest the administrator may
//! allow by name (`allowedUnsafeSysctls`), as far as the kernel keeps it for each namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

/// Safe parameters, and the kernel from which on they are the namespace's own, as major and minor number.
const SAFE: [(&str, (u32, u32)); 12] = [
    ("kernel.shm_rmid_forced", (0, 0)),
    ("net.ipv4.ip_local_port_range", (0, 0)),
    ("net.ipv4.tcp_syncookies", (0, 0)),
    ("net.ipv4.ping_group_range", (0, 0)),
    ("net.ipv4.ip_unprivileged_port_start", (0, 0)),
    ("net.ipv4.ip_local_reserved_ports", (3, 16)),
    ("net.ipv4.tcp_keepalive_time", (4, 5)),
    ("net.ipv4.tcp_fin_timeout", (4, 6)),
    ("net.ipv4.tcp_keepalive_intvl", (4, 5)),
    ("net.ipv4.tcp_keepalive_probes", (4, 5)),
    ("net.ipv4.tcp_rmem", (4, 15)),
    ("net.ipv4.tcp_wmem", (4, 15)),
];

/// Parameters of the IPC namespace by their whole names; the two that are no parameters stand for all of their group.
const INTER_PROCESS: [&str; 10] = [
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.shm",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.msg",
];

/// The longest name of a parameter, in bytes.
const LENGTH_MAX: usize = 253;

/// Which namespace keeps a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Namespace {
    InterProcess,
    Network,
}

impl Namespace {
    fn name(self) -> &'static str {
        match self {
            Self::InterProcess => "IPC",
            Self::Network => "Net",
        }
    }

    fn of(name: &str) -> Option<Self> {
        if INTER_PROCESS.contains(&name) || name.starts_with("fs.mqueue.") {
            return Some(Self::InterProcess);
        }
        name.starts_with("net.").then_some(Self::Network)
    }
}

/// The parameters that pods may set, by name and by beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SysctlAllowList {
    names: BTreeMap<String, Namespace>,
    prefixes: BTreeMap<String, Namespace>,
}

impl SysctlAllowList {
    /// The safe parameters of a kernel of this release, and those that the administrator allows; a `*` ends a pattern.
    ///
    /// # Errors
    /// Upstream's text for a pattern that is none, or is about what no namespace keeps.
    pub fn new(kernel_release: &str, unsafe_patterns: &[String]) -> Result<Self, String> {
        let kernel = kernel_version(kernel_release);
        let safe = SAFE.iter().filter(|(_, since)| *since == (0, 0) || kernel.is_some_and(|kernel| kernel >= *since));
        let mut list = Self::default();
        for pattern in safe.map(|(name, _)| *name).chain(unsafe_patterns.iter().map(String::as_str)) {
            list.add(pattern)?;
        }
        Ok(list)
    }

    fn add(&mut self, pattern: &str) -> Result<(), String> {
        if !is_pattern(pattern) {
            let form = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]";
            let problem = format!("must have at most {LENGTH_MAX} characters and match regex {form}");
            return Err(format!("sysctl {pattern:?} {problem}"));
        }
        let name = dotted(pattern);
        let (name, is_prefix) = match name.split_once('*') {
            Some((prefix, _)) => (prefix.to_owned(), true),
            None => (name, false),
        };
        let namespace =
            Namespace::of(&name).ok_or_else(|| format!("the sysctls {name:?} are not known to be namespaced"))?;
        if is_prefix { &mut self.prefixes } else { &mut self.names }.insert(name, namespace);
        Ok(())
    }

    /// Why the pod may not set what it sets; `None` when it may.
    pub fn refusal(&self, pod: &Pod) -> Option<String> {
        let spec = pod.spec.as_ref()?;
        let wanted = spec.security_context.as_ref()?.sysctls.as_deref().unwrap_or_default();
        let is_host = |namespace| match namespace {
            Namespace::InterProcess => spec.host_ipc == Some(true),
            Namespace::Network => spec.host_network == Some(true),
        };
        wanted.iter().find_map(|sysctl| {
            let name = dotted(&sysctl.name);
            match self.allowed(&name) {
                None => Some(format!("forbidden sysctl: {name:?} not allowlisted")),
                Some(namespace) if is_host(namespace) => {
                    Some(format!("forbidden sysctl: {name:?} not allowed with host {} enabled", namespace.name()))
                }
                Some(_) => None,
            }
        })
    }

    fn allowed(&self, name: &str) -> Option<Namespace> {
        let prefixed = || self.prefixes.iter().find(|(prefix, _)| name.starts_with(prefix.as_str()));
        self.names.get(name).copied().or_else(|| prefixed().map(|(_, namespace)| *namespace))
    }
}

/// A parameter's name with dots between its parts. Where the first separator is a slash, slashes and dots change places:
/// `net/ipv4/conf/eth0.1/rp_filter` is `net.ipv4.conf.eth0/1.rp_filter`.
pub fn dotted(name: &str) -> String {
    if name.find(['.', '/']).is_none_or(|at| name[at..].starts_with('.')) {
        return name.to_owned();
    }
    let swap = |character| match character {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    name.chars().map(swap).collect()
}

/// Major and minor number of a release such as `6.1.0-13-amd64`.
fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Words of lower case letters and digits between dots or slashes; the last may end with `*`, or be it.
fn is_pattern(pattern: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let inner = |c: char| is_word(c) || c == '-' || c == '_';
    let (head, last) = pattern.rsplit_once(['.', '/']).map_or(("", pattern), |(head, last)| (head, last));
    let is_segment =
        |segment: &str| segment.starts_with(is_word) && segment.ends_with(is_word) && segment.chars().all(inner);
    let heads = head.is_empty() && !pattern.starts_with(['.', '/']) || head.split(['.', '/']).all(is_segment);
    let is_last = match last.strip_suffix('*') {
        Some("") => true,
        Some(word) => word.starts_with(is_word) && word.chars().all(inner),
        None => is_segment(last),
    };
    pattern.len() <= LENGTH_MAX && heads && is_last
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn pod(names: &[&str], host: bool) -> Pod {
        let sysctls: Vec<_> = names.iter().map(|name| json!({ "name": name, "value": "1" })).collect();
        serde_json::from_value(json!({ "spec": {
            "containers": [], "hostNetwork": host, "hostIPC": host, "securityContext": { "sysctls": sysctls },
        } }))
        .expect("a pod")
    }

    fn list(patterns: &[&str]) -> SysctlAllowList {
        let patterns: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
        SysctlAllowList::new("6.1.0-13-amd64", &patterns).expect("good patterns")
    }

    /// SEC-24, RES-64.
    #[test]
    fn sec_24_the_safe_ones_are_free_and_the_others_are_asked_for() {
        let wide = ["kernel.msg*", "net.core.somaxconn", "net/ipv4/conf/eth0.1/*", "fs.mqueue.*"];
        // The sysctl, on the host's namespaces, the allowed ones, the reason of a refusal
        type Texts<'a> = &'a [&'a str];
        let cases: [(Texts<'_>, bool, Texts<'_>, Option<&str>); 12] = [
            (&[], true, &[], None),
            (&["kernel.shm_rmid_forced", "net.ipv4.tcp_rmem"], false, &[], None),
            (&["net/ipv4/tcp_syncookies"], false, &[], None),
            (&["kernel.msgmax"], false, &[], Some("forbidden sysctl: \"kernel.msgmax\" not allowlisted")),
            (&["kernel.msgmax"], false, &wide, None),
            (&["net.core.somaxconn"], false, &wide, None),
            (
                &["net.core.somaxconn_more"],
                false,
                &wide,
                Some("forbidden sysctl: \"net.core.somaxconn_more\" not allowlisted"),
            ),
            (&["net.ipv4.conf.eth0/1.rp_filter"], false, &wide, None),
            (&["fs.mqueue.queues_max"], false, &wide, None),
            (
                &["kernel.shm_rmid_forced"],
                true,
                &[],
                Some("forbidden sysctl: \"kernel.shm_rmid_forced\" not allowed with host IPC enabled"),
            ),
            (
                &["net.ipv4.tcp_syncookies"],
                true,
                &[],
                Some("forbidden sysctl: \"net.ipv4.tcp_syncookies\" not allowed with host Net enabled"),
            ),
            (&["vm.swappiness"], false, &wide, Some("forbidden sysctl: \"vm.swappiness\" not allowlisted")),
        ];
        for (names, host, patterns, expected) in cases {
            assert_eq!(list(patterns).refusal(&pod(names, host)).as_deref(), expected, "{names:?}");
        }
    }

    #[test]
    fn an_old_kernel_keeps_fewer_of_them_apart() {
        for (release, name, allowed) in [
            ("4.4.0", "net.ipv4.tcp_keepalive_time", false),
            ("4.5.0", "net.ipv4.tcp_keepalive_time", true),
            ("4.14.200-x", "net.ipv4.tcp_wmem", false),
            ("4.15", "net.ipv4.tcp_wmem", true),
            ("none", "net.ipv4.tcp_wmem", false),
            ("none", "net.ipv4.tcp_syncookies", true),
        ] {
            let list = SysctlAllowList::new(release, &[]).expect("no patterns");
            assert_eq!(list.refusal(&pod(&[name], false)).is_none(), allowed, "{release} {name}");
        }
    }

    #[test]
    fn a_bad_pattern_is_refused_at_the_start() {
        for (pattern, expected) in [
            ("vm.swappiness", "the sysctls \"vm.swappiness\" are not known to be namespaced"),
            ("kernel.*", "the sysctls \"kernel.\" are not known to be namespaced"),
            ("*", "the sysctls \"\" are not known to be namespaced"),
            ("net.*.x", "sysctl \"net.*.x\" must have at most 253 characters"),
            ("Net.core", "sysctl \"Net.core\" must have at most 253 characters"),
            ("", "sysctl \"\" must have at most 253 characters"),
            (".net", "sysctl \".net\" must have at most 253 characters"),
            ("net.a:b", "sysctl \"net.a:b\" must have at most 253 characters"),
            ("net.-a.b", "sysctl \"net.-a.b\" must have at most 253 characters"),
            ("net.a-.b", "sysctl \"net.a-.b\" must have at most 253 characters"),
            ("net.b-", "sysctl \"net.b-\" must have at most 253 characters"),
            ("net.-b*", "sysctl \"net.-b*\" must have at most 253 characters"),
            ("net.a:b*", "sysctl \"net.a:b*\" must have at most 253 characters"),
        ] {
            let error = SysctlAllowList::new("6.1", &[pattern.to_owned()]).expect_err(pattern);
            assert!(error.starts_with(expected), "{error}");
        }
        for pattern in ["net.ipv4.conf.eth-0.forwarding", "net/ipv4/ip_forward", "net.*", "net.b-*"] {
            assert!(SysctlAllowList::new("6.1", &[pattern.to_owned()]).is_ok(), "{pattern}");
        }
        for (length, expected) in [(253, true), (254, false)] {
            let pattern = format!("net.{}", "a".repeat(length - 4));
            assert_eq!(SysctlAllowList::new("6.1", &[pattern]).is_ok(), expected, "{length}");
        }
    }

    /// As upstream has it: an administrator who corrects a pattern by it has a good one.
    #[test]
    fn the_message_about_a_bad_pattern_tells_the_form_of_a_good_one() {
        let error = SysctlAllowList::new("6.1", &["net.a-.b".to_owned()]).expect_err("bad");
        let form = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]";
        assert_eq!(error, format!("sysctl \"net.a-.b\" must have at most 253 characters and match regex {form}"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_what_no_namespace_keeps_is_never_allowed(pattern in ".{0,20}", name in "[a-z./*]{0,12}") {
            let Ok(list) = SysctlAllowList::new("6.1", &[pattern]) else { return Ok(()) };
            let kept = ["net.", "kernel.", "fs.mqueue."].iter().any(|prefix| dotted(&name).starts_with(prefix));
            prop_assert!(kept || list.refusal(&pod(&[&name], false)).is_some());
        }
    }
}
