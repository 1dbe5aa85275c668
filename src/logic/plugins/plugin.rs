//! Plugins, and which answers to `GetInfo` are refused (RES-47).
//!
//! A name becomes part of paths and of API objects, an endpoint is connected to as root: both are checked here, before anybody
//! uses them.

use std::fmt;

/// The things that a plugin brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::EnumString, strum::EnumIter)]
pub enum PluginKind {
    /// A storage driver (VOL-40).
    #[strum(serialize = "CSIPlugin")]
    Csi,
    /// Devices (RES-39).
    #[strum(serialize = "DevicePlugin")]
    Device,
    /// A driver of resource claims (RES-48).
    #[strum(serialize = "DRAPlugin")]
    Dra,
}

/// A plugin's answer to `GetInfo`, as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginInfo {
    /// Its type, in its own words.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Where it serves; empty for its registration socket.
    pub endpoint: String,
    /// Versions of its protocol.
    pub versions: Vec<String>,
}

/// A plugin whose answer was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// Its registration socket, an absolute path. It names the plugin: two may have one name during an update.
    pub socket: String,
    /// The handshake that brought it, counted up over all sockets. A verdict names it, so that an old one is dropped.
    pub attempt: u64,
    /// The things that it brings.
    pub kind: PluginKind,
    /// The driver's name, or the resource's.
    pub name: String,
    /// Where it serves, an absolute path.
    pub endpoint: String,
    /// Versions of its protocol.
    pub versions: Vec<String>,
}

/// Why a plugin is not used, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nobody here uses plugins of this type.
    NoHandler {
        /// The type, as the plugin says it.
        kind: String,
        /// Its socket.
        socket: String,
    },
    /// Its answer cannot be used.
    Invalid(String),
    /// It was tried and failed.
    Failed(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RegisterPlugin error -- ")?;
        match self {
            Self::NoHandler { kind, socket } => {
                write!(f, "no handler registered for plugin type: {kind} at socket {socket}")
            }
            Self::Invalid(why) => write!(f, "plugin validation failed with err: {why}"),
            Self::Failed(why) => write!(f, "plugin registration failed with err: {why}"),
        }
    }
}

/// The longest name of a plugin: a DNS name, and the name of a resource with its domain.
const NAME_MAX: usize = 253;
/// The longest endpoint: the kernel's longest path.
const ENDPOINT_MAX: usize = 4096;
/// The most versions that a plugin may list, and the longest of them.
const VERSIONS_MAX: (usize, usize) = (64, 128);
/// How much of a wrong answer is repeated.
const SHOWN_MAX: usize = 64;

/// Takes a plugin's answer, unless something is wrong with it.
///
/// # Errors
/// The first thing that is wrong.
pub fn accept(socket: &str, attempt: u64, info: PluginInfo) -> Result<Plugin, Refusal> {
    let no_handler = || Refusal::NoHandler { kind: shown(&info.kind), socket: socket.to_owned() };
    let kind: PluginKind = info.kind.parse().map_err(|_| no_handler())?;
    check_name(kind, &info.name)?;
    let (count, length) = VERSIONS_MAX;
    if info.versions.len() > count || info.versions.iter().any(|version| version.len() > length) {
        return Err(Refusal::Invalid(format!("more than {count} versions, or one of more than {length} bytes")));
    }
    let endpoint = if info.endpoint.is_empty() { socket.to_owned() } else { info.endpoint };
    // As upstream's library takes it.
    let endpoint = endpoint.strip_prefix("unix://").or(endpoint.strip_prefix("unix:")).unwrap_or(&endpoint);
    let is_path = endpoint.starts_with('/') && !endpoint.contains('\0') && endpoint.len() <= ENDPOINT_MAX;
    if !is_path || endpoint.split('/').any(|part| part == "..") {
        return Err(Refusal::Invalid(format!("endpoint {:?} is not an absolute path", shown(endpoint))));
    }
    let (endpoint, name, versions) = (endpoint.to_owned(), info.name, info.versions);
    Ok(Plugin { socket: socket.to_owned(), attempt, kind, name, endpoint, versions })
}

