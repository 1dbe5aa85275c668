//! Tests of the page: its chain, its lanes, its scale; hostile words; a browser that shows it.

use std::process::Command;

use serde_json::json;

use super::chain::{Spent, parts, story};
use super::data::Turn;
use super::scale::Scale;
use super::*;

const UID: &str = "8286";

/// A turn at a time in milliseconds, 1 ms long.
fn turn(id: u64, actor: &str, message: &str, at: f64, cause: Option<u64>, origin: &str) -> serde_json::Value {
    let of_pod = !matches!(actor, "Pleg" | "FileSource" | "PodManager");
    let began = jiff::Timestamp::from_millisecond(1_700_000_000_000 + at as i64).expect("a time").to_string();
    json!({"id": id, "actor": actor, "message": message, "pod": if of_pod { UID } else { "" }, "began": began,
           "cause": {"turn": cause, "origin": origin}, "began_uptime_seconds": at / 1e3,
           "waited_seconds": 0.0005, "took_seconds": 0.001, "ending": "done"})
}

/// The start of a pod: found in a folder, run, Ready after 330 ms; a relist and a probe beside it.
fn started() -> Vec<Turn> {
    let worker = format!("PodWorker/shop/web/{UID}");
    let turns = vec![
        turn(1, "FileSource", "Watched", 10.0, None, "start"),
        turn(2, "Pleg", "Relist", 20.0, None, "timer"),
        turn(3, "FileSource", "Changed", 5000.0, Some(1), "watch folder"),
        turn(4, "FileSource", "Read", 5010.0, Some(3), "read folder"),
        turn(5, "PodManager", "SourceChanged", 5012.0, Some(4), "turn"),
        turn(6, &worker, "SpecChanged", 5014.0, Some(5), "turn"),
        turn(7, "ImageManager", "Ensure", 5016.0, Some(6), "turn"),
        turn(8, &worker, "JobEnded", 5250.0, Some(6), "run sandbox"),
        turn(9, &worker, "JobEnded", 5320.0, Some(8), "start container"),
        turn(10, "StatusManager", "StatusChanged", 5329.0, Some(9), "turn"),
        turn(11, "Prober", "Probed", 9000.0, Some(9), "timer"),
        turn(12, "StatusManager", "StatusChanged", 9100.0, Some(11), "turn"),
    ];
    turns.into_iter().map(|turn| serde_json::from_value(turn).expect("a turn")).collect()
}

fn pod() -> Pod {
    Pod { name: "shop/web".to_owned(), uid: UID.to_owned(), ready_at: Some(1_700_000_005) }
}

fn ids(story: &Story) -> Vec<u64> {
    story.chain.iter().map(|place| story.turns[*place].id).collect()
}

#[test]
fn the_chain_leads_from_the_pods_appearance_to_ready() {
    let story = story(started(), Some(&pod()));
    assert!(story.is_ready);
    assert_eq!(ids(&story), [3, 4, 5, 6, 8, 9, 10], "not further back than the folder's change");
    let shown: Vec<u64> = story.turns.iter().map(|turn| turn.id).collect();
    assert_eq!((shown, story.left_out), ((3..=10).collect(), 4));
}

#[test]
fn the_parts_of_a_chain_are_all_of_its_time() {
    let story = story(started(), Some(&pod()));
    let parts = parts(&story);
    let all: f64 = parts.iter().map(|part| part.seconds).sum();
    assert!((all - 0.330).abs() < 1e-9, "{all}");
    let longest = parts.iter().max_by(|one, other| one.seconds.total_cmp(&other.seconds)).expect("parts");
    assert_eq!((longest.on, longest.name.as_str(), longest.turn), (Spent::Operation, "run sandbox", 8));
    let waited: f64 = parts.iter().filter(|part| part.on == Spent::Mailbox).map(|part| part.seconds).sum();
    assert!((waited - 6.0 * 0.0005).abs() < 1e-9, "{waited}");
}

#[test]
fn without_ready_the_chain_is_the_one_with_most_turns_and_crosses_no_wait() {
    for pod in [None, Some(Pod { ready_at: None, ..pod() })] {
        let story = story(started(), pod.as_ref());
        assert_eq!((ids(&story), story.is_ready), (vec![3, 4, 5, 6, 8, 9, 10], false));
        assert_eq!((story.turns.len(), story.left_out), (12, 0));
    }
    assert_eq!(story(vec![], None), Story::default());
}

