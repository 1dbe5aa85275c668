//! Sessions from a registration to the day when their resource is forgotten.

use super::*;

const GPU: &str = "vendor.com/gpu";
const OPTIONS: PluginOptions = PluginOptions { pre_start: true, preferred: false };

fn ms(milliseconds: u64) -> Clocks {
    let uptime = Duration::from_millis(milliseconds);
    Clocks { wall: Moment(i64::try_from(uptime.as_nanos()).unwrap()), steady: Steady::at(uptime) }
}

fn by_socket(request: u64) -> Origin {
    Origin::Socket { request }
}

fn by_registry(socket: &str) -> Origin {
    Origin::Registry { socket: socket.to_owned(), attempt: 1 }
}

fn registered(resource: &str, endpoint: &str, origin: Origin) -> Input {
    Input::Registered { resource: resource.to_owned(), endpoint: endpoint.to_owned(), origin }
}

fn connected(session: u64) -> Input {
    Input::Connected { session, outcome: Ok(OPTIONS) }
}

/// `a b!`: one that is healthy and one that is not.
fn devices(text: &str) -> BTreeMap<String, Device> {
    let device = |word: &str| {
        let health = if word.ends_with('!') { Health::Unhealthy } else { Health::Healthy };
        (word.trim_end_matches('!').to_owned(), Device { health, nodes: BTreeSet::new() })
    };
    text.split_whitespace().map(device).collect()
}

fn listed(session: u64, text: &str) -> Input {
    Input::Listed { session, devices: devices(text) }
}

fn ended(session: u64) -> Input {
    Input::Ended { session, why: "it died".to_owned() }
}

fn connect(session: u64, endpoint: &str) -> Action {
    Action::Connect { session, resource: GPU.to_owned(), endpoint: endpoint.to_owned() }
}

fn watch(session: u64, endpoint: &str) -> Action {
    Action::Watch { session, resource: GPU.to_owned(), endpoint: endpoint.to_owned() }
}

fn answer(origin: Origin, outcome: Result<(), RegisterRefusal>) -> Action {
    Action::Answer { origin, outcome }
}

/// The inventory's entry: session, devices.
fn entry(sessions: &DeviceSessions, resource: &str) -> Option<(SessionState, String)> {
    let inventory = sessions.inventory();
    let found = inventory.get(resource)?;
    let word = |(name, device): (&String, &Device)| match device.health {
        Health::Healthy => name.clone(),
        Health::Unhealthy => format!("{name}!"),
    };
    Some((found.session, found.devices.iter().map(word).collect::<Vec<_>>().join(" ")))
}

fn stage(sessions: &DeviceSessions) -> Stage {
    sessions.views()[0].stage
}

/// A plugin that is used, with two devices.
fn in_use() -> DeviceSessions {
    let mut sessions = DeviceSessions::default();
    assert_eq!(sessions.step(registered(GPU, "/d/a", by_socket(1)), ms(0)), [connect(1, "/d/a")]);
    assert_eq!((stage(&sessions), entry(&sessions, GPU)), (Stage::Asked, None), "nothing is known of it yet");
    let expected = [answer(by_socket(1), Ok(())), watch(1, "/d/a"), Action::Publish];
    assert_eq!(sessions.step(connected(1), ms(0)), expected);
    assert_eq!(sessions.step(listed(1, "a b!"), ms(200)), [Action::Publish]);
    sessions
}

/// RES-39, RES-40.
#[test]
fn a_plugin_is_asked_answered_and_watched() {
    let mut sessions = in_use();
    assert_eq!(entry(&sessions, GPU), Some((SessionState::Live, "a b!".to_owned())));
    let live = LivePlugin { session: 1, endpoint: "/d/a".to_owned(), options: OPTIONS };
    assert_eq!((sessions.live(GPU), sessions.live("vendor.com/other")), (Some(live), None));
    let view = &sessions.views()[0];
    assert_eq!((view.stage, view.healthy, view.devices), (Stage::Registered, 1, 2));
    // Each answer is the whole set.
    assert_eq!(sessions.step(listed(1, "b c"), ms(400)), [Action::Publish]);
    assert_eq!(entry(&sessions, GPU), Some((SessionState::Live, "b c".to_owned())));
    assert_eq!(sessions.step(listed(1, "b c"), ms(600)), [], "the same again is no news");
    assert_eq!(sessions.step(listed(7, "z"), ms(800)), [], "nor is what a session says that nobody knows");
}

