//! The name of a pod on the command line.

/// A pod's namespace and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodName {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl std::str::FromStr for PodName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err("a pod is given as NAMESPACE/POD".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_a_namespace_and_a_name() {
        assert!("shop/web".parse::<PodName>().is_ok());
        for text in ["web", "/web", "shop/", "a/b/c", ""] {
            assert!(text.parse::<PodName>().is_err(), "{text}");
        }
    }
}
