//! The shape of `src` and `tests`: how many modules a folder holds, and which domains of `logic` may import which.
//!
//! The list of exceptions holds each folder that is against the rule, with its count. It may only shrink: a count that is
//! too high is a complaint as well.

use std::collections::{BTreeMap, BTreeSet};

use crate::settle;
use crate::source::{Source, identifiers, paths_after, sources};

/// A folder with fewer files, at any depth, is one more step on the way to them.
const FILES_MIN: usize = 3;
/// A folder with more modules side by side is a heap, whatever they are like.
const MODULES_MAX: usize = 15;

/// Other folders: how many files or modules, and why.
const OTHER_FOLDERS: &[(&str, usize, &str)] = &[
    ("src/actors", 22, "its domains, a folder each, and the tree above them"),
    ("src/bin", 1, "Cargo looks for programs here"),
    ("src/logic", 20, "its domains, a folder each"),
];

fn is_tests(name: &str) -> bool {
    name == "tests" || name == "testing"
}

/// Of each folder: the modules in it but those of tests, and the files below it.
fn folders() -> BTreeMap<String, (BTreeSet<String>, usize)> {
    let mut found: BTreeMap<String, (BTreeSet<String>, usize)> = BTreeMap::new();
    for source in sources("src").into_iter().chain(sources("tests")) {
        let parts: Vec<&str> = source.path.trim_end_matches(".rs").split('/').collect();
        for depth in 1..parts.len() {
            if parts[1..depth].iter().any(|part| is_tests(part)) {
                continue;
            }
            let (modules, files) = found.entry(parts[..depth].join("/")).or_default();
            *files += 1;
            let is_root = matches!(parts[depth], "lib" | "main");
            if !is_tests(parts[depth]) && parts[depth] != "mod" && !is_root {
                modules.insert(parts[depth].to_owned());
            }
        }
    }
    found
}

#[test]
fn folders_hold_three_to_fifteen_modules() {
    let folders = folders();
    let all = sources("src").into_iter().chain(sources("tests"));
    let paths: BTreeSet<String> = all.map(|source| source.path).collect();
    let mut complaints = vec![];
    for (folder, (modules, files)) in &folders {
        // The folder of a file's helpers is no place by itself.
        let of_file = paths.contains(&format!("{folder}.rs"));
        let wrong = match modules.len() {
            modules if modules > MODULES_MAX => Some(modules),
            _ if *files < FILES_MIN && !of_file => Some(*files),
            _ => None,
        };
        let known = OTHER_FOLDERS.iter().find(|(other, ..)| other == folder).map(|(_, count, _)| *count);
        if wrong != known {
            let (modules, known) = (modules.len(), known.map_or("no".to_owned(), |count| count.to_string()));
            complaints.push(format!("{folder}: {modules} modules, {files} files; OTHER_FOLDERS has {known}"));
        }
    }
    let gone = OTHER_FOLDERS.iter().filter(|(other, ..)| !folders.contains_key(*other));
    complaints.extend(gone.map(|(other, ..)| format!("{other}: OTHER_FOLDERS has a folder that is not there")));
    settle("a folder holds 3 files or more, and 15 modules at most", complaints);
}

#[test]
fn tests_lie_beside_their_module() {
    let mut complaints = vec![];
    for source in sources("src").into_iter().chain(sources("tests")) {
        let is_other = source.path.starts_with("src/") && source.path.contains("_tests");
        complaints.extend(is_other.then(|| format!("{}: tests lie in tests.rs or tests/", source.path)));
        let paths = source.lines.iter().enumerate().filter(|(_, line)| line.trim_start().starts_with("#[path"));
        complaints.extend(paths.map(|(at, _)| format!("{}:{}: a module elsewhere", source.path, at + 1)));
    }
    settle("tests lie in tests.rs or tests/ of their module, and are not fetched from elsewhere", complaints);
}

