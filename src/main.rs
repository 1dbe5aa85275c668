//! The agent, and the commands that look into it. No decisions.

use std::process::ExitCode;

use podwright::{cli, launch};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((command, rest)) if cli::SUBCOMMANDS.contains(&command.as_str()) => {
            ExitCode::from(u8::try_from(cli::run(command, rest)).unwrap_or(1))
        }
        _ => launch::run(&args),
    }
}
