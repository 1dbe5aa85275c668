//! [`Statistics`] on Linux. Keeps open the roots of the hierarchies and `/proc`, and the counts of open files.

mod silence;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use self::silence::FILE_SYSTEM_MAX;
use super::alarm::{AlarmError, Armed};
use super::files::Reader;
use super::groups::{Groups, Hierarchies};
use super::open_files::{Counts, OpenFiles};
use super::processes::Processes;
use super::tools::{Tools, open_root};
use super::walk::{Stopped, walk};
use super::{Haste, LookOrder, SampleError, Statistics, WalkOutcome, WalkPlace, Walked, disks, host, layers};
use crate::logic::eviction::alarm::WatchedGroup;
use crate::logic::model::time::Moment;
use crate::logic::resources::CgroupVersion;
use crate::logic::resources::cgroup_name::{CgroupDriver, CgroupTree};
use crate::logic::statistics::figures::{FileSystem, Usage};
use crate::logic::statistics::groupless::GrouplessContainer;
use crate::logic::statistics::sample::{Depth, Group, Machine, PodSample, RawSample, System, Wanted};
use crate::logic::statistics::volumes::{Measure, Space};
use crate::logic::statistics::walks::WalkKey;
use crate::platform::files::project_quotas::{Counted, ProjectQuotas};
use crate::platform::host::Host;
use crate::platform::host::blocking;
use crate::platform::host::clock::Clock;
use crate::platform::volumes::Patient;

/// How long the kernel's own figures are waited for.
const FIGURES_MAX: Duration = Duration::from_secs(20);
/// How much longer than its limit a walk may take, before its file system counts as one that does not answer.
const WALK_SLACK: Duration = Duration::from_secs(2);

/// Where everything is.
#[derive(Clone, Debug)]
pub struct Places {
    /// The root of the file system; another one in tests.
    pub root: PathBuf,
    /// The generation of control groups.
    pub version: CgroupVersion,
    /// The creator of the groups.
    pub driver: CgroupDriver,
    /// Where pods' are.
    pub tree: CgroupTree,
    /// Groups of daemons, by path; empty ones are not known. This agent's is looked up if it is empty.
    pub daemons: Vec<(System, String)>,
    /// The agent's directory.
    pub root_dir: PathBuf,
    /// `podLogsDir`.
    pub pod_logs: PathBuf,
}

/// See the module. Clones share what is open.
#[derive(Clone)]
pub struct LinuxStatistics {
    inner: Arc<Inner>,
    patient: Patient,
    /// Asks a file system; another function in tests.
    ask_disk: fn(&Path, &dyn Clock) -> Option<FileSystem>,
    /// Knows what counted volumes use.
    quotas: Option<ProjectQuotas>,
}

struct Inner {
    places: Places,
    hierarchies: Hierarchies,
    proc: Option<OwnedFd>,
    clock: Arc<dyn Clock>,
    machine: Machine,
    /// Of the last look that counted them; nothing while one does.
    open_files: Mutex<Counts>,
}

impl LinuxStatistics {
    /// Opens what it reads from.
    pub fn new(mut places: Places, clock: Arc<dyn Clock>) -> Self {
        let hierarchies = Hierarchies::open(&places.root.join("sys/fs/cgroup"), places.version);
        let proc = open_root(&places.root.join("proc"));
        let own = proc.as_ref().and_then(|proc| own_group(proc, places.version));
        for (kind, path) in &mut places.daemons {
            if let (System::Kubelet, true, Some(own)) = (*kind, path.is_empty(), &own) {
                path.clone_from(own);
            }
        }
        places.daemons.retain(|(_, path)| !path.is_empty());
        let machine = host::machine(&Host::at(places.root.clone()), &places.root.join("sys"));
        let patient = Patient::new(Arc::clone(&clock));
        Self {
            inner: Arc::new(Inner { places, hierarchies, proc, clock, machine, open_files: Mutex::default() }),
            patient,
            ask_disk: disks::file_system,
            quotas: None,
        }
    }

    /// Volumes that quotas count are not walked through.
    #[must_use]
    pub fn with_quotas(self, quotas: Option<ProjectQuotas>) -> Self {
        Self { quotas, ..self }
    }

