//! Whether the runtime can give a pod a user namespace of its own: each of its handlers says so for itself.

use std::collections::BTreeMap;

/// The runtime's handlers by name, the default one without a name, and whether each can do user namespaces.
pub type Handlers = BTreeMap<String, bool>;

/// Why a pod cannot have a user namespace; upstream's texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoUserNamespaces {
    /// The runtime's default handler cannot do it.
    #[error("can't set `spec.hostUsers: false`, runtime does not support user namespaces{}", unknown("", *.known))]
    Runtime {
        /// Whether the runtime told of the handler.
        known: bool,
    },
    /// The handler of the pod's runtime class cannot do it.
    #[error(
        "can't set `spec.hostUsers: false`, RuntimeClass handler {handler:?} does not support user namespaces{}",
        unknown(.handler, *.known)
    )]
    Handler {
        /// The handler.
        handler: String,
        /// Whether the runtime told of it.
        known: bool,
    },
}

fn unknown(handler: &str, known: bool) -> String {
    if known { String::new() } else { format!(": the handler {handler:?} is not known") }
}

/// Whether a pod of this handler can have a user namespace. An old runtime tells of no handlers.
///
/// # Errors
/// Why it cannot.
pub fn check(handlers: &Handlers, handler: &str) -> Result<(), NoUserNamespaces> {
    let found = handlers.get(handler);
    if found == Some(&true) {
        return Ok(());
    }
    let known = found.is_some() || handlers.is_empty();
    Err(match handler {
        "" => NoUserNamespaces::Runtime { known },
        _ => NoUserNamespaces::Handler { handler: handler.to_owned(), known },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SEC-26.
    #[test]
    fn sec_26_a_runtime_that_cannot_do_it_is_told_in_upstreams_words() {
        let runtime = "can't set `spec.hostUsers: false`, runtime does not support user namespaces";
        let class = "can't set `spec.hostUsers: false`, RuntimeClass handler \"vm\" does not support user namespaces";
        let handlers = |all: &[(&str, bool)]| all.iter().map(|(name, able)| ((*name).to_owned(), *able)).collect();
        for (known, handler, expected) in [
            (handlers(&[("", true)]), "", Ok(())),
            (handlers(&[("", false), ("vm", true)]), "vm", Ok(())),
            (handlers(&[]), "", Err(runtime.to_owned())),
            (handlers(&[]), "vm", Err(class.to_owned())),
            (handlers(&[("", false)]), "", Err(runtime.to_owned())),
            (handlers(&[("", true), ("vm", false)]), "vm", Err(class.to_owned())),
            (handlers(&[("vm", true)]), "", Err(format!("{runtime}: the handler \"\" is not known"))),
            (handlers(&[("", true)]), "vm", Err(format!("{class}: the handler \"vm\" is not known"))),
        ] {
            let told = check(&known, handler).map_err(|error| error.to_string());
            assert_eq!(told, expected, "{handler:?} of {known:?}");
        }
    }
}
