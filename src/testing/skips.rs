//! The message of a test when the machine cannot show the test's subject.
//!
//! `PODWRIGHT_LIVE=1` promises a machine that can run containers, mount, and make cgroups: every [`skip`] is then a
//! failure. [`needs`] is for machinery that such a machine need not have; each kind has its own switch.
//! `PODWRIGHT_SKIPS=<file>` collects one line for each test, for a summary.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::path::PathBuf;

/// The running test cannot be done here.
///
/// # Panics
/// Where `PODWRIGHT_LIVE=1` promised that it can.
#[track_caller]
pub fn skip(why: &str) {
    let test = test(Location::caller());
    let promise = std::env::var_os("PODWRIGHT_LIVE");
    assert!(!is_promise(promise.as_deref()), "{test} cannot be done here, and PODWRIGHT_LIVE is set: {why}");
    tell(&format!("skipped\t{test}\t{why}"));
}

/// The running test, or a part of it, needs what this machine lacks and the promise does not include: `switch` names the
/// variable, program or kernel feature that brings the test back.
#[track_caller]
pub fn needs(switch: &str) {
    tell(&format!("needs {switch}\t{}\t", test(Location::caller())));
}

/// Whether a value of `PODWRIGHT_LIVE` is a promise.
fn is_promise(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| !value.is_empty() && value != "0")
}

/// The name of the running test; with a single test thread, which has no name, the place of the call.
fn test(caller: &Location<'_>) -> String {
    let thread = std::thread::current();
    let named = thread.name().filter(|name| *name != "main");
    named.map_or_else(|| format!("{}:{}", caller.file(), caller.line()), str::to_owned)
}

fn tell(line: &str) {
    let line = format!("{}\n", line.trim_end());
    // Not through `eprintln!`, whose output the test runner keeps while tests pass. One write, so that lines stay whole.
    let _ = std::io::stderr().write_all(line.replace('\t', "  ").as_bytes());
    let Some(path) = std::env::var_os("PODWRIGHT_SKIPS").map(PathBuf::from) else { return };
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

#[test]
fn only_a_set_variable_is_a_promise() {
    for (value, expected) in
        [(None, false), (Some(""), false), (Some("0"), false), (Some("1"), true), (Some("yes"), true)]
    {
        assert_eq!(is_promise(value.map(OsStr::new)), expected, "{value:?}");
    }
}
