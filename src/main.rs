//! The agent, and the commands that look into it. No decisions.

use std::path::Path;
use std::process::ExitCode;

use podwright::{cli, launch};

fn main() -> ExitCode {
    let mut args = std::env::args();
    let program = args.next().unwrap_or_default();
    let args: Vec<String> = args.collect();
    // kubectl finds its plugins by their names.
    if Path::new(&program).file_name().is_some_and(|name| name == cli::PLUGIN) {
        return ExitCode::from(u8::try_from(cli::run_plugin(&args)).unwrap_or(1));
    }
    match args.split_first() {
        Some((command, rest)) if cli::SUBCOMMANDS.contains(&command.as_str()) => {
            ExitCode::from(u8::try_from(cli::run(command, rest)).unwrap_or(1))
        }
        _ => launch::run(&args),
    }
}