    /// The counted volumes, looked for before a round of walks; `None` where nothing is counted.
    async fn counting(&self) -> Option<Counting> {
        let quotas = self.quotas.clone()?;
        blocking::run(move || match quotas.counted() {
            Ok(counted) => Some(Counting { quotas, counted }),
            Err(error) => {
                tracing::debug!(%error, "the file of projects cannot be read, all volumes are walked through");
                None
            }
        })
        .await
    }
}

/// The volumes that quotas count.
struct Counting {
    quotas: ProjectQuotas,
    counted: Counted,
}

impl Counting {
    /// The use of a volume, if it is counted.
    fn usage(&self, volume: &OwnedFd, path: &Path, now: Moment) -> Option<Usage> {
        let usage = self.quotas.usage(volume, path, &self.counted);
        let usage = usage.inspect_err(|error| tracing::debug!(path = %path.display(), %error, "quota is not told"));
        usage.ok().flatten().map(|usage| Usage { at: now, bytes: usage.bytes, inodes: usage.inodes })
    }
}

#[async_trait]
impl Statistics for LinuxStatistics {
    async fn look(&self, order: LookOrder) -> Result<RawSample, SampleError> {
        let (inner, wanted, pods) = (Arc::clone(&self.inner), order.wanted, order.pods.clone());
        let key = format!("figures of the node ({:?})", wanted.depth);
        let look = self.in_time(FIGURES_MAX, key, "read", move || inner.look(wanted, pods));
        let mut sample = look.await.unwrap_or(Err(SampleError::Silent(FIGURES_MAX)))?;
        if wanted.disks {
            self.add_disks(&mut sample, order).await;
        }
        Ok(sample)
    }

    async fn memory_runs_short(&self, watched: Vec<WatchedGroup>) -> Result<(), AlarmError> {
        let inner = Arc::clone(&self.inner);
        let armed = blocking::run(move || Armed::all(&inner.hierarchies, inner.proc.as_ref(), &watched)).await?;
        armed.fired().await
    }

    async fn walk(&self, places: Vec<(WalkKey, WalkPlace)>, haste: Haste) -> Vec<Walked> {
        let clock = &self.inner.clock;
        let until = clock.uptime().saturating_add(haste.limit());
        let has_pauses = matches!(haste, Haste::Beside(_));
        let mut walked = vec![];
        let is_layer = |place: &WalkPlace| matches!(place, WalkPlace::Layer(_));
        let uppers = if places.iter().any(|(_, place)| is_layer(place)) {
            let inner = Arc::clone(&self.inner);
            Arc::new(blocking::run(move || inner.upper_directories()).await)
        } else {
            Arc::default()
        };
        let counting = Arc::new(self.counting().await);
        for (key, place) in places {
            let began = clock.uptime();
            if began >= until {
                break;
            }
            let inner = Arc::clone(&self.inner);
            let limit = until.saturating_sub(began).saturating_add(WALK_SLACK);
            let (outcome, cpu) = match place {
                WalkPlace::Layer(id) => {
                    let (uppers, of) = (Arc::clone(&uppers), format!("the layer of {id}"));
                    let walk = move || inner.layer(uppers.get(id.as_str()), until, has_pauses);
                    self.walk_one(limit, of, walk).await
                }
                WalkPlace::Volume(path, Measure::Walk) => {
                    let (counting, of) = (Arc::clone(&counting), path.clone());
                    let walk = move || inner.volume(Path::new(&path), counting.as_ref().as_ref(), until, has_pauses);
                    self.walk_one(limit, of, walk).await
                }
                WalkPlace::Volume(path, Measure::FileSystem) => (self.file_system(path).await, Duration::ZERO),
            };
            walked.push(Walked { key, took: clock.uptime().saturating_sub(began), cpu, outcome });
        }
        walked
    }
}

/// Does something, and says how much of the processor it took.
fn metered<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began_ns = thread_cpu_ns();
    let done = work();
    (done, Duration::from_nanos(thread_cpu_ns().saturating_sub(began_ns)))
}

/// Processor time of this thread, in ns.
fn thread_cpu_ns() -> u64 {
    let told = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    let told = told.map(Duration::from).expect("invariant: Linux has this clock");
    u64::try_from(told.as_nanos()).unwrap_or(0)
}

