//! Tests of the sources of pods, and of what each one wants.

use super::*;

fn pods(uids: &[&str]) -> Pods {
    uids.iter().map(|uid| (PodUid::from(*uid), Arc::default())).collect()
}

#[test]
fn one_pod_of_the_api_server_counts_only_after_the_complete_set() {
    let (mut sources, uid) = (PodSources::default(), PodUid::from("a"));
    assert_eq!(sources.set_api_pod(&uid, Some(&Arc::default())), None);
    assert_eq!(sources.api(), None);
    assert_eq!(sources.set_api(pods(&[])), pods(&[]));
    assert_eq!(sources.set_api_pod(&uid, Some(&Arc::default())), Some(None));
    assert_eq!(sources.api(), Some(&pods(&["a"])));
    assert_eq!(sources.set_api_pod(&uid, None), Some(Some(Arc::default())));
    assert_eq!(sources.api(), Some(&pods(&[])));
}

#[test]
fn recalled_pods_are_wanted_until_the_api_server_is_heard() {
    let mut sources = PodSources::default();
    sources.recall(pods(&["a"]));
    assert_eq!(sources.clone().take_recalled(), Some(pods(&["a"])));
    sources.set_api(pods(&[]));
    assert_eq!(sources.take_recalled(), None);
}

#[test]
fn a_pod_is_found_with_its_source() {
    let mut sources = PodSources::default();
    sources.set_api(pods(&["a"]));
    sources.set_statics("file", pods(&["f"]));
    sources.set_statics("http", pods(&["h"]));
    for (uid, source) in [("a", Some(API)), ("f", Some("file")), ("h", Some("http")), ("x", None)] {
        assert_eq!(sources.source_of(&uid.into()), source, "{uid}");
        assert_eq!(sources.pod(&uid.into()).is_some(), source.is_some(), "{uid}");
    }
    assert_eq!(sources.all().count(), 3);
}

fn named(name: &str) -> Arc<Pod> {
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.to_owned());
    Arc::new(pod)
}

#[test]
fn each_set_replaces_the_one_before_of_its_source_alone() {
    let mut sources = PodSources::default();
    assert_eq!(sources.set_api(pods(&["a"])), pods(&[]), "nothing before");
    assert_eq!(sources.set_statics("file", pods(&["f", "g"])), pods(&[]), "nothing before");
    assert_eq!(sources.set_statics("http", pods(&["h"])), pods(&[]), "nothing before");
    assert_eq!(sources.set_statics("file", pods(&["f"])), pods(&["f", "g"]), "the folder's before");
    assert_eq!(sources.set_api(pods(&["b"])), pods(&["a"]), "the API server's before");
    assert_eq!((sources.statics_of("file"), sources.statics_of("http")), (pods(&["f"]), pods(&["h"])));
    assert_eq!(sources.statics_of("other"), pods(&[]), "nobody heard it");
    assert_eq!(sources.statics(), &BTreeMap::from([("file", pods(&["f"])), ("http", pods(&["h"]))]));
    let all: Vec<&str> = sources.all().map(|(uid, _)| uid.as_str()).collect();
    assert_eq!(all, ["b", "f", "h"]);
}

#[test]
fn an_api_server_that_was_not_heard_wants_nothing_and_one_with_no_pods_was_heard() {
    let (mut sources, uid) = (PodSources::default(), PodUid::from("a"));
    assert_eq!((sources.api(), sources.api_pod(&uid)), (None, None));
    assert_eq!(sources.set_api_pod(&uid, None), None, "the complete set is still to come");
    sources.set_api(pods(&[]));
    assert_eq!((sources.api(), sources.api_pod(&uid)), (Some(&pods(&[])), None));
    assert_eq!(sources.set_api_pod(&uid, None), Some(None), "it did not want it before");
}

#[test]
fn news_of_one_pod_give_the_version_before() {
    let (mut sources, uid) = (PodSources::default(), PodUid::from("a"));
    sources.set_api(pods(&["b"]));
    let (one, two) = (named("one"), named("two"));
    for (now, before) in [(Some(&one), None), (Some(&two), Some(&one)), (None, Some(&two)), (Some(&one), None)] {
        assert_eq!(sources.set_api_pod(&uid, now), Some(before.cloned()), "{now:?}");
        assert_eq!(sources.api_pod(&uid), now);
        assert!(sources.api_pod(&"b".into()).is_some(), "another pod is as before");
    }
}

/// A static pod and a pod of the API server may claim one UID: its manifest names it.
#[test]
fn the_api_server_comes_before_sources_of_static_pods() {
    let uid = PodUid::from("u");
    let of = |pod: &Arc<Pod>| Pods::from([(PodUid::from("u"), Arc::clone(pod))]);
    let (api, file, http) = (named("api"), named("file"), named("http"));
    let mut sources = PodSources::default();
    sources.set_statics("http", of(&http));
    assert_eq!((sources.pod(&uid), sources.source_of(&uid)), (Some(&http), Some("http")));
    sources.set_statics("file", of(&file));
    assert_eq!((sources.pod(&uid), sources.source_of(&uid)), (Some(&file), Some("file")));
    assert_eq!(sources.api_pod(&uid), None, "the API server does not want it");
    sources.set_api(of(&api));
    assert_eq!((sources.pod(&uid), sources.source_of(&uid)), (Some(&api), Some(API)));
    assert_eq!(sources.all().count(), 3, "each source has its own");
    sources.set_api_pod(&uid, None);
    assert_eq!(sources.source_of(&uid), Some("file"), "the API server let it go");
}

/// PAIN-10: the memory of the API server's pods comes into force once, and never after its own word.
#[test]
fn recalled_pods_come_into_force_once() {
    let mut sources = PodSources::default();
    assert_eq!(sources.take_recalled(), None, "there is no memory");
    sources.recall(pods(&["a"]));
    sources.recall(pods(&["b"]));
    assert_eq!((sources.api(), sources.all().count()), (None, 0), "it is not in force yet");
    assert_eq!(sources.pod(&"b".into()), None, "nor is any pod of it");
    assert_eq!(sources.take_recalled(), Some(pods(&["b"])), "the last one");
    assert_eq!(sources.take_recalled(), None, "once");
    sources.set_api(pods(&[]));
    sources.recall(pods(&["c"]));
    assert_eq!(sources.take_recalled(), None, "the API server has spoken, and wants none");
}

#[test]
#[should_panic(expected = "the API server's pods are not static")]
fn the_api_server_is_no_source_of_static_pods() {
    PodSources::default().set_statics(API, pods(&["a"]));
}
