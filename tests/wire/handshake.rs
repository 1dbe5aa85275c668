//! The handshake at the agent's start (CRI-01): which runtimes are refused, and in which words.

use std::sync::Arc;
use std::time::Duration;

use podwright::cri::grpc::GrpcRuntime;
use podwright::cri::instrumented::Unobserved;
use podwright::cri::wire::{ImageFsInfoResponse, VersionRequest, VersionResponse};
use podwright::cri::{CriError, RuntimeService, RuntimeVersion};
use tonic::Status;

use crate::fake::{Fake, Host, Seen};

fn good_version() -> VersionResponse {
    VersionResponse {
        version: "0.1.0".into(),
        runtime_name: "played".into(),
        runtime_version: "v9".into(),
        runtime_api_version: "v1".into(),
    }
}

#[tokio::test]
async fn a_good_runtime_is_asked_twice_and_tells_its_name() {
    let fake = Fake::new();
    fake.answer(good_version());
    let host = Host::of(&fake);
    let version = host.connect().check_runtime().await.unwrap();
    let told = RuntimeVersion {
        runtime_name: "played".into(),
        runtime_version: "v9".into(),
        runtime_api_version: "v1".into(),
    };
    assert_eq!(version, told);
    let asked: Vec<_> = fake.asked::<VersionRequest>().into_iter().map(|request| request.version).collect();
    assert_eq!(asked, ["", "0.1.0"]);
}

/// CRI-01.
#[tokio::test]
async fn a_runtime_of_another_version_or_without_a_name_is_refused() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();
    let table = [
        (VersionResponse { version: "0.2.0".into(), ..good_version() }, "version is \"0.2.0\", not \"0.1.0\""),
        (VersionResponse { version: String::new(), ..good_version() }, "not set: version"),
        (VersionResponse { runtime_name: String::new(), ..good_version() }, "not set: runtime_name"),
        (VersionResponse { runtime_version: String::new(), ..good_version() }, "not set: runtime_version"),
        (VersionResponse { runtime_api_version: String::new(), ..good_version() }, "not set: runtime_api_version"),
        (VersionResponse::default(), "not set: version, runtime_name, runtime_api_version, runtime_version"),
    ];
    for (answer, problem) in table {
        fake.answer(answer);
        let error = runtime.version().await.unwrap_err();
        assert!(matches!(error, CriError::InvalidAnswer { call: "Version", .. }), "{error:?}");
        assert!(error.to_string().contains(problem), "{error} should say {problem}");
        let error = runtime.check_runtime().await.unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains(&host.endpoint()), "{error} should say {problem}");
    }
}

#[tokio::test]
async fn a_runtime_without_one_of_the_services_is_refused() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();
    fake.refuse::<VersionResponse>(Status::unimplemented("unknown service runtime.v1.RuntimeService"));
    let error = runtime.check_runtime().await.unwrap_err();
    assert!(matches!(error, CriError::Unimplemented { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with("validate CRI v1 runtime API for endpoint \"unix://"), "{text}");
    assert!(text.contains(&host.endpoint()) && text.contains("unknown service runtime.v1.RuntimeService"), "{text}");

    fake.answer(good_version()).refuse::<ImageFsInfoResponse>(Status::unimplemented("no images here"));
    let text = runtime.check_runtime().await.unwrap_err().to_string();
    assert!(text.starts_with("validate CRI v1 image API for endpoint \"unix://"), "{text}");
    assert!(text.contains("rpc error: code = Unimplemented desc = no images here"), "{text}");
}

#[tokio::test]
async fn a_missing_socket_is_named() {
    let host = Host::empty();
    let error = host.connect().check_runtime().await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&host.endpoint()) && text.contains("No such file or directory"), "{text}");
}

#[tokio::test]
async fn only_unix_sockets_are_endpoints() {
    for (endpoint, image_endpoint) in [("tcp://127.0.0.1:1", ""), ("unix:///run/x.sock", "relative/path")] {
        let outcome = GrpcRuntime::connect(endpoint, image_endpoint, Duration::from_secs(1), Arc::new(Unobserved));
        assert!(outcome.err().unwrap().to_string().contains("only a unix socket"), "{endpoint} {image_endpoint}");
    }
}

#[tokio::test]
async fn equal_endpoints_share_one_connection_and_others_do_not() {
    let (both, images) = (Fake::new(), Fake::new());
    both.answer(good_version());
    let (host, image_host) = (Host::of(&both), Host::of(&images));
    let runtime = host.connect();
    runtime.check_runtime().await.unwrap();
    let calls = (0..20).map(|_| runtime.version());
    for outcome in futures_util::future::join_all(calls).await {
        outcome.unwrap();
    }
    assert_eq!(both.connections(), 1);

    let seen = Arc::new(Seen::default());
    let limit = Duration::from_secs(60);
    let apart = GrpcRuntime::connect(&host.endpoint(), &image_host.endpoint(), limit, seen.clone()).unwrap();
    apart.check_runtime().await.unwrap();
    assert_eq!((both.connections(), images.connections()), (2, 1));
    let told = [("version", false), ("image_fs_info", false), ("version", false)];
    assert_eq!(*seen.0.lock().unwrap(), told, "the observer is told of every call");
}
