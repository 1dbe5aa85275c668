//! A runtime that is played: its CRI calls, and the stream server that its URLs lead to.

use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use super::spdy::{self, Event, Reader, Writer};
use crate::cri::wire::runtime_service_server::{RuntimeService, RuntimeServiceServer};
use crate::cri::wire::*;
use crate::testing::stream_clients::read_head;

/// The stream server's answer to a request.
#[derive(Clone)]
pub(super) enum Script {
    /// This is the whole answer.
    Answer(String),
    /// 101 with these headers; then every byte comes back, in upper case.
    Echo(String),
    /// 101 to SPDY, and a command: what comes in goes out, `done` goes to stderr at the end of input; then this status.
    Command(&'static str, End),
}

/// The end of a command's connection.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// The status, and every stream's end.
    Whole,
    /// It breaks off where the status should be.
    BreaksOff,
    /// It is reset behind the status, as a connection is that is closed over bytes that nobody read.
    Reset,
}

/// See the module.
pub(super) struct Played {
    seen: Arc<Mutex<Vec<String>>>,
    /// The requests by CRI.
    pub(super) calls: Arc<Mutex<Vec<String>>>,
    script: Arc<Mutex<Script>>,
    /// The place in a URL, and the error instead of one.
    cri: Arc<Mutex<(String, Option<Status>)>>,
    _tasks: JoinSet<()>,
}

impl Played {
    /// Serves CRI at `socket`, with one container `a` in the pod `uid-web`.
    pub(super) async fn start(socket: &std::path::Path) -> Self {
        let (seen, calls) = (Arc::new(Mutex::default()), Arc::new(Mutex::default()));
        let script = Arc::new(Mutex::new(Script::Command(r#"{"status":"Success"}"#, End::Whole)));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let cri = Arc::new(Mutex::new((url, None)));
        let mut tasks = JoinSet::new();
        let service = Cri { calls: Arc::clone(&calls), answer: Arc::clone(&cri) };
        let incoming = UnixListenerStream::new(UnixListener::bind(socket).expect("free"));
        let server = tonic::transport::Server::builder().add_service(RuntimeServiceServer::new(service));
        tasks.spawn(async move { drop(server.serve_with_incoming(incoming).await) });
        let (heads, scripts) = (Arc::clone(&seen), Arc::clone(&script));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&heads), Arc::clone(&scripts)));
            }
        });
        Self { seen, calls, script, cri, _tasks: tasks }
    }

    /// From now on.
    pub(super) fn play(&self, script: Script) {
        *self.script.lock().expect("whole") = script;
    }

    /// From now on the runtime gives URLs that begin with this.
    pub(super) fn lead_to(&self, url: &str) {
        self.cri.lock().expect("whole").0 = url.to_owned();
    }

    /// From now on the runtime refuses.
    pub(super) fn refuse(&self, status: Option<Status>) {
        self.cri.lock().expect("whole").1 = status;
    }

    /// The head of the last request for a stream.
    pub(super) fn last_head(&self) -> String {
        self.seen.lock().expect("whole").last().cloned().unwrap_or_default()
    }

    /// How many requests for streams there were.
    pub(super) fn heads(&self) -> usize {
        self.seen.lock().expect("whole").len()
    }
}

struct Cri {
    calls: Arc<Mutex<Vec<String>>>,
    answer: Arc<Mutex<(String, Option<Status>)>>,
}

impl Cri {
    fn url(&self, call: String, path: &str) -> Result<String, Status> {
        self.calls.lock().expect("whole").push(call);
        let (url, refusal) = self.answer.lock().expect("whole").clone();
        refusal.map_or(Ok(format!("{url}{path}")), Err)
    }
}

/// The runtime is there for requests alone: did it answer a relist, the tree would find that nobody wants the pod.
fn only_of_a_pod(labels: Option<std::collections::BTreeMap<String, String>>) -> Result<(), Status> {
    match labels {
        Some(labels) if !labels.is_empty() => Ok(()),
        _ => Err(Status::unavailable("only questions about one pod are answered")),
    }
}

