//! The table of checklist ids and their tests, `tests/checklist.txt`: every id is there, every test that it names is there
//! and says so itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::settle;
use crate::source::{Source, sources, text_files, top};

/// The table, from the top of the repository.
const TABLE: &str = "tests/checklist.txt";
/// The scripts with the checks of the virtual machines.
const MACHINES: &str = "tests/vm/";

/// The ids of each checklist, as ranges with both ends: all that there are.
pub const RANGES: &[(&str, &[(u32, u32)])] = &[
    ("POD", &[(1, 40)]),
    ("NODE", &[(1, 63)]),
    ("VOL", &[(1, 52)]),
    ("CRI", &[(1, 38)]),
    ("CFG", &[(1, 56)]),
    ("RES", &[(1, 68)]),
    ("PRB", &[(1, 28)]),
    ("SEC", &[(1, 60)]),
    ("SRV", &[(1, 58)]),
    ("OBS", &[(1, 35)]),
    ("EVI", &[(1, 50)]),
    ("PAIN", &[(1, 42)]),
];

/// Faults of earlier kubelets, and next to them: all that is known. The name of a test of such a line names it as
/// well: `cve_2020_8551_…`. A fault that this agent cannot repeat has `none`, and why.
const CVES: &[&str] = &[
    "CVE-2017-1002101",
    "CVE-2017-1002102",
    "CVE-2018-1002101",
    "CVE-2018-1002102",
    "CVE-2018-1002105",
    "CVE-2019-9512",
    "CVE-2019-9514",
    "CVE-2019-11245",
    "CVE-2019-11248",
    "CVE-2019-11250",
    "CVE-2019-11253",
    "CVE-2019-11254",
    "CVE-2020-8551",
    "CVE-2020-8557",
    "CVE-2020-8558",
    "CVE-2020-8559",
    "CVE-2020-8564",
    "CVE-2020-8565",
    "CVE-2020-8566",
    "CVE-2020-10749",
    "CVE-2021-25741",
    "CVE-2021-25749",
    "CVE-2022-1708",
    "CVE-2022-3172",
    "CVE-2022-3294",
    "CVE-2022-23471",
    "CVE-2022-31030",
    "CVE-2023-2431",
    "CVE-2023-2878",
    "CVE-2023-3676",
    "CVE-2023-3893",
    "CVE-2023-3955",
    "CVE-2023-5528",
    "CVE-2023-39325",
    "CVE-2023-44487",
    "CVE-2024-3744",
    "CVE-2024-5321",
    "CVE-2024-9042",
    "CVE-2024-10220",
    "CVE-2024-21626",
    "CVE-2024-40635",
    "CVE-2025-0426",
    "CVE-2025-1767",
    "CVE-2025-4563",
    "CVE-2025-5187",
    "CVE-2025-31133",
    "CVE-2025-52565",
    "CVE-2025-52881",
    "CVE-2025-64329",
    "CVE-2026-53495",
];

/// The issues by which what is not there yet is built.
const LATER: &[&str] = &["31", "32", "33"];
/// The checklist of security: of each of its ids that has tests, one test's name holds the number as well: `sec_28_…`.
const NAMED: &str = "SEC-";

/// The layers, the nearest to real pods first, and where their tests are.
const LAYERS: &[(&str, &str)] =
    &[("live", "tests/live/"), ("vm", MACHINES), ("sim", "tests/sim/"), ("wire", "tests/wire/"), ("lib", "src/")];

/// A line of the table.
struct Line {
    /// From 1.
    number: usize,
    /// As written.
    id: String,
    /// Of the id's checklist among `RANGES`, and its number there; one of `CVES` comes behind all of them; none for an id
    /// outside of them.
    place: Option<(usize, u32)>,
    /// As written.
    layer: String,
    /// The text after the layer.
    rest: String,
}

