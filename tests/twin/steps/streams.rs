//! Streams to a container through `kubectl`: exec, attach, and a forwarded port.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Play;
use crate::nodes::assets;

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command of `kubectl` in the scenario's namespace.
fn command(play: &Play, spdy: bool) -> Command {
    let mut command = Command::new(assets().join("kubectl"));
    let websockets = if spdy { "false" } else { "true" };
    command
        .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
        .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets)
        .arg("--kubeconfig")
        .arg(play.node.dir.join("cluster/pki/admin.conf"))
        .args(["--cache-dir", "/dev/null", "-n", &play.namespace]);
    command
}

/// The status and the outputs of a command that is given a text.
pub fn kubectl<'a>(
    play: &Play,
    words: impl IntoIterator<Item = &'a str>,
    input: &str,
    spdy: bool,
) -> Result<Value, String> {
    let mut child = command(play, spdy)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut stdin = child.stdin.take().expect("a pipe");
    // Few enough letters for a pipe. A command that reads no input may have ended already.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    end_in_time(&mut child)?;
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(json!({ "status": output.status.code(), "output": text(&output.stdout), "errors": text(&output.stderr) }))
}

/// Outputs here are shorter than a pipe, so that nobody has to read them meanwhile.
fn end_in_time(child: &mut Child) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            return Err("kubectl did not end".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The answer of a web server in the pod to two requests, through a forwarded port.
pub fn forward(play: &Play, pod: &str, port: u16, spdy: bool) -> Result<Value, String> {
    let mut child = command(play, spdy)
        .args(["port-forward", &format!("pod/{pod}"), &format!(":{port}")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let answers = output.read_line(&mut line).map_err(|error| error.to_string()).and_then(|_| {
        // Forwarding from 127.0.0.1:40123 -> 80
        let local = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
        let local = local.ok_or_else(|| format!("no port is forwarded: {line}"))?;
        let ask = |path| ask(&format!("127.0.0.1:{local}"), path).unwrap_or_else(|error| error.to_string());
        let first = ask("/");
        // Without an answer kubectl gives up, now or a little later.
        let second = if first.is_empty() { String::new() } else { ask("/healthz") };
        Ok(json!([first, second]))
    });
    let _ = child.kill();
    let _ = child.wait();
    answers
}

fn ask(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    match stream.read_to_string(&mut answer) {
        // How a connection without an answer is closed depends on what was read of the request.
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => return Err(error),
        _ => {}
    }
    // The headers have times.
    Ok(answer.split("\r\n\r\n").last().unwrap_or_default().to_owned())
}
