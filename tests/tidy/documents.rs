//! Documents: their size, the ids of behaviour that they explain, their links, and the tables that show the tree of actors.

use std::collections::{BTreeMap, BTreeSet};

use podwright::actors::tree::{FAILURE_WINDOW, TREE};
use podwright::messages::root::Child;
use strum::IntoEnumIterator;

use crate::checklist::RANGES;
use crate::settle;
use crate::source::{identifiers, text_files, top};

/// The page that says what each id means.
const BEHAVIOUR: &str = "docs/behaviour.md";
/// Folders whose files may name ids.
const NAMING: &[&str] = &["src", "tests", "proto", "docs", "deploy", "examples", "scripts"];
/// The most bytes of a page that readers begin with.
const BYTES_MAX: &[(&str, usize)] = &[("README.md", 12 << 10), ("ARCHITECTURE.md", 35 << 10)];
/// The page with the table of actors, and the one with the output of `podwright actors`.
const TREE_PAGES: [&str; 2] = ["ARCHITECTURE.md", "docs/operations.md"];

fn read(path: &str) -> String {
    std::fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The ids in a line: a prefix of the checklists, a hyphen and digits.
fn ids(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|character: char| !character.is_ascii_alphanumeric() && character != '-');
    words.filter(|word| {
        word.split_once('-').is_some_and(|(prefix, digits)| {
            let is_known = RANGES.iter().any(|(known, _)| *known == prefix);
            is_known && !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
        })
    })
}

/// The lines of [`BEHAVIOUR`] that say what an id means: their numbers, ids and texts.
fn meanings(page: &str) -> Vec<(usize, &str, &str)> {
    let lines = page.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let (id, text) = line.strip_prefix("- **")?.split_once("**: ")?;
            Some((index + 1, id, text))
        })
        .collect()
}

#[test]
fn every_id_in_use_has_one_line_that_says_what_it_means() {
    let page = read(BEHAVIOUR);
    let meanings = meanings(&page);
    let explained: BTreeSet<&str> = meanings.iter().map(|(_, id, _)| *id).collect();
    let mut complaints = vec![];
    let mut used = BTreeSet::new();
    for path in text_files(NAMING).into_iter().filter(|path| path != BEHAVIOUR) {
        let Ok(text) = std::fs::read_to_string(top().join(&path)) else { continue };
        for (index, line) in text.lines().enumerate() {
            for id in ids(line) {
                if !explained.contains(id) && used.insert(id.to_owned()) {
                    complaints.push(format!("{path}:{}: {id} has no line in {BEHAVIOUR}", index + 1));
                }
                used.insert(id.to_owned());
            }
        }
    }
    for (number, id, text) in &meanings {
        if ids(id).next() != Some(*id) || text.trim().is_empty() {
            complaints.push(format!("{BEHAVIOUR}:{number}: {id} is no id with a meaning"));
        } else if !used.contains(*id) {
            complaints.push(format!("{BEHAVIOUR}:{number}: nothing names {id}"));
        }
    }
    for pair in meanings.windows(2) {
        let ((_, before, _), (number, id, _)) = (&pair[0], &pair[1]);
        if id <= before {
            complaints.push(format!("{BEHAVIOUR}:{number}: {id} is there twice, or belongs before {before}"));
        }
    }
    settle("an id in a comment can be looked up", complaints);
}

#[test]
fn pages_that_readers_begin_with_are_short() {
    let long = BYTES_MAX.iter().map(|(path, max)| (path, max, read(path).len())).filter(|(_, max, len)| len > max);
    let complaints = long.map(|(path, max, len)| format!("{path}: {len} bytes, more than {max}"));
    settle("a page that grows is a page for docs/", complaints.collect());
}

