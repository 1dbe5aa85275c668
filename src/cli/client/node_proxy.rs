//! The way to the agent of a node of a cluster: through the API server's node proxy, with the rights of a kubeconfig.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::client::Body;

use super::{ANSWER_BYTES_MAX, LIMIT, Trouble};
use crate::platform::cluster::kube_api::ApiServer;
use crate::platform::cluster::kube_api::credentials::Credentials;
use crate::platform::cluster::kube_api::kubeconfig::Kubeconfig;
use crate::platform::cluster::kube_api::transport::{Settings, Transport};
use crate::platform::host::clock::SystemClock;

/// The client's name for itself.
const USER_AGENT: &str = concat!("kubectl-podwright/", env!("CARGO_PKG_VERSION"));
/// Bytes of a refusal that are read.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// See the module.
pub(in crate::cli) struct NodeProxy {
    runtime: tokio::runtime::Runtime,
    server: ApiServer,
    node: String,
}

/// The files of a kubeconfig: the one that is named, else those of `KUBECONFIG`, else the user's own.
pub(in crate::cli) fn kubeconfig_files(named: Option<PathBuf>) -> Result<Vec<PathBuf>, String> {
    if let Some(named) = named {
        return if named.exists() {
            Ok(vec![named])
        } else {
            Err(format!("stat {}: no such file or directory", named.display()))
        };
    }
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<PathBuf> = std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
    if !listed.is_empty() {
        return Ok(listed);
    }
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    Ok(home.map(|home| PathBuf::from(home).join(".kube/config")).into_iter().collect())
}

impl NodeProxy {
    /// Connects when the first question is asked.
    pub(in crate::cli) fn new(node: String, files: &[PathBuf], context: Option<&str>) -> Result<Self, String> {
        let kubeconfig = Kubeconfig::load_merged(files, context).map_err(|error| error.to_string())?;
        let proxy = kubeconfig.way().map_err(|error| error.to_string())?;
        let settings = Settings::from_environment(kubeconfig.server.clone(), USER_AGENT.to_owned());
        let settings = Settings { proxy, ..settings };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let server = {
            let _entered = runtime.enter();
            let credentials = Credentials::new(kubeconfig, settings.offer, Arc::new(SystemClock::start()));
            Transport::new(settings, Arc::new(credentials)).server(None, None).within(LIMIT)
        };
        Ok(Self { runtime, server, node })
    }

    /// For texts.
    pub(super) fn place(&self) -> String {
        format!("node {}", self.node)
    }

    /// The body of the answer to `GET path`.
    pub(super) fn get(&self, path: &str) -> Result<Vec<u8>, Trouble> {
        self.runtime.block_on(async {
            let read = async {
                let body = self.open(path).await?;
                Ok(Limited::new(body, ANSWER_BYTES_MAX)
                    .collect()
                    .await
                    .map_err(|error| self.broken(path, error))?
                    .to_bytes())
            };
            let body = tokio::time::timeout(LIMIT, read).await;
            body.unwrap_or_else(|_| Err(self.broken(path, "it took too long"))).map(|body| body.to_vec())
        })
    }