/// RES-39.
#[test]
fn a_plugin_that_does_not_answer_is_refused_and_leaves_the_one_in_use() {
    let mut sessions = in_use();
    assert_eq!(sessions.step(registered(GPU, "/d/b", by_socket(2)), ms(1000)), [connect(2, "/d/b")]);
    let refusal = RegisterRefusal::Options("no answer".to_owned());
    let failed = Input::Connected { session: 2, outcome: Err(refusal.clone()) };
    let expected = [Action::Drop { session: 2 }, answer(by_socket(2), Err(refusal))];
    assert_eq!(sessions.step(failed, ms(1000)), expected);
    assert_eq!(entry(&sessions, GPU), Some((SessionState::Live, "a b!".to_owned())));
    let view = &sessions.views()[0];
    let error = Some("failed to get device plugin options: no answer");
    assert_eq!((view.stage, view.endpoint.as_str(), view.last_error.as_deref()), (Stage::Registered, "/d/a", error));
}

/// RES-39: a new registration of the resource takes over.
#[test]
fn a_newer_plugin_replaces_the_older_one() {
    let mut sessions = in_use();
    sessions.step(registered(GPU, "/d/b", by_socket(2)), ms(1000));
    let expected = [Action::Drop { session: 1 }, answer(by_socket(2), Ok(())), watch(2, "/d/b"), Action::Publish];
    assert_eq!(sessions.step(connected(2), ms(1000)), expected);
    assert_eq!(entry(&sessions, GPU), Some((SessionState::Live, "a b!".to_owned())), "until it tells its own");
    assert_eq!(sessions.step(ended(1), ms(1100)), [], "the end of the older one is none of the newer");
    sessions.step(listed(2, "x"), ms(1200));
    assert_eq!(entry(&sessions, GPU), Some((SessionState::Live, "x".to_owned())));
    // Of two that come at once the later counts.
    sessions.step(registered(GPU, "/d/c", by_socket(3)), ms(2000));
    let expected =
        [Action::Drop { session: 3 }, answer(by_socket(3), Err(RegisterRefusal::Superseded)), connect(4, "/d/d")];
    assert_eq!(sessions.step(registered(GPU, "/d/d", by_socket(4)), ms(2000)), expected);
    assert_eq!(sessions.step(connected(3), ms(2000)), []);
    assert!(!sessions.step(connected(4), ms(2000)).is_empty());
}

/// RES-43: the end of a plugin makes all its devices unhealthy, and its capacity goes five minutes later.
#[test]
fn a_plugin_that_is_gone_keeps_its_capacity_for_five_minutes() {
    let mut sessions = in_use();
    assert_eq!(sessions.step(ended(1), ms(1000)), [Action::Drop { session: 1 }, Action::Publish]);
    assert_eq!(entry(&sessions, GPU), Some((SessionState::Stopped, "a! b!".to_owned())));
    assert_eq!((sessions.live(GPU), sessions.options(GPU)), (None, OPTIONS));
    assert_eq!(sessions.views()[0].last_error.as_deref(), Some("it died"));
    assert_eq!(sessions.wake_at(), Some(ms(301_000).steady));
    assert_eq!(sessions.step(Input::Due, ms(300_999)), []);
    assert_eq!(sessions.step(Input::Due, ms(301_000)), [Action::Publish]);
    assert_eq!(entry(&sessions, GPU), Some((SessionState::Forgotten, "a! b!".to_owned())), "it stays listed");
    assert_eq!((stage(&sessions), sessions.wake_at()), (Stage::Forgotten, None));
    // It comes back.
    sessions.step(registered(GPU, "/d/a", by_socket(2)), ms(400_000));
    sessions.step(connected(2), ms(400_000));
    sessions.step(listed(2, "a"), ms(400_200));
    assert_eq!(entry(&sessions, GPU), Some((SessionState::Live, "a".to_owned())));
}