impl LinuxStatistics {
    /// A walk, on a thread of its own: its file system may not answer.
    async fn walk_one(
        &self,
        limit: Duration,
        of: String,
        walk: impl FnOnce() -> WalkOutcome + Send + 'static,
    ) -> (WalkOutcome, Duration) {
        let walked = self.in_time(limit, of, "walk through", move || metered(walk)).await;
        walked.unwrap_or_else(|| (WalkOutcome::Failed("its file system does not answer".to_owned()), Duration::ZERO))
    }

    /// Asked on a thread of its own: it may not answer.
    async fn file_system(&self, path: String) -> WalkOutcome {
        let (inner, key) = (Arc::clone(&self.inner), format!("statistics of {path}"));
        let call = self
            .patient
            .run(key, "look at the file system of", move || Ok(disks::file_system(Path::new(&path), &*inner.clock)));
        match tokio::time::timeout(FILE_SYSTEM_MAX, call).await {
            Ok(Ok(Some(file_system))) => WalkOutcome::Volume(Space { file_system, usage: None }),
            Ok(Ok(None)) => WalkOutcome::NotHere,
            Ok(Err(error)) => WalkOutcome::Failed(error.to_string()),
            Err(_) => WalkOutcome::Failed("its file system does not answer".to_owned()),
        }
    }
}

