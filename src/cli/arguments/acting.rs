//! The arguments of commands that act, and of those that make files.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::PodName;

/// Which command, where, and with which streams.
#[derive(Debug, Args)]
pub(in crate::cli) struct ExecOptions {
    /// The pod.
    #[arg(value_name = "NAMESPACE/POD")]
    pub(in crate::cli) pod: PodName,
    /// The container; without a name, the first one.
    #[arg(short, long, value_name = "NAME")]
    pub(in crate::cli) container: Option<String>,
    /// Pass standard input on to the command.
    #[arg(short = 'i', long)]
    pub(in crate::cli) stdin: bool,
    /// The command has a terminal, which is this one; needs --stdin.
    #[arg(short = 't', long)]
    pub(in crate::cli) tty: bool,
    /// The command and its arguments, after two dashes.
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub(in crate::cli) command: Vec<String>,
}

/// Where to, or only a list.
#[derive(Debug, Args)]
pub(in crate::cli) struct BundleOptions {
    /// The archive, which must not be there yet, or - for standard output; without it, a name of the day.
    #[arg(value_name = "FILE")]
    pub(in crate::cli) file: Option<PathBuf>,
    /// Only print what would be in it.
    #[arg(long)]
    pub(in crate::cli) list: bool,
}

/// Which shell.
#[derive(Debug, Args)]
pub(in crate::cli) struct CompletionOptions {
    /// The shell that reads it.
    #[arg(value_enum)]
    pub(in crate::cli) shell: Completed,
}

/// A shell whose completion is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Completed {
    /// For /usr/share/bash-completion/completions/podwright.
    Bash,
    /// For /usr/share/zsh/vendor-completions/_podwright.
    Zsh,
    /// For /usr/share/fish/vendor_completions.d/podwright.fish.
    Fish,
}

/// Where to.
#[derive(Debug, Args)]
pub(in crate::cli) struct PageOptions {
    /// The directory, such as /usr/share/man/man8; it is made if it is not there.
    #[arg(value_name = "DIRECTORY")]
    pub(in crate::cli) directory: PathBuf,
}
