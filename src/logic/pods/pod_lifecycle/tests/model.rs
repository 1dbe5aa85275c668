//! A node in small: one pod's lifecycle beside the truth that it works on, jobs that end in any order, and observations
//! that come late or never. Checks after every step what must always hold.

use std::collections::VecDeque;

use super::*;

/// Observations kept for later use.
const LOOKS_MAX: usize = 8;

/// How a job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// As it should.
    Well,
    /// It failed, and did nothing.
    InVain,
    /// It did what it should, and failed at the last moment.
    TooLate,
}

/// One thing that happens. Numbers choose among what is there.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A job does its work in the runtime, and has not ended.
    Works(usize),
    /// A job ends.
    Ends(usize, Fate),
    /// The runtime is looked at, and the account told.
    Seen,
    /// The runtime is looked at, and the account told, without some of what the pod is known to have.
    SeenInPart(usize),
    /// The runtime is looked at, and the account kept.
    Looked,
    /// A kept observation reaches the worker.
    ToldLate(usize),
    /// A container ends by itself.
    Exits(usize, i32),
    /// The sandbox dies, and all in it.
    SandboxDies,
    /// Time passes, and a wait may be over.
    Passes(u64),
    /// Nobody wants the pod any more.
    Removed(Option<u64>),
    /// The image of a container changes.
    NewImage(usize),
    /// A liveness probe fails.
    Unhealthy(usize),
    /// The network comes or goes.
    Network(bool),
    /// The runtime comes or goes.
    Runtime(bool),
}

/// A job, with the pod that it was begun for.
#[derive(Debug)]
struct Underway {
    action: Action,
    job: Job,
    hashes: LiteMap<String, String>,
    /// How it would end; set once its work is done.
    done: Option<JobEnd>,
}

/// See the module.
pub(super) struct Node {
    pub(super) life: PodLifecycle,
    pub(super) pod: Pod,
    stamp: u64,
    moment: Moment,
    uptime: Duration,
    made: u32,
    sandboxes: Vec<RuntimeSandbox>,
    containers: Vec<RuntimeContainer>,
    jobs: Vec<Underway>,
    looks: VecDeque<Arc<RuntimePod>>,
    asked: bool,
    pub(super) removed: bool,
    /// Its volumes and its cgroup were released.
    released: bool,
    pub(super) finished: bool,
    grace: Option<Duration>,
    stage: Stage,
    prepared: u32,
    /// Sandboxes that the runtime said it had stopped.
    stopped: BTreeSet<SandboxId>,
}

impl Node {
    pub(super) fn new(pod: Pod) -> Self {
        let life = PodLifecycle::new(BackoffPolicy::crash_loop(Duration::from_secs(300)), Stamp(1));
        let mut node = Self {
            life,
            pod: pod.clone(),
            stamp: 1,
            moment: BEGINNING,
            uptime: Duration::ZERO,
            made: 0,
            sandboxes: vec![],
            containers: vec![],
            jobs: vec![],
            looks: VecDeque::new(),
            asked: false,
            removed: false,
            released: false,
            finished: false,
            grace: None,
            stage: Stage::Syncing,
            prepared: 0,
            stopped: BTreeSet::new(),
        };
        node.step(Input::Spec(Arc::new(pod)));
        node
    }

    fn elapse(&mut self, time: Duration) {
        self.moment = self.moment.plus(time);
        self.uptime += time;
    }

