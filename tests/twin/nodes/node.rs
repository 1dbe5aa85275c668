//! One node: its runtime behind a recording proxy, and the agent that runs on it now.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{DEVICE_PLUGINS, PATIENCE, Side, assets, path_text, read_env, script};
use crate::decode::Protocol;
use crate::proxy::{self, Record};

/// A node: a runtime, its record, and the agent.
pub struct Node {
    /// The side that the node belongs to.
    pub side: Side,
    /// All of the node's files.
    pub dir: PathBuf,
    /// The names of `testenv.sh`.
    pub env: BTreeMap<String, String>,
    /// The calls to the runtime.
    pub record: Record,
    /// The other side's agent runs here.
    is_swapped: AtomicBool,
    agent: Mutex<Option<Child>>,
}

impl Node {
    /// A node in an environment of `testenv.sh`, with its proxy.
    pub fn new(dir: &Path, side: Side, handle: &tokio::runtime::Handle, protocol: &Arc<Protocol>) -> Self {
        let env = read_env(dir);
        let record = Record::new(protocol.clone());
        proxy::serve(handle, &dir.join("containerd.sock"), PathBuf::from(&env["CONTAINERD_SOCK"]), record.clone());
        for folder in ["manifests", "logs", "kubelet"] {
            fs::create_dir_all(dir.join(folder)).expect("the node's directory is ours");
        }
        let node = Self {
            side,
            dir: dir.to_owned(),
            env,
            record,
            is_swapped: AtomicBool::new(false),
            agent: Mutex::new(None),
        };
        node.configure(&json!({}));
        node
    }

    /// Writes the configuration with these fields changed; it counts from the agent's next start.
    pub fn configure(&self, change: &Value) {
        let mut configuration = self.configuration();
        for (field, value) in change.as_object().into_iter().flatten() {
            configuration[field] = value.clone();
        }
        fs::write(self.dir.join("kubelet.yaml"), configuration.to_string()).expect("the node's directory is ours");
    }

