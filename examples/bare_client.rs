//! The runtime's own share of a start: the calls that starting pods needs, and nothing else. `make bench` sets the
//! agent's times beside these, and measures both alike: by when the runtime says that a container was started.
//!
//! ```text
//! bare_client floor ENDPOINT IMAGE PODS LOG_DIR CGROUP_PARENT
//! bare_client running ENDPOINT COUNT SINCE_MS
//! bare_client kill ENDPOINT COUNT
//! bare_client idle SECONDS
//! ```
//! `floor` starts one pod after the other, then PODS at once, replaces containers that were killed, and removes all. It rests
//! before each measurement as long as the agent's part of the benchmark does: a runtime that was idle is slower.
//! `running` waits until COUNT containers run, and tells when the last one was started, in milliseconds after SINCE_MS (of
//! the epoch). `kill` kills COUNT containers of different pods, one after the other, and tells how long it took until
//! another one ran in its place. `idle` tells what the machine takes for a wake of a process that does nothing then.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt;
use futures_util::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use podwright::cri::grpc::GrpcRuntime;
use podwright::cri::instrumented::Unobserved;
use podwright::cri::pod_mapping::{ContainerFacts, SandboxFacts, container_config, sandbox_config};
use podwright::cri::{
    Container, ContainerConfig, ContainerEventKind, ContainerFilter, ContainerState, CriResult, ImageService,
    ImageSpec, PodSandboxConfig, RuntimeService,
};
use podwright::logic::environment::EnvironmentSources;
use podwright::logic::environment::field_path::Addresses;
use podwright::logic::model::ids::{ContainerId, SandboxId};
use podwright::logic::resources::{CgroupVersion, NodeMemory, ResourceOptions, container_resources, sandbox_resources};

/// Pods that are started one after the other, and containers that are killed; the median counts.
const SINGLE: usize = 5;
/// Rest before each pod of its own, and before a burst; scripts/bench.sh rests as long.
const REST: Duration = Duration::from_secs(6);
/// Rest before a kill.
const REST_BEFORE_KILL: Duration = Duration::from_secs(1);
/// Rest before all pods are deleted: the agent's restart is watched for so long.
const REST_BEFORE_DELETE: Duration = Duration::from_secs(20);
/// The name of each pod's only container.
const CONTAINER: &str = "c";
/// Decides about nothing in pods that request nothing.
const MEMORY: NodeMemory = NodeMemory { capacity_bytes: 1 << 34 };
/// How often is looked whether something runs.
const LOOK: Duration = Duration::from_millis(20);
/// After this long there is nothing to wait for.
const PATIENCE: Duration = Duration::from_secs(300);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

struct Client {
    runtime: Arc<GrpcRuntime>,
    image: String,
    log_dir: String,
    cgroup_parent: String,
}

impl Client {
    /// A pod as the benchmarks write it: what the runtime is asked follows from it as it does in the agent. A request of
    /// less than that, with the processes of the pod in one namespace, say, takes the runtime less time.
    fn pod(&self, name: &str) -> Pod {
        let pod = serde_json::json!({
            "metadata": { "name": name, "namespace": "bare", "uid": format!("uid-{name}") },
            "spec": {
                "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "enableServiceLinks": true,
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": CONTAINER, "image": self.image, "command": ["sleep", "100000"], "imagePullPolicy": "IfNotPresent",
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
            },
        });
        serde_json::from_value(pod).expect("it is a pod")
    }

    fn sandbox(&self, pod: &Pod) -> Outcome<PodSandboxConfig> {
        let facts = SandboxFacts {
            pod_logs: self.log_dir.clone(),
            cgroup_parent: self.cgroup_parent.clone(),
            resources: sandbox_resources(pod, false, &options()).into(),
            ..SandboxFacts::default()
        };
        Ok(sandbox_config(pod, &facts)?.0)
    }

    /// The container's configuration, with what the runtime mounts for it in place.
    fn container(
        &self,
        pod: &Pod,
        logs: &str,
        image_ref: String,
        pod_ips: Vec<String>,
        attempt: u32,
    ) -> Outcome<ContainerConfig> {
        let container = &pod.spec.as_ref().ok_or("a pod has a spec")?.containers[0];
        fs::create_dir_all(format!("{logs}/{CONTAINER}"))?;
        let (hosts, last_words) = (format!("{logs}/etc-hosts"), format!("{logs}/termination-log-{attempt}"));
        fs::write(&hosts, "127.0.0.1\tlocalhost\n")?;
        fs::write(&last_words, "")?;
        let facts = ContainerFacts {
            restart_count: attempt,
            image_ref,
            environment: EnvironmentSources {
                services: Some(Arc::default()),
                addresses: Addresses { pod_ips, ..Addresses::default() },
                ..EnvironmentSources::default()
            },
            resources: container_resources(pod, container, &MEMORY, false, &options()).into(),
            etc_hosts_path: Some(hosts),
            termination_log_path: Some(last_words),
            ..ContainerFacts::default()
        };
        Ok(container_config(pod, container, &facts)?)
    }