/// A name becomes a segment of paths. Only that of a device has a domain before a slash.
fn check_name(kind: PluginKind, name: &str) -> Result<(), Refusal> {
    let wrong = || Refusal::Invalid(format!("{:?} is not a name of a plugin", shown(name)));
    let parts: Vec<&str> = name.split('/').collect();
    let parts_max = if kind == PluginKind::Device { 2 } else { 1 };
    let is_word = |part: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        part.bytes().all(plain) && ends(part.as_bytes().first()) && ends(part.as_bytes().last())
    };
    let is_name = name.len() <= NAME_MAX && parts.len() <= parts_max && parts.iter().all(is_word);
    if is_name { Ok(()) } else { Err(wrong()) }
}

/// The beginning of what somebody else wrote.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(kind: &str, name: &str, endpoint: &str) -> PluginInfo {
        PluginInfo {
            kind: kind.to_owned(),
            name: name.to_owned(),
            endpoint: endpoint.to_owned(),
            versions: vec!["1.0.0".to_owned()],
        }
    }

    const SOCKET: &str = "/var/lib/kubelet/plugins_registry/d.sock";

    fn accepted(kind: &str, name: &str, endpoint: &str) -> Result<(PluginKind, String), String> {
        let found = accept(SOCKET, 1, info(kind, name, endpoint));
        found.map(|plugin| (plugin.kind, plugin.endpoint)).map_err(|refusal| refusal.to_string())
    }

    /// RES-47.
    #[test]
    fn all_three_kinds_are_taken_and_an_empty_endpoint_is_the_socket() {
        for (kind, name, endpoint, expected) in [
            ("CSIPlugin", "hostpath.csi.k8s.io", "/csi/csi.sock", (PluginKind::Csi, "/csi/csi.sock")),
            ("CSIPlugin", "d", "unix:///csi/csi.sock", (PluginKind::Csi, "/csi/csi.sock")),
            ("DevicePlugin", "example.com/gpu", "", (PluginKind::Device, SOCKET)),
            ("DRAPlugin", "gpu.example.com", "", (PluginKind::Dra, SOCKET)),
        ] {
            assert_eq!(accepted(kind, name, endpoint), Ok((expected.0, expected.1.to_owned())), "{name}");
        }
    }

    #[test]
    fn names_that_are_paths_are_refused() {
        let long = "a".repeat(254);
        for name in ["", ".", "..", "../../etc", "a/b", "/etc", "a\0b", "a b", ".hidden", "a-", &long, "é"] {
            let refused = accepted("CSIPlugin", name, "").unwrap_err();
            assert!(refused.contains("plugin validation failed") && refused.len() < 200, "{name:?}: {refused}");
        }
        for name in ["example.com/gpu/x", "../gpu", "example.com/..", "/gpu"] {
            accepted("DevicePlugin", name, "").unwrap_err();
        }
    }

    #[test]
    fn endpoints_are_absolute_and_lead_nowhere_above() {
        let long = format!("/{}", "a".repeat(5000));
        for endpoint in ["csi.sock", "tcp://1.2.3.4:80", "/a/../b", "/a\0b", &long] {
            assert!(accepted("CSIPlugin", "d", endpoint).unwrap_err().contains("is not an absolute path"));
        }
    }

    #[test]
    fn a_type_that_nobody_knows_is_refused_in_upstreams_words() {
        let refused = accepted("FooPlugin", "d", "").unwrap_err();
        let expected =
            format!("RegisterPlugin error -- no handler registered for plugin type: FooPlugin at socket {SOCKET}");
        assert_eq!(refused, expected);
        let many = PluginInfo { versions: vec!["1.0.0".to_owned(); 65], ..info("CSIPlugin", "d", "") };
        assert!(accept(SOCKET, 1, many).unwrap_err().to_string().contains("more than 64 versions"));
    }
}
