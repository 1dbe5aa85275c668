//! Access to the server: the rights that a path needs, in the words of the API's authorizer (SRV-19), and the answers to
//! users without them (SRV-06). As upstream's `NodeRequestAttributesGetter`. Pure.

use std::collections::BTreeMap;

/// The user of whoever proves nothing.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of whoever proves nothing.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of whoever proved something.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The name under which the server passes on the certificate of a user.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// A user of the cluster, as authentication found it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct User {
    /// Name.
    pub name: String,
    /// UID; mostly empty.
    pub uid: String,
    /// Groups, in the order in which they came.
    pub groups: Vec<String>,
    /// Other facts, such as the ID of the credential.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The user who proves nothing.
    pub fn anonymous() -> Self {
        Self { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// Adds the group of all authenticated users, where that is not said otherwise already.
    pub fn authenticated(mut self) -> Self {
        let known = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if self.name != ANONYMOUS && !self.groups.iter().any(known) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

/// The API's verb of a method; empty for those that have none.
pub fn verb(method: &str) -> &'static str {
    match method {
        "POST" => "create",
        "GET" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// The subresources of `nodes` of which one must be allowed, in the order in which they are tried.
pub fn subresources(path: &str) -> &'static [&'static str] {
    let below = |top: &str| path == top || path.strip_prefix(top).is_some_and(|rest| rest.starts_with('/'));
    match () {
        () if below("/pods") || below("/runningpods") => &["pods", "proxy"],
        () if below("/healthz") => &["healthz", "proxy"],
        () if below("/configz") => &["configz", "proxy"],
        () if below("/stats") => &["stats"],
        () if below("/metrics") => &["metrics"],
        () if below("/logs") => &["log"],
        () if below("/checkpoint") => &["checkpoint"],
        () if below("/statusz") => &["statusz"],
        // A comment upstream promises the proxy right here, too; its code does not grant it.
        () if below("/flagz") => &["configz"],
        // Pages of our own, which upstream's kubelet has not: a right of their own permits them and nothing else.
        () if INSIDE.iter().any(|page| below(page)) => &["podwright", "proxy"],
        () => &["proxy"],
    }
}

/// Pages that show the agent's inside.
const INSIDE: [&str; 6] = ["/ps", "/explain", "/events", "/images", "/debug/actors", "/debug/plugins"];

/// The answer to a user without rights.
pub fn forbidden(user: &str, verb: &str, subresources: &[&str]) -> String {
    let tried = subresources.join(" ");
    format!("Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[{tried}])\n")
}

/// The answer when nobody could say whether the user has the right.
pub fn authorization_error(user: &str, verb: &str, subresource: &str) -> String {
    format!("Authorization error (user={user}, verb={verb}, resource=nodes, subresource={subresource})")
}

/// The group of a path of the server, which decides when it is there at all (SRV-07).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Always there.
    Always,
    /// There with `enableDebuggingHandlers`, else told that it is off.
    Debug,
    /// There with `enableDebuggingHandlers`, else as if it had never been.
    DebugHidden,
    /// There with `enableDebuggingHandlers` and `enableSystemLogHandler`.
    SystemLogs,
    /// There with `enableDebuggingHandlers` and `enableProfilingHandler`.
    Profiling,
    /// There with `enableDebuggingHandlers` and `enableDebugFlagsHandler`.
    DebugFlags,
    /// There with `enableDebuggingHandlers` and its gate.
    Gated(Gate),
}

/// Gates of single paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// `ContainerCheckpoint`.
    Checkpoint,
    /// `ComponentFlagz`.
    Flagz,
    /// `ComponentStatusz`.
    Statusz,
}

/// Everything that is served to users with rights: a path alone, or, with a slash at its end, all below it. A path that
/// is not here is not served, whatever routes there are.
pub const PATHS: &[(&str, Group)] = &[
    ("/healthz", Group::Always),
    ("/healthz/", Group::Always),
    ("/pods", Group::Always),
    ("/pods/", Group::Always),
    ("/stats/", Group::Always),
    ("/metrics", Group::Always),
    ("/metrics/cadvisor", Group::Always),
    ("/metrics/resource", Group::Always),
    ("/metrics/probes", Group::Always),
    ("/metrics/slis", Group::Always),
    ("/checkpoint/", Group::Gated(Gate::Checkpoint)),
    ("/run/", Group::Debug),
    ("/exec/", Group::Debug),
    ("/attach/", Group::Debug),
    ("/portForward/", Group::Debug),
    ("/containerLogs/", Group::Debug),
    ("/runningpods/", Group::Debug),
    ("/configz", Group::DebugHidden),
    ("/flagz", Group::Gated(Gate::Flagz)),
    ("/statusz", Group::Gated(Gate::Statusz)),
    ("/logs/", Group::SystemLogs),
    ("/debug/pprof/", Group::Profiling),
    ("/debug/flags/v", Group::DebugFlags),
    ("/debug/actors", Group::DebugHidden),
    ("/debug/actors/trace", Group::DebugHidden),
    ("/debug/plugins", Group::DebugHidden),
    ("/ps", Group::DebugHidden),
    ("/explain/", Group::DebugHidden),
    ("/events", Group::DebugHidden),
    ("/images", Group::DebugHidden),
];

/// The settings `enableDebuggingHandlers` and its like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switches {
    /// `enableDebuggingHandlers`.
    pub debugging: bool,
    /// `enableSystemLogHandler`.
    pub system_logs: bool,
    /// `enableProfilingHandler`.
    pub profiling: bool,
    /// `enableDebugFlagsHandler`.
    pub debug_flags: bool,
    /// Gate `ContainerCheckpoint`.
    pub checkpoint: bool,
    /// Gate `ComponentFlagz`.
    pub flagz: bool,
    /// Gate `ComponentStatusz`.
    pub statusz: bool,
}