    /// Hands on the body of the answer to `GET path` as it comes, for as long as that takes.
    pub(super) fn stream(&self, path: &str, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> Result<(), Trouble> {
        self.runtime.block_on(async {
            let mut body = self.open(path).await?;
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| self.broken(path, error))?;
                if frame.data_ref().is_some_and(|part| take(part).is_err()) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Nothing is changed from afar.
    pub(super) fn local_only(&self, path: &str) -> Trouble {
        Trouble::Refused(format!("{path} is answered on the node itself alone"))
    }

    /// The body of a good answer.
    async fn open(&self, path: &str) -> Result<Body, Trouble> {
        let answer = self.server.node_proxy(&self.node, path).await;
        let answer = answer.map_err(|error| Trouble::Refused(error.to_string()))?;
        let (head, body) = answer.into_parts();
        if head.status == StatusCode::OK {
            return Ok(body);
        }
        let body = Limited::new(body, REFUSAL_BYTES_MAX).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        let is_json =
            head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        Err(Trouble::Refused(refusal(&self.node, head.status, is_json, &body)))
    }

    fn broken(&self, path: &str, why: impl ToString) -> Trouble {
        Trouble::NoAnswer { socket: PathBuf::from(self.place()), path: path.to_owned(), why: why.to_string() }
    }
}

/// The words of a refusal: the API server's, or those of the node.
fn refusal(node: &str, status: StatusCode, is_json: bool, body: &[u8]) -> String {
    let of_server = || serde_json::from_slice::<Status>(body).ok()?.message.filter(|message| !message.is_empty());
    if let Some(message) = is_json.then(of_server).flatten() {
        return message;
    }
    let text = String::from_utf8_lossy(body).trim_end().to_owned();
    match status {
        // As a kubelet answers that knows no such path, and an agent whose debugging endpoints are off.
        StatusCode::NOT_FOUND if text.starts_with("404") || text.is_empty() => {
            format!("node {node} has no such page: it does not run Podwright, or enableDebuggingHandlers is off")
        }
        _ if text.is_empty() => format!("node {node} answers {status}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::cli::client::Client;

    #[test]
    fn a_refusal_has_the_words_of_whoever_refuses() {
        let forbidden = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"nodes \"n1\" is forbidden","code":403}"#;
        let no_page = "node n1 has no such page: it does not run Podwright, or enableDebuggingHandlers is off";
        for (status, is_json, body, expected) in [
            (403, true, forbidden, "nodes \"n1\" is forbidden"),
            (404, false, "no pod shop/web on this node\n", "no pod shop/web on this node"),
            (404, false, "404 page not found\n", no_page),
            (403, false, "Forbidden (user=jane)\n", "Forbidden (user=jane)"),
            (502, false, "", "node n1 answers 502 Bad Gateway"),
            (500, true, "{}", "{}"),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(refusal("n1", status, is_json, body.as_bytes()), expected);
        }
    }

    /// An API server that gives these answers, one a connection; the first lines of the requests.
    fn played(answers: Vec<String>) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let thread = std::thread::spawn(move || {
            let mut seen = vec![];
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut lines =
                    BufReader::new(stream.try_clone().expect("a socket")).lines().map(|line| line.expect("text"));
                let first = lines.next().expect("a request");
                let token =
                    lines.take_while(|line| !line.is_empty()).any(|line| line == "authorization: Bearer secret");
                seen.push(format!("{first} {token}"));
                let _ = stream.write_all(answer.as_bytes());
            }
            seen
        });
        (address, thread)
    }

    fn answer(status: &str, kind: &str, body: &str) -> String {
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    }

    /// PAIN-37.
    #[test]
    fn questions_go_to_the_node_through_the_api_server() {
        let refused = r#"{"kind":"Status","status":"Failure","message":"nodes \"n1\" is forbidden","code":403}"#;
        let (address, server) = played(vec![
            answer("200 OK", "application/json", "[]"),
            answer("200 OK", "application/json", "{}\n{}\n"),
            answer("403 Forbidden", "application/json", refused),
            answer("404 Not Found", "text/plain", "no pod shop/web on this node\n"),
        ]);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config");
        let config = format!(
            "apiVersion: v1\nkind: Config\ncontexts:\n- {{name: c, context: {{cluster: x, user: x}}}}\n\
             clusters:\n- {{name: x, cluster: {{server: 'http://{address}'}}}}\nusers:\n- {{name: x, user: {{token: secret}}}}\n"
        );
        std::fs::write(&file, config).expect("written");
        let proxy = NodeProxy::new("n1".to_owned(), &[file], Some("c")).expect("usable");
        let client = Client::of_node(proxy);
        assert_eq!(client.get("/ps").expect("answered"), b"[]");
        let mut taken = vec![];
        let streamed = client.stream("/ps?watch=true", |part| {
            taken.extend_from_slice(part);
            Ok(())
        });
        streamed.expect("answered");
        assert_eq!(taken, b"{}\n{}\n");
        let said = |path: &str| client.get(path).expect_err("refused").to_string();
        assert_eq!(said("/events"), "nodes \"n1\" is forbidden");
        assert_eq!(said("/explain/shop/web"), "no pod shop/web on this node");
        let changed = client.post("/restart/shop/web").expect_err("never sent").to_string();
        assert_eq!(changed, "/restart/shop/web is answered on the node itself alone");
        let paths = ["/ps", "/ps?watch=true", "/events", "/explain/shop/web"];
        let expected = paths.map(|path| format!("GET /api/v1/nodes/n1/proxy{path} HTTP/1.1 true"));
        assert_eq!(server.join().expect("it answered all"), expected);
    }

    #[test]
    fn a_kubeconfig_that_is_named_has_to_be_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config");
        assert!(kubeconfig_files(Some(file.clone())).expect_err("absent").contains("no such file or directory"));
        std::fs::write(&file, "").expect("written");
        assert_eq!(kubeconfig_files(Some(file.clone())), Ok(vec![file]));
    }
}