    /// The calls of one pod's start, in the agent's order, as much side by side as they can be.
    async fn start(&self, name: String) -> Outcome<(SandboxId, ContainerId)> {
        let pod = self.pod(&name);
        let config = self.sandbox(&pod)?;
        let spec = ImageSpec { image: self.image.clone(), ..ImageSpec::default() };
        let (sandbox, image) =
            futures_util::try_join!(self.runtime.run_pod_sandbox(&config, ""), self.runtime.image_status(&spec))?;
        let image = image.map(|image| image.id).unwrap_or_default();
        let id = self.start_container(&pod, &sandbox, image, 0).await?;
        Ok((sandbox, id))
    }

    async fn start_container(
        &self,
        pod: &Pod,
        sandbox: &SandboxId,
        image: String,
        attempt: u32,
    ) -> Outcome<ContainerId> {
        let config = self.sandbox(pod)?;
        let ips = self.runtime.pod_sandbox_status(sandbox).await?.ips;
        let container = self.container(pod, &config.log_directory, image, ips, attempt)?;
        let id = self.runtime.create_container(sandbox, &container, &config).await?;
        self.runtime.start_container(&id).await?;
        Ok(id)
    }

    /// Kills the pod's container and starts another one as soon as the runtime tells of its end; how long that took. The
    /// agent learns of it in the same way. `None` for a runtime that tells nothing.
    async fn replace(&self, name: &str, sandbox: &SandboxId, container: &ContainerId) -> Outcome<Option<u64>> {
        let pod = self.pod(name);
        let Ok(mut events) = self.runtime.container_events().await else { return Ok(None) };
        let since = kill(container)?;
        while let Some(event) = events.next().await {
            let Ok(event) = event else { return Ok(None) };
            if event.container_id != *container || event.kind != ContainerEventKind::Stopped {
                continue;
            }
            self.runtime.container_status(container).await?;
            let image =
                self.runtime.image_status(&ImageSpec { image: self.image.clone(), ..ImageSpec::default() }).await?;
            let image = image.map(|image| image.id).unwrap_or_default();
            let id = self.start_container(&pod, sandbox, image, 1).await?;
            return Ok(Some(self.started(&id).await?.saturating_sub(since)));
        }
        Ok(None)
    }

    /// When the container was started, in milliseconds of the epoch.
    async fn started(&self, id: &ContainerId) -> Outcome<u64> {
        started(&self.runtime, id).await
    }

    async fn remove(&self, sandbox: &SandboxId, container: &ContainerId) -> CriResult<()> {
        self.runtime.stop_container(container, Duration::from_secs(2)).await?;
        self.runtime.stop_pod_sandbox(sandbox).await?;
        self.runtime.remove_pod_sandbox(sandbox).await
    }
}

/// As the agent has them by default on this machine.
fn options() -> ResourceOptions {
    let unified = fs::exists("/sys/fs/cgroup/cgroup.controllers").unwrap_or(false);
    let cgroup_version = if unified { CgroupVersion::V2 } else { CgroupVersion::V1 };
    ResourceOptions { cgroup_version, ..ResourceOptions::default() }
}

async fn started(runtime: &GrpcRuntime, id: &ContainerId) -> Outcome<u64> {
    let status = runtime.container_status(id).await?;
    Ok(u64::try_from(status.started_at.0 / 1_000_000)?)
}

/// Kills a container's process behind the runtime's back; the moment at which it did, in milliseconds of the epoch.
fn kill(container: &ContainerId) -> Outcome<u64> {
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let groups = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        if groups.contains(container.as_str()) {
            let since = now_ms();
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)?;
            return Ok(since);
        }
    }
    Err(format!("no process of {container}").into())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
}

async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

fn median(mut figures: Vec<u64>) -> Option<u64> {
    figures.sort_unstable();
    figures.get(figures.len() / 2).copied()
}

async fn running(runtime: &GrpcRuntime) -> Outcome<Vec<Container>> {
    let all = runtime.list_containers(&ContainerFilter::default()).await?;
    Ok(all.into_iter().filter(|container| container.state == ContainerState::Running).collect())
}

