//! `podwright completions` and `podwright man`: a shell's completion, and the manual pages.
//!
//! Both are made of the command line's own definition and the agent's table of flags, so they cannot lag behind. They ask
//! no agent.

mod pages;

use std::path::Path;

use clap::{Arg, ArgAction, CommandFactory};
use clap_complete::Shell;

use super::arguments::{Completed, Options};
use super::client::Trouble;
use crate::config::flags::table::FLAGS;

/// The program's name on the command line.
const PROGRAM: &str = "podwright";

/// The text that a shell reads to complete the commands, their options and the agent's flags.
pub(super) fn completions(shell: Completed) -> String {
    let shell = match shell {
        Completed::Bash => Shell::Bash,
        Completed::Zsh => Shell::Zsh,
        Completed::Fish => Shell::Fish,
    };
    let mut command = with_flags(Options::command());
    let mut bytes = vec![];
    clap_complete::generate(shell, &mut command, PROGRAM, &mut bytes);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if shell == Shell::Fish {
        text.push_str(&positional_values(&command));
    }
    text
}

/// For fish: the values of arguments without a name, which the library leaves out.
fn positional_values(program: &clap::Command) -> String {
    let mut lines = String::new();
    for command in program.get_subcommands() {
        for value in command.get_positionals().flat_map(Arg::get_possible_values) {
            lines.push_str(&format!(
                "complete -c {PROGRAM} -n \"__fish_{PROGRAM}_using_subcommand {}\" -f -a \"{}\"\n",
                command.get_name(),
                value.get_name()
            ));
        }
    }
    lines
}

/// The commands' definition with the agent's flags beside them. Only for completion: pflag's syntax is read elsewhere.
/// Without `help`, which no agent knows as a command.
fn with_flags(command: clap::Command) -> clap::Command {
    let taken: Vec<String> = command.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect();
    let flags = FLAGS.iter().filter(|flag| flag.name != "help" && taken.iter().all(|name| name != flag.name));
    let arg = |flag: &crate::config::flags::table::Flag| {
        let takes_value = !flag.syntax.usage_name().is_empty();
        let action = if takes_value { ArgAction::Set } else { ArgAction::SetTrue };
        Arg::new(flag.name).long(flag.name).help(flag.help).action(action)
    };
    command.disable_help_subcommand(true).subcommand_required(false).args(flags.map(arg))
}

/// Writes a page for the program and one for each command; the list of their names.
pub(super) fn write_pages(directory: &Path) -> Result<String, Trouble> {
    let trouble = |file: &Path, error| Trouble::File { file: file.to_owned(), error };
    std::fs::create_dir_all(directory).map_err(|error| trouble(directory, error))?;
    let mut listed = String::new();
    for (name, page) in pages::all() {
        let file = directory.join(&name);
        std::fs::write(&file, page).map_err(|error| trouble(&file, error))?;
        listed.push_str(&format!("{}\n", file.display()));
    }
    Ok(listed)
}

#[cfg(test)]
mod tests;
