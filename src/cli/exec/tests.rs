//! Tests of `podwright exec` against a played agent.

use std::os::unix::net::UnixListener;

use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use super::*;
use crate::cli::arguments::{Command, parse};

fn options(arguments: &[&str]) -> ExecOptions {
    let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
    match parse("exec", &arguments).expect("valid").command {
        Command::Exec(options) => options,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_commands_words_are_its_own() {
    let wanted = options(&["-it", "-c", "main", "shop/web", "--", "sh", "-c", "echo a&b=\"c d\" --socket"]);
    assert_eq!((wanted.stdin, wanted.tty, wanted.container.as_deref()), (true, true, Some("main")));
    let words = "command=sh&command=-c&command=echo%20a%26b%3D%22c%20d%22%20--socket";
    assert_eq!(path("shop/web/main", &wanted, true), format!("/exec/shop/web/main?input=1&output=1&tty=1&{words}"));
    let wanted = options(&["shop/web", "--", "true"]);
    assert_eq!(path("shop/web/main", &wanted, false), "/exec/shop/web/main?output=1&error=1&command=true");
    for wrong in [&["shop/web"][..], &["shop/web", "true"], &["shop/web", "--"], &["web", "--", "true"]] {
        parse("exec", &wrong.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).expect_err("incomplete");
    }
}

/// Plays the agent for one connection: sends these messages, after the input has ended where it is wanted; all that came.
fn played(listener: UnixListener, waits: bool, messages: Vec<Vec<u8>>) -> std::thread::JoinHandle<Vec<Vec<u8>>> {
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        #[allow(clippy::result_large_err, reason = "the library's own type")]
        let accept = |request: &Request, mut answer: Response| {
            assert_eq!(request.headers()["sec-websocket-protocol"], V5);
            answer.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(V5));
            Ok(answer)
        };
        let mut socket = tungstenite::accept_hdr(stream, accept).expect("a handshake");
        let mut came = vec![];
        while waits && came.last().is_none_or(|last| *last != [CLOSE, STDIN]) {
            came.push(socket.read().expect("a message").into_data().to_vec());
        }
        for message in messages {
            socket.send(Message::binary(message)).expect("sent");
        }
        let _ = socket.close(None);
        while socket.read().is_ok() {}
        came
    })
}

/// A conversation with a played agent: how it ended, output, errors, and the client's messages.
fn conversation(input: Option<&[&str]>, messages: &[&[u8]]) -> (Ending, String, String, Vec<Vec<u8>>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("podwright.sock");
    let listener = UnixListener::bind(&path).expect("bound");
    let agent = played(listener, input.is_some(), messages.iter().map(|message| message.to_vec()).collect());
    let (mut out, mut err) = (vec![], vec![]);
    let pieces = input.map(|pieces| {
        let (sender, receiver) = mpsc::channel(INPUT_PIECES_MAX);
        pieces.iter().for_each(|piece| sender.try_send(piece.as_bytes().to_vec()).expect("room"));
        receiver
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let ended = runtime.block_on(async {
        let socket = open(&Client::new(path), "/exec/shop/web/main?output=1&command=true").await.expect("open");
        let this_side = ThisSide { input: pieces, sizes: None, out: &mut out, err: &mut err };
        converse(socket, this_side).await.expect("an end")
    });
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (ended, text(out), text(err), agent.join().expect("played"))
}

#[test]
fn output_errors_and_the_exit_code_come_back() {
    let failed = br#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
    let status = [&[ERROR][..], failed].concat();
    let (ended, out, err, _) = conversation(None, &[b"\x01", b"\x01out", b"\x02err", b"", b"\x09?", &status]);
    assert_eq!((ended, out.as_str(), err.as_str()), (Ending::Exited(3), "out", "err"));
}

#[test]
fn input_is_passed_on_and_its_end_too() {
    let status = [&[ERROR][..], status::success().as_bytes()].concat();
    let (ended, _, _, came) = conversation(Some(&["one", "two"]), &[&status]);
    assert_eq!(ended, Ending::Exited(0));
    assert_eq!(came, [&b"\0one"[..], b"\0two", b"\xff\0"]);
}

#[test]
fn a_command_that_did_not_run_is_no_exit_code() {
    let status = [&[ERROR][..], status::internal_error("no such file").as_bytes()].concat();
    let (ended, ..) = conversation(None, &[&status]);
    assert_eq!(ended, Ending::Failed("Internal error occurred: no such file".to_owned()));
    let (ended, out, ..) = conversation(None, &[b"\x01half"]);
    assert_eq!(out, "half");
    assert!(matches!(&ended, Ending::Failed(why) if why.contains("without a status")), "{ended:?}");
}

#[test]
fn a_refusal_is_told_in_the_agents_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("podwright.sock");
    let listener = UnixListener::bind(&path).expect("bound");
    let agent = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let _ = stream.read(&mut [0; 4096]);
        stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 7\r\n\r\nno pod\n").expect("written");
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    match runtime.block_on(open(&Client::new(path), "/exec/a/b/c?output=1")) {
        Ok(_) => panic!("it was refused"),
        Err(refused) => assert_eq!(refused.to_string(), "no pod"),
    }
    agent.join().expect("played");
}