/// Waits until so many containers run; when the last of them was started.
async fn wait_running(runtime: &GrpcRuntime, count: usize, since: u64) -> Outcome<()> {
    let deadline = since + u64::try_from(PATIENCE.as_millis())?;
    let found = loop {
        let found = running(runtime).await?;
        if found.len() == count {
            break found;
        }
        if now_ms() > deadline {
            return Err(format!("{} of {count} containers run", found.len()).into());
        }
        pause(LOOK).await;
    };
    let mut last = 0;
    for container in &found {
        last = last.max(started(runtime, &container.id).await?);
    }
    println!("running_ms={}", last.saturating_sub(since));
    Ok(())
}

/// Kills containers of different pods; the median of how long it took until there was another one.
async fn kill_some(runtime: &GrpcRuntime, count: usize) -> Outcome<()> {
    let mut figures = vec![];
    for victim in running(runtime).await?.into_iter().take(count) {
        let since = kill(&victim.id)?;
        let next = loop {
            let mut there = running(runtime).await?.into_iter();
            if let Some(next) = there.find(|one| one.sandbox_id == victim.sandbox_id && one.id != victim.id) {
                break next;
            }
            if now_ms() > since + u64::try_from(PATIENCE.as_millis())? {
                return Err(format!("nothing came for {}", victim.id).into());
            }
            pause(LOOK).await;
        };
        figures.push(started(runtime, &next.id).await?.saturating_sub(since));
        pause(REST_BEFORE_KILL).await;
    }
    println!("reaction_ms={}", median(figures).ok_or("nothing runs")?);
    Ok(())
}

/// The cost of a wake of this process, which touches hardly more than the stack then: the machine's part of every idle
/// figure.
async fn idle(seconds: u64) -> Outcome<()> {
    let cpu_ns = || -> Outcome<u64> {
        let text = fs::read_to_string("/proc/thread-self/schedstat")?;
        Ok(text.split_whitespace().next().ok_or("no schedstat")?.parse()?)
    };
    let before = cpu_ns()?;
    for _ in 0..seconds {
        pause(Duration::from_secs(1)).await;
    }
    println!("wake_us={}", (cpu_ns()? - before) / seconds.max(1) / 1000);
    Ok(())
}

async fn floor(client: &Client, pods: usize) -> Outcome<()> {
    let (mut singles, mut figures) = (vec![], vec![]);
    for number in 0..SINGLE {
        pause(REST).await;
        let since = now_ms();
        let single = client.start(format!("single-{number}")).await?;
        figures.push(client.started(&single.1).await?.saturating_sub(since));
        singles.push(single);
    }
    println!("single_ms={}", median(figures).unwrap_or_default());
    let mut figures = vec![];
    for (number, (sandbox, container)) in singles.iter().enumerate() {
        pause(REST_BEFORE_KILL).await;
        figures.extend(client.replace(&format!("single-{number}"), sandbox, container).await?);
    }
    println!("reaction_ms={}", median(figures).map_or_else(|| "-".to_owned(), |figure| figure.to_string()));
    pause(REST).await;
    let since = now_ms();
    let burst = try_join_all((0..pods).map(|number| client.start(format!("burst-{number}")))).await?;
    let mut last = 0;
    for (_, container) in &burst {
        last = last.max(client.started(container).await?);
    }
    println!("burst_ms={}", last.saturating_sub(since));
    pause(REST_BEFORE_DELETE).await;
    let since = now_ms();
    try_join_all(burst.iter().map(|(sandbox, container)| client.remove(sandbox, container))).await?;
    println!("delete_ms={}", now_ms() - since);
    for (sandbox, container) in &singles {
        client.remove(sandbox, container).await?;
    }
    Ok(())
}

async fn connect(endpoint: &str) -> Outcome<GrpcRuntime> {
    let runtime = GrpcRuntime::connect(endpoint, "", Duration::from_secs(120), Arc::new(Unobserved))?;
    runtime.check_runtime().await?;
    Ok(runtime)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["floor", endpoint, image, pods, log_dir, cgroup_parent] => {
            let client = Client {
                runtime: Arc::new(connect(endpoint).await?),
                image: (*image).to_owned(),
                log_dir: (*log_dir).to_owned(),
                cgroup_parent: (*cgroup_parent).to_owned(),
            };
            floor(&client, pods.parse()?).await
        }
        ["running", endpoint, count, since] => {
            wait_running(&connect(endpoint).await?, count.parse()?, since.parse()?).await
        }
        ["kill", endpoint, count] => kill_some(&connect(endpoint).await?, count.parse()?).await,
        ["idle", seconds] => idle(seconds.parse()?).await,
        _ => Err("usage: bare_client floor|running|kill|idle ...; see the head of its source".into()),
    }
}
