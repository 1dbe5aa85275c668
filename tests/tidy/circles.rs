//! Circles: modules side by side that import each other, directly or by way of others.
//!
//! A path in the code of one module to an item of another counts where both are in the same module, at any depth: then
//! what is in the one leans on the other. A module and its own parts do not count as two: the parent names its parts,
//! and the parts share its types. A re-export leads to where the item is, so that it hides no circle.

use std::collections::{BTreeMap, BTreeSet};

use crate::settle;
use crate::source::{Source, sources};

/// Circles that stay, and why. A circle within one of these sets is allowed; a set without a circle goes.
const KNOWN: &[(&[&str], &str)] = &[(
    &["actors::kit::actor", "actors::kit::context"],
    "an actor's turn is given its context, and a context starts actors: one definition in two files",
)];

/// A place in the crate: `["logic", "model", "ids"]`.
type Place = Vec<String>;

/// Reads use trees and paths.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn skip_spaces(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Steps over a token, if it comes next.
    fn eat(&mut self, token: &str) -> bool {
        self.skip_spaces();
        let found = self.text[self.at..].starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn word(&mut self) -> Option<&'a str> {
        self.skip_spaces();
        let rest = &self.text[self.at..];
        let end = rest.find(|it: char| !(it.is_alphanumeric() || it == '_')).unwrap_or(rest.len());
        self.at += end;
        (end > 0).then(|| &rest[..end])
    }

    /// The leaves of what follows a path's first words, each with the name that an import gives it.
    fn leaves(&mut self, words: &mut Place, found: &mut Vec<(Place, String)>) {
        while self.eat("::") {
            if self.eat("{") {
                while !self.eat("}") {
                    let mut inner = words.clone();
                    match self.word() {
                        Some(word) => inner.push(word.to_owned()),
                        None if self.eat("*") => continue,
                        None => return,
                    }
                    self.leaves(&mut inner, found);
                    self.eat(",");
                }
                return;
            }
            match self.word() {
                Some(word) => words.push(word.to_owned()),
                None => break,
            }
        }
        if words.last().is_some_and(|word| word == "self") {
            words.pop();
        }
        let before = self.at;
        let alias = if self.word() == Some("as") { self.word() } else { None };
        if alias.is_none() {
            self.at = before;
        }
        let name = alias.or(words.last().map(String::as_str)).unwrap_or_default().to_owned();
        found.push((words.clone(), name));
    }
}

/// Where the words of this name begin in the text, as whole words that no path goes before.
fn starts<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let joins = |it: char| it.is_alphanumeric() || it == '_';
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = text[..*at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        before.is_none_or(|it| !joins(it) && it != ':' && it != '.') && after.is_none_or(|it| !joins(it))
    })
}

/// A path of a module as a place, if it is in this crate. `children` are modules that the module may name plainly.
fn resolved(words: &[String], module: &Place, children: &BTreeSet<Place>) -> Option<Place> {
    let mut place = match words.first()?.as_str() {
        "crate" => vec![],
        "self" | "super" => module.clone(),
        child => {
            let place: Place = module.iter().cloned().chain([child.to_owned()]).collect();
            return children.contains(&place).then(|| module.iter().chain(words).cloned().collect());
        }
    };
    let ups = words.iter().take_while(|word| *word == "super").count();
    place.truncate(place.len().checked_sub(ups)?);
    let named = if ups > 0 { ups } else { 1 };
    place.extend(words[named..].iter().cloned());
    Some(place)
}

/// The module of a source file.
fn module_of(source: &Source) -> Place {
    let parts: Vec<&str> = source.path.trim_end_matches(".rs").split('/').skip(1).collect();
    parts.into_iter().filter(|part| !matches!(*part, "mod" | "lib")).map(str::to_owned).collect()
}

/// The names that the modules of the crate use of each other.
#[derive(Default)]
struct Crate {
    modules: BTreeSet<Place>,
    /// Of each module, the names that it imports, and where they lead.
    imports: BTreeMap<Place, BTreeMap<String, Place>>,
    /// Of each module, the places that its code names.
    named: BTreeMap<Place, BTreeSet<Place>>,
}

impl Crate {
    fn read(all: &[Source]) -> Self {
        let mut read = Self { modules: all.iter().map(module_of).collect(), ..Self::default() };
        for source in all {
            let (module, text) = (module_of(source), source.product_text());
            for at in starts(&text, "use") {
                let mut cursor = Cursor { text: &text, at: at + "use".len() };
                let Some(word) = cursor.word() else { continue };
                let mut found = vec![];
                cursor.leaves(&mut vec![word.to_owned()], &mut found);
                for (words, name) in found {
                    if let Some(place) = resolved(&words, &module, &read.modules) {
                        read.imports.entry(module.clone()).or_default().entry(name).or_insert(place);
                    }
                }
            }
            for head in ["crate", "self", "super"] {
                for at in starts(&text, head) {
                    let mut cursor = Cursor { text: &text, at: at + head.len() };
                    let mut found = vec![];
                    cursor.leaves(&mut vec![head.to_owned()], &mut found);
                    let places = found.iter().filter_map(|(words, _)| resolved(words, &module, &read.modules));
                    read.named.entry(module.clone()).or_default().extend(places);
                }
            }
        }
        read
    }