#[tonic::async_trait]
impl RuntimeService for Cri {
    async fn list_containers(
        &self,
        request: Request<ListContainersRequest>,
    ) -> Result<Response<ListContainersResponse>, Status> {
        only_of_a_pod(request.into_inner().filter.map(|filter| filter.label_selector))?;
        let container = |id: &str, count: &str, created_at| Container {
            id: id.into(),
            metadata: Some(ContainerMetadata { name: "a".into(), attempt: 0 }),
            state: ContainerState::ContainerRunning as i32,
            created_at,
            labels: [("io.kubernetes.container.name", "a"), ("io.kubernetes.pod.uid", "uid-web")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            annotations: [("io.kubernetes.container.restartCount".to_owned(), count.to_owned())].into(),
            ..Container::default()
        };
        // The clock was set back between the making of the two.
        let containers = vec![container("old", "0", 2), container("c1", "1", 1)];
        Ok(Response::new(ListContainersResponse { containers }))
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<ListPodSandboxRequest>,
    ) -> Result<Response<ListPodSandboxResponse>, Status> {
        only_of_a_pod(request.into_inner().filter.map(|filter| filter.label_selector))?;
        let sandbox =
            PodSandbox { id: "s1".into(), metadata: Some(PodSandboxMetadata::default()), ..PodSandbox::default() };
        Ok(Response::new(ListPodSandboxResponse { items: vec![sandbox] }))
    }

    async fn exec(&self, request: Request<ExecRequest>) -> Result<Response<ExecResponse>, Status> {
        let ExecRequest { container_id, cmd, tty, stdin, stdout, stderr } = request.into_inner();
        let call = format!("exec {container_id} {cmd:?} {stdin} {stdout} {stderr} {tty}");
        self.url(call, "/exec/token").map(|url| Response::new(ExecResponse { url }))
    }

    async fn attach(&self, request: Request<AttachRequest>) -> Result<Response<AttachResponse>, Status> {
        let AttachRequest { container_id, tty, stdin, stdout, stderr } = request.into_inner();
        let call = format!("attach {container_id} {stdin} {stdout} {stderr} {tty}");
        self.url(call, "/attach/token").map(|url| Response::new(AttachResponse { url }))
    }

    async fn port_forward(
        &self,
        request: Request<PortForwardRequest>,
    ) -> Result<Response<PortForwardResponse>, Status> {
        let PortForwardRequest { pod_sandbox_id, port } = request.into_inner();
        let call = format!("portforward {pod_sandbox_id} {port:?}");
        self.url(call, "/portforward/token").map(|url| Response::new(PortForwardResponse { url }))
    }

    async fn exec_sync(&self, request: Request<ExecSyncRequest>) -> Result<Response<ExecSyncResponse>, Status> {
        let ExecSyncRequest { cmd, timeout, .. } = request.into_inner();
        self.url(format!("execsync {cmd:?} {timeout}"), "")?;
        let exit_code = i32::from(cmd[0] == "false");
        if cmd[0] == "flood" {
            return Ok(Response::new(ExecSyncResponse { stdout: vec![b'x'; 17 << 20], stderr: vec![], exit_code }));
        }
        let stdout = if cmd[0] == "true" { vec![] } else { b"out;".to_vec() };
        let stderr = if cmd[0] == "true" { vec![] } else { b"err".to_vec() };
        Ok(Response::new(ExecSyncResponse { stdout, stderr, exit_code }))
    }

    async fn checkpoint_container(
        &self,
        request: Request<CheckpointContainerRequest>,
    ) -> Result<Response<CheckpointContainerResponse>, Status> {
        let CheckpointContainerRequest { location, timeout, .. } = request.into_inner();
        self.url(format!("checkpoint {timeout}"), "")?;
        std::fs::write(location, "memory").expect("the folder is there");
        Ok(Response::new(CheckpointContainerResponse {}))
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Vec<String>>>, script: Arc<Mutex<Script>>) {
    let Some((first, headers)) = read_head(&mut stream).await else { return };
    let lines = headers.iter().flat_map(|(name, values)| values.iter().map(move |value| format!("{name}: {value}")));
    let head: Vec<String> = [first].into_iter().chain(lines).collect();
    seen.lock().expect("whole").push(head.join("\n"));
    let script = script.lock().expect("whole").clone();
    // The other side may leave whenever it likes.
    let _ = match script {
        Script::Answer(text) => stream.write_all(text.as_bytes()).await,
        Script::Echo(headers) => echo(stream, &headers).await,
        Script::Command(status, end) => {
            let protocol = headers.get("x-stream-protocol-version").and_then(|all| all.first()).cloned();
            command(stream, &protocol.unwrap_or_default(), status, end).await
        }
    };
}

async fn echo(mut stream: TcpStream, headers: &str) -> std::io::Result<()> {
    stream.write_all(format!("HTTP/1.1 101 Switching Protocols\r\n{headers}\r\n").as_bytes()).await?;
    let mut buffer = vec![0; 4096];
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            // Half open: the client has ended, this side has not.
            stream.write_all(b"END").await?;
            return stream.shutdown().await;
        }
        buffer[..length].make_ascii_uppercase();
        stream.write_all(&buffer[..length]).await?;
    }
}

