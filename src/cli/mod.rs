//! `podwright ps`, `explain`, `actors`, `trace`, `plugins`, `events`, `images`, `top`, `logs`: what the agent on this machine
//! does and why, and what its containers write, read from its local socket;
//! `restart`, `reset-back-off`: what may be asked of it there. `kubectl podwright` asks the agent of another machine.
//! `check-config`: what an agent would say about a configuration; it needs no agent. `completions`, `man`: about this program itself.
//!
//! Exit status: 0 when the answer was printed and, for `explain`, all is well; 1 when the pod is not known or the agent
//! cannot be reached; 2 when the arguments are wrong; 3 when `explain` found the pod not as it should be.
//!
//! ```no_run
//! let arguments: Vec<String> = std::env::args().skip(1).collect();
//! if let Some(command) = arguments.first().filter(|first| podwright::cli::SUBCOMMANDS.contains(&first.as_str())) {
//!     std::process::exit(podwright::cli::run(command, &arguments[1..]));
//! }
//! ```

mod arguments;
mod bundle;
mod check_config;
mod client;
mod commands;
mod exec;
mod html;
mod jsonpath;
mod kubectl;
mod manual;
mod output;
mod pod_name;
mod print;

use std::io::{IsTerminal, Write};

pub use kubectl::{PLUGIN, run_plugin};

use arguments::Command;
use client::{Client, Trouble};
use output::Output;

/// The words after the program's name that are answered here; without one, the binary is the agent.
pub const SUBCOMMANDS: &[&str] = &[
    "ps",
    "explain",
    "actors",
    "trace",
    "plugins",
    "events",
    "images",
    "top",
    "logs",
    "restart",
    "reset-back-off",
    "exec",
    "debug-bundle",
    "check-config",
    "completions",
    "man",
];

/// The answer was printed and all is well.
const WELL: i32 = 0;
/// There is no answer.
const NO_ANSWER: i32 = 1;
/// The arguments are wrong.
const USAGE: i32 = 2;
/// The pod was found, but is not as it should be.
const UNWELL: i32 = 3;

/// Runs a command with the arguments after its name; returns the exit status.
pub fn run(command: &str, arguments: &[String]) -> i32 {
    let options = match arguments::parse(command, arguments) {
        Ok(options) => options,
        Err(error) => {
            // Help is asked for, so it is an answer.
            let _ = error.print();
            return if error.use_stderr() { USAGE } else { WELL };
        }
    };
    perform(&Client::new(options.socket.clone()), &options.command, &options.output)
}

/// Asks a client and prints the answer; returns the exit status.
fn perform(client: &Client, command: &Command, output: &Output) -> i32 {
    let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let answered = match command {
        Command::Ps(wanted) => commands::ps::run(client, wanted, output, colours),
        Command::Explain { pod } => explain(client, pod, output, colours),
        Command::Actors => actors(client, output, colours),
        Command::Trace(wanted) => trace(client, wanted, output),
        Command::Plugins => plugins(client, output, colours),
        Command::Events(wanted) => commands::events::run(client, wanted, output, colours),
        Command::Images => commands::images::run(client, output, colours),
        Command::Top(wanted) => commands::top::run(client, wanted, output, colours),
        Command::Logs(wanted) => logs(client, wanted),
        Command::Restart(wanted) => demand(client, "/restart", wanted, "is restarted"),
        Command::ResetBackOff(wanted) => demand(client, "/reset-back-off", wanted, "waits no longer"),
        Command::Exec(wanted) => exec::run(client, wanted).map(|status| (String::new(), status)),
        Command::DebugBundle(wanted) => bundle::run(client, wanted, colours).map(|listed| (listed, WELL)),
        Command::CheckConfig { flags } => return check_config::run(flags, output),
        Command::Completions(wanted) => Ok((manual::completions(wanted.shell), WELL)),
        Command::Man(wanted) => manual::write_pages(&wanted.directory).map(|listed| (listed, WELL)),
    };
    match answered {
        Ok((text, status)) => {
            // A reader that stopped reading, such as `head`, has seen what it wanted.
            let _ = std::io::stdout().lock().write_all(text.as_bytes());
            status
        }
        Err(trouble) => {
            eprintln!("{}", crate::server::views::table::clean(&trouble.to_string()));
            NO_ANSWER
        }
    }
}

