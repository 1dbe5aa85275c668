//! Sources that were heard and sources that were not: until then nothing of theirs ends.

use super::*;

fn uids<'a>(pods: impl Iterator<Item = (&'a PodUid, &'a Arc<Pod>)>) -> Vec<&'a str> {
    pods.map(|(uid, _)| uid.as_str()).collect()
}

#[test]
fn the_roster_knows_which_sources_it_has_heard() {
    let mut roster = PodRoster::new([API_SOURCE, "file", "http"]);
    for (source, statics, all) in [("file", false, false), ("http", true, false), (API_SOURCE, true, true)] {
        assert!(!roster.was_heard(source), "{source} is to come");
        roster.set(source, BTreeMap::new());
        assert!(roster.was_heard(source), "{source}");
        assert_eq!((roster.statics_heard(), roster.all_heard()), (statics, all), "after {source}");
    }
    assert!(!roster.was_heard("other"), "no source of this roster");
    let mut roster = PodRoster::new([API_SOURCE, "file"]);
    roster.set(API_SOURCE, BTreeMap::new());
    assert_eq!((roster.statics_heard(), roster.all_heard()), (false, false), "the API server first");
    let roster = PodRoster::new([]);
    assert!(roster.all_heard() && roster.statics_heard(), "without a source there is none to wait for");
}

/// PAIN-10: the API server wants no static pods, so a manifest may go while it cannot be heard.
#[test]
fn a_static_pod_ends_before_the_api_server_is_heard_and_after_all_sources_of_static_pods_are() {
    let runtime = held(&[("x", "x")]);
    let mut roster = PodRoster::new([API_SOURCE, "file", "http"]);
    roster.remember(set(&[("a1", &api_pod("a1", None))]));
    roster.set("file", set(&[("f", &pod("f", "a"))]));
    assert_eq!(started(&roster.orders(Some(&runtime))), ["f", "a1"]);
    roster.set("file", BTreeMap::new());
    assert_eq!(roster.orders(Some(&runtime)), [], "the URL may want it");
    roster.set("http", BTreeMap::new());
    assert_eq!(roster.orders(Some(&runtime)), [end("f", None)]);
    roster.set(API_SOURCE, BTreeMap::new());
    let orders = roster.orders(Some(&runtime));
    assert_eq!(orders, [end("a1", None), start("x", "x"), end("x", Some(1))], "now all were heard");
}

/// A pod moves from a file to a URL, under the same UID.
#[test]
fn a_pod_that_another_source_wants_does_not_end() {
    let mut roster = PodRoster::new(["file", "http"]);
    roster.set("file", set(&[("u1", &pod("web", "a"))]));
    roster.set("http", set(&[("u1", &pod("web", "a"))]));
    assert_eq!(started(&roster.orders(Some(NOTHING))), ["u1"], "one worker, whoever wants it");
    roster.set_pod("file", &"u1".into(), None);
    assert_eq!(roster.orders_for(&"u1".into(), Some(NOTHING)), []);
    roster.set_pod("http", &"u1".into(), None);
    assert_eq!(roster.orders_for(&"u1".into(), Some(NOTHING)), [end("u1", None)]);
}

/// PAIN-10.
#[test]
fn remembered_pods_are_wanted_until_the_api_server_says_what_it_wants() {
    let (one, two) = (api_pod("one", None), api_pod("two", None));
    let mut roster = PodRoster::new([API_SOURCE, "file"]);
    roster.remember(set(&[("1", &one)]));
    roster.remember(set(&[("2", &two)]));
    roster.set("file", set(&[("f", &pod("f", "a"))]));
    assert_eq!(uids(roster.all_wanted()), ["f", "2"], "the last memory counts, and a file is not the API server");
    assert!(!roster.was_heard(API_SOURCE) && !roster.all_heard(), "a memory is no word of it");
    assert_eq!(roster.wanted(&"2".into()), Some(&two));
    roster.set_pod(API_SOURCE, &"3".into(), Some(api_pod("three", None)));
    assert_eq!(roster.wanted(&"3".into()), None, "its complete set is still to come");
    roster.set(API_SOURCE, set(&[("1", &one)]));
    assert_eq!(uids(roster.all_wanted()), ["1", "f"]);
    let mut standalone = PodRoster::new(["file"]);
    standalone.remember(set(&[("1", &one)]));
    assert_eq!(standalone.wanted(&"1".into()), None, "there is no API server");
}