/// The text of a module's header.
fn header(source: &Source) -> String {
    let lines = source.lines.iter().map_while(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The words in backquotes between a beginning and the full stop behind it; none where there is no such beginning.
fn words_after<'a>(text: &'a str, beginning: &str) -> Option<Vec<&'a str>> {
    let (_, rest) = text.split_once(beginning)?;
    Some(rest.split('.').next()?.split('`').skip(1).step_by(2).collect())
}

/// The domains of `logic` that a line of a file imports.
fn domains_imported(path: &str, line: &str) -> Vec<String> {
    let second =
        |path: String| path.strip_prefix("logic::").and_then(|rest| identifiers(rest).next().map(str::to_owned));
    let mut found: Vec<String> = paths_after(line, "crate").into_iter().filter_map(second).collect();
    // As many `super` as lead from the file's module to `logic`.
    let parts = path.trim_end_matches(".rs").trim_end_matches("/mod").split('/').count();
    let chain = "super::".repeat(parts.saturating_sub(2));
    for (at, _) in line.match_indices(&chain).filter(|_| !chain.is_empty()) {
        let rest = &line[at + chain.len()..];
        if !line[..at].ends_with("::") && !rest.starts_with("super::") {
            found.extend(identifiers(rest).next().map(str::to_owned));
        }
    }
    found
}

#[test]
fn domains_import_what_they_say() {
    let all = sources("src/logic");
    let of = |path: &str| all.iter().find(|source| source.path == path).map(header);
    let top = of("src/logic/mod.rs").expect("logic has a mod.rs");
    let order = words_after(&top, "from the bottom:").expect("src/logic/mod.rs gives the order of domains");
    let mut complaints = vec![];
    let mut allowed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (rank, domain) in order.iter().enumerate() {
        let text = of(&format!("src/logic/{domain}/mod.rs")).unwrap_or_default();
        let Some(names) = words_after(&text, "May import") else {
            complaints.push(format!("src/logic/{domain}/mod.rs: does not say what the domain \"May import\""));
            continue;
        };
        let climbs = names.iter().filter(|name| !order[..rank].contains(name));
        complaints
            .extend(climbs.map(|name| format!("src/logic/{domain}/mod.rs: {name} does not come before {domain}")));
        allowed.insert(domain, names.into_iter().map(str::to_owned).collect());
    }
    for source in all.iter().filter(|source| source.path != "src/logic/mod.rs") {
        let domain = source.path.split('/').nth(2).unwrap_or_default().trim_end_matches(".rs");
        let Some(allowed) = allowed.get(domain) else {
            complaints.push(format!("{}: {domain} is not in the order of domains", source.path));
            continue;
        };
        for (number, line) in source.product_lines() {
            let names = domains_imported(&source.path, line).into_iter();
            let wrong =
                names.filter(|name| name != domain && order.contains(&name.as_str()) && !allowed.contains(name));
            complaints.extend(wrong.map(|name| format!("{}:{number}: {domain} may not import {name}", source.path)));
        }
    }
    settle("a domain of logic imports what its mod.rs says, and that comes before it", complaints);
}

#[test]
fn imports_of_domains_are_found() {
    let of = |path: &str, line: &str| domains_imported(path, line);
    assert_eq!(of("src/logic/pods/pod_roster.rs", "use crate::logic::model::ids::PodUid;"), ["model"]);
    assert_eq!(of("src/logic/pods/pod_roster.rs", "use super::super::model::ids::PodUid;"), ["model"]);
    assert_eq!(of("src/logic/pods/pod_lifecycle/job.rs", "    super::super::super::node::f(),"), ["node"]);
    assert_eq!(of("src/logic/volumes/mod.rs", "use super::pods;"), ["pods"]);
    assert_eq!(of("src/logic/pods/pod_roster.rs", "use super::pod_status::is_terminal;"), [""; 0]);
    assert_eq!(words_after("A. May import `a`, `b` and `c`. More `d`.", "May import"), Some(vec!["a", "b", "c"]));
}
