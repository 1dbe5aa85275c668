//! Registrations from their first look to their end.

use super::*;

const SOCKET: &str = "/r/d.sock";

fn at(seconds: u64) -> Clocks {
    let uptime = Duration::from_secs(seconds);
    Clocks { wall: Moment(i64::try_from(uptime.as_nanos()).unwrap()), steady: Steady::at(uptime) }
}

fn states() -> PluginStates {
    PluginStates::new(BTreeSet::from([PluginKind::Csi]))
}

fn seen(sockets: &[(&str, u64)]) -> Input {
    let identity = |inode: u64| SocketIdentity { device: 1, inode, made: 0 };
    Input::Seen(sockets.iter().map(|(path, inode)| ((*path).to_owned(), identity(*inode))).collect())
}

fn greeted(attempt: u64, kind: &str) -> Input {
    let info =
        PluginInfo { kind: kind.into(), name: "drv".into(), versions: vec!["1.0.0".into()], ..PluginInfo::default() };
    Input::Greeted { socket: SOCKET.into(), attempt, outcome: Ok(info) }
}

fn judged(attempt: u64, outcome: Result<(), Refusal>) -> Input {
    Input::Judged { socket: SOCKET.into(), attempt, outcome }
}

fn notified(attempt: u64, outcome: Result<(), String>) -> Input {
    Input::Notified { socket: SOCKET.into(), attempt, outcome }
}

fn greet(attempt: u64) -> Action {
    Action::Greet { socket: SOCKET.into(), attempt }
}

fn notify(attempt: u64, refusal: Option<&str>) -> Action {
    Action::Notify { socket: SOCKET.into(), attempt, refusal: refusal.map(str::to_owned) }
}

fn keep_only(sockets: &[&str]) -> Action {
    Action::KeepOnly(Arc::new(sockets.iter().map(|socket| (*socket).to_owned()).collect()))
}

fn stage(states: &PluginStates) -> Stage {
    states.views()[0].stage
}

/// Brings a plugin to its end, from the first look on.
fn registered(states: &mut PluginStates) -> Arc<Plugin> {
    assert_eq!(states.step(seen(&[(SOCKET, 1)]), at(0)), [greet(1)]);
    let actions = states.step(greeted(1, "CSIPlugin"), at(0));
    let [Action::HandOver(plugin)] = actions.as_slice() else { panic!("{actions:?}") };
    assert_eq!(states.step(judged(1, Ok(())), at(0)), [notify(1, None)]);
    assert_eq!(states.step(notified(1, Ok(())), at(0)), []);
    assert_eq!(stage(states), Stage::Registered);
    Arc::clone(plugin)
}

/// RES-47.
#[test]
fn a_socket_is_asked_handed_over_and_told() {
    let mut states = states();
    let plugin = registered(&mut states);
    assert_eq!((plugin.name.as_str(), plugin.endpoint.as_str()), ("drv", SOCKET));
    assert_eq!(states.step(seen(&[(SOCKET, 1)]), at(9)), [], "a repeated look changes nothing");
    assert_eq!(states.wake_at(at(9).steady), None);
    assert_eq!(states.step(seen(&[]), at(10)), [Action::TakeBack(plugin)]);
    assert!(states.views().is_empty());
}

/// RES-47.
#[test]
fn a_socket_made_anew_is_another_plugin() {
    let mut states = states();
    let plugin = registered(&mut states);
    assert_eq!(states.step(seen(&[(SOCKET, 2)]), at(1)), [Action::TakeBack(plugin), greet(2)]);
    assert_eq!(states.step(judged(1, Ok(())), at(1)), [], "a verdict about the old one is too late");
}

/// RES-47: two instances of a driver during its update. The one that is refused takes over as soon as the other has gone.
#[test]
fn a_plugin_that_goes_makes_room_for_another_of_its_name() {
    let mut states = states();
    let (plugin, other) = (registered(&mut states), "/r/other.sock");
    let both = [(SOCKET, 1), (other, 2)];
    let mut now = 1;
    // Each refusal has a longer wait.
    for attempt in 2..8 {
        let input = if attempt == 2 { seen(&both) } else { Input::Due };
        let asked = states.step(input, at(now));
        assert_eq!(asked, [Action::Greet { socket: other.into(), attempt }]);
        let info = PluginInfo { kind: "CSIPlugin".into(), name: "drv".into(), ..PluginInfo::default() };
        let info = PluginInfo { versions: vec!["1.0.0".into()], ..info };
        states.step(Input::Greeted { socket: other.into(), attempt, outcome: Ok(info) }, at(now));
        let refused = Err(Refusal::Invalid("the name is taken".into()));
        states.step(Input::Judged { socket: other.into(), attempt, outcome: refused }, at(now));
        states.step(Input::Notified { socket: other.into(), attempt, outcome: Ok(()) }, at(now));
        now =
            states.wake_at(at(now).steady).expect("it is tried again").since(Steady::at(Duration::ZERO)).as_secs() + 1;
    }
    assert_eq!(states.step(Input::Due, at(now - 10)), [], "it waits");
    assert_eq!(states.step(seen(&[(other, 2)]), at(now - 10)), [Action::TakeBack(plugin)]);
    assert_eq!(states.step(Input::Due, at(now - 10)), [Action::Greet { socket: other.into(), attempt: 8 }]);
}

