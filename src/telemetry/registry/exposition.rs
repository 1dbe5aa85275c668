//! The two forms of the page of metrics: text 0.0.4, and delimited protocol buffers for who prefers them.

use prometheus::TextEncoder;
use prometheus::proto::{Metric, MetricFamily, MetricType};
use prost::Message;

/// The type of the protocol buffers.
const DELIMITED: &str = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; escaping=underscores";

/// The metrics of an endpoint.
#[derive(Debug)]
pub struct Exposition {
    families: Vec<MetricFamily>,
}

impl Exposition {
    /// The type of the text form.
    pub const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

    /// Families in order of their names.
    pub(in crate::telemetry) fn new(mut families: Vec<MetricFamily>) -> Self {
        families.sort_by(|one, other| one.name().cmp(other.name()));
        Self { families }
    }

    /// In the form that `accept`, the request's header, prefers: its type, and the body.
    pub fn negotiated(&self, accept: Option<&str>) -> (&'static str, Vec<u8>) {
        if prefers_protobuf(accept.unwrap_or_default()) {
            (DELIMITED, self.delimited())
        } else {
            (Self::TEXT, self.text().into())
        }
    }

    /// The text form.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for family in &self.families {
            let before = text.len();
            // A family that has no text form, which none here is, costs only itself.
            if TextEncoder::new().encode_utf8(std::slice::from_ref(family), &mut text).is_err() {
                text.truncate(before);
            }
        }
        text
    }

    fn delimited(&self) -> Vec<u8> {
        self.families.iter().flat_map(|family| wire(family).encode_length_delimited_to_vec()).collect()
    }
}

/// Whether the protocol buffers are asked for with at least the weight of text. OpenMetrics is not spoken: upstream's
/// kubelet does not either.
fn prefers_protobuf(accept: &str) -> bool {
    let (mut protobuf, mut text) = (0.0, 0.0);
    for part in accept.split(',') {
        let mut words = part.split(';').map(str::trim);
        let kind = words.next().unwrap_or_default();
        let parameters: Vec<(&str, &str)> = words.filter_map(|word| word.split_once('=')).collect();
        let value = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let weight = value("q").map_or(Some(1.0), |weight| weight.parse::<f64>().ok()).unwrap_or(0.0);
        match kind {
            "application/vnd.google.protobuf"
                if value("proto") == Some("io.prometheus.client.MetricFamily")
                    && value("encoding") == Some("delimited") =>
            {
                protobuf = weight.max(protobuf);
            }
            "text/plain" | "text/*" | "*/*" => text = weight.max(text),
            _ => {}
        }
    }
    protobuf > 0.0 && protobuf >= text
}

