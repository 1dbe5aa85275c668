//! `podwright check-config`: what an agent would say about a command line and its files. Asks no agent, changes nothing.

use std::io::Write;

use super::output::Output;
use super::{NO_ANSWER, USAGE, WELL};
use crate::config::Host;
use crate::config::review::{self, Report};
use crate::server::views::table::clean;

/// Reports about the flags, which are the agent's, and `-o`; returns the exit status.
pub(super) fn run(flags: &[String], output: &Output) -> i32 {
    let (flags, output) = match without_output(flags, output) {
        Ok(both) => both,
        Err(wrong) => {
            eprintln!("error: invalid value for '--output': {wrong}");
            return USAGE;
        }
    };
    let report = review::review(&flags, Host::detect());
    let text = match output.is_document().then(|| output.value(&document(&report))) {
        None => text(&report),
        Some(Ok(text)) => text,
        Some(Err(trouble)) => {
            eprintln!("{}", clean(&trouble.to_string()));
            return USAGE;
        }
    };
    // A reader that stopped reading, such as `head`, has seen what it wanted.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    if report.errors.is_empty() { WELL } else { NO_ANSWER }
}

/// Takes `-o` and `--output` out of the agent's flags, where they may stand as well.
fn without_output(flags: &[String], output: &Output) -> Result<(Vec<String>, Output), String> {
    let (mut left, mut output) = (Vec::new(), output.clone());
    let mut words = flags.iter();
    while let Some(word) = words.next() {
        let value = match word.as_str() {
            "-o" | "--output" => words.next().map_or("", String::as_str),
            _ => match word.strip_prefix("--output=").or_else(|| word.strip_prefix("-o")) {
                Some(value) => value.strip_prefix('=').unwrap_or(value),
                None => {
                    left.push(word.clone());
                    continue;
                }
            },
        };
        output = value.parse()?;
    }
    Ok((left, output))
}

fn text(report: &Report) -> String {
    let errors = report.errors.iter().map(|finding| ("error", finding));
    let warnings = report.warnings.iter().map(|finding| ("warning", finding));
    let line = |(kind, finding): (&str, &review::Finding)| format!("{kind}: {}\n", clean(&finding.to_string()));
    let lines: String = errors.chain(warnings).map(line).collect();
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let (errors, warnings) = (count(report.errors.len(), "error"), count(report.warnings.len(), "warning"));
    format!("{lines}{errors}, {warnings}\n")
}

fn document(report: &Report) -> serde_json::Value {
    serde_json::json!({
        "valid": report.errors.is_empty(),
        "errors": report.errors,
        "warnings": report.warnings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Vec<String> {
        line.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_form_of_the_answer_may_stand_anywhere() {
        for line in [&["-o", "json", "--port=1"][..], &["--port=1", "-ojson"], &["--output=json", "--port=1"]] {
            assert_eq!(
                without_output(&words(line), &Output::Text),
                Ok((words(&["--port=1"]), Output::Json)),
                "{line:?}"
            );
        }
        assert_eq!(without_output(&words(&["-o=yaml"]), &Output::Text), Ok((vec![], Output::Yaml)));
        for wrong in ["-o", "-o=xml"] {
            let said = without_output(&words(&[wrong]), &Output::Text).expect_err(wrong);
            assert!(said.starts_with("it is one of text, "), "{said}");
        }
    }

    #[test]
    fn the_status_says_whether_an_agent_would_start() {
        let run = |line: &[&str]| super::super::run("check-config", &words(line));
        assert_eq!(run(&["--hostname-override=a", "--fail-cgroupv1=false"]), WELL);
        assert_eq!(run(&["--port=70000"]), NO_ANSWER);
        assert_eq!(run(&["-o", "json", "--no-such-flag"]), NO_ANSWER);
        assert_eq!(run(&["--port=1", "-o", "xml"]), USAGE);
    }

    #[test]
    fn people_and_programs_read_the_same() {
        let report = review::review(&words(&["--port=70000", "--v=1"]), Host { cgroup_v1: false });
        let shown = text(&report);
        assert!(shown.starts_with("error: --port: invalid configuration: "), "{shown}");
        assert!(shown.contains("\nwarning: --port: Flag --port has been deprecated, "), "{shown}");
        assert!(shown.lines().last().is_some_and(|last| last.starts_with("1 error, ")), "{shown}");
        let read = document(&report);
        assert_eq!((&read["valid"], &read["errors"][0]["places"][0]["flag"]), (&false.into(), &"--port".into()));
    }
}
