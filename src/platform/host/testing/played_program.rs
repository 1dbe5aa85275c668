//! Programs that tests write and then run.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program that may be run at once. It is another process that writes: a file that this one holds open for writing
/// is held open, for a moment, by every child that another test's thread begins meanwhile. Until then it cannot be run
/// (ETXTBSY).
pub(crate) fn write_program(path: &Path, script: &str) {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", r#"cat >"$0" && chmod 755 "$0""#]).arg(path).stdin(Stdio::piped());
    let mut child = shell.spawn().expect("there is a shell");
    child.stdin.take().expect("piped").write_all(script.as_bytes()).expect("it reads");
    assert!(child.wait().expect("it ends").success(), "{} is not written", path.display());
}
