//! Cases and properties of `volume_states`.

use proptest::prelude::*;

use super::*;
use crate::logic::events::reasons::EventReason;

fn uid() -> PodUid {
    PodUid::from("pod-1")
}

fn place(name: &str) -> VolumePlace {
    VolumePlace { uid: uid(), plugin: "kubernetes.io~empty-dir".into(), name: name.into(), is_device: false }
}

fn at(seconds: f64) -> Steady {
    Steady::at(Duration::from_secs_f64(1000.0 + seconds))
}

/// The wall clock shows the uptime.
fn both(seconds: f64) -> Clocks {
    Clocks { wall: Moment(at(seconds).0), steady: at(seconds) }
}

fn want(volumes: &[(&str, bool)]) -> Input {
    let volumes = volumes.iter().map(|(name, again)| ((*name).to_owned(), *again)).collect();
    Input::Want { uid: uid(), volumes }
}

fn ended(task: Task) -> Input {
    Input::Ended { uid: uid(), task, outcome: Ok(vec![]) }
}

fn failed(task: Task, message: &str, in_processing: bool) -> Input {
    let look_again = in_processing.then_some(Duration::from_secs(12));
    let failure = TaskFailure {
        message: message.into(),
        in_processing,
        reason: Some(EventReason::FailedMount),
        look_again,
        is_full: false,
    };
    Input::Ended { uid: uid(), task, outcome: Err(failure) }
}

fn mount(name: &str) -> Task {
    Task::Mount(name.into())
}

fn tasks(orders: Vec<Order>) -> Vec<Task> {
    orders.into_iter().map(|order| order.task).collect()
}

fn message(standing: Standing) -> String {
    match standing {
        Standing::Failed(failure) => failure.message,
        other => format!("{other:?}"),
    }
}

#[test]
fn a_pods_volumes_are_mounted_side_by_side_and_once() {
    let mut states = VolumeStates::default();
    assert_eq!(tasks(states.step(want(&[("a", false), ("b", true)]), both(0.0))), [mount("a"), mount("b")]);
    assert_eq!(tasks(states.step(want(&[("a", false), ("b", true)]), both(0.1))), []);
    states.step(ended(mount("a")), both(0.2));
    assert_eq!(states.mounted(&uid(), at(0.2)), Standing::Working);
    // It was wanted again while it was under way: once more, for what changed meanwhile.
    assert_eq!(tasks(states.step(ended(mount("b")), both(0.3))), [mount("b")]);
    assert_eq!(states.mounted(&uid(), at(0.3)), Standing::Done);
    states.step(ended(mount("b")), both(0.4));
    assert_eq!(tasks(states.step(want(&[("a", false), ("b", true)]), both(60.0))), [mount("b")]);
    assert_eq!(states.mounted(&uid(), at(60.0)), Standing::Done, "a refresh takes nothing away");
    states.step(failed(mount("b"), "no answer", false), both(61.0));
    assert_eq!(states.mounted(&uid(), at(61.0)), Standing::Done, "not even one that fails");
}

#[test]
fn a_pod_without_volumes_waits_for_nothing() {
    let mut states = VolumeStates::default();
    assert_eq!(states.step(want(&[]), both(0.0)), []);
    assert_eq!(states.mounted(&uid(), at(0.0)), Standing::Done);
}

/// VOL-01.
#[test]
fn failures_are_tried_again_later_each_time() {
    let mut states = VolumeStates::default();
    states.step(want(&[("a", false)]), both(0.0));
    let mut now = 0.0;
    for wait in [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 122.0, 122.0] {
        assert_eq!(states.step(failed(mount("a"), "not there", false), both(now)), []);
        let expected = Standing::Failed(VolumeFailure {
            message: "not there".into(),
            retry_after: Duration::from_secs_f64(wait),
            in_processing: false,
            rejects: false,
        });
        assert_eq!(states.mounted(&uid(), at(now)), expected);
        assert_eq!(states.wake_at(), Some(at(now + wait)));
        assert_eq!(states.step(Input::Due, both(now + wait - 0.01)), []);
        assert_eq!(states.step(want(&[("a", false)]), both(now + wait - 0.01)), [], "asking is not trying");
        now += wait;
        assert_eq!(tasks(states.step(Input::Due, both(now))), [mount("a")]);
    }
    states.step(ended(mount("a")), both(now));
    assert_eq!(states.mounted(&uid(), at(now)), Standing::Done);
}

