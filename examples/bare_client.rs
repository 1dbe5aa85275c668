//! What the runtime alone takes: the calls that starting pods needs, and nothing else. `make bench` sets the agent's times
//! beside these.
//!
//! ```text
//! bare_client ENDPOINT IMAGE PODS LOG_DIR CGROUP_PARENT
//! ```
//! Starts one pod after the other, then PODS at once, kills a container, and removes all. Prints milliseconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use podwright::cri::grpc::GrpcRuntime;
use podwright::cri::instrumented::Unobserved;
use podwright::cri::{
    ContainerConfig, ContainerMetadata, CriResult, ImageService, ImageSpec, LinuxPodSandboxConfig, PodSandboxConfig,
    PodSandboxMetadata, RuntimeService,
};
use podwright::logic::ids::{ContainerId, SandboxId};

/// Pods that are started one after the other; the median counts.
const SINGLE: usize = 5;

struct Client {
    runtime: Arc<GrpcRuntime>,
    image: String,
    log_dir: String,
    cgroup_parent: String,
}

impl Client {
    fn sandbox(&self, name: &str) -> PodSandboxConfig {
        PodSandboxConfig {
            metadata: PodSandboxMetadata {
                name: name.to_owned(),
                uid: format!("uid-{name}"),
                namespace: "bare".to_owned(),
                attempt: 0,
            },
            hostname: name.to_owned(),
            log_directory: format!("{}/{name}", self.log_dir),
            linux: LinuxPodSandboxConfig { cgroup_parent: self.cgroup_parent.clone(), ..Default::default() },
            ..PodSandboxConfig::default()
        }
    }

    /// The calls of one pod's start, in the agent's order, as much side by side as they can be.
    async fn start(&self, name: String) -> CriResult<(SandboxId, ContainerId)> {
        let config = self.sandbox(&name);
        let spec = ImageSpec { image: self.image.clone(), ..ImageSpec::default() };
        let (sandbox, image) =
            futures_util::try_join!(self.runtime.run_pod_sandbox(&config, ""), self.runtime.image_status(&spec))?;
        self.runtime.pod_sandbox_status(&sandbox).await?;
        let container = ContainerConfig {
            metadata: ContainerMetadata { name: "c".to_owned(), attempt: 0 },
            image: ImageSpec { image: image.map(|image| image.id).unwrap_or_default(), ..ImageSpec::default() },
            command: vec!["sleep".to_owned(), "100000".to_owned()],
            log_path: "c.log".to_owned(),
            ..ContainerConfig::default()
        };
        let id = self.runtime.create_container(&sandbox, &container, &config).await?;
        self.runtime.start_container(&id).await?;
        Ok((sandbox, id))
    }

    async fn remove(&self, sandbox: &SandboxId, container: &ContainerId) -> CriResult<()> {
        self.runtime.stop_container(container, Duration::from_secs(2)).await?;
        self.runtime.stop_pod_sandbox(sandbox).await?;
        self.runtime.remove_pod_sandbox(sandbox).await
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now() -> Instant {
    Instant::now()
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, image, pods, log_dir, cgroup_parent] = args.as_slice() else {
        return Err("usage: bare_client ENDPOINT IMAGE PODS LOG_DIR CGROUP_PARENT".into());
    };
    let pods: usize = pods.parse()?;
    let runtime = GrpcRuntime::connect(endpoint, "", Duration::from_secs(120), Arc::new(Unobserved))?;
    runtime.check_runtime().await?;
    let client = Client {
        runtime: Arc::new(runtime),
        image: image.clone(),
        log_dir: log_dir.clone(),
        cgroup_parent: cgroup_parent.clone(),
    };
    for number in 0..pods.max(SINGLE) {
        std::fs::create_dir_all(format!("{log_dir}/burst-{number}"))?;
        std::fs::create_dir_all(format!("{log_dir}/single-{number}"))?;
    }
    let mut started = vec![];
    let mut singles = vec![];
    for number in 0..SINGLE {
        let since = now();
        started.push(client.start(format!("single-{number}")).await?);
        singles.push(since.elapsed());
    }
    singles.sort();
    println!("single_ms={}", singles[SINGLE / 2].as_millis());
    let since = now();
    let burst = try_join_all((0..pods).map(|number| client.start(format!("burst-{number}")))).await?;
    println!("burst_ms={}", since.elapsed().as_millis());
    let since = now();
    try_join_all(burst.iter().map(|(sandbox, container)| client.remove(sandbox, container))).await?;
    println!("delete_ms={}", since.elapsed().as_millis());
    for (sandbox, container) in &started {
        client.remove(sandbox, container).await?;
    }
    Ok(())
}
