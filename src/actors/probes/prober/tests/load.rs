//! The cost of probes for the agent: 500 of one second each, in real time, on one thread of their own. Prints figures,
//! asserts none. `cargo test --features sim --lib -- --ignored --nocapture what_five_hundred_probes_cost`

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::*;
use crate::actors::kit::trace::Cause;
use crate::actors::node::tests::played_agent_with;
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::messages::root::Child;
use crate::platform::host::clock::SystemClock;

const PROBES: u32 = 500;
const SECONDS: u32 = 20;

/// A web server on a thread of its own, whose time is not the probes'.
fn serve() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    // All probes begin at once here; the usual queue holds 128 connections.
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(1024).expect("a length")).expect("listens");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
            let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    address
}

/// The processor's time that this thread has had.
fn processor_time() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    Duration::from_nanos(told.split(' ').next().and_then(|figure| figure.parse().ok()).expect("a figure"))
}

async fn cost(name: &str, action: Value) {
    let played = played_agent_with(ObjectServer::default().api(), Arc::new(SystemClock::start()), None, |_, _| {});
    let agent = &played.agent;
    start_alone(Child::Prober, agent);
    let worker = Address::new(&agent.trace, "worker", "PodWorker", "Root", 16);
    let mut probe = json!({ "periodSeconds": 1, "timeoutSeconds": 1 });
    for (field, value) in action.as_object().expect("an object") {
        probe[field] = value.clone();
    }
    for number in 0..PROBES {
        let uid = format!("uid-{number}");
        let pod = json!({
            "metadata": { "name": "web", "namespace": "ns", "uid": uid },
            "spec": { "containers": [{ "name": "main", "readinessProbe": probe }] },
        });
        let status = json!({
            "phase": "Running", "podIP": "127.0.0.1",
            "containerStatuses": [{
                "name": "main", "containerID": format!("containerd://main-{number}"), "started": true, "ready": true,
                "image": "", "imageID": "", "restartCount": 0, "state": { "running": {} },
            }],
        });
        let message = ProberMsg::PodChanged {
            uid: PodUid::from(uid),
            pod: Arc::new(serde_json::from_value(pod).expect("a pod")),
            status: Arc::new(serde_json::from_value(status).expect("a status")),
            ending: false,
            worker: worker.subscriber(),
        };
        agent.directory.prober.tell(Cause::outside("test"), message).expect("has room");
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = processor_time();
    tokio::time::sleep(Duration::from_secs(SECONDS.into())).await;
    let spent = processor_time() - before;
    let question = agent.directory.prober.ask(Cause::outside("test"), Duration::from_secs(5), ProberMsg::Counts);
    let counts = question.await.expect("an answer");
    let (well, failed) = counts.iter().fold((0, 0), |sum, (_, one)| (sum.0 + one.successful, sum.1 + one.failed));
    assert_eq!(counts.len(), PROBES as usize);
    let cpu = spent.as_secs_f64() / f64::from(SECONDS) * 100.0;
    let each = spent / (PROBES * SECONDS);
    eprintln!(
        "{name}: {PROBES} probes of 1 s: {cpu:.1} % of a processor, {each:?} a probe; {well} went well, {failed} did not"
    );
}

#[tokio::test]
#[ignore = "measures in real time, for a minute; for people who look at the figures"]
async fn what_five_hundred_probes_cost() {
    let port = serve().port();
    cost("exec, without the runtime's part", json!({ "exec": { "command": ["sleep", "0"] } })).await;
    cost("tcpSocket", json!({ "tcpSocket": { "port": port } })).await;
    cost("httpGet", json!({ "httpGet": { "path": "/", "port": port } })).await;
}