type Answered = Result<(String, i32), Trouble>;

fn plugins(client: &Client, output: &Output, colours: bool) -> Answered {
    let body = client.get("/debug/plugins")?;
    if let Some(text) = output.document(&body) {
        return Ok((text?, WELL));
    }
    let rows: Vec<crate::server::views::PluginRow> = client.decode("/debug/plugins", &body)?;
    Ok((print::plugins(&rows, *output == Output::Wide, colours), WELL))
}

fn explain(client: &Client, pod: &arguments::PodName, output: &Output, colours: bool) -> Answered {
    let path = format!("/explain/{}/{}", client::escape(&pod.namespace), client::escape(&pod.name));
    let body = client.get(&path)?;
    let found: Vec<crate::server::views::Explanation> = client.decode(&path, &body)?;
    let status = if found.iter().all(|one| one.healthy) { WELL } else { UNWELL };
    let text = output.document(&body).unwrap_or_else(|| Ok(print::explanations(&found, colours)));
    Ok((text?, status))
}

/// Asks the agent for something; tells what it is about, a line for each container.
fn demand(client: &Client, path: &str, wanted: &arguments::DemandOptions, done: &str) -> Answered {
    let arguments::DemandOptions { pod, container } = wanted;
    let mut path = format!("{path}/{}/{}", client::escape(&pod.namespace), client::escape(&pod.name));
    if let Some(container) = container {
        path.push_str(&format!("?container={}", client::escape(container)));
    }
    let names = text(client.post(&path)?);
    let line = |name: &str| format!("{} of {}/{} {done}\n", name, pod.namespace, pod.name);
    Ok((names.lines().map(line).collect(), WELL))
}

/// Namespace, pod and container as a path; without a container's name, the first one.
fn container_path(client: &Client, pod: &arguments::PodName, container: Option<&str>) -> Result<String, Trouble> {
    let path = format!("/explain/{}/{}", client::escape(&pod.namespace), client::escape(&pod.name));
    let found: Vec<crate::server::views::Explanation> = client.decode(&path, &client.get(&path)?)?;
    // A static pod's name has the node's behind it; the page has the list of containers, too.
    let found = found.into_iter().next().unwrap_or_default();
    let name = if found.pod.name.is_empty() { &pod.name } else { &found.pod.name };
    let first = || found.containers.iter().find(|container| container.role == "main").map(|first| first.name.as_str());
    let container = container.or_else(first).unwrap_or_default();
    Ok([&pod.namespace, name, container].map(client::escape).join("/"))
}

/// Prints a log as it comes: it may be long, and never end.
fn logs(client: &Client, wanted: &arguments::LogsOptions) -> Answered {
    let mut path = format!("/containerLogs/{}", container_path(client, &wanted.pod, wanted.container.as_deref())?);
    let switches = [("follow", wanted.follow), ("previous", wanted.previous), ("timestamps", wanted.timestamps)];
    let switches = switches.iter().filter(|(_, on)| *on).map(|(name, _)| format!("{name}=true"));
    let numbers = [("tailLines", wanted.tail), ("limitBytes", wanted.limit_bytes), ("sinceSeconds", wanted.since)];
    let numbers = numbers.iter().filter_map(|(name, value)| value.map(|value| format!("{name}={value}")));
    let query: Vec<String> = switches.chain(numbers).collect();
    if !query.is_empty() {
        path.push_str(&format!("?{}", query.join("&")));
    }
    let mut out = std::io::stdout().lock();
    client.stream(&path, |part| out.write_all(part).and_then(|()| out.flush()))?;
    Ok((String::new(), WELL))
}

fn actors(client: &Client, output: &Output, colours: bool) -> Answered {
    let path = match output.is_document() {
        true => "/debug/actors?turns=1",
        false if colours => "/debug/actors?format=text&colours=1",
        false => "/debug/actors?format=text",
    };
    let body = client.get(path)?;
    Ok((output.document(&body).unwrap_or_else(|| Ok(text(body)))?, WELL))
}

