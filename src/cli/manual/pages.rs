//! The manual pages as roff: one of the program, one of each command. Pure.

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use super::PROGRAM;
use crate::cli::arguments::Options;
use crate::config::LOCAL_SOCKET;
use crate::config::flags::help::{self, Described};
use crate::config::flags::suggest::COMMANDS;
use crate::config::gates;

/// The section of programs for administrators.
const SECTION: &str = "8";
/// The middle of each page's head.
const MANUAL: &str = "Podwright";

/// In the place of a date: pages of one version are alike, whenever they are made. An empty one would be left out.
const NO_DATE: &str = " ";

/// The files of the agent.
const AGENT_FILES: &[(&str, &str)] = &[
    (LOCAL_SOCKET, "The socket of the commands; --socket names another one."),
    ("/var/lib/kubelet", "The root directory: pods' directories and files of state; --root-dir names another one."),
    ("/var/lib/kubelet/config.yaml", "The configuration that the service's unit names."),
    ("/var/lib/kubelet/pki", "Certificates and their keys; --cert-dir names another directory."),
    ("/var/lib/kubelet/device-plugins", "Where device plugins register; --device-plugin-dir names another directory."),
    ("/etc/kubernetes/manifests", "Static pods, where staticPodPath says so."),
];
/// The files of a command.
const COMMAND_FILES: &[(&str, &str)] = &[(LOCAL_SOCKET, "The agent's socket, which answers root alone.")];

/// Statuses that all commands have.
const STATUSES: &[(&str, &str)] = &[
    ("0", "The answer was printed."),
    ("1", "There is no answer: no agent, no such pod, or a file that cannot be written."),
    ("2", "The arguments are wrong."),
];

/// The statuses of one command beside [`STATUSES`].
fn own_statuses(command: &str) -> &'static [(&'static str, &'static str)] {
    match command {
        "explain" => &[("3", "The pod is not as it should be.")],
        "exec" => {
            &[("other", "The command's own status; 128 and a signal's number where a signal ended this program.")]
        }
        _ => &[],
    }
}

/// All pages: file names and contents.
pub(super) fn all() -> Vec<(String, Vec<u8>)> {
    let mut program = Options::command().disable_help_subcommand(true);
    program.build();
    let commands = program.get_subcommands().map(|command| {
        let page = command_page(command).expect("invariant: memory takes every write");
        (format!("{PROGRAM}-{}.{SECTION}", command.get_name()), page)
    });
    [(format!("{PROGRAM}.{SECTION}"), program_page())].into_iter().chain(commands).collect()
}

/// The page of the agent.
fn program_page() -> Vec<u8> {
    let mut page = Roff::new();
    let version = format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION"));
    page.control("TH", [PROGRAM, SECTION, NO_DATE, &version, MANUAL]);
    // Names of flags and features are long: even lines would have holes.
    page.control("ad", ["l"]);
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{PROGRAM} - Kubernetes node agent, in the place of the kubelet"))]);
    page.control("SH", ["SYNOPSIS"]);
    page.text([bold(PROGRAM), roman(" ["), italic("flags"), roman("]")]);
    page.control("br", []);
    page.text([bold(PROGRAM), roman(" "), italic("command"), roman(" ["), italic("options"), roman("]")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([
        roman("Without a command, "),
        bold(PROGRAM),
        roman(
            " is the node agent. It runs the pods that the API server, files and URLs ask for on this node, and keeps \
             them healthy. It takes the flags and the configuration file of the Kubernetes 1.36 kubelet.",
        ),
    ]);
    page.control("PP", []);
    page.text([roman(
        "With a command it looks into the agent that runs on this machine. Only root may ask, from the agent's own \
         pid, user and mount namespaces.",
    )]);
    page.control("SH", ["COMMANDS"]);
    for (name, does) in COMMANDS {
        entry(&mut page, [bold(format!("{PROGRAM}-{name}")), roman(format!("({SECTION})"))], &[&format!("{does}.")]);
    }
    options(&mut page);
    page.control("SH", ["EXIT STATUS"]);
    entry(&mut page, [bold("0")], &["The agent ended because it was asked to, or --help or --version was printed."]);
    let failed = "The agent could not start, or gave up. Its last line on standard error says why. Pods go on.";
    entry(&mut page, [bold("1")], &[failed]);
    let own = COMMANDS.iter().map(|(name, _)| format!("{PROGRAM}-{name}"));
    let others = ["kubectl(1)", "crictl(8)", "systemctl(1)", "journalctl(1)"].map(str::to_owned);
    files(&mut page, AGENT_FILES);
    see_also(&mut page, own.map(|name| format!("{name}({SECTION})")).chain(others));
    page.to_roff().into_bytes()
}

fn options(page: &mut Roff) {
    page.control("SH", ["OPTIONS"]);
    for (title, flags) in help::groups() {
        page.control("SS", [title]);
        for Described { flag, letter, default } in flags {
            let mut head: Vec<Inline> =
                letter.iter().flat_map(|letter| [bold(format!("-{letter}")), roman(", ")]).collect();
            head.push(bold(format!("--{}", flag.name)));
            let value = flag.syntax.usage_name();
            if !value.is_empty() {
                head.extend([roman(" "), italic(value)]);
            }
            let default = if default.is_empty() { String::new() } else { format!("Default: {default}.") };
            entry(page, head, &[flag.help, &default, flag.deprecated.unwrap_or_default()]);
        }
    }
    page.control("SS", ["Feature gates"]);
    page.text([roman("Names for "), bold("--feature-gates"), roman(", as name=true or name=false:")]);
    for line in gates::known_features() {
        page.control("br", []);
        page.text([roman(line)]);
    }
}

/// The page of one command.
fn command_page(command: &Command) -> std::io::Result<Vec<u8>> {
    let name = format!("{PROGRAM}-{}", command.get_name());
    let man = Man::new(command.clone()).title(&name).section(SECTION).date(NO_DATE).manual(MANUAL);
    let man = man.source(format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION")));
    let mut page = vec![];
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut rest = Roff::new();
    rest.control("SH", ["EXIT STATUS"]);
    for (status, means) in STATUSES.iter().chain(own_statuses(command.get_name())) {
        entry(&mut rest, [bold(*status)], &[means]);
    }
    files(&mut rest, COMMAND_FILES);
    let others = COMMANDS.iter().filter(|(other, _)| *other != command.get_name());
    let others = others.map(|(other, _)| format!("{PROGRAM}-{other}({SECTION})"));
    see_also(&mut rest, [format!("{PROGRAM}({SECTION})")].into_iter().chain(others));
    // Its own prelude would be there twice.
    page.extend(rest.to_roff().into_bytes());
    Ok(page)
}

/// A term and what it means; empty sentences are left out.
fn entry(page: &mut Roff, head: impl Into<Vec<Inline>>, sentences: &[&str]) {
    page.control("TP", []);
    page.text(head);
    let text: Vec<&str> = sentences.iter().copied().filter(|sentence| !sentence.is_empty()).collect();
    page.text([roman(text.join(" "))]);
}

fn files(page: &mut Roff, listed: &[(&str, &str)]) {
    page.control("SH", ["FILES"]);
    for (path, holds) in listed {
        entry(page, [italic(*path)], &[holds]);
    }
}

fn see_also(page: &mut Roff, pages: impl Iterator<Item = String>) {
    page.control("SH", ["SEE ALSO"]);
    let mut line = vec![];
    for name in pages {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        let (name, section) = name.split_once('(').unwrap_or((&name, ""));
        line.extend([bold(name), roman(format!("({section}"))]);
    }
    page.text(line);
}
