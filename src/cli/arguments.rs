//! The command line of the subcommands.

mod acting;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::commands::events::EventsOptions;
use super::commands::ps::PsOptions;
use super::commands::top::TopOptions;
use super::output::Output;
pub(super) use super::pod_name::PodName;
use crate::config::LOCAL_SOCKET;
pub(super) use acting::{BundleOptions, Completed, CompletionOptions, ExecOptions, PageOptions};

/// Looks inside the Podwright agent on this machine.
#[derive(Debug, Parser)]
#[command(name = "podwright")]
pub(super) struct Options {
    /// The agent's socket.
    #[arg(long, global = true, default_value = LOCAL_SOCKET, value_name = "PATH")]
    pub(super) socket: PathBuf,
    /// How to print: text, wide, json, yaml, or jsonpath=TEMPLATE in kubectl's language.
    #[arg(short, long, global = true, default_value = "text", value_name = "FORM")]
    pub(super) output: Output,
    /// The command.
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The command.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Lists the pods of this node and what each waits for.
    Ps(PsOptions),
    /// Says why a pod is not ready; status 3 when it is not.
    Explain {
        /// The pod.
        #[arg(value_name = "NAMESPACE/POD")]
        pod: PodName,
    },
    /// Shows the agent's actors: mailboxes, turns, restarts, work under way.
    Actors,
    /// Shows the agent's last turns and what caused each.
    Trace(TraceOptions),
    /// Lists the plugins of this node: how far each is, and its open calls.
    Plugins,
    /// Lists the last events of this node, also where no API server takes them.
    Events(EventsOptions),
    /// Lists the runtime's images, who uses them, and the pulls that containers wait for.
    Images,
    /// Shows processor time and memory of the node, its pods and their containers.
    Top(TopOptions),
    /// Prints what a container wrote, rotated files included.
    Logs(LogsOptions),
    /// Stops containers of a pod and starts them again, whatever their restart policy; without a name, all of them.
    Restart(DemandOptions),
    /// Has containers of a pod started without the rest of their back-off; without a name, all of them.
    ResetBackOff(DemandOptions),
    /// Runs a command in a container.
    Exec(ExecOptions),
    /// Packs the agent's inside for a report, without secrets.
    DebugBundle(BundleOptions),
    /// Checks a configuration without an agent: every fault at once; status 1 when an agent would not start with it.
    CheckConfig {
        /// Flags as for the agent: --config, --config-dir and any other.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
        flags: Vec<String>,
    },
    /// Prints what completes this program's words in a shell.
    Completions(CompletionOptions),
    /// Writes the manual pages into a directory.
    Man(PageOptions),
}

/// Which log, and what of it.
#[derive(Debug, Args)]
pub(super) struct LogsOptions {
    /// The pod.
    #[arg(value_name = "NAMESPACE/POD")]
    pub(super) pod: PodName,
    /// The container; without a name, the first one.
    #[arg(short, long, value_name = "NAME")]
    pub(super) container: Option<String>,
    /// Go on with what is written, until the container ends.
    #[arg(short, long)]
    pub(super) follow: bool,
    /// The instance before this one.
    #[arg(short, long)]
    pub(super) previous: bool,
    /// Each line with its time.
    #[arg(long)]
    pub(super) timestamps: bool,
    /// So many of the last lines.
    #[arg(long, value_name = "LINES")]
    pub(super) tail: Option<u64>,
    /// So many bytes at most.
    #[arg(long, value_name = "BYTES")]
    pub(super) limit_bytes: Option<u64>,
    /// Only lines that are at most this old, such as 10s, 5m or 1h.
    #[arg(long, value_name = "SPAN", value_parser = seconds)]
    pub(super) since: Option<u64>,
}

/// A span of time in seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let split = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[split..] {
        "s" | "" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err("a span is a number and s, m, h or d".to_owned()),
    };
    let number: u64 = text[..split].parse().map_err(|_| "a span begins with a number".to_owned())?;
    number.checked_mul(unit).filter(|seconds| *seconds > 0).ok_or_else(|| "a span is at least a second".to_owned())
}

/// Of whom something is asked.
#[derive(Debug, Args)]
pub(super) struct DemandOptions {
    /// The pod.
    #[arg(value_name = "NAMESPACE/POD")]
    pub(super) pod: PodName,
    /// One container of it.
    #[arg(value_name = "CONTAINER")]
    pub(super) container: Option<String>,
}

/// Which turns.
#[derive(Debug, Args)]
pub(super) struct TraceOptions {
    /// Only what concerns this pod: NAMESPACE/POD, or its UID.
    #[arg(long, value_name = "POD")]
    pub(super) pod: Option<String>,
    /// Only this actor, or all of this kind.
    #[arg(long, value_name = "ACTOR")]
    pub(super) actor: Option<String>,
    /// Only turns that began at most this long ago, such as 10s, 5m or 1h.
    #[arg(long, value_name = "SPAN")]
    pub(super) since: Option<String>,
    /// Write a file that Perfetto and Chrome open.
    #[arg(long, value_name = "FILE")]
    pub(super) chrome: Option<PathBuf>,
    /// Write a page for a browser: a timeline, the longest chain of causes, the actors.
    #[arg(long, value_name = "FILE", conflicts_with = "chrome")]
    pub(super) html: Option<PathBuf>,
}

/// Reads the arguments after the subcommand's name. Asking for help is an error of its own kind.
pub(super) fn parse(command: &str, arguments: &[String]) -> Result<Options, clap::Error> {
    let words = ["podwright", command].into_iter().chain(arguments.iter().map(String::as_str));
    Options::try_parse_from(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(command: &str, arguments: &[&str]) -> Options {
        parse(command, &arguments.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).expect("valid")
    }

    #[test]
    fn the_socket_is_where_no_pods_volume_is_unless_named() {
        assert_eq!(options("ps", &[]).socket, PathBuf::from("/run/podwright/podwright.sock"));
        assert_eq!(options("actors", &["--socket=/y"]).socket, PathBuf::from("/y"));
        parse("ps", &["--root-dir=/x".to_owned()]).expect_err("the socket is not there");
    }

    #[test]
    fn every_subcommand_is_listed_and_known() {
        use clap::CommandFactory;
        let known: Vec<String> = Options::command().get_subcommands().map(|it| it.get_name().to_owned()).collect();
        assert_eq!(known, super::super::SUBCOMMANDS);
        // As the agent's own `--help` lists them.
        let listed: Vec<&str> = crate::config::flags::suggest::COMMANDS.iter().map(|(name, _)| *name).collect();
        assert_eq!(known, listed);
    }

    #[test]
    fn spans_are_whole_seconds() {
        for (text, expected) in
            [("10s", Some(10)), ("5m", Some(300)), ("1h", Some(3600)), ("2d", Some(172_800)), ("7", Some(7))]
        {
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
        for text in ["", "0s", "s", "1w", "-1s", "99999999999999999999s", "9999999999999999999h"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