impl Inner {
    /// The figures of the kernel alone, which are on no disk.
    fn look(&self, wanted: Wanted, pods: Vec<PodSample>) -> Result<RawSample, SampleError> {
        let proc = self.proc.as_ref().ok_or(SampleError::NoProc)?;
        let mut counts = Counts::default();
        if wanted.depth == Depth::Everything {
            std::mem::swap(&mut counts, &mut self.open_files.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let processes = Processes::new(proc, OpenFiles::new(proc, counts, self.clock.uptime()));
        let mut tools = Tools { reader: Reader::new(), processes, clock: &*self.clock, depth: wanted.depth };
        let (at, began_ns) = (self.clock.now(), thread_cpu_ns());
        let mut groups = self.hierarchies.groups();
        let node = host::node(&mut groups, proc, &self.machine, &mut tools)?;
        let systems = self.systems(wanted, &mut groups, &mut tools);
        let mut sample = RawSample { at, node, systems, ..RawSample::default() };
        let has_pods = self.places.tree.per_qos() && !pods.is_empty();
        let of_pods = if has_pods { groups.pods(&self.places.tree, self.places.driver) } else { BTreeMap::new() };
        // Without groups of pods the runtime alone decides where containers are.
        let anywhere = if has_pods || pods.is_empty() { BTreeMap::new() } else { groups.find(&ids_of(&pods)) };
        for mut pod in pods {
            match of_pods.get(&pod.uid) {
                Some(path) => {
                    pod.group = groups.read(path, &mut tools);
                    let of_containers = groups.containers(path);
                    add_containers(&mut pod, &of_containers, &mut groups, &mut tools);
                }
                None => add_containers(&mut pod, &anywhere, &mut groups, &mut tools),
            }
            if has_pods {
                sample.groupless.extend(groupless(&pod));
            }
            // A container without a group has ended since the runtime was asked, or nobody knows what it uses.
            if pod.group.is_some() || pod.containers.iter().any(|container| container.group.is_some()) {
                pod.containers.retain(|container| container.group.is_some());
            }
            sample.pods.push(pod);
        }
        if wanted.depth == Depth::Everything {
            *self.open_files.lock().unwrap_or_else(PoisonError::into_inner) = tools.processes.into_counts();
        }
        sample.cpu_ns = thread_cpu_ns().saturating_sub(began_ns);
        Ok(sample)
    }

    fn systems(&self, wanted: Wanted, groups: &mut Groups<'_>, tools: &mut Tools<'_>) -> Vec<(System, Group)> {
        let (tree, driver) = (&self.places.tree, self.places.driver);
        let daemons = (wanted.depth > Depth::Memory).then_some(&self.places.daemons);
        let mut paths: Vec<_> = daemons.into_iter().flatten().cloned().collect();
        paths.push((System::Pods, tree.pods().path(driver)));
        if wanted.depth == Depth::Everything {
            paths.extend(Hierarchies::tiers(tree, driver).into_iter().map(|path| (System::Tier, path)));
        }
        paths.into_iter().filter_map(|(kind, path)| Some((kind, groups.read(&path, tools)?))).collect()
    }

    fn upper_directories(&self) -> BTreeMap<String, String> {
        let mut reader = Reader::new();
        let table = self.proc.as_ref().and_then(|proc| reader.read(proc, "self/mountinfo"));
        table.map(layers::upper_directories).unwrap_or_default()
    }

    fn layer(&self, upper: Option<&String>, until: Duration, has_pauses: bool) -> WalkOutcome {
        let Some(upper) = upper.and_then(|upper| disks::open(Path::new(upper))) else { return WalkOutcome::NotHere };
        outcome(walk(upper, &*self.clock, until, has_pauses), WalkOutcome::Layer)
    }

    fn volume(&self, path: &Path, counting: Option<&Counting>, until: Duration, has_pauses: bool) -> WalkOutcome {
        let Some(here) = disks::open(path) else { return WalkOutcome::NotHere };
        let Some(file_system) = disks::file_system(path, &*self.clock) else { return WalkOutcome::NotHere };
        let volume = |usage| WalkOutcome::Volume(Space { file_system, usage: Some(usage) });
        match counting.and_then(|counting| counting.usage(&here, path, self.clock.now())) {
            Some(usage) => volume(usage),
            None => outcome(walk(here, &*self.clock, until, has_pauses), volume),
        }
    }
}

fn outcome(walked: Result<Usage, Stopped>, done: impl FnOnce(Usage) -> WalkOutcome) -> WalkOutcome {
    match walked {
        Ok(usage) => done(usage),
        Err(Stopped::Unfinished) => WalkOutcome::Unfinished,
        Err(Stopped::Failed(problem)) => WalkOutcome::Failed(problem),
    }
}

/// The sandboxes and containers of pods.
fn ids_of(pods: &[PodSample]) -> BTreeSet<String> {
    let of_pod = |pod: &PodSample| {
        let containers = pod.containers.iter().map(|container| container.id.as_str().to_owned());
        containers.chain([pod.sandbox.id.as_str().to_owned()]).collect::<Vec<_>>()
    };
    pods.iter().flat_map(of_pod).collect()
}

/// Reads the groups of the pod's sandbox and containers, which are at these places.
fn add_containers(
    pod: &mut PodSample,
    places: &BTreeMap<String, String>,
    groups: &mut Groups<'_>,
    tools: &mut Tools<'_>,
) {
    if tools.depth > Depth::Resources
        && let Some(path) = places.get(pod.sandbox.id.as_str())
    {
        pod.sandbox.group = groups.read(path, tools);
        if let Some(group) = &mut pod.sandbox.group {
            group.figures.created = Some(pod.created);
        }
    }
    if tools.depth > Depth::Resources && !pod.sandbox.host_network {
        // A runtime may keep no process for the sandbox: all of a pod's containers have its network.
        let ids = [pod.sandbox.id.as_str()].into_iter().chain(pod.containers.iter().map(|one| one.id.as_str()));
        pod.sandbox.interfaces = ids.filter_map(|id| places.get(id)).find_map(|path| {
            let pids = groups.pids_of_container(path, &mut tools.reader)?;
            tools.processes.interfaces(pids)
        });
    }
    for container in &mut pod.containers {
        let path = places.get(container.id.as_str());
        container.group = path.and_then(|path| groups.read(path, tools));
        if let Some(group) = &mut container.group {
            group.figures.created = Some(container.created);
        }
    }
}

/// The containers of the pod whose group is not there.
fn groupless(pod: &PodSample) -> impl Iterator<Item = GrouplessContainer> {
    pod.containers.iter().filter(|container| container.group.is_none()).map(|container| GrouplessContainer {
        id: container.id.clone(),
        name: format!("{}/{}/{}", pod.namespace, pod.name, container.name),
    })
}

/// The group that this process is in; of several hierarchies the one for memory counts.
fn own_group(proc: &OwnedFd, version: CgroupVersion) -> Option<String> {
    let mut reader = Reader::new();
    let text = String::from_utf8_lossy(reader.read(proc, "self/cgroup")?).into_owned();
    let path = text.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_it = match version {
            CgroupVersion::V1 => controllers.split(',').any(|controller| controller == "memory"),
            CgroupVersion::V2 => controllers.is_empty(),
        };
        is_it.then(|| path.to_owned())
    });
    path.filter(|path| path != "/")
}

#[cfg(test)]
mod tests;
