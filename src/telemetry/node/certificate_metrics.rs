//! How long certificates still hold, read at a scrape: the agent's own (`kubelet_certificate_manager_*`, NODE-51, NODE-52)
//! and those of callers.

use prometheus::proto::MetricFamily;

use crate::platform::cluster::certificates::KeptCertificate;
use crate::telemetry::registry::families::{Family, SECOND};
use crate::telemetry::sources::Sources;

/// The metrics of certificates that the agent exchanges, not of those that it was given; and of those that callers showed.
pub(in crate::telemetry) fn families(sources: &Sources, families: &mut Vec<MetricFamily>) {
    let certificates = &sources.certificates;
    if let Some(client) = certificates.client.as_ref().filter(|client| client.is_exchanged()) {
        let help = "[ALPHA] Gauge of the TTL (time-to-live) of the Kubelet's client certificate. The value is in seconds \
                    until certificate expiry (negative if already expired). If client certificate is invalid or unused, \
                    the value will be +INF.";
        gauge("kubelet_certificate_manager_client_ttl_seconds", help, seconds_left(sources, client), families);
        let name = "kubelet_certificate_manager_client_expiration_renew_errors";
        counter(name, client.failures(), families);
    }
    if let Some(authorities) = &certificates.authorities {
        let help = "[ALPHA] Distribution of the remaining lifetime on the certificate used to authenticate a request.";
        let mut family = Family::histogram("apiserver_client_certificate_expiration_seconds", help);
        family.distribution(&[], &authorities.left(), SECOND);
        family.finish(families);
    }
    let Some(serving) = &certificates.serving else { return };
    let help = "[ALPHA] Gauge of the shortest TTL (time-to-live) of the Kubelet's serving certificate. The value is in \
                seconds until certificate expiry (negative if already expired). If serving certificate is invalid or \
                unused, the value will be +INF.";
    gauge("kubelet_certificate_manager_server_ttl_seconds", help, seconds_left(sources, serving), families);
    counter("kubelet_server_expiration_renew_errors", serving.failures(), families);
    let help = "[ALPHA] Histogram of the number of seconds the previous certificate lived before being rotated.";
    let mut family = Family::histogram("kubelet_certificate_manager_server_rotation_seconds", help);
    family.distribution(&[], &serving.lives(), SECOND);
    family.finish(families);
}

fn gauge(name: &str, help: &str, value: f64, families: &mut Vec<MetricFamily>) {
    let mut family = Family::gauge(name, help);
    family.sample(&[], value);
    family.finish(families);
}

fn counter(name: &str, value: u64, families: &mut Vec<MetricFamily>) {
    let mut family = Family::counter(name, "[ALPHA] Counter of certificate renewal errors.");
    family.sample(&[], value as f64);
    family.finish(families);
}

/// Whole seconds until the certificate's end; infinite without one that holds.
fn seconds_left(sources: &Sources, kept: &KeptCertificate) -> f64 {
    let now = sources.trace.clock().now();
    kept.held().map_or(f64::INFINITY, |held| held.not_after.since(now).as_secs_f64().trunc())
}