    pub(super) fn happens(&mut self, event: &Event) {
        self.elapse(Duration::from_millis(1));
        match event {
            Event::Works(which) => {
                if let Some(which) = self.choose(*which) {
                    self.work(which);
                }
            }
            Event::Ends(which, fate) => {
                if let Some(which) = self.choose(*which) {
                    self.end(which, *fate);
                }
            }
            Event::Seen => self.see(),
            Event::SeenInPart(which) => self.see_in_part(*which),
            Event::Looked => {
                let look = self.look();
                self.looks.push_back(look);
                if self.looks.len() > LOOKS_MAX {
                    self.looks.pop_front();
                }
            }
            Event::ToldLate(which) => {
                if !self.looks.is_empty() {
                    let look = Arc::clone(&self.looks[which % self.looks.len()]);
                    self.step(Input::Observed(look));
                }
            }
            Event::Exits(which, code) => self.exit(*which, *code),
            Event::SandboxDies => self.stop_everything(),
            Event::Passes(seconds) => {
                self.elapse(Duration::from_secs(*seconds));
                self.step(Input::Due);
            }
            Event::Removed(grace) => {
                self.removed = true;
                self.step(Input::Removed { grace: grace.map(Duration::from_secs) });
            }
            Event::NewImage(which) => self.change_image(*which),
            Event::Unhealthy(which) => self.fail_a_probe(*which),
            Event::Network(there) => {
                let network_problem = (!there).then(|| "none".to_owned());
                self.step(Input::Health(RuntimeHealth {
                    runtime_problem: None,
                    network_problem,
                    ..RuntimeHealth::default()
                }));
            }
            Event::Runtime(there) => {
                let runtime_problem = (!there).then(|| "gone".to_owned());
                self.step(Input::Health(RuntimeHealth {
                    runtime_problem,
                    network_problem: None,
                    ..RuntimeHealth::default()
                }));
            }
        }
    }

    /// A container ends by itself.
    fn exit(&mut self, which: usize, code: i32) {
        let moment = self.moment;
        let mut running: Vec<_> = self.containers.iter_mut().filter(|one| is_running(one)).collect();
        let count = running.len().max(1);
        if let Some(one) = running.get_mut(which % count) {
            **one = exited(one, code, moment);
        }
    }

    /// A liveness probe fails.
    fn fail_a_probe(&mut self, which: usize) {
        let running: Vec<ContainerId> =
            self.containers.iter().filter(|one| is_running(one)).map(|one| one.id.clone()).collect();
        if !running.is_empty() {
            let container = running[which % running.len()].clone();
            self.step(Input::Probed { container, kind: ProbeKind::Liveness, healthy: false });
        }
    }

    /// From now on everything succeeds and every question is answered: runs until nothing is left to do.
    ///
    /// # Panics
    /// If it does not come to rest.
    pub(super) fn calms_down(&mut self) {
        self.happens(&Event::Network(true));
        let mut idle = 0;
        for _ in 0..400 {
            if !self.jobs.is_empty() {
                self.end(0, Fate::Well);
            } else if std::mem::take(&mut self.asked) {
                self.see();
            } else if idle < 3 {
                // All is quiet: what is left to happen is a change in the runtime not yet told, or a wait.
                self.see();
                self.happens(&Event::Passes(301));
                idle += 1;
                continue;
            } else {
                return;
            }
            idle = 0;
        }
        panic!("no rest: {:?} does {:?}, waits {:?}", self.stage, self.jobs, self.life.waits().collect::<Vec<_>>());
    }