/// The kind of stream in a stored block of headers.
fn kind_of(headers: &[u8]) -> &'static str {
    let kinds = ["stdin", "stdout", "stderr", "error", "resize"];
    kinds.into_iter().find(|kind| headers.windows(kind.len()).any(|part| part == kind.as_bytes())).unwrap_or("?")
}

async fn command(mut stream: TcpStream, protocol: &str, status: &str, end: End) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: \
         {protocol}\r\n\r\n"
    );
    // As real runtimes: what is written is under way before the connection ends.
    stream.set_nodelay(true)?;
    stream.write_all(head.as_bytes()).await?;
    let (mut reader, mut writer, mut buffer) = (Reader::default(), Writer::default(), BytesMut::new());
    let mut streams = std::collections::BTreeMap::new();
    let mut sizes = Vec::new();
    loop {
        while let Some(event) = reader.next(&mut buffer).expect("SPDY") {
            match event {
                Event::Opened { stream: number, headers } => {
                    streams.insert(kind_of(&headers), number);
                    stream.write_all(&writer.reply(number)).await?;
                    stream.write_all(&spdy::ping(2)).await?;
                }
                Event::Data { stream: number, bytes, .. } if streams.get("resize") == Some(&number) => {
                    sizes.extend_from_slice(&bytes);
                }
                Event::Data { stream: number, bytes, ends } if streams.get("stdin") == Some(&number) => {
                    if let Some(stdout) = streams.get("stdout") {
                        stream.write_all(&[&spdy::data_head(*stdout, bytes.len(), false)[..], &bytes].concat()).await?;
                    }
                    if !ends {
                        continue;
                    }
                    if let Some(stdout) = streams.get("stdout") {
                        let last = [&spdy::data_head(*stdout, sizes.len(), true)[..], &sizes].concat();
                        stream.write_all(&last).await?;
                    }
                    if let Some(stderr) = streams.get("stderr") {
                        stream.write_all(&[&spdy::data_head(*stderr, 4, true)[..], b"done"].concat()).await?;
                    }
                    let head = spdy::data_head(streams["error"], status.len(), false);
                    let told = [&head[..], status.as_bytes()].concat();
                    match end {
                        End::BreaksOff => return stream.shutdown().await,
                        End::Reset => {
                            stream.write_all(&told).await?;
                            return stream.set_zero_linger();
                        }
                        End::Whole => {
                            stream.write_all(&told).await?;
                            // As the library of real runtimes ends: all streams are reset.
                            for number in streams.values() {
                                stream.write_all(&spdy::reset(*number)).await?;
                            }
                            stream.write_all(&spdy::go_away(0)).await?;
                        }
                    }
                    return stream.shutdown().await;
                }
                _ => {}
            }
        }
        if stream.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}
