//! A node of one test's own: a private runtime made by `scripts/testenv.sh`, and the agent that runs on it.
//!
//! Owned by one test, taken down by `Drop`, also after a panic; what is then left outside the node's directory fails
//! the test. Keeps the environment's names and the agent's process. Runs of the suite may go on side by side, and
//! what a killed run left is stopped by the next.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use podwright::cri::grpc::GrpcRuntime;
use podwright::cri::instrumented::Unobserved;
use podwright::cri::{
    ContainerFilter, ContainerState, ContainerStatus, CriResult, Labels, PodSandboxFilter, PodSandboxStatus,
    RuntimeService,
};
use podwright::testing::skips::skip;
use serde_json::{Value, json};

use crate::node::machine::{Slot, fresh_directory, path_text, read_env, script, unsupported};
use crate::pods::merge;

/// The agent.
pub const AGENT: &str = env!("CARGO_BIN_EXE_podwright");
/// The node's name, which ends every static pod's name.
pub const NODE_NAME: &str = "node1";
/// The agent's socket, below the node's directory.
const SOCKET: &str = "run/podwright.sock";
/// How long anything may take that must happen: far more than it needs on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A private runtime, and the agent that may run on it.
pub struct Node {
    /// The names of `testenv.sh`.
    pub env: BTreeMap<String, String>,
    /// All of the node's files.
    pub dir: PathBuf,
    /// The agent's `KubeletConfiguration`; written when the agent starts.
    pub configuration: Value,
    /// Flags beside `--config`.
    pub flags: Vec<String>,
    /// Variables of the agent's environment beside those of the test's own.
    pub variables: Vec<(&'static str, String)>,
    /// The command before the agent's, such as `unshare` and its arguments; nothing when empty.
    pub wrapper: Vec<String>,
    agent: Option<Child>,
    tokio: tokio::runtime::Runtime,
    cri: GrpcRuntime,
    _slot: Slot,
}

impl Node {
    /// A runtime, with no agent yet. `None`, after one line on standard error, where this machine cannot have one.
    pub fn new() -> Option<Self> {
        if let Some(reason) = unsupported() {
            skip(reason);
            return None;
        }
        let slot = Slot::take();
        let dir = fresh_directory();
        script("start", &dir, &[]).unwrap_or_else(|problem| panic!("no runtime: {problem}"));
        let env = read_env(&dir);
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let cri = {
            let _context = tokio.enter();
            let limit = Duration::from_secs(60);
            GrpcRuntime::connect(&env["RUNTIME_ENDPOINT"], "", limit, Arc::new(Unobserved)).unwrap()
        };
        for folder in ["manifests", "logs", "kubelet"] {
            fs::create_dir_all(dir.join(folder)).unwrap();
        }
        let flags = ["--root-dir", &path_text(&dir, "kubelet"), "--cert-dir", &path_text(&dir, "pki")]
            .into_iter()
            .chain(["--hostname-override", NODE_NAME, "--socket", &path_text(&dir, SOCKET)])
            .chain(["--device-plugin-dir", &path_text(&dir, "device-plugins")])
            .map(str::to_owned)
            .collect();
        let configuration = configuration(&dir, &env);
        Some(Self {
            env,
            dir,
            configuration,
            flags,
            variables: vec![],
            wrapper: vec![],
            agent: None,
            tokio,
            cri,
            _slot: slot,
        })
    }

    /// A runtime with a running agent.
    pub fn running() -> Option<Self> {
        let mut node = Self::new()?;
        node.start_agent();
        Some(node)
    }

    /// Changes the agent's configuration; it counts from the agent's next start.
    pub fn configure(&mut self, patch: Value) {
        merge(&mut self.configuration, patch);
    }

    // ------------------------------------------------------------ the agent

    /// Where this node's agent answers; many agents run beside each other here, so none has the usual place.
    pub fn socket(&self) -> PathBuf {
        self.dir.join(SOCKET)
    }