#[test]
fn causes_in_a_circle_end() {
    let mut turns = started();
    turns[2].cause.turn = Some(10);
    turns[2].cause.origin = "turn".to_owned();
    assert_eq!(ids(&story(turns.clone(), Some(&pod()))), [3, 4, 5, 6, 8, 9, 10]);
    turns.iter_mut().for_each(|turn| turn.id = 7);
    assert_eq!(story(turns, None).chain.len(), 1);
}

#[test]
fn a_pod_is_found_by_its_name_its_static_name_and_its_uid() {
    let list = json!({"items": [
        {"metadata": {"namespace": "shop", "name": "web-node1", "uid": "u1"}, "spec": {"nodeName": "node1"},
         "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-22T18:48:45Z"}]}},
        {"metadata": {"namespace": "shop", "name": "db", "uid": "u2"},
         "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-22T18:48:45Z"}]}},
    ]});
    for wanted in ["shop/web", "shop/web-node1", "u1"] {
        let found = Pod::find(&list, wanted).expect("there");
        assert_eq!((found.name.as_str(), found.ready_at), ("shop/web-node1", Some(1_795_373_325)), "{wanted}");
    }
    assert_eq!(Pod::find(&list, "shop/db").expect("there").ready_at, None);
    assert_eq!((Pod::find(&list, "shop/other"), Pod::find(&json!({"items": null}), "u1")), (None, None));
}

#[test]
fn bars_of_a_lane_do_not_overlap() {
    let story = story(started(), None);
    let lanes = lanes::lanes(&story, &actors(), None);
    let names: Vec<&str> = lanes.iter().map(|lane| lane.actor.split('/').next().unwrap_or_default()).collect();
    assert_eq!(names, ["FileSource", "Pleg", "PodManager", "PodWorker", "ImageManager", "StatusManager", "Prober"]);
    let worker = &lanes[3];
    let bars: Vec<(&str, bool, usize)> =
        worker.bars.iter().map(|bar| (bar.name.as_str(), bar.on_chain, bar.row)).collect();
    assert_eq!(bars, [("run sandbox", true, 0), ("start container", true, 0), ("pull <image>", false, 0)]);
    assert!(lanes[0].bars.iter().any(|bar| bar.name == "watch folder" && bar.is_wait));
}

#[test]
fn a_scale_is_even_and_folds_long_pauses() {
    let even = Scale::new(&[(0.0, 1.0), (1.1, 2.0)]);
    assert!(even.folds().is_empty());
    assert!((even.place(1.0) - 50.0).abs() < 1e-9);
    assert_eq!((even.place(-5.0), even.place(0.0), even.place(9.0)), (1.0, 1.0, 99.0));

    let folded = Scale::new(&[(3600.0, 3601.0), (0.0, 1.0), (0.5, 1.0)]);
    let fold = folded.folds();
    assert_eq!(fold.len(), 1);
    assert!((fold[0].seconds - 3599.0).abs() < 1e-9);
    assert_eq!((folded.place(1.0), folded.place(1000.0)), (fold[0].left, fold[0].left));
    assert!((folded.place(3601.0) - 99.0).abs() < 1e-9);
    let places: Vec<f64> = folded.ticks(0.0).iter().map(|(_, place)| *place).collect();
    assert!(places.len() > 5 && places.windows(2).all(|pair| pair[1] - pair[0] > 5.0), "{places:?}");
    assert!(Scale::new(&[]).ticks(0.0).is_empty());
    assert_eq!(Scale::new(&[(5.0, 5.0)]).place(5.0), 1.0);
}

const HOSTILE: &str = "\"><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">'";

fn actors() -> Actors {
    let actor = |name: &str, parent: &str, more: serde_json::Value| {
        let mut actor = json!({"name": name, "parent": parent, "state": "idle", "turns": 3,
                               "mailbox": {"depth": 1, "capacity": 64, "refused": 0}});
        actor.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        actor
    };
    let worker = format!("PodWorker/shop/web/{UID}");
    let open = json!({"operations": [{"name": "pull <image>", "about": "a&b", "open_seconds": 0.5}]});
    let list = [
        actor("Root", "", json!({})),
        actor("PodManager", "Root", json!({"restarts": 2, "last_failure": "it <b>fell</b>"})),
        actor(&worker, "PodManager", open),
    ];
    serde_json::from_value(json!({"uptime_seconds": 12.0, "actors": list})).expect("actors")
}

