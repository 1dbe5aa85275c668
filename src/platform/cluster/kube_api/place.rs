//! Where objects are and which of them are meant: paths and queries of calls. Plain data.

use super::ApiError;

/// Where objects are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// The cluster: objects without a namespace, or those of all namespaces.
    Cluster,
    /// One namespace.
    Namespace(String),
}

impl Place {
    /// One namespace.
    pub fn namespace(name: impl Into<String>) -> Self {
        Self::Namespace(name.into())
    }

    /// The path of a collection: `/api/v1/namespaces/web/pods`.
    pub(super) fn path<K: kube::Resource<DynamicType = ()>>(&self) -> Result<String, ApiError> {
        match self {
            Self::Cluster => Ok(K::url_path(&(), None)),
            Self::Namespace(name) => Ok(K::url_path(&(), Some(&segment(name)?))),
        }
    }
}

/// Which objects are meant, in the words of the API: empty texts select all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selector {
    /// Field selector, such as `spec.nodeName=node-1`.
    pub fields: String,
    /// Label selector, such as `app=web`.
    pub labels: String,
}

impl Selector {
    /// Every object.
    pub fn all() -> Self {
        Self::default()
    }

    /// The one object of this name.
    pub fn name(name: &str) -> Self {
        let escaped = name.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
        Self::fields(format!("metadata.name={escaped}"))
    }

    /// Those whose fields match.
    pub fn fields(fields: impl Into<String>) -> Self {
        Self { fields: fields.into(), ..Self::default() }
    }
}

/// A name as a segment of a path. Refuses, in upstream's words, those that would lead elsewhere.
pub(super) fn segment(name: &str) -> Result<String, ApiError> {
    let wrong = match name {
        "" => return Err(ApiError::Request("resource name may not be empty".to_owned())),
        "." | ".." => Some(format!("may not be '{name}'")),
        _ => ['/', '%']
            .into_iter()
            .find(|letter| name.contains(*letter))
            .map(|letter| format!("may not contain '{letter}'")),
    };
    if let Some(wrong) = wrong {
        return Err(ApiError::Request(format!("invalid resource name {name:?}: [{wrong}]")));
    }
    Ok(name.bytes().fold(String::new(), |mut escaped, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' | b'@' | b'=' | b'$' => {
                escaped.push(char::from(byte));
            }
            other => escaped.push_str(&format!("%{other:02X}")),
        }
        escaped
    }))
}

/// A path with its query; parameters with empty values are left out.
pub(super) fn with_query(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    let given: Vec<_> = parameters.iter().filter(|(_, value)| !value.is_empty()).collect();
    if given.is_empty() {
        return path.to_owned();
    }
    for (name, value) in given {
        query.append_pair(name, value);
    }
    format!("{path}?{}", query.finish())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::api::core::v1::{Node, Pod};

    use super::{Place, Selector, segment, with_query};

    #[test]
    fn paths_are_those_of_the_api() {
        assert_eq!(Place::Cluster.path::<Node>().unwrap(), "/api/v1/nodes");
        assert_eq!(Place::Cluster.path::<Pod>().unwrap(), "/api/v1/pods");
        assert_eq!(
            Place::namespace("kube-node-lease").path::<Lease>().unwrap(),
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        );
    }

    #[test]
    fn a_name_cannot_lead_elsewhere() {
        for (name, text) in [
            ("", "resource name may not be empty"),
            ("..", "invalid resource name \"..\": [may not be '..']"),
            ("a/b", "invalid resource name \"a/b\": [may not contain '/']"),
            ("a%2fb", "invalid resource name \"a%2fb\": [may not contain '%']"),
        ] {
            assert_eq!(segment(name).unwrap_err().to_string(), text);
        }
        assert!(Place::namespace("../nodes").path::<Pod>().is_err());
        assert_eq!(segment("system:node:a b?").unwrap(), "system:node:a%20b%3F");
    }

    #[test]
    fn empty_parameters_are_left_out() {
        assert_eq!(Selector::name(r"a,b=c\d").fields, r"metadata.name=a\,b\=c\\d");
        assert_eq!(with_query("/a", &[("x", "")]), "/a");
        assert_eq!(with_query("/a", &[("x", ""), ("fieldSelector", "a=b,c=d")]), "/a?fieldSelector=a%3Db%2Cc%3Dd");
    }
}
