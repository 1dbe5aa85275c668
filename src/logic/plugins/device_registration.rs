//! Registrations of device plugins, and which are refused (RES-39).
//!
//! A resource's name becomes a label and a field of the Node, an endpoint the name of a file: both are checked here, before
//! anybody uses them.

use std::fmt;

use crate::logic::formats::dns_label::qualified_name_problems;
use crate::logic::formats::go_text::quoted;
use crate::logic::plugins::plugin::Plugin;
use crate::logic::resources::is_extended;

/// The version of the protocol.
pub const VERSION: &str = "v1beta1";
/// The agent's own socket in the directory of device plugins.
pub const OWN_SOCKET: &str = "kubelet.sock";
/// The longest name of a file, and the longest path below the directory.
const PATH_MAX: (usize, usize) = (255, 1024);
/// How much of a wrong text is repeated.
const SHOWN_MAX: usize = 256;

/// A plugin's request to be used (`RegisterRequest`), as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// The version of the protocol that it speaks.
    pub version: String,
    /// The name of its socket, or the path below the directory.
    pub endpoint: String,
    /// The resource that it brings, as `vendor.com/gpu`.
    pub resource: String,
}

/// Why a plugin is not used. The texts are upstream's where it has some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterRefusal {
    /// It speaks another version.
    Version(String),
    /// Its resource has no name of an extended resource.
    Resource(String),
    /// Its endpoint is no file below the directory.
    Endpoint(String),
    /// As many resources as there may be are registered.
    TooMany(usize),
    /// The same resource was registered anew before this registration was done.
    Superseded,
    /// Nobody listens at its endpoint.
    Dial(String),
    /// It does not say which calls it wants.
    Options(String),
    /// The agent has too much to do, or is ending.
    Unanswered(String),
}

impl fmt::Display for RegisterRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(
                f,
                "requested API version {} is not supported by kubelet. Supported version is [{VERSION:?}]",
                shown(version)
            ),
            Self::Resource(name) => write!(f, "the ResourceName {} is invalid", shown(name)),
            Self::Endpoint(name) => write!(f, "the endpoint {} is not the name of a socket", shown(name)),
            Self::TooMany(count) => write!(f, "{count} resources of device plugins are known, and no more are taken"),
            Self::Superseded => f.write_str("a newer registration of the same resource came"),
            Self::Dial(why) => write!(f, "failed to dial device plugin: {why}"),
            Self::Options(why) => write!(f, "failed to get device plugin options: {why}"),
            Self::Unanswered(why) => write!(f, "the registration was not answered: {why}"),
        }
    }
}

impl std::error::Error for RegisterRefusal {}

/// The beginning of what somebody else wrote, in quotes.
fn shown(text: &str) -> String {
    quoted(&text.chars().take(SHOWN_MAX).collect::<String>())
}

/// Whether it is the name of an extended resource (upstream's `IsExtendedResourceName`).
pub fn is_resource(name: &str) -> bool {
    is_extended(name) && qualified_name_problems(&format!("requests.{name}")).is_empty()
}

/// Checks a registration that came by the agent's socket; gives the socket's path below the directory. As upstream joins paths,
/// slashes at the front and doubled ones mean nothing; no path leads out of the directory.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(registration: &Registration) -> Result<String, RegisterRefusal> {
    if registration.version != VERSION {
        return Err(RegisterRefusal::Version(registration.version.clone()));
    }
    if !is_resource(&registration.resource) {
        return Err(RegisterRefusal::Resource(registration.resource.clone()));
    }
    let endpoint = registration.endpoint.as_str();
    let segments: Vec<&str> = endpoint.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let is_name = |part: &&str| *part != ".." && part.len() <= PATH_MAX.0 && !part.contains('\0');
    let is_file = !segments.is_empty() && endpoint.len() <= PATH_MAX.1 && segments.iter().all(is_name);
    if !is_file || segments == [OWN_SOCKET] {
        return Err(RegisterRefusal::Endpoint(endpoint.to_owned()));
    }
    Ok(segments.join("/"))
}