#[test]
fn a_claim_without_volume_is_told_in_upstreams_words() {
    let mut states = VolumeStates::default();
    states.step(want(&[("data", false), ("tmp", false)]), both(0.0));
    states.step(ended(mount("tmp")), both(0.0));
    states.step(failed(mount("data"), "error processing PVC ns/data: PVC is not bound", true), both(0.0));
    assert_eq!(
        message(states.mounted(&uid(), at(0.0))),
        "unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: \
         error processing PVC ns/data: PVC is not bound"
    );
}

#[test]
fn a_claim_without_volume_waits_a_moment_for_the_mounts_beside_it() {
    let mut states = VolumeStates::default();
    states.step(want(&[("data", false), ("tmp", false)]), both(0.0));
    states.step(failed(mount("data"), "PVC is not bound", true), both(0.1));
    assert_eq!(states.mounted(&uid(), at(0.1)), Standing::Working);
    assert_eq!(states.wake_at(), Some(at(1.0)));
    assert!(message(states.mounted(&uid(), at(1.0))).starts_with("unmounted volumes=[data tmp], "));
    states.step(ended(mount("tmp")), both(0.2));
    assert!(message(states.mounted(&uid(), at(0.2))).starts_with("unmounted volumes=[data], "));
}

/// VOL-07: who waits for a claim is not kept waiting longer for having waited long.
#[test]
fn a_claim_that_cannot_be_used_is_looked_at_again_after_the_same_time() {
    let mut states = VolumeStates::default();
    states.step(want(&[("a", false)]), both(0.0));
    for now in [0.0, 12.0, 24.0, 36.0, 48.0, 60.0, 72.0, 84.0, 96.0] {
        assert_eq!(states.step(failed(mount("a"), "PVC is not bound", true), both(now)), []);
        let Standing::Failed(failure) = states.mounted(&uid(), at(now)) else { panic!("it failed") };
        assert_eq!(failure.retry_after, Duration::from_secs(12));
        assert_eq!(states.wake_at(), Some(at(now + 12.0)));
        assert_eq!(states.step(Input::Due, both(now + 11.9)), []);
        assert_eq!(tasks(states.step(Input::Due, both(now + 12.0))), [mount("a")]);
    }
    states.step(failed(mount("a"), "PVC is not bound", true), both(108.0));
    let changed = Input::Changed { uid: uid(), volumes: vec!["a".to_owned()] };
    assert_eq!(tasks(states.step(changed, both(109.0))), [mount("a")], "what changed is looked at at once");
    states.step(failed(mount("a"), "no such device", false), both(110.0));
    assert_eq!(states.wake_at(), Some(at(110.5)), "a mount that fails is another thing");
}

#[test]
fn a_driver_that_came_ends_the_waits_of_all_that_failed() {
    let mut states = VolumeStates::default();
    states.step(want(&[("a", false), ("b", false)]), both(0.0));
    for now in [0.0, 1.0, 3.0, 7.0, 15.0] {
        states.step(failed(mount("a"), "no driver", false), both(now));
        states.step(Input::Due, both(now + 8.1));
    }
    states.step(ended(mount("b")), both(25.0));
    states.step(failed(mount("a"), "no driver", false), both(25.0));
    assert_eq!(states.failing().collect::<Vec<_>>(), [&uid()]);
    assert_eq!(states.step(Input::Due, both(26.0)), [], "it waits");
    assert_eq!(tasks(states.step(Input::Retry, both(26.0))), [mount("a")]);
    states.step(failed(mount("a"), "another problem", false), both(26.1));
    assert_eq!(states.wake_at(), Some(at(26.6)), "the first wait again");
}

