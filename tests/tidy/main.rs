//! Tidy: checks on the source tree that the compiler does not make. Each failure names file, line and rule.
//!
//! The tests look at code: comments and the insides of strings are blanked first, and the tests' own code is left out
//! where a rule does not bind it. Lists of exceptions are short, each with its reason, and are not meant to grow.

mod checklist;
mod circles;
mod crates;
mod documents;
mod english;
mod folders;
mod settings;
mod shapes;
mod source;
mod starts;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use podwright::messages::root::Child;
use source::{Source, paths_after, sources};
use strum::IntoEnumIterator;

/// The modules of this crate that each folder may import; an entry with `::` lets in that module only.
const IMPORTS: &[(&str, &[&str])] = &[
    ("src/logic", &["logic"]),
    // Of `platform` the plain data of some adapters.
    (
        "src/messages",
        &[
            "messages",
            "logic",
            "cri",
            "platform::pods::manifests",
            "platform::pods::local_objects",
            "platform::network::network_probe",
            "platform::cluster::kube_api",
            "platform::statistics",
            "platform::host::kernel_log",
            "platform::host::logind",
        ],
    ),
    ("src/cri", &["cri", "logic"]),
    ("src/platform", &["platform", "logic"]),
    ("src/config", &["config", "logic"]),
    ("src/actors", &["actors", "messages", "logic", "cri", "platform"]),
    ("src/server", &["server", "actors", "messages", "logic", "platform", "cri", "telemetry"]),
    ("src/telemetry", &["telemetry", "actors", "messages", "logic", "platform", "cri", "config"]),
];

/// Crates and modules that belong to some folders; whoever else names them breaks the rule.
const OWNED: &[(&str, &[&str])] = &[
    ("opentelemetry", &["src/telemetry"]),
    ("opentelemetry_sdk", &["src/telemetry"]),
    ("opentelemetry_otlp", &["src/telemetry"]),
    ("tonic", &["src/cri", "src/telemetry", "src/server/rpc", "src/platform/plugins"]),
    ("prost", &["src/cri", "src/telemetry"]),
    ("ractor", &["src/actors", "src/messages", "src/main.rs", "src/launch", "src/sim"]),
    ("libc", &["src/platform"]),
    ("nix", &["src/platform", "src/config", "src/server/listening/socket.rs", "src/launch"]),
    ("rustix", &["src/platform", "src/server/listening/socket.rs"]),
    (
        "std::fs",
        &[
            "src/platform",
            "src/config",
            "src/server/listening/socket.rs",
            "src/launch",
            "src/cli",
            "src/sim",
            "src/bin",
        ],
    ),
];

/// Words that a decision must not know: clocks, waits, chance, the outside.
const IMPURE: &[&str] = &[
    "tokio",
    "ractor",
    "tonic",
    "prost",
    "futures_util",
    "tracing",
    "rand",
    "nix",
    "rustix",
    "libc",
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::net::TcpStream",
    "std::net::UdpSocket",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "jiff::Timestamp::now",
    "jiff::Zoned::now",
];

/// Among actors these alone know all of the agent, its adapters, its settings or its addresses.
const KNOW_THE_AGENT: &[&str] = &[
    "src/actors/agent.rs",
    "src/actors/settings.rs",
    "src/actors/tree.rs",
    "src/actors/wiring.rs",
    "src/actors/wiring",
];

/// Fails with all complaints at once.
fn settle(rule: &str, complaints: Vec<String>) {
    assert!(complaints.is_empty(), "{rule}:\n{}", complaints.join("\n"));
}

fn below(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| path == *place || path.starts_with(&format!("{place}/")))
}

#[test]
fn imports_point_one_way() {
    let mut complaints = vec![];
    for source in sources("src") {
        let Some((folder, allowed)) = IMPORTS.iter().find(|(folder, _)| below(&source.path, &[folder])) else {
            continue;
        };
        for (number, line) in source.product_lines() {
            for path in paths_after(line, "crate") {
                let fits = |wanted: &&str| path == **wanted || path.starts_with(&format!("{wanted}::"));
                if !allowed.iter().any(fits) {
                    complaints.push(format!("{}:{number}: {folder} must not import crate::{path}", source.path));
                }
            }
        }
    }
    settle(
        "imports point one way: actors know messages and adapters, messages know logic, logic knows nobody",
        complaints,
    );
}

