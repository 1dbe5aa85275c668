//! `kubectl podwright`: the same commands about a node of a cluster, for one who is not on it.
//!
//! kubectl runs the executable under the name `kubectl-podwright`. Commands that change something are left to the node itself.

use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches, Parser};

use super::arguments::Command;
use super::client::Client;
use super::client::node_proxy::{NodeProxy, kubeconfig_files};
use super::output::Output;
use super::{NO_ANSWER, USAGE, WELL, perform};

/// The name under which kubectl finds the executable.
pub const PLUGIN: &str = "kubectl-podwright";

/// The commands that may be asked of a node from afar: none of them changes anything.
const COMMANDS: &[&str] = &["ps", "explain", "actors", "trace", "plugins", "events", "images", "top"];

/// Looks inside the Podwright agent of a node, through the API server.
#[derive(Debug, Parser)]
#[command(name = PLUGIN, bin_name = "kubectl podwright")]
struct Options {
    /// The node.
    #[arg(long, global = true, value_name = "NAME")]
    node: Option<String>,
    /// The kubeconfig, in place of KUBECONFIG and ~/.kube/config.
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig, in place of its current one.
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
    /// How to print: text, wide, json, yaml, or jsonpath=TEMPLATE in kubectl's language.
    #[arg(short, long, global = true, default_value = "text", value_name = "FORM")]
    output: Output,
    /// The command.
    #[command(subcommand)]
    command: Command,
}

/// Reads the arguments after the program's name. Asking for help is an error of its own kind.
fn parse(arguments: &[String]) -> Result<Options, clap::Error> {
    let mut command = Options::command();
    let names: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    for name in names.iter().filter(|name| !COMMANDS.contains(&name.as_str())) {
        command = command.mut_subcommand(name, |one| one.hide(true));
    }
    let words = std::iter::once(PLUGIN).chain(arguments.iter().map(String::as_str));
    let matches = command.try_get_matches_from_mut(words)?;
    let wrong =
        |command: &mut clap::Command, text: String| Err(command.error(clap::error::ErrorKind::InvalidValue, text));
    let name = matches.subcommand_name().unwrap_or_default();
    if !COMMANDS.contains(&name) {
        return wrong(&mut command, format!("{name} is for the node itself: podwright {name}"));
    }
    let options = Options::from_arg_matches(&matches)?;
    match &options.node {
        None => wrong(&mut command, "the node is missing: --node NAME".to_owned()),
        Some(_) => Ok(options),
    }
}

/// Runs kubectl's plugin with the arguments after its name; returns the exit status.
pub fn run_plugin(arguments: &[String]) -> i32 {
    let options = match parse(arguments) {
        Ok(options) => options,
        Err(error) => {
            // Help is asked for, so it is an answer.
            let _ = error.print();
            return if error.use_stderr() { USAGE } else { WELL };
        }
    };
    let Options { node, kubeconfig, context, output, command } = options;
    let proxy = kubeconfig_files(kubeconfig)
        .and_then(|files| NodeProxy::new(node.unwrap_or_default(), &files, context.as_deref()));
    match proxy {
        Ok(proxy) => perform(&Client::of_node(proxy), &command, &output),
        Err(why) => {
            eprintln!("error: {}", crate::server::views::table::clean(&why));
            NO_ANSWER
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        parse(&arguments).expect_err("refused").to_string()
    }

    /// PAIN-37.
    #[test]
    fn only_commands_that_look_are_for_others_nodes() {
        for command in COMMANDS {
            let pod = if *command == "explain" { &["shop/web"][..] } else { &[] };
            let arguments = [&[*command], pod, &["--node", "n1", "--context=c"]].concat();
            let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
            let options = parse(&arguments).unwrap_or_else(|error| panic!("{command}: {error}"));
            assert_eq!((options.node.as_deref(), options.context.as_deref()), (Some("n1"), Some("c")));
        }
        for command in ["restart", "reset-back-off", "logs"] {
            let text = refusal(&[command, "shop/web", "--node", "n1"]);
            assert!(text.contains(&format!("{command} is for the node itself: podwright {command}")), "{text}");
        }
        assert!(refusal(&["ps"]).contains("the node is missing: --node NAME"));
        let help = refusal(&["--help"]);
        assert!(help.contains("explain") && !help.contains("reset-back-off"), "{help}");
    }
}
