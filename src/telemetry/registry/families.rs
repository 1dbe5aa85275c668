//! Metric families made at the moment of a scrape, from figures that are kept elsewhere.

use std::time::Duration;

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};

use crate::logic::model::histogram::Histogram as Counted;

/// Labels of a sample: names and values.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

/// The unit of a histogram's values: how many there are in a second.
#[derive(Clone, Copy)]
pub(in crate::telemetry) struct Unit(f64);

/// Seconds, as nearly all are.
pub(in crate::telemetry) const SECOND: Unit = Unit(1.0);
/// Milliseconds, where upstream's name says so.
pub(in crate::telemetry) const MILLISECOND: Unit = Unit(1000.0);

/// A family in the making.
pub(in crate::telemetry) struct Family {
    family: MetricFamily,
    kind: MetricType,
}

impl Family {
    /// A family of gauges.
    pub(in crate::telemetry) fn gauge(name: &str, help: &str) -> Self {
        Self::new(name, help, MetricType::GAUGE)
    }

    /// A family of counters.
    pub(in crate::telemetry) fn counter(name: &str, help: &str) -> Self {
        Self::new(name, help, MetricType::COUNTER)
    }

    /// A family of histograms.
    pub(in crate::telemetry) fn histogram(name: &str, help: &str) -> Self {
        Self::new(name, help, MetricType::HISTOGRAM)
    }

    fn new(name: &str, help: &str, kind: MetricType) -> Self {
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        Self { family, kind }
    }

    /// One more sample of a counter or gauge.
    pub(in crate::telemetry) fn sample(&mut self, labels: Labels<'_>, value: f64) {
        let mut metric = Metric::from_label(pairs(labels));
        if self.kind == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.family.mut_metric().push(metric);
    }

    /// One more histogram; bounds and sum in this unit.
    pub(in crate::telemetry) fn distribution<const N: usize>(
        &mut self,
        labels: Labels<'_>,
        counted: &Counted<N>,
        unit: Unit,
    ) {
        let in_unit = |duration: Duration| duration.as_secs_f64() * unit.0;
        let bucket = |(bound, count)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(in_unit(bound));
            bucket.set_cumulative_count(count);
            bucket
        };
        let mut histogram = Histogram::default();
        histogram.set_bucket(counted.cumulative().map(bucket).collect());
        histogram.set_sample_count(counted.count());
        histogram.set_sample_sum(in_unit(counted.sum()));
        let mut metric = Metric::from_label(pairs(labels));
        metric.set_histogram(histogram);
        self.family.mut_metric().push(metric);
    }

    /// Hands it over, unless it is empty: a family without samples has no place in the text form.
    pub(in crate::telemetry) fn finish(self, into: &mut Vec<MetricFamily>) {
        if !self.family.get_metric().is_empty() {
            into.push(self.family);
        }
    }
}

fn pairs(labels: Labels<'_>) -> Vec<LabelPair> {
    let pair = |(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    };
    labels.iter().map(pair).collect()
}
