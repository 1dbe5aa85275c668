//! The simulated API server on a socket, for clients that know nothing of the simulator: HTTP/1.1 without TLS.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;

use super::link::{Response, respond};
use super::{ApiServer, Request, Who};
use crate::sim::node::spawn;

/// Answers whoever comes, as the agent of the node of this name, until it is dropped.
pub async fn serve(server: Arc<ApiServer>, listener: TcpListener, node: String) {
    while let Ok((stream, _)) = listener.accept().await {
        let (server, node) = (Arc::clone(&server), node.clone());
        spawn(async move {
            let service = hyper::service::service_fn(move |request| {
                let (server, who) = (Arc::clone(&server), Who::Node(node.clone()));
                async move { Ok::<_, Infallible>(answer(&server, &who, request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            drop(connection.await); // The client left.
        });
    }
}

async fn answer(server: &ApiServer, who: &Who, request: hyper::Request<Incoming>) -> Response {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let content_type = head.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let uri = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let request = Request::new(head.method.as_str(), uri, content_type.unwrap_or_default(), body);
    respond(server.handle(who, &request), || Duration::ZERO)
}
