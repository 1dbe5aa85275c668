//! Orders that workers get again, and starts that wait for their turn.

use super::*;

fn pass(roster: &mut PodRoster) -> Vec<Order> {
    roster.orders(Some(NOTHING))
}

/// POD-10: a stranger has its short grace period from each of its workers.
#[test]
fn the_worker_of_a_stranger_gets_its_end_again_and_no_spec() {
    let (uid, runtime) = (PodUid::from("x"), held(&[("x", "x")]));
    let mut roster = PodRoster::new(["file"]);
    roster.set("file", BTreeMap::new());
    assert_eq!(roster.orders(Some(&runtime)), [start("x", "x"), end("x", Some(1))]);
    for again in [PodRoster::forget_told, PodRoster::end_refused] {
        again(&mut roster, &uid);
        assert!(!roster.owes_spec(&uid), "nobody knows its spec");
        assert_eq!(roster.orders_for(&uid, Some(&runtime)), [end("x", Some(1))]);
        assert_eq!(roster.orders(Some(&runtime)), [], "once");
    }
    assert_eq!((roster.told(&uid), roster.with_worker()), (None, BTreeSet::new()), "its worker knows no orders");
    assert_eq!(roster.known(), [uid].into());
}

#[test]
fn a_worker_that_failed_while_its_pod_is_deleted_gets_the_spec_before_the_end() {
    let (uid, deleted) = (PodUid::from("u1"), api_pod("web", Some(30)));
    let mut roster = PodRoster::new([API_SOURCE]);
    roster.set(API_SOURCE, set(&[("u1", &api_pod("web", None))]));
    pass(&mut roster);
    roster.set(API_SOURCE, set(&[("u1", &deleted)]));
    assert_eq!(pass(&mut roster), [tell("u1", &deleted), end("u1", Some(30))]);
    roster.forget_told(&uid);
    assert!(roster.owes_spec(&uid));
    assert_eq!(pass(&mut roster), [tell("u1", &deleted), end("u1", Some(30))]);
    assert_eq!(pass(&mut roster), []);
}

/// A worker with a full mailbox gets only the newest pod.
#[test]
fn a_refused_spec_is_not_told_after_a_newer_one() {
    let uid = PodUid::from("u1");
    let mut roster = PodRoster::new(["file"]);
    roster.set("file", set(&[("u1", &pod("web", "a"))]));
    pass(&mut roster);
    roster.spec_refused(&uid);
    let newer = pod("web", "b");
    roster.set_pod("file", &uid, Some(Arc::clone(&newer)));
    let orders = roster.orders_for(&uid, Some(NOTHING));
    assert_eq!(orders.last(), Some(&tell("u1", &newer)));
    assert!(!roster.owes_spec(&uid));
    assert_eq!(pass(&mut roster), []);
}

#[test]
fn news_of_one_pod_repeat_no_orders_of_another() {
    let mut roster = PodRoster::new(["file"]);
    roster.set("file", set(&[("u1", &pod("web", "a")), ("u2", &pod("db", "a"))]));
    pass(&mut roster);
    roster.forget_told(&"u1".into());
    roster.forget_told(&"u2".into());
    assert_eq!(roster.orders_for(&"u1".into(), Some(NOTHING)), [tell("u1", &pod("web", "a"))]);
    assert_eq!(roster.orders_held_up(Some(NOTHING)), [], "workers are not held up");
    assert!(roster.owes_spec(&"u2".into()) && !roster.owes_spec(&"u1".into()));
    assert_eq!(pass(&mut roster), [tell("u2", &pod("db", "a"))]);
}

#[test]
fn nothing_is_repeated_for_a_worker_that_is_gone() {
    let uid = PodUid::from("u1");
    let mut roster = PodRoster::new(["file"]);
    roster.set("file", BTreeMap::new());
    roster.forget_told(&uid);
    roster.spec_refused(&uid);
    roster.end_refused(&uid);
    roster.finished(&uid);
    assert_eq!((roster.owes_spec(&uid), pass(&mut roster), roster.known()), (false, vec![], BTreeSet::new()));
}

/// Twenty starts are allowed at once; a pod that needs no worker takes none of them.
#[test]
fn only_pods_that_start_count_towards_the_limit() {
    let mut pods: BTreeMap<PodUid, Arc<Pod>> =
        (0..STARTS_MAX).map(|number| (format!("p{number}").into(), api_pod(&format!("p{number}"), None))).collect();
    pods.insert("a-deleted".into(), api_pod("deleted", Some(30)));
    let strangers: BTreeMap<_, _> =
        (0..=STARTS_MAX).map(|number| (format!("x{number}").into(), FullName::new("x", "default"))).collect();
    let mut roster = PodRoster::new([API_SOURCE, "file"]);
    roster.set("file", BTreeMap::new());
    roster.set(API_SOURCE, pods);
    let orders = roster.orders(Some(&strangers));
    assert_eq!(started(&orders).len(), STARTS_MAX * 2 + 1, "each pod, and each stranger");
    assert!(orders.contains(&Order::Release("a-deleted".into())));
    assert!(!roster.is_unfinished(), "nobody waits");
    roster.set_pod(API_SOURCE, &"late".into(), Some(api_pod("late", None)));
    assert_eq!(roster.orders_for(&"late".into(), Some(&strangers)), []);
    assert!(roster.is_unfinished(), "it waits for a refill");
    roster.set_pod(API_SOURCE, &"late".into(), None);
    roster.refill();
    assert_eq!(roster.orders_for(&"late".into(), Some(&strangers)), [], "nobody wants it any more");
    assert!(!roster.is_unfinished());
}

/// The roster tries again at each pass, so that a refill is enough for pods that wait.
#[test]
fn pods_that_wait_start_with_news_of_any_other() {
    let names: Vec<String> = (0..STARTS_MAX + 2).map(|number| format!("u{number:02}")).collect();
    let mut roster = PodRoster::new([API_SOURCE]);
    roster.set(API_SOURCE, names.iter().map(|name| (PodUid::from(&**name), api_pod(name, None))).collect());
    assert_eq!(started(&pass(&mut roster)).len(), STARTS_MAX);
    assert_eq!((pass(&mut roster), roster.is_unfinished()), (vec![], true), "two wait");
    roster.refill();
    assert_eq!(started(&roster.orders_for(&"u00".into(), Some(NOTHING))), ["u20", "u21"]);
    assert!(!roster.is_unfinished());
}

/// POD-33: the remains of this pod are removed just now.
#[test]
fn a_pod_that_is_held_waits_also_when_it_is_to_be_released() {
    let uid = PodUid::from("u1");
    let mut roster = PodRoster::new([API_SOURCE]);
    roster.set(API_SOURCE, set(&[("u1", &api_pod("web", Some(30)))]));
    roster.hold(Some(uid.clone()));
    assert_eq!(roster.orders(Some(NOTHING)), []);
    roster.hold(Some("other".into()));
    assert_eq!(roster.orders_for(&"other".into(), Some(NOTHING)), [Order::Release(uid)], "another one is held now");
}