/// RES-47.
#[test]
fn failures_are_tried_again_later_each_time_and_alone() {
    let mut states = states();
    let other = "/r/other.sock";
    let first = states.step(seen(&[(SOCKET, 1), (other, 2)]), at(0));
    assert_eq!(first.len(), 2);
    let dead = |attempt| Input::Greeted { socket: SOCKET.into(), attempt, outcome: Err("dial failed".into()) };
    assert_eq!(states.step(dead(1), at(0)), []);
    assert_eq!(states.views()[0].last_error.as_deref(), Some("dial failed"));
    assert_eq!(states.views()[1].stage, Stage::Asked, "the other one is not touched");
    assert_eq!(states.step(Input::Due, at(0)), []);
    assert_eq!(states.wake_at(at(0).steady), Some(Steady::at(Duration::from_millis(500))));
    assert_eq!(states.step(Input::Due, at(1)), [greet(3)]);
    assert_eq!(states.step(dead(3), at(1)), []);
    assert_eq!(states.wake_at(at(1).steady), Some(Steady::at(Duration::from_secs(2))));
}

#[test]
fn a_refused_plugin_hears_why_and_is_not_handed_over() {
    let mut states = states();
    states.step(seen(&[(SOCKET, 1)]), at(0));
    let why = "RegisterPlugin error -- no handler registered for plugin type: DRAPlugin at socket /r/d.sock";
    assert_eq!(states.step(greeted(1, "DRAPlugin"), at(0)), [notify(1, Some(why))]);
    assert_eq!(states.step(notified(1, Ok(())), at(0)), []);
    assert_eq!((stage(&states), states.views()[0].last_error.as_deref()), (Stage::Failed, Some(why)));
    assert_eq!(states.step(seen(&[]), at(1)), [keep_only(&[])], "nobody has it");
}

#[test]
fn a_driver_that_was_tried_in_vain_is_not_taken_back() {
    let mut states = states();
    states.step(seen(&[(SOCKET, 1)]), at(0));
    states.step(greeted(1, "CSIPlugin"), at(0));
    let refused = states.step(judged(1, Err(Refusal::Failed("no node ID".into()))), at(0));
    assert_eq!(refused, [notify(1, Some("RegisterPlugin error -- plugin registration failed with err: no node ID"))]);
    assert_eq!(states.step(seen(&[]), at(1)), [keep_only(&[])]);
}

/// RES-47: a socket that goes before it is handed over may be of a plugin that was, before the last start.
#[test]
fn all_hear_which_sockets_are_left_when_one_goes_that_was_never_handed_over() {
    let mut states = states();
    let other = "/r/other.sock";
    states.step(seen(&[(SOCKET, 1), (other, 2)]), at(0));
    assert_eq!(states.step(seen(&[(other, 2)]), at(1)), [keep_only(&[other])]);
    // Another socket at the same place is no reason to keep the plugin of the first one.
    assert_eq!(states.step(seen(&[(other, 3), (SOCKET, 4)]), at(2)).first(), Some(&keep_only(&[SOCKET])));
}

#[test]
fn a_plugin_that_cannot_be_told_is_taken_back_and_asked_again() {
    let mut states = states();
    states.step(seen(&[(SOCKET, 1)]), at(0));
    let actions = states.step(greeted(1, "CSIPlugin"), at(0));
    let [Action::HandOver(plugin)] = actions.as_slice() else { panic!("{actions:?}") };
    states.step(judged(1, Ok(())), at(0));
    assert_eq!(states.step(notified(1, Err("gone".into())), at(0)), [Action::TakeBack(Arc::clone(plugin))]);
    assert_eq!(states.step(Input::Due, at(1)), [greet(2)]);
}

#[test]
fn a_taker_that_was_lost_is_given_its_plugins_again() {
    let mut states = states();
    registered(&mut states);
    assert_eq!(states.step(Input::TakerLost(PluginKind::Dra), at(1)), []);
    let again = states.step(Input::TakerLost(PluginKind::Csi), at(1));
    assert!(matches!(again.as_slice(), [Action::HandOver(plugin)] if plugin.attempt == 2), "{again:?}");
    assert_eq!(states.step(judged(2, Ok(())), at(1)), [notify(2, None)]);
}
