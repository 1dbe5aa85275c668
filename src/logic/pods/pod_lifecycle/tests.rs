//! The pod's life, checked without a runtime: named cases, and properties against a small model of one.

mod absent;
mod back_offs;
mod cases;
mod claims;
mod clock;
mod deletion;
mod demands;
mod model;
mod properties;
mod resizing;
mod starts;
mod volumes;
mod waits;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use litemap::LiteMap;

use super::syncing::NETWORK_RETRY;
use super::*;
use crate::logic::images::image_policy::ImageInUse;
use crate::logic::model::ids::{FullName, SandboxId};
use crate::logic::model::runtime_pod::{
    ContainerProcess, ContainerState, RuntimeContainer, RuntimeSandbox, SandboxState,
};
use crate::logic::model::start_reason::StartReason;
use crate::logic::model::time::Moment;
use crate::logic::pods::container_actions::StartContainer;

/// Where the tests' wall clock begins.
const BEGINNING: Moment = Moment(1_700_000_000_000_000_000);

fn a_container(name: &str, image: &str) -> Container {
    Container { name: name.to_owned(), image: Some(image.to_owned()), ..Container::default() }
}

/// A pod with a grace period of 30 s.
fn a_pod(policy: &str, init: &[&str], regular: &[&str]) -> Pod {
    let list = |names: &[&str]| names.iter().map(|name| a_container(name, "app:1")).collect::<Vec<_>>();
    Pod {
        metadata: ObjectMeta {
            name: Some("web".to_owned()),
            namespace: Some("default".to_owned()),
            uid: Some("u1".to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            restart_policy: Some(policy.to_owned()),
            termination_grace_period_seconds: Some(30),
            init_containers: (!init.is_empty()).then(|| list(init)),
            containers: list(regular),
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}

fn with_image(mut pod: Pod, container: &str, image: &str) -> Pod {
    let spec = pod.spec.as_mut().expect("has a spec");
    let all = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
    all.filter(|other| other.name == container).for_each(|other| other.image = Some(image.to_owned()));
    pod
}

/// A worker's decisions, fed by hand. The script writes actions as words.
struct Script {
    life: PodLifecycle,
    stamp: u64,
    moment: Moment,
    uptime: Duration,
    machine_uptime: Duration,
    /// The last remains that were to be removed.
    remains: Remains,
    /// The last objects that were asked about.
    absent: Absent,
}

impl Script {
    /// The pod's waits, in words.
    fn waits(&self) -> Vec<String> {
        self.life.waits().map(ToString::to_string).collect()
    }

    /// The failure, in words.
    fn problem(&self) -> Option<String> {
        self.life.problem().map(|problem| problem.to_string())
    }

    /// A worker that has the pod and a well runtime, and has seen nothing.
    fn unseen(pod: Pod) -> Self {
        let mut script = Self::stranger();
        let actions = script.step(Input::Spec(Arc::new(pod)));
        assert_eq!(actions, ["inspect"]);
        script
    }

    /// A worker that also saw that the runtime holds nothing of the pod.
    fn new(pod: Pod) -> (Self, Vec<String>) {
        let mut script = Self::unseen(pod);
        let actions = script.sees(&[], &[]);
        (script, actions)
    }

    /// A worker of a pod that only the runtime knows.
    fn stranger() -> Self {
        let life = PodLifecycle::new(BackoffPolicy::crash_loop(Duration::from_secs(300)), Stamp(1));
        Self {
            life,
            stamp: 1,
            moment: BEGINNING,
            uptime: Duration::ZERO,
            machine_uptime: Duration::MAX,
            remains: Remains::default(),
            absent: Absent::default(),
        }
    }

    /// A worker whose pod runs all that it should.
    fn running(pod: Pod) -> Self {
        let names: Vec<String> = parts::desired::expected_hashes(&pod).keys().cloned().collect();
        let containers: Vec<_> = names.iter().map(|name| running(&pod, name, 0)).collect();
        let mut script = Self::unseen(pod);
        assert_eq!(script.sees(&[ready(0)], &containers), ["prepare"]);
        assert_eq!(script.ends(JobEnd::Prepared(Ok(false))), [""; 0]);
        script
    }

    fn now(&mut self) -> Now {
        self.stamp += 1;
        let Self { moment, uptime, machine_uptime, .. } = *self;
        Now { moment, uptime, machine_uptime, stamp: Stamp(self.stamp), jitter: 0.0 }
    }

    fn step(&mut self, input: Input) -> Vec<String> {
        let now = self.now();
        let actions = self.life.step(input, now);
        for action in &actions {
            match action {
                Action::Remove(remains) => self.remains = remains.clone(),
                Action::Confirm(absent) => self.absent = absent.clone(),
                _ => {}
            }
        }
        actions.iter().map(words).collect()
    }

    /// The remains are removed, or not.
    fn remains_go(&mut self, outcome: Result<(), String>) -> Vec<String> {
        self.ends(JobEnd::RemainsRemoved(self.remains.clone(), outcome))
    }

    /// The runtime is asked about what was absent, and has these of it.
    fn confirms(&mut self, sandboxes: &[RuntimeSandbox], containers: &[RuntimeContainer]) -> Vec<String> {
        let found = Found { sandboxes: sandboxes.to_vec(), containers: containers.to_vec() };
        self.ends(JobEnd::Confirmed(self.absent.clone(), Ok(found)))
    }

    /// All that is left goes well, to the end.
    fn goes(&mut self) {
        assert_eq!(self.ends(JobEnd::CleanedUp(Ok(()))), ["over"]);
        assert_eq!(self.remains_go(Ok(())), ["remove [] and directory"]);
        assert_eq!(self.remains_go(Ok(())), ["finish"]);
    }

    fn ends(&mut self, end: JobEnd) -> Vec<String> {
        self.step(Input::Ended(end))
    }

    /// Sees the runtime as it is now.
    fn sees(&mut self, sandboxes: &[RuntimeSandbox], containers: &[RuntimeContainer]) -> Vec<String> {
        let seen = self.look(sandboxes, containers);
        self.step(Input::Observed(seen))
    }

    /// An observation taken now, for use now or later.
    fn look(&mut self, sandboxes: &[RuntimeSandbox], containers: &[RuntimeContainer]) -> Arc<RuntimePod> {
        self.stamp += 1;
        let mut seen = RuntimePod::empty("u1".into(), FullName::new("web", "default"), Stamp(self.stamp));
        (seen.sandboxes, seen.containers) = (sandboxes.to_vec(), containers.to_vec());
        Arc::new(seen)
    }

    /// Lets time pass.
    fn elapse(&mut self, seconds: u64) {
        self.moment = self.moment.plus(Duration::from_secs(seconds));
        self.uptime += Duration::from_secs(seconds);
    }

    /// Lets time pass; then a wait is over.
    fn passes(&mut self, seconds: u64) -> Vec<String> {
        self.elapse(seconds);
        self.step(Input::Due)
    }

    fn removed(&mut self, grace: Option<u64>) -> Vec<String> {
        self.step(Input::Removed { grace: grace.map(Duration::from_secs) })
    }

    /// Seconds until something is due.
    fn wakes_in(&self) -> Option<f64> {
        self.life.wake_at().map(|until| until.since(Steady::at(self.uptime)).as_secs_f64())
    }
}

/// An action in a few words: the job and what it is about.
fn words(action: &Action) -> String {
    let join = |ids: &[ContainerId]| ids.iter().map(ContainerId::as_str).collect::<Vec<_>>().join(" ");
    match action {
        Action::Prepare { anew } => if *anew { "prepare anew" } else { "prepare" }.to_owned(),
        Action::MountVolumes => "volumes".to_owned(),
        Action::PrepareClaims { attempt } => format!("claims {attempt}"),
        Action::ReleaseClaims => "release claims".to_owned(),
        Action::SetUpSandbox { attempt } => format!("sandbox {attempt}"),
        Action::EnsureImage { container } => format!("image {container}"),
        Action::StartContainer { start, sandbox, image } => {
            format!("start {} {} in {} of {}", start.name, start.restart_count, sandbox.id, image.reference)
        }
        Action::KillContainer { id, grace, .. } => format!("kill {id} {}s", grace.as_secs()),
        Action::RemoveContainers(ids) => format!("remove {}", join(ids)),
        Action::ResetContainers(all) => {
            let ids: Vec<&str> = all.iter().map(|reset| reset.id.as_str()).collect();
            format!("reset {}", ids.join(" "))
        }
        Action::Resize(work) => {
            let names: Vec<&str> = work.updates.iter().map(|update| update.name.as_str()).collect();
            format!("resize [{}]{}", names.join(" "), if work.pod.is_some() { " and pod" } else { "" })
        }
        Action::KillPod { containers, sandboxes, grace, replace } => {
            let sandbox = |stop: &StopSandbox| format!("{}{}", stop.id, if stop.may_fail { "?" } else { "" });
            let ids = containers.iter().map(|(id, _)| id.to_string()).chain(sandboxes.iter().map(sandbox));
            let what: Vec<String> = ids.collect();
            let verb = if *replace { "replace" } else { "end" };
            format!("{verb} [{}] {}s", what.join(" "), grace.as_secs())
        }
        Action::Confirm(Absent { sandboxes, containers }) => {
            let ids = sandboxes.iter().map(SandboxId::as_str).chain(containers.keys().map(ContainerId::as_str));
            format!("confirm {}", ids.collect::<Vec<_>>().join(" "))
        }
        Action::CleanUp => "clean".to_owned(),
        Action::Remove(Remains { sandboxes, containers, directory }) => {
            let ids = sandboxes.iter().map(SandboxId::as_str).chain(containers.iter().map(ContainerId::as_str));
            let what: Vec<&str> = ids.collect();
            format!("remove [{}]{}", what.join(" "), if *directory { " and directory" } else { "" })
        }
        Action::Over => "over".to_owned(),
        Action::Cancel(job) => format!("cancel {job:?}"),
        Action::Leave(container) => format!("leave {container}"),
        Action::Inspect => "inspect".to_owned(),
        Action::InspectSoon => "inspect soon".to_owned(),
        Action::NetworkNotReady(_) => "network".to_owned(),
        Action::Finish => "finish".to_owned(),
    }
}

fn ready(attempt: u32) -> RuntimeSandbox {
    RuntimeSandbox {
        id: format!("s{attempt}").into(),
        attempt,
        state: SandboxState::Ready,
        created_at: BEGINNING,
        host_network: false,
        ips: vec!["10.0.0.1".to_owned()],
        lacks_address: false,
    }
}

fn stopped(attempt: u32) -> RuntimeSandbox {
    RuntimeSandbox { state: SandboxState::NotReady, ips: vec![], ..ready(attempt) }
}

/// The container's instance numbered `restart_count`, made from this pod.
fn running(pod: &Pod, name: &str, restart_count: u32) -> RuntimeContainer {
    RuntimeContainer {
        sandbox_id: "s0".into(),
        restart_count,
        hash: parts::desired::expected_hashes(pod).remove(name).expect("a container of the pod"),
        created_at: BEGINNING,
        started_at: BEGINNING,
        process: ContainerProcess::of_image("app:1"),
        ..RuntimeContainer::sample(&format!("{name}{restart_count}"), name, ContainerState::Running)
    }
}

fn exited(container: &RuntimeContainer, exit_code: i32, finished_at: Moment) -> RuntimeContainer {
    RuntimeContainer { state: ContainerState::Exited, exit_code, finished_at, ..container.clone() }
}

fn image_there(container: &str) -> JobEnd {
    let image = ImageInUse { reference: "app:1".to_owned(), ..ImageInUse::default() };
    JobEnd::ImageEnsured(container.to_owned(), Ok(image))
}

fn started(container: &str, id: &str) -> JobEnd {
    let restart_count = id.trim_start_matches(container).parse().expect("a name that ends with the count");
    JobEnd::Started(container.to_owned(), Ok(Started { id: id.into(), restart_count, seen: None }))
}

fn start_failed(container: &str) -> JobEnd {
    let failure = StartFailure { reason: StartReason::RunContainerError, message: "no such file".to_owned() };
    JobEnd::Started(container.to_owned(), Err(failure))
}
