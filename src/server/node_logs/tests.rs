//! The node's logs over the local socket, of a directory and a journal of the test's own.

use axum::http::StatusCode;

use super::super::tests::{Node, ask_with};
use crate::actors::settings::ServedLogs;

const ALL: ServedLogs = ServedLogs { split_streams: false, system: true, system_query: true };

async fn node(served: ServedLogs) -> Node {
    let node = Node::serving_logs(served);
    let root = node.folder.path().join("var-log");
    std::fs::create_dir_all(root.join("a b<c")).expect("made");
    std::fs::write(root.join("words.log"), "0123456789").expect("written");
    std::fs::write(root.join("page.html"), "<script>").expect("written");
    std::os::unix::fs::symlink("/etc/passwd", root.join("link")).expect("linked");
    node.start().await;
    node
}

/// SRV-31: listings, files, parts, redirects, and what is not there.
#[tokio::test(flavor = "multi_thread")]
async fn files_are_served() {
    let node = node(ALL).await;
    let answer = node.ask_socket("/logs/").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
    let expected = "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n\
                    <a href=\"a%20b%3Cc/\">a b&lt;c/</a>\n<a href=\"link\">link</a>\n<a href=\"page.html\">page.html</a>\n\
                    <a href=\"words.log\">words.log</a>\n</pre>\n";
    assert_eq!(answer.body, expected);
    let whole = node.ask_socket("/logs/words.log").await;
    assert_eq!((whole.status, whole.body.as_str()), (StatusCode::OK, "0123456789"));
    assert_eq!(whole.headers["content-length"], "10");
    assert_eq!(node.ask_socket("/logs/page.html").await.headers["content-type"], "text/plain; charset=utf-8");
    let changed = whole.headers["last-modified"].to_str().expect("text").to_owned();
    for (name, value, status, body) in [
        ("range", "bytes=2-4", StatusCode::PARTIAL_CONTENT, "234"),
        ("range", "bytes=8-", StatusCode::PARTIAL_CONTENT, "89"),
        ("range", "bytes=-3", StatusCode::PARTIAL_CONTENT, "789"),
        ("range", "bytes=5-99", StatusCode::PARTIAL_CONTENT, "56789"),
        ("range", "bytes=10-", StatusCode::RANGE_NOT_SATISFIABLE, "invalid range: failed to overlap\n"),
        ("range", "lines=1-2", StatusCode::OK, "0123456789"),
        ("range", "bytes=4-2", StatusCode::OK, "0123456789"),
        ("if-modified-since", changed.as_str(), StatusCode::NOT_MODIFIED, ""),
        ("if-modified-since", "Sat, 01 Jan 2000 00:00:00 GMT", StatusCode::OK, "0123456789"),
    ] {
        let answer = ask_with(node.connect().await, "/logs/words.log", &[(name, value)]).await;
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{name}: {value}");
    }
    for (path, to) in [("/logs/a%20b%3Cc", "a%20b%3Cc/"), ("/logs/words.log/", "../words.log")] {
        let answer = node.ask_socket(path).await;
        assert_eq!(
            (answer.status, answer.headers["location"].to_str().expect("text")),
            (StatusCode::MOVED_PERMANENTLY, to),
            "{path}"
        );
    }
    assert_eq!(node.ask_socket("/logs/none").await.status, StatusCode::NOT_FOUND);
}

/// SEC-15: neither links nor dots lead out.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_outside_is_served() {
    let node = node(ALL).await;
    for path in ["/logs/link", "/logs/%2e%2e/socket", "/logs/a%20b%3Cc/..%2f..%2f..%2fetc%2fpasswd"] {
        let answer = node.ask_socket(path).await;
        assert_eq!((answer.status, answer.body.as_str()), (StatusCode::FORBIDDEN, "403 Forbidden\n"), "{path}");
    }
    let answer = node.ask_socket("/logs/?query=/link").await;
    assert_eq!(answer.status, StatusCode::NOT_ACCEPTABLE, "{}", answer.body);
}

/// SRV-32: services from the journal and from files, and what is refused.
#[tokio::test(flavor = "multi_thread")]
async fn services_are_asked_for() {
    let node = node(ALL).await;
    for (query, status, body) in [
        (
            "query=known&tailLines=3",
            StatusCode::OK,
            "asked: --utc --no-pager --output=short-precise --pager-end --lines=3 --unit=known\n",
        ),
        ("query=words", StatusCode::OK, "0123456789"),
        ("query=words&query=none", StatusCode::OK, "0123456789\nlog not found for none\n"),
        ("query=/words.log", StatusCode::OK, "0123456789"),
        (
            "query=words&boot=0",
            StatusCode::OK,
            "\noptions present and query resolved to log files for [words]\ntry without specifying options\n",
        ),
        (
            "query=/none",
            StatusCode::NOT_ACCEPTABLE,
            "query: Invalid value: [\"/none\"]: statat /none: no such file or directory\n",
        ),
        ("tailLines=3", StatusCode::NOT_ACCEPTABLE, "query: Required value: cannot be empty with options\n"),
        (
            "boot=x",
            StatusCode::BAD_REQUEST,
            "boot: Invalid value: \"x\": strconv.Atoi: parsing \"x\": invalid syntax\n",
        ),
    ] {
        let answer = node.ask_socket(&format!("/logs/?{query}")).await;
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{query}");
    }
    let answer = node.ask_socket("/logs/?query=words").await;
    assert_eq!(answer.headers["content-type"], "text/plain;charset=UTF-8");
    assert!(!answer.headers.contains_key("content-encoding"));
    let answer = ask_with(node.connect().await, "/logs/?query=words", &[("accept-encoding", "gzip, deflate")]).await;
    assert!(!answer.headers.contains_key("content-encoding"));
    let packed = ask_with(node.connect().await, "/logs/?query=words", &[("accept-encoding", "gzip")]).await;
    assert_eq!(packed.headers["content-encoding"], "gzip");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed.bytes.as_ref()), &mut text)
        .expect("unpacked");
    assert_eq!(text, "0123456789");
}

/// SRV-31, SRV-32: each form has its switch.
#[tokio::test(flavor = "multi_thread")]
async fn each_form_has_its_switch() {
    let off = node(ServedLogs::default()).await;
    let answer = off.ask_socket("/logs/").await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::METHOD_NOT_ALLOWED, "logs endpoint is disabled.\n"));
    let files = node(ServedLogs { system_query: false, ..ALL }).await;
    let answer = files.ask_socket("/logs/words.log?query=known").await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, "0123456789"));
}