#[test]
fn a_pods_end_does_not_wait_for_ever_for_a_mount_that_hangs() {
    let mut states = VolumeStates::default();
    states.step(want(&[("dead", false)]), both(0.0));
    assert_eq!(tasks(states.step(Input::Release { uid: uid() }, both(1.0))), [Task::List]);
    assert_eq!(tasks(states.step(ended(Task::List), both(1.0))), [], "the mount may still make something");
    assert_eq!(states.wake_at(), Some(at(30.0)));
    assert_eq!(tasks(states.step(Input::Due, both(30.0))), [Task::Finish]);
    assert_eq!(states.step(ended(Task::Finish), both(30.1)), []);
    assert_eq!(states.released(&uid(), at(30.1)), Standing::Done);
    assert_eq!(states.step(Input::Due, both(800.0)), [], "nothing more is to be done");
    // It ends after all, and has made something.
    assert_eq!(tasks(states.step(ended(mount("dead")), both(900.0))), [Task::List]);
    let listed = Input::Ended { uid: uid(), task: Task::List, outcome: Ok(vec![place("dead")]) };
    assert_eq!(tasks(states.step(listed, both(900.0))), [Task::Unmount(place("dead"))]);
    assert_eq!(tasks(states.step(ended(Task::Unmount(place("dead"))), both(900.0))), [Task::Finish]);
    states.step(ended(Task::Finish), both(900.0));
    assert!(states.is_empty(), "forgotten");
}

/// PAIN-12.
#[test]
fn what_hangs_is_named_and_others_go_on() {
    let mut states = VolumeStates::default();
    states.step(want(&[("dead", false), ("live", false)]), both(0.0));
    states.step(ended(mount("live")), both(1.0));
    assert_eq!(states.mounted(&uid(), at(29.0)), Standing::Working);
    assert_eq!(states.wake_at(), Some(at(30.0)));
    let told = message(states.mounted(&uid(), at(31.0)));
    assert_eq!(
        told,
        "set up of volume \"dead\" has not ended since 1970-01-01T00:16:40Z: the file system behind it may not answer"
    );
    assert_eq!(message(states.mounted(&uid(), at(41.0))), told, "the same words, however often it is asked");
    // Released meanwhile: what can go goes.
    assert_eq!(tasks(states.step(Input::Release { uid: uid() }, both(40.0))), [Task::List]);
    let listed = Input::Ended { uid: uid(), task: Task::List, outcome: Ok(vec![place("live")]) };
    assert_eq!(tasks(states.step(listed, both(40.0))), [Task::Unmount(place("live"))]);
    assert_eq!(tasks(states.step(ended(Task::Unmount(place("live"))), both(40.0))), [Task::Finish]);
    assert!(message(states.released(&uid(), at(41.0))).starts_with("set up of volume \"dead\""));
    assert_eq!(states.step(ended(Task::Finish), both(42.0)), []);
    assert_eq!(states.released(&uid(), at(42.0)), Standing::Done);
    // It ends after all: the disk is read again, for it may have made something.
    assert_eq!(tasks(states.step(ended(mount("dead")), both(50.0))), [Task::List]);
}

#[test]
fn a_release_reads_the_disk_unmounts_all_and_forgets_the_pod() {
    let mut states = VolumeStates::default();
    let release = || Input::Release { uid: uid() };
    assert_eq!(tasks(states.step(release(), both(0.0))), [Task::List], "of a pod never heard of, too");
    let listed = Input::Ended { uid: uid(), task: Task::List, outcome: Ok(vec![place("a"), place("b")]) };
    assert_eq!(tasks(states.step(listed, both(0.0))), [Task::Unmount(place("a")), Task::Unmount(place("b"))]);
    states.step(ended(Task::Unmount(place("b"))), both(0.0));
    states.step(failed(Task::Unmount(place("a")), "busy", false), both(0.0));
    assert_eq!(message(states.released(&uid(), at(0.0))), "mounted volumes=[a]: busy");
    assert_eq!(tasks(states.step(Input::Due, both(1.0))), [Task::Unmount(place("a"))]);
    assert_eq!(tasks(states.step(ended(Task::Unmount(place("a"))), both(1.0))), [Task::Finish]);
    assert_eq!(states.released(&uid(), at(1.0)), Standing::Working);
    assert_eq!(states.step(ended(Task::Finish), both(1.0)), []);
    assert_eq!(states.released(&uid(), at(1.0)), Standing::Done);
    assert!(states.is_empty());
}