fn trace(client: &Client, wanted: &arguments::TraceOptions, output: &Output) -> Answered {
    if let Some(file) = &wanted.html {
        return Ok((html::write(client, wanted, file)?, WELL));
    }
    let format = match (&wanted.chrome, output.is_document()) {
        (Some(_), _) => "chrome",
        (None, true) => "json",
        (None, false) => "text",
    };
    let mut path = format!("/debug/actors/trace?format={format}");
    for (name, value) in [("pod", &wanted.pod), ("actor", &wanted.actor), ("since", &wanted.since)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", client::escape(value)));
        }
    }
    let body = client.get(&path)?;
    let Some(file) = &wanted.chrome else {
        return Ok((output.document(&body).unwrap_or_else(|| Ok(text(body)))?, WELL));
    };
    std::fs::write(file, &body).map_err(|error| Trouble::File { file: file.clone(), error })?;
    Ok((format!("{}: {} bytes, to be opened at https://ui.perfetto.dev\n", file.display(), body.len()), WELL))
}

fn text(body: Vec<u8>) -> String {
    String::from_utf8_lossy(&body).into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn run_with(command: &str, arguments: &[&str]) -> i32 {
        run(command, &arguments.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    /// Answers one request on a socket with a fixed response, and gives back the request's first line.
    fn answer_once(listener: UnixListener, response: String) -> std::thread::JoinHandle<String> {
        std::thread::spawn(move || {
            use std::io::{BufRead, BufReader};
            let (stream, _) = listener.accept().expect("a client");
            let mut lines = BufReader::new(&stream).lines();
            let first = lines.next().expect("a request").expect("text");
            for line in lines {
                if line.expect("text").is_empty() {
                    break;
                }
            }
            (&stream).write_all(response.as_bytes()).expect("written");
            first
        })
    }

    fn exchange(command: &str, arguments: &[&str], status: &str, body: &str) -> (i32, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("podwright.sock");
        let listener = UnixListener::bind(&path).expect("bound");
        let length = body.len();
        let server = answer_once(listener, format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}"));
        let all = [arguments, &["--socket", path.to_str().expect("text")]].concat();
        let exit = run_with(command, &all);
        (exit, server.join().expect("served"))
    }

    #[test]
    fn exit_statuses_tell_what_was_found() {
        for (body, status, exit) in [
            (r#"[{"healthy": true, "a field of a newer agent": 1}]"#, "200 OK", WELL),
            (r#"[{"healthy": true}, {"healthy": false}]"#, "200 OK", UNWELL),
            ("no pod shop/web on this node\n", "404 Not Found", NO_ANSWER),
            ("not JSON", "200 OK", NO_ANSWER),
        ] {
            let (seen, request) = exchange("explain", &["shop/web"], status, body);
            assert_eq!((seen, request.as_str()), (exit, "GET /explain/shop/web HTTP/1.1"), "{body}");
        }
    }

    #[test]
    fn an_agent_that_is_not_there_is_no_answer() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("none.sock");
        assert_eq!(run_with("ps", &["--socket", path.to_str().expect("text")]), NO_ANSWER);
    }

    #[test]
    fn wrong_arguments_are_told_apart() {
        assert_eq!(run_with("ps", &["--nonsense"]), USAGE);
        assert_eq!(run_with("explain", &["no-slash"]), USAGE);
        assert_eq!(run_with("trace", &["--help"]), WELL);
    }

    #[test]
    fn a_trace_goes_to_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("trace.json");
        let arguments = ["--pod", "shop/web&x=1", "--since", "10s", "--chrome", file.to_str().expect("text")];
        let (exit, request) = exchange("trace", &arguments, "200 OK", r#"{"traceEvents":[]}"#);
        assert_eq!(exit, WELL);
        let expected = "GET /debug/actors/trace?format=chrome&pod=shop%2Fweb%26x%3D1&since=10s HTTP/1.1";
        assert_eq!(request, expected);
        assert_eq!(std::fs::read_to_string(file).expect("written"), r#"{"traceEvents":[]}"#);
    }
}