    /// Starts the agent.
    pub fn start_agent(&mut self) {
        assert!(self.agent.is_none(), "one agent is enough");
        let configuration = self.dir.join("kubelet.yaml");
        fs::write(&configuration, self.configuration.to_string()).unwrap();
        let log = OpenOptions::new().create(true).append(true).open(self.dir.join("agent.log")).unwrap();
        let mut words = self.wrapper.iter().map(String::as_str).chain([AGENT]);
        let child = Command::new(words.next().expect("at least the agent"))
            .args(words)
            .arg("--config")
            .arg(&configuration)
            .args(&self.flags)
            .env("RUST_LOG", "info")
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.agent = Some(child);
    }

    /// Starts an agent that must refuse to run; how it ended, and what it said.
    pub fn run_agent_to_its_end(&mut self) -> (ExitStatus, String) {
        let before = self.log().len();
        self.start_agent();
        let status = self.wait_for_agent();
        (status, self.log().split_off(before))
    }

    /// The agent is given its root directory by a link to it.
    pub fn link_root_directory(&mut self) {
        let link = self.dir.join("linked");
        std::os::unix::fs::symlink(self.dir.join("kubelet"), &link).unwrap();
        let place = self.flags.iter().position(|flag| flag == "--root-dir").expect("given") + 1;
        self.flags[place] = link.display().to_string();
    }

    /// Waits until the agent has ended by itself.
    pub fn wait_for_agent(&mut self) -> ExitStatus {
        let mut agent = self.agent.take().expect("an agent runs");
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = agent.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = agent.kill();
        let _ = agent.wait();
        panic!("the agent did not end")
    }

    /// Whether the agent still runs.
    pub fn agent_lives(&mut self) -> bool {
        self.agent.as_mut().is_some_and(|agent| agent.try_wait().unwrap().is_none())
    }

    /// The agent's process ID.
    pub fn agent_pid(&self) -> u32 {
        self.agent.as_ref().expect("an agent runs").id()
    }

    /// Asks the agent to end, and waits for it.
    pub fn stop_agent(&mut self) -> ExitStatus {
        send_signal(self.agent_pid(), "TERM");
        self.wait_for_agent()
    }

    /// Ends the agent without asking.
    pub fn kill_agent(&mut self) {
        send_signal(self.agent_pid(), "KILL");
        self.wait_for_agent();
    }

    /// The output of this node's agents so far.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.dir.join("agent.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The answer of `podwright COMMAND -o json`, once the agent answers.
    pub fn ask(&self, command: &[&str]) -> Option<Value> {
        let output = Command::new(AGENT)
            .args(command)
            .args(["-o", "json", "--socket"])
            .arg(self.socket())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("`-o json` prints JSON"))
    }

    /// The same, waited for: an agent that is busy may take too long for a command's patience.
    pub fn answer(&self, command: &[&str]) -> Value {
        self.eventually(&format!("the agent answers {command:?}"), || self.ask(command))
    }

    /// The output of `podwright explain` for people, whatever it finds.
    pub fn explained(&self, pod: &str) -> String {
        let mut command = Command::new(AGENT);
        command.args(["explain", pod, "--socket"]).arg(self.socket()).stdin(Stdio::null());
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    }