#[test]
fn known_pods_are_wanted_or_have_a_worker() {
    let (web, uid) = (pod("web", "a"), PodUid::from("u1"));
    let mut roster = PodRoster::new(["file"]);
    roster.set("file", set(&[("u1", &web)]));
    let state = |roster: &PodRoster| {
        (roster.known().contains(&uid), roster.with_worker().contains(&uid), roster.told(&uid).is_some())
    };
    assert_eq!(state(&roster), (true, false, false), "wanted");
    roster.orders(Some(NOTHING));
    assert_eq!(state(&roster), (true, true, true), "with a worker");
    roster.set("file", BTreeMap::new());
    roster.orders(Some(NOTHING));
    assert_eq!(state(&roster), (true, true, true), "it ends");
    roster.finished(&uid);
    assert_eq!(state(&roster), (false, false, false), "nothing of it is left");
}

/// POD-09.
#[test]
fn a_life_is_of_one_pod_and_one_source_at_a_time() {
    let mut roster = PodRoster::new(["file", "http"]);
    roster.set_lives("file", [("f".into(), Stamp(3))].into());
    roster.set_lives("http", [("h".into(), Stamp(5))].into());
    let life = |roster: &PodRoster, uid: &str| roster.life(&uid.into());
    assert_eq!((life(&roster, "f"), life(&roster, "h"), life(&roster, "x")), (Some(Stamp(3)), Some(Stamp(5)), None));
    roster.set_lives("file", BTreeMap::new());
    assert_eq!((life(&roster, "f"), life(&roster, "h")), (None, Some(Stamp(5))), "the URL's pods live on");
}

/// POD-09: a manifest that was removed and written again, before the agent could end its pod, and during that.
#[test]
fn a_new_life_ends_only_a_pod_of_an_earlier_one() {
    let uid = PodUid::from("u1");
    let mut roster = PodRoster::new(["file"]);
    roster.set("file", set(&[("u1", &pod("web", "a"))]));
    roster.set_lives("file", [(uid.clone(), Stamp(3))].into());
    assert_eq!(started(&roster.orders(Some(NOTHING))), ["u1"]);
    assert_eq!(roster.orders(Some(NOTHING)), [], "it was started in this life");
    roster.set_lives("file", [(uid.clone(), Stamp(4))].into());
    assert_eq!(roster.orders_for(&uid, Some(NOTHING)), [end("u1", None)]);
    roster.set_lives("file", [(uid.clone(), Stamp(5))].into());
    assert_eq!(roster.orders(Some(NOTHING)), [], "it ends already");
    roster.finished(&uid);
    assert_eq!(started(&roster.orders_for(&uid, Some(NOTHING))), ["u1"]);
    assert_eq!(roster.orders(Some(NOTHING)), [], "of the last life");
}

/// The old life gets the old manifest's end, and the new life the new manifest.
#[test]
fn a_pod_of_another_life_is_told_nothing_new() {
    let (uid, changed) = (PodUid::from("u1"), pod("web", "b"));
    let mut roster = PodRoster::new(["file"]);
    roster.set("file", set(&[("u1", &pod("web", "a"))]));
    roster.orders(Some(NOTHING));
    roster.set_lives("file", [(uid.clone(), Stamp(7))].into());
    roster.set("file", set(&[("u1", &changed)]));
    assert_eq!(roster.orders(Some(NOTHING)), [end("u1", None)]);
    roster.finished(&uid);
    assert_eq!(roster.orders(Some(NOTHING)), [start("u1", "web"), tell("u1", &changed)]);
}
