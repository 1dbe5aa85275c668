//! `podwright_actor_*`: the trace's figures, by kind of actor, so that their number does not grow with the pods.

use prometheus::proto::MetricFamily;

use crate::actors::kit::trace::Trace;
use crate::telemetry::registry::families::{Family, SECOND};

/// Reads the trace.
pub(in crate::telemetry) fn families(trace: &Trace, families: &mut Vec<MetricFamily>) {
    now(trace, families);
    sums(trace, families);
}

fn now(trace: &Trace, families: &mut Vec<MetricFamily>) {
    let mut actors = Family::gauge("podwright_actors", "Actors.");
    let mut depth = Family::gauge("podwright_actor_mailbox_depth", "Messages that wait in mailboxes.");
    let mut operations = Family::gauge("podwright_actor_operations", "Operations that actors have under way.");
    let mut late = Family::gauge("podwright_operation_overdue", "Operations that should have ended by now.");
    let mut open = Family::gauge("podwright_actor_open_turn_seconds", "How long the longest open turn has been open.");
    for (kind, load) in trace.load() {
        let labels = [("actor", kind)];
        actors.sample(&labels, load.actors as f64);
        depth.sample(&labels, load.depth as f64);
        operations.sample(&labels, load.operations as f64);
        late.sample(&labels, load.late as f64);
        open.sample(&labels, load.open_longest.as_secs_f64());
    }
    for family in [actors, depth, operations, late, open] {
        family.finish(families);
    }
}

fn sums(trace: &Trace, families: &mut Vec<MetricFamily>) {
    let mut messages = Family::counter("podwright_actor_messages_total", "Messages handled.");
    let mut took = Family::histogram("podwright_actor_turn_seconds", "Time that the handling of a message took.");
    let mut waited = Family::histogram("podwright_actor_wait_seconds", "Time that a message waited in its mailbox.");
    let mut restarts = Family::counter("podwright_actor_restarts_total", "Actors started again after a failure.");
    let help = "Messages refused because the mailbox was full.";
    let mut refused = Family::counter("podwright_actor_refused_total", help);
    let help = "Operations that did not end in time, and were given up.";
    let mut given_up = Family::counter("podwright_operation_given_up_total", help);
    for (kind, sums) in trace.kinds() {
        for (message, count) in &sums.messages {
            messages.sample(&[("actor", kind), ("message", message)], *count as f64);
        }
        let labels = [("actor", kind)];
        took.distribution(&labels, &sums.took, SECOND);
        waited.distribution(&labels, &sums.waited, SECOND);
        restarts.sample(&labels, sums.restarts as f64);
        refused.sample(&labels, sums.refused as f64);
        given_up.sample(&labels, sums.given_up as f64);
    }
    for family in [messages, took, waited, restarts, refused, given_up] {
        family.finish(families);
    }
}