#[test]
fn a_pod_that_is_wanted_again_gets_its_volumes_after_the_unmount_ended() {
    let mut states = VolumeStates::default();
    states.step(Input::Release { uid: uid() }, both(0.0));
    let listed = Input::Ended { uid: uid(), task: Task::List, outcome: Ok(vec![place("a")]) };
    states.step(listed, both(0.0));
    assert_eq!(states.step(want(&[("a", false)]), both(0.1)), []);
    assert_eq!(tasks(states.step(ended(Task::Unmount(place("a"))), both(0.2))), [mount("a")]);
}

#[test]
fn what_is_left_of_an_earlier_release_ends_before_the_disk_is_read_again() {
    let mut states = VolumeStates::default();
    let release = || Input::Release { uid: uid() };
    let nothing = || Input::Ended { uid: uid(), task: Task::List, outcome: Ok(vec![]) };
    states.step(release(), both(0.0));
    assert_eq!(tasks(states.step(nothing(), both(0.0))), [Task::Finish]);
    assert_eq!(states.step(want(&[("a", false)]), both(0.1)), []);
    assert_eq!(states.step(release(), both(0.2)), [], "neither is undone while it is under way");
    assert_eq!(tasks(states.step(ended(Task::Finish), both(0.3))), [Task::List]);
    assert_eq!(tasks(states.step(nothing(), both(0.4))), [Task::Finish]);
    states.step(ended(Task::Finish), both(0.5));
    assert!(states.is_empty());
}

/// An action of a test on the machine.
#[derive(Clone, Debug)]
enum Event {
    Want,
    Release,
    End(usize, bool),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::Want),
        1 => Just(Event::Release),
        6 => (0..4_usize, any::<bool>()).prop_map(|(which, fine)| Event::End(which, fine)),
        2 => (0..200_u64).prop_map(Event::Wait),
    ]
}

/// The machine beside a disk on which tasks take effect when they end.
struct World {
    states: VolumeStates,
    now: Steady,
    open: Vec<Task>,
    disk: BTreeSet<String>,
    wanted: bool,
}

impl World {
    fn take(&mut self, input: Input) -> Result<(), TestCaseError> {
        let now = Clocks { wall: Moment(self.now.0), steady: self.now };
        for order in self.states.step(input, now) {
            prop_assert!(!self.open.contains(&order.task), "{:?} twice at once", order.task);
            match &order.task {
                Task::Mount(_) => {
                    prop_assert!(self.wanted, "mounted although the pod is over");
                    let unmounting = self.open.iter().any(|task| !matches!(task, Task::Mount(_)));
                    prop_assert!(!unmounting, "mounted while being unmounted");
                }
                Task::Unmount(_) | Task::Finish | Task::List => {
                    prop_assert!(!self.wanted, "{:?} although the pod's containers may run", order.task);
                }
            }
            self.open.push(order.task);
        }
        Ok(())
    }

    fn end(&mut self, which: usize, mut fine: bool) -> Result<(), TestCaseError> {
        if self.open.is_empty() {
            return Ok(());
        }
        let task = self.open.remove(which % self.open.len());
        let mut found = vec![];
        fine &= task != Task::Finish || self.disk.is_empty(); // The host finishes nothing that is not over.
        if fine {
            match &task {
                Task::Mount(name) => drop(self.disk.insert(name.clone())),
                Task::List => found = self.disk.iter().map(|name| place(name)).collect(),
                Task::Unmount(place) => drop(self.disk.remove(&place.name)),
                Task::Finish => {}
            }
        }
        let reason = Some(EventReason::FailedMount);
        let failure =
            TaskFailure { message: "no".into(), in_processing: false, reason, look_again: None, is_full: false };
        let outcome = if fine { Ok(found) } else { Err(failure) };
        self.take(Input::Ended { uid: uid(), task, outcome })
    }

    fn act(&mut self, event: &Event) -> Result<(), TestCaseError> {
        match event {
            Event::Want => {
                self.wanted = true;
                self.take(want(&[("a", false), ("b", true)]))
            }
            Event::Release => {
                self.wanted = false;
                self.take(Input::Release { uid: uid() })
            }
            Event::End(which, fine) => self.end(*which, *fine),
            Event::Wait(seconds) => {
                self.now = self.now.plus(Duration::from_secs(*seconds));
                self.take(Input::Due)
            }
        }
    }
}

