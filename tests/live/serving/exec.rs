//! `podwright exec` in real containers: streams, exit status, a terminal, and that terminal afterwards.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Stdio};

use crate::harness::{AGENT, Node, send_signal};
use crate::pods::{forever, pod};

/// Runs `podwright exec` with these arguments and this input, which then ends: status, output, errors.
fn exec(node: &Node, arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(AGENT);
    command.args(["exec", "--socket"]).arg(node.socket()).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that takes no input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A node with a pod that waits.
fn node_with_shell() -> Option<Node> {
    let node = Node::running()?;
    node.apply(&pod("web", &[forever("main")]));
    node.wait_listed("web", "running", |shown| shown["status"]["phase"] == "Running");
    Some(node)
}

#[test]
fn a_command_has_the_streams_and_the_status_of_the_one_who_asks() {
    let Some(node) = node_with_shell() else { return };
    let script = "echo out; echo err >&2; exit 3";
    let (status, out, err) = exec(&node, &["default/web", "--", "/bin/sh", "-c", script], "");
    assert_eq!((status, out.as_str()), (Some(3), "out\n"));
    assert_eq!(err, "err\ncommand terminated with exit code 3\n");

    let cat = ["default/web", "-c", "main", "-i", "--", "/bin/sh", "-c", "cat; echo done"];
    let long = "a line of input\n".repeat(20_000);
    let (status, out, err) = exec(&node, &cat, &long);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert_eq!(out, format!("{long}done\n"), "all of the input came, and its end");
    let (status, out, _) = exec(&node, &["default/web", "--", "/bin/sh", "-c", "cat; echo done"], "unheard");
    assert_eq!((status, out.as_str()), (Some(0), "done\n"), "without --stdin there is none");

    let (status, _, err) = exec(&node, &["default/none", "--", "true"], "");
    assert_eq!((status, err.as_str()), (Some(1), "no pod default/none on this node\n"));
    let (status, _, err) = exec(&node, &["default/web", "-c", "none", "--", "true"], "");
    assert!(status == Some(1) && err.contains("none"), "{status:?} {err}");
    let (status, _, err) = exec(&node, &["default/web", "--", "/no/such/program"], "");
    assert!(status == Some(1) && err.contains("/no/such/program"), "{status:?} {err}");
    let (status, _, err) = exec(&node, &["default/web", "-it", "--", "true"], "");
    assert!(status == Some(0) && err.starts_with("Unable to use a TTY"), "{status:?} {err}");
}

/// Runs a shell's script in a terminal of 41 rows and 93 columns, with `$EXEC` for the command; what the terminal shows
/// goes to a file.
fn in_terminal(node: &Node, name: &str, script: &str) -> (std::process::Child, std::path::PathBuf) {
    let shown = node.dir.join(name);
    let script = format!("stty rows 41 cols 93; {script}");
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--flush", "--command", &script]).arg("/dev/null");
    command.env("SHELL", "/bin/sh").env("EXEC", format!("{AGENT} exec --socket {}", node.socket().display()));
    // An input that does not end: its end would be typed into the terminal.
    let child = command.stdin(Stdio::piped()).stdout(File::create(&shown).unwrap()).spawn().unwrap();
    (child, shown)
}

#[test]
fn a_terminal_is_the_commands_and_is_given_back() {
    let Some(node) = node_with_shell() else { return };
    let sized = "until stty size | grep '41 93'; do sleep 0.1; done; test -t 0 && echo a terminal; exit 7";
    let script = format!(
        "before=$(stty -g); $EXEC -it default/web -- /bin/sh -c \"{sized}\"; status=$?; \
         test \"$before\" = \"$(stty -g)\" && echo given back; exit $status"
    );
    let (mut child, shown) = in_terminal(&node, "sized", &script);
    let status = child.wait().unwrap();
    let said = fs::read_to_string(shown).unwrap();
    assert_eq!(status.code(), Some(7), "{said}");
    for words in ["41 93", "a terminal", "given back"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// A signal ends the command's user, and not the terminal.
#[test]
fn a_signal_gives_the_terminal_back() {
    let Some(node) = node_with_shell() else { return };
    let pid = node.dir.join("pid");
    let script = format!(
        "before=$(stty -g); sh -c 'echo $$ > {}; exec $EXEC -it default/web -- /bin/sh -c \"echo begun; sleep 1000\"'; \
         echo status $?; test \"$before\" = \"$(stty -g)\" && echo given back",
        pid.display()
    );
    let (mut child, shown) = in_terminal(&node, "signalled", &script);
    let said = || fs::read_to_string(&shown).unwrap();
    node.eventually("the command runs", || said().contains("begun").then_some(()));
    send_signal(fs::read_to_string(pid).unwrap().trim().parse().unwrap(), "TERM");
    child.wait().unwrap();
    let said = said();
    assert!(said.contains("status 143") && said.contains("given back"), "{said}");
}