/// A page in which every word is hostile.
fn hostile_page() -> String {
    let mut turns = started();
    for turn in &mut turns {
        for text in [&mut turn.actor, &mut turn.message, &mut turn.ending, &mut turn.cause.origin] {
            text.push_str(HOSTILE);
        }
        turn.pod = HOSTILE.to_owned();
    }
    let mut actors = actors();
    for actor in &mut actors.actors {
        for text in [&mut actor.name, &mut actor.state] {
            text.push_str(HOSTILE);
        }
        actor.note = Some(HOSTILE.to_owned());
        actor.last_failure = Some(HOSTILE.to_owned());
        actor.operations = vec![data::Operation { name: HOSTILE.into(), about: HOSTILE.into(), open_seconds: 1.0 }];
    }
    let root = actors.actors[0].name.clone();
    actors.actors[1].parent = root;
    page(Trace { turns }, &actors, Some(&Pod { name: HOSTILE.to_owned(), ..pod() }))
}

#[test]
fn no_text_of_a_pod_becomes_a_part_of_the_page() {
    let page = hostile_page();
    assert!(page.contains("&lt;script&gt;document.title=&#39;owned&#39;&lt;/script&gt;&lt;img src=x"), "it is there");
    let own = page.replace(STYLE, "").replace(SCRIPT, "");
    let tags: std::collections::BTreeSet<&str> = own
        .split('<')
        .skip(1)
        .filter_map(|rest| rest.split(['>', ' ']).next())
        .map(|it| it.trim_matches('/'))
        .collect();
    let known = [
        "!DOCTYPE", "a", "b", "body", "button", "dd", "details", "div", "dl", "dt", "footer", "g", "h1", "h2", "head",
        "header", "html", "input", "kbd", "label", "line", "main", "meta", "meter", "p", "rect", "script", "section",
        "span", "style", "summary", "svg", "table", "tbody", "td", "text", "th", "thead", "title", "tr",
    ];
    assert!(tags.iter().all(|tag| known.contains(tag)), "{tags:?}");
    assert_eq!((own.matches("<script>").count(), own.matches("<style>").count()), (1, 1));
    assert!(!own.contains("<img"));
}

#[test]
fn the_page_allows_its_own_script_alone_and_names_no_other_place() {
    let page = page(Trace { turns: started() }, &actors(), Some(&pod()));
    let policy = policy();
    assert!(page.contains(&policy.replace('\'', "&#39;")), "{policy}");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("unsafe"));
    for word in ["http:", "https:", "//cdn", "@import", "url(", "src=", "style=", "onclick", "eval(", "innerHTML"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn the_page_has_the_chain_the_lanes_and_the_actors() {
    let page = page(Trace { turns: started() }, &actors(), Some(&pod()));
    for words in [
        "<h1>Start of shop/web</h1>",
        "8 turns of 5 actors from 2023-11-14 22:13:25 UTC on, 4 before and after left out",
        "<dt>Appearance to Ready</dt><dd>330 ms</dd>",
        "<td>run sandbox</td>",
        "class=\"bar chain\"",
        "class=\"cause chain\"",
        "class=\"turn chain\"",
        "<td class=\"level-2\">PodWorker/shop/web/8286</td>",
        "<meter value=\"1\" max=\"64\">",
        "last failed: it &lt;b&gt;fell&lt;/b&gt;",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
    let empty = super::page(Trace::default(), &Actors::default(), None);
    assert!(empty.contains("The trace holds no such turns."), "{empty}");
}

/// A browser without a screen; its page after the script ran, and its own words.
fn browsed(page: &str) -> Option<(String, String)> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace.html");
    std::fs::write(&file, page).expect("written");
    let quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
    let alone = ["--disable-background-networking", "--disable-component-update", "--disable-sync"];
    let output = Command::new("chromium")
        .args(quiet)
        .args(alone)
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .args(["--enable-logging=stderr", "--virtual-time-budget=2000", "--dump-dom"])
        .arg(format!("file://{}", file.display()))
        .output();
    let Ok(output) = output else {
        crate::testing::skips::needs("chromium");
        return None;
    };
    Some((String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// The browser's complaints about a page; none of its complaints about the machine.
fn complaints(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.contains("CONSOLE")).collect()
}

#[test]
fn a_browser_shows_the_page_and_complains_of_nothing() {
    let Some((shown, said)) = browsed(&page(Trace { turns: started() }, &actors(), Some(&pod()))) else { return };
    assert!(shown.contains("data-ready=\"8\""), "the script ran to its end: {shown}\n{said}");
    assert!(shown.contains("class=\"turn chain\"") && !shown.contains("id=\"tools\" hidden"), "{shown}");
    assert!(complaints(&said).is_empty(), "{said}");
}

#[test]
fn a_browser_runs_no_script_of_a_pods_text() {
    let Some((shown, said)) = browsed(&hostile_page()) else { return };
    assert!(shown.contains("data-ready=") && !shown.contains("<title>owned"), "{shown}");
    assert!(!shown.contains("<img") && complaints(&said).is_empty(), "{said}");
}