/// Links to other files and to headings, as `[text](target)`: the line and the target of each. Code is left out.
fn links(page: &str) -> Vec<(usize, String)> {
    let mut found = vec![];
    let mut in_code = false;
    for (index, line) in page.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code {
            continue;
        }
        // Every second piece is between backticks.
        let prose: Vec<&str> = line.split('`').step_by(2).collect();
        let targets = prose.iter().flat_map(|piece| piece.split("](").skip(1));
        let targets = targets.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned());
        found.extend(targets.map(|target| (index + 1, target)));
    }
    found
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |character: &char| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_');
    headings.map(|heading| heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn links_between_documents_lead_somewhere() {
    let pages: BTreeMap<String, String> = text_files(&["docs"])
        .into_iter()
        .filter(|path| path.ends_with(".md"))
        .map(|path| (path.clone(), read(&path)))
        .collect();
    let mut complaints = vec![];
    let mut followed = 0;
    for (path, page) in &pages {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (number, target) in links(page).into_iter().filter(|(_, target)| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let place = match (file, file.strip_prefix("../")) {
                ("", _) => path.clone(),
                (_, Some(above)) => above.to_owned(),
                (_, None) => top().join(folder).join(file).strip_prefix(top()).expect("below").display().to_string(),
            };
            followed += 1;
            let leads = top().join(&place).exists()
                && (anchor.is_empty() || pages.get(&place).is_some_and(|page| anchors(page).contains(anchor)));
            if !leads {
                complaints.push(format!("{path}:{number}: {target} leads nowhere"));
            }
        }
    }
    assert!(followed > 2, "the links are found");
    settle("a link leads somewhere", complaints);
}

#[test]
fn the_documentation_names_every_actor() {
    let text = TREE_PAGES.map(read).join("\n");
    let named: BTreeSet<&str> = identifiers(&text).collect();
    let missing =
        Child::iter().map(<&'static str>::from).chain(["Root", "PodWorker"]).filter(|name| !named.contains(name));
    settle("the documents name every actor", missing.map(str::to_owned).collect());
}

/// The rows of the table of actors, by the name in their first cell.
fn rows(page: &str) -> Vec<(&str, Vec<&str>)> {
    let row = |line| {
        let cells: Vec<&str> = str::strip_prefix(line, "| `")?.trim_end_matches(" |").split(" | ").collect();
        Some((cells[0].split('`').next()?, cells))
    };
    page.lines().filter_map(row).filter(|(name, _)| Child::iter().any(|child| <&str>::from(child) == *name)).collect()
}

#[test]
fn the_tree_of_the_documents_is_the_agents() {
    let tree: Vec<&str> = TREE.iter().map(|spec| spec.child.into()).collect();
    let page = read(TREE_PAGES[1]);
    let indented = page.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    let shown: Vec<&str> = indented.filter(|name| tree.contains(name)).collect();
    assert_eq!(shown, tree, "{} shows the actors as `podwright actors` does", TREE_PAGES[1]);
    let page = read(TREE_PAGES[0]);
    let of_table: Vec<&str> = rows(&page).iter().map(|(name, _)| *name).collect();
    assert_eq!(of_table, tree, "the table of {} has the actors in their order", TREE_PAGES[0]);
}

#[test]
fn the_table_of_actors_has_the_figures_of_the_tree() {
    let page = read(TREE_PAGES[0]);
    let mut complaints = vec![];
    for ((name, cells), spec) in rows(&page).into_iter().zip(TREE) {
        let [_, _, mailbox, budget, stop, learns] = cells[..] else {
            complaints.push(format!("{name}: a row has six cells"));
            continue;
        };
        let figures = (
            spec.mailbox.to_string(),
            format!("{} in {} s", spec.failures_max, FAILURE_WINDOW.as_secs()),
            format!("{} s", spec.stop_limit.as_secs()),
        );
        if (mailbox, budget, stop) != (&*figures.0, &*figures.1, &*figures.2) {
            complaints.push(format!("{name}: {mailbox}, {budget}, {stop} where the agent has {figures:?}"));
        }
        // The text behind the semicolon is no actor that is asked to repeat.
        let before = learns.split(';').next().unwrap_or_default();
        let is_child = |word: &&str| Child::iter().any(|child| <&str>::from(child) == *word);
        let named: BTreeSet<&str> = identifiers(before).filter(is_child).collect();
        let teachers: BTreeSet<&str> = spec.learns_from.iter().map(<&str>::from).collect();
        if named != teachers {
            complaints.push(format!("{name}: learns from {named:?} where the agent has {teachers:?}"));
        }
    }
    settle("the table of actors is the agent's", complaints);
}