    /// Whether anything of the pod runs.
    pub(super) fn is_alive(&self) -> bool {
        let ready = self.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready);
        ready || self.containers.iter().any(is_running)
    }

    /// Whether the runtime holds anything of the pod.
    pub(super) fn is_gone(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }

    /// Names of containers that run from the newest definition in a ready sandbox.
    pub(super) fn well_running(&self) -> Vec<&str> {
        let hashes = parts::desired::expected_hashes(&self.pod);
        let well = |one: &&RuntimeContainer| {
            let sandbox = self.sandboxes.iter().find(|sandbox| sandbox.id == one.sandbox_id);
            is_running(one)
                && hashes[&one.name] == one.hash
                && sandbox.is_some_and(|it| it.state == SandboxState::Ready)
        };
        let mut names: Vec<&str> = self.containers.iter().filter(well).map(|one| one.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    fn choose(&self, which: usize) -> Option<usize> {
        (!self.jobs.is_empty()).then(|| which % self.jobs.len())
    }

    fn step(&mut self, input: Input) {
        self.stamp += 1;
        let now = Now {
            moment: self.moment,
            uptime: self.uptime,
            machine_uptime: Duration::MAX,
            stamp: Stamp(self.stamp),
            jitter: 0.5,
        };
        let actions = self.life.step(input, now);
        self.check_progress();
        for action in actions {
            self.take(action);
        }
        assert!(self.life.wake_at().is_none_or(|until| until > Steady::at(self.uptime)), "a wait that is already over");
    }

    fn check_progress(&mut self) {
        assert!(self.life.stage() >= self.stage, "from {:?} back to {:?}", self.stage, self.life.stage());
        self.stage = self.life.stage();
        if let Some(before) = self.grace {
            assert!(self.life.grace().is_some_and(|grace| grace <= before), "the grace period grew from {before:?}");
        }
        self.grace = self.life.grace();
    }

    fn take(&mut self, action: Action) {
        match &action {
            Action::StartContainer { start, image, sandbox } => self.check_start(start, image, sandbox),
            Action::KillPod { grace, .. } => {
                assert!(self.stage == Stage::Syncing || Some(*grace) == self.grace, "not the grace period in force");
            }
            Action::CleanUp => self.check_stopped(),
            Action::Remove(_) => {
                assert!(self.removed, "removed although it is wanted");
                self.check_stopped();
            }
            Action::Over => {
                assert!(self.removed && self.released, "over although it is wanted, or before it was released");
            }
            Action::Cancel(job) => self.jobs.retain(|other| other.job != *job),
            Action::Inspect | Action::InspectSoon => self.asked = true,
            Action::Finish => {
                assert!(self.removed && self.released, "finished although it is wanted, or before it was released");
                self.finished = true;
            }
            _ => {}
        }
        let Some(job) = action.job() else { return };
        assert!(self.jobs.iter().all(|other| other.job != job), "a second {job:?}");
        self.jobs.push(Underway { action, job, hashes: parts::desired::expected_hashes(&self.pod), done: None });
    }

    fn check_stopped(&self) {
        assert!(!self.is_alive(), "cleaned while it runs");
        let stopped = self.sandboxes.iter().all(|sandbox| self.stopped.contains(&sandbox.id));
        assert!(stopped, "cleaned before its sandboxes were stopped");
    }

    fn check_start(&self, start: &StartContainer, image: &ImageInUse, sandbox: &RuntimeSandbox) {
        let name = &start.name;
        let twin = self.containers.iter().find(|one| one.name == *name && is_running(one));
        assert!(twin.is_none(), "{name} is started while {twin:?} runs");
        assert_eq!(image.reference, self.image_of(name), "{name} is started from another image than the pod's");
        let spec = self.pod.spec.as_ref().expect("has a spec");
        let has_volumes = spec.volumes.is_none() || self.life.volumes().is_some();
        assert!(has_volumes, "{name} is started without its pod's volumes");
        assert!(self.prepared > 0, "{name} is started before its pod's cgroup was set");
        let before = spec.init_containers.iter().flatten().take_while(|init| init.name != *name);
        for init in before {
            let here = |one: &&RuntimeContainer| one.sandbox_id == sandbox.id;
            let succeeded = self.containers.iter().filter(here).any(|one| one.name == init.name && one.exit_code == 0);
            assert!(succeeded, "{name} is started before {} has ended well in {}", init.name, sandbox.id);
        }
    }

    fn image_of(&self, name: &str) -> String {
        let spec = self.pod.spec.as_ref().expect("has a spec");
        let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
        all.find(|container| container.name == name).and_then(|container| container.image.clone()).unwrap_or_default()
    }

    fn change_image(&mut self, which: usize) {
        let names: Vec<String> = parts::desired::expected_hashes(&self.pod).keys().cloned().collect();
        self.made += 1;
        let image = format!("app:{}", 100 + self.made);
        self.pod = with_image(self.pod.clone(), &names[which % names.len()], &image);
        self.step(Input::Spec(Arc::new(self.pod.clone())));
    }

    fn look(&mut self) -> Arc<RuntimePod> {
        self.stamp += 1;
        let mut seen = RuntimePod::empty("u1".into(), FullName::new("web", "default"), Stamp(self.stamp));
        (seen.sandboxes, seen.containers) = (self.sandboxes.clone(), self.containers.clone());
        Arc::new(seen)
    }

    fn see(&mut self) {
        let look = self.look();
        self.step(Input::Observed(look));
    }

    /// Each third sandbox and container is left out, counted from a chosen one.
    fn see_in_part(&mut self, which: usize) {
        let mut seen = RuntimePod::clone(&self.look());
        let Some(known) = self.life.observed().cloned() else { return };
        let mut number = which;
        let mut is_left_out = |is_known: bool| {
            number += 1;
            is_known && number.is_multiple_of(3)
        };
        seen.sandboxes.retain(|one| !is_left_out(known.sandboxes.iter().any(|other| other.id == one.id)));
        seen.containers.retain(|one| !is_left_out(known.containers.iter().any(|other| other.id == one.id)));
        self.step(Input::Observed(Arc::new(seen)));
    }

    fn end(&mut self, which: usize, fate: Fate) {
        if fate != Fate::InVain {
            self.work(which);
        }
        let Underway { action, job, done, .. } = self.jobs.remove(which);
        if let (Action::KillPod { sandboxes, .. }, Fate::Well) = (action, fate) {
            self.stopped.extend(sandboxes.into_iter().map(|stop| stop.id));
        }
        let lost = || match &job {
            Job::StartContainer(container) if self.stage != Stage::Syncing => JobEnd::Left(container.clone()),
            _ => JobEnd::lost(job.clone(), "unwell".to_owned()),
        };
        let end = match fate {
            Fate::Well => done.unwrap_or_else(lost),
            Fate::InVain | Fate::TooLate => lost(),
        };
        if end == JobEnd::Prepared(Ok(true)) {
            self.prepared += 1;
        }
        self.step(Input::Ended(end));
    }

    /// Does the job's work, once.
    fn work(&mut self, which: usize) {
        let Underway { action, hashes, done, .. } = &self.jobs[which];
        if done.is_some() {
            return;
        }
        let (action, hashes) = (action.clone(), hashes.clone());
        let end = match action {
            Action::Prepare { anew } => JobEnd::Prepared(Ok(anew || self.prepared == 0)),
            Action::MountVolumes => volumes::mounted(),
            Action::PrepareClaims { .. } => JobEnd::ClaimsPrepared(Ok(())),
            Action::ReleaseClaims => JobEnd::ClaimsReleased(Ok(())),
            Action::SetUpSandbox { attempt } => self.set_up_sandbox(attempt),
            Action::EnsureImage { container } => {
                let image = ImageInUse { reference: self.image_of(&container), ..ImageInUse::default() };
                JobEnd::ImageEnsured(container, Ok(image))
            }
            Action::StartContainer { start, sandbox, .. } => self.start(&start, &sandbox, &hashes),
            Action::KillContainer { id, .. } => {
                self.stop(std::slice::from_ref(&id));
                JobEnd::Killed(id, Ok(()))
            }
            Action::RemoveContainers(ids) => {
                self.containers.retain(|one| !ids.contains(&one.id));
                JobEnd::Removed(Ok(()))
            }
            Action::ResetContainers(all) => {
                self.containers.retain(|one| all.iter().all(|reset| reset.id != one.id));
                JobEnd::Reset(Ok(()))
            }
            Action::Resize(_) => JobEnd::Resized(crate::logic::pods::pod_resize::ResizeReport::default()),
            Action::KillPod { containers, sandboxes, .. } => {
                let ids: Vec<ContainerId> = containers.into_iter().map(|(id, _)| id).collect();
                self.stop(&ids);
                let sandboxes: Vec<_> = sandboxes.into_iter().map(|stop| stop.id).collect();
                self.stop_sandboxes(&sandboxes);
                JobEnd::PodKilled(Ok(()))
            }
            Action::Confirm(asked) => self.confirm(asked),
            Action::CleanUp => {
                self.released = true;
                JobEnd::CleanedUp(Ok(()))
            }
            Action::Remove(remains) => {
                self.containers.retain(|one| !remains.containers.contains(&one.id));
                self.sandboxes.retain(|one| !remains.sandboxes.contains(&one.id));
                JobEnd::RemainsRemoved(remains, Ok(()))
            }
            Action::Cancel(_)
            | Action::Leave(_)
            | Action::Inspect
            | Action::InspectSoon
            | Action::NetworkNotReady(_)
            | Action::Over
            | Action::Finish => return,
        };
        self.jobs[which].done = Some(end);
    }

    fn set_up_sandbox(&mut self, attempt: u32) -> JobEnd {
        self.made += 1;
        let id = format!("s{attempt}-{}", self.made).into();
        let sandbox = RuntimeSandbox { id, created_at: self.moment, ..ready(attempt) };
        self.sandboxes.insert(0, sandbox.clone());
        JobEnd::SandboxUp(Ok(sandbox))
    }

    fn confirm(&self, asked: Absent) -> JobEnd {
        let sandboxes = self.sandboxes.iter().filter(|one| asked.sandboxes.contains(&one.id));
        let containers = self.containers.iter().filter(|one| asked.containers.contains_key(&one.id));
        let found = Found { sandboxes: sandboxes.cloned().collect(), containers: containers.cloned().collect() };
        JobEnd::Confirmed(asked, Ok(found))
    }

    fn start(&mut self, start: &StartContainer, sandbox: &RuntimeSandbox, hashes: &LiteMap<String, String>) -> JobEnd {
        let alive = self.sandboxes.iter().any(|one| one.id == sandbox.id && one.state == SandboxState::Ready);
        if !alive {
            return start_failed(&start.name);
        }
        self.made += 1;
        let made = running(&self.pod, &start.name, start.restart_count);
        let id = ContainerId::from(format!("{}{}-{}", start.name, start.restart_count, self.made));
        let (id, sandbox_id) = (id, sandbox.id.clone());
        let hash = hashes[&start.name].clone();
        let (created_at, started_at) = (self.moment, self.moment);
        let container = RuntimeContainer { id: id.clone(), sandbox_id, hash, created_at, started_at, ..made };
        self.containers.insert(0, container);
        JobEnd::Started(start.name.clone(), Ok(Started { id, restart_count: start.restart_count, seen: None }))
    }

    fn stop(&mut self, ids: &[ContainerId]) {
        let moment = self.moment;
        let chosen = self.containers.iter_mut().filter(|one| ids.contains(&one.id) && is_running(one));
        chosen.for_each(|one| *one = exited(one, 137, moment));
    }

    fn stop_sandboxes(&mut self, ids: &[SandboxId]) {
        let inside: Vec<ContainerId> =
            self.containers.iter().filter(|one| ids.contains(&one.sandbox_id)).map(|one| one.id.clone()).collect();
        self.stop(&inside);
        let chosen = self.sandboxes.iter_mut().filter(|one| ids.contains(&one.id));
        chosen.for_each(|one| (one.state, one.ips) = (SandboxState::NotReady, vec![]));
    }

    fn stop_everything(&mut self) {
        let ids: Vec<SandboxId> = self.sandboxes.iter().map(|one| one.id.clone()).collect();
        self.stop_sandboxes(&ids);
    }

    /// Running containers end well: the init containers, or all.
    pub(super) fn ends_well(&mut self, all: bool) {
        let spec = self.pod.spec.as_ref().expect("has a spec");
        let names: Vec<String> = spec.init_containers.iter().flatten().map(|init| init.name.clone()).collect();
        let moment = self.moment;
        let chosen = self.containers.iter_mut().filter(|one| (all || names.contains(&one.name)) && is_running(one));
        chosen.for_each(|one| *one = exited(one, 0, moment));
    }
}

fn is_running(container: &RuntimeContainer) -> bool {
    container.state == ContainerState::Running
}
