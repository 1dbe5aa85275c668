//! The calls to drivers of resource claims, against one on real sockets (RES-48, RES-51).

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::timeout;
use tonic::Code as WireCode;

use super::super::wire::dra_health_v1alpha1::HealthStatus;
use super::*;
use crate::logic::plugins::call_error::Code;
use crate::logic::plugins::claims::health::Health;
use crate::logic::plugins::claims::{ClaimKey, PreparedDevice};
use crate::platform::host::clock::SystemClock;
use crate::testing::dra_driver::DraDriver;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

fn calls() -> GrpcDra {
    GrpcDra::new(PluginCalls::new(Arc::new(SystemClock::start())))
}

fn claims(names: &[&str]) -> Vec<ClaimId> {
    let claim = |name: &&str| {
        let key = ClaimKey { namespace: "ns".to_owned(), name: (*name).to_owned() };
        ClaimId { key, uid: format!("uid-{name}") }
    };
    names.iter().map(claim).collect()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// RES-48.
#[tokio::test]
async fn res_48_claims_are_prepared_and_released_in_both_versions() {
    let folder = folder();
    let driver = DraDriver::new("gpu.example.com", folder.path());
    let _serving = driver.serve(folder.path());
    (driver.switches().request_names, driver.switches().share_id) = (vec!["gpu".to_owned()], Some("s".to_owned()));
    for (service, share_id) in [(Service::V1, Some("s".to_owned())), (Service::V1Beta1, None)] {
        let prepared = calls().prepare(&driver.endpoint(), service, claims(&["a", "b"])).await.expect("answered");
        let device = |name: &str| PreparedDevice {
            pool_name: "pool".to_owned(),
            device_name: name.to_owned(),
            share_id: share_id.clone(),
            request_names: vec!["gpu".to_owned()],
            cdi_device_ids: vec![format!("gpu.example.com/device={name}")],
        };
        let expected = ["a", "b"].map(|name| (format!("uid-{name}"), Ok(vec![device(name)])));
        assert_eq!(prepared, expected.into());
        let released = calls().unprepare(&driver.endpoint(), service, claims(&["a"])).await.expect("answered");
        assert_eq!(released, [("uid-a".to_owned(), Ok(vec![]))].into());
    }
    assert_eq!(
        driver.calls(),
        [
            "v1 NodePrepareResources a b",
            "v1 NodeUnprepareResources a",
            "v1beta1 NodePrepareResources a b",
            "v1beta1 NodeUnprepareResources a"
        ]
    );
}

/// RES-48.
#[tokio::test]
async fn res_48_a_drivers_words_against_a_claim_are_told_apart_from_a_failed_call() {
    let folder = folder();
    let driver = DraDriver::new("gpu.example.com", folder.path());
    let at = driver.endpoint();
    let nobody = calls().prepare(&at, Service::V1, claims(&["a"])).await.expect_err("nobody serves");
    assert_eq!(nobody.code(), Code::Unavailable);
    let _serving = driver.serve(folder.path());
    driver.switches().refuses.insert("a".to_owned(), "no device".to_owned());
    driver.switches().skips.insert("b".to_owned());
    for answer in [
        calls().prepare(&at, Service::V1, claims(&["a", "b"])).await,
        calls().unprepare(&at, Service::V1Beta1, claims(&["a", "b"])).await,
    ] {
        assert_eq!(answer, Ok([("uid-a".to_owned(), Err("no device".to_owned()))].into()));
    }
    driver.switches().fails.insert("NodePrepareResources", [WireCode::ResourceExhausted].into());
    let failed = calls().prepare(&at, Service::V1, claims(&["a"])).await.expect_err("it is to fail");
    let words = "rpc error: code = ResourceExhausted desc = NodePrepareResources is to fail";
    assert_eq!(failed.to_string(), words);
}

/// RES-49: a driver that goes is seen to go.
#[tokio::test]
async fn res_49_a_connection_ends_with_the_driver() {
    let folder = folder();
    let driver = DraDriver::new("gpu.example.com", folder.path());
    calls().connect(&driver.endpoint()).await.err().expect("nobody serves");
    let serving = driver.serve(folder.path());
    let mut connection = calls().connect(&driver.endpoint()).await.expect("it serves");
    timeout(Duration::from_millis(300), &mut connection).await.expect_err("it stands");
    drop(serving);
    timeout(LONG, connection).await.expect("it ends");
}

/// RES-51.
#[tokio::test]
async fn res_51_health_is_told_as_it_changes_and_ends_with_the_driver() {
    let folder = folder();
    let driver = DraDriver::new("gpu.example.com", folder.path());
    driver.say("a", HealthStatus::Healthy, "");
    let serving = driver.serve(folder.path());
    let mut news = calls().watch_health(&driver.endpoint()).await.expect("offered");
    for (state, message, expected) in
        [(HealthStatus::Healthy, "", Health::Healthy), (HealthStatus::Unhealthy, "hot", Health::Unhealthy)]
    {
        driver.say("a", state, message);
        let told = loop {
            let told = timeout(LONG, news.next()).await.expect("in time").expect("open").expect("told");
            if told[0].health == expected {
                break told;
            }
        };
        assert_eq!((told[0].device_name.as_str(), told[0].message.as_str()), ("a", message));
    }
    drop(serving);
    let end = timeout(LONG, news.next()).await.expect("in time");
    assert!(end.is_none_or(|end| end.is_err()));
    calls().watch_health(&driver.endpoint()).await.err().expect("nobody serves");
}