impl Line {
    fn read(number: usize, text: &str) -> Self {
        let (id, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let (layer, rest) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
        let place = id.split_once('-').and_then(|(list, digits)| {
            let index = RANGES.iter().position(|(name, _)| *name == list)?;
            let value: u32 = digits.parse().ok().filter(|value| format!("{value:02}") == digits)?;
            RANGES[index].1.iter().any(|(first, last)| (*first..=*last).contains(&value)).then_some((index, value))
        });
        let place =
            place.or_else(|| Some((RANGES.len(), u32::try_from(CVES.iter().position(|cve| *cve == id)?).ok()?)));
        Self { number, id: id.to_owned(), place, layer: layer.to_owned(), rest: rest.trim().to_owned() }
    }

    /// Whether it names no test.
    fn is_bare(&self) -> bool {
        matches!(self.layer.as_str(), "none" | "later")
    }

    /// The rank of its layer; `none`, `later` and what is no layer have none.
    fn rank(&self) -> Option<usize> {
        LAYERS.iter().position(|(name, _)| *name == self.layer)
    }

    /// The fault in it by itself.
    fn complaint(&self, files: &BTreeMap<String, Source>, scripts: &BTreeMap<String, String>) -> Option<String> {
        if self.place.is_none() {
            return Some(format!("{} is no id of the checklists that are told of here", self.id));
        }
        if self.layer == "none" {
            return self.rest.is_empty().then(|| format!("{} has no test, and nothing says why", self.id));
        }
        if self.layer == "later" {
            let is_issue = LATER.contains(&self.rest.as_str());
            return (!is_issue).then(|| format!("{} is built later, and {:?} is no issue of that", self.id, self.rest));
        }
        let Some(rank) = self.rank() else { return Some(format!("{} is no layer", self.layer)) };
        let Some((path, test)) = self.rest.split_once(" ::") else {
            return Some("after the layer come a file and ` ::` and the name of a test".to_owned());
        };
        if !path.starts_with(LAYERS[rank].1) {
            return Some(format!("{path} holds no tests of the layer {}", self.layer));
        }
        if path.starts_with(MACHINES) {
            let Some(script) = scripts.get(path) else { return Some(format!("there is no file {path}")) };
            let named = script.lines().any(|line| line.trim_start().starts_with(&format!("check \"{test}\" ")));
            return (!named).then(|| format!("{path} has no check \"{test}\""));
        }
        let Some(file) = files.get(path) else { return Some(format!("there is no file {path}")) };
        match attributes_and_doc(file, test) {
            None => Some(format!("{path} has no function {test}, or several")),
            Some(above)
                if !above.iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test")) =>
            {
                Some(format!("{test} of {path} is no test"))
            }
            Some(above) if above.iter().any(|line| line.starts_with("#[ignore")) => {
                Some(format!("{test} of {path} is not run by itself"))
            }
            Some(_) if self.id.starts_with("CVE-") && !test.contains(&self.id.to_lowercase().replace('-', "_")) => {
                Some(format!("the name of {test} in {path} does not name {}", self.id))
            }
            Some(above) if !above.iter().any(|line| line.starts_with("///") && names(line, &self.id)) => {
                Some(format!("the comment of {test} in {path} does not name {}", self.id))
            }
            Some(_) => None,
        }
    }
}

/// The lines above the one function of this name; none where there is none, or more than one.
fn attributes_and_doc<'a>(file: &'a Source, name: &str) -> Option<Vec<&'a str>> {
    let functions = file.functions();
    let mut found = functions.iter().filter(|(_, function, _)| function == name);
    let (number, ..) = found.next().filter(|_| found.next().is_none())?;
    let above = file.lines[..number - 1].iter().rev().map(|line| line.trim());
    Some(above.take_while(|line| line.starts_with("///") || line.starts_with("#[")).collect())
}

/// Whether an id stands in a line, and not as the beginning of a longer one.
fn names(line: &str, id: &str) -> bool {
    line.split(|character: char| !character.is_ascii_alphanumeric() && character != '-').any(|word| word == id)
}

/// The table without its remarks.
fn lines() -> Vec<Line> {
    let text = std::fs::read_to_string(top().join(TABLE)).expect("the table of the checklists is kept");
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|(index, line)| Line::read(index + 1, line)).collect()
}

#[test]
fn every_test_of_the_checklists_is_there_and_says_what_it_shows() {
    let all = sources("src").into_iter().chain(sources("tests"));
    let files: BTreeMap<String, Source> = all.map(|source| (source.path.clone(), source)).collect();
    let scripts: BTreeMap<String, String> = text_files(&["tests/vm"])
        .into_iter()
        .map(|path| (path.clone(), std::fs::read_to_string(top().join(path)).expect("a script")))
        .collect();
    let lines = lines();
    let complaints = lines.iter().filter_map(|line| {
        line.complaint(&files, &scripts).map(|complaint| format!("{TABLE}:{}: {complaint}", line.number))
    });
    settle("a point of a checklist names a test that is there, and the test names the point", complaints.collect());
}

#[test]
fn every_id_of_the_checklists_has_its_lines() {
    let lines = lines();
    let mut complaints = vec![];
    for pair in lines.windows(2) {
        let (before, line) = (&pair[0], &pair[1]);
        let mut complain = |what: &str| complaints.push(format!("{TABLE}:{}: {} {what}", line.number, line.id));
        if line.place < before.place {
            complain("comes after an id that it belongs before");
        }
        if line.place == before.place {
            if line.is_bare() || before.is_bare() {
                complain("has a test and has none");
            } else if line.rank() < before.rank() {
                complain("has a better layer than in the line before");
            }
        }
    }
    for (index, line) in lines.iter().enumerate() {
        if lines[..index].iter().any(|before| (&before.id, &before.rest) == (&line.id, &line.rest)) {
            complaints.push(format!("{TABLE}:{}: {} has this test twice", line.number, line.id));
        }
    }
    for (index, (list, ranges)) in RANGES.iter().enumerate() {
        let ids = ranges.iter().flat_map(|(first, last)| *first..=*last);
        let missing = ids.filter(|id| !lines.iter().any(|line| line.place == Some((index, *id))));
        complaints.extend(missing.map(|id| format!("{TABLE}: there is no line for {list}-{id:02}")));
    }
    let is_named = |id: &str| {
        let number = format!("{}_", id.to_lowercase().replace('-', "_"));
        lines.iter().filter(|line| line.id == id).any(|line| line.layer == "none" || line.rest.contains(&number))
    };
    let ids: BTreeSet<&str> = lines.iter().map(|line| line.id.as_str()).filter(|id| id.starts_with(NAMED)).collect();
    let unnamed = ids.into_iter().filter(|id| !is_named(id));
    complaints.extend(unnamed.map(|id| format!("{TABLE}: no test of {id} has the number in its name")));
    let untold = CVES.iter().filter(|cve| !lines.iter().any(|line| line.id == **cve));
    complaints.extend(untold.map(|cve| format!("{TABLE}: there is no line for {cve}")));
    settle("every point of the checklists has a line, best layer first", complaints);
}