/// VOL-01: the wall clock is set back by a day in the middle: neither kind of wait gets longer. A task that hangs is in the
/// error in time, with the time at which it began.
#[test]
fn a_wait_does_not_follow_a_clock_that_is_set_back() {
    const DAY: i64 = 86_400 * 1_000_000_000;
    let back = |seconds: f64| Clocks { wall: Moment(at(seconds).0 - DAY), steady: at(seconds) };
    for (in_processing, wait) in [(false, 0.5), (true, 12.0)] {
        let mut states = VolumeStates::default();
        states.step(want(&[("a", false)]), both(0.0));
        states.step(failed(mount("a"), "not there", in_processing), both(1.0));
        assert_eq!(tasks(states.step(Input::Due, back(1.1))), [], "set back, and not due yet");
        assert_eq!(states.wake_at(), Some(at(1.0 + wait)));
        assert_eq!(tasks(states.step(Input::Due, back(1.1 + wait))), [mount("a")], "{in_processing}");
        let told = message(states.mounted(&uid(), at(40.0 + wait)));
        assert!(told.contains("has not ended since"), "{told}");
    }
}

proptest! {
    /// VOL-01: an unmount never precedes the release of the pod, and what is wanted, or released, comes about once
    /// failures end.
    #[test]
    fn unmounts_follow_the_release_and_every_wish_comes_true(events in prop::collection::vec(event(), 0..60)) {
        let (states, disk) = (VolumeStates::default(), BTreeSet::from(["left over".to_owned()]));
        let mut world = World { states, now: at(0.0), open: vec![], disk, wanted: false };
        for event in &events {
            world.act(event)?;
        }
        world.act(if world.wanted { &Event::Want } else { &Event::Release })?;
        for _ in 0..60 {
            world.act(&Event::End(0, true))?;
            world.act(&Event::Wait(130))?;
        }
        if world.wanted {
            prop_assert_eq!(world.states.mounted(&uid(), world.now), Standing::Done);
            prop_assert!(world.disk.contains("a") && world.disk.contains("b"));
        } else {
            prop_assert_eq!(world.states.released(&uid(), world.now), Standing::Done);
            prop_assert!(world.disk.is_empty() && world.open.is_empty());
        }
        prop_assert!(world.states.wake_at().is_none_or(|at| at > world.now));
    }
}

/// VOL-29: work under way is in the error as such, in the same words for as long as it lasts.
#[test]
fn what_takes_long_and_moves_does_not_hang() {
    let mut states = VolumeStates::default();
    states.step(want(&[("big", false)]), both(0.0));
    let moves = || Input::Moves { uid: uid(), task: mount("big"), doing: "walks".into() };
    states.step(moves(), both(20.0));
    assert_eq!(states.mounted(&uid(), at(29.0)), Standing::Working);
    assert_eq!(states.wake_at(), Some(at(30.0)));
    let told = message(states.mounted(&uid(), at(31.0)));
    assert_eq!(told, "set up of volume \"big\" takes long, since 1970-01-01T00:16:40Z: walks");
    states.step(moves(), both(40.0));
    assert_eq!(message(states.mounted(&uid(), at(69.0))), told);
    assert_eq!(states.wake_at(), Some(at(70.0)));
    assert!(message(states.mounted(&uid(), at(71.0))).contains("has not ended since"));
    // Of a released pod it has made something: its end waits for it while it moves.
    states.step(moves(), both(80.0));
    states.step(Input::Release { uid: uid() }, both(81.0));
    assert_eq!(tasks(states.step(ended(Task::List), both(81.0))), []);
    assert_eq!(tasks(states.step(Input::Due, both(111.0))), [Task::Finish]);
}

/// VOL-50.
#[test]
fn a_changed_object_is_not_waited_for_any_longer() {
    let mut states = VolumeStates::default();
    states.step(want(&[("secret", true), ("claim", false)]), both(0.0));
    for name in ["secret", "claim"] {
        for _ in 0..9 {
            states.retries.fail(&key(&uid(), &mount(name)), at(0.0));
        }
        assert_eq!(states.step(failed(mount(name), "not there", false), both(0.0)), []);
    }
    assert_eq!(states.step(want(&[("secret", true), ("claim", false)]), both(1.0)), []);
    let changed = Input::Changed { uid: uid(), volumes: vec!["secret".into()] };
    assert_eq!(tasks(states.step(changed, both(1.0))), [mount("secret")]);
    assert!(states.lacks_some(&uid()));
}

