//! Any bytes as a static pod's manifest, YAML or JSON: decoded, given defaults and an identity, validated. An accepted
//! manifest has names that are path segments, and is accepted again in the form of JSON (SEC-17, SEC-18, SEC-59).

#![no_main]

use libfuzzer_sys::fuzz_target;
use podwright_fuzz::logic::formats::path_segment::is_safe_segment;
use podwright_fuzz::logic::manifest::{Source, check_static, check_static_list, claimed_name};

fuzz_target!(|text: &[u8]| {
    let file = Source::File { path: "/etc/kubernetes/manifests/a.yaml".to_owned() };
    let url = Source::Http { url: "http://192.0.2.1/".to_owned() };
    let _ = (check_static_list(text, &url, "node1"), claimed_name(text, &file, "node1"));
    let Ok(checked) = check_static(text, &file, "node1") else { return };
    let metadata = &checked.pod.metadata;
    for name in [&metadata.name, &metadata.namespace, &metadata.uid] {
        assert!(name.as_deref().is_some_and(|name| is_safe_segment(name).is_ok()), "{name:?}");
    }
    let again = serde_json::to_vec(&checked.pod).expect("a pod is JSON");
    if let Err(error) = check_static(&again, &file, "node1") {
        panic!("{error}");
    }
});
