//! Tests of the export of spans.

use super::*;

#[test]
fn endpoints_have_grpcs_forms() {
    let host = |text: &str| Target::Host(text.to_owned());
    for (endpoint, target) in [
        ("localhost:4317", host("localhost:4317")),
        ("[::1]:4317", host("[::1]:4317")),
        ("dns:collector:1", host("collector:1")),
        ("dns:///collector:1", host("collector:1")),
        ("dns://10.0.0.1/collector:1", host("collector:1")),
        ("unix:/run/otel.sock", Target::Unix("/run/otel.sock".to_owned())),
        ("unix:///run/otel.sock", Target::Unix("/run/otel.sock".to_owned())),
        ("unix-abstract:otel", Target::Abstract("otel".to_owned())),
    ] {
        assert_eq!(parse_endpoint(endpoint), target, "{endpoint}");
    }
}

#[test]
fn nothing_is_sampled_unless_a_rate_says_so() {
    let config = |rate| Tracing { endpoint: None, sampling_rate_per_million: rate };
    assert!(sampler(&config(None)).is_none());
    assert!(sampler(&config(Some(0))).is_none());
    assert!(sampler(&config(Some(1))).is_some());
}

#[test]
fn calls_have_their_grpc_names() {
    assert_eq!(call_name("run_podsandbox"), "runtime.v1.RuntimeService/RunPodSandbox");
    assert_eq!(call_name("image_status"), "runtime.v1.ImageService/ImageStatus");
    assert_eq!(call_name("update_container"), "runtime.v1.RuntimeService/UpdateContainerResources");
}

#[test]
fn a_context_is_written_as_w3c_has_it() {
    use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
    let span = SpanContext::new(
        TraceId::from_hex("0af7651916cd43dd8448eb211c80319c").expect("hex"),
        SpanId::from_hex("b7ad6b7169203331").expect("hex"),
        TraceFlags::SAMPLED,
        false,
        TraceState::default(),
    );
    let pairs = injected(&Context::new().with_remote_span_context(span));
    let expected = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    assert_eq!(pairs, [("traceparent", expected.to_owned())]);
    assert!(injected(&Context::new()).is_empty());
}
