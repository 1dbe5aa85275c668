//! The node's logs over the local socket, of a directory and a journal of the test's own.

use axum::http::StatusCode;

use crate::logic::serving::ServedLogs;
use crate::server::tests::{Node, ask_with};

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
        ("range", "lines=1-2", StatusCode::RANGE_NOT_SATISFIABLE, "invalid range\n"),
        ("range", "bytes=4-2", StatusCode::RANGE_NOT_SATISFIABLE, "invalid range\n"),
        ("range", "bytes=0-9,0-9", StatusCode::OK, "0123456789"),
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

/// SRV-31: several parts, in the order they were asked for.
#[tokio::test(flavor = "multi_thread")]
async fn several_parts_of_a_file_are_served() {
    let node = node(ALL).await;
    let ask = async |header: &str| ask_with(node.connect().await, "/logs/words.log", &[("range", header)]).await;
    let answer = ask("bytes=7-8, 0-1,-1").await;
    assert_eq!(answer.status, StatusCode::PARTIAL_CONTENT);
    let content_type = answer.headers["content-type"].to_str().expect("text");
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").expect("several parts").to_owned();
    let part = |range: &str, text: &str| {
        format!(
            "--{boundary}\r\nContent-Range: bytes {range}/10\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{text}\r\n"
        )
    };
    let expected = [part("7-8", "78"), part("0-1", "01"), part("9-9", "9"), format!("--{boundary}--\r\n")].concat();
    assert_eq!(answer.body, expected);
    assert_eq!(answer.headers["content-length"], expected.len().to_string().as_str());
    assert!(!answer.headers.contains_key("content-range"));
    let other = ask("bytes=0-0,2-2").await;
    assert!(boundary.len() >= 32 && !other.body.contains(&boundary), "nobody can know it");
    let one = ask("bytes=7-8,20-").await;
    assert_eq!((one.status, one.body.as_str()), (StatusCode::PARTIAL_CONTENT, "78"), "what is beyond is left out");
    assert_eq!(one.headers["content-range"], "bytes 7-8/10");
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

/// CVE-2024-9042, SEC-16: nothing that is asked for becomes a command, an option or a second word.
#[tokio::test(flavor = "multi_thread")]
async fn cve_2024_9042_sec_16_no_value_of_a_query_is_run() {
    let node = node(ALL).await;
    let made = node.folder.path().join("made");
    let touch = format!("touch {}", made.display());
    for pattern in [
        format!("$({touch})"),
        format!("`{touch}`"),
        format!("'; {touch}; '"),
        format!("\"; {touch}; \""),
        format!("x\n{touch}\n"),
        format!("x | {touch} & {touch} && {touch}"),
        "--output=export --file=/etc/passwd".to_owned(),
        "-D/etc".to_owned(),
    ] {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let query = query.append_pair("query", "known").append_pair("pattern", &pattern).finish();
        let answer = node.ask_socket(&format!("/logs/?{query}")).await;
        let words = "--utc --no-pager --output=short-precise --unit=known";
        let expected = format!("asked: {words} --grep={pattern}\n");
        assert_eq!((answer.status, answer.body), (StatusCode::OK, expected), "{pattern}");
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let query = query.append_pair("query", &format!("known{}", pattern.replace('/', "_"))).finish();
        let answer = node.ask_socket(&format!("/logs/?{query}")).await;
        let is_refused = answer.body.contains("input contains unsupported characters");
        assert!(is_refused || answer.body.contains("log not found for known-D_etc"), "{pattern}: {}", answer.body);
    }
    assert!(!made.exists());
}