impl Default for Switches {
    /// Upstream's defaults: all on.
    fn default() -> Self {
        Self {
            debugging: true,
            system_logs: true,
            profiling: true,
            debug_flags: true,
            checkpoint: true,
            flagz: true,
            statusz: true,
        }
    }
}

/// The fate of a request before anybody is asked who sent it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Way {
    /// It goes on to authentication.
    On,
    /// It goes on, and whoever has the right hears that this is switched off.
    Off(&'static str),
    /// Nothing is here.
    Nowhere,
    /// It belongs at another path.
    Elsewhere(String),
}

/// The line of the table that a path belongs to: the longest that fits, as Go's mux has it.
pub fn place(path: &str) -> Option<(&'static str, Group)> {
    let fits = |known: &str| path == known || (known.ends_with('/') && path.starts_with(known));
    PATHS.iter().copied().filter(|(known, _)| fits(known)).max_by_key(|(known, _)| known.len())
}

/// Finds a path's way.
pub fn way(path: &str, switches: Switches) -> Way {
    if let Some(clean) = cleaned(path) {
        // One step, where the clean path belongs elsewhere itself.
        return match way(&clean, switches) {
            Way::Elsewhere(further) => Way::Elsewhere(further),
            _ => Way::Elsewhere(clean),
        };
    }
    match place(path) {
        Some((_, group)) => open(group, switches),
        None => {
            let with_slash = format!("{path}/");
            let is_folder =
                PATHS.iter().any(|(known, group)| *known == with_slash && open(*group, switches) != Way::Nowhere);
            if is_folder { Way::Elsewhere(with_slash) } else { Way::Nowhere }
        }
    }
}

fn open(group: Group, switches: Switches) -> Way {
    const ALL_OFF: &str = "Debug endpoints are disabled.";
    let hidden = |on: bool| if on && switches.debugging { Way::On } else { Way::Nowhere };
    let told = |on: bool, text| match (switches.debugging, on) {
        (true, true) => Way::On,
        (true, false) => Way::Off(text),
        (false, _) => Way::Off(ALL_OFF),
    };
    match group {
        Group::Always => Way::On,
        Group::Debug => told(true, ALL_OFF),
        Group::DebugHidden => hidden(true),
        Group::SystemLogs => told(switches.system_logs, "logs endpoint is disabled."),
        Group::Profiling => told(switches.profiling, "profiling endpoint is disabled."),
        Group::DebugFlags => match switches.debugging {
            true => told(switches.debug_flags, "flags endpoint is disabled."),
            false => Way::Nowhere,
        },
        Group::Gated(gate) => hidden(match gate {
            Gate::Checkpoint => switches.checkpoint,
            Gate::Flagz => switches.flagz,
            Gate::Statusz => switches.statusz,
        }),
    }
}

/// A path without empty, `.` and `..` segments, where it has any; a slash at the end stays. A backslash, which browsers
/// take for a slash, is escaped, so that `/\host` is not taken for a host.
fn cleaned(path: &str) -> Option<String> {
    let dirty = |segment: &str| matches!(segment, "." | "..");
    if !path.contains("//") && !path.split('/').any(dirty) {
        return None;
    }
    let mut kept: Vec<&str> = vec![];
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            other => kept.push(other),
        }
    }
    let mut clean = format!("/{}", kept.join("/"));
    if path.ends_with('/') && !clean.ends_with('/') {
        clean.push('/');
    }
    Some(clean.replace('\\', "%5C"))
}

#[cfg(test)]
mod tests;