/// VOL-50: of a pod that ends nothing is set up any more, also when it failed or fails then; unless it is wanted again.
#[test]
fn volumes_of_a_pod_that_ends_stay_as_they_are() {
    let mut states = VolumeStates::default();
    let all = [("lost", true), ("slow", true), ("there", true)];
    states.step(want(&all), both(0.0));
    states.step(ended(mount("there")), both(0.0));
    states.step(failed(mount("lost"), "not found", false), both(0.0));
    assert_eq!(states.step(Input::Settle { uid: uid() }, both(0.1)), []);
    assert_eq!(states.step(failed(mount("slow"), "not found", false), both(0.2)), []);
    assert_eq!(states.wake_at(), None);
    assert_eq!(states.step(Input::Due, both(900.0)), []);
    assert_eq!(tasks(states.step(want(&all), both(901.0))), all.map(|(name, _)| mount(name)));
    let mut released = VolumeStates::default();
    assert_eq!(released.step(Input::Settle { uid: uid() }, both(0.0)), []);
    assert!(released.is_empty(), "a pod that has no volumes is not remembered");
}

#[test]
fn several_causes_are_told_together_and_each_once() {
    let mut states = VolumeStates::default();
    states.step(want(&[("a", false), ("b", false), ("c", false)]), both(0.0));
    for (name, cause) in [("a", "two"), ("b", "one"), ("c", "two")] {
        states.step(failed(mount(name), cause, true), both(0.0));
    }
    let told = message(states.mounted(&uid(), at(0.0)));
    assert!(told.ends_with("failed to process volumes=[a b c]: one; two"), "{told}");
}

/// PAIN-14.
#[test]
fn a_volume_that_stays_is_told_once_for_each_reason() {
    let mut states = VolumeStates::default();
    let stays = Task::Unmount(place("v"));
    states.step(Input::Release { uid: uid() }, both(0.0));
    states.step(Input::Ended { uid: uid(), task: Task::List, outcome: Ok(vec![place("v")]) }, both(0.0));
    let mut told = vec![];
    for (second, reason) in [(0.0, "busy"), (10.0, "busy"), (20.0, "gone"), (30.0, "gone")] {
        let failure = TaskFailure {
            message: reason.into(),
            in_processing: false,
            reason: None,
            look_again: None,
            is_full: false,
        };
        told.push(states.log_level(&uid(), &stays, &failure));
        states.step(failed(stays.clone(), reason, false), both(second));
        states.step(Input::Due, both(second + 9.0));
    }
    assert_eq!(told, [LogLevel::Normal, LogLevel::Debug, LogLevel::Normal, LogLevel::Debug]);
}

/// VOL-12: room may come, so the pod waits for it as long as upstream's would.
#[test]
fn a_pod_without_room_for_its_volume_is_refused_in_the_end() {
    let full = |is_full| {
        let (message, reason) = ("no slot is left".to_owned(), Some(EventReason::FailedMount));
        let failure = TaskFailure { message, in_processing: false, reason, look_again: None, is_full };
        Input::Ended { uid: uid(), task: mount("b"), outcome: Err(failure) }
    };
    let rejects = |states: &VolumeStates, seconds| match states.mounted(&uid(), at(seconds)) {
        Standing::Failed(failure) => failure.rejects,
        _ => false,
    };
    let mut states = VolumeStates::default();
    states.step(want(&[("a", false), ("b", false)]), both(0.0));
    states.step(ended(mount("a")), both(1.0));
    states.step(full(true), both(1.0));
    assert!(!rejects(&states, 1.0));
    states.step(want(&[("a", false), ("b", false)]), both(100.0));
    assert!(!rejects(&states, 130.0), "another try is under way, and may find room");
    states.step(full(true), both(122.0));
    assert!(!rejects(&states, 122.9));
    let Standing::Failed(refused) = states.mounted(&uid(), at(123.0)) else { panic!("it waits no longer") };
    let text = "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[b], unattached \
                volumes=[b], failed to process volumes=[]: no slot is left";
    assert_eq!((refused.message.as_str(), refused.rejects), (text, true));
    states.step(Input::Due, both(400.0));
    states.step(full(false), both(401.0));
    assert!(!rejects(&states, 500.0), "it fails for another reason by now");
}