/// RES-39: by the plugins' registry.
#[test]
fn a_plugin_of_the_registry_goes_with_its_registration_socket() {
    let mut sessions = DeviceSessions::default();
    sessions.step(registered(GPU, "/r/a", by_registry("/r/a")), ms(0));
    assert_eq!(sessions.step(Input::Gone("/r/a".to_owned()), ms(1)), [Action::Drop { session: 1 }]);
    assert_eq!(sessions.step(connected(1), ms(2)), []);
    sessions.step(registered(GPU, "/r/a", by_registry("/r/a")), ms(3));
    let expected = [answer(by_registry("/r/a"), Ok(())), watch(2, "/r/a"), Action::Publish];
    assert_eq!(sessions.step(connected(2), ms(4)), expected);
    assert_eq!(sessions.step(Input::Gone("/r/other".to_owned()), ms(500)), []);
    let view = &sessions.views()[0];
    assert_eq!(view.registry_socket.as_deref(), Some("/r/a"));
    assert_eq!(sessions.step(Input::Gone("/r/a".to_owned()), ms(500)), [Action::Drop { session: 2 }, Action::Publish]);
    assert_eq!(entry(&sessions, GPU), Some((SessionState::Stopped, String::new())));
}

/// RES-43: after a start of the agent nothing can be given of a resource that an earlier run knew.
#[test]
fn a_remembered_resource_has_no_devices_until_its_plugin_is_back() {
    let mut sessions = in_use();
    let names = BTreeSet::from([GPU.to_owned(), "vendor.com/old".to_owned()]);
    assert_eq!(sessions.step(Input::Remembered(names), ms(1000)), [Action::Publish]);
    assert_eq!(entry(&sessions, GPU), Some((SessionState::Live, "a b!".to_owned())), "one that is back stays");
    assert_eq!(entry(&sessions, "vendor.com/old"), Some((SessionState::Stopped, String::new())));
    assert_eq!(sessions.step(Input::Due, ms(301_000)), [Action::Publish]);
    assert_eq!(entry(&sessions, "vendor.com/old"), Some((SessionState::Forgotten, String::new())));
}

/// RES-40: a plugin that tells its devices without an end costs others little.
#[test]
fn a_flood_of_devices_is_published_at_a_bounded_pace() {
    let mut sessions = in_use();
    let mut published = 0;
    for step in 0..1000 {
        let text = if step % 2 == 0 { "a" } else { "a b" };
        published += sessions.step(listed(1, text), ms(1000 + step)).len();
    }
    assert_eq!(published, 10, "in one second");
    assert_eq!(sessions.wake_at(), Some(ms(2000).steady));
    assert_eq!(sessions.step(Input::Due, ms(2000)), [Action::Publish], "the last word is not lost");
    assert_eq!(entry(&sessions, GPU), Some((SessionState::Live, "a b".to_owned())));
}

/// RES-39: resources are bounded, and failed registrations take no other's place.
#[test]
fn resources_are_bounded_in_number() {
    let mut sessions = DeviceSessions::default();
    let name = |number: usize| format!("vendor.com/r{number}");
    for number in 0..RESOURCES_MAX {
        sessions.step(registered(&name(number), "/d/a", by_socket(1)), ms(0));
    }
    let refused = [answer(by_socket(9), Err(RegisterRefusal::TooMany(RESOURCES_MAX)))];
    assert_eq!(sessions.step(registered(GPU, "/d/a", by_socket(9)), ms(1)), refused);
    let failed = Input::Connected { session: 1, outcome: Err(RegisterRefusal::Dial("no".to_owned())) };
    sessions.step(failed, ms(2));
    assert_eq!(sessions.step(registered(GPU, "/d/a", by_socket(9)), ms(3)).len(), 1);
    assert_eq!(sessions.views().len(), RESOURCES_MAX);
    assert!(sessions.views().iter().all(|view| view.resource != name(0)));
}
