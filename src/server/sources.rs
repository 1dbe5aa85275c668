//! The shared sources of all routes, and how a route is bound to its method.

use std::sync::Arc;

use axum::routing::MethodRouter;

use super::backend::Backend;
use super::reply;

/// The state of all routes.
pub(super) type Shared = Arc<Backend>;

/// `GET` takes `HEAD` along; everything else is refused by name.
pub(super) fn only_get(route: MethodRouter<Shared>) -> MethodRouter<Shared> {
    route.head(reply::only_get).fallback(reply::only_get)
}

/// The name that a static pod has on this node (POD-05): what is in its manifest, and the node's.
pub(super) fn static_pod_name(backend: &Backend, name: &str) -> String {
    format!("{name}-{}", backend.facts.node_name)
}