#[test]
fn decisions_are_pure() {
    let mut complaints = vec![];
    for source in sources("src/logic") {
        for (number, line) in source.product_lines() {
            let foreign = IMPURE.iter().filter(|name| source::names(line, name));
            complaints.extend(foreign.map(|name| format!("{}:{number}: logic must not know {name}", source.path)));
            if source::names(line, "async") || line.contains(".await") {
                complaints.push(format!("{}:{number}: a decision never waits", source.path));
            }
        }
    }
    settle("logic is pure", complaints);
}

#[test]
fn what_reaches_outside_stays_where_it_belongs() {
    let mut complaints = vec![];
    for source in sources("src") {
        for (number, line) in source.product_lines() {
            for (name, places) in OWNED {
                if source::names(line, name) && !below(&source.path, places) {
                    complaints.push(format!("{}:{number}: {name} is for {} alone", source.path, places.join(", ")));
                }
            }
        }
    }
    settle("adapters alone reach outside, and each library has its place", complaints);
}

#[test]
fn every_actor_is_in_the_table_and_every_entry_has_its_actor() {
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources("src/actors") {
        for (index, _) in source.product_lines() {
            // The name itself is a string, so the raw line is read.
            let raw = source.lines[index - 1].trim();
            if let Some(kind) =
                raw.strip_prefix("const KIND: &'static str = \"").and_then(|rest| rest.strip_suffix("\";"))
            {
                kinds.entry(kind.to_owned()).or_default().push(format!("{}:{index}", source.path));
            }
        }
    }
    let mut complaints = vec![];
    for child in Child::iter() {
        let name: &'static str = child.into();
        match kinds.remove(name).as_deref() {
            Some([_]) => {}
            Some(places) => complaints.push(format!("{name} is played in more than one place: {}", places.join(", "))),
            None => complaints.push(format!("src/actors: no actor has the KIND {name}, which is a Child")),
        }
    }
    // Not Root's children: Root itself, and those that another actor starts, one for each pod.
    for name in ["Root", "PodWorker"] {
        assert!(kinds.remove(name).is_some(), "src/actors: no actor has the KIND {name}");
    }
    complaints.extend(kinds.into_iter().map(|(kind, places)| format!("{}: {kind} is no Child of Root", places[0])));
    settle("the tree is a table", complaints);
}

#[test]
fn an_actor_is_given_what_it_needs_and_not_the_agent() {
    let all = sources("src/actors");
    let is_meant = |source: &&Source| {
        let is_test = source.path.split('/').any(|part| part.trim_end_matches(".rs").ends_with("tests"));
        !is_test && !below(&source.path, KNOW_THE_AGENT) && source.path != "src/actors/played_api.rs"
    };
    let mut complaints = vec![];
    for source in all.iter().filter(is_meant) {
        for (number, line) in source.product_lines() {
            for name in ["Agent", "Adapters", "Settings", "Directory"] {
                if source::identifiers(line).any(|word| word == name) {
                    complaints.push(format!("{}:{number}: {name} is for {}", source.path, KNOW_THE_AGENT.join(", ")));
                }
            }
        }
    }
    settle("an actor's Args name what it uses", complaints);
}

#[test]
fn every_limit_of_a_child_that_is_not_the_default_has_its_reason() {
    let table =
        sources("src/actors").into_iter().find(|source| source.path == "src/actors/tree.rs").expect("the table");
    let begins = table.lines.iter().position(|line| line == "macro_rules! children {").expect("the table is a macro");
    let (mut limits, mut complaints) = (0, vec![]);
    for (index, line) in table.lines.iter().enumerate().skip(begins) {
        let is_limit = ["mailbox: ", "failures_max: ", "stop_limit: "].iter().any(|name| line.trim().starts_with(name));
        limits += usize::from(is_limit);
        if is_limit && !table.lines[index - 1].trim().starts_with("// ") {
            complaints.push(format!("{}:{}: no line above it says why", table.path, index + 1));
        }
    }
    assert!(limits > 5, "the limits are found");
    settle("a number that is not the default has its reason", complaints);
}

#[test]
fn every_message_says_whom_it_is_from() {
    let mut complaints = vec![];
    for source in sources("src/messages") {
        for (number, variant) in source.variants_of_messages() {
            let doc = source.doc_before(number);
            if !doc.first().is_some_and(|line| line.starts_with("/// From ")) {
                let path = &source.path;
                complaints
                    .push(format!("{path}:{number}: {variant} needs a doc that begins with \"From \" and its sender"));
            }
        }
    }
    settle("each message names its sender", complaints);
}