    /// The same for both agents but for ports and paths.
    fn configuration(&self) -> Value {
        let path = |name: &str| self.path(name);
        let port = |name: &str| self.env[name].parse::<u16>().expect("a port");
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "staticPodPath": path("manifests"),
            "containerRuntimeEndpoint": format!("unix://{}", path("containerd.sock")),
            "podLogsDir": path("logs"),
            "volumePluginDir": path("volume-plugins"),
            "cgroupDriver": self.env["CGROUP_DRIVER"],
            "cgroupRoot": self.env["CGROUP_ROOT"],
            "failCgroupV1": false,
            "failSwapOn": false,
            "enforceNodeAllocatable": ["pods"],
            "makeIPTablesUtilChains": false,
            "evictionHard": { "memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%" },
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "clusterDNS": ["10.96.0.10"],
            "clusterDomain": "cluster.local",
            "syncFrequency": "10s",
            "address": "0.0.0.0",
            "port": port("PORT"),
            "readOnlyPort": port("READ_ONLY_PORT"),
            "healthzPort": port("HEALTHZ_PORT"),
            "authentication": {
                "x509": { "clientCAFile": path("cluster/pki/ca.crt") },
                "webhook": { "enabled": true },
                "anonymous": { "enabled": false },
            },
            "authorization": { "mode": "Webhook" },
            "tlsCertFile": path("cluster/pki/kubelet-serving.crt"),
            "tlsPrivateKeyFile": path("cluster/pki/kubelet-serving.key"),
        })
    }

    /// The agent that runs here now.
    fn runs(&self) -> Side {
        match (self.side, self.is_swapped.load(Ordering::Relaxed)) {
            (Side::Ours, false) | (Side::Theirs, true) => Side::Ours,
            (Side::Theirs, false) | (Side::Ours, true) => Side::Theirs,
        }
    }

    /// The agent of the other side starts here from now on, or no more.
    pub fn swap(&self) {
        self.is_swapped.fetch_xor(true, Ordering::Relaxed);
    }

    /// Whether the other side's agent runs here.
    pub fn is_swapped(&self) -> bool {
        self.is_swapped.load(Ordering::Relaxed)
    }

    /// The folder in which the agent listens for device plugins.
    pub fn device_plugins(&self) -> PathBuf {
        match self.runs() {
            Side::Ours => self.dir.join("device-plugins"),
            Side::Theirs => PathBuf::from(DEVICE_PLUGINS),
        }
    }

    fn executable(&self) -> PathBuf {
        match self.runs() {
            Side::Theirs => assets().join("kubelet"),
            Side::Ours => {
                let built = || option_env!("CARGO_BIN_EXE_podwright").map(PathBuf::from);
                let named = std::env::var_os("PODWRIGHT").map(PathBuf::from);
                named.or_else(built).expect("PODWRIGHT names our executable")
            }
        }
    }

    /// Starts the agent.
    pub fn start_agent(&self) -> Result<(), String> {
        let mut command = self.command(Command::new(self.executable()), "kubelet.yaml", "kubelet");
        command.args(["--hostname-override", &self.side.node_name(), "--node-ip", &self.env["NODE_IP"]]);
        command.args(["--kubeconfig", &self.path("cluster/pki/kubelet.conf")]);
        *self.agent.lock().expect("no holder panics") = Some(self.spawn(command)?);
        Ok(())
    }

    fn path(&self, name: &str) -> String {
        path_text(&self.dir.join(name))
    }

    /// The command of an agent with a configuration and a root directory, behind the words that are there.
    fn command(&self, mut command: Command, configuration: &str, root: &str) -> Command {
        command.args(["--config", &self.path(configuration), "--root-dir", &self.path(root)]);
        command.args(["--cert-dir", &self.path("pki")]);
        match self.runs() {
            Side::Ours => {
                let plugins = path_text(&self.device_plugins());
                command.args(["--socket", &self.path("podwright.sock"), "--device-plugin-dir", &plugins]);
                command.env("RUST_LOG", "info");
            }
            // Its cAdvisor looks for containers at the usual place only, and without them nothing is measured.
            Side::Theirs => {
                command.args(["--containerd", &self.env["CONTAINERD_SOCK"]]);
            }
        }
        command
    }

    /// Starts a command whose words go into the agent's log.
    fn spawn(&self, mut command: Command) -> Result<Child, String> {
        let log = OpenOptions::new().create(true).append(true).open(self.dir.join("agent.log"));
        let log = log.map_err(|error| error.to_string())?;
        let again = log.try_clone().map_err(|error| error.to_string())?;
        let child = command.stdin(Stdio::null()).stdout(log).stderr(again).spawn();
        child.map_err(|error| format!("{}: {error}", self.executable().display()))
    }

    /// The rules of packet filters that the agent makes on a host where there are none, by family.
    ///
    /// It runs in a network of its own meanwhile, without a cluster: both nodes share the machine's network.
    pub fn packet_rules(&self) -> Result<Value, String> {
        self.stop_agent();
        let mut configuration = self.configuration();
        configuration["makeIPTablesUtilChains"] = json!(true);
        configuration["staticPodPath"] = json!("");
        configuration["authentication"] = json!({ "webhook": { "enabled": false }, "anonymous": { "enabled": false } });
        configuration["authorization"] = json!({ "mode": "AlwaysAllow" });
        fs::write(self.dir.join("rules.yaml"), configuration.to_string()).map_err(|error| error.to_string())?;
        let mut apart = Command::new("unshare");
        apart.args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]).arg(self.executable());
        *self.agent.lock().expect("no holder panics") = Some(self.spawn(self.command(apart, "rules.yaml", "rules"))?);
        let rules = self.settled_rules();
        self.stop_agent();
        self.start_agent()?;
        Ok(rules)
    }

    /// The rules once they stay as they are for some seconds.
    fn settled_rules(&self) -> Value {
        const LOOKS: usize = 30;
        const SETTLED: usize = 6;
        let pid = self.agent.lock().expect("no holder panics").as_ref().map_or(0, Child::id).to_string();
        let (mut last, mut same) = (Value::Null, 0);
        for _ in 0..LOOKS {
            std::thread::sleep(Duration::from_secs(1));
            let of_family = |program: &str| {
                let listed = Command::new("nsenter").args(["-t", &pid, "-n", program]).output();
                let text =
                    listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
                rules(&text)
            };
            let now = json!({ "IPv4": of_family("iptables-save"), "IPv6": of_family("ip6tables-save") });
            same = if now == last { same + 1 } else { 0 };
            if same >= SETTLED && now["IPv4"].as_object().is_some_and(|tables| !tables.is_empty()) {
                break;
            }
            last = now;
        }
        last
    }

    /// Asks the agent to end, and waits; kills an agent that does not.
    pub fn stop_agent(&self) {
        let Some(mut child) = self.agent.lock().expect("no holder panics").take() else { return };
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process ID"));
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Ends the agent as a loss of power does.
    pub fn kill_agent(&self) {
        if let Some(mut child) = self.agent.lock().expect("no holder panics").take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Whether an agent runs.
    pub fn agent_lives(&self) -> bool {
        let mut agent = self.agent.lock().expect("no holder panics");
        agent.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|status| status.is_none()))
    }

    /// Ends or starts the runtime alone: `stop-containerd`, `start-containerd`; or takes all away that a boot does: `boot`.
    pub fn runtime(&self, command: &str) -> Result<(), String> {
        script("testenv.sh", &[command, &path_text(&self.dir)], &self.dir.join("runtime.log"))
    }
}

/// The chains and rules of a listing of `iptables-save`, by table; without counters, and in their order.
fn rules(listing: &str) -> Value {
    let mut tables = serde_json::Map::new();
    let mut table = String::new();
    for line in listing.lines().filter(|line| !line.starts_with('#') && *line != "COMMIT") {
        match line.strip_prefix('*') {
            Some(name) => name.clone_into(&mut table),
            None => {
                let line = line.split(" [").next().unwrap_or_default();
                let lines = tables.entry(table.clone()).or_insert_with(|| json!([]));
                lines.as_array_mut().into_iter().for_each(|lines| lines.push(line.into()));
            }
        }
    }
    tables.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_rules_are_told_by_table() {
        let listing =
            "# Words\n*nat\n:KUBE-MARK - [0:0]\n-A KUBE-MARK -j MARK\nCOMMIT\n*mangle\n:INPUT ACCEPT [7:1]\nCOMMIT\n";
        let expected = json!({ "nat": [":KUBE-MARK -", "-A KUBE-MARK -j MARK"], "mangle": [":INPUT ACCEPT"] });
        assert_eq!(rules(listing), expected);
    }
}
