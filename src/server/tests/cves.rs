//! Faults of earlier kubelets, at the ports without authentication: each test is named after its subject.

use std::sync::Arc;

use axum::Router;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use tower::ServiceExt;

use super::super::routes;
use super::{Node, ask_routes};
use crate::logic::serving::server_access::PATHS;

/// A path below each that the authenticated port has.
fn below_all() -> impl Iterator<Item = String> {
    let profiles = ["profile", "heap", "goroutine", "cmdline", "trace"].map(|name| format!("/debug/pprof/{name}"));
    let known = PATHS.iter().map(|(path, _)| if path.ends_with('/') { format!("{path}a/b/c") } else { (*path).into() });
    known.chain(profiles).chain(["/debug/pprof".to_owned(), "/debug/pprof/".to_owned(), "/".to_owned()])
}

/// CVE-2019-11248, SEC-30: the health port has checks of health, and nothing else, whatever the other ports have.
#[tokio::test]
async fn cve_2019_11248_sec_30_the_health_port_serves_no_profiles_nor_anything_else() {
    let node = Node::plain();
    node.start().await;
    let router = routes::healthz(Arc::clone(&node.backend));
    for path in below_all().filter(|path| path != "/healthz") {
        for method in ["GET", "POST", "PUT"] {
            let (status, body) = ask_routes(&router, method, &path).await;
            assert_eq!((status.as_u16(), body.as_str()), (404, "404 page not found\n"), "{method} {path}");
        }
    }
    assert_eq!(ask_routes(&router, "GET", "/healthz").await.0.as_u16(), 200);
}

async fn post(router: &Router, path: &str) -> u16 {
    let request = Request::post(path).body(Full::new(Bytes::from_static(b"timeout=1&cmd=id"))).expect("valid");
    let answer = router.clone().oneshot(request).await.expect("infallible");
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    assert!(status != 200 || !body.is_empty());
    status
}

/// CVE-2025-0426, SEC-31: nothing that does, changes or reads anything of a container is on the read-only port.
#[tokio::test]
async fn cve_2025_0426_sec_31_the_read_only_port_takes_no_checkpoints_nor_commands() {
    let node = Node::plain();
    node.start().await;
    node.tell_pod("web", serde_json::json!({"phase": "Running"}), &[]).await;
    let router = routes::read_only(Arc::clone(&node.backend));
    for path in [
        "/checkpoint/shop/web/a",
        "/run/shop/web/a?cmd=id",
        "/exec/shop/web/a?command=id&output=1",
        "/attach/shop/web/a?output=1",
        "/portForward/shop/web?port=80",
        "/containerLogs/shop/web/a",
        "/logs/syslog",
        "/debug/flags/v",
        "/debug/pprof/profile",
        "/configz",
        "/runningpods/",
        "/restart/shop/web",
        "/reset-back-off/shop/web",
    ] {
        let got = (ask_routes(&router, "GET", path).await.0.as_u16(), post(&router, path).await);
        assert!([404, 405].contains(&got.0) && [404, 405].contains(&got.1), "{path}: {got:?}");
    }
    let written = std::fs::read_dir(node.folder.path().join("checkpoints")).map(Iterator::count);
    assert_eq!(written.unwrap_or_default(), 0);
    assert_eq!(ask_routes(&router, "GET", "/pods").await.0.as_u16(), 200);
}