    /// All pods as the agent shows them on its read-only port; why not, where it does not answer, or is too busy to.
    fn all_listed(&self) -> Result<Vec<Value>, String> {
        let answer = http_get(&format!("127.0.0.1:{}", self.named("READ_ONLY_PORT")), "/pods");
        let (status, body) = answer.ok_or("nobody answers")?;
        if status == 503 {
            return Err(format!("{status}: {body}"));
        }
        assert_eq!(status, 200, "{body}");
        let list: Value = serde_json::from_str(&body).expect("a list of pods");
        // A list of none is written as `null`.
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    fn look_for(&self, pod: &str) -> Result<Value, String> {
        let name = format!("{pod}-{NODE_NAME}");
        let found = self.all_listed()?.into_iter().find(|one| one["metadata"]["name"] == name.as_str());
        found.ok_or_else(|| "it is not among those that are shown".to_owned())
    }

    /// Whether the agent shows a static pod; `None` while it does not say.
    pub fn is_listed(&self, pod: &str) -> Option<bool> {
        let name = format!("{pod}-{NODE_NAME}");
        Some(self.all_listed().ok()?.iter().any(|one| one["metadata"]["name"] == name.as_str()))
    }

    /// Waits until the agent shows a static pod of which `wanted` holds.
    pub fn wait_listed(&self, pod: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Err("nobody was asked".to_owned());
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            last = self.look_for(pod);
            if let Some(found) = last.as_ref().ok().filter(|found| wanted(found)) {
                return found.clone();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let shown = last.map_or_else(|why| why, |found| format!("{:#}", found["status"]));
        panic!("waited in vain: {pod} is shown {what}: {shown}")
    }

    // ------------------------------------------------------------ manifests

    /// Where manifests are.
    pub fn manifest_path(&self, file: &str) -> PathBuf {
        self.dir.join("manifests").join(file)
    }

    /// Writes a pod's manifest, named after the pod. Whole at once, as a careful user would.
    pub fn apply(&self, pod: &Value) {
        let name = pod["metadata"]["name"].as_str().expect("a pod has a name");
        self.write_manifest(&format!("{name}.yaml"), pod.to_string().as_bytes());
    }

    /// Writes a file into the folder of manifests, whole at once.
    pub fn write_manifest(&self, file: &str, content: &[u8]) {
        let hidden = self.manifest_path(&format!(".{file}"));
        fs::write(&hidden, content).unwrap();
        fs::rename(hidden, self.manifest_path(file)).unwrap();
    }

    /// Removes a pod's manifest.
    pub fn delete(&self, pod: &str) {
        fs::remove_file(self.manifest_path(&format!("{pod}.yaml"))).unwrap();
    }

    // ------------------------------------------------------------ the runtime's truth

    /// One call to the runtime, which may fail.
    pub fn try_cri<T>(&self, call: impl AsyncFnOnce(&GrpcRuntime) -> CriResult<T>) -> CriResult<T> {
        self.tokio.block_on(call(&self.cri))
    }

    /// One call to the runtime, once it is there: one that was just started may not answer yet.
    pub fn cri<T>(&self, call: impl AsyncFn(&GrpcRuntime) -> CriResult<T>) -> T {
        self.eventually("the runtime answers", || match self.tokio.block_on(call(&self.cri)) {
            Ok(answer) => Some(answer),
            // containerd 1.6 answers before it is ready.
            Err(error) if error.is_transient() || error.to_string().contains("not initialized yet") => None,
            Err(error) => panic!("the runtime says: {error}"),
        })
    }

    /// The sandboxes of a static pod, newest first.
    pub fn sandboxes(&self, pod: &str) -> Vec<PodSandboxStatus> {
        let filter = PodSandboxFilter { label_selector: of_pod(pod), ..PodSandboxFilter::default() };
        let listed = self.cri(async |cri| cri.list_pod_sandboxes(&filter).await);
        let mut found: Vec<_> = listed
            .iter()
            .filter_map(|line| self.unless_gone(async |cri| cri.pod_sandbox_status(&line.id).await))
            .collect();
        found.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.created_at));
        found
    }

    /// The containers of one name of a static pod, newest first.
    pub fn containers(&self, pod: &str, container: &str) -> Vec<ContainerStatus> {
        let mut found = self.all_containers(pod);
        found.retain(|status| status.metadata.name == container);
        found
    }

    /// All containers of a static pod, newest first.
    pub fn all_containers(&self, pod: &str) -> Vec<ContainerStatus> {
        self.containers_of(&format!("{pod}-{NODE_NAME}"))
    }

