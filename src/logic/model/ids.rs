//! Identities on the node, each a type of its own so that none is taken for another.

use std::fmt;
use std::sync::Arc;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The identity as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(Arc::from(text))
            }
        }
        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

text_id! {
    /// A pod's UID: its identity for as long as it exists. Never a path segment before it was checked
    /// (`logic::formats::path_segment`).
    PodUid
}
text_id! {
    /// A sandbox's ID, as the runtime gave it.
    SandboxId
}
text_id! {
    /// A container's ID, as the runtime gave it, without the `containerd://` prefix of the API.
    ContainerId
}

impl ContainerId {
    /// Of an ID as the API has it: after the runtime's name and `://`, where there is one.
    pub fn of_full(full: &str) -> Self {
        Self::from(full.split_once("://").map_or(full, |(_, id)| id))
    }
}

/// A pod's name and namespace; printed as upstream's full name, `name_namespace`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FullName {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
}

impl FullName {
    /// Joins the two parts.
    pub fn new(name: &str, namespace: &str) -> Self {
        Self { name: Arc::from(name), namespace: Arc::from(namespace) }
    }
}

impl fmt::Display for FullName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.name, self.namespace)
    }
}

impl fmt::Debug for FullName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
