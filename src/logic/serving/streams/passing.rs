//! Which headers of a client's request reach the runtime's stream server (SEC-34), and which of its answers the client.

use super::options;

/// How the sub-protocol begins by which browsers send a bearer token.
const BEARER_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// Whether a header of a request, by its name in lower case, must not reach the runtime: it proves or tells who the
/// client is, or it is about a body, of which there is none.
pub fn is_withheld(name: &str) -> bool {
    matches!(
        name,
        "authorization"
            | "proxy-authorization"
            | "cookie"
            | "content-length"
            | "transfer-encoding"
            | "te"
            | "trailer"
            | "expect"
    ) || name.starts_with("impersonate-")
        || name.starts_with("x-remote-")
}

/// A line of `Sec-WebSocket-Protocol` without bearer tokens; `None` when nothing else is in it.
pub fn without_bearer(line: &str) -> Option<String> {
    let kept: Vec<&str> =
        options::listed([line]).into_iter().filter(|entry| !entry.starts_with(BEARER_PREFIX)).collect();
    (!kept.is_empty()).then(|| kept.join(", "))
}

/// Whether a header of a refusal, by its name in lower case, is passed on: what is about the connection is not, and
/// nothing that leads a client elsewhere or makes it remember (SEC-32).
pub fn is_passed_back(name: &str) -> bool {
    !matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "transfer-encoding"
            | "content-length"
            | "trailer"
            | "upgrade"
            | "location"
            | "refresh"
            | "set-cookie"
    )
}

/// The line of `X-Forwarded-For` with one more hop, as upstream writes it.
pub fn forwarded_for(before: &[&str], client: &str) -> String {
    let mut hops = before.to_vec();
    hops.push(client);
    hops.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SEC-34: nothing by which the runtime could speak as the client.
    #[test]
    fn sec_34_credentials_are_withheld() {
        for name in ["authorization", "cookie", "proxy-authorization", "impersonate-user", "x-remote-group"] {
            assert!(is_withheld(name), "{name}");
        }
        for name in ["connection", "upgrade", "host", "sec-websocket-key", "x-stream-protocol-version", "user-agent"] {
            assert!(!is_withheld(name), "{name}");
        }
        let line = "base64url.bearer.authorization.k8s.io.c2VjcmV0, v4.channel.k8s.io";
        assert_eq!(without_bearer(line).as_deref(), Some("v4.channel.k8s.io"));
        assert_eq!(without_bearer("base64url.bearer.authorization.k8s.io.c2VjcmV0"), None);
        assert_eq!(without_bearer("a,b").as_deref(), Some("a, b"));
    }

    /// SEC-32.
    #[test]
    fn a_refusal_leads_nowhere() {
        assert!(!is_passed_back("location") && !is_passed_back("set-cookie") && !is_passed_back("upgrade"));
        assert!(is_passed_back("content-type") && is_passed_back("x-accepted-stream-protocol-versions"));
    }

    #[test]
    fn each_hop_is_added() {
        assert_eq!(forwarded_for(&[], "10.0.0.1"), "10.0.0.1");
        assert_eq!(forwarded_for(&["192.0.2.1", "10.0.0.2"], "10.0.0.1"), "192.0.2.1, 10.0.0.2, 10.0.0.1");
    }
}