    /// All containers of the pod of this very name, newest first.
    pub fn containers_of(&self, name: &str) -> Vec<ContainerStatus> {
        let label_selector = [("io.kubernetes.pod.name".to_owned(), name.to_owned())].into();
        let filter = ContainerFilter { label_selector, ..ContainerFilter::default() };
        let listed = self.cri(async |cri| cri.list_containers(&filter).await);
        let mut found: Vec<_> = listed
            .iter()
            .filter_map(|line| self.unless_gone(async |cri| cri.container_status(&line.id).await))
            .collect();
        found.sort_by_key(|status| std::cmp::Reverse(status.created_at));
        found
    }

    /// The container of this name that runs, once it does.
    pub fn wait_running(&self, pod: &str, container: &str) -> ContainerStatus {
        self.eventually(&format!("container {container} of {pod} runs"), || self.running_now(pod, container))
    }

    /// The container of this name that runs now.
    pub fn running_now(&self, pod: &str, container: &str) -> Option<ContainerStatus> {
        self.containers(pod, container).into_iter().find(|status| status.state == ContainerState::Running)
    }

    /// Waits until the runtime has no sandbox and no container of the pod.
    pub fn wait_gone(&self, pod: &str) {
        self.eventually_none(&format!("no sandbox of {pod}"), || self.sandboxes(pod));
        self.eventually_none(&format!("no container of {pod}"), || self.all_containers(pod));
    }

    /// The output of a container, without the runtime's stamps.
    pub fn output(&self, container: &ContainerStatus) -> String {
        let text = fs::read_to_string(&container.log_path).unwrap_or_default();
        text.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned() + "\n").collect()
    }

    /// Runs a shell script in a container; what it printed.
    pub fn run_in(&self, container: &ContainerStatus, script: &str) -> String {
        let command = ["/bin/sh", "-c", script].map(str::to_owned);
        let outcome = self.cri(async |cri| cri.exec_sync(&container.id, &command, Duration::from_secs(60)).await);
        let said = String::from_utf8_lossy(&[outcome.stdout, outcome.stderr].concat()).into_owned();
        assert_eq!(outcome.exit_code, 0, "{script}: {said}");
        said
    }

    /// Gives an image one more name.
    pub fn tag(&self, image: &str, name: &str) {
        script("ctr", &self.dir, &["images", "tag", image, name]).unwrap();
    }

    /// The process ID of a container or sandbox, as the runtime's own tool knows it.
    pub fn pid_of(&self, id: &str) -> u32 {
        let tasks = script("ctr", &self.dir, &["tasks", "ls"]).unwrap();
        let line = tasks.lines().find(|line| line.starts_with(id)).unwrap_or_else(|| panic!("no task {id} in {tasks}"));
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Ends the runtime; its containers go on.
    pub fn stop_containerd(&self) {
        script("stop-containerd", &self.dir, &[]).unwrap();
    }

    /// Starts the runtime again.
    pub fn start_containerd(&self) {
        script("start-containerd", &self.dir, &[]).unwrap();
    }

    /// Proves that the agent did a whole round after this was called: a new pod was seen, started and removed again.
    pub fn see_a_round(&self) {
        static ROUND: AtomicU32 = AtomicU32::new(0);
        let name = format!("round{}", ROUND.fetch_add(1, Ordering::Relaxed));
        self.apply(&crate::pods::pod(&name, &[crate::pods::forever("main")]));
        self.wait_running(&name, "main");
        self.delete(&name);
        self.wait_gone(&name);
    }

    // ------------------------------------------------------------ waiting and asking

    /// Waits until `look` finds something.
    pub fn eventually<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            if Instant::now() >= deadline {
                panic!("waited in vain: {what}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until `look` finds nothing any more.
    pub fn eventually_none<T: std::fmt::Debug>(&self, what: &str, mut look: impl FnMut() -> Vec<T>) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = look();
            if found.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "waited in vain: {what}: {found:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until the agent has said something that holds all of these.
    pub fn wait_for_words(&self, words: &[&str]) -> String {
        self.eventually(&format!("the agent says {words:?}"), || {
            self.log().lines().find(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned)
        })
    }

    /// One of the environment's names.
    pub fn named(&self, key: &str) -> &str {
        &self.env[key]
    }

    /// A port that no other node uses: the environment's 20 ports, its own five left out.
    pub fn free_port(&self, number: u16) -> u16 {
        assert!(number < 15, "an environment has 20 ports");
        self.named("HEALTHZ_PORT").parse::<u16>().unwrap() + 5 + number
    }

    /// The pod's address for whom it is on the host.
    pub fn gateway(&self) -> &str {
        self.named("POD_GATEWAY")
    }

    /// The first number of the runtime's version.
    pub fn runtime_major(&self) -> u32 {
        let version = self.named("RUNTIME_VERSION").trim_start_matches('v');
        version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or_default()
    }

    fn unless_gone<T>(&self, call: impl AsyncFn(&GrpcRuntime) -> CriResult<T>) -> Option<T> {
        self.cri(async |cri| match call(cri).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        })
    }

    /// The text for the reader of a failure: the end of the agent's log.
    fn story(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(60)..];
        format!("the agent's last words:\n{}", last.join("\n"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.story());
        }
        let stopped = script("stop", &self.dir, &[]);
        if std::env::var_os("LIVE_KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.dir);
        }
        match stopped {
            Ok(_) => {}
            Err(problem) if std::thread::panicking() => eprintln!("{problem}"),
            Err(problem) => panic!("{problem}"),
        }
    }
}