    /// The module that an item is in, re-exports followed.
    fn home(&self, place: &Place) -> Option<Place> {
        let mut place = place.clone();
        // More re-exports in a row than this are a circle of them.
        for _ in 0..8 {
            let owner = (1..=place.len()).rev().map(|len| &place[..len]).find(|part| self.modules.contains(*part))?;
            let name = place.get(owner.len());
            let leads = name.and_then(|name| self.imports.get(owner)?.get(name));
            match leads.filter(|leads| leads[..] != place[..leads.len().min(place.len())]) {
                Some(leads) => place = leads.iter().chain(&place[owner.len() + 1..]).cloned().collect(),
                None => return Some(owner.to_vec()),
            }
        }
        None
    }

    /// Which modules lean on which beside them, with an example each.
    fn edges(&self) -> BTreeMap<Place, BTreeMap<Place, String>> {
        let mut edges: BTreeMap<Place, BTreeMap<Place, String>> = BTreeMap::new();
        for (from, places) in &self.named {
            for place in places {
                let Some(to) = self.home(place) else { continue };
                let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
                if common < from.len() && common < to.len() {
                    let example = format!("{} names {}", from.join("::"), place.join("::"));
                    let of = edges.entry(from[..=common].to_vec()).or_default();
                    of.entry(to[..=common].to_vec()).or_insert(example);
                }
            }
        }
        edges
    }
}

/// The sets of modules that lean on each other, each with examples.
fn circles(edges: &BTreeMap<Place, BTreeMap<Place, String>>) -> BTreeMap<Vec<String>, Vec<&str>> {
    let reached = |from: &Place| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(place) = next.pop() {
            for to in edges.get(&place).into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(to.clone()) {
                    next.push(to.clone());
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&Place, BTreeSet<Place>> = edges.keys().map(|from| (from, reached(from))).collect();
    let mut found: BTreeMap<Vec<String>, Vec<&str>> = BTreeMap::new();
    for (from, seen) in reach.iter().filter(|(from, seen)| seen.contains(**from)) {
        let both = seen.iter().filter(|to| reach.get(to).is_some_and(|back| back.contains(*from)));
        let members: Vec<&Place> = both.collect();
        let examples = members.iter().filter_map(|to| edges[*from].get(*to)).map(String::as_str);
        found.entry(members.iter().map(|place| place.join("::")).collect()).or_default().extend(examples);
    }
    found
}

#[test]
fn modules_side_by_side_import_each_other_in_no_circle() {
    let all: Vec<Source> = sources("src")
        .into_iter()
        .filter(|source| source.path != "src/main.rs" && !source.path.starts_with("src/bin/"))
        .collect();
    let edges = Crate::read(&all).edges();
    assert!(edges.len() > 100, "the imports are found");
    let found = circles(&edges);
    let fits = |members: &[String], known: &[&str]| members.iter().all(|member| known.contains(&member.as_str()));
    let new = found.iter().filter(|(members, _)| !KNOWN.iter().any(|(known, _)| fits(members, known)));
    let mut complaints: Vec<String> =
        new.map(|(members, examples)| format!("{}:\n    {}", members.join(", "), examples.join("\n    "))).collect();
    let gone = KNOWN.iter().filter(|(known, _)| !found.keys().any(|members| fits(members, known)));
    complaints.extend(gone.map(|(known, _)| format!("{}: KNOWN has a circle that is not there", known.join(", "))));
    settle("a circle of imports ends with the shared item in a module below, or in their parent", complaints);
}

#[test]
fn a_circle_is_found_behind_groups_re_exports_and_folders() {
    let source = |path: &str, text: &str| Source::new(path.to_owned(), text);
    let all = [
        source("src/lib.rs", "pub mod a;\npub mod b;\npub mod c;\n"),
        source("src/a/mod.rs", "mod inner;\nmod other;\npub use inner::One;\n"),
        source("src/a/inner.rs", "use crate::{\n    b::{self, Two as Second},\n};\nuse super::other::Three;\n"),
        // Parent and child are no circle.
        source("src/a/other.rs", "use super::One;\nfn f() -> super::Parent { crate::c::g(1 as u8) }\n"),
        source("src/b.rs", "fn f(x: crate::a::One) {}\n#[cfg(test)]\nmod tests {\n    use crate::c::g;\n}\n"),
        source("src/c.rs", "//! crate::a::One\nuse std::crate_like;\n"),
    ];
    let edges = Crate::read(&all).edges();
    let found: Vec<Vec<String>> = circles(&edges).into_keys().collect();
    let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    // `other` names `One` by way of its parent, and `inner` names `Three` of `other`.
    assert_eq!(found, [names(["a", "b"]), names(["a::inner", "a::other"])]);
}