/// `io.prometheus.client`, as far as these metrics use it.
mod message {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct LabelPair {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub value: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Number {
        #[prost(double, optional, tag = "1")]
        pub value: Option<f64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Bucket {
        #[prost(uint64, optional, tag = "1")]
        pub cumulative_count: Option<u64>,
        #[prost(double, optional, tag = "2")]
        pub upper_bound: Option<f64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Histogram {
        #[prost(uint64, optional, tag = "1")]
        pub sample_count: Option<u64>,
        #[prost(double, optional, tag = "2")]
        pub sample_sum: Option<f64>,
        #[prost(message, repeated, tag = "3")]
        pub bucket: Vec<Bucket>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Metric {
        #[prost(message, repeated, tag = "1")]
        pub label: Vec<LabelPair>,
        #[prost(message, optional, tag = "2")]
        pub gauge: Option<Number>,
        #[prost(message, optional, tag = "3")]
        pub counter: Option<Number>,
        #[prost(message, optional, tag = "7")]
        pub histogram: Option<Histogram>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct MetricFamily {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub help: String,
        /// Counter 0, gauge 1, histogram 4.
        #[prost(int32, optional, tag = "3")]
        pub kind: Option<i32>,
        #[prost(message, repeated, tag = "4")]
        pub metric: Vec<Metric>,
    }
}

fn wire(family: &MetricFamily) -> message::MetricFamily {
    let kind = family.get_field_type();
    message::MetricFamily {
        name: family.name().to_owned(),
        help: family.help().to_owned(),
        kind: Some(match kind {
            MetricType::COUNTER => 0,
            MetricType::HISTOGRAM => 4,
            _ => 1,
        }),
        metric: family.get_metric().iter().map(|metric| wire_metric(metric, kind)).collect(),
    }
}

fn wire_metric(metric: &Metric, kind: MetricType) -> message::Metric {
    let label = metric.get_label().iter();
    let label =
        label.map(|pair| message::LabelPair { name: pair.name().to_owned(), value: pair.value().to_owned() }).collect();
    let number = |value: f64| Some(message::Number { value: Some(value) });
    let mut told = message::Metric { label, ..message::Metric::default() };
    match kind {
        MetricType::COUNTER => told.counter = number(metric.get_counter().get_value()),
        MetricType::HISTOGRAM => {
            let histogram = metric.get_histogram();
            let bucket = histogram.get_bucket().iter().map(|bucket| message::Bucket {
                cumulative_count: Some(bucket.cumulative_count()),
                upper_bound: Some(bucket.upper_bound()),
            });
            told.histogram = Some(message::Histogram {
                sample_count: Some(histogram.get_sample_count()),
                sample_sum: Some(histogram.get_sample_sum()),
                bucket: bucket.collect(),
            });
        }
        _ => told.gauge = number(metric.get_gauge().get_value()),
    }
    told
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;

    use super::super::register::Registrar;
    use super::*;

    const PROTOBUF: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

    /// SRV-26.
    #[test]
    fn protocol_buffers_are_for_those_who_prefer_them() {
        for (accept, expected) in [
            ("", false),
            ("*/*", false),
            ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", false),
            ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", false),
            ("application/vnd.google.protobuf", false),
            (&format!("{PROTOBUF};q=0.7,text/plain;version=0.0.4;q=0.3"), true),
            (&format!("{PROTOBUF};q=0.2,text/plain;version=0.0.4;q=0.3"), false),
            (PROTOBUF, true),
            (&format!("{PROTOBUF};q=none"), false),
        ] {
            assert_eq!(prefers_protobuf(accept), expected, "{accept}");
        }
    }

    /// SRV-26.
    #[test]
    fn both_forms_tell_the_same() {
        let registry = Registry::new();
        let registrar = Registrar(&registry);
        registrar.counter("a_total", "A").inc_by(3);
        registrar.whole_gauges("b", "B", &["kind"]).with_label_values(&["x"]).set(-2);
        registrar.histogram("c_seconds", "C", &[1.0, 2.0]).observe(1.5);
        let told = Exposition::new(registry.gather());
        let (kind, bytes) = told.negotiated(Some(PROTOBUF));
        assert!(kind.starts_with("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily"));
        let mut rest = bytes.as_slice();
        let mut families = vec![];
        while !rest.is_empty() {
            families.push(message::MetricFamily::decode_length_delimited(&mut rest).expect("a family"));
        }
        let names: Vec<(&str, Option<i32>)> =
            families.iter().map(|family| (family.name.as_str(), family.kind)).collect();
        assert_eq!(names, [("a_total", Some(0)), ("b", Some(1)), ("c_seconds", Some(4))]);
        assert_eq!(families[0].metric[0].counter, Some(message::Number { value: Some(3.0) }));
        assert_eq!(families[1].metric[0].label[0].value, "x");
        let histogram = families[2].metric[0].histogram.as_ref().expect("a histogram");
        let buckets: Vec<_> = histogram.bucket.iter().map(|bucket| bucket.cumulative_count).collect();
        assert_eq!((buckets, histogram.sample_count), (vec![Some(0), Some(1)], Some(1)));
        let text = told.text();
        for line in ["a_total 3", "b{kind=\"x\"} -2", "c_seconds_bucket{le=\"2\"} 1", "c_seconds_count 1"] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert_eq!(told.negotiated(None), (Exposition::TEXT, text.into_bytes()));
    }
}