/// `GET` over plain HTTP: the status and the body; `None` when nobody answers.
pub fn http_get(address: &str, path: &str) -> Option<(u16, String)> {
    http(address, &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n"))
}

/// The same for a `POST` of some JSON.
pub fn http_post(address: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let (kind, length) = ("Content-Type: application/json", body.len());
    http(
        address,
        &format!("POST {path} HTTP/1.0\r\nHost: {address}\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{body}"),
    )
}

fn http(address: &str, request: &str) -> Option<(u16, String)> {
    let address: SocketAddr = address.parse().expect("an address with a port");
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split_whitespace().nth(1)?.parse().ok()?;
    Some((status, answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned())))
}

/// Sends a signal to a process.
pub fn send_signal(pid: u32, signal: &str) {
    let status = Command::new("kill").args(["-s", signal, &pid.to_string()]).status().unwrap();
    assert!(status.success(), "no process {pid}");
}

fn of_pod(pod: &str) -> Labels {
    [("io.kubernetes.pod.name".to_owned(), format!("{pod}-{NODE_NAME}"))].into()
}

/// A standalone node that leaves the machine outside its own cgroup and directory alone.
fn configuration(dir: &Path, env: &BTreeMap<String, String>) -> Value {
    let port = |key: &str| env[key].parse::<u16>().unwrap();
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "staticPodPath": path_text(dir, "manifests"),
        "containerRuntimeEndpoint": env["RUNTIME_ENDPOINT"],
        "podLogsDir": path_text(dir, "logs"),
        "volumePluginDir": path_text(dir, "volume-plugins"),
        "cgroupDriver": env["CGROUP_DRIVER"],
        "cgroupRoot": env["CGROUP_ROOT"],
        "failCgroupV1": false,
        "failSwapOn": false,
        "enforceNodeAllocatable": ["pods"],
        "makeIPTablesUtilChains": false,
        "evictionHard": { "memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%" },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "address": "127.0.0.1",
        "port": port("PORT"),
        "readOnlyPort": port("READ_ONLY_PORT"),
        "healthzPort": port("HEALTHZ_PORT"),
        "authentication": { "anonymous": { "enabled": false }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
    })
}

/// A condition's status in a shown pod.
pub fn condition<'a>(pod: &'a Value, kind: &str) -> &'a str {
    let conditions = pod["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    conditions.iter().find(|one| one["type"] == kind).and_then(|one| one["status"].as_str()).unwrap_or("absent")
}

/// A container's status in a shown pod.
pub fn container_status<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let lists = ["containerStatuses", "initContainerStatuses"].map(|list| pod["status"][list].as_array());
    let found = lists.into_iter().flatten().flatten().find(|one| one["name"] == name);
    found.unwrap_or(&Value::Null)
}
