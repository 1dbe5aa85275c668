//! The rights of a node: itself, its Lease, its pods, and what those name. As the Node authorizer has it. Pure.

use serde_json::Value;

use super::refusal::Refused;
use super::resources::Target;
use super::store::{Selection, Store};
use super::{Request, Who};

/// Where Leases of nodes are.
const LEASES: &str = "kube-node-lease";

/// Whether the node may ask for this.
///
/// # Errors
/// A refusal, if not.
pub fn check(
    store: &Store,
    node: &str,
    who: &Who,
    request: &Request,
    target: &Target,
    selection: &Selection,
) -> Result<(), Refused> {
    let verb = request.verb();
    let refuse = |why: &str| Err(Refused::forbidden(&who.user(), verb, target, why));
    let no_relation = format!("no relationship found between node '{node}' and this object");
    let name = target.name.as_deref().or_else(|| equal(selection, "metadata.name"));
    let reads = matches!(verb, "get" | "list" | "watch");
    let allowed = match target.resource.plural {
        "nodes" if verb == "create" => request.body["metadata"]["name"] == *node,
        "nodes" => verb != "delete" && name == Some(node),
        "leases" if verb == "create" => target.namespace.as_deref() == Some(LEASES),
        "leases" => target.namespace.as_deref() == Some(LEASES) && name == Some(node) && !matches!(verb, "list"),
        "events" => matches!(verb, "create" | "patch" | "update"),
        "pods" if matches!(verb, "list" | "watch") => equal(selection, "spec.nodeName") == Some(node),
        "pods" if verb == "create" => true, // Admission sees to it.
        "pods" => {
            let wanted = (target.namespace.as_deref().unwrap_or_default(), name.unwrap_or_default());
            let found = store.all("pods").find(|(key, _)| (&*key.namespace, &*key.name) == wanted);
            let is_own = found.is_none_or(|(_, pod)| pod["spec"]["nodeName"] == *node);
            is_own && (verb != "patch" || target.subresource.as_deref() == Some("status"))
        }
        "configmaps" | "secrets" if reads => {
            let (Some(namespace), Some(name)) = (target.namespace.as_deref(), name) else {
                return refuse("can only read resources of this type by name");
            };
            let is_named = names(store, node, namespace, target.resource.plural, name);
            if !is_named {
                return refuse(&no_relation);
            }
            true
        }
        "services" | "runtimeclasses" | "csidrivers" | "persistentvolumes" => reads,
        "persistentvolumeclaims" => reads || (verb == "patch" && target.subresource.as_deref() == Some("status")),
        "volumeattachments" | "resourceclaims" => verb == "get",
        "resourceslices" => verb == "deletecollection" && equal(selection, "spec.nodeName") == Some(node),
        "serviceaccounts" => {
            let namespace = target.namespace.as_deref().unwrap_or_default();
            let account = name.unwrap_or_default();
            let uses = |pod: &Value| pod["spec"]["serviceAccountName"].as_str().unwrap_or("default") == account;
            verb == "create"
                && target.subresource.as_deref() == Some("token")
                && pods_of(store, node, namespace).any(uses)
        }
        "certificatesigningrequests" => matches!(verb, "create" | "get" | "list" | "watch"),
        "csinodes" => true,
        _ => false,
    };
    if allowed { Ok(()) } else { refuse("") }
}

fn equal<'a>(selection: &'a Selection, path: &str) -> Option<&'a str> {
    let found = selection.fields.iter().find(|(field, equal, _)| *equal && field == path);
    found.map(|(_, _, value)| value.as_str())
}

fn pods_of<'a>(store: &'a Store, node: &'a str, namespace: &'a str) -> impl Iterator<Item = &'a Value> {
    let all =
        store.all("pods").filter(move |(key, pod)| key.namespace == namespace && pod["spec"]["nodeName"] == *node);
    let no_mirrors = all.filter(|(_, pod)| pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null());
    no_mirrors.map(|(_, pod)| &**pod)
}

/// Whether a pod of the node names this ConfigMap or Secret.
fn names(store: &Store, node: &str, namespace: &str, plural: &str, name: &str) -> bool {
    pods_of(store, node, namespace).any(|pod| refers(&pod["spec"], plural, name))
}

/// Whether anything below names it, by any of the fields that do.
fn refers(value: &Value, plural: &str, name: &str) -> bool {
    let fields: &[(&str, &str)] = match plural {
        "secrets" => &[
            ("secret", "secretName"),
            ("secret", "name"),
            ("secretRef", "name"),
            ("secretKeyRef", "name"),
            ("nodePublishSecretRef", "name"),
        ],
        _ => &[("configMap", "name"), ("configMapRef", "name"), ("configMapKeyRef", "name")],
    };
    match value {
        Value::Array(items) => items.iter().any(|item| refers(item, plural, name)),
        Value::Object(map) => map.iter().any(|(field, inner)| {
            let is_named = |(outer, key): &(&str, &str)| field == outer && inner[*key] == *name;
            let is_pull_secret = plural == "secrets" && field == "imagePullSecrets" && {
                inner.as_array().is_some_and(|all| all.iter().any(|one| one["name"] == *name))
            };
            fields.iter().any(is_named) || is_pull_secret || refers(inner, plural, name)
        }),
        _ => false,
    }
}
