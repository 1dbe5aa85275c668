//! The probe that only connects (PRB-13).

use super::{ProbeOutcome, TcpProbe};
use crate::platform::network::http_exchange::connect;
use crate::platform::network::names::Names;

/// Connects and closes again.
pub(super) async fn probe(probe: &TcpProbe, names: &Names) -> ProbeOutcome {
    match tokio::time::timeout(probe.timeout, connect(&probe.host, probe.port, names)).await {
        Ok(Ok(_)) => ProbeOutcome::Success,
        Ok(Err(problem)) => ProbeOutcome::Failure(problem.to_string()),
        Err(_) => {
            let host = if probe.host.contains(':') { format!("[{}]", probe.host) } else { probe.host.clone() };
            ProbeOutcome::Failure(format!("dial tcp {host}:{}: i/o timeout", probe.port))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn to(address: std::net::SocketAddr) -> TcpProbe {
        TcpProbe { host: address.ip().to_string(), port: address.port(), timeout: Duration::from_secs(20) }
    }

    /// PRB-13.
    #[tokio::test]
    async fn a_port_is_open_or_it_is_not() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let listener = std::net::TcpListener::bind(host).expect("bound");
            let address = listener.local_addr().expect("bound");
            assert_eq!(probe(&to(address), &Names::OfNode).await, ProbeOutcome::Success);
            drop(listener);
            let expected = format!("dial tcp {address}: connect: connection refused");
            assert_eq!(probe(&to(address), &Names::OfNode).await, ProbeOutcome::Failure(expected));
        }
    }

    #[tokio::test]
    async fn a_server_whose_queue_is_full_is_a_timeout() {
        // One that never accepts takes as many connections as its queue holds, and the next one waits.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(0).expect("a length")).expect("listens");
        let address = listener.local_addr().expect("bound");
        let mut held = vec![];
        for _ in 0..8 {
            let timeout = Duration::from_millis(200);
            let connected = tokio::time::timeout(timeout, tokio::net::TcpStream::connect(address)).await;
            held.push(connected);
        }
        let outcome = probe(&TcpProbe { timeout: Duration::from_millis(50), ..to(address) }, &Names::OfNode).await;
        assert_eq!(outcome, ProbeOutcome::Failure(format!("dial tcp {address}: i/o timeout")));
    }
}
