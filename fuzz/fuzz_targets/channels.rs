//! Any message of a WebSocket's client, and any word of the runtime about how a command ended (SEC-59).

#![no_main]

use libfuzzer_sys::fuzz_target;
use podwright_fuzz::logic::serving::streams::channels::{FromClient, from_client, sizes};
use podwright_fuzz::logic::serving::streams::options::{listed, tunnelled};
use podwright_fuzz::logic::serving::streams::passing::{forwarded_for, without_bearer};
use podwright_fuzz::logic::serving::streams::status::from_runtime;

fuzz_target!(|message: &[u8]| {
    if from_client(message) == FromClient::Stdin {
        assert_eq!(message[0], 0);
    }
    for line in sizes(message).lines() {
        assert!(line.starts_with("{\"Width\":") && line.ends_with('}'), "{line}");
    }
    let status: serde_json::Value = serde_json::from_str(&from_runtime(message)).expect("a status is JSON");
    assert!(status["metadata"].is_object(), "{status}");
    if let Ok(text) = std::str::from_utf8(message) {
        for inside in tunnelled(&listed([text])) {
            assert!(text.contains(inside));
        }
        if let Some(kept) = without_bearer(text) {
            let is_token = |entry: &&str| entry.starts_with("base64url.bearer.authorization.k8s.io.");
            assert!(!listed([kept.as_str()]).iter().any(is_token), "{kept}");
        }
        assert!(forwarded_for(&[text], "192.0.2.1").ends_with("192.0.2.1"));
    }
});
