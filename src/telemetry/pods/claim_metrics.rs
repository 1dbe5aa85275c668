//! Metrics of claims of resources (RES-52): calls and work as they happen, claims in use read at a scrape.

use prometheus::proto::MetricFamily;
use prometheus::{HistogramVec, Registry};

use crate::actors::kit::trace::Cause;
use crate::messages::plugins::claim_manager::ClaimManagerMsg;
use crate::platform::observer::Observation;
use crate::telemetry::registry::families::Family;
use crate::telemetry::registry::register::Registrar;
use crate::telemetry::sources::Sources;

use super::resize_metrics::ASK_LIMIT;

/// How many upper bounds there are.
const BOUNDS: i32 = 15;
/// The first and the last of them, in seconds.
const RANGE: (f64, f64) = (0.1, 40.0);

/// Upper bounds, each the same multiple of the one before.
fn bounds() -> Vec<f64> {
    let (least, most) = RANGE;
    let factor = (most / least).powf(1.0 / f64::from(BOUNDS - 1));
    (0..BOUNDS).map(|position| least * factor.powi(position)).collect()
}

/// See the module.
pub(in crate::telemetry) struct ClaimMetrics {
    work: HistogramVec,
    calls: HistogramVec,
}

impl ClaimMetrics {
    pub(in crate::telemetry) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        Self {
            work: registrar.histograms(
                "dra_operations_duration_seconds",
                "[ALPHA] Latency histogram in seconds for the duration of handling all ResourceClaims referenced by a pod \
                 when the pod starts or stops. Identified by the name of the operation (PrepareResources or \
                 UnprepareResources) and separated by the success of the operation. The number of failed operations is \
                 provided through the histogram's overall count.",
                &bounds(),
                &["operation_name", "is_error"],
            ),
            calls: registrar.histograms(
                "dra_grpc_operations_duration_seconds",
                "[ALPHA] Duration in seconds of the DRA gRPC operations",
                &bounds(),
                &["driver_name", "method_name", "grpc_status_code"],
            ),
        }
    }

    /// Counts what is about claims; whether it was.
    pub(in crate::telemetry) fn observe(&self, what: &Observation<'_>) -> bool {
        match what {
            Observation::ClaimsHandled { operation, failed, took } => {
                let labels = [*operation, if *failed { "true" } else { "false" }];
                self.work.with_label_values(&labels).observe(took.as_secs_f64());
            }
            Observation::ClaimDriverCalled { driver, method, code, took } => {
                self.calls.with_label_values(&[*driver, *method, *code]).observe(took.as_secs_f64());
            }
            _ => return false,
        }
        true
    }
}

/// The claims in use, by driver.
pub(in crate::telemetry) async fn families(sources: &Sources, families: &mut Vec<MetricFamily>) {
    let to = &sources.directory.claim_manager;
    let Ok(Some(book)) = to.ask(Cause::outside("request"), ASK_LIMIT, ClaimManagerMsg::Claims).await else { return };
    let help = "[ALPHA] The number of ResourceClaims that are currently in use on the node, by driver name (driver_name label \
                value) and across all drivers (special value <any> for driver_name). Note that the sum of all by-driver \
                counts is not the total number of in-use ResourceClaims because the same ResourceClaim might use devices \
                from different drivers. Instead, use the count for the <any> driver_name.";
    let mut family = Family::gauge("dra_resource_claims_in_use", help);
    for (driver, count) in book.in_use() {
        family.sample(&[("driver_name", &driver)], count as f64);
    }
    family.finish(families);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RES-52.
    #[test]
    fn the_bounds_are_upstreams() {
        let bounds = bounds();
        assert_eq!(bounds.len(), 15);
        assert!((bounds[1] / bounds[0] - 1.534_127).abs() < 1e-6 && (bounds[14] - 40.0).abs() < 1e-9, "{bounds:?}");
    }
}
