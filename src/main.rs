//! The agent: flags, configuration, telemetry, runtime, Root. No decisions.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    podwright::launch::run(&args)
}