#[test]
fn every_file_says_what_it_is() {
    let silent = |source: &Source| !source.lines.first().is_some_and(|line| line.starts_with("//!"));
    let all = sources("src").into_iter().chain(sources("tests"));
    let complaints = all.filter(silent).map(|source| format!("{}:1: begins without `//!`", source.path));
    settle("a file opens with what it is, who owns it, what it keeps", complaints.collect());
}

#[test]
fn nothing_unfinished_and_no_exception_without_a_reason() {
    let mut complaints = vec![];
    for source in sources("src") {
        for (number, line) in source.product_lines() {
            let mut complain = |what: &str| complaints.push(format!("{}:{number}: {what}", source.path));
            if line.contains(".unwrap()") {
                complain("`unwrap` is for tests; `expect` states the invariant");
            }
            for unfinished in ["todo!", "unimplemented!", "dbg!"] {
                if line.contains(unfinished) {
                    complain(unfinished);
                }
            }
        }
        for (number, attribute) in source.lint_exceptions() {
            if !attribute.contains("reason") {
                complaints.push(format!("{}:{number}: {attribute}: an exception carries a reason", source.path));
            }
        }
    }
    settle("what is here is finished", complaints);
}

/// A test that cannot be done here says so through `skips`, so that `PODWRIGHT_LIVE=1` makes it fail and the summary counts
/// it.
#[test]
fn tests_skip_themselves_through_one_module() {
    let mut complaints = vec![];
    for source in ["src", "tests"].into_iter().flat_map(sources) {
        for (index, line) in source.lines.iter().enumerate() {
            // Written in two parts, so that this file may hold it.
            if line.contains(concat!("\"skip", "ped:")) {
                complaints.push(format!("{}:{}: {}", source.path, index + 1, line.trim()));
            }
        }
    }
    settle("a test skips itself through `skips`", complaints);
}

#[test]
fn nothing_tells_where_it_was_built() {
    // Written in two parts, so that this file may hold them.
    let words = [concat!("/wo", "rk/"), concat!("/tmp/", "pw"), concat!("FIX", "ME"), concat!("TO", "DO")];
    let mut complaints = vec![];
    for path in source::text_files(&["src", "tests", "proto", "deploy", "examples", "docs", "scripts"]) {
        let Ok(text) = std::fs::read_to_string(source::top().join(&path)) else { continue };
        for (index, line) in text.lines().enumerate() {
            let found = words.iter().filter(|word| line.contains(**word));
            complaints.extend(found.map(|word| format!("{path}:{}: {word}", index + 1)));
        }
    }
    settle("the software speaks of itself alone", complaints);
}

#[test]
fn every_dependency_is_from_the_public_registry() {
    let lock = std::fs::read_to_string(source::top().join("Cargo.lock")).expect("the lock file is kept");
    let foreign = lock.lines().enumerate().filter(|(_, line)| {
        line.starts_with("source = ") && *line != "source = \"registry+https://github.com/rust-lang/crates.io-index\""
    });
    settle(
        "dependencies are public",
        foreign.map(|(index, line)| format!("Cargo.lock:{}: {line}", index + 1)).collect(),
    );
}

/// The crates that a package depends on, as code names them.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(source::top().join(manifest)).expect("a manifest");
    let mut inside = false;
    let names = text.lines().filter_map(|line| {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
        }
        let (name, _) = line.split_once('=').filter(|_| inside)?;
        Some(name.trim().replace('-', "_"))
    });
    names.collect()
}

/// `make fuzz` builds the decisions by themselves, which no other part of the tests does.
#[test]
fn the_fuzz_targets_have_every_crate_that_decisions_name() {
    let (ours, theirs) = (dependencies("Cargo.toml"), dependencies("fuzz/Cargo.toml"));
    assert!(ours.len() > theirs.len() && theirs.contains("serde_json"), "the manifests are read");
    let missing: Vec<&String> = ours.difference(&theirs).collect();
    let mut complaints = vec![];
    for source in sources("src/logic") {
        for (number, line) in source.product_lines() {
            let named = missing.iter().filter(|name| source::names(line, name));
            complaints.extend(named.map(|name| format!("{}:{number}: {name}", source.path)));
        }
    }
    settle("what src/logic names is in fuzz/Cargo.toml", complaints);
}