/// Checks a plugin that was found in the plugins' registry.
///
/// # Errors
/// Upstream's words for the first thing that is wrong.
pub fn check_plugin(plugin: &Plugin) -> Result<(), String> {
    if !plugin.versions.iter().any(|version| version == VERSION) {
        let versions = plugin.versions.join(" ");
        return Err(format!("manager version, {VERSION}, is not among plugin supported versions [{versions}]"));
    }
    if !is_resource(&plugin.name) {
        let invalid = RegisterRefusal::Resource(plugin.name.clone());
        return Err(format!("invalid name of device plugin socket: {invalid}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::plugins::plugin::PluginKind;

    fn refusal(version: &str, endpoint: &str, resource: &str) -> Option<String> {
        let (version, endpoint, resource) = (version.to_owned(), endpoint.to_owned(), resource.to_owned());
        check(&Registration { version, endpoint, resource }).err().map(|refusal| refusal.to_string())
    }

    /// RES-39.
    #[test]
    fn registrations_are_refused_in_upstreams_words() {
        assert_eq!(refusal("v1beta1", "gpu.sock", "vendor.com/gpu"), None);
        for (version, resource, expected) in [
            (
                "v1alpha",
                "vendor.com/gpu",
                r#"requested API version "v1alpha" is not supported by kubelet. Supported version is ["v1beta1"]"#,
            ),
            ("", "cpu", r#"requested API version "" is not supported by kubelet. Supported version is ["v1beta1"]"#),
            ("v1beta1", "cpu", r#"the ResourceName "cpu" is invalid"#),
            ("v1beta1", "", r#"the ResourceName "" is invalid"#),
            ("v1beta1", "kubernetes.io/gpu", r#"the ResourceName "kubernetes.io/gpu" is invalid"#),
            ("v1beta1", "requests.vendor.com/gpu", r#"the ResourceName "requests.vendor.com/gpu" is invalid"#),
            ("v1beta1", "../../gpu", r#"the ResourceName "../../gpu" is invalid"#),
            ("v1beta1", "vendor.com/g\"pu", r#"the ResourceName "vendor.com/g\"pu" is invalid"#),
            ("v1beta1", "vendor.com/gpu/x", r#"the ResourceName "vendor.com/gpu/x" is invalid"#),
            ("v1beta1", "UPPER.com/gpu", r#"the ResourceName "UPPER.com/gpu" is invalid"#),
        ] {
            assert_eq!(refusal(version, "gpu.sock", resource).as_deref(), Some(expected));
        }
    }

    /// RES-39: as upstream joins an endpoint to the directory.
    #[test]
    fn res_39_an_endpoint_may_be_in_a_folder_of_the_directory() {
        for (endpoint, expected) in [
            ("gpu.sock", "gpu.sock"),
            ("vendor/gpu.sock", "vendor/gpu.sock"),
            ("/vendor//./gpu.sock", "vendor/gpu.sock"),
            ("vendor/kubelet.sock", "vendor/kubelet.sock"),
        ] {
            let (version, resource) = ("v1beta1".to_owned(), "vendor.com/gpu".to_owned());
            let asked = Registration { version, endpoint: endpoint.to_owned(), resource };
            assert_eq!(check(&asked).as_deref(), Ok(expected));
        }
    }

    /// RES-39: an endpoint is a file below the directory.
    #[test]
    fn endpoints_that_lead_elsewhere_are_refused() {
        let (long, deep) = ("a".repeat(256), "a/".repeat(600));
        for endpoint in [
            "",
            ".",
            "..",
            "/",
            "../gpu.sock",
            "a/../gpu.sock",
            "a/..",
            "g\0pu",
            "kubelet.sock",
            "./kubelet.sock",
            &long,
            &deep,
        ] {
            let told = refusal("v1beta1", endpoint, "vendor.com/gpu").expect("refused");
            assert!(told.ends_with("is not the name of a socket"), "{told}");
        }
        let huge = "x".repeat(100_000);
        assert!(refusal(&huge, "gpu.sock", "vendor.com/gpu").expect("refused").len() < 500, "little of it is repeated");
    }

    /// RES-39.
    #[test]
    fn a_plugin_of_the_registry_needs_the_version_and_a_resources_name() {
        let plugin = |name: &str, versions: &[&str]| Plugin {
            socket: "/r/d.sock".to_owned(),
            attempt: 1,
            kind: PluginKind::Device,
            name: name.to_owned(),
            endpoint: "/r/d.sock".to_owned(),
            versions: versions.iter().map(|version| (*version).to_owned()).collect(),
        };
        assert_eq!(check_plugin(&plugin("vendor.com/gpu", &["v1alpha", "v1beta1"])), Ok(()));
        assert_eq!(
            check_plugin(&plugin("vendor.com/gpu", &["v1", "v2"])),
            Err("manager version, v1beta1, is not among plugin supported versions [v1 v2]".to_owned())
        );
        assert_eq!(
            check_plugin(&plugin("gpu", &["v1beta1"])),
            Err(r#"invalid name of device plugin socket: the ResourceName "gpu" is invalid"#.to_owned())
        );
    }
}
