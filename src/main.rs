//! The agent: flags, configuration, telemetry, runtime, Root. No decisions.

fn main() {}
