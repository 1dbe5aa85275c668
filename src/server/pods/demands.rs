//! `POST /restart/{namespace}/{pod}` and `/reset-back-off/{namespace}/{pod}`: what people on the node may ask of a pod
//! (PAIN-34, PAIN-36), with `?container=` of one container. The pod's worker decides.

use axum::http::StatusCode;

use super::pod_list::{ASK_LIMIT, REQUEST, settled};
use crate::logic::model::ids::FullName;
use crate::logic::pods::pod_lifecycle::{Demand, Demanded};
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::status::status_manager::Patience;
use crate::server::backend::Backend;
use crate::server::reply::{self, Reply};
use crate::server::sources::static_pod_name;

/// Asks, and answers with the names of the containers that it is about, a line each: 404 for an unknown pod, 409 for what
/// cannot be done.
pub(in crate::server) async fn answer(
    backend: &Backend,
    namespace: &str,
    name: &str,
    what: Demanded,
    container: Option<String>,
) -> Reply {
    let demand = Demand { what, container };
    // A pod that is not known yet may be soon.
    settled(backend, Patience::WhileNew).await;
    for name in [name.to_owned(), static_pod_name(backend, name)] {
        let (pod, demand) = (FullName::new(&name, namespace), demand.clone());
        let question = |reply| PodManagerMsg::Demanded { pod, demand, reply };
        match backend.directory.pod_manager.ask(REQUEST, ASK_LIMIT, question).await {
            Ok(Some(Ok(names))) => {
                return reply::text(StatusCode::OK, names.iter().map(|name| format!("{name}\n")).collect::<String>());
            }
            Ok(Some(Err(why))) => return reply::text(StatusCode::CONFLICT, format!("{namespace}/{name}: {why}\n")),
            Ok(None) => {}
            Err(error) => return reply::unanswered("PodWorker", error),
        }
    }
    reply::text(StatusCode::NOT_FOUND, format!("no pod {namespace}/{name} on this node\n"))
}
